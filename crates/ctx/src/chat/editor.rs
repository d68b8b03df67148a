//! The message editor: text of several lines, the cursor, and the messages that were sent before.
//! Pure: a key changes it, nothing else.

use std::ops::Range;

use ctx_engine::core::text_limits::TEXT_MAX_BYTES;
use unicode_segmentation::UnicodeSegmentation;

use crate::markdown::{text_width, visible};

/// Messages that the arrow keys bring back.
const HISTORY_MAX: usize = 200;

/// A movement of the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Move {
    Left,
    Right,
    WordLeft,
    WordRight,
    LineStart,
    LineEnd,
    Up,
    Down,
}

/// What to delete, from the cursor on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delete {
    Before,
    After,
    WordBefore,
    ToLineStart,
    ToLineEnd,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Editor {
    text: String,
    /// Byte offset, always at the start of a grapheme.
    cursor: usize,
    /// What was deleted last, for Ctrl-Y.
    deleted: String,
    /// Sent messages, oldest first.
    history: Vec<String>,
    /// The message of the history that is shown, and the text that was written before.
    recalled: Option<(usize, String)>,
}

/// A line of the editor as it is shown.
pub(super) struct EditorLine {
    pub(super) shown: String,
    range: Range<usize>,
}

impl Editor {
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Replaces the text and puts the cursor at its end.
    pub(super) fn set(&mut self, text: String) {
        self.cursor = text.len();
        self.text = text;
        self.recalled = None;
    }

    /// Takes the text and remembers it.
    pub(super) fn take(&mut self) -> String {
        let text = std::mem::take(&mut self.text);
        self.cursor = 0;
        self.recalled = None;
        self.remember(&text);
        text
    }

    /// Adds a message to the history.
    pub(super) fn remember(&mut self, text: &str) {
        if text.trim().is_empty() || self.history.last().is_some_and(|last| last == text) {
            return;
        }
        self.history.push(text.to_owned());
        if self.history.len() > HISTORY_MAX {
            self.history.remove(0);
        }
    }

    pub(super) fn forget_history(&mut self) {
        self.history.clear();
        self.recalled = None;
    }

    /// Inserts text at the cursor. Line breaks of other systems become `\n`, and NUL is dropped: no
    /// message may contain it. Returns `false` if the message would be too long.
    pub(super) fn insert(&mut self, text: &str) -> bool {
        let text = text.replace("\r\n", "\n").replace('\r', "\n").replace('\0', "");
        if self.text.len() + text.len() > TEXT_MAX_BYTES {
            return false;
        }
        self.text.insert_str(self.cursor, &text);
        self.cursor += text.len();
        true
    }

    /// Replaces a part of the text and puts the cursor behind it.
    pub(super) fn replace(&mut self, range: Range<usize>, text: &str) {
        self.text.replace_range(range.clone(), text);
        self.cursor = range.start + text.len();
    }

    pub(super) fn paste_deleted(&mut self) {
        let deleted = self.deleted.clone();
        self.insert(&deleted);
    }

    pub(super) fn delete(&mut self, what: Delete) {
        let range = match what {
            Delete::Before => self.before(self.cursor)..self.cursor,
            Delete::After => self.cursor..self.after(self.cursor),
            Delete::WordBefore => self.word_before()..self.cursor,
            Delete::ToLineStart => {
                let start = self.line_start();
                // At the start of a line, the line break before it.
                if start == self.cursor { self.before(start)..start } else { start..self.cursor }
            }
            Delete::ToLineEnd => {
                let end = self.line_end();
                if end == self.cursor { end..self.after(end) } else { self.cursor..end }
            }
        };
        if !matches!(what, Delete::Before | Delete::After) && !range.is_empty() {
            self.deleted = self.text[range.clone()].to_owned();
        }
        self.replace(range, "");
    }

    /// Moves the cursor. Up on the first line and Down on the last one walk through the history.
    pub(super) fn move_cursor(&mut self, to: Move, width: usize) {
        match to {
            Move::Left => self.cursor = self.before(self.cursor),
            Move::Right => self.cursor = self.after(self.cursor),
            Move::WordLeft => self.cursor = self.word_before(),
            Move::WordRight => self.cursor = self.word_after(),
            Move::LineStart => self.cursor = self.line_start(),
            Move::LineEnd => self.cursor = self.line_end(),
            Move::Up | Move::Down => self.move_line(to == Move::Up, width),
        }
    }

    fn move_line(&mut self, up: bool, width: usize) {
        let lines = self.lines(width);
        let (row, column) = self.position(&lines);
        let target = if up { row.checked_sub(1) } else { Some(row + 1) };
        match target.and_then(|row| lines.get(row)) {
            Some(line) => self.cursor = self.at_column(line.range.clone(), column),
            None => self.recall(up),
        }
    }

    fn recall(&mut self, older: bool) {
        let at = self.recalled.as_ref().map_or(self.history.len(), |(at, _)| *at);
        let next = if older { at.checked_sub(1) } else { Some(at + 1) };
        let Some(next) = next.filter(|next| *next <= self.history.len()) else { return };
        let written = match self.recalled.take() {
            Some((_, written)) => written,
            None if older => self.text.clone(),
            None => return,
        };
        match self.history.get(next) {
            Some(text) => {
                self.text = text.clone();
                self.recalled = Some((next, written));
            }
            None => self.text = written,
        }
        self.cursor = self.text.len();
    }

    /// The lines as they are shown in a width.
    pub(super) fn lines(&self, width: usize) -> Vec<EditorLine> {
        let width = width.max(2);
        let mut lines = Vec::new();
        let mut start = 0;
        for line in self.text.split('\n') {
            // The usual case, and fast for large pastes.
            if line.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
                for from in (0..line.len().max(1)).step_by(width) {
                    let range = from..(from + width).min(line.len());
                    let shown = line[range.clone()].to_owned();
                    let range = start + range.start..start + range.end;
                    lines.push(EditorLine { shown, range });
                }
                start += line.len() + 1;
                continue;
            }
            let (mut shown, mut columns, mut from) = (String::new(), 0, start);
            for (at, grapheme) in line.grapheme_indices(true) {
                let picture = visible(grapheme);
                let taken = text_width(&picture);
                if columns + taken > width {
                    let range = from..start + at;
                    lines.push(EditorLine { shown: std::mem::take(&mut shown), range });
                    (columns, from) = (0, start + at);
                }
                shown.push_str(&picture);
                columns += taken;
            }
            lines.push(EditorLine { shown, range: from..start + line.len() });
            start += line.len() + 1;
        }
        lines
    }

    /// Row and column of the cursor.
    pub(super) fn position(&self, lines: &[EditorLine]) -> (usize, usize) {
        let row = lines.iter().rposition(|line| line.range.start <= self.cursor).unwrap_or(0);
        let start = lines.get(row).map_or(0, |line| line.range.start);
        (row, text_width(&visible(&self.text[start..self.cursor])))
    }

    fn at_column(&self, range: Range<usize>, wanted: usize) -> usize {
        let mut columns = 0;
        for (at, grapheme) in self.text[range.clone()].grapheme_indices(true) {
            if columns >= wanted {
                return range.start + at;
            }
            columns += text_width(&visible(grapheme));
        }
        range.end
    }

    fn before(&self, at: usize) -> usize {
        self.text[..at].grapheme_indices(true).next_back().map_or(0, |(start, _)| start)
    }

    fn after(&self, at: usize) -> usize {
        let next = self.text[at..].graphemes(true).next();
        next.map_or(at, |grapheme| at + grapheme.len())
    }

    fn word_before(&self) -> usize {
        let text = self.text[..self.cursor].trim_end();
        text.rfind(char::is_whitespace).map_or(0, |at| self.after(at))
    }

    fn word_after(&self) -> usize {
        let rest = &self.text[self.cursor..];
        let skipped = rest.len() - rest.trim_start().len();
        let end = rest[skipped..].find(char::is_whitespace).unwrap_or(rest.len() - skipped);
        self.cursor + skipped + end
    }

    fn line_start(&self) -> usize {
        self.text[..self.cursor].rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        self.text[self.cursor..].find('\n').map_or(self.text.len(), |at| self.cursor + at)
    }

    /// The word before the cursor, up to the cursor: for completions.
    pub(super) fn word(&self) -> (Range<usize>, &str) {
        let start = self.text[..self.cursor]
            .rfind(char::is_whitespace)
            .map_or(0, |at| at + self.text[at..].chars().next().map_or(1, char::len_utf8));
        (start..self.cursor, &self.text[start..self.cursor])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str) -> Editor {
        let mut editor = Editor::default();
        editor.insert(text);
        editor
    }

    #[test]
    fn deletions_and_movements_respect_graphemes_words_and_lines() {
        let table: [(&str, Delete, &str); 8] = [
            ("ab", Delete::Before, "a"),
            ("é👩‍👩‍👧", Delete::Before, "é"),
            ("one two ", Delete::WordBefore, "one "),
            ("one\ntwo", Delete::ToLineStart, "one\n"),
            ("one\n", Delete::ToLineStart, "one"),
            ("one", Delete::ToLineEnd, "one"),
            ("日本", Delete::Before, "日"),
            ("", Delete::WordBefore, ""),
        ];
        for (text, what, expected) in table {
            let mut editor = with(text);
            editor.delete(what);
            assert_eq!(editor.text(), expected, "{text:?} {what:?}");
        }
        let mut editor = with("one two");
        editor.move_cursor(Move::WordLeft, 80);
        editor.delete(Delete::ToLineEnd);
        assert_eq!(editor.text(), "one ");
        editor.paste_deleted();
        assert_eq!(editor.text(), "one two", "Ctrl-Y brings it back");
    }

    #[test]
    fn arrows_move_between_lines_and_then_through_the_history() {
        let mut editor = Editor::default();
        editor.remember("first");
        editor.remember("second");
        editor.insert("draft\nline");
        editor.move_cursor(Move::Up, 80);
        assert_eq!(editor.cursor, 4, "the line above");
        for expected in ["second", "first", "first"] {
            editor.move_cursor(Move::Up, 80);
            assert_eq!(editor.text(), expected);
        }
        for expected in ["second", "draft\nline", "draft\nline"] {
            editor.move_cursor(Move::Down, 80);
            assert_eq!(editor.text(), expected, "the draft is not lost");
        }
    }

    #[test]
    fn long_lines_are_wrapped_and_the_cursor_is_found() {
        let editor = with("日本語abc");
        let lines = editor.lines(4);
        let shown: Vec<&str> = lines.iter().map(|line| line.shown.as_str()).collect();
        assert_eq!(shown, ["日本", "語ab", "c"]);
        assert_eq!(editor.position(&lines), (2, 1));
        let editor = with("a\u{1b}[2J\tb");
        assert_eq!(editor.lines(80)[0].shown, "a␛[2J    b");
    }

    #[test]
    fn pasted_text_has_normal_line_breaks_and_a_limit() {
        let editor = with("a\r\nb\rc\0d");
        assert_eq!(editor.text(), "a\nb\ncd");
        let mut editor = with("x");
        assert!(!editor.insert(&"y".repeat(TEXT_MAX_BYTES)));
        assert_eq!(editor.text(), "x", "nothing was inserted");
    }
}
