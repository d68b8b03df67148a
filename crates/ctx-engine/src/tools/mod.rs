//! ctx's own tools for agents, one per file: state of the task, and work of other agents.

mod agent_status;
mod ask_user;
mod dispatch;
mod finish_task;
mod message_agent;
mod search_conversations;

use std::sync::{Arc, LazyLock};

use ctx_core::decide::{AgentTool, Decided, Invocation, Needs, SessionView, check_fence};
use ctx_core::id::{SessionId, TurnId};
use ctx_core::inbox::{Rights, Tool};
use ctx_core::policy::ToolRights;
use ctx_core::refusal::Refusal;
use ctx_core::session::Session;
use ctx_store::Target;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::engine::{Engine, Error};

/// The answer to the agent.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) is_error: bool,
    /// The worker whose end the answer reports, and the head that it reports.
    pub(crate) reported: Option<(SessionId, TurnId)>,
}

impl Answer {
    pub(crate) fn ok(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: false, reported: None }
    }

    pub(crate) fn error(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: true, reported: None }
    }
}

/// The run that calls a tool.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) session: SessionId,
    /// The fence that the run holds.
    pub(crate) fence: u64,
    /// The id of the call in the turn, if it is known.
    pub(crate) tool_call: Option<String>,
    /// Cancelled when the run is to end: a call that waits for a worker returns.
    pub(crate) stop: CancellationToken,
    /// The tools that the run may call. A worker never has more rights than its manager.
    pub(crate) tool_rights: Vec<ToolRights>,
}

impl Caller {
    /// The rights of a message to another session.
    fn rights(&self) -> Option<Rights> {
        let tools = self.tool_rights.clone();
        (!tools.is_empty()).then_some(Rights { tools, approve: false })
    }
}

/// The tools that a session offers.
pub(crate) async fn offered(engine: &Engine, session: &Session) -> Result<Vec<Arc<Tool>>, Error> {
    static DESCRIBED: LazyLock<Vec<(AgentTool, Arc<Tool>)>> = LazyLock::new(|| {
        AgentTool::ALL.into_iter().map(|tool| (tool, Arc::new(describe(tool)))).collect()
    });
    let depth = engine.depth(session).await?;
    let has_entity = session.routing.entity.is_some();
    let is_offered = |tool: &AgentTool| tool.is_offered(session.track_tasks, depth, has_entity);
    let offered = DESCRIBED.iter().filter(|(tool, _)| is_offered(tool));
    Ok(offered.map(|(_, described)| described.clone()).collect())
}

fn describe(tool: AgentTool) -> Tool {
    match tool {
        AgentTool::AskUser => ask_user::tool(),
        AgentTool::FinishTask => finish_task::tool(),
        AgentTool::DispatchToAgent => dispatch::tool(),
        AgentTool::SendMessageToAgent => message_agent::tool(),
        AgentTool::GetAgentStatus => agent_status::tool(),
        AgentTool::SearchConversations => search_conversations::tool(),
    }
}

/// Carries out a call of one of ctx's own tools.
pub(crate) async fn call(
    engine: &Engine,
    caller: &Caller,
    tool: AgentTool,
    params: &Value,
) -> Result<Answer, Error> {
    if let Some(wrong) = wrong_parameter(&describe(tool), params) {
        return Ok(Answer::error(wrong));
    }
    let answered = match tool {
        AgentTool::AskUser => ask_user::call(engine, caller, params).await,
        AgentTool::FinishTask => finish_task::call(engine, caller, params).await,
        AgentTool::DispatchToAgent => dispatch::call(engine, caller, params).await,
        AgentTool::SendMessageToAgent => message_agent::call(engine, caller, params).await,
        AgentTool::GetAgentStatus => agent_status::call(engine, caller, params).await,
        AgentTool::SearchConversations => search_conversations::call(engine, caller, params).await,
    };
    match answered {
        // The agent can react to a refusal.
        Err(error) if error.refusal().is_some() => Ok(Answer::error(error.to_string())),
        answered => answered,
    }
}

/// A parameter of a tool.
struct Parameter {
    name: &'static str,
    description: &'static str,
    kind: ParameterKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ParameterKind {
    Text,
    OptionalText,
    OptionalFlag,
}

const fn parameter(
    name: &'static str,
    description: &'static str,
    kind: ParameterKind,
) -> Parameter {
    Parameter { name, description, kind }
}

/// The definition of a tool.
fn tool(tool: AgentTool, description: &str, parameters: &[Parameter]) -> Tool {
    let property = |parameter: &Parameter| {
        let kind = if parameter.kind == ParameterKind::OptionalFlag { "boolean" } else { "string" };
        let schema = json!({"type": kind, "description": parameter.description});
        (parameter.name.to_owned(), schema)
    };
    let properties: serde_json::Map<String, Value> = parameters.iter().map(property).collect();
    let required = parameters.iter().filter(|parameter| parameter.kind == ParameterKind::Text);
    let required: Vec<&str> = required.map(|parameter| parameter.name).collect();
    Tool {
        name: tool.name().to_owned(),
        description: description.to_owned(),
        parameters: json!({"type": "object", "properties": properties, "required": required}),
    }
}

/// What is wrong with the parameters of a call: one is unknown, missing or of another type.
fn wrong_parameter(tool: &Tool, params: &Value) -> Option<String> {
    let none = serde_json::Map::new();
    let given = match params {
        Value::Null => &none,
        Value::Object(given) => given,
        _ => return Some("the parameters must be a JSON object".to_owned()),
    };
    let known = tool.parameters["properties"].as_object().unwrap_or(&none);
    for (name, value) in given {
        let Some(schema) = known.get(name) else {
            let names: Vec<&str> = known.keys().map(String::as_str).collect();
            let names = names.join(", ");
            return Some(format!(
                "unknown parameter `{name}`: the parameters of {} are {names}",
                tool.name
            ));
        };
        let (fits, kind) = match schema["type"].as_str() {
            Some("boolean") => (value.is_boolean(), "true or false"),
            _ => (value.is_string(), "a string"),
        };
        if !fits && !value.is_null() {
            return Some(format!("invalid parameter `{name}`: it must be {kind}"));
        }
    }
    let required = tool.parameters["required"].as_array().into_iter().flatten();
    let missing = required.filter_map(Value::as_str).find(|name| text(params, name).is_none())?;
    Some(format!("parameter `{missing}` is missing"))
}

/// A text parameter that is not blank.
fn text<'a>(params: &'a Value, field: &str) -> Option<&'a str> {
    params.get(field).and_then(Value::as_str).filter(|text| !text.trim().is_empty())
}

/// A required text parameter. That it is there was checked by [`wrong_parameter`].
fn required<'a>(params: &'a Value, field: &str) -> &'a str {
    text(params, field).unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_parameter_is_named() {
        for (tool, params, wrong) in [
            (AgentTool::SendMessageToAgent, json!({"to": "manager", "content": "x"}), None),
            (
                AgentTool::SendMessageToAgent,
                json!({"to": "manager", "text": "x"}),
                Some(
                    "unknown parameter `text`: the parameters of send_message_to_agent are \
                     content, to",
                ),
            ),
            (
                AgentTool::SendMessageToAgent,
                json!({"to": "manager"}),
                Some("parameter `content` is missing"),
            ),
            (AgentTool::GetAgentStatus, Value::Null, None),
            (AgentTool::GetAgentStatus, json!({"label": null}), None),
            (
                AgentTool::GetAgentStatus,
                json!("worker"),
                Some("the parameters must be a JSON object"),
            ),
            (AgentTool::DispatchToAgent, json!({"task": "x", "to": "a", "wait": true}), None),
            (
                AgentTool::DispatchToAgent,
                json!({"task": "x", "wait": "yes"}),
                Some("invalid parameter `wait`: it must be true or false"),
            ),
            (
                AgentTool::DispatchToAgent,
                json!({"task": 5}),
                Some("invalid parameter `task`: it must be a string"),
            ),
            (
                AgentTool::DispatchToAgent,
                json!({"task": "x", "provider": "a"}),
                Some(
                    "unknown parameter `provider`: the parameters of dispatch_to_agent are \
                      model, task, to, wait, working_dir",
                ),
            ),
        ] {
            assert_eq!(wrong_parameter(&describe(tool), &params).as_deref(), wrong, "{params}");
        }
    }
}
