//! `ctx show ID`: show an object or a task with every id it refers to.

use std::collections::BTreeSet;
use std::io::IsTerminal;

use ctx_engine::core::id::{CommitId, ObjectId, TurnId};
use ctx_engine::core::object::{Kind, Object, ObjectError};
use ctx_engine::core::short_id::{HASH_DIGITS, SHORT_MIN, hash_beginning, ulid_beginning};
use ctx_engine::core::turn::Header;
use ctx_engine::{CommitQuery, Engine, Found, PAGE_MAX, Record};
use serde_json::{Value, json};

use crate::json::{object_json, task_json};
use crate::problem::Problem;

use super::output::{BOLD, DIM, plural, task_lines, visible_line, visible_text};
use super::session::transcript;
use super::{Context, commit_text};

/// Where ids are listed.
const LISTS: &str = "list the commits with `ctx log`, the turns of a session with \
                     `ctx session tree SESSION`, or find both with `ctx search WORDS`";

#[derive(clap::Args)]
pub(super) struct Args {
    /// Show the commit, step, turn, blob or task with this id (a unique beginning is enough);
    /// `HEAD` is the newest commit of the project, `HEAD~2` or `HEAD^^` the second before it
    id: String,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = context.engine()?;
    let found = match find(&engine, &args.id).await? {
        Record::Task(id) => {
            let task = engine.tasks().get(id).await?.ok_or_else(|| missing(&args.id))?;
            let document = || json!({"task": task_json::task(&task)});
            return context.out.print(document, || task_lines(&task, &context.out));
        }
        Record::Object(found) => found,
    };
    let object = engine.records().object(found.id).await?.ok_or_else(|| missing(&args.id))?;
    let mut shown = object_json::object(&object);
    if object.kind == Kind::Turn {
        shown["messages"] = turn_messages(&engine, &object).await?;
    }
    let refers_to = references(&shown["content"], found.id);
    shown["refers_to"] = json!(refers_to);
    if context.out.is_json() {
        return context.out.print(|| shown, String::new);
    }
    let mut lines = match object.kind {
        Kind::Blob => return print_blob(context, &object),
        Kind::Commit => {
            let commit = object.decode().map_err(|fault| unreadable(&object, &fault))?;
            commit_text::lines(context, &engine, CommitId(found.id), &commit).await?
        }
        Kind::Turn => {
            let turn = engine.messages().turn(TurnId(found.id)).await?;
            transcript::turn_text(context, &engine, &turn).await?
        }
        Kind::Step | Kind::TurnBody => object_lines(&shown, &object),
    };
    if !refers_to.is_empty() {
        lines.push(String::new());
        let refers = |id: &String| format!("{DIM}refers to {id}{DIM:#}");
        lines.extend(refers_to.iter().map(refers));
    }
    context.out.print_paged(|| json!(null), || lines)
}

/// In a pipe a blob is written byte for byte. A terminal gets its text.
fn print_blob(context: &Context, blob: &Object) -> Result<(), Problem> {
    if !std::io::stdout().is_terminal() {
        return context.out.print_raw(&blob.bytes);
    }
    let text = visible_text(&String::from_utf8_lossy(&blob.bytes));
    context.out.print_paged(|| json!(null), || text.lines().map(str::to_owned).collect())
}

fn object_lines(shown: &Value, object: &Object) -> Vec<String> {
    let mut lines = vec![format!(
        "{BOLD}{} {}{BOLD:#} {DIM}{}{DIM:#}",
        object.kind,
        object.id(),
        plural(object.bytes.len() as u64, "byte")
    )];
    lines.extend(format!("{:#}", shown["content"]).lines().map(visible_text));
    lines
}

fn unreadable(object: &Object, fault: &ObjectError) -> Problem {
    Problem::failed("damaged", format!("{} {}: {fault}", object.kind, object.id()))
}

async fn turn_messages(engine: &Engine, turn: &Object) -> Result<Value, Problem> {
    let header: Header = turn.decode().map_err(|fault| unreadable(turn, &fault))?;
    let body = engine.messages().turn_messages(TurnId(turn.id())).await?;
    Ok(body.map_or(json!({"purged": true, "count": header.messages.len()}), |messages| {
        json!(messages)
    }))
}

/// Every object id in the document except `own`.
fn references(value: &Value, own: ObjectId) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    collect_ids(value, &mut ids);
    ids.remove(&own.to_string());
    ids
}

fn collect_ids(value: &Value, ids: &mut BTreeSet<String>) {
    match value {
        Value::String(text) if text.parse::<ObjectId>().is_ok() => {
            ids.insert(text.clone());
        }
        Value::Array(items) => items.iter().for_each(|item| collect_ids(item, ids)),
        Value::Object(fields) => fields.values().for_each(|field| collect_ids(field, ids)),
        _ => {}
    }
}

/// The commit that `text` refers to: `HEAD`, a commit before it, or the beginning of an id.
pub(super) async fn resolve_commit(engine: &Engine, text: &str) -> Result<CommitId, Problem> {
    if let Some(back) = steps_before_head(text) {
        return commit_before_head(engine, text, back).await;
    }
    let list = "list the commits with `ctx log`";
    if hash_beginning(text).is_none() {
        return Err(invalid(text).hint(list));
    }
    let missing = || {
        Problem::failed("not_found", format!("commit `{}` not found", visible_line(text, 80)))
            .hint(list)
    };
    let found = engine.ids().commit(text).await?.ok_or_else(missing)?;
    // A complete id is not looked up.
    let object = engine.records().object(found.0).await?;
    object.filter(|object| object.kind == Kind::Commit).map(|_| found).ok_or_else(missing)
}

async fn find(engine: &Engine, text: &str) -> Result<Record, Problem> {
    if let Some(back) = steps_before_head(text) {
        let id = commit_before_head(engine, text, back).await?;
        return Ok(Record::Object(Found { id: id.0, kind: Kind::Commit }));
    }
    let is_id = hash_beginning(text).is_some() || ulid_beginning(text).is_some();
    let found = if is_id { engine.ids().record(text).await? } else { None };
    let is_stored = match found {
        // A complete id is not looked up.
        Some(Record::Task(id)) => engine.tasks().get(id).await?.is_some(),
        _ => true,
    };
    match found.filter(|_| is_stored) {
        Some(record) => Ok(record),
        None if engine.sessions().get(text).await.is_ok() => Err(is_session(text)),
        None if is_id => Err(missing(text)),
        None => Err(invalid(text)),
    }
}

/// How many commits before HEAD a text such as `HEAD~2` or `HEAD^` names; 0 for `HEAD`.
fn steps_before_head(text: &str) -> Option<usize> {
    let mut rest = text.strip_prefix("HEAD")?;
    let mut back = 0_usize;
    while let Some(mark) = rest.chars().next() {
        rest = &rest[mark.len_utf8()..];
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let steps = match mark {
            '~' if digits > 0 => rest[..digits].parse().ok()?,
            '^' if digits > 0 => return None,
            '~' | '^' => 1,
            _ => return None,
        };
        rest = &rest[digits..];
        back = back.checked_add(steps)?;
    }
    Some(back)
}

/// The commit of the project that is so many lines below the first one of `ctx log`.
async fn commit_before_head(engine: &Engine, text: &str, back: usize) -> Result<CommitId, Problem> {
    let (mut left, mut before) = (back, None);
    loop {
        let project = Some(engine.project().to_owned());
        let limit = left.saturating_add(1).min(PAGE_MAX);
        let query = CommitQuery { project, limit, before, ..CommitQuery::default() };
        let page = engine.records().commits(&query).await?;
        match page.get(left) {
            Some((id, _)) => return Ok(*id),
            None if page.len() == PAGE_MAX => {
                left -= PAGE_MAX;
                before = page.last().map(|(id, _)| *id);
            }
            None => return Err(no_commit_before(text, back - left + page.len())),
        }
    }
}

fn no_commit_before(text: &str, count: usize) -> Problem {
    let (why, hint) = match count {
        0 => ("the project has no commits yet".to_owned(), "seal a task with `ctx stage seal`"),
        count => {
            let count = plural(count as u64, "commit");
            (format!("the project has {count}"), "list the commits with `ctx log`")
        }
    };
    Problem::failed("not_found", format!("there is no {text}: {why}")).hint(hint)
}

fn invalid(text: &str) -> Problem {
    Problem::wrong_use(
        "bad_id",
        format!(
            "invalid id `{}`: an id has {HASH_DIGITS} hex digits, or 26 characters if it is a \
             task; the first ones are enough, at least {SHORT_MIN}",
            visible_line(text, 80)
        ),
    )
    .hint(LISTS)
}

fn missing(name: &str) -> Problem {
    let name = visible_line(name, 80);
    let message = format!("no commit, step, turn, blob or task has the id `{name}`");
    Problem::failed("not_found", message).hint(LISTS)
}

fn is_session(name: &str) -> Problem {
    let name = visible_line(name, 80);
    let message =
        format!("`{name}` is a session: `ctx show` takes a commit, step, turn, blob or task");
    Problem::wrong_use("bad_id", message)
        .hint(format!("show its messages with `ctx session show {name}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_before_head_are_counted() {
        let table = [
            ("HEAD", Some(0)),
            ("HEAD~", Some(1)),
            ("HEAD^", Some(1)),
            ("HEAD~3", Some(3)),
            ("HEAD~2^^", Some(4)),
            ("HEAD~0", Some(0)),
            ("HEAD^2", None),
            ("HEAD~x", None),
            ("HEADS", None),
            ("HEAD~99999999999999999999999", None),
            ("head", None),
        ];
        for (text, back) in table {
            assert_eq!(steps_before_head(text), back, "{text}");
        }
    }
}
