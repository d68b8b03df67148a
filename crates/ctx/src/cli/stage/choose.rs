//! `ctx stage choose`: answer the question that waits for a choice.

use ctx_engine::core::prompt::Choice;
use serde_json::json;

use crate::problem::Problem;
use crate::shape;

use super::super::Context;
use super::message::reply_lines;

pub(super) async fn run(context: &Context, choice: Choice) -> Result<(), Problem> {
    let reply = context.recorder().await?.choose(choice).await?;
    context.out.say(
        || {
            json!({
                "action": reply.action,
                "task": reply.task.as_ref().map(shape::task),
                "pending_prompt": reply.prompt.as_ref().map(shape::prompt),
                "commit": reply.commit.as_ref().map(shape::sealed),
            })
        },
        || reply_lines(&reply),
    )
}
