//! The store of a test: in the directory of its files, or a PostgreSQL database with
//! `CTX_TEST_STORE=postgres`. Tests look at the database itself with [`Sql`].

#[path = "../../../../ctx-store/tests/harness/test_database.rs"]
#[allow(dead_code, reason = "the harness of the engine uses the rest of it")]
mod test_database;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard};

use ctx_engine::Location;
use test_database::TestDatabase;

use super::TIMEOUT;

pub(crate) use test_database::{on_postgres, postgres_server, skipped_on_postgres};

/// The database of each directory of a running test.
static DATABASES: Mutex<BTreeMap<PathBuf, Arc<TestDatabase>>> = Mutex::new(BTreeMap::new());

fn databases() -> MutexGuard<'static, BTreeMap<PathBuf, Arc<TestDatabase>>> {
    DATABASES.lock().expect("no panic")
}

/// The database of a directory. An empty one is created at the first call.
fn database_of(dir: &Path) -> Option<Arc<TestDatabase>> {
    if !on_postgres() {
        return None;
    }
    let known = databases().get(dir).cloned();
    Some(known.unwrap_or_else(|| {
        let new = Arc::new(TestDatabase::empty());
        databases().entry(dir.to_owned()).or_insert(new).clone()
    }))
}

/// Gives a directory a copy of another one's database.
pub(crate) fn copy_database(from: &Path, to: &Path) {
    if let Some(database) = database_of(from) {
        databases().insert(to.to_owned(), Arc::new(database.copy()));
    }
}

/// Deletes the database of a directory.
pub(crate) fn drop_database(dir: &Path) {
    let database = databases().remove(dir);
    drop(database);
}

/// Sets `CTX_STORE` to the database of a directory.
pub(crate) fn set_store<'a>(command: &'a mut Command, dir: &Path) -> &'a mut Command {
    match database_of(dir) {
        Some(database) => command.env("CTX_STORE", database.url()),
        None => command,
    }
}

/// Where the store of a directory is, whose files are in `data`.
pub(crate) fn location(dir: &Path, data: &Path) -> Location {
    database_of(dir).map_or_else(|| Location::from(data), |found| Location::from(&found.url()))
}

/// The rows of a store.
pub(crate) enum Sql {
    Sqlite(rusqlite::Connection),
    Postgres(Arc<TestDatabase>),
}

impl Sql {
    /// The store of a directory, whose files are in `data`.
    pub(crate) fn open(dir: &Path, data: &Path) -> Self {
        if let Some(database) = database_of(dir) {
            return Sql::Postgres(database);
        }
        let database = rusqlite::Connection::open(data.join("ctx.db")).expect("the database");
        database.busy_timeout(TIMEOUT).expect("a timeout");
        Sql::Sqlite(database)
    }

    /// Changes rows; how many.
    pub(crate) fn try_execute(&self, sql: &str) -> Result<usize, String> {
        match self {
            Sql::Sqlite(database) => database.execute(sql, []).map_err(|e| e.to_string()),
            Sql::Postgres(database) => {
                let counted =
                    format!("WITH changed AS ({sql} RETURNING 1) SELECT count(*) FROM changed");
                let count = database.try_sql(&counted)?;
                count.parse().map_err(|_| count)
            }
        }
    }

    /// Changes rows; how many.
    #[track_caller]
    pub(crate) fn execute(&self, sql: &str) -> usize {
        self.try_execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// The rows of a query, each value as text; NULL is empty.
    #[track_caller]
    pub(crate) fn rows(&self, sql: &str) -> Vec<Vec<String>> {
        match self {
            Sql::Sqlite(database) => {
                sqlite_rows(database, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
            }
            Sql::Postgres(database) => database
                .sql(sql)
                .lines()
                .map(|line| line.split('|').map(str::to_owned).collect())
                .collect(),
        }
    }

    /// The first value of the first row.
    pub(crate) fn text(&self, sql: &str) -> Option<String> {
        self.rows(sql).into_iter().next()?.into_iter().next()
    }

    /// The first value of the first row, which is a number.
    pub(crate) fn number(&self, sql: &str) -> i64 {
        self.text(sql).and_then(|text| text.parse().ok()).expect("a number")
    }

    /// Makes every insertion into a table fail with a message, until [`Sql::accept_inserts`].
    pub(crate) fn refuse_inserts(&self, table: &str, message: &str) {
        self.run(&match self {
            Sql::Sqlite(_) => format!(
                "CREATE TRIGGER refused BEFORE INSERT ON {table} BEGIN SELECT \
                 RAISE(ABORT, '{message}'); END"
            ),
            Sql::Postgres(_) => format!(
                "CREATE FUNCTION refused() RETURNS trigger LANGUAGE plpgsql AS \
                 $$ BEGIN RAISE EXCEPTION '{message}'; END $$; \
                 CREATE TRIGGER refused BEFORE INSERT ON {table} EXECUTE FUNCTION refused()"
            ),
        });
    }

    pub(crate) fn accept_inserts(&self, table: &str) {
        self.run(&match self {
            Sql::Sqlite(_) => "DROP TRIGGER refused".to_owned(),
            Sql::Postgres(_) => format!("DROP TRIGGER refused ON {table}"),
        });
    }

    /// Runs statements that return nothing.
    fn run(&self, sql: &str) {
        match self {
            Sql::Sqlite(database) => database.execute_batch(sql).expect("a statement"),
            Sql::Postgres(database) => drop(database.sql(sql)),
        }
    }

    /// Everything that a database on a server stores, under a name. The files of an embedded one
    /// are in its directory.
    pub(crate) fn content(&self) -> Option<(String, Vec<u8>)> {
        match self {
            Sql::Sqlite(_) => None,
            Sql::Postgres(database) => Some(("the database".to_owned(), database.content())),
        }
    }

    /// The expression for the hexadecimal digits of a column.
    pub(crate) fn hex(&self, column: &str) -> String {
        match self {
            Sql::Sqlite(_) => format!("lower(hex({column}))"),
            Sql::Postgres(_) => format!("encode({column}, 'hex')"),
        }
    }
}

fn sqlite_rows(database: &rusqlite::Connection, sql: &str) -> rusqlite::Result<Vec<Vec<String>>> {
    use rusqlite::types::ValueRef;
    let mut statement = database.prepare(sql)?;
    let columns = statement.column_count();
    let text = |value: ValueRef<'_>| match value {
        ValueRef::Null => String::new(),
        ValueRef::Integer(value) => value.to_string(),
        ValueRef::Real(value) => value.to_string(),
        ValueRef::Text(value) | ValueRef::Blob(value) => {
            String::from_utf8_lossy(value).into_owned()
        }
    };
    let rows = statement
        .query_map([], |row| (0..columns).map(|at| Ok(text(row.get_ref(at)?))).collect())?;
    rows.collect()
}
