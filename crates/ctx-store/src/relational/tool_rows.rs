//! Rows of `tool_totals`: calls of tools, by day, session and tool.
//!
//! The rows are sums of `turns`, written in the transaction that inserts or deletes a turn.

use std::collections::BTreeMap;

use ctx_core::message::ToolStatus;
use ctx_core::turn::Header;
use ctx_core::usage::{Bill, By, day_number};
use ctx_core::usage_query::UsageQuery;

use crate::driver::{Db, Row, Tx, args};
use crate::{Error, UsageKey, UsageRow};

use super::usage_rows::{Turn, key_text, session_key};

/// The key of a row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ToolKey {
    pub(super) day: i64,
    session: i64,
    tool: String,
}

/// Turns, calls and failed calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ToolSum {
    turns: i64,
    calls: i64,
    failed: i64,
}

pub(super) type ToolSums = BTreeMap<ToolKey, ToolSum>;

/// The calls of one turn.
fn of_turn(session: i64, header: &Header) -> ToolSums {
    let mut sums = ToolSums::new();
    for call in &header.tool_calls {
        let (day, tool) = (day_number(header.ended_at), key_text(Some(&call.name)));
        let sum = sums.entry(ToolKey { day, session, tool }).or_default();
        sum.turns = 1;
        sum.calls += 1;
        sum.failed += i64::from(call.status == ToolStatus::Failed);
    }
    sums
}

/// Adds the calls of one turn to sums.
pub(super) fn add_turn(sums: &mut ToolSums, session: i64, header: &Header) {
    for (key, more) in of_turn(session, header) {
        let sum = sums.entry(key).or_default();
        sum.turns += more.turns;
        sum.calls += more.calls;
        sum.failed += more.failed;
    }
}

/// Adds the calls of a turn to the rows, or subtracts them.
pub(super) fn count(
    tx: &mut dyn Tx,
    session: i64,
    header: &Header,
    turn: Turn,
) -> Result<(), Error> {
    for (key, sum) in of_turn(session, header) {
        match turn {
            Turn::Inserted => add(tx, &key, sum)?,
            Turn::Deleted => {
                let ToolSum { turns, calls, failed } = sum;
                add(tx, &key, ToolSum { turns: -turns, calls: -calls, failed: -failed })?;
                tx.execute(
                    "DELETE FROM tool_totals
                     WHERE day = ?1 AND session = ?2 AND tool = ?3 AND turns <= 0",
                    args![key.day, key.session, &key.tool],
                )?;
            }
        }
    }
    Ok(())
}

fn add(tx: &mut dyn Tx, key: &ToolKey, sum: ToolSum) -> Result<(), Error> {
    tx.execute(
        "INSERT INTO tool_totals(day, session, tool, turns, calls, failed)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT(day, session, tool) DO UPDATE
         SET turns = tool_totals.turns + ?4,
             calls = tool_totals.calls + ?5,
             failed = tool_totals.failed + ?6",
        args![key.day, key.session, &key.tool, sum.turns, sum.calls, sum.failed],
    )?;
    Ok(())
}

/// The sums of a query that counts tools, by its keys.
pub(super) fn list(db: &dyn Db, query: &UsageQuery) -> Result<Vec<UsageRow>, Error> {
    let flag = |by: By| i64::from(query.has_key(by));
    let args = args![
        flag(By::Day),
        flag(By::Project),
        flag(By::Session),
        flag(By::Tool),
        query.since.unwrap_or(i64::MIN),
        query.until.unwrap_or(i64::MAX),
        query.project.as_ref(),
        query.tool.as_ref(),
    ];
    db.rows(
        "SELECT CASE WHEN CAST(?1 AS BIGINT) = 1 THEN u.day END,
             CASE WHEN CAST(?2 AS BIGINT) = 1 THEN s.project END,
             CASE WHEN CAST(?3 AS BIGINT) = 1 THEN s.id END,
             CASE WHEN CAST(?3 AS BIGINT) = 1 THEN s.label END,
             CASE WHEN CAST(?3 AS BIGINT) = 1 THEN s.title END,
             CASE WHEN CAST(?4 AS BIGINT) = 1 THEN u.tool END,
             CAST(SUM(u.turns) AS BIGINT),
             CAST(SUM(u.calls) AS BIGINT),
             CAST(SUM(u.failed) AS BIGINT)
         FROM tool_totals u LEFT JOIN sessions s ON s.row = u.session
         WHERE u.day >= ?5 AND u.day <= ?6
           AND (CAST(?7 AS TEXT) IS NULL OR s.project = ?7)
           AND (CAST(?8 AS TEXT) IS NULL OR u.tool = ?8)
         GROUP BY 1, 2, 3, 4, 5, 6",
        args,
        |row| {
            let bill = Bill::of_tools(row.get(6)?, row.get(7)?, row.get(8)?);
            Ok(UsageRow {
                key: key(query.by, row)?,
                second: query.second.map(|by| key(by, row)).transpose()?,
                provider_id: None,
                model: None,
                tally: bill.tally,
                failed_calls: bill.failed_calls,
            })
        },
    )
}

fn key(by: By, row: Row<'_>) -> Result<UsageKey, Error> {
    Ok(match by {
        By::Day => UsageKey::Day(row.get(0)?),
        By::Project => UsageKey::Project(row.get(1)?),
        By::Session => session_key(row, 2)?,
        By::Tool => UsageKey::Tool(row.get(5)?),
        // `UsageQuery::check` refuses them.
        By::Model => UsageKey::Model(None),
        By::Provider => UsageKey::Provider(None),
    })
}

/// Writes all rows again.
pub(super) fn rebuild(tx: &mut dyn Tx, sums: &ToolSums) -> Result<(), Error> {
    tx.execute("DELETE FROM tool_totals", args![])?;
    sums.iter().try_for_each(|(key, sum)| add(tx, key, *sum))
}

/// The rows as they are stored.
pub(super) fn stored(db: &dyn Db) -> Result<ToolSums, Error> {
    let rows = db.rows(
        "SELECT day, session, tool, turns, calls, failed FROM tool_totals",
        args![],
        |row| {
            let key = ToolKey { day: row.get(0)?, session: row.get(1)?, tool: row.get(2)? };
            let (turns, calls, failed) = (row.get(3)?, row.get(4)?, row.get(5)?);
            Ok((key, ToolSum { turns, calls, failed }))
        },
    )?;
    Ok(rows.into_iter().collect())
}
