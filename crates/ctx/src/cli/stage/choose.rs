//! `ctx stage choose`: answer the pending prompt.

use ctx_engine::core::prompt::Choice;
use serde_json::json;

use crate::json::{commit_json, task_json};
use crate::problem::Problem;

use super::super::Context;
use super::message::reply_lines;

pub(super) async fn run(context: &Context, choice: Choice) -> Result<(), Problem> {
    let reply = context.recorder().await?.choose(choice).await?;
    context.out.print(
        || {
            json!({
                "action": reply.action,
                "task": reply.task.as_ref().map(task_json::task),
                "pending_prompt": reply.prompt.as_ref().map(task_json::prompt),
                "commit": reply.commit.as_ref().map(commit_json::commit_record),
            })
        },
        || reply_lines(&reply, &context.out),
    )
}
