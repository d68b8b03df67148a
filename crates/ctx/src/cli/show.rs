//! `ctx show ID`: show an object or a task with every id it refers to.

use std::collections::BTreeSet;

use ctx_engine::core::id::{ObjectId, TaskId};
use ctx_engine::core::object::{Kind, Object};
use ctx_engine::core::turn::Header;
use ctx_engine::{Engine, Found};
use serde_json::{Value, json};

use crate::json::{object_json, task_json};
use crate::problem::Problem;

use super::Context;
use super::output::{BOLD, DIM, task_lines};

/// Minimum length of an abbreviated id.
const ID_PREFIX_MIN: usize = 4;
/// Number of candidates in the error about an ambiguous id.
const CANDIDATES_SHOWN: usize = 8;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Show the commit, step, turn or blob with this id (a unique prefix is enough), or the task
    /// with this full id
    id: String,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = context.engine()?;
    if let Ok(id) = args.id.parse::<TaskId>() {
        let task = engine.tasks().get(id).await?.ok_or_else(|| missing(&args.id))?;
        return context.out.print(|| json!({"task": task_json::task(&task)}), || task_lines(&task));
    }
    let found = resolve(&engine, &args.id).await?;
    let object = engine.records().object(found.id).await?.ok_or_else(|| missing(&args.id))?;
    let mut shown = object_json::object(&object);
    if object.kind == Kind::Turn {
        shown["messages"] = turn_messages(&engine, &object).await?;
    }
    let refers_to = references(&shown["content"], found.id);
    shown["refers_to"] = json!(refers_to);
    if object.kind == Kind::Blob && !context.out.is_json() {
        return context.out.print_raw(&object.bytes);
    }
    context.out.print(|| shown.clone(), || lines(&shown, &object, &refers_to))
}

fn lines(shown: &Value, object: &Object, refers_to: &BTreeSet<String>) -> String {
    let mut lines = format!(
        "{BOLD}{} {}{BOLD:#} {DIM}{} bytes{DIM:#}\n",
        object.kind,
        object.id(),
        object.bytes.len()
    );
    for field in ["content", "messages"] {
        if !shown[field].is_null() {
            lines.push_str(&format!("{:#}\n", shown[field]));
        }
    }
    let refers: Vec<String> =
        refers_to.iter().map(|id| format!("{DIM}refers to{DIM:#} {id}")).collect();
    lines.push_str(&refers.join("\n"));
    lines.trim_end().to_owned()
}

async fn turn_messages(engine: &Engine, turn: &Object) -> Result<Value, Problem> {
    let unreadable = |fault: ctx_engine::core::object::ObjectError| {
        Problem::failed("damaged", format!("turn {}: {fault}", turn.id()))
    };
    let header: Header = turn.decode().map_err(unreadable)?;
    let body = engine.messages().turn_messages(ctx_engine::core::id::TurnId(turn.id())).await?;
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

/// Finds the object whose id starts with `digits`. An ambiguous prefix is an error.
pub(super) async fn resolve(engine: &Engine, digits: &str) -> Result<Found, Problem> {
    let digits = digits.to_lowercase();
    if !digits.bytes().all(|b| b.is_ascii_hexdigit())
        || digits.len() < ID_PREFIX_MIN
        || digits.len() > 64
    {
        return Err(Problem::wrong_use(
            "bad_id",
            format!(
                "invalid id `{digits}`: an id has 64 hex digits; a unique prefix of at least \
                 {ID_PREFIX_MIN} is enough"
            ),
        ));
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
                format!("ambiguous id `{digits}`: it matches {}", names.join(", ")),
            )
            .hint("use more digits of the id"))
        }
    }
}

fn missing(name: &str) -> Problem {
    Problem::failed("not_found", format!("no object or task has the id `{name}`"))
        .hint("find ids with `ctx log` or `ctx search`")
}
