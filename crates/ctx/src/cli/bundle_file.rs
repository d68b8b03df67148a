//! Bundles as files: written whole or not at all, read up to a bound.

use std::io::{IsTerminal, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::problem::Problem;

use super::Context;

/// Writes a bundle to a file, or to standard output where that is a pipe and no file was named; the file, if it became one.
pub(super) fn write(
    context: &Context,
    output: Option<&Path>,
    name: &str,
    bytes: &[u8],
) -> Result<Option<PathBuf>, Problem> {
    let piped = !context.out.is_json() && !std::io::stdout().is_terminal();
    let file = match output {
        None if piped => {
            context.out.raw(bytes)?;
            return Ok(None);
        }
        Some(path) => path.to_owned(),
        None => PathBuf::from(name),
    };
    write_whole(&file, bytes).map_err(|e| {
        let code = if e.kind() == std::io::ErrorKind::StorageFull { "disk_full" } else { "output" };
        Problem::failed(code, format!("{} cannot be written: {e}", file.display()))
    })?;
    Ok(Some(file))
}

/// All of it under that name, on disk, or nothing.
fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = Path::new(&name);
    // It holds what was said and the contents of files: nobody else's business.
    let made =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(part);
    let written = made.and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()));
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let placed = written
        .and_then(|()| std::fs::rename(part, path))
        .and_then(|()| std::fs::File::open(dir)?.sync_all());
    if placed.is_err() {
        let _ = std::fs::remove_file(part);
    }
    placed
}

/// Reads a bundle from a file, or from standard input for `-`; one byte more than the bound says that it is too large.
pub(super) fn read(file: &Path, max_bytes: usize) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    let limit = max_bytes as u64 + 1;
    let read = if file == Path::new("-") {
        std::io::stdin().take(limit).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file).and_then(|opened| opened.take(limit).read_to_end(&mut bytes))
    };
    read.map_err(|e| {
        let code =
            if e.kind() == std::io::ErrorKind::NotFound { "not_found" } else { "unreadable" };
        Problem::failed(code, format!("{} cannot be read: {e}", file.display()))
    })?;
    Ok(bytes)
}
