//! Turns and commits as text for agents, and texts cut to a token budget.

use ctx_core::commit::Commit;
use ctx_core::id::CommitId;
use ctx_core::message::{Message, Part, Role};
use ctx_core::step::Entry;
use ctx_core::stored_content::Content;
use ctx_core::text_limits::one_line;
use ctx_store::{StoredStep, StoredTurn};
use serde_json::json;

use crate::compaction::count_tokens;
use crate::engine::{Engine, Error};

/// Characters of a tool's parameters or result in an overview.
const BRIEF_MAX_CHARS: usize = 200;
/// Largest tool result that is read into a text, in bytes.
const RESULT_MAX_BYTES: u64 = 4 << 20;
/// A token seldom has more bytes. It bounds the text that is counted.
const TOKEN_MAX_BYTES: u64 = 16;

/// How much of the tool calls is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// A line for each.
    Brief,
    /// Everything.
    Full,
}

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) text: String,
    /// Where the next part begins, in bytes. `None` at the end.
    pub(super) next: Option<usize>,
}

/// The part of a text from an offset on that has at most `budget` tokens.
pub(super) fn piece(text: &str, offset: usize, budget: u64) -> Piece {
    let from = text.floor_char_boundary(offset.min(text.len()));
    let rest = &text[from..];
    let bytes = |tokens: u64| usize::try_from(tokens).unwrap_or(usize::MAX).min(rest.len());
    // A token has at least one byte, so as many bytes always fit.
    let (mut fits, mut too_many) =
        (bytes(budget), bytes(budget.saturating_mul(TOKEN_MAX_BYTES)).saturating_add(1));
    while fits + 1 < too_many {
        let middle = fits + (too_many - fits) / 2;
        if count_tokens(&rest[..rest.floor_char_boundary(middle)]) <= budget {
            fits = middle;
        } else {
            too_many = middle;
        }
    }
    let mut end = rest.floor_char_boundary(fits);
    // A piece ends at the end of a line if that is near.
    if end < rest.len()
        && let Some(line) = rest[..end].rfind('\n').filter(|line| *line > end / 2)
    {
        end = line + 1;
    }
    let next = (end < rest.len()).then_some(from + end);
    Piece { text: rest[..end].to_owned(), next }
}

/// A turn as text.
pub(super) async fn turn_text(
    engine: &Engine,
    turn: &StoredTurn,
    detail: Detail,
) -> Result<String, Error> {
    let header = &turn.header;
    let mut heading = format!("## Turn {} {}", turn.id.0.short(), header.started_at);
    if let Some(provider) = &header.provider_id {
        heading.push_str(&format!(" {provider}"));
    }
    if let Some(model) = &header.model {
        heading.push_str(&format!(" {model}"));
    }
    if let Some(status) = json!(header.status).as_str().filter(|status| *status != "completed") {
        heading.push_str(&format!(" ({status})"));
    }
    let mut lines = vec![heading];
    match turn.messages()? {
        Some(messages) => {
            for message in &messages {
                lines.extend(message_text(engine, message, detail).await?);
            }
        }
        None => lines.push("The messages of this turn were deleted.".to_owned()),
    }
    Ok(format!("{}\n", lines.join("\n")))
}

async fn message_text(
    engine: &Engine,
    message: &Message,
    detail: Detail,
) -> Result<Option<String>, Error> {
    let mut parts = Vec::new();
    for part in &message.content {
        parts.extend(part_text(engine, part, detail).await?);
    }
    let who = match message.role {
        Role::User => "User",
        Role::Assistant => "Agent",
        Role::System => "ctx",
        Role::Tool => "Tool",
    };
    Ok((!parts.is_empty()).then(|| format!("{who}: {}", parts.join("\n"))))
}

async fn part_text(engine: &Engine, part: &Part, detail: Detail) -> Result<Option<String>, Error> {
    let cut = |text: &str| match detail {
        Detail::Brief => one_line(text, BRIEF_MAX_CHARS),
        Detail::Full => text.to_owned(),
    };
    Ok(match part {
        Part::Text { text } | Part::Summary { text } => Some(text.clone()),
        Part::Thought { text, .. } if detail == Detail::Full && !text.trim().is_empty() => {
            Some(format!("[thought: {text}]"))
        }
        Part::ToolCall { name, params, .. } => {
            Some(format!("[called {name} {}]", cut(&params.to_string())))
        }
        Part::ToolResult { content, is_error, .. } => {
            let outcome = if *is_error { "failed" } else { "result" };
            Some(format!("[{outcome}: {}]", cut(&result_text(engine, content, detail).await?)))
        }
        Part::Error { message, code, .. } => Some(format!("[error {code}: {message}]")),
        Part::Image { media_type, .. } => Some(format!("[an image, {media_type}]")),
        Part::Plan { entries } if detail == Detail::Full => Some(format!("[plan: {entries}]")),
        Part::Plan { .. } | Part::Thought { .. } | Part::Record { .. } => None,
    })
}

async fn result_text(engine: &Engine, content: &Content, detail: Detail) -> Result<String, Error> {
    match content {
        Content::Text(text) => Ok(text.clone()),
        Content::Blob { blob, bytes } if detail == Detail::Full && *bytes <= RESULT_MAX_BYTES => {
            let object = engine.store().object(blob.0).await?;
            let text = object.map(|it| String::from_utf8_lossy(&it.bytes).into_owned());
            Ok(text.unwrap_or_else(|| "the result is not stored".to_owned()))
        }
        Content::Blob { bytes, .. } | Content::Omitted { bytes, .. } => {
            Ok(format!("{bytes} bytes"))
        }
    }
}

/// A commit as text, with the steps of its task.
pub(super) fn commit_text(id: CommitId, commit: &Commit, steps: &[StoredStep]) -> String {
    let mut lines = vec![
        format!("# Commit {id}"),
        format!("Outcome: {}", commit.commit_type.name()),
        format!("Task {}: {}", commit.task, commit.description),
        format!("Message: {}", commit.message),
        format!(
            "Session {}, project {}, {} to {}",
            commit.session, commit.project, commit.started_at, commit.created_at
        ),
    ];
    if let Some(turns) = &commit.turns {
        lines.push(format!(
            "{} turns, {} to {}; read them with read_turn",
            turns.count,
            turns.first.0.short(),
            turns.last.0.short()
        ));
    }
    if !commit.files.is_empty() {
        lines.push("## Files".to_owned());
        lines.extend(commit.files.iter().map(|file| {
            format!("- {} ({})", file.path, if file.written { "written" } else { "read" })
        }));
    }
    let entries: Vec<String> =
        steps.iter().flat_map(|stored| &stored.step.payload).filter_map(entry_line).collect();
    if !entries.is_empty() {
        lines.push("## Record".to_owned());
        lines.extend(entries);
    }
    format!("{}\n", lines.join("\n"))
}

fn entry_line(entry: &Entry) -> Option<String> {
    Some(match entry {
        Entry::Note { text, .. } => format!("- {text}"),
        Entry::Plan { text } => format!("- plan: {text}"),
        Entry::Command { argv, exit, .. } => {
            let exit = exit.map_or_else(String::new, |code| format!(" (exit {code})"));
            format!("- ran {}{exit}", argv.join(" "))
        }
        Entry::FileRead { path, .. } => format!("- read {path}"),
        Entry::FileWrite { path, content: Some(_) } => format!("- wrote {path}"),
        Entry::FileWrite { path, content: None } => format!("- deleted {path}"),
        Entry::Relation(edge) => format!("- {} {} {}", edge.from, edge.label, edge.to),
        Entry::Task { .. } | Entry::Moved { .. } => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_stay_within_the_budget_and_join_to_the_text() {
        let text: String = (0..400).map(|n| format!("line {n}: naïve 東京 words\n")).collect();
        for budget in [100, 333, 5000] {
            let (mut joined, mut offset) = (String::new(), 0);
            loop {
                let part = piece(&text, offset, budget);
                assert!(count_tokens(&part.text) <= budget, "{budget}");
                assert!(!part.text.is_empty());
                joined.push_str(&part.text);
                match part.next {
                    Some(next) => offset = next,
                    None => break,
                }
            }
            assert_eq!(joined, text, "{budget}");
        }
        assert_eq!(piece("abc", 99, 100), Piece { text: String::new(), next: None });
    }
}
