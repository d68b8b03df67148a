//! Breaks streamed text between words, so that a terminal does not break inside of them.
//!
//! The end of a word is not known before the next space arrives; until then the word is held back.
//! Code blocks are passed on as they are, so that they can be copied.

use unicode_segmentation::UnicodeSegmentation;

use crate::markdown::text_width;

/// Marks of a line that begins or ends a code block.
const FENCES: [&str; 2] = ["```", "~~~"];
/// Columns of a character that is a word of its own, as in Chinese and Japanese.
const WIDE: usize = 2;
/// A tab between words.
const TAB: &str = "    ";

#[derive(Debug, Default)]
pub(super) struct WordWrapper {
    /// Columns of the line that are printed.
    column: usize,
    /// Spaces before the held word.
    gap: String,
    /// The word whose end has not arrived.
    word: String,
    /// Whether a word of the line was printed.
    has_word: bool,
    /// Whether the line begins or ends a code block.
    is_fence: bool,
    in_code: bool,
}

impl WordWrapper {
    /// What is to be printed now that `text` has arrived.
    pub(super) fn push(&mut self, text: &str, width: usize) -> String {
        let mut out = String::with_capacity(text.len() + 1);
        for grapheme in text.graphemes(true) {
            match grapheme {
                "\n" => self.end_line(&mut out, width),
                " " => self.add_gap(&mut out, " ", width),
                "\t" if !self.is_code() => self.add_gap(&mut out, TAB, width),
                _ if text_width(grapheme) >= WIDE && !self.is_code() => {
                    self.end_word(&mut out, width);
                    self.word.push_str(grapheme);
                    self.end_word(&mut out, width);
                }
                _ => {
                    self.word.push_str(grapheme);
                    if text_width(&self.word) >= width {
                        self.end_word(&mut out, width);
                    }
                }
            }
        }
        out
    }

    /// The held word, which is printed although its end is not known.
    pub(super) fn take_held(&mut self, width: usize) -> String {
        let mut out = String::new();
        self.end_word(&mut out, width);
        out
    }

    fn is_code(&self) -> bool {
        self.in_code || self.is_fence
    }

    fn add_gap(&mut self, out: &mut String, gap: &str, width: usize) {
        self.end_word(out, width);
        self.gap.push_str(gap);
    }

    fn end_line(&mut self, out: &mut String, width: usize) {
        self.end_word(out, width);
        out.push('\n');
        let in_code = self.in_code != self.is_fence;
        *self = Self { in_code, ..Self::default() };
    }

    fn end_word(&mut self, out: &mut String, width: usize) {
        if self.word.is_empty() {
            return;
        }
        let (word, gap) = (std::mem::take(&mut self.word), std::mem::take(&mut self.gap));
        if !std::mem::replace(&mut self.has_word, true) {
            self.is_fence = FENCES.iter().any(|fence| word.starts_with(fence));
        }
        if self.is_code() {
            out.push_str(&gap);
            out.push_str(&word);
            return;
        }
        if self.column > 0 && self.column + text_width(&gap) + text_width(&word) > width {
            out.push('\n');
            self.column = 0;
        } else {
            out.push_str(&gap);
            self.column += text_width(&gap);
        }
        for grapheme in word.graphemes(true) {
            let columns = text_width(grapheme);
            if self.column > 0 && self.column + columns > width {
                out.push('\n');
                self.column = 0;
            }
            out.push_str(grapheme);
            self.column += columns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The printed text, with the input in pieces of so many characters.
    fn wrapped(text: &str, width: usize, piece: usize) -> String {
        let mut wrapper = WordWrapper::default();
        let characters: Vec<char> = text.chars().collect();
        let mut out = String::new();
        for piece in characters.chunks(piece) {
            out += &wrapper.push(&piece.iter().collect::<String>(), width);
        }
        out + &wrapper.take_held(width)
    }

    #[test]
    fn lines_break_between_words_wherever_the_stream_was_cut() {
        let table = [
            ("one two three four", 9, "one two\nthree\nfour"),
            ("one two\nthree", 20, "one two\nthree"),
            ("a  b", 10, "a  b"),
            ("  - item that is long", 12, "  - item\nthat is long"),
            ("abcdefghij kl", 4, "abcd\nefgh\nij\nkl"),
            ("日本語日本語", 6, "日本語\n日本語"),
            ("exactly ten", 11, "exactly ten"),
            ("end \n\nnext", 10, "end\n\nnext"),
        ];
        for (text, width, expected) in table {
            for piece in [1, 2, 3, 100] {
                assert_eq!(wrapped(text, width, piece), expected, "{text:?} by {piece}");
            }
        }
    }

    #[test]
    fn code_blocks_are_passed_on() {
        let code = "```rust\nlet long = \"a line that is wider than the terminal\";\n\tx\n```\n";
        for piece in [1, 7, 100] {
            assert_eq!(wrapped(&format!("{code}after it"), 10, piece), format!("{code}after it"));
        }
    }

    #[test]
    fn a_held_word_is_printed_on_request_and_continued() {
        let mut wrapper = WordWrapper::default();
        assert_eq!(wrapper.push("one tw", 20), "one");
        assert_eq!(wrapper.take_held(20), " tw");
        assert_eq!(wrapper.push("o three ", 20), "o three");
    }
}
