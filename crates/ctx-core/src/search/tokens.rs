//! Splits text into words. The index and the matcher use the same words, so that a row which
//! matches is always a row that the index selects.
//!
//! A word is a run of letters, digits, combining marks and underscores. An identifier is split
//! where an underscore is or the case changes: `fetchPage_now` has the parts `fetch`, `page` and
//! `now`, and is also one word as a whole, `fetchpagenow`. Letters are folded to lower case. A
//! script that is written without spaces is split into pairs of adjacent letters; the last letter
//! of a run is a word of its own, so that each letter begins one.

/// Longest word in bytes; longer ones are cut. A longer run is not split into parts either: it is
/// encoded data.
pub(super) const TOKEN_BYTES_MAX: usize = 64;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A word, or a part of an identifier.
    Part,
    /// An identifier of several parts.
    Whole,
    /// Two adjacent letters of a script without spaces.
    Pair,
    /// The last letter of a run in a script without spaces.
    Last,
}

/// A word of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token<'a> {
    /// The word in lower case.
    pub text: &'a str,
    /// What it is.
    pub form: Form,
    /// Its place in the order of words. A whole identifier has the place of its first part.
    pub position: u32,
    /// First byte in the text.
    pub start: usize,
    /// Byte after the last one in the text.
    pub end: usize,
}

/// Calls `emit` for each word of a text, in order.
pub(super) fn for_each(text: &str, mut emit: impl FnMut(Token<'_>)) {
    let mut scanner = Scanner::default();
    for (at, c) in text.char_indices() {
        let class = classify(c);
        if class != scanner.class {
            scanner.end_run(at, &mut emit);
            scanner.class = class;
        }
        if class != Class::Other {
            scanner.run.push((at, c));
        }
    }
    scanner.end_run(text.len(), &mut emit);
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Class {
    #[default]
    Other,
    Word,
    Unspaced,
}

fn classify(c: char) -> Class {
    if c.is_ascii() {
        return if c.is_ascii_alphanumeric() || c == '_' { Class::Word } else { Class::Other };
    }
    if is_unspaced_script(c) {
        Class::Unspaced
    } else if c.is_alphanumeric() || is_mark(c) {
        Class::Word
    } else {
        Class::Other
    }
}

/// Combining accents: a letter and its accent may be two characters.
fn is_mark(c: char) -> bool {
    matches!(u32::from(c), 0x0300..=0x036F | 0x1AB0..=0x1AFF | 0x1DC0..=0x1DFF | 0x20D0..=0x20F0)
}

/// Whether a letter belongs to a script that is written without spaces.
fn is_unspaced_script(c: char) -> bool {
    matches!(
        u32::from(c),
        0x0E00..=0x0EFF
            | 0x1000..=0x109F
            | 0x1780..=0x17FF
            | 0x3005..=0x3007
            | 0x3040..=0x30FF
            | 0x3400..=0x9FFF
            | 0xF900..=0xFAFF
            | 0x20000..=0x3FFFF
    )
}

#[derive(Default)]
struct Scanner {
    class: Class,
    /// The characters of the current run with their offsets.
    run: Vec<(usize, char)>,
    position: u32,
    folded: String,
    /// The parts of an identifier: where each begins in `folded`, and its bytes in the text.
    parts: Vec<(usize, usize, usize)>,
}

impl Scanner {
    /// Reports the words of the run that ends at an offset.
    fn end_run(&mut self, end: usize, emit: &mut impl FnMut(Token<'_>)) {
        match self.class {
            Class::Other => return,
            Class::Word => self.identifier(end, emit),
            Class::Unspaced => self.pairs(end, emit),
        }
        self.run.clear();
    }

    fn pairs(&mut self, end: usize, emit: &mut impl FnMut(Token<'_>)) {
        for n in 0..self.run.len() {
            let (start, c) = self.run[n];
            self.folded.clear();
            self.folded.push(c);
            let (form, end) = match self.run.get(n + 1) {
                Some((next, second)) => {
                    self.folded.push(*second);
                    (Form::Pair, next + second.len_utf8())
                }
                None => (Form::Last, end),
            };
            emit(Token { text: &self.folded, form, position: self.position, start, end });
            self.position += 1;
        }
    }

    fn identifier(&mut self, end: usize, emit: &mut impl FnMut(Token<'_>)) {
        self.folded.clear();
        self.parts.clear();
        let is_long = end - self.run[0].0 > TOKEN_BYTES_MAX;
        let mut last_end = self.run[0].0;
        for n in 0..self.run.len() {
            let (at, c) = self.run[n];
            if c == '_' {
                continue;
            }
            if self.parts.is_empty() || (!is_long && self.is_boundary(n)) {
                self.close_part(last_end);
                self.parts.push((self.folded.len(), at, at));
            }
            last_end = at + c.len_utf8();
            if self.folded.len() < TOKEN_BYTES_MAX {
                fold_into(c, &mut self.folded);
            }
        }
        self.close_part(last_end);
        let whole = self.parts.first().map(|part| (part.1, last_end));
        for (n, (from, start, end)) in self.parts.iter().enumerate() {
            let to = self.parts.get(n + 1).map_or(self.folded.len(), |next| next.0);
            let (text, position) = (&self.folded[*from..to], self.position + n as u32);
            emit(Token { text, form: Form::Part, position, start: *start, end: *end });
        }
        if let Some((start, end)) = whole.filter(|_| self.parts.len() > 1) {
            let (text, position) = (self.folded.as_str(), self.position);
            emit(Token { text, form: Form::Whole, position, start, end });
        }
        self.position += self.parts.len() as u32;
    }

    fn close_part(&mut self, end: usize) {
        if let Some(part) = self.parts.last_mut() {
            part.2 = end;
        }
    }

    /// Whether a part begins at the nth character of the run.
    fn is_boundary(&self, n: usize) -> bool {
        let c = self.run[n].1;
        let Some((_, before)) = n.checked_sub(1).map(|n| self.run[n]) else { return false };
        if before == '_' {
            return true;
        }
        if !c.is_uppercase() {
            return false;
        }
        // `fetchPage`, `utf8Text`; and in `HTTPServer` the last of the upper-case letters.
        !before.is_uppercase() || self.run.get(n + 1).is_some_and(|(_, next)| next.is_lowercase())
    }
}

/// Adds a letter in lower case. The final form of sigma becomes the ordinary one.
fn fold_into(c: char, to: &mut String) {
    if c.is_ascii() {
        to.push(c.to_ascii_lowercase());
    } else {
        to.extend(c.to_lowercase().map(|c| if c == 'ς' { 'σ' } else { c }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<(String, u32)> {
        let mut words = Vec::new();
        for_each(text, |token| words.push((token.text.to_owned(), token.position)));
        words
    }

    #[test]
    fn text_is_split_into_folded_words_in_order() {
        let table: [(&str, &[(&str, u32)]); 14] = [
            ("", &[]),
            (" -- * ! ", &[]),
            ("Fix the Retry-logic:", &[("fix", 0), ("the", 1), ("retry", 2), ("logic", 3)]),
            ("ÜBER naïve", &[("über", 0), ("naïve", 1)]),
            ("e\u{301}te\u{301}", &[("e\u{301}te\u{301}", 0)]),
            ("ΚΎΚΛΟΥΣ", &[("κύκλουσ", 0)]),
            ("__init__", &[("init", 0)]),
            ("utf8 sha256", &[("utf8", 0), ("sha256", 1)]),
            ("fetch_page x", &[("fetch", 0), ("page", 1), ("fetchpage", 0), ("x", 2)]),
            ("fetchPage x", &[("fetch", 0), ("page", 1), ("fetchpage", 0), ("x", 2)]),
            ("HTTPServer2", &[("http", 0), ("server2", 1), ("httpserver2", 0)]),
            ("日志记录", &[("日志", 0), ("志记", 1), ("记录", 2), ("录", 3)]),
            ("请fix这个", &[("请", 0), ("fix", 1), ("这个", 2), ("个", 3)]),
            ("main.rs", &[("main", 0), ("rs", 1)]),
        ];
        for (text, expected) in table {
            let expected: Vec<(String, u32)> =
                expected.iter().map(|(word, at)| ((*word).to_owned(), *at)).collect();
            assert_eq!(words(text), expected, "{text}");
        }
    }

    #[test]
    fn encoded_data_is_one_word_that_is_cut() {
        let data = "aGVsbG8gd29ybGQ".repeat(20);
        let found = words(&format!("x {data} y"));
        assert_eq!(found.len(), 3);
        assert_eq!(found[1].0.len(), TOKEN_BYTES_MAX);
    }

    #[test]
    fn ranges_are_those_of_the_text() {
        let text = "Über die fetchPage 日志";
        for_each(text, |token| {
            let shown = &text[token.start..token.end];
            let mut folded = String::new();
            shown.chars().filter(|c| *c != '_').for_each(|c| fold_into(c, &mut folded));
            assert_eq!(folded, token.text);
        });
    }
}
