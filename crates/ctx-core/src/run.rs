//! Runs: attempts of a provider to produce a turn. Phases live here, not on the session.

use serde::{Deserialize, Serialize};

use crate::id::RunId;
use crate::inbox::Tool;
use crate::time::Timestamp;

/// What a run is doing (R149–R151).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Its context is put together.
    Processing,
    /// Words come.
    Streaming,
    /// The context did not fit and is made shorter.
    Compacting,
    /// The turn is being written.
    Completing,
}

impl Phase {
    /// Every phase.
    pub const ALL: [Phase; 4] =
        [Self::Processing, Self::Streaming, Self::Compacting, Self::Completing];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Processing => "processing",
            Self::Streaming => "streaming",
            Self::Compacting => "compacting",
            Self::Completing => "completing",
        }
    }

    /// Whether a run may go on to another phase.
    pub const fn may_become(self, next: Self) -> bool {
        matches!(
            (self, next),
            (Self::Processing, Self::Streaming | Self::Completing)
                | (Self::Streaming, Self::Compacting | Self::Completing)
                | (Self::Compacting, Self::Streaming)
        )
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The provider finished.
    Completed,
    /// The provider failed; the error is in the turn.
    Failed,
    /// Somebody cancelled it.
    Cancelled,
    /// Another message or a crash cut it off.
    Interrupted,
    /// It waits for something; a later run continues the turn.
    Suspended,
}

/// Why a run is to end early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cancel {
    /// Somebody said so.
    User,
    /// A message that interrupts came.
    Message,
}

impl Cancel {
    /// How the run then ends.
    pub const fn outcome(self) -> Outcome {
        match self {
            Self::User => Outcome::Cancelled,
            Self::Message => Outcome::Interrupted,
        }
    }
}

/// One attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Which.
    pub id: RunId,
    /// Only who holds this number may write for it.
    pub fence: u64,
    /// What it is doing.
    pub phase: Phase,
    /// Who answers.
    pub provider_id: String,
    /// With which model; the provider's own choice if none.
    pub model: Option<String>,
    /// Whether messages can go into it.
    pub can_steer: bool,
    /// Whether it is to end early.
    pub cancel: Option<Cancel>,
    /// The tools of the client who sent the message.
    pub tools: Vec<Tool>,
    /// Whether its normal end moves the task (design section 7).
    pub moves_task: bool,
    /// When the turn began, which may be some runs ago.
    pub turn_started_at: Timestamp,
    /// When it started.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// How.
    pub outcome: Option<Outcome>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_follow_the_table() {
        // R149, R150, R151
        use Phase::{Compacting, Completing, Processing, Streaming};
        let table = [
            (Processing, Streaming),
            (Processing, Completing),
            (Streaming, Compacting),
            (Streaming, Completing),
            (Compacting, Streaming),
        ];
        for from in Phase::ALL {
            for to in Phase::ALL {
                assert_eq!(from.may_become(to), table.contains(&(from, to)), "{from:?} to {to:?}");
            }
            assert_eq!(serde_json::to_value(from).expect("json"), from.name());
        }
    }
}
