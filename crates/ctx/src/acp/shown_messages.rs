//! Messages of a conversation as updates. Each part is sent once, whether it arrives as live text,
//! as a part of the open turn, or with the committed turn.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ctx_engine::core::id::{BlobId, MessageId};
use ctx_engine::core::message::{Message, Part, Role, ToolStatus};
use ctx_engine::core::stored_content::Content;
use ctx_engine::{Engine, TextDelta};
use serde_json::{Value, json};

use super::tool_call_json as tool_call;

/// Maximum size of a tool result that is sent.
const RESULT_MAX_BYTES: usize = 256 * 1024;

/// How messages are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Showing {
    /// Whether a message of ctx is a notice. Notices are live only.
    pub(super) notices: bool,
    /// Whether an error of the provider is shown as text.
    pub(super) errors: bool,
}

/// What the editor has received of a session.
#[derive(Debug, Default)]
pub(super) struct ShownMessages {
    dir: Option<PathBuf>,
    /// Messages that were sent completely, or by the editor itself.
    whole: HashSet<MessageId>,
    /// Number of characters sent of the messages of the open turn; thoughts are counted apart.
    chars: HashMap<(MessageId, bool), usize>,
    /// The calls of the open turn.
    calls: HashMap<(MessageId, String), ShownCall>,
    /// What the agent reported about calls of the open turn and ctx does not store.
    details: HashMap<String, Value>,
    /// Ids of calls that the editor knows. Agents may use an id again in another turn.
    used_ids: HashSet<String>,
    plan: Option<Value>,
}

#[derive(Debug)]
struct ShownCall {
    /// The id for the editor.
    id: String,
    name: String,
    params: Value,
    status: ToolStatus,
    has_result: bool,
}

impl ShownMessages {
    pub(super) fn new(dir: Option<&str>) -> Self {
        Self { dir: dir.map(PathBuf::from), ..Self::default() }
    }

    /// The editor has the message already.
    pub(super) fn mark_whole(&mut self, message: MessageId) {
        self.whole.insert(message);
    }

    /// The turn of these messages is committed: nothing is added to them.
    pub(super) fn turn_ended(&mut self, messages: &[Message]) {
        self.whole.extend(messages.iter().map(|message| message.id));
        self.chars.clear();
        self.calls.clear();
        self.details.clear();
        self.plan = None;
    }

    /// The update for live text; `None` if it was sent before.
    pub(super) fn delta(&mut self, delta: &TextDelta) -> Option<Value> {
        if self.whole.contains(&delta.message_id) {
            return None;
        }
        let sent = self.chars.entry((delta.message_id, delta.thought)).or_default();
        let known = sent.saturating_sub(delta.offset);
        let text: String = delta.text.chars().skip(known).collect();
        if text.is_empty() {
            return None;
        }
        *sent = delta.offset + delta.text.chars().count();
        let calls = self.calls.keys().filter(|(message, _)| *message == delta.message_id).count();
        Some(text_chunk(delta.message_id, calls, delta.thought, &text))
    }

    /// The updates for a message, without what was sent before.
    pub(super) async fn message(
        &mut self,
        engine: &Engine,
        message: &Message,
        showing: Showing,
    ) -> Vec<Value> {
        if self.whole.contains(&message.id) {
            return Vec::new();
        }
        if matches!(message.role, Role::User | Role::System) {
            self.whole.insert(message.id);
        }
        let (mut updates, mut calls) = (Vec::new(), 0);
        let mut counts = [0, 0];
        for part in &message.content {
            match (part, message.role) {
                (Part::Text { text }, Role::System) if showing.notices => {
                    updates.push(notice(text));
                }
                (Part::Text { text }, Role::User) => {
                    updates.push(chunk("user_message_chunk", message.id, 0, text_block(text)));
                }
                (Part::Image { media_type, blob, .. }, role) => {
                    let kind = if role == Role::User {
                        "user_message_chunk"
                    } else {
                        "agent_message_chunk"
                    };
                    let block = image_block(engine, media_type, *blob).await;
                    updates.push(chunk(kind, message.id, calls, block));
                }
                (Part::Text { text } | Part::Summary { text }, _) => {
                    updates.extend(self.text(message.id, calls, false, text, &mut counts));
                }
                (Part::Thought { text, .. }, _) => {
                    updates.extend(self.text(message.id, calls, true, text, &mut counts));
                }
                (Part::ToolCall { id, name, params, status }, _) => {
                    calls += 1;
                    updates.extend(self.call(message.id, id, name, params, *status));
                }
                (Part::ToolResult { tool_call_id, content, is_error }, _) => {
                    updates.extend(self.result(engine, tool_call_id, content, *is_error).await);
                }
                (Part::Plan { entries }, _) => updates.extend(self.plan(entries)),
                (Part::Error { code, message: why, .. }, _) if showing.errors => {
                    let text = format!("Error: {why} [{code}]");
                    updates.extend(self.text(message.id, calls, false, &text, &mut counts));
                }
                (Part::Error { .. } | Part::Record { .. }, _) => {}
            }
        }
        updates
    }

    /// The part of a text that was not sent yet.
    fn text(
        &mut self,
        message: MessageId,
        calls: usize,
        thought: bool,
        text: &str,
        counts: &mut [usize; 2],
    ) -> Option<Value> {
        let count = &mut counts[usize::from(thought)];
        let start = *count;
        *count += text.chars().count();
        let sent = self.chars.entry((message, thought)).or_default();
        let known = sent.saturating_sub(start);
        *sent = (*sent).max(*count);
        let new: String = text.chars().skip(known).collect();
        (!new.is_empty()).then(|| text_chunk(message, calls, thought, &new))
    }

    fn call(
        &mut self,
        message: MessageId,
        id: &str,
        name: &str,
        params: &Value,
        status: ToolStatus,
    ) -> Option<Value> {
        let dir = self.dir.as_deref();
        let key = (message, id.to_owned());
        if let Some(call) = self.calls.get_mut(&key) {
            let is_input_known = call.name == name && call.params == *params;
            // The status of an ended call is sent with its result.
            let has_ended = matches!(status, ToolStatus::Completed | ToolStatus::Failed);
            let is_status_known = call.status == status || has_ended;
            if is_input_known && is_status_known {
                return None;
            }
            let mut update = json!({"sessionUpdate": "tool_call_update", "toolCallId": call.id});
            if !is_input_known {
                merge(&mut update, &tool_call::call_fields(name, params, dir));
                merge_details(&mut update, self.details.get(id));
                (call.name, call.params) = (name.to_owned(), params.clone());
            }
            if !is_status_known {
                update["status"] = tool_call::status(status).into();
                call.status = status;
            }
            return Some(update);
        }
        let mut shown_id = id.to_owned();
        while !self.used_ids.insert(shown_id.clone()) {
            shown_id = format!("{id}-{}", self.used_ids.len());
        }
        let mut update = json!({"sessionUpdate": "tool_call", "toolCallId": shown_id});
        merge(&mut update, &tool_call::call_fields(name, params, dir));
        merge_details(&mut update, self.details.get(id));
        update["status"] = tool_call::status(status).into();
        self.calls.insert(
            key,
            ShownCall {
                id: shown_id,
                name: name.to_owned(),
                params: params.clone(),
                status,
                has_result: false,
            },
        );
        Some(update)
    }

    async fn result(
        &mut self,
        engine: &Engine,
        call_id: &str,
        content: &Content,
        is_error: bool,
    ) -> Option<Value> {
        let call = self.calls.iter_mut().find(|((_, id), call)| id == call_id && !call.has_result);
        let (_, call) = call?;
        call.has_result = true;
        call.status = if is_error { ToolStatus::Failed } else { ToolStatus::Completed };
        let text = result_text(engine, content).await;
        let mut update = json!({"sessionUpdate": "tool_call_update", "toolCallId": call.id});
        let details = self.details.get(call_id);
        merge_details(&mut update, details);
        update["status"] = tool_call::status(call.status).into();
        // Text that the agent reported before the end may be about the request, not its result.
        let reported = details.and_then(|details| details["content"].as_array().cloned());
        let mut shown = reported.unwrap_or_default();
        shown.retain(|item| item["type"] == "diff" || item["type"] == "terminal");
        let has_diff = shown.iter().any(|item| item["type"] == "diff");
        let derived = tool_call::result_content(&text, self.dir.as_deref());
        shown.extend(derived.into_iter().filter(|item| item["type"] != "diff" || !has_diff));
        update["content"] = shown.into();
        if !text.is_empty() {
            update["rawOutput"] = json!({"output": text});
        }
        Some(update)
    }

    fn plan(&mut self, entries: &Value) -> Option<Value> {
        let list = entries.as_array().cloned().unwrap_or_default();
        let entries: Vec<Value> = list.iter().filter_map(plan_entry).collect();
        let plan = json!({"sessionUpdate": "plan", "entries": entries});
        if self.plan.as_ref() == Some(&plan) {
            return None;
        }
        self.plan = Some(plan.clone());
        Some(plan)
    }

    /// Keeps what the agent reported about a call. The update, if the editor knows the call.
    pub(super) fn agent_call_update(&mut self, reported: &Value) -> Option<Value> {
        let id = reported.get("toolCallId")?.as_str()?;
        let details = self.details.entry(id.to_owned()).or_insert_with(|| json!({}));
        let before = details.clone();
        for key in DETAILS {
            if let Some(value) = reported.get(key).filter(|value| !is_blank(value)) {
                details[key] = value.clone();
            }
        }
        let call = self.calls.iter().find(|((_, call), _)| call == id);
        let (_, call) = call.filter(|_| before != *details)?;
        let mut update = json!({"sessionUpdate": "tool_call_update", "toolCallId": call.id});
        merge(&mut update, details);
        Some(update)
    }

    /// The call of a permission request, as the editor knows it.
    pub(super) fn permission_call(&self, id: &str, name: &str, params: &Value) -> Value {
        let shown = self.calls.iter().find(|((_, call), _)| call == id);
        let shown_id = shown.map_or(id, |(_, call)| call.id.as_str());
        let mut call = json!({"toolCallId": shown_id, "status": "pending"});
        merge(&mut call, &tool_call::call_fields(name, params, self.dir.as_deref()));
        merge_details(&mut call, self.details.get(id));
        call
    }
}

/// Fields of a call that ctx does not store and passes on.
const DETAILS: [&str; 4] = ["title", "kind", "locations", "content"];

fn merge(into: &mut Value, fields: &Value) {
    for (key, value) in fields.as_object().into_iter().flatten() {
        into[key] = value.clone();
    }
}

fn merge_details(into: &mut Value, details: Option<&Value>) {
    if let Some(details) = details {
        merge(into, details);
    }
}

fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// A chunk of a message. The text after a tool call is another message for the editor.
fn chunk(kind: &str, message: MessageId, calls: usize, content: Value) -> Value {
    let id = if calls == 0 { message.to_string() } else { format!("{message}-{calls}") };
    json!({"sessionUpdate": kind, "content": content, "messageId": id})
}

fn text_chunk(message: MessageId, calls: usize, thought: bool, text: &str) -> Value {
    let kind = if thought { "agent_thought_chunk" } else { "agent_message_chunk" };
    chunk(kind, message, calls, text_block(text))
}

/// Text of ctx that is no part of the conversation.
pub(super) fn said(text: &str) -> Value {
    json!({"sessionUpdate": "agent_message_chunk", "content": text_block(text)})
}

fn notice(text: &str) -> Value {
    let (title, description) = text.split_once('\n').unwrap_or((text, ""));
    let mut notice = json!({"sessionUpdate": "notice", "severity": "info", "title": title});
    if !description.is_empty() {
        notice["description"] = description.into();
    }
    notice
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

async fn image_block(engine: &Engine, media_type: &str, blob: BlobId) -> Value {
    match engine.records().object(blob.0).await {
        Ok(Some(object)) => {
            let data = STANDARD.encode(&object.bytes);
            json!({"type": "image", "mimeType": media_type, "data": data})
        }
        _ => text_block(&format!("[an image, {media_type}, that is not stored]")),
    }
}

/// The text of a result, shortened to what an editor can show.
async fn result_text(engine: &Engine, content: &Content) -> String {
    let mut text = match content {
        Content::Text(text) => text.clone(),
        Content::Blob { blob, bytes } => match engine.records().object(blob.0).await {
            Ok(Some(object)) => String::from_utf8_lossy(&object.bytes).into_owned(),
            _ => format!("[{bytes} bytes that are not stored]"),
        },
        Content::Omitted { bytes, .. } => format!("[{bytes} bytes that are not stored]"),
    };
    if text.len() > RESULT_MAX_BYTES {
        let end = text.floor_char_boundary(RESULT_MAX_BYTES);
        text.truncate(end);
        text.push_str("\n[shortened]");
    }
    text
}

/// An entry of a plan with the fields that ACP requires.
fn plan_entry(entry: &Value) -> Option<Value> {
    let content = entry.as_str().or_else(|| entry.get("content")?.as_str())?;
    let word = |key: &str, known: [&'static str; 3], default: &'static str| {
        let given = entry.get(key).and_then(Value::as_str);
        known.into_iter().find(|word| Some(*word) == given).unwrap_or(default)
    };
    Some(json!({
        "content": content,
        "priority": word("priority", ["high", "medium", "low"], "medium"),
        "status": word("status", ["pending", "in_progress", "completed"], "pending"),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctx_engine::core::id::RunId;
    use ulid::Ulid;

    const MESSAGE: MessageId = MessageId(Ulid(1));

    fn delta(offset: usize, text: &str) -> TextDelta {
        let run_id = RunId(Ulid(2));
        let text = text.to_owned();
        TextDelta { run_id, message_id: MESSAGE, thought: false, offset, text, draft: false }
    }

    fn call(shown: &mut ShownMessages, message: MessageId, status: ToolStatus) -> Option<Value> {
        shown.call(message, "c1", "Bash", &json!({"command": "ls"}), status)
    }

    #[test]
    fn live_text_is_sent_once_and_apart_from_the_text_before_a_call() {
        let mut shown = ShownMessages::default();
        let text = |update: Option<Value>| update.map(|it| it["content"]["text"].clone());
        assert_eq!(text(shown.delta(&delta(0, "one "))), Some(json!("one ")));
        assert_eq!(text(shown.delta(&delta(0, "one two"))), Some(json!("two")));
        assert_eq!(shown.delta(&delta(0, "one")), None, "it was sent before");
        call(&mut shown, MESSAGE, ToolStatus::Running);
        let after = shown.delta(&delta(7, "!")).expect("new text");
        assert_eq!(after["messageId"], format!("{MESSAGE}-1"));
        shown.mark_whole(MESSAGE);
        assert_eq!(shown.delta(&delta(8, "?")), None, "the turn is committed");
    }

    #[test]
    fn id_that_an_agent_uses_again_is_another_call() {
        let mut shown = ShownMessages::default();
        let first = call(&mut shown, MESSAGE, ToolStatus::Pending).expect("a call");
        assert_eq!((&first["toolCallId"], &first["status"]), (&json!("c1"), &json!("pending")));
        assert_eq!(call(&mut shown, MESSAGE, ToolStatus::Pending), None, "nothing new");
        let running = call(&mut shown, MESSAGE, ToolStatus::Running).expect("an update");
        assert_eq!(running["status"], "in_progress");
        shown.turn_ended(&[]);
        let again = call(&mut shown, MessageId(Ulid(3)), ToolStatus::Pending).expect("a call");
        assert_eq!(again["sessionUpdate"], "tool_call");
        assert_ne!(again["toolCallId"], first["toolCallId"]);
    }

    #[test]
    fn what_the_agent_reports_about_a_known_call_is_passed_on() {
        let mut shown = ShownMessages::default();
        let place = json!([{"path": "/w/a.rs", "line": 7}]);
        let reported = json!({"toolCallId": "c1", "locations": place, "kind": "edit"});
        assert_eq!(shown.agent_call_update(&reported), None, "the call is not known yet");
        let started = call(&mut shown, MESSAGE, ToolStatus::Pending).expect("a call");
        assert_eq!((&started["locations"], &started["kind"]), (&place, &json!("edit")));
        let diff = json!([{"type": "diff", "path": "/w/a.rs", "newText": "x"}]);
        let more = json!({"toolCallId": "c1", "content": diff});
        assert_eq!(shown.agent_call_update(&more).expect("an update")["content"], diff);
        assert_eq!(shown.agent_call_update(&more), None, "nothing new");
    }

    #[test]
    fn plan_has_the_fields_that_the_protocol_requires_and_is_sent_when_it_changes() {
        let mut shown = ShownMessages::default();
        let entries = json!(["Read", {"content": "Write", "status": "in_progress"}, 7]);
        let plan = shown.plan(&entries).expect("a plan");
        assert_eq!(
            plan["entries"],
            json!([
                {"content": "Read", "priority": "medium", "status": "pending"},
                {"content": "Write", "priority": "medium", "status": "in_progress"},
            ])
        );
        assert_eq!(shown.plan(&entries), None);
    }
}
