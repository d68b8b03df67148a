//! The unsent text of a conversation, kept in a file of the data directory, so that it survives the
//! end of the process in any way.
//!
//! A thread of its own writes the newest draft, each time to a new file that replaces the old one.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use serde::{Deserialize, Serialize};

/// Directory of the drafts in the data directory.
const DIR_NAME: &str = "chat";
/// Name of the draft of a conversation that is not stored yet, without the hash of its directory.
const NEW: &str = "new";

/// The text of the editor, and messages that were sent and are not known to be stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Draft {
    pub(super) text: String,
    pub(super) sending: Vec<String>,
}

impl Draft {
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.sending.is_empty()
    }

    /// The text to edit: messages that were being sent come first, unless they are stored.
    pub(super) fn restored(self, is_stored: impl Fn(&str) -> bool) -> String {
        let unsent = self.sending.into_iter().filter(|text| !is_stored(text));
        let texts: Vec<String> =
            unsent.chain(Some(self.text)).filter(|text| !text.is_empty()).collect();
        texts.join("\n")
    }
}

/// The file of a session's draft; of the working directory's without a session.
pub(super) fn path(data: &Path, session: Option<&str>, dir: &str) -> PathBuf {
    let name = match session {
        Some(id) => id.to_owned(),
        None => format!("{NEW}-{:016x}", hash(dir)),
    };
    data.join(DIR_NAME).join(format!("{name}.json"))
}

/// FNV-1a: the name must be the same in every version of the program.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Reads a draft. A missing or damaged file is an empty draft.
pub(super) fn read(path: &Path) -> Draft {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Writes drafts in the background.
pub(super) struct DraftWriter {
    sender: Option<Sender<(PathBuf, Draft)>>,
    thread: Option<JoinHandle<()>>,
}

impl DraftWriter {
    pub(super) fn start() -> Self {
        let (sender, receiver) = channel();
        let thread = std::thread::spawn(move || write_all(&receiver));
        Self { sender: Some(sender), thread: Some(thread) }
    }

    pub(super) fn save(&self, path: PathBuf, draft: Draft) {
        if let Some(sender) = &self.sender {
            let _ = sender.send((path, draft));
        }
    }

    /// Waits until the last draft is written.
    pub(super) fn finish(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn write_all(receiver: &Receiver<(PathBuf, Draft)>) {
    while let Ok((mut path, mut draft)) = receiver.recv() {
        while let Ok((next_path, next)) = receiver.try_recv() {
            if next_path != path {
                let _ = write(&path, &draft);
            }
            (path, draft) = (next_path, next);
        }
        let _ = write(&path, &draft);
    }
}

fn write(path: &Path, draft: &Draft) -> std::io::Result<()> {
    if draft.is_empty() {
        return match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    let new = path.with_extension(format!("{}.new", std::process::id()));
    std::fs::write(&new, serde_json::to_vec(draft)?)?;
    std::fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_draft_is_kept_and_an_empty_one_removes_the_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = path(dir.path(), Some("s1"), "/work");
        let mut writer = DraftWriter::start();
        for n in 0..50 {
            let draft = Draft { text: format!("text {n}"), sending: vec!["sent".to_owned()] };
            writer.save(path.clone(), draft);
        }
        writer.finish();
        assert_eq!(read(&path).text, "text 49");
        assert_eq!(read(&path).restored(|_| false), "sent\ntext 49");
        assert_eq!(read(&path).restored(|text| text == "sent"), "text 49");
        let mut writer = DraftWriter::start();
        writer.save(path.clone(), Draft::default());
        writer.finish();
        assert!(!path.exists() && read(&path).is_empty());
    }

    #[test]
    fn a_new_conversation_has_a_draft_for_each_directory() {
        let (one, two) = (path(Path::new("d"), None, "/a"), path(Path::new("d"), None, "/b"));
        assert_ne!(one, two);
        assert_eq!(one, path(Path::new("d"), None, "/a"));
    }
}
