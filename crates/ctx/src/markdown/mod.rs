//! Markdown as styled lines for a terminal. `ctx chat` draws the lines, other verbs print them with
//! [`print_line`].
//!
//! | file | owns |
//! |---|---|
//! | `growing_text` | lines of a text that grows: blocks, code fences, what need not be rendered again |
//! | `prose` | everything but code fences, by a CommonMark parser |
//! | `table` | tables, fitted to the width |
//! | `highlight` | colours of source code |
//! | `wrap` | line breaks and display width |
//! | `visible` | control characters of a text, made visible |
//!
//! No escape sequence of a text reaches the terminal: every text passes [`visible()`] first.

mod growing_text;
mod highlight;
mod prose;
mod table;
mod visible;
mod wrap;

use anstyle::{AnsiColor, Style};

pub(crate) use growing_text::GrowingText;
pub(crate) use highlight::Highlighter;
pub(crate) use visible::visible;
pub(crate) use wrap::{cut, text_width, wrap_words};

/// A part of a line with one style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) text: String,
    pub(crate) style: Style,
}

impl Span {
    pub(crate) fn new(text: impl Into<String>, style: Style) -> Self {
        Self { text: text.into(), style }
    }

    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self::new(text, Style::new())
    }
}

pub(crate) type Line = Vec<Span>;

const HEADING: Style = AnsiColor::Cyan.on_default().bold();
const CODE: Style = AnsiColor::Yellow.on_default();
const LINK: Style = AnsiColor::Blue.on_default().underline();
const FAINT: Style = Style::new().dimmed();
const MARKER: Style = AnsiColor::Cyan.on_default();

/// The narrowest text; a narrower terminal cuts lines off.
const WIDTH_MIN: usize = 10;

/// Renders Markdown for a width in columns.
#[allow(dead_code, reason = "for verbs that print conversations")]
pub(crate) fn render(text: &str, width: usize) -> Vec<Line> {
    let mut growing = GrowingText::default();
    growing.update(text, width);
    growing.into_lines()
}

/// A line with the escape sequences of its styles.
#[allow(dead_code, reason = "for verbs that print conversations")]
pub(crate) fn print_line(line: &[Span]) -> String {
    line.iter().map(|span| format!("{}{}{:#}", span.style, span.text, span.style)).collect()
}

/// A line without styles.
pub(crate) fn plain_line(line: &[Span]) -> String {
    line.iter().map(|span| span.text.as_str()).collect()
}
