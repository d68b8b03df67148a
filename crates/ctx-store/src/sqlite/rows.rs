//! Rows read back into what rules see.

use std::collections::BTreeMap;

use ctx_core::commit::FileTouch;
use ctx_core::decide::{Drafts, Needs, SessionView};
use ctx_core::id::{CommitId, ObjectId, StepId, TaskId, TurnId};
use ctx_core::session::{Activity, Parent, Session};
use ctx_core::task::Task;
use ctx_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, Statement, params};
use serde::de::DeserializeOwned;

use crate::{Error, Target};

use super::shorten;
use super::talk;

/// What a row of `sessions` says besides the session.
pub(crate) struct SessionRow {
    pub(crate) row: i64,
    pub(crate) head_row: Option<i64>,
    pub(crate) task_row: Option<i64>,
    pub(crate) prompt: Option<String>,
    pub(crate) last_event: Option<i64>,
    pub(crate) session: Session,
}

pub(crate) const SESSION_COLUMNS: &str = "s.row, s.id, s.label, s.title, s.project, s.working_dir, s.status, s.state, s.head, h.hash, \
     s.turn_count, s.persona, s.provider_id, s.model, s.origin, s.seq, s.fence, s.created_at, s.updated_at, s.last_activity_at, \
     s.task, s.pending_prompt, s.last_event, s.options, s.delivery, s.track_tasks, s.owner, s.parent_session_label, s.parent_turn_id, \
     s.spawn_tool_call_id, s.untold FROM sessions s LEFT JOIN turns h ON h.id = s.head";

/// A value that this store wrote as a JSON string or document.
pub(super) fn json<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|e| Error::Damaged(format!("{what}: {e}")))
}

/// A name that this store wrote as plain text.
pub(super) fn named<T: DeserializeOwned>(what: &str, name: &str) -> Result<T, Error> {
    T::deserialize(serde::de::value::StrDeserializer::<serde::de::value::Error>::new(name))
        .map_err(|e| Error::Damaged(format!("{what}: {e}")))
}

pub(crate) fn hash(bytes: Vec<u8>) -> Result<ObjectId, Error> {
    let bytes: [u8; 32] = bytes
        .try_into()
        .map_err(|_| Error::Damaged("a stored hash does not have 32 bytes".to_owned()))?;
    Ok(ObjectId::from_bytes(bytes))
}

fn maybe_hash(bytes: Option<Vec<u8>>) -> Result<Option<ObjectId>, Error> {
    bytes.map(hash).transpose()
}

/// Reads [`SESSION_COLUMNS`].
pub(crate) fn session(row: &Row<'_>) -> Result<SessionRow, Error> {
    let id: String = row.get(1)?;
    let (status, state, origin): (String, String, String) =
        (row.get(6)?, row.get(7)?, row.get(14)?);
    let session = Session {
        id: id.parse().map_err(|e| Error::Damaged(format!("a session's id: {e}")))?,
        label: row.get(2)?,
        title: row.get(3)?,
        project: row.get(4)?,
        working_dir: row.get(5)?,
        status: named("a session's status", &status)?,
        state: named("a session's state", &state)?,
        head: maybe_hash(row.get(9)?)?.map(TurnId),
        turn_count: row.get(10)?,
        persona: row.get(11)?,
        provider_id: row.get(12)?,
        model: row.get(13)?,
        origin: named("a session's origin", &origin)?,
        parent: parent(row)?,
        options: row
            .get::<_, Option<String>>(23)?
            .map(|text| json("a session's options", &text))
            .transpose()?
            .unwrap_or_default(),
        delivery: named("a session's delivery", &row.get::<_, String>(24)?)?,
        track_tasks: row.get(25)?,
        owner: talk::owner(row.get(26)?)?,
        untold: row.get(30)?,
        seq: row.get(15)?,
        fence: row.get(16)?,
        created_at: Timestamp(row.get(17)?),
        updated_at: Timestamp(row.get(18)?),
        last_activity_at: Timestamp(row.get(19)?),
    };
    Ok(SessionRow {
        row: row.get(0)?,
        head_row: row.get(8)?,
        task_row: row.get(20)?,
        prompt: row.get(21)?,
        last_event: row.get(22)?,
        session,
    })
}

fn parent(row: &Row<'_>) -> Result<Option<Parent>, Error> {
    let Some(session) = row.get(27)? else { return Ok(None) };
    let turn: Option<String> = row.get(28)?;
    let turn = turn
        .map(|hex| hex.parse().map_err(|e| Error::Damaged(format!("a session's parent: {e}"))))
        .transpose()?;
    Ok(Some(Parent { session, turn, tool_call: row.get(29)? }))
}

/// By id, or by label and then alias: a session shadows an alias of the same name.
pub(crate) fn find_session(
    connection: &Connection,
    target: &Target,
) -> Result<Option<SessionRow>, Error> {
    match target {
        Target::Id(id) => one_session(connection, "s.id = ?1", &id.to_string()),
        Target::Label(label) => match one_session(connection, "s.label = ?1", label)? {
            Some(found) => Ok(Some(found)),
            None => one_session(
                connection,
                "s.label = (SELECT session_label FROM session_aliases WHERE alias = ?1)",
                label,
            ),
        },
    }
}

fn one_session(
    connection: &Connection,
    condition: &str,
    value: &str,
) -> Result<Option<SessionRow>, Error> {
    session_with(
        &mut *connection.prepare_cached(&format!("SELECT {SESSION_COLUMNS} WHERE {condition}"))?,
        value,
    )
}

/// The session that a statement with [`SESSION_COLUMNS`] finds.
pub(crate) fn session_with(
    statement: &mut Statement<'_>,
    value: &str,
) -> Result<Option<SessionRow>, Error> {
    let mut rows = statement.query([value])?;
    rows.next()?.map(session).transpose()
}

const TASK_COLUMNS: &str = "t.id, COALESCE(s.id, d.id), t.description, t.state, t.progress, t.steps, x.hash, t.base, t.base_turn, t.started_at, \
     t.last_activity_at, t.ended_at, t.\"commit\" FROM tasks t LEFT JOIN sessions s ON s.row = t.session \
     LEFT JOIN deleted_sessions d ON d.row = t.session LEFT JOIN steps x ON x.id = t.head";

pub(crate) fn task_by_row(connection: &Connection, row: i64) -> Result<Option<Task>, Error> {
    one_task(connection, "t.row = ?1", params![row])
}

pub(crate) fn task_by_id(connection: &Connection, id: TaskId) -> Result<Option<Task>, Error> {
    one_task(connection, "t.id = ?1", params![id.to_string()])
}

fn one_task(
    connection: &Connection,
    condition: &str,
    key: &[&dyn rusqlite::ToSql],
) -> Result<Option<Task>, Error> {
    let mut statement =
        connection.prepare_cached(&format!("SELECT {TASK_COLUMNS} WHERE {condition}"))?;
    let mut rows = statement.query(key)?;
    rows.next()?.map(task).transpose()
}

/// The tasks in a JSON list of rows.
pub(crate) fn tasks_by_rows(connection: &Connection, list: &str) -> Result<Vec<Task>, Error> {
    let sql = format!("SELECT {TASK_COLUMNS} WHERE t.row IN (SELECT value FROM json_each(?1))");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([list])?;
    let mut tasks = Vec::new();
    while let Some(row) = rows.next()? {
        tasks.push(task(row)?);
    }
    Ok(tasks)
}

fn task(row: &Row<'_>) -> Result<Task, Error> {
    let (id, session): (String, String) = (row.get(0)?, row.get(1)?);
    let (state, progress): (String, String) = (row.get(3)?, row.get(4)?);
    let bad = |e| Error::Damaged(format!("a task's id: {e}"));
    let head = maybe_hash(row.get(6)?)?
        .ok_or_else(|| Error::Damaged(format!("task {id} has lost its newest step")))?;
    Ok(Task {
        id: id.parse().map_err(bad)?,
        session: session.parse().map_err(bad)?,
        description: row.get(2)?,
        state: json("a task's state", &state)?,
        progress: json("a task's progress", &progress)?,
        steps: row.get(5)?,
        head: StepId(head),
        base: maybe_hash(row.get(7)?)?.map(CommitId),
        base_turn: maybe_hash(row.get(8)?)?.map(TurnId),
        started_at: Timestamp(row.get(9)?),
        last_activity_at: Timestamp(row.get(10)?),
        ended_at: row.get::<_, Option<i64>>(11)?.map(Timestamp),
        commit: maybe_hash(row.get(12)?)?.map(CommitId),
    })
}

/// Everything a rule may look at.
pub(crate) fn view(
    connection: &Connection,
    found: &SessionRow,
    needs: Needs,
) -> Result<SessionView, Error> {
    let task = match found.task_row {
        Some(row) if needs.work => task_by_row(connection, row)?,
        _ => None,
    };
    let (files, first_turn, turns_since) = match (&task, found.task_row) {
        (Some(task), Some(row)) if needs.to_seal => {
            let (first, count) = turns_of_task(connection, task, found)?;
            (files_of_task(connection, row)?, first, count)
        }
        _ => (Vec::new(), None, 0),
    };
    let (known_task, known_step) = match needs.import {
        Some((id, step)) => known(connection, id, step)?,
        None => (None, false),
    };
    let state = found.session.state;
    let drafts = match needs.drafts {
        Drafts::No => false,
        Drafts::IfSuspended => state == Activity::Suspended,
        Drafts::Always => state != Activity::Idle,
    };
    Ok(SessionView {
        run: if needs.talk { talk::current_run(connection, found.row, state)? } else { None },
        suspensions: if needs.talk && state == Activity::Suspended {
            talk::suspensions(connection, found.row)?
        } else {
            Vec::new()
        },
        answered: if needs.talk && state == Activity::Suspended {
            talk::answered(connection, found.row)?
        } else {
            Vec::new()
        },
        suspension_consumed: needs
            .suspension
            .map_or(Ok(false), |id| talk::is_consumed(connection, found.row, id))?,
        inbox: if needs.talk { talk::inbox(connection, found.row, false)? } else { Vec::new() },
        drafts: if drafts { talk::drafts(connection, found.row)? } else { Vec::new() },
        pins: if needs.pins { shorten::pins(connection, found.row)? } else { Vec::new() },
        project_head: if needs.work {
            project_head(connection, &found.session.project)?
        } else {
            None
        },
        prompt: found
            .prompt
            .as_deref()
            .map(|text| json("a session's question", text))
            .transpose()?,
        session: found.session.clone(),
        task,
        files,
        first_turn,
        turns_since,
        known_task,
        known_step,
    })
}

pub(crate) fn project_head(
    connection: &Connection,
    project: &str,
) -> Result<Option<CommitId>, Error> {
    let mut statement = connection.prepare_cached("SELECT target FROM refs WHERE name = ?1")?;
    let target: Option<String> =
        statement.query_row([format!("HEAD:{project}")], |row| row.get(0)).optional()?;
    target
        .map(|hex| hex.parse().map_err(|e| Error::Damaged(format!("ref HEAD:{project}: {e}"))))
        .transpose()
}

fn known(connection: &Connection, id: TaskId, step: StepId) -> Result<(Option<Task>, bool), Error> {
    let mut statement =
        connection.prepare_cached("SELECT 1 FROM steps JOIN tasks ON tasks.row = steps.task WHERE tasks.id = ?1 AND steps.hash = ?2")?;
    let has_step = statement.exists(params![id.to_string(), step.0.as_bytes()])?;
    Ok((task_by_id(connection, id)?, has_step))
}

/// The files that a task touched: written wins over read, the last version over earlier ones.
fn files_of_task(connection: &Connection, task: i64) -> Result<Vec<FileTouch>, Error> {
    let mut statement = connection.prepare_cached(
        "SELECT files FROM steps WHERE task = ?1 AND files IS NOT NULL ORDER BY seq",
    )?;
    let mut rows = statement.query([task])?;
    let mut files: BTreeMap<String, FileTouch> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let touched: Vec<FileTouch> = json("the files of a step", &row.get::<_, String>(0)?)?;
        for touch in touched {
            let written =
                touch.written || files.get(&touch.path).is_some_and(|before| before.written);
            files.insert(touch.path.clone(), FileTouch { written, ..touch });
        }
    }
    Ok(files.into_values().collect())
}

/// The first turn after the task began and how many there are, walking back from the head.
fn turns_of_task(
    connection: &Connection,
    task: &Task,
    found: &SessionRow,
) -> Result<(Option<TurnId>, u64), Error> {
    let mut statement =
        connection.prepare_cached("SELECT hash, parent FROM turns WHERE id = ?1")?;
    let (mut at, mut first, mut count) = (found.head_row, None, 0);
    while let Some(row) = at {
        let (bytes, parent): (Vec<u8>, Option<i64>) =
            statement.query_row([row], |r| Ok((r.get(0)?, r.get(1)?)))?;
        let turn = TurnId(hash(bytes)?);
        if Some(turn) == task.base_turn {
            break;
        }
        (first, count, at) = (Some(turn), count + 1, parent);
    }
    Ok((first, count))
}
