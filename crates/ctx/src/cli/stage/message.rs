//! `ctx stage message`: classify a user message and apply it to the task.

use ctx_engine::core::decide::Handled;
use serde_json::json;

use crate::json::{commit_json, task_json};
use crate::problem::Problem;

use super::super::Context;
use super::super::output::{Output, commit_line, task_lines};

pub(super) async fn run(context: &Context, text: &str) -> Result<(), Problem> {
    let outcome = context.recorder().await?.message(text).await?;
    let reply = &outcome.reply;
    context.out.print(
        || {
            json!({
                "intent": outcome.intent,
                "action": reply.action,
                "text": reply.text,
                "task": reply.task.as_ref().map(task_json::task),
                "pending_prompt": reply.prompt.as_ref().map(task_json::prompt),
                "commit": reply.commit.as_ref().map(commit_json::commit_record),
            })
        },
        || {
            let mut lines = vec![format!("Classified as: {}", outcome.intent.name())];
            lines.push(reply_lines(reply, &context.out));
            if reply.task.is_none() && reply.commit.is_none() && reply.prompt.is_none() {
                lines.push("No task is open. Start one with `ctx stage start TASK`.".to_owned());
            }
            lines.retain(|line| !line.is_empty());
            lines.join("\n").trim_end().to_owned()
        },
    )
}

/// The commit, the reply text, and the prompt or the task after a message or a choice.
pub(super) fn reply_lines(reply: &Handled, out: &Output) -> String {
    let mut lines = Vec::new();
    lines.extend(
        reply
            .commit
            .as_ref()
            .map(|record| format!("Sealed {}", commit_line(record.id, &record.commit, out))),
    );
    lines.extend(reply.text.clone());
    match &reply.prompt {
        Some(prompt) => lines.push(prompt.text.clone()),
        None => lines.extend(reply.task.as_ref().map(|task| task_lines(task, out))),
    }
    lines.join("\n")
}
