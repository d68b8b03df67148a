//! Workers: sessions that another session, their manager, starts with a task (R186–R193).
//!
//! A worker is a session whose `parent` names its manager. When a run of the worker ends, the
//! manager receives a report as a message. The flag `unreported` stays set until that message is
//! stored, so a crash does not lose the report.
//!
//! A worker that has workers of its own is finished when they are finished and have reported to it.
//! Until then its task stays running, and it is not reported as completed.

use std::path::{Component, Path, PathBuf};

use serde::Serialize;

use crate::id::{SessionId, TurnId};
use crate::message::Message;
use crate::message::{Part, Role};
use crate::session::Activity;
use crate::task::{State, Task};
use crate::text_limits::one_line;
use crate::turn;

/// Name of the tool that starts a worker.
pub const DISPATCH: &str = "dispatch_to_agent";
/// Maximum depth of workers that start workers.
pub const DEPTH_MAX: usize = 3;
/// Maximum number of running workers of one manager.
pub const BUSY_MAX: usize = 16;
/// Maximum number of reports in one message. The others follow in the next message.
pub const REPORTS_MAX: usize = 32;
/// The name by which a worker addresses its manager.
pub const MANAGER: &str = "manager";
/// Maximum length of the worker's last message in a report.
const REPORT_MAX_CHARS: usize = 4000;
/// Prefix of the labels of workers.
const PREFIX: &str = "worker:";
/// Length of a ULID.
const ULID_CHARS: usize = 26;

/// Whether a tool starts workers. Agents prepend the name of the tool server.
pub fn is_dispatch(name: &str) -> bool {
    name.ends_with(DISPATCH)
}

/// Finds the label of a worker in the result of a tool.
pub fn find_label(text: &str) -> Option<String> {
    let rest = &text[text.find(PREFIX)? + PREFIX.len()..];
    let id: String =
        rest.chars().take(ULID_CHARS).take_while(char::is_ascii_alphanumeric).collect();
    (id.len() == ULID_CHARS).then(|| format!("{PREFIX}{id}"))
}

/// Whether a directory is equal to or inside another one. Both paths must be canonical.
pub fn is_inside(dir: &Path, of: &Path) -> bool {
    let plain = |path: &Path| {
        path.components().all(|part| !matches!(part, Component::ParentDir | Component::CurDir))
    };
    plain(dir) && dir.starts_with(of)
}

/// Resolves a directory that is given relative to another one.
pub fn resolve_dir(of: &str, named: &str) -> PathBuf {
    Path::new(of).join(named)
}

/// System prompt of a worker: its task and how to end. It contains nothing of the manager's persona
/// (R187).
pub fn prompt(task: Option<&str>) -> String {
    let task = task.map_or_else(String::new, |task| format!("\n\nYour task:\n{task}"));
    format!(
        "You are a worker. Another agent, your manager, gave you one task. Do that task and \
         nothing else, then end: your last message is reported to your manager. If you cannot \
         continue without an answer, end with the question; the answer arrives as the next \
         message.{task}"
    )
}

/// An unfinished worker, as far as the rules of its manager read it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct WorkerState {
    pub id: SessionId,
    pub label: String,
    pub state: Activity,
    pub head: Option<TurnId>,
    /// Whether the manager has not received the report of its last run yet.
    pub unreported: bool,
    /// Whether a message waits in its inbox and can be delivered.
    pub has_messages: bool,
    /// Whether its task waits for an answer.
    pub awaits_answer: bool,
}

impl WorkerState {
    /// Whether it runs, will run without a further message of its manager, or has a report that its
    /// manager has not received.
    pub fn is_working(&self) -> bool {
        self.state != Activity::Idle || self.unreported || self.has_messages
    }

    /// Whether it cannot continue before its manager answers a question.
    pub fn is_asking(&self) -> bool {
        self.awaits_answer && !self.is_working()
    }
}

/// How a run of a worker ended, for the report to the manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The task is done.
    Completed,
    /// The worker asked a question.
    Asks,
    /// The provider failed.
    Failed,
    /// The run was interrupted or cancelled.
    Interrupted,
    /// The run ended and the task is still open.
    Idle,
    /// The run began after the task was sealed.
    NoTask,
}

impl End {
    /// Determines the outcome from the newest turn and the open task. A sealed task is `None`.
    pub fn of(status: turn::Status, task: Option<&Task>) -> Self {
        match (status, task.map(|task| &task.state)) {
            (turn::Status::Failed, _) => Self::Failed,
            (turn::Status::Interrupted | turn::Status::Cancelled, _) => Self::Interrupted,
            (turn::Status::Completed, None | Some(State::Complete)) => Self::Completed,
            (turn::Status::Completed, Some(State::AwaitingUser { .. })) => Self::Asks,
            (turn::Status::Completed, Some(_)) => Self::Idle,
        }
    }

    /// Whether the run ended normally. Such a report waits for others: those of the worker's own
    /// workers, and those of the other workers of a manager that is a worker itself. A question or
    /// a failure is reported at once.
    pub const fn is_result(self) -> bool {
        matches!(self, Self::Completed | Self::Idle | Self::NoTask)
    }

    /// The name in the result of a tool.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Asks => "asks",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
            Self::Idle => "idle",
            Self::NoTask => "no_task",
        }
    }
}

/// The content of a report about a worker.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct ReportContent<'a> {
    pub label: &'a str,
    pub end: End,
    /// The description of its task.
    pub task: Option<&'a str>,
    /// The question that its task waits for.
    pub question: Option<&'a str>,
    /// Labels of its own workers that wait for its answer.
    pub asking: &'a [String],
    /// The messages of its newest turn.
    pub messages: &'a [Message],
}

/// The report to the manager.
pub fn report(of: ReportContent<'_>) -> String {
    let label = of.label;
    let what = match of.end {
        End::Completed => format!("Worker {label} has completed its task."),
        End::Asks => {
            format!("Worker {label} has a question. Answer it with send_message_to_agent.")
        }
        End::Failed => {
            format!("Worker {label} has failed. Use send_message_to_agent to let it continue.")
        }
        End::Interrupted => {
            format!(
                "Worker {label} was interrupted; its output so far is kept. \
                 Use send_message_to_agent to let it continue."
            )
        }
        End::Idle => format!("Worker {label} has ended its turn; its task is still open."),
        End::NoTask => {
            format!("Worker {label} has ended another turn; its task was completed before.")
        }
    };
    let asking = match of.asking {
        [] => String::new(),
        labels => format!("\n\nThese workers of it wait for its answer: {}", labels.join(", ")),
    };
    let task =
        of.task.map_or_else(String::new, |task| format!("\n\nIts task: {}", one_line(task, 300)));
    let text = last_text(of.messages).unwrap_or_default();
    let question = match of.question {
        Some(question) if !text.contains(question) => format!("\n\nIts question: {question}"),
        _ => String::new(),
    };
    let last = if text.is_empty() { text } else { format!("\n\nIts last message:\n{text}") };
    format!("{what}{asking}{task}{question}{last}")
}

/// The text of a message with several reports.
pub fn join_reports(reports: &[&str]) -> String {
    reports.join("\n\n---\n\n")
}

/// The last text or error of the agent, truncated.
pub fn last_text(messages: &[Message]) -> Option<String> {
    let parts = messages
        .iter()
        .rev()
        .filter(|message| message.role != Role::User)
        .flat_map(|message| message.content.iter().rev());
    let text = parts.filter_map(Part::searchable_text).find(|text| !text.trim().is_empty())?.trim();
    let mut clipped: String = text.chars().take(REPORT_MAX_CHARS).collect();
    if clipped.len() < text.len() {
        clipped.push('…');
    }
    Some(clipped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_found_in_a_tool_result() {
        // R191
        let label = "worker:01ARZ3NDEKTSV4RRFFQ69G5FAV";
        assert_eq!(find_label(&format!("{{\"agent\":\"{label}\"}}")).as_deref(), Some(label));
        assert_eq!(find_label(&format!("started {label}.")).as_deref(), Some(label));
        for none in ["", "worker:", "worker:short", "no such thing"] {
            assert_eq!(find_label(none), None, "{none}");
        }
        assert!(
            is_dispatch("dispatch_to_agent")
                && is_dispatch("mcp__ctx__dispatch_to_agent")
                && !is_dispatch("dispatch")
        );
    }

    #[test]
    fn a_worker_directory_is_inside_the_directory_of_its_manager() {
        let inside =
            |dir: &str| is_inside(&resolve_dir("/work/boat", dir), Path::new("/work/boat"));
        assert!(inside("") && inside("hull") && inside("/work/boat/hull"));
        for outside in ["/work", "/work/boats", "..", "hull/../..", "/etc"] {
            assert!(!inside(outside), "{outside}");
        }
    }

    #[test]
    fn outcome_follows_from_the_turn_and_the_task() {
        // R190
        use turn::Status;
        let table = [
            (Status::Completed, None, End::Completed),
            (Status::Failed, None, End::Failed),
            (Status::Interrupted, None, End::Interrupted),
            (Status::Cancelled, None, End::Interrupted),
        ];
        for (status, task, end) in table {
            assert_eq!(End::of(status, task), end);
        }
        assert!(prompt(Some("sand the hull")).ends_with("sand the hull"));
    }
}
