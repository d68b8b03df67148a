//! Text from people and agents: its bounds, and how it is clipped for a line.

/// The most text one message, note, plan or question may hold.
pub const TEXT_MAX_BYTES: usize = 1_000_000;
/// The most text that describes a task: it is read with every status.
pub const TASK_TEXT_MAX_BYTES: usize = 64 * 1024;

/// Why a text was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadText {
    /// Nothing but white space.
    #[error("it is empty")]
    Empty,
    /// Past its bound.
    #[error("it has {bytes} bytes, and at most {max} are taken")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The bound.
        max: usize,
    },
    /// Past its bound, counted in characters.
    #[error("it has {chars} characters, and at most {max} are taken")]
    TooMany {
        /// Its length.
        chars: usize,
        /// The bound.
        max: usize,
    },
    /// A NUL cannot be stored as text by every database.
    #[error("it holds a NUL byte")]
    Nul,
}

/// Takes a text as it is, if it says something and keeps within `max_bytes`.
///
/// # Errors
/// If it is empty, too long or holds a NUL.
pub fn check(text: &str, max_bytes: usize) -> Result<&str, BadText> {
    if text.len() > max_bytes {
        return Err(BadText::TooLong { bytes: text.len(), max: max_bytes });
    }
    if text.contains('\0') {
        return Err(BadText::Nul);
    }
    if text.trim().is_empty() {
        return Err(BadText::Empty);
    }
    Ok(text)
}

/// The first line's first `max_chars` characters, with `…` where something was left out.
pub fn one_line(text: &str, max_chars: usize) -> String {
    let trimmed = text.trim();
    let line = trimmed.lines().next().unwrap_or("");
    let mut short: String = line.chars().take(max_chars).collect();
    if short.len() < trimmed.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_texts_are_told_apart() {
        assert_eq!(check(" \n\t", 10), Err(BadText::Empty));
        assert_eq!(check("a\0b", 10), Err(BadText::Nul));
        assert_eq!(check("0123456789a", 10), Err(BadText::TooLong { bytes: 11, max: 10 }));
        assert_eq!(check("0123456789", 10), Ok("0123456789"));
    }

    #[test]
    fn a_line_says_that_it_was_clipped() {
        assert_eq!(one_line("short", 10), "short");
        assert_eq!(one_line("first\nsecond", 10), "first…");
        assert_eq!(one_line("ééééé", 3), "ééé…");
    }
}
