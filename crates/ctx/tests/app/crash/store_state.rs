//! The content of a store in a form that can be compared between runs: without times, and with
//! `new` for each id that the run created.

use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use crate::harness::repo::Repo;
use crate::harness::seed::seed;

/// A query for each table that a verb may write.
const ROWS: [(&str, &str); 8] = [
    (
        "sessions",
        "SELECT label, status, state, turn_count, task, seq, pending_prompt IS NOT NULL FROM \
         sessions ORDER BY row",
    ),
    (
        "tasks",
        "SELECT row, description, state, steps, ended_at IS NULL, \"commit\" IS NULL FROM tasks \
         ORDER BY row",
    ),
    ("steps", "SELECT task, seq, kind, files, notes, blobs FROM steps ORDER BY id"),
    ("commits", "SELECT task, project, commit_type FROM commits ORDER BY id"),
    ("blobs", "SELECT id, hex(hash), size FROM blobs ORDER BY id"),
    ("refs", "SELECT substr(name, 1, 5) FROM refs ORDER BY name"),
    ("events", "SELECT session, seq FROM events ORDER BY id"),
    ("turns", "SELECT COUNT(*) FROM turns"),
];

/// Opens the database next to ctx. It takes part in SQLite's locks and does not checkpoint on
/// close.
pub(crate) fn open(store: &Path) -> Connection {
    let database = store.join("ctx.db");
    let connection = Connection::open_with_flags(&database, OpenFlags::SQLITE_OPEN_READ_WRITE)
        .unwrap_or_else(|e| panic!("seed {}: {} does not open: {e}", seed(), database.display()));
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        .expect("a setting of SQLite");
    connection.busy_timeout(std::time::Duration::from_secs(10)).expect("a setting of SQLite");
    connection
}

/// Every row of a query, as text.
pub(crate) fn rows(connection: &Connection, sql: &str) -> Vec<Vec<String>> {
    let text = |value: ValueRef<'_>| match value {
        ValueRef::Null => "-".to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(text) | ValueRef::Blob(text) => String::from_utf8_lossy(text).into_owned(),
    };
    let read = || -> rusqlite::Result<Vec<Vec<String>>> {
        let mut statement = connection.prepare(sql)?;
        let columns = statement.column_count();
        let rows = statement
            .query_map([], |row| (0..columns).map(|at| row.get_ref(at).map(text)).collect())?;
        rows.collect()
    };
    read().unwrap_or_else(|e| panic!("seed {}: `{sql}`: {e}", seed()))
}

/// The state of the task and the commits as ctx prints them, and the rows of the database.
pub(crate) fn read(repo: &Repo, beside: Option<&Connection>) -> Value {
    let status = repo.ok(["stage", "status"]);
    let log = repo.ok(["log"]);
    let own = beside.is_none().then(|| open(&repo.data()));
    let connection = beside.or(own.as_ref()).expect("one of the two");
    let rows: serde_json::Map<_, _> =
        ROWS.iter().map(|(name, sql)| ((*name).to_owned(), json!(rows(connection, sql)))).collect();
    json!({"status": status, "commits": log["commits"], "rows": rows})
}

/// The ids in a state.
pub(crate) fn ids(value: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    collect(value, &mut found);
    found
}

fn collect(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::String(text) if is_id(text) => {
            found.insert(text.clone());
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| collect(field, found)),
        _ => {}
    }
}

/// The state without what differs between two runs of one verb: times, and ids that are not
/// `known`.
pub(crate) fn normalize(value: &Value, known: &BTreeSet<String>) -> Value {
    match value {
        Value::String(text) if is_id(text) && !known.contains(text) => json!("new"),
        Value::String(text) => json!(without_asked_at(text)),
        Value::Array(items) => items.iter().map(|item| normalize(item, known)).collect(),
        Value::Object(fields) => {
            let timeless = |key: &str| {
                !(key.ends_with("_at")
                    || ["idle_seconds", "idle_duration_secs", "stale"].contains(&key))
            };
            fields
                .iter()
                .filter(|(key, _)| timeless(key))
                .map(|(key, field)| (key.clone(), normalize(field, known)))
                .collect()
        }
        other => other.clone(),
    }
}

/// A ULID, or a hash in hex.
fn is_id(text: &str) -> bool {
    let ulid =
        text.len() == 26 && text.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
    let hash = text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    ulid || hash
}

/// The state of a task is a JSON column; its time is removed as well.
fn without_asked_at(text: &str) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(mut fields)) if fields.contains_key("asked_at") => {
            fields.remove("asked_at");
            Value::Object(fields).to_string()
        }
        _ => text.to_owned(),
    }
}

/// Asserts the invariants of the rows: at most one open task, and one commit for each ended task.
pub(crate) fn assert_consistent(connection: &Connection, here: &str) {
    let bad = [
        (
            "more than one open task",
            "SELECT COUNT(*) FROM tasks WHERE ended_at IS NULL HAVING COUNT(*) > 1",
        ),
        ("a task with two commits", "SELECT task FROM commits GROUP BY task HAVING COUNT(*) > 1"),
        (
            "an open task with a commit",
            "SELECT id FROM tasks WHERE ended_at IS NULL AND row IN (SELECT task FROM commits)",
        ),
        (
            "an ended task without its commit",
            "SELECT id FROM tasks WHERE ended_at IS NOT NULL AND row NOT IN (SELECT task FROM \
             commits)",
        ),
        ("steps of no task", "SELECT id FROM steps WHERE task NOT IN (SELECT row FROM tasks)"),
        (
            "a task that lost steps",
            "SELECT row FROM tasks WHERE steps <> (SELECT COUNT(*) FROM steps WHERE task = \
             tasks.row)",
        ),
    ];
    for (what, sql) in bad {
        let found = rows(connection, sql);
        assert!(found.is_empty(), "{here}: {what}: {found:?}");
    }
}
