//! `ctx stage message`: a user's message, judged and handled.

use ctx_engine::core::decide::Handled;
use serde_json::json;

use crate::problem::Problem;
use crate::shape;

use super::super::Context;
use super::super::output::{commit_line, task_lines};

pub(super) async fn run(context: &Context, text: &str) -> Result<(), Problem> {
    let outcome = context.recorder().await?.message(text).await?;
    let reply = &outcome.reply;
    context.out.say(
        || {
            json!({
                "intent": outcome.intent,
                "action": reply.action,
                "text": reply.text,
                "task": reply.task.as_ref().map(shape::task),
                "pending_prompt": reply.prompt.as_ref().map(shape::prompt),
                "commit": reply.commit.as_ref().map(shape::sealed),
            })
        },
        || {
            format!("Taken for {}.\n{}", outcome.intent.name(), reply_lines(reply))
                .trim_end()
                .to_owned()
        },
    )
}

/// What a message or a choice led to, for a person.
pub(super) fn reply_lines(reply: &Handled) -> String {
    let mut lines = Vec::new();
    lines.extend(
        reply
            .commit
            .as_ref()
            .map(|record| format!("Sealed {}", commit_line(record.id, &record.commit))),
    );
    lines.extend(reply.text.clone());
    match &reply.prompt {
        Some(prompt) => lines.push(prompt.text.clone()),
        None => lines.extend(reply.task.as_ref().map(task_lines)),
    }
    lines.join("\n")
}
