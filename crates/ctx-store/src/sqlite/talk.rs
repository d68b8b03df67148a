//! Rows of what happens now: the inbox, runs, open turns, suspensions.

use ctx_core::agent_session::AgentSession;
use ctx_core::draft;
use ctx_core::id::{MessageId, NodeId, RunId, SuspensionId};
use ctx_core::inbox::{Item, ItemState};
use ctx_core::run::Run;
use ctx_core::session::{Activity, Session};
use ctx_core::suspension::{Answer, Suspension};
use ctx_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::Error;

use super::apply::{name_of, to_json};
use super::rows::{json, named};

fn id_in<T: std::str::FromStr>(what: &str, text: &str) -> Result<T, Error>
where
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|e| Error::Damaged(format!("{what}: {e}")))
}

// ---- the session's row ----------------------------------------------------------------------------------

/// Writes all of a session's row that a conversation changes.
pub(crate) fn put_session(
    connection: &Connection,
    row: i64,
    session: &Session,
) -> Result<(), Error> {
    let options = if session.options.is_empty() { None } else { Some(to_json(&session.options)?) };
    connection
        .prepare_cached(
            "UPDATE sessions SET label = ?2, title = ?3, working_dir = ?4, status = ?5, state = ?6, persona = ?7, provider_id = ?8,
                 model = ?9, options = ?10, delivery = ?11, track_tasks = ?12, owner = ?13, fence = ?14, untold = ?15 WHERE row = ?1",
        )?
        .execute(params![
            row,
            session.label,
            session.title,
            session.working_dir,
            name_of(&session.status)?,
            name_of(&session.state)?,
            session.persona,
            session.provider_id,
            session.model,
            options,
            name_of(&session.delivery)?,
            session.track_tasks,
            session.owner.map(|node| node.to_string()),
            session.fence,
            session.untold
        ])?;
    Ok(())
}

pub(crate) fn owner(text: Option<String>) -> Result<Option<NodeId>, Error> {
    text.map(|text| id_in("a session's owner", &text)).transpose()
}

// ---- the inbox ------------------------------------------------------------------------------------------

pub(crate) fn put_item(connection: &Connection, session: i64, item: &Item) -> Result<(), Error> {
    connection
        .prepare_cached(
            "INSERT INTO inbox(message_id, session, position, mode, source, content, intent, overrides, state, enqueued_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
             ON CONFLICT(message_id) DO UPDATE SET position = ?3, mode = ?4, content = ?6, intent = ?7, state = ?9",
        )?
        .execute(params![
            item.message_id.to_string(),
            session,
            item.position,
            item.mode.name(),
            name_of(&item.source)?,
            to_json(&item.content)?,
            item.intent.map(ctx_core::intent::Intent::name),
            to_json(&item.overrides)?,
            name_of(&item.state)?,
            item.enqueued_at.0
        ])?;
    Ok(())
}

pub(crate) fn remove_item(connection: &Connection, id: MessageId) -> Result<(), Error> {
    connection
        .prepare_cached("DELETE FROM inbox WHERE message_id = ?1")?
        .execute([id.to_string()])?;
    Ok(())
}

const ITEM_COLUMNS: &str =
    "message_id, position, mode, source, content, intent, overrides, state, enqueued_at";

/// The inboxes of the sessions in a JSON list of rows, without what the cap dropped.
pub(crate) fn inboxes(connection: &Connection, sessions: &str) -> Result<Vec<(i64, Item)>, Error> {
    let sql = format!(
        "SELECT {ITEM_COLUMNS}, session FROM inbox WHERE session IN (SELECT value FROM json_each(?1)) AND state <> 'dropped'
         ORDER BY session, position, id"
    );
    all(connection, &sql, sessions, |row| Ok((row.get(9)?, item(row)?)))
}

/// Every row of a query about a JSON list of sessions.
fn all<T>(
    connection: &Connection,
    sql: &str,
    sessions: &str,
    read: fn(&Row<'_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([sessions])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}

/// The inbox of a session in order, with or without what the cap dropped.
pub(crate) fn inbox(
    connection: &Connection,
    session: i64,
    dropped: bool,
) -> Result<Vec<Item>, Error> {
    let sql = format!(
        "SELECT {ITEM_COLUMNS} FROM inbox WHERE session = ?1 AND (?2 OR state <> 'dropped') ORDER BY position, id"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params![session, dropped])?;
    let mut items = Vec::new();
    while let Some(row) = rows.next()? {
        items.push(item(row)?);
    }
    Ok(items)
}

fn item(row: &Row<'_>) -> Result<Item, Error> {
    let (id, mode, source): (String, String, String) = (row.get(0)?, row.get(2)?, row.get(3)?);
    let (content, intent, overrides): (String, Option<String>, String) =
        (row.get(4)?, row.get(5)?, row.get(6)?);
    let state: String = row.get(7)?;
    let state: ItemState = named("a waiting message's state", &state)?;
    Ok(Item {
        message_id: id_in("a waiting message's id", &id)?,
        position: row.get(1)?,
        mode: named("a waiting message's mode", &mode)?,
        source: named("a waiting message's source", &source)?,
        content: json("a waiting message", &content)?,
        intent: intent.map(|intent| named("a waiting message's intent", &intent)).transpose()?,
        overrides: json("a waiting message's overrides", &overrides)?,
        state,
        enqueued_at: Timestamp(row.get(8)?),
    })
}

// ---- runs -----------------------------------------------------------------------------------------------

pub(crate) fn put_run(connection: &Connection, session: i64, run: &Run) -> Result<(), Error> {
    let tools = if run.tools.is_empty() { None } else { Some(to_json(&run.tools)?) };
    connection
        .prepare_cached(
            "INSERT INTO runs(run_id, session, fence, phase, provider_id, model, can_steer, cancel, tools, moves_task, turn_started_at,
                 started_at, ended_at, outcome)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
             ON CONFLICT(run_id) DO UPDATE SET phase = ?4, can_steer = ?7, cancel = ?8, ended_at = ?13, outcome = ?14",
        )?
        .execute(params![
            run.id.to_string(),
            session,
            run.fence,
            run.phase.name(),
            run.provider_id,
            run.model,
            run.can_steer,
            run.cancel.map(|cancel| name_of(&cancel)).transpose()?,
            tools,
            run.moves_task,
            run.turn_started_at.0,
            run.started_at.0,
            run.ended_at.map(|at| at.0),
            run.outcome.map(|outcome| name_of(&outcome)).transpose()?
        ])?;
    Ok(())
}

const RUN_COLUMNS: &str = "r.run_id, r.fence, r.phase, r.provider_id, r.model, r.can_steer, r.cancel, r.tools, r.moves_task, \
     r.turn_started_at, r.started_at, r.ended_at, r.outcome";

/// The newest run of a session.
pub(crate) fn newest_run(connection: &Connection, session: i64) -> Result<Option<Run>, Error> {
    let sql =
        format!("SELECT {RUN_COLUMNS} FROM runs r WHERE r.session = ?1 ORDER BY r.id DESC LIMIT 1");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([session])?;
    rows.next()?.map(run).transpose()
}

/// The newest runs of the sessions in a JSON list of rows.
pub(crate) fn newest_runs(
    connection: &Connection,
    sessions: &str,
) -> Result<Vec<(i64, Run)>, Error> {
    let sql = format!(
        "SELECT {RUN_COLUMNS}, r.session FROM json_each(?1) s
         JOIN runs r ON r.id = (SELECT MAX(id) FROM runs WHERE session = s.value)"
    );
    all(connection, &sql, sessions, |row| Ok((row.get(13)?, run(row)?)))
}

/// A run and its session's id.
pub(crate) fn run_by_id(
    connection: &Connection,
    id: RunId,
) -> Result<Option<(Run, ctx_core::id::SessionId)>, Error> {
    let sql = format!(
        "SELECT {RUN_COLUMNS}, s.id FROM runs r JOIN sessions s ON s.row = r.session WHERE r.run_id = ?1"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([id.to_string()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let session: String = row.get(13)?;
    Ok(Some((run(row)?, id_in("a session's id", &session)?)))
}

fn run(row: &Row<'_>) -> Result<Run, Error> {
    let (id, phase): (String, String) = (row.get(0)?, row.get(2)?);
    let (cancel, tools, outcome): (Option<String>, Option<String>, Option<String>) =
        (row.get(6)?, row.get(7)?, row.get(12)?);
    Ok(Run {
        id: id_in("a run's id", &id)?,
        fence: row.get(1)?,
        phase: named("a run's phase", &phase)?,
        provider_id: row.get(3)?,
        model: row.get(4)?,
        can_steer: row.get(5)?,
        cancel: cancel.map(|cancel| named("a run's cancel", &cancel)).transpose()?,
        tools: tools.map(|tools| json("a run's tools", &tools)).transpose()?.unwrap_or_default(),
        moves_task: row.get(8)?,
        turn_started_at: Timestamp(row.get(9)?),
        started_at: Timestamp(row.get(10)?),
        ended_at: row.get::<_, Option<i64>>(11)?.map(Timestamp),
        outcome: outcome.map(|outcome| named("a run's outcome", &outcome)).transpose()?,
    })
}

/// The run that a session's rules may look at: the open one, or the one a suspended session goes on from.
pub(crate) fn current_run(
    connection: &Connection,
    session: i64,
    state: Activity,
) -> Result<Option<Run>, Error> {
    match state {
        Activity::Idle => Ok(None),
        Activity::Running | Activity::Suspended => newest_run(connection, session),
    }
}

// ---- the open turn --------------------------------------------------------------------------------------

pub(crate) fn append_drafts(
    connection: &Connection,
    session: i64,
    entries: &[draft::Entry],
) -> Result<(), Error> {
    let mut statement =
        connection.prepare_cached("INSERT INTO drafts(session, entry) VALUES (?1, ?2)")?;
    for entry in entries {
        statement.execute(params![session, to_json(entry)?])?;
    }
    Ok(())
}

pub(crate) fn clear_drafts(connection: &Connection, session: i64) -> Result<(), Error> {
    connection.prepare_cached("DELETE FROM drafts WHERE session = ?1")?.execute([session])?;
    Ok(())
}

pub(crate) fn drafts(connection: &Connection, session: i64) -> Result<Vec<draft::Entry>, Error> {
    let mut statement =
        connection.prepare_cached("SELECT entry FROM drafts WHERE session = ?1 ORDER BY id")?;
    let mut rows = statement.query([session])?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        entries.push(json("a part of an open turn", &row.get::<_, String>(0)?)?);
    }
    Ok(entries)
}

// ---- suspensions ----------------------------------------------------------------------------------------

pub(crate) fn put_suspension(
    connection: &Connection,
    session: i64,
    suspension: &Suspension,
) -> Result<(), Error> {
    connection
        .prepare_cached(
            "INSERT INTO suspensions(id, session, awaited, created_at) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![
            suspension.id.to_string(),
            session,
            to_json(&suspension.awaited)?,
            suspension.created_at.0
        ])?;
    Ok(())
}

pub(crate) fn consume_suspension(
    connection: &Connection,
    id: SuspensionId,
    answer: Option<&Answer>,
    now: Timestamp,
) -> Result<(), Error> {
    connection
        .prepare_cached("UPDATE suspensions SET consumed_at = ?2, answer = ?3 WHERE id = ?1 AND consumed_at IS NULL")?
        .execute(params![id.to_string(), now.0, answer.map(to_json).transpose()?])?;
    Ok(())
}

/// What a session waits for, oldest first.
pub(crate) fn suspensions(connection: &Connection, session: i64) -> Result<Vec<Suspension>, Error> {
    let mut statement = connection
        .prepare_cached("SELECT id, awaited, created_at FROM suspensions WHERE session = ?1 AND consumed_at IS NULL ORDER BY id")?;
    let mut rows = statement.query([session])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(suspension(row)?);
    }
    Ok(found)
}

/// The same for the sessions in a JSON list of rows.
pub(crate) fn suspensions_of(
    connection: &Connection,
    sessions: &str,
) -> Result<Vec<(i64, Suspension)>, Error> {
    let sql = "SELECT id, awaited, created_at, session FROM suspensions
               WHERE session IN (SELECT value FROM json_each(?1)) AND consumed_at IS NULL ORDER BY id";
    all(connection, sql, sessions, |row| Ok((row.get(3)?, suspension(row)?)))
}

fn suspension(row: &Row<'_>) -> Result<Suspension, Error> {
    let (id, awaited): (String, String) = (row.get(0)?, row.get(1)?);
    let (id, awaited) =
        (id_in("a suspension's id", &id)?, json("what a session waits for", &awaited)?);
    Ok(Suspension { id, awaited, created_at: Timestamp(row.get(2)?) })
}

/// What the newest run asked and was answered, oldest first. What an earlier run of the turn asked was used up when it
/// went on: given to an agent again, it would be done twice.
pub(crate) fn answered(
    connection: &Connection,
    session: i64,
) -> Result<Vec<(Suspension, Answer)>, Error> {
    let mut statement = connection.prepare_cached(
        "SELECT id, awaited, created_at, answer FROM suspensions WHERE session = ?1 AND answer IS NOT NULL
           AND created_at >= (SELECT started_at FROM runs WHERE session = ?1 ORDER BY id DESC LIMIT 1) ORDER BY id",
    )?;
    let mut rows = statement.query([session])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (id, awaited, answer): (String, String, String) =
            (row.get(0)?, row.get(1)?, row.get(3)?);
        let (id, awaited) =
            (id_in("a suspension's id", &id)?, json("what a session waited for", &awaited)?);
        found.push((
            Suspension { id, awaited, created_at: Timestamp(row.get(2)?) },
            json("an answer", &answer)?,
        ));
    }
    Ok(found)
}

pub(crate) fn is_consumed(
    connection: &Connection,
    session: i64,
    id: SuspensionId,
) -> Result<bool, Error> {
    let mut statement = connection.prepare_cached(
        "SELECT consumed_at IS NOT NULL FROM suspensions WHERE session = ?1 AND id = ?2",
    )?;
    Ok(statement
        .query_row(params![session, id.to_string()], |row| row.get(0))
        .optional()?
        .unwrap_or(false))
}

// ---- agents' own conversations --------------------------------------------------------------------------

pub(crate) fn put_agent_session(
    connection: &Connection,
    session: i64,
    agent: &AgentSession,
) -> Result<(), Error> {
    connection
        .prepare_cached(
            "INSERT INTO agent_sessions(session, provider_id, host, working_dir, agent_session_id, synced_turn, clean)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT(session, provider_id, host) DO UPDATE SET working_dir = ?4, agent_session_id = ?5, synced_turn = ?6, clean = ?7",
        )?
        .execute(params![
            session,
            agent.provider_id,
            agent.host,
            agent.working_dir,
            agent.id,
            agent.synced_turn.map(|turn| turn.to_string()),
            agent.clean
        ])?;
    Ok(())
}

/// The conversation that an agent on a machine has for a session.
pub(crate) fn agent_session(
    connection: &Connection,
    session: i64,
    provider_id: &str,
    host: &str,
) -> Result<Option<AgentSession>, Error> {
    let mut statement = connection.prepare_cached(
        "SELECT working_dir, agent_session_id, synced_turn, clean FROM agent_sessions WHERE session = ?1 AND provider_id = ?2 AND host = ?3",
    )?;
    let mut rows = statement.query(params![session, provider_id, host])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let synced: Option<String> = row.get(2)?;
    Ok(Some(AgentSession {
        provider_id: provider_id.to_owned(),
        host: host.to_owned(),
        working_dir: row.get(0)?,
        id: row.get(1)?,
        synced_turn: synced
            .map(|turn| id_in("the turn that an agent has seen", &turn))
            .transpose()?,
        clean: row.get(3)?,
    }))
}
