//! The six states of a task and the only ways between them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Where the work stands. That there is no task is `None` of an `Option`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum State {
    /// The agent works.
    Running,
    /// The agent asked something.
    AwaitingUser {
        /// What it asked.
        question: String,
        /// When, in Unix seconds.
        asked_at: i64,
    },
    /// The user said something while the agent worked.
    Interrupted {
        /// All that was said and not yet taken in.
        user_message: String,
    },
    /// The agent says that it is done.
    PendingComplete {
        /// What it says it did.
        summary: String,
    },
    /// The user agreed.
    Complete,
    /// The user gave it up.
    Aborted {
        /// Why.
        reason: String,
    },
}

/// A state without what it carries.
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
    /// Every state.
    pub const ALL: [StateName; 6] = [
        Self::Running,
        Self::AwaitingUser,
        Self::Interrupted,
        Self::PendingComplete,
        Self::Complete,
        Self::Aborted,
    ];

    /// As it is written.
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
                "`{text}` is not a state; the states are {}",
                Self::ALL.map(Self::name).join(", ")
            )
        })
    }
}

impl State {
    /// Which of the six it is.
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

/// A way that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidTransition {
    /// Where the task is; nowhere if there is none.
    pub from: Option<StateName>,
    /// Where it was to go.
    pub to: Option<StateName>,
}

impl fmt::Display for InvalidTransition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |state: Option<StateName>| state.map_or("none", StateName::name);
        write!(f, "a task cannot go from {} to {}", name(self.from), name(self.to))
    }
}

impl std::error::Error for InvalidTransition {}

/// Whether a task may go from one state to another; `None` is the absence of a task.
///
/// # Errors
/// If the table has no such row, naming both ends.
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

/// The legal way from an open state to `complete`, for a user who says that the work is done.
pub const fn way_to_complete(from: StateName) -> &'static [StateName] {
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

    /// The table of the requirements, row by row.
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
    fn every_pair_is_allowed_or_refused_by_name() {
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
            "a task cannot go from running to complete"
        );
    }

    #[test]
    fn the_way_to_complete_is_legal_at_every_step() {
        for start in [Running, AwaitingUser, Interrupted, PendingComplete] {
            let mut at = start;
            for &next in way_to_complete(start) {
                assert_eq!(transition(Some(at), Some(next)), Ok(()));
                at = next;
            }
            assert_eq!(at, Complete);
        }
    }

    #[test]
    fn states_read_back_with_what_they_carry() {
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
