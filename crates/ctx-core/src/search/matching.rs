//! Decides whether a document matches a query, how well, and which piece of it is shown.

use crate::message::Role;
use crate::time::{Span, Timestamp};

use super::document::{Document, Passage, Weight, role_name};
use super::hit::Segment;
use super::query::{FilterKey, Pattern, Query, QueryToken};
use super::tokens;

/// Most matches of a clause that are counted in a passage.
const OCCURRENCES_MAX: usize = 64;
/// Number of words of a document of average length.
const WORDS_AVERAGE: f64 = 300.0;
/// Age at which recency counts half as much.
const HALF_LIFE: Span = Span::days(30);
/// Characters before the first match in a snippet.
const SNIPPET_BEFORE: usize = 40;
/// Characters of a snippet.
const SNIPPET_CHARS: usize = 160;

/// How a document matches.
#[derive(Debug, Clone, PartialEq)]
pub struct Match {
    /// Relevance, without recency.
    pub relevance: f64,
    /// Index of the passage that matches best.
    pub passage: usize,
    /// Bytes of that passage that match, sorted.
    ranges: Vec<(usize, usize)>,
}

/// Relevance and recency of a match.
pub fn score(relevance: f64, at: Timestamp, now: Timestamp) -> f64 {
    let age = now.since(at).0 as f64 / HALF_LIFE.0 as f64;
    relevance * (0.5 + 0.5 * (-age).exp2())
}

/// What one clause finds in one passage.
#[derive(Default, Clone)]
struct Found {
    ranges: Vec<(usize, usize)>,
    /// Positions of the first words.
    positions: Vec<u32>,
}

/// Value, index and matching bytes of the best passage.
type Best = (f64, usize, Vec<(usize, usize)>);

/// Matches a document; `None` if a clause or a filter of its text does not hold.
pub fn match_document(query: &Query, document: &Document) -> Option<Match> {
    for filter in &query.filters {
        let holds = match filter.key {
            FilterKey::Tool => filter.values.iter().any(|value| document.has_tool(value)),
            FilterKey::File => filter.values.iter().any(|value| document.has_file(value)),
            _ => continue,
        };
        if holds == filter.negated {
            return None;
        }
    }
    let mut counts = vec![0.0; query.clauses.len()];
    let mut words = 0_usize;
    let mut best: Option<Best> = None;
    let mut together = 0.0_f64;
    for (n, passage) in document.passages.iter().enumerate() {
        if !admits_role(query, passage.role) {
            continue;
        }
        let (found, length) = find_all(query, passage);
        words += length;
        let weight = weight_of(passage.weight);
        let mut here = 0.0;
        for ((clause, found), count) in query.clauses.iter().zip(&found).zip(&mut counts) {
            *count += weight * found.ranges.len() as f64;
            if !clause.negated && !found.ranges.is_empty() {
                here += weight;
            }
        }
        let near = nearness(query, &found);
        together = together.max(weight * near);
        let value = here + weight * near;
        if best.as_ref().is_none_or(|(known, _, _)| value > *known) {
            let shown = query.clauses.iter().zip(&found).filter(|(clause, _)| !clause.negated);
            let mut ranges: Vec<_> = shown.flat_map(|(_, found)| found.ranges.clone()).collect();
            ranges.sort_unstable();
            best = Some((value, n, ranges));
        }
    }
    let (_, passage, ranges) = best?;
    let length = 1.2 * (0.25 + 0.75 * words as f64 / WORDS_AVERAGE);
    let mut relevance = 1.0 + together;
    for (clause, count) in query.clauses.iter().zip(counts) {
        if clause.negated != (count == 0.0) {
            return None;
        }
        if !clause.negated {
            relevance += 2.0 * count / (count + length);
        }
    }
    Some(Match { relevance, passage, ranges })
}

fn admits_role(query: &Query, role: Option<Role>) -> bool {
    query.filters.iter().filter(|filter| filter.key == FilterKey::Role).all(|filter| {
        let named = role.is_some_and(|role| filter.values.iter().any(|v| v == role_name(role)));
        named != filter.negated
    })
}

const fn weight_of(weight: Weight) -> f64 {
    match weight {
        Weight::Summary => 2.0,
        Weight::Text => 1.0,
        Weight::Call => 0.6,
        Weight::Output => 0.3,
    }
}

/// What each clause finds in a passage, and its number of words.
fn find_all(query: &Query, passage: &Passage) -> (Vec<Found>, usize) {
    let wanted: Vec<(usize, usize, &QueryToken)> = query
        .clauses
        .iter()
        .enumerate()
        .filter_map(|(n, clause)| match &clause.pattern {
            Pattern::Words(words) => Some((n, words)),
            Pattern::Regex(_) => None,
        })
        .flat_map(|(n, words)| words.iter().enumerate().map(move |(m, word)| (n, m, word)))
        .collect();
    let mut first_bytes = [false; 256];
    for (_, _, word) in &wanted {
        word.text.bytes().take(1).for_each(|byte| first_bytes[usize::from(byte)] = true);
    }
    // Of each word that is searched for, the places where it is.
    let mut seen: Vec<Vec<(u32, usize, usize)>> = vec![Vec::new(); wanted.len()];
    let mut length = 0;
    tokens::for_each(&passage.text, |token| {
        length += 1;
        if !token.text.bytes().next().is_some_and(|byte| first_bytes[usize::from(byte)]) {
            return;
        }
        for ((_, _, word), seen) in wanted.iter().zip(&mut seen) {
            let is_match = match word.prefix {
                true => token.text.starts_with(&word.text),
                false => token.text == word.text,
            };
            if is_match {
                // A whole identifier comes after its parts and has the position of the first.
                let at = seen.partition_point(|place| place.0 < token.position);
                if seen.get(at).is_none_or(|place| place.0 != token.position) {
                    seen.insert(at, (token.position, token.start, token.end));
                }
            }
        }
    });
    let found = query.clauses.iter().enumerate().map(|(n, clause)| match &clause.pattern {
        Pattern::Regex(regex) => {
            let ranges = regex.find_iter(&passage.text).take(OCCURRENCES_MAX);
            let ranges = ranges.map(|found| (found.start(), found.end())).collect();
            Found { ranges, positions: Vec::new() }
        }
        Pattern::Words(words) => {
            let first = wanted.iter().position(|(clause, _, _)| *clause == n).unwrap_or(0);
            find_phrase(words, &seen[first..first + words.len()])
        }
    });
    (found.collect(), length)
}

/// Where the words of a phrase are at their distances.
fn find_phrase(words: &[QueryToken], seen: &[Vec<(u32, usize, usize)>]) -> Found {
    let mut found = Found::default();
    for (position, start, end) in &seen[0] {
        let mut range = (*start, *end);
        let all = words.iter().zip(seen).skip(1).all(|(word, places)| {
            let wanted = position + word.offset - words[0].offset;
            let at = places.binary_search_by_key(&wanted, |place| place.0);
            at.is_ok_and(|n| {
                range.1 = range.1.max(places[n].2);
                true
            })
        });
        if all {
            found.ranges.push(range);
            found.positions.push(*position);
            if found.ranges.len() == OCCURRENCES_MAX {
                break;
            }
        }
    }
    found
}

/// How close the clauses are to each other in a passage: 1 if they follow each other, 0 if some
/// are missing.
fn nearness(query: &Query, found: &[Found]) -> f64 {
    let wanted: Vec<&Found> = query
        .clauses
        .iter()
        .zip(found)
        .filter(|(clause, _)| !clause.negated && matches!(clause.pattern, Pattern::Words(_)))
        .map(|(_, found)| found)
        .collect();
    if wanted.len() < 2 || wanted.iter().any(|found| found.positions.is_empty()) {
        return 0.0;
    }
    let mut sum = 0.0;
    for pair in wanted.windows(2) {
        let gaps = pair[0]
            .positions
            .iter()
            .flat_map(|first| pair[1].positions.iter().map(move |second| second.abs_diff(*first)));
        sum += 1.0 / f64::from(gaps.min().unwrap_or(u32::MAX).max(1));
    }
    sum / (wanted.len() - 1) as f64
}

/// The text around the first match, on one line, with the matches marked.
pub fn snippet(document: &Document, found: &Match) -> Vec<Segment> {
    let Some(passage) = document.passages.get(found.passage) else { return Vec::new() };
    let text = passage.text.as_str();
    let first = found.ranges.first().map_or(0, |range| range.0);
    let before = text[..first].char_indices().rev().nth(SNIPPET_BEFORE - 1);
    // A snippet begins with a word.
    let start = before.map_or(0, |(at, _)| {
        let cut = text[at..first].find(char::is_whitespace);
        cut.map_or(at, |space| at + space)
    });
    let end =
        text[start..].char_indices().nth(SNIPPET_CHARS).map_or(text.len(), |(n, _)| start + n);
    let mut segments: Vec<Segment> = Vec::new();
    let mut add = |c: char, is_match: bool| match segments
        .last_mut()
        .filter(|last| last.is_match == is_match)
    {
        Some(last) => last.text.push(c),
        None => segments.push(Segment { text: c.to_string(), is_match }),
    };
    // White space is shown as one space, marked if it is inside of a match.
    let mut space = None;
    let mut is_first = true;
    for (at, c) in text[start..end].char_indices() {
        let at = start + at;
        let is_match = found.ranges.iter().any(|range| range.0 <= at && at < range.1);
        if c.is_whitespace() {
            space = Some(is_match);
            continue;
        }
        if let Some(is_match) = space.take().filter(|_| !is_first) {
            add(' ', is_match);
        }
        is_first = false;
        add(c, is_match);
    }
    let dots = || Segment { text: "…".to_owned(), is_match: false };
    if start > 0 {
        match segments.first_mut().filter(|first| !first.is_match) {
            Some(first) => first.text.insert(0, '…'),
            None => segments.insert(0, dots()),
        }
    }
    if end < text.len() {
        match segments.last_mut().filter(|last| !last.is_match) {
            Some(last) => last.text.push('…'),
            None => segments.push(dots()),
        }
    }
    segments
}
