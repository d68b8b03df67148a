//! The tables that a copy of a store consists of: their columns, and what the columns refer to.
//!
//! A copied row gets a number of the target. So a column that holds the number of another row is
//! written with the number that this row has in the target. Tables are listed in the order in which
//! they are copied: a row comes after the rows that it refers to, except for [`Column::Later`].

use std::sync::LazyLock;

use crate::driver::Table;

/// Tables whose rows are referred to by their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Numbered {
    Sessions,
    Turns,
    Moves,
    Tasks,
    Steps,
    Events,
    Blobs,
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    Int,
    Text,
    Bytes,
    /// The number of the row itself.
    Number,
    /// The row that this one belongs to. Without it, the row is not copied.
    Owner(Numbered),
    /// The session that made a turn. It may be one that the target had before.
    Maker,
    /// A row that is copied before.
    Row(Numbered),
    /// A row that is copied after. The column is written at the end.
    Later(Numbered),
    /// A JSON list of blob rows.
    Blobs,
    /// A JSON list of events, in which turns are given by their rows.
    Events,
    /// The label of a session, which may have another one in the target.
    Label,
}

/// How a row is inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Insert {
    /// Under the next number of all sessions, deleted ones included.
    Session,
    /// With its body.
    Object(Table),
    /// Under the next number.
    Numbered,
    /// Under its own key, unless the target has that key.
    Keyed,
}

/// A table of which every row is copied.
pub(crate) struct CopiedTable {
    pub(crate) name: &'static str,
    /// The numbers that its rows get are those of this table.
    pub(crate) numbers: Option<Numbered>,
    pub(crate) insert: Insert,
    pub(crate) columns: Vec<(&'static str, Column)>,
    /// Selects `columns`, and then the place of an object's body.
    pub(crate) select_sql: &'static str,
    /// Its parameters are `columns` without [`Column::Number`].
    pub(crate) insert_sql: &'static str,
    pub(crate) count_sql: &'static str,
}

/// Tables that a copy leaves out: those of the database itself, what is derived from other rows,
/// and what belongs to the processes of a store.
#[cfg(test)]
const LEFT_OUT: [&str; 12] = [
    "meta",
    // Written with each copied turn.
    "usage_totals",
    "tool_totals",
    "bodies",
    "erasures",
    "nodes",
    "lanes",
    "forgotten",
    "search_documents",
    "search_words",
    "forgotten_words",
    // An agent's conversation would belong to two sessions: the one here and the copy.
    "agent_sessions",
];

/// The copied tables, in order.
pub(crate) static TABLES: LazyLock<Vec<CopiedTable>> = LazyLock::new(|| {
    use Column::{Blobs, Bytes, Events, Int, Label, Later, Maker, Number, Owner, Row, Text};
    use Numbered as N;
    let keyed = |name, columns: &[_]| table(name, None, Insert::Keyed, columns);
    let numbered = |name, numbers, columns: &[_]| table(name, numbers, Insert::Numbered, columns);
    let object =
        |of: Table, numbers, columns: &[_]| table(of.name(), numbers, Insert::Object(of), columns);
    vec![
        keyed(
            "entities",
            &[
                ("id", Text),
                ("kind", Text),
                ("name", Text),
                ("relationship", Text),
                ("owner", Int),
                ("merged_into", Text),
                ("created_at", Int),
            ],
        ),
        keyed(
            "identities",
            &[
                ("key", Text),
                ("channel", Text),
                ("account_id", Text),
                ("sender_id", Text),
                ("entity", Text),
                ("verified", Int),
                ("linked_at", Int),
            ],
        ),
        keyed(
            "tokens",
            &[("id", Text), ("hash", Bytes), ("name", Text), ("scope", Text), ("created_at", Int)],
        ),
        keyed("schedules", &[("name", Text), ("seen_at", Int), ("last_tick", Int)]),
        keyed(
            "idempotency",
            &[
                ("scope", Text),
                ("key", Text),
                ("request_hash", Bytes),
                ("answer", Text),
                ("created_at", Int),
            ],
        ),
        table(
            "sessions",
            Some(N::Sessions),
            Insert::Session,
            &[
                ("row", Number),
                ("id", Text),
                ("label", Text),
                ("state", Text),
                ("owner", Text),
                ("title", Text),
                ("project", Text),
                ("working_dir", Text),
                ("status", Text),
                ("turn_count", Int),
                ("last_run", Text),
                ("persona", Text),
                ("provider_id", Text),
                ("model", Text),
                ("origin", Text),
                ("options", Text),
                ("routing_key", Text),
                ("entity", Text),
                ("policy", Text),
                ("merged_into", Text),
                ("tool_rights", Text),
                ("envelope", Text),
                ("delivery", Text),
                ("track_tasks", Int),
                ("parent_session_label", Text),
                ("parent_turn_id", Text),
                ("spawn_tool_call_id", Text),
                ("unreported", Int),
                ("pending_prompt", Text),
                ("fence", Int),
                ("seq", Int),
                ("created_at", Int),
                ("updated_at", Int),
                ("last_activity_at", Int),
                ("head", Later(N::Turns)),
                ("base", Later(N::Turns)),
                ("last_move", Later(N::Moves)),
                ("last_event", Later(N::Events)),
                ("task", Later(N::Tasks)),
            ],
        ),
        table(
            "deleted_sessions",
            Some(N::Sessions),
            Insert::Session,
            &[("row", Number), ("id", Text), ("label", Text), ("deleted_at", Int)],
        ),
        object(
            Table::Blobs,
            Some(N::Blobs),
            &[("id", Number), ("hash", Bytes), ("version", Int), ("created_at", Int)],
        ),
        object(
            Table::Turns,
            Some(N::Turns),
            &[
                ("id", Number),
                ("hash", Bytes),
                ("version", Int),
                ("session", Maker),
                ("parent", Row(N::Turns)),
                ("skip", Row(N::Turns)),
                ("depth", Int),
                ("header", Text),
                ("blobs", Blobs),
                ("body_version", Int),
            ],
        ),
        keyed(
            "compactions",
            &[
                ("turn_id", Owner(N::Turns)),
                ("summary", Text),
                ("summarized_through_turn_id", Text),
                ("first_kept_turn_id", Text),
                ("turns_summarized", Int),
                ("compaction_type", Text),
                ("model", Text),
                ("provider", Text),
                ("tokens_before", Int),
                ("tokens_after", Int),
                ("summary_tokens", Int),
                ("summarization_input_tokens", Int),
                ("summarization_output_tokens", Int),
                ("duration_ms", Int),
                ("\"trigger\"", Text),
                ("metadata_json", Text),
            ],
        ),
        numbered(
            "session_history",
            Some(N::Moves),
            &[
                ("id", Number),
                ("session", Owner(N::Sessions)),
                ("prev", Row(N::Moves)),
                ("turn", Row(N::Turns)),
                ("changed_at", Int),
            ],
        ),
        keyed(
            "pins",
            &[
                ("session", Owner(N::Sessions)),
                ("turn", Row(N::Turns)),
                ("tokens", Int),
                ("pinned_at", Int),
            ],
        ),
        keyed("purging", &[("turn", Owner(N::Turns))]),
        numbered(
            "tasks",
            Some(N::Tasks),
            &[
                ("row", Number),
                ("id", Text),
                ("session", Owner(N::Sessions)),
                ("description", Text),
                ("state", Text),
                ("progress", Text),
                ("steps", Int),
                ("head", Later(N::Steps)),
                ("base", Bytes),
                ("base_turn", Bytes),
                ("started_at", Int),
                ("last_activity_at", Int),
                ("ended_at", Int),
                ("\"commit\"", Bytes),
            ],
        ),
        object(
            Table::Steps,
            Some(N::Steps),
            &[
                ("id", Number),
                ("hash", Bytes),
                ("version", Int),
                ("task", Owner(N::Tasks)),
                ("seq", Int),
                ("parent", Row(N::Steps)),
                ("kind", Text),
                ("files", Text),
                ("notes", Int),
                ("at", Int),
                ("blobs", Blobs),
            ],
        ),
        object(
            Table::Commits,
            None,
            &[
                ("id", Number),
                ("hash", Bytes),
                ("version", Int),
                ("task", Owner(N::Tasks)),
                ("project", Text),
                ("commit_type", Text),
                ("created_at", Int),
            ],
        ),
        keyed("refs", &[("name", Text), ("target", Text), ("moved_at", Int)]),
        keyed(
            "session_aliases",
            &[("alias", Text), ("session_label", Label), ("created_at", Int), ("reason", Text)],
        ),
        keyed(
            "inbox",
            &[
                ("session", Owner(N::Sessions)),
                ("message_id", Text),
                ("position", Int),
                ("mode", Text),
                ("source", Text),
                ("content", Text),
                ("intent", Text),
                ("overrides", Text),
                ("state", Text),
                ("enqueued_at", Int),
            ],
        ),
        keyed(
            "runs",
            &[
                ("run_id", Text),
                ("session", Owner(N::Sessions)),
                ("prev", Text),
                ("fence", Int),
                ("phase", Text),
                ("provider_id", Text),
                ("model", Text),
                ("can_steer", Int),
                ("cancel", Text),
                ("tools", Text),
                ("task_effect", Text),
                ("deferred", Text),
                ("turn_started_at", Int),
                ("started_at", Int),
                ("ended_at", Int),
                ("outcome", Text),
                ("recoveries", Int),
                ("tool_rights", Text),
                ("replies", Text),
            ],
        ),
        keyed("drafts", &[("session", Owner(N::Sessions)), ("id", Int), ("entry", Text)]),
        keyed(
            "suspensions",
            &[
                ("id", Text),
                ("session", Owner(N::Sessions)),
                ("run", Text),
                ("awaited", Text),
                ("created_at", Int),
                ("consumed_at", Int),
                ("answer", Text),
            ],
        ),
        numbered(
            "events",
            Some(N::Events),
            &[
                ("id", Number),
                ("session", Owner(N::Sessions)),
                ("prev", Row(N::Events)),
                ("seq", Int),
                ("at", Int),
                ("events", Events),
            ],
        ),
        keyed(
            "history_keys",
            &[
                ("scope", Text),
                ("key", Text),
                ("message_id", Text),
                ("session", Owner(N::Sessions)),
                ("created_at", Int),
            ],
        ),
        numbered(
            "outbox",
            None,
            &[
                ("row", Number),
                ("id", Text),
                ("session", Owner(N::Sessions)),
                ("kind", Text),
                ("channel", Text),
                ("recipient", Text),
                ("address", Text),
                ("body", Text),
                ("status", Text),
                ("attempts", Int),
                ("next_attempt_at", Int),
                ("last_error", Text),
                ("created_at", Int),
                ("delivered_at", Int),
            ],
        ),
    ]
});

/// Columns that a copy leaves to the target: places of bodies, the process that delivers a row, and
/// what the database computes.
#[cfg(test)]
const OWN_COLUMNS: [&str; 7] =
    ["seg", "off", "len", "packing", "size", "claimed_by", "active_hour"];

fn table(
    name: &'static str,
    numbers: Option<Numbered>,
    insert: Insert,
    columns: &[(&'static str, Column)],
) -> CopiedTable {
    const NEXT_SESSION: &str = "1 + (SELECT MAX(row) FROM (
         SELECT COALESCE(MAX(row), 0) AS row FROM sessions
         UNION ALL SELECT COALESCE(MAX(row), 0) FROM deleted_sessions) AS used)";
    const PLACE: [&str; 5] = ["seg", "off", "len", "packing", "size"];
    let is_object = matches!(insert, Insert::Object(_));
    let place = if is_object { PLACE.as_slice() } else { &[] };
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).chain(place.to_vec()).collect();
    let written: Vec<&str> = columns
        .iter()
        .filter(|(_, column)| *column != Column::Number)
        .map(|(name, _)| *name)
        .chain(place.to_vec())
        .collect();
    let values: Vec<String> = (1..=written.len()).map(|n| format!("?{n}")).collect();
    let (first, number) = match insert {
        Insert::Session => ("row, ", format!("{NEXT_SESSION}, ")),
        _ => ("", String::new()),
    };
    let conflict = if insert == Insert::Keyed { " ON CONFLICT DO NOTHING" } else { "" };
    let key = columns.iter().find(|(_, column)| *column == Column::Number);
    let order = key.map(|(name, _)| format!(" ORDER BY {name}")).unwrap_or_default();
    CopiedTable {
        name,
        numbers,
        insert,
        columns: columns.to_vec(),
        select_sql: kept(format!("SELECT {} FROM {name}{order}", names.join(", "))),
        insert_sql: kept(format!(
            "INSERT INTO {name}({first}{}) VALUES ({number}{}){conflict}",
            written.join(", "),
            values.join(", ")
        )),
        count_sql: kept(format!("SELECT COUNT(*) FROM {name}")),
    }
}

/// A statement is a static text. [`TABLES`] is made once, so this is bounded.
fn kept(sql: String) -> &'static str {
    Box::leak(sql.into_boxed_str())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Tables and columns of a schema.
    fn schema(sql: &str) -> Vec<(String, BTreeSet<String>)> {
        let sql: String = sql
            .lines()
            .map(|line| line.split("--").next().unwrap_or_default())
            .collect::<Vec<_>>()
            .join(" ");
        let tables = sql.split("CREATE TABLE ").skip(1);
        tables
            .map(|rest| {
                let (name, rest) = rest.split_once(" (").expect("columns");
                let (mut depth, mut parts) = (0, vec![String::new()]);
                for c in rest.chars() {
                    depth += i32::from(c == '(') - i32::from(c == ')');
                    match c {
                        ')' if depth < 0 => break,
                        ',' if depth == 0 => parts.push(String::new()),
                        c => parts.last_mut().expect("one").push(c),
                    }
                }
                let is_column = |word: &&str| !["PRIMARY", "UNIQUE", "CHECK"].contains(word);
                let column = |part: &String| {
                    part.split_whitespace().next().filter(is_column).map(str::to_owned)
                };
                (name.to_owned(), parts.iter().filter_map(column).collect())
            })
            .collect()
    }

    #[test]
    fn every_table_and_column_is_copied_or_left_out_on_purpose() {
        for sql in [
            include_str!("../sqlite/migrations/0001_first.sql"),
            include_str!("../postgres/migrations/0001_first.sql"),
        ] {
            let schema = schema(sql);
            assert!(schema.len() > 25, "{}", schema.len());
            for (name, columns) in schema {
                let Some(table) = TABLES.iter().find(|table| table.name == name) else {
                    assert!(LEFT_OUT.contains(&&*name), "the table {name} is not copied");
                    continue;
                };
                let known = table.columns.iter().map(|(name, _)| *name).chain(OWN_COLUMNS);
                let known: BTreeSet<String> = known.map(str::to_owned).collect();
                let missed: Vec<_> = columns.difference(&known).collect();
                assert!(missed.is_empty(), "columns of {name} that are not copied: {missed:?}");
            }
        }
    }
}
