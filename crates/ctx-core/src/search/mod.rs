//! Search: the query language, the words of a text, and what a hit is. An index selects documents;
//! the functions here decide which of them match and how well, so that every database gives the
//! same answers.
//!
//! | file | owns |
//! |---|---|
//! | `tokens` | the words of a text |
//! | `query` | the query language |
//! | `document` | what is searched of a turn or a task, and its words in the index |
//! | `index_query` | what an index is asked for |
//! | `matching` | whether and how well a document matches; snippets |
//! | `spelling` | words that are spelt almost alike |
//! | `hit` | a search result |

mod document;
mod hit;
mod index_query;
mod matching;
mod query;
mod spelling;
mod tokens;

#[cfg(test)]
mod tests;

pub use document::{
    DOCUMENT_BYTES_MAX, Document, OUTPUT_BYTES_MAX, Passage, Weight, clip_output, is_mark,
    project_mark, session_mark,
};
pub use hit::{Hit, HitKind, Page, Segment};
pub use index_query::{IndexQuery, IndexTerm};
pub use matching::{Match, match_document, score, snippet};
pub use query::{Clause, Filter, FilterKey, OPEN, Pattern, Query, QueryToken};
pub use spelling::{CORRECTED_CHARS_MIN, beginnings, distance, errors_max};
