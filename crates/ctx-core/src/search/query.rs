//! The query language: words, "phrases", prefix*, -not, /regular expressions/ and `key:value`
//! filters. All of them must hold.

use regex::{Regex, RegexBuilder};

use crate::commit::CommitType;
use crate::refusal::Refusal;
use crate::time::{Span, Timestamp};

use super::tokens::{self, Form};

/// Longest query in bytes.
pub(super) const QUERY_BYTES_MAX: usize = 4096;
/// Most words, expressions and filters of a query; further ones are ignored.
const CLAUSES_MAX: usize = 32;
/// Most bytes of a compiled expression.
const REGEX_BYTES_MAX: usize = 1 << 20;

/// A query. It matches a document that satisfies every clause and every filter.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// What the text must contain.
    pub clauses: Vec<Clause>,
    /// What else must hold.
    pub filters: Vec<Filter>,
}

/// What the text of a document must contain, or must not contain.
#[derive(Debug, Clone)]
pub struct Clause {
    /// Whether the text must not contain it.
    pub negated: bool,
    /// What is searched for.
    pub pattern: Pattern,
    /// Bytes of the query that it was read from.
    pub range: std::ops::Range<usize>,
}

/// What a clause searches for.
#[derive(Debug, Clone)]
pub enum Pattern {
    /// Words at fixed distances from each other; often one word.
    Words(Vec<QueryToken>),
    /// A regular expression, matched against the text as it is.
    Regex(Regex),
}

/// A word of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryToken {
    /// In lower case.
    pub text: String,
    /// Whether words that begin with it match as well.
    pub prefix: bool,
    /// Distance from the first word of the phrase.
    pub offset: u32,
}

/// A filter. Several values of one filter are alternatives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// Whether the filter must not hold.
    pub negated: bool,
    /// What is compared.
    pub key: FilterKey,
    /// In lower case, except for sessions and projects.
    pub values: Vec<String>,
    /// The limit of a time filter.
    pub time: Option<Timestamp>,
}

/// What a filter compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the query language")]
pub enum FilterKey {
    Project,
    Session,
    Role,
    Tool,
    File,
    Outcome,
    Kind,
    After,
    Before,
}

/// The names of filters in a query.
const KEYS: [(&str, FilterKey); 11] = [
    ("project", FilterKey::Project),
    ("session", FilterKey::Session),
    ("role", FilterKey::Role),
    ("tool", FilterKey::Tool),
    ("file", FilterKey::File),
    ("outcome", FilterKey::Outcome),
    ("kind", FilterKey::Kind),
    ("after", FilterKey::After),
    ("since", FilterKey::After),
    ("before", FilterKey::Before),
    ("until", FilterKey::Before),
];

const ROLES: [&str; 4] = ["user", "assistant", "system", "tool"];
const KINDS: [&str; 2] = ["turn", "task"];
/// The outcome of a task that is not sealed.
pub const OPEN: &str = "open";

impl Query {
    /// Reads a query. `now` is the time that relative times refer to.
    ///
    /// # Errors
    /// If an expression, a filter or its value is malformed.
    pub fn parse(text: &str, now: Timestamp) -> Result<Self, Refusal> {
        if text.len() > QUERY_BYTES_MAX {
            let why = format!("{} bytes exceed the limit of {QUERY_BYTES_MAX} bytes", text.len());
            return Err(Refusal::BadQuery { code: "query_too_long", why });
        }
        let mut query = Self::default();
        let mut at = 0;
        while let Some(term) = next_term(text, at) {
            at = term.range.end;
            if query.clauses.len() + query.filters.len() < CLAUSES_MAX {
                query.add(term, now)?;
            }
        }
        Ok(query)
    }

    /// Whether the query has nothing to search for.
    pub fn is_empty(&self) -> bool {
        self.clauses.is_empty() && self.filters.is_empty()
    }

    fn add(&mut self, term: Term<'_>, now: Timestamp) -> Result<(), Refusal> {
        let Term { negated, range, content } = term;
        let pattern = match content {
            Content::Filter(key, value) => return self.add_filter(negated, key, value, now),
            Content::Regex(source, ignore_case) => Pattern::Regex(compile(source, ignore_case)?),
            Content::Phrase(text) => Pattern::Words(query_tokens(text, false, true)),
            Content::Word("AND") => return Ok(()),
            Content::Word(text) => match text.strip_suffix('*') {
                Some(stem) => Pattern::Words(query_tokens(stem, true, false)),
                None => Pattern::Words(query_tokens(text, false, false)),
            },
        };
        if !matches!(&pattern, Pattern::Words(tokens) if tokens.is_empty()) {
            self.clauses.push(Clause { negated, pattern, range });
        }
        Ok(())
    }

    fn add_filter(
        &mut self,
        negated: bool,
        name: &str,
        value: &str,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let key = KEYS.iter().find(|(known, _)| *known == name).map(|(_, key)| *key);
        let Some(key) = key else {
            let known: Vec<String> = KEYS.iter().map(|(key, _)| format!("{key}:")).collect();
            let why = format!("there is no filter `{name}:`; the filters are {}", known.join(" "));
            return Err(Refusal::BadQuery { code: "unknown_filter", why });
        };
        let time = match key {
            FilterKey::After | FilterKey::Before => Some(time_of(name, value, now)?),
            _ => None,
        };
        let keeps_case = matches!(key, FilterKey::Project | FilterKey::Session);
        let values: Vec<String> = value
            .split(',')
            .filter(|value| !value.is_empty())
            .map(|value| if keeps_case { value.to_owned() } else { value.to_lowercase() })
            .collect();
        let known: &[&str] = match key {
            FilterKey::Role => &ROLES,
            FilterKey::Kind => &KINDS,
            FilterKey::Outcome => {
                const OUTCOMES: [&str; 5] = [
                    CommitType::NAMES[0],
                    CommitType::NAMES[1],
                    CommitType::NAMES[2],
                    CommitType::NAMES[3],
                    OPEN,
                ];
                &OUTCOMES
            }
            _ => &[],
        };
        if let Some(wrong) =
            values.iter().find(|value| !known.is_empty() && !known.contains(&value.as_str()))
        {
            let why =
                format!("`{wrong}` is no value of `{name}:`; it is one of {}", known.join(", "));
            return Err(Refusal::BadQuery { code: "invalid_filter", why });
        }
        // The values of a repeated filter are alternatives; times are limits that all hold.
        let same = self
            .filters
            .iter_mut()
            .find(|filter| filter.key == key && filter.negated == negated && time.is_none());
        match same {
            Some(filter) => filter.values.extend(values),
            None => self.filters.push(Filter { negated, key, values, time }),
        }
        Ok(())
    }

    /// The values that a filter accepts; `None` without such a filter.
    pub fn values(&self, key: FilterKey) -> Option<&[String]> {
        let filter = self.filters.iter().find(|filter| filter.key == key && !filter.negated);
        filter.map(|filter| filter.values.as_slice())
    }
}

/// A date, a time, or a duration before now.
fn time_of(name: &str, value: &str, now: Timestamp) -> Result<Timestamp, Refusal> {
    let day = Span::days(1).0.cast_signed();
    let today = Timestamp(now.0 - now.0.rem_euclid(day));
    let found = match value {
        "now" => Some(now),
        "today" => Some(today),
        "yesterday" => Some(Timestamp(today.0 - day)),
        _ => Timestamp::start_of_day(value)
            .or_else(|| {
                let at: jiff::Timestamp = value.parse().ok()?;
                Some(Timestamp(at.as_millisecond()))
            })
            .or_else(|| {
                let ago: Span = value.parse().ok()?;
                Some(Timestamp(now.0.saturating_sub_unsigned(ago.0)))
            }),
    };
    found.ok_or_else(|| {
        let why = format!(
            "`{value}` is no time for `{name}:`; write for example 2026-01-31, 7d, 24h or today"
        );
        Refusal::BadQuery { code: "invalid_filter", why }
    })
}

fn compile(source: &str, ignore_case: bool) -> Result<Regex, Refusal> {
    let built = RegexBuilder::new(&source.replace("\\/", "/"))
        .case_insensitive(ignore_case)
        .multi_line(true)
        .size_limit(REGEX_BYTES_MAX)
        .dfa_size_limit(REGEX_BYTES_MAX)
        .build();
    built.map_err(|error| {
        let why = error.to_string();
        let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ");
        Refusal::BadQuery { code: "invalid_regex", why: format!("/{source}/: {why}") }
    })
}

/// The words of a term. An identifier that stands alone is one word; in a phrase, or beside other
/// words, its parts are compared.
fn query_tokens(text: &str, prefix: bool, is_phrase: bool) -> Vec<QueryToken> {
    let mut found: Vec<(QueryToken, Form)> = Vec::new();
    tokens::for_each(text, |token| {
        let word = QueryToken {
            text: token.text.to_owned(),
            // Every letter of a script without spaces begins a word of the index.
            prefix: token.form == Form::Last,
            offset: token.position,
        };
        found.push((word, token.form));
    });
    let is_single = found
        .last()
        .is_some_and(|(word, form)| *form == Form::Whole && word.offset == 0 && !is_phrase);
    if is_single && let Some((whole, _)) = found.pop() {
        return vec![QueryToken { prefix, ..whole }];
    }
    // The last letter of a run is part of the pair before it.
    let follows_pair = |n: usize| n > 0 && found[n].1 == Form::Last && found[n - 1].1 == Form::Pair;
    let kept: Vec<usize> =
        (0..found.len()).filter(|n| found[*n].1 != Form::Whole && !follows_pair(*n)).collect();
    let mut tokens: Vec<QueryToken> = kept.into_iter().map(|n| found[n].0.clone()).collect();
    if let Some(last) = tokens.last_mut().filter(|_| prefix) {
        last.prefix = true;
    }
    tokens
}

struct Term<'a> {
    negated: bool,
    range: std::ops::Range<usize>,
    content: Content<'a>,
}

enum Content<'a> {
    Word(&'a str),
    Phrase(&'a str),
    Regex(&'a str, bool),
    Filter(&'a str, &'a str),
}

/// The term that begins at or after an offset.
fn next_term(text: &str, from: usize) -> Option<Term<'_>> {
    let begin = from + text[from..].find(|c: char| !c.is_whitespace())?;
    let negated = text[begin..].starts_with('-')
        && text[begin + 1..].starts_with(|c: char| !c.is_whitespace() && c != '-');
    let start = begin + usize::from(negated);
    let rest = &text[start..];
    let term = |len: usize, content| Term { negated, range: begin..start + len, content };
    if let Some(quoted) = rest.strip_prefix('"') {
        // A quote that is not closed yet ends with the query.
        let len = quoted.find('"').unwrap_or(quoted.len());
        let end = 1 + len + usize::from(len < quoted.len());
        return Some(term(end, Content::Phrase(&quoted[..len])));
    }
    if let Some((source, ignore_case, len)) = regex_at(rest) {
        return Some(term(len, Content::Regex(source, ignore_case)));
    }
    let word_end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let word = &rest[..word_end];
    match filter_at(rest, word) {
        Some((key, value, len)) => Some(term(len, Content::Filter(key, value))),
        None => Some(term(word_end, Content::Word(word))),
    }
}

/// `/…/` or `/…/i`, up to a slash before white space. A path such as `/usr/lib` is none.
fn regex_at(rest: &str) -> Option<(&str, bool, usize)> {
    let inner = rest.strip_prefix('/')?;
    let mut escaped = false;
    for (at, c) in inner.char_indices() {
        if c == '/' && !escaped && at > 0 {
            let after = &inner[at + 1..];
            let flag = usize::from(after.starts_with('i'));
            if after[flag..].chars().next().is_none_or(char::is_whitespace) {
                return Some((&inner[..at], flag == 1, at + 2 + flag));
            }
        }
        escaped = c == '\\' && !escaped;
    }
    None
}

/// `key:value` or `key:"a value"`. What looks like an address, a path or `name::item` is none.
fn filter_at<'a>(rest: &'a str, word: &'a str) -> Option<(&'a str, &'a str, usize)> {
    let (key, value) = word.split_once(':')?;
    if key.is_empty() || !key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') {
        return None;
    }
    let is_known = KEYS.iter().any(|(known, _)| *known == key);
    if let Some(quoted) = rest[key.len() + 1..].strip_prefix('"').filter(|_| is_known) {
        let len = quoted.find('"').unwrap_or(quoted.len());
        let end = key.len() + 2 + len + usize::from(len < quoted.len());
        return Some((key, &quoted[..len], end)).filter(|(_, value, _)| !value.is_empty());
    }
    let is_number = value.bytes().all(|b| b.is_ascii_digit());
    let is_text = value.is_empty() || value.starts_with([':', '/', '\\']) || is_number;
    (is_known && !value.is_empty() || !is_text).then_some((key, value, word.len()))
}
