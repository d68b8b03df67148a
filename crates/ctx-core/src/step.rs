//! Steps: the flushed checkpoints of a task, one record each, in one unbroken chain.
//!
//! A step holds what was observed, the notes it wrote and the state the task was in when it was written,
//! so the newest step alone says where the work stands.

use serde::{Deserialize, Serialize};

use crate::commit::FileTouch;
use crate::content::Content;
use crate::id::{BlobId, CommitId, NoteId, SessionId, StepId, TaskId};
use crate::object::{Kind as ObjectKind, Object};
use crate::relation::Edge;
use crate::task::{State, StateName};
use crate::time::Timestamp;

/// What a step records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the glossary's")]
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
    /// As it is written.
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

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Entry {
    /// The task began.
    Task {
        /// What is to be done.
        description: String,
    },
    /// A file was read.
    FileRead {
        /// Which, relative to the working directory where it lies inside it.
        path: String,
        /// What was in it.
        content: Content,
    },
    /// A file was written, or removed.
    FileWrite {
        /// Which.
        path: String,
        /// What is in it now; nothing where it was removed.
        content: Option<Content>,
    },
    /// A command ran.
    Command {
        /// The program and its arguments.
        argv: Vec<String>,
        /// How it exited, where that is known.
        exit: Option<i32>,
        /// What it printed, where that was kept.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Content>,
    },
    /// A sentence for the narrative.
    Note {
        /// Its id, so that relations can point at it.
        id: NoteId,
        /// The sentence.
        text: String,
    },
    /// What the agent means to do.
    Plan {
        /// The plan.
        text: String,
    },
    /// What is related to what.
    Relation(Edge),
    /// The task moved.
    Moved {
        /// From this state
        from: Option<StateName>,
        /// to this one.
        to: StateName,
    },
}

impl Entry {
    /// What was read, written or printed, where it holds that.
    pub fn content_mut(&mut self) -> Option<&mut Content> {
        match self {
            Entry::FileRead { content, .. } => Some(content),
            Entry::FileWrite { content, .. } => content.as_mut(),
            Entry::Command { output, .. } => output.as_mut(),
            _ => None,
        }
    }

    /// The kind of step that holds such an entry by itself.
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

    /// The blob this entry needs, if it has one.
    pub fn blob(&self) -> Option<BlobId> {
        match self {
            Entry::FileRead { content, .. } => content.blob(),
            Entry::FileWrite { content, .. } => content.as_ref().and_then(Content::blob),
            Entry::Command { output, .. } => output.as_ref().and_then(Content::blob),
            _ => None,
        }
    }

    /// What it is about, in a few words: the file, the command.
    pub fn subject(&self) -> Option<String> {
        match self {
            Entry::FileRead { path, .. } | Entry::FileWrite { path, .. } => Some(path.clone()),
            Entry::Command { argv, .. } => Some(argv.join(" ")),
            _ => None,
        }
    }

    /// Words that a person may search for.
    pub fn words(&self) -> Option<String> {
        match self {
            Entry::Task { description } => Some(description.clone()),
            Entry::Note { text, .. } | Entry::Plan { text } => Some(text.clone()),
            _ => self.subject(),
        }
    }
}

/// A step as it is hashed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The step before it; the first of a task has none.
    pub parent: Option<StepId>,
    /// The project's commit that the task started from.
    pub base: Option<CommitId>,
    /// The session it was recorded in.
    pub session: SessionId,
    /// The task it belongs to.
    pub task: TaskId,
    /// What it records.
    pub kind: Kind,
    /// What happened, in order.
    pub payload: Vec<Entry>,
    /// The state of the task after it.
    pub state: State,
    /// When it was written.
    pub timestamp: Timestamp,
}

impl Step {
    /// The stored object.
    pub fn encode(&self) -> Object {
        Object::encode(ObjectKind::Step, self)
    }

    /// The blobs its entries need, each once.
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

    /// The sentences it adds to the narrative.
    pub fn notes(&self) -> impl Iterator<Item = &str> {
        self.payload.iter().filter_map(|entry| match entry {
            Entry::Note { text, .. } => Some(text.as_str()),
            _ => None,
        })
    }
}
