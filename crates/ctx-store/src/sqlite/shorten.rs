//! Rows of compactions and pins, and the walk that needs them: as far back as a request reaches, and no further.

use ctx_core::compaction::Compaction;
use ctx_core::compaction::boundary::Boundary;
use ctx_core::id::{SessionId, TurnId};
use ctx_core::pin::Pin;
use ctx_core::refusal::Refusal;
use ctx_core::time::Timestamp;
use ctx_core::turn::Kind;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::{Context, Error, StoredTurn};

use super::apply::{name_of, to_json};
use super::hashes::{Table, locate};
use super::list;
use super::read::stored_turn;
use super::rows::{hash, json, named};
use super::transaction::Transaction;

/// Stores what the turn in a row stands for.
pub(crate) fn put_compaction(
    tx: &mut Transaction<'_>,
    turn: i64,
    new: &Compaction,
) -> Result<(), Error> {
    let through = new.summarized_through.map(|turn| known(tx, turn)).transpose()?;
    let kept = new.first_kept.map(|turn| known(tx, turn)).transpose()?;
    tx.connection
        .prepare_cached(
            "INSERT INTO compactions(turn_id, summary, summarized_through_turn_id, first_kept_turn_id, turns_summarized, compaction_type, model,
                 provider, tokens_before, tokens_after, summary_tokens, summarization_input_tokens, summarization_output_tokens,
                 duration_ms, \"trigger\", metadata_json)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
        )?
        .execute(params![
            turn,
            new.summary,
            through,
            kept,
            new.turns_summarized,
            name_of(&new.kind)?,
            new.model,
            new.provider,
            new.tokens_before,
            new.tokens_after,
            new.summary_tokens,
            new.summarization_input_tokens,
            new.summarization_output_tokens,
            new.duration_ms,
            name_of(&new.trigger)?,
            to_json(&new.metadata)?
        ])?;
    Ok(())
}

fn known(tx: &mut Transaction<'_>, turn: TurnId) -> Result<i64, Error> {
    tx.tail
        .find(tx.connection, Table::Turns, turn.0)?
        .ok_or_else(|| Error::NotFound { what: "turn", name: turn.to_string() })
}

/// What the turn in a row stands for, where it is a compaction.
pub(crate) fn compaction(connection: &Connection, turn: i64) -> Result<Option<Compaction>, Error> {
    let mut statement = connection.prepare_cached(
        "SELECT c.summary, t.hash, k.hash, c.turns_summarized, c.compaction_type, c.model, c.provider, c.tokens_before, c.tokens_after,
                c.summary_tokens, c.summarization_input_tokens, c.summarization_output_tokens, c.duration_ms, c.\"trigger\",
                c.metadata_json
         FROM compactions c LEFT JOIN turns t ON t.id = c.summarized_through_turn_id LEFT JOIN turns k ON k.id = c.first_kept_turn_id
         WHERE c.turn_id = ?1",
    )?;
    let mut rows = statement.query([turn])?;
    rows.next()?.map(compaction_of).transpose()
}

fn compaction_of(row: &Row<'_>) -> Result<Compaction, Error> {
    let turn = |at: usize| -> Result<Option<TurnId>, Error> {
        row.get::<_, Option<Vec<u8>>>(at)?.map(|bytes| hash(bytes).map(TurnId)).transpose()
    };
    let (kind, trigger, metadata): (String, String, Option<String>) =
        (row.get(4)?, row.get(13)?, row.get(14)?);
    Ok(Compaction {
        summary: row.get(0)?,
        summarized_through: turn(1)?,
        first_kept: turn(2)?,
        turns_summarized: row.get(3)?,
        kind: named("a compaction's type", &kind)?,
        model: row.get(5)?,
        provider: row.get(6)?,
        tokens_before: row.get::<_, Option<u64>>(7)?.unwrap_or(0),
        tokens_after: row.get::<_, Option<u64>>(8)?.unwrap_or(0),
        summary_tokens: row.get::<_, Option<u64>>(9)?.unwrap_or(0),
        summarization_input_tokens: row.get(10)?,
        summarization_output_tokens: row.get(11)?,
        duration_ms: row.get::<_, Option<u64>>(12)?.unwrap_or(0),
        trigger: named("a compaction's trigger", &trigger)?,
        metadata: metadata
            .map(|text| json("a compaction's metadata", &text))
            .transpose()?
            .unwrap_or_default(),
    })
}

/// The turns from a head back to the first that the newest compaction on the way keeps, newest first, to the root where
/// there is none; and the turns before them that the session has pinned. It stops before the turn with which the words
/// would have more than `max_bytes`.
pub(crate) fn context(
    connection: &Connection,
    side: &Connection,
    session: SessionId,
    head: TurnId,
    max_bytes: usize,
) -> Result<Context, Error> {
    let mut at = Some(head_row(connection, side, session, head)?);
    let (mut turns, mut bytes): (Vec<StoredTurn>, usize) = (Vec::new(), 0);
    let mut boundary = Boundary::default();
    while let Some(row) = at {
        let (turn, parent) = stored_turn(connection, row)?;
        bytes = bytes.saturating_add(turn.body.as_ref().map_or(0, |body| body.bytes.len()));
        if bytes > max_bytes {
            break;
        }
        let goes_on = boundary.visit(turn.id, turn.header.kind, turn.compaction.as_ref());
        at = parent.filter(|_| goes_on);
        turns.push(turn);
    }
    let reached = turns.last().map_or(u64::MAX, |turn| turn.depth);
    let row = list::known_row(connection, session)?;
    let pins = pins(connection, row)?;
    let pinned = pinned_before(connection, row, reached)?;
    Ok(Context { turns, compaction: boundary.compaction(), pinned, pins })
}

/// The row of a head: the session knows it, unless it has moved.
fn head_row(
    connection: &Connection,
    side: &Connection,
    session: SessionId,
    head: TurnId,
) -> Result<i64, Error> {
    let mut statement = connection.prepare_cached(
        "SELECT t.id FROM sessions s JOIN turns t ON t.id = s.head WHERE s.id = ?1 AND t.hash = ?2",
    )?;
    let known = statement
        .query_row(params![session.to_string(), head.0.as_bytes()], |row| row.get(0))
        .optional()?;
    let row = known
        .map_or_else(|| locate(connection, side, Table::Turns, head.0), |row| Ok(Some(row)))?;
    row.ok_or_else(|| Error::NotFound { what: "turn", name: head.to_string() })
}

/// The pinned turns of a session above a depth, oldest first.
fn pinned_before(
    connection: &Connection,
    session: i64,
    depth: u64,
) -> Result<Vec<StoredTurn>, Error> {
    let mut statement = connection
        .prepare_cached("SELECT p.turn FROM pins p JOIN turns t ON t.id = p.turn WHERE p.session = ?1 AND t.depth < ?2 ORDER BY t.depth")?;
    let rows = statement
        .query_map(params![session, i64::try_from(depth).unwrap_or(i64::MAX)], |row| row.get(0))?;
    rows.map(|row| Ok(stored_turn(connection, row?)?.0)).collect()
}

/// Pins a turn that leads to the session's head.
pub(crate) fn pin(
    tx: &mut Transaction<'_>,
    session: i64,
    head: Option<i64>,
    turn: TurnId,
    tokens: u64,
    now: Timestamp,
) -> Result<(), Error> {
    let row = known(tx, turn)?;
    let mut walk = tx.connection.prepare_cached("SELECT parent FROM turns WHERE id = ?1")?;
    let mut at = head;
    while at != Some(row) {
        // A turn is stored after its parent: behind the wanted one there is nothing to look for.
        let Some(here) = at.filter(|here| *here > row) else {
            return Err(Error::Refused(Refusal::NotAnAncestor { turn }));
        };
        at = walk.query_row([here], |row| row.get(0))?;
    }
    tx.connection
        .prepare_cached(
            "INSERT OR IGNORE INTO pins(session, turn, tokens, pinned_at) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![session, row, tokens, now.0])?;
    Ok(())
}

pub(crate) fn unpin(tx: &mut Transaction<'_>, session: i64, turn: TurnId) -> Result<(), Error> {
    let row = known(tx, turn)?;
    tx.connection
        .prepare_cached("DELETE FROM pins WHERE session = ?1 AND turn = ?2")?
        .execute([session, row])?;
    Ok(())
}

/// The head went back: what it left behind is not pinned any more, since it does not lead to the head.
pub(crate) fn unpin_after(tx: &Transaction<'_>, session: i64, depth: u64) -> Result<(), Error> {
    tx.connection
        .prepare_cached("DELETE FROM pins WHERE session = ?1 AND turn IN (SELECT id FROM turns WHERE id = pins.turn AND depth > ?2)")?
        .execute(params![session, depth])?;
    Ok(())
}

/// The pinned turns of a session, oldest first.
pub(crate) fn pins(connection: &Connection, session: i64) -> Result<Vec<Pin>, Error> {
    let mut statement = connection.prepare_cached(
        "SELECT t.hash, t.depth, p.tokens, p.pinned_at FROM pins p JOIN turns t ON t.id = p.turn WHERE p.session = ?1 ORDER BY t.depth",
    )?;
    let mut rows = statement.query([session])?;
    let mut pins = Vec::new();
    while let Some(row) = rows.next()? {
        pins.push(Pin {
            turn: TurnId(hash(row.get(0)?)?),
            depth: row.get(1)?,
            tokens: row.get(2)?,
            at: Timestamp(row.get(3)?),
        });
    }
    Ok(pins)
}

/// Whether a compaction has its row, and the row what it points at.
pub(crate) fn check(connection: &Connection, turn: i64, kind: Kind) -> Result<(), Error> {
    let mut statement = connection.prepare_cached(
        "SELECT (summarized_through_turn_id IS NULL OR EXISTS (SELECT 1 FROM turns WHERE id = summarized_through_turn_id))
            AND (first_kept_turn_id IS NULL OR EXISTS (SELECT 1 FROM turns WHERE id = first_kept_turn_id))
         FROM compactions WHERE turn_id = ?1",
    )?;
    match (statement.query_row([turn], |row| row.get::<_, bool>(0)).optional()?, kind) {
        (None, Kind::Compaction) => {
            Err(Error::Damaged("it is a compaction without its row".to_owned()))
        }
        (Some(_), Kind::Normal) => {
            Err(Error::Damaged("it has the row of a compaction and is none".to_owned()))
        }
        (Some(false), _) => {
            Err(Error::Damaged("it is a compaction of turns that are missing".to_owned()))
        }
        (Some(true), _) | (None, Kind::Normal) => Ok(()),
    }
}
