//! `ctx show ID`: one object or task, with every id it refers to.

use std::collections::BTreeSet;

use ctx_engine::core::id::{ObjectId, TaskId};
use ctx_engine::core::object::{Kind, Object};
use ctx_engine::core::turn::Header;
use ctx_engine::{Engine, Found};
use serde_json::{Value, json};

use crate::problem::Problem;
use crate::shape;

use super::Context;
use super::output::{BOLD, DIM, task_lines};

/// Fewer digits than this name too much.
const DIGITS_MIN: usize = 4;
/// So many are named when a beginning fits several.
const CANDIDATES_SHOWN: usize = 8;

#[derive(clap::Args)]
pub(super) struct Args {
    /// A commit, step, turn or blob by its hash or the beginning of it, or a task by its id
    id: String,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = context.engine()?;
    if let Ok(id) = args.id.parse::<TaskId>() {
        let task = engine.tasks().get(id).await?.ok_or_else(|| missing(&args.id))?;
        return context.out.say(|| json!({"task": shape::task(&task)}), || task_lines(&task));
    }
    let found = resolve(&engine, &args.id).await?;
    let object = engine.records().object(found.id).await?.ok_or_else(|| missing(&args.id))?;
    let mut shown = shape::object(&object);
    if object.kind == Kind::Turn {
        shown["messages"] = words_of(&engine, &object).await?;
    }
    let refers_to = references(&shown["content"], found.id);
    shown["refers_to"] = json!(refers_to);
    if object.kind == Kind::Blob && !context.out.is_json() {
        return context.out.raw(&object.bytes);
    }
    context.out.say(|| shown.clone(), || lines(&shown, &object, &refers_to))
}

fn lines(shown: &Value, object: &Object, refers_to: &BTreeSet<String>) -> String {
    let mut lines = format!(
        "{BOLD}{} {}{BOLD:#} {DIM}{} bytes{DIM:#}\n",
        object.kind,
        object.id(),
        object.bytes.len()
    );
    for part in ["content", "messages"] {
        if !shown[part].is_null() {
            lines.push_str(&format!("{:#}\n", shown[part]));
        }
    }
    let refers: Vec<String> =
        refers_to.iter().map(|id| format!("{DIM}refers to{DIM:#} {id}")).collect();
    lines.push_str(&refers.join("\n"));
    lines.trim_end().to_owned()
}

async fn words_of(engine: &Engine, turn: &Object) -> Result<Value, Problem> {
    let unreadable = |fault: ctx_engine::core::object::Fault| {
        Problem::failed("damaged", format!("turn {}: {fault}", turn.id()))
    };
    let header: Header = turn.decode().map_err(unreadable)?;
    let body = engine.messages().turn_messages(ctx_engine::core::id::TurnId(turn.id())).await?;
    Ok(body.map_or(json!({"purged": true, "count": header.messages.len()}), |messages| {
        json!(messages)
    }))
}

/// Every object id in a document but its own.
fn references(value: &Value, own: ObjectId) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    gather(value, &mut ids);
    ids.remove(&own.to_string());
    ids
}

fn gather(value: &Value, ids: &mut BTreeSet<String>) {
    match value {
        Value::String(text) if text.parse::<ObjectId>().is_ok() => {
            ids.insert(text.clone());
        }
        Value::Array(items) => items.iter().for_each(|item| gather(item, ids)),
        Value::Object(fields) => fields.values().for_each(|field| gather(field, ids)),
        _ => {}
    }
}

/// The one object whose id begins so.
pub(super) async fn resolve(engine: &Engine, digits: &str) -> Result<Found, Problem> {
    let digits = digits.to_lowercase();
    if !digits.bytes().all(|b| b.is_ascii_hexdigit())
        || digits.len() < DIGITS_MIN
        || digits.len() > 64
    {
        return Err(Problem::wrong_use("bad_id", format!("`{digits}` is not an id"))
            .hint("an object's id is 64 hex digits; the first few are enough, at least four"));
    }
    let mut found = engine.records().resolve(&digits, CANDIDATES_SHOWN).await?;
    match (found.len(), found.pop()) {
        (_, None) => Err(missing(&digits)),
        (1, Some(one)) => Ok(one),
        (_, Some(last)) => {
            let names: Vec<String> = found
                .iter()
                .chain([&last])
                .map(|found| format!("{} {}", found.kind, found.id.short()))
                .collect();
            Err(Problem::failed(
                "ambiguous",
                format!("`{digits}` begins several ids: {}", names.join(", ")),
            )
            .hint("give more digits"))
        }
    }
}

fn missing(name: &str) -> Problem {
    Problem::failed("not_found", format!("there is no object or task `{name}`"))
        .hint("`ctx log` and `ctx search` list ids")
}
