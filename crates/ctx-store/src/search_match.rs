//! What a search finds in the text of a row, whichever index has selected the row.

use std::collections::{HashSet, VecDeque};

use ctx_core::commit::Commit;
use ctx_core::message::{Message, Part};
use ctx_core::object::{Kind, Object};
use ctx_core::step::{Entry, Step};
use ctx_core::time::Timestamp;
use ctx_core::turn::{self, Header};

use crate::driver::Table;
use crate::{Hit, SearchPage, SearchPlace, word_filter};

/// Most words of a query; further ones are ignored.
const WORDS_MAX: usize = 16;
/// Characters before the first match in a snippet; twice as many follow it.
const SNIPPET_CHARS: usize = 40;

/// A word of the query. `retr*` matches every word that begins with `retr`.
pub(crate) struct QueryWord {
    word: String,
    prefix: bool,
    /// Hashes of its words; none if it is a prefix, which an index of whole words cannot find.
    pub(crate) hashes: Vec<u32>,
}

impl QueryWord {
    pub(crate) fn parse_all(text: &str) -> Vec<Self> {
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
        let hashes = if prefix { Vec::new() } else { word_filter::query_hashes(word) };
        Some(Self { word: fold_case(word), prefix, hashes })
    }

    pub(crate) fn may_match(&self, filter: &[u8]) -> bool {
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
pub(crate) type RowHit = (i64, Hit);

/// A page of hits: `look` finds hits of a table in the rows before a position, newest first.
pub(crate) fn page<E>(
    words: &[QueryWord],
    from: Option<SearchPlace>,
    limit: usize,
    mut look: impl FnMut(Table, i64, usize) -> Result<Vec<RowHit>, E>,
) -> Result<SearchPage, E> {
    if words.is_empty() || limit == 0 {
        return Ok(SearchPage { hits: Vec::new(), next: None });
    }
    let from = from.unwrap_or(SearchPlace { turns: i64::MAX, steps: i64::MAX, commits: i64::MAX });
    // One more hit than requested shows whether there is another page.
    let page = limit.saturating_add(1);
    let found = [
        look(Table::Turns, from.turns, page)?.into(),
        look(Table::Steps, from.steps, page)?.into(),
        look(Table::Commits, from.commits, page)?.into(),
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

/// Cheap test before a row is decoded: the filter covers a whole block, and most of its rows do not
/// contain the words.
pub(crate) fn may_contain_all(bytes: &[u8], words: &[QueryWord]) -> bool {
    let lower = bytes.to_ascii_lowercase();
    let plain = |word: &&QueryWord| word.word.bytes().all(|b| b.is_ascii_alphanumeric());
    words
        .iter()
        .filter(plain)
        .all(|word| memchr::memmem::find(&lower, word.word.as_bytes()).is_some())
}

/// Time and snippet of a row that contains all words. `header` is that of a turn. A row that cannot
/// be decoded contains none; `verify` reports it.
pub(crate) fn matched(
    table: Table,
    header: Option<&Object>,
    bytes: Vec<u8>,
    words: &[QueryWord],
) -> Option<(Timestamp, String)> {
    let (at, text) = text_of(table, header, bytes)?;
    let lower = fold_case(&text);
    let mut first = None;
    for word in words {
        let place = word.find(&lower)?;
        first = first.or(Some(place));
    }
    let shown = if lower.len() == text.len() { &text } else { &lower };
    Some((at, snippet(shown, first.unwrap_or(0))))
}

/// Time and text of a row.
fn text_of(table: Table, header: Option<&Object>, bytes: Vec<u8>) -> Option<(Timestamp, String)> {
    let object = Object { kind: table.kind(), version: 1, bytes };
    match table {
        Table::Turns => {
            let header: Header = header?.decode().ok()?;
            let body = Object { kind: Kind::TurnBody, ..object };
            Some((header.ended_at, turn_text(&turn::messages(&header, &body).ok()?)))
        }
        Table::Steps => {
            let step: Step = object.decode().ok()?;
            let words: Vec<String> =
                step.payload.iter().filter_map(Entry::searchable_text).collect();
            Some((step.timestamp, words.join("\n")))
        }
        Table::Commits => {
            let commit: Commit = object.decode().ok()?;
            Some((commit.created_at, format!("{}\n{}", commit.message, commit.description)))
        }
        Table::Blobs => None,
    }
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
