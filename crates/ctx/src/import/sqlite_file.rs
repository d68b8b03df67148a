//! A SQLite database of another tool, opened so that nothing in its directory changes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, Row};

/// A database that is only read.
pub(super) struct SqliteFile {
    connection: Connection,
    /// Deletes the copy, if there is one.
    _copy: Option<CopiedFiles>,
}

/// A copy of a database that nobody had open.
struct CopiedFiles(PathBuf);

impl Drop for CopiedFiles {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl SqliteFile {
    /// Opens a database.
    ///
    /// Without a log the file is complete and is opened as immutable. With a log, SQLite needs its
    /// index file: if another process has the database open, that file exists and is used. Else
    /// SQLite would create it, so database and log are copied first; nobody writes to them.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let log = beside(path, "-wal");
        let has_log = fs::metadata(&log).is_ok_and(|about| about.len() > 0);
        let is_open = beside(path, "-shm").exists();
        let (path, copy) = match (has_log, is_open) {
            (true, false) => {
                let (path, copy) = copied(path, &log)?;
                (path, Some(copy))
            }
            _ => (path.to_path_buf(), None),
        };
        let immutable = if has_log { "" } else { "&immutable=1" };
        let name = path.to_str().ok_or_else(|| io::Error::other("the path is not valid UTF-8"))?;
        let name = name.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
        let mode = if copy.is_some() { "rw" } else { "ro" };
        let uri = format!("file:{name}?mode={mode}{immutable}");
        let flags = OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | if copy.is_some() {
                OpenFlags::SQLITE_OPEN_READ_WRITE
            } else {
                OpenFlags::SQLITE_OPEN_READ_ONLY
            };
        let connection = Connection::open_with_flags(uri, flags).map_err(failed)?;
        // A transaction gives all queries one snapshot.
        connection.execute_batch("BEGIN").map_err(failed)?;
        Ok(Self { connection, _copy: copy })
    }

    /// Runs a query with text parameters and calls `each` for every row.
    pub(super) fn each(
        &self,
        sql: &str,
        parameters: &[&str],
        mut each: impl FnMut(&Row<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut statement = self.connection.prepare(sql).map_err(failed)?;
        let mut rows = statement.query(rusqlite::params_from_iter(parameters)).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            each(row)?;
        }
        Ok(())
    }

    /// The columns of a table; none if there is no such table.
    pub(super) fn columns(&self, table: &str) -> io::Result<Vec<String>> {
        let mut columns = Vec::new();
        self.each("SELECT name FROM pragma_table_info(?1)", &[table], |row| {
            columns.push(row.get(0).map_err(failed)?);
            Ok(())
        })?;
        Ok(columns)
    }
}

/// The text of a column, also of a number.
pub(super) fn column_text(row: &Row<'_>, column: &str) -> Option<String> {
    match row.get_ref(column).ok()? {
        rusqlite::types::ValueRef::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
        rusqlite::types::ValueRef::Integer(number) => Some(number.to_string()),
        rusqlite::types::ValueRef::Real(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The number of a column.
pub(super) fn column_number(row: &Row<'_>, column: &str) -> Option<i64> {
    row.get(column).ok()
}

pub(super) fn failed(error: rusqlite::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

fn copied(path: &Path, log: &Path) -> io::Result<(PathBuf, CopiedFiles)> {
    let dir = std::env::temp_dir().join(format!("ctx-import-{}", ulid::Ulid::new()));
    fs::create_dir(&dir)?;
    let files = CopiedFiles(dir.clone());
    let copy = dir.join("copy.db");
    fs::copy(path, &copy)?;
    fs::copy(log, beside(&copy, "-wal"))?;
    Ok((copy, files))
}
