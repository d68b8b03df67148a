//! Events of the feed. An event refers to objects by id and does not repeat their contents.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::compaction::Trigger;
use crate::id::{CommitId, MessageId, PromptId, RunId, SessionId, SuspensionId, TaskId, TurnId};
use crate::inbox::Mode;
use crate::intent::Intent;
use crate::message::ToolStatus;
use crate::prompt::Choice;
use crate::run::{Outcome, Phase};
use crate::suspension;
use crate::task::StateName;
use crate::turn;

/// An event that is stored in a session's feed. Its JSON form is the API's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
#[allow(missing_docs, reason = "the names are the API's")]
pub enum Event {
    #[serde(rename = "session.created")]
    SessionCreated,
    #[serde(rename = "session.updated")]
    SessionUpdated,
    #[serde(rename = "session.deleted")]
    SessionDeleted { session_id: SessionId, label: String },
    #[serde(rename = "options.updated")]
    OptionsUpdated,
    #[serde(rename = "message.queued")]
    MessageQueued { message_id: MessageId, mode: Mode, position: usize },
    #[serde(rename = "message.classified")]
    MessageClassified { message_id: MessageId, intent: Intent },
    #[serde(rename = "inbox.updated")]
    InboxUpdated { message_id: MessageId },
    #[serde(rename = "run.started")]
    RunStarted {
        run_id: RunId,
        message_ids: Vec<MessageId>,
        provider_id: String,
        model: Option<String>,
        /// Set if a crash ended an earlier run of these messages before any output was stored.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        recovered: bool,
    },
    #[serde(rename = "run.resumed")]
    RunResumed { run_id: RunId, suspension_id: SuspensionId },
    #[serde(rename = "run.phase")]
    RunPhase { run_id: RunId, phase: Phase },
    #[serde(rename = "run.suspended")]
    RunSuspended { run_id: RunId, suspension_id: SuspensionId, kind: suspension::Kind },
    #[serde(rename = "run.completed")]
    RunCompleted { run_id: RunId },
    #[serde(rename = "run.failed")]
    RunFailed { run_id: RunId, code: String },
    #[serde(rename = "run.cancelled")]
    /// `reason` is `cancelled` or `interrupted`.
    RunCancelled { run_id: RunId, reason: Outcome },
    #[serde(rename = "message.completed")]
    MessageCompleted { run_id: RunId, message_id: MessageId },
    #[serde(rename = "tool_call.started")]
    ToolCallStarted { run_id: RunId, tool_call_id: String, name: String },
    #[serde(rename = "tool_call.updated")]
    ToolCallUpdated { run_id: RunId, tool_call_id: String, status: ToolStatus },
    #[serde(rename = "tool_call.completed")]
    ToolCallCompleted { run_id: RunId, tool_call_id: String, is_error: bool },
    #[serde(rename = "plan.updated")]
    PlanUpdated { run_id: RunId },
    #[serde(rename = "usage.updated")]
    UsageUpdated { run_id: RunId, usage: turn::Usage },
    #[serde(rename = "turn.committed")]
    /// `turn` is `None` after the turn was deleted.
    TurnCommitted { turn: Option<TurnId> },
    #[serde(rename = "compaction.completed")]
    CompactionCompleted {
        turn: TurnId,
        trigger: Trigger,
        turns_summarized: u64,
        tokens_before: u64,
        tokens_after: u64,
    },
    #[serde(rename = "task.updated")]
    TaskUpdated { task: TaskId, state: StateName },
    #[serde(rename = "task.sealed")]
    TaskSealed { task: TaskId, commit: CommitId },
    #[serde(rename = "prompt.opened")]
    PromptOpened { prompt: PromptId },
    #[serde(rename = "prompt.answered")]
    PromptAnswered { prompt: PromptId, choice: PromptEnd },
    /// An event of a newer version of ctx, as it is stored.
    #[serde(untagged)]
    Unknown(Value),
}

/// How a question with two choices was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the two choices, and neither of them")]
pub enum PromptEnd {
    Continue,
    StartFresh,
    Closed,
}

impl From<Choice> for PromptEnd {
    fn from(choice: Choice) -> Self {
        match choice {
            Choice::Continue => Self::Continue,
            Choice::StartFresh => Self::StartFresh,
        }
    }
}

impl Event {
    /// The event's name in the API: the field `type` of its JSON form.
    pub fn name(&self) -> &str {
        match self {
            Event::SessionCreated => "session.created",
            Event::SessionUpdated => "session.updated",
            Event::SessionDeleted { .. } => "session.deleted",
            Event::OptionsUpdated => "options.updated",
            Event::MessageQueued { .. } => "message.queued",
            Event::MessageClassified { .. } => "message.classified",
            Event::InboxUpdated { .. } => "inbox.updated",
            Event::RunStarted { .. } => "run.started",
            Event::RunResumed { .. } => "run.resumed",
            Event::RunPhase { .. } => "run.phase",
            Event::RunSuspended { .. } => "run.suspended",
            Event::RunCompleted { .. } => "run.completed",
            Event::RunFailed { .. } => "run.failed",
            Event::RunCancelled { .. } => "run.cancelled",
            Event::MessageCompleted { .. } => "message.completed",
            Event::ToolCallStarted { .. } => "tool_call.started",
            Event::ToolCallUpdated { .. } => "tool_call.updated",
            Event::ToolCallCompleted { .. } => "tool_call.completed",
            Event::PlanUpdated { .. } => "plan.updated",
            Event::UsageUpdated { .. } => "usage.updated",
            Event::TurnCommitted { .. } => "turn.committed",
            Event::CompactionCompleted { .. } => "compaction.completed",
            Event::TaskUpdated { .. } => "task.updated",
            Event::TaskSealed { .. } => "task.sealed",
            Event::PromptOpened { .. } => "prompt.opened",
            Event::PromptAnswered { .. } => "prompt.answered",
            Event::Unknown(value) => value.get("type").and_then(Value::as_str).unwrap_or("message"),
        }
    }

    /// The event's JSON form.
    pub fn json(&self) -> Value {
        // Every field is a string, a number, a bool, or a list of ids.
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Reads an event from its JSON form. What this version does not know is kept as it is.
    pub fn from_json(value: Value) -> Self {
        Self::deserialize(&value).unwrap_or(Self::Unknown(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ObjectId;
    use serde_json::json;
    use ulid::Ulid;

    fn every() -> Vec<Event> {
        let (run_id, message_id) = (RunId(Ulid(1)), MessageId(Ulid(2)));
        let (suspension_id, tool_call_id) = (SuspensionId(Ulid(3)), "call".to_owned());
        let (turn, task) = (TurnId(ObjectId::of(&[b"turn"])), TaskId(Ulid(4)));
        let (commit, prompt) = (CommitId(ObjectId::of(&[b"commit"])), PromptId(Ulid(5)));
        let call = || tool_call_id.clone();
        vec![
            Event::SessionCreated,
            Event::SessionUpdated,
            Event::SessionDeleted { session_id: SessionId(Ulid(6)), label: "main".to_owned() },
            Event::OptionsUpdated,
            Event::MessageQueued { message_id, mode: Mode::Queue, position: 1 },
            Event::MessageClassified { message_id, intent: Intent::NewTask },
            Event::InboxUpdated { message_id },
            Event::RunStarted {
                run_id,
                message_ids: vec![message_id],
                provider_id: "main".to_owned(),
                model: None,
                recovered: false,
            },
            Event::RunResumed { run_id, suspension_id },
            Event::RunPhase { run_id, phase: Phase::Streaming },
            Event::RunSuspended { run_id, suspension_id, kind: suspension::Kind::Permission },
            Event::RunCompleted { run_id },
            Event::RunFailed { run_id, code: "timeout".to_owned() },
            Event::RunCancelled { run_id, reason: Outcome::Interrupted },
            Event::MessageCompleted { run_id, message_id },
            Event::ToolCallStarted { run_id, tool_call_id: call(), name: "read".to_owned() },
            Event::ToolCallUpdated { run_id, tool_call_id: call(), status: ToolStatus::Running },
            Event::ToolCallCompleted { run_id, tool_call_id: call(), is_error: true },
            Event::PlanUpdated { run_id },
            Event::UsageUpdated { run_id, usage: turn::Usage::default() },
            Event::TurnCommitted { turn: Some(turn) },
            Event::CompactionCompleted {
                turn,
                trigger: Trigger::Manual,
                turns_summarized: 1,
                tokens_before: 2,
                tokens_after: 1,
            },
            Event::TaskUpdated { task, state: StateName::AwaitingUser },
            Event::TaskSealed { task, commit },
            Event::PromptOpened { prompt },
            Event::PromptAnswered { prompt, choice: PromptEnd::StartFresh },
        ]
    }

    #[test]
    fn every_event_has_the_name_of_its_json_form_and_reads_back() {
        for event in every() {
            let json = event.json();
            assert_eq!(json["type"], event.name());
            assert_eq!(Event::from_json(json), event);
        }
    }

    #[test]
    fn the_json_form_of_states_and_choices_is_the_apis() {
        for (event, field, value) in [
            (every().remove(13), "reason", "interrupted"),
            (every().remove(22), "state", "awaiting_user"),
            (every().remove(25), "choice", "start_fresh"),
        ] {
            assert_eq!(event.json()[field], value, "{event:?}");
        }
    }

    #[test]
    fn only_a_recovered_run_is_marked() {
        let started = |recovered| Event::RunStarted {
            run_id: RunId(Ulid(1)),
            message_ids: Vec::new(),
            provider_id: "main".to_owned(),
            model: None,
            recovered,
        };
        assert_eq!(started(true).json()["recovered"], true);
        assert_eq!(started(false).json().get("recovered"), None);
        for event in [started(true), started(false)] {
            assert_eq!(Event::from_json(event.json()), event);
        }
    }

    #[test]
    fn an_event_of_a_newer_version_is_kept_as_it_is() {
        let newer = json!({"type": "run.teleported", "to": "mars"});
        let event = Event::from_json(newer.clone());
        assert_eq!((event.name(), event.json()), ("run.teleported", newer));
    }

    #[test]
    fn the_turn_of_an_event_may_be_deleted() {
        let json = json!({"type": "turn.committed", "turn": null});
        assert_eq!(Event::from_json(json.clone()), Event::TurnCommitted { turn: None });
        assert_eq!(Event::TurnCommitted { turn: None }.json(), json);
    }
}
