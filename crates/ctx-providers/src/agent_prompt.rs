//! Builds the prompt of an agent: the new message, preceded by the history that the agent lacks.

use ctx_core::history_text;
use ctx_core::id::MessageId;
use ctx_core::message::{Message, Part, Role};
use ctx_engine::provider::Request;

/// What the agent's conversation contains before the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConversationState {
    /// The conversation is new: the prompt contains the whole history.
    New,
    /// The conversation contains the messages of the request before this index.
    SeenUpTo(usize),
    /// The conversation ends in the middle of the open turn.
    OpenTurnInterrupted,
}

/// The newest user message that the agent's conversation contains according to the store.
///
/// A process whose last prompt was another message has missed turns that another process ran.
pub(crate) fn newest_seen_user_message(request: &Request) -> Option<MessageId> {
    newest_user_message(&request.messages[..request.own.as_ref()?.unseen])
}

/// The newest user message of the open turn, which this prompt contains.
pub(crate) fn newest_sent_user_message(request: &Request) -> Option<MessageId> {
    newest_user_message(&request.messages[request.open..])
}

fn newest_user_message(messages: &[Message]) -> Option<MessageId> {
    messages.iter().rev().find(|message| message.role == Role::User).map(|message| message.id)
}

/// The texts of the prompt. `decisions` describes the user's decisions since the process ended.
pub(crate) fn prompt_texts(
    request: &Request,
    state: ConversationState,
    decisions: &[String],
) -> Vec<String> {
    let mut texts = Vec::new();
    let (before, open) = request.messages.split_at(request.open);
    let resumes = !request.resumes.is_empty();
    match state {
        ConversationState::New => {
            if let Some(system) = &request.system {
                texts.push(format!("<instructions>\n{system}\n</instructions>"));
            }
            // A new conversation lacks the beginning of a turn that resumes after a suspension.
            let mut history = before.to_vec();
            if resumes {
                history.extend(open_turn_without_pending_calls(request));
            }
            if !history.is_empty() {
                texts.push(history_text::handover(&history));
            }
        }
        ConversationState::SeenUpTo(seen) => {
            if let Some(cut) = request.own.as_ref().and_then(|own| own.cut.clone()) {
                texts.push(history_text::cut_off(&request.messages[cut]));
            }
            if seen < request.open {
                texts.push(history_text::meanwhile(&before[seen..]));
            }
        }
        ConversationState::OpenTurnInterrupted => {
            texts.push(history_text::cut_off(&open_turn_without_pending_calls(request)));
        }
    }
    if resumes {
        texts.push(decision_text(decisions, open));
    } else {
        texts.extend(open.iter().filter(|message| message.role == Role::User).flat_map(texts_of));
    }
    texts
}

/// The open turn without results of calls that waited for permission: these calls did not run.
fn open_turn_without_pending_calls(request: &Request) -> Vec<Message> {
    let is_pending = |id: &str| {
        request
            .resumes
            .iter()
            .any(|(suspension, _)| suspension.awaited.tool_calls.iter().any(|call| call.id == id))
    };
    let mut open = request.messages[request.open..].to_vec();
    for message in &mut open {
        message.content.retain(|part| match part {
            Part::ToolResult { tool_call_id, .. } => !is_pending(tool_call_id),
            _ => true,
        });
    }
    open
}

fn decision_text(decisions: &[String], open: &[Message]) -> String {
    let mut text = "<decision>\nYour process ended while you waited for the user. \
         The user has now answered:\n"
        .to_owned();
    for decision in decisions {
        text.push_str(&format!("- {decision}\n"));
    }
    if decisions.is_empty() {
        let text_answer = open
            .iter()
            .rev()
            .find(|message| message.role == Role::User)
            .map(|message| texts_of(message).join("\n"));
        text.push_str(&format!("- {}\n", text_answer.unwrap_or_default()));
    }
    text.push_str(
        "Continue your work. Actions that the user allowed have not been executed yet.\n\
         </decision>",
    );
    text
}

fn texts_of(message: &Message) -> Vec<String> {
    let text = |part: &Part| match part {
        Part::Text { text } => Some(text.clone()),
        _ => None,
    };
    message.content.iter().filter_map(text).collect()
}

/// The user's text of the interrupted turn. An agent's conversation that contains it has kept that
/// turn. `None` if an earlier message contains the same text, which would prove nothing.
pub(crate) fn interrupted_user_text(request: &Request) -> Option<String> {
    let range = match request.own.as_ref().and_then(|own| own.cut.clone()) {
        Some(cut) => cut,
        None if !request.resumes.is_empty() => request.open..request.messages.len(),
        None => return None,
    };
    let text_of = |message: &Message| {
        Some(texts_of(message).join("\n").trim().to_owned()).filter(|text| !text.is_empty())
    };
    let user_text = request.messages[range.clone()]
        .iter()
        .find(|message| message.role == Role::User)
        .and_then(text_of)?;
    let before =
        request.messages[..range.start].iter().filter(|message| message.role == Role::User);
    let ambiguous = before.filter_map(text_of).any(|text| text.contains(&user_text));
    (!ambiguous).then_some(user_text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_harness::text_message;
    use ctx_core::projection::{ImageHandling, PastTurn, project};
    use ctx_core::turn::Status;
    use ctx_engine::provider::AgentSessionState;

    fn request(messages: Vec<Message>, open: usize) -> Request {
        Request { open, ..crate::test_harness::request(messages) }
    }

    #[test]
    fn prompt_contains_each_missing_message_once() {
        // R237
        let all = vec![
            text_message(Role::User, "alpha"),
            text_message(Role::Assistant, "beta"),
            text_message(Role::User, "gamma"),
            text_message(Role::Assistant, "delta"),
            text_message(Role::User, "omega"),
        ];
        let request = request(all, 4);
        let count = |state, word: &str| {
            prompt_texts(&request, state, &[]).join("\n\n").matches(word).count()
        };
        for word in ["alpha", "beta", "gamma", "delta", "omega"] {
            assert_eq!(count(ConversationState::New, word), 1, "{word}");
        }
        assert_eq!(
            (
                count(ConversationState::SeenUpTo(2), "alpha"),
                count(ConversationState::SeenUpTo(2), "gamma"),
                count(ConversationState::SeenUpTo(2), "omega")
            ),
            (0, 1, 1)
        );
        assert_eq!(
            (
                count(ConversationState::SeenUpTo(4), "delta"),
                count(ConversationState::SeenUpTo(4), "omega")
            ),
            (0, 1)
        );
    }

    #[test]
    fn first_message_is_sent_unchanged_so_that_slash_commands_work() {
        let request = request(vec![text_message(Role::User, "/compact now")], 0);
        assert_eq!(prompt_texts(&request, ConversationState::New, &[]), ["/compact now"]);
    }

    #[test]
    fn interrupted_answer_is_repeated_without_the_users_text() {
        let all = vec![
            text_message(Role::User, "alpha"),
            text_message(Role::Assistant, "half"),
            text_message(Role::User, "omega"),
        ];
        let own =
            AgentSessionState { id: "s".to_owned(), unseen: 0, clean: false, cut: Some(0..2) };
        let request = Request { own: Some(own), ..request(all, 2) };
        assert_eq!(interrupted_user_text(&request).as_deref(), Some("alpha"));
        let text = prompt_texts(&request, ConversationState::SeenUpTo(2), &[]).join("\n\n");
        assert!(
            text.contains("half") && text.contains("omega") && !text.contains("alpha"),
            "{text}"
        );
    }

    #[test]
    fn resumed_agent_is_told_why_its_request_was_not_answered() {
        let past = |status| PastTurn {
            provider_id: Some("me".to_owned()),
            status,
            messages: vec![text_message(Role::User, "alpha")],
        };
        for (status, why) in [
            (Status::Cancelled, "cancelled by the user before it was answered"),
            (Status::Failed, "failed before it was answered"),
        ] {
            let mut all = project(&[past(status)], "me", ImageHandling::Describe);
            let open = all.len();
            all.push(text_message(Role::User, "omega"));
            let cut = Some(0..open);
            let own = AgentSessionState { id: "s".to_owned(), unseen: 0, clean: false, cut };
            let request = Request { own: Some(own), ..request(all, open) };
            assert_eq!(interrupted_user_text(&request).as_deref(), Some("alpha"));
            let texts = prompt_texts(&request, ConversationState::SeenUpTo(open), &[]);
            let [cut_off, message] = texts.as_slice() else { panic!("{texts:?}") };
            assert!(cut_off.contains(why) && !cut_off.contains("alpha"), "{cut_off}");
            assert_eq!(message, "omega", "the new message is unchanged");
        }
    }

    #[test]
    fn repeated_user_text_is_no_evidence() {
        let all = vec![
            text_message(Role::User, "go on"),
            text_message(Role::User, "go on"),
            text_message(Role::User, "x"),
        ];
        let own =
            AgentSessionState { id: "s".to_owned(), unseen: 1, clean: false, cut: Some(1..2) };
        assert_eq!(interrupted_user_text(&Request { own: Some(own), ..request(all, 2) }), None);
    }
}
