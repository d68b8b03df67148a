//! Steps: the stored checkpoints of a task. The steps of a task form one unbroken chain.
//!
//! A step contains observations, notes and the state of the task after it, so the newest step alone
//! shows the state of the task.

use serde::{Deserialize, Serialize};

use crate::commit::FileTouch;
use crate::id::{BlobId, CommitId, NoteId, SessionId, StepId, TaskId};
use crate::object::{Kind as ObjectKind, Object};
use crate::relation::Edge;
use crate::stored_content::Content;
use crate::task::{State, StateName};
use crate::text_limits::one_line;
use crate::time::Timestamp;

/// The kind of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum Kind {
    SessionStart,
    FileRead,
    FileWrite,
    CommandRun,
    Note,
    Plan,
    Relations,
    State,
    Compact,
}

impl Kind {
    /// The name in JSON and in the database.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::SessionStart => "session_start",
            Kind::FileRead => "file_read",
            Kind::FileWrite => "file_write",
            Kind::CommandRun => "command_run",
            Kind::Note => "note",
            Kind::Plan => "plan",
            Kind::Relations => "relations",
            Kind::State => "state",
            Kind::Compact => "compact",
        }
    }
}

/// One entry of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub enum Entry {
    /// The task was started.
    Task {
        /// What should be done.
        description: String,
    },
    /// A file was read.
    FileRead {
        /// The path, relative to the working directory if the file is inside it.
        path: String,
        /// The content that was read.
        content: Content,
    },
    /// A file was written or deleted.
    FileWrite {
        /// The path, as in `FileRead`.
        path: String,
        /// The new content. `None` if the file was deleted.
        content: Option<Content>,
    },
    /// A command ran.
    Command {
        /// The program and its arguments.
        argv: Vec<String>,
        /// The exit code, if known.
        exit: Option<i32>,
        /// The output, if it was recorded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Content>,
    },
    /// One sentence of the narrative.
    Note {
        /// Relations refer to the note by this id.
        id: NoteId,
        text: String,
    },
    /// The plan of the agent.
    Plan { text: String },
    /// A relation that the agent found.
    Relation(Edge),
    /// The state of the task changed.
    Moved {
        /// `None` if there was no task.
        from: Option<StateName>,
        to: StateName,
    },
}

/// Longest part of a tool's result in a note, in characters.
const RESULT_MAX_CHARS: usize = 120;

/// The note that records the result of a tool, wherever the tool ran.
pub fn tool_note(name: &str, content: &str, is_error: bool) -> String {
    let outcome = if is_error { "failed" } else { "ok" };
    // A note must not contain NUL.
    let line = |text: &str| one_line(&text.replace('\0', " "), RESULT_MAX_CHARS);
    let (name, result) = (line(name), line(content));
    if result.is_empty() {
        format!("Tool {name}: {outcome}")
    } else {
        format!("Tool {name}: {outcome}: {result}")
    }
}

impl Entry {
    /// The content that was read, written or printed.
    pub fn content_mut(&mut self) -> Option<&mut Content> {
        match self {
            Entry::FileRead { content, .. } => Some(content),
            Entry::FileWrite { content, .. } => content.as_mut(),
            Entry::Command { output, .. } => output.as_mut(),
            _ => None,
        }
    }

    /// The kind of a step that contains only such entries.
    pub const fn kind(&self) -> Kind {
        match self {
            Entry::Task { .. } => Kind::SessionStart,
            Entry::FileRead { .. } => Kind::FileRead,
            Entry::FileWrite { .. } => Kind::FileWrite,
            Entry::Command { .. } => Kind::CommandRun,
            Entry::Note { .. } => Kind::Note,
            Entry::Plan { .. } => Kind::Plan,
            Entry::Relation(_) => Kind::Relations,
            Entry::Moved { .. } => Kind::State,
        }
    }

    /// The blob that this entry refers to.
    pub fn blob(&self) -> Option<BlobId> {
        match self {
            Entry::FileRead { content, .. } => content.blob(),
            Entry::FileWrite { content, .. } => content.as_ref().and_then(Content::blob),
            Entry::Command { output, .. } => output.as_ref().and_then(Content::blob),
            _ => None,
        }
    }

    /// The file path or the command line.
    pub fn subject(&self) -> Option<String> {
        match self {
            Entry::FileRead { path, .. } | Entry::FileWrite { path, .. } => Some(path.clone()),
            Entry::Command { argv, .. } => Some(argv.join(" ")),
            _ => None,
        }
    }

    /// Text that a user may search for.
    pub fn searchable_text(&self) -> Option<String> {
        match self {
            Entry::Task { description } => Some(description.clone()),
            Entry::Note { text, .. } | Entry::Plan { text } => Some(text.clone()),
            _ => self.subject(),
        }
    }
}

/// The content of a step. Its canonical encoding is hashed to give the step id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Step {
    /// The previous step. `None` for the first step of a task.
    pub parent: Option<StepId>,
    /// The newest commit of the project when the task was started.
    pub base: Option<CommitId>,
    pub session: SessionId,
    pub task: TaskId,
    pub kind: Kind,
    /// The entries in the order of recording.
    pub payload: Vec<Entry>,
    /// The state of the task after this step.
    pub state: State,
    /// When the step was stored.
    pub timestamp: Timestamp,
}

impl Step {
    /// Encodes the step as an object.
    pub fn encode(&self) -> Object {
        Object::encode(ObjectKind::Step, self)
    }

    /// The blobs of all entries, sorted and without duplicates.
    pub fn blobs(&self) -> Vec<BlobId> {
        let mut blobs: Vec<BlobId> = self.payload.iter().filter_map(Entry::blob).collect();
        blobs.sort_unstable();
        blobs.dedup();
        blobs
    }

    /// The files that the step read or wrote, in order.
    pub fn files(&self) -> Vec<FileTouch> {
        let touch = |entry: &Entry| {
            let (path, written) = match entry {
                Entry::FileRead { path, .. } => (path, false),
                Entry::FileWrite { path, .. } => (path, true),
                _ => return None,
            };
            Some(FileTouch { path: path.clone(), written, blob: entry.blob() })
        };
        self.payload.iter().filter_map(touch).collect()
    }

    /// The texts of its notes.
    pub fn notes(&self) -> impl Iterator<Item = &str> {
        self.payload.iter().filter_map(|entry| match entry {
            Entry::Note { text, .. } => Some(text.as_str()),
            _ => None,
        })
    }
}
