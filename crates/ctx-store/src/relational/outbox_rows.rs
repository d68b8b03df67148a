//! Rows of `outbox`: what goes to channels, and how far its delivery is.

use ctx_core::id::{NodeId, OutgoingId};
use ctx_core::outbox::{DELIVERED_KEPT, Outgoing, Settlement, Status};
use ctx_core::time::{Span, Timestamp};

use crate::driver::{Db, Row, Tx, args, limit_arg};
use crate::{Error, OutboxQuery, PAGE_MAX, StoredOutgoing};

use super::{from_id, from_json, from_name, not_found, to_json, to_name};

/// Rows that one transaction deletes at most.
const DELETE_MAX: usize = 1000;

/// Inserts a row of a session.
pub(crate) fn insert(tx: &mut dyn Tx, session: i64, new: &Outgoing) -> Result<(), Error> {
    tx.insert(
        "INSERT INTO outbox(id, session, kind, channel, recipient, address, body, status, attempts,
             next_attempt_at, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        args![
            &new.id.to_string(),
            session,
            &to_name(&new.kind)?,
            &new.to.channel,
            &new.to.key(),
            &to_json(&new.to)?,
            &to_json(&new.body)?,
            new.status.name(),
            new.attempts,
            new.next_attempt_at,
            new.created_at,
        ],
    )?;
    Ok(())
}

macro_rules! select_outgoing {
    ($rest:literal) => {
        concat!(
            "SELECT o.row, o.id, s.id, s.label, o.kind, o.address, o.body, o.status, o.attempts,
                    o.next_attempt_at, o.claimed_by, o.last_error, o.created_at, o.delivered_at
             FROM outbox o JOIN sessions s ON s.row = o.session ",
            $rest
        )
    };
}

fn outgoing(row: Row<'_>) -> Result<StoredOutgoing, Error> {
    let outgoing = Outgoing {
        id: from_id("a delivery's id", row.get(1)?)?,
        session: from_id("a session's id", row.get(2)?)?,
        label: row.get(3)?,
        kind: from_name("a delivery's kind", row.get(4)?)?,
        to: from_json("a delivery's recipient", row.get(5)?)?,
        body: from_json("a delivery's body", row.get(6)?)?,
        status: from_name("a delivery's status", row.get(7)?)?,
        attempts: row.get(8)?,
        next_attempt_at: row.get(9)?,
        claimed_by: row
            .get::<Option<&str>>(10)?
            .map(|node| from_id("a delivery's process", node))
            .transpose()?,
        last_error: row.get(11)?,
        created_at: row.get(12)?,
        delivered_at: row.get(13)?,
    };
    Ok(StoredOutgoing { row: row.get(0)?, outgoing })
}

/// A page of rows, newest first.
pub(crate) fn list(db: &dyn Db, query: &OutboxQuery) -> Result<Vec<StoredOutgoing>, Error> {
    let session = match query.session {
        Some(id) => {
            let sql = "SELECT row FROM sessions WHERE id = ?1";
            let row = db.int(sql, args![&id.to_string()])?;
            Some(row.ok_or_else(|| not_found("session", id))?)
        }
        None => None,
    };
    // The delivered rows are by far the most: the other lists have indexes of their own.
    let sql = match (query.status, session) {
        (Some(Status::Pending), _) => select_outgoing!(
            "WHERE o.status = 'pending' AND (?1 IS NULL OR o.status = ?1)
               AND (?2 IS NULL OR o.channel = ?2) AND (?3 IS NULL OR o.session = ?3)
               AND (?4 IS NULL OR o.row < ?4) ORDER BY o.row DESC LIMIT ?5"
        ),
        (Some(Status::Dead), _) => select_outgoing!(
            "WHERE o.status = 'dead' AND (?1 IS NULL OR o.status = ?1)
               AND (?2 IS NULL OR o.channel = ?2) AND (?3 IS NULL OR o.session = ?3)
               AND (?4 IS NULL OR o.row < ?4) ORDER BY o.row DESC LIMIT ?5"
        ),
        (_, Some(_)) => select_outgoing!(
            "WHERE (?1 IS NULL OR o.status = ?1)
               AND (?2 IS NULL OR o.channel = ?2) AND o.session = ?3
               AND (?4 IS NULL OR o.row < ?4) ORDER BY o.row DESC LIMIT ?5"
        ),
        (_, None) => select_outgoing!(
            "WHERE (?1 IS NULL OR o.status = ?1)
               AND (?2 IS NULL OR o.channel = ?2) AND (?3 IS NULL OR o.session = ?3)
               AND (?4 IS NULL OR o.row < ?4) ORDER BY o.row DESC LIMIT ?5"
        ),
    };
    let limit = limit_arg(query.limit.min(PAGE_MAX + 1));
    let status = query.status.map(Status::name);
    db.rows(sql, args![status, query.channel.as_ref(), session, query.before, limit], outgoing)
}

pub(crate) fn by_id(db: &dyn Db, id: OutgoingId) -> Result<Option<StoredOutgoing>, Error> {
    db.row(select_outgoing!("WHERE o.id = ?1"), args![&id.to_string()], outgoing)
}

/// Whether there is anything for [`claim`] to claim.
pub(crate) fn is_due(db: &dyn Db, channels: &[String], now: Timestamp) -> Result<bool, Error> {
    db.is_true(
        "SELECT EXISTS (
             SELECT 1 FROM outbox o
             WHERE o.status = 'pending' AND o.channel IN LIST(?1) AND o.next_attempt_at <= ?2
               AND NOT EXISTS (SELECT 1 FROM outbox p WHERE p.status = 'pending'
                                 AND p.recipient = o.recipient AND p.row < o.row))",
        args![channels, now],
    )
}

/// Claims due rows of channels for a process: of each recipient only the oldest row that is not
/// delivered, so that the rows of a conversation stay in order.
pub(crate) fn claim(
    tx: &mut dyn Tx,
    channels: &[String],
    node: NodeId,
    lease: Span,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<Outgoing>, Error> {
    let db: &dyn Db = tx;
    let due = db.rows(
        select_outgoing!(
            "WHERE o.status = 'pending' AND o.channel IN LIST(?1) AND o.next_attempt_at <= ?2
               AND NOT EXISTS (SELECT 1 FROM outbox p WHERE p.status = 'pending'
                                 AND p.recipient = o.recipient AND p.row < o.row)
             ORDER BY o.next_attempt_at, o.row LIMIT ?3"
        ),
        args![channels, now, limit_arg(limit)],
        outgoing,
    )?;
    let mut claimed = Vec::with_capacity(due.len());
    for found in due {
        let outgoing = found.outgoing.claimed(node, lease, now);
        update(tx, found.row, &outgoing)?;
        claimed.push(outgoing);
    }
    Ok(claimed)
}

/// Stores how a delivery ended, and returns the row. `None` if its session was deleted.
pub(crate) fn settle(
    tx: &mut dyn Tx,
    id: OutgoingId,
    attempt: u64,
    settlement: &Settlement,
    now: Timestamp,
) -> Result<Option<Outgoing>, Error> {
    let Some(found) = by_id(tx, id)? else { return Ok(None) };
    let outgoing = found.outgoing.settled(attempt, settlement, now);
    update(tx, found.row, &outgoing)?;
    Ok(Some(outgoing))
}

/// Makes a dead row due.
///
/// # Errors
/// If there is no such row, or it is not dead.
pub(crate) fn retry(tx: &mut dyn Tx, id: OutgoingId, now: Timestamp) -> Result<Outgoing, Error> {
    let found = by_id(tx, id)?.ok_or_else(|| not_found("delivery", id))?;
    let outgoing = found.outgoing.retried(now)?;
    update(tx, found.row, &outgoing)?;
    Ok(outgoing)
}

/// Makes the rows due that processes which have ended had claimed.
pub(crate) fn release(tx: &mut dyn Tx, nodes: &[String], now: Timestamp) -> Result<u64, Error> {
    tx.execute_counted(
        "UPDATE outbox SET next_attempt_at = ?2, claimed_by = NULL
         WHERE status = 'pending' AND claimed_by IN LIST(?1)",
        args![nodes, now],
    )
}

fn update(tx: &mut dyn Tx, row: i64, outgoing: &Outgoing) -> Result<(), Error> {
    tx.execute(
        "UPDATE outbox SET status = ?2, attempts = ?3, next_attempt_at = ?4, claimed_by = ?5,
             last_error = ?6, delivered_at = ?7 WHERE row = ?1",
        args![
            row,
            outgoing.status.name(),
            outgoing.attempts,
            outgoing.next_attempt_at,
            outgoing.claimed_by.map(|node| node.to_string()).as_ref(),
            outgoing.last_error.as_ref(),
            outgoing.delivered_at,
        ],
    )?;
    Ok(())
}

/// Whether there is anything for [`delete_expired`] to delete.
pub(crate) fn has_expired(db: &dyn Db, now: Timestamp) -> Result<bool, Error> {
    db.is_true(
        "SELECT EXISTS (SELECT 1 FROM outbox WHERE status = 'delivered' AND delivered_at <= ?1)",
        args![now.0.saturating_sub_unsigned(DELIVERED_KEPT.0)],
    )
}

/// Deletes rows that were delivered long ago.
pub(crate) fn delete_expired(tx: &mut dyn Tx, now: Timestamp) -> Result<(), Error> {
    tx.execute(
        "DELETE FROM outbox WHERE row IN
             (SELECT row FROM outbox WHERE status = 'delivered' AND delivered_at <= ?1 LIMIT ?2)",
        args![now.0.saturating_sub_unsigned(DELIVERED_KEPT.0), DELETE_MAX as u64],
    )?;
    Ok(())
}

/// Names of processes, as the rows have them.
pub(crate) fn node_names(nodes: &[NodeId]) -> Vec<String> {
    nodes.iter().map(ToString::to_string).collect()
}
