//! Converts the files and commands of an agent to entries of the task.

use std::path::Path;

use ctx_core::step::Entry;
use ctx_core::stored_content::Content;

/// Content of larger files is not recorded.
const FILE_MAX_BYTES: u64 = 1024 * 1024;

/// The argument vector of a shell command line.
pub(crate) fn shell_argv(line: &str) -> Vec<String> {
    ["sh", "-c", line].map(str::to_owned).to_vec()
}

/// Entry for a file that was read; `None` if the file does not exist.
pub(crate) fn file_read(path: &Path, working_dir: &Path) -> Option<Entry> {
    Some(Entry::FileRead { content: content(path)?, path: relative(path, working_dir) })
}

/// Entry for a file that was written or removed.
pub(crate) fn file_written(path: &Path, working_dir: &Path) -> Entry {
    Entry::FileWrite { content: content(path), path: relative(path, working_dir) }
}

/// Entry for a text that a client of ctx read for the agent; it may differ from the file.
pub(crate) fn text_read(path: &Path, working_dir: &Path, text: &str) -> Entry {
    Entry::FileRead { content: recorded(text), path: relative(path, working_dir) }
}

/// Entry for a text that a client of ctx wrote for the agent.
pub(crate) fn text_written(path: &Path, working_dir: &Path, text: &str) -> Entry {
    Entry::FileWrite { content: Some(recorded(text)), path: relative(path, working_dir) }
}

fn recorded(text: &str) -> Content {
    let size = text.len() as u64;
    Content::Text(if size > FILE_MAX_BYTES { omitted(size) } else { text.to_owned() })
}

fn omitted(size: u64) -> String {
    format!("[content not recorded: {size} bytes]")
}

/// The current content; `None` if the path is not a file.
fn content(path: &Path) -> Option<Content> {
    let size = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?.len();
    if size > FILE_MAX_BYTES {
        return Some(Content::Text(omitted(size)));
    }
    std::fs::read(path)
        .ok()
        .map(|bytes| Content::Text(String::from_utf8_lossy(&bytes).into_owned()))
}

fn relative(path: &Path, working_dir: &Path) -> String {
    path.strip_prefix(working_dir).unwrap_or(path).to_string_lossy().into_owned()
}
