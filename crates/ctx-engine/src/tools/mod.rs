//! ctx's own tools for agents, one per file: state of the task, and work of other agents.

mod agent_status;
mod ask_user;
mod dispatch;
mod finish_task;
mod message_agent;

use ctx_core::decide::{AgentTool, Decided, Invocation, Needs, SessionView, check_fence};
use ctx_core::id::SessionId;
use ctx_core::inbox::Tool;
use ctx_core::refusal::Refusal;
use ctx_core::session::Session;
use ctx_store::Target;
use serde_json::{Value, json};

use crate::engine::{Engine, Error};

/// The answer to the agent, and whether it is an error.
pub(crate) type Answer = (String, bool);

/// The run that calls a tool.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) session: SessionId,
    /// The fence that the run holds.
    pub(crate) fence: u64,
    /// The id of the call in the turn, if it is known.
    pub(crate) tool_call: Option<String>,
}

/// The tools that a session offers.
pub(crate) async fn offered(engine: &Engine, session: &Session) -> Result<Vec<Tool>, Error> {
    let depth = engine.depth(session).await?;
    let offered = AgentTool::ALL.into_iter();
    let offered = offered.filter(|tool| tool.is_offered(session.track_tasks, depth));
    Ok(offered.map(describe).collect())
}

fn describe(tool: AgentTool) -> Tool {
    match tool {
        AgentTool::AskUser => ask_user::tool(),
        AgentTool::FinishTask => finish_task::tool(),
        AgentTool::DispatchToAgent => dispatch::tool(),
        AgentTool::SendMessageToAgent => message_agent::tool(),
        AgentTool::GetAgentStatus => agent_status::tool(),
    }
}

/// Carries out a call of one of ctx's own tools.
pub(crate) async fn call(
    engine: &Engine,
    caller: &Caller,
    tool: AgentTool,
    params: &Value,
) -> Result<Answer, Error> {
    let answered = match tool {
        AgentTool::AskUser => ask_user::call(engine, caller, params).await,
        AgentTool::FinishTask => finish_task::call(engine, caller, params).await,
        AgentTool::DispatchToAgent => dispatch::call(engine, caller, params).await,
        AgentTool::SendMessageToAgent => message_agent::call(engine, caller, params).await,
        AgentTool::GetAgentStatus => agent_status::call(engine, caller, params).await,
    };
    match answered {
        // The agent can react to a refusal.
        Err(error) if error.refusal().is_some() => Ok((error.to_string(), true)),
        answered => answered,
    }
}

/// The definition of a tool; `fields` are `(name, description, required)`.
fn tool(tool: AgentTool, description: &str, fields: &[(&str, &str, bool)]) -> Tool {
    let property = |(name, description, _): &(&str, &str, bool)| {
        ((*name).to_owned(), json!({"type": "string", "description": description}))
    };
    let properties: serde_json::Map<String, Value> = fields.iter().map(property).collect();
    let required: Vec<&str> =
        fields.iter().filter(|(_, _, required)| *required).map(|(name, ..)| *name).collect();
    Tool {
        name: tool.name().to_owned(),
        description: description.to_owned(),
        parameters: json!({"type": "object", "properties": properties, "required": required}),
    }
}

/// A text parameter that is not blank.
fn text<'a>(params: &'a Value, field: &str) -> Option<&'a str> {
    params.get(field).and_then(Value::as_str).filter(|text| !text.trim().is_empty())
}

fn missing(field: &str) -> Answer {
    (format!("`{field}` is missing"), true)
}

/// Executes a rule on the caller's session, if its run still holds the fence.
async fn decide<R: Send + 'static>(
    engine: &Engine,
    caller: &Caller,
    rule: impl Fn(&SessionView, &Invocation) -> Decided<R> + Send + 'static,
) -> Result<R, Error> {
    let fence = caller.fence;
    let rule = move |view: &SessionView, invocation: &Invocation| {
        check_fence(&view.session, fence)?;
        rule(view, invocation)
    };
    Ok(engine.decide(Target::Id(caller.session), Needs::WORK, Vec::new(), rule).await?.reply)
}

/// The caller's session, if its run still holds the fence.
async fn own_session(engine: &Engine, caller: &Caller) -> Result<Session, Error> {
    let view = engine
        .store()
        .view(&Target::Id(caller.session), Needs::NOTHING)
        .await?
        .ok_or(Refusal::NoSession)?;
    check_fence(&view.session, caller.fence)?;
    Ok(view.session)
}
