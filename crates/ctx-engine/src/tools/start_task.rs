//! `start_task`: opens a task in a session.

use ctx_core::decide::{self, AgentTool, Invocation, SessionView};
use serde_json::{Value, json};

use super::definition::ParameterKind::Text;
use super::definition::{Effect, ToolDefinition, define, parameter, session_parameter};
use super::get_task::task_document;
use super::parameters::required;
use super::{Caller, ToolAnswer};
use crate::engine::{Engine, Error};

pub(super) fn definition() -> ToolDefinition {
    let what = "Start a task: one unit of work whose notes, files, commands and result are kept. \
        A session has at most one open task.";
    define(
        AgentTool::StartTask,
        Effect::Records,
        "Start a task",
        what,
        vec![parameter("task", "What is to be done", Text), session_parameter()],
    )
    .output(json!({"task": {"type": "object"}}), &["task"])
}

pub(super) async fn call(
    engine: &Engine,
    caller: &Caller,
    params: &Value,
) -> Result<ToolAnswer, Error> {
    let description = required(params, "task").to_owned();
    let rule = move |view: &SessionView, invocation: &Invocation| {
        decide::start(view, &description, invocation)
    };
    let task = super::decide(engine, caller, Vec::new(), rule).await?;
    Ok(ToolAnswer::with(
        format!("Task {} is started.", task.id),
        json!({"task": task_document(&task)}),
    ))
}
