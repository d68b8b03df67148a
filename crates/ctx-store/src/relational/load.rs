//! Everything that a write reads: the view that its rule sees, and the row numbers that its changes
//! refer to. All reads happen before the first write of the same command.

use std::collections::HashMap;

use ctx_core::commit::{FileTouch, merge_files};
use ctx_core::decide::{Change, Drafts, Needs, SessionView, TurnNeed, TurnPosition};
use ctx_core::id::{BlobId, CommitId, StepId, TaskId, TurnId};
use ctx_core::message::Part;
use ctx_core::routing::{OTHER_SESSIONS_MAX, Routed};
use ctx_core::session::Activity;
use ctx_core::task::Task;
use ctx_core::time::Timestamp;
use ctx_core::turn;

use crate::driver::{Db, Table, args};
use crate::{Error, SessionQuery, Target};

use super::session_rows::{self, SessionRow};
use super::task_rows::TaskRow;
use super::{
    compaction_rows, conversation_rows, from_json, identity_rows, not_found, task_rows, turn_rows,
    worker_rows,
};

/// A session as a write found it.
#[derive(Default)]
pub(crate) struct Loaded {
    pub(crate) session: Option<SessionRow>,
    pub(crate) view: Option<SessionView>,
    /// How the session of a message from a channel was found.
    pub(crate) routed: Option<Routed>,
    pub(crate) rows: KnownRows,
}

/// Row numbers of stored objects, found before `apply` runs.
#[derive(Default)]
pub(crate) struct KnownRows {
    pub(crate) turns: HashMap<TurnId, i64>,
    pub(crate) blobs: HashMap<BlobId, i64>,
    pub(crate) tasks: HashMap<TaskId, KnownTask>,
    /// Of the turns to adopt: how many are stored already, and the row of the last of these.
    pub(crate) adopted: Option<(usize, i64)>,
    /// The HEAD of the session's project, if it was read. `None` inside: there is none.
    pub(crate) project_head: Option<Option<CommitId>>,
}

/// Rows of a stored task.
#[derive(Clone, Copy)]
pub(crate) struct KnownTask {
    pub(crate) row: i64,
    pub(crate) head: StepId,
    pub(crate) head_row: i64,
}

impl KnownRows {
    fn add_task(&mut self, found: TaskRow) -> Task {
        let known = KnownTask { row: found.row, head: found.task.head, head_row: found.head_row };
        self.tasks.insert(found.task.id, known);
        found.task
    }
}

/// What a rule sees of one session.
pub(crate) fn load(
    db: &dyn Db,
    target: &Target,
    needs: &Needs,
    now: Timestamp,
) -> Result<Loaded, Error> {
    let (routed, found) = match target {
        Target::Inbound(inbound) => {
            let (routed, found) = identity_rows::route(db, inbound, now)?;
            (Some(routed), found)
        }
        Target::Id(_) | Target::Label(_) => (None, session_rows::find(db, target)?),
    };
    let Some(found) = found else { return Ok(Loaded { routed, ..Loaded::default() }) };
    let mut rows = KnownRows::default();
    let mut view = SessionView::bare(found.session.clone());
    view.prompt = prompt(&found)?;
    load_work(db, &found, needs, &mut view, &mut rows)?;
    load_conversation(db, &found, needs, &mut view)?;
    load_turn(db, &found, needs, &mut view, &mut rows)?;
    if needs.workers {
        view.workers = worker_rows::unfinished_workers(db, &found.session.label)?;
    }
    let entity = routed.as_ref().and_then(Routed::entity).or(found.session.routing.entity);
    if let Some(entity) =
        entity.filter(|_| needs.entity_sessions && found.session.state == Activity::Idle)
    {
        let labels = identity_rows::session_labels(db, entity, OTHER_SESSIONS_MAX + 1)?;
        view.entity_sessions = Some(labels);
    }
    if let Some(label) = &needs.label {
        view.label_taken = session_rows::is_label_taken(db, label)?;
    }
    Ok(Loaded { session: Some(found), view: Some(view), routed, rows })
}

fn prompt(found: &SessionRow) -> Result<Option<ctx_core::prompt::Prompt>, Error> {
    found.prompt.as_deref().map(|text| from_json("a session's prompt", text)).transpose()
}

/// The open task, the project's head, and what sealing and importing need.
fn load_work(
    db: &dyn Db,
    found: &SessionRow,
    needs: &Needs,
    view: &mut SessionView,
    rows: &mut KnownRows,
) -> Result<(), Error> {
    if needs.open_task {
        view.project_head = task_rows::project_head(db, &found.session.project)?;
        rows.project_head = Some(view.project_head);
        if let Some(task) = found.task_row.map(|row| task_rows::by_row(db, row)).transpose()? {
            view.task = task.map(|task| rows.add_task(task));
        }
    }
    if let (Some(task), Some(row), true) = (&view.task, found.task_row, needs.to_seal) {
        (view.first_turn, view.turns_since) = turns_since(db, found.head_row, task.base_turn)?;
        view.files = files_of_task(db, row)?;
    }
    if let Some((task, step)) = needs.import {
        view.known_task = task_rows::by_id(db, task)?.map(|task| rows.add_task(task));
        view.has_import_head = task_rows::has_step(db, task, step)?;
    }
    Ok(())
}

fn files_of_task(db: &dyn Db, task: i64) -> Result<Vec<FileTouch>, Error> {
    Ok(merge_files(task_rows::files_of_steps(db, task)?))
}

/// The first turn after `base`, and the number of turns since, walking back from the head.
fn turns_since(
    db: &dyn Db,
    head: Option<i64>,
    base: Option<TurnId>,
) -> Result<(Option<TurnId>, u64), Error> {
    let (mut at, mut first, mut count) = (head, None, 0);
    while let Some(row) = at {
        let (turn, parent): (TurnId, Option<i64>) = db
            .row("SELECT hash, parent FROM turns WHERE id = ?1", args![row], |found| {
                Ok((TurnId(found.get(0)?), found.get(1)?))
            })?
            .ok_or_else(|| Error::Damaged(format!("turn row {row} is missing")))?;
        if Some(turn) == base {
            break;
        }
        (first, count, at) = (Some(turn), count + 1, parent);
    }
    Ok((first, count))
}

/// The run, the suspensions, the inbox, the open turn, the pins and the agent's session.
fn load_conversation(
    db: &dyn Db,
    found: &SessionRow,
    needs: &Needs,
    view: &mut SessionView,
) -> Result<(), Error> {
    let (row, state) = (found.row, found.session.state);
    if (needs.conversation || needs.run) && state != Activity::Idle {
        view.run = conversation_rows::newest_runs(db, &[row])?.pop().map(|(_, run)| run);
    }
    if needs.conversation && state == Activity::Suspended {
        view.suspensions = seconds(conversation_rows::suspensions(db, &[row])?);
        view.answered = conversation_rows::answered(db, row)?;
    }
    if needs.resumed && state == Activity::Running {
        view.answered = conversation_rows::newest_answered(db, row)?;
    }
    if needs.conversation || needs.dropped {
        view.inbox = seconds(conversation_rows::inboxes(db, &[row], needs.dropped)?);
    }
    if let Some(id) = needs.suspension {
        view.suspension_consumed = conversation_rows::is_consumed(db, row, id)?;
    }
    let drafts = match needs.drafts {
        Drafts::No => false,
        Drafts::IfSuspended => state == Activity::Suspended,
        Drafts::Always => state != Activity::Idle,
    };
    if drafts {
        view.drafts = conversation_rows::drafts(db, row)?;
    }
    if let Some((provider_id, host)) = &needs.agent_session {
        view.agent_session = conversation_rows::agent_session(db, row, provider_id, host)?;
    }
    Ok(())
}

fn seconds<T>(rows: Vec<(i64, T)>) -> Vec<T> {
    rows.into_iter().map(|(_, value)| value).collect()
}

/// The pins, and the position of the turn that a rewind, pin, retry or fork names.
fn load_turn(
    db: &dyn Db,
    found: &SessionRow,
    needs: &Needs,
    view: &mut SessionView,
    rows: &mut KnownRows,
) -> Result<(), Error> {
    if needs.pins {
        for (row, pin) in compaction_rows::pins(db, found.row)? {
            rows.turns.insert(pin.turn, row);
            view.pins.push(pin);
        }
    }
    let Some(need) = needs.turn else { return Ok(()) };
    let turn = need.turn();
    let row = if found.session.head == Some(turn) { found.head_row } else { None };
    let row = row.map_or_else(|| turn_rows::known_turn(db, turn), Ok)?;
    rows.turns.insert(turn, row);
    let depth = turn_rows::depth_of(db, row)?;
    let reachable = match need {
        TurnNeed::Ancestor(_) => turn_rows::is_ancestor(db, row, found.head_row)?,
        TurnNeed::Descendant(_) => match found.head_row {
            Some(head) => turn_rows::is_ancestor(db, head, Some(row))?,
            None => false,
        },
        TurnNeed::ForkPoint(_) => turn_rows::is_in_tree(db, found.row, found.head_row, row)?,
    };
    let mut pins = Vec::new();
    for pin in view.pins.iter().filter(|pin| pin.depth <= depth) {
        if matches!(need, TurnNeed::ForkPoint(_))
            && turn_rows::is_ancestor(db, rows.turns[&pin.turn], Some(row))?
        {
            pins.push(pin.clone());
        }
    }
    view.turn = Some(TurnPosition { turn, depth, reachable, pins });
    Ok(())
}

/// Finds the rows that a decision's changes refer to and that `load` did not read.
pub(crate) fn resolve(db: &dyn Db, changes: &[Change], rows: &mut KnownRows) -> Result<(), Error> {
    for change in changes {
        match change {
            Change::AppendTurn(record) => resolve_blobs(db, &record.blobs, rows)?,
            Change::ImportTurns(records) => resolve_adopted(db, records, rows)?,
            Change::AppendStep(record) => resolve_blobs(db, &record.step.blobs(), rows)?,
            Change::PutItem(item) => {
                let pictures: Vec<BlobId> = item.content.iter().filter_map(Part::blob).collect();
                resolve_blobs(db, &pictures, rows)?;
            }
            Change::MarkReported { head, .. } => {
                if let Some(row) = db.locate_one(Table::Turns, head.0)? {
                    rows.turns.insert(*head, row);
                }
            }
            Change::CreateSession(new) => resolve_turn(db, new.head, rows)?,
            Change::MoveHead { turn, .. } => resolve_turn(db, *turn, rows)?,
            Change::Pin { turn, .. } | Change::Unpin(turn) => {
                resolve_turn(db, Some(*turn), rows)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn resolve_turn(db: &dyn Db, turn: Option<TurnId>, rows: &mut KnownRows) -> Result<(), Error> {
    if let Some(turn) = turn.filter(|turn| !rows.turns.contains_key(turn)) {
        rows.turns.insert(turn, turn_rows::known_turn(db, turn)?);
    }
    Ok(())
}

fn resolve_blobs(db: &dyn Db, blobs: &[BlobId], rows: &mut KnownRows) -> Result<(), Error> {
    for blob in blobs {
        if let Some(row) = db.locate_one(Table::Blobs, blob.0)? {
            rows.blobs.insert(*blob, row);
        }
    }
    Ok(())
}

/// The stored ones of the turns to adopt. All ancestors of a stored turn are stored, so the stored
/// ones are a prefix, found by binary search.
fn resolve_adopted(
    db: &dyn Db,
    records: &[turn::Record],
    rows: &mut KnownRows,
) -> Result<(), Error> {
    let (mut known, mut unknown) = (0, records.len());
    // Mostly none is stored: one lookup shows it.
    if let Some(first) = records.first() {
        match db.locate_one(Table::Turns, first.id.0)? {
            Some(row) => (known, rows.adopted) = (1, Some((1, row))),
            None => unknown = 0,
        }
    }
    while known < unknown {
        let middle = known.midpoint(unknown);
        match db.locate_one(Table::Turns, records[middle].id.0)? {
            Some(row) => {
                known = middle + 1;
                rows.adopted = Some((known, row));
            }
            None => unknown = middle,
        }
    }
    for record in &records[known..] {
        resolve_blobs(db, &record.blobs, rows)?;
    }
    Ok(())
}

/// A page of sessions with what a list shows of each: one query per table.
pub(crate) fn views(db: &dyn Db, query: &SessionQuery) -> Result<Vec<SessionView>, Error> {
    let found = session_rows::list(db, query)?;
    let rows_in = |keep: fn(Activity) -> bool| -> Vec<i64> {
        let kept = found.iter().filter(|found| keep(found.session.state));
        kept.map(|found| found.row).collect()
    };
    let task_rows: Vec<i64> = found.iter().filter_map(|found| found.task_row).collect();
    let tasks = task_rows::by_rows(db, &task_rows)?;
    let mut tasks: HashMap<i64, Task> =
        tasks.into_iter().map(|found| (found.row, found.task)).collect();
    let mut inboxes = grouped(conversation_rows::inboxes(db, &rows_in(|_| true), false)?);
    let mut runs =
        grouped(conversation_rows::newest_runs(db, &rows_in(|state| state != Activity::Idle))?);
    let mut suspensions = grouped(conversation_rows::suspensions(
        db,
        &rows_in(|state| state == Activity::Suspended),
    )?);
    let view = |found: SessionRow| {
        Ok(SessionView {
            task: found.task_row.and_then(|row| tasks.remove(&row)),
            prompt: prompt(&found)?,
            run: runs.remove(&found.row).and_then(|mut runs| runs.pop()),
            suspensions: suspensions.remove(&found.row).unwrap_or_default(),
            inbox: inboxes.remove(&found.row).unwrap_or_default(),
            ..SessionView::bare(found.session)
        })
    };
    found.into_iter().map(view).collect()
}

fn grouped<T>(rows: Vec<(i64, T)>) -> HashMap<i64, Vec<T>> {
    let mut groups: HashMap<i64, Vec<T>> = HashMap::new();
    for (session, value) in rows {
        groups.entry(session).or_default().push(value);
    }
    groups
}

/// The row of a turn that `resolve` found.
pub(crate) fn turn_row(rows: &KnownRows, turn: TurnId) -> Result<i64, Error> {
    rows.turns.get(&turn).copied().ok_or_else(|| not_found("turn", turn))
}
