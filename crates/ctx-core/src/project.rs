//! History as a provider may see it. Storage is never touched: what is left out or put in here concerns one request.
//!
//! The result is legal everywhere: every tool call is followed by exactly one result before anybody else speaks, no
//! result stands alone, nobody sees reasoning that somebody else signed, and what ctx itself told the user stays
//! between the two.

use crate::content::Content;
use crate::message::{Message, Part, Role};

/// What stands for the result of a call whose outcome nobody knows.
pub const OUTCOME_UNKNOWN: &str = "The outcome of this call is unknown: it was cut off. Check before repeating it.";

/// Messages of one turn, and who answered in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Past {
    /// Who answered.
    pub provider_id: Option<String>,
    /// What was said.
    pub messages: Vec<Message>,
}

/// Projects turns, oldest first, for a provider.
pub fn project(history: &[Past], provider_id: &str) -> Vec<Message> {
    let mut out = Out::default();
    for past in history {
        let own = past.provider_id.as_deref() == Some(provider_id);
        past.messages.iter().for_each(|message| out.take(message, own));
    }
    out.settle();
    out.messages
}

#[derive(Default)]
struct Out {
    messages: Vec<Message>,
    /// Calls of the newest message that have no result yet.
    open: Vec<String>,
}

impl Out {
    fn take(&mut self, message: &Message, own: bool) {
        let mut content: Vec<Part> = message.content.iter().filter(|part| is_shown(part, own)).cloned().collect();
        match message.role {
            // What ctx told the user is no part of the conversation with the model; a summary is.
            Role::System => content.retain(|part| matches!(part, Part::Summary { .. })),
            Role::User | Role::Assistant => content.retain(|part| !matches!(part, Part::ToolResult { .. })),
            Role::Tool => content.retain(|part| self.answers(part)),
        }
        if content.is_empty() {
            return;
        }
        if message.role != Role::Tool {
            self.settle();
        }
        if message.role == Role::Assistant {
            let mut seen: Vec<String> = Vec::new();
            content.retain(|part| match part {
                Part::ToolCall { id, .. } if seen.contains(id) => false,
                Part::ToolCall { id, .. } => {
                    seen.push(id.clone());
                    true
                }
                _ => true,
            });
            self.open = seen;
        } else if message.role == Role::User {
            content.retain(|part| !matches!(part, Part::ToolCall { .. }));
        }
        if !content.is_empty() {
            self.messages.push(Message { content, ..message.clone() });
        }
    }

    /// Whether a part is the first result of an open call.
    fn answers(&mut self, part: &Part) -> bool {
        let Part::ToolResult { tool_call_id, .. } = part else { return false };
        let open = self.open.iter().position(|id| id == tool_call_id);
        open.map(|at| self.open.remove(at)).is_some()
    }

    /// Before anybody else speaks, every call has a result.
    fn settle(&mut self) {
        let Some(last) = self.messages.last() else { return };
        let unknown =
            |id: String| Part::ToolResult { tool_call_id: id, content: Content::Text(OUTCOME_UNKNOWN.to_owned()), is_error: true };
        let content: Vec<Part> = self.open.drain(..).map(unknown).collect();
        if !content.is_empty() {
            let (id, created_at) = (last.id, last.created_at);
            self.messages.push(Message { id, role: Role::Tool, source: None, content, created_at });
        }
    }
}

fn is_shown(part: &Part, own: bool) -> bool {
    match part {
        Part::Text { text } | Part::Summary { text } => !text.is_empty(),
        Part::ToolCall { .. } | Part::ToolResult { .. } | Part::Image { .. } => true,
        Part::Thought { raw, .. } => own && raw.is_some(),
        Part::Error { .. } | Part::Plan { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::MessageId;
    use crate::message::ToolStatus;
    use crate::time::Timestamp;
    use proptest::prelude::*;
    use ulid::Ulid;

    fn message(role: Role, content: Vec<Part>) -> Message {
        Message { id: MessageId(Ulid(1)), role, source: None, content, created_at: Timestamp(1) }
    }

    fn part() -> impl Strategy<Value = Part> {
        let id = || (0u8..3).prop_map(|n| format!("call{n}"));
        prop_oneof![
            Just(Part::Text { text: "words".to_owned() }),
            Just(Part::Text { text: String::new() }),
            any::<bool>().prop_map(|signed| Part::Thought { text: "hm".to_owned(), raw: signed.then(|| serde_json::json!({})) }),
            id().prop_map(|id| Part::ToolCall { id, name: "t".to_owned(), params: serde_json::Value::Null, status: ToolStatus::Unknown }),
            id().prop_map(|id| Part::ToolResult { tool_call_id: id, content: Content::Text("r".to_owned()), is_error: false }),
            Just(Part::Error { code: "x".to_owned(), message: "y".to_owned(), provider_id: None }),
            Just(Part::Summary { text: "so far".to_owned() }),
        ]
    }

    fn past() -> impl Strategy<Value = Past> {
        let role = prop_oneof![Just(Role::User), Just(Role::Assistant), Just(Role::System), Just(Role::Tool)];
        let messages = prop::collection::vec((role, prop::collection::vec(part(), 0..5)).prop_map(|(r, c)| message(r, c)), 0..6);
        (any::<bool>(), messages)
            .prop_map(|(own, messages)| Past { provider_id: Some(if own { "me" } else { "other" }.to_owned()), messages })
    }

    proptest! {
        #[test]
        fn any_history_projects_to_a_legal_request(history in prop::collection::vec(past(), 0..6)) {
            // R237
            let seen = project(&history, "me");
            prop_assert_eq!(&seen, &project(&history, "me"));
            let mut open: Vec<String> = Vec::new();
            for message in &seen {
                prop_assert!(!message.content.is_empty());
                if message.role != Role::Tool {
                    prop_assert!(open.is_empty(), "a call has no result before somebody speaks");
                }
                for part in &message.content {
                    match part {
                        Part::ToolCall { id, .. } => {
                            prop_assert_eq!(message.role, Role::Assistant);
                            open.push(id.clone());
                        }
                        Part::ToolResult { tool_call_id, .. } => {
                            prop_assert_eq!(message.role, Role::Tool);
                            let at = open.iter().position(|id| id == tool_call_id);
                            prop_assert!(at.is_some(), "a result without its call");
                            open.remove(at.unwrap_or(0));
                        }
                        Part::Error { .. } | Part::Plan { .. } => prop_assert!(false, "ctx's own talk"),
                        _ => {}
                    }
                }
            }
            prop_assert!(open.is_empty());
        }
    }

    #[test]
    fn reasoning_goes_back_only_to_who_signed_it() {
        let thought = Part::Thought { text: "hm".to_owned(), raw: Some(serde_json::json!({"signature": "s"})) };
        let history = [Past {
            provider_id: Some("a".to_owned()),
            messages: vec![message(Role::Assistant, vec![thought, Part::Text { text: "x".to_owned() }])],
        }];
        assert_eq!(project(&history, "a")[0].content.len(), 2);
        assert_eq!(project(&history, "b")[0].content, [Part::Text { text: "x".to_owned() }]);
    }
}
