//! `ctx show ID`: show an object or a task with every id it refers to.

use std::collections::BTreeSet;
use std::io::IsTerminal;

use ctx_engine::core::id::{CommitId, ObjectId, TurnId};
use ctx_engine::core::object::{Kind, Object, ObjectError};
use ctx_engine::core::short_id::{HASH_DIGITS, SHORT_MIN, hash_beginning, ulid_beginning};
use ctx_engine::core::turn::Header;
use ctx_engine::{CommitQuery, Engine, Found, Record};
use serde_json::{Value, json};

use crate::json::{object_json, task_json};
use crate::problem::Problem;

use super::output::{BOLD, DIM, plural, task_lines, visible_line, visible_text};
use super::session::transcript;
use super::{Context, commit_text};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Show the commit, step, turn, blob or task with this id (a unique beginning is enough);
    /// `HEAD` is the newest commit of the project
    id: String,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = context.engine()?;
    let found = match find(&engine, &args.id).await? {
        Record::Task(id) => {
            let task = engine.tasks().get(id).await?.ok_or_else(|| missing(&args.id))?;
            let document = || json!({"task": task_json::task(&task)});
            return context.out.print(document, || task_lines(&task));
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

/// Finds the object that `text` refers to by its id or the beginning of its id.
pub(super) async fn resolve(engine: &Engine, text: &str) -> Result<Found, Problem> {
    if hash_beginning(text).is_none() {
        return Err(invalid(text));
    }
    engine.ids().object(text).await?.ok_or_else(|| missing(text))
}

async fn find(engine: &Engine, text: &str) -> Result<Record, Problem> {
    if text == "HEAD" {
        let project = Some(engine.project().to_owned());
        let query = CommitQuery { project, limit: 1, ..CommitQuery::default() };
        let newest = engine.records().commits(&query).await?.pop();
        let (id, _) = newest.ok_or_else(|| {
            Problem::failed("not_found", "there is no HEAD: the project has no commits yet")
                .hint("seal a task with `ctx stage seal`")
        })?;
        return Ok(Record::Object(Found { id: id.0, kind: Kind::Commit }));
    }
    if hash_beginning(text).is_none() && ulid_beginning(text).is_none() {
        return Err(invalid(text));
    }
    engine.ids().record(text).await?.ok_or_else(|| missing(text))
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
}

fn missing(name: &str) -> Problem {
    Problem::failed("not_found", format!("no object or task has the id `{name}`"))
        .hint("find ids with `ctx log` or `ctx search`")
}
