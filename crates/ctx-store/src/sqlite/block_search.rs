//! Find what was said. The filters say which blocks of rows to read; the rows say what is really there.

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

use super::hash_index::mark;
use super::segment;
use super::shown_turns::ShownTurns;

/// The most words one search may have; further ones are not looked at.
const WORDS_MAX: usize = 16;
/// Letters on either side of the word in a snippet.
const SNIPPET_CHARS: usize = 40;

/// A word of the query. `retr*` finds every word that begins so.
struct Wanted {
    word: String,
    prefix: bool,
    hashes: Vec<u32>,
}

impl Wanted {
    fn read(text: &str) -> Vec<Self> {
        text.split_whitespace().take(WORDS_MAX).filter_map(Self::one).collect()
    }

    fn one(text: &str) -> Option<Self> {
        let (word, prefix) = match text.strip_suffix('*') {
            Some(stem) => (stem, true),
            None => (text, false),
        };
        let word = word.trim_matches(|c: char| !c.is_alphanumeric());
        if word.is_empty() {
            return None;
        }
        // A beginning says nothing to a filter of whole words.
        let hashes = if prefix { Vec::new() } else { word_filter::of_query(word) };
        Some(Self { word: folded(word), prefix, hashes })
    }

    fn may_be_in(&self, filter: &[u8]) -> bool {
        self.hashes.iter().all(|hash| word_filter::perhaps(filter, *hash))
    }

    /// Where the word stands in a text that is in lower case.
    fn find(&self, text: &str) -> Option<usize> {
        let unspaced = |c: Option<char>| c.is_some_and(word_filter::unspaced);
        let (first, last) = (self.word.chars().next(), self.word.chars().next_back());
        text.match_indices(&self.word).map(|(at, _)| at).find(|&at| {
            let before = text[..at].chars().next_back();
            let after = text[at + self.word.len()..].chars().next();
            let free = |c: Option<char>| unspaced(c) || c.is_none_or(|c| !c.is_alphanumeric());
            (unspaced(first) || free(before)) && (self.prefix || unspaced(last) || free(after))
        })
    }
}

fn folded(text: &str) -> String {
    text.chars().flat_map(word_filter::folded).collect()
}

/// A hit and the row it is of.
type Placed = (i64, Hit);

/// At most `limit` hits of the newest rows before a place, newest first.
pub(crate) fn search(
    main: &Connection,
    side: &Connection,
    query: &str,
    from: Option<SearchPlace>,
    limit: usize,
) -> Result<SearchPage, Error> {
    let wanted = Wanted::read(query);
    if wanted.is_empty() || limit == 0 {
        return Ok(SearchPage { hits: Vec::new(), next: None });
    }
    let from = from.unwrap_or(SearchPlace { turns: i64::MAX, steps: i64::MAX, commits: i64::MAX });
    // One more than is shown says whether there is another page.
    let page = limit.saturating_add(1);
    let look = |table, before| {
        Ok::<_, Error>(VecDeque::from(in_table(main, side, table, before, &wanted, page)?))
    };
    let found = [
        look(Table::Turns, from.turns)?,
        look(Table::Steps, from.steps)?,
        look(Table::Commits, from.commits)?,
    ];
    Ok(merged(found, from, limit))
}

/// Takes the newest of the three lists each time, so that of each list a beginning is taken and the next page goes on behind it.
fn merged(mut found: [VecDeque<Placed>; 3], from: SearchPlace, limit: usize) -> SearchPage {
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

fn in_table(
    main: &Connection,
    side: &Connection,
    table: Table,
    before: i64,
    wanted: &[Wanted],
    limit: usize,
) -> Result<Vec<Placed>, Error> {
    let mut blocks = side.prepare_cached(
        "SELECT first, last, filter FROM blocks WHERE tbl = ?1 AND first < ?2 ORDER BY last DESC",
    )?;
    let mut found = blocks.query(params![table as i64, before])?;
    let mut found_rows = FoundRows { hits: Vec::new(), shown: ShownTurns::new(main, side), limit };
    let last = before - 1;
    in_block(main, table, (mark(side, table)? + 1, last), wanted, &mut found_rows)?;
    while let (Some(block), false) = (found.next()?, found_rows.is_full()) {
        let filter = block.get_ref(2)?.as_blob().unwrap_or_default();
        if wanted.iter().all(|word| word.may_be_in(filter)) {
            let rows = (block.get(0)?, last.min(block.get(1)?));
            in_block(main, table, rows, wanted, &mut found_rows)?;
        }
    }
    Ok(found_rows.hits)
}

/// The hits in one table.
struct FoundRows<'c> {
    hits: Vec<Placed>,
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

fn in_block(
    main: &Connection,
    table: Table,
    (first, last): (i64, i64),
    wanted: &[Wanted],
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
        let bytes = stored(main, table, at)?.filter(|bytes| seems_to_have(bytes, wanted));
        if let Some(bytes) = bytes
            && let Some(hit) = hit(main, table, at, id, bytes, wanted)?
        {
            found.add(table, at, hit)?;
        }
    }
    Ok(())
}

/// The bytes that hold the words of a row.
fn stored(main: &Connection, table: Table, row: i64) -> Result<Option<Vec<u8>>, Error> {
    let sql = format!("SELECT seg, off, len, packing, size FROM {} WHERE id = ?1", table.name());
    let place =
        main.prepare_cached(&sql)?.query_row([row], |row| segment::place_from_row(row, 0))?;
    place.map(|place| segment::read(main, &place)).transpose()
}

/// A cheap no for rows that the filter let through for their neighbours' sake.
fn seems_to_have(bytes: &[u8], wanted: &[Wanted]) -> bool {
    let lower = bytes.to_ascii_lowercase();
    let plain = |word: &&Wanted| word.word.bytes().all(|b| b.is_ascii_alphanumeric());
    wanted
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
    wanted: &[Wanted],
) -> Result<Option<Hit>, Error> {
    let Some((at, text)) = text_of(main, table, row, bytes)? else { return Ok(None) };
    let lower = folded(&text);
    let mut first = None;
    for word in wanted {
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

/// The session that made a row.
fn session_of(main: &Connection, table: Table, row: i64) -> Result<Option<String>, Error> {
    let sql = match table {
        Table::Turns => {
            "SELECT s.id FROM turns t JOIN sessions s ON s.row = t.session WHERE t.id = ?1"
        }
        Table::Steps => {
            "SELECT s.id FROM steps r JOIN tasks t ON t.row = r.task JOIN sessions s ON s.row = t.session WHERE r.id = ?1"
        }
        Table::Commits => {
            "SELECT s.id FROM commits r JOIN tasks t ON t.row = r.task JOIN sessions s ON s.row = t.session WHERE r.id = ?1"
        }
        Table::Blobs => return Ok(None),
    };
    Ok(main.prepare_cached(sql)?.query_row([row], |row| row.get(0)).optional()?)
}

/// When it was said and all its words; nothing where it cannot be read, which is for `verify` to say.
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

/// The words around a place, on one line.
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
    fn a_word_is_found_whole_and_a_beginning_as_one() {
        let finds = |query: &str, text: &str| {
            Wanted::read(query).iter().all(|word| word.find(&folded(text)).is_some())
        };
        assert!(finds("retry LOGIC", "add Retry-logic"));
        assert!(!finds("retr", "add retry"));
        assert!(finds("retr*", "add retry"));
        assert!(!finds("etry*", "add retry"));
        assert!(finds("日志", "添加日志记录"));
        assert!(finds("\"quoted\"", "a quoted word"));
        assert!(Wanted::read("* -- !").is_empty());
    }

    #[test]
    fn a_snippet_keeps_to_whole_letters() {
        let text = "é".repeat(100) + " needle " + &"ü".repeat(200);
        let at = text.find("needle").expect("there");
        let snippet = snippet(&text, at);
        assert!(snippet.starts_with('…') && snippet.ends_with('…') && snippet.contains("needle"));
    }
}
