//! Control characters of texts from messages, tools and files. A terminal would interpret them, so
//! each is replaced by a visible one.

use std::borrow::Cow;

/// Columns between tab stops.
const TAB: &str = "    ";

/// The text with its control characters made visible. Line breaks stay, a tab becomes spaces.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| c != '\n' && is_shown_otherwise(c)) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\n' => shown.push('\n'),
            '\r' if rest.peek() == Some(&'\n') => {}
            '\t' => shown.push_str(TAB),
            c if is_shown_otherwise(c) => push_picture(&mut shown, c),
            c => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// Control characters, and the format characters that reorder or hide text.
fn is_shown_otherwise(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{202a}'
                ..='\u{202e}' | '\u{2060}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
        )
}

fn push_picture(shown: &mut String, c: char) {
    match u32::from(c) {
        // The control pictures of Unicode are in the order of the characters.
        code @ 0..=0x1f => shown.extend(char::from_u32(0x2400 + code)),
        0x7f => shown.push('␡'),
        code => shown.push_str(&format!("<{code:04x}>")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_character_is_left() {
        let table = [
            ("plain\ntext", "plain\ntext"),
            ("\u{1b}]52;c;aGk=\u{7}", "␛]52;c;aGk=␇"),
            ("a\tb", "a    b"),
            ("a\r\nb\rc", "a\nb␍c"),
            ("\u{9b}31m", "<009b>31m"),
            ("x\u{202e}y", "x<202e>y"),
            ("\u{7f}", "␡"),
            ("日本 👩‍👩‍👧", "日本 👩‍👩‍👧"),
        ];
        for (text, expected) in table {
            assert_eq!(visible(text), expected, "{text:?}");
            assert!(visible(text).chars().all(|c| c == '\n' || !c.is_control()));
        }
    }
}
