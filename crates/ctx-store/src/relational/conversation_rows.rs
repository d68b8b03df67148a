//! Rows of what happens now: `inbox`, `runs`, `drafts`, `suspensions`, `agent_sessions`.

use ctx_core::agent_session::AgentSession;
use ctx_core::draft;
use ctx_core::id::{MessageId, RunId, SessionId, SuspensionId};
use ctx_core::inbox::Item;
use ctx_core::intent::Intent;
use ctx_core::run::Run;
use ctx_core::suspension::{Answer, Suspension};
use ctx_core::time::Timestamp;

use crate::Error;
use crate::driver::{Db, Row, Tx, args};

use super::{from_id, from_json, from_name, to_json, to_name};

// ---- inbox
// ---------------------------------------------------------------------------------------

pub(crate) fn put_item(tx: &mut dyn Tx, session: i64, item: &Item) -> Result<(), Error> {
    tx.execute(
        "INSERT INTO inbox(message_id, session, position, mode, source, content, intent, overrides,
             state, enqueued_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
         ON CONFLICT(session, message_id) DO UPDATE
         SET position = ?3, mode = ?4, content = ?6, intent = ?7, state = ?9",
        args![
            &item.message_id.to_string(),
            session,
            item.position,
            item.mode.name(),
            &to_name(&item.source)?,
            &to_json(&item.content)?,
            item.intent.map(Intent::name),
            &to_json(&item.overrides)?,
            &to_name(&item.state)?,
            item.enqueued_at,
        ],
    )?;
    Ok(())
}

pub(crate) fn delete_item(tx: &mut dyn Tx, session: i64, id: MessageId) -> Result<(), Error> {
    tx.execute(
        "DELETE FROM inbox WHERE session = ?1 AND message_id = ?2",
        args![session, &id.to_string()],
    )?;
    Ok(())
}

/// The inboxes of sessions, each in order; `dropped` includes messages that the cap dropped.
pub(crate) fn inboxes(
    db: &dyn Db,
    sessions: &[i64],
    dropped: bool,
) -> Result<Vec<(i64, Item)>, Error> {
    db.rows(
        "SELECT session, message_id, position, mode, source, content, intent, overrides, state,
                enqueued_at
         FROM inbox WHERE session IN LIST(?1) AND (?2 <> 0 OR state <> 'dropped')
         ORDER BY session, position, message_id",
        args![sessions, dropped],
        |row| Ok((row.get(0)?, item(row)?)),
    )
}

fn item(row: Row<'_>) -> Result<Item, Error> {
    Ok(Item {
        message_id: from_id("a queued message's id", row.get(1)?)?,
        position: row.get(2)?,
        mode: from_name("a queued message's mode", row.get(3)?)?,
        source: from_name("a queued message's source", row.get(4)?)?,
        content: from_json("a queued message", row.get(5)?)?,
        intent: row
            .get::<Option<&str>>(6)?
            .map(|intent| from_name("a queued message's intent", intent))
            .transpose()?,
        overrides: from_json("a queued message's overrides", row.get(7)?)?,
        state: from_name("a queued message's state", row.get(8)?)?,
        enqueued_at: row.get(9)?,
    })
}

// ---- runs ----

/// Inserts or updates a run. `newest` is the session's newest run; a new one is linked to it.
pub(crate) fn put_run(
    tx: &mut dyn Tx,
    session: i64,
    run: &Run,
    newest: Option<RunId>,
) -> Result<(), Error> {
    let tools = if run.tools.is_empty() { None } else { Some(to_json(&run.tools)?) };
    let deferred = if run.deferred.is_empty() { None } else { Some(to_json(&run.deferred)?) };
    let rights = &run.tool_rights;
    let tool_rights = if rights.is_empty() { None } else { Some(to_json(rights)?) };
    let replies = if run.replies.is_empty() { None } else { Some(to_json(&run.replies)?) };
    tx.execute(
        "INSERT INTO runs(run_id, session, fence, phase, provider_id, model, can_steer, cancel,
             tools, task_effect, turn_started_at, started_at, ended_at, outcome, deferred,
             recoveries, tool_rights, replies, prev)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15,
             ?16, ?17, ?18, ?19)
         ON CONFLICT(run_id) DO UPDATE
         SET fence = ?3, phase = ?4, can_steer = ?7, cancel = ?8, ended_at = ?13, outcome = ?14,
             deferred = ?15, replies = ?18",
        args![
            &run.id.to_string(),
            session,
            run.fence,
            run.phase.name(),
            &run.provider_id,
            run.model.as_ref(),
            run.can_steer,
            run.cancel.map(|cancel| to_name(&cancel)).transpose()?.as_ref(),
            tools.as_ref(),
            &to_name(&run.task_effect)?,
            run.turn_started_at,
            run.started_at,
            run.ended_at,
            run.outcome.map(|outcome| to_name(&outcome)).transpose()?.as_ref(),
            deferred.as_ref(),
            run.recoveries,
            tool_rights.as_ref(),
            replies.as_ref(),
            newest.map(|newest| newest.to_string()).as_ref(),
        ],
    )?;
    Ok(())
}

macro_rules! select_run {
    ($key:literal, $rest:literal) => {
        concat!(
            "SELECT ",
            $key,
            ", r.run_id, r.fence, r.phase, r.provider_id, r.model, r.can_steer, r.cancel, r.tools,
               r.task_effect, r.turn_started_at, r.started_at, r.ended_at, r.outcome, r.deferred,
               r.recoveries, r.tool_rights, r.replies ",
            $rest
        )
    };
}

/// The newest run of each session: the open one, or the one that a suspended session continues.
pub(crate) fn newest_runs(db: &dyn Db, sessions: &[i64]) -> Result<Vec<(i64, Run)>, Error> {
    if sessions.is_empty() {
        return Ok(Vec::new());
    }
    db.rows(
        select_run!(
            "r.session",
            "FROM sessions s JOIN runs r ON r.run_id = s.last_run WHERE s.row IN LIST(?1)"
        ),
        args![sessions],
        |row| Ok((row.get(0)?, run(row)?)),
    )
}

/// A run and its session.
pub(crate) fn run_by_id(db: &dyn Db, id: RunId) -> Result<Option<(Run, SessionId)>, Error> {
    db.row(
        select_run!("s.id", "FROM runs r JOIN sessions s ON s.row = r.session WHERE r.run_id = ?1"),
        args![&id.to_string()],
        |row| Ok((run(row)?, from_id("a session's id", row.get(0)?)?)),
    )
}

fn run(row: Row<'_>) -> Result<Run, Error> {
    Ok(Run {
        id: from_id("a run's id", row.get(1)?)?,
        fence: row.get(2)?,
        phase: from_name("a run's phase", row.get(3)?)?,
        provider_id: row.get(4)?,
        model: row.get(5)?,
        can_steer: row.get(6)?,
        cancel: row
            .get::<Option<&str>>(7)?
            .map(|cancel| from_name("a run's cancel", cancel))
            .transpose()?,
        tools: row
            .get::<Option<&str>>(8)?
            .map(|tools| from_json("a run's tools", tools))
            .transpose()?
            .unwrap_or_default(),
        task_effect: from_name("a run's effect on the task", row.get(9)?)?,
        turn_started_at: row.get(10)?,
        started_at: row.get(11)?,
        ended_at: row.get(12)?,
        outcome: row
            .get::<Option<&str>>(13)?
            .map(|outcome| from_name("a run's outcome", outcome))
            .transpose()?,
        deferred: row
            .get::<Option<&str>>(14)?
            .map(|messages| from_json("a run's deferred messages", messages))
            .transpose()?
            .unwrap_or_default(),
        recoveries: row.get(15)?,
        tool_rights: row
            .get::<Option<&str>>(16)?
            .map(|rights| from_json("a run's tool rights", rights))
            .transpose()?
            .unwrap_or_default(),
        replies: row
            .get::<Option<&str>>(17)?
            .map(|replies| from_json("a run's replies", replies))
            .transpose()?
            .unwrap_or_default(),
    })
}

// ---- the open turn
// -------------------------------------------------------------------------------

pub(crate) fn append_drafts(
    tx: &mut dyn Tx,
    session: i64,
    entries: &[draft::Entry],
) -> Result<(), Error> {
    for entry in entries {
        tx.execute(
            "INSERT INTO drafts(session, id, entry)
             VALUES (?1, (SELECT COALESCE(MAX(id), 0) + 1 FROM drafts WHERE session = ?1), ?2)",
            args![session, &to_json(entry)?],
        )?;
    }
    Ok(())
}

pub(crate) fn clear_drafts(tx: &mut dyn Tx, session: i64) -> Result<(), Error> {
    tx.execute("DELETE FROM drafts WHERE session = ?1", args![session])?;
    Ok(())
}

pub(crate) fn drafts(db: &dyn Db, session: i64) -> Result<Vec<draft::Entry>, Error> {
    db.rows("SELECT entry FROM drafts WHERE session = ?1 ORDER BY id", args![session], |row| {
        from_json("a draft entry", row.get(0)?)
    })
}

// ---- suspensions
// ---------------------------------------------------------------------------------

/// Inserts a suspension of a run.
pub(crate) fn put_suspension(
    tx: &mut dyn Tx,
    session: i64,
    run: RunId,
    suspension: &Suspension,
) -> Result<(), Error> {
    tx.execute(
        "INSERT INTO suspensions(id, session, run, awaited, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5)",
        args![
            &suspension.id.to_string(),
            session,
            &run.to_string(),
            &to_json(&suspension.awaited)?,
            suspension.created_at,
        ],
    )?;
    Ok(())
}

pub(crate) fn consume_suspension(
    tx: &mut dyn Tx,
    id: SuspensionId,
    answer: Option<&Answer>,
    now: Timestamp,
) -> Result<(), Error> {
    tx.execute(
        "UPDATE suspensions SET consumed_at = ?2, answer = ?3
         WHERE id = ?1 AND consumed_at IS NULL",
        args![&id.to_string(), now, answer.map(to_json).transpose()?.as_ref()],
    )?;
    Ok(())
}

/// The open suspensions of sessions, oldest first.
pub(crate) fn suspensions(db: &dyn Db, sessions: &[i64]) -> Result<Vec<(i64, Suspension)>, Error> {
    if sessions.is_empty() {
        return Ok(Vec::new());
    }
    db.rows(
        "SELECT session, id, awaited, created_at FROM suspensions
         WHERE session IN LIST(?1) AND consumed_at IS NULL ORDER BY id",
        args![sessions],
        |row| Ok((row.get(0)?, suspension(row)?)),
    )
}

fn suspension(row: Row<'_>) -> Result<Suspension, Error> {
    Ok(Suspension {
        id: from_id("a suspension's id", row.get(1)?)?,
        awaited: from_json("a suspension", row.get(2)?)?,
        created_at: row.get(3)?,
    })
}

/// The answered suspensions of the newest run, oldest first. Those of an earlier run of the same
/// turn were delivered when that run resumed; delivering them again would repeat their effects.
pub(crate) fn answered(db: &dyn Db, session: i64) -> Result<Vec<(Suspension, Answer)>, Error> {
    db.rows(
        "SELECT session, id, awaited, created_at, answer FROM suspensions
         WHERE session = ?1 AND answer IS NOT NULL
           AND run = (SELECT last_run FROM sessions WHERE row = ?1)
         ORDER BY id",
        args![session],
        answered_suspension,
    )
}

/// The suspensions whose answers opened the newest run, oldest first: those of the run before it.
pub(crate) fn newest_answered(
    db: &dyn Db,
    session: i64,
) -> Result<Vec<(Suspension, Answer)>, Error> {
    db.rows(
        "SELECT session, id, awaited, created_at, answer FROM suspensions
         WHERE session = ?1 AND answer IS NOT NULL
           AND run = (SELECT MAX(run) FROM suspensions WHERE session = ?1)
         ORDER BY id",
        args![session],
        answered_suspension,
    )
}

fn answered_suspension(row: Row<'_>) -> Result<(Suspension, Answer), Error> {
    Ok((suspension(row)?, from_json("an answer", row.get(4)?)?))
}

pub(crate) fn is_consumed(db: &dyn Db, session: i64, id: SuspensionId) -> Result<bool, Error> {
    db.is_true(
        "SELECT consumed_at IS NOT NULL FROM suspensions WHERE session = ?1 AND id = ?2",
        args![session, &id.to_string()],
    )
}

// ---- agents' own sessions
// ------------------------------------------------------------------------

pub(crate) fn put_agent_session(
    tx: &mut dyn Tx,
    session: i64,
    agent: &AgentSession,
) -> Result<(), Error> {
    tx.execute(
        "INSERT INTO agent_sessions(session, provider_id, host, working_dir, agent_session_id,
             synced_turn, clean)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT(session, provider_id, host) DO UPDATE
         SET working_dir = ?4, agent_session_id = ?5, synced_turn = ?6, clean = ?7",
        args![
            session,
            &agent.provider_id,
            &agent.host,
            agent.working_dir.as_ref(),
            &agent.id,
            agent.synced_turn.map(|turn| turn.to_string()).as_ref(),
            agent.clean,
        ],
    )?;
    Ok(())
}

/// The session that an agent on a host keeps for a ctx session.
pub(crate) fn agent_session(
    db: &dyn Db,
    session: i64,
    provider_id: &str,
    host: &str,
) -> Result<Option<AgentSession>, Error> {
    db.row(
        "SELECT working_dir, agent_session_id, synced_turn, clean FROM agent_sessions
         WHERE session = ?1 AND provider_id = ?2 AND host = ?3",
        args![session, provider_id, host],
        |row| {
            Ok(AgentSession {
                provider_id: provider_id.to_owned(),
                host: host.to_owned(),
                working_dir: row.get(0)?,
                id: row.get(1)?,
                synced_turn: row
                    .get::<Option<&str>>(2)?
                    .map(|turn| from_id("an agent session's turn", turn))
                    .transpose()?,
                clean: row.get(3)?,
            })
        },
    )
}
