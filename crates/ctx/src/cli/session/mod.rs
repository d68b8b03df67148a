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
mod new;
mod pin;
mod rename;
pub(super) mod resume;
mod retry;
mod rewind;
mod send;
mod show;
mod tail;
mod tree;

pub(super) mod list;
pub(super) mod live_printer;
pub(super) mod send_and_follow;
pub(super) mod session_follower;
pub(super) mod terminal_prompts;
pub(super) mod transcript;
mod turn_marks;
mod word_wrapper;

use std::path::Path;

use clap::Subcommand;
use ctx_engine::core::id::TurnId;
use ctx_engine::core::session::{Activity, Status};
use ctx_engine::core::short_id::{HASH_DIGITS, SHORT_MIN, hash_beginning};
use ctx_engine::{Engine, Info, PAGE_MAX, SessionQuery};
use serde_json::json;

use crate::data_dir::{DIR_NAME, project_root};
use crate::json::session_json::Session;
use crate::problem::Problem;

use super::Context;
use super::output::visible_line;

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
    /// Set the title of a session, or its label with `--label`
    Rename(rename::Args),
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
        Verb::Rename(args) => rename::run(context, &args).await,
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
        || format!("{what} {}", transcript::session_line(info, &context.out)),
    )
}

/// Finds the turn that `text` refers to by its id or the beginning of its id.
async fn resolve_turn(engine: &Engine, text: &str) -> Result<TurnId, Problem> {
    if let Some(turn) = engine.ids().turn(text).await? {
        return Ok(turn);
    }
    let shown = visible_line(text, 80);
    let problem = if hash_beginning(text).is_none() {
        let why = format!("it has {HASH_DIGITS} hex digits; the first {SHORT_MIN} or more suffice");
        Problem::wrong_use("bad_id", format!("invalid turn id `{shown}`: {why}"))
    } else {
        let why = match engine.ids().object(text).await? {
            Some(found) => format!(": the id is that of a {}", found.kind),
            None => String::new(),
        };
        Problem::failed("not_found", format!("turn `{shown}` not found{why}"))
    };
    Err(problem.hint("list the turns with `ctx session tree SESSION`"))
}

/// The sessions of this directory, those with the newest activity first: those that work in it and,
/// in the store of a project, those that work in the project or nowhere.
pub(super) async fn sessions_here(
    context: &Context,
    engine: &Engine,
    limit: usize,
) -> Result<Vec<Info>, Problem> {
    let here = working_dir(Path::new("."))?;
    let mut infos = engine.sessions().in_directory(&here, limit).await?;
    let project = project_root(&context.data);
    if context.data.ends_with(DIR_NAME) && Path::new(&here).starts_with(&project) {
        let query = SessionQuery::newest(limit);
        let (all, _) = engine.sessions().list(&query).await?;
        let is_new = |info: &Info| {
            let known = infos.iter().any(|known| known.session.id == info.session.id);
            let is_shown = matches!(info.session.status, Status::Active | Status::Suspended);
            let dir = info.session.working_dir.as_deref();
            let is_inside = dir.is_none_or(|dir| Path::new(dir).starts_with(&project));
            !known && is_shown && is_inside
        };
        let others: Vec<Info> = all.into_iter().filter(is_new).collect();
        infos.extend(others);
        infos.sort_by_key(|info| std::cmp::Reverse(info.session.last_activity_at));
        infos.truncate(limit);
    }
    Ok(infos)
}

/// The newest session of this directory that has a turn or a message.
pub(super) async fn newest_here(context: &Context, engine: &Engine) -> Result<Info, Problem> {
    let infos = sessions_here(context, engine, PAGE_MAX).await?;
    let is_begun = |info: &Info| {
        info.session.turn_count > 0
            || info.session.state != Activity::Idle
            || !info.inbox.is_empty()
    };
    infos.into_iter().find(is_begun).ok_or_else(|| {
        Problem::failed("no_session", "this directory has no conversation yet")
            .hint("start one with `ctx run TEXT`, or list all with `ctx session list`")
    })
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
