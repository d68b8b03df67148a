//! JSON from outside may be nested as deeply as its parser allows; inside a record it would be deeper still, and could be
//! written but never read again. What is nested too deeply is kept as text.

use serde::{Serialize, Serializer};
use serde_json::Value;

/// Parsers stop at 128; a record lays a few levels of its own around a value.
const NESTED_MAX: usize = 100;

/// The value, or its text where it is nested too deeply.
pub fn bounded(value: Value) -> Value {
    if is_deeper(&value, NESTED_MAX) { Value::String(value.to_string()) } else { value }
}

/// A value as it is written into a record.
pub(crate) struct Bounded<'a>(pub(crate) &'a Value);

impl Serialize for Bounded<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if is_deeper(self.0, NESTED_MAX) {
            to.serialize_str(&self.0.to_string())
        } else {
            self.0.serialize(to)
        }
    }
}

fn is_deeper(value: &Value, levels: usize) -> bool {
    let inside = |inner: &Value| levels == 0 || is_deeper(inner, levels - 1);
    match value {
        Value::Array(items) => items.iter().any(inside),
        Value::Object(map) => map.values().any(inside),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_nested_too_deeply_becomes_text() {
        let nested = |levels| (0..levels).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
        assert!(bounded(nested(NESTED_MAX)).is_array());
        let text = bounded(nested(NESTED_MAX + 1));
        assert_eq!(text, nested(NESTED_MAX + 1).to_string());
    }
}
