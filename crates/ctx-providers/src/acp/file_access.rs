//! Files that an agent asks ctx to read or write: inside the session's working directory, elsewhere
//! only with the user's permission.
//!
//! All file operations run on the blocking thread pool. A write that has started is completed even
//! if the run is dropped.

use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};

use ctx_core::step;
use serde_json::{Value, json};

use crate::json_rpc::{INTERNAL_ERROR, RpcError};
use crate::task_observations;

/// Larger files are not read.
const READ_MAX_BYTES: u64 = 16 * 1024 * 1024;
/// Error code of ACP for a missing file.
const RESOURCE_NOT_FOUND: i64 = -32002;

/// The parameters of `fs/read_text_file` or `fs/write_text_file`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileRequest {
    pub(super) path: PathBuf,
    /// The new content; `None` for a read.
    pub(super) content: Option<String>,
    /// First line to read, counted from 1.
    line: Option<usize>,
    /// Maximum number of lines to read.
    limit: Option<usize>,
}

/// The outcome of a file request.
pub(super) struct ServedFile {
    pub(super) path: PathBuf,
    pub(super) is_write: bool,
    /// The result for the agent.
    pub(super) result: io::Result<Value>,
    /// The entry for the task, read after the operation succeeded.
    pub(super) observation: Option<step::Entry>,
}

impl ServedFile {
    /// The response for the agent. Some agents expect empty content for a missing file.
    pub(super) fn response(self, empty_if_missing: bool) -> Result<Value, RpcError> {
        let path = self.path.display();
        match self.result {
            Err(error) if error.kind() == ErrorKind::NotFound && empty_if_missing => {
                Ok(json!({"content": ""}))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(RpcError::new(RESOURCE_NOT_FOUND, format!("Resource not found: {path}")))
            }
            result => {
                result.map_err(|error| RpcError::new(INTERNAL_ERROR, format!("{path}: {error}")))
            }
        }
    }
}

impl FileRequest {
    /// `None` if a required parameter is missing.
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

    pub(super) const fn method(&self) -> &'static str {
        if self.content.is_some() { "fs/write_text_file" } else { "fs/read_text_file" }
    }

    /// The parameters in the form of ACP, without the session.
    pub(super) fn params(&self) -> Value {
        let mut params = json!({"path": self.path});
        let numbers = [("line", self.line), ("limit", self.limit)];
        for (key, number) in numbers.into_iter().filter_map(|(key, it)| Some((key, it?))) {
            params[key] = number.into();
        }
        if let Some(content) = &self.content {
            params["content"] = content.as_str().into();
        }
        params
    }

    /// Whether only a part of the file is read.
    pub(super) const fn is_partial(&self) -> bool {
        self.line.is_some() || self.limit.is_some()
    }

    /// Whether the path is inside a directory after symbolic links are resolved.
    pub(super) async fn is_inside(&self, dir: &Path) -> bool {
        let (path, dir) = (self.path.clone(), dir.to_owned());
        tokio::task::spawn_blocking(move || is_inside(&path, &dir)).await.unwrap_or(false)
    }

    /// Reads or writes the file, then observes it for the task.
    pub(super) async fn serve(self, working_dir: &Path) -> ServedFile {
        let (path, is_write) = (self.path.clone(), self.content.is_some());
        let dir = working_dir.to_owned();
        let served = tokio::task::spawn_blocking(move || {
            let result = self.perform();
            let observation = match &result {
                Ok(_) if self.content.is_some() => {
                    Some(task_observations::file_written(&self.path, &dir))
                }
                Ok(_) => task_observations::file_read(&self.path, &dir),
                Err(_) => None,
            };
            (result, observation)
        });
        let (result, observation) =
            served.await.unwrap_or_else(|error| (Err(io::Error::other(error)), None));
        ServedFile { path, is_write, result, observation }
    }

    fn perform(&self) -> io::Result<Value> {
        if let Some(content) = &self.content {
            if let Some(parent) = self.path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            std::fs::write(&self.path, content)?;
            return Ok(json!({}));
        }
        if std::fs::metadata(&self.path)?.len() > READ_MAX_BYTES {
            return Err(io::Error::other(format!("file is larger than {READ_MAX_BYTES} bytes")));
        }
        let text = String::from_utf8_lossy(&std::fs::read(&self.path)?).into_owned();
        let lines = text.split_inclusive('\n').skip(self.line.unwrap_or(1).saturating_sub(1));
        Ok(json!({"content": lines.take(self.limit.unwrap_or(usize::MAX)).collect::<String>()}))
    }
}

fn is_inside(path: &Path, dir: &Path) -> bool {
    let Ok(dir) = dir.canonicalize() else { return false };
    if !path.is_absolute() || path.components().any(|part| part == Component::ParentDir) {
        return false;
    }
    // A path that does not exist yet is where its nearest existing ancestor is.
    let mut ancestor = path;
    loop {
        match ancestor.canonicalize() {
            Ok(real) => return real.starts_with(&dir),
            // The target of a dangling link could be anywhere when the file is written.
            Err(_) if ancestor.symlink_metadata().is_ok() => return false,
            Err(_) => match ancestor.parent() {
                Some(parent) => ancestor = parent,
                None => return false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctx_core::stored_content::Content;

    fn read(path: &Path) -> FileRequest {
        FileRequest::parse("fs/read_text_file", &json!({"path": path})).expect("a request")
    }

    #[tokio::test]
    async fn paths_outside_the_working_directory_are_not_inside() {
        let dir = tempfile::tempdir().expect("a directory");
        let (inside, outside) = (dir.path().join("in"), dir.path().join("out"));
        std::fs::create_dir_all(&inside).expect("created");
        std::fs::create_dir_all(&outside).expect("created");
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
            assert_eq!(read(&path).is_inside(&inside).await, expected, "{}", path.display());
        }
    }

    #[tokio::test]
    async fn files_are_read_by_lines_and_written_whole() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("sub/a.txt");
        let params = json!({"path": path, "content": "1\n2\n3\n4"});
        let write = FileRequest::parse("fs/write_text_file", &params).expect("a request");
        let written = write.serve(dir.path()).await;
        written.result.expect("written");
        let content = Some(Content::Text("1\n2\n3\n4".to_owned()));
        let entry = step::Entry::FileWrite { path: "sub/a.txt".to_owned(), content };
        assert_eq!((written.is_write, written.observation), (true, Some(entry)));

        let params = json!({"path": path, "line": 2, "limit": 2});
        let part = FileRequest::parse("fs/read_text_file", &params).expect("a request");
        let read_part = part.serve(dir.path()).await;
        assert_eq!(read_part.result.expect("read"), json!({"content": "2\n3\n"}));
        assert!(matches!(read_part.observation, Some(step::Entry::FileRead { .. })));
        let whole = read(&path).serve(dir.path()).await;
        assert_eq!(whole.result.expect("read"), json!({"content": "1\n2\n3\n4"}));
        let missing = read(&dir.path().join("none")).serve(dir.path()).await;
        assert!(missing.result.is_err() && missing.observation.is_none());
    }

    #[tokio::test]
    async fn write_is_completed_when_the_run_is_dropped() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a.txt");
        let params = json!({"path": path, "content": "whole"});
        let write = FileRequest::parse("fs/write_text_file", &params).expect("a request");
        let mut serving = Box::pin(write.serve(dir.path()));
        // One poll starts the operation.
        assert!(poll_once(&mut serving).await);
        drop(serving);
        crate::test_harness::eventually("the file is written", || {
            std::fs::read_to_string(&path).is_ok_and(|text| text == "whole")
        })
        .await;
    }

    /// Polls a future once.
    async fn poll_once(future: &mut (impl Future + Unpin)) -> bool {
        std::future::poll_fn(|context| {
            let _ = std::pin::Pin::new(&mut *future).poll(context);
            std::task::Poll::Ready(true)
        })
        .await
    }
}
