//! Where ctx keeps things.
//!
//! | file | owns |
//! |---|---|
//! | this one | the [`Store`] trait: everything the engine may ask of a store |
//! | [`error`] | what can go wrong, shaped by what the caller does next |
//! | [`transition`] | how a typed rule goes through the store and its reply comes back |
//! | [`sqlite`] | the embedded store: one file, one commit point |
//!
//! A write carries its rule into the transaction: the store reads the rows, the rule decides on exactly
//! those rows, the store makes the changes, and either all of it is on disk or none. What comes back as
//! `Ok` is durable.

use std::path::Path;

use async_trait::async_trait;
use ctx_core::agent_session::AgentSession;
use ctx_core::commit::Commit;
use ctx_core::compaction::Compaction;
use ctx_core::decide::{Event, Needs, SessionView};
use ctx_core::id::{CommitId, NodeId, ObjectId, RunId, SessionId, StepId, TaskId, TokenId, TurnId};
use ctx_core::inbox::Item;
use ctx_core::message::Message;
use ctx_core::object::{Fault, Kind, Named, Object};
use ctx_core::pin::Pin;
use ctx_core::run::Run;
use ctx_core::session::{self, Session};
use ctx_core::step::Step;
use ctx_core::task::Task;
use ctx_core::time::{Span, Timestamp};
use ctx_core::token::Token;
use ctx_core::turn::{self, Header};
use serde::Serialize;

pub mod error;
pub mod sqlite;
pub mod transition;

pub use error::Error;
pub use transition::{Executed, Once, OnceKey, Stored, Transition, Written, execute, execute_once};

/// The most rows one page may have.
pub const PAGE_MAX: usize = 1000;

/// Which session a write or a look is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// By its id.
    Id(SessionId),
    /// By its label, else by an alias of it.
    Label(String),
}

/// What a transaction reads before its rule runs, and what it is given besides.
#[derive(Debug, Clone)]
pub struct Write {
    /// The session it is about.
    pub target: Target,
    /// What the rule needs to see.
    pub needs: Needs,
    /// Turn bodies and blobs that the decision will refer to, made ready before the transaction.
    pub objects: Vec<Named>,
    /// When.
    pub now: Timestamp,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedEvent {
    /// The commit it was part of; opaque, and rising over all sessions.
    pub row: i64,
    /// In which session.
    pub session: SessionId,
    /// Its number in that session.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// What happened.
    pub event: Event,
}

/// Which sessions.
#[derive(Debug, Clone, Default)]
pub struct SessionQuery {
    /// In one of these states of use; in any if empty.
    pub statuses: Vec<session::Status>,
    /// Of this project.
    pub project: Option<String>,
    /// With these words in label, title or project.
    pub words: Option<String>,
    /// Only those that need a human: a suspension, a question, a task that awaits the user.
    pub waiting: bool,
    /// Only those that this session started.
    pub parent: Option<String>,
    /// After this one, in the order of the list.
    pub after: Option<(Timestamp, SessionId)>,
    /// At most so many.
    pub limit: usize,
}

impl SessionQuery {
    /// The sessions with the newest activity, whatever their state of use.
    pub fn newest(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }
}

/// How many sessions a list leaves out by its default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[allow(missing_docs, reason = "each field counts what it is called")]
pub struct Hidden {
    pub archived: u64,
    pub error: u64,
}

/// A move of a session's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadMove {
    /// Its place: moves are numbered as they are made, over all sessions.
    pub row: i64,
    /// To which turn; before the first if none.
    pub turn: Option<TurnId>,
    /// When.
    pub at: Timestamp,
}

/// A turn in the tree of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeTurn {
    /// Which.
    pub id: TurnId,
    /// The turn before it.
    pub parent: Option<TurnId>,
    /// How many turns lead to it, itself included.
    pub depth: u64,
    /// The labels of the sessions whose head it is.
    pub heads: Vec<String>,
}

/// A turn as it is listed.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredTurn {
    /// Its name.
    pub id: TurnId,
    /// How many turns lead to it, itself included.
    pub depth: u64,
    /// What was hashed.
    pub header: Header,
    /// The stored words; nothing where they were purged.
    pub body: Option<Object>,
    /// What it stands for, where it is a compaction.
    pub compaction: Option<Compaction>,
}

impl StoredTurn {
    /// What was said; nothing where the words were purged.
    ///
    /// # Errors
    /// If the words cannot be read.
    pub fn messages(&self) -> Result<Option<Vec<Message>>, Error> {
        let damaged =
            |fault: Fault| Error::DamagedObject { id: self.header.body, why: fault.to_string() };
        self.body
            .as_ref()
            .map(|body| turn::messages(&self.header, body))
            .transpose()
            .map_err(damaged)
    }
}

/// The part of a history that a request is made of.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Context {
    /// From the head back to the first turn that the newest compaction on the way keeps, newest first.
    pub turns: Vec<StoredTurn>,
    /// The place of that compaction in `turns`.
    pub compaction: Option<usize>,
    /// The turns before those that the session has pinned, oldest first.
    pub pinned: Vec<StoredTurn>,
    /// All that it has pinned, oldest first.
    pub pins: Vec<Pin>,
}

/// A step as it is listed.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredStep {
    /// Its name.
    pub id: StepId,
    /// Its place in the task, from 1.
    pub seq: u64,
    /// What was recorded.
    pub step: Step,
    /// The stored bytes.
    pub object: Object,
}

/// A sentence of the narrative.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sentence {
    /// When it was written.
    #[serde(skip)]
    pub at: Timestamp,
    /// For which task.
    pub task: TaskId,
    /// In which step.
    pub step: StepId,
    /// What it says.
    pub text: String,
}

/// Something whose id begins as asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Its id.
    pub id: ObjectId,
    /// Its kind.
    pub kind: Kind,
}

/// Something that was said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hit {
    /// A turn, step or commit.
    pub kind: &'static str,
    /// Which.
    pub id: ObjectId,
    /// When.
    #[serde(skip)]
    pub at: Timestamp,
    /// The words around it.
    pub snippet: String,
    /// The session that it was said in; nothing where that was deleted.
    pub session: Option<String>,
}

/// Where a search goes on: before these rows of turns, steps and commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each field is of what it is called")]
pub struct SearchPlace {
    pub turns: i64,
    pub steps: i64,
    pub commits: i64,
}

/// Some of what was found, and where to go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchPage {
    /// Newest first.
    pub hits: Vec<Hit>,
    /// Nothing where that was all.
    pub next: Option<SearchPlace>,
}

/// Which commits.
#[derive(Debug, Clone, Default)]
pub struct CommitQuery {
    /// Of this project.
    pub project: Option<String>,
    /// Of one of these types; of any if empty.
    pub types: Vec<String>,
    /// Older than this commit.
    pub before: Option<CommitId>,
    /// At most so many, and never more than one past [`PAGE_MAX`]: the one that says there is another page.
    pub limit: usize,
}

/// A fault that `verify` found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is about: `step 3f2a…`, `ref HEAD:x`, `table turns`.
    pub what: String,
    /// What is wrong.
    pub fault: String,
}

/// What `verify` looked at and found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[allow(missing_docs, reason = "each field counts what it is called")]
pub struct VerifyReport {
    pub turns: u64,
    pub steps: u64,
    pub commits: u64,
    pub blobs: u64,
    pub sessions: u64,
    pub tasks: u64,
    pub bytes: u64,
    /// At most [`FINDINGS_MAX`].
    pub findings: Vec<Finding>,
    /// What was put right.
    pub repaired: Vec<String>,
}

/// The most findings one report lists.
pub const FINDINGS_MAX: usize = 1000;

/// What `gc` removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[allow(missing_docs, reason = "each field counts what it is called")]
pub struct GcReport {
    pub blobs_kept: u64,
    pub blobs_removed: u64,
    pub bytes_removed: u64,
}

/// How a store is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "each field is what it is called")]
pub struct Health {
    pub schema: u32,
    pub project: String,
    pub database_bytes: u64,
    pub wal_bytes: u64,
    pub segment_bytes: u64,
    pub search_bytes: u64,
    pub sessions: u64,
    pub turns: u64,
    pub steps: u64,
    pub commits: u64,
    pub blobs: u64,
    /// Rows that the hash and word indexes have not seen yet.
    pub unindexed: u64,
    pub sqlite: String,
}

/// How far a long look has come: done, of how many.
pub type Progress<'a> = &'a (dyn Fn(u64, u64) + Sync);

/// Everything the engine may ask of a store.
#[async_trait]
pub trait Store: Send + Sync {
    /// Runs one transaction; `Ok` means that it is on disk. Callers use [`execute`], which keeps the reply's type.
    async fn write(&self, write: Write, rule: Box<dyn Transition>) -> Result<Stored, Error>;

    /// What a rule would see now.
    async fn view(&self, target: &Target, needs: Needs) -> Result<Option<SessionView>, Error>;

    /// A turn's header, a step, a commit or a blob, its hash checked.
    async fn object(&self, id: ObjectId) -> Result<Option<Object>, Error>;

    /// Everything whose id begins with these hex digits, at most `limit`.
    async fn resolve(&self, prefix: &str, limit: usize) -> Result<Vec<Found>, Error>;

    /// Sessions, those with the newest activity first.
    async fn sessions(&self, query: &SessionQuery) -> Result<Vec<Session>, Error>;

    /// How many sessions are put away or damaged.
    async fn hidden(&self) -> Result<Hidden, Error>;

    /// Candidates for recovery: sessions with messages that may be deliverable, with a dead owner, or with a report
    /// that is due. This only selects; `decide::delivery_block` and the rules decide on each of them.
    async fn unattended(&self, dead: &[NodeId], limit: usize) -> Result<Vec<SessionId>, Error>;

    /// Sessions without activity since then that are in use and idle.
    async fn idle_sessions(&self, since: Timestamp, limit: usize) -> Result<Vec<SessionId>, Error>;

    /// A run and its session.
    async fn run(&self, id: RunId) -> Result<Option<(Run, SessionId)>, Error>;

    /// The conversation that an agent on a machine has for a session.
    async fn agent_session(
        &self,
        session: SessionId,
        provider_id: &str,
        host: &str,
    ) -> Result<Option<AgentSession>, Error>;

    /// The inbox of a session with what its cap dropped.
    async fn inbox(&self, session: SessionId) -> Result<Vec<Item>, Error>;

    /// The same sessions with all that a list shows of them: task, question, run, suspensions, inbox.
    async fn session_views(&self, query: &SessionQuery) -> Result<Vec<SessionView>, Error>;

    /// The tasks of a session that are older than one, newest first.
    async fn tasks(
        &self,
        session: SessionId,
        before: Option<TaskId>,
        limit: usize,
    ) -> Result<Vec<Task>, Error>;

    /// The moves of a session's head before one, newest first.
    async fn head_moves(
        &self,
        session: SessionId,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<HeadMove>, Error>;

    /// The turns of the tree that a session's head is in, oldest first.
    async fn tree(&self, session: SessionId, limit: usize) -> Result<Vec<TreeTurn>, Error>;

    /// The events of a session after a number, oldest first.
    async fn feed(
        &self,
        session: SessionId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<FeedEvent>, Error>;

    /// The events of all sessions after a row, oldest first.
    async fn feed_of_all(&self, after: i64, limit: usize) -> Result<Vec<FeedEvent>, Error>;

    /// The newest row of the feed.
    async fn feed_mark(&self) -> Result<i64, Error>;

    /// Registers this process as one that runs sessions; it is alive until what comes back is dropped, and by its
    /// lease until `until`.
    async fn join(&self, node: NodeId, until: Timestamp) -> Result<Box<dyn Send + Sync>, Error>;

    /// Prolongs the lease; `false` when this process was taken for dead.
    async fn beat(&self, node: NodeId, until: Timestamp) -> Result<bool, Error>;

    /// Forgets a process that owns nothing any more.
    async fn leave(&self, node: NodeId) -> Result<(), Error>;

    /// Processes that are dead and not yet forgotten.
    async fn dead_nodes(&self, now: Timestamp) -> Result<Vec<NodeId>, Error>;

    /// Removes turns of deleted sessions, and what is too old to be asked for; `true` if there is more.
    async fn purge(&self, now: Timestamp) -> Result<bool, Error>;

    /// Sessions whose open task has had no activity since then.
    async fn idle_tasks(&self, since: Timestamp, limit: usize) -> Result<Vec<SessionId>, Error>;

    /// The turns that lead to `head`, newest first, bodies included.
    async fn turns(&self, head: TurnId, limit: usize) -> Result<Vec<StoredTurn>, Error>;

    /// The turns that lead to `head`, newest first, from the one at `depth` on.
    async fn turns_from(
        &self,
        head: TurnId,
        depth: u64,
        limit: usize,
    ) -> Result<Vec<StoredTurn>, Error>;

    /// Whether a turn was made in a session, rather than shared with it or foreign to it.
    async fn is_made_in(&self, session: SessionId, turn: TurnId) -> Result<bool, Error>;

    /// The last turn that two turns both descend from, or are; nothing where they have none in common.
    async fn common_ancestor(&self, a: TurnId, b: TurnId) -> Result<Option<TurnId>, Error>;

    /// The files that a session's tasks are known to have written after a moment, by name.
    async fn files_written(
        &self,
        session: SessionId,
        after: Timestamp,
        limit: usize,
    ) -> Result<Vec<String>, Error>;

    /// What a request of a session has to look at. It reads what it gives and no more, and stops before the words have
    /// more than `max_bytes`.
    async fn context(
        &self,
        session: SessionId,
        head: TurnId,
        max_bytes: usize,
    ) -> Result<Context, Error>;

    /// The steps of a task after `after`, oldest first.
    async fn steps(&self, task: TaskId, after: u64, limit: usize)
    -> Result<Vec<StoredStep>, Error>;

    /// A task, open or ended.
    async fn task(&self, id: TaskId) -> Result<Option<Task>, Error>;

    /// Commits, newest first.
    async fn commits(&self, query: &CommitQuery) -> Result<Vec<(CommitId, Commit)>, Error>;

    /// The notes written from `from` until before `to`, oldest first.
    async fn narrative(
        &self,
        from: Timestamp,
        to: Timestamp,
        limit: usize,
    ) -> Result<Vec<Sentence>, Error>;

    /// Whatever holds all of these words: the rows that were stored last, newest first.
    async fn search(&self, words: &str, limit: usize) -> Result<Vec<Hit>, Error> {
        Ok(self.search_from(words, None, limit).await?.hits)
    }

    /// A page of the same, from a place on.
    async fn search_from(
        &self,
        words: &str,
        from: Option<SearchPlace>,
        limit: usize,
    ) -> Result<SearchPage, Error>;

    /// Brings the indexes behind the commits up to the newest row.
    async fn settle(&self) -> Result<(), Error>;

    /// Re-hashes everything and checks every pointer; repairs what can be derived, if asked.
    async fn verify(&self, repair: bool, progress: Progress<'_>) -> Result<VerifyReport, Error>;

    /// Removes blobs that nothing refers to and that are older than the grace.
    async fn gc(&self, now: Timestamp, grace: Span) -> Result<GcReport, Error>;

    /// Writes a consistent copy beside running writers.
    async fn backup(&self, to: &Path) -> Result<(), Error>;

    /// Keeps a token under the hash of its secret.
    async fn put_token(&self, token: &Token, digest: ObjectId) -> Result<(), Error>;

    /// The token with this hash.
    async fn token(&self, digest: ObjectId) -> Result<Option<Token>, Error>;

    /// Every token, oldest first.
    async fn tokens(&self) -> Result<Vec<Token>, Error>;

    /// Forgets a token, so that it lets nobody in; the token that it was.
    async fn remove_token(&self, id: TokenId) -> Result<Option<Token>, Error>;

    /// Sizes and counts.
    async fn health(&self) -> Result<Health, Error>;
}
