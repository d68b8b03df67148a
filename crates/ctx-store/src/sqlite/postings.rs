//! The inverted index in `search.db`: FTS5 without positions.

use std::ops::RangeInclusive;

use ctx_core::search::{IndexQuery, IndexTerm, is_mark};
use rusqlite::{Connection, params};

use crate::Error;
use crate::relational::search::Postings;
use crate::relational::search_documents::Unit;

pub(crate) struct SqlitePostings<'c>(pub(crate) &'c Connection);

impl Postings for SqlitePostings<'_> {
    fn candidates(
        &self,
        query: &IndexQuery,
        before: i64,
        limit: usize,
    ) -> Result<Vec<(i64, Unit)>, Error> {
        if query.is_impossible() {
            return Ok(Vec::new());
        }
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, Unit::from_number(row.get(1)?)));
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let Some(expression) = expression(query) else {
            let sql = "SELECT id, unit FROM documents WHERE id < ?1 ORDER BY id DESC LIMIT ?2";
            let mut statement = self.0.prepare_cached(sql)?;
            let found = statement.query_map(params![before, limit], read)?;
            return Ok(found.collect::<Result<_, _>>()?);
        };
        let mut statement = self.0.prepare_cached(
            "SELECT d.id, d.unit FROM (SELECT rowid AS id FROM words WHERE words MATCH ?1
                 AND rowid < ?2 ORDER BY rowid DESC LIMIT ?3) w
             CROSS JOIN documents d ON d.id = w.id ORDER BY d.id DESC",
        )?;
        let found = statement.query_map(params![expression, before, limit], read)?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    fn words(&self, beginning: &str, chars: RangeInclusive<usize>) -> Result<Vec<String>, Error> {
        let mut statement = self.0.prepare_cached(
            "SELECT term FROM vocabulary WHERE term >= ?1 AND term < ?2
               AND length(term) BETWEEN ?3 AND ?4",
        )?;
        let end = format!("{beginning}\u{10FFFF}");
        let bounds = (*chars.start() as i64, *chars.end() as i64);
        let found = statement.query_map(params![beginning, end, bounds.0, bounds.1], |row| {
            row.get::<_, String>(0)
        })?;
        let words: Vec<String> = found.collect::<Result<_, _>>()?;
        Ok(words.into_iter().filter(|word| !is_mark(word)).collect())
    }
}

/// The query in the language of FTS5; `None` if it has no word.
fn expression(query: &IndexQuery) -> Option<String> {
    let lists: Vec<String> = query.all.iter().map(|terms| any_of(terms)).collect();
    if lists.is_empty() {
        return None;
    }
    let all = lists.join(" AND ");
    Some(match query.none.as_slice() {
        [] => all,
        none => format!("({all}) NOT {}", any_of(none)),
    })
}

/// Words contain letters and digits only, so they need no escapes.
fn any_of(terms: &[IndexTerm]) -> String {
    let term =
        |term: &IndexTerm| format!("\"{}\"{}", term.text, if term.prefix { "*" } else { "" });
    format!("({})", terms.iter().map(term).collect::<Vec<_>>().join(" OR "))
}
