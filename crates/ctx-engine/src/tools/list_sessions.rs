//! `list_sessions`: the sessions of the store, and what their agents are doing.

use ctx_core::decide::AgentTool;
use ctx_core::id::SessionId;
use ctx_core::session::Status;
use ctx_core::time::Timestamp;
use ctx_store::SessionQuery;
use serde_json::{Value, json};

use super::ToolAnswer;
use super::definition::ParameterKind::{OptionalFlag, OptionalText};
use super::definition::{
    Effect, ToolDefinition, cursor_parameter, define, limit_parameter, parameter,
};
use super::parameters::{flag, limit, text};
use crate::engine::{Engine, Error};
use crate::sessions::Info;

pub(super) fn definition() -> ToolDefinition {
    let what = "List sessions (conversations with agents), those with the newest activity first: \
        what each is about, whether its agent is running, and its open task.";
    define(
        AgentTool::ListSessions,
        Effect::Reads,
        "List sessions",
        what,
        vec![
            parameter("query", "Text in the label, title or project", OptionalText),
            parameter("project", "Only sessions of this project", OptionalText),
            parameter("archived", "Whether archived sessions are listed too", OptionalFlag),
            limit_parameter(),
            cursor_parameter(),
        ],
    )
    .output(
        json!({
            "sessions": {"type": "array", "items": {"type": "object"}},
            "next_cursor": {"type": ["string", "null"]},
        }),
        &["sessions"],
    )
}

pub(super) async fn call(engine: &Engine, params: &Value) -> Result<ToolAnswer, Error> {
    let limit = limit(params);
    let after = match text(params, "cursor").map(parse_cursor) {
        Some(None) => {
            let why = "invalid parameter `cursor`: it must be the `next_cursor` of a page";
            return Ok(ToolAnswer::error(why));
        }
        after => after.flatten(),
    };
    let mut statuses = vec![Status::Active, Status::Suspended];
    if flag(params, "archived") {
        statuses.push(Status::Archived);
    }
    let query = SessionQuery {
        statuses,
        project: text(params, "project").map(str::to_owned),
        words: text(params, "query").map(str::to_owned),
        after,
        limit: limit + 1,
        ..SessionQuery::default()
    };
    let (mut infos, _) = engine.sessions().list(&query).await?;
    let more = infos.len() > limit;
    infos.truncate(limit);
    let next = infos
        .last()
        .filter(|_| more)
        .map(|info| format!("{}.{}", info.session.last_activity_at.0, info.session.id));
    let mut lines: Vec<String> = infos.iter().map(line).collect();
    if lines.is_empty() {
        lines.push("There is no such session.".to_owned());
    }
    if let Some(next) = &next {
        lines.push(format!("There are more: call again with cursor {next}."));
    }
    let sessions: Vec<Value> = infos.iter().map(document).collect();
    Ok(ToolAnswer::with(lines.join("\n"), json!({"sessions": sessions, "next_cursor": next})))
}

fn parse_cursor(cursor: &str) -> Option<(Timestamp, SessionId)> {
    let (at, id) = cursor.split_once('.')?;
    Some((Timestamp(at.parse().ok()?), id.parse().ok()?))
}

fn line(info: &Info) -> String {
    let session = &info.session;
    let title = session.title.as_deref().map(|title| format!(" \"{title}\"")).unwrap_or_default();
    let task = info.task.as_ref().map_or_else(String::new, |task| {
        format!("; task ({}): {}", task.state.name(), task.description)
    });
    format!(
        "{}{title} [{}]: {}, {} turns, last active {}{task}",
        session.label,
        session.id,
        json!(session.state).as_str().unwrap_or_default(),
        session.turn_count,
        session.last_activity_at,
    )
}

fn document(info: &Info) -> Value {
    let session = &info.session;
    let task = info.task.as_ref().map(
        |task| json!({"id": task.id, "description": task.description, "state": task.state.name()}),
    );
    json!({
        "id": session.id,
        "label": session.label,
        "title": session.title,
        "project": session.project,
        "state": session.state,
        "status": session.status,
        "turn_count": session.turn_count,
        "provider_id": session.provider_id,
        "model": session.model,
        "working_dir": session.working_dir,
        "task": task,
        "last_activity_at": session.last_activity_at.to_string(),
    })
}
