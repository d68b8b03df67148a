//! Rows of `tasks`, `steps`, `commits` and `refs`.

use std::collections::BTreeSet;

use ctx_core::commit::{Commit, FileTouch};
use ctx_core::decide::{CommitRecord, StepRecord};
use ctx_core::id::{CommitId, ObjectId, SessionId, StepId, TaskId, TurnId};
use ctx_core::object::{Kind, Object};
use ctx_core::step::Step;
use ctx_core::task::Task;
use ctx_core::time::Timestamp;

use crate::driver::{Db, Row, Table, Tx, args, limit_arg};
use crate::pack::Packed;
use crate::{CommitQuery, Error, NarrativeNote, PAGE_MAX, StoredStep};

use super::session_rows::known_row;
use super::turn_rows::object_at;
use super::{checked, decoded, from_id, from_json, not_found, to_json};

/// A task with its row and the row of its newest step.
pub(crate) struct TaskRow {
    pub(crate) row: i64,
    pub(crate) head_row: i64,
    pub(crate) task: Task,
}

macro_rules! select_task {
    ($condition:literal) => {
        concat!(
            "SELECT t.row, t.head, t.id, COALESCE(s.id, d.id), t.description, t.state, t.progress,
                    t.steps, x.hash, t.base, t.base_turn, t.started_at, t.last_activity_at,
                    t.ended_at, t.\"commit\"
             FROM tasks t LEFT JOIN sessions s ON s.row = t.session
                  LEFT JOIN deleted_sessions d ON d.row = t.session
                  LEFT JOIN steps x ON x.id = t.head WHERE ",
            $condition
        )
    };
}

fn task_row(row: Row<'_>) -> Result<TaskRow, Error> {
    let id: &str = row.get(2)?;
    let head = row
        .get::<Option<ObjectId>>(8)?
        .ok_or_else(|| Error::Damaged(format!("the newest step of task {id} is missing")))?;
    let task = Task {
        id: from_id("a task's id", id)?,
        session: from_id("a task's session", row.get(3)?)?,
        description: row.get(4)?,
        state: from_json("a task's state", row.get(5)?)?,
        progress: from_json("a task's progress", row.get(6)?)?,
        steps: row.get(7)?,
        head: StepId(head),
        base: row.get::<Option<_>>(9)?.map(CommitId),
        base_turn: row.get::<Option<_>>(10)?.map(TurnId),
        started_at: row.get(11)?,
        last_activity_at: row.get(12)?,
        ended_at: row.get(13)?,
        commit: row.get::<Option<_>>(14)?.map(CommitId),
    };
    Ok(TaskRow { row: row.get(0)?, head_row: row.get(1)?, task })
}

/// The tasks in rows.
pub(crate) fn by_rows(db: &dyn Db, rows: &[i64]) -> Result<Vec<TaskRow>, Error> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    db.rows(select_task!("t.row IN LIST(?1)"), args![rows], task_row)
}

pub(crate) fn by_row(db: &dyn Db, row: i64) -> Result<Option<TaskRow>, Error> {
    Ok(by_rows(db, &[row])?.pop())
}

pub(crate) fn by_id(db: &dyn Db, id: TaskId) -> Result<Option<TaskRow>, Error> {
    db.row(select_task!("t.id = ?1"), args![&id.to_string()], task_row)
}

/// The tasks of a session after the task `after`, newest or oldest first.
pub(crate) fn list(
    db: &dyn Db,
    session: SessionId,
    newest_first: bool,
    after: Option<TaskId>,
    limit: usize,
) -> Result<Vec<Task>, Error> {
    let row = known_row(db, session)?;
    let after = match after {
        None if newest_first => i64::MAX,
        None => i64::MIN,
        Some(task) => db
            .int(
                "SELECT row FROM tasks WHERE id = ?1 AND session = ?2",
                args![&task.to_string(), row],
            )?
            .ok_or_else(|| not_found("task", task))?,
    };
    let query = if newest_first {
        select_task!("t.session = ?1 AND t.row < ?2 ORDER BY t.row DESC LIMIT ?3")
    } else {
        select_task!("t.session = ?1 AND t.row > ?2 ORDER BY t.row LIMIT ?3")
    };
    let tasks = db.rows(query, args![row, after, limit_arg(limit.min(PAGE_MAX + 1))], task_row)?;
    Ok(tasks.into_iter().map(|found| found.task).collect())
}

/// The tasks that were open at some time of a range, in the order of their start.
pub(crate) fn between(
    db: &dyn Db,
    from: Timestamp,
    to: Timestamp,
    limit: usize,
) -> Result<Vec<Task>, Error> {
    let tasks = db.rows(
        select_task!(
            "t.last_activity_at >= ?1 AND t.started_at < ?2 ORDER BY t.started_at, t.row LIMIT ?3"
        ),
        args![from, to, limit_arg(limit.min(PAGE_MAX))],
        task_row,
    )?;
    Ok(tasks.into_iter().map(|found| found.task).collect())
}

/// The newest tasks of all sessions, newest first.
pub(crate) fn newest(db: &dyn Db, limit: usize) -> Result<Vec<Task>, Error> {
    let tasks = db.rows(
        select_task!("t.row > 0 ORDER BY t.row DESC LIMIT ?1"),
        args![limit_arg(limit.min(PAGE_MAX))],
        task_row,
    )?;
    Ok(tasks.into_iter().map(|found| found.task).collect())
}

/// The newest steps that record only relations, newest first.
pub(crate) fn relation_steps(db: &dyn Db, limit: usize) -> Result<Vec<StoredStep>, Error> {
    db.rows(
        "SELECT hash, version, seq, seg, off, len, packing, size FROM steps
         WHERE kind = 'relations' ORDER BY id DESC LIMIT ?1",
        args![limit_arg(limit)],
        |row| stored_step(db, row),
    )
}

/// Whether a task has a step.
pub(crate) fn has_step(db: &dyn Db, task: TaskId, step: StepId) -> Result<bool, Error> {
    db.is_true(
        "SELECT EXISTS (SELECT 1 FROM steps JOIN tasks ON tasks.row = steps.task
                        WHERE tasks.id = ?1 AND steps.hash = ?2)",
        args![&task.to_string(), &step.0],
    )
}

/// The files that each step of a task touched, oldest step first.
pub(crate) fn files_of_steps(db: &dyn Db, task: i64) -> Result<Vec<Vec<FileTouch>>, Error> {
    db.rows(
        "SELECT files FROM steps WHERE task = ?1 AND files IS NOT NULL ORDER BY seq",
        args![task],
        |row| from_json("the files of a step", row.get(0)?),
    )
}

/// The files that a session's tasks wrote after a time, by name.
pub(crate) fn files_written(
    db: &dyn Db,
    session: SessionId,
    after: Timestamp,
    limit: usize,
) -> Result<Vec<String>, Error> {
    let mut files = BTreeSet::new();
    db.query(
        "SELECT x.files FROM tasks t JOIN steps x ON x.task = t.row
         WHERE t.session = ?1 AND t.last_activity_at > ?2 AND x.at > ?2 AND x.files IS NOT NULL",
        args![known_row(db, session)?, after],
        &mut |row| {
            let touched: Vec<FileTouch> = from_json("the files of a step", row.get(0)?)?;
            files.extend(touched.into_iter().filter(|touch| touch.written).map(|t| t.path));
            Ok(())
        },
    )?;
    Ok(files.into_iter().take(limit).collect())
}

/// The steps of a task after a sequence number, oldest first.
pub(crate) fn steps(
    db: &dyn Db,
    task: TaskId,
    after: u64,
    limit: usize,
) -> Result<Vec<StoredStep>, Error> {
    db.rows(
        "SELECT x.hash, x.version, x.seq, x.seg, x.off, x.len, x.packing, x.size
         FROM steps x JOIN tasks t ON t.row = x.task
         WHERE t.id = ?1 AND x.seq > ?2 ORDER BY x.seq LIMIT ?3",
        args![&task.to_string(), after, limit_arg(limit.min(PAGE_MAX))],
        |row| stored_step(db, row),
    )
}

/// The newest steps until a time that touched a file whose path contains a text, newest first.
pub(crate) fn file_steps(
    db: &dyn Db,
    part: &str,
    until: Timestamp,
    limit: usize,
) -> Result<Vec<StoredStep>, Error> {
    let json = to_json(&part)?;
    let escaped = json.trim_matches('"').replace('\\', "\\\\").replace('%', "\\%");
    let pattern = format!("%{}%", escaped.replace('_', "\\_"));
    db.rows(
        "SELECT hash, version, seq, seg, off, len, packing, size FROM steps
         WHERE files IS NOT NULL AND files LIKE ?1 ESCAPE '\\' AND at <= ?2
         ORDER BY at DESC, id DESC LIMIT ?3",
        args![&pattern, until, limit_arg(limit)],
        |row| stored_step(db, row),
    )
}

/// Reads `hash, version, seq` and a place.
pub(crate) fn stored_step(db: &dyn Db, row: Row<'_>) -> Result<StoredStep, Error> {
    let id: ObjectId = row.get(0)?;
    let place = row.place(3)?.ok_or_else(|| Error::Damaged(format!("step {id} has no body")))?;
    let object = Object { kind: Kind::Step, version: row.get(1)?, bytes: db.body(&place)? };
    let object = checked(id, object)?;
    Ok(StoredStep { id: StepId(id), seq: row.get(2)?, step: decoded(id, &object)?, object })
}

/// Commits that are older than `query.before`, newest first.
pub(crate) fn commits(db: &dyn Db, query: &CommitQuery) -> Result<Vec<(CommitId, Commit)>, Error> {
    let before = match query.before {
        None => i64::MAX,
        Some(commit) => {
            db.locate_one(Table::Commits, commit.0)?.ok_or_else(|| not_found("commit", commit))?
        }
    };
    let rows = db.rows(
        "SELECT id, hash FROM commits WHERE id < ?1 AND (?2 IS NULL OR project = ?2)
           AND (?3 <> 0 OR commit_type IN LIST(?4)) ORDER BY id DESC LIMIT ?5",
        args![
            before,
            query.project.as_ref(),
            query.types.is_empty(),
            query.types.as_slice(),
            limit_arg(query.limit.min(PAGE_MAX + 1)),
        ],
        |row| Ok((row.get::<i64>(0)?, row.get::<ObjectId>(1)?)),
    )?;
    let read = |(row, id): (i64, ObjectId)| {
        let object = object_at(db, Table::Commits, row)?
            .ok_or_else(|| Error::Damaged(format!("commit {id} has no body")))?;
        Ok((CommitId(id), decoded(id, &checked(id, object)?)?))
    };
    rows.into_iter().map(read).collect()
}

/// The number of commits that a query matches, whatever its limit is.
pub(crate) fn count_commits(db: &dyn Db, query: &CommitQuery) -> Result<u64, Error> {
    let before = match query.before {
        None => i64::MAX,
        Some(commit) => {
            db.locate_one(Table::Commits, commit.0)?.ok_or_else(|| not_found("commit", commit))?
        }
    };
    let count = db.int(
        "SELECT COUNT(*) FROM commits WHERE id < ?1 AND (?2 IS NULL OR project = ?2)
           AND (?3 <> 0 OR commit_type IN LIST(?4))",
        args![before, query.project.as_ref(), query.types.is_empty(), query.types.as_slice()],
    )?;
    Ok(count.unwrap_or(0).unsigned_abs())
}

/// The notes of steps in a time range, oldest first.
pub(crate) fn narrative(
    db: &dyn Db,
    from: Timestamp,
    to: Timestamp,
    limit: usize,
) -> Result<Vec<NarrativeNote>, Error> {
    let mut sentences = Vec::new();
    db.query(
        "SELECT hash, version, seq, seg, off, len, packing, size FROM steps
         WHERE notes > 0 AND at >= ?1 AND at < ?2 ORDER BY at, id LIMIT ?3",
        args![from, to, limit_arg(limit)],
        &mut |row| {
            let StoredStep { id, step, .. } = stored_step(db, row)?;
            let sentence = |text: &str| NarrativeNote {
                at: step.timestamp,
                task: step.task,
                step: id,
                text: text.to_owned(),
            };
            sentences.extend(step.notes().map(sentence));
            Ok(())
        },
    )?;
    sentences.truncate(limit);
    Ok(sentences)
}

// ---- writes
// --------------------------------------------------------------------------------------

/// Inserts the row of a new task. [`update`] completes it once its first step has a row.
pub(crate) fn insert(tx: &mut dyn Tx, session: i64, task: &Task) -> Result<i64, Error> {
    tx.insert(
        "INSERT INTO tasks(id, session, description, state, progress, steps, head, base, base_turn,
             started_at, last_activity_at)
         VALUES (?1, ?2, ?3, '', '', 0, 0, ?4, ?5, ?6, ?6)",
        args![
            &task.id.to_string(),
            session,
            &task.description,
            task.base.as_ref().map(|id| &id.0),
            task.base_turn.as_ref().map(|id| &id.0),
            task.started_at,
        ],
    )
}

/// Writes the columns of a task that change, and moves the session's STAGE.
pub(crate) fn update(
    tx: &mut dyn Tx,
    row: i64,
    head: i64,
    task: &Task,
    session_id: &str,
    now: Timestamp,
) -> Result<(), Error> {
    tx.execute(
        "UPDATE tasks SET state = ?2, progress = ?3, steps = ?4, head = ?5, last_activity_at = ?6,
             ended_at = ?7, \"commit\" = ?8 WHERE row = ?1",
        args![
            row,
            &to_json(&task.state)?,
            &to_json(&task.progress)?,
            task.steps,
            head,
            task.last_activity_at,
            task.ended_at,
            task.commit.as_ref().map(|id| &id.0),
        ],
    )?;
    let stage = format!("STAGE:{session_id}");
    if task.ended_at.is_none() {
        move_ref(tx, &stage, task.head.0, now)
    } else {
        tx.execute("DELETE FROM refs WHERE name = ?1", args![&stage])?;
        Ok(())
    }
}

pub(crate) fn insert_step(
    tx: &mut dyn Tx,
    task: i64,
    parent: Option<i64>,
    record: &StepRecord,
    body: &Packed,
    blobs: Option<&str>,
) -> Result<i64, Error> {
    let step = &record.step;
    tx.insert_object(
        Table::Steps,
        "INSERT INTO steps(hash, version, task, seq, parent, kind, files, notes, at, blobs,
             seg, off, len, packing, size)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
        args![
            &record.id.0,
            record.object.version,
            task,
            record.seq,
            parent,
            step.kind.name(),
            files_json(step)?.as_ref(),
            step.notes().count() as i64,
            step.timestamp,
            blobs,
        ],
        Some(body),
    )
}

/// The `files` column of a step.
pub(crate) fn files_json(step: &Step) -> Result<Option<String>, Error> {
    let files = step.files();
    if files.is_empty() { Ok(None) } else { to_json(&files).map(Some) }
}

/// Inserts a commit and moves the HEAD of its project. `seen` is the HEAD that the transaction has
/// read. If another transaction has moved it meanwhile, this one fails and is run again.
pub(crate) fn insert_commit(
    tx: &mut dyn Tx,
    task: i64,
    record: &CommitRecord,
    body: &Packed,
    seen: Option<Option<CommitId>>,
) -> Result<(), Error> {
    let commit = &record.commit;
    tx.insert_object(
        Table::Commits,
        "INSERT INTO commits(hash, version, task, project, commit_type, created_at,
             seg, off, len, packing, size)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        args![
            &record.id.0,
            record.object.version,
            task,
            &commit.project,
            commit.commit_type.name(),
            commit.created_at,
        ],
        Some(body),
    )?;
    let name = format!("HEAD:{}", commit.project);
    let Some(seen) = seen else {
        return move_ref(tx, &name, record.id.0, commit.created_at);
    };
    tx.execute(
        "INSERT INTO refs(name, target, moved_at) VALUES (?1, ?2, ?3)
         ON CONFLICT(name) DO UPDATE
         SET target = CASE WHEN refs.target = ?4 THEN ?2 /*pg ELSE stale()*/ END, moved_at = ?3",
        args![
            &name,
            &record.id.to_string(),
            commit.created_at,
            seen.map(|seen| seen.to_string()).as_ref()
        ],
    )?;
    Ok(())
}

pub(crate) fn move_ref(
    tx: &mut dyn Tx,
    name: &str,
    target: ObjectId,
    now: Timestamp,
) -> Result<(), Error> {
    tx.execute(
        "INSERT INTO refs(name, target, moved_at) VALUES (?1, ?2, ?3)
         ON CONFLICT(name) DO UPDATE SET target = ?2, moved_at = ?3",
        args![name, &target.to_string(), now],
    )?;
    Ok(())
}

/// The newest commit of a project, by its HEAD.
pub(crate) fn project_head(db: &dyn Db, project: &str) -> Result<Option<CommitId>, Error> {
    ref_target(db, &format!("HEAD:{project}"))?
        .map(|target| from_id(&format!("ref HEAD:{project}"), &target))
        .transpose()
}

/// What a ref points to, in hex.
pub(crate) fn ref_target(db: &dyn Db, name: &str) -> Result<Option<String>, Error> {
    db.row("SELECT target FROM refs WHERE name = ?1", args![name], |row| row.get(0))
}
