//! `ctx session answer`: answer a suspension or the pending prompt.

use ctx_engine::core::answer_match::{AnswerTarget, answer_target};
use ctx_engine::core::refusal::Refusal;
use ctx_engine::core::suspension::{Answer, CallResult, Suspension};
use ctx_engine::{Engine, Info, short_among};

use crate::problem::Problem;

use super::super::Context;
use super::super::output::{read_text, visible_line};
use super::send_and_follow::{Asking, Exchange};
use super::transcript::{session_argument, waiting_lines};

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Select the session by label, id or short id
    #[arg(value_name = "SESSION")]
    session_name: String,
    /// Answer with `continue` or `start_fresh`, the id of an offered option, or text; `-` reads
    /// standard input
    choice: Option<String>,
    /// Return the result of a tool call; give all results at once by repeating the option
    #[arg(long = "result", value_name = "ID=TEXT", conflicts_with = "choice")]
    results: Vec<String>,
    /// Return the error of a tool call; can be repeated
    #[arg(long = "error", value_name = "ID=TEXT", conflicts_with = "choice")]
    errors: Vec<String>,
    /// Answer this suspension [default: the oldest that fits]
    #[arg(long, value_name = "ID")]
    suspension: Option<String>,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = context.engine_for_runs()?;
    let info = engine.sessions().get(&args.session_name).await?;
    let choice = args.choice.as_deref().map(read_text).transpose()?;
    let answer =
        Answer { results: parse_results(args)?, choice, by: Some("the command line".to_owned()) };
    if answer.choice.is_none() && answer.results.is_empty() {
        return Err(missing_answer(&info));
    }
    let suspension = match &args.suspension {
        Some(text) => {
            let found = engine.ids().suspension(&args.session_name, text).await?;
            Some(found.ok_or_else(|| unknown_suspension(&info, Some(text)))?)
        }
        None => None,
    };
    let unknown = |problem: Problem| match &*problem.code {
        "no_suspension" => unknown_suspension(&info, args.suspension.as_deref()),
        _ => problem,
    };
    let target = answer_target(&info.suspensions, info.prompt.as_ref(), suspension, &answer);
    let target = target.map_err(|refusal| unknown(refusal.into()))?;
    let exchange = Exchange::start(context, &engine, &args.session_name, Asking::Never).await?;
    let answered = submit(&engine, &args.session_name, target, answer).await;
    exchange.finish(answered.map(|()| None)).await.map_err(unknown)
}

fn missing_answer(info: &Info) -> Problem {
    let waiting = waiting_lines(info);
    let hint = if waiting.is_empty() {
        "the session waits for nothing".to_owned()
    } else {
        waiting.join("\n")
    };
    Problem::wrong_use("wrong_use", "the answer is missing: give a choice or `--result ID=TEXT`")
        .hint(hint)
}

/// Names the suspension that was looked up, and those that are open.
fn unknown_suspension(info: &Info, text: Option<&str>) -> Problem {
    let ids: Vec<_> = info.suspensions.iter().map(|one| one.id.0).collect();
    let one = |(suspension, short): (&Suspension, String)| {
        format!("`{short}` ({})", suspension.awaited.kind.name())
    };
    let open: Vec<String> = info.suspensions.iter().zip(short_among(&ids)).map(one).collect();
    let session = session_argument(info);
    let hint = match open.as_slice() {
        [] => format!(
            "the session waits for nothing; show its messages with `ctx session show {session}`"
        ),
        open => format!(
            "open suspensions: {}; `ctx session show {session}` shows what they wait for",
            open.join(", ")
        ),
    };
    let message = match text {
        Some(text) => format!("suspension `{}` not found", visible_line(text, 80)),
        None => format!("there is nothing to answer: session `{session}` has no suspension"),
    };
    Problem::from(Refusal::NoSuspension).message(message).hint(hint)
}

async fn submit(
    engine: &Engine,
    session: &str,
    target: AnswerTarget,
    answer: Answer,
) -> Result<(), ctx_engine::Error> {
    match target {
        AnswerTarget::Suspension(id) => engine.runs().resume(session, id, answer).await.map(drop),
        AnswerTarget::Prompt(choice) => {
            engine.runs().answer_prompt(session, choice).await.map(drop)
        }
    }
}

fn parse_results(args: &Args) -> Result<Vec<CallResult>, Problem> {
    let one = |given: &String, is_error: bool| match given.split_once('=') {
        Some((id, content)) if !id.is_empty() => {
            Ok(CallResult { tool_call_id: id.to_owned(), content: content.to_owned(), is_error })
        }
        _ => Err(Problem::wrong_use(
            "wrong_use",
            format!("invalid tool result `{given}`: use ID=TEXT"),
        )),
    };
    let results = args.results.iter().map(|given| one(given, false));
    results.chain(args.errors.iter().map(|given| one(given, true))).collect()
}
