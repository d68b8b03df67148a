//! Full-text search. Block filters select the rows to read; the text of each row decides whether it
//! matches.

use std::collections::{HashSet, VecDeque};

use ctx_core::commit::Commit;
use ctx_core::id::ObjectId;
use ctx_core::message::{Message, Part};
use ctx_core::object::{Kind, Object};
use ctx_core::step::{Entry, Step};
use ctx_core::time::Timestamp;
use ctx_core::turn::{self, Header};
use rusqlite::{Connection, OptionalExtension, params};

use crate::driver::Table;
use crate::{Error, Hit, SearchPage, SearchPlace, word_filter};

use super::hash_index::watermark;
use super::segment;
use super::shown_turns::ShownTurns;

/// Most words of a query; further ones are ignored.
const WORDS_MAX: usize = 16;
/// Characters before the first match in a snippet; twice as many follow it.
const SNIPPET_CHARS: usize = 40;

/// A word of the query. `retr*` matches every word that begins with `retr`.
struct QueryWord {
    word: String,
    prefix: bool,
    hashes: Vec<u32>,
}

impl QueryWord {
    fn parse_all(text: &str) -> Vec<Self> {
        text.split_whitespace().take(WORDS_MAX).filter_map(Self::parse).collect()
    }

    fn parse(text: &str) -> Option<Self> {
        let (word, prefix) = match text.strip_suffix('*') {
            Some(stem) => (stem, true),
            None => (text, false),
        };
        let word = word.trim_matches(|c: char| !c.is_alphanumeric());
        if word.is_empty() {
            return None;
        }
        // Filters contain whole words, so they cannot test a prefix.
        let hashes = if prefix { Vec::new() } else { word_filter::query_hashes(word) };
        Some(Self { word: fold_case(word), prefix, hashes })
    }

    fn may_match(&self, filter: &[u8]) -> bool {
        self.hashes.iter().all(|hash| word_filter::may_contain(filter, *hash))
    }

    /// Offset of the word in a text that is folded to lower case.
    fn find(&self, text: &str) -> Option<usize> {
        let is_unspaced = |c: Option<char>| c.is_some_and(word_filter::is_unspaced_script);
        let (first, last) = (self.word.chars().next(), self.word.chars().next_back());
        text.match_indices(&self.word).map(|(at, _)| at).find(|&at| {
            let before = text[..at].chars().next_back();
            let after = text[at + self.word.len()..].chars().next();
            let free = |c: Option<char>| is_unspaced(c) || c.is_none_or(|c| !c.is_alphanumeric());
            (is_unspaced(first) || free(before))
                && (self.prefix || is_unspaced(last) || free(after))
        })
    }
}

fn fold_case(text: &str) -> String {
    text.chars().flat_map(word_filter::fold_case).collect()
}

/// A hit and its row number.
type RowHit = (i64, Hit);

/// At most `limit` hits among the rows before a position, newest first.
pub(crate) fn search(
    main: &Connection,
    search_db: &Connection,
    query: &str,
    from: Option<SearchPlace>,
    limit: usize,
) -> Result<SearchPage, Error> {
    let words = QueryWord::parse_all(query);
    if words.is_empty() || limit == 0 {
        return Ok(SearchPage { hits: Vec::new(), next: None });
    }
    let from = from.unwrap_or(SearchPlace { turns: i64::MAX, steps: i64::MAX, commits: i64::MAX });
    // One more hit than requested shows whether there is another page.
    let page = limit.saturating_add(1);
    let look = |table, before| {
        Ok::<_, Error>(VecDeque::from(search_table(main, search_db, table, before, &words, page)?))
    };
    let found = [
        look(Table::Turns, from.turns)?,
        look(Table::Steps, from.steps)?,
        look(Table::Commits, from.commits)?,
    ];
    Ok(merge(found, from, limit))
}

/// Merges three lists by time. Hits are always taken from the front of a list, so the next page
/// begins at the last row taken from each one.
fn merge(mut found: [VecDeque<RowHit>; 3], from: SearchPlace, limit: usize) -> SearchPage {
    let (mut hits, mut seen) = (Vec::new(), HashSet::new());
    let mut at = [from.turns, from.steps, from.commits];
    while hits.len() < limit {
        let newest = (0..3)
            .filter_map(|n| Some((found[n].front()?.1.at, n)))
            .max_by_key(|(at, n)| (*at, std::cmp::Reverse(*n)));
        let Some((_, n)) = newest else { break };
        let Some((row, hit)) = found[n].pop_front() else { break };
        at[n] = row;
        if seen.insert(hit.id) {
            hits.push(hit);
        }
    }
    let [turns, steps, commits] = at;
    let more = found.iter().any(|list| !list.is_empty());
    SearchPage { hits, next: more.then_some(SearchPlace { turns, steps, commits }) }
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

/// Cheap test before a row is decoded: the filter covers a whole block, and most of its rows do not
/// contain the words.
fn may_contain_all(bytes: &[u8], words: &[QueryWord]) -> bool {
    let lower = bytes.to_ascii_lowercase();
    let plain = |word: &&QueryWord| word.word.bytes().all(|b| b.is_ascii_alphanumeric());
    words
        .iter()
        .filter(plain)
        .all(|word| memchr::memmem::find(&lower, word.word.as_bytes()).is_some())
}

fn hit(
    main: &Connection,
    table: Table,
    row: i64,
    id: ObjectId,
    bytes: Vec<u8>,
    words: &[QueryWord],
) -> Result<Option<Hit>, Error> {
    let Some((at, text)) = text_of(main, table, row, bytes)? else { return Ok(None) };
    let lower = fold_case(&text);
    let mut first = None;
    for word in words {
        let Some(place) = word.find(&lower) else { return Ok(None) };
        first = first.or(Some(place));
    }
    let snippet =
        snippet(if lower.len() == text.len() { &text } else { &lower }, first.unwrap_or(0));
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

/// Time and text of a row; `None` if it cannot be decoded, which `verify` reports.
fn text_of(
    main: &Connection,
    table: Table,
    row: i64,
    bytes: Vec<u8>,
) -> Result<Option<(Timestamp, String)>, Error> {
    let object = Object { kind: table.kind(), version: 1, bytes };
    Ok(match table {
        Table::Turns => {
            let header = header_at(main, row)?.and_then(|header| header.decode::<Header>().ok());
            let body = Object { kind: Kind::TurnBody, ..object };
            header.and_then(|header| {
                Some((header.ended_at, turn_text(&turn::messages(&header, &body).ok()?)))
            })
        }
        Table::Steps => object.decode::<Step>().ok().map(|step| {
            let words: Vec<String> =
                step.payload.iter().filter_map(Entry::searchable_text).collect();
            (step.timestamp, words.join("\n"))
        }),
        Table::Commits => object.decode::<Commit>().ok().map(|commit| {
            (commit.created_at, format!("{}\n{}", commit.message, commit.description))
        }),
        Table::Blobs => None,
    })
}

fn header_at(main: &Connection, row: i64) -> Result<Option<Object>, Error> {
    let mut statement = main.prepare_cached("SELECT version, header FROM turns WHERE id = ?1")?;
    let header = statement.query_row([row], |row| {
        let bytes = row.get::<_, String>(1)?.into_bytes();
        Ok(Object { kind: Kind::Turn, version: row.get(0)?, bytes })
    });
    Ok(header.optional()?)
}

fn turn_text(messages: &[Message]) -> String {
    let mut text = String::new();
    for part in messages.iter().flat_map(|message| &message.content) {
        match part {
            Part::ToolCall { name, params, .. } => text.push_str(&format!("{name} {params}")),
            Part::ToolResult { content, .. } => text.push_str(content.text().unwrap_or_default()),
            other => text.push_str(other.searchable_text().unwrap_or_default()),
        }
        text.push('\n');
    }
    text
}

/// Text around an offset, on one line.
fn snippet(text: &str, at: usize) -> String {
    let at = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let start = text[..at].char_indices().rev().nth(SNIPPET_CHARS - 1).map_or(0, |(at, _)| at);
    let end = text[at..].char_indices().nth(SNIPPET_CHARS * 2).map_or(text.len(), |(n, _)| at + n);
    let line = text[start..end].split_whitespace().collect::<Vec<_>>().join(" ");
    let (before, after) =
        (if start > 0 { "…" } else { "" }, if end < text.len() { "…" } else { "" });
    format!("{before}{line}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_words_match_and_an_asterisk_matches_prefixes() {
        let finds = |query: &str, text: &str| {
            QueryWord::parse_all(query).iter().all(|word| word.find(&fold_case(text)).is_some())
        };
        assert!(finds("retry LOGIC", "add Retry-logic"));
        assert!(!finds("retr", "add retry"));
        assert!(finds("retr*", "add retry"));
        assert!(!finds("etry*", "add retry"));
        assert!(finds("日志", "添加日志记录"));
        assert!(finds("\"quoted\"", "a quoted word"));
        assert!(QueryWord::parse_all("* -- !").is_empty());
    }

    #[test]
    fn a_snippet_is_cut_at_character_boundaries() {
        let text = "é".repeat(100) + " needle " + &"ü".repeat(200);
        let at = text.find("needle").expect("there");
        let snippet = snippet(&text, at);
        assert!(snippet.starts_with('…') && snippet.ends_with('…') && snippet.contains("needle"));
    }
}
