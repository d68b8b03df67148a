//! The six states of a task and the transition table.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The state of a task. A session without a task has `None`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub enum State {
    /// The agent is working.
    Running,
    /// The agent asked a question.
    AwaitingUser {
        question: String,
        /// Unix time in seconds.
        asked_at: i64,
    },
    /// The user sent a message while the agent was working.
    Interrupted {
        /// All messages that the agent has not processed, one per line.
        user_message: String,
    },
    /// The agent reported that the work is done.
    PendingComplete {
        /// The agent's summary of the work.
        summary: String,
    },
    /// The user confirmed the work.
    Complete,
    /// The user abandoned the task.
    Aborted { reason: String },
}

/// A state without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the variants of `State`")]
pub enum StateName {
    Running,
    AwaitingUser,
    Interrupted,
    PendingComplete,
    Complete,
    Aborted,
}

impl StateName {
    #[allow(missing_docs, reason = "the name is self-explanatory")]
    pub const ALL: [StateName; 6] = [
        Self::Running,
        Self::AwaitingUser,
        Self::Interrupted,
        Self::PendingComplete,
        Self::Complete,
        Self::Aborted,
    ];

    /// The name in JSON and in the database.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::AwaitingUser => "awaiting_user",
            Self::Interrupted => "interrupted",
            Self::PendingComplete => "pending_complete",
            Self::Complete => "complete",
            Self::Aborted => "aborted",
        }
    }
}

impl fmt::Display for StateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for StateName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|state| state.name() == text);
        found.ok_or_else(|| {
            format!(
                "unknown task state `{text}`; the states are {}",
                Self::ALL.map(Self::name).join(", ")
            )
        })
    }
}

impl State {
    /// The state without its data.
    pub const fn name(&self) -> StateName {
        match self {
            Self::Running => StateName::Running,
            Self::AwaitingUser { .. } => StateName::AwaitingUser,
            Self::Interrupted { .. } => StateName::Interrupted,
            Self::PendingComplete { .. } => StateName::PendingComplete,
            Self::Complete => StateName::Complete,
            Self::Aborted { .. } => StateName::Aborted,
        }
    }
}

/// A transition that the table does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidTransition {
    /// The current state. `None` if there is no task.
    pub from: Option<StateName>,
    /// The requested state. `None` for the end of the task.
    pub to: Option<StateName>,
}

impl fmt::Display for InvalidTransition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |state: Option<StateName>| state.map_or("none", StateName::name);
        write!(f, "invalid task transition: {} to {}", name(self.from), name(self.to))
    }
}

impl std::error::Error for InvalidTransition {}

/// Checks a transition. `None` means the absence of a task.
///
/// # Errors
/// If the table has no such row. The error names both states.
pub const fn transition(
    from: Option<StateName>,
    to: Option<StateName>,
) -> Result<(), InvalidTransition> {
    use StateName::{Aborted, AwaitingUser, Complete, Interrupted, PendingComplete, Running};
    match (from, to) {
        (None, Some(Running))
        | (Some(Running), Some(AwaitingUser | PendingComplete | Interrupted | Aborted))
        | (Some(AwaitingUser | Interrupted), Some(Running | Aborted))
        | (Some(PendingComplete), Some(Complete | Running | Aborted))
        | (Some(Complete | Aborted), None) => Ok(()),

        (None, None | Some(AwaitingUser | Interrupted | PendingComplete | Complete | Aborted))
        | (Some(Running), None | Some(Running | Complete))
        | (
            Some(AwaitingUser),
            None | Some(AwaitingUser | Interrupted | PendingComplete | Complete),
        )
        | (
            Some(Interrupted),
            None | Some(AwaitingUser | Interrupted | PendingComplete | Complete),
        )
        | (Some(PendingComplete), None | Some(AwaitingUser | Interrupted | PendingComplete))
        | (Some(Complete | Aborted), Some(_)) => Err(InvalidTransition { from, to }),
    }
}

/// The states on the way to `complete`, for a user who confirms a task in any open state.
pub const fn path_to_complete(from: StateName) -> &'static [StateName] {
    use StateName::{Aborted, AwaitingUser, Complete, Interrupted, PendingComplete, Running};
    match from {
        Running => &[PendingComplete, Complete],
        AwaitingUser | Interrupted => &[Running, PendingComplete, Complete],
        PendingComplete => &[Complete],
        Complete | Aborted => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use StateName::{Aborted, AwaitingUser, Complete, Interrupted, PendingComplete, Running};

    /// The table of the requirements.
    const TABLE: [(Option<StateName>, Option<StateName>); 14] = [
        (None, Some(Running)),                   // R19
        (Some(Running), Some(AwaitingUser)),     // R20
        (Some(Running), Some(PendingComplete)),  // R21
        (Some(Running), Some(Interrupted)),      // R22
        (Some(Running), Some(Aborted)),          // R23
        (Some(AwaitingUser), Some(Running)),     // R24
        (Some(AwaitingUser), Some(Aborted)),     // R25
        (Some(Interrupted), Some(Running)),      // R26
        (Some(PendingComplete), Some(Complete)), // R27
        (Some(PendingComplete), Some(Running)),  // R28
        (Some(PendingComplete), Some(Aborted)),  // R29
        (Some(Complete), None),                  // R30
        (Some(Aborted), None),                   // R31
        (Some(Interrupted), Some(Aborted)),      // R33
    ];

    #[test]
    fn every_pair_of_states_is_allowed_or_rejected_by_name() {
        // R32
        let ends: Vec<Option<StateName>> =
            std::iter::once(None).chain(StateName::ALL.map(Some)).collect();
        for &from in &ends {
            for &to in &ends {
                let expected = if TABLE.contains(&(from, to)) {
                    Ok(())
                } else {
                    Err(InvalidTransition { from, to })
                };
                assert_eq!(transition(from, to), expected);
            }
        }
        assert_eq!(
            InvalidTransition { from: Some(Running), to: Some(Complete) }.to_string(),
            "invalid task transition: running to complete"
        );
    }

    #[test]
    fn path_to_complete_uses_only_valid_transitions() {
        for start in [Running, AwaitingUser, Interrupted, PendingComplete] {
            let mut at = start;
            for &next in path_to_complete(start) {
                assert_eq!(transition(Some(at), Some(next)), Ok(()));
                at = next;
            }
            assert_eq!(at, Complete);
        }
    }

    #[test]
    fn states_keep_their_data_in_json() {
        // R17, R18
        let states = [
            (State::Running, r#"{"name":"running"}"#),
            (
                State::AwaitingUser { question: "q".into(), asked_at: 5 },
                r#"{"name":"awaiting_user","question":"q","asked_at":5}"#,
            ),
            (
                State::Interrupted { user_message: "m".into() },
                r#"{"name":"interrupted","user_message":"m"}"#,
            ),
            (
                State::PendingComplete { summary: "s".into() },
                r#"{"name":"pending_complete","summary":"s"}"#,
            ),
            (State::Complete, r#"{"name":"complete"}"#),
            (State::Aborted { reason: "r".into() }, r#"{"name":"aborted","reason":"r"}"#),
        ];
        assert_eq!(states.len(), StateName::ALL.len());
        for (state, json) in states {
            assert_eq!(serde_json::to_string(&state).expect("json"), json);
            assert_eq!(serde_json::from_str::<State>(json).expect("state"), state);
        }
    }
}
