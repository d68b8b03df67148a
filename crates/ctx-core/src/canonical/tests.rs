//! The writer produces the same bytes as a sorted `Value`, for every shape of type.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::{ProptestConfig, Strategy, any, prop_assert_eq, proptest};
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Value, json};

use super::*;
use crate::message::samples;

/// Reference implementation: converts to a `Value` and sorts the keys of each map.
fn reference<T: Serialize>(value: &T) -> String {
    written(&serde_json::to_value(value).expect("JSON"))
}

fn written(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let sorted: BTreeMap<&String, &Value> = map.iter().collect();
            let entry = |(key, value): (&&String, &&Value)| {
                format!("{}:{}", Value::from(key.as_str()), written(value))
            };
            format!("{{{}}}", sorted.iter().map(entry).collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(written).collect::<Vec<_>>().join(","))
        }
        scalar => scalar.to_string(),
    }
}

fn text<T: Serialize>(value: &T) -> String {
    String::from_utf8(to_bytes(value)).expect("canonical JSON is UTF-8")
}

#[test]
fn keys_are_sorted_at_every_depth() {
    assert_eq!(
        text(&json!({"b": {"z": 1, "a": [true, null]}, "a": "é\n"})),
        r#"{"a":"é\n","b":{"a":[true,null],"z":1}}"#
    );
}

#[test]
fn integers_above_two_to_the_53_stay_apart() {
    let (a, b) = (json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992_u64));
    assert_ne!(text(&a), text(&b));
    assert_eq!(text(&json!(u64::MAX)), "18446744073709551615");
    assert_eq!(text(&json!(i64::MIN)), "-9223372036854775808");
}

/// Serialises as a map with its entries in list order.
struct Entries(Vec<(String, Value)>);

impl Serialize for Entries {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

#[test]
fn keys_are_sorted_by_their_unescaped_text() {
    let entries =
        |keys: &[&str]| Entries(keys.iter().map(|key| ((*key).to_owned(), json!(1))).collect());
    let keys = ["b", "a\n", "aB", "a", "a!", "a\"", "a\\", "a\u{1}", "é", ""];
    assert_eq!(text(&entries(&keys)), reference(&entries(&keys)));
    assert_eq!(text(&entries(&["aB", "a\n"])), r#"{"a\n":1,"aB":1}"#);
}

#[test]
fn last_value_of_a_repeated_key_is_kept() {
    let twice = Entries(vec![
        ("a".into(), json!({"z": 1, "y": 2})),
        ("b".into(), json!(2)),
        ("a".into(), json!(3)),
    ]);
    assert_eq!(text(&twice), r#"{"a":3,"b":2}"#);
}

#[derive(Serialize)]
struct Unit;

#[derive(Serialize)]
struct Pair(u8, i128);

#[derive(Serialize)]
struct Inner {
    small: f32,
    large: f64,
    letter: char,
}

#[derive(Serialize)]
enum Shape {
    Unit,
    Newtype(Option<u16>),
    Tuple(i8, bool),
    Struct { z: Unit, a: Pair },
}

#[derive(Serialize)]
#[serde(tag = "type")]
enum Tagged {
    None,
    Named { zebra: u128, ant: () },
    Whole(Inner),
}

#[derive(Serialize)]
#[serde(tag = "t", content = "c")]
enum Adjacent {
    One(Vec<Shape>),
}

struct Bytes;

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(b"\x00\xff")
    }
}

#[derive(Serialize)]
struct Zoo {
    shapes: Vec<Shape>,
    tagged: Vec<Tagged>,
    one: Adjacent,
    #[serde(flatten)]
    flat: Inner,
    #[serde(flatten)]
    more: HashMap<String, Value>,
    bytes: Bytes,
    absent: Option<Unit>,
}

fn zoo(small: f32, large: f64, letter: char, more: HashMap<String, Value>) -> Zoo {
    let inner = || Inner { small, large, letter };
    let shapes =
        || vec![Shape::Unit, Shape::Newtype(Some(7)), Shape::Newtype(None), Shape::Tuple(-1, true)];
    let mut all = shapes();
    all.push(Shape::Struct { z: Unit, a: Pair(1, i128::from(i64::MIN)) });
    Zoo {
        shapes: all,
        tagged: vec![
            Tagged::None,
            Tagged::Named { zebra: u128::from(u64::MAX), ant: () },
            Tagged::Whole(inner()),
        ],
        one: Adjacent::One(shapes()),
        flat: inner(),
        more,
        bytes: Bytes,
        absent: None,
    }
}

#[test]
fn numbers_that_are_not_finite_are_null() {
    for (small, large) in [
        (f32::NAN, f64::INFINITY),
        (f32::NEG_INFINITY, f64::NAN),
        (0.1, -0.0),
        (f32::MIN_POSITIVE, 1e300),
    ] {
        let zoo = zoo(small, large, '"', HashMap::new());
        assert_eq!(text(&zoo), reference(&zoo));
    }
    assert_eq!(text(&f64::NAN), "null");
}

fn is_error<T: Serialize>(value: &T) -> bool {
    value.serialize(&mut Writer::default()).is_err()
}

#[test]
fn values_without_a_json_form_are_errors() {
    assert!(is_error(&BTreeMap::from([((1, 2), 3)])), "a key that is a list");
    assert!(is_error(&BTreeMap::from([(1, 3)])), "a key that is a number");
    assert!(is_error(&u128::MAX) && is_error(&i128::MIN), "beyond 64 bits");
    assert!(!is_error(&i128::from(u64::MAX)) && !is_error(&BTreeMap::from([('a', 3)])));
}

fn entries() -> impl Strategy<Value = Vec<(String, Value)>> {
    proptest::collection::vec((samples::text(), samples::json()), 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 512,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_json_matches_the_reference(value in samples::json()) {
        prop_assert_eq!(text(&value), reference(&value));
    }

    #[test]
    fn entries_in_any_order_match_the_reference(entries in entries()) {
        let entries = Entries(entries);
        prop_assert_eq!(text(&entries), reference(&entries));
    }

    #[test]
    fn any_number_matches_the_reference(
        small in any::<f32>(), large in any::<f64>(), whole in any::<i128>()
    ) {
        prop_assert_eq!(text(&(small, large)), reference(&(small, large)));
        let whole = (whole as u64, whole as i64);
        prop_assert_eq!(text(&whole), reference(&whole));
    }

    #[test]
    fn types_of_every_shape_match_the_reference(
        small in any::<f32>(), large in any::<f64>(), letter in any::<char>(), more in entries()
    ) {
        let zoo = zoo(small, large, letter, more.into_iter().collect());
        prop_assert_eq!(text(&zoo), reference(&zoo));
    }

    #[test]
    fn any_messages_match_the_reference(messages in samples::messages()) {
        prop_assert_eq!(text(&messages), reference(&messages));
    }
}
