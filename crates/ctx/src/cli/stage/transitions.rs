//! `ctx stage start`, `note` and `flush`, and the transitions of the task: `ask`, `answer`,
//! `interrupt`, `incorporate`, `done`, `more`, `confirm`.

use ctx_engine::core::Refusal;
use serde_json::json;

use crate::json::task_json;
use crate::problem::Problem;

use super::super::Context;
use super::super::output::plural;
use super::{print_commit, print_task};

pub(super) async fn start(context: &Context, task: &str) -> Result<(), Problem> {
    print_task(context, &context.recorder_or_create().await?.start(task).await?)
}

pub(super) async fn note(context: &Context, text: &str) -> Result<(), Problem> {
    let mut recorder = context.recorder().await?;
    recorder.observe_note(text);
    print_task(context, &recorder.flush().await?.ok_or(Refusal::NoTask)?)
}

/// Every verb writes its observations before it returns, so there is nothing left to write here.
pub(super) async fn flush(context: &Context) -> Result<(), Problem> {
    let task = context.recorder().await?.flush().await?.ok_or(Refusal::NoTask)?;
    context.out.print(
        || json!({"task": task_json::task(&task)}),
        || {
            format!(
                "All observations are on disk: {}, the newest is {}.",
                plural(task.steps, "step"),
                task.head.0.short()
            )
        },
    )
}

pub(super) async fn ask(context: &Context, question: &str) -> Result<(), Problem> {
    print_task(context, &context.recorder().await?.ask(question).await?)
}

pub(super) async fn answer(context: &Context, text: &str) -> Result<(), Problem> {
    print_task(context, &context.recorder().await?.answer(text).await?)
}

pub(super) async fn interrupt(context: &Context, text: &str) -> Result<(), Problem> {
    print_task(context, &context.recorder().await?.interrupt(text).await?)
}

pub(super) async fn incorporate(context: &Context) -> Result<(), Problem> {
    let reply = context.recorder().await?.incorporate().await?;
    context.out.print(
        || json!({"task": task_json::task(&reply.task), "user_message": reply.user_message}),
        || reply.user_message.clone(),
    )
}

pub(super) async fn done(context: &Context, summary: &str) -> Result<(), Problem> {
    print_task(context, &context.recorder().await?.done(summary).await?)
}

pub(super) async fn more(context: &Context, text: &str) -> Result<(), Problem> {
    print_task(context, &context.recorder().await?.more(text).await?)
}

pub(super) async fn confirm(context: &Context) -> Result<(), Problem> {
    print_commit(context, &context.recorder().await?.confirm().await?)
}
