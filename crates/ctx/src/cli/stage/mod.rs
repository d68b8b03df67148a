//! `ctx stage …`: the open task. Each verb opens the store, reads STAGE, acts, is durable, and exits.

mod abort;
mod choose;
mod compact;
mod export;
mod import;
mod message;
mod observe;
mod recover;
mod relate;
mod status;
mod step;

use std::path::PathBuf;

use clap::Subcommand;
use ctx_engine::Status;
use ctx_engine::core::decide::CommitRecord;
use ctx_engine::core::prompt::Choice;
use ctx_engine::core::stale::Staleness;
use ctx_engine::core::task::Task;
use serde_json::json;

use crate::problem::Problem;
use crate::shape;

use super::Context;
use super::output::{DIM, commit_line, task_lines, text};

#[derive(Subcommand)]
pub(super) enum Verb {
    /// Open a task
    Start {
        /// What is to be done; `-` reads it from standard input
        task: String,
    },
    /// Where the open task stands; changes nothing
    Status,
    /// Make sure that everything recorded is on disk
    Flush,
    /// The work is done: seal it into one commit
    Compact {
        /// What the commit says [default: the last summary]
        #[arg(short, long)]
        message: Option<String>,
    },
    /// Give the task up; what was done is sealed as abandoned
    Abort {
        /// Why
        #[arg(long)]
        reason: Option<String>,
    },
    /// Come back to the open task after a crash or a pause
    Recover,
    /// Write a sentence into the narrative
    Note {
        /// The sentence; `-` reads it from standard input
        text: String,
    },
    /// Record what the agent did
    #[command(subcommand)]
    Observe(observe::Verb),
    /// Record that something is related to something
    Relate {
        /// A node, written kind:id
        from: String,
        /// How: contains, defines, depends_on, calls, mentions, …
        label: String,
        /// A node, written kind:id
        to: String,
    },
    /// Answer the question that waits for a choice
    Choose {
        /// continue or start_fresh
        choice: Choice,
    },
    /// The agent asks the user
    Ask {
        /// What; `-` reads it from standard input
        question: String,
    },
    /// The user answers the agent's question
    Answer {
        /// What; `-` reads it from standard input
        text: String,
    },
    /// The user says something while the agent works
    Interrupt {
        /// What; `-` reads it from standard input
        text: String,
    },
    /// The agent takes in what the user said, which is printed
    Incorporate,
    /// The agent says that it is done
    Done {
        /// What it did; `-` reads it from standard input
        summary: String,
    },
    /// The user wants more before it is done
    More {
        /// What; `-` reads it from standard input
        text: String,
    },
    /// The user confirms: the task is complete and sealed
    Confirm,
    /// A user's message: say what it means and do what that asks for
    Message {
        /// The message; `-` reads it from standard input
        text: String,
    },
    /// Hand the open task to another agent or machine
    Export {
        /// Where to [default: standard output, or a file named after the task at a terminal]
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Go on with a task that was handed over
    Import {
        /// A bundle; `-` reads it from standard input
        file: PathBuf,
    },
}

pub(super) async fn run(context: &Context, verb: Verb) -> Result<(), Problem> {
    match verb {
        Verb::Start { task } => step::start(context, &text(&task)?).await,
        Verb::Status => status::run(context).await,
        Verb::Flush => step::flush(context).await,
        Verb::Compact { message } => compact::run(context, message.as_deref()).await,
        Verb::Abort { reason } => abort::run(context, reason.as_deref()).await,
        Verb::Recover => recover::run(context).await,
        Verb::Note { text: note } => step::note(context, &text(&note)?).await,
        Verb::Observe(verb) => observe::run(context, verb).await,
        Verb::Relate { from, label, to } => relate::run(context, &from, &label, &to).await,
        Verb::Choose { choice } => choose::run(context, choice).await,
        Verb::Ask { question } => step::ask(context, &text(&question)?).await,
        Verb::Answer { text: answer } => step::answer(context, &text(&answer)?).await,
        Verb::Interrupt { text: message } => step::interrupt(context, &text(&message)?).await,
        Verb::Incorporate => step::incorporate(context).await,
        Verb::Done { summary } => step::done(context, &text(&summary)?).await,
        Verb::More { text: request } => step::more(context, &text(&request)?).await,
        Verb::Confirm => step::confirm(context).await,
        Verb::Message { text: message } => message::run(context, &text(&message)?).await,
        Verb::Export { output } => export::run(context, output.as_deref()).await,
        Verb::Import { file } => import::run(context, &file).await,
    }
}

/// What a transition answers: the task as it is now.
fn say_task(context: &Context, task: &Task) -> Result<(), Problem> {
    context.out.say(|| json!({"task": shape::task(task)}), || task_lines(task))
}

/// What sealing answers: the commit.
fn say_sealed(context: &Context, record: &CommitRecord) -> Result<(), Problem> {
    context.out.say(
        || json!({"commit": shape::sealed(record)}),
        || format!("Sealed {}", commit_line(record.id, &record.commit)),
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

/// How long the task has lain and what that means, for a person.
pub(super) fn idle_line(status: &Status) -> String {
    let meaning = match status.stale {
        Some(Staleness::ShouldAsk) => "; the next message asks whether to go on",
        Some(Staleness::ShouldSeal) => "; the next message seals it first",
        Some(Staleness::Fresh) | None => "",
    };
    status.idle.map_or_else(String::new, |idle| {
        format!("{DIM}idle for {}{meaning}{DIM:#}", idle.in_words())
    })
}
