//! `ctx session cancel`: cancel the run, whichever process owns it. Waiting messages stay in the
//! inbox; this verb does not run them.

use ctx_engine::Info;
use ctx_engine::core::session::Activity;
use ctx_engine::core::suspension::Kind;
use serde_json::json;

use crate::json::session_json::Session;
use crate::problem::Problem;

use super::super::Context;
use super::super::output::{plural, visible_line};
use super::engine_without_runs;
use super::transcript::session_argument;

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Select the session by label, id or short id
    #[arg(value_name = "SESSION")]
    session_name: String,
    /// Cancel the runs of its workers too
    #[arg(long)]
    workers: bool,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = engine_without_runs(context).await?;
    let before = engine.sessions().get(&args.session_name).await?;
    let info = if args.workers {
        engine.runs().cancel_with_workers(&args.session_name).await?
    } else {
        engine.runs().cancel(&args.session_name).await?
    };
    let (name, text) = effect(&before);
    let session = session_argument(&info);
    context.out.print(
        || json!({"session": Session::from(&info), "cancelled": name}),
        || {
            let mut lines = vec![format!("{text} Session {session} is idle.")];
            if !info.inbox.is_empty() {
                let waiting = plural(info.inbox.len() as u64, "message");
                lines.push(format!("{waiting} waiting: `ctx session inbox {session}`."));
            }
            lines.join("\n")
        },
    )
}

/// What the cancellation ended, as a name and a sentence.
fn effect(before: &Info) -> (&'static str, String) {
    match (before.session.state, &before.run) {
        (Activity::Suspended, _) => {
            let awaited = before.suspensions.first().map(|suspension| suspension.awaited.kind);
            let what = match awaited {
                Some(Kind::Permission) => "the permission request",
                Some(Kind::Question) => "the question",
                Some(Kind::ToolResult) => "the tool calls",
                Some(Kind::Event) | None => "what the session waited for",
            };
            ("suspension", format!("Released {what}; the turn is stored as cancelled."))
        }
        (Activity::Running, Some(run)) => {
            let provider = visible_line(&run.provider_id, 60);
            ("run", format!("Cancelled the run of {provider}; its output so far is stored."))
        }
        _ => ("nothing", "Nothing was running.".to_owned()),
    }
}
