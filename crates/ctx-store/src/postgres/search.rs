//! Full-text search. The hashes of a row's words select it; its text decides whether it matches.
//!
//! The index is filled behind the transactions, by one process at a time. Rows become visible in
//! another order than that of their numbers, so the watermark follows the newest settled row.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ctx_core::id::ObjectId;
use ctx_core::object::{Kind, Object};

use crate::driver::{Arg, Db, Lock, Place, Table, args};
use crate::pack::unpack;
use crate::search_match::{self, QueryWord, RowHit, may_contain_all};
use crate::word_filter::record_hashes;
use crate::{Error, Hit, SearchPage, SearchPlace};

use super::Shared;
use super::connection::Conn;
use super::db::PgDb;
use super::tx::BLOCK;
use super::writer::LOCKS;

/// Rows that one transaction indexes.
const INDEX_ROWS: usize = 200;
/// Selected rows that are read at a time.
const READ_ROWS: i64 = 50;
/// How long a reader waits for the transactions that may still add an older row.
const SETTLE_MAX: Duration = Duration::from_secs(1);
/// Pause between two looks at them.
const SETTLE_PAUSE: Duration = Duration::from_millis(1);
/// The advisory lock of the process that fills the index.
const INDEX_LOCK: i64 = LOCKS + 0x100;

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

const UNINDEXED: &str = "SELECT 0, t.id, t.seg, t.off, t.len, t.packing, t.size FROM turns t
       WHERE t.id > ?1 AND NOT EXISTS (SELECT 1 FROM words w WHERE w.id = t.id)
     UNION ALL SELECT 1, t.id, t.seg, t.off, t.len, t.packing, t.size FROM steps t
       WHERE t.id > ?1 AND NOT EXISTS (SELECT 1 FROM words w WHERE w.id = t.id)
     UNION ALL SELECT 2, t.id, t.seg, t.off, t.len, t.packing, t.size FROM commits t
       WHERE t.id > ?1 AND NOT EXISTS (SELECT 1 FROM words w WHERE w.id = t.id)
     LIMIT ?2";
const INDEXED: &str = "SELECT value::bigint FROM meta WHERE key = 'indexed'";

/// Indexes every row that is stored now.
pub(super) fn catch_up(conn: &Conn, shared: &Shared) -> Result<(), Error> {
    let settled = settled(conn, shared)?;
    while index_some(conn, settled)? {}
    Ok(())
}

/// Indexes some rows in one transaction; `true` if there may be more.
fn index_some(conn: &Conn, settled: i64) -> Result<bool, Error> {
    conn.command(
        "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL synchronous_commit = off",
    )?;
    let indexed = index_in_transaction(conn, settled);
    conn.command(if indexed.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    indexed
}

fn index_in_transaction(conn: &Conn, settled: i64) -> Result<bool, Error> {
    conn.query("SELECT pg_advisory_xact_lock(?1)", args![INDEX_LOCK])?;
    let db = PgDb::within(conn);
    let db: &dyn Db = &db;
    let watermark = db.int(INDEXED, args![])?.unwrap_or(0);
    let rows = db.rows(UNINDEXED, args![watermark, INDEX_ROWS as i64], |row| {
        Ok((row.get::<i64>(0)?, row.get::<i64>(1)?, row.place(2)?))
    })?;
    let places: Vec<Place> = rows.iter().filter_map(|(_, _, place)| *place).collect();
    let mut buffer = Vec::new();
    let mut bodies = db.packed(&places, &mut buffer)?.into_iter();
    for (table, id, place) in &rows {
        let mut hashes = Vec::new();
        if let Some((place, range)) = place.as_ref().zip(place.and_then(|_| bodies.next())) {
            let bytes = unpack(buffer[range].into(), place.packing, place.size)?;
            hashes = record_hashes(&bytes);
            hashes.sort_unstable();
            hashes.dedup();
        }
        let hashes: Vec<i64> =
            hashes.into_iter().map(|hash| i64::from(hash.cast_signed())).collect();
        conn.push(
            "INSERT INTO words(id, tbl, hashes) VALUES (?1, ?2, ?3::int[]) ON CONFLICT DO NOTHING",
            args![*id, *table, &hashes],
        )?;
    }
    conn.run()?;
    if rows.len() == INDEX_ROWS {
        return Ok(true);
    }
    conn.query(
        "INSERT INTO meta(key, value) VALUES ('indexed', ?1::text)
         ON CONFLICT(key) DO UPDATE SET value = ?1::text WHERE meta.value::bigint < ?1",
        args![settled],
    )?;
    Ok(false)
}

/// Number of rows that are not indexed.
pub(super) fn lag(db: &dyn Db) -> Result<u64, Error> {
    let watermark = db.int(INDEXED, args![])?.unwrap_or(0);
    let rows = db.rows(UNINDEXED, args![watermark, i64::MAX], |_| Ok(()))?;
    Ok(rows.len() as u64)
}

/// Empties the index.
pub(super) fn clear(conn: &Conn) -> Result<(), Error> {
    conn.command("TRUNCATE words; DELETE FROM meta WHERE key = 'indexed'")
}

/// At most `limit` hits among the rows before a position, newest first.
pub(super) fn search(
    db: &dyn Db,
    query: &str,
    from: Option<SearchPlace>,
    limit: usize,
) -> Result<SearchPage, Error> {
    let words = QueryWord::parse_all(query);
    search_match::page(&words, from, limit, |table, before, limit| {
        search_table(db, table, before, &words, limit)
    })
}

macro_rules! select_words {
    ($table:literal, $more:literal, $session:literal) => {
        concat!(
            "SELECT t.id, t.hash, t.seg, t.off, t.len, t.packing, t.size, s.id, ",
            $more,
            " FROM words w JOIN ",
            $table,
            " t ON t.id = w.id ",
            $session,
            " WHERE w.tbl = ?1 AND w.id < ?2 AND w.hashes @> ?3::int[] ORDER BY w.id DESC LIMIT ?4"
        )
    };
}

fn search_table(
    db: &dyn Db,
    table: Table,
    mut before: i64,
    words: &[QueryWord],
    limit: usize,
) -> Result<Vec<RowHit>, Error> {
    let sql = match table {
        Table::Turns => select_words!(
            "turns",
            "t.version, t.header",
            "LEFT JOIN sessions s ON s.row = t.session"
        ),
        Table::Steps => select_words!(
            "steps",
            "NULL, NULL",
            "LEFT JOIN tasks k ON k.row = t.task LEFT JOIN sessions s ON s.row = k.session"
        ),
        Table::Commits | Table::Blobs => select_words!(
            "commits",
            "NULL, NULL",
            "LEFT JOIN tasks k ON k.row = t.task LEFT JOIN sessions s ON s.row = k.session"
        ),
    };
    let hashes = words.iter().flat_map(|word| &word.hashes);
    let hashes: Vec<i64> = hashes.map(|hash| i64::from(hash.cast_signed())).collect();
    let mut hits = Vec::new();
    loop {
        let found = db.rows(sql, args![table as i64, before, &hashes, READ_ROWS], |row| {
            let header = match table {
                Table::Turns => Some(Object {
                    kind: Kind::Turn,
                    version: row.get(8)?,
                    bytes: row.get::<String>(9)?.into_bytes(),
                }),
                _ => None,
            };
            let place = row.place(2)?;
            Ok((
                row.get::<i64>(0)?,
                row.get::<ObjectId>(1)?,
                place,
                row.get::<Option<String>>(7)?,
                header,
            ))
        })?;
        for (row, id, place, session, header) in &found {
            before = *row;
            let Some(place) = place else { continue };
            let bytes = Some(db.body(place)?).filter(|bytes| may_contain_all(bytes, words));
            let Some(bytes) = bytes else { continue };
            let matched = search_match::matched(table, header.as_ref(), bytes, words);
            let Some((at, snippet)) = matched else { continue };
            if table == Table::Turns && !is_shown(db, *row, *id)? {
                continue;
            }
            let (kind, session) = (table.kind().name(), session.clone());
            hits.push((*row, Hit { kind, id: *id, at, snippet, session }));
            if hits.len() == limit {
                return Ok(hits);
            }
        }
        if (found.len() as i64) < READ_ROWS {
            return Ok(hits);
        }
    }
}

/// Whether a search shows a turn: a session has it, and no newer row is the same turn.
fn is_shown(db: &dyn Db, row: i64, id: ObjectId) -> Result<bool, Error> {
    const NEWER: &str = "SELECT id FROM turns WHERE hash = ?1 AND id > ?2";
    if !is_kept(db, row)? {
        return Ok(false);
    }
    for newer in db.rows(NEWER, args![&id, row], |row| row.get::<i64>(0))? {
        if is_kept(db, newer)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a session has a turn: the one that made it, or one that shares it. Between a deletion
/// and the end of the purge that follows it, a turn is shared if it leads to a head.
fn is_kept(db: &dyn Db, row: i64) -> Result<bool, Error> {
    let made = "SELECT EXISTS (SELECT 1 FROM turns t JOIN sessions s ON s.row = t.session
                               WHERE t.id = ?1) OR NOT EXISTS (SELECT 1 FROM purging)";
    let shared = "WITH RECURSIVE down(id) AS (
           SELECT ?1 UNION SELECT t.id FROM turns t JOIN down ON t.parent = down.id)
         SELECT EXISTS (SELECT 1 FROM down JOIN sessions s ON s.head = down.id)
             OR EXISTS (SELECT 1 FROM down JOIN session_history h ON h.turn = down.id)";
    Ok(db.is_true(made, args![row])? || db.is_true(shared, &[Arg::Int(row)])?)
}
