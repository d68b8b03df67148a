//! `context_pack`: what a new agent should know about a task, within a token budget.

use ctx_core::decide::AgentTool;
use ctx_core::text_limits::one_line;
use serde_json::{Value, json};

use super::definition::ParameterKind::Text;
use super::definition::{Effect, ToolDefinition, budget_parameter, define, parameter};
use super::parameters::{budget, required};
use super::{Progress, ToolAnswer};
use crate::context_packs::FoundTask;
use crate::engine::{Engine, Error};

pub(super) fn definition() -> ToolDefinition {
    let what = "Collect what is known about a task, open or sealed: its state, decisions, \
        questions and answers, plan, notes, files, relations two deep, related commits and the \
        conversation, the most important first, each with the ids of its sources.";
    let task = "The id of the task (a unique beginning is enough), or words that describe it";
    define(
        AgentTool::ContextPack,
        Effect::Reads,
        "Context pack",
        what,
        vec![parameter("task", task, Text), budget_parameter()],
    )
    .output(
        json!({
            "task": {"type": "string"},
            "session": {"type": "string"},
            "description": {"type": "string"},
            "outcome": {"type": "string"},
            "budget": {"type": "integer"},
            "tokens": {"type": "integer"},
            "text": {"type": "string"},
            "sections": {"type": "array", "items": {"type": "object"}},
        }),
        &["task", "outcome", "tokens", "text", "sections"],
    )
}

pub(super) async fn call(
    engine: &Engine,
    progress: &Progress,
    params: &Value,
) -> Result<ToolAnswer, Error> {
    let name = required(params, "task");
    progress.report(|| "finding the task".to_owned());
    let task = match engine.records().find_task(name).await? {
        FoundTask::One(task) => *task,
        FoundTask::None => {
            return Ok(ToolAnswer::error(format!(
                "no task matches `{name}`: find tasks with `search`"
            )));
        }
        FoundTask::Several(tasks) => {
            let line = |task: &ctx_core::task::Task| {
                format!("{} {}", task.id, one_line(&task.description, 80))
            };
            let lines: Vec<String> = tasks.iter().map(line).collect();
            return Ok(ToolAnswer::error(format!(
                "several tasks match `{name}` equally well; use the id of one:\n{}",
                lines.join("\n")
            )));
        }
    };
    progress.report(|| "reading the record of the task".to_owned());
    let pack = engine.records().pack(task, budget(params)).await?;
    Ok(ToolAnswer::with(pack.text.clone(), json!(pack)))
}
