//! The message that an outside event becomes: the configured text and the body of the request.

use serde::de::IgnoredAny;

use crate::text_limits::TEXT_MAX_BYTES;

/// Between the configured text and the body.
const BLANK_LINE: &str = "\n\n";
const INDENT: &str = "  ";

/// The longest body that fits into one message together with a text.
pub fn body_max_bytes(text: Option<&str>) -> usize {
    TEXT_MAX_BYTES.saturating_sub(text.map_or(0, |text| text.len() + BLANK_LINE.len()))
}

/// The text of the message: the configured text, a blank line, and the body. A body that is JSON is
/// indented, unless the message would become too long. It is empty if both are.
pub fn message_text(text: Option<&str>, body: &str) -> String {
    if body.trim().is_empty() {
        return text.unwrap_or_default().to_owned();
    }
    let indented = indented(body, body_max_bytes(text));
    let body = indented.as_deref().unwrap_or(body);
    text.map_or_else(|| body.to_owned(), |text| format!("{text}{BLANK_LINE}{body}"))
}

/// A JSON document with one value per line. Numbers, strings and the order of keys stay as they
/// are. `None` if the text is not JSON or the result would have more than `max_bytes`.
fn indented(json: &str, max_bytes: usize) -> Option<String> {
    serde_json::from_str::<IgnoredAny>(json).ok()?;
    let mut to = Indented { text: String::with_capacity(json.len()), depth: 0, max_bytes };
    let mut rest = json.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if first == '"' { string_length(rest) } else { first.len_utf8() };
        let (token, after) = rest.split_at(length);
        rest = after.trim_start();
        match first {
            '{' | '[' if rest.starts_with(['}', ']']) => to.text.push_str(token),
            '{' | '[' => to.open(token)?,
            '}' | ']' if to.text.ends_with(['{', '[']) => to.text.push_str(token),
            '}' | ']' => to.close(token)?,
            ',' => to.separate()?,
            ':' => to.text.push_str(": "),
            _ => to.text.push_str(token),
        }
    }
    (to.text.len() <= max_bytes).then_some(to.text)
}

/// The length of the string literal at the beginning of a JSON text.
fn string_length(json: &str) -> usize {
    let mut is_escaped = false;
    let end = json.bytes().skip(1).position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    });
    end.map_or(json.len(), |at| at + 2)
}

struct Indented {
    text: String,
    depth: usize,
    max_bytes: usize,
}

impl Indented {
    fn open(&mut self, token: &str) -> Option<()> {
        self.text.push_str(token);
        self.depth += 1;
        self.new_line()
    }

    fn close(&mut self, token: &str) -> Option<()> {
        self.depth = self.depth.saturating_sub(1);
        self.new_line()?;
        self.text.push_str(token);
        Some(())
    }

    fn separate(&mut self) -> Option<()> {
        self.text.push(',');
        self.new_line()
    }

    /// Deep nesting needs much more space than the input, so each line is checked.
    fn new_line(&mut self) -> Option<()> {
        if self.text.len() + self.depth * INDENT.len() > self.max_bytes {
            return None;
        }
        self.text.push('\n');
        (0..self.depth).for_each(|_| self.text.push_str(INDENT));
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    #[test]
    fn a_message_is_the_text_a_blank_line_and_the_body() {
        let table = [
            (Some("Look at this"), "hello", "Look at this\n\nhello"),
            (None, "hello\nthere ", "hello\nthere "),
            (Some("Look"), "", "Look"),
            (Some("Look"), " \n", "Look"),
            (None, "", ""),
            (None, r#"{"b":1,"a":[]}"#, "{\n  \"b\": 1,\n  \"a\": []\n}"),
            (Some("x"), "[1]", "x\n\n[\n  1\n]"),
            (None, " {} ", "{}"),
            (None, "{ \n }", "{}"),
            (None, "[[],{}]", "[\n  [],\n  {}\n]"),
            // Not JSON.
            (None, "{\"a\":1", "{\"a\":1"),
            (None, "a=1&b=2", "a=1&b=2"),
            // Kept as they were sent.
            (None, "12345678901234567890123", "12345678901234567890123"),
            (None, r#""a\"b:,{}[]\\""#, r#""a\"b:,{}[]\\""#),
            (None, r#"{"a\\":"ü, :"}"#, "{\n  \"a\\\\\": \"ü, :\"\n}"),
        ];
        for (text, body, message) in table {
            assert_eq!(message_text(text, body), message, "{text:?} {body:?}");
        }
    }

    #[test]
    fn json_that_would_become_too_long_stays_as_it_is() {
        for body in ["[".repeat(400_000) + &"]".repeat(400_000), {
            let nested = format!("{}{}{}", "[".repeat(100), "1,".repeat(400_000), "1");
            nested + &"]".repeat(100)
        }] {
            assert!(message_text(None, &body) == body);
        }
        let text = "t".repeat(1000);
        let body = format!("\"{}\"", "x".repeat(body_max_bytes(Some(&text)) - 2));
        assert_eq!(message_text(Some(&text), &body).len(), TEXT_MAX_BYTES);
    }

    fn documents() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(".{0,6}", inner, 0..5).prop_map(|map| json!(map)),
            ]
        })
    }

    proptest! {
        #[test]
        fn an_indented_document_is_laid_out_as_usual(document in documents()) {
            let usual = serde_json::to_string_pretty(&document).expect("JSON");
            prop_assert_eq!(indented(&document.to_string(), usize::MAX), Some(usual.clone()));
            prop_assert_eq!(indented(&usual, usize::MAX), Some(usual));
        }
    }
}
