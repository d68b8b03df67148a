//! `ctx session answer`: what a session waits for. The oldest suspension first; a question with two choices if there is none.

use ctx_engine::core::decide::{AnswerTarget, answer_target};
use ctx_engine::core::id::SuspensionId;
use ctx_engine::core::suspension::{Answer, CallResult};
use ctx_engine::{Engine, Info};

use crate::problem::Problem;

use super::super::Context;
use super::super::output::text;
use super::exchange::{Asks, Exchange};
use super::transcript::waiting_lines;

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// The session, by label or id
    #[arg(value_name = "SESSION")]
    which: String,
    /// continue or start_fresh, the id of an answer that is offered, or words; `-` reads them from standard input
    choice: Option<String>,
    /// What a tool answered; may be given more than once, and all at once
    #[arg(long = "result", value_name = "ID=TEXT", conflicts_with = "choice")]
    results: Vec<String>,
    /// How a tool failed; may be given more than once
    #[arg(long = "error", value_name = "ID=TEXT", conflicts_with = "choice")]
    errors: Vec<String>,
    /// Which of the things it waits for [default: the oldest]
    #[arg(long, value_name = "ID")]
    suspension: Option<SuspensionId>,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = context.talking_engine()?;
    let info = engine.sessions().get(&args.which).await?;
    let answer =
        Answer { results: results(args)?, choice: args.choice.as_deref().map(text).transpose()? };
    let to = aim(&info, args, &answer)?;
    let exchange = Exchange::open(context, &engine, &args.which, Asks::Never).await?;
    let answered = give(&engine, &args.which, to, answer).await;
    exchange.conclude(answered.map(|()| None)).await
}

fn aim(info: &Info, args: &Args, answer: &Answer) -> Result<AnswerTarget, Problem> {
    let tools = !answer.results.is_empty();
    if answer.choice.is_none() && !tools {
        let waits = waiting_lines(info);
        let hint =
            if waits.is_empty() { "it waits for nothing".to_owned() } else { waits.join("\n") };
        return Err(Problem::wrong_use(
            "wrong_use",
            "an answer is missing: a choice, or `--result ID=TEXT`",
        )
        .hint(hint));
    }
    if let Some(id) = args.suspension {
        return Ok(AnswerTarget::Suspension(id));
    }
    Ok(answer_target(&info.suspensions, info.prompt.as_ref(), answer)?)
}

async fn give(
    engine: &Engine,
    session: &str,
    to: AnswerTarget,
    answer: Answer,
) -> Result<(), ctx_engine::Error> {
    match to {
        AnswerTarget::Suspension(id) => engine.runs().resume(session, id, answer).await.map(drop),
        AnswerTarget::Prompt(choice) => {
            engine.runs().answer_prompt(session, choice).await.map(drop)
        }
    }
}

fn results(args: &Args) -> Result<Vec<CallResult>, Problem> {
    let one = |given: &String, is_error: bool| match given.split_once('=') {
        Some((id, content)) if !id.is_empty() => {
            Ok(CallResult { tool_call_id: id.to_owned(), content: content.to_owned(), is_error })
        }
        _ => Err(Problem::wrong_use("wrong_use", format!("`{given}` is not ID=TEXT"))),
    };
    let good = args.results.iter().map(|given| one(given, false));
    good.chain(args.errors.iter().map(|given| one(given, true))).collect()
}
