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

/// The current content; `None` if the path is not a file.
fn content(path: &Path) -> Option<Content> {
    let size = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?.len();
    if size > FILE_MAX_BYTES {
        return Some(Content::Text(format!("[content not recorded: {size} bytes]")));
    }
    std::fs::read(path)
        .ok()
        .map(|bytes| Content::Text(String::from_utf8_lossy(&bytes).into_owned()))
}

fn relative(path: &Path, working_dir: &Path) -> String {
    path.strip_prefix(working_dir).unwrap_or(path).to_string_lossy().into_owned()
}
