//! Rows of the lists: sessions, models, branches, search results; and the files for `@`.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use ctx_engine::core::id::{SessionId, TurnId};
use ctx_engine::core::session::{Activity, Status};
use ctx_engine::core::text_limits::one_line;
use ctx_engine::core::time::Span;
use ctx_engine::{Engine, Error, Info, SearchRequest, SessionQuery, TreeTurn};

use super::picker::{Choice, Row};
use super::state::ProviderChoice;
use super::transcript::text_of;

/// Rows of a list.
const ROWS_MAX: usize = 200;
const HITS_MAX: usize = 50;
/// Turns of the tree.
const TURNS_MAX: usize = 400;
const TEXT_CHARS: usize = 120;
/// Files that can be completed.
const FILES_MAX: usize = 20_000;
/// How long `git` may take to list the files.
const GIT_TIMEOUT: Duration = Duration::from_secs(5);
/// Directories that are left out where there is no git repository.
const SKIPPED_DIRS: [&str; 4] = ["target", "node_modules", "dist", "venv"];

/// Sessions by last activity, and the row of the current one.
pub(super) async fn sessions(
    engine: &Engine,
    current: Option<SessionId>,
) -> Result<(Vec<Row>, usize), Error> {
    let query = SessionQuery {
        statuses: vec![Status::Active, Status::Suspended],
        ..SessionQuery::newest(ROWS_MAX)
    };
    let (infos, _) = engine.sessions().list(&query).await?;
    let shown: Vec<&Info> = infos.iter().filter(|info| !info.session.is_worker()).collect();
    let selected = shown.iter().position(|info| Some(info.session.id) == current);
    let first = Row {
        text: "New conversation".to_owned(),
        detail: String::new(),
        choice: Choice::NewSession,
    };
    let rows = shown.iter().map(|info| session_row(engine, info));
    Ok((Some(first).into_iter().chain(rows).collect(), selected.map_or(0, |at| at + 1)))
}

fn session_row(engine: &Engine, info: &Info) -> Row {
    let row = &info.session;
    let state = match row.state {
        Activity::Running => "running · ",
        Activity::Suspended => "waiting for you · ",
        Activity::Idle if info.prompt.is_some() => "waiting for you · ",
        Activity::Idle => "",
    };
    let dir = row.working_dir.as_deref().and_then(|dir| Path::new(dir).file_name());
    let dir = dir.map_or_else(String::new, |name| format!("{} · ", name.to_string_lossy()));
    let ago = ago(engine.now().since(row.last_activity_at));
    let text = row.title.clone().unwrap_or_else(|| row.label.clone());
    Row {
        text: one_line(&text, TEXT_CHARS),
        detail: format!("{state}{dir}{ago}"),
        choice: Choice::Session(row.id),
    }
}

/// A time span, rounded down to its largest unit.
fn ago(span: Span) -> String {
    let seconds = span.seconds();
    match seconds {
        0..60 => "now".to_owned(),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86_400 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

/// The providers and their models.
pub(super) fn models(engine: &Engine) -> Vec<Row> {
    let mut rows = Vec::new();
    for provider in provider_choices(engine) {
        let detail = match (&provider.unavailable, &provider.model) {
            (Some(why), _) => format!("not available: {why}"),
            (None, Some(model)) => format!("default model {model}"),
            (None, None) => String::new(),
        };
        let name = &provider.name;
        let choice = Choice::Model { provider: name.clone(), model: None };
        rows.push(Row { text: name.clone(), detail, choice });
        for model in &provider.models {
            rows.push(Row {
                text: format!("{name}/{model}"),
                detail: String::new(),
                choice: Choice::Model { provider: name.clone(), model: Some(model.clone()) },
            });
        }
    }
    rows
}

pub(super) fn provider_choices(engine: &Engine) -> Vec<ProviderChoice> {
    let choice =
        |(name, provider): (&String, &std::sync::Arc<dyn ctx_engine::provider::Provider>)| {
            let about = provider.about();
            ProviderChoice {
                name: name.clone(),
                model: about.model,
                models: about.models,
                unavailable: about.unavailable,
            }
        };
    engine.providers().all.iter().map(choice).collect()
}

pub(super) async fn search(engine: &Engine, words: &str) -> Result<Vec<Row>, Error> {
    let page = engine.records().search(&SearchRequest::new(words, HITS_MAX)).await?;
    let mut rows = Vec::new();
    for hit in page.hits {
        let title = hit.session_title.as_ref().or(hit.session_label.as_ref());
        let title = title.map_or(hit.kind.name(), String::as_str);
        let ago = ago(engine.now().since(hit.at));
        let detail = format!("{} · {ago}", one_line(title, 40));
        let turn = hit.turn;
        let choice = hit.session.map(|session| Choice::Hit { session, turn });
        let choice = choice.unwrap_or(Choice::Nothing);
        rows.push(Row { text: one_line(&hit.text(), TEXT_CHARS), detail, choice });
    }
    Ok(rows)
}

/// The tree of turns with its branches, and the row of the session's head.
pub(super) async fn tree(engine: &Engine, session: &str) -> Result<(Vec<Row>, usize), Error> {
    let turns = engine.sessions().tree(session, TURNS_MAX).await?;
    let info = engine.sessions().get(session).await?;
    let mut rows = Vec::new();
    for (prefix, turn) in drawn_tree(&turns) {
        let messages = engine.messages().turn_messages(turn.id).await?.unwrap_or_default();
        let text = messages.first().map_or_else(|| "(purged)".to_owned(), text_of);
        let is_here = Some(turn.id) == info.session.head;
        let here = if is_here { "this conversation" } else { "" };
        let other = turn.heads.iter().find(|label| **label != info.session.label);
        let head = other.filter(|_| !is_here).cloned();
        let detail = head.as_ref().map_or(here.to_owned(), |label| format!("head of {label}"));
        rows.push(Row {
            text: format!("{prefix}{}", one_line(&text, TEXT_CHARS)),
            detail,
            choice: Choice::Branch { turn: turn.id, head },
        });
    }
    let selected = rows.iter().position(|row| row.detail == "this conversation");
    Ok((rows, selected.unwrap_or(0)))
}

/// The turns from the root on, with the lines of the branches before each. Only a turn with several
/// children indents them.
fn drawn_tree(turns: &[TreeTurn]) -> Vec<(String, &TreeTurn)> {
    let known: HashSet<TurnId> = turns.iter().map(|turn| turn.id).collect();
    let mut children: HashMap<Option<TurnId>, Vec<&TreeTurn>> = HashMap::new();
    for turn in turns {
        children.entry(turn.parent.filter(|parent| known.contains(parent))).or_default().push(turn);
    }
    let branches = |parent: Option<TurnId>, rest: &str| {
        let below = children.get(&parent).cloned().unwrap_or_default();
        let count = below.len();
        let prefixes = |n: usize| match (count, n + 1 == count) {
            (1, _) => (rest.to_owned(), rest.to_owned()),
            (_, true) => (format!("{rest}└─ "), format!("{rest}   ")),
            (_, false) => (format!("{rest}├─ "), format!("{rest}│  ")),
        };
        let stack: Vec<_> =
            below.into_iter().enumerate().rev().map(|(n, turn)| (turn, prefixes(n))).collect();
        stack
    };
    let mut rows = Vec::new();
    let mut stack = branches(None, "");
    while let Some((turn, (prefix, rest))) = stack.pop() {
        rows.push((prefix, turn));
        stack.extend(branches(Some(turn.id), &rest));
    }
    rows
}

/// Files below a directory: those of the git repository, else those that are found.
pub(super) async fn files(dir: &str) -> Vec<String> {
    let git = tokio::process::Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(dir)
        .stdin(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .kill_on_drop(true)
        .output();
    if let Ok(Ok(listed)) = tokio::time::timeout(GIT_TIMEOUT, git).await
        && listed.status.success()
    {
        let names = String::from_utf8_lossy(&listed.stdout);
        let files = names.split('\0').filter(|name| !name.is_empty());
        return files.take(FILES_MAX).map(str::to_owned).collect();
    }
    let root = dir.to_owned();
    tokio::task::spawn_blocking(move || found_files(Path::new(&root))).await.unwrap_or_default()
}

fn found_files(root: &Path) -> Vec<String> {
    let (mut files, mut dirs) = (Vec::new(), vec![root.to_owned()]);
    while let Some(dir) = dirs.pop() {
        let Ok(entries) = std::fs::read_dir(&dir) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Ok(kind) = entry.file_type() else { continue };
            if name.starts_with('.') || files.len() >= FILES_MAX {
                continue;
            }
            if kind.is_dir() && !SKIPPED_DIRS.contains(&name.as_str()) {
                dirs.push(entry.path());
            } else if kind.is_file()
                && let Ok(path) = entry.path().strip_prefix(root)
            {
                files.push(path.to_string_lossy().into_owned());
            }
        }
    }
    files
}
