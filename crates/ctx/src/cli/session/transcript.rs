//! Formats sessions and messages for a person: role, text, one line per tool call, errors in place.

use ctx_engine::core::message::{Message, Part, Role, Source};
use ctx_engine::core::session::{Activity, Delivery, Status};
use ctx_engine::core::stored_content::Content;
use ctx_engine::core::suspension::{Kind, Suspension};
use ctx_engine::core::text_limits::one_line;
use ctx_engine::{Info, ListedMessage};
use serde_json::Value;

use crate::json::variant_name;

use super::super::output::{BOLD, DIM, GREEN, RED, YELLOW};

/// Characters of a tool's parameters or result that are shown.
const TOOL_TEXT_MAX_CHARS: usize = 100;

/// Removes terminal escape sequences: a model or a tool could use them to change the terminal.
pub(in crate::cli) fn strip_control_chars(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

pub(super) fn message_lines(told: &ListedMessage) -> String {
    let lines: Vec<String> = told.message.content.iter().filter_map(part_line).collect();
    format!("{}\n{}", message_heading(told), lines.join("\n"))
}

fn message_heading(told: &ListedMessage) -> String {
    let at = told.message.created_at.to_string();
    let when = &at[..16.min(at.len())];
    let open = if told.turn.is_none() { " · open" } else { "" };
    let role = variant_name(&told.message.role);
    let from = match (told.message.role, told.message.source, &told.provider_id) {
        (Role::User, Some(source), _) if source != Source::Human => {
            format!(" ({})", variant_name(&source))
        }
        (Role::Assistant, _, Some(provider)) if !provider.is_empty() => {
            let model = told.model.as_ref().map_or_else(String::new, |model| format!("/{model}"));
            format!(" ({}{})", strip_control_chars(provider), strip_control_chars(&model))
        }
        _ => String::new(),
    };
    format!("{BOLD}{role}{BOLD:#}{from} {DIM}{when}{open}{DIM:#}")
}

fn part_line(part: &Part) -> Option<String> {
    Some(match part {
        Part::Text { text } => strip_control_chars(text),
        Part::Thought { text, .. } if text.trim().is_empty() => return None,
        Part::Thought { text, .. } => format!("{DIM}{}{DIM:#}", strip_control_chars(text)),
        Part::ToolCall { name: tool, params, status, .. } => {
            format!(
                "{DIM}→ {} {} · {}{DIM:#}",
                strip_control_chars(tool),
                abbreviate(params),
                variant_name(status)
            )
        }
        Part::ToolResult { content, is_error, .. } => result_line(content, *is_error),
        Part::Error { code, message, .. } => error_line(code, message),
        Part::Plan { entries } => format!("{DIM}plan {}{DIM:#}", abbreviate(entries)),
        Part::Image { media_type, blob, .. } => {
            format!("{DIM}{} {}{DIM:#}", strip_control_chars(media_type), blob.0.short())
        }
        Part::Summary { text } => format!("{DIM}summary:{DIM:#} {}", strip_control_chars(text)),
    })
}

fn result_line(content: &Content, is_error: bool) -> String {
    let mark = if is_error { "✗" } else { "←" };
    match content {
        Content::Text(text) => {
            format!(
                "{DIM}{mark} {}{DIM:#}",
                strip_control_chars(&one_line(text, TOOL_TEXT_MAX_CHARS))
            )
        }
        Content::Blob { blob, bytes } => {
            format!("{DIM}{mark} {bytes} bytes, `ctx show {}`{DIM:#}", blob.0.short())
        }
        Content::Omitted { bytes, .. } => format!("{DIM}{mark} {bytes} bytes, not stored{DIM:#}"),
    }
}

fn abbreviate(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        value => strip_control_chars(&one_line(&value.to_string(), TOOL_TEXT_MAX_CHARS)),
    }
}

pub(super) fn error_line(code: &str, message: &str) -> String {
    format!(
        "{RED}error{RED:#}: {} {DIM}[{}]{DIM:#}",
        strip_control_chars(message),
        strip_control_chars(code)
    )
}

/// The text and summary parts of a message, joined.
pub(super) fn message_text(message: &Message) -> String {
    let text = |part: &Part| match part {
        Part::Text { text } | Part::Summary { text } => Some(text.clone()),
        _ => None,
    };
    message.content.iter().filter_map(text).collect()
}

pub(in crate::cli) fn session_line(info: &Info) -> String {
    let row = &info.session;
    let at = row.last_activity_at.to_string();
    let title = row.title.as_ref().map_or_else(String::new, |title| {
        format!(" {}", strip_control_chars(&one_line(title, 60)))
    });
    let plural = if row.turn_count == 1 { "" } else { "s" };
    format!(
        "{BOLD}{}{BOLD:#}{title} {}{DIM}{} turn{plural} · {}{DIM:#}",
        strip_control_chars(&one_line(&row.label, 60)),
        conditions(info),
        row.turn_count,
        &at[..16.min(at.len())]
    )
}

/// Everything that differs from an idle, active session without waiting messages.
fn conditions(info: &Info) -> String {
    let mut words = Vec::new();
    match info.session.status {
        Status::Active => {}
        Status::Suspended => words.push(format!("{YELLOW}interrupted by a restart{YELLOW:#}")),
        Status::Archived => words.push(format!("{DIM}archived{DIM:#}")),
        Status::Error => words.push(format!("{RED}damaged{RED:#}")),
    }
    match info.session.state {
        Activity::Idle => {}
        Activity::Running => words.push(format!("{GREEN}running{GREEN:#}")),
        Activity::Suspended => words.push(format!("{YELLOW}waiting for an answer{YELLOW:#}")),
    }
    if info.prompt.is_some() {
        words.push(format!("{YELLOW}prompt pending{YELLOW:#}"));
    }
    if !info.inbox.is_empty() {
        words.push(format!("{} queued", info.inbox.len()));
    }
    words.into_iter().map(|word| format!("{word} · ")).collect()
}

/// What a session waits for, and the commands that answer it.
pub(super) fn waiting_lines(info: &Info) -> Vec<String> {
    let session = session_argument(info);
    let mut lines: Vec<String> =
        info.suspensions.iter().map(|suspension| suspension_lines(suspension, &session)).collect();
    if let Some(prompt) = &info.prompt {
        lines.push(format!(
            "{}\nAnswer with `ctx session answer {session} continue` or \
             `ctx session answer {session} start_fresh`.",
            strip_control_chars(&prompt.text)
        ));
    }
    if info.session.delivery != Delivery::Open && !info.inbox.is_empty() {
        lines.push(format!(
            "Messages waiting: {} (the delivery is set to `{}`)",
            info.inbox.len(),
            variant_name(&info.session.delivery)
        ));
    }
    lines
}

/// How to continue after a restart interrupted the last answer.
pub(super) fn retry_line(info: &Info) -> Option<String> {
    let session = session_argument(info);
    (info.session.status == Status::Suspended && !info.is_busy()).then(|| {
        format!(
            "The last answer was interrupted by a restart. Run its message again with \
             `ctx session retry {session}`, or send another one."
        )
    })
}

fn suspension_lines(suspension: &Suspension, session: &str) -> String {
    let awaited = &suspension.awaited;
    let question = awaited
        .question
        .as_deref()
        .map_or_else(String::new, |question| format!(": {}", strip_control_chars(question)));
    match awaited.kind {
        Kind::ToolResult => {
            let calls: Vec<String> = awaited
                .tool_calls
                .iter()
                .map(|call| {
                    format!(
                        "  {} {} {}",
                        strip_control_chars(&call.id),
                        strip_control_chars(&call.name),
                        abbreviate(&call.params)
                    )
                })
                .collect();
            let results: String = awaited
                .tool_calls
                .iter()
                .map(|call| format!(" --result {}=TEXT", strip_control_chars(&call.id)))
                .collect();
            format!(
                "Waiting for tool results:\n{}\n\
                 Answer with `ctx session answer {session}{results}`.",
                calls.join("\n")
            )
        }
        kind => {
            let kind = match kind {
                Kind::Permission => "a permission",
                Kind::Event => "an event",
                Kind::Question | Kind::ToolResult => "the answer to a question",
            };
            let offers: String = awaited
                .options
                .iter()
                .map(|offer| {
                    format!(
                        "\n  {}: {}",
                        strip_control_chars(&offer.id),
                        strip_control_chars(&offer.label)
                    )
                })
                .collect();
            let choice = awaited.options.first().map_or("TEXT", |_| "CHOICE");
            format!(
                "Waiting for {kind}{question}{offers}\n\
                 Answer with `ctx session answer {session} {choice}`."
            )
        }
    }
}

/// The session as a command-line argument: its label, or its id if the label needs shell quoting.
pub(in crate::cli) fn session_argument(info: &Info) -> String {
    let simple = |c: char| c.is_ascii_alphanumeric() || "-_.:/@+".contains(c);
    let label = &info.session.label;
    if label.chars().all(simple) && !label.starts_with('-') {
        label.clone()
    } else {
        info.session.id.to_string()
    }
}
