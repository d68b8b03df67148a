//! Which database the suites of the engine and of the program run on, and a database for each test.
//!
//! `CTX_TEST_STORE=postgres` chooses PostgreSQL; without it each test has a directory. The suites
//! are the same code, and their harnesses include this file.

pub(crate) mod postgres_server;

use std::io::Write;

use postgres_server::server;

/// Whether the suites run on PostgreSQL.
pub(crate) fn on_postgres() -> bool {
    match std::env::var("CTX_TEST_STORE").as_deref() {
        Err(_) | Ok("" | "sqlite") => false,
        Ok("postgres") => true,
        Ok(other) => panic!("CTX_TEST_STORE is sqlite or postgres, not {other}"),
    }
}

/// Whether a test is left out because it is about the files of an embedded store. It says so on
/// standard error, also where the output of tests is captured.
#[must_use]
pub(crate) fn skipped_on_postgres(why: &str) -> bool {
    if on_postgres() {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("a test");
        let _ = writeln!(std::io::stderr(), "skipped on PostgreSQL: {test}: {why}");
    }
    on_postgres()
}

/// A database of the server of this process. It is deleted when it is dropped.
#[derive(Debug)]
pub(crate) struct TestDatabase {
    name: String,
}

impl TestDatabase {
    /// An empty database, if the suites run on PostgreSQL.
    pub(crate) fn chosen() -> Option<Self> {
        on_postgres().then(Self::empty)
    }

    pub(crate) fn empty() -> Self {
        Self { name: server().create_database() }
    }

    pub(crate) fn url(&self) -> String {
        server().url(&self.name)
    }

    /// Runs SQL; its result without headers, with `|` between columns.
    pub(crate) fn sql(&self, sql: &str) -> String {
        server().execute(&self.name, sql).trim_end().to_owned()
    }

    /// As [`TestDatabase::sql`]; the message of the server where it fails.
    pub(crate) fn try_sql(&self, sql: &str) -> Result<String, String> {
        Ok(server().try_execute(&self.name, sql)?.trim_end().to_owned())
    }

    /// Everything that is stored: a dump, and the bytes that it contains as digits.
    pub(crate) fn content(&self) -> Vec<u8> {
        let dump = server().dump(&self.name);
        let digits = dump.split("\\\\x").skip(1);
        let bytes = digits.flat_map(|text| {
            let end = text.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(text.len());
            let pairs = (0..end / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16));
            pairs.map(|byte| byte.expect("two digits")).collect::<Vec<_>>()
        });
        let bytes: Vec<u8> = bytes.collect();
        [dump.as_bytes(), &bytes].concat()
    }

    /// Another database with the same content.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self::empty();
        server().copy(&self.name, &copy.name);
        copy
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        // After a failure the server may be gone; a second panic would hide the first.
        if !std::thread::panicking() {
            server().drop_database(&self.name);
        }
    }
}
