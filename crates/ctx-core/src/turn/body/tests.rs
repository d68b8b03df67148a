//! Every list of messages decodes to itself, and every other body is an error.

use proptest::prelude::{ProptestConfig, any, prop_assert_eq, proptest};
use proptest::sample::Index;
use serde_json::json;
use ulid::Ulid;

use super::super::{About, encode as encode_turn};
use super::*;
use crate::id::MessageId;
use crate::message::{Role, ToolStatus, samples};

const BEGAN: Timestamp = Timestamp(1_000);

fn turn(messages: &[Message]) -> (Header, Object) {
    let (header, body) = encode_turn(About::at(BEGAN), messages);
    (header, body.into_object())
}

fn message_at(at: i64, content: Vec<Part>) -> Message {
    Message {
        id: MessageId(Ulid(1)),
        role: Role::Assistant,
        source: None,
        content,
        created_at: Timestamp(at),
    }
}

fn text(text: &str) -> Part {
    Part::Text { text: text.to_owned() }
}

fn call(id: &str, name: &str, params: Value) -> Part {
    Part::ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        params,
        status: ToolStatus::Completed,
    }
}

fn answer(id: &str, words: &str, is_error: bool) -> Part {
    Part::ToolResult {
        tool_call_id: id.to_owned(),
        content: Content::Text(words.to_owned()),
        is_error,
    }
}

fn stored(json: &Value) -> Object {
    Object::encode(Kind::TurnBody, json)
}

/// Two calls in the second of three messages.
fn exchange() -> Vec<Message> {
    vec![
        message_at(960, vec![text("list them")]),
        message_at(
            1_000,
            vec![text("Yes."), call("a", "ls", json!({"path": "."})), call("b", "ls", json!(null))],
        ),
        message_at(
            1_007,
            vec![
                answer("b", "no such", true),
                answer("a", "x.rs", false),
                answer("earlier", "late", false),
            ],
        ),
    ]
}

#[test]
fn body_does_not_repeat_the_header() {
    let (header, body) = turn(&exchange());
    let words = r#"[[-40,"list them"],["Yes.",{"ls":{"path":"."}},{"ls":null}],[7,[1,"no such",true],[0,"x.rs"],["result","earlier","late"]]]"#;
    assert_eq!(String::from_utf8(body.bytes.clone()).expect("text"), words);
    assert_eq!(messages(&header, &body), Ok(exchange()));
}

#[test]
fn a_body_of_another_header_is_an_error() {
    let (header, body) = turn(&exchange());
    let parsed: Value = body.decode().expect("json");
    let with = |pointer: &str, value: Value| {
        let mut json = parsed.clone();
        *json.pointer_mut(pointer).expect("a place") = value;
        messages(&header, &stored(&json))
    };
    assert!(with("/0", json!([])).is_ok(), "an empty message");
    let wrong = [
        ("/0", json!("list them")),
        ("/0/0", json!(1.5)),
        ("/0/0", json!(u64::MAX)),
        ("/0/1", json!(7)),
        ("/0/1", json!(null)),
        ("/0/1", json!([])),
        ("/0/1", json!({})),
        ("/0/1", json!({"ls": {}})),
        ("/1", json!([])),
        ("/1/1", json!({"rm": {}})),
        ("/1/1", json!({"ls": {}, "rm": {}})),
        ("/1/2", json!("a call less")),
        ("/2/1/0", json!(2)),
        ("/2/1/0", json!(-1)),
        ("/2/1/0", json!("nothing known")),
        ("/2/1/2", json!(false)),
        ("/2/2", json!([0])),
        ("/2/2", json!([0, "x.rs", true, true])),
        ("/2/2/1", json!(["00", 1])),
        ("/2/2/1", json!([])),
        ("/2/2/1", json!(["omitted"])),
        ("/2/2/1", json!({"blob": "00"})),
        ("/2/3", json!(["thought"])),
        ("/2/3", json!(["thought", "a", "b", "c"])),
        ("/2/3", json!(["image", "image/png", "00"])),
        ("/2/3", json!(["error", "code"])),
    ];
    for (pointer, value) in wrong {
        let found = with(pointer, value.clone());
        assert!(
            matches!(found, Err(ObjectError::DecodeFailed { kind: Kind::TurnBody, .. })),
            "{pointer} {value}: {found:?}"
        );
    }
    for whole in [json!({"messages": []}), json!([]), json!([[], [], [], []])] {
        assert!(messages(&header, &stored(&whole)).is_err(), "{whole}");
    }
    assert!(matches!(
        messages(&header, &Object { version: 2, ..body }),
        Err(ObjectError::TooNew { .. })
    ));
}

#[test]
fn deeply_nested_json_decodes() {
    let deep = (0..127).fold(Value::Null, |inner, _| json!([inner]));
    let parts = [
        call("c", "t", deep.clone()),
        Part::Plan { entries: deep.clone() },
        Part::Thought { text: "t".to_owned(), raw: Some(deep) },
    ];
    for part in parts {
        let (header, body) = turn(&[message_at(1_000, vec![part])]);
        let read = messages(&header, &body).expect("it decodes");
        assert!(
            serde_json::to_string(&read[0].content[0]).expect("json").contains(&"[".repeat(127)),
            "{read:?}"
        );
    }
}

#[test]
fn calls_belong_to_the_message_given_in_the_header() {
    let (header, body) = turn(&exchange());
    let mut elsewhere = header.clone();
    elsewhere.tool_calls[0].message = 0;
    assert!(messages(&elsewhere, &body).is_err());
    let mut more = header;
    more.tool_calls.push(more.tool_calls[0].clone());
    assert!(messages(&more, &body).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 512,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_messages_decode_to_themselves(sent in samples::messages()) {
        let (header, body) = turn(&sent);
        prop_assert_eq!(messages(&header, &body), Ok(sent));
    }

    #[test]
    fn damaged_bytes_never_panic(
        sent in samples::messages(),
        damage in proptest::collection::vec((any::<Index>(), any::<u8>()), 1..4),
    ) {
        let (header, mut body) = turn(&sent);
        for (at, byte) in damage {
            let at = at.index(body.bytes.len());
            body.bytes[at] = byte;
        }
        let _ = messages(&header, &body);
    }

    #[test]
    fn a_body_with_the_header_of_another_turn_never_panics(
        a in samples::messages(), b in samples::messages()
    ) {
        let ((header, _), (_, body)) = (turn(&a), turn(&b));
        if let Ok(read) = messages(&header, &body) {
            prop_assert_eq!(read.len(), header.messages.len());
        }
    }

    #[test]
    fn any_json_as_a_body_never_panics(
        sent in samples::messages(), parts in proptest::collection::vec(samples::json(), 0..4)
    ) {
        let (header, _) = turn(&sent);
        let body: Vec<&[Value]> = header.messages.iter().map(|_| parts.as_slice()).collect();
        let _ = messages(&header, &stored(&json!(body)));
    }
}
