//! The lines of a Markdown text that grows at its end, such as a streamed answer. Blocks that can
//! no longer change are rendered once, so the cost of an update does not grow with the text.
//!
//! The text is split into blocks before it is parsed: a block ends at a blank line that is followed
//! by a line without indentation, and at a code fence. A text has the same lines whether it came at
//! once or in pieces.

use super::highlight::Highlighter;
use super::wrap::wrap_columns;
use super::{FAINT, Line, Span, WIDTH_MIN, prose, visible};

/// A block is cut at the next line after this size, so that a text without blank lines stays cheap.
const BLOCK_MAX_BYTES: usize = 8 << 10;
/// Columns by which code is indented.
const CODE_INDENT: usize = 2;

/// Markdown text as lines.
#[derive(Default)]
pub(crate) struct GrowingText {
    width: usize,
    /// Bytes of the text that are rendered for good.
    done: usize,
    /// Lines of these bytes.
    lines: Vec<Line>,
    /// Number of `lines`; the ones after it belong to the unfinished rest.
    lines_done: usize,
    fence: Option<Fence>,
}

/// An open code fence.
struct Fence {
    marker: String,
    /// Spaces before the fence, which are removed from its lines.
    indent: usize,
    highlighter: Highlighter,
}

impl GrowingText {
    /// Brings the lines up to date. The text begins with the text of the last call, or the width
    /// has changed.
    pub(crate) fn update(&mut self, text: &str, width: usize) {
        let width = width.max(WIDTH_MIN);
        if self.width != width || text.len() < self.done {
            *self = Self { width, ..Self::default() };
        }
        self.lines.truncate(self.lines_done);
        self.render_finished(text);
        self.lines_done = self.lines.len();
        self.render_rest(text);
    }

    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines
    }

    #[allow(dead_code, reason = "used by `render`")]
    pub(crate) fn into_lines(self) -> Vec<Line> {
        self.lines
    }

    /// Renders complete blocks, and complete lines of code.
    fn render_finished(&mut self, text: &str) {
        loop {
            let rest = &text[self.done..];
            let step = match &mut self.fence {
                Some(_) => self.code_line(rest),
                None => self.prose_block(rest),
            };
            match step {
                Some(bytes) => self.done += bytes,
                None => return,
            }
        }
    }

    /// Renders one complete line inside of a fence. Returns its size.
    fn code_line(&mut self, rest: &str) -> Option<usize> {
        let line = &rest[..rest.find('\n')?];
        let fence = self.fence.as_mut()?;
        if closes(fence, line) {
            self.fence = None;
        } else {
            let lines = code_lines(fence, line, self.width);
            self.lines.extend(lines);
        }
        Some(line.len() + 1)
    }

    /// Renders the first block if its end is known, and opens the fence that ends it. Returns the
    /// size of both.
    fn prose_block(&mut self, rest: &str) -> Option<usize> {
        let (mut at, mut blank) = (0, false);
        while let Some(length) = rest[at..].find('\n') {
            let line = &rest[at..at + length];
            if let Some(fence) = opened_fence(line) {
                let language = fence_language(line).to_owned();
                self.push_prose(&rest[..at]);
                self.gap();
                if !language.is_empty() {
                    let indent = " ".repeat(CODE_INDENT + fence.indent);
                    let label = visible(&language).into_owned();
                    self.lines.push(vec![Span::new(indent + &label, FAINT)]);
                }
                self.fence = Some(fence);
                return Some(at + length + 1);
            }
            let is_blank = line.trim().is_empty();
            let begins = blank && !is_blank && !line.starts_with([' ', '\t']);
            if (begins && at > 0) || at > BLOCK_MAX_BYTES {
                self.push_prose(&rest[..at]);
                return Some(at);
            }
            blank = is_blank;
            at += length + 1;
        }
        None
    }

    /// Renders what may still change.
    fn render_rest(&mut self, text: &str) {
        let rest = &text[self.done..];
        let Some(fence) = &mut self.fence else {
            // A last line that may become a fence is shown when it is complete.
            let begins_fence = rest.rfind('\n').map_or(rest, |at| &rest[at + 1..]);
            let shown = match opened_fence(begins_fence) {
                Some(_) => &rest[..rest.len() - begins_fence.len()],
                None => rest,
            };
            return self.push_prose(shown);
        };
        if !rest.is_empty() && !closes(fence, rest) {
            // The state of the highlighter must not change with an incomplete line.
            let mut preview = Highlighter::new("");
            let line = visible(without_indent(rest, fence.indent)).into_owned();
            let spans = preview.line(&line);
            self.lines.extend(indented(spans, fence.indent, self.width));
        }
    }

    fn push_prose(&mut self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        self.gap();
        self.lines.extend(prose::render(&visible(text), self.width));
    }

    /// A blank line before the next block.
    fn gap(&mut self) {
        if self.lines.last().is_some_and(|line| !line.is_empty()) {
            self.lines.push(Line::new());
        }
    }
}

/// The fence that a line opens.
fn opened_fence(line: &str) -> Option<Fence> {
    let content = line.trim_start_matches(' ');
    let indent = line.len() - content.len();
    let mark = content.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = content.chars().take_while(|c| *c == mark).count();
    let info = content[length..].trim();
    if length < 3 || indent > 12 || (mark == '`' && info.contains('`')) {
        return None;
    }
    let marker = content[..length].to_owned();
    Some(Fence { marker, indent, highlighter: Highlighter::new(fence_language(line)) })
}

/// The first word after the marker of a fence.
fn fence_language(line: &str) -> &str {
    let info = line.trim().trim_start_matches(['`', '~']).trim();
    info.split([' ', ',', '{']).next().unwrap_or("")
}

fn closes(fence: &Fence, line: &str) -> bool {
    let content = line.trim();
    content.len() >= fence.marker.len()
        && content.starts_with(&fence.marker)
        && content.trim_start_matches(['`', '~']).is_empty()
}

fn code_lines(fence: &mut Fence, line: &str, width: usize) -> Vec<Line> {
    let line = visible(without_indent(line.trim_end_matches('\r'), fence.indent)).into_owned();
    let spans = fence.highlighter.line(&line);
    indented(spans, fence.indent, width)
}

fn indented(spans: Vec<Span>, indent: usize, width: usize) -> Vec<Line> {
    let indent = CODE_INDENT + indent.min(width / 4);
    let cut = wrap_columns(&spans, width.saturating_sub(indent));
    let with_indent = |mut line: Line| {
        line.retain(|span| !span.text.is_empty());
        if !line.is_empty() {
            line.insert(0, Span::plain(" ".repeat(indent)));
        }
        line
    };
    cut.into_iter().map(with_indent).collect()
}

fn without_indent(line: &str, indent: usize) -> &str {
    let spaces = line.len() - line.trim_start_matches(' ').len();
    &line[spaces.min(indent)..]
}

#[cfg(test)]
mod tests {
    use super::super::{plain_line, render};
    use super::*;

    const TEXT: &str = "# Title\n\nSome *text* that is long enough to be wrapped at forty \
        columns.\n\n- one\n- two\n  - inner\n\n```rust\nfn main() {\n    /* a\n    b */\n}\n```\n\
        After the code.\n\n1. first\n   ```sh\n   ls -l\n   ```\n2. second\n\n\
        | a | b |\n|---|---|\n| 1 | 2 |\n\nEnd 日本.";

    fn plain(lines: &[Line]) -> String {
        lines.iter().map(|line| plain_line(line) + "\n").collect()
    }

    #[test]
    fn a_streamed_text_has_the_lines_of_the_whole_text() {
        let whole = render(TEXT, 40);
        let mut growing = GrowingText::default();
        let mut at = 0;
        while at < TEXT.len() {
            at = (at + 3).min(TEXT.len());
            while !TEXT.is_char_boundary(at) {
                at += 1;
            }
            growing.update(&TEXT[..at], 40);
        }
        assert_eq!(plain(growing.lines()), plain(&whole));
        assert_eq!(growing.lines(), whole);
        assert!(whole.iter().all(|line| super::super::wrap::line_width(line) <= 40));
    }

    #[test]
    fn finished_blocks_are_not_rendered_again() {
        let mut growing = GrowingText::default();
        growing.update("one\n\ntwo\n\nthr", 40);
        let done = growing.done;
        assert_eq!(done, "one\n\ntwo\n\n".len() - "two\n\n".len(), "two may go on");
        growing.update("one\n\ntwo\n\nthree\n\nfour\n", 40);
        assert!(growing.done > done);
        let long = "x\n".repeat(20_000);
        growing.update(&long, 40);
        assert!(long.len() - growing.done <= 2 * BLOCK_MAX_BYTES, "the rest stays small");
    }

    #[test]
    fn code_is_indented_and_keeps_its_spaces() {
        let lines = render("Look:\n```\n  two spaces\n\n    four\n```\nDone.", 40);
        assert_eq!(plain(&lines), "Look:\n\n    two spaces\n\n      four\n\nDone.\n");
    }

    #[test]
    fn an_open_fence_shows_its_lines_while_they_come() {
        let mut growing = GrowingText::default();
        growing.update("```py\nprint(", 40);
        assert_eq!(plain(growing.lines()), "  py\n  print(\n");
        growing.update("```py\nprint(1)\n``", 40);
        assert_eq!(plain(growing.lines()), "  py\n  print(1)\n  ``\n");
        growing.update("```py\nprint(1)\n```", 40);
        assert_eq!(plain(growing.lines()), "  py\n  print(1)\n");
    }

    #[test]
    fn escape_sequences_do_not_survive() {
        for text in ["\u{1b}[31mred", "```\n\u{1b}]52;c;eA==\u{7}\n```", "| \u{1b}[2J |\n|---|\n"] {
            let shown = plain(&render(text, 40));
            assert!(shown.contains('␛') && !shown.contains('\u{1b}'), "{shown:?}");
        }
    }
}
