//! The inverted index: `tsvector` without positions and GIN. Filled behind the transactions, by one
//! process at a time.
//!
//! Rows become visible in another order than that of their numbers, so only rows up to the newest
//! settled one are indexed, and the watermark follows it.

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ctx_core::search::{IndexQuery, IndexTerm, is_mark};

use crate::Error;
use crate::driver::{Arg, Db, Lock, Table, args, limit_arg};
use crate::relational::search::Postings;
use crate::relational::search_documents::{self, Unit};

use super::Shared;
use super::connection::Conn;
use super::db::PgDb;
use super::tx::BLOCK;
use super::writer::LOCKS;

/// Rows of each table that one transaction indexes.
const BATCH_ROWS: i64 = 1000;
/// Words of deleted documents that one transaction checks.
const FORGOTTEN_WORDS: i64 = 500;
/// Most words that a process remembers as stored.
const KNOWN_WORDS_MAX: usize = 1 << 20;
/// How long a reader waits for the transactions that may still add an older row.
const SETTLE_MAX: Duration = Duration::from_secs(1);
/// Pause between two looks at them.
const SETTLE_PAUSE: Duration = Duration::from_millis(1);
/// The advisory lock of the process that fills the index.
const INDEX_LOCK: i64 = LOCKS + 0x100;
const INDEXED_TABLES: [Table; 3] = [Table::Turns, Table::Steps, Table::Commits];

/// The number of the newest row before which no other can appear. A transaction that draws numbers
/// has the lock [`Lock::Store`] until it ends. So the rows up to the newest drawn number are
/// settled when the transactions are over that have the lock now.
pub(super) fn settled(conn: &Conn, shared: &Shared) -> Result<i64, Error> {
    const DRAWN: &str = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM row_numbers";
    const WRITERS: &str = "SELECT virtualtransaction FROM pg_locks
         WHERE locktype = 'advisory' AND granted AND objsubid = 1
           AND (classid::bigint << 32) + objid::bigint = ?1
           AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    let drawn = match conn.query(DRAWN, &[])?.first().map_or(0, |row| row.number(0)) {
        0 => 0,
        first => first + BLOCK - 1,
    };
    if drawn <= shared.settled.load(Ordering::Relaxed) {
        return Ok(drawn);
    }
    let writers = || -> Result<HashSet<String>, Error> {
        let rows = conn.query(WRITERS, &[Arg::Int(LOCKS + Lock::Store as i64)])?;
        Ok(rows.iter().map(|row| row.string(0).to_owned()).collect())
    };
    let (mut awaited, until) = (writers()?, Instant::now() + SETTLE_MAX);
    while !awaited.is_empty() {
        if Instant::now() >= until {
            return Ok(shared.settled.load(Ordering::Relaxed));
        }
        std::thread::sleep(SETTLE_PAUSE);
        let left = writers()?;
        awaited.retain(|writer| left.contains(writer));
    }
    shared.settled.fetch_max(drawn, Ordering::Relaxed);
    Ok(drawn)
}

const INDEXED: &str = "SELECT value::bigint FROM meta WHERE key = 'indexed'";
const PUT_INDEXED: &str = "INSERT INTO meta(key, value) VALUES ('indexed', ?1::text)
     ON CONFLICT(key) DO UPDATE SET value = ?1::text WHERE meta.value::bigint < ?1";

/// Who fills the index if another process does already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Election {
    /// The other one alone.
    Leave,
    /// This process afterwards.
    Wait,
}

/// Indexes the rows that are stored now, or as many as it can until a time.
pub(super) fn catch_up(
    conn: &Conn,
    shared: &Shared,
    election: Election,
    until: Option<Instant>,
) -> Result<(), Error> {
    let settled = settled(conn, shared)?;
    while index_some(conn, shared, election, settled)? {
        if until.is_some_and(|until| Instant::now() >= until) {
            break;
        }
    }
    Ok(())
}

/// Indexes some rows in one transaction; `true` if there may be more.
fn index_some(
    conn: &Conn,
    shared: &Shared,
    election: Election,
    settled: i64,
) -> Result<bool, Error> {
    conn.command(
        "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL synchronous_commit = off",
    )?;
    let indexed = index_in_transaction(conn, shared, election, settled);
    conn.command(if indexed.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    if indexed.is_err() {
        // Words that were added in this transaction are not stored.
        known_words(shared).clear();
    }
    indexed
}

fn known_words(shared: &Shared) -> std::sync::MutexGuard<'_, HashSet<String>> {
    shared.known_words.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn index_in_transaction(
    conn: &Conn,
    shared: &Shared,
    election: Election,
    settled: i64,
) -> Result<bool, Error> {
    match election {
        Election::Wait => drop(conn.query("SELECT pg_advisory_xact_lock(?1)", args![INDEX_LOCK])?),
        Election::Leave => {
            let locked = conn.query("SELECT pg_try_advisory_xact_lock(?1)", args![INDEX_LOCK])?;
            if locked.first().is_none_or(|row| row.number(0) == 0) {
                return Ok(false);
            }
        }
    }
    let db = PgDb::within(conn);
    let db: &dyn Db = &db;
    let forgotten = forget_words(conn, shared, db)?;
    let watermark = db.int(INDEXED, args![])?.unwrap_or(0);
    if watermark >= settled {
        return Ok(forgotten);
    }
    let last = last_of_batch(db, watermark, settled)?;
    let mut units = Vec::new();
    for table in INDEXED_TABLES {
        units.extend(search_documents::units_of_rows(db, table, watermark, last)?);
    }
    units.sort_unstable();
    units.dedup();
    let entries = search_documents::index_entries(db, &units)?;
    put_documents(conn, shared, &entries)?;
    conn.query(PUT_INDEXED, args![last])?;
    Ok(last < settled || forgotten)
}

/// The row up to which a batch goes: the numbers of all tables are from one sequence.
fn last_of_batch(db: &dyn Db, watermark: i64, settled: i64) -> Result<i64, Error> {
    const LAST: &str = "SELECT MIN(last) FROM (
           SELECT MAX(id) AS last, COUNT(*) AS found FROM (SELECT id FROM turns
             WHERE id > ?1 AND id <= ?2 ORDER BY id LIMIT ?3) t
           UNION ALL SELECT MAX(id), COUNT(*) FROM (SELECT id FROM steps
             WHERE id > ?1 AND id <= ?2 ORDER BY id LIMIT ?3) t
           UNION ALL SELECT MAX(id), COUNT(*) FROM (SELECT id FROM commits
             WHERE id > ?1 AND id <= ?2 ORDER BY id LIMIT ?3) t) b WHERE found = ?3";
    Ok(db.int(LAST, args![watermark, settled, BATCH_ROWS])?.unwrap_or(settled))
}

fn put_documents(conn: &Conn, shared: &Shared, entries: &[(Unit, String)]) -> Result<(), Error> {
    if entries.is_empty() {
        return Ok(());
    }
    let units: Vec<i64> = entries.iter().map(|(unit, _)| unit.number()).collect();
    let words: Vec<String> = entries.iter().map(|(_, words)| words.clone()).collect();
    let mut known = known_words(shared);
    if known.len() > KNOWN_WORDS_MAX {
        known.clear();
    }
    let mut new = Vec::new();
    for word in words.iter().flat_map(|words| words.split(' ')).filter(|word| !is_mark(word)) {
        if !known.contains(word) {
            known.insert(word.to_owned());
            new.push(word.to_owned());
        }
    }
    drop(known);
    new.sort_unstable();
    conn.push("DELETE FROM search_documents WHERE unit = ANY(?1)", &[Arg::Ints(&units)])?;
    conn.push(
        "INSERT INTO search_documents(unit, words)
         SELECT unit, array_to_tsvector(array_remove(string_to_array(words, ' '), ''))
         FROM unnest(?1, ?2) AS entry(unit, words)",
        &[Arg::Ints(&units), Arg::Texts(&words)],
    )?;
    if !new.is_empty() {
        conn.push(
            "INSERT INTO search_words(word) SELECT word FROM unnest(?1) AS word
             WHERE word <> '' ON CONFLICT DO NOTHING",
            &[Arg::Texts(&new)],
        )?;
    }
    conn.run()?;
    Ok(())
}

/// Deletes words that only deleted documents had; `true` if there may be more.
fn forget_words(conn: &Conn, shared: &Shared, db: &dyn Db) -> Result<bool, Error> {
    if !db.is_true("SELECT EXISTS (SELECT 1 FROM forgotten_words)", args![])? {
        return Ok(false);
    }
    conn.query(
        "WITH gone AS (DELETE FROM forgotten_words WHERE word IN
                         (SELECT word FROM forgotten_words LIMIT ?1) RETURNING word)
         DELETE FROM search_words w USING gone WHERE w.word = gone.word AND NOT EXISTS
           (SELECT 1 FROM search_documents d WHERE d.words @@ quote_literal(w.word)::tsquery)",
        args![FORGOTTEN_WORDS],
    )?;
    known_words(shared).clear();
    Ok(true)
}

/// Number of rows that are not indexed.
pub(super) fn lag(db: &dyn Db) -> Result<u64, Error> {
    const LAG: &str = "SELECT (SELECT COUNT(*) FROM turns WHERE id > ?1)
         + (SELECT COUNT(*) FROM steps WHERE id > ?1)
         + (SELECT COUNT(*) FROM commits WHERE id > ?1)";
    let watermark = db.int(INDEXED, args![])?.unwrap_or(0);
    Ok(db.int(LAG, args![watermark])?.unwrap_or(0).unsigned_abs())
}

/// Empties the index.
pub(super) fn clear(conn: &Conn, shared: &Shared) -> Result<(), Error> {
    known_words(shared).clear();
    conn.command(
        "TRUNCATE search_documents, search_words, forgotten_words;
         DELETE FROM meta WHERE key = 'indexed'",
    )
}

pub(super) struct PgPostings<'d>(pub(super) &'d dyn Db);

impl Postings for PgPostings<'_> {
    fn candidates(
        &self,
        query: &IndexQuery,
        before: i64,
        limit: usize,
    ) -> Result<Vec<(i64, Unit)>, Error> {
        const ALL: &str =
            "SELECT id, unit FROM search_documents WHERE id < ?1 ORDER BY id DESC LIMIT ?2";
        const MATCHING: &str = "SELECT id, unit FROM search_documents
             WHERE words @@ ?3::tsquery AND id < ?1 ORDER BY id DESC LIMIT ?2";
        if query.is_impossible() {
            return Ok(Vec::new());
        }
        let (before, limit) = (Arg::Int(before), limit_arg(limit));
        let mut found = Vec::new();
        let mut read = |row: crate::driver::Row<'_>| {
            found.push((row.get(0)?, Unit::from_number(row.get(1)?)));
            Ok(())
        };
        match expression(query) {
            Some(expression) => {
                self.0.query(MATCHING, &[before, limit, Arg::Text(&expression)], &mut read)?;
            }
            None => self.0.query(ALL, &[before, limit], &mut read)?,
        }
        Ok(found)
    }

    fn words(&self, beginning: &str, chars: RangeInclusive<usize>) -> Result<Vec<String>, Error> {
        let end = format!("{beginning}\u{10FFFF}");
        self.0.rows(
            "SELECT word FROM search_words WHERE word >= ?1 AND word < ?2
               AND length(word) BETWEEN ?3 AND ?4",
            args![beginning, end.as_str(), *chars.start() as i64, *chars.end() as i64],
            |row| row.get(0),
        )
    }
}

/// The query in the language of PostgreSQL; `None` if it has no word.
fn expression(query: &IndexQuery) -> Option<String> {
    if query.all.is_empty() {
        return None;
    }
    let mut all: Vec<String> = query.all.iter().map(|terms| any_of(terms)).collect();
    if !query.none.is_empty() {
        all.push(format!("!{}", any_of(&query.none)));
    }
    Some(all.join(" & "))
}

/// Words contain letters and digits only, so they need no escapes.
fn any_of(terms: &[IndexTerm]) -> String {
    let term = |term: &IndexTerm| format!("'{}'{}", term.text, if term.prefix { ":*" } else { "" });
    format!("({})", terms.iter().map(term).collect::<Vec<_>>().join(" | "))
}
