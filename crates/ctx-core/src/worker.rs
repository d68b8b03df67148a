//! Workers: sessions that another session, their manager, starts with a task (R186–R193).
//!
//! A worker is a session like any other, with a manager in `parent`. What becomes of each of its runs is told to the
//! manager as a message; `untold` in its row stays set until that message is stored, so no crash swallows it.

use std::path::{Component, Path, PathBuf};

use serde::Serialize;

use crate::message::Message;
use crate::message::{Part, Role};
use crate::session::Session;
use crate::task::{State, Task};
use crate::text::one_line;
use crate::turn;

/// The tool that starts one.
pub const DISPATCH: &str = "dispatch_to_agent";
/// How deep workers may start workers.
pub const DEPTH_MAX: usize = 3;
/// How many of a session's workers may be at work at once.
pub const BUSY_MAX: usize = 16;
/// The manager's name among workers.
pub const MANAGER: &str = "manager";
/// How much of a worker's last words its manager is told.
const REPORT_MAX_CHARS: usize = 4000;
/// What labels of workers begin with.
const PREFIX: &str = "worker:";
/// How many characters a ULID has.
const ULID_CHARS: usize = 26;

/// Whether a tool starts workers; agents call it by longer names, with the server's before it.
pub fn is_dispatch(name: &str) -> bool {
    name.ends_with(DISPATCH)
}

/// The label of a worker in what a tool answered.
pub fn label_in(text: &str) -> Option<String> {
    let rest = &text[text.find(PREFIX)? + PREFIX.len()..];
    let id: String =
        rest.chars().take(ULID_CHARS).take_while(char::is_ascii_alphanumeric).collect();
    (id.len() == ULID_CHARS).then(|| format!("{PREFIX}{id}"))
}

/// The directory that a worker is to work in: inside its manager's, or nowhere. Both are as they are on disk.
pub fn is_inside(dir: &Path, of: &Path) -> bool {
    let plain = |path: &Path| {
        path.components().all(|part| !matches!(part, Component::ParentDir | Component::CurDir))
    };
    plain(dir) && dir.starts_with(of)
}

/// Where a directory lies that is named from another.
pub fn within(of: &str, named: &str) -> PathBuf {
    Path::new(of).join(named)
}

/// What a worker is told first: its task and how to end, and nothing of its manager's persona (R187).
pub fn prompt(task: Option<&str>) -> String {
    let task = task.map_or_else(String::new, |task| format!("\n\nYour task:\n{task}"));
    format!(
        "You are a worker. Another agent, your manager, gave you one task. Do that task and nothing else, then end: your last \
         message is what your manager is told. If you cannot go on without an answer, end with the question; the answer comes \
         as the next message.{task}"
    )
}

/// How a worker's run ended, for whoever started it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// It has done its task.
    Completed,
    /// It has a question.
    Asks,
    /// What answers in it failed.
    Failed,
    /// It was cut off.
    Interrupted,
    /// It has ended, and its task has not.
    Idle,
}

impl End {
    /// By its newest turn and its task, which is none once it was sealed.
    pub fn of(status: turn::Status, task: Option<&Task>) -> Self {
        match (status, task.map(|task| &task.state)) {
            (turn::Status::Failed, _) => Self::Failed,
            (turn::Status::Interrupted | turn::Status::Cancelled, _) => Self::Interrupted,
            (turn::Status::Completed, None | Some(State::Complete)) => Self::Completed,
            (turn::Status::Completed, Some(State::AwaitingUser { .. })) => Self::Asks,
            (turn::Status::Completed, Some(_)) => Self::Idle,
        }
    }
}

/// What a manager is told of its worker, from the messages of the worker's newest turn.
pub fn report(
    worker: &Session,
    end: End,
    description: Option<&str>,
    messages: &[Message],
) -> String {
    let label = &worker.label;
    let what = match end {
        End::Completed => format!("Worker {label} has completed its task."),
        End::Asks => {
            format!("Worker {label} has a question. Answer it with send_message_to_agent.")
        }
        End::Failed => format!(
            "Worker {label} has failed. It can be told to go on with send_message_to_agent."
        ),
        End::Interrupted => {
            format!(
                "Worker {label} was cut off before it had ended; what it made is kept. Tell it to go on with send_message_to_agent."
            )
        }
        End::Idle => format!("Worker {label} has ended its turn; its task is still open."),
    };
    let task = description
        .map_or_else(String::new, |task| format!("\n\nIts task: {}", one_line(task, 300)));
    let words = last_words(messages)
        .map_or_else(String::new, |words| format!("\n\nIts last words:\n{words}"));
    format!("{what}{task}{words}")
}

/// The agent's last words, or what went wrong, clipped.
pub fn last_words(messages: &[Message]) -> Option<String> {
    let parts = messages
        .iter()
        .rev()
        .filter(|message| message.role != Role::User)
        .flat_map(|message| message.content.iter().rev());
    let words = parts.filter_map(Part::words).find(|text| !text.trim().is_empty())?.trim();
    let mut clipped: String = words.chars().take(REPORT_MAX_CHARS).collect();
    if clipped.len() < words.len() {
        clipped.push('…');
    }
    Some(clipped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_found_in_what_the_tool_answered() {
        // R191
        let label = "worker:01ARZ3NDEKTSV4RRFFQ69G5FAV";
        assert_eq!(label_in(&format!("{{\"agent\":\"{label}\"}}")).as_deref(), Some(label));
        assert_eq!(label_in(&format!("started {label}.")).as_deref(), Some(label));
        for none in ["", "worker:", "worker:short", "no such thing"] {
            assert_eq!(label_in(none), None, "{none}");
        }
        assert!(
            is_dispatch("dispatch_to_agent")
                && is_dispatch("mcp__ctx__dispatch_to_agent")
                && !is_dispatch("dispatch")
        );
    }

    #[test]
    fn a_worker_never_works_above_its_manager() {
        let inside = |dir: &str| is_inside(&within("/work/boat", dir), Path::new("/work/boat"));
        assert!(inside("") && inside("hull") && inside("/work/boat/hull"));
        for outside in ["/work", "/work/boats", "..", "hull/../..", "/etc"] {
            assert!(!inside(outside), "{outside}");
        }
    }

    #[test]
    fn the_newest_turn_and_the_task_say_how_it_ended() {
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
