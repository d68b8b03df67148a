//! Limits of text from users and agents, and truncation to one line.

/// Maximum size of one message, note, plan or question.
pub const TEXT_MAX_BYTES: usize = 1_000_000;
/// Maximum size of the description of a task. It is small because every status query reads it.
pub const TASK_TEXT_MAX_BYTES: usize = 64 * 1024;

/// Why a text was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub enum BadText {
    /// The text has only white space.
    #[error("the text is empty")]
    Empty,
    /// The text has too many bytes.
    #[error("{bytes} bytes exceed the limit of {max} bytes")]
    TooLong { bytes: usize, max: usize },
    /// The text has too many characters.
    #[error("{chars} characters exceed the limit of {max} characters")]
    TooMany { chars: usize, max: usize },
    /// The text contains NUL, which not every database can store.
    #[error("the text contains a NUL byte")]
    Nul,
}

/// Returns the text unchanged if it is not empty and has at most `max_bytes`.
///
/// # Errors
/// If it is empty, too long or contains NUL.
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

/// The first line of a text, truncated to `max_chars` characters. `…` marks omitted text.
pub fn one_line(text: &str, max_chars: usize) -> String {
    let trimmed = text.trim();
    let line = trimmed.lines().next().unwrap_or("");
    let mut short: String = line.chars().take(max_chars).collect();
    if short.len() < trimmed.len() {
        short.push('…');
    }
    short
}

/// A title made from a message: its first line without Markdown marks, cut between two words.
/// `…` marks omitted text.
pub fn title_line(text: &str, max_chars: usize) -> String {
    let trimmed = text.trim();
    let line = trimmed.lines().next().unwrap_or("");
    let bare =
        line.trim_start_matches(['#', '>', '-', '*', ' ']).replace("**", "").replace('`', "");
    let bare = bare.trim();
    if bare.is_empty() {
        return one_line(text, max_chars);
    }
    let mut title: String = bare.chars().take(max_chars).collect();
    let is_cut = title.len() < bare.len();
    if let Some(space) = title.rfind(' ').filter(|_| is_cut)
        && space * 2 > title.len()
    {
        title.truncate(space);
    }
    if is_cut || line.len() < trimmed.len() {
        title.push('…');
    }
    title
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_has_no_markdown_marks_and_ends_between_words() {
        assert_eq!(title_line("hello", 80), "hello");
        assert_eq!(
            title_line("## Fix the **retry** loop in `main.rs`", 80),
            "Fix the retry loop in main.rs"
        );
        assert_eq!(title_line("first\nsecond", 80), "first…");
        assert_eq!(title_line("one two three four", 15), "one two three…");
        assert_eq!(title_line("aaaaaaaaaaaaaaaa bb", 10), "aaaaaaaaaa…");
        assert_eq!(title_line("```\ncode", 80), "```…");
        assert_eq!(title_line("", 80), "");
    }

    #[test]
    fn invalid_texts_have_specific_errors() {
        assert_eq!(check(" \n\t", 10), Err(BadText::Empty));
        assert_eq!(check("a\0b", 10), Err(BadText::Nul));
        assert_eq!(check("0123456789a", 10), Err(BadText::TooLong { bytes: 11, max: 10 }));
        assert_eq!(check("0123456789", 10), Ok("0123456789"));
    }

    #[test]
    fn a_truncated_line_ends_with_an_ellipsis() {
        assert_eq!(one_line("short", 10), "short");
        assert_eq!(one_line("first\nsecond", 10), "first…");
        assert_eq!(one_line("ééééé", 3), "ééé…");
    }
}
