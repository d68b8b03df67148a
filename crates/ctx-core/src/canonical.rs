//! One value, one sequence of bytes: JSON with sorted keys, no white space and exact integers.
//!
//! The stored bytes are what is hashed; nothing is ever re-serialised to be compared. Serde's own JSON
//! is not canonical: the order of its keys depends on a feature that any crate in the build may turn on.

use serde::Serialize;
use serde_json::Value;

/// The canonical bytes of a value.
///
/// # Panics
/// If the value cannot be JSON (a map with keys that are not text). No type of this crate is such.
pub fn to_bytes<T: Serialize>(value: &T) -> Vec<u8> {
    let value = serde_json::to_value(value).expect("types of this crate have text keys and finite numbers");
    let mut out = Vec::with_capacity(256);
    write(&value, &mut out);
    out
}

fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort_unstable();
            list(out, b'{', keys, b'}', |key, out| {
                write_text(key, out);
                out.push(b':');
                write(&map[key.as_str()], out);
            });
        }
        Value::Array(items) => list(out, b'[', items, b']', write),
        Value::String(text) => write_text(text, out),
        Value::Number(n) => out.extend_from_slice(n.to_string().as_bytes()),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Null => out.extend_from_slice(b"null"),
    }
}

fn list<I: IntoIterator>(out: &mut Vec<u8>, open: u8, items: I, close: u8, mut each: impl FnMut(I::Item, &mut Vec<u8>)) {
    out.push(open);
    for (n, item) in items.into_iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        each(item, out);
    }
    out.push(close);
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("writing text into memory cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn text(value: &Value) -> String {
        String::from_utf8(to_bytes(value)).expect("canonical JSON is UTF-8")
    }

    #[test]
    fn keys_are_sorted_at_every_depth() {
        assert_eq!(text(&json!({"b": {"z": 1, "a": [true, null]}, "a": "é\n"})), r#"{"a":"é\n","b":{"a":[true,null],"z":1}}"#);
    }

    #[test]
    fn integers_above_two_to_the_53_stay_apart() {
        let (a, b) = (json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992_u64));
        assert_ne!(text(&a), text(&b));
        assert_eq!(text(&json!(u64::MAX)), "18446744073709551615");
        assert_eq!(text(&json!(i64::MIN)), "-9223372036854775808");
    }
}
