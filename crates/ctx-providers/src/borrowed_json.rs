//! JSON that borrows its text from the parsed bytes. A stream has one small document per word, and
//! most of its fields are not used.

use std::borrow::Cow;
use std::fmt;
use std::ops::Index;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// A JSON value. Absent fields and elements are `Null`, as with [`Value`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json<'a> {
    Null,
    /// A boolean or a number.
    Scalar(Value),
    Text(Cow<'a, str>),
    List(Vec<Json<'a>>),
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

impl Json<'_> {
    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The elements of a list; none for other values.
    pub(crate) fn elements(&self) -> &[Self] {
        match self {
            Self::List(elements) => elements,
            _ => &[],
        }
    }

    pub(crate) const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    pub(crate) const fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Scalar(value) => value.clone(),
            Self::Text(text) => Value::String(text.clone().into_owned()),
            Self::List(elements) => elements.iter().map(Self::to_value).collect(),
            Self::Object(fields) => Value::Object(
                fields
                    .iter()
                    .map(|(key, value)| (key.clone().into_owned(), value.to_value()))
                    .collect(),
            ),
        }
    }
}

impl<'a> Index<&str> for Json<'a> {
    type Output = Json<'a>;

    fn index(&self, key: &str) -> &Json<'a> {
        let Self::Object(fields) = self else { return &Json::Null };
        // Of equal keys, the last one counts.
        fields.iter().rfind(|(known, _)| known == key).map_or(&Json::Null, |(_, value)| value)
    }
}

impl<'a> Index<usize> for Json<'a> {
    type Output = Json<'a>;

    fn index(&self, at: usize) -> &Json<'a> {
        match self {
            Self::List(elements) => elements.get(at).unwrap_or(&Json::Null),
            _ => &Json::Null,
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Json<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json<'de>, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json<'de>, E> {
        Ok(Json::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json<'de>, E> {
        Ok(Json::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json<'de>, E> {
        Ok(Json::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json<'de>, E> {
        Ok(Json::Scalar(value.into()))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Json<'de>, E> {
        Ok(Json::Text(Cow::Borrowed(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json<'de>, E> {
        Ok(Json::Text(Cow::Owned(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json<'de>, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = list.next_element()? {
            elements.push(element);
        }
        Ok(Json::List(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json<'de>, A::Error> {
        let mut fields = Vec::new();
        while let Some(key) = map.next_key_seed(TextSeed)? {
            fields.push((key, map.next_value()?));
        }
        Ok(Json::Object(fields))
    }
}

/// Reads a key, borrowed where it has no escapes.
struct TextSeed;

impl<'de> serde::de::DeserializeSeed<'de> for TextSeed {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Cow<'de, str>, D::Error> {
        match deserializer.deserialize_str(JsonVisitor)? {
            Json::Text(text) => Ok(text),
            _ => Ok(Cow::Borrowed("")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_the_same_values_as_an_owned_one() {
        let text = r#"{"a": [1, -2, 0.5, true, null, "é\n", {"k\"": "v"}], "b": "x", "b": "y"}"#;
        let json: Json<'_> = serde_json::from_str(text).expect("valid");
        let value: Value = serde_json::from_str(text).expect("valid");
        assert_eq!(json.to_value(), value);
        assert_eq!(json["b"].as_str(), Some("y"), "the last of two equal keys");
        assert_eq!(json["a"][5].as_str(), Some("é\n"));
        assert_eq!(json["a"].elements().len(), 7);
        assert!(json["a"][6].is_object() && json["a"][9].is_null() && json["none"]["x"].is_null());
        assert!(matches!(&json["b"], Json::Text(Cow::Borrowed(_))), "not copied");
    }
}
