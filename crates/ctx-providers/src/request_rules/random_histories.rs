//! Generates random histories: several providers, interrupted turns, wrong order, empty parts and
//! parts that no API accepts.

use ctx_core::id::{BlobId, ObjectId};
use ctx_core::inbox::Tool;
use ctx_core::message::{Message, Part, Role, ToolStatus};
use ctx_core::projection::PastTurn;
use ctx_core::stored_content::Content;
use ctx_core::turn::Status;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::test_harness::{image_part, message, tool_result};

/// The provider for which histories are projected.
pub(super) const PROVIDER: &str = "me";

/// The parts of a request that do not come from the history.
#[derive(Debug, Clone)]
pub(super) struct RequestOptions {
    pub(super) system: Option<String>,
    pub(super) tools: Vec<Tool>,
    pub(super) effort: Option<String>,
    pub(super) images: bool,
}

pub(super) fn request_options() -> impl Strategy<Value = RequestOptions> {
    let parameters = prop_oneof![
        Just(Value::Null),
        Just(json!({"properties": {}})),
        Just(json!({"type": "object"})),
        Just(json!([])),
    ];
    let tool = ("[a-z]{1,8}", parameters).prop_map(|(name, parameters)| Tool {
        name,
        description: String::new(),
        parameters,
    });
    let effort = prop_oneof![
        Just(None),
        Just(Some("low".to_owned())),
        Just(Some("high".to_owned())),
        Just(Some("odd".to_owned())),
    ];
    let system = prop_oneof![
        Just(None),
        Just(Some(String::new())),
        Just(Some(" \n".to_owned())),
        Just(Some("Be brief.".to_owned())),
    ];
    (system, prop::collection::vec(tool, 0..3), effort, any::<bool>()).prop_map(
        |(system, tools, effort, images)| RequestOptions { system, tools, effort, images },
    )
}

pub(super) fn history() -> impl Strategy<Value = Vec<PastTurn>> {
    prop::collection::vec(past(), 0..6)
}

fn past() -> impl Strategy<Value = PastTurn> {
    let provider_id = prop_oneof![
        3 => Just(Some(PROVIDER.to_owned())),
        1 => Just(Some("other".to_owned())),
        1 => Just(None),
    ];
    use Status::{Cancelled, Completed, Failed, Interrupted};
    let status = prop::sample::select(vec![Completed, Completed, Cancelled, Failed, Interrupted]);
    (provider_id, status, prop_oneof![turn(), arbitrary_messages()])
        .prop_map(|(provider_id, status, messages)| PastTurn { provider_id, status, messages })
}

/// A turn in the shape that providers produce; tool calls may lack their results.
fn turn() -> impl Strategy<Value = Vec<Message>> {
    let question = prop::collection::vec(content(), 1..3);
    let round = (
        prop::collection::vec(thought(), 0..2),
        prop::collection::vec(content(), 0..2),
        prop::collection::vec(call_id(), 0..3),
        any::<bool>(),
    );
    (question, prop::collection::vec(round, 0..4)).prop_map(|(question, rounds)| {
        let mut messages = vec![message(Role::User, question)];
        for (thoughts, content, ids, answered) in rounds {
            let calls = ids.iter().map(|id| call(id, json!({"n": 1})));
            let parts = thoughts.into_iter().chain(content).chain(calls).collect();
            messages.push(message(Role::Assistant, parts));
            if answered {
                let results = ids.iter().map(|id| tool_result(id, "r", false)).collect();
                messages.push(message(Role::Tool, results));
            }
        }
        messages
    })
}

/// Messages of any role with parts of any kind in any order.
fn arbitrary_messages() -> impl Strategy<Value = Vec<Message>> {
    let role =
        prop_oneof![Just(Role::User), Just(Role::Assistant), Just(Role::System), Just(Role::Tool),];
    let any_message = (role, prop::collection::vec(part(), 0..6))
        .prop_map(|(role, content)| message(role, content));
    prop::collection::vec(any_message, 0..6)
}

fn part() -> impl Strategy<Value = Part> {
    let params = prop_oneof![
        Just(Value::Null),
        Just(json!({"n": 1})),
        Just(json!([1])),
        Just(json!("text")),
        Just(json!({"_raw": "{"})),
    ];
    let results = prop_oneof![
        Just(Content::Text("r".to_owned())),
        Just(Content::Text(String::new())),
        Just(Content::Omitted { omitted: blob(2), bytes: 9 }),
    ];
    let error = Part::Error { code: "x".to_owned(), message: "y".to_owned(), provider_id: None };
    prop_oneof![
        3 => content(),
        2 => thought(),
        3 => (call_id(), params).prop_map(|(id, params)| call(&id, params)),
        3 => (call_id(), results, any::<bool>()).prop_map(|(tool_call_id, content, is_error)| {
            Part::ToolResult { tool_call_id, content, is_error }
        }),
        1 => Just(error),
        1 => Just(Part::Plan { entries: json!([]) }),
        1 => Just(Part::Summary { text: "so far".to_owned() }),
    ]
}

fn blob(byte: u8) -> BlobId {
    BlobId(ObjectId::from_bytes([byte; 32]))
}

/// Text and pictures, empty and unsupported ones included.
fn content() -> impl Strategy<Value = Part> {
    let text = |text: &str| Part::Text { text: text.to_owned() };
    let unsupported =
        Part::Image { media_type: "image/tiff".to_owned(), blob: blob(1), bytes: None };
    let missing = Part::Image { media_type: "image/png".to_owned(), blob: blob(3), bytes: None };
    prop_oneof![
        4 => Just(text("words")),
        1 => Just(text("")),
        1 => Just(text(" \n")),
        1 => Just(image_part()),
        1 => Just(unsupported),
        1 => Just(missing),
    ]
}

/// Reasoning items of every API, complete and incomplete.
fn thought() -> impl Strategy<Value = Part> {
    let raw = prop_oneof![
        Just(None),
        Just(Some(json!({}))),
        Just(Some(json!({"type": "thinking", "thinking": "hm", "signature": "s"}))),
        Just(Some(json!({"type": "thinking", "thinking": "hm", "signature": ""}))),
        Just(Some(json!({"type": "redacted_thinking", "data": "d"}))),
        Just(Some(
            json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"})
        )),
        Just(Some(json!({"type": "reasoning", "id": "rs_2", "summary": []}))),
    ];
    raw.prop_map(|raw| Part::Thought { text: "hm".to_owned(), raw })
}

fn call_id() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (0u8..3).prop_map(|n| format!("call{n}")),
        1 => Just(String::new()),
        1 => Just("fc_1|call_1".to_owned()),
        1 => "\\PC{0,90}",
    ]
}

fn call(id: &str, params: Value) -> Part {
    let name = if id.len().is_multiple_of(2) { "Read file /etc/hosts" } else { "look" };
    Part::ToolCall { id: id.to_owned(), name: name.to_owned(), params, status: ToolStatus::Unknown }
}
