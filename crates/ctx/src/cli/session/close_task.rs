//! `ctx session confirm`, `abandon` and `reopen`: the user closes or reopens the task of a session.

use ctx_engine::core::decide::{ClosedTask, CommitRecord};
use ctx_engine::core::id::CommitId;
use ctx_engine::core::object::Kind;
use ctx_engine::core::task::Task;
use serde_json::json;

use crate::json::{commit_json, task_json};
use crate::problem::Problem;

use super::super::Context;
use super::engine_without_runs;

#[derive(clap::Args)]
pub(in crate::cli) struct ConfirmArgs {
    /// Select the session by label, id or short id
    #[arg(value_name = "SESSION")]
    session_name: String,
    /// Set the message of the commit [default: the summary of the task]
    #[arg(short, long)]
    message: Option<String>,
}

#[derive(clap::Args)]
pub(in crate::cli) struct AbandonArgs {
    /// Select the session by label, id or short id
    #[arg(value_name = "SESSION")]
    session_name: String,
    /// State why the task is given up
    #[arg(long)]
    reason: Option<String>,
}

#[derive(clap::Args)]
pub(in crate::cli) struct ReopenArgs {
    /// Select the session by label, id or short id
    #[arg(value_name = "SESSION")]
    session_name: String,
}

pub(super) async fn confirm(context: &Context, args: ConfirmArgs) -> Result<(), Problem> {
    let engine = engine_without_runs(context).await?;
    let closed = engine.tasks().confirm(&args.session_name, args.message).await?;
    print(context, &closed, &args.session_name)
}

pub(super) async fn abandon(context: &Context, args: AbandonArgs) -> Result<(), Problem> {
    let engine = engine_without_runs(context).await?;
    let closed = engine.tasks().abandon(&args.session_name, args.reason).await?;
    print(context, &closed, &args.session_name)
}

pub(super) async fn reopen(context: &Context, args: ReopenArgs) -> Result<(), Problem> {
    let engine = engine_without_runs(context).await?;
    let (task, commit) = engine.tasks().reopen(&args.session_name).await?;
    let object = engine.records().object(commit.0).await?.filter(|it| it.kind == Kind::Commit);
    let found = object.and_then(|object| object.decode().ok());
    let document = found.as_ref().map(|found| commit_json::commit(commit, found));
    context.out.print(
        || json!({"task": task_json::task(&task), "commit": document}),
        || reopened(&task, commit),
    )
}

fn print(context: &Context, closed: &ClosedTask, session: &str) -> Result<(), Problem> {
    let ClosedTask { task, commit } = closed;
    context.out.print(
        || json!({"task": task_json::task(task), "commit": commit_json::commit_record(commit)}),
        || sealed(task, commit, session),
    )
}

fn sealed(task: &Task, commit: &CommitRecord, session: &str) -> String {
    format!(
        "Sealed as {}: {}\nCommit {}. Undo with `ctx session reopen {session}`.",
        commit.commit.commit_type.name(),
        task.description,
        commit.id.0.short()
    )
}

fn reopened(task: &Task, commit: CommitId) -> String {
    format!("Reopened: {}\nThe commit {} is kept.", task.description, commit.0.short())
}
