//! `ctx session …`: conversations. What may run something runs it in this process until the session is idle or waits;
//! where another living process holds the session, the message is queued and that process is followed.

mod answer;
mod archive;
mod cancel;
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

pub(super) mod exchange;
pub(super) mod printer;
pub(super) mod stream;
pub(super) mod terminal;
pub(super) mod transcript;

use std::path::Path;

use clap::Subcommand;
use ctx_engine::core::id::TurnId;
use ctx_engine::core::object::Kind;
use ctx_engine::{Engine, Info};
use serde_json::json;

use crate::problem::Problem;
use crate::shape::talk::Session;

use super::Context;
use super::show::resolve;

#[derive(Subcommand)]
pub(super) enum Verb {
    /// Conversations, those with the newest activity first
    List(list::Args),
    /// Make an idle session
    New(new::Args),
    /// What was said, oldest first
    Show(show::Args),
    /// Send a message and stream the answer
    Send(send::Args),
    /// Follow what happens in a session, whoever runs it
    Tail(tail::Args),
    /// Come back to a conversation: where it stands, and on a terminal go on with it
    Resume(resume::Args),
    /// Answer what a session waits for: a question, a permission, the results of tools
    Answer(answer::Args),
    /// A session that shares everything up to a turn and goes its own way from there
    Fork(fork::Args),
    /// Have earlier turns summarised, so that the context is short again; nothing is deleted
    Compact(compact::Args),
    /// Keep a turn in every request, whatever is summarised around it
    Pin(pin::Args),
    /// Move the head back to an earlier turn; the later ones stay in the tree
    Rewind(rewind::Args),
    /// Run the last message again, perhaps elsewhere; the turn before stays in the tree
    Retry(retry::Args),
    /// The tree of turns, and which sessions stand where
    Tree(tree::Args),
    /// Two branches side by side: where they part, and what each said and wrote after it
    Diff(diff::Args),
    /// Put a session away; everything stays readable, and a new message takes it out again
    Archive(archive::Args),
    /// Take a session out again
    Unarchive(archive::Args),
    /// End what runs, or release what is awaited
    Cancel(cancel::Args),
    /// Delete a session for good
    Delete(delete::Args),
    /// The messages that wait: look, take back, change, move
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
        Verb::Delete(args) => delete::run(context, &args).await,
        Verb::Inbox(args) => inbox::run(context, &args).await,
    }
}

/// An engine that carries nothing out: what its calls wake is left for whoever runs the session next. A verb that exits
/// at once must not begin a run that it would cut off.
async fn idle_engine(context: &Context) -> Result<Engine, Problem> {
    let engine = context.engine()?;
    engine.background().shutdown().await;
    Ok(engine)
}

/// What a verb that changes a session answers.
fn say_session(context: &Context, info: &Info, what: &str) -> Result<(), Problem> {
    context.out.say(
        || json!({"session": Session::from(info)}),
        || format!("{what} {}", transcript::session_line(info)),
    )
}

/// The one turn whose id begins so.
async fn turn_of(engine: &Engine, digits: &str) -> Result<TurnId, Problem> {
    let found = resolve(engine, digits).await?;
    if found.kind != Kind::Turn {
        return Err(Problem::failed(
            "not_found",
            format!("`{digits}` is a {}, not a turn", found.kind),
        )
        .hint("`ctx session tree SESSION` shows the turns"));
    }
    Ok(TurnId(found.id))
}

/// A directory that an agent is to work in, as it is stored.
pub(super) fn working_dir(dir: &Path) -> Result<String, Problem> {
    let whole = dir
        .canonicalize()
        .map_err(|e| Problem::wrong_use("bad_dir", format!("{}: {e}", dir.display())))?;
    if !whole.is_dir() {
        return Err(Problem::wrong_use("bad_dir", format!("{} is not a directory", dir.display())));
    }
    Ok(whole.to_string_lossy().into_owned())
}
