//! `note`: records a sentence in the open task.

use ctx_core::decide::{self, AgentTool, Invocation, SessionView};
use ctx_core::id::NoteId;
use ctx_core::step::Entry;
use serde_json::Value;

use super::definition::ParameterKind::Text;
use super::definition::{Effect, ToolDefinition, define, parameter, session_parameter};
use super::parameters::required;
use super::{Caller, ToolAnswer};
use crate::engine::{Engine, Error};

pub(super) fn definition() -> ToolDefinition {
    let what = "Record a note in the open task: a decision and its reason, something learnt, or \
        what is left to do. Later agents find it by search and in the context pack.";
    define(
        AgentTool::Note,
        Effect::Records,
        "Note",
        what,
        vec![
            parameter("text", "The note; begin a decision with `Decision:`", Text),
            session_parameter(),
        ],
    )
}

pub(super) async fn call(
    engine: &Engine,
    caller: &Caller,
    params: &Value,
) -> Result<ToolAnswer, Error> {
    let note =
        Entry::Note { id: NoteId(engine.new_id()), text: required(params, "text").to_owned() };
    let rule = move |view: &SessionView, invocation: &Invocation| {
        decide::observe(view, std::slice::from_ref(&note), invocation)
    };
    let task = super::decide(engine, caller, Vec::new(), rule).await?;
    Ok(ToolAnswer::ok(format!("Recorded in the task \"{}\".", task.description)))
}
