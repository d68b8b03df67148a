//! A decision made into rows, inside the transaction that read what it was decided on.

use std::collections::HashMap;

use ctx_core::commit::FileTouch;
use ctx_core::decide::{Batch, Change, CommitRecord, StepRecord};
use ctx_core::id::{BlobId, ObjectId, StepId, TaskId, TurnId};
use ctx_core::message::Part;
use ctx_core::object::Kind;
use ctx_core::prompt::Prompt;
use ctx_core::refusal::Refusal;
use ctx_core::session;
use ctx_core::step::{Entry, Step};
use ctx_core::task::Task;
use ctx_core::time::Timestamp;
use ctx_core::turn;
use rusqlite::{OptionalExtension, params};
use serde::Serialize;

use crate::Error;

use super::hashes::Table;
use super::pack::{Packed, pack};
use super::rows::SessionRow;
use super::segment::Place;
use super::transaction::{Hot, Transaction};
use super::{feed, shorten, talk};

/// The session's row as the decision leaves it.
struct SessionNow {
    row: i64,
    id: String,
    head: Option<i64>,
    turn_count: u64,
    task: Option<i64>,
    prompt: Option<String>,
    seq: u64,
    last_event: Option<i64>,
    /// The turn that was added last, and its row.
    committed: Option<(TurnId, i64)>,
}

impl SessionNow {
    fn of(found: &SessionRow) -> Self {
        Self {
            row: found.row,
            id: found.session.id.to_string(),
            head: found.head_row,
            turn_count: found.session.turn_count,
            task: found.task_row,
            prompt: found.prompt.clone(),
            seq: found.session.seq,
            last_event: found.last_event,
            committed: None,
        }
    }
}

/// What the decision may refer to: made ready before the transaction, or by the rule itself.
struct Objects<'a>(HashMap<(Kind, ObjectId), &'a Packed>);

impl<'a> Objects<'a> {
    fn of(given: &'a [Packed], own: &'a [Packed]) -> Self {
        Self(given.iter().chain(own).map(|object| ((object.kind, object.id), object)).collect())
    }

    fn find(&self, kind: Kind, id: ObjectId) -> Option<&'a Packed> {
        self.0.get(&(kind, id)).copied()
    }
}

/// What the feed was told.
pub(crate) struct Told {
    pub(crate) session: String,
    pub(crate) seq: u64,
    pub(crate) row: Option<i64>,
}

/// Rows made by this decision that later changes of it refer to.
#[derive(Default)]
struct Made {
    tasks: HashMap<TaskId, i64>,
    steps: HashMap<StepId, i64>,
}

/// Stores a decision. An error leaves the transaction to be rolled back.
pub(crate) fn apply(
    tx: &mut Transaction<'_>,
    found: Option<&SessionRow>,
    decision: &Batch,
    given: &[Packed],
    now: Timestamp,
) -> Result<Option<Told>, Error> {
    let own: Vec<Packed> =
        decision.objects.iter().map(|object| pack(object.clone(), tx.compress)).collect();
    let objects = Objects::of(given, &own);
    let mut session = found.map(SessionNow::of);
    let mut made = Made::default();
    for change in &decision.changes {
        if let Change::CreateSession(new) = change {
            session = Some(create_session(tx, new)?);
            continue;
        }
        let session = session
            .as_mut()
            .ok_or_else(|| Error::Internal("a change without a session".to_owned()))?;
        match change {
            Change::CreateSession(_) => {}
            Change::AppendTurn(record) => append_turn(tx, session, record, &objects, now)?,
            Change::AdoptTurns(records) => adopt_turns(tx, session, records, &objects, now)?,
            Change::AppendStep(record) => append_step(tx, &mut made, record, &objects, now)?,
            Change::AppendCommit(record) => append_commit(tx, &mut made, record)?,
            Change::PutTask(task) => put_task(tx, &mut made, session, task, now)?,
            Change::SetPrompt(prompt) => {
                session.prompt = prompt.as_deref().map(prompt_json).transpose()?
            }
            Change::MoveHead(turn) => move_head(tx, session, *turn, now)?,
            Change::PutSession(put) => talk::put_session(tx.connection, session.row, put)?,
            Change::PutItem(item) => {
                // Its pictures are on disk before anybody is told that it was taken.
                let pictures: Vec<BlobId> = item.content.iter().filter_map(Part::blob).collect();
                store_blobs(tx, &pictures, &objects, now)?;
                talk::put_item(tx.connection, session.row, item)?;
            }
            Change::RemoveItem(id) => talk::remove_item(tx.connection, *id)?,
            Change::PutRun(run) => talk::put_run(tx.connection, session.row, run)?,
            Change::AppendDrafts(entries) => {
                talk::append_drafts(tx.connection, session.row, entries)?
            }
            Change::ClearDrafts => talk::clear_drafts(tx.connection, session.row)?,
            Change::PutSuspension(suspension) => {
                talk::put_suspension(tx.connection, session.row, suspension)?
            }
            Change::ConsumeSuspension { id, answer } => {
                talk::consume_suspension(tx.connection, *id, answer.as_ref(), now)?
            }
            Change::PutAgentSession(agent) => {
                talk::put_agent_session(tx.connection, session.row, agent)?
            }
            Change::PutCompaction(new) => {
                let turn = session
                    .head
                    .ok_or_else(|| Error::Internal("a compaction without its turn".to_owned()))?;
                shorten::put_compaction(tx, turn, new)?;
            }
            Change::Pin { turn, tokens } => {
                shorten::pin(tx, session.row, session.head, *turn, *tokens, now)?
            }
            Change::Unpin(turn) => shorten::unpin(tx, session.row, *turn)?,
            Change::DeleteSession => delete_session(tx, session, now)?,
        }
    }
    let told = match session {
        Some(session) => Some(finish(tx, session, decision, now)?),
        None => None,
    };
    Ok(told)
}

/// Removes every row of a session but its events, its tasks and its turns; those go behind.
fn delete_session(
    tx: &Transaction<'_>,
    session: &mut SessionNow,
    now: Timestamp,
) -> Result<(), Error> {
    let connection = tx.connection;
    connection
        .prepare_cached("INSERT INTO deleted_sessions(row, id, label, deleted_at) SELECT row, id, label, ?2 FROM sessions WHERE row = ?1")?
        .execute(params![session.row, now.0])?;
    connection
        .prepare_cached(
            "INSERT OR IGNORE INTO purging(turn) SELECT DISTINCT turn FROM session_history WHERE session = ?1 AND turn IS NOT NULL",
        )?
        .execute([session.row])?;
    connection
        .prepare_cached("UPDATE tasks SET ended_at = ?2 WHERE session = ?1 AND ended_at IS NULL")?
        .execute(params![session.row, now.0])?;
    connection
        .prepare_cached("DELETE FROM refs WHERE name = ?1")?
        .execute([format!("STAGE:{}", session.id)])?;
    connection
        .prepare_cached("DELETE FROM session_aliases WHERE session_label = (SELECT label FROM sessions WHERE row = ?1)")?
        .execute([session.row])?;
    for table in
        ["inbox", "runs", "drafts", "suspensions", "session_history", "agent_sessions", "pins"]
    {
        connection
            .prepare_cached(&format!("DELETE FROM {table} WHERE session = ?1"))?
            .execute([session.row])?;
    }
    connection.prepare_cached("DELETE FROM sessions WHERE row = ?1")?.execute([session.row])?;
    Ok(())
}

/// Moves the head back along the turns that led to it.
fn move_head(
    tx: &mut Transaction<'_>,
    session: &mut SessionNow,
    turn: Option<TurnId>,
    now: Timestamp,
) -> Result<(), Error> {
    let to = match turn {
        None => None,
        Some(turn) => {
            let found = tx.tail.find(tx.connection, Table::Turns, turn.0)?;
            Some(found.ok_or_else(|| Error::NotFound { what: "turn", name: turn.to_string() })?)
        }
    };
    let (mut at, mut depth) = (session.head, session.turn_count);
    let mut step = tx.connection.prepare_cached("SELECT parent FROM turns WHERE id = ?1")?;
    while at != to {
        let Some(row) = at else {
            return Err(Error::Refused(Refusal::NotAnAncestor {
                turn: turn.unwrap_or(TurnId(ObjectId::from_bytes([0; 32]))),
            }));
        };
        at = step.query_row([row], |row| row.get(0))?;
        depth -= 1;
    }
    (session.head, session.turn_count) = (to, depth);
    shorten::unpin_after(tx, session.row, depth)?;
    history(tx, session.row, to, now)
}

pub(super) fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|e| Error::Internal(e.to_string()))
}

fn prompt_json(prompt: &Prompt) -> Result<String, Error> {
    to_json(prompt)
}

pub(super) fn name_of<T: Serialize>(value: &T) -> Result<String, Error> {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => Ok(name),
        other => Err(Error::Internal(format!("not a name: {other:?}"))),
    }
}

fn create_session(tx: &mut Transaction<'_>, new: &session::New) -> Result<SessionNow, Error> {
    let head = match new.head {
        None => None,
        Some(turn) => Some(
            tx.tail
                .find(tx.connection, Table::Turns, turn.0)?
                .ok_or_else(|| Error::NotFound { what: "turn", name: turn.to_string() })?,
        ),
    };
    let at = new.created_at.0;
    tx.connection
        .prepare_cached(
            "INSERT INTO sessions(id, label, title, project, working_dir, status, state, head, turn_count, persona, provider_id,
                 model, origin, created_at, updated_at, last_activity_at, track_tasks, parent_session_label, parent_turn_id,
                 spawn_tool_call_id)
             VALUES (?1, ?2, ?3, ?4, ?5, 'active', 'idle', ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?12, ?12, ?13, ?14, ?15, ?16)",
        )?
        .execute(params![
            new.id.to_string(),
            new.label,
            new.title,
            new.project,
            new.working_dir,
            head,
            new.turn_count,
            new.persona,
            new.provider_id,
            new.model,
            name_of(&new.origin)?,
            at,
            new.tracks_tasks(),
            new.parent.as_ref().map(|parent| &parent.session),
            new.parent.as_ref().and_then(|parent| parent.turn).map(|turn| turn.to_string()),
            new.parent.as_ref().and_then(|parent| parent.tool_call.as_ref())
        ])?;
    let row = tx.connection.last_insert_rowid();
    if head.is_some() {
        history(tx, row, head, new.created_at)?;
    }
    Ok(SessionNow {
        row,
        id: new.id.to_string(),
        head,
        turn_count: new.turn_count,
        task: None,
        prompt: None,
        seq: 0,
        last_event: None,
        committed: None,
    })
}

fn history(
    tx: &mut Transaction<'_>,
    session: i64,
    turn: Option<i64>,
    now: Timestamp,
) -> Result<(), Error> {
    tx.hot(Hot::InsertMove)?.execute(params![session, turn, now.0])?;
    Ok(())
}

fn append_turn(
    tx: &mut Transaction<'_>,
    session: &mut SessionNow,
    record: &turn::Record,
    objects: &Objects<'_>,
    now: Timestamp,
) -> Result<(), Error> {
    let body = objects
        .find(Kind::TurnBody, record.body)
        .ok_or_else(|| Error::Internal("a turn without its body".to_owned()))?;
    insert_turn(tx, session, record, Some(body), objects, now)?;
    history(tx, session.row, session.head, now)
}

/// Turns from elsewhere: an ancestor of a turn that is here is here, so the last one that is known says which are new.
fn adopt_turns(
    tx: &mut Transaction<'_>,
    session: &mut SessionNow,
    records: &[turn::Record],
    objects: &Objects<'_>,
    now: Timestamp,
) -> Result<(), Error> {
    let (mut known, mut unknown) = (0, records.len());
    while known < unknown {
        let middle = known.midpoint(unknown);
        match tx.tail.find(tx.connection, Table::Turns, records[middle].id.0)? {
            Some(row) => {
                session.turn_count += (middle + 1 - known) as u64;
                (session.head, known) = (Some(row), middle + 1);
            }
            None => unknown = middle,
        }
    }
    for record in &records[known..] {
        // The words may have been purged where it comes from.
        insert_turn(tx, session, record, objects.find(Kind::TurnBody, record.body), objects, now)?;
        if let Some((turn, compaction)) = session.head.zip(record.compaction.as_deref()) {
            shorten::put_compaction(tx, turn, compaction)?;
        }
    }
    history(tx, session.row, session.head, now)
}

fn insert_turn(
    tx: &mut Transaction<'_>,
    session: &mut SessionNow,
    record: &turn::Record,
    body: Option<&Packed>,
    objects: &Objects<'_>,
    now: Timestamp,
) -> Result<(), Error> {
    let place = body.map(|body| tx.end.put(tx.connection, body)).transpose()?;
    let blobs = store_blobs(tx, &record.blobs, objects, now)?;
    let header =
        std::str::from_utf8(&record.object.bytes).map_err(|e| Error::Internal(e.to_string()))?;
    tx.hot(Hot::InsertTurn)?.execute(params![
        record.id.0.as_bytes(),
        record.object.version,
        session.head,
        session.turn_count + 1,
        session.row,
        header,
        blobs,
        body.map_or(Kind::TurnBody.newest_version(), |body| body.version),
        place.as_ref().map(|place| place.seg),
        place.as_ref().map(|place| place.off),
        place.as_ref().map(|place| place.len),
        place.as_ref().map(|place| place.packing),
        place.as_ref().map_or(0, |place| place.size)
    ])?;
    let row = tx.connection.last_insert_rowid();
    if let Some(body) = body {
        tx.words.push((Table::Turns, row, body.words.clone()));
    }
    for label in &record.spawned {
        // The worker learns in which turn it was started once there is that turn.
        tx.connection
            .prepare_cached(
                "UPDATE sessions SET parent_turn_id = ?2 WHERE label = ?1 AND parent_turn_id IS NULL
                   AND parent_session_label = (SELECT label FROM sessions WHERE row = ?3)",
            )?
            .execute(params![label, record.id.to_string(), session.row])?;
    }
    session.head = Some(row);
    session.committed = Some((record.id, row));
    session.turn_count += 1;
    Ok(())
}

/// Stores the blobs that are not here yet and names the rows of all of them.
fn store_blobs(
    tx: &mut Transaction<'_>,
    wanted: &[BlobId],
    objects: &Objects<'_>,
    now: Timestamp,
) -> Result<Option<String>, Error> {
    if wanted.is_empty() {
        return Ok(None);
    }
    let mut rows = Vec::with_capacity(wanted.len());
    for blob in wanted {
        let row = match tx.tail.find(tx.connection, Table::Blobs, blob.0)? {
            Some(row) => row,
            None => insert_blob(tx, *blob, objects, now)?,
        };
        rows.push(row);
    }
    Ok(Some(to_json(&rows)?))
}

fn insert_blob(
    tx: &mut Transaction<'_>,
    blob: BlobId,
    objects: &Objects<'_>,
    now: Timestamp,
) -> Result<i64, Error> {
    let packed = objects
        .find(Kind::Blob, blob.0)
        .ok_or(Error::NotFound { what: "blob", name: blob.to_string() })?;
    let place = tx.end.put(tx.connection, packed)?;
    tx.hot(Hot::InsertBlob)?.execute(params![
        blob.0.as_bytes(),
        packed.version,
        place.seg,
        place.off,
        place.len,
        place.packing,
        place.size,
        now.0
    ])?;
    let row = tx.connection.last_insert_rowid();
    tx.tail.add(blob.0, row);
    Ok(row)
}

/// The row of a task: known, stored, or the next one.
fn task_row(tx: &Transaction<'_>, made: &mut Made, id: TaskId) -> Result<i64, Error> {
    if let Some(row) = made.tasks.get(&id) {
        return Ok(*row);
    }
    let stored: Option<i64> = tx
        .connection
        .prepare_cached("SELECT row FROM tasks WHERE id = ?1")?
        .query_row([id.to_string()], |row| row.get(0))
        .optional()?;
    let row = match stored {
        Some(row) => row,
        None => {
            let next: i64 = tx
                .connection
                .prepare_cached("SELECT COALESCE(MAX(row), 0) + 1 FROM tasks")?
                .query_row([], |row| row.get(0))?;
            next + made.tasks.values().filter(|row| **row >= next).count() as i64
        }
    };
    made.tasks.insert(id, row);
    Ok(row)
}

fn step_row(
    tx: &Transaction<'_>,
    made: &Made,
    task: i64,
    seq: u64,
    id: StepId,
) -> Result<i64, Error> {
    if let Some(row) = made.steps.get(&id) {
        return Ok(*row);
    }
    tx.connection
        .prepare_cached("SELECT id FROM steps WHERE task = ?1 AND seq = ?2 AND hash = ?3")?
        .query_row(params![task, seq, id.0.as_bytes()], |row| row.get(0))
        .optional()?
        .ok_or_else(|| Error::Internal(format!("step {id} is not in its task's chain")))
}

fn append_step(
    tx: &mut Transaction<'_>,
    made: &mut Made,
    record: &StepRecord,
    objects: &Objects<'_>,
    now: Timestamp,
) -> Result<(), Error> {
    let step = &record.step;
    let task = task_row(tx, made, step.task)?;
    let parent =
        step.parent.map(|parent| step_row(tx, made, task, record.seq - 1, parent)).transpose()?;
    let blobs = store_blobs(tx, &step.blobs(), objects, now)?;
    let packed = pack(record.object.clone().into(), tx.compress);
    let place = tx.end.put(tx.connection, &packed)?;
    tx.connection
        .prepare_cached(
            "INSERT INTO steps(hash, version, task, seq, parent, kind, files, notes, at, blobs, seg, off, len, packing, size)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
        )?
        .execute(params![
            record.id.0.as_bytes(),
            record.object.version,
            task,
            record.seq,
            parent,
            step.kind.name(),
            files_json(step)?,
            step.notes().count() as i64,
            step.timestamp.0,
            blobs,
            place.seg,
            place.off,
            place.len,
            place.packing,
            place.size
        ])?;
    let row = tx.connection.last_insert_rowid();
    made.steps.insert(record.id, row);
    tx.words.push((Table::Steps, row, packed.words));
    Ok(())
}

pub(super) fn files_json(step: &Step) -> Result<Option<String>, Error> {
    let touch = |entry: &Entry| match entry {
        Entry::FileRead { path, .. } => {
            Some(FileTouch { path: path.clone(), written: false, blob: entry.blob() })
        }
        Entry::FileWrite { path, .. } => {
            Some(FileTouch { path: path.clone(), written: true, blob: entry.blob() })
        }
        _ => None,
    };
    let files: Vec<FileTouch> = step.payload.iter().filter_map(touch).collect();
    if files.is_empty() { Ok(None) } else { to_json(&files).map(Some) }
}

fn append_commit(
    tx: &mut Transaction<'_>,
    made: &mut Made,
    record: &CommitRecord,
) -> Result<(), Error> {
    let commit = &record.commit;
    let task = task_row(tx, made, commit.task)?;
    let packed = pack(record.object.clone().into(), tx.compress);
    let Place { seg, off, len, packing, size } = tx.end.put(tx.connection, &packed)?;
    tx.connection
        .prepare_cached(
            "INSERT INTO commits(hash, version, task, project, commit_type, created_at, seg, off, len, packing, size)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?
        .execute(params![
            record.id.0.as_bytes(),
            record.object.version,
            task,
            commit.project,
            commit.commit_type.name(),
            commit.created_at.0,
            seg,
            off,
            len,
            packing,
            size
        ])?;
    let row = tx.connection.last_insert_rowid();
    tx.words.push((Table::Commits, row, packed.words));
    move_ref(tx, &format!("HEAD:{}", commit.project), record.id.0, commit.created_at)
}

fn move_ref(
    tx: &Transaction<'_>,
    name: &str,
    target: ObjectId,
    now: Timestamp,
) -> Result<(), Error> {
    tx.connection
        .prepare_cached(
            "INSERT INTO refs(name, target, moved_at) VALUES (?1, ?2, ?3) ON CONFLICT(name) DO UPDATE SET target = ?2, moved_at = ?3",
        )?
        .execute(params![name, target.to_string(), now.0])?;
    Ok(())
}

fn put_task(
    tx: &mut Transaction<'_>,
    made: &mut Made,
    session: &mut SessionNow,
    task: &Task,
    now: Timestamp,
) -> Result<(), Error> {
    let row = task_row(tx, made, task.id)?;
    let head = step_row(tx, made, row, task.steps, task.head)?;
    tx.connection
        .prepare_cached(
            "INSERT INTO tasks(row, id, session, description, state, progress, steps, head, base, base_turn, started_at,
                 last_activity_at, ended_at, \"commit\")
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
             ON CONFLICT(row) DO UPDATE SET state = ?5, progress = ?6, steps = ?7, head = ?8, last_activity_at = ?12,
                 ended_at = ?13, \"commit\" = ?14",
        )?
        .execute(params![
            row,
            task.id.to_string(),
            session.row,
            task.description,
            to_json(&task.state)?,
            to_json(&task.progress)?,
            task.steps,
            head,
            task.base.map(|id| *id.0.as_bytes()),
            task.base_turn.map(|id| *id.0.as_bytes()),
            task.started_at.0,
            task.last_activity_at.0,
            task.ended_at.map(|at| at.0),
            task.commit.map(|id| *id.0.as_bytes())
        ])?;
    let stage = format!("STAGE:{}", session.id);
    if task.ended_at.is_none() {
        session.task = Some(row);
        move_ref(tx, &stage, task.head.0, now)
    } else {
        session.task = None;
        tx.connection.prepare_cached("DELETE FROM refs WHERE name = ?1")?.execute([stage])?;
        Ok(())
    }
}

/// One update of the session's row and one row of the feed for the whole decision.
fn finish(
    tx: &mut Transaction<'_>,
    session: SessionNow,
    decision: &Batch,
    now: Timestamp,
) -> Result<Told, Error> {
    if decision.changes.is_empty() && decision.events.is_empty() {
        return Ok(Told { session: session.id, seq: session.seq, row: None });
    }
    let seq = session.seq + decision.events.len() as u64;
    let mut last_event = session.last_event;
    if !decision.events.is_empty() {
        tx.hot(Hot::InsertEvents)?.execute(params![
            session.row,
            last_event,
            seq,
            now.0,
            feed::document(&decision.events, session.committed)?
        ])?;
        last_event = Some(tx.connection.last_insert_rowid());
    }
    tx.hot(Hot::UpdateSession)?.execute(params![
        session.row,
        session.head,
        session.turn_count,
        session.task,
        session.prompt,
        seq,
        last_event,
        now.0
    ])?;
    let row = last_event.filter(|_| !decision.events.is_empty());
    Ok(Told { session: session.id, seq, row })
}
