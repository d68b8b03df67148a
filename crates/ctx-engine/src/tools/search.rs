//! `search`: past work, with its outcome.

use ctx_core::decide::AgentTool;
use serde_json::{Value, json};

use super::ToolAnswer;
use super::definition::ParameterKind::{OptionalChoice, OptionalText, Text};
use super::definition::{
    Effect, ToolDefinition, cursor_parameter, define, limit_parameter, parameter,
};
use super::parameters::{limit, required, text};
use crate::engine::{Engine, Error};
use crate::past_work::{PastWork, PastWorkQuery};

/// The outcomes of work: the types of commits, and work that is not sealed.
const OUTCOMES: &[&str] =
    &["normal", "abandoned", "stale_auto_compact", "interrupted_by_new_task", "open"];

pub(super) fn definition() -> ToolDefinition {
    let what = "Search past work: what users and agents wrote, notes, tools, files and the \
        messages of commits. Each hit names its session, turn, task, commit and outcome, so that \
        abandoned work is told apart from finished work.";
    let query = "Words that must all occur, \"phrases\", prefix*, -not, and filters such as \
        tool:NAME, file:PATH, role:user, after:7d";
    let outcome = "Only work with this outcome: `normal` is confirmed by the user, `abandoned` was \
        given up, `open` is not finished";
    define(
        AgentTool::Search,
        Effect::Reads,
        "Search past work",
        what,
        vec![
            parameter("query", query, Text),
            parameter("outcome", outcome, OptionalChoice(OUTCOMES)),
            parameter("session", "Only in this session, by id or label", OptionalText),
            parameter("project", "Only in this project", OptionalText),
            limit_parameter(),
            cursor_parameter(),
        ],
    )
    .output(
        json!({
            "hits": {"type": "array", "items": {"type": "object"}},
            "next_cursor": {"type": ["string", "null"]},
        }),
        &["hits"],
    )
}

pub(super) async fn call(engine: &Engine, params: &Value) -> Result<ToolAnswer, Error> {
    let session = match text(params, "session") {
        Some(name) => Some(engine.sessions().get(name).await?.session.id),
        None => None,
    };
    let owned = |name| text(params, name).map(str::to_owned);
    let page = engine
        .records()
        .past_work(&PastWorkQuery {
            words: required(params, "query").to_owned(),
            outcome: owned("outcome"),
            session,
            project: owned("project"),
            cursor: owned("cursor"),
            limit: limit(params),
        })
        .await?;
    let next = page.next;
    let mut lines: Vec<String> = page.found.iter().map(line).collect();
    if lines.is_empty() {
        lines.push("Nothing was found.".to_owned());
        if !page.suggestions.is_empty() {
            lines.push(format!("Nearest words: {}.", page.suggestions.join(", ")));
        }
    }
    if let Some(next) = &next {
        lines.push(format!("There are more: call again with cursor {next}."));
    }
    let hits: Vec<Value> = page.found.iter().map(document).collect();
    Ok(ToolAnswer::with(lines.join("\n"), json!({"hits": hits, "next_cursor": next})))
}

fn line(work: &PastWork) -> String {
    let session = work.session_title.as_deref().or(work.session_label.as_deref());
    let session = session.unwrap_or("deleted session");
    let outcome = work.outcome.map(|outcome| format!(" [{outcome}]")).unwrap_or_default();
    let turn = work.turn.map(|id| format!(" turn {}", id.0.short())).unwrap_or_default();
    let commit = work.task.as_ref().and_then(|task| task.commit);
    let commit = commit.map(|id| format!(" commit {}", id.0.short())).unwrap_or_default();
    let task = work.task.as_ref().map(|task| format!(" task {}", task.id)).unwrap_or_default();
    format!("- {session}{outcome}{turn}{commit}{task} {}: {}", work.at, work.snippet)
}

fn document(work: &PastWork) -> Value {
    let task = work.task.as_ref();
    json!({
        "kind": if work.turn.is_some() { "turn" } else { "task" },
        "session": work.session,
        "session_label": work.session_label,
        "session_title": work.session_title,
        "project": work.project,
        "turn": work.turn,
        "task": task.map(|task| task.id),
        "description": task.map(|task| &task.description),
        "commit": task.and_then(|task| task.commit),
        "outcome": work.outcome,
        "at": work.at.to_string(),
        "snippet": work.snippet,
    })
}
