//! Rows of `compactions` and `pins`, and the turns that a request is made of.

use ctx_core::compaction::Compaction;
use ctx_core::compaction::boundary::Boundary;
use ctx_core::id::{SessionId, TurnId};
use ctx_core::pin::Pin;
use ctx_core::time::Timestamp;

use crate::driver::{Db, Tx, args};
use crate::{Context, Error};

use super::session_rows::known_row;
use super::turn_path::{Path, Visit};
use super::{from_id, from_json, from_name, to_json, to_name, turn_rows};

/// Inserts the row of a compaction turn.
pub(crate) fn insert(tx: &mut dyn Tx, turn: i64, new: &Compaction) -> Result<(), Error> {
    tx.execute(
        "INSERT INTO compactions(turn_id, summary, summarized_through_turn_id, first_kept_turn_id,
             turns_summarized, compaction_type, model, provider, tokens_before, tokens_after,
             summary_tokens, summarization_input_tokens, summarization_output_tokens, duration_ms,
             \"trigger\", metadata_json)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
        args![
            turn,
            &new.summary,
            new.summarized_through.map(|turn| turn.to_string()).as_ref(),
            new.first_kept.map(|turn| turn.to_string()).as_ref(),
            new.turns_summarized,
            &to_name(&new.kind)?,
            new.model.as_ref(),
            new.provider.as_ref(),
            new.tokens_before,
            new.tokens_after,
            new.summary_tokens,
            new.summarization_input_tokens,
            new.summarization_output_tokens,
            new.duration_ms,
            &to_name(&new.trigger)?,
            &to_json(&new.metadata)?,
        ],
    )?;
    Ok(())
}

/// The compaction of a turn's row, if the turn is one.
pub(crate) fn read(db: &dyn Db, turn: i64) -> Result<Option<Compaction>, Error> {
    db.row(
        "SELECT summary, summarized_through_turn_id, first_kept_turn_id, turns_summarized,
                compaction_type, model, provider, tokens_before, tokens_after, summary_tokens,
                summarization_input_tokens, summarization_output_tokens, duration_ms, \"trigger\",
                metadata_json
         FROM compactions WHERE turn_id = ?1",
        args![turn],
        |row| {
            let turn = |column| {
                row.get::<Option<&str>>(column)?
                    .map(|turn| from_id("a compaction's turn", turn))
                    .transpose()
            };
            Ok(Compaction {
                summary: row.get(0)?,
                summarized_through: turn(1)?,
                first_kept: turn(2)?,
                turns_summarized: row.get(3)?,
                kind: from_name("a compaction's type", row.get(4)?)?,
                model: row.get(5)?,
                provider: row.get(6)?,
                tokens_before: row.get::<Option<u64>>(7)?.unwrap_or(0),
                tokens_after: row.get::<Option<u64>>(8)?.unwrap_or(0),
                summary_tokens: row.get::<Option<u64>>(9)?.unwrap_or(0),
                summarization_input_tokens: row.get(10)?,
                summarization_output_tokens: row.get(11)?,
                duration_ms: row.get::<Option<u64>>(12)?.unwrap_or(0),
                trigger: from_name("a compaction's trigger", row.get(13)?)?,
                metadata: row
                    .get::<Option<&str>>(14)?
                    .map(|text| from_json("a compaction's metadata", text))
                    .transpose()?
                    .unwrap_or_default(),
            })
        },
    )
}

/// The turns from a head back to the first one that the newest compaction keeps, or to the root;
/// and the turns before them that the session has pinned. Reading stops before the bodies exceed
/// `max_bytes`.
pub(crate) fn context(
    db: &dyn Db,
    session: SessionId,
    head: TurnId,
    max_bytes: usize,
) -> Result<Context, Error> {
    let path = Path::from(db, Some(head_row(db, session, head)?));
    let (mut bytes, mut boundary) = (0_usize, Boundary::default());
    let turns = path.turns_while(|turn, header, size, compaction| {
        bytes = bytes.saturating_add(size);
        match bytes {
            bytes if bytes > max_bytes => Visit::Before,
            _ if boundary.visit(turn, header.kind, compaction) => Visit::On,
            _ => Visit::Last,
        }
    })?;
    let reached = turns.last().map_or(u64::MAX, |turn| turn.depth);
    let row = known_row(db, session)?;
    let found = pins(db, row)?;
    let before = found.iter().filter(|(_, pin)| pin.depth < reached);
    let pinned = before.map(|(row, _)| turn_rows::read(db, *row)).collect::<Result<_, _>>()?;
    let pins = found.into_iter().map(|(_, pin)| pin).collect();
    Ok(Context { turns, compaction: boundary.compaction(), pinned, pins })
}

/// The row of a head. The session's row refers to it unless the head has moved since.
fn head_row(db: &dyn Db, session: SessionId, head: TurnId) -> Result<i64, Error> {
    let current = db.int(
        "SELECT t.id FROM sessions s JOIN turns t ON t.id = s.head WHERE s.id = ?1 AND t.hash = ?2",
        args![&session.to_string(), &head.0],
    )?;
    current.map_or_else(|| turn_rows::known_turn(db, head), Ok)
}

pub(crate) fn insert_pin(
    tx: &mut dyn Tx,
    session: i64,
    turn: i64,
    tokens: u64,
    now: Timestamp,
) -> Result<(), Error> {
    tx.execute(
        "INSERT INTO pins(session, turn, tokens, pinned_at) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO NOTHING",
        args![session, turn, tokens, now],
    )?;
    Ok(())
}

pub(crate) fn delete_pin(tx: &mut dyn Tx, session: i64, turn: i64) -> Result<(), Error> {
    tx.execute("DELETE FROM pins WHERE session = ?1 AND turn = ?2", args![session, turn])?;
    Ok(())
}

/// Deletes the pins of turns below a depth: after a rewind they are no ancestors of the head.
pub(crate) fn delete_pins_below(tx: &mut dyn Tx, session: i64, depth: u64) -> Result<(), Error> {
    tx.execute(
        "DELETE FROM pins WHERE session = ?1
           AND turn IN (SELECT id FROM turns WHERE id = pins.turn AND depth > ?2)",
        args![session, depth],
    )?;
    Ok(())
}

/// The pins of a session with the rows of their turns, oldest turn first.
pub(crate) fn pins(db: &dyn Db, session: i64) -> Result<Vec<(i64, Pin)>, Error> {
    db.rows(
        "SELECT t.id, t.hash, t.depth, p.tokens, p.pinned_at
         FROM pins p JOIN turns t ON t.id = p.turn WHERE p.session = ?1 ORDER BY t.depth",
        args![session],
        |row| {
            let pin = Pin {
                turn: TurnId(row.get(1)?),
                depth: row.get(2)?,
                tokens: row.get(3)?,
                at: row.get(4)?,
            };
            Ok((row.get(0)?, pin))
        },
    )
}
