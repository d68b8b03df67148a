//! What is kept between two hooks of one conversation: the last prompt, and the time of the last
//! hook. It is lost without harm.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{Timespec, Timestamps, UTIME_NOW, futimens};

/// Longest beginning of a prompt that is kept, in bytes.
const PROMPT_MAX_BYTES: usize = 4096;
/// Longest part of a conversation's id in a file name.
const ID_MAX_CHARS: usize = 80;
/// Time after which the file of a conversation is removed.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// The file of a conversation. Its modification time is the time of the last hook.
pub(super) struct Conversation {
    dir: PathBuf,
    path: PathBuf,
}

impl Conversation {
    pub(super) fn new(hooks_dir: &Path, tool: &str, id: &str) -> Self {
        let safe = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let id: String = id.chars().take(ID_MAX_CHARS).map(safe).collect();
        let dir = hooks_dir.join("conversations");
        Self { path: dir.join(format!("{tool}-{id}")), dir }
    }

    /// The last prompt.
    pub(super) fn prompt(&self) -> Option<String> {
        fs::read_to_string(&self.path).ok().filter(|prompt| !prompt.is_empty())
    }

    /// Sets the time of the last hook to now. Returns the time before.
    pub(super) fn touch(&self) -> Option<SystemTime> {
        let file = File::options().append(true).open(&self.path).ok()?;
        let before = file.metadata().and_then(|meta| meta.modified()).ok();
        // The time that the file system would take, which advances in steps: it is compared with
        // the times of other files.
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let _ = futimens(&file, &Timestamps { last_access: now, last_modification: now });
        before
    }

    /// Keeps a prompt.
    pub(super) fn set_prompt(&self, prompt: &str) {
        if !self.path.exists() {
            let _ = fs::create_dir_all(&self.dir);
            self.remove_old();
        }
        let mut end = prompt.len().min(PROMPT_MAX_BYTES);
        while !prompt.is_char_boundary(end) {
            end -= 1;
        }
        let _ = fs::write(&self.path, &prompt[..end]);
    }

    pub(super) fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }

    fn remove_old(&self) {
        for entry in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let modified = entry.metadata().and_then(|meta| meta.modified());
            let age = modified.ok().and_then(|at| at.elapsed().ok());
            if age.is_some_and(|age| age > KEPT) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}
