//! `ctx status`: show the project, its open tasks and all sessions of the directory.

use std::path::Path;

use ctx_engine::core::commit::Commit;
use ctx_engine::core::id::CommitId;
use ctx_engine::{CommitQuery, Info, PAGE_MAX, Status};
use serde_json::{Value, json};

use crate::json;
use crate::json::{commit_json, task_json};
use crate::markdown::{cut, text_width};
use crate::problem::Problem;

use super::output::{
    BOLD, DIM, Output, commit_line, more_line, plural, state_line, task_lines, visible_line,
    visible_text,
};
use super::session::transcript::session_argument;
use super::session::{list, sessions_here};
use super::stage::idle_line;
use super::{Context, init, session_status};

/// Sessions that the table shows.
const SESSIONS_SHOWN: usize = 20;

#[derive(clap::Args)]
pub(super) struct Args {}

pub(super) async fn run(context: &Context, _: &Args) -> Result<(), Problem> {
    let Some(engine) = context.engine_if_recorded()? else {
        let store = context.store_name(&context.config()?)?;
        let project = init::project_name(Path::new("."));
        return context.print_nothing_recorded(|| {
            let mut document = document(context, &project, &store, None, &Status::default(), &[]);
            document["search"] = json!({"lag": 0});
            document
        });
    };
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
    let mut sessions = sessions_here(context, &engine, PAGE_MAX).await?;
    engine.sessions().as_recovered(&mut sessions).await?;
    // A selected session that does not exist is not an error here: the output lists those that do.
    let status = session_status(context, &engine).await?.unwrap_or_default();
    // A store that cannot be written has no index to be behind.
    let lag = engine.records().search_lag().await.unwrap_or(0);
    if context.out.is_json() {
        let mut document =
            document(context, engine.project(), &store, head.as_ref(), &status, &sessions);
        document["search"] = json!({"lag": lag});
        return context.out.print(|| document, String::new);
    }
    let project = visible_line(engine.project(), 80);
    let heading = format!("{BOLD}{project}{BOLD:#} {DIM}{store}{DIM:#}");
    let mut lines = vec![context.out.fit(&heading), String::new()];
    let own = context.session_in(&engine);
    let others: Vec<Info> = sessions
        .into_iter()
        .filter(|info| info.session.turn_count > 0 || info.session.label != own)
        .collect();
    let tasks_of_others = task_section(&others, &own, &context.out);
    match &status.task {
        Some(task) => {
            lines.push(task_lines(task, &context.out));
            lines.push(idle_line(&status));
        }
        None if tasks_of_others.is_empty() => {
            lines.push("No task is open. Start one with `ctx stage start TASK`.".to_owned());
        }
        None => {}
    }
    if let Some(prompt) = &status.prompt {
        lines.extend([String::new(), visible_text(&prompt.text)]);
    }
    if lines.last().is_some_and(|line| !line.is_empty()) {
        lines.push(String::new());
    }
    lines.extend(tasks_of_others);
    lines.push(head.as_ref().map_or_else(
        || "No commits yet.".to_owned(),
        |(id, commit)| context.out.fit(&format!("HEAD {}", commit_line(*id, commit, &context.out))),
    ));
    if !others.is_empty() {
        let shown = &others[..others.len().min(SESSIONS_SHOWN)];
        lines.push(String::new());
        lines.extend(list::sessions(context, &engine, shown).await?.1);
        let more = (others.len() - shown.len()) as u64;
        if more > 0 {
            lines.push(more_line(more, "session", "list them with `ctx session list`"));
        }
    }
    if lag > 0 {
        lines.push(format!("{DIM}search: {} not indexed yet{DIM:#}", plural(lag, "row")));
    }
    context.out.print_paged(|| json!(null), || lines)
}

/// The open tasks of the sessions other than `own`.
fn task_section(others: &[Info], own: &str, out: &Output) -> Vec<String> {
    let mut lines = Vec::new();
    for info in others.iter().filter(|info| info.session.label != own) {
        let Some(task) = info.task.as_ref().filter(|task| task.commit.is_none()) else { continue };
        let (place, mut description) =
            (format!("in {}", session_argument(info)), visible_line(&task.description, 100));
        if let Some(width) = out.width() {
            description = cut(&description, width.saturating_sub(text_width(&place) + 1));
        }
        lines.push(format!("{BOLD}{description}{BOLD:#} {DIM}{place}{DIM:#}"));
        lines.push(state_line(&task.state));
        lines.push(String::new());
    }
    lines
}

fn document(
    context: &Context,
    project: &str,
    store: &str,
    head: Option<&(CommitId, Commit)>,
    status: &Status,
    sessions: &[Info],
) -> Value {
    let session = |info: &Info| -> Value {
        let row = &info.session;
        json!({
            "id": row.id,
            "label": row.label,
            "title": row.title,
            "status": row.status,
            "state": row.state,
            "turn_count": row.turn_count,
            "task": info.task.as_ref().map(task_json::task),
            "pending_prompt": info.prompt.as_ref().map(task_json::prompt),
            "last_activity_at": json::time(row.last_activity_at),
        })
    };
    json!({
        "data": context.data,
        "store": store,
        "project": project,
        "head": head.map(|(id, commit)| commit_json::commit(*id, commit)),
        "task": status.task.as_ref().map(task_json::task),
        "pending_prompt": status.prompt.as_ref().map(task_json::prompt),
        "sessions": sessions.iter().map(session).collect::<Vec<_>>(),
    })
}
