//! Re-hash everything, follow every pointer, name what is wrong.

use std::collections::HashSet;

use ctx_core::commit::Commit;
use ctx_core::id::{BlobId, CommitId, ObjectId, StepId, TurnId};
use ctx_core::object::{Kind, Object};
use ctx_core::step::{Entry, Step};
use ctx_core::task::{Progress as Folded, State, Task};
use ctx_core::time::Timestamp;
use ctx_core::turn::{self, Header};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::{Error, FINDINGS_MAX, Finding, Progress, VerifyReport};

use super::apply::files_json;
use super::hashes::Table;
use super::open::{SCHEMA, schema_of};
use super::rows;
use super::segment::Place;

/// How often progress is told, in objects.
const TELL_EVERY: u64 = 512;

struct Check<'a> {
    connection: &'a Connection,
    progress: Progress<'a>,
    report: VerifyReport,
    done: u64,
    total: u64,
    /// The names of all commits.
    commits: HashSet<CommitId>,
}

pub(crate) fn verify(
    connection: &Connection,
    repaired: Vec<String>,
    progress: Progress<'_>,
) -> Result<VerifyReport, Error> {
    let total = Table::ALL.iter().map(|table| count(connection, table.name()).unwrap_or(0)).sum();
    let mut check = Check {
        connection,
        progress,
        report: VerifyReport { repaired, ..VerifyReport::default() },
        done: 0,
        total,
        commits: HashSet::new(),
    };
    check.structure();
    check.commits = commit_names(connection).unwrap_or_default();
    check.table("blobs", Check::blob);
    check.table("turns", Check::turn);
    check.table("steps", Check::step);
    check.table("commits", Check::commit);
    check.table("tasks", Check::task);
    check.table("sessions", Check::session);
    check.table("refs", Check::reference);
    check.pointers();
    (check.progress)(check.total, check.total);
    Ok(check.report)
}

fn count(connection: &Connection, table: &str) -> Result<u64, Error> {
    Ok(connection.query_row(&format!("SELECT COUNT(*) FROM {table}"), [], |row| row.get(0))?)
}

impl Check<'_> {
    fn found(&mut self, what: impl Into<String>, fault: impl std::fmt::Display) {
        if self.report.findings.len() < FINDINGS_MAX {
            self.report.findings.push(Finding { what: what.into(), fault: fault.to_string() });
        }
    }

    fn tell(&mut self) {
        self.done += 1;
        if self.done.is_multiple_of(TELL_EVERY) {
            (self.progress)(self.done, self.total);
        }
    }

    /// SQLite's own look at its pages and indexes.
    fn structure(&mut self) {
        let lines = self.connection.prepare("PRAGMA quick_check(100)").and_then(|mut statement| {
            statement.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()
        });
        match lines {
            Ok(lines) => lines
                .into_iter()
                .filter(|line| line != "ok")
                .for_each(|line| self.found("database", line)),
            Err(e) => self.found("database", e),
        }
    }

    /// Looks at every row of a table; a row that cannot be read is a finding, and so is a table.
    fn table(&mut self, table: &str, look: fn(&mut Self, &Row<'_>) -> Result<(), Error>) {
        let connection = self.connection;
        let looked =
            connection.prepare(&format!("SELECT * FROM {table}")).and_then(|mut statement| {
                let mut rows = statement.query([])?;
                while let Some(row) = rows.next()? {
                    if let Err(error) = look(self, row) {
                        let name = row
                            .get::<_, [u8; 32]>("hash")
                            .map(|hash| ObjectId::from_bytes(hash).to_string());
                        let name = name
                            .or_else(|_| row.get::<_, String>("id"))
                            .or_else(|_| row.get::<_, String>("name"))
                            .unwrap_or_default();
                        self.found(format!("{} {name}", table.trim_end_matches('s')), error);
                    }
                }
                Ok(())
            });
        if let Err(e) = looked {
            self.found(format!("table {table}"), e);
        }
    }

    fn place(row: &Row<'_>) -> Result<Option<Place>, Error> {
        let Some(seg) = row.get("seg")? else { return Ok(None) };
        Ok(Some(Place {
            seg,
            off: row.get("off")?,
            len: row.get("len")?,
            packing: row.get("packing")?,
            size: row.get("size")?,
        }))
    }

    /// Reads a body and checks that it is what its name says.
    fn body(
        &mut self,
        row: &Row<'_>,
        kind: Kind,
        version: &str,
        id: ObjectId,
    ) -> Result<Object, Error> {
        let place = Self::place(row)?.ok_or_else(|| Error::Damaged("it has no body".to_owned()))?;
        let object =
            Object { kind, version: row.get(version)?, bytes: place.read(self.connection)? };
        self.report.bytes += object.bytes.len() as u64;
        object.check(id).map_err(|fault| Error::Damaged(fault.to_string()))?;
        Ok(object)
    }

    fn blob(&mut self, row: &Row<'_>) -> Result<(), Error> {
        self.report.blobs += 1;
        self.tell();
        if Self::place(row)?.is_some() {
            self.body(row, Kind::Blob, "version", hash(row)?)?;
        }
        Ok(())
    }

    fn turn(&mut self, row: &Row<'_>) -> Result<(), Error> {
        self.report.turns += 1;
        self.tell();
        let header: String = row.get("header")?;
        let object =
            Object { kind: Kind::Turn, version: row.get("version")?, bytes: header.into_bytes() };
        object.check(hash(row)?).map_err(|fault| Error::Damaged(fault.to_string()))?;
        let header: Header = object.decode().map_err(|fault| Error::Damaged(fault.to_string()))?;
        if Self::place(row)?.is_some() {
            let body = self.body(row, Kind::TurnBody, "body_version", header.body)?;
            let messages = turn::messages(&header, &body)
                .map_err(|fault| Error::Damaged(fault.to_string()))?;
            self.blobs_of(row, turn::blobs(&messages))?;
        }
        super::shorten::check(self.connection, row.get("id")?, header.kind)?;
        let parent: Option<i64> = row.get("parent")?;
        let above = parent
            .map(|parent| self.pair("SELECT hash, depth FROM turns WHERE id = ?1", parent))
            .transpose()?;
        expect("its parent", above.as_ref().map(|(hash, _)| TurnId(*hash)), header.parent)?;
        expect("its depth", row.get::<_, i64>("depth")?, above.map_or(1, |(_, depth)| depth + 1))
    }

    /// The hash and a number of the row that a pointer names.
    fn pair(&self, sql: &str, at: i64) -> Result<(ObjectId, i64), Error> {
        let found: Option<([u8; 32], i64)> = self
            .connection
            .prepare_cached(sql)?
            .query_row([at], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let (hash, number) = found
            .ok_or_else(|| Error::Damaged(format!("it points at row {at}, which is missing")))?;
        Ok((ObjectId::from_bytes(hash), number))
    }

    /// The rows of blobs that a row names are those that its words need: a clean-up goes by the rows.
    fn blobs_of(&self, row: &Row<'_>, needed: Vec<BlobId>) -> Result<(), Error> {
        let named: Vec<i64> = match row.get::<_, Option<String>>("blobs")? {
            Some(json) => serde_json::from_str(&json)
                .map_err(|e| Error::Damaged(format!("its blobs: {e}")))?,
            None => Vec::new(),
        };
        let mut statement =
            self.connection.prepare_cached("SELECT hash FROM blobs WHERE id = ?1")?;
        let mut found = Vec::new();
        for blob in named {
            let hash = statement.query_row([blob], |row| row.get::<_, Vec<u8>>(0)).optional()?;
            let hash = hash.ok_or_else(|| Error::Damaged(format!("blob row {blob} is missing")))?;
            found.push(BlobId(rows::hash(hash)?));
        }
        found.sort_unstable();
        expect("its blobs", found, needed)
    }

    fn step(&mut self, row: &Row<'_>) -> Result<(), Error> {
        self.report.steps += 1;
        self.tell();
        let object = self.body(row, Kind::Step, "version", hash(row)?)?;
        let step: Step = object.decode().map_err(|fault| Error::Damaged(fault.to_string()))?;
        expect("its kind", row.get::<_, String>("kind")?.as_str(), step.kind.name())?;
        expect("its time", row.get::<_, i64>("at")?, step.timestamp.0)?;
        expect("its notes", row.get::<_, i64>("notes")?, step.notes().count() as i64)?;
        let parent: Option<i64> = row.get("parent")?;
        let above = parent
            .map(|parent| self.pair("SELECT hash, seq FROM steps WHERE id = ?1", parent))
            .transpose()?;
        expect("its parent", above.as_ref().map(|(hash, _)| StepId(*hash)), step.parent)?;
        expect(
            "its place in the chain",
            row.get::<_, i64>("seq")?,
            above.map_or(1, |(_, seq)| seq + 1),
        )?;
        expect("its files", row.get::<_, Option<String>>("files")?, files_json(&step)?)?;
        self.blobs_of(row, step.blobs())
    }

    fn commit(&mut self, row: &Row<'_>) -> Result<(), Error> {
        self.report.commits += 1;
        self.tell();
        let id = hash(row)?;
        let object = self.body(row, Kind::Commit, "version", id)?;
        let commit: Commit = object.decode().map_err(|fault| Error::Damaged(fault.to_string()))?;
        expect(
            "its type",
            row.get::<_, String>("commit_type")?.as_str(),
            commit.commit_type.name(),
        )?;
        expect("its project", row.get::<_, String>("project")?, commit.project)?;
        let task = rows::task_by_row(self.connection, row.get("task")?)?
            .ok_or_else(|| Error::Damaged("its task is missing".to_owned()))?;
        expect("its task", task.id, commit.task)?;
        expect("the commit of its task", task.commit, Some(CommitId(id)))?;
        expect("its newest step", task.head, commit.steps.last)?;
        for parent in commit.parents.iter().filter(|parent| !self.commits.contains(parent)) {
            // It may have been sealed since the names were read.
            let sealed = "SELECT EXISTS (SELECT 1 FROM commits WHERE hash = ?1)";
            let there: bool = self
                .connection
                .prepare_cached(sealed)?
                .query_row([parent.0.as_bytes()], |row| row.get(0))?;
            expect(&format!("whether its parent {parent} is there"), there, true)?;
        }
        Ok(())
    }

    fn task(&mut self, row: &Row<'_>) -> Result<(), Error> {
        self.report.tasks += 1;
        let at: i64 = row.get("row")?;
        let task = rows::task_by_row(self.connection, at)?
            .ok_or_else(|| Error::Damaged("it cannot be read".to_owned()))?;
        let told = told_by_steps(self.connection, at)?
            .ok_or_else(|| Error::Damaged("it has no steps".to_owned()))?;
        expect("its newest step", task.head, told.head)?;
        expect("its number of steps", task.steps, told.steps)?;
        expect("its state", &task.state, &told.state)?;
        expect("its progress", &task.progress, &told.progress)?;
        expect("its last activity", task.last_activity_at, told.last_activity_at)?;
        expect(
            "its description",
            &task.description,
            told.description.as_ref().unwrap_or(&task.description),
        )?;
        if let Some(commit) = task.commit {
            let sealed = "SELECT EXISTS (SELECT 1 FROM commits WHERE task = ?1 AND hash = ?2)";
            let there: bool = self
                .connection
                .prepare_cached(sealed)?
                .query_row(params![at, commit.0.as_bytes()], |row| row.get(0))?;
            expect("whether its commit is there", there, true)?;
        }
        let open: bool = self
            .connection
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM sessions WHERE task = ?1)")?
            .query_row([at], |row| row.get(0))?;
        expect("whether its session has it open", open, task.ended_at.is_none())
    }

    fn session(&mut self, row: &Row<'_>) -> Result<(), Error> {
        self.report.sessions += 1;
        let head: Option<i64> = row.get("head")?;
        let depth = head
            .map(|head| self.pair("SELECT hash, depth FROM turns WHERE id = ?1", head))
            .transpose()?
            .map_or(0, |(_, depth)| depth);
        expect("its number of turns", row.get::<_, i64>("turn_count")?, depth)?;
        if let Some(task) = row.get::<_, Option<i64>>("task")? {
            rows::task_by_row(self.connection, task)?
                .ok_or_else(|| Error::Damaged("its open task is missing".to_owned()))?;
        }
        let newest: Option<i64> = row.get("last_event")?;
        let seq = newest.map(|event| {
            self.connection
                .query_row("SELECT seq FROM events WHERE id = ?1", [event], |row| row.get(0))
        });
        expect("its newest event", row.get::<_, i64>("seq")?, seq.transpose()?.unwrap_or(0))?;
        let stage = stage_of(self.connection, &row.get::<_, String>("id")?)?;
        let head = match row.get::<_, Option<i64>>("task")? {
            Some(task) => {
                rows::task_by_row(self.connection, task)?.map(|task| task.head.to_string())
            }
            None => None,
        };
        expect("its STAGE", stage, head)
    }

    fn reference(&mut self, row: &Row<'_>) -> Result<(), Error> {
        let (name, target): (String, String) = (row.get("name")?, row.get("target")?);
        if let Some(project) = name.strip_prefix("HEAD:") {
            return expect(
                "its target",
                Some(target),
                newest_commit(self.connection, project)?.map(|id| id.to_string()),
            );
        }
        if let Some(session) = name.strip_prefix("STAGE:") {
            let open = "SELECT EXISTS (SELECT 1 FROM sessions WHERE id = ?1 AND task IS NOT NULL)";
            let open: bool = self.connection.query_row(open, [session], |row| row.get(0))?;
            return expect("whether its session has an open task", open, true);
        }
        // A newer program may keep refs that this one does not know.
        expect("the schema that knows it", schema_of(self.connection)? > SCHEMA, true)
    }

    /// What no row of its own is looked at for.
    fn pointers(&mut self) {
        for (fault, sql) in POINTERS {
            let names = self.connection.prepare(sql).and_then(|mut statement| {
                statement
                    .query_map([], |row| row.get::<_, String>(0))?
                    .collect::<Result<Vec<_>, _>>()
            });
            match names {
                Ok(names) => names.into_iter().for_each(|name| self.found(name, fault)),
                Err(e) => self.found("database", e),
            }
        }
    }
}

/// Pointers that lead nowhere: what is wrong, and a query for whatever is wrong so.
const POINTERS: [(&str, &str); 3] = [
    ("it is missing", "SELECT DISTINCT 'ref HEAD:' || project FROM commits WHERE 'HEAD:' || project NOT IN (SELECT name FROM refs)"),
    (
        "its head was moved to a turn that is missing",
        "SELECT 'session ' || sessions.id FROM session_history JOIN sessions ON sessions.row = session_history.session
         WHERE turn IS NOT NULL AND turn NOT IN (SELECT id FROM turns) LIMIT 100",
    ),
    (
        "an event before another is missing",
        "SELECT 'session ' || sessions.id FROM events JOIN sessions ON sessions.row = events.session
         WHERE prev IS NOT NULL AND prev NOT IN (SELECT id FROM events) LIMIT 100",
    ),
];

fn hash(row: &Row<'_>) -> Result<ObjectId, Error> {
    rows::hash(row.get("hash")?)
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), Error> {
    if found == expected {
        Ok(())
    } else {
        Err(Error::Damaged(format!("{what} is {found:?} and should be {expected:?}")))
    }
}

fn commit_names(connection: &Connection) -> Result<HashSet<CommitId>, Error> {
    let mut statement = connection.prepare("SELECT hash FROM commits")?;
    let hashes = statement.query_map([], |row| row.get::<_, Vec<u8>>(0))?;
    hashes.map(|hash| rows::hash(hash?).map(CommitId)).collect()
}

fn stage_of(connection: &Connection, session: &str) -> Result<Option<String>, Error> {
    let mut statement = connection.prepare_cached("SELECT target FROM refs WHERE name = ?1")?;
    Ok(statement.query_row([format!("STAGE:{session}")], |row| row.get(0)).optional()?)
}

fn newest_commit(connection: &Connection, project: &str) -> Result<Option<ObjectId>, Error> {
    let mut statement = connection
        .prepare_cached("SELECT hash FROM commits WHERE project = ?1 ORDER BY id DESC LIMIT 1")?;
    let hash: Option<Vec<u8>> = statement.query_row([project], |row| row.get(0)).optional()?;
    hash.map(rows::hash).transpose()
}

/// What the steps of a task say of it.
pub(super) struct Told {
    pub(super) head: StepId,
    pub(super) steps: u64,
    pub(super) state: State,
    pub(super) progress: Folded,
    pub(super) last_activity_at: Timestamp,
    pub(super) description: Option<String>,
}

impl Told {
    pub(super) fn fits(&self, task: &Task) -> bool {
        let description =
            self.description.as_ref().is_none_or(|description| *description == task.description);
        let newest = (task.head, task.steps, &task.state) == (self.head, self.steps, &self.state);
        newest
            && description
            && task.progress == self.progress
            && task.last_activity_at == self.last_activity_at
    }
}

/// Reads all steps of a task, in order; nothing where there are none.
pub(super) fn told_by_steps(connection: &Connection, task: i64) -> Result<Option<Told>, Error> {
    let sql = "SELECT hash, version, seq, seg, off, len, packing, size FROM steps WHERE task = ?1 ORDER BY seq";
    let mut statement = connection.prepare_cached(sql)?;
    let mut found = statement.query([task])?;
    let mut told: Option<Told> = None;
    let mut progress = Folded::default();
    while let Some(row) = found.next()? {
        let place = Place::from_row(row, 3)?
            .ok_or_else(|| Error::Damaged("a step has no body".to_owned()))?;
        let object =
            Object { kind: Kind::Step, version: row.get(1)?, bytes: place.read(connection)? };
        let step: Step = object.decode().map_err(|fault| Error::Damaged(fault.to_string()))?;
        progress.add(&step);
        let description = told
            .and_then(|told| told.description)
            .or_else(|| step.payload.iter().find_map(described));
        told = Some(Told {
            head: StepId(rows::hash(row.get(0)?)?),
            steps: row.get(2)?,
            state: step.state,
            progress: Folded::default(),
            last_activity_at: step.timestamp,
            description,
        });
    }
    Ok(told.map(|told| Told { progress, ..told }))
}

fn described(entry: &Entry) -> Option<String> {
    match entry {
        Entry::Task { description } => Some(description.clone()),
        _ => None,
    }
}
