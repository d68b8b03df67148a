//! A file for another program: complete or absent, and never in the place of another file.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file that appears under its name when it is complete, and never replaces another file.
pub(super) struct NewFile {
    path: PathBuf,
    part: PathBuf,
    file: fs::File,
}

impl NewFile {
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        if path.exists() {
            return Err(io::Error::new(ErrorKind::AlreadyExists, "the file exists"));
        }
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        let mut part = path.as_os_str().to_owned();
        part.push(format!(".{}.part", std::process::id()));
        let part = PathBuf::from(part);
        // A conversation may contain anything, so only the user may read it.
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&part)?;
        Ok(Self { path: path.to_owned(), part, file })
    }

    /// The name of the complete file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The name until then.
    pub(super) fn part(&self) -> &Path {
        &self.part
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Gives the file its name. Fails if the name is taken.
    pub(super) fn finish(self) -> io::Result<()> {
        fs::File::open(&self.part)?.sync_all()?;
        // A link fails if the name is taken, also by a file that appeared meanwhile.
        fs::hard_link(&self.part, &self.path)?;
        match self.path.parent() {
            Some(dir) => fs::File::open(dir)?.sync_all(),
            None => Ok(()),
        }
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_there_is_never_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("sub").join("a.jsonl");
        let mut file = NewFile::create(&path).expect("a new file");
        file.write(b"new").expect("written");
        fs::write(&path, "old").expect("another process");
        let error = file.finish().expect_err("the name is taken");
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).expect("the file"), b"old");
        assert_eq!(fs::read_dir(dir.path().join("sub")).expect("the directory").count(), 1);
    }
}
