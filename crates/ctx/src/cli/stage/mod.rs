//! `ctx stage …`: the open task. Each verb opens the store, reads STAGE, acts and exits. Its
//! changes are on disk when it returns.

mod abort;
mod choose;
mod export;
mod import;
mod message;
mod observe;
mod recover;
mod relate;
mod seal;
mod status;
mod tasks_elsewhere;
mod transitions;

use std::path::PathBuf;

use clap::Subcommand;
use ctx_engine::Status;
use ctx_engine::core::decide::CommitRecord;
use ctx_engine::core::prompt::Choice;
use ctx_engine::core::stale::Staleness;
use ctx_engine::core::task::Task;
use serde_json::json;

use crate::json::{commit_json, task_json};
use crate::problem::Problem;

use super::Context;
use super::output::{DIM, commit_line, read_text, task_lines};

#[derive(Subcommand)]
pub(super) enum Verb {
    /// Open a task
    Start {
        /// Describe the task; `-` reads standard input
        task: String,
    },
    /// Show the open task without changing anything
    Status,
    /// Write everything that was recorded to disk
    Flush,
    /// Seal the task: turn its steps into one commit
    ///
    /// To shorten the context of a conversation, use `ctx session compact`.
    #[command(visible_alias = "compact")]
    Seal {
        /// Set the message of the commit [default: the last summary]
        #[arg(short, long)]
        message: Option<String>,
    },
    /// Abandon the task and seal its work as abandoned
    Abort {
        /// Record why the task is abandoned
        #[arg(long)]
        reason: Option<String>,
    },
    /// Resume the open task after a crash or a pause, or seal it if it is too old
    Recover,
    /// Add a note to the narrative
    Note {
        /// Write this text; `-` reads standard input
        text: String,
    },
    /// Record what the agent did
    #[command(subcommand)]
    Observe(observe::Verb),
    /// Record a relation between two nodes
    Relate {
        /// Start at this node, written as kind:id
        from: String,
        /// Use this label: contains, defines, depends_on, calls, mentions, …
        label: String,
        /// End at this node, written as kind:id
        to: String,
    },
    /// Answer the pending prompt
    Choose {
        /// Choose `continue` or `start_fresh`
        choice: Choice,
    },
    /// Record a question of the agent; the task waits for the user
    Ask {
        /// Ask this question; `-` reads standard input
        question: String,
    },
    /// Record the user's answer to the question
    Answer {
        /// Give this answer; `-` reads standard input
        text: String,
    },
    /// Record a user message that arrives while the agent works
    Interrupt {
        /// Record this message; `-` reads standard input
        text: String,
    },
    /// Print the interrupting message and set the task to running again
    Incorporate,
    /// Record that the agent has finished; the task waits for confirmation
    Done {
        /// Summarize the work; `-` reads standard input
        summary: String,
    },
    /// Request more work on a finished task
    More {
        /// Request this; `-` reads standard input
        text: String,
    },
    /// Confirm a finished task and seal it
    Confirm,
    /// Classify a user message and apply it to the task
    Message {
        /// Apply this message; `-` reads standard input
        text: String,
    },
    /// Export the open task for another agent or machine
    Export {
        /// Write the bundle to this file [default: standard output in a pipe, else a file named
        /// after the task]
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Import a task that `ctx stage export` wrote, and continue it
    Import {
        /// Import this bundle; `-` reads standard input
        file: PathBuf,
    },
}

pub(super) async fn run(context: &Context, verb: Verb) -> Result<(), Problem> {
    match run_verb(context, verb).await {
        Err(problem) => Err(tasks_elsewhere::explain(context, problem).await),
        done => done,
    }
}

async fn run_verb(context: &Context, verb: Verb) -> Result<(), Problem> {
    match verb {
        Verb::Start { task } => transitions::start(context, &read_text(&task)?).await,
        Verb::Status => status::run(context).await,
        Verb::Flush => transitions::flush(context).await,
        Verb::Seal { message } => seal::run(context, message.as_deref()).await,
        Verb::Abort { reason } => abort::run(context, reason.as_deref()).await,
        Verb::Recover => recover::run(context).await,
        Verb::Note { text: note } => transitions::note(context, &read_text(&note)?).await,
        Verb::Observe(verb) => observe::run(context, verb).await,
        Verb::Relate { from, label, to } => relate::run(context, &from, &label, &to).await,
        Verb::Choose { choice } => choose::run(context, choice).await,
        Verb::Ask { question } => transitions::ask(context, &read_text(&question)?).await,
        Verb::Answer { text: answer } => transitions::answer(context, &read_text(&answer)?).await,
        Verb::Interrupt { text: message } => {
            transitions::interrupt(context, &read_text(&message)?).await
        }
        Verb::Incorporate => transitions::incorporate(context).await,
        Verb::Done { summary } => transitions::done(context, &read_text(&summary)?).await,
        Verb::More { text: request } => transitions::more(context, &read_text(&request)?).await,
        Verb::Confirm => transitions::confirm(context).await,
        Verb::Message { text: message } => message::run(context, &read_text(&message)?).await,
        Verb::Export { output } => export::run(context, output.as_deref()).await,
        Verb::Import { file } => import::run(context, &file).await,
    }
}

/// Prints the task after a transition.
fn print_task(context: &Context, task: &Task) -> Result<(), Problem> {
    context.out.print(|| json!({"task": task_json::task(task)}), || task_lines(task, &context.out))
}

/// Prints the commit of a sealed task.
fn print_commit(context: &Context, record: &CommitRecord) -> Result<(), Problem> {
    context.out.print(
        || json!({"commit": commit_json::commit_record(record)}),
        || format!("Sealed {}", commit_line(record.id, &record.commit, &context.out)),
    )
}

const fn stale_name(stale: Option<Staleness>) -> &'static str {
    match stale {
        None => "none",
        Some(Staleness::Fresh) => "fresh",
        Some(Staleness::ShouldAsk) => "should_ask",
        Some(Staleness::ShouldSeal) => "should_seal",
    }
}

/// The idle time of the task, and what the next message will do because of it.
pub(super) fn idle_line(status: &Status) -> String {
    let meaning = match status.stale {
        Some(Staleness::ShouldAsk) => "; the next message asks whether to continue",
        Some(Staleness::ShouldSeal) => "; the next message seals the task first",
        Some(Staleness::Fresh) | None => "",
    };
    status.idle.map_or_else(String::new, |idle| {
        format!("{DIM}idle for {}{meaning}{DIM:#}", idle.in_words())
    })
}
