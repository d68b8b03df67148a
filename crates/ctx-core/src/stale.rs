//! How long nobody came back, what that means, and the words for it.
//!
//! Idle time is counted from the last persisted activity, so it goes on while no process runs.

use serde::{Deserialize, Serialize};

use crate::task::{State, Task};
use crate::text::one_line;
use crate::time::{Span, Timestamp};

/// When to ask and when to seal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Past this, any message asks first.
    pub ask_after: Span,
    /// Past this, the task is sealed before the message is handled.
    pub seal_after: Span,
    /// The commit's message; `{duration}` is replaced.
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

/// What the idle time means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Staleness {
    /// Go on without a word.
    Fresh,
    /// Ask whether to go on.
    ShouldAsk,
    /// Seal it.
    ShouldSeal,
}

impl Config {
    /// What an idle time means; exactly at a threshold nothing has happened yet.
    pub fn judge(&self, idle: Span) -> Staleness {
        if idle > self.seal_after {
            Staleness::ShouldSeal
        } else if idle > self.ask_after {
            Staleness::ShouldAsk
        } else {
            Staleness::Fresh
        }
    }

    /// The message of a commit that a user's late message caused.
    pub fn late_message(&self, idle: Span, task: &Task) -> String {
        let saved = self.message_template.replace("{duration}", &idle.in_words());
        format!("{saved}: {}", task.description)
    }
}

/// How long a task has lain.
pub fn idle(task: &Task, now: Timestamp) -> Span {
    now.since(task.last_activity_at)
}

/// The message of a commit that the clean-up made.
pub fn cleanup_message(idle: Span, task: &Task) -> String {
    format!("Auto-saved stale session (idle {}): {}", idle.in_words(), task.description)
}

/// What a returning user reads first, and then what the agent needs from them.
pub fn welcome(task: &Task) -> String {
    match &task.state {
        State::AwaitingUser { question, .. } => {
            format!(
                "Welcome back! I was asking: {}\n\nContinuing from where we left off. I had asked:\n{question}",
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
                "Welcome back! You had said:\n{user_message}\n\nI hadn't finished processing that. Should I continue?"
            )
        }
        State::Running => format!(
            "Welcome back! I was working on: {}\n\nThe task was interrupted. Progress so far:\n{}\nShould I continue?",
            task.description,
            task.progress.summary()
        ),
        State::Complete | State::Aborted { .. } => {
            format!(
                "Welcome back! This task has ended and waits to be sealed: {}",
                task.description
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_strict() {
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
            assert_eq!(config.judge(idle), expected, "{idle}");
        }
    }

    #[test]
    fn the_configuration_is_data() {
        // R87
        let json = r#"{"ask_after":"1s","seal_after":"2s","message_template":"{duration}!"}"#;
        let config: Config = serde_json::from_str(json).expect("config");
        assert_eq!(config.judge(Span(1500)), Staleness::ShouldAsk);
        assert_eq!(serde_json::to_string(&config).expect("json"), json);
    }
}
