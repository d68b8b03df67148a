//! A message as folded words and the breaks between them.
//!
//! Folding makes "Perfekt!", "PERFEKT" and "perfekt" one word, drops accents and apostrophes, and makes every
//! Han, kana and hangul character its own word, so that phrases match with or without spaces. It must never panic and
//! never read more than [`END_MAX_BYTES`] from either end of a text.

/// How much of each end of a text is read: markers stand at the ends, pasted logs in the middle.
const END_MAX_BYTES: usize = 2048;

/// What stands between a word and the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Gap {
    /// A space, or nothing.
    None,
    /// A comma, a colon, a dash.
    Clause,
    /// A full stop, an exclamation mark, a new line.
    Sentence,
    /// A question mark.
    Question,
}

/// A word and what follows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// Folded.
    pub(super) text: String,
    /// What stands after it.
    pub(super) gap: Gap,
}

/// A text's words.
#[derive(Debug, Clone, Default)]
pub(super) struct Words {
    /// In order.
    pub(super) list: Vec<Word>,
    /// Whether a middle part was not read: then no verdict may rest on having seen everything.
    pub(super) cut: bool,
}

impl Words {
    /// Reads a text, of a long one only its ends.
    pub(super) fn of(text: &str) -> Self {
        let text = text.trim();
        if text.len() <= 2 * END_MAX_BYTES {
            return Self { list: split(text), cut: false };
        }
        let mut list = split(head(text));
        if let Some(last) = list.last_mut() {
            last.gap = last.gap.max(Gap::Sentence);
        }
        list.extend(split(tail(text)));
        Self { list, cut: true }
    }

    /// Whether the last word is followed by a question mark.
    pub(super) fn ends_asking(&self) -> bool {
        self.list.last().is_some_and(|word| word.gap == Gap::Question)
    }
}

/// The first part of a text that is within bounds.
pub(super) fn head(text: &str) -> &str {
    &text[..text.floor_char_boundary(END_MAX_BYTES)]
}

/// The last part of a text that is within bounds.
pub(super) fn tail(text: &str) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(END_MAX_BYTES))..]
}

fn split(text: &str) -> Vec<Word> {
    let mut list: Vec<Word> = Vec::new();
    let mut word = String::new();
    let mut chars = text.chars().flat_map(plain).peekable();
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

/// Lower case, and the wide forms of Latin letters and punctuation as plain ones.
fn plain(char: char) -> std::char::ToLowercase {
    let narrow = match char {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(char) - 0xfee0).unwrap_or(char),
        '\u{3000}' | '\t' | '\r' | '\u{a0}' => ' ',
        _ => char,
    };
    narrow.to_lowercase()
}

/// Signs that change how a letter looks and not which word it is in.
fn is_mark(char: char) -> bool {
    matches!(char, '\u{300}'..='\u{36f}' | '\u{64b}'..='\u{652}' | '\u{640}' | '\u{93c}' | '\u{3099}' | '\u{309a}'
        | '\u{200b}'..='\u{200f}' | '\u{fe00}'..='\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}' | '\u{feff}')
}

/// Devanagari vowel signs are not all alphanumeric, and a word must not fall apart at one.
fn is_devanagari(char: char) -> bool {
    matches!(char, '\u{900}'..='\u{963}')
}

/// Whether a character is a word by itself.
fn stands_alone(char: char) -> bool {
    is_emoji(char)
        || matches!(char, '\u{3005}' | '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fa}' | '\u{30fc}'
            | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{2ffff}')
}

/// Pictures: they colour a message and are accounted for even where their meaning is not known.
pub(super) fn is_emoji(char: char) -> bool {
    matches!(char, '\u{1f300}'..='\u{1faff}' | '\u{2600}'..='\u{27bf}' | '\u{2b50}' | '\u{2b55}')
}

/// Adds a letter without its accent. The table holds what the known languages write.
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
