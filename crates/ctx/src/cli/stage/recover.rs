//! `ctx stage recover`: come back to the open task; a task that is past its time is sealed.

use serde_json::json;

use crate::problem::Problem;
use crate::shape;

use super::super::Context;
use super::super::output::commit_line;

pub(super) async fn run(context: &Context) -> Result<(), Problem> {
    let reply = context.recorder().await?.recover().await?;
    context.out.say(
        || {
            json!({
                "task": reply.task.as_ref().map(shape::task),
                "text": reply.text,
                "pending_prompt": reply.prompt.as_ref().map(shape::prompt),
                "commit": reply.commit.as_ref().map(shape::sealed),
            })
        },
        || match (&reply.text, &reply.commit) {
            (Some(text), _) => text.clone(),
            (None, Some(record)) => format!("Sealed {}", commit_line(record.id, &record.commit)),
            (None, None) => String::new(),
        },
    )
}
