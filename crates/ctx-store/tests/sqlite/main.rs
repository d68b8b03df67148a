//! What only SQLite can do wrong: its files, rows changed by other programs, damage, copies, and
//! several processes on one directory.

use std::fs;
use std::path::PathBuf;

use ctx_store::sqlite::{self, Options};
use rusqlite::Connection;

#[path = "../harness/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the conformance suite uses the rest of it")]
mod harness;

mod aliases;
mod backup;
mod body_offsets;
mod cancelled_writers;
mod changed_rows;
mod damaged_bytes;
mod erased_bytes;
mod failed_copies;
mod garbage_collection;
mod index_file;
mod log_size;
mod newer_schema;
mod node_registrations;
mod segment_copies;
mod segment_damage;
mod segments;
mod several_handles;
mod sql_views;
mod store_files;
mod unindexed_rows;
mod write_groups;

use harness::StoreHandle;

/// A temporary directory that may hold a store.
struct StoreDir(tempfile::TempDir);

impl StoreDir {
    fn fresh() -> Self {
        let store_dir = Self::empty();
        sqlite::create(store_dir.0.path(), harness::PROJECT)
            .expect("an empty directory takes a store");
        store_dir
    }

    /// A directory without a store.
    fn empty() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    /// Another directory with a copy of the database, which must be closed.
    fn copy(&self) -> Self {
        self.checkpoint();
        let copy = Self::empty();
        fs::copy(self.file("ctx.db"), copy.file("ctx.db")).expect("copied");
        fs::copy(self.file("write.lock"), copy.file("write.lock")).expect("copied");
        copy
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn open(&self) -> StoreHandle {
        self.open_with(Options::default())
    }

    fn open_with(&self, options: Options) -> StoreHandle {
        StoreHandle::new(self.try_open(options).expect("an intact store opens"))
    }

    fn try_open(&self, options: Options) -> Result<ctx_store::Store, ctx_store::Error> {
        sqlite::open(self.0.path(), options)
    }

    /// A connection that bypasses the store.
    fn sql(&self) -> Connection {
        let connection = Connection::open(self.file("ctx.db")).expect("a database");
        connection.execute_batch("PRAGMA foreign_keys = OFF").expect("no foreign keys");
        connection
    }

    /// Moves the write-ahead log into `ctx.db`.
    fn checkpoint(&self) {
        let busy: i64 = self
            .sql()
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
            .expect("a checkpoint");
        assert_eq!(busy, 0, "the store must be closed");
    }

    /// Every row of every table as text.
    fn rows(&self) -> Vec<String> {
        let sql = self.sql();
        let mut tables = sql
            .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
            .expect("tables");
        let tables: Vec<String> = tables
            .query_map([], |row| row.get(0))
            .expect("tables")
            .map(|name| name.expect("a name"))
            .collect();
        let mut all = Vec::new();
        for table in tables {
            let mut statement = sql.prepare(&format!("SELECT * FROM {table}")).expect("a table");
            let columns = statement.column_count();
            let mut rows = statement.query([]).expect("rows");
            while let Some(row) = rows.next().expect("a row") {
                let values: Vec<String> = (0..columns)
                    .map(|n| format!("{:?}", row.get_ref(n).expect("a value")))
                    .collect();
                all.push(format!("{table}: {}", values.join(", ")));
            }
        }
        all
    }
}
