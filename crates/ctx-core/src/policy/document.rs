//! The shapes that a document of a policy file can have, and values that are a text or a list.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_saphyr::{Location, Spanned};

/// The key of the list of policies.
const POLICIES: &str = "policies";

/// The policies of one document: `policies: [...]`, a list, or one policy.
#[derive(Debug)]
pub(super) struct Document<P>(pub(super) Vec<Spanned<P>>);

impl<'de, P: Deserialize<'de>> Deserialize<'de> for Document<P> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Shape(PhantomData)).map(Document)
    }
}

struct Shape<P>(PhantomData<P>);

impl<'de, P: Deserialize<'de>> Visitor<'de> for Shape<P> {
    type Value = Vec<Spanned<P>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`policies` with a list, a list of policies, or a policy")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut policies = Vec::new();
        while let Some(policy) = seq.next_element()? {
            policies.push(policy);
        }
        Ok(policies)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Some(first) = map.next_key::<Spanned<String>>()? else {
            return Ok(Vec::new());
        };
        if first.value == POLICIES {
            let policies = map.next_value()?;
            return match map.next_key::<String>()? {
                Some(field) => Err(A::Error::unknown_field(&field, &[POLICIES])),
                None => Ok(policies),
            };
        }
        let at = first.referenced;
        let policy = P::deserialize(MapAccessDeserializer::new(WithFirst {
            first: Some(first.value),
            map,
        }))?;
        Ok(vec![spanned(policy, at)])
    }
}

fn spanned<P>(value: P, at: Location) -> Spanned<P> {
    Spanned { value, referenced: at, defined: at }
}

/// A mapping whose first key was read already.
struct WithFirst<A> {
    first: Option<String>,
    map: A,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for WithFirst<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        match self.first.take() {
            Some(key) => seed.deserialize(StrDeserializer::new(&key)).map(Some),
            None => self.map.next_key_seed(seed),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

/// The name of a policy, without checking the rest of it.
#[derive(Debug)]
pub(super) struct Sketch {
    pub(super) name: Option<String>,
}

impl<'de> Deserialize<'de> for Sketch {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(SketchVisitor)
    }
}

struct SketchVisitor;

impl<'de> Visitor<'de> for SketchVisitor {
    type Value = Sketch;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a policy")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Sketch, A::Error> {
        let mut name = None;
        while let Some(key) = map.next_key::<String>()? {
            if key == "name" {
                name = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(Sketch { name })
    }
}

/// One text or a list of texts.
#[derive(Debug)]
pub(super) enum Texts {
    One(String),
    Many(Vec<String>),
    /// A scalar without quotes that looks like a number or a truth value. It is read from the
    /// source, because `+4912` and `4912` are different senders.
    Untyped,
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(TextsVisitor)
    }
}

struct TextsVisitor;

impl<'de> Visitor<'de> for TextsVisitor {
    type Value = Texts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a list of texts")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Texts, E> {
        Ok(Texts::One(text.to_owned()))
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Texts, E> {
        Ok(Texts::Untyped)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Texts, E> {
        Ok(Texts::Untyped)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Texts, E> {
        Ok(Texts::Untyped)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Texts, E> {
        Ok(Texts::Untyped)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Texts, A::Error> {
        let mut list = Vec::new();
        while let Some(text) = seq.next_element()? {
            list.push(text);
        }
        Ok(Texts::Many(list))
    }
}
