//! Nesting limit of JSON from agents and clients.
//!
//! A value may be as deep as the parser allows. Inside a record it would be deeper and could not be
//! parsed again. A value that is nested too deeply is stored as text.

use serde::{Serialize, Serializer};
use serde_json::Value;

/// Maximum depth of a value. Parsers stop at 128, and a record adds a few levels around a value.
const DEPTH_MAX: usize = 100;

/// Returns the value, or its JSON text if it is nested too deeply.
pub fn limit_depth(value: Value) -> Value {
    if is_deeper(&value, DEPTH_MAX) { Value::String(value.to_string()) } else { value }
}

/// Serialises a value, or its JSON text if it is nested too deeply.
pub(crate) struct DepthLimited<'a>(pub(crate) &'a Value);

impl Serialize for DepthLimited<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if is_deeper(self.0, DEPTH_MAX) {
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
    fn only_values_above_the_depth_limit_become_text() {
        let nested = |levels| (0..levels).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
        assert!(limit_depth(nested(DEPTH_MAX)).is_array());
        let text = limit_depth(nested(DEPTH_MAX + 1));
        assert_eq!(text, nested(DEPTH_MAX + 1).to_string());
    }
}
