//! `ctx session …`: conversations. A verb that sends a message runs the session in this process
//! until it is idle or suspended. If another process owns the session, the verb queues the message
//! and follows that process.

mod answer;
mod archive;
mod cancel;
mod close_task;
mod compact;
mod delete;
mod diff;
mod fork;
mod inbox;
mod list;
mod new;
mod pin;
mod resume;
mod retry;
mod rewind;
mod send;
mod show;
mod tail;
mod tree;

pub(super) mod live_printer;
pub(super) mod send_and_follow;
pub(super) mod session_follower;
pub(super) mod terminal_prompts;
pub(super) mod transcript;

use std::path::Path;

use clap::Subcommand;
use ctx_engine::core::id::TurnId;
use ctx_engine::core::object::Kind;
use ctx_engine::{Engine, Info};
use serde_json::json;

use crate::json::session_json::Session;
use crate::problem::Problem;

use super::Context;
use super::show::resolve;

#[derive(Subcommand)]
pub(super) enum Verb {
    /// List sessions by last activity, newest first
    List(list::Args),
    /// Create an idle session
    New(new::Args),
    /// Show the messages of a session, oldest first
    Show(show::Args),
    /// Send a message and stream the answer
    Send(send::Args),
    /// Follow a session that this or another process runs
    Tail(tail::Args),
    /// Show the latest messages and, on a terminal, continue the conversation
    Resume(resume::Args),
    /// Answer a prompt, a permission, a question or a tool call that the session waits for
    Answer(answer::Args),
    /// Create a session that shares all turns up to a given turn
    Fork(fork::Args),
    /// Compact the context: summarize earlier turns, without deleting anything
    ///
    /// To turn a task into a commit, use `ctx stage seal`.
    Compact(compact::Args),
    /// Pin a turn, so that every request includes it even after a compaction
    Pin(pin::Args),
    /// Move the head back to an earlier turn; later turns stay in the tree
    Rewind(rewind::Args),
    /// Run the last message again; the previous turn stays in the tree
    Retry(retry::Args),
    /// Show the tree of turns and the heads of the sessions in it
    Tree(tree::Args),
    /// Compare two branches side by side, after their last common turn
    Diff(diff::Args),
    /// Archive a session; it stays readable, and a new message restores it
    Archive(archive::Args),
    /// Restore an archived session
    Unarchive(archive::Args),
    /// Cancel the run, or release what the session waits for
    Cancel(cancel::Args),
    /// Confirm the open task and seal it, without a run
    Confirm(close_task::ConfirmArgs),
    /// Abandon the open task, cancel its run and seal it
    Abandon(close_task::AbandonArgs),
    /// Reopen the task that was sealed last
    Reopen(close_task::ReopenArgs),
    /// Delete a session permanently
    Delete(delete::Args),
    /// List, withdraw, edit or move waiting messages
    Inbox(inbox::Args),
}

pub(super) async fn run(context: &Context, verb: Verb) -> Result<(), Problem> {
    match verb {
        Verb::List(args) => list::run(context, &args).await,
        Verb::New(args) => new::run(context, args).await,
        Verb::Show(args) => show::run(context, &args).await,
        Verb::Send(args) => send::run(context, args).await,
        Verb::Tail(args) => tail::run(context, &args).await,
        Verb::Resume(args) => resume::run(context, &args).await,
        Verb::Answer(args) => answer::run(context, &args).await,
        Verb::Fork(args) => fork::run(context, &args).await,
        Verb::Compact(args) => compact::run(context, args).await,
        Verb::Pin(args) => pin::run(context, &args).await,
        Verb::Rewind(args) => rewind::run(context, &args).await,
        Verb::Retry(args) => retry::run(context, args).await,
        Verb::Tree(args) => tree::run(context, &args).await,
        Verb::Diff(args) => diff::run(context, &args).await,
        Verb::Archive(args) => archive::archive(context, &args).await,
        Verb::Unarchive(args) => archive::unarchive(context, &args).await,
        Verb::Cancel(args) => cancel::run(context, &args).await,
        Verb::Confirm(args) => close_task::confirm(context, args).await,
        Verb::Abandon(args) => close_task::abandon(context, args).await,
        Verb::Reopen(args) => close_task::reopen(context, args).await,
        Verb::Delete(args) => delete::run(context, &args).await,
        Verb::Inbox(args) => inbox::run(context, &args).await,
    }
}

/// An engine that starts no runs. A verb that exits at once must not start a run that its exit
/// would interrupt; the next process that opens the session starts it.
async fn engine_without_runs(context: &Context) -> Result<Engine, Problem> {
    let engine = context.engine()?;
    engine.background().shutdown().await;
    Ok(engine)
}

/// Prints a session after a change.
fn print_session(context: &Context, info: &Info, what: &str) -> Result<(), Problem> {
    context.out.print(
        || json!({"session": Session::from(info)}),
        || format!("{what} {}", transcript::session_line(info)),
    )
}

/// Finds the turn whose id starts with `digits`.
async fn resolve_turn(engine: &Engine, digits: &str) -> Result<TurnId, Problem> {
    let found = resolve(engine, digits).await?;
    if found.kind != Kind::Turn {
        return Err(Problem::failed(
            "not_found",
            format!("no turn has the id `{digits}`: it is a {}", found.kind),
        )
        .hint("show the turns with `ctx session tree SESSION`"));
    }
    Ok(TurnId(found.id))
}

/// The canonical path of a working directory.
pub(super) fn working_dir(dir: &Path) -> Result<String, Problem> {
    let absolute = dir.canonicalize().map_err(|e| {
        Problem::wrong_use("bad_dir", format!("invalid directory {}: {e}", dir.display()))
    })?;
    if !absolute.is_dir() {
        return Err(Problem::wrong_use(
            "bad_dir",
            format!("invalid directory {}: it is a file", dir.display()),
        ));
    }
    Ok(absolute.to_string_lossy().into_owned())
}
