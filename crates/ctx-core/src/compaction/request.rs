//! The request for a summary, and the summary that is made without a model.

use crate::history_text;
use crate::id::MessageId;
use crate::message::{Message, Part, Role, Source};
use crate::projection::is_mark;
use crate::text_limits::one_line;
use crate::time::Timestamp;

/// System prompt of the summarising model.
pub const SYSTEM: &str = "You summarise a conversation between a user and an assistant. You \
    receive a part of it and write the summary that replaces it. Do not continue the \
    conversation, do not call tools, and do not answer questions in it.";

/// Characters of each message in a summary without a model.
const EXTRACT_MAX_CHARS: usize = 160;
/// Ends a summary that was longer than its limit.
const SHORTENED_NOTICE: &str = "[The summary was shortened here.]";

/// Text of the last message of the request. It never contains text of the user except the focus.
pub fn instruction(focus: Option<&str>, tokens_max: u64) -> String {
    let focus =
        focus.map_or_else(String::new, |focus| format!("\n\nPay most attention to: {focus}"));
    format!(
        "Summarise the conversation above, so that the assistant can continue with nothing but \
         your summary. Keep the goals of the user and their reasons, the decisions, the work and \
         its results, names, numbers, paths and commands exactly as they are, what failed, and \
         what is still to be done. If the conversation starts with a summary of earlier parts, \
         include everything of it that still matters. Write plain sentences, at most {tokens_max} \
         tokens, and nothing but the summary.{focus}"
    )
}

/// Converts tool calls and results to text, for a model that has none of the tools. Consecutive
/// messages of one role are merged.
pub fn flat(messages: &[Message]) -> Vec<Message> {
    let mut out: Vec<Message> = Vec::new();
    for message in messages {
        let role = match message.role {
            Role::Tool => Role::Assistant,
            role => role,
        };
        let texts: Vec<String> =
            message.content.iter().filter_map(history_text::part_text).collect();
        if texts.is_empty() {
            continue;
        }
        let text = texts.join("\n");
        match out.last_mut().filter(|last| last.role == role) {
            Some(Message { content, .. }) => content.push(Part::Text { text }),
            None if role == Role::System => {
                out.push(Message { content: vec![Part::Summary { text }], ..message.clone() });
            }
            None => {
                out.push(Message { role, content: vec![Part::Text { text }], ..message.clone() });
            }
        }
    }
    out
}

/// A message from ctx to the summarising model.
pub fn ask(id: MessageId, text: String, at: Timestamp) -> Message {
    Message {
        id,
        role: Role::User,
        source: Some(Source::Event),
        content: vec![Part::Text { text }],
        created_at: at,
    }
}

/// The complete summary: the text of the key facts, then the text of the model.
pub fn summary(key_facts: &str, text: &str) -> String {
    let text = text.trim();
    match (key_facts.is_empty(), text.is_empty()) {
        (true, _) => text.to_owned(),
        (false, true) => key_facts.trim_end().to_owned(),
        (false, false) => format!("{key_facts}\nWhat happened:\n{text}"),
    }
}

/// A text cut to at most `tokens_max` tokens, at the end of a paragraph or sentence if one is near,
/// with a note that it was cut. `count` returns the tokens of a text.
pub fn shortened(text: &str, tokens_max: u64, count: impl Fn(&str) -> u64) -> String {
    let text = text.trim();
    if count(text) <= tokens_max {
        return text.to_owned();
    }
    let note = format!("\n{SHORTENED_NOTICE}");
    let limit = tokens_max.saturating_sub(count(&note));
    let mut kept = text;
    let mut tokens = count(kept);
    while tokens > limit {
        let chars = kept.chars().count() as u64;
        // Reduces the text in every pass, for any token density.
        let keep = (chars.saturating_mul(limit) / tokens).min(chars.saturating_sub(1));
        let keep = usize::try_from(keep).unwrap_or(usize::MAX);
        kept = kept.char_indices().nth(keep).map_or(kept, |(end, _)| &kept[..end]);
        tokens = count(kept);
    }
    let kept = whole_sentences(kept).trim_end();
    let whole = format!("{kept}{note}");
    if kept.is_empty() || count(&whole) > tokens_max { kept.to_owned() } else { whole }
}

/// The text up to its last paragraph or sentence, if that is at least half of it.
fn whole_sentences(text: &str) -> &str {
    let paragraph = text.rfind("\n\n");
    let sentence = text
        .char_indices()
        .rev()
        .map(|(at, c)| (at, at + c.len_utf8(), c))
        .find(|(_, end, c)| {
            let next = text[*end..].chars().next();
            matches!(c, '。' | '！' | '？')
                || (matches!(c, '.' | '!' | '?' | '\n') && next.is_none_or(char::is_whitespace))
        })
        .map(|(_, end, _)| end);
    let end = paragraph.max(sentence).filter(|end| *end >= text.len() / 2);
    end.map_or(text, |end| &text[..end])
}

/// A summary without a model: the first line of each message, at most `max_chars` in all. The
/// newest messages are preferred. `before` is the text of an earlier summary.
pub fn extract(before: Option<&str>, turns: &[&[Message]], max_chars: usize) -> String {
    const EXTRACT_NOTICE: &str =
        "[No model was available for a summary. These are the first lines of the messages.]";
    let mut left = max_chars.saturating_sub(EXTRACT_NOTICE.len());
    let mut lines: Vec<String> = Vec::new();
    for message in turns.iter().flat_map(|turn| turn.iter()).rev() {
        let who = match message.role {
            Role::User if is_mark(message) => "",
            Role::User => "User: ",
            Role::Assistant => "Assistant: ",
            Role::System | Role::Tool => continue,
        };
        let texts: Vec<String> =
            message.content.iter().filter_map(history_text::part_text).collect();
        let line = format!("{who}{}", one_line(&texts.join(" "), EXTRACT_MAX_CHARS));
        let Some(rest) = left.checked_sub(line.len() + 1).filter(|_| !texts.is_empty()) else {
            break;
        };
        left = rest;
        lines.push(line);
    }
    if let Some(before) = before {
        // An earlier summary is older than all messages, so it gets a part of the remaining space.
        let clipped: String = before.chars().take(left / 4).collect();
        lines.push(clipped);
    }
    lines.push(EXTRACT_NOTICE.to_owned());
    lines.reverse();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::ToolStatus;
    use crate::stored_content::Content;
    use ulid::Ulid;

    fn message(role: Role, content: Vec<Part>) -> Message {
        Message { id: MessageId(Ulid(1)), role, source: None, content, created_at: Timestamp(1) }
    }

    fn text_message(role: Role, text: &str) -> Message {
        message(role, vec![Part::Text { text: text.to_owned() }])
    }

    #[test]
    fn tool_calls_become_text_and_roles_alternate() {
        let call = Part::ToolCall {
            id: "1".to_owned(),
            name: "ls".to_owned(),
            params: serde_json::json!({}),
            status: ToolStatus::Completed,
        };
        let result = Part::ToolResult {
            tool_call_id: "1".to_owned(),
            content: Content::Text("a.txt".to_owned()),
            is_error: false,
        };
        let messages = [
            text_message(Role::User, "look"),
            message(Role::Assistant, vec![call]),
            message(Role::Tool, vec![result]),
            text_message(Role::Assistant, "done"),
        ];
        let flat = flat(&messages);
        assert_eq!(
            flat.iter().map(|message| message.role).collect::<Vec<_>>(),
            [Role::User, Role::Assistant]
        );
        let texts: Vec<&str> = flat[1].content.iter().filter_map(Part::searchable_text).collect();
        assert_eq!(texts, ["[called ls with {}]", "[answered: a.txt]", "done"]);
        assert!(
            flat.iter().flat_map(|m| &m.content).all(|part| matches!(part, Part::Text { .. })),
            "no tool calls remain"
        );
    }

    #[test]
    fn an_extract_is_limited_and_keeps_the_newest_messages() {
        let turns: Vec<Vec<Message>> =
            (0..100).map(|n| vec![text_message(Role::User, &format!("request {n}"))]).collect();
        let turns: Vec<&[Message]> = turns.iter().map(Vec::as_slice).collect();
        let text = extract(Some("earlier"), &turns, 400);
        assert!(text.len() <= 450 && text.starts_with("[No model"), "{text}");
        assert!(text.contains("request 99") && !text.contains("request 1\n"), "{text}");
    }

    #[test]
    fn a_long_text_is_cut_after_a_sentence_and_says_so() {
        let bytes = |text: &str| text.len() as u64;
        let text = "One two three. Four five six! Seven eight nine? Ten eleven twelve.";
        assert_eq!(shortened(text, 100, bytes), text, "short enough");
        assert_eq!(
            shortened(text, 64, bytes),
            format!("One two three. Four five six!\n{SHORTENED_NOTICE}")
        );
        let unbroken = "ä".repeat(100);
        let short = shortened(&unbroken, 61, bytes);
        assert_eq!(short, format!("{}\n{SHORTENED_NOTICE}", "ä".repeat(13)));
        for max in 0..80 {
            for text in [text, &unbroken, "a\n\nb\n\nc and a long last paragraph of many words"] {
                let short = shortened(text, max, bytes);
                assert!(bytes(&short) <= max, "{max}: {short}");
            }
        }
    }

    #[test]
    fn the_instruction_names_the_focus() {
        // R177
        assert!(instruction(Some("the parser"), 100).ends_with("the parser"));
        assert!(!instruction(None, 100).contains("most attention"));
    }
}
