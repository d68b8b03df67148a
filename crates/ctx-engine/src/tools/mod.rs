//! ctx's own tools for agents, one per file: the state of the task, the work of other agents, and
//! the memory of the store.
//!
//! There is one list of definitions and one dispatcher. An agent that ctx runs calls the tools
//! under the fence of its run; an agent that ctx does not run calls them over MCP, with the scope
//! of its token.

mod agent_status;
mod ask_user;
mod context_pack;
mod definition;
mod dispatch;
mod finish_task;
mod get_task;
mod list_sessions;
mod message_agent;
mod note;
mod outside;
mod parameters;
mod read_commit;
mod read_session;
mod read_turn;
mod search;
mod search_conversations;
mod start_task;
mod transcript;
mod update_task;

use std::sync::{Arc, LazyLock};

use ctx_core::decide::{
    AgentTool, Decided, Invocation, Needs, SessionView, ToolOffer, check_fence,
};
use ctx_core::id::{SessionId, TurnId};
use ctx_core::inbox::{Rights, Tool};
use ctx_core::object::Named;
use ctx_core::policy::ToolRights;
use ctx_core::refusal::Refusal;
use ctx_core::session::Session;
use ctx_store::Target;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::engine::{Engine, Error};

pub(crate) use definition::CallerKind;
pub use definition::{Effect, ToolDefinition};
pub use get_task::task_document;
pub use outside::{DefaultSession, OutsideCaller, Tools};

/// The answer to the agent.
#[derive(Debug, Clone, Default)]
pub struct ToolAnswer {
    /// The answer as text.
    pub text: String,
    /// The answer as the tool's output schema describes it.
    pub structured: Option<Value>,
    /// Whether the call failed. The text says why.
    pub is_error: bool,
    /// The worker whose end the answer reports, and the head that it reports.
    pub(crate) reported: Option<(SessionId, TurnId)>,
}

impl ToolAnswer {
    /// An answer as text.
    pub fn ok(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// A document, as text and structured.
    pub(crate) fn json(document: Value) -> Self {
        Self { text: document.to_string(), structured: Some(document), ..Self::default() }
    }

    /// A text for reading, with its structured form.
    pub(crate) fn with(text: impl Into<String>, structured: Value) -> Self {
        Self { text: text.into(), structured: Some(structured), ..Self::default() }
    }

    /// A failure, and why.
    pub fn error(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: true, ..Self::default() }
    }
}

/// The session in whose name a tool is called.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) session: SessionId,
    /// The fence that the run holds. `None` for an agent that ctx does not run.
    pub(crate) fence: Option<u64>,
    /// The id of the call in the turn, if it is known.
    pub(crate) tool_call: Option<String>,
    /// Cancelled when the run is to end: a call that waits for a worker returns.
    pub(crate) stop: CancellationToken,
    /// The tools that the run may call. A worker never has more rights than its manager.
    pub(crate) tool_rights: Vec<ToolRights>,
    /// What is done so far, for a caller that waits.
    pub(crate) progress: Progress,
    /// The directory of files that the caller names, if its session has none.
    pub(crate) directory: Option<String>,
}

impl Caller {
    /// The rights of a message to another session.
    fn rights(&self) -> Option<Rights> {
        let tools = self.tool_rights.clone();
        (!tools.is_empty()).then_some(Rights { tools, approve: false })
    }

    fn is_outside(&self) -> bool {
        self.fence.is_none()
    }
}

/// Reports the progress of a call that takes long. Without a receiver it does nothing.
#[derive(Debug, Clone, Default)]
pub struct Progress(Option<tokio::sync::mpsc::UnboundedSender<String>>);

impl Progress {
    /// Sends the steps of a call to a channel.
    pub const fn to(channel: tokio::sync::mpsc::UnboundedSender<String>) -> Self {
        Self(Some(channel))
    }

    pub(crate) fn report(&self, what: impl FnOnce() -> String) {
        if let Some(channel) = &self.0 {
            let _ = channel.send(what());
        }
    }
}

/// The definition of a tool.
pub fn definition_of(tool: AgentTool) -> &'static ToolDefinition {
    static ALL: LazyLock<Vec<ToolDefinition>> =
        LazyLock::new(|| AgentTool::ALL.into_iter().map(define).collect());
    let at = AgentTool::ALL.iter().position(|it| *it == tool);
    at.and_then(|at| ALL.get(at)).expect("every tool is in the list")
}

/// The tools that a session offers.
pub(crate) async fn offered(
    engine: &Engine,
    session: &Session,
    over_mcp: bool,
) -> Result<Vec<Arc<Tool>>, Error> {
    static DESCRIBED: LazyLock<Vec<(AgentTool, Arc<Tool>)>> = LazyLock::new(|| {
        let described = |tool| (tool, Arc::new(definition_of(tool).for_models()));
        AgentTool::ALL.into_iter().map(described).collect()
    });
    let offer = ToolOffer {
        track_tasks: session.track_tasks,
        depth: engine.depth(session).await?,
        has_entity: session.routing.entity.is_some(),
        over_mcp,
    };
    let offered = DESCRIBED.iter().filter(|(tool, _)| tool.is_offered(offer));
    Ok(offered.map(|(_, described)| described.clone()).collect())
}

fn define(tool: AgentTool) -> ToolDefinition {
    match tool {
        AgentTool::AskUser => ask_user::definition(),
        AgentTool::FinishTask => finish_task::definition(),
        AgentTool::DispatchToAgent => dispatch::definition(),
        AgentTool::SendMessageToAgent => message_agent::definition(),
        AgentTool::GetAgentStatus => agent_status::definition(),
        AgentTool::SearchConversations => search_conversations::definition(),
        AgentTool::Note => note::definition(),
        AgentTool::StartTask => start_task::definition(),
        AgentTool::UpdateTask => update_task::definition(),
        AgentTool::GetTask => get_task::definition(),
        AgentTool::Search => search::definition(),
        AgentTool::ListSessions => list_sessions::definition(),
        AgentTool::ReadSession => read_session::definition(),
        AgentTool::ReadTurn => read_turn::definition(),
        AgentTool::ReadCommit => read_commit::definition(),
        AgentTool::ContextPack => context_pack::definition(),
    }
}

/// Carries out a call of the agent of a run.
pub(crate) async fn call(
    engine: &Engine,
    caller: &Caller,
    tool: AgentTool,
    params: &Value,
) -> Result<ToolAnswer, Error> {
    if let Some(wrong) = wrong_parameter(tool, CallerKind::Run, params) {
        return Ok(ToolAnswer::error(wrong));
    }
    let answered = if tool.is_memory() {
        match own_session(engine, caller).await {
            // A person on a channel must not read the conversations of others.
            Ok(own) if own.routing.entity.is_some() => {
                Ok(ToolAnswer::error(format!("this session does not offer `{}`", tool.name())))
            }
            Ok(_) => call_memory(engine, &caller.progress, tool, params).await,
            Err(error) => Err(error),
        }
    } else {
        call_session(engine, caller, tool, params).await
    };
    told(answered)
}

fn wrong_parameter(tool: AgentTool, caller: CallerKind, params: &Value) -> Option<String> {
    parameters::wrong_parameter(tool.name(), &definition_of(tool).schema_for(caller), params)
}

/// The agent can react to a refusal, and to the name of something that does not exist.
fn told(answered: Result<ToolAnswer, Error>) -> Result<ToolAnswer, Error> {
    match answered {
        Err(error) if error.refusal().is_some() || error.code() == "not_found" => {
            Ok(ToolAnswer::error(error.to_string()))
        }
        answered => answered,
    }
}

/// Tools that concern the session of the caller.
async fn call_session(
    engine: &Engine,
    caller: &Caller,
    tool: AgentTool,
    params: &Value,
) -> Result<ToolAnswer, Error> {
    match tool {
        AgentTool::AskUser => ask_user::call(engine, caller, params).await,
        AgentTool::FinishTask => finish_task::call(engine, caller, params).await,
        AgentTool::DispatchToAgent => dispatch::call(engine, caller, params).await,
        AgentTool::SendMessageToAgent => message_agent::call(engine, caller, params).await,
        AgentTool::GetAgentStatus => agent_status::call(engine, caller, params).await,
        AgentTool::SearchConversations => search_conversations::call(engine, caller, params).await,
        AgentTool::Note => note::call(engine, caller, params).await,
        AgentTool::StartTask => start_task::call(engine, caller, params).await,
        AgentTool::UpdateTask => update_task::call(engine, caller, params).await,
        AgentTool::GetTask => get_task::call(engine, caller).await,
        memory => call_memory(engine, &caller.progress, memory, params).await,
    }
}

/// Tools that read the store.
async fn call_memory(
    engine: &Engine,
    progress: &Progress,
    tool: AgentTool,
    params: &Value,
) -> Result<ToolAnswer, Error> {
    match tool {
        AgentTool::ListSessions => list_sessions::call(engine, params).await,
        AgentTool::ReadSession => read_session::call(engine, params).await,
        AgentTool::ReadTurn => read_turn::call(engine, params).await,
        AgentTool::ReadCommit => read_commit::call(engine, params).await,
        AgentTool::ContextPack => context_pack::call(engine, progress, params).await,
        _ => search::call(engine, params).await,
    }
}

/// Executes a rule on the caller's session, if its run still holds the fence.
async fn decide<R: Send + 'static>(
    engine: &Engine,
    caller: &Caller,
    objects: Vec<Named>,
    rule: impl Fn(&SessionView, &Invocation) -> Decided<R> + Send + 'static,
) -> Result<R, Error> {
    let fence = caller.fence;
    let rule = move |view: &SessionView, invocation: &Invocation| {
        check_own_fence(&view.session, fence)?;
        rule(view, invocation)
    };
    Ok(engine.decide(Target::Id(caller.session), Needs::WORK, objects, rule).await?.reply)
}

fn check_own_fence(session: &Session, fence: Option<u64>) -> Result<(), Refusal> {
    fence.map_or(Ok(()), |fence| check_fence(session, fence))
}

/// The caller's session, if its run still holds the fence.
async fn own_session(engine: &Engine, caller: &Caller) -> Result<Session, Error> {
    let view = engine
        .store()
        .view(&Target::Id(caller.session), Needs::NOTHING)
        .await?
        .ok_or(Refusal::NoSession)?;
    check_own_fence(&view.session, caller.fence)?;
    Ok(view.session)
}
