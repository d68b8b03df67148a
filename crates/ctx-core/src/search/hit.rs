//! Search results: one for each turn that matches, and one for each task without turns.

use crate::id::{CommitId, MessageId, SessionId, TaskId, TurnId};
use crate::message::Role;
use crate::time::Timestamp;

/// What a hit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HitKind {
    /// A turn of a session. Steps and commits of its task are part of it.
    Turn,
    /// A task whose session added no turn while it was open.
    Task,
}

impl HitKind {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Task => "task",
        }
    }
}

/// A piece of a snippet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Plain text on one line.
    pub text: String,
    /// Whether the query matches this piece.
    pub is_match: bool,
}

/// A search result.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// What was found.
    pub kind: HitKind,
    /// `None` if the session was deleted and the task outlives it.
    pub session: Option<SessionId>,
    /// Label of the session.
    pub session_label: Option<String>,
    /// Title of the session.
    pub session_title: Option<String>,
    /// Project of the session.
    pub project: Option<String>,
    /// The turn to open; `None` for a task without turns.
    pub turn: Option<TurnId>,
    /// The message that matches best; `None` if the match is in the record of the task.
    pub message: Option<MessageId>,
    /// Author of that message.
    pub role: Option<Role>,
    /// The task to which the turn belongs.
    pub task: Option<TaskId>,
    /// The commit into which the task was sealed.
    pub commit: Option<CommitId>,
    /// `open`, or the type of the commit; `None` for a turn outside of a task.
    pub outcome: Option<&'static str>,
    /// When the turn ended, or the newest matching step of the task.
    pub at: Timestamp,
    /// Relevance and recency; greater is better. Scores of different queries cannot be compared.
    pub score: f64,
    /// The text around the match, on one line.
    pub snippet: Vec<Segment>,
}

impl Hit {
    /// The id of what was found: of the turn, or of the task.
    pub fn id(&self) -> String {
        match (self.turn, self.task) {
            (Some(turn), _) => turn.to_string(),
            (None, Some(task)) => task.to_string(),
            (None, None) => String::new(),
        }
    }

    /// The snippet without its marks.
    pub fn text(&self) -> String {
        self.snippet.iter().map(|segment| segment.text.as_str()).collect()
    }
}

/// A page of search results.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Page {
    /// Best first.
    pub hits: Vec<Hit>,
    /// Opaque cursor of the next page; `None` on the last one.
    pub next: Option<String>,
    /// Queries with corrected words, if nothing was found.
    pub suggestions: Vec<String>,
    /// Rows that are stored and not indexed yet.
    pub lag: u64,
}
