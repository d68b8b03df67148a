//! Idle tasks: when ctx asks before continuing, when it seals the task, and the texts for the user.
//!
//! Idle time is counted from the last stored activity, so it also passes while no process runs.

use serde::{Deserialize, Serialize};

use crate::task::{State, Task};
use crate::text_limits::one_line;
use crate::time::{Span, Timestamp};

/// Idle thresholds of tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// After this idle time, a message opens a prompt first.
    pub ask_after: Span,
    /// After this idle time, the task is sealed before the message is handled.
    pub seal_after: Span,
    /// The message of the commit. `{duration}` is replaced by the idle time.
    pub message_template: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            ask_after: Span::hours(24),
            seal_after: Span::days(7),
            message_template: "Auto-saved: session idle for {duration}".to_owned(),
        }
    }
}

/// How an idle task is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Staleness {
    /// Continue without a prompt.
    Fresh,
    /// Ask the user whether to continue.
    ShouldAsk,
    /// Seal the task.
    ShouldSeal,
}

impl Config {
    /// Classifies an idle time. An idle time equal to a threshold is below it.
    pub fn staleness(&self, idle: Span) -> Staleness {
        if idle > self.seal_after {
            Staleness::ShouldSeal
        } else if idle > self.ask_after {
            Staleness::ShouldAsk
        } else {
            Staleness::Fresh
        }
    }

    /// The message of the commit when a message arrives after `seal_after`.
    pub fn late_message(&self, idle: Span, task: &Task) -> String {
        let saved = self.message_template.replace("{duration}", &idle.in_words());
        format!("{saved}: {}", task.description)
    }
}

/// Time since the last activity of a task.
pub fn idle(task: &Task, now: Timestamp) -> Span {
    now.since(task.last_activity_at)
}

/// The message of the commit when the cleanup seals an idle task.
pub fn cleanup_message(idle: Span, task: &Task) -> String {
    format!("Auto-saved stale session (idle {}): {}", idle.in_words(), task.description)
}

/// The greeting for a user who resumes a task: the state, and what the agent needs (R101–R104).
pub fn welcome(task: &Task) -> String {
    match &task.state {
        State::AwaitingUser { question, .. } => {
            format!(
                "Welcome back! I was asking: {}\n\n\
                 Continuing from where we left off. I had asked:\n{question}",
                one_line(question, 80)
            )
        }
        State::PendingComplete { summary } => {
            format!(
                "Welcome back! I had finished: {}\n\n{summary}\nDoes this look good?",
                one_line(&task.description, 80)
            )
        }
        State::Interrupted { user_message } => {
            format!(
                "Welcome back! You had said:\n{user_message}\n\n\
                 I hadn't finished processing that. Should I continue?"
            )
        }
        State::Running => format!(
            "Welcome back! I was working on: {}\n\n\
             The task was interrupted. Progress so far:\n{}\nShould I continue?",
            task.description,
            task.progress.summary()
        ),
        State::Complete | State::Aborted { .. } => {
            format!("Welcome back! This task has ended and is not sealed yet: {}", task.description)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_time_equal_to_a_threshold_is_below_it() {
        // R85, R86, R88-R91
        let config = Config::default();
        let hour = 3_600_000;
        let table = [
            (Span(0), Staleness::Fresh),
            (Span(24 * hour), Staleness::Fresh),
            (Span(24 * hour + 1), Staleness::ShouldAsk),
            (Span(168 * hour), Staleness::ShouldAsk),
            (Span(168 * hour + 1), Staleness::ShouldSeal),
        ];
        for (idle, expected) in table {
            assert_eq!(config.staleness(idle), expected, "{idle}");
        }
    }

    #[test]
    fn configuration_is_read_from_json() {
        // R87
        let json = r#"{"ask_after":"1s","seal_after":"2s","message_template":"{duration}!"}"#;
        let config: Config = serde_json::from_str(json).expect("config");
        assert_eq!(config.staleness(Span(1500)), Staleness::ShouldAsk);
        assert_eq!(serde_json::to_string(&config).expect("json"), json);
    }
}
