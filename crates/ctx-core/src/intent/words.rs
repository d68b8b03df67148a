//! Splits a message into folded words and the punctuation between them.
//!
//! Folding makes "Perfekt!", "PERFEKT" and "perfekt" one word, and drops accents and apostrophes.
//! Every Han, kana and hangul character is a word of its own, so that phrases match with or without
//! spaces. The functions must never panic and never read more than [`END_MAX_BYTES`] from either
//! end of a text.

/// Bytes that are read from each end of a text. Markers are at the ends, pasted logs in the middle.
const END_MAX_BYTES: usize = 2048;

/// The break between a word and the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Gap {
    /// A space, or no character at all.
    None,
    /// A comma, a colon or a dash.
    Clause,
    /// A full stop, an exclamation mark or a newline.
    Sentence,
    /// A question mark ends the sentence.
    Question,
}

/// A word and the break after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// The folded word.
    pub(super) text: String,
    /// The break after the word.
    pub(super) gap: Gap,
}

/// The words of a text.
#[derive(Debug, Clone, Default)]
pub(super) struct Words {
    /// The words in order.
    pub(super) list: Vec<Word>,
    /// Whether the middle of the text was not read. Then no rule may assume that all words are
    /// known.
    pub(super) truncated: bool,
}

impl Words {
    /// Splits a text. Of a long text only both ends are read.
    pub(super) fn of(text: &str) -> Self {
        let text = text.trim();
        if text.len() <= 2 * END_MAX_BYTES {
            return Self { list: split(text), truncated: false };
        }
        let mut list = split(head(text));
        if let Some(last) = list.last_mut() {
            last.gap = last.gap.max(Gap::Sentence);
        }
        list.extend(split(tail(text)));
        Self { list, truncated: true }
    }

    /// Whether the last word is followed by a question mark.
    pub(super) fn ends_asking(&self) -> bool {
        self.list.last().is_some_and(|word| word.gap == Gap::Question)
    }
}

/// The first [`END_MAX_BYTES`] of a text.
pub(super) fn head(text: &str) -> &str {
    &text[..text.floor_char_boundary(END_MAX_BYTES)]
}

/// The last [`END_MAX_BYTES`] of a text.
pub(super) fn tail(text: &str) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(END_MAX_BYTES))..]
}

fn split(text: &str) -> Vec<Word> {
    let mut list: Vec<Word> = Vec::new();
    let mut word = String::new();
    let mut chars = text.chars().flat_map(normalize).peekable();
    let mut before = ' ';
    while let Some(char) = chars.next() {
        let after = chars.peek().copied().unwrap_or(' ');
        match kind(char, before, after) {
            Kind::Letter => fold_into(&mut word, char),
            Kind::Alone => {
                close(&mut list, &mut word);
                list.push(Word { text: char.to_string(), gap: Gap::None });
            }
            Kind::Nothing => {}
            Kind::Break(gap) => {
                close(&mut list, &mut word);
                if let Some(last) = list.last_mut() {
                    last.gap = last.gap.max(gap);
                }
            }
        }
        before = char;
    }
    close(&mut list, &mut word);
    list
}

fn close(list: &mut Vec<Word>, word: &mut String) {
    if !word.is_empty() {
        list.push(Word { text: std::mem::take(word), gap: Gap::None });
    }
}

enum Kind {
    Letter,
    Alone,
    Nothing,
    Break(Gap),
}

fn kind(char: char, before: char, after: char) -> Kind {
    match char {
        '\'' | '’' | '‘' | '`' | '´' | 'ʼ' | '"' | '*' | '¿' | '¡' => Kind::Nothing,
        '.' | ':' | ',' | '/' | '-' if before.is_ascii_alphanumeric() && after.is_ascii_digit() => {
            Kind::Letter
        }
        '.' if before.is_ascii_alphanumeric() && after.is_ascii_alphanumeric() => Kind::Letter,
        '_' => Kind::Letter,
        '?' | '؟' => Kind::Break(Gap::Question),
        '.' | '!' | '。' | '\n' | '।' | '…' => Kind::Break(Gap::Sentence),
        ',' | ';' | ':' | '、' | '،' | '؛' | '—' | '–' | '(' | ')' => {
            Kind::Break(Gap::Clause)
        }
        '-' if before == ' ' => Kind::Break(Gap::Clause),
        _ if is_mark(char) => Kind::Nothing,
        _ if stands_alone(char) => Kind::Alone,
        _ if char.is_alphanumeric() || is_devanagari(char) => Kind::Letter,
        _ => Kind::Break(Gap::None),
    }
}

/// Converts to lower case, and full-width letters and punctuation to their ASCII forms.
fn normalize(char: char) -> std::char::ToLowercase {
    let narrow = match char {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(char) - 0xfee0).unwrap_or(char),
        '\u{3000}' | '\t' | '\r' | '\u{a0}' => ' ',
        _ => char,
    };
    narrow.to_lowercase()
}

/// Combining characters that do not change the word.
fn is_mark(char: char) -> bool {
    matches!(char,
        '\u{300}'..='\u{36f}' | '\u{64b}'..='\u{652}' | '\u{640}' | '\u{93c}' | '\u{3099}'
        | '\u{309a}' | '\u{200b}'..='\u{200f}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{1f3fb}'..='\u{1f3ff}' | '\u{feff}')
}

/// Not all Devanagari vowel signs are alphanumeric, but they must not split a word.
fn is_devanagari(char: char) -> bool {
    matches!(char, '\u{900}'..='\u{963}')
}

/// Whether a character is a word on its own.
pub(super) fn stands_alone(char: char) -> bool {
    is_emoji(char)
        || matches!(char,
            '\u{3005}' | '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fa}' | '\u{30fc}'
            | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}'
            | '\u{20000}'..='\u{2ffff}')
}

/// Whether a character is an emoji. An emoji without a known meaning counts as filler.
pub(super) fn is_emoji(char: char) -> bool {
    matches!(char, '\u{1f300}'..='\u{1faff}' | '\u{2600}'..='\u{27bf}' | '\u{2b50}' | '\u{2b55}')
}

/// Appends a letter without its accent. The table covers the supported languages.
fn fold_into(word: &mut String, char: char) {
    let folded = match char {
        'à' | 'á' | 'â' | 'ã' | 'ä' | 'å' | 'ą' | 'ā' => 'a',
        'ç' | 'ć' | 'č' => 'c',
        'è' | 'é' | 'ê' | 'ë' | 'ę' | 'ě' => 'e',
        'ğ' => 'g',
        'ì' | 'í' | 'î' | 'ï' | 'ı' => 'i',
        'ł' => 'l',
        'ñ' | 'ń' => 'n',
        'ò' | 'ó' | 'ô' | 'õ' | 'ö' | 'ø' => 'o',
        'ś' | 'ş' | 'š' => 's',
        'ù' | 'ú' | 'û' | 'ü' => 'u',
        'ý' | 'ÿ' => 'y',
        'ź' | 'ż' | 'ž' => 'z',
        'ё' => 'е',
        'й' => 'и',
        'ї' => 'і',
        'ґ' => 'г',
        'أ' | 'إ' | 'آ' => 'ا',
        'ى' => 'ي',
        'ة' => 'ه',
        '\u{95c}' => 'ड',
        '\u{95d}' => 'ढ',
        'ß' => return word.push_str("ss"),
        'œ' => return word.push_str("oe"),
        'æ' => return word.push_str("ae"),
        _ => char,
    };
    word.push(folded);
}
