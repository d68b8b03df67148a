//! Re-hashes every stored object, follows every pointer, and reports what is wrong.

use std::collections::{HashMap, HashSet};

use ctx_core::commit::Commit;
use ctx_core::id::{BlobId, CommitId, ObjectId, StepId, TurnId};
use ctx_core::object::{Kind, Object};
use ctx_core::step::{Entry, Step};
use ctx_core::task::{Progress as TaskProgress, State, Task};
use ctx_core::time::Timestamp;
use ctx_core::turn::{self, Header};

use crate::driver::{Db, Row, args};
use crate::{Error, FINDINGS_MAX, Finding, VerifyReport};

use super::row_counts::RowCounts;
use super::task_rows::{self, files_json, ref_target, stored_step};
use super::{from_json, turn_rows, usage_rows};

/// Objects between two progress reports.
const PROGRESS_INTERVAL: u64 = 512;

/// Receives the number of checked objects and the total.
pub(crate) type Report<'a> = &'a dyn Fn(u64, u64);

struct Check<'a> {
    db: &'a dyn Db,
    progress: Report<'a>,
    report: VerifyReport,
    done: u64,
    total: u64,
    commits: HashSet<CommitId>,
    /// Turns that compactions refer to and that were not read yet, with the compaction's turn.
    awaited: HashMap<TurnId, TurnId>,
}

type CheckRow = fn(&mut Check<'_>, Row<'_>) -> Result<(), Error>;

/// Checks every table. `structure` holds the faults that the database itself reports.
pub(crate) fn verify(
    db: &dyn Db,
    structure: &[String],
    progress: Report<'_>,
) -> Result<VerifyReport, Error> {
    let mut check = Check {
        db,
        progress,
        report: VerifyReport::default(),
        done: 0,
        total: RowCounts::read(db).map_or(0, |counts| counts.objects()),
        commits: HashSet::new(),
        awaited: HashMap::new(),
    };
    structure.iter().for_each(|fault| check.found("database", fault));
    check.collect_ids();
    for (table, sql, look) in TABLES {
        check.table(table, sql, look);
    }
    for compaction in check.awaited.values().copied().collect::<Vec<_>>() {
        check.found(format!("turn {compaction}"), "it is a compaction of turns that are missing");
    }
    check.pointers();
    check.usage();
    (check.progress)(check.total, check.total);
    Ok(check.report)
}

/// The first column of each query names the row in findings.
const TABLES: [(&str, &str, CheckRow); 7] = [
    ("blob", "SELECT hash, version, seg, off, len, packing, size FROM blobs", |check, row| {
        check.blob(row)
    }),
    (
        "turn",
        "SELECT t.hash, t.version, t.header, t.body_version, t.seg, t.off, t.len, t.packing, t.size,
                t.blobs, t.parent, t.depth, c.turn_id
         FROM turns t LEFT JOIN compactions c ON c.turn_id = t.id",
        |check, row| check.turn(row),
    ),
    (
        "step",
        "SELECT hash, version, seg, off, len, packing, size, kind, at, notes, parent, seq, files,
                blobs
         FROM steps",
        |check, row| check.step(row),
    ),
    (
        "commit",
        "SELECT hash, version, seg, off, len, packing, size, commit_type, project, task
         FROM commits",
        |check, row| check.commit(row),
    ),
    ("task", "SELECT id, row FROM tasks", |check, row| check.task(row)),
    ("session", "SELECT id, head, turn_count, task, last_event, seq FROM sessions", |check, row| {
        check.session(row)
    }),
    ("ref", "SELECT name, target FROM refs", |check, row| check.reference(row)),
];

impl Check<'_> {
    fn found(&mut self, what: impl Into<String>, fault: impl std::fmt::Display) {
        if self.report.findings.len() < FINDINGS_MAX {
            self.report.findings.push(Finding { what: what.into(), fault: fault.to_string() });
        }
    }

    fn count(&mut self) {
        self.done += 1;
        if self.done.is_multiple_of(PROGRESS_INTERVAL) {
            (self.progress)(self.done, self.total);
        }
    }

    /// The sums of usage. A turn that is damaged is a finding of its own.
    fn usage(&mut self) {
        if !self.report.findings.is_empty() {
            return;
        }
        match usage_rows::wrong_days(self.db) {
            Ok(days) => days.into_iter().for_each(|day| {
                self.found(format!("usage of {day}"), "it is not the sum of the turns of the day");
            }),
            Err(error) => self.found("table usage_totals", error),
        }
    }

    /// Ids that pointers are checked against. A table that cannot be read is a finding later.
    fn collect_ids(&mut self) {
        let commits =
            self.db.rows("SELECT hash FROM commits", args![], |row| row.get(0).map(CommitId));
        self.commits = commits.unwrap_or_default().into_iter().collect();
        let compactions = self.db.rows(
            "SELECT t.hash, c.summarized_through_turn_id, c.first_kept_turn_id
             FROM compactions c JOIN turns t ON t.id = c.turn_id",
            args![],
            |row| {
                let turn = |column| row.get::<Option<&str>>(column).ok().flatten()?.parse().ok();
                Ok((TurnId(row.get(0)?), [turn(1), turn(2)]))
            },
        );
        for (compaction, turns) in compactions.unwrap_or_default() {
            self.awaited.extend(turns.into_iter().flatten().map(|turn| (turn, compaction)));
        }
    }

    /// Checks every row of a table. A row that cannot be read is a finding, and so is a table.
    fn table(&mut self, kind: &'static str, sql: &'static str, look: CheckRow) {
        let db = self.db;
        let read = db.query(sql, args![], &mut |row| {
            if let Err(error) = look(self, row) {
                let name = match row.get::<ObjectId>(0) {
                    Ok(hash) => hash.to_string(),
                    Err(_) => row.get(0).unwrap_or_default(),
                };
                self.found(format!("{kind} {name}"), error);
            }
            Ok(())
        });
        if let Err(error) = read {
            self.found(format!("table {kind}s"), error);
        }
    }

    /// Reads the body at the place in a column and checks it against its id.
    fn body(
        &mut self,
        row: Row<'_>,
        kind: Kind,
        version: u16,
        place: usize,
        id: ObjectId,
    ) -> Result<Object, Error> {
        let place = row.place(place)?.ok_or_else(|| Error::Damaged("it has no body".to_owned()))?;
        let object = Object { kind, version, bytes: self.db.body(&place)? };
        self.report.bytes += object.bytes.len() as u64;
        object.check(id).map_err(|fault| Error::Damaged(fault.to_string()))?;
        Ok(object)
    }

    fn blob(&mut self, row: Row<'_>) -> Result<(), Error> {
        self.report.blobs += 1;
        self.count();
        if row.place(2)?.is_some() {
            self.body(row, Kind::Blob, row.get(1)?, 2, row.get(0)?)?;
        }
        Ok(())
    }

    fn turn(&mut self, row: Row<'_>) -> Result<(), Error> {
        self.report.turns += 1;
        self.count();
        let id: ObjectId = row.get(0)?;
        self.awaited.remove(&TurnId(id));
        let bytes = row.get::<String>(2)?.into_bytes();
        let object = Object { kind: Kind::Turn, version: row.get(1)?, bytes };
        object.check(id).map_err(|fault| Error::Damaged(fault.to_string()))?;
        let header: Header = object.decode().map_err(|fault| Error::Damaged(fault.to_string()))?;
        if row.place(4)?.is_some() {
            let body = self.body(row, Kind::TurnBody, row.get(3)?, 4, header.body)?;
            let messages = turn::messages(&header, &body)
                .map_err(|fault| Error::Damaged(fault.to_string()))?;
            self.blobs_of(row, 9, turn::blobs(&messages))?;
        }
        let has_row = row.get::<Option<i64>>(12)?.is_some();
        match (has_row, header.kind) {
            (false, turn::Kind::Compaction) => {
                return Err(Error::Damaged("it is a compaction without its row".to_owned()));
            }
            (true, turn::Kind::Normal) => {
                let fault = "it has the row of a compaction but is a normal turn";
                return Err(Error::Damaged(fault.to_owned()));
            }
            _ => {}
        }
        let parent: Option<i64> = row.get(10)?;
        let parent = parent
            .map(|parent| self.pair("SELECT hash, depth FROM turns WHERE id = ?1", parent))
            .transpose()?;
        expect("its parent", parent.map(|(hash, _)| TurnId(hash)), header.parent)?;
        expect("its depth", row.get::<i64>(11)?, parent.map_or(1, |(_, depth)| depth + 1))
    }

    /// The hash and a number of the row that a pointer names.
    fn pair(&self, sql: &'static str, at: i64) -> Result<(ObjectId, i64), Error> {
        self.db
            .row(sql, args![at], |row| Ok((row.get(0)?, row.get(1)?)))?
            .ok_or_else(|| Error::Damaged(format!("it points at row {at}, which is missing")))
    }

    /// The rows of blobs that a row names are those that its content needs: `gc` goes by the rows.
    fn blobs_of(&self, row: Row<'_>, column: usize, needed: Vec<BlobId>) -> Result<(), Error> {
        let rows: Vec<i64> = match row.get::<Option<&str>>(column)? {
            Some(json) => from_json("its blobs", json)?,
            None => Vec::new(),
        };
        let mut found = Vec::new();
        for blob in rows {
            let hash =
                self.db.row("SELECT hash FROM blobs WHERE id = ?1", args![blob], |r| r.get(0))?;
            let hash = hash.ok_or_else(|| Error::Damaged(format!("blob row {blob} is missing")))?;
            found.push(BlobId(hash));
        }
        found.sort_unstable();
        expect("its blobs", found, needed)
    }

    fn step(&mut self, row: Row<'_>) -> Result<(), Error> {
        self.report.steps += 1;
        self.count();
        let object = self.body(row, Kind::Step, row.get(1)?, 2, row.get(0)?)?;
        let step: Step = object.decode().map_err(|fault| Error::Damaged(fault.to_string()))?;
        expect("its kind", row.get::<&str>(7)?, step.kind.name())?;
        expect("its time", row.get::<i64>(8)?, step.timestamp.0)?;
        expect("its notes", row.get::<i64>(9)?, step.notes().count() as i64)?;
        let parent: Option<i64> = row.get(10)?;
        let parent = parent
            .map(|parent| self.pair("SELECT hash, seq FROM steps WHERE id = ?1", parent))
            .transpose()?;
        expect("its parent", parent.map(|(hash, _)| StepId(hash)), step.parent)?;
        expect(
            "its place in the chain",
            row.get::<i64>(11)?,
            parent.map_or(1, |(_, seq)| seq + 1),
        )?;
        expect("its files", row.get::<Option<String>>(12)?, files_json(&step)?)?;
        self.blobs_of(row, 13, step.blobs())
    }

    fn commit(&mut self, row: Row<'_>) -> Result<(), Error> {
        self.report.commits += 1;
        self.count();
        let id = row.get(0)?;
        let object = self.body(row, Kind::Commit, row.get(1)?, 2, id)?;
        let commit: Commit = object.decode().map_err(|fault| Error::Damaged(fault.to_string()))?;
        expect("its type", row.get::<&str>(7)?, commit.commit_type.name())?;
        expect("its project", row.get::<&str>(8)?, &commit.project)?;
        let task = task_rows::by_row(self.db, row.get(9)?)?
            .ok_or_else(|| Error::Damaged("its task is missing".to_owned()))?
            .task;
        expect("its task", task.id, commit.task)?;
        expect("the commit of its task", task.commit, Some(CommitId(id)))?;
        expect("its newest step", task.head, commit.steps.last)?;
        match commit.parents.iter().find(|parent| !self.commits.contains(parent)) {
            Some(parent) => Err(Error::Damaged(format!("its parent {parent} is missing"))),
            None => Ok(()),
        }
    }

    fn task(&mut self, row: Row<'_>) -> Result<(), Error> {
        self.report.tasks += 1;
        let at: i64 = row.get(1)?;
        let task = task_rows::by_row(self.db, at)?
            .ok_or_else(|| Error::Damaged("it cannot be read".to_owned()))?
            .task;
        let proven = task_from_steps(self.db, at)?
            .ok_or_else(|| Error::Damaged("it has no steps".to_owned()))?;
        expect("its newest step", task.head, proven.head)?;
        expect("its number of steps", task.steps, proven.steps)?;
        expect("its state", &task.state, &proven.state)?;
        expect("its progress", &task.progress, &proven.progress)?;
        expect("its last activity", task.last_activity_at, proven.last_activity_at)?;
        let description = proven.description.as_ref().unwrap_or(&task.description);
        expect("its description", &task.description, description)?;
        if let Some(commit) = task.commit {
            let sealed = "SELECT EXISTS (SELECT 1 FROM commits WHERE task = ?1 AND hash = ?2)";
            let stored = self.db.is_true(sealed, args![at, &commit.0])?;
            expect("whether its commit is stored", stored, true)?;
        }
        let open = "SELECT EXISTS (SELECT 1 FROM sessions WHERE task = ?1)";
        let open = self.db.is_true(open, args![at])?;
        expect("whether its session has it open", open, task.ended_at.is_none())
    }

    fn session(&mut self, row: Row<'_>) -> Result<(), Error> {
        self.report.sessions += 1;
        let head: Option<i64> = row.get(1)?;
        let depth = head.map(|head| turn_rows::depth_of(self.db, head)).transpose()?;
        expect("its number of turns", row.get::<u64>(2)?, depth.unwrap_or(0))?;
        let task = match row.get::<Option<i64>>(3)? {
            None => None,
            Some(task) => Some(
                task_rows::by_row(self.db, task)?
                    .ok_or_else(|| Error::Damaged("its open task is missing".to_owned()))?,
            ),
        };
        let newest: Option<i64> = row.get(4)?;
        let seq = newest
            .map(|event| self.db.int("SELECT seq FROM events WHERE id = ?1", args![event]))
            .transpose()?
            .flatten();
        expect("its newest event", row.get::<i64>(5)?, seq.unwrap_or(0))?;
        let stage = ref_target(self.db, &format!("STAGE:{}", row.get::<&str>(0)?))?;
        expect("its STAGE", stage, task.map(|found| found.task.head.to_string()))
    }

    fn reference(&mut self, row: Row<'_>) -> Result<(), Error> {
        let (name, target): (&str, &str) = (row.get(0)?, row.get(1)?);
        if let Some(project) = name.strip_prefix("HEAD:") {
            let newest: Option<ObjectId> = self.db.row(
                "SELECT hash FROM commits WHERE project = ?1 ORDER BY id DESC LIMIT 1",
                args![project],
                |row| row.get(0),
            )?;
            let newest = newest.map(|id| id.to_string());
            return expect("its target", Some(target), newest.as_deref());
        }
        if let Some(session) = name.strip_prefix("STAGE:") {
            let open = "SELECT EXISTS (SELECT 1 FROM sessions WHERE id = ?1 AND task IS NOT NULL)";
            let open = self.db.is_true(open, args![session])?;
            return expect("whether its session has an open task", open, true);
        }
        // A newer program may keep refs that this one does not know.
        let newer = crate::schema::stored(self.db)? > crate::schema::SCHEMA;
        expect("the schema that knows it", newer, true)
    }

    /// Pointers that no row check follows.
    fn pointers(&mut self) {
        for (fault, sql) in POINTERS {
            match self.db.rows(sql, args![], |row| row.get::<String>(0)) {
                Ok(names) => names.into_iter().for_each(|name| self.found(name, fault)),
                Err(error) => self.found("database", error),
            }
        }
    }
}

/// A fault, and a query that names the rows that have it.
const POINTERS: [(&str, &str); 10] = [
    (
        "it is missing",
        "SELECT DISTINCT 'ref HEAD:' || project FROM commits
         WHERE 'HEAD:' || project NOT IN (SELECT name FROM refs)",
    ),
    (
        "its head was moved to a turn that is missing",
        "SELECT 'session ' || sessions.id
         FROM session_history JOIN sessions ON sessions.row = session_history.session
         WHERE turn IS NOT NULL AND turn NOT IN (SELECT id FROM turns) LIMIT 100",
    ),
    (
        "its head is not that of its newest move",
        "SELECT 'session ' || id FROM sessions WHERE head IS DISTINCT FROM
           (SELECT turn FROM session_history h WHERE h.id = last_move AND h.session = sessions.row)
         LIMIT 100",
    ),
    (
        "a move of its head is missing",
        "SELECT 'session ' || sessions.id
         FROM session_history JOIN sessions ON sessions.row = session_history.session
         WHERE prev IS NOT NULL AND prev NOT IN (SELECT id FROM session_history) LIMIT 100",
    ),
    (
        "the turn that it started from is missing",
        "SELECT 'session ' || id FROM sessions
         WHERE base IS NOT NULL AND base NOT IN (SELECT id FROM turns) LIMIT 100",
    ),
    (
        "a link to an ancestor is wrong",
        "SELECT 'turn row ' || t.id FROM turns t LEFT JOIN turns p ON p.id = t.parent
           LEFT JOIN turns s ON s.id = p.skip LEFT JOIN turns ss ON ss.id = s.skip
         WHERE t.skip IS DISTINCT FROM
           CASE WHEN p.depth + COALESCE(ss.depth, 0) = 2 * COALESCE(s.depth, 0) THEN s.skip
                ELSE t.parent END
         LIMIT 100",
    ),
    (
        "an event before another is missing",
        "SELECT 'session ' || sessions.id
         FROM events JOIN sessions ON sessions.row = events.session
         WHERE prev IS NOT NULL AND prev NOT IN (SELECT id FROM events) LIMIT 100",
    ),
    (
        "its session is missing",
        "SELECT 'delivery ' || id FROM outbox
         WHERE session NOT IN (SELECT row FROM sessions) LIMIT 100",
    ),
    (
        "the session that it names is missing",
        "SELECT 'alias ' || alias FROM session_aliases
         WHERE session_label NOT IN (SELECT label FROM sessions) LIMIT 100",
    ),
    (
        "its entity is missing or was merged",
        "SELECT 'identity ' || key FROM identities WHERE entity NOT IN
           (SELECT id FROM entities WHERE merged_into IS NULL) LIMIT 100",
    ),
];

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), Error> {
    if found == expected {
        Ok(())
    } else {
        Err(Error::Damaged(format!("{what} is {found:?} and should be {expected:?}")))
    }
}

/// A task's row as its steps prove it.
pub(crate) struct TaskFromSteps {
    pub(crate) head: StepId,
    pub(crate) steps: u64,
    pub(crate) state: State,
    pub(crate) progress: TaskProgress,
    pub(crate) last_activity_at: Timestamp,
    /// `None` if no step holds the description.
    pub(crate) description: Option<String>,
}

impl TaskFromSteps {
    pub(crate) fn fits(&self, task: &Task) -> bool {
        let description =
            self.description.as_ref().is_none_or(|description| *description == task.description);
        let newest = (task.head, task.steps, &task.state) == (self.head, self.steps, &self.state);
        newest
            && description
            && task.progress == self.progress
            && task.last_activity_at == self.last_activity_at
    }
}

/// Reads all steps of a task in order; `None` if there are none.
pub(crate) fn task_from_steps(db: &dyn Db, task: i64) -> Result<Option<TaskFromSteps>, Error> {
    let mut proven: Option<TaskFromSteps> = None;
    let mut progress = TaskProgress::default();
    db.query(
        "SELECT hash, version, seq, seg, off, len, packing, size FROM steps WHERE task = ?1
         ORDER BY seq",
        args![task],
        &mut |row| {
            let stored = stored_step(db, row)?;
            progress.add(&stored.step);
            let known = proven.take().and_then(|proven| proven.description);
            let description = known.or_else(|| stored.step.payload.iter().find_map(description_of));
            proven = Some(TaskFromSteps {
                head: stored.id,
                steps: stored.seq,
                state: stored.step.state,
                progress: TaskProgress::default(),
                last_activity_at: stored.step.timestamp,
                description,
            });
            Ok(())
        },
    )?;
    Ok(proven.map(|proven| TaskFromSteps { progress, ..proven }))
}

fn description_of(entry: &Entry) -> Option<String> {
    match entry {
        Entry::Task { description } => Some(description.clone()),
        _ => None,
    }
}
