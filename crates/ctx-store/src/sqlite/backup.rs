//! A consistent copy of a store in one file, made beside running writers.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rusqlite::Connection;

use crate::Error;

use super::open::Files;
use super::{erasure, segment};

/// Copies one snapshot. The file appears whole or not at all. Segments that are files of their own
/// in the store are inside the database in the copy.
pub(crate) fn copy_to(connection: &Connection, files: &Files, to: &Path) -> Result<(), Error> {
    if to.exists() {
        return Err(Error::ReadOnly(format!("{} exists already", to.display())));
    }
    let mut name = to.as_os_str().to_owned();
    name.push(format!(".{}.part", ulid::Ulid::new()));
    let part = Path::new(&name);
    let written = copy(connection, files, part).and_then(|()| Ok(fs::hard_link(part, to)?));
    let _ = fs::remove_file(part);
    written?;
    if let Some(dir) = to.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        fs::File::open(dir)?.sync_all()?;
    }
    Ok(())
}

fn copy(connection: &Connection, files: &Files, part: &Path) -> Result<(), Error> {
    // Created with its mode first: the copy must never be readable by others while it grows.
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(part)?;
    let name = part.to_str().ok_or_else(|| {
        Error::ReadOnly(format!("{} is not a file name that SQLite accepts", part.display()))
    })?;
    let _keep_bodies = erasure::prevent_erasure(files);
    connection.execute("VACUUM INTO ?1", [name])?;
    let mut copy = Connection::open(part)?;
    // Otherwise erased bytes would stay in free pages of the copy.
    copy.query_row("PRAGMA secure_delete = ON", [], |_| Ok(()))?;
    for number in files.segment_numbers()? {
        let tx = copy.transaction()?;
        segment::import_file(&tx, number, &files.segment(number))?;
        tx.commit()?;
    }
    erasure::erase_all_in_copy(&mut copy)?;
    copy.close().map_err(|(_, error)| error)?;
    fs::File::open(part)?.sync_all()?;
    Ok(())
}
