//! The port to agents and models: one request in, a stream of deltas out, one end.
//!
//! A provider never knows a session's row and never fails with an `Err`: its failure is one of its ends, and becomes a
//! part of the turn. It reads from its [`Link`] whether it is to stop, and what users say meanwhile.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ctx_core::id::{BlobId, MessageId, RunId, SessionId};
use ctx_core::inbox::Tool;
use ctx_core::message::{Message, ToolStatus};
use ctx_core::step;
use ctx_core::suspension::{Answer, Awaited, Suspension};
use ctx_core::turn::Usage;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// How many deltas may wait between a provider and its run.
pub const DELTAS_MAX: usize = 256;
/// How many calls of ctx's own tools an agent may have open.
pub const TOOL_USES_MAX: usize = 16;
/// How many messages may wait to go into a run.
pub const STEERS_MAX: usize = 32;

/// What a provider is asked.
#[derive(Debug, Clone)]
pub struct Request {
    /// For which session.
    pub session: SessionId,
    /// In which run.
    pub run: RunId,
    /// Where the agent works.
    pub working_dir: Option<String>,
    /// With which model; the provider's own choice if none.
    pub model: Option<String>,
    /// The system prompt.
    pub system: Option<String>,
    /// The history, projected for this provider, and the new messages last. Results of tools are text.
    pub messages: Vec<Message>,
    /// The bytes of the pictures in them; there are pictures only for a provider that takes them.
    pub images: BTreeMap<BlobId, Arc<Vec<u8>>>,
    /// The tools it may call.
    pub tools: Vec<Tool>,
    /// Settings of the session: mode, effort and the like.
    pub options: BTreeMap<String, String>,
    /// What the turn waited for, where it goes on after a suspension.
    pub resumes: Vec<(Suspension, Answer)>,
    /// Where in `messages` the open turn begins.
    pub open: usize,
    /// The agent's own conversation, where it has one that leads to this history.
    pub own: Option<Own>,
}

/// A conversation that an agent keeps by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Own {
    /// The agent's name for it.
    pub id: String,
    /// What it has not seen begins here in the request's messages; the open turn comes after that.
    pub unseen: usize,
    /// Whether nothing was cut off. If something was, only the agent can show what it has kept.
    pub clean: bool,
    /// The messages of the turn that was cut off, where it has ended.
    pub cut: Option<Range<usize>>,
}

/// What a provider says on its way.
#[derive(Debug, Clone, PartialEq)]
pub enum Delta {
    /// More words.
    Text(String),
    /// More reasoning; `raw` is what this provider wants back, once it is whole.
    Thought {
        /// The words.
        text: String,
        /// The provider's own item.
        raw: Option<Value>,
    },
    /// A tool is called, whole.
    ToolCall {
        /// Unique within the run.
        id: String,
        /// Which.
        name: String,
        /// With what.
        params: Value,
    },
    /// What a call turned out to be: agents tell name and input step by step.
    ToolInput {
        /// Which.
        id: String,
        /// Which tool.
        name: String,
        /// With what.
        params: Value,
    },
    /// How a call stands.
    ToolStatus {
        /// Which.
        id: String,
        /// How.
        status: ToolStatus,
    },
    /// What a tool that the agent ran itself answered.
    ToolResult {
        /// Which call.
        id: String,
        /// The answer.
        content: String,
        /// Whether it failed.
        is_error: bool,
    },
    /// The agent's plan, whole.
    Plan(Value),
    /// What it has cost so far, in this call of [`Provider::run`].
    Usage(Usage),
    /// Something the agent did, for the task.
    Observed(step::Entry),
    /// A message has gone in.
    Injected(MessageId),
    /// The agent's own conversation that this turn goes to; told before it is prompted.
    Own(String),
    /// Whether messages can go into this run, where that is known only once the agent has started.
    CanSteer(bool),
    /// The agent has made its own window shorter. It is recorded, and changes nothing of what ctx would send to others.
    Compacted {
        /// What it says of it, if anything.
        summary: String,
        /// What was in its window before, where it tells.
        tokens_before: Option<u64>,
        /// What is in it now.
        tokens_after: Option<u64>,
    },
}

/// Why a provider stopped by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It is done.
    EndTurn,
    /// It wants results of the tools that it called.
    ToolCalls,
    /// It ran out of room for its answer.
    MaxTokens,
    /// It will not answer this.
    Refused,
}

/// What the caller should do about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Try again after a pause.
    RetryLater,
    /// Try again at once.
    RetryNow,
    /// The context is too long: shorten it.
    Overflow,
    /// Log in.
    Auth,
    /// Nothing helps.
    GiveUp,
}

/// A provider's failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// A stable code: `rate_limited`, `provider_error`, `timeout`, `bad_stream`, `auth_required`, …
    pub code: String,
    /// What happened, for a person; never a key.
    pub message: String,
    /// What to do.
    pub class: Class,
    /// How long the provider wants to be left alone.
    pub retry_after: Option<Duration>,
}

impl Failure {
    /// A failure of a class.
    pub fn new(code: &str, class: Class, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), class, retry_after: None }
    }
}

/// How a provider ended.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// By itself.
    Done(Stop),
    /// It failed.
    Failed(Failure),
    /// It must wait for something from outside.
    Suspended(Vec<Awaited>),
    /// It was told to stop, and did.
    Cancelled,
}

/// A message that is to go into the running turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steer {
    /// Which.
    pub message_id: MessageId,
    /// What it says.
    pub text: String,
}

/// What connects a provider with its run.
pub struct Link {
    /// Where deltas go; a closed one means that nobody listens any more.
    pub out: mpsc::Sender<Delta>,
    /// Set when the run is to end.
    pub cancel: CancellationToken,
    /// What users say meanwhile; only a provider that can be steered reads it.
    pub steers: mpsc::Receiver<Steer>,
    /// Where an agent that runs its tools by itself calls ctx's own ones.
    pub tools: mpsc::Sender<ToolUse>,
}

/// A call of one of ctx's own tools.
#[derive(Debug)]
pub struct ToolUse {
    /// Which.
    pub name: String,
    /// With what.
    pub params: Value,
    /// Where the answer goes: what the agent is told, and whether that is an error.
    pub reply: oneshot::Sender<(String, bool)>,
}

impl Link {
    /// Sends a delta; `false` when nobody listens any more.
    pub async fn say(&self, delta: Delta) -> bool {
        self.out.send(delta).await.is_ok()
    }
}

/// What a provider can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[allow(missing_docs, reason = "the names are the API's")]
pub struct Can {
    pub steer: bool,
    pub load: bool,
    pub resume: bool,
    pub images: bool,
    pub tools: bool,
    pub mcp: bool,
    pub compact: bool,
}

/// What is known of a provider.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct About {
    /// `openai`, `demo`, …
    pub kind: &'static str,
    /// What it can do.
    pub can: Can,
    /// The models it is known to have.
    pub models: Vec<String>,
    /// The model that answers where none is named.
    pub model: Option<String>,
    /// How many tokens fit.
    pub context_window: u64,
    /// Why it cannot be used now, if it cannot.
    pub unavailable: Option<String>,
    /// The variable that holds its key, if it wants one.
    pub key_variable: Option<String>,
    /// Set for agents, which keep a history of their own and run their tools themselves.
    pub agent: Option<Agent>,
}

/// What an agent told of itself; nothing before it was started.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Agent {
    /// Its settings, as `{id, category, value, choices[]}`.
    pub options: Option<Vec<Value>>,
    /// Its slash commands, as `{name, description}`.
    pub commands: Option<Vec<Value>>,
    /// How to log in, in its own words.
    pub login: Option<String>,
}

/// An agent or a model.
#[async_trait]
pub trait Provider: Send + Sync {
    /// What is known of it, without asking it.
    fn about(&self) -> About;

    /// A session has not spoken for long: whatever is kept for it, a process above all, may go. The next message starts it
    /// again; the session itself does not change.
    async fn rest(&self, _session: SessionId) {}

    /// What a session waited for is not wanted any more: nobody will answer.
    async fn release(&self, _session: SessionId) {}

    /// A session is deleted: nothing that was written down for it stays.
    async fn forget(&self, _session: SessionId) {}

    /// Answers. It returns soon after `link.cancel` is set; a caller that has waited long enough drops it.
    async fn run(&self, request: Request, link: Link) -> End;
}
