//! Fields of JSON records, read without failing: a field of another type is absent.

use ctx_engine::core::time::Timestamp;
use serde_json::Value;

/// The text of a field.
pub(super) fn text<'a>(record: &'a Value, field: &str) -> Option<&'a str> {
    record.get(field).and_then(Value::as_str)
}

/// The text of a field that is not empty.
pub(super) fn some_text<'a>(record: &'a Value, field: &str) -> Option<&'a str> {
    text(record, field).filter(|text| !text.is_empty())
}

/// The number of a field.
pub(super) fn number(record: &Value, field: &str) -> Option<u64> {
    record.get(field).and_then(Value::as_u64)
}

/// The list of a field.
pub(super) fn list<'a>(record: &'a Value, field: &str) -> &'a [Value] {
    record.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The time of a field: RFC 3339, or milliseconds.
pub(super) fn time(record: &Value, field: &str) -> Option<Timestamp> {
    match record.get(field)? {
        Value::String(text) => {
            let at: jiff::Timestamp = text.parse().ok()?;
            Some(Timestamp(at.as_millisecond()))
        }
        Value::Number(number) => number.as_i64().map(Timestamp),
        _ => None,
    }
}

/// The text of a value: a string, or the texts of a list of parts, or the value as JSON.
pub(super) fn flat_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Array(parts) if parts.iter().all(|part| part.get("text").is_some()) => {
            parts.iter().filter_map(|part| text(part, "text")).collect::<Vec<_>>().join("\n")
        }
        other => other.to_string(),
    }
}
