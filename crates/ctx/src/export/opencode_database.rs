//! The database of OpenCode: opening it, and rows in the columns that its version has.
//!
//! Tables of other versions may have more columns: only known columns are written, and a database
//! with an unknown column that needs a value is refused.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ctx_engine::core::time::Timestamp;
use rusqlite::types::Value as Sql;
use rusqlite::{Connection, OptionalExtension};
use serde_json::Value;

const SCHEMA: &str = include_str!("opencode_schema.sql");
/// How long another process may hold the database.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// The project of directories without a repository.
const GLOBAL_PROJECT: &str = "global";

/// A provider and a model that OpenCode knows.
#[derive(Clone)]
pub(super) struct Model {
    pub(super) provider: String,
    pub(super) model: String,
}

/// A database with an open transaction. Without [`OpenCodeDatabase::commit`] nothing changes.
pub(super) struct OpenCodeDatabase {
    connection: Connection,
}

fn failed(error: rusqlite::Error) -> io::Error {
    io::Error::other(error)
}

impl OpenCodeDatabase {
    /// Opens the database, or creates it at a path without one.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let is_new = !path.exists();
        let connection = Connection::open(path).map_err(failed)?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
        connection.execute_batch("PRAGMA foreign_keys = ON; BEGIN IMMEDIATE").map_err(failed)?;
        if is_new {
            connection.execute_batch(SCHEMA).map_err(failed)?;
        }
        Ok(Self { connection })
    }

    pub(super) fn commit(self) -> io::Result<()> {
        self.connection.execute_batch("COMMIT").map_err(failed)
    }

    /// Fails if the session exists.
    pub(super) fn check_absent(&self, session: &str) -> io::Result<()> {
        let sql = "SELECT 1 FROM session WHERE id = ?1";
        let found = self.connection.query_row(sql, [session], |_| Ok(())).optional();
        match found.map_err(failed)? {
            Some(()) => Err(io::Error::new(io::ErrorKind::AlreadyExists, "the session exists")),
            None => Ok(()),
        }
    }

    /// The model of the newest session.
    pub(super) fn newest_model(&self) -> io::Result<Option<Model>> {
        let sql = "SELECT model FROM session WHERE model IS NOT NULL
                   ORDER BY time_updated DESC LIMIT 1";
        let model: Option<String> =
            self.connection.query_row(sql, [], |row| row.get(0)).optional().map_err(failed)?;
        let model = model.and_then(|text| serde_json::from_str::<Value>(&text).ok());
        Ok(model.and_then(|model| {
            let text = |field: &str| model.get(field).and_then(Value::as_str).map(str::to_owned);
            Some(Model { provider: text("providerID")?, model: text("id")? })
        }))
    }

    /// The provider under which OpenCode used a model in another session.
    pub(super) fn provider_of(&self, model: &str, session: &str) -> io::Result<Option<String>> {
        let sql = "SELECT json_extract(data, '$.providerID') FROM message
                   WHERE json_extract(data, '$.modelID') = ?1 AND session_id <> ?2
                   ORDER BY time_created DESC LIMIT 1";
        let found = self.connection.query_row(sql, [model, session], |row| row.get(0));
        Ok(found.optional().map_err(failed)?.flatten())
    }

    /// Sets the columns of a session that are known after its last turn.
    pub(super) fn update_session(&self, id: &str, columns: &[(&str, Sql)]) -> io::Result<()> {
        for (name, value) in columns {
            let sql = format!("UPDATE session SET {name} = ?1 WHERE id = ?2");
            self.connection.execute(&sql, (value, id)).map_err(failed)?;
        }
        Ok(())
    }

    /// The project of the working directory, as OpenCode finds it: its repository, by the first
    /// commit.
    pub(super) fn project(&self, working_dir: &str, at: Timestamp) -> io::Result<String> {
        let dir = Path::new(working_dir);
        let root = dir.ancestors().find(|dir| dir.join(".git").exists());
        let worktree = root.unwrap_or(Path::new("/")).display().to_string();
        let find = |sql: &str, name: &str| {
            let found = self.connection.query_row(sql, [name], |row| row.get::<_, String>(0));
            found.optional().map_err(failed)
        };
        if root.is_some()
            && let Some(id) = find("SELECT id FROM project WHERE worktree = ?1", &worktree)?
        {
            return Ok(id);
        }
        let id = root.and_then(project_id).unwrap_or_else(|| GLOBAL_PROJECT.to_owned());
        if find("SELECT id FROM project WHERE id = ?1", &id)?.is_none() {
            let at = at.0;
            let worktree = if id == GLOBAL_PROJECT { "/".to_owned() } else { worktree };
            let mut row = vec![
                ("id", id.clone().into()),
                ("worktree", worktree.into()),
                ("sandboxes", "[]".to_owned().into()),
                ("time_created", at.into()),
                ("time_updated", at.into()),
            ];
            if id != GLOBAL_PROJECT {
                row.push(("vcs", "git".to_owned().into()));
            }
            self.insert("project", &row)?;
        }
        Ok(id)
    }

    /// Inserts a row with the columns that the table has.
    pub(super) fn insert(&self, table: &str, row: &[(&str, Sql)]) -> io::Result<()> {
        let sql = "SELECT name, \"notnull\", dflt_value IS NULL, pk FROM pragma_table_info(?1)";
        let mut statement = self.connection.prepare_cached(sql).map_err(failed)?;
        let columns = statement.query_map([table], |column| {
            let needed =
                column.get::<_, bool>(1)? && column.get(2)? && column.get::<_, i64>(3)? == 0;
            Ok((column.get::<_, String>(0)?, needed))
        });
        let columns: Vec<(String, bool)> = columns.and_then(Iterator::collect).map_err(failed)?;
        let has = |name: &str| row.iter().any(|(column, _)| *column == name);
        if columns.is_empty() || columns.iter().any(|(name, needed)| *needed && !has(name)) {
            let why = format!("the table `{table}` has another form");
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let known = |name: &str| columns.iter().any(|(column, _)| column == name);
        let row: Vec<&(&str, Sql)> = row.iter().filter(|(name, _)| known(name)).collect();
        let names: Vec<&str> = row.iter().map(|(name, _)| *name).collect();
        let marks = vec!["?"; names.len()].join(", ");
        let sql = format!("INSERT INTO {table} ({}) VALUES ({marks})", names.join(", "));
        let values = rusqlite::params_from_iter(row.iter().map(|(_, value)| value));
        let mut statement = self.connection.prepare_cached(&sql).map_err(failed)?;
        statement.execute(values).map_err(failed)?;
        Ok(())
    }
}

/// The id that OpenCode gives to a repository.
fn project_id(root: &Path) -> Option<String> {
    let cached = std::fs::read_to_string(root.join(".git").join("opencode")).ok();
    if let Some(id) = cached.map(|text| text.trim().to_owned()).filter(|id| !id.is_empty()) {
        return Some(id);
    }
    let mut git = Command::new("git");
    let done = git.args(["rev-list", "--max-parents=0", "HEAD"]).current_dir(root).output().ok()?;
    let text = String::from_utf8(done.stdout).ok().filter(|_| done.status.success())?;
    text.lines().map(str::trim).filter(|line| !line.is_empty()).min().map(str::to_owned)
}

/// The path of the database below the directory for the data of programs, or under the name that
/// the user gave it.
pub(super) fn database_path(data_home: &Path, own_name: Option<&Path>) -> PathBuf {
    data_home.join("opencode").join(own_name.unwrap_or(Path::new("opencode.db")))
}
