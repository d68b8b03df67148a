//! The files of a turn in an exported branch: Markdown for people, JSON with everything, and its
//! blobs.

use ctx_engine::core::message::{Message, Part, Role};
use ctx_engine::core::stored_content::Content;
use ctx_engine::{Engine, StoredTurn};

use crate::json::turn_json::Turn;
use crate::problem::Problem;

/// Characters of a subject line.
const SUBJECT_MAX_CHARS: usize = 72;
/// Bytes of a tool result that are shown as Markdown; the JSON file and the blob have all.
const RESULT_MAX_BYTES: usize = 16 << 10;

/// A file of the exported tree: its path and its content.
pub(super) type TreeFile = (String, Vec<u8>);

/// The subject of a turn and its files.
pub(super) async fn turn_files(
    engine: &Engine,
    session: &str,
    turn: &StoredTurn,
) -> Result<(String, Vec<TreeFile>), Problem> {
    let id = turn.id.to_string();
    let messages = turn.messages().map_err(ctx_engine::Error::from)?.unwrap_or_default();
    let subject = subject(&messages, turn.depth);
    let mut files = Vec::new();
    let mut blobs: Vec<_> =
        messages.iter().flat_map(|message| &message.content).filter_map(Part::blob).collect();
    blobs.sort_unstable();
    blobs.dedup();
    let mut texts = std::collections::HashMap::new();
    for blob in blobs {
        if let Some(object) = engine.records().object(blob.0).await? {
            if let Ok(text) = std::str::from_utf8(&object.bytes) {
                texts.insert(blob, beginning(text).to_owned());
            }
            files.push((format!("blobs/{blob}"), object.bytes));
        }
    }
    let text_of = |content: &Content| match content {
        Content::Text(text) => beginning(text).to_owned(),
        Content::Blob { blob, .. } => {
            texts.get(blob).cloned().unwrap_or_else(|| format!("(blob {blob})"))
        }
        Content::Omitted { bytes, .. } => format!("({bytes} bytes, not stored)"),
    };
    let name = format!("sessions/{session}/{:06}-{}", turn.depth, &id[..12]);
    let document = serde_json::to_value(Turn::of(turn, Some(session.to_owned())))
        .and_then(|document| serde_json::to_vec_pretty(&document))
        .map_err(|error| super::repository::failed(&error))?;
    files.push((format!("{name}.md"), markdown(&subject, turn, &messages, &text_of).into_bytes()));
    files.push((format!("{name}.json"), document));
    Ok((subject, files))
}

fn beginning(text: &str) -> &str {
    let mut end = text.len().min(RESULT_MAX_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The first line that the user wrote, or the number of the turn.
fn subject(messages: &[Message], depth: u64) -> String {
    let mut texts =
        messages.iter().filter(|message| message.role == Role::User).flat_map(|message| {
            message.content.iter().filter_map(|part| match part {
                Part::Text { text } => text.lines().map(str::trim).find(|line| !line.is_empty()),
                _ => None,
            })
        });
    let line = texts.next().map(|line| line.chars().take(SUBJECT_MAX_CHARS).collect::<String>());
    line.filter(|line| !line.is_empty()).unwrap_or_else(|| format!("Turn {depth}"))
}

fn markdown(
    subject: &str,
    turn: &StoredTurn,
    messages: &[Message],
    text_of: &dyn Fn(&Content) -> String,
) -> String {
    let header = &turn.header;
    let mut page = format!("# {subject}\n\n- turn {}\n- {}", turn.id, header.started_at);
    for (what, value) in [("provider", &header.provider_id), ("model", &header.model)] {
        if let Some(value) = value {
            page.push_str(&format!("\n- {what} {value}"));
        }
    }
    page.push('\n');
    for message in messages {
        let role = match message.role {
            Role::User => "User",
            Role::Assistant => "Assistant",
            Role::System => "System",
            Role::Tool => "Tool",
        };
        let parts: Vec<String> =
            message.content.iter().filter_map(|part| part_text(part, text_of)).collect();
        if !parts.is_empty() {
            page.push_str(&format!("\n## {role}\n\n{}\n", parts.join("\n\n")));
        }
    }
    page
}

fn part_text(part: &Part, text_of: &dyn Fn(&Content) -> String) -> Option<String> {
    Some(match part {
        Part::Text { text } | Part::Summary { text } => text.clone(),
        Part::Thought { text, .. } if text.trim().is_empty() => return None,
        Part::Thought { text, .. } => {
            text.lines().map(|line| format!("> {line}")).collect::<Vec<_>>().join("\n")
        }
        Part::ToolCall { name, params, .. } => {
            let params = serde_json::to_string_pretty(params).unwrap_or_default();
            format!("Tool `{name}`\n\n{}", fenced(&params))
        }
        Part::ToolResult { content, .. } => fenced(&text_of(content)),
        Part::Error { code, message, .. } => format!("Error `{code}`: {message}"),
        Part::Plan { entries } => {
            fenced(&serde_json::to_string_pretty(entries).unwrap_or_default())
        }
        Part::Image { media_type, blob, .. } => format!("Image {media_type}: blobs/{blob}"),
        // Bookkeeping of another tool; the JSON file has it.
        Part::Record { .. } => return None,
    })
}

/// A text in a fence that is longer than every fence inside it.
fn fenced(text: &str) -> String {
    let longest = text.lines().map(|line| line.chars().take_while(|c| *c == '`').count()).max();
    let fence = "`".repeat(longest.unwrap_or(0).max(2) + 1);
    format!("{fence}\n{}\n{fence}", text.trim_end())
}
