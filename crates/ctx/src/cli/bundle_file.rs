//! Bundle files: written atomically, read up to a size limit.

use std::io::{IsTerminal, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::problem::Problem;

use super::Context;

/// Writes the bundle to `output`, or without it to standard output if that is a pipe, else to
/// `name`. Returns the file, or `None` for standard output.
pub(super) fn write(
    context: &Context,
    output: Option<&Path>,
    name: &str,
    bytes: &[u8],
) -> Result<Option<PathBuf>, Problem> {
    let piped = !context.out.is_json() && !std::io::stdout().is_terminal();
    let file = match output {
        None if piped => {
            context.out.print_raw(bytes)?;
            return Ok(None);
        }
        Some(path) => path.to_owned(),
        None => PathBuf::from(name),
    };
    write_atomically(&file, bytes).map_err(|e| {
        let code = if e.kind() == std::io::ErrorKind::StorageFull { "disk_full" } else { "output" };
        Problem::failed(code, format!("failed to write {}: {e}", file.display()))
    })?;
    Ok(Some(file))
}

/// Writes a temporary file, syncs it and renames it.
fn write_atomically(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = Path::new(&name);
    // The bundle contains conversations and file contents, so only the user may read it.
    let opened =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(part);
    let written = opened.and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()));
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let placed = written
        .and_then(|()| std::fs::rename(part, path))
        .and_then(|()| std::fs::File::open(dir)?.sync_all());
    if placed.is_err() {
        let _ = std::fs::remove_file(part);
    }
    placed
}

/// Reads a bundle from a file, or from standard input for `-`. At most one byte more than the limit
/// is read; the import then reports that the bundle is too large.
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
        Problem::failed(code, format!("failed to read {}: {e}", file.display()))
    })?;
    Ok(bytes)
}
