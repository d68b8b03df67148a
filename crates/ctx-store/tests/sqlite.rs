//! What is special to SQLite: its files, other programs' hands in them, damage, copies, several processes.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use ctx_store::Store;
use ctx_store::sqlite::{Options, SqliteStore};
use rusqlite::Connection;

#[path = "conformance/hand.rs"]
#[allow(dead_code, reason = "the other suite uses all of it")]
mod hand;

#[path = "sqlite/backup.rs"]
mod backup;
#[path = "sqlite/collect.rs"]
mod collect;
#[path = "sqlite/crowd.rs"]
mod crowd;
#[path = "sqlite/damage.rs"]
mod damage;
#[path = "sqlite/erasing.rs"]
mod erasing;
#[path = "sqlite/files.rs"]
mod files;
#[path = "sqlite/future.rs"]
mod future;
#[path = "sqlite/giving_up.rs"]
mod giving_up;
#[path = "sqlite/indexes.rs"]
mod indexes;
#[path = "sqlite/looking.rs"]
mod looking;
#[path = "sqlite/offsets.rs"]
mod offsets;
#[path = "sqlite/segment_copies.rs"]
mod segment_copies;
#[path = "sqlite/segment_damage.rs"]
mod segment_damage;
#[path = "sqlite/segments.rs"]
mod segments;
#[path = "sqlite/sharing.rs"]
mod sharing;
#[path = "sqlite/tamper.rs"]
mod tamper;

/// A directory with a store in it.
struct Bench(tempfile::TempDir);

impl Bench {
    fn fresh() -> Self {
        let bench = Self::empty();
        SqliteStore::create(bench.0.path(), hand::PROJECT)
            .expect("an empty directory takes a store");
        bench
    }

    /// A directory without one.
    fn empty() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    /// Another directory with a copy of the database, which nobody may have open.
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

    fn open(&self) -> Arc<dyn Store> {
        self.open_with(Options::default())
    }

    fn open_with(&self, options: Options) -> Arc<dyn Store> {
        Arc::new(self.try_open(options).expect("a good store opens"))
    }

    fn try_open(&self, options: Options) -> Result<SqliteStore, ctx_store::Error> {
        SqliteStore::open(self.0.path(), options)
    }

    /// Past the store, as no program of ours would.
    fn sql(&self) -> Connection {
        let connection = Connection::open(self.file("ctx.db")).expect("a database");
        connection.execute_batch("PRAGMA foreign_keys = OFF").expect("no foreign keys");
        connection
    }

    /// Brings everything from the log into `ctx.db`.
    fn checkpoint(&self) {
        let busy: i64 = self
            .sql()
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
            .expect("a checkpoint");
        assert_eq!(busy, 0, "somebody has the store open");
    }

    /// Every row of every table, in words.
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
