//! Files that an agent asks ctx to read or write: inside the session's working directory, and nowhere else without a
//! person's word.

use std::io;
use std::path::{Component, Path, PathBuf};

use serde_json::{Value, json};

/// The largest file that is read for an agent.
const READ_MAX_BYTES: u64 = 16 * 1024 * 1024;

/// A request for a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileRequest {
    pub(super) path: PathBuf,
    /// What to write; nothing where it is to be read.
    pub(super) content: Option<String>,
    /// From which line on, from 1.
    line: Option<usize>,
    /// How many lines.
    limit: Option<usize>,
}

impl FileRequest {
    /// Out of the parameters of `fs/read_text_file` or `fs/write_text_file`.
    pub(super) fn parse(method: &str, params: &Value) -> Option<Self> {
        let path = PathBuf::from(params.get("path")?.as_str()?);
        let number = |key: &str| {
            params.get(key).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok())
        };
        let content = match method {
            "fs/read_text_file" => None,
            _ => Some(params.get("content")?.as_str()?.to_owned()),
        };
        Some(Self { path, content, line: number("line"), limit: number("limit") })
    }

    /// Whether it stays inside a directory, links followed.
    pub(super) fn is_inside(&self, dir: &Path) -> bool {
        let Ok(dir) = dir.canonicalize() else { return false };
        if !self.path.is_absolute()
            || self.path.components().any(|part| part == Component::ParentDir)
        {
            return false;
        }
        // What does not exist yet lies where its nearest ancestor that exists does.
        let mut at = self.path.as_path();
        loop {
            match at.canonicalize() {
                Ok(real) => return real.starts_with(&dir),
                // A link that leads nowhere could lead anywhere by the time it is written.
                Err(_) if at.symlink_metadata().is_ok() => return false,
                Err(_) => match at.parent() {
                    Some(parent) => at = parent,
                    None => return false,
                },
            }
        }
    }

    /// Does it.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub(super) fn serve(&self) -> io::Result<Value> {
        if let Some(content) = &self.content {
            if let Some(parent) = self.path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            std::fs::write(&self.path, content)?;
            return Ok(json!({}));
        }
        if std::fs::metadata(&self.path)?.len() > READ_MAX_BYTES {
            return Err(io::Error::other(format!("it is larger than {READ_MAX_BYTES} bytes")));
        }
        let text = String::from_utf8_lossy(&std::fs::read(&self.path)?).into_owned();
        let lines = text.split_inclusive('\n').skip(self.line.unwrap_or(1).saturating_sub(1));
        Ok(json!({"content": lines.take(self.limit.unwrap_or(usize::MAX)).collect::<String>()}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &Path) -> FileRequest {
        FileRequest::parse("fs/read_text_file", &json!({"path": path})).expect("a request")
    }

    #[test]
    fn nothing_outside_the_working_directory_is_inside_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let (inside, outside) = (dir.path().join("in"), dir.path().join("out"));
        std::fs::create_dir_all(&inside).expect("made");
        std::fs::create_dir_all(&outside).expect("made");
        std::os::unix::fs::symlink(&outside, inside.join("link")).expect("a link");
        std::os::unix::fs::symlink(outside.join("later"), inside.join("dangling")).expect("a link");
        let table = [
            (inside.join("a.txt"), true),
            (inside.join("new/dir/a.txt"), true),
            (outside.join("a.txt"), false),
            (inside.join("../out/a.txt"), false),
            (inside.join("link/a.txt"), false),
            (inside.join("dangling"), false),
            (PathBuf::from("a.txt"), false),
            (PathBuf::from("/etc/passwd"), false),
            (dir.path().join("in-and-more"), false),
        ];
        for (path, expected) in table {
            assert_eq!(read(&path).is_inside(&inside), expected, "{}", path.display());
        }
    }

    #[test]
    fn files_are_read_by_lines_and_written_whole() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("sub/a.txt");
        let write = FileRequest::parse(
            "fs/write_text_file",
            &json!({"path": path, "content": "1\n2\n3\n4"}),
        )
        .expect("a request");
        write.serve().expect("written");
        let part =
            FileRequest::parse("fs/read_text_file", &json!({"path": path, "line": 2, "limit": 2}))
                .expect("a request");
        assert_eq!(part.serve().expect("read"), json!({"content": "2\n3\n"}));
        assert_eq!(read(&path).serve().expect("read"), json!({"content": "1\n2\n3\n4"}));
        assert!(read(&dir.path().join("none")).serve().is_err());
    }
}
