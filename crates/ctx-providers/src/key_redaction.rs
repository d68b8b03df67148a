//! Keys are never told: whatever a server repeats, and in however many pieces, is passed on without them.
//!
//! The bytes of an answer are looked through as they arrive, and so are the words that are made of them, since a key may
//! come in pieces that only together are one.

use ctx_engine::provider::Delta;
use serde_json::Value;

/// Whatever is shorter keeps no secret: servers without keys are given `x` or `none`.
const KEY_MIN_BYTES: usize = 8;
/// What stands for a key.
const REDACTED: &str = "[key]";

/// A key that is worth keeping.
fn secret(key: Option<&str>) -> Option<&str> {
    key.filter(|key| key.len() >= KEY_MIN_BYTES)
}

/// A text without the key.
pub(crate) fn without(text: &str, key: Option<&str>) -> String {
    secret(key).map_or_else(|| text.to_owned(), |key| text.replace(key, REDACTED))
}

/// Takes a key out of bytes, however they are cut: whatever a server repeats, it is never stored, logged or shown.
#[derive(Default)]
pub(crate) struct Redactor {
    key: Vec<u8>,
    /// The end of what came, where the key may begin.
    held: Vec<u8>,
}

impl Redactor {
    pub(crate) fn new(key: Option<&str>) -> Self {
        Self { key: secret(key).unwrap_or_default().as_bytes().to_vec(), held: Vec::new() }
    }

    /// What may be told of these bytes and those held back before.
    pub(crate) fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        if self.key.is_empty() {
            return bytes.to_vec();
        }
        let mut left = std::mem::take(&mut self.held);
        left.extend_from_slice(bytes);
        let (mut told, mut at) = (Vec::with_capacity(left.len()), 0);
        while at < left.len() {
            if left[at..].starts_with(&self.key) {
                told.extend_from_slice(REDACTED.as_bytes());
                at += self.key.len();
            } else if self.key.starts_with(&left[at..]) {
                break;
            } else {
                told.push(left[at]);
                at += 1;
            }
        }
        self.held = left.split_off(at.min(left.len()));
        told
    }

    /// What was held back and is no key.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }
}

/// Takes a key out of what a provider says, word by word.
pub(crate) struct Hush {
    key: Option<String>,
    words: Redactor,
    thoughts: Redactor,
}

impl Hush {
    pub(crate) fn new(key: Option<&str>) -> Self {
        Self {
            key: secret(key).map(str::to_owned),
            words: Redactor::new(key),
            thoughts: Redactor::new(key),
        }
    }

    /// What may be told of these deltas and those held back before, in order.
    pub(crate) fn pass(&mut self, deltas: Vec<Delta>) -> Vec<Delta> {
        if self.key.is_none() {
            return deltas;
        }
        let mut told = Vec::with_capacity(deltas.len());
        for delta in deltas {
            match delta {
                Delta::Text(text) => {
                    told.extend(thought(self.thoughts.rest(), None));
                    told.extend(words(self.words.pass(text.as_bytes())));
                }
                Delta::Thought { text, raw } => {
                    told.extend(words(self.words.rest()));
                    let mut text = self.thoughts.pass(text.as_bytes());
                    if raw.is_some() {
                        text.extend(self.thoughts.rest());
                    }
                    told.extend(thought(text, raw.map(|raw| self.value(raw))));
                }
                Delta::ToolCall { id, name, params } => {
                    told.extend(self.rest());
                    let key = self.key.as_deref();
                    told.push(Delta::ToolCall {
                        id: without(&id, key),
                        name: without(&name, key),
                        params: self.value(params),
                    });
                }
                other => {
                    told.extend(self.rest());
                    told.push(other);
                }
            }
        }
        told
    }

    /// What was held back and is no key.
    pub(crate) fn rest(&mut self) -> Vec<Delta> {
        thought(self.thoughts.rest(), None).into_iter().chain(words(self.words.rest())).collect()
    }

    fn value(&self, value: Value) -> Value {
        let text = value.to_string();
        match &self.key {
            Some(key) if text.contains(key) => {
                serde_json::from_str(&without(&text, Some(key))).unwrap_or_default()
            }
            _ => value,
        }
    }
}

fn words(bytes: Vec<u8>) -> Option<Delta> {
    (!bytes.is_empty()).then(|| Delta::Text(String::from_utf8_lossy(&bytes).into_owned()))
}

fn thought(bytes: Vec<u8>, raw: Option<Value>) -> Option<Delta> {
    (!bytes.is_empty() || raw.is_some())
        .then(|| Delta::Thought { text: String::from_utf8_lossy(&bytes).into_owned(), raw })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_key_is_found_however_the_bytes_are_cut() {
        let key = "sk-sk-12345";
        let text = format!("a sk- {key}{key} sk-sk-1234 {key}x sk-sk-sk-12345 sk-sk-1");
        let wanted = text.replace(key, "[key]");
        for size in 1..=text.len() {
            let mut redactor = Redactor::new(Some(key));
            let mut told: Vec<u8> =
                text.as_bytes().chunks(size).flat_map(|piece| redactor.pass(piece)).collect();
            told.extend(redactor.rest());
            assert_eq!(String::from_utf8(told).expect("text"), wanted, "pieces of {size}");
        }
        assert_eq!(
            Redactor::new(Some("x")).pass(b"an axe"),
            b"an axe",
            "whatever is so short is no secret"
        );
        assert_eq!(Redactor::new(None).pass(b"as it is"), b"as it is");
    }

    #[test]
    fn a_key_that_comes_in_pieces_is_found_in_words_thoughts_and_calls() {
        let key = "sk-12345678";
        let mut hush = Hush::new(Some(key));
        let text = |text: &str| Delta::Text(text.to_owned());
        let thinks = |text: &str| Delta::Thought { text: text.to_owned(), raw: None };
        let call =
            |params: Value| Delta::ToolCall { id: "a".to_owned(), name: "t".to_owned(), params };
        let mut told = Vec::new();
        for piece in ["a sk-", "1234", "5678 b s", "k-1"] {
            told.extend(hush.pass(vec![text(piece)]));
        }
        let raw = json!({"type": "thinking", "thinking": format!("is {key}")});
        told.extend(hush.pass(vec![
            thinks("hm sk-1234"),
            thinks("5678"),
            Delta::Thought { text: "sk".to_owned(), raw: Some(raw) },
        ]));
        told.extend(hush.pass(vec![text("s"), call(json!({"k": [key]})), text("k-")]));
        told.extend(hush.rest());
        let wanted = vec![
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
        assert_eq!(told, wanted);
        assert_eq!(Hush::new(None).pass(vec![text(key)]), [text(key)]);
    }
}
