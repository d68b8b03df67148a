//! The cursor of a search: where the next page begins, as an opaque text.

use std::fmt;

use ctx_core::time::Timestamp;

/// A place in the order of the hits of a query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cursor {
    /// Hash of the query that the cursor belongs to.
    query: u32,
    /// The block begins with the documents below this number.
    pub(super) before: i64,
    /// The time of the first page: scores and relative times refer to it.
    pub(super) now: Timestamp,
    /// Score and number of the last hit of the block that was shown.
    pub(super) after: Option<(f64, i64)>,
}

/// First character of a cursor.
const MARK: char = 'f';

impl Cursor {
    pub(super) fn first(query: &str, now: Timestamp) -> Self {
        Self { query: hash(query), before: i64::MAX, now, after: None }
    }

    /// Whether a hit follows the last one that was shown.
    pub(super) fn is_behind(&self, (score, number): (f64, i64)) -> bool {
        self.after.is_none_or(|(shown, last)| {
            score.total_cmp(&shown).then_with(|| number.cmp(&last)).is_lt()
        })
    }

    /// The cursor of a query; `None` if the text is none, or belongs to another query.
    pub(super) fn parse(text: &str, query: &str) -> Option<Self> {
        let digits = text.strip_prefix(MARK).filter(|digits| digits.is_ascii())?;
        let field = |n: usize| u64::from_str_radix(digits.get(16 * n..16 * (n + 1))?, 16).ok();
        let (of, after, last) = (u32::try_from(field(0)?).ok()?, field(3)?, field(4)?);
        let after = f64::from_bits(after);
        let cursor = Self {
            query: of,
            before: field(1)?.cast_signed(),
            now: Timestamp(field(2)?.cast_signed()),
            after: after.is_finite().then_some((after, last.cast_signed())),
        };
        (digits.len() == 80 && of == hash(query)).then_some(cursor)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (score, last) = self.after.unwrap_or((f64::INFINITY, 0));
        let (before, now) = (self.before.cast_unsigned(), self.now.0.cast_unsigned());
        write!(f, "{MARK}{:016x}{before:016x}{now:016x}", self.query)?;
        write!(f, "{:016x}{:016x}", score.to_bits(), last.cast_unsigned())
    }
}

/// FNV-1a.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811C_9DC5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_belongs_to_its_query() {
        let first = Cursor::first("retry", Timestamp(5));
        let later = Cursor { before: 77, after: Some((1.25, 80)), ..first };
        for cursor in [first, later] {
            let text = cursor.to_string();
            assert_eq!(Cursor::parse(&text, "retry"), Some(cursor));
            assert_eq!(Cursor::parse(&text, "retries"), None);
            for wrong in ["", "f", "nonsense", "f00", &text[1..], &format!("{text}0"), "fé"] {
                assert_eq!(Cursor::parse(wrong, "retry"), None, "{wrong}");
            }
        }
        assert!(later.is_behind((1.0, 99)) && later.is_behind((1.25, 79)));
        assert!(!later.is_behind((1.25, 80)) && !later.is_behind((2.0, 1)));
    }
}
