//! Conversations as every surface gives them. The OpenAPI document is made from these types.

use std::collections::BTreeMap;

use ctx_engine::core::content::Content;
use ctx_engine::core::id::MessageId;
use ctx_engine::core::inbox::Item;
use ctx_engine::core::message::{Message as Said, Part as SaidPart};
use ctx_engine::core::pin::Pin;
use ctx_engine::core::prompt::{Choice, Prompt as OpenPrompt};
use ctx_engine::core::run::Run as OpenRun;
use ctx_engine::core::session::{Activity, Session as Row};
use ctx_engine::core::suspension::Suspension as Awaited;
use ctx_engine::core::task::Task as OpenTask;
use ctx_engine::core::turn::Usage as Cost;
use ctx_engine::{
    Arrival, HeadMove as Move, Imported as Arrived, Info, StoredTurn, Submitted, Told,
    TreeTurn as Branch,
};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::compaction::Compaction;

/// What a worker was started by.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Parent {
    session: String,
    turn: Option<String>,
    tool_call: Option<String>,
}

/// The run that is open.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CurrentRun {
    id: String,
    phase: String,
    provider_id: String,
    model: Option<String>,
    started_at: String,
}

/// A tool call that waits for its result.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AwaitedCall {
    id: String,
    name: String,
    params: Value,
}

/// An answer that is offered.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Offer {
    id: String,
    label: String,
    kind: Option<String>,
}

/// Something that a session waits for.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Suspension {
    id: String,
    kind: String,
    tool_calls: Vec<AwaitedCall>,
    options: Vec<Offer>,
    question: Option<String>,
    created_at: String,
}

/// A question with two choices.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Prompt {
    id: String,
    kind: String,
    text: String,
    choices: Vec<String>,
    opened_at: String,
}

/// The work that a session is at.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Task {
    id: String,
    session: String,
    description: String,
    /// `{name, …}`
    #[schema(value_type = Object)]
    state: Value,
    steps: u64,
    head: String,
    progress: String,
    started_at: String,
    last_activity_at: String,
    ended_at: Option<String>,
    commit: Option<String>,
}

/// A durable conversation.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Session {
    id: String,
    label: String,
    title: Option<String>,
    project: String,
    working_dir: Option<String>,
    status: String,
    state: String,
    head: Option<String>,
    turn_count: u64,
    persona: Option<String>,
    provider_id: Option<String>,
    model: Option<String>,
    origin: String,
    parent: Option<Parent>,
    task: Option<Task>,
    run: Option<CurrentRun>,
    /// The oldest open one.
    suspension: Option<Suspension>,
    suspensions: Vec<Suspension>,
    pending_prompt: Option<Prompt>,
    options: BTreeMap<String, String>,
    delivery: String,
    track_tasks: bool,
    /// How many messages wait.
    waiting: usize,
    seq: u64,
    created_at: String,
    updated_at: String,
    last_activity_at: String,
}

/// One part of a message: `type` says which fields there are.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[allow(missing_docs)]
pub(crate) enum Part {
    Text {
        text: String,
    },
    Thought {
        text: String,
    },
    ToolCall {
        id: String,
        name: String,
        params: Value,
        status: String,
    },
    ToolResult {
        tool_call_id: String,
        content: String,
        is_error: bool,
        blob: Option<String>,
        bytes: Option<u64>,
    },
    Error {
        code: String,
        message: String,
        provider_id: Option<String>,
    },
    Plan {
        entries: Value,
    },
    /// Its bytes are at `/api/blobs/{blob}`.
    Image {
        media_type: String,
        blob: String,
        size: Option<u64>,
    },
    Summary {
        text: String,
    },
}

/// A message; `turn` is null while its turn is open.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Message {
    id: String,
    turn: Option<String>,
    role: String,
    source: Option<String>,
    content: Vec<Part>,
    provider_id: Option<String>,
    model: Option<String>,
    created_at: String,
}

/// What a turn cost; what was not told is null.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Usage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cached_tokens: Option<u64>,
    cost: Option<String>,
    scope: String,
}

/// One exchange.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Turn {
    id: String,
    parent: Option<String>,
    session: Option<String>,
    #[serde(rename = "type")]
    kind: String,
    status: String,
    depth: u64,
    provider_id: Option<String>,
    model: Option<String>,
    usage: Option<Usage>,
    started_at: String,
    ended_at: String,
    messages: Vec<Message>,
    /// The compaction's row, where it is one.
    compaction: Option<Compaction>,
    /// Whether the session has it in every request, whatever is summarised around it.
    pinned: bool,
}

/// A message that waits.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct InboxItem {
    id: String,
    session: String,
    /// From 1; null once it does not wait any more.
    position: Option<usize>,
    mode: String,
    source: String,
    text: String,
    state: String,
    intent: Option<String>,
    enqueued_at: String,
}

/// One attempt of a provider.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Run {
    id: String,
    session: String,
    phase: String,
    provider_id: String,
    model: Option<String>,
    outcome: Option<String>,
    started_at: String,
    ended_at: Option<String>,
}

/// What became of a message.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Accepted {
    message_id: String,
    run_id: Option<String>,
    position: Option<usize>,
    state: String,
    intent: Option<String>,
    pending_prompt: Option<Prompt>,
}

/// A move of a session's head.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HeadMove {
    turn: Option<String>,
    changed_at: String,
}

/// A session that was imported.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Imported {
    session: Session,
    /// `created`; `extended` where it was here and had come less far; `unchanged` where all of it was here.
    arrival: &'static str,
    /// What it was called where it comes from, where another session has that label here.
    renamed_from: Option<String>,
    /// How many turns it has that it had not before.
    turns_added: u64,
    tasks_added: usize,
    /// Tasks that were left because another one is open here.
    tasks_left: usize,
}

/// A turn in the tree.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TreeTurn {
    id: String,
    parent: Option<String>,
    depth: u64,
    /// The labels of the sessions whose head it is.
    heads: Vec<String>,
}

/// The name of a plain enum, as it is written.
pub(crate) fn name<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(name)) => name,
        other => format!("{other:?}"),
    }
}

fn text<T: ToString>(value: &Option<T>) -> Option<String> {
    value.as_ref().map(ToString::to_string)
}

impl From<&Awaited> for Suspension {
    fn from(suspension: &Awaited) -> Self {
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

impl From<&OpenPrompt> for Prompt {
    fn from(prompt: &OpenPrompt) -> Self {
        Self {
            id: prompt.id.to_string(),
            kind: prompt.kind().to_owned(),
            text: prompt.text.clone(),
            choices: prompt.choices().map(Choice::name).map(str::to_owned).to_vec(),
            opened_at: prompt.opened_at.to_string(),
        }
    }
}

impl From<&OpenTask> for Task {
    fn from(task: &OpenTask) -> Self {
        Self {
            id: task.id.to_string(),
            session: task.session.to_string(),
            description: task.description.clone(),
            state: super::state(&task.state),
            steps: task.steps,
            head: task.head.to_string(),
            progress: task.progress.summary(),
            started_at: task.started_at.to_string(),
            last_activity_at: task.last_activity_at.to_string(),
            ended_at: text(&task.ended_at),
            commit: text(&task.commit),
        }
    }
}

impl From<&Info> for Session {
    fn from(info: &Info) -> Self {
        let row: &Row = &info.session;
        let suspensions: Vec<Suspension> = info.suspensions.iter().map(Suspension::from).collect();
        Self {
            id: row.id.to_string(),
            label: row.label.clone(),
            title: row.title.clone(),
            project: row.project.clone(),
            working_dir: row.working_dir.clone(),
            status: name(&row.status),
            state: name(&row.state),
            head: text(&row.head),
            turn_count: row.turn_count,
            persona: row.persona.clone(),
            provider_id: row.provider_id.clone(),
            model: row.model.clone(),
            origin: name(&row.origin),
            parent: row.parent.as_ref().map(|parent| Parent {
                session: parent.session.clone(),
                turn: text(&parent.turn),
                tool_call: parent.tool_call.clone(),
            }),
            task: info.task.as_ref().map(Task::from),
            run: info.run.as_ref().map(|run| CurrentRun {
                id: run.id.to_string(),
                phase: run.phase.name().to_owned(),
                provider_id: run.provider_id.clone(),
                model: run.model.clone(),
                started_at: run.started_at.to_string(),
            }),
            suspension: info.suspensions.first().map(Suspension::from),
            suspensions,
            pending_prompt: info.prompt.as_ref().map(Prompt::from),
            options: row.options.clone(),
            delivery: name(&row.delivery),
            track_tasks: row.track_tasks,
            waiting: info.inbox.len(),
            seq: row.seq,
            created_at: row.created_at.to_string(),
            updated_at: row.updated_at.to_string(),
            last_activity_at: row.last_activity_at.to_string(),
        }
    }
}

impl From<SaidPart> for Part {
    fn from(part: SaidPart) -> Self {
        match part {
            SaidPart::Text { text } => Self::Text { text },
            SaidPart::Thought { text, .. } => Self::Thought { text },
            SaidPart::ToolCall { id, name: tool, params, status } => {
                Self::ToolCall { id, name: tool, params, status: name(&status) }
            }
            SaidPart::ToolResult { tool_call_id, content, is_error } => {
                let (content, blob, bytes) = match content {
                    Content::Text(text) => (text, None, None),
                    Content::Blob { blob, bytes } | Content::Omitted { omitted: blob, bytes } => {
                        (String::new(), Some(blob.to_string()), Some(bytes))
                    }
                };
                Self::ToolResult { tool_call_id, content, is_error, blob, bytes }
            }
            SaidPart::Error { code, message, provider_id } => {
                Self::Error { code, message, provider_id }
            }
            SaidPart::Plan { entries } => Self::Plan { entries },
            SaidPart::Image { media_type, blob, bytes } => {
                Self::Image { media_type, blob: blob.to_string(), size: bytes }
            }
            SaidPart::Summary { text } => Self::Summary { text },
        }
    }
}

impl Message {
    fn of(
        said: Said,
        turn: Option<String>,
        provider_id: Option<String>,
        model: Option<String>,
    ) -> Self {
        Self {
            id: said.id.to_string(),
            turn,
            role: name(&said.role),
            source: said.source.map(|source| name(&source)),
            content: said.content.into_iter().map(Part::from).collect(),
            provider_id,
            model,
            created_at: said.created_at.to_string(),
        }
    }
}

impl From<Told> for Message {
    fn from(told: Told) -> Self {
        Self::of(told.message, text(&told.turn), told.provider_id, told.model)
    }
}

impl From<&Cost> for Usage {
    fn from(usage: &Cost) -> Self {
        Self {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cached_tokens: usage.cached_tokens,
            cost: usage.cost.clone(),
            scope: usage.scope.clone(),
        }
    }
}

impl Turn {
    /// A turn; its words are left out where they were purged.
    pub(crate) fn of(turn: &StoredTurn, session: Option<String>) -> Self {
        let header = &turn.header;
        let said = turn.messages().ok().flatten().unwrap_or_default();
        let message = |said| {
            Message::of(
                said,
                Some(turn.id.to_string()),
                header.provider_id.clone(),
                header.model.clone(),
            )
        };
        Self {
            id: turn.id.to_string(),
            parent: text(&header.parent),
            session,
            kind: name(&header.kind),
            status: name(&header.status),
            depth: turn.depth,
            provider_id: header.provider_id.clone(),
            model: header.model.clone(),
            usage: header.usage.as_ref().map(Usage::from),
            started_at: header.started_at.to_string(),
            ended_at: header.ended_at.to_string(),
            messages: said.into_iter().map(message).collect(),
            compaction: turn
                .compaction
                .as_ref()
                .map(|row| Compaction::of(&turn.id.to_string(), row)),
            pinned: false,
        }
    }

    /// As a session that has pinned these turns sees it.
    pub(crate) fn pinned_by(self, pins: &[Pin]) -> Self {
        let pinned = pins.iter().any(|pin| pin.turn.to_string() == self.id);
        Self { pinned, ..self }
    }
}

impl InboxItem {
    /// Whether it is this message.
    pub(crate) fn is(&self, item: MessageId) -> bool {
        self.id == item.to_string()
    }

    /// The items of a session, each with its place among those that wait.
    pub(crate) fn all(session: &str, items: &[Item]) -> Vec<Self> {
        let mut waiting = 0;
        let mut one = |item: &Item| {
            let position = (name(&item.state) == "waiting").then(|| {
                waiting += 1;
                waiting
            });
            Self {
                id: item.message_id.to_string(),
                session: session.to_owned(),
                position,
                mode: item.mode.name().to_owned(),
                source: name(&item.source),
                text: item.text(),
                state: name(&item.state),
                intent: item.intent.map(|intent| intent.name().to_owned()),
                enqueued_at: item.enqueued_at.to_string(),
            }
        };
        items.iter().map(&mut one).collect()
    }
}

impl Run {
    pub(crate) fn of(run: &OpenRun, session: String) -> Self {
        Self {
            id: run.id.to_string(),
            session,
            phase: run.phase.name().to_owned(),
            provider_id: run.provider_id.clone(),
            model: run.model.clone(),
            outcome: run.outcome.map(|outcome| name(&outcome)),
            started_at: run.started_at.to_string(),
            ended_at: text(&run.ended_at),
        }
    }
}

impl From<&Submitted> for Accepted {
    fn from(sent: &Submitted) -> Self {
        Self {
            message_id: sent.message_id.to_string(),
            run_id: text(&sent.run_id),
            position: sent.position,
            state: name(&sent.state),
            intent: sent.intent.map(|intent| intent.name().to_owned()),
            pending_prompt: sent.prompt.as_ref().map(Prompt::from),
        }
    }
}

impl Accepted {
    /// As it stands after a while.
    pub(crate) fn with_state(self, state: Activity) -> Self {
        Self { state: name(&state), ..self }
    }
}

impl Imported {
    pub(crate) fn of(imported: &Arrived, session: Session) -> Self {
        Self {
            session,
            arrival: Self::name(imported.arrival),
            renamed_from: imported.renamed_from.clone(),
            turns_added: imported.turns,
            tasks_added: imported.tasks,
            tasks_left: imported.tasks_left,
        }
    }

    /// What was done, as it is written.
    pub(crate) const fn name(arrival: Arrival) -> &'static str {
        match arrival {
            Arrival::Created => "created",
            Arrival::Extended => "extended",
            Arrival::Unchanged => "unchanged",
        }
    }
}

impl From<&Move> for HeadMove {
    fn from(moved: &Move) -> Self {
        Self { turn: text(&moved.turn), changed_at: moved.at.to_string() }
    }
}

impl From<&Branch> for TreeTurn {
    fn from(turn: &Branch) -> Self {
        Self {
            id: turn.id.to_string(),
            parent: text(&turn.parent),
            depth: turn.depth,
            heads: turn.heads.clone(),
        }
    }
}
