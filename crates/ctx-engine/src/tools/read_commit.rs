//! `read_commit`: a sealed task with its record, within a token budget.

use ctx_core::decide::AgentTool;
use ctx_store::PAGE_MAX;
use serde_json::{Value, json};

use super::ToolAnswer;
use super::definition::ParameterKind::Text;
use super::definition::{
    Effect, ToolDefinition, budget_parameter, define, offset_parameter, parameter,
};
use super::parameters::required;
use super::read_turn::{part, text_properties};
use super::transcript::commit_text;
use crate::engine::{Engine, Error};

/// Most steps of the task that are shown.
const STEPS_MAX: usize = 5000;

pub(super) fn definition() -> ToolDefinition {
    let what = "Read a commit, which is a sealed task: its outcome (normal, abandoned, …), \
        message, files and the record of the work, within a token budget.";
    define(
        AgentTool::ReadCommit,
        Effect::Reads,
        "Read a commit",
        what,
        vec![
            parameter("commit", "The id of the commit; a unique beginning is enough", Text),
            budget_parameter(),
            offset_parameter(),
        ],
    )
    .output(text_properties("commit"), &["commit", "text", "tokens", "next_offset", "outcome"])
}

pub(super) async fn call(engine: &Engine, params: &Value) -> Result<ToolAnswer, Error> {
    let name = required(params, "commit");
    let missing = || Ok(ToolAnswer::error(format!("no commit has the id `{name}`")));
    let Some(id) = engine.ids().commit(name).await? else { return missing() };
    let Some(commit) = engine.records().commit(id).await? else { return missing() };
    let mut steps = Vec::new();
    while steps.len() < STEPS_MAX {
        let page = engine.store().steps(commit.task, steps.len() as u64, PAGE_MAX).await?;
        if page.is_empty() {
            break;
        }
        steps.extend(page);
    }
    let text = commit_text(id, &commit, &steps);
    let document = json!({"commit": id.to_string(), "outcome": commit.commit_type.name()});
    Ok(part(document, "read_commit", ("commit", &id.to_string()), &text, params))
}
