//! Generators of arbitrary messages for property tests.

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use serde_json::Value;
use ulid::Ulid;

use super::{Message, Part, Role, Source, ToolStatus};
use crate::id::{BlobId, MessageId, ObjectId};
use crate::stored_content::Content;
use crate::time::Timestamp;
use crate::worker;

/// Any text, often with characters that JSON escapes.
pub(crate) fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c \"\\\\\n\t\u{7}/é世\u{1f980}]{0,8}", any::<String>(), Just(String::new())]
}

/// Any JSON.
pub(crate) fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        // Few digits: `serde_json` may parse a long fraction inexactly.
        any::<i32>().prop_map(|n| Value::from(f64::from(n) / 64.0)),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            btree_map(text(), inner, 0..6).prop_map(Value::from_iter),
        ]
    })
}

fn blob() -> impl Strategy<Value = BlobId> {
    any::<[u8; 32]>().prop_map(|bytes| BlobId(ObjectId::from_bytes(bytes)))
}

fn content() -> impl Strategy<Value = Content> {
    prop_oneof![
        text().prop_map(Content::Text),
        (blob(), any::<u64>()).prop_map(|(blob, bytes)| Content::Blob { blob, bytes }),
        (blob(), any::<u64>()).prop_map(|(omitted, bytes)| Content::Omitted { omitted, bytes }),
    ]
}

/// Few different ids, so that results match calls and ids repeat.
fn call_id() -> impl Strategy<Value = String> {
    prop_oneof!["call_[0-2]", text()]
}

fn status() -> impl Strategy<Value = ToolStatus> {
    use ToolStatus::{Completed, Failed, Pending, Running, Unknown};
    prop_oneof![Just(Pending), Just(Running), Just(Completed), Just(Failed), Just(Unknown)]
}

fn part() -> impl Strategy<Value = Part> {
    let tool = prop_oneof![Just("read_file".to_owned()), Just(worker::DISPATCH.to_owned()), text()];
    prop_oneof![
        text().prop_map(|text| Part::Text { text }),
        (text(), option::of(json())).prop_map(|(text, raw)| Part::Thought { text, raw }),
        (call_id(), tool, json(), status()).prop_map(|(id, name, params, status)| Part::ToolCall {
            id,
            name,
            params,
            status
        }),
        (call_id(), content(), any::<bool>()).prop_map(|(tool_call_id, content, is_error)| {
            Part::ToolResult { tool_call_id, content, is_error }
        }),
        (text(), text(), option::of(text())).prop_map(|(code, message, provider_id)| Part::Error {
            code,
            message,
            provider_id
        }),
        json().prop_map(|entries| Part::Plan { entries }),
        (text(), blob(), option::of(any::<u64>()))
            .prop_map(|(media_type, blob, bytes)| Part::Image { media_type, blob, bytes }),
        text().prop_map(|text| Part::Summary { text }),
        (text(), content()).prop_map(|(kind, content)| Part::Record { kind, content }),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    let role =
        prop_oneof![Just(Role::User), Just(Role::Assistant), Just(Role::System), Just(Role::Tool)];
    let source = prop_oneof![Just(Source::Human), Just(Source::Agent), Just(Source::Timer)];
    let at = prop_oneof![any::<i64>(), 0..2_000_i64];
    (any::<u128>(), role, option::of(source), vec(part(), 0..5), at).prop_map(
        |(id, role, source, content, at)| Message {
            id: MessageId(Ulid(id)),
            role,
            source,
            content,
            created_at: Timestamp(at),
        },
    )
}

/// The messages of one turn.
pub(crate) fn messages() -> impl Strategy<Value = Vec<Message>> {
    vec(message(), 0..5)
}
