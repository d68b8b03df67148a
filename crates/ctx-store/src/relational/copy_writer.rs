//! Rows of a copy, written under the numbers of the target.

use std::collections::{HashMap, HashSet};

use ctx_core::commit::Commit;
use ctx_core::id::ObjectId;
use ctx_core::object::Object;
use ctx_core::session::LABEL_MAX_CHARS;
use serde_json::Value as Json;

use crate::driver::{Arg, Db, Table, Tx, args};
use crate::pack::unpack;
use crate::{CopiedRows, CopyReport, Error, RenamedSession};

use super::copied_tables::{Column, CopiedTable, Insert, Numbered, TABLES};
use super::copy_rows::{Batch, SourceRow, Value, counts};
use super::{decoded, from_json, to_json, turn_rows, usage_rows};

/// What a target has before the copy.
#[derive(Default)]
struct Before {
    /// Rows and labels of sessions, by their ids. Deleted ones have no label.
    sessions: HashMap<String, (i64, Option<String>)>,
    labels: HashSet<String>,
    tasks: HashSet<String>,
    blobs: HashMap<ObjectId, i64>,
}

/// Writes a copy inside one transaction.
pub(crate) struct Copy {
    before: Before,
    /// Whether the target had rows.
    merges: bool,
    counts_before: Vec<u64>,
    received: Vec<u64>,
    copied: Vec<u64>,
    numbers: HashMap<Numbered, HashMap<i64, i64>>,
    /// Sessions that the target had: their rows in the source and in the target.
    known: HashMap<i64, i64>,
    /// Turns of these sessions in the target.
    known_turns: Option<HashMap<ObjectId, i64>>,
    /// Labels of sessions in the source, and in the target if they differ.
    labels: HashMap<String, String>,
    renamed: Vec<RenamedSession>,
    /// Labels of copied sessions in the source.
    copied_labels: HashSet<String>,
    later_sessions: Vec<(i64, Vec<Value>)>,
    /// The row of a task, its newest step, and its commit.
    later_tasks: Vec<(i64, Value, Value)>,
    /// The newest commit of a project in the target, and whether this copy has added it.
    heads: HashMap<String, (ObjectId, bool)>,
    /// Commits that are not copied, of tasks that are.
    commits_left_out: HashSet<ObjectId>,
}

impl Copy {
    /// Reads what the target has. Without `merge` it must be empty.
    pub(crate) fn begin(tx: &dyn Db, merge: bool) -> Result<Self, Error> {
        let counts_before = counts(tx)?;
        let is_empty = counts_before.iter().all(|count| *count == 0);
        if !is_empty && !merge {
            return Err(Error::NotEmpty);
        }
        let mut copy = Self {
            before: Before::default(),
            merges: !is_empty,
            received: vec![0; TABLES.len()],
            copied: vec![0; TABLES.len()],
            counts_before,
            numbers: HashMap::new(),
            known: HashMap::new(),
            known_turns: None,
            labels: HashMap::new(),
            renamed: Vec::new(),
            copied_labels: HashSet::new(),
            later_sessions: Vec::new(),
            later_tasks: Vec::new(),
            heads: HashMap::new(),
            commits_left_out: HashSet::new(),
        };
        if !is_empty {
            copy.read_target(tx)?;
        }
        Ok(copy)
    }

    fn read_target(&mut self, db: &dyn Db) -> Result<(), Error> {
        let before = &mut self.before;
        db.query("SELECT id, row FROM deleted_sessions", args![], &mut |row| {
            before.sessions.insert(row.get(0)?, (row.get(1)?, None));
            Ok(())
        })?;
        db.query("SELECT id, row, label FROM sessions", args![], &mut |row| {
            before.labels.insert(row.get(2)?);
            before.sessions.insert(row.get(0)?, (row.get(1)?, row.get(2)?));
            Ok(())
        })?;
        let aliases = db.rows("SELECT alias FROM session_aliases", args![], |row| row.get(0))?;
        before.labels.extend(aliases);
        before.tasks = db
            .rows("SELECT id FROM tasks", args![], |row| row.get(0))?
            .into_iter()
            .collect::<HashSet<String>>();
        before.blobs = db
            .rows("SELECT hash, id FROM blobs", args![], |row| Ok((row.get(0)?, row.get(1)?)))?
            .into_iter()
            .collect();
        let heads = "SELECT name, target FROM refs WHERE name LIKE 'HEAD:%'";
        db.query(heads, args![], &mut |row| {
            let project = row.get::<&str>(0)?.strip_prefix("HEAD:").unwrap_or_default();
            let target = super::from_id("a ref", row.get(1)?)?;
            self.heads.insert(project.to_owned(), (target, false));
            Ok(())
        })
    }

    /// Ids of the sessions that the target has.
    pub(crate) fn known_sessions(&self) -> HashSet<String> {
        self.before.sessions.keys().cloned().collect()
    }

    /// Writes a batch and returns the number of its rows.
    pub(crate) fn write(&mut self, tx: &mut dyn Tx, batch: Batch) -> Result<u64, Error> {
        let (table, count) = (&TABLES[batch.table], batch.rows.len() as u64);
        self.received[batch.table] += count;
        for row in batch.rows {
            self.copied[batch.table] += u64::from(self.write_row(tx, table, row)?);
        }
        Ok(count)
    }

    /// `false` if the row is left out.
    fn write_row(
        &mut self,
        tx: &mut dyn Tx,
        table: &CopiedTable,
        mut row: SourceRow,
    ) -> Result<bool, Error> {
        if !self.is_missing(tx, table, &mut row)? || !self.with_numbers(table, &mut row.values)? {
            return Ok(false);
        }
        let args: Vec<Arg<'_>> = table
            .columns
            .iter()
            .zip(&row.values)
            .filter(|((_, column), _)| *column != Column::Number)
            .map(|((_, column), value)| match value {
                Value::Null => Arg::Null(column.arg_type()),
                Value::Int(value) => Arg::Int(*value),
                Value::Text(value) => Arg::Text(value),
                Value::Bytes(value) => Arg::Bytes(value),
            })
            .collect();
        let number = match table.insert {
            Insert::Keyed => return Ok(tx.execute_counted(table.insert_sql, &args)? > 0),
            Insert::Object(kind) => {
                tx.insert_object(kind, table.insert_sql, &args, row.body.as_ref())?
            }
            Insert::Numbered | Insert::Session => tx.insert(table.insert_sql, &args)?,
        };
        let source = row.values[0].int();
        if let (Some(numbers), Some(source)) = (table.numbers, source) {
            self.numbers.entry(numbers).or_default().insert(source, number);
        }
        match table.name {
            "blobs" => drop(self.before.blobs.insert(row.values[1].id()?, number)),
            "turns" => {
                let column = |name| table.columns.iter().position(|(column, _)| *column == name);
                let value = |name| column(name).and_then(|at| row.values.get(at));
                let session = value("session").and_then(Value::int).unwrap_or(0);
                let header = value("header").and_then(Value::text).unwrap_or_default();
                usage_rows::count(tx, session, header, usage_rows::Turn::Inserted)?;
            }
            "sessions" => self.later_sessions.last_mut().iter_mut().for_each(|it| it.0 = number),
            "tasks" => self.later_tasks.last_mut().iter_mut().for_each(|it| it.0 = number),
            _ => {}
        }
        Ok(true)
    }

    fn number(&self, of: Numbered, source: i64) -> Option<i64> {
        self.numbers.get(&of)?.get(&source).copied()
    }

    /// Replaces the numbers of the source; `false` if the row that this one belongs to is not
    /// copied.
    fn with_numbers(&self, table: &CopiedTable, values: &mut [Value]) -> Result<bool, Error> {
        for ((name, column), value) in table.columns.iter().zip(values) {
            let Some(source) = value.int().or(value.text().map(|_| 0)) else { continue };
            match column {
                Column::Owner(of) => match self.number(*of, source) {
                    Some(number) => *value = Value::Int(number),
                    None => return Ok(false),
                },
                Column::Maker => {
                    let made = self.number(Numbered::Sessions, source);
                    let known = self.known.get(&source).copied();
                    *value = Value::Int(made.or(known).unwrap_or(0));
                }
                Column::Row(of) => match self.number(*of, source) {
                    Some(number) => *value = Value::Int(number),
                    None => {
                        let table = table.name;
                        return Err(Error::Damaged(format!(
                            "{name} of a row of {table} is row {source}, which is missing"
                        )));
                    }
                },
                Column::Later(_) if table.name == "tasks" => *value = Value::Int(0),
                Column::Later(_) => *value = Value::Null,
                Column::Blobs => {
                    let blobs: Vec<i64> = from_json("a list of blobs", value.text().unwrap_or(""))?;
                    let number = |row: &i64| {
                        let missing = || Error::Damaged(format!("blob row {row} is missing"));
                        self.number(Numbered::Blobs, *row).ok_or_else(missing)
                    };
                    let blobs: Vec<i64> = blobs.iter().map(number).collect::<Result<_, _>>()?;
                    *value = turn_rows::blob_rows_json(&blobs)?.map_or(Value::Null, Value::Text);
                }
                Column::Events => {
                    *value = Value::Text(self.events(value.text().unwrap_or_default())?);
                }
                Column::Label => {
                    let label = value.text().unwrap_or_default();
                    *value = Value::Text(self.label_of(label).to_owned());
                }
                Column::Number | Column::Int | Column::Text | Column::Bytes => {}
            }
        }
        Ok(true)
    }

    /// The label in the target of a session of the source.
    fn label_of<'l>(&'l self, label: &'l str) -> &'l str {
        self.labels.get(label).map_or(label, |label| label)
    }

    /// Events, with the rows of their turns in the target; null for a turn that was deleted.
    fn events(&self, text: &str) -> Result<String, Error> {
        if !text.contains("\"turn\":") {
            return Ok(text.to_owned());
        }
        let mut events: Vec<Json> = from_json("an event", text)?;
        for event in &mut events {
            if let Some(turn) = event.get("turn").and_then(Json::as_i64) {
                event["turn"] = self.number(Numbered::Turns, turn).into();
            }
        }
        to_json(&events)
    }

    /// Whether the target lacks a row, as far as that is not decided by its key. A row that the
    /// target has is used by those that refer to it.
    fn is_missing(
        &mut self,
        tx: &dyn Db,
        table: &CopiedTable,
        row: &mut SourceRow,
    ) -> Result<bool, Error> {
        let values = &mut row.values;
        match table.name {
            "sessions" => Ok(self.is_new_session(table, values)),
            "deleted_sessions" => {
                let known =
                    self.before.sessions.get(table.value(values, "id").text().unwrap_or(""));
                if let (Some((number, _)), Some(source)) = (known, values[0].int()) {
                    self.known.insert(source, *number);
                }
                Ok(known.is_none())
            }
            "blobs" => {
                let found = self.before.blobs.get(&table.value(values, "hash").id()?).copied();
                self.use_found(Numbered::Blobs, &values[0], found);
                Ok(found.is_none())
            }
            "turns" => {
                let found = self.known_turn(tx, table, values)?;
                self.use_found(Numbered::Turns, &values[0], found);
                Ok(found.is_none())
            }
            "tasks" => {
                let id = table.value(values, "id").text().unwrap_or_default();
                if self.before.tasks.contains(id) {
                    return Ok(false);
                }
                let session = table.value(values, "session").int().unwrap_or(0);
                if self.number(Numbered::Sessions, session).is_some() {
                    let (head, commit) = (table.at("head"), table.at("\"commit\""));
                    self.later_tasks.push((0, values[head].clone(), values[commit].clone()));
                }
                Ok(true)
            }
            "commits" => self.continues_its_project(table, row),
            "refs" => Ok(self.is_new_ref(table, values)),
            "session_aliases" => {
                let label = table.value(values, "session_label").text().unwrap_or_default();
                let alias = table.value(values, "alias").text().unwrap_or_default();
                Ok(self.copied_labels.contains(label) && !self.before.labels.contains(alias))
            }
            _ => Ok(true),
        }
    }

    fn use_found(&mut self, of: Numbered, source: &Value, found: Option<i64>) {
        if let (Some(source), Some(found)) = (source.int(), found) {
            self.numbers.entry(of).or_default().insert(source, found);
        }
    }

    fn is_new_session(&mut self, table: &CopiedTable, values: &mut [Value]) -> bool {
        let text = |name: &str| table.value(values, name).text().unwrap_or_default().to_owned();
        let (id, label) = (text("id"), text("label"));
        if let (Some((number, here)), Some(source)) =
            (self.before.sessions.get(&id), values[0].int())
        {
            self.known.insert(source, *number);
            if let Some(here) = here.as_ref().filter(|here| **here != label) {
                self.labels.insert(label, here.clone());
            }
            return false;
        }
        self.later_sessions.push((0, values.to_vec()));
        // A node that the target does not know counts as dead: its open run is ended there.
        if text("state") != "running" {
            values[table.at("owner")] = Value::Null;
        }
        let free = self.free_label(&id, &label);
        if free != label {
            values[table.at("label")] = Value::Text(free.clone());
            self.labels.insert(label.clone(), free.clone());
            self.renamed.push(RenamedSession { id, from: label.clone(), to: free });
        }
        self.copied_labels.insert(label);
        true
    }

    /// The label, or one derived from it that the target does not have, as for an import.
    fn free_label(&self, id: &str, label: &str) -> String {
        let name = ObjectId::of(&[id.as_bytes()]).to_string();
        let short: String = label.chars().take(LABEL_MAX_CHARS - 17).collect();
        [label.to_owned(), format!("{short}~{}", &name[..8]), format!("{short}~{}", &name[..16])]
            .into_iter()
            .find(|label| !self.before.labels.contains(label))
            .unwrap_or(name)
    }

    /// The row of a turn that the target has, of a session that it has.
    fn known_turn(
        &mut self,
        tx: &dyn Db,
        table: &CopiedTable,
        values: &[Value],
    ) -> Result<Option<i64>, Error> {
        let session = table.value(values, "session").int().unwrap_or(0);
        if !self.known.contains_key(&session) {
            return Ok(None);
        }
        if self.known_turns.is_none() {
            let sessions: Vec<i64> = self.known.values().copied().collect();
            let sql = "SELECT hash, id FROM turns WHERE session IN LIST(?1)";
            let found = tx.rows(sql, args![&sessions], |row| Ok((row.get(0)?, row.get(1)?)))?;
            self.known_turns = Some(found.into_iter().collect());
        }
        let hash = table.value(values, "hash").id()?;
        Ok(self.known_turns.as_ref().and_then(|turns| turns.get(&hash)).copied())
    }

    /// Whether a commit follows the newest one of its project in the target, as for an import: the
    /// history of a project does not branch. Its task is copied in any case.
    fn continues_its_project(
        &mut self,
        table: &CopiedTable,
        row: &SourceRow,
    ) -> Result<bool, Error> {
        let value = |name: &str| table.value(&row.values, name);
        let task = value("task").int().unwrap_or(0);
        if self.number(Numbered::Tasks, task).is_none() {
            return Ok(false);
        }
        let (id, project) = (value("hash").id()?, value("project").text().unwrap_or_default());
        if self.merges {
            let head = self.heads.get(project).map(|(head, _)| *head);
            let body = row.body.as_ref();
            let body = body.ok_or_else(|| Error::Damaged(format!("commit {id} has no body")))?;
            let (packing, size) = (body.packing, i64::try_from(body.size).unwrap_or(i64::MAX));
            let bytes = unpack(body.bytes.as_slice().into(), packing, size)?;
            let version = value("version").int().unwrap_or(0).try_into().unwrap_or(u16::MAX);
            let object = Object { kind: Table::Commits.kind(), version, bytes };
            let commit: Commit = decoded(id, &object)?;
            if !commit.parents.iter().map(|parent| parent.0).eq(head) {
                self.commits_left_out.insert(id);
                return Ok(false);
            }
        }
        self.heads.insert(project.to_owned(), (id, true));
        Ok(true)
    }

    /// HEAD is moved to the newest copied commit, and STAGE is copied with its session.
    fn is_new_ref(&mut self, table: &CopiedTable, values: &mut [Value]) -> bool {
        let name = table.value(values, "name").text().unwrap_or_default();
        if let Some(project) = name.strip_prefix("HEAD:") {
            let head = self.heads.get(project).filter(|(_, copied)| *copied);
            let Some((head, _)) = head else { return false };
            values[table.at("target")] = Value::Text(head.to_string());
        } else if let Some(session) = name.strip_prefix("STAGE:") {
            return !self.before.sessions.contains_key(session);
        }
        true
    }

    /// Writes the columns that refer to later rows, and compares the numbers of rows with those of
    /// the source.
    pub(crate) fn finish(&mut self, tx: &mut dyn Tx, source: &[u64]) -> Result<CopyReport, Error> {
        self.finish_tasks(tx)?;
        self.finish_sessions(tx)?;
        // An identity may belong to an entity that was merged in the target.
        while tx.execute_counted(
            "UPDATE identities SET entity =
               (SELECT merged_into FROM entities WHERE entities.id = identities.entity)
             WHERE entity IN (SELECT id FROM entities WHERE merged_into IS NOT NULL)",
            args![],
        )? > 0
        {}
        for (project, (head, _)) in self.heads.iter().filter(|(_, (_, copied))| *copied) {
            tx.execute(
                "UPDATE refs SET target = ?2 WHERE name = ?1 AND target <> ?2",
                args![&format!("HEAD:{project}"), &head.to_string()],
            )?;
        }
        let after = counts(tx)?;
        let mut tables = Vec::new();
        for (n, table) in TABLES.iter().enumerate() {
            let (copied, received) = (self.copied[n], self.received[n]);
            // The turns of sessions that the target has are not read.
            let is_read = received == source[n] || (table.name == "turns" && self.merges);
            // Others may write to a target that was not empty.
            let is_written = self.merges || after[n] >= self.counts_before[n] + copied;
            if !is_read || !is_written || copied > source[n] {
                return Err(Error::Damaged(format!(
                    "the copy of {} is incomplete: of {} rows, {received} were read, {copied} were \
                     written, and the target has {}",
                    table.name, source[n], after[n]
                )));
            }
            tables.push(CopiedRows { table: table.name, copied, skipped: source[n] - copied });
        }
        Ok(CopyReport { tables, renamed: std::mem::take(&mut self.renamed) })
    }

    fn finish_tasks(&self, tx: &mut dyn Tx) -> Result<(), Error> {
        for (row, head, commit) in &self.later_tasks {
            let head = head.int().and_then(|head| self.number(Numbered::Steps, head)).unwrap_or(0);
            let commit = match commit {
                Value::Bytes(_) => {
                    Some(commit.id()?).filter(|id| !self.commits_left_out.contains(id))
                }
                _ => None,
            };
            tx.execute(
                "UPDATE tasks SET head = ?2, \"commit\" = ?3 WHERE row = ?1",
                args![*row, head, commit.as_ref()],
            )?;
        }
        Ok(())
    }

    fn finish_sessions(&self, tx: &mut dyn Tx) -> Result<(), Error> {
        let Some(table) = TABLES.iter().find(|table| table.name == "sessions") else {
            return Ok(());
        };
        for (row, values) in &self.later_sessions {
            let number = |name: &str, of| {
                table.value(values, name).int().and_then(|source| self.number(of, source))
            };
            let label = |name: &str| table.value(values, name).text().map(|it| self.label_of(it));
            tx.execute(
                "UPDATE sessions SET head = ?2, base = ?3, last_move = ?4, last_event = ?5,
                     task = ?6, parent_session_label = ?7, merged_into = ?8 WHERE row = ?1",
                args![
                    *row,
                    number("head", Numbered::Turns),
                    number("base", Numbered::Turns),
                    number("last_move", Numbered::Moves),
                    number("last_event", Numbered::Events),
                    number("task", Numbered::Tasks),
                    label("parent_session_label"),
                    label("merged_into"),
                ],
            )?;
        }
        Ok(())
    }
}
