//! `ctx stage status`: show the open task. It changes nothing and reads only the task row.

use ctx_engine::core::Refusal;
use serde_json::json;

use crate::json::task_json;
use crate::problem::Problem;

use super::super::output::task_lines;
use super::super::{Context, session_status};
use super::{idle_line, stale_name};

pub(super) async fn run(context: &Context) -> Result<(), Problem> {
    // The default session may not exist before its first task.
    let engine = context.engine()?;
    let status = match session_status(context, &engine).await? {
        None if context.session_in(&engine) != engine.default_session() => {
            return Err(Refusal::NoSession.into());
        }
        status => status.unwrap_or_default(),
    };
    context.out.print(
        || {
            json!({
                "task": status.task.as_ref().map(task_json::task),
                "stale": stale_name(status.stale),
                "idle_seconds": status.idle.map(|idle| idle.seconds()),
                "pending_prompt": status.prompt.as_ref().map(task_json::prompt),
            })
        },
        || {
            let Some(task) = &status.task else {
                return "No task is open. Start one with `ctx stage start TASK`.".to_owned();
            };
            let mut lines = format!(
                "{}\n{}\n{}",
                task_lines(task, &context.out),
                idle_line(&status),
                task.progress.summary()
            );
            if let Some(prompt) = &status.prompt {
                lines.push_str(&format!("\n\n{}", prompt.text));
            }
            lines
        },
    )
}
