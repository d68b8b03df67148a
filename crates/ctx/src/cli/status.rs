//! `ctx status`: show the project, its open task and its sessions.

use ctx_engine::CommitQuery;
use ctx_engine::core::text_limits::one_line;
use serde_json::{Value, json};

use crate::json;
use crate::json::{commit_json, task_json};
use crate::problem::Problem;

use super::output::{BOLD, DIM, commit_line, task_lines};
use super::stage::idle_line;
use super::{Context, session_status};

const SESSIONS_SHOWN: usize = 10;

#[derive(clap::Args)]
pub(super) struct Args {}

pub(super) async fn run(context: &Context, _: &Args) -> Result<(), Problem> {
    let engine = context.engine()?;
    let head = engine
        .records()
        .commits(&CommitQuery {
            project: Some(engine.project().to_owned()),
            limit: 1,
            ..CommitQuery::default()
        })
        .await?
        .pop();
    let store = context.store_name(&context.config()?)?;
    let sessions = engine.sessions().newest(SESSIONS_SHOWN).await?;
    // A selected session that does not exist is not an error here: the output lists those that do.
    let status = session_status(context, &engine).await?.unwrap_or_default();
    let (task, prompt) = (status.task.as_ref(), status.prompt.as_ref());
    let document = || {
        let session = |s: &ctx_engine::core::session::Session| -> Value {
            json!({
                "id": s.id,
                "label": s.label,
                "status": s.status,
                "state": s.state,
                "turn_count": s.turn_count,
                "last_activity_at": json::time(s.last_activity_at),
            })
        };
        json!({
            "data": context.data,
            "store": store,
            "project": engine.project(),
            "head": head.as_ref().map(|(id, commit)| commit_json::commit(*id, commit)),
            "task": task.map(task_json::task),
            "pending_prompt": prompt.map(task_json::prompt),
            "sessions": sessions.iter().map(session).collect::<Vec<_>>(),
        })
    };
    let lines = || {
        let mut lines = format!("{BOLD}{}{BOLD:#} {DIM}{}{DIM:#}\n\n", engine.project(), store);
        match task {
            Some(task) => {
                lines.push_str(&format!("{}\n{}\n", task_lines(task), idle_line(&status)));
            }
            None => lines.push_str("No task is open. Start one with `ctx stage start TASK`.\n"),
        }
        if let Some(prompt) = prompt {
            lines.push_str(&format!("\n{}\n", prompt.text));
        }
        lines.push('\n');
        lines.push_str(&head.as_ref().map_or_else(
            || "No commits yet.".to_owned(),
            |(id, commit)| format!("HEAD {}", commit_line(*id, commit)),
        ));
        let others = sessions.iter().filter(|session| session.label != context.session);
        for session in others {
            lines.push_str(&format!(
                "\n{DIM}session {} · {} turns{DIM:#}",
                one_line(&session.label, 60),
                session.turn_count
            ));
        }
        lines
    };
    context.out.print(document, lines)
}
