//! Runs: attempts of a provider to produce a turn. A session has at most one open run.

use serde::{Deserialize, Serialize};

use crate::id::RunId;
use crate::inbox::Tool;
use crate::message::Message;
use crate::outbox::RunReplies;
use crate::policy::ToolRights;
use crate::time::Timestamp;

/// The progress of a run (R149–R151).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The context is assembled.
    Processing,
    /// The provider sends its answer.
    Streaming,
    /// The context did not fit and is compacted.
    Compacting,
    /// The turn is stored.
    Completing,
}

impl Phase {
    #[allow(missing_docs, reason = "the name is self-explanatory")]
    pub const ALL: [Phase; 4] =
        [Self::Processing, Self::Streaming, Self::Compacting, Self::Completing];

    /// The name in JSON and in the database.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Processing => "processing",
            Self::Streaming => "streaming",
            Self::Compacting => "compacting",
            Self::Completing => "completing",
        }
    }

    /// Whether a run may change to another phase.
    pub const fn can_become(self, next: Self) -> bool {
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
    /// The provider failed. The turn contains the error.
    Failed,
    /// The user cancelled it.
    Cancelled,
    /// A message or a crash interrupted it.
    Interrupted,
    /// The session has a suspension. A later run continues the turn.
    Suspended,
}

/// Why a run should end early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cancel {
    /// The user cancelled it.
    User,
    /// A message with mode `interrupt` arrived.
    Message,
}

impl Cancel {
    /// The outcome of a run that ends for this reason.
    pub const fn outcome(self) -> Outcome {
        match self {
            Self::User => Outcome::Cancelled,
            Self::Message => Outcome::Interrupted,
        }
    }
}

/// What the normal end of a run does to the open task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskEffect {
    /// The task stays as it is: the run was started by a question, a worker or a timer.
    #[default]
    Keep,
    /// The agent's final text may move the task.
    Infer,
    /// The user confirmed the task: it is sealed, unless the agent recorded work in this run.
    Confirm,
}

/// One attempt of a provider to produce a turn.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Run {
    pub id: RunId,
    /// A write for this run is rejected if the session has a higher fence.
    pub fence: u64,
    pub phase: Phase,
    pub provider_id: String,
    /// `None` if the provider chooses the model.
    pub model: Option<String>,
    /// Whether messages can be added to the running turn.
    pub can_steer: bool,
    /// Set if the run should end early.
    pub cancel: Option<Cancel>,
    /// Tools of the client that sent the message.
    pub tools: Vec<Tool>,
    /// The tools that the agent may call: those that all of them permit.
    pub tool_rights: Vec<ToolRights>,
    /// What a normal end does to the task.
    pub task_effect: TaskEffect,
    /// Messages to and from ctx that arrived during the turn. They become a turn after it.
    pub deferred: Vec<Message>,
    /// What goes to channels besides the answer to the messages that started the turn.
    pub replies: RunReplies,
    /// How often the messages of this run were run again after a crash.
    pub recoveries: u64,
    /// When the first run of the turn started.
    pub turn_started_at: Timestamp,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub outcome: Option<Outcome>,
}

impl Run {
    /// Whether the agent may call a tool.
    pub fn permits(&self, tool: &str) -> bool {
        self.tool_rights.iter().all(|rights| rights.permits(tool))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phase_changes_follow_the_table() {
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
                assert_eq!(from.can_become(to), table.contains(&(from, to)), "{from:?} to {to:?}");
            }
            assert_eq!(serde_json::to_value(from).expect("json"), from.name());
        }
    }
}
