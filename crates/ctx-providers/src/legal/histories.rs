//! Histories as they can be: of several providers, cut off, out of order, empty, with what no API takes.

use ctx_core::content::Content;
use ctx_core::id::{BlobId, ObjectId};
use ctx_core::inbox::Tool;
use ctx_core::message::{Message, Part, Role, ToolStatus};
use ctx_core::project::Past;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::testing::{message, picture};

/// For whom histories are projected.
pub(super) const ME: &str = "me";

/// What else a request has.
#[derive(Debug, Clone)]
pub(super) struct Wishes {
    pub(super) system: Option<String>,
    pub(super) tools: Vec<Tool>,
    pub(super) effort: Option<String>,
    pub(super) images: bool,
}

pub(super) fn wishes() -> impl Strategy<Value = Wishes> {
    let parameters = prop_oneof![Just(Value::Null), Just(json!({"properties": {}})), Just(json!({"type": "object"})), Just(json!([]))];
    let tool = ("[a-z]{1,8}", parameters).prop_map(|(name, parameters)| Tool { name, description: String::new(), parameters });
    let effort = prop_oneof![Just(None), Just(Some("low".to_owned())), Just(Some("high".to_owned())), Just(Some("odd".to_owned()))];
    let system = prop_oneof![Just(None), Just(Some(String::new())), Just(Some("Be brief.".to_owned()))];
    (system, prop::collection::vec(tool, 0..3), effort, any::<bool>()).prop_map(|(system, tools, effort, images)| Wishes {
        system,
        tools,
        effort,
        images,
    })
}

pub(super) fn history() -> impl Strategy<Value = Vec<Past>> {
    prop::collection::vec(past(), 0..6)
}

fn past() -> impl Strategy<Value = Past> {
    let provider_id = prop_oneof![3 => Just(Some(ME.to_owned())), 1 => Just(Some("other".to_owned())), 1 => Just(None)];
    (provider_id, prop_oneof![turn(), noise()]).prop_map(|(provider_id, messages)| Past { provider_id, messages })
}

/// A turn as providers make them: asked, answered, tools called, perhaps cut off.
fn turn() -> impl Strategy<Value = Vec<Message>> {
    let asked = prop::collection::vec(words(), 1..3);
    let round =
        (prop::collection::vec(thought(), 0..2), prop::collection::vec(words(), 0..2), prop::collection::vec(id(), 0..3), any::<bool>());
    let rounds = prop::collection::vec(round, 0..4);
    (asked, rounds).prop_map(|(asked, rounds)| {
        let mut messages = vec![message(Role::User, asked)];
        for (thoughts, words, ids, answered) in rounds {
            let calls = ids.iter().map(|id| call(id, json!({"n": 1})));
            messages.push(message(Role::Assistant, thoughts.into_iter().chain(words).chain(calls).collect()));
            if answered {
                messages.push(message(Role::Tool, ids.iter().map(|id| result(id, "r")).collect()));
            }
        }
        messages
    })
}

/// Anything anywhere.
fn noise() -> impl Strategy<Value = Vec<Message>> {
    let role = prop_oneof![Just(Role::User), Just(Role::Assistant), Just(Role::System), Just(Role::Tool)];
    prop::collection::vec((role, prop::collection::vec(part(), 0..6)).prop_map(|(role, content)| message(role, content)), 0..6)
}

fn part() -> impl Strategy<Value = Part> {
    let params = prop_oneof![Just(Value::Null), Just(json!({"n": 1})), Just(json!([1])), Just(json!("text")), Just(json!({"_raw": "{"}))];
    let results = prop_oneof![
        Just(Content::Text("r".to_owned())),
        Just(Content::Text(String::new())),
        Just(Content::Omitted { omitted: BlobId(ObjectId::from_bytes([2; 32])), bytes: 9 }),
    ];
    prop_oneof![
        3 => words(),
        2 => thought(),
        3 => (id(), params).prop_map(|(id, params)| call(&id, params)),
        3 => (id(), results, any::<bool>())
            .prop_map(|(tool_call_id, content, is_error)| Part::ToolResult { tool_call_id, content, is_error }),
        1 => Just(Part::Error { code: "x".to_owned(), message: "y".to_owned(), provider_id: None }),
        1 => Just(Part::Plan { entries: json!([]) }),
        1 => Just(Part::Summary { text: "so far".to_owned() }),
    ]
}

fn words() -> impl Strategy<Value = Part> {
    let text = |text: &str| Part::Text { text: text.to_owned() };
    let unknown = Part::Image { media_type: "image/tiff".to_owned(), blob: BlobId(ObjectId::from_bytes([1; 32])), bytes: None };
    let lost = Part::Image { media_type: "image/png".to_owned(), blob: BlobId(ObjectId::from_bytes([3; 32])), bytes: None };
    prop_oneof![
        4 => Just(text("words")),
        1 => Just(text("")),
        1 => Just(text(" \n")),
        1 => Just(picture()),
        1 => Just(unknown),
        1 => Just(lost),
    ]
}

/// Reasoning of every API, whole and not.
fn thought() -> impl Strategy<Value = Part> {
    let raw = prop_oneof![
        Just(None),
        Just(Some(json!({}))),
        Just(Some(json!({"type": "thinking", "thinking": "hm", "signature": "s"}))),
        Just(Some(json!({"type": "thinking", "thinking": "hm", "signature": ""}))),
        Just(Some(json!({"type": "redacted_thinking", "data": "d"}))),
        Just(Some(json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"}))),
        Just(Some(json!({"type": "reasoning", "id": "rs_2", "summary": []}))),
    ];
    raw.prop_map(|raw| Part::Thought { text: "hm".to_owned(), raw })
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof![4 => (0u8..3).prop_map(|n| format!("call{n}")), 1 => Just(String::new()), 1 => Just("fc_1|call_1".to_owned()), 1 => "\\PC{0,90}"]
}

fn call(id: &str, params: Value) -> Part {
    let name = if id.len().is_multiple_of(2) { "Read file /etc/hosts" } else { "look" };
    Part::ToolCall { id: id.to_owned(), name: name.to_owned(), params, status: ToolStatus::Unknown }
}

fn result(id: &str, text: &str) -> Part {
    crate::testing::result(id, text, false)
}
