//! What an agent did, as a task records it.

use std::path::Path;

use ctx_core::content::Content;
use ctx_core::step::Entry;

/// The largest file whose content is observed.
const FILE_MAX_BYTES: u64 = 1024 * 1024;

/// A line that a shell ran.
pub(crate) fn shell(line: &str) -> Vec<String> {
    ["sh", "-c", line].map(str::to_owned).to_vec()
}

/// A file that was read; nothing where it is not there.
pub(crate) fn read(path: &Path, working_dir: &Path) -> Option<Entry> {
    Some(Entry::FileRead { content: content(path)?, path: relative(path, working_dir) })
}

/// A file that was written, or removed.
pub(crate) fn written(path: &Path, working_dir: &Path) -> Entry {
    Entry::FileWrite { content: content(path), path: relative(path, working_dir) }
}

/// What is in a file now; nothing where it is gone.
fn content(path: &Path) -> Option<Content> {
    let size = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?.len();
    if size > FILE_MAX_BYTES {
        return Some(Content::Text(format!("[not kept: {size} bytes]")));
    }
    std::fs::read(path)
        .ok()
        .map(|bytes| Content::Text(String::from_utf8_lossy(&bytes).into_owned()))
}

fn relative(path: &Path, working_dir: &Path) -> String {
    path.strip_prefix(working_dir).unwrap_or(path).to_string_lossy().into_owned()
}
