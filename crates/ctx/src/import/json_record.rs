//! A record of a file of JSON lines, without fields that are not used.
//!
//! Tools repeat large results in fields of their own. Skipping such a field takes a small part of
//! the time that building its value takes.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

/// Parses a record. The fields with these names are left out if the record is an object.
///
/// # Errors
/// If the text is not valid JSON.
pub(super) fn parse(text: &str, skipped: &[&str]) -> serde_json::Result<Value> {
    if skipped.is_empty() || !text.trim_start().starts_with('{') {
        return serde_json::from_str(text);
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let record = Fields(skipped).deserialize(&mut json)?;
    json.end()?;
    Ok(record)
}

struct Fields<'a>(&'a [&'a str]);

impl<'de> DeserializeSeed<'de> for Fields<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            if self.0.contains(&name.as_str()) {
                map.next_value::<IgnoredAny>()?;
            } else {
                fields.insert(name, map.next_value()?);
            }
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn skipped_fields_are_left_out_and_errors_are_found() {
        let text = r#" {"a": 1, "big": {"x": [1, "}"]}, "b": {"big": 2}} "#;
        assert_eq!(parse(text, &["big"]).expect("JSON"), json!({"a": 1, "b": {"big": 2}}));
        assert_eq!(parse(text, &[]).expect("JSON")["big"]["x"][0], 1);
        assert_eq!(parse("[1]", &["big"]).expect("JSON"), json!([1]));
        for bad in [r#"{"big": }"#, r#"{"a": 1} x"#, "{", r#"{"big": [1}"#] {
            assert!(parse(bad, &["big"]).is_err(), "{bad}");
        }
    }
}
