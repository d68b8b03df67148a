//! History as text, for agents that store their own conversation and accept only prompts.
//!
//! Each block has a tag and an introduction, so that the agent does not treat earlier messages as
//! new requests. The output depends only on the messages.

use crate::message::{Message, Part, Role};
use crate::projection::{is_mark, states_end_of_turn};
use crate::stored_content::Content;

/// Maximum length of the parameters or the result of one tool call in a request for a summary.
const SUMMARISED_MAX_BYTES: usize = 2048;
/// Maximum length of the parameters or the result of one tool call in a prompt. The engine sends
/// less of each result and fits the whole request into the window, so only parameters reach it.
const PROMPT_MAX_BYTES: usize = 128 * 1024;

/// The complete history, for an agent that has seen none of it.
pub fn handover(messages: &[Message]) -> String {
    let intro = "This conversation has earlier messages that you have not seen. They follow, \
                 oldest first, for your information: do not repeat any of the work. Files may have \
                 changed since then and were not restored.";
    block("conversation-so-far", intro, messages)
}

/// The messages that another provider answered since the last answer of this agent.
pub fn meanwhile(messages: &[Message]) -> String {
    let intro = "The conversation continued without you since your last answer. The messages \
                 follow, oldest first, for your information: do not repeat any of the work.";
    block("conversation-meanwhile", intro, messages)
}

/// The received part of an interrupted answer, and the mark that says why it was interrupted.
/// Messages of the user are not repeated.
pub fn cut_off(messages: &[Message]) -> String {
    let mut seen: Vec<Message> =
        messages.iter().filter(|message| message.role != Role::User).cloned().collect();
    let intro = if seen.is_empty() {
        "The last request in this conversation was not answered."
    } else {
        "Your last answer was interrupted before it was complete. The received part follows. \
         Whether a tool call without a result took effect is unknown: check before repeating it."
    };
    seen.extend(messages.iter().rev().find(|message| states_end_of_turn(message)).cloned());
    block("cut-off", intro, &seen)
}

fn block(tag: &str, intro: &str, messages: &[Message]) -> String {
    let mut text = format!("<{tag}>\n{intro}\n");
    for message in messages {
        let who = match message.role {
            // The name before each message separates it from the one before.
            Role::User if is_mark(message) && !states_end_of_turn(message) => continue,
            Role::User if is_mark(message) => "",
            Role::User => "User: ",
            Role::Assistant => "Assistant: ",
            Role::System => "Summary: ",
            Role::Tool => "Tool: ",
        };
        for part in &message.content {
            if let Some(words) = limited_text(part, PROMPT_MAX_BYTES) {
                text.push_str(&format!("\n{who}{words}\n"));
            }
        }
    }
    text.push_str(&format!("</{tag}>"));
    text
}

/// A part as text for a summary. `None` for parts that are not part of the conversation.
pub(crate) fn part_text(part: &Part) -> Option<String> {
    limited_text(part, SUMMARISED_MAX_BYTES)
}

fn limited_text(part: &Part, tool_max_bytes: usize) -> Option<String> {
    match part {
        Part::Text { text } | Part::Summary { text } => Some(text.clone()),
        Part::ToolCall { name, params, .. } => {
            Some(format!("[called {name} with {}]", clip(&params.to_string(), tool_max_bytes)))
        }
        Part::ToolResult { content, is_error, .. } => {
            let outcome = if *is_error { "failed" } else { "answered" };
            Some(match content {
                Content::Text(text) => format!("[{outcome}: {}]", clip(text, tool_max_bytes)),
                Content::Blob { bytes, .. } | Content::Omitted { bytes, .. } => {
                    format!("[{outcome} with {bytes} bytes]")
                }
            })
        }
        Part::Image { media_type, .. } => Some(format!("[an image, {media_type}]")),
        Part::Thought { .. } | Part::Error { .. } | Part::Plan { .. } | Part::Record { .. } => None,
    }
}

fn clip(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    let end = (0..=max_bytes).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}… ({} bytes in all)", &text[..end], text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::MessageId;
    use crate::message::ToolStatus;
    use crate::projection::{ImageHandling, PastTurn, project};
    use crate::time::Timestamp;
    use crate::turn::Status;
    use ulid::Ulid;

    fn message(role: Role, content: Vec<Part>) -> Message {
        Message { id: MessageId(Ulid(1)), role, source: None, content, created_at: Timestamp(1) }
    }

    fn words(text: &str) -> Part {
        Part::Text { text: text.to_owned() }
    }

    fn exchange() -> Vec<Message> {
        let call = Part::ToolCall {
            id: "1".to_owned(),
            name: "bash".to_owned(),
            params: serde_json::json!({"command": "ls"}),
            status: ToolStatus::Completed,
        };
        let result = Part::ToolResult {
            tool_call_id: "1".to_owned(),
            content: Content::Text("a.txt".to_owned()),
            is_error: false,
        };
        vec![
            message(Role::User, vec![words("what is here?")]),
            message(Role::Assistant, vec![words("I look."), call]),
            message(Role::Tool, vec![result]),
            message(Role::Assistant, vec![words("One file.")]),
        ]
    }

    #[test]
    fn full_history_contains_every_part_once_and_in_order() {
        // R237
        let text = handover(&exchange());
        let places: Vec<usize> = [
            "User: what is here?",
            "Assistant: I look.",
            "[called bash with {\"command\":\"ls\"}]",
            "[answered: a.txt]",
            "One file.",
        ]
        .iter()
        .map(|needle| {
            assert_eq!(text.matches(needle).count(), 1, "{needle} in {text}");
            text.find(needle).unwrap_or(0)
        })
        .collect();
        assert!(places.is_sorted());
        assert_eq!(text, handover(&exchange()), "the same bytes each time");
    }

    #[test]
    fn an_interrupted_answer_omits_the_user() {
        let text = cut_off(&exchange());
        assert!(!text.contains("what is here?") && text.contains("I look."));
    }

    fn projected(status: Status, messages: Vec<Message>) -> Vec<Message> {
        let past = PastTurn { provider_id: None, status, messages };
        project(&[past], "me", ImageHandling::Describe)
    }

    #[test]
    fn marks_follow_the_messages_that_they_belong_to() {
        let asked = projected(Status::Cancelled, exchange()[..1].to_vec());
        let text = handover(&asked);
        let mark = "cancelled by the user before it was answered";
        assert!(
            text.contains(&format!("User: what is here?\n\n[This request was {mark}")),
            "{text}"
        );
        let text = cut_off(&asked);
        assert!(text.contains("was not answered.\n\n[This request was") && text.contains(mark));
        assert!(!text.contains("what is here?") && !text.contains("Your last answer"), "{text}");

        let answered = projected(Status::Cancelled, exchange());
        for text in [handover(&answered), cut_off(&answered)] {
            assert!(
                text.contains(
                    "Assistant: One file.\n\n[This answer is incomplete: it was cancelled"
                ),
                "{text}"
            );
        }
    }

    #[test]
    fn messages_that_are_answered_together_need_no_separator_beside_their_names() {
        let two = [&exchange()[..1], &exchange()[..1], &exchange()[3..]].concat();
        let text = meanwhile(&projected(Status::Completed, two));
        assert!(
            text.contains("User: what is here?\n\nUser: what is here?\n\nAssistant: One file."),
            "{text}"
        );
    }

    fn result(text: String) -> Part {
        Part::ToolResult {
            tool_call_id: "1".to_owned(),
            content: Content::Text(text),
            is_error: true,
        }
    }

    #[test]
    fn long_results_reach_an_agent_to_their_end() {
        // R237
        let long = format!("{}the end", "ü".repeat(SUMMARISED_MAX_BYTES));
        let text = handover(&[message(Role::Tool, vec![result(long.clone())])]);
        assert!(text.contains(&format!("[failed: {long}]")), "{}", text.len());
    }

    #[test]
    fn long_results_are_truncated_between_characters_for_a_summary() {
        let text = part_text(&result("ü".repeat(SUMMARISED_MAX_BYTES))).unwrap_or_default();
        assert!(
            text.len() < SUMMARISED_MAX_BYTES + 100 && text.contains("4096 bytes in all"),
            "{}",
            text.len()
        );
    }
}
