//! Queries that a store answers, and the records and reports that it returns.

use std::collections::BTreeMap;

use ctx_core::compaction::Compaction;
use ctx_core::decide::{Event, SessionView};
use ctx_core::id::{CommitId, MessageId, NodeId, ObjectId, SessionId, StepId, TaskId, TurnId};
use ctx_core::message::Message;
use ctx_core::object::{Kind, Object, ObjectError};
use ctx_core::outbox::{self, Outgoing};
use ctx_core::pin::Pin;
use ctx_core::session;
use ctx_core::step::Step;
use ctx_core::time::Timestamp;
use ctx_core::turn::{self, Header};
use ctx_core::usage::Tally;
use serde::Serialize;

use crate::Error;

/// Most rows of one page.
pub const PAGE_MAX: usize = 1000;

/// Most findings of one verification report.
pub const FINDINGS_MAX: usize = 1000;

/// Selects sessions, those with the newest activity first.
#[derive(Debug, Clone, Default)]
pub struct SessionQuery {
    /// Any status if empty.
    pub statuses: Vec<session::Status>,
    /// Sessions of one project.
    pub project: Option<String>,
    /// Sessions of one working directory.
    pub working_dir: Option<String>,
    /// Text in label, title or project, in any case.
    pub words: Option<String>,
    /// Only sessions that need a human: a suspension, a prompt, or a task that awaits the user.
    pub waiting: bool,
    /// Only workers that the session with this label started.
    pub parent: Option<String>,
    /// Cursor: sessions after this one in the order of the list.
    pub after: Option<(Timestamp, SessionId)>,
    /// At most [`PAGE_MAX`] + 1; the extra one shows that there is another page.
    pub limit: usize,
}

impl SessionQuery {
    /// The sessions with the newest activity, of any status.
    pub fn newest(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }
}

/// A page of sessions.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SessionPage {
    /// Each with its task, prompt, run, suspensions and inbox.
    pub sessions: Vec<SessionView>,
    /// Sessions of the whole store that a default list leaves out.
    pub hidden: Hidden,
}

/// Number of sessions that a default list leaves out, by status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[allow(missing_docs, reason = "the fields are named after the statuses that they count")]
pub struct Hidden {
    pub archived: u64,
    pub error: u64,
}

/// Selects sessions that need background work.
#[derive(Debug, Clone)]
pub enum Due {
    /// Candidates for recovery: sessions with messages that may be deliverable, an unreported
    /// worker or a dead owner. `decide::delivery_block` and the rules decide on each of them.
    Unattended {
        /// Nodes that are known to be dead.
        dead: Vec<NodeId>,
        /// The last session of the previous page; sessions are ordered by id.
        after: Option<SessionId>,
    },
    /// Idle sessions in use without activity since a time.
    IdleSessions {
        /// Activity before this time.
        since: Timestamp,
    },
    /// Sessions whose open task has had no activity since a time.
    IdleTasks {
        /// Activity before this time.
        since: Timestamp,
    },
}

/// Selects turns of the path from a head to the root.
#[derive(Debug, Clone, Copy)]
pub struct TurnQuery {
    /// The newest turn of the path.
    pub head: TurnId,
    /// Starts with the ancestor at this depth instead of the head.
    pub from_depth: Option<u64>,
    /// Most turns to return.
    pub limit: usize,
    /// Returns the same turns in the opposite order, which decides where the other limits apply.
    pub oldest_first: bool,
    /// Returns no further turn after this many messages.
    pub max_messages: usize,
    /// Returns no further turn if all bodies would exceed this size in bytes; the first is always
    /// returned.
    pub max_bytes: usize,
}

impl TurnQuery {
    /// The newest turns of a path, newest first.
    pub const fn newest(head: TurnId, limit: usize) -> Self {
        Self {
            head,
            from_depth: None,
            limit,
            oldest_first: false,
            max_messages: usize::MAX,
            max_bytes: usize::MAX,
        }
    }

    /// The turns of a path from the one at `depth` back.
    pub const fn from_depth(head: TurnId, depth: u64, limit: usize) -> Self {
        Self { from_depth: Some(depth), ..Self::newest(head, limit) }
    }
}

/// A message that ends a history which a client sent before.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct FoundHistory {
    /// The key of the history.
    pub key: String,
    pub session: SessionId,
    pub message: MessageId,
}

/// Selects events, oldest first.
#[derive(Debug, Clone, Copy)]
pub enum FeedQuery {
    /// Events of one session.
    Session {
        /// The session.
        id: SessionId,
        /// Cursor: events with a larger sequence number.
        after: u64,
    },
    /// Events of all sessions.
    All {
        /// Cursor: events of later feed rows.
        after: i64,
    },
}

/// A durable event.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedEvent {
    /// The feed row that it is part of. Opaque; rises over all sessions.
    pub row: i64,
    /// The session that it is about.
    pub session: SessionId,
    /// Its number in the session, from 1.
    pub seq: u64,
    /// Time of the write that stored it.
    pub at: Timestamp,
    /// The event.
    pub event: Event,
}

/// What turns used: a sum by a key, a provider and a model.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct UsageRow {
    pub key: UsageKey,
    /// The second key, if the query has one.
    pub second: Option<UsageKey>,
    pub provider_id: Option<String>,
    pub model: Option<String>,
    pub tally: Tally,
    /// Calls of tools that failed, if the query counts them.
    pub failed_calls: Option<u64>,
}

/// What a sum is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum UsageKey {
    /// Days since 1970-01-01, in UTC.
    Day(i64),
    Model(Option<String>),
    Provider(Option<String>),
    /// `None` for turns of deleted sessions that other sessions share.
    Project(Option<String>),
    Session {
        id: SessionId,
        label: String,
        title: Option<String>,
    },
    /// Turns of deleted sessions that other sessions share.
    DeletedSession,
    Tool(String),
}

/// A move of a session's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadMove {
    /// Cursor. Moves of all sessions are numbered in order.
    pub row: i64,
    /// The new head; `None` before the first turn.
    pub turn: Option<TurnId>,
    /// Time of the move.
    pub at: Timestamp,
}

/// A turn in the tree of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the other fields are self-explanatory")]
pub struct TreeTurn {
    pub id: TurnId,
    pub parent: Option<TurnId>,
    /// Number of turns from the root to this one, from 1.
    pub depth: u64,
    /// Labels of the sessions whose head it is.
    pub heads: Vec<String>,
}

/// A stored turn.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the other fields are self-explanatory")]
pub struct StoredTurn {
    pub id: TurnId,
    /// Number of turns from the root to this one, from 1.
    pub depth: u64,
    pub header: Header,
    /// `None` if the body was purged.
    pub body: Option<Object>,
    /// Present if the turn is a compaction.
    pub compaction: Option<Compaction>,
}

impl StoredTurn {
    /// The messages; `None` if the body was purged.
    ///
    /// # Errors
    /// If the body cannot be decoded.
    pub fn messages(&self) -> Result<Option<Vec<Message>>, Error> {
        let damaged = |fault: ObjectError| Error::DamagedObject {
            id: self.header.body,
            why: fault.to_string(),
        };
        let messages = self.body.as_ref().map(|body| turn::messages(&self.header, body));
        messages.transpose().map_err(damaged)
    }
}

/// The turns that a request is made of.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Context {
    /// From the head back to the first turn that the newest compaction keeps, newest first.
    pub turns: Vec<StoredTurn>,
    /// Index of that compaction in `turns`.
    pub compaction: Option<usize>,
    /// Pinned turns before those, oldest first.
    pub pinned: Vec<StoredTurn>,
    /// All pins of the session, oldest turn first.
    pub pins: Vec<Pin>,
}

/// A stored step.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the other fields are self-explanatory")]
pub struct StoredStep {
    pub id: StepId,
    /// Position in the task, from 1.
    pub seq: u64,
    pub step: Step,
    /// The stored bytes.
    pub object: Object,
}

/// A note of the narrative.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the fields are self-explanatory")]
pub struct NarrativeNote {
    #[serde(skip)]
    pub at: Timestamp,
    pub task: TaskId,
    pub step: StepId,
    pub text: String,
}

/// An object that an id prefix matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are self-explanatory")]
pub struct Found {
    pub id: ObjectId,
    pub kind: Kind,
}

/// What to search for.
#[derive(Debug, Clone)]
pub struct SearchQuery {
    /// Words and filters, as `docs/search.md` describes them.
    pub text: String,
    /// Only in these sessions.
    pub sessions: Option<Vec<SessionId>>,
    /// The `next` of the page before.
    pub cursor: Option<String>,
    /// At most [`PAGE_MAX`].
    pub limit: usize,
    /// The time that recency and relative times refer to.
    pub now: Timestamp,
}

/// Selects commits, newest first.
#[derive(Debug, Clone, Default)]
pub struct CommitQuery {
    /// Commits of one project.
    pub project: Option<String>,
    /// Names of commit types; any type if empty.
    pub types: Vec<String>,
    /// Cursor: commits older than this one.
    pub before: Option<CommitId>,
    /// At most [`PAGE_MAX`] + 1; the extra one shows that there is another page.
    pub limit: usize,
}

/// Which deliveries to channels to list, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct OutboxQuery {
    pub status: Option<outbox::Status>,
    pub channel: Option<String>,
    pub session: Option<SessionId>,
    /// Cursor: rows older than this one.
    pub before: Option<i64>,
    /// At most [`PAGE_MAX`] + 1; the extra one shows that there is another page.
    pub limit: usize,
}

/// A delivery as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredOutgoing {
    /// The number of its row, which is the cursor of lists.
    pub row: i64,
    #[allow(missing_docs, reason = "the name is self-explanatory")]
    pub outgoing: Outgoing,
}

/// A fault that `verify` found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The faulty row: `step 3f2a…`, `ref HEAD:x`, `table turns`.
    pub what: String,
    /// What is wrong with it.
    pub fault: String,
}

/// The report of `verify`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[allow(missing_docs, reason = "the other fields count the checked rows of a table")]
pub struct VerifyReport {
    pub turns: u64,
    pub steps: u64,
    pub commits: u64,
    pub blobs: u64,
    pub sessions: u64,
    pub tasks: u64,
    /// Bytes of all checked bodies, unpacked.
    pub bytes: u64,
    /// At most [`FINDINGS_MAX`].
    pub findings: Vec<Finding>,
    /// A line for each repair.
    pub repaired: Vec<String>,
}

/// The report of a copy of a store.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct CopyReport {
    /// In the order in which the tables were copied.
    pub tables: Vec<CopiedRows>,
    /// Sessions whose label was in use in the target.
    pub renamed: Vec<RenamedSession>,
}

/// What was copied of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CopiedRows {
    /// Name of the table.
    pub table: &'static str,
    /// Number of rows that were added to the target.
    pub copied: u64,
    /// Number of rows that the target has, or that belong to rows that it has.
    pub skipped: u64,
}

/// A session that has another label in the target of a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RenamedSession {
    /// Id of the session, in both stores.
    pub id: String,
    /// Label in the source.
    pub from: String,
    /// Label in the target.
    pub to: String,
}

/// The report of `gc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[allow(missing_docs, reason = "the fields are self-explanatory")]
pub struct GcReport {
    pub blobs_kept: u64,
    pub blobs_removed: u64,
    pub bytes_removed: u64,
}

/// Version, sizes and counts of a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the other fields count the rows of a table")]
pub struct Health {
    /// Schema version.
    pub schema: u32,
    /// The project that the store was created for.
    pub project: String,
    /// Name and version of the database.
    pub engine: String,
    /// Sizes in bytes by name: `database`, `wal`, `segments`, `search` on SQLite.
    pub bytes: BTreeMap<&'static str, u64>,
    pub sessions: u64,
    pub turns: u64,
    pub steps: u64,
    pub commits: u64,
    pub blobs: u64,
    /// Rows that the search index has not read yet.
    pub unindexed: u64,
}

impl Health {
    /// A size in bytes by its name; 0 if the database has no such size.
    pub fn size(&self, name: &str) -> u64 {
        self.bytes.get(name).copied().unwrap_or(0)
    }
}

/// Receives the progress of long work: the number of finished units and the total.
pub type Progress<'a> = &'a (dyn Fn(u64, u64) + Sync);
