//! Bundle files: written atomically, read up to a size limit.

use std::io::{ErrorKind, IsTerminal, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::problem::Problem;

use super::Context;

/// A bundle that is written part by part: to standard output, or to a file that appears under its
/// name when it is complete.
pub(super) enum BundleFile<'a> {
    StandardOutput(&'a Context),
    File(PartFile),
}

/// A file that is written under another name. It is removed unless it becomes complete.
pub(super) struct PartFile {
    /// The name of the complete file.
    path: PathBuf,
    part: PathBuf,
    file: std::fs::File,
}

impl<'a> BundleFile<'a> {
    /// Opens `output`, or without it standard output if that is a pipe, else `name`.
    pub(super) fn create(
        context: &'a Context,
        output: Option<&Path>,
        name: &str,
    ) -> Result<Self, Problem> {
        let piped = !context.out.is_json() && !std::io::stdout().is_terminal();
        let path = match output {
            None if piped => return Ok(Self::StandardOutput(context)),
            Some(path) => path.to_owned(),
            None => PathBuf::from(name),
        };
        let file = PartFile::create(&path).map_err(|e| not_written(&path, &e))?;
        Ok(Self::File(file))
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Problem> {
        match self {
            Self::StandardOutput(context) => context.out.print_raw(bytes),
            Self::File(file) => file.file.write_all(bytes).map_err(|e| not_written(&file.path, &e)),
        }
    }

    /// Syncs and renames the file. Returns its path, or `None` for standard output.
    pub(super) fn finish(self) -> Result<Option<PathBuf>, Problem> {
        let Self::File(file) = self else { return Ok(None) };
        file.finish().map_err(|e| not_written(&file.path, &e))?;
        Ok(Some(file.path.clone()))
    }
}

fn not_written(path: &Path, error: &std::io::Error) -> Problem {
    let code = if error.kind() == ErrorKind::StorageFull { "disk_full" } else { "output" };
    Problem::failed(code, format!("failed to write {}: {error}", path.display()))
}

impl PartFile {
    fn create(path: &Path) -> std::io::Result<Self> {
        let mut part = path.as_os_str().to_owned();
        part.push(format!(".{}.part", std::process::id()));
        let part = PathBuf::from(part);
        // The bundle contains conversations and file contents, so only the user may read it.
        let mut options = std::fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&part)?;
        Ok(Self { path: path.to_owned(), part, file })
    }

    fn finish(&self) -> std::io::Result<()> {
        self.file.sync_all()?;
        std::fs::rename(&self.part, &self.path)?;
        let dir = self.path.parent().filter(|dir| !dir.as_os_str().is_empty());
        std::fs::File::open(dir.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        // After the rename this file does not exist.
        let _ = std::fs::remove_file(&self.part);
    }
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
        let code = if e.kind() == ErrorKind::NotFound { "not_found" } else { "unreadable" };
        Problem::failed(code, format!("failed to read {}: {e}", file.display()))
    })?;
    Ok(bytes)
}
