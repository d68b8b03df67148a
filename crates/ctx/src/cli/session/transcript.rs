//! Formats sessions and messages for a person: role, text, one line per tool call, errors in place.

use std::io::IsTerminal;

use anstyle::Style;
use ctx_engine::core::id::SessionId;
use ctx_engine::core::message::{Message, Part, Role, Source};
use ctx_engine::core::session::{Activity, Delivery, Status};
use ctx_engine::core::short_id::ULID_TIME_CHARS;
use ctx_engine::core::stored_content::Content;
use ctx_engine::core::suspension::{Kind, Suspension};
use ctx_engine::{Engine, Info, ListedMessage, StoredTurn};
use serde_json::Value;

use crate::json::variant_name;
use crate::markdown;
use crate::problem::Problem;
use crate::waiting_prompt::prompt_text;

use super::super::Context;
use super::super::output::{
    BOLD, DIM, GREEN, Output, RED, YELLOW, plural, visible_line, visible_text,
};
use super::super::table::Cell;
use super::super::times::Times;
use super::turn_marks::TurnMarks;

/// Characters of a tool's parameters or result that are shown.
const TOOL_TEXT_MAX_CHARS: usize = 100;
/// Characters of an id in a command that a person may type. A session is found by fewer in most
/// stores; so many are unique in all of them.
const SHORT_CHARS: usize = 8;
/// Columns of a terminal that does not tell its width.
const WIDTH_DEFAULT: usize = 80;

/// How messages are printed.
pub(super) struct Reader {
    times: Times,
    /// Columns of a terminal, where Markdown is rendered. In a pipe texts stay as they are.
    width: Option<usize>,
}

impl Reader {
    pub(super) fn new(context: &Context, engine: &Engine) -> Self {
        let is_terminal = std::io::stdout().is_terminal();
        let width = is_terminal.then(|| context.out.width().unwrap_or(WIDTH_DEFAULT));
        Self { times: context.out.times(engine.now()), width }
    }

    pub(super) fn message(&self, told: &ListedMessage) -> String {
        let parts = told.message.content.iter();
        let lines: Vec<String> = parts.filter_map(|part| self.part(part)).collect();
        format!("{}\n{}", self.heading(told), lines.join("\n"))
    }

    fn heading(&self, told: &ListedMessage) -> String {
        let when = self.times.minute(told.message.created_at);
        let open = if told.turn.is_none() { " · open" } else { "" };
        let role = variant_name(&told.message.role);
        let from = match (told.message.role, told.message.source, &told.provider_id) {
            (Role::User, Some(source), _) if source != Source::Human => {
                format!(" ({})", variant_name(&source))
            }
            (Role::Assistant, _, Some(provider)) if !provider.is_empty() => {
                let model =
                    told.model.as_ref().map_or_else(String::new, |model| format!("/{model}"));
                format!(" ({}{})", visible_text(provider), visible_text(&model))
            }
            _ => String::new(),
        };
        format!("{BOLD}{role}{BOLD:#}{from} {DIM}{when}{open}{DIM:#}")
    }

    fn text(&self, text: &str) -> String {
        let Some(width) = self.width else { return visible_text(text) };
        let lines = markdown::render(text, width);
        lines.iter().map(|line| markdown::print_line(line)).collect::<Vec<_>>().join("\n")
    }

    fn part(&self, part: &Part) -> Option<String> {
        Some(match part {
            Part::Text { text } => self.text(text),
            Part::Thought { text, .. } if text.trim().is_empty() => return None,
            Part::Record { .. } => return None,
            Part::Thought { text, .. } => dim_lines(&visible_text(text)),
            Part::ToolCall { name: tool, params, status, .. } => {
                format!(
                    "{DIM}→ {} {} · {}{DIM:#}",
                    visible_text(tool),
                    abbreviate(params),
                    variant_name(status)
                )
            }
            Part::ToolResult { content, is_error, .. } => result_line(content, *is_error),
            Part::Error { code, message, .. } => error_line(code, message),
            Part::Plan { entries } => format!("{DIM}plan {}{DIM:#}", abbreviate(entries)),
            Part::Image { media_type, blob, .. } => {
                format!("{DIM}{} {}{DIM:#}", visible_text(media_type), blob.0.short())
            }
            Part::Summary { text } => format!("{DIM}summary:{DIM:#} {}", self.text(text)),
        })
    }
}

/// Each line dimmed: a pager resets the style at the end of a line.
fn dim_lines(text: &str) -> String {
    text.lines().map(|line| format!("{DIM}{line}{DIM:#}")).collect::<Vec<_>>().join("\n")
}

/// A turn and its messages, for `ctx show`.
pub(in crate::cli) async fn turn_text(
    context: &Context,
    engine: &Engine,
    turn: &StoredTurn,
) -> Result<Vec<String>, Problem> {
    let mut marks = TurnMarks::none(context.out.times(engine.now()));
    marks.add(engine, [turn.id]).await?;
    let mut lines = vec![marks.of(turn.id).to_owned()];
    let reader = Reader::new(context, engine);
    match engine.messages().turn_messages(turn.id).await? {
        None => lines.push("The messages were deleted.".to_owned()),
        Some(messages) => {
            for message in messages {
                let told = ListedMessage {
                    message,
                    turn: Some(turn.id),
                    provider_id: turn.header.provider_id.clone(),
                    model: turn.header.model.clone(),
                    delivered_at: None,
                };
                lines.push(String::new());
                lines.extend(reader.message(&told).lines().map(str::to_owned));
            }
        }
    }
    Ok(lines)
}

fn result_line(content: &Content, is_error: bool) -> String {
    let mark = if is_error { "✗" } else { "←" };
    match content {
        Content::Text(text) => {
            format!("{DIM}{mark} {}{DIM:#}", visible_line(text, TOOL_TEXT_MAX_CHARS))
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
        value => visible_line(&value.to_string(), TOOL_TEXT_MAX_CHARS),
    }
}

pub(super) fn error_line(code: &str, message: &str) -> String {
    format!("{RED}error{RED:#}: {} {DIM}[{}]{DIM:#}", visible_text(message), visible_text(code))
}

/// The text and summary parts of a message, joined.
pub(in crate::cli) fn message_text(message: &Message) -> String {
    let text = |part: &Part| match part {
        Part::Text { text } | Part::Summary { text } => Some(text.clone()),
        _ => None,
    };
    message.content.iter().filter_map(text).collect()
}

pub(in crate::cli) fn session_line(info: &Info, out: &Output) -> String {
    let row = &info.session;
    let title = row
        .title
        .as_ref()
        .map_or_else(String::new, |title| format!(" {}", visible_line(title, 60)));
    let turns = plural(row.turn_count, "turn");
    let words = conditions(info);
    let words: String =
        words.iter().map(|(word, style)| format!("{style}{word}{style:#} · ")).collect();
    format!(
        "{BOLD}{}{BOLD:#}{title} {words}{DIM}{turns} · {}{DIM:#}",
        visible_line(&session_argument(info), 60),
        out.minute(row.last_activity_at)
    )
}

/// Everything that differs from an idle, active session without waiting messages.
fn conditions(info: &Info) -> Vec<(String, Style)> {
    let mut words = Vec::new();
    match info.session.status {
        Status::Active => {}
        Status::Suspended => words.push(("interrupted by a restart".to_owned(), YELLOW)),
        Status::Archived => words.push(("archived".to_owned(), DIM)),
        Status::Error if info.session.is_damaged() => words.push(("damaged".to_owned(), RED)),
        Status::Error => words.push(("error".to_owned(), RED)),
    }
    match info.session.state {
        Activity::Idle => {}
        Activity::Running => words.push(("running".to_owned(), GREEN)),
        Activity::Suspended => words.push(("waiting for an answer".to_owned(), YELLOW)),
    }
    if info.prompt.is_some() {
        words.push(("prompt pending".to_owned(), YELLOW));
    }
    if !info.inbox.is_empty() {
        words.push((format!("{} queued", info.inbox.len()), Style::new()));
    }
    words
}

/// The state of a session in a table, in the colour of its first word.
pub(in crate::cli) fn condition_cell(info: &Info) -> Cell {
    let words = conditions(info);
    let style = words.first().map_or_else(Style::new, |(_, style)| *style);
    let words: Vec<String> = words.into_iter().map(|(word, _)| word).collect();
    Cell::styled(words.join(" · "), style)
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
            visible_text(&prompt_text(prompt, info.task.as_ref()))
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
        .map_or_else(String::new, |question| format!(": {}", visible_text(question)));
    match awaited.kind {
        Kind::ToolResult => {
            let calls: Vec<String> = awaited
                .tool_calls
                .iter()
                .map(|call| {
                    format!(
                        "  {} {} {}",
                        visible_text(&call.id),
                        visible_text(&call.name),
                        abbreviate(&call.params)
                    )
                })
                .collect();
            let results: String = awaited
                .tool_calls
                .iter()
                .map(|call| format!(" --result {}=TEXT", visible_text(&call.id)))
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
                    format!("\n  {}: {}", visible_text(&offer.id), visible_text(&offer.label))
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

/// Whether ctx has made the label: a word and an id.
pub(in crate::cli) fn has_generated_label(info: &Info) -> bool {
    let label = &info.session.label;
    let end = label.rsplit(['-', ':']).next().unwrap_or_default();
    end.len() < label.len() && end.parse::<SessionId>().is_ok()
}

/// The session as a command-line argument: its label, a part of its id if ctx made the label, or
/// its id if the label needs shell quoting.
pub(in crate::cli) fn session_argument(info: &Info) -> String {
    // The label that ctx gave repeats the id; a part of the id is easier to type.
    let id = info.session.id;
    if has_generated_label(info) {
        return id.to_string().chars().skip(ULID_TIME_CHARS).take(SHORT_CHARS).collect();
    }
    let simple = |c: char| c.is_ascii_alphanumeric() || "-_.:/@+".contains(c);
    let label = &info.session.label;
    if label.chars().all(simple) && !label.starts_with('-') {
        label.clone()
    } else {
        info.session.id.to_string()
    }
}
