//! Writes a decision: one insert or update per change, one update of the session's row, one feed
//! row.
//!
//! It reads nothing and cannot refuse. What it needs was found by [`super::load`]; an error here is
//! a fault of the disk or of the program, and the whole transaction is rolled back.

use std::collections::HashMap;

use ctx_core::decide::{Change, CommitRecord, Event, StepRecord, activity};
use ctx_core::id::{BlobId, ObjectId, RunId, SessionId, StepId, TaskId, TurnId};
use ctx_core::message::Part;
use ctx_core::object::Kind;
use ctx_core::session::{self, Session};
use ctx_core::task::Task;
use ctx_core::time::Timestamp;
use ctx_core::turn;

use crate::Error;
use crate::driver::{Table, Tx, args};
use crate::pack::{Packed, pack};

use super::load::{KnownRows, Loaded, turn_row};
use super::session_rows::{Progress, SessionRow};
use super::{
    compaction_rows, conversation_rows, event_rows, history_rows, identity_rows, not_found,
    outbox_rows, session_rows, task_rows, to_json, turn_rows, worker_rows,
};

/// What a decision writes.
pub(crate) struct Input<'a> {
    pub(crate) changes: &'a [Change],
    pub(crate) events: &'a [Event],
    /// Bodies and blobs that the changes refer to.
    pub(crate) objects: Objects<'a>,
    /// Whether steps and commits are compressed.
    pub(crate) compress: bool,
    pub(crate) now: Timestamp,
}

/// Packed objects by kind and hash.
pub(crate) struct Objects<'a>(HashMap<(Kind, ObjectId), &'a Packed>);

impl<'a> Objects<'a> {
    pub(crate) fn new(objects: impl Iterator<Item = &'a Packed>) -> Self {
        Self(objects.map(|object| ((object.kind, object.id), object)).collect())
    }

    fn find(&self, kind: Kind, id: ObjectId) -> Option<&'a Packed> {
        self.0.get(&(kind, id)).copied()
    }
}

/// The session and feed row that a batch was written to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Applied {
    pub(crate) session: SessionId,
    /// Number of the session's newest event.
    pub(crate) seq: u64,
    /// The feed row; `None` if there was no event.
    pub(crate) feed_row: Option<i64>,
}

/// The columns of a session's row that are written once, at the end of a batch.
struct SessionState {
    row: i64,
    id: SessionId,
    label: String,
    head: Option<i64>,
    turn_count: u64,
    task: Option<i64>,
    prompt: Option<String>,
    seq: u64,
    last_event: Option<i64>,
    last_move: Option<i64>,
    last_run: Option<RunId>,
    is_new: bool,
    /// The turn that was added last, and its row.
    stored_turn: Option<(TurnId, i64)>,
}

impl SessionState {
    fn found(found: &SessionRow) -> Self {
        Self {
            row: found.row,
            id: found.session.id,
            label: found.session.label.clone(),
            head: found.head_row,
            turn_count: found.session.turn_count,
            task: found.task_row,
            prompt: found.prompt.clone(),
            seq: found.session.seq,
            last_event: found.last_event,
            last_move: found.last_move,
            last_run: found.last_run,
            is_new: false,
            stored_turn: None,
        }
    }

    fn created(row: i64, new: &session::New, head: Option<i64>) -> Self {
        Self {
            row,
            id: new.id,
            label: new.label.clone(),
            head,
            turn_count: new.turn_count,
            task: None,
            prompt: None,
            seq: 0,
            last_event: None,
            last_move: None,
            last_run: None,
            is_new: true,
            stored_turn: None,
        }
    }
}

/// Writes the changes. `None` if it neither found nor created a session.
pub(crate) fn apply(
    tx: &mut dyn Tx,
    loaded: Loaded,
    input: &Input<'_>,
) -> Result<Option<Applied>, Error> {
    let mut writer = Writer {
        tx,
        input,
        session: loaded.session.as_ref().map(SessionState::found),
        put: None,
        tasks: TaskRows::new(&loaded.rows),
        rows: loaded.rows,
    };
    for change in input.changes {
        writer.change(change)?;
    }
    writer.finish()
}

/// Rows of tasks and steps, stored before this batch or by it.
struct TaskRows {
    tasks: HashMap<TaskId, i64>,
    steps: HashMap<StepId, i64>,
}

impl TaskRows {
    fn new(rows: &KnownRows) -> Self {
        Self {
            tasks: rows.tasks.iter().map(|(id, known)| (*id, known.row)).collect(),
            steps: rows.tasks.values().map(|known| (known.head, known.head_row)).collect(),
        }
    }

    fn step(&self, id: StepId) -> Result<i64, Error> {
        let row = self.steps.get(&id).copied();
        row.ok_or_else(|| Error::Internal(format!("step {id} is not the newest of its task")))
    }
}

struct Writer<'a, 'b> {
    tx: &'a mut dyn Tx,
    input: &'a Input<'b>,
    session: Option<SessionState>,
    /// The session as the batch changes it; written at the end.
    put: Option<&'b Session>,
    tasks: TaskRows,
    rows: KnownRows,
}

impl<'b> Writer<'_, 'b> {
    fn change(&mut self, change: &'b Change) -> Result<(), Error> {
        if let Change::CreateSession(new) = change {
            let head = new.head.map(|turn| turn_row(&self.rows, turn)).transpose()?;
            let row = session_rows::insert(self.tx, new, head)?;
            self.session = Some(SessionState::created(row, new, head));
            return if head.is_some() { self.head_moved() } else { Ok(()) };
        }
        let (session, now) = (self.session()?.row, self.input.now);
        match change {
            Change::CreateSession(_) => Ok(()),
            Change::AppendTurn(record) => self.append_turn(record),
            Change::ImportTurns(records) => self.adopt_turns(records),
            Change::LinkWorker { label, turn } => {
                let manager = self.session()?.label.clone();
                worker_rows::link_worker(self.tx, label, &manager, *turn)
            }
            Change::MarkReported { worker, head } => match self.rows.turns.get(head) {
                Some(&head) => worker_rows::mark_reported(self.tx, *worker, head),
                // The turn was purged, so it is no longer the worker's head.
                None => Ok(()),
            },
            Change::AppendStep(record) => self.append_step(record),
            Change::AppendCommit(record) => self.append_commit(record),
            Change::PutTask(task) => self.put_task(task),
            Change::SetPrompt(prompt) => {
                self.session()?.prompt = prompt.as_deref().map(to_json).transpose()?;
                Ok(())
            }
            Change::MoveHead { turn, depth } => self.move_head(*turn, *depth),
            Change::PutSession(put) => self.put_session(put),
            Change::PutItem(item) => {
                let pictures: Vec<BlobId> = item.content.iter().filter_map(Part::blob).collect();
                self.store_blobs(&pictures)?;
                conversation_rows::put_item(self.tx, session, item)
            }
            Change::RemoveItem(id) => conversation_rows::delete_item(self.tx, session, *id),
            Change::PutRun(run) => {
                let newest = self.session()?.last_run.replace(run.id);
                conversation_rows::put_run(self.tx, session, run, newest)
            }
            Change::AppendDrafts(entries) => {
                conversation_rows::append_drafts(self.tx, session, entries)
            }
            Change::ClearDrafts => conversation_rows::clear_drafts(self.tx, session),
            Change::PutSuspension(suspension) => {
                let run = self.session()?.last_run;
                let run =
                    run.ok_or_else(|| Error::Internal("a suspension without a run".to_owned()))?;
                conversation_rows::put_suspension(self.tx, session, run, suspension)
            }
            Change::ConsumeSuspension { id, answer } => {
                conversation_rows::consume_suspension(self.tx, *id, answer.as_ref(), now)
            }
            Change::PutAgentSession(agent) => {
                conversation_rows::put_agent_session(self.tx, session, agent)
            }
            Change::PutCompaction(new) => {
                let turn = self.session()?.head;
                let turn =
                    turn.ok_or_else(|| Error::Internal("a compaction without a turn".to_owned()))?;
                compaction_rows::insert(self.tx, turn, new)
            }
            Change::Pin { turn, tokens } => {
                let turn = turn_row(&self.rows, *turn)?;
                compaction_rows::insert_pin(self.tx, session, turn, *tokens, now)
            }
            Change::Unpin(turn) => {
                compaction_rows::delete_pin(self.tx, session, turn_row(&self.rows, *turn)?)
            }
            Change::PutAlias(alias) => identity_rows::insert_alias(self.tx, alias),
            Change::SetEntity(entity) => identity_rows::set_entity(self.tx, session, *entity),
            Change::PutHistoryKey(new) => history_rows::insert(self.tx, session, new, now),
            Change::PutOutgoing(new) => outbox_rows::insert(self.tx, session, new),
            Change::DeleteSession => {
                let id = self.session()?.id.to_string();
                session_rows::delete(self.tx, session, &id, now)
            }
        }
    }

    fn session(&mut self) -> Result<&mut SessionState, Error> {
        self.session
            .as_mut()
            .ok_or_else(|| Error::Internal("a change without a session".to_owned()))
    }

    fn put_session(&mut self, put: &'b Session) -> Result<(), Error> {
        self.put = Some(put);
        let session = self.session()?;
        if session.label == put.label {
            return Ok(());
        }
        session.label.clone_from(&put.label);
        let row = session.row;
        session_rows::rename(self.tx, row, &put.label)
    }

    fn append_turn(&mut self, record: &turn::Record) -> Result<(), Error> {
        let body = self
            .input
            .objects
            .find(Kind::TurnBody, record.body)
            .ok_or_else(|| Error::Internal("a turn without its body".to_owned()))?;
        self.insert_turn(record, Some(body))?;
        self.head_moved()
    }

    /// Inserts the turns that are not stored yet. A body that was purged at the source is absent.
    fn adopt_turns(&mut self, records: &[turn::Record]) -> Result<(), Error> {
        let known = self.rows.adopted.map_or(0, |(known, _)| known);
        if let Some((known, row)) = self.rows.adopted {
            let session = self.session()?;
            session.head = Some(row);
            session.turn_count += known as u64;
            let session = session.row;
            session_rows::set_base(self.tx, session, row)?;
        }
        for record in &records[known..] {
            let body = self.input.objects.find(Kind::TurnBody, record.body);
            let turn = self.insert_turn(record, body)?;
            if let Some(compaction) = record.compaction.as_deref() {
                compaction_rows::insert(self.tx, turn, compaction)?;
            }
        }
        self.head_moved()
    }

    fn insert_turn(&mut self, record: &turn::Record, body: Option<&Packed>) -> Result<i64, Error> {
        let blobs = self.store_blobs(&record.blobs)?;
        let session = self.session()?;
        let (row, parent, depth) = (session.row, session.head, session.turn_count + 1);
        let turn = turn_rows::insert(self.tx, row, parent, depth, record, body, blobs.as_deref())?;
        let session = self.session()?;
        session.head = Some(turn);
        session.turn_count = depth;
        session.stored_turn = Some((record.id, turn));
        Ok(turn)
    }

    fn head_moved(&mut self) -> Result<(), Error> {
        let now = self.input.now;
        let session = self.session()?;
        let (row, prev, head) = (session.row, session.last_move, session.head);
        let moved = session_rows::insert_head_move(self.tx, row, prev, head, now)?;
        self.session()?.last_move = Some(moved);
        Ok(())
    }

    fn move_head(&mut self, turn: Option<TurnId>, depth: u64) -> Result<(), Error> {
        let head = turn.map(|turn| turn_row(&self.rows, turn)).transpose()?;
        let session = self.session()?;
        (session.head, session.turn_count) = (head, depth);
        let row = session.row;
        compaction_rows::delete_pins_below(self.tx, row, depth)?;
        self.head_moved()
    }

    /// Inserts the blobs that are not stored yet, and returns the `blobs` column for all of them.
    fn store_blobs(&mut self, blobs: &[BlobId]) -> Result<Option<String>, Error> {
        let mut rows = Vec::with_capacity(blobs.len());
        for blob in blobs {
            let row = match self.rows.blobs.get(blob) {
                Some(row) => *row,
                None => self.insert_blob(*blob)?,
            };
            rows.push(row);
        }
        turn_rows::blob_rows_json(&rows)
    }

    fn insert_blob(&mut self, blob: BlobId) -> Result<i64, Error> {
        let packed =
            self.input.objects.find(Kind::Blob, blob.0).ok_or_else(|| not_found("blob", blob))?;
        let row = self.tx.insert_object(
            Table::Blobs,
            "INSERT INTO blobs(hash, version, created_at, seg, off, len, packing, size)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            args![&blob.0, packed.version, self.input.now],
            Some(packed),
        )?;
        self.rows.blobs.insert(blob, row);
        Ok(row)
    }

    /// The row of a task. A new task gets its row with its first step; `put_task` completes it.
    fn task_row(&mut self, id: TaskId) -> Result<i64, Error> {
        if let Some(row) = self.tasks.tasks.get(&id) {
            return Ok(*row);
        }
        let put = self.input.changes.iter().find_map(|change| match change {
            Change::PutTask(task) if task.id == id => Some(task),
            _ => None,
        });
        let task = put.ok_or_else(|| Error::Internal(format!("step of unknown task {id}")))?;
        let session = self.session()?.row;
        let row = task_rows::insert(self.tx, session, task)?;
        self.tasks.tasks.insert(id, row);
        Ok(row)
    }

    fn append_step(&mut self, record: &StepRecord) -> Result<(), Error> {
        let task = self.task_row(record.step.task)?;
        let parent = record.step.parent.map(|parent| self.tasks.step(parent)).transpose()?;
        let blobs = self.store_blobs(&record.step.blobs())?;
        let body = pack(record.object.clone().into(), self.input.compress);
        let row = task_rows::insert_step(self.tx, task, parent, record, &body, blobs.as_deref())?;
        self.tasks.steps.insert(record.id, row);
        Ok(())
    }

    fn append_commit(&mut self, record: &CommitRecord) -> Result<(), Error> {
        let task = self.task_row(record.commit.task)?;
        let body = pack(record.object.clone().into(), self.input.compress);
        let seen = self.rows.project_head.replace(Some(record.id));
        task_rows::insert_commit(self.tx, task, record, &body, seen)
    }

    fn put_task(&mut self, task: &Task) -> Result<(), Error> {
        let (row, head) = (self.task_row(task.id)?, self.tasks.step(task.head)?);
        let session = self.session()?;
        session.task = task.ended_at.is_none().then_some(row);
        let id = session.id.to_string();
        task_rows::update(self.tx, row, head, task, &id, self.input.now)
    }

    /// Writes the feed row and the session's row.
    fn finish(mut self) -> Result<Option<Applied>, Error> {
        let Some(session) = self.session.take() else { return Ok(None) };
        let (changes, events, now) = (self.input.changes, self.input.events, self.input.now);
        let id = session.id;
        let Some(active_at) = activity(changes, events, now) else {
            return Ok(Some(Applied { session: id, seq: session.seq, feed_row: None }));
        };
        let seq = session.seq + events.len() as u64;
        let feed_row = if events.is_empty() {
            None
        } else {
            let prev = session.last_event;
            let turn = session.stored_turn;
            Some(event_rows::insert(self.tx, session.row, prev, seq, now, events, turn)?)
        };
        let progress = Progress {
            head: session.head,
            turn_count: session.turn_count,
            task: session.task,
            prompt: session.prompt.as_ref(),
            seq,
            last_event: feed_row.or(session.last_event),
            updated_at: now,
            last_move: session.last_move,
            last_run: session.last_run,
            last_activity_at: (!session.is_new).then_some(active_at),
        };
        session_rows::update(self.tx, session.row, self.put, &progress)?;
        Ok(Some(Applied { session: id, seq, feed_row }))
    }
}
