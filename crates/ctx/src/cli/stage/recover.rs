//! `ctx stage recover`: resume the open task, or seal it if it is too old.

use serde_json::json;

use crate::json::{commit_json, task_json};
use crate::problem::Problem;

use super::super::Context;
use super::super::output::{commit_line, visible_text};

pub(super) async fn run(context: &Context) -> Result<(), Problem> {
    let reply = context.recorder().await?.recover().await?;
    context.out.print(
        || {
            json!({
                "task": reply.task.as_ref().map(task_json::task),
                "text": reply.text,
                "pending_prompt": reply.prompt.as_ref().map(task_json::prompt),
                "commit": reply.commit.as_ref().map(commit_json::commit_record),
            })
        },
        || match (&reply.text, &reply.commit) {
            (Some(text), _) => visible_text(text),
            (None, Some(record)) => {
                format!("Sealed {}", commit_line(record.id, &record.commit, &context.out))
            }
            (None, None) => String::new(),
        },
    )
}
