//! Rows of `usage_totals`: what turns used, by day, session, provider and model. Calls of tools are
//! counted with them (`tool_rows`).
//!
//! The rows are sums of `turns`. They are written in the transaction that inserts or deletes a
//! turn, so that a report reads a few rows instead of every turn.

use std::collections::{BTreeMap, BTreeSet};

use ctx_core::turn::Header;
use ctx_core::usage::{By, TALLY_VALUES, Tally, day_name, day_number};
use ctx_core::usage_query::UsageQuery;

use crate::driver::{Arg, Db, Row, Tx, args};
use crate::{Error, UsageKey, UsageRow};

use super::from_json;
use super::tool_rows::{self, ToolSums};

/// Longest name of a provider or model in a key, in characters.
const NAME_MAX_CHARS: usize = 200;

/// A turn was inserted or deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    Inserted,
    Deleted,
}

/// Adds a turn of a session to the sums, or subtracts it.
pub(crate) fn count(tx: &mut dyn Tx, session: i64, header: &str, turn: Turn) -> Result<(), Error> {
    let header: Header = from_json("the header of a turn", header)?;
    let key = Key::of(session, &header);
    let value = |value: u64| {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        if turn == Turn::Deleted { -value } else { value }
    };
    add(tx, &key, Tally::of(&header).values().map(value))?;
    if turn == Turn::Deleted {
        tx.execute(
            "DELETE FROM usage_totals
             WHERE day = ?1 AND session = ?2 AND provider_id = ?3 AND model = ?4 AND turns <= 0",
            &key.args(),
        )?;
    }
    tool_rows::count(tx, session, &header, turn)
}

/// The key of a row. An absent provider or model is empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    day: i64,
    session: i64,
    provider_id: String,
    model: String,
}

impl Key {
    fn of(session: i64, header: &Header) -> Self {
        Self {
            day: day_number(header.ended_at),
            session,
            provider_id: key_text(header.provider_id.as_deref()),
            model: key_text(header.model.as_deref()),
        }
    }

    fn args(&self) -> [Arg<'_>; 4] {
        [
            Arg::Int(self.day),
            Arg::Int(self.session),
            Arg::Text(&self.provider_id),
            Arg::Text(&self.model),
        ]
    }
}

/// A name as part of a key: an index holds no text of any length, and PostgreSQL no NUL.
pub(super) fn key_text(name: Option<&str>) -> String {
    name.unwrap_or_default().chars().filter(|c| *c != '\0').take(NAME_MAX_CHARS).collect()
}

fn add(tx: &mut dyn Tx, key: &Key, values: [i64; TALLY_VALUES]) -> Result<(), Error> {
    let args: Vec<Arg<'_>> = key.args().into_iter().chain(values.map(Arg::Int)).collect();
    tx.execute(
        "INSERT INTO usage_totals(
             day, session, provider_id, model, turns, answered, messages, tool_calls,
             duration_ms, input_tokens, input_turns, fresh_tokens, cached_tokens,
             cached_turns, output_tokens, output_turns, cost, cost_turns, unbilled_turns,
             unbilled_fresh, unbilled_cached, unbilled_output)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17,
             ?18, ?19, ?20, ?21, ?22)
         ON CONFLICT(day, session, provider_id, model) DO UPDATE
         SET turns = usage_totals.turns + ?5,
             answered = usage_totals.answered + ?6,
             messages = usage_totals.messages + ?7,
             tool_calls = usage_totals.tool_calls + ?8,
             duration_ms = usage_totals.duration_ms + ?9,
             input_tokens = usage_totals.input_tokens + ?10,
             input_turns = usage_totals.input_turns + ?11,
             fresh_tokens = usage_totals.fresh_tokens + ?12,
             cached_tokens = usage_totals.cached_tokens + ?13,
             cached_turns = usage_totals.cached_turns + ?14,
             output_tokens = usage_totals.output_tokens + ?15,
             output_turns = usage_totals.output_turns + ?16,
             cost = usage_totals.cost + ?17,
             cost_turns = usage_totals.cost_turns + ?18,
             unbilled_turns = usage_totals.unbilled_turns + ?19,
             unbilled_fresh = usage_totals.unbilled_fresh + ?20,
             unbilled_cached = usage_totals.unbilled_cached + ?21,
             unbilled_output = usage_totals.unbilled_output + ?22",
        &args,
    )?;
    Ok(())
}

/// The sums of all columns; `$more` comes before them.
macro_rules! select_sums {
    ($more:literal, $rest:literal) => {
        concat!(
            "SELECT ",
            $more,
            "u.provider_id, u.model,
            CAST(SUM(u.turns) AS BIGINT),
            CAST(SUM(u.answered) AS BIGINT),
            CAST(SUM(u.messages) AS BIGINT),
            CAST(SUM(u.tool_calls) AS BIGINT),
            CAST(SUM(u.duration_ms) AS BIGINT),
            CAST(SUM(u.input_tokens) AS BIGINT),
            CAST(SUM(u.input_turns) AS BIGINT),
            CAST(SUM(u.fresh_tokens) AS BIGINT),
            CAST(SUM(u.cached_tokens) AS BIGINT),
            CAST(SUM(u.cached_turns) AS BIGINT),
            CAST(SUM(u.output_tokens) AS BIGINT),
            CAST(SUM(u.output_turns) AS BIGINT),
            CAST(SUM(u.cost) AS BIGINT),
            CAST(SUM(u.cost_turns) AS BIGINT),
            CAST(SUM(u.unbilled_turns) AS BIGINT),
            CAST(SUM(u.unbilled_fresh) AS BIGINT),
            CAST(SUM(u.unbilled_cached) AS BIGINT),
            CAST(SUM(u.unbilled_output) AS BIGINT)
         FROM usage_totals u ",
            $rest
        )
    };
}

/// Number of columns of the keys that a statement selects before the sums.
const KEY_COLUMNS: usize = 5;

/// The sums of a query, by its keys and by provider and model.
pub(crate) fn list(db: &dyn Db, query: &UsageQuery) -> Result<Vec<UsageRow>, Error> {
    if query.counts_tools() {
        return tool_rows::list(db, query);
    }
    let sql = select_sums!(
        "CASE WHEN CAST(?1 AS BIGINT) = 1 THEN u.day END,
         CASE WHEN CAST(?2 AS BIGINT) = 1 THEN s.project END,
         CASE WHEN CAST(?3 AS BIGINT) = 1 THEN s.id END,
         CASE WHEN CAST(?3 AS BIGINT) = 1 THEN s.label END,
         CASE WHEN CAST(?3 AS BIGINT) = 1 THEN s.title END, ",
        "LEFT JOIN sessions s ON s.row = u.session
         WHERE u.day >= ?4 AND u.day <= ?5
           AND (CAST(?6 AS TEXT) IS NULL OR u.provider_id = ?6)
           AND (CAST(?7 AS TEXT) IS NULL OR u.model = ?7)
           AND (CAST(?8 AS TEXT) IS NULL OR s.project = ?8)
         GROUP BY 1, 2, 3, 4, 5, 6, 7"
    );
    let flag = |by: By| i64::from(query.has_key(by));
    let args = args![
        flag(By::Day),
        flag(By::Project),
        flag(By::Session),
        query.since.unwrap_or(i64::MIN),
        query.until.unwrap_or(i64::MAX),
        query.provider.as_ref(),
        query.model.as_ref(),
        query.project.as_ref(),
    ];
    db.rows(sql, args, |row| {
        let (provider_id, model, tally) = sums(row, KEY_COLUMNS)?;
        let key = |by: By| -> Result<UsageKey, Error> {
            Ok(match by {
                By::Day => UsageKey::Day(row.get(0)?),
                By::Model => UsageKey::Model(model.clone()),
                By::Provider => UsageKey::Provider(provider_id.clone()),
                By::Project => UsageKey::Project(row.get(1)?),
                By::Session => session_key(row, 2)?,
                // A query with this key counts tools.
                By::Tool => UsageKey::Tool(String::new()),
            })
        };
        let (first, second) = (key(query.by)?, query.second.map(key).transpose()?);
        Ok(UsageRow { key: first, second, provider_id, model, tally, failed_calls: None })
    })
}

/// The session in three columns: id, label and title. They are null if it was deleted.
pub(super) fn session_key(row: Row<'_>, at: usize) -> Result<UsageKey, Error> {
    Ok(match row.get::<Option<String>>(at)? {
        Some(id) => UsageKey::Session {
            id: super::from_id("a session's id", &id)?,
            label: row.get(at + 1)?,
            title: row.get(at + 2)?,
        },
        None => UsageKey::DeletedSession,
    })
}

/// The sums of a day, and those of a session.
pub(crate) fn of_scopes(
    db: &dyn Db,
    session: i64,
    day: i64,
) -> Result<(Vec<UsageRow>, Vec<UsageRow>), Error> {
    let read = |row: Row<'_>| {
        let (provider_id, model, tally) = sums(row, 0)?;
        let key = UsageKey::Provider(provider_id.clone());
        Ok(UsageRow { key, second: None, provider_id, model, tally, failed_calls: None })
    };
    let by_day = select_sums!("", "WHERE u.day = ?1 GROUP BY u.provider_id, u.model");
    let by_session = select_sums!("", "WHERE u.session = ?1 GROUP BY u.provider_id, u.model");
    Ok((db.rows(by_day, args![day], read)?, db.rows(by_session, args![session], read)?))
}

/// The days whose rows are not the sums of their turns.
pub(crate) fn wrong_days(db: &dyn Db) -> Result<Vec<String>, Error> {
    let ((counted, tools), stored) = (counted(db)?, stored(db)?);
    let differs = |key: &&Key| counted.get(*key) != stored.get(*key);
    let mut days: BTreeSet<i64> =
        counted.keys().chain(stored.keys()).filter(differs).map(|key| key.day).collect();
    let stored = tool_rows::stored(db)?;
    let keys = tools.keys().chain(stored.keys());
    days.extend(keys.filter(|key| tools.get(key) != stored.get(key)).map(|key| key.day));
    Ok(days.into_iter().map(day_name).collect())
}

/// Writes all rows again, from the turns.
pub(crate) fn rebuild(tx: &mut dyn Tx) -> Result<(), Error> {
    let (counted, tools) = counted(tx)?;
    tx.execute("DELETE FROM usage_totals", args![])?;
    for (key, values) in counted {
        add(tx, &key, values)?;
    }
    tool_rows::rebuild(tx, &tools)
}

type Sums = BTreeMap<Key, [i64; TALLY_VALUES]>;

/// The sums of all turns, and those of their calls of tools.
fn counted(db: &dyn Db) -> Result<(Sums, ToolSums), Error> {
    let (mut sums, mut tools) = (BTreeMap::<Key, Tally>::new(), ToolSums::new());
    db.query("SELECT session, header FROM turns", args![], &mut |row| {
        let header: Header = from_json("the header of a turn", row.get(1)?)?;
        *sums.entry(Key::of(row.get(0)?, &header)).or_default() += Tally::of(&header);
        tool_rows::add_turn(&mut tools, row.get(0)?, &header);
        Ok(())
    })?;
    let int = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let sums = sums.into_iter().map(|(key, sum)| (key, sum.values().map(int))).collect();
    Ok((sums, tools))
}

/// The rows as they are stored.
fn stored(db: &dyn Db) -> Result<Sums, Error> {
    let sql = select_sums!(
        "u.day, u.session, NULL, NULL, NULL, ",
        "GROUP BY u.day, u.session, u.provider_id, u.model"
    );
    let rows = db.rows(sql, args![], |row| {
        let key = Key {
            day: row.get(0)?,
            session: row.get(1)?,
            provider_id: row.get(KEY_COLUMNS)?,
            model: row.get(KEY_COLUMNS + 1)?,
        };
        let mut values = [0; TALLY_VALUES];
        for (n, value) in values.iter_mut().enumerate() {
            *value = row.get(KEY_COLUMNS + 2 + n)?;
        }
        Ok((key, values))
    })?;
    Ok(rows.into_iter().collect())
}

/// Provider, model and sums, from a column on.
#[allow(clippy::type_complexity, reason = "three columns of a row")]
fn sums(row: Row<'_>, at: usize) -> Result<(Option<String>, Option<String>, Tally), Error> {
    let text = |column: usize| -> Result<Option<String>, Error> {
        Ok(Some(row.get::<String>(column)?).filter(|text| !text.is_empty()))
    };
    let mut values = [0; TALLY_VALUES];
    for (n, value) in values.iter_mut().enumerate() {
        *value = row.get(at + 2 + n)?;
    }
    Ok((text(at)?, text(at + 1)?, Tally::from_values(values)))
}
