//! Escaping of JSON strings: only quotes, backslashes and control characters are escaped.
//!
//! Most text has few escapes, so a stretch without any is found many bytes at a time and copied.

/// Number of bytes that are tested together.
const CHUNK: usize = 32;

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Appends the escaped text, without the surrounding quotes.
pub(super) fn write(mut text: &[u8], out: &mut Vec<u8>) {
    loop {
        let (plain, rest) = text.split_at(plain(text));
        out.extend_from_slice(plain);
        let Some((&byte, after)) = rest.split_first() else { return };
        escape(byte, out);
        text = after;
    }
}

const fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Number of bytes before the first one that must be escaped.
fn plain(text: &[u8]) -> usize {
    // No early exit inside a chunk of a fixed size: the compiler vectorises the loop.
    let is_plain =
        |chunk: &&[u8; CHUNK]| !chunk.iter().fold(false, |any, byte| any | is_special(*byte));
    let plain_len = text.as_chunks().0.iter().take_while(is_plain).count() * CHUNK;
    text[plain_len..]
        .iter()
        .position(|byte| is_special(*byte))
        .map_or(text.len(), |at| plain_len + at)
}

fn escape(byte: u8, out: &mut Vec<u8>) {
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x0c => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => {
            let digit = |nibble: u8| HEX[usize::from(nibble)];
            return out.extend_from_slice(&[
                b'\\',
                b'u',
                b'0',
                b'0',
                digit(byte >> 4),
                digit(byte & 15),
            ]);
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_match_serde_json_at_every_position() {
        let plain = "é".repeat(CHUNK * 2);
        for letter in (0..=0x9f).filter_map(char::from_u32) {
            for at in (0..plain.len()).step_by(2) {
                let text = format!("{}{letter}{}", &plain[..at], &plain[at..]);
                let mut out = b"\"".to_vec();
                write(text.as_bytes(), &mut out);
                out.push(b'"');
                assert_eq!(
                    String::from_utf8(out).expect("text"),
                    serde_json::to_string(&text).expect("text"),
                    "{letter:?} at {at}"
                );
            }
        }
    }
}
