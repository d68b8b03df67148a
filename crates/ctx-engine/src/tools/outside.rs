//! Calls of agents that ctx does not run, such as those of the MCP server.

use ctx_core::decide::AgentTool;
use ctx_core::refusal::Refusal;
use ctx_core::token::Scope;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::parameters::text;
use super::{
    Caller, CallerKind, Progress, ToolAnswer, ToolDefinition, call_memory, call_session,
    definition_of, told, wrong_parameter,
};
use crate::engine::{Engine, Error};

/// ctx's own tools, for agents that ctx does not run.
///
/// ```
/// # async fn example() -> Result<(), ctx_engine::Error> {
/// # let dir = tempfile::tempdir().expect("a directory");
/// # ctx_engine::Engine::init(dir.path(), "demo")?;
/// # let engine = ctx_engine::Engine::open(dir.path(), ctx_engine::Options::default())?;
/// use ctx_engine::core::token::Scope;
/// use ctx_engine::{DefaultSession, OutsideCaller};
///
/// let caller = OutsideCaller {
///     session: Some(DefaultSession { name: "main".to_owned(), create: true }),
///     ..OutsideCaller::new(Scope::Write)
/// };
/// let params = serde_json::json!({"task": "Add retry logic"});
/// let answer = engine.tools().call(&caller, "start_task", &params).await;
/// assert!(!answer.is_error, "{}", answer.text);
/// # Ok(())
/// # }
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
/// # runtime.expect("a runtime").block_on(example()).expect("it works");
/// ```
#[derive(Clone, Copy)]
pub struct Tools<'a> {
    engine: &'a Engine,
}

impl Engine {
    /// ctx's own tools, for agents that ctx does not run.
    pub const fn tools(&self) -> Tools<'_> {
        Tools { engine: self }
    }
}

/// The session of calls that name none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultSession {
    /// Id or label.
    pub name: String,
    /// Whether `start_task` creates it if it does not exist.
    pub create: bool,
}

/// An agent that ctx does not run.
#[derive(Debug, Clone)]
pub struct OutsideCaller {
    /// What the caller may do.
    pub scope: Scope,
    /// The session of calls that name none.
    pub session: Option<DefaultSession>,
    /// The directory of files that it names, for sessions without a working directory.
    pub directory: Option<String>,
    /// Cancelled when the caller no longer waits for the answer.
    pub stop: CancellationToken,
    /// Receives the steps of a call that takes long.
    pub progress: Progress,
}

impl OutsideCaller {
    /// A caller without a session.
    pub fn new(scope: Scope) -> Self {
        Self {
            scope,
            session: None,
            directory: None,
            stop: CancellationToken::new(),
            progress: Progress::default(),
        }
    }
}

impl Tools<'_> {
    /// The tools that a scope permits.
    pub fn list(self, scope: Scope) -> impl Iterator<Item = &'static ToolDefinition> {
        let all = AgentTool::ALL.into_iter().filter(|tool| tool.is_offered_outside());
        all.filter(move |tool| scope.permits(tool.scope())).map(definition_of)
    }

    /// Calls a tool. Every failure is an answer that says why.
    pub async fn call(self, caller: &OutsideCaller, name: &str, params: &Value) -> ToolAnswer {
        let tool = AgentTool::named(name).filter(|tool| tool.is_offered_outside());
        let Some(tool) = tool else {
            return ToolAnswer::error(format!("there is no tool called `{name}`"));
        };
        if !caller.scope.permits(tool.scope()) {
            return ToolAnswer::error(format!(
                "the tool `{name}` needs the scope `{}`, but the token has `{}`",
                tool.scope().name(),
                caller.scope.name()
            ));
        }
        if let Some(wrong) = wrong_parameter(tool, CallerKind::Outside, params) {
            return ToolAnswer::error(wrong);
        }
        let answered = if tool.is_memory() {
            call_memory(self.engine, &caller.progress, tool, params).await
        } else {
            self.call_in_session(caller, tool, params).await
        };
        told(answered).unwrap_or_else(|error| {
            tracing::warn!(tool = name, code = error.code(), %error, "a tool call failed");
            ToolAnswer::error(format!("{name} failed: {error}"))
        })
    }

    async fn call_in_session(
        self,
        caller: &OutsideCaller,
        tool: AgentTool,
        params: &Value,
    ) -> Result<ToolAnswer, Error> {
        let named = text(params, "session");
        let Some(name) = named.or(caller.session.as_ref().map(|it| it.name.as_str())) else {
            return Ok(ToolAnswer::error(
                "parameter `session` is missing: this connection has no default session; name one \
                 by id or label (`list_sessions` lists them)",
            ));
        };
        let creates = named.is_none()
            && tool == AgentTool::StartTask
            && caller.session.as_ref().is_some_and(|it| it.create);
        if creates {
            self.engine.tasks().recorder(name).await?;
        }
        let found = match self.engine.sessions().get(name).await {
            Err(error) if matches!(error.refusal(), Some(Refusal::NoSession)) => {
                let hint = match named {
                    Some(_) => "`list_sessions` lists the sessions",
                    None => "start a task with `start_task`, or name a session",
                };
                return Ok(ToolAnswer::error(format!("there is no session `{name}`: {hint}")));
            }
            found => found?,
        };
        let own = Caller {
            session: found.session.id,
            fence: None,
            tool_call: None,
            stop: caller.stop.clone(),
            tool_rights: Vec::new(),
            progress: caller.progress.clone(),
            directory: caller.directory.clone(),
        };
        call_session(self.engine, &own, tool, params).await
    }
}
