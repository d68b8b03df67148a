//! `ctx classify TEXT`: what a message would be taken for. It changes nothing.

use ctx_engine::core::intent::{Situation, classify};
use ctx_engine::core::task::{State, StateName, Task};
use serde_json::json;

use crate::problem::Problem;

use super::Context;
use super::output::text;

#[derive(clap::Args)]
pub(super) struct Args {
    /// The message; `-` reads it from standard input
    text: String,
    /// As if the task were in this state, or `none` [default: as it is here]
    #[arg(long)]
    state: Option<String>,
    /// As if this had been asked
    #[arg(long)]
    question: Option<String>,
    /// As if this were the task
    #[arg(long)]
    task: Option<String>,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let message = text(&args.text)?;
    let here = if args.state.is_some() { None } else { open_task(context).await? };
    let state = match args.state.as_deref() {
        Some("none") => None,
        Some(name) => {
            Some(name.parse::<StateName>().map_err(|e| Problem::wrong_use("bad_state", e))?)
        }
        None => here.as_ref().map(|task| task.state.name()),
    };
    let asked = match here.as_ref().map(|task| &task.state) {
        Some(State::AwaitingUser { question, .. }) => Some(question.as_str()),
        _ => None,
    };
    let description = here.as_ref().map(|task| task.description.as_str());
    let situation = Situation {
        state,
        question: args.question.as_deref().or(asked),
        task: args.task.as_deref().or(description),
    };
    let verdict = classify(&message, &situation);
    context.out.say(
        || json!({"intent": verdict.intent, "reason": verdict.reason}),
        || format!("{}: {}", verdict.intent.name(), verdict.reason),
    )
}

/// The open task, where there is a store and one is open.
async fn open_task(context: &Context) -> Result<Option<Task>, Problem> {
    let nowhere = |problem: &Problem| matches!(&*problem.code, "no_store" | "no_session");
    let looked = match context.engine() {
        Ok(engine) => {
            engine.tasks().existing_recorder(&context.session).task().await.map_err(Problem::from)
        }
        Err(problem) => Err(problem),
    };
    match looked {
        Err(problem) if nowhere(&problem) => Ok(None),
        task => task,
    }
}
