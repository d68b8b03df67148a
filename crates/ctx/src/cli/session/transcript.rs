//! A conversation as a person reads it: who spoke, the words, tool calls folded to a line, errors where they happened.

use ctx_engine::core::content::Content;
use ctx_engine::core::message::{Message, Part, Role, Source};
use ctx_engine::core::session::{Activity, Delivery, Status};
use ctx_engine::core::suspension::{Kind, Suspension};
use ctx_engine::core::text::one_line;
use ctx_engine::{Info, Told};
use serde_json::Value;

use crate::shape::talk::name;

use super::super::output::{BOLD, DIM, GREEN, RED, YELLOW};

/// So much of a tool's parameters or result is shown.
const FOLD_MAX_CHARS: usize = 100;

/// Words without what could drive a terminal.
pub(in crate::cli) fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// One message with who said it.
pub(super) fn message_lines(told: &Told) -> String {
    let lines: Vec<String> = told.message.content.iter().filter_map(part_line).collect();
    format!("{}\n{}", speaker(told), lines.join("\n"))
}

fn speaker(told: &Told) -> String {
    let at = told.message.created_at.to_string();
    let when = &at[..16.min(at.len())];
    let open = if told.turn.is_none() { " · open" } else { "" };
    let who = name(&told.message.role);
    let from = match (told.message.role, told.message.source, &told.provider_id) {
        (Role::User, Some(source), _) if source != Source::Human => format!(" ({})", name(&source)),
        (Role::Assistant, _, Some(provider)) if !provider.is_empty() => {
            let model = told.model.as_ref().map_or_else(String::new, |model| format!("/{model}"));
            format!(" ({}{})", plain(provider), plain(&model))
        }
        _ => String::new(),
    };
    format!("{BOLD}{who}{BOLD:#}{from} {DIM}{when}{open}{DIM:#}")
}

fn part_line(part: &Part) -> Option<String> {
    Some(match part {
        Part::Text { text } => plain(text),
        Part::Thought { text, .. } if text.trim().is_empty() => return None,
        Part::Thought { text, .. } => format!("{DIM}{}{DIM:#}", plain(text)),
        Part::ToolCall { name: tool, params, status, .. } => {
            format!("{DIM}→ {} {} · {}{DIM:#}", plain(tool), folded(params), name(status))
        }
        Part::ToolResult { content, is_error, .. } => result_line(content, *is_error),
        Part::Error { code, message, .. } => error_line(code, message),
        Part::Plan { entries } => format!("{DIM}plan {}{DIM:#}", folded(entries)),
        Part::Image { media_type, blob, .. } => {
            format!("{DIM}{} {}{DIM:#}", plain(media_type), blob.0.short())
        }
        Part::Summary { text } => format!("{DIM}summary:{DIM:#} {}", plain(text)),
    })
}

fn result_line(content: &Content, is_error: bool) -> String {
    let mark = if is_error { "✗" } else { "←" };
    match content {
        Content::Text(text) => {
            format!("{DIM}{mark} {}{DIM:#}", plain(&one_line(text, FOLD_MAX_CHARS)))
        }
        Content::Blob { blob, bytes } => {
            format!("{DIM}{mark} {bytes} bytes, `ctx show {}`{DIM:#}", blob.0.short())
        }
        Content::Omitted { bytes, .. } => format!("{DIM}{mark} {bytes} bytes, not kept{DIM:#}"),
    }
}

fn folded(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        value => plain(&one_line(&value.to_string(), FOLD_MAX_CHARS)),
    }
}

/// A provider's failure.
pub(super) fn error_line(code: &str, message: &str) -> String {
    format!("{RED}error{RED:#}: {} {DIM}[{}]{DIM:#}", plain(message), plain(code))
}

/// The words of a message, as they were streamed.
pub(super) fn words_of(message: &Message) -> String {
    let words = |part: &Part| match part {
        Part::Text { text } | Part::Summary { text } => Some(text.clone()),
        _ => None,
    };
    message.content.iter().filter_map(words).collect()
}

/// A session in a line.
pub(in crate::cli) fn session_line(info: &Info) -> String {
    let row = &info.session;
    let at = row.last_activity_at.to_string();
    let title = row
        .title
        .as_ref()
        .map_or_else(String::new, |title| format!(" {}", plain(&one_line(title, 60))));
    let plural = if row.turn_count == 1 { "" } else { "s" };
    format!(
        "{BOLD}{}{BOLD:#}{title} {}{DIM}{} turn{plural} · {}{DIM:#}",
        plain(&one_line(&row.label, 60)),
        condition(info),
        row.turn_count,
        &at[..16.min(at.len())]
    )
}

/// What is not as usual.
fn condition(info: &Info) -> String {
    let mut words = Vec::new();
    match info.session.status {
        Status::Active => {}
        Status::Suspended => words.push(format!("{YELLOW}cut off{YELLOW:#}")),
        Status::Archived => words.push(format!("{DIM}archived{DIM:#}")),
        Status::Error => words.push(format!("{RED}damaged{RED:#}")),
    }
    match info.session.state {
        Activity::Idle => {}
        Activity::Running => words.push(format!("{GREEN}running{GREEN:#}")),
        Activity::Suspended => words.push(format!("{YELLOW}waits for you{YELLOW:#}")),
    }
    if info.prompt.is_some() {
        words.push(format!("{YELLOW}asks{YELLOW:#}"));
    }
    if !info.inbox.is_empty() {
        words.push(format!("{} queued", info.inbox.len()));
    }
    words.into_iter().map(|word| format!("{word} · ")).collect()
}

/// What a session waits for and how to answer it, for a person who is not asked here.
pub(super) fn waiting_lines(info: &Info) -> Vec<String> {
    let session = address(info);
    let mut lines: Vec<String> =
        info.suspensions.iter().map(|suspension| suspension_lines(suspension, &session)).collect();
    if let Some(prompt) = &info.prompt {
        lines.push(format!(
            "{}\nanswer with `ctx session answer {session} continue` or `ctx session answer {session} start_fresh`",
            plain(&prompt.text)
        ));
    }
    if info.session.delivery != Delivery::Open && !info.inbox.is_empty() {
        lines.push(format!(
            "{} messages wait: delivery is set to {}",
            info.inbox.len(),
            name(&info.session.delivery)
        ));
    }
    lines
}

fn suspension_lines(suspension: &Suspension, session: &str) -> String {
    let awaited = &suspension.awaited;
    let what = awaited
        .question
        .as_deref()
        .map_or_else(String::new, |question| format!(": {}", plain(question)));
    match awaited.kind {
        Kind::ToolResult => {
            let calls: Vec<String> = awaited
                .tool_calls
                .iter()
                .map(|call| {
                    format!("  {} {} {}", plain(&call.id), plain(&call.name), folded(&call.params))
                })
                .collect();
            let results: String = awaited
                .tool_calls
                .iter()
                .map(|call| format!(" --result {}=TEXT", plain(&call.id)))
                .collect();
            format!(
                "waits for the results of tools:\n{}\nanswer with `ctx session answer {session}{results}`",
                calls.join("\n")
            )
        }
        kind => {
            let kind = kind.name();
            let offers: String = awaited
                .options
                .iter()
                .map(|offer| format!("\n  {}: {}", plain(&offer.id), plain(&offer.label)))
                .collect();
            let choice = awaited.options.first().map_or("WORDS", |_| "CHOICE");
            format!(
                "waits for a {kind}{what}{offers}\nanswer with `ctx session answer {session} {choice}`"
            )
        }
    }
}

/// How a session is written on a command line: its label, or its id where a shell would take the label apart.
pub(in crate::cli) fn address(info: &Info) -> String {
    let simple = |c: char| c.is_ascii_alphanumeric() || "-_.:/@+".contains(c);
    let label = &info.session.label;
    if label.chars().all(simple) && !label.starts_with('-') {
        label.clone()
    } else {
        info.session.id.to_string()
    }
}
