//! The verbs that are one call each: start, note, flush and the transitions of the task.

use crate::problem::Problem;

use super::super::Context;
use super::{say_sealed, say_task};

use ctx_engine::core::decide::Reply;
use serde_json::json;

use crate::shape;

pub(super) async fn start(context: &Context, task: &str) -> Result<(), Problem> {
    say_task(context, &context.new_recorder().await?.start(task).await?)
}

pub(super) async fn note(context: &Context, text: &str) -> Result<(), Problem> {
    let mut recorder = context.recorder().await?;
    recorder.observe_note(text);
    say_task(context, &Reply { task: recorder.flush().await?, ..Reply::default() })
}

/// Every verb is durable when it returns, so there is never anything left to write here.
pub(super) async fn flush(context: &Context) -> Result<(), Problem> {
    let task = context.recorder().await?.flush().await?.ok_or(ctx_engine::core::Refusal::NoTask)?;
    context.out.say(
        || json!({"task": shape::task(&task)}),
        || {
            format!(
                "Everything is on disk: {} steps, the newest is {}.",
                task.steps,
                task.head.0.short()
            )
        },
    )
}

pub(super) async fn ask(context: &Context, question: &str) -> Result<(), Problem> {
    say_task(context, &context.recorder().await?.ask(question).await?)
}

pub(super) async fn answer(context: &Context, text: &str) -> Result<(), Problem> {
    say_task(context, &context.recorder().await?.answer(text).await?)
}

pub(super) async fn interrupt(context: &Context, text: &str) -> Result<(), Problem> {
    say_task(context, &context.recorder().await?.interrupt(text).await?)
}

pub(super) async fn incorporate(context: &Context) -> Result<(), Problem> {
    let reply = context.recorder().await?.incorporate().await?;
    let said = reply.text.clone().unwrap_or_default();
    context.out.say(
        || json!({"task": reply.task.as_ref().map(shape::task), "user_message": said}),
        || said.clone(),
    )
}

pub(super) async fn done(context: &Context, summary: &str) -> Result<(), Problem> {
    say_task(context, &context.recorder().await?.done(summary).await?)
}

pub(super) async fn more(context: &Context, text: &str) -> Result<(), Problem> {
    say_task(context, &context.recorder().await?.more(text).await?)
}

pub(super) async fn confirm(context: &Context) -> Result<(), Problem> {
    say_sealed(context, &context.recorder().await?.confirm().await?)
}
