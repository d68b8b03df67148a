//! `ctx classify TEXT`: show how a message would be classified. It changes nothing.

use ctx_engine::core::intent::{ClassifierInput, classify};
use ctx_engine::core::task::{State, StateName, Task};
use serde_json::json;

use crate::problem::Problem;

use super::Context;
use super::output::read_text;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Classify this message; `-` reads standard input
    text: String,
    /// Assume that the task is in this state, or `none` [default: the state of the open task]
    #[arg(long)]
    state: Option<String>,
    /// Assume that the agent asked this question
    #[arg(long)]
    question: Option<String>,
    /// Assume this task description
    #[arg(long)]
    task: Option<String>,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let message = read_text(&args.text)?;
    let open = if args.state.is_some() { None } else { open_task(context).await? };
    let state = match args.state.as_deref() {
        Some("none") => None,
        Some(name) => {
            Some(name.parse::<StateName>().map_err(|e| Problem::wrong_use("bad_state", e))?)
        }
        None => open.as_ref().map(|task| task.state.name()),
    };
    let asked = match open.as_ref().map(|task| &task.state) {
        Some(State::AwaitingUser { question, .. }) => Some(question.as_str()),
        _ => None,
    };
    let description = open.as_ref().map(|task| task.description.as_str());
    let situation = ClassifierInput {
        state,
        question: args.question.as_deref().or(asked),
        task: args.task.as_deref().or(description),
    };
    let classification = classify(&message, &situation);
    context.out.print(
        || json!({"intent": classification.intent, "reason": classification.reason}),
        || format!("{}: {}", classification.intent.name(), classification.reason),
    )
}

/// The open task; `None` if there is no store, no session or no task.
async fn open_task(context: &Context) -> Result<Option<Task>, Problem> {
    let is_missing = |problem: &Problem| matches!(&*problem.code, "no_store" | "no_session");
    let task = match context.engine() {
        Ok(engine) => match engine.tasks().find_recorder(&context.session_in(&engine)).await {
            Ok(recorder) => recorder.task().await.map_err(Problem::from),
            Err(error) => Err(error.into()),
        },
        Err(problem) => Err(problem),
    };
    match task {
        Err(problem) if is_missing(&problem) => Ok(None),
        task => task,
    }
}
