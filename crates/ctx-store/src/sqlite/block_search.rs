//! Full-text search. Block filters select the rows to read; the text of each row decides whether it
//! matches.

use ctx_core::id::ObjectId;
use ctx_core::object::{Kind, Object};
use rusqlite::{Connection, OptionalExtension, params};

use crate::driver::Table;
use crate::search_match::{self, QueryWord, RowHit, may_contain_all};
use crate::{Error, Hit, SearchPage, SearchPlace};

use super::hash_index::watermark;
use super::segment;
use super::shown_turns::ShownTurns;

/// At most `limit` hits among the rows before a position, newest first.
pub(crate) fn search(
    main: &Connection,
    search_db: &Connection,
    query: &str,
    from: Option<SearchPlace>,
    limit: usize,
) -> Result<SearchPage, Error> {
    let words = QueryWord::parse_all(query);
    search_match::page(&words, from, limit, |table, before, limit| {
        search_table(main, search_db, table, before, &words, limit)
    })
}

fn search_table(
    main: &Connection,
    search_db: &Connection,
    table: Table,
    before: i64,
    words: &[QueryWord],
    limit: usize,
) -> Result<Vec<RowHit>, Error> {
    let mut blocks = search_db.prepare_cached(
        "SELECT first, last, filter FROM blocks WHERE tbl = ?1 AND first < ?2 ORDER BY last DESC",
    )?;
    let mut found = blocks.query(params![table as i64, before])?;
    let mut found_rows =
        FoundRows { hits: Vec::new(), shown: ShownTurns::new(main, search_db), limit };
    let last = before - 1;
    search_rows(main, table, (watermark(search_db, table)? + 1, last), words, &mut found_rows)?;
    while let (Some(block), false) = (found.next()?, found_rows.is_full()) {
        let filter = block.get_ref(2)?.as_blob().unwrap_or_default();
        if words.iter().all(|word| word.may_match(filter)) {
            let rows = (block.get(0)?, last.min(block.get(1)?));
            search_rows(main, table, rows, words, &mut found_rows)?;
        }
    }
    Ok(found_rows.hits)
}

/// The hits in one table.
struct FoundRows<'c> {
    hits: Vec<RowHit>,
    shown: ShownTurns<'c>,
    limit: usize,
}

impl FoundRows<'_> {
    fn is_full(&self) -> bool {
        self.hits.len() >= self.limit
    }

    fn add(&mut self, table: Table, row: i64, hit: Hit) -> Result<(), Error> {
        if table != Table::Turns || self.shown.is_shown(row, hit.id)? {
            self.hits.push((row, hit));
        }
        Ok(())
    }
}

fn search_rows(
    main: &Connection,
    table: Table,
    (first, last): (i64, i64),
    words: &[QueryWord],
    found: &mut FoundRows<'_>,
) -> Result<(), Error> {
    let sql = format!(
        "SELECT id, hash FROM {} WHERE id BETWEEN ?1 AND ?2 ORDER BY id DESC",
        table.name()
    );
    let mut statement = main.prepare_cached(&sql)?;
    let mut rows = statement.query(params![first, last])?;
    while let (Some(row), false) = (rows.next()?, found.is_full()) {
        let (at, id) = (row.get(0)?, ObjectId::from_bytes(row.get(1)?));
        let bytes = body_of(main, table, at)?.filter(|bytes| may_contain_all(bytes, words));
        if let Some(bytes) = bytes
            && let Some(hit) = hit(main, table, at, id, bytes, words)?
        {
            found.add(table, at, hit)?;
        }
    }
    Ok(())
}

/// Unpacked body of a row; `None` if it was purged.
fn body_of(main: &Connection, table: Table, row: i64) -> Result<Option<Vec<u8>>, Error> {
    let sql = format!("SELECT seg, off, len, packing, size FROM {} WHERE id = ?1", table.name());
    let place =
        main.prepare_cached(&sql)?.query_row([row], |row| segment::place_from_row(row, 0))?;
    place.map(|place| segment::read(main, &place)).transpose()
}

fn hit(
    main: &Connection,
    table: Table,
    row: i64,
    id: ObjectId,
    bytes: Vec<u8>,
    words: &[QueryWord],
) -> Result<Option<Hit>, Error> {
    let header = if table == Table::Turns { header_at(main, row)? } else { None };
    let found = search_match::matched(table, header.as_ref(), bytes, words);
    let Some((at, snippet)) = found else { return Ok(None) };
    Ok(Some(Hit {
        kind: table.kind().name(),
        id,
        at,
        snippet,
        session: session_of(main, table, row)?,
    }))
}

/// Id of the session that created a row.
fn session_of(main: &Connection, table: Table, row: i64) -> Result<Option<String>, Error> {
    let sql = match table {
        Table::Turns => {
            "SELECT s.id FROM turns t JOIN sessions s ON s.row = t.session WHERE t.id = ?1"
        }
        Table::Steps => {
            "SELECT s.id FROM steps r JOIN tasks t ON t.row = r.task JOIN sessions s ON s.row = \
                t.session WHERE r.id = ?1"
        }
        Table::Commits => {
            "SELECT s.id FROM commits r JOIN tasks t ON t.row = r.task JOIN sessions s ON s.row = \
                t.session WHERE r.id = ?1"
        }
        Table::Blobs => return Ok(None),
    };
    Ok(main.prepare_cached(sql)?.query_row([row], |row| row.get(0)).optional()?)
}

fn header_at(main: &Connection, row: i64) -> Result<Option<Object>, Error> {
    let mut statement = main.prepare_cached("SELECT version, header FROM turns WHERE id = ?1")?;
    let header = statement.query_row([row], |row| {
        let bytes = row.get::<_, String>(1)?.into_bytes();
        Ok(Object { kind: Kind::Turn, version: row.get(0)?, bytes })
    });
    Ok(header.optional()?)
}
