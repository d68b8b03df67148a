//! Removes the API key from everything that a server sends.
//!
//! Both the bytes of a response and the text parsed from them are searched: a key may be split
//! over chunks or over events.

use std::borrow::Cow;

use ctx_engine::provider::Delta;
use serde_json::Value;

/// Shorter keys are not redacted: servers without authentication get placeholders such as `x`.
const KEY_MIN_BYTES: usize = 8;
/// Replacement text for a key.
const REDACTED: &str = "[key]";

/// The key, if it is long enough to be a secret.
fn secret(key: Option<&str>) -> Option<&str> {
    key.filter(|key| key.len() >= KEY_MIN_BYTES)
}

/// Replaces the key in a text.
pub(crate) fn redact(text: &str, key: Option<&str>) -> String {
    secret(key).map_or_else(|| text.to_owned(), |key| text.replace(key, REDACTED))
}

/// Replaces the key in a stream of chunks.
#[derive(Default)]
pub(crate) struct ByteRedactor {
    key: Vec<u8>,
    /// The end of the last chunk, which may be the beginning of a key.
    held: Vec<u8>,
}

impl ByteRedactor {
    pub(crate) fn new(key: Option<&str>) -> Self {
        Self { key: secret(key).unwrap_or_default().as_bytes().to_vec(), held: Vec::new() }
    }

    /// The redacted bytes so far. Bytes that may be the beginning of a key are held back.
    pub(crate) fn pass<'a>(&mut self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if self.key.is_empty() {
            return Cow::Borrowed(bytes);
        }
        let mut bytes_left = std::mem::take(&mut self.held);
        bytes_left.extend_from_slice(bytes);
        let (mut redacted, mut at) = (Vec::with_capacity(bytes_left.len()), 0);
        while at < bytes_left.len() {
            if bytes_left[at..].starts_with(&self.key) {
                redacted.extend_from_slice(REDACTED.as_bytes());
                at += self.key.len();
            } else if self.key.starts_with(&bytes_left[at..]) {
                break;
            } else {
                redacted.push(bytes_left[at]);
                at += 1;
            }
        }
        self.held = bytes_left.split_off(at.min(bytes_left.len()));
        Cow::Owned(redacted)
    }

    /// The bytes held back at the end of the stream.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }
}

/// Replaces the key in a stream of deltas.
pub(crate) struct DeltaRedactor {
    key: Option<String>,
    text: ByteRedactor,
    thoughts: ByteRedactor,
}

impl DeltaRedactor {
    pub(crate) fn new(key: Option<&str>) -> Self {
        Self {
            key: secret(key).map(str::to_owned),
            text: ByteRedactor::new(key),
            thoughts: ByteRedactor::new(key),
        }
    }

    /// The redacted deltas so far, in order. Text that may be the beginning of a key is held back.
    pub(crate) fn pass(&mut self, deltas: Vec<Delta>) -> Vec<Delta> {
        if self.key.is_none() {
            return deltas;
        }
        let mut redacted = Vec::with_capacity(deltas.len());
        for delta in deltas {
            match delta {
                Delta::Text(text) => {
                    redacted.extend(thought_delta(self.thoughts.finish(), None));
                    redacted.extend(text_delta(self.text.pass(text.as_bytes()).into_owned()));
                }
                Delta::Thought { text, raw } => {
                    redacted.extend(text_delta(self.text.finish()));
                    let mut text = self.thoughts.pass(text.as_bytes()).into_owned();
                    if raw.is_some() {
                        text.extend(self.thoughts.finish());
                    }
                    redacted.extend(thought_delta(text, raw.map(|raw| self.value(raw))));
                }
                Delta::ToolCall { id, name, params } => {
                    redacted.extend(self.finish());
                    let key = self.key.as_deref();
                    redacted.push(Delta::ToolCall {
                        id: redact(&id, key),
                        name: redact(&name, key),
                        params: self.value(params),
                    });
                }
                other => {
                    redacted.extend(self.finish());
                    redacted.push(other);
                }
            }
        }
        redacted
    }

    /// The deltas held back at the end of the stream.
    pub(crate) fn finish(&mut self) -> Vec<Delta> {
        thought_delta(self.thoughts.finish(), None)
            .into_iter()
            .chain(text_delta(self.text.finish()))
            .collect()
    }

    fn value(&self, value: Value) -> Value {
        let text = value.to_string();
        match &self.key {
            Some(key) if text.contains(key) => {
                serde_json::from_str(&redact(&text, Some(key))).unwrap_or_default()
            }
            _ => value,
        }
    }
}

fn text_delta(bytes: Vec<u8>) -> Option<Delta> {
    (!bytes.is_empty()).then(|| Delta::Text(String::from_utf8_lossy(&bytes).into_owned()))
}

fn thought_delta(bytes: Vec<u8>, raw: Option<Value>) -> Option<Delta> {
    (!bytes.is_empty() || raw.is_some())
        .then(|| Delta::Thought { text: String::from_utf8_lossy(&bytes).into_owned(), raw })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn key_is_redacted_at_every_chunk_size() {
        let key = "sk-sk-12345";
        let text = format!("a sk- {key}{key} sk-sk-1234 {key}x sk-sk-sk-12345 sk-sk-1");
        let expected = text.replace(key, "[key]");
        for size in 1..=text.len() {
            let mut redactor = ByteRedactor::new(Some(key));
            let mut redacted: Vec<u8> = text
                .as_bytes()
                .chunks(size)
                .flat_map(|piece| redactor.pass(piece).into_owned())
                .collect();
            redacted.extend(redactor.finish());
            assert_eq!(String::from_utf8(redacted).expect("text"), expected, "pieces of {size}");
        }
        assert_eq!(
            *ByteRedactor::new(Some("x")).pass(b"an axe"),
            *b"an axe",
            "a short key is not a secret"
        );
        assert_eq!(*ByteRedactor::new(None).pass(b"as it is"), *b"as it is");
    }

    #[test]
    fn key_split_over_deltas_is_redacted_in_text_thoughts_and_calls() {
        let key = "sk-12345678";
        let mut redactor = DeltaRedactor::new(Some(key));
        let text = |text: &str| Delta::Text(text.to_owned());
        let thinks = |text: &str| Delta::Thought { text: text.to_owned(), raw: None };
        let call =
            |params: Value| Delta::ToolCall { id: "a".to_owned(), name: "t".to_owned(), params };
        let mut redacted = Vec::new();
        for piece in ["a sk-", "1234", "5678 b s", "k-1"] {
            redacted.extend(redactor.pass(vec![text(piece)]));
        }
        let raw = json!({"type": "thinking", "thinking": format!("is {key}")});
        redacted.extend(redactor.pass(vec![
            thinks("hm sk-1234"),
            thinks("5678"),
            Delta::Thought { text: "sk".to_owned(), raw: Some(raw) },
        ]));
        redacted.extend(redactor.pass(vec![text("s"), call(json!({"k": [key]})), text("k-")]));
        redacted.extend(redactor.finish());
        let expected = vec![
            text("a "),
            text("[key] b "),
            text("sk-1"),
            thinks("hm "),
            thinks("[key]"),
            Delta::Thought {
                text: "sk".to_owned(),
                raw: Some(json!({"type": "thinking", "thinking": "is [key]"})),
            },
            text("s"),
            call(json!({"k": ["[key]"]})),
            text("k-"),
        ];
        assert_eq!(redacted, expected);
        assert_eq!(DeltaRedactor::new(None).pass(vec![text(key)]), [text(key)]);
    }
}
