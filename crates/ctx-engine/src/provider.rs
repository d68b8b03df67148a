//! The port to agents and models: one request in, a stream of deltas out, one end.
//!
//! A provider does not access the store. It does not return `Err`: a failure is one of its ends and
//! becomes part of the turn. Through its [`Link`] it receives cancellation and steering messages.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use ctx_core::compaction::Trigger;
use ctx_core::id::{BlobId, MessageId, RunId, SessionId};
use ctx_core::inbox::Tool;
use ctx_core::message::{Message, ToolStatus};
use ctx_core::policy::ToolRights;
use ctx_core::step;
use ctx_core::suspension::{Answer, Awaited, Suspension};
use ctx_core::turn::Usage;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::tools::{Progress, ToolAnswer};

/// Capacity of the channel from a provider to its run.
pub const DELTAS_MAX: usize = 256;
/// Most calls of ctx's own tools that an agent may have open at once.
pub const TOOL_USES_MAX: usize = 16;
/// Capacity of the channel of steering messages.
pub const STEERS_MAX: usize = 32;

/// A request to a provider.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct Request {
    pub session: SessionId,
    pub run: RunId,
    pub working_dir: Option<String>,
    /// The model; the provider's default if none.
    pub model: Option<String>,
    /// The system prompt, if there is one.
    pub system: Option<String>,
    /// The history as projected for this provider, followed by the new messages. Tool results are
    /// text.
    pub messages: Vec<Message>,
    /// The bytes of images in `messages`; empty for providers without image support.
    pub images: BTreeMap<BlobId, Arc<Vec<u8>>>,
    /// The tools that the model may call.
    pub tools: Vec<Arc<Tool>>,
    /// Options of the session, such as mode and effort.
    pub options: BTreeMap<String, String>,
    /// The suspensions that were answered, where the turn continues after one.
    pub resumes: Vec<(Suspension, Answer)>,
    /// The index in `messages` at which the open turn starts.
    pub open: usize,
    /// The agent's own session, if it is known which part of this history it has seen.
    pub own: Option<AgentSessionState>,
    /// The tools that the agent may call: those that all of them permit.
    pub tool_rights: Vec<ToolRights>,
}

impl Request {
    /// Whether the agent may call a tool.
    pub fn permits(&self, tool: &str) -> bool {
        self.tool_rights.iter().all(|rights| rights.permits(tool))
    }
}

/// A session that an agent keeps itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSessionState {
    /// The agent's id of the session.
    pub id: String,
    /// The index in the request's messages from which on the agent has not seen them.
    pub unseen: usize,
    /// Whether the last prompt ended normally. If not, only the agent knows what it has kept of it.
    pub clean: bool,
    /// The messages of the interrupted turn, if it has ended.
    pub cut: Option<Range<usize>>,
}

/// An item of a provider's stream.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the other variants are self-explanatory")]
pub enum Delta {
    /// More text of the answer.
    Text(String),
    /// More reasoning. `raw` is the provider's own item, which it gets back in later requests.
    Thought { text: String, raw: Option<Value> },
    /// A complete call of a tool.
    ToolCall {
        /// Unique within the run.
        id: String,
        name: String,
        params: Value,
    },
    /// Name and input of an earlier call, which agents report in several steps.
    ToolInput { id: String, name: String, params: Value },
    /// The status of an earlier call.
    ToolStatus { id: String, status: ToolStatus },
    /// The result of a tool that the agent ran itself.
    ToolResult { id: String, content: String, is_error: bool },
    /// The agent's complete plan.
    Plan(Value),
    /// Usage so far in this call of [`Provider::run`].
    Usage(Usage),
    /// An action of the agent, to be recorded in the task.
    Observed(step::Entry),
    /// A steering message was added to the turn.
    Injected(MessageId),
    /// The id of the agent's own session for this turn, sent before the prompt.
    AgentSession(String),
    /// Whether the run can be steered, for agents that report it only after they were started.
    CanSteer(bool),
    /// The agent compacted its own context. It is recorded and does not change what ctx sends to
    /// other providers.
    Compacted {
        /// The agent's summary; may be empty.
        summary: String,
        /// Why it was compacted.
        trigger: Trigger,
        /// Tokens in the agent's context before, if it reports them.
        tokens_before: Option<u64>,
        /// Tokens in the agent's context after, if it reports them.
        tokens_after: Option<u64>,
    },
}

/// Why a provider ended normally.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The answer is complete.
    EndTurn,
    /// It waits for results of the tools that it called.
    ToolCalls,
    /// The answer reached the output limit.
    MaxTokens,
    /// The provider refused the request.
    Refused,
}

/// How the caller should react to a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureClass {
    /// Retry after a pause.
    RetryLater,
    /// Retry at once.
    RetryNow,
    /// The context exceeds the window: compact it.
    Overflow,
    /// The user has to log in.
    Auth,
    /// A retry would fail too.
    Permanent,
}

/// A failure of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct Failure {
    /// A stable code: `rate_limited`, `provider_error`, `timeout`, `bad_stream`, `auth_required`, …
    pub code: String,
    /// A message for people; never contains a key.
    pub message: String,
    pub class: FailureClass,
    /// The pause that the provider asked for.
    pub retry_after: Option<Duration>,
}

impl Failure {
    /// A failure without a requested pause.
    pub fn new(code: &str, class: FailureClass, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), class, retry_after: None }
    }
}

/// How a provider's call ended.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the other variants are self-explanatory")]
pub enum End {
    /// It ended normally.
    Done(Stop),
    Failed(Failure),
    /// It waits for tool results, permissions or answers.
    Suspended(Vec<Awaited>),
    /// It ended because of the cancellation.
    Cancelled,
}

/// A message that is added to the running turn.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct Steer {
    pub message_id: MessageId,
    pub text: String,
}

/// The connection of a provider with its run.
pub struct Link {
    /// Sends deltas; closed when the run no longer needs them.
    pub out: mpsc::Sender<Delta>,
    /// Set when the run is to end.
    pub cancel: CancellationToken,
    /// Steering messages; read only by providers that support them.
    pub steers: mpsc::Receiver<Steer>,
    /// Calls of ctx's own tools, for agents that run their tools themselves.
    pub tools: mpsc::Sender<ToolRequest>,
    /// Pauses of the run.
    pub pace: Arc<Pace>,
}

/// Pauses of a run that receives its text at intervals, because many runs stream text.
///
/// A provider that reads a response need not read during a pause: what arrives meanwhile is then
/// read at once. A provider may ignore the pauses.
#[derive(Debug, Default)]
pub struct Pace {
    has_pauses: AtomicBool,
    provider_waits: AtomicBool,
    resumed: Notify,
}

impl Pace {
    /// Whether a pause follows when the run has received text.
    pub fn has_pauses(&self) -> bool {
        self.has_pauses.load(Ordering::Acquire)
    }

    /// Waits for the end of the pause that follows the deltas sent last. It may return too early.
    pub async fn resumed(&self) {
        if self.has_pauses() {
            self.provider_waits.store(true, Ordering::Release);
            self.resumed.notified().await;
        }
    }

    /// Whether the provider has sent all that it has read, and waits.
    pub fn provider_waits(&self) -> bool {
        self.provider_waits.load(Ordering::Acquire)
    }

    /// Called by the run after it has received deltas, with whether a pause follows. Without one, a
    /// waiting provider continues at once.
    pub fn received(&self, pauses: bool) {
        let had_pauses = self.has_pauses.swap(pauses, Ordering::AcqRel);
        if had_pauses && !pauses {
            self.resume();
        }
    }

    /// Called by the run at the end of a pause.
    pub fn resume(&self) {
        self.provider_waits.store(false, Ordering::Release);
        self.resumed.notify_one();
    }
}

/// A call of one of ctx's own tools.
#[derive(Debug)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct ToolRequest {
    pub name: String,
    pub params: Value,
    /// Receives the steps of a call that takes long.
    pub progress: Progress,
    /// Sends the answer to the agent. If the receiver is dropped, a call that waits ends.
    pub reply: oneshot::Sender<ToolAnswer>,
}

impl Link {
    /// Sends a delta. Returns `false` if the run no longer needs it.
    pub async fn send(&self, delta: Delta) -> bool {
        self.out.send(delta).await.is_ok()
    }
}

/// Capabilities of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[allow(missing_docs, reason = "the names are the API's")]
pub struct ProviderFeatures {
    pub steer: bool,
    pub load: bool,
    pub resume: bool,
    pub images: bool,
    pub tools: bool,
    pub mcp: bool,
    pub compact: bool,
}

/// Description of a provider.
#[derive(Debug, Clone, PartialEq, Default)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct About {
    /// The kind in the configuration, such as `openai` or `demo`.
    pub kind: &'static str,
    pub can: ProviderFeatures,
    /// The models that are known without asking the provider.
    pub models: Vec<String>,
    /// The model of requests that name none.
    pub model: Option<String>,
    /// Size of the context window in tokens; 0 if unknown.
    pub context_window: u64,
    /// Why the provider cannot be used now, if it cannot.
    pub unavailable: Option<String>,
    /// The environment variable with its key, if it needs one.
    pub key_variable: Option<String>,
    /// Set for agents, which keep a history and run tools themselves.
    pub agent: Option<Agent>,
    /// Whether a request has no effects of its own, so that it is sent again after a crash.
    pub repeatable: bool,
}

/// What an agent reported about itself; empty before it was started.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Agent {
    /// Its options, as `{id, category, value, choices[]}`.
    pub options: Option<Vec<Value>>,
    /// Its slash commands, as `{name, description}`.
    pub commands: Option<Vec<Value>>,
    /// The agent's instructions for logging in.
    pub login: Option<String>,
}

/// An agent or a model.
#[async_trait]
pub trait Provider: Send + Sync {
    /// The description that is known without asking the provider.
    fn about(&self) -> About;

    /// The models that can be chosen. A model server is asked once for its list; if it does not
    /// answer, the known models are returned.
    async fn models(&self) -> Vec<String> {
        self.about().models
    }

    /// Releases resources of an idle session, such as an agent process. The next message starts it
    /// again.
    async fn rest(&self, _session: SessionId) {}

    /// The session's suspension was released: its open requests will not be answered.
    async fn release(&self, _session: SessionId) {}

    /// The session was deleted: removes what the provider stored for it.
    async fn forget(&self, _session: SessionId) {}

    /// Answers a request. It must return soon after `link.cancel` is set; otherwise it is dropped
    /// after a timeout.
    async fn run(&self, request: Request, link: Link) -> End;
}
