//! What an index is asked for: a superset of the documents that match a query.

use super::document::{mark, path_filter, project_mark, role_mark, session_mark};
use super::query::{FilterKey, Pattern, Query, QueryToken};

/// A word of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexTerm {
    /// A word of letters and digits, or the mark of a filter.
    pub text: String,
    /// Whether every word that begins with it is meant.
    pub prefix: bool,
}

impl IndexTerm {
    fn exact(text: String) -> Self {
        Self { text, prefix: false }
    }
}

/// Selects documents.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IndexQuery {
    /// Of each list, a document has at least one word.
    pub all: Vec<Vec<IndexTerm>>,
    /// A document has none of these.
    pub none: Vec<IndexTerm>,
}

impl IndexQuery {
    /// What an index is asked for. `sessions` are the rows of the sessions that the caller admits,
    /// if not all of them.
    pub fn new(query: &Query, sessions: Option<&[i64]>) -> Self {
        let mut index = Self::default();
        let has_role = query.filters.iter().any(|filter| filter.key == FilterKey::Role);
        for clause in &query.clauses {
            let Pattern::Words(words) = &clause.pattern else { continue };
            let term =
                |word: &QueryToken| IndexTerm { text: word.text.clone(), prefix: word.prefix };
            match (clause.negated, words.as_slice()) {
                (false, words) => index.all.extend(words.iter().map(|word| vec![term(word)])),
                (true, [word]) if !has_role => index.none.push(term(word)),
                (true, _) => {}
            }
        }
        for filter in query.filters.iter().filter(|filter| !filter.negated) {
            let mark_of = |value: &String| match filter.key {
                FilterKey::Role => Some(role_mark(value)),
                FilterKey::Tool => Some(mark('t', value)),
                FilterKey::File => Some(mark('f', path_filter(value))),
                FilterKey::Project => Some(project_mark(value)),
                _ => None,
            };
            let marks: Option<Vec<String>> = filter.values.iter().map(mark_of).collect();
            let terms = marks.unwrap_or_default().into_iter().map(IndexTerm::exact);
            index.add_alternatives(terms.collect());
        }
        if let Some(rows) = sessions {
            let marks = rows.iter().map(|row| IndexTerm::exact(session_mark(*row)));
            index.all.push(marks.collect());
        }
        index
    }

    fn add_alternatives(&mut self, terms: Vec<IndexTerm>) {
        if !terms.is_empty() {
            self.all.push(terms);
        }
    }

    /// Whether no document can match.
    pub fn is_impossible(&self) -> bool {
        self.all.iter().any(Vec::is_empty)
    }
}
