//! Display width and line breaks of styled text.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::{Line, Span};

/// Columns that a text takes.
pub(crate) fn text_width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { UnicodeWidthStr::width(text) }
}

/// The beginning of a text that takes at most `width` columns; `…` marks what is left out.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text_width(text) <= width {
        return text.to_owned();
    }
    let (mut short, mut columns) = (String::new(), 1);
    for grapheme in text.graphemes(true) {
        columns += text_width(grapheme);
        if columns > width {
            break;
        }
        short.push_str(grapheme);
    }
    if width > 0 {
        short.push('…');
    }
    short
}

pub(super) fn line_width(line: &[Span]) -> usize {
    line.iter().map(|span| text_width(&span.text)).sum()
}

/// Breaks styled text at spaces and line breaks, so that no line is wider than `width`. A word that
/// is wider than a line is cut.
pub(crate) fn wrap_words(spans: &[Span], width: usize) -> Vec<Line> {
    let mut out = Wrapper { width: width.max(1), ..Wrapper::default() };
    for span in spans {
        let mut rest = span.text.as_str();
        while let Some(at) = rest.find([' ', '\n']) {
            let (word, after) = rest.split_at(at);
            out.push_word(word, span);
            out.end_word();
            if after.starts_with('\n') {
                out.end_line();
            } else {
                out.space(span);
            }
            rest = &after[1..];
        }
        out.push_word(rest, span);
    }
    out.end_word();
    out.end_line();
    out.lines
}

/// Cuts preformatted text into lines of at most `width` columns.
pub(super) fn wrap_columns(spans: &[Span], width: usize) -> Vec<Line> {
    if line_width(spans) <= width {
        return vec![spans.to_vec()];
    }
    let mut out = Wrapper { width: width.max(1), ..Wrapper::default() };
    for span in spans {
        out.push_cut(&span.text, span);
    }
    out.end_line();
    out.lines
}

#[derive(Default)]
struct Wrapper {
    width: usize,
    lines: Vec<Line>,
    line: Line,
    line_width: usize,
    /// The spaces before the next word.
    gap: Vec<Span>,
    word: Vec<Span>,
    word_width: usize,
}

impl Wrapper {
    fn push_word(&mut self, text: &str, span: &Span) {
        if !text.is_empty() {
            self.word_width += text_width(text);
            push(&mut self.word, text, span);
        }
    }

    fn space(&mut self, span: &Span) {
        push(&mut self.gap, " ", span);
    }

    /// Puts the word on the line, or on the next one.
    fn end_word(&mut self) {
        if self.word.is_empty() {
            return;
        }
        let (word, gap) = (std::mem::take(&mut self.word), std::mem::take(&mut self.gap));
        let (word_width, gap_width) = (std::mem::take(&mut self.word_width), line_width(&gap));
        if self.line_width + gap_width + word_width > self.width && self.line_width > 0 {
            self.break_line();
        } else {
            for span in &gap {
                push(&mut self.line, &span.text, span);
            }
            self.line_width += gap_width;
        }
        for span in &word {
            if word_width > self.width {
                self.push_cut(&span.text, span);
            } else {
                push(&mut self.line, &span.text, span);
                self.line_width += text_width(&span.text);
            }
        }
    }

    /// Appends text and breaks the line wherever it is full.
    fn push_cut(&mut self, text: &str, span: &Span) {
        for grapheme in text.graphemes(true) {
            let columns = text_width(grapheme);
            if self.line_width + columns > self.width && self.line_width > 0 {
                self.break_line();
            }
            push(&mut self.line, grapheme, span);
            self.line_width += columns;
        }
    }

    fn break_line(&mut self) {
        self.lines.push(std::mem::take(&mut self.line));
        self.line_width = 0;
    }

    fn end_line(&mut self) {
        self.gap.clear();
        self.break_line();
    }
}

/// Appends text to the last span if it has the same style.
fn push(line: &mut Line, text: &str, span: &Span) {
    match line.last_mut() {
        Some(last) if last.style == span.style => last.text.push_str(text),
        _ => line.push(Span::new(text, span.style)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::plain_line;
    use super::*;

    #[test]
    fn lines_break_at_spaces_and_never_exceed_the_width() {
        let table = [
            ("one two three", 7, vec!["one two", "three"]),
            ("one\ntwo", 20, vec!["one", "two"]),
            ("abcdefghij", 4, vec!["abcd", "efgh", "ij"]),
            ("日本語 日本語", 6, vec!["日本語", "日本語"]),
            ("", 5, vec![""]),
            ("a  b", 10, vec!["a  b"]),
        ];
        for (text, width, expected) in table {
            let lines = wrap_words(&[Span::plain(text)], width);
            let plain: Vec<String> = lines.iter().map(|line| plain_line(line)).collect();
            assert_eq!(plain, expected, "{text:?} in {width}");
        }
    }

    #[test]
    fn a_word_of_several_styles_is_not_broken() {
        let bold = anstyle::Style::new().bold();
        let spans = [Span::plain("one "), Span::new("bold", bold), Span::plain("er two")];
        let lines = wrap_words(&spans, 10);
        let plain: Vec<String> = lines.iter().map(|line| plain_line(line)).collect();
        assert_eq!(plain, ["one bolder", "two"]);
        assert_eq!(lines[0][1].style, bold);
    }
}
