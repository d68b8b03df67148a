//! A session with its run, its suspensions and its pending prompt.

use std::collections::BTreeMap;

use ctx_engine::Info;
use ctx_engine::core::prompt::{Choice, Prompt as CorePrompt};
use ctx_engine::core::suspension::Suspension as CoreSuspension;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::task_json::Task;
use super::{optional_string, variant_name};

/// What started a worker (session, turn and tool call), or where a fork starts (session and turn)
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Parent {
    session: String,
    turn: Option<String>,
    tool_call: Option<String>,
}

/// How messages from channels reach a session
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Routing {
    /// The entity whose direct messages the session receives
    entity: Option<String>,
    /// The policy that created the session
    policy: Option<String>,
    /// The label of the session that receives the messages instead of this one
    merged_into: Option<String>,
}

/// The open run of a session
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CurrentRun {
    id: String,
    /// `processing`, `streaming`, `compacting` or `completing`
    phase: String,
    provider_id: String,
    model: Option<String>,
    started_at: String,
}

/// A tool call whose result the session waits for
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AwaitedCall {
    id: String,
    name: String,
    params: Value,
}

/// One option of a permission or question
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Offer {
    id: String,
    label: String,
    /// Set by the agent, for example `allow_once` or `reject_always`
    kind: Option<String>,
}

/// A tool result, permission, answer or event that a session waits for
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Suspension {
    id: String,
    /// `tool_result`, `permission`, `question` or `event`
    kind: String,
    tool_calls: Vec<AwaitedCall>,
    options: Vec<Offer>,
    question: Option<String>,
    created_at: String,
}

/// A question about the open task with two choices
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Prompt {
    id: String,
    /// `stale`, `new_task` or `resume`
    kind: String,
    text: String,
    /// `continue` and `start_fresh`, in the order of the letters A and B in `text`
    choices: Vec<String>,
    opened_at: String,
}

/// A durable conversation
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Session {
    id: String,
    label: String,
    title: Option<String>,
    project: String,
    working_dir: Option<String>,
    /// `active`; `suspended`: interrupted by a restart, the next message resumes it; `archived`;
    /// `error`: the stored history failed verification
    status: String,
    /// `idle`, `running`, or `suspended` while a suspension is open
    state: String,
    head: Option<String>,
    turn_count: u64,
    persona: Option<String>,
    provider_id: Option<String>,
    model: Option<String>,
    origin: String,
    parent: Option<Parent>,
    routing: Routing,
    task: Option<Task>,
    run: Option<CurrentRun>,
    /// The oldest open suspension
    suspension: Option<Suspension>,
    suspensions: Vec<Suspension>,
    pending_prompt: Option<Prompt>,
    options: BTreeMap<String, String>,
    /// `open`, `hold` or `refuse`
    delivery: String,
    track_tasks: bool,
    /// Number of messages in the inbox
    waiting: usize,
    /// Number of the newest event
    seq: u64,
    created_at: String,
    updated_at: String,
    last_activity_at: String,
}

impl From<&CoreSuspension> for Suspension {
    fn from(suspension: &CoreSuspension) -> Self {
        let awaited = &suspension.awaited;
        let call = |call: &ctx_engine::core::suspension::AwaitedCall| AwaitedCall {
            id: call.id.clone(),
            name: call.name.clone(),
            params: call.params.clone(),
        };
        let offer = |offer: &ctx_engine::core::suspension::Offer| Offer {
            id: offer.id.clone(),
            label: offer.label.clone(),
            kind: offer.kind.clone(),
        };
        Self {
            id: suspension.id.to_string(),
            kind: awaited.kind.name().to_owned(),
            tool_calls: awaited.tool_calls.iter().map(call).collect(),
            options: awaited.options.iter().map(offer).collect(),
            question: awaited.question.clone(),
            created_at: suspension.created_at.to_string(),
        }
    }
}

impl From<&CorePrompt> for Prompt {
    fn from(prompt: &CorePrompt) -> Self {
        Self {
            id: prompt.id.to_string(),
            kind: prompt.kind().to_owned(),
            text: prompt.text.clone(),
            choices: prompt.choices().map(Choice::name).map(str::to_owned).to_vec(),
            opened_at: prompt.opened_at.to_string(),
        }
    }
}

impl From<&Info> for Session {
    fn from(info: &Info) -> Self {
        let row = &info.session;
        Self {
            id: row.id.to_string(),
            label: row.label.clone(),
            title: row.title.clone(),
            project: row.project.clone(),
            working_dir: row.working_dir.clone(),
            status: variant_name(&row.status),
            state: variant_name(&row.state),
            head: optional_string(&row.head),
            turn_count: row.turn_count,
            persona: row.persona.clone(),
            provider_id: row.provider_id.clone(),
            model: row.model.clone(),
            origin: variant_name(&row.origin),
            parent: row.parent.as_ref().map(|parent| Parent {
                session: parent.session.clone(),
                turn: optional_string(&parent.turn),
                tool_call: parent.tool_call.clone(),
            }),
            routing: Routing {
                entity: optional_string(&row.routing.entity),
                policy: row.routing.policy.clone(),
                merged_into: row.routing.merged_into.clone(),
            },
            task: info.task.as_ref().map(Task::from),
            run: info.run.as_ref().map(|run| CurrentRun {
                id: run.id.to_string(),
                phase: run.phase.name().to_owned(),
                provider_id: run.provider_id.clone(),
                model: run.model.clone(),
                started_at: run.started_at.to_string(),
            }),
            suspension: info.suspensions.first().map(Suspension::from),
            suspensions: info.suspensions.iter().map(Suspension::from).collect(),
            pending_prompt: info.prompt.as_ref().map(Prompt::from),
            options: row.options.clone(),
            delivery: variant_name(&row.delivery),
            track_tasks: row.track_tasks,
            waiting: info.inbox.len(),
            seq: row.seq,
            created_at: row.created_at.to_string(),
            updated_at: row.updated_at.to_string(),
            last_activity_at: row.last_activity_at.to_string(),
        }
    }
}
