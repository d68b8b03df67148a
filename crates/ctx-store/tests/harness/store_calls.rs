//! Every call of the [`Store`] trait that a test makes goes through this file, one function per
//! method.
//!
//! When the trait changes, this file changes and the tests do not. Each call records the method's
//! name, so that a test can compare what was called with what the trait has.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use ctx_core::agent_session::AgentSession;
use ctx_core::commit::Commit;
use ctx_core::decide::{Change, Decision, Needs, SessionView};
use ctx_core::id::{CommitId, NodeId, ObjectId, RunId, SessionId, TaskId, TokenId, TurnId};
use ctx_core::inbox::Item;
use ctx_core::object::Object;
use ctx_core::run::Run;
use ctx_core::session::Session;
use ctx_core::task::Task;
use ctx_core::time::{Span, Timestamp};
use ctx_core::token::Token;
use ctx_store::{
    CommitQuery, Context, Error, FeedEvent, Found, GcReport, HeadMove, Health, Hidden, Hit,
    Progress, SearchPage, SearchPlace, Sentence, SessionQuery, Store, StoredStep, StoredTurn,
    Target, TreeTurn, VerifyReport, Write,
};

/// What the handles of one store were used for.
#[derive(Debug, Default)]
pub(crate) struct Used {
    /// The names of the trait's methods that were called.
    pub(crate) methods: Mutex<BTreeSet<String>>,
    /// The names of the kinds of changes that were written.
    pub(crate) changes: Mutex<BTreeSet<String>>,
}

pub(crate) type Calls = Arc<Used>;

/// A position in the feed of all sessions. Tests take it from one call and give it to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FeedCursor(i64);

impl FeedCursor {
    /// Before the first event.
    pub(crate) const START: Self = Self(0);

    /// Behind the transaction that an event belongs to.
    pub(crate) const fn after(event: &FeedEvent) -> Self {
        Self(event.row)
    }

    /// Behind the transaction that wrote a decision; `None` where it had no events.
    pub(crate) fn of(decision: &Decision) -> Option<Self> {
        decision.reply.row.map(Self)
    }
}

/// A position in the list of a session's head moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MoveCursor(i64);

impl MoveCursor {
    pub(crate) const fn of(head_move: &HeadMove) -> Self {
        Self(head_move.row)
    }
}

/// How many rows there are of each kind of thing that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) sessions: u64,
    pub(crate) turns: u64,
    pub(crate) steps: u64,
    pub(crate) commits: u64,
    pub(crate) blobs: u64,
}

/// One open handle on a store.
#[derive(Clone)]
pub(crate) struct StoreHandle {
    store: Arc<dyn Store>,
    calls: Calls,
    /// What [`Store::join`] returned: the registration of a node lasts as long as the handle.
    registrations: Arc<Mutex<Vec<Box<dyn Send + Sync>>>>,
}

macro_rules! call {
    ($self:ident.$method:ident($($argument:expr),*)) => {{
        $self.calls.methods.lock().expect("no panic").insert(stringify!($method).to_owned());
        $self.store.$method($($argument),*).await
    }};
}

/// The name of a change's variant.
fn kind_of(change: &Change) -> String {
    let text = format!("{change:?}");
    text.chars().take_while(|letter| letter.is_alphanumeric()).collect()
}

impl StoreHandle {
    pub(crate) fn new(store: impl Store + 'static) -> Self {
        Self::recording(store, Calls::default())
    }

    /// A handle that adds the names of the methods that are called to `calls`.
    pub(crate) fn recording(store: impl Store + 'static, calls: Calls) -> Self {
        Self { store: Arc::new(store), calls, registrations: Arc::default() }
    }

    pub(crate) async fn write(&self, write: Write) -> Result<Decision, Error> {
        let decision = call!(self.write(write))?;
        let kinds = decision.changes.iter().map(kind_of);
        self.calls.changes.lock().expect("no panic").extend(kinds);
        Ok(decision)
    }

    pub(crate) async fn view(
        &self,
        target: &Target,
        needs: Needs,
    ) -> Result<Option<SessionView>, Error> {
        call!(self.view(target, needs))
    }

    pub(crate) async fn object(&self, id: ObjectId) -> Result<Option<Object>, Error> {
        call!(self.object(id))
    }

    pub(crate) async fn resolve(&self, prefix: &str, limit: usize) -> Result<Vec<Found>, Error> {
        call!(self.resolve(prefix, limit))
    }

    pub(crate) async fn sessions(&self, query: &SessionQuery) -> Result<Vec<Session>, Error> {
        call!(self.sessions(query))
    }

    pub(crate) async fn hidden(&self) -> Result<Hidden, Error> {
        call!(self.hidden())
    }

    pub(crate) async fn unattended(
        &self,
        dead: &[NodeId],
        limit: usize,
    ) -> Result<Vec<SessionId>, Error> {
        call!(self.unattended(dead, limit))
    }

    pub(crate) async fn idle_sessions(
        &self,
        since: Timestamp,
        limit: usize,
    ) -> Result<Vec<SessionId>, Error> {
        call!(self.idle_sessions(since, limit))
    }

    pub(crate) async fn run(&self, id: RunId) -> Result<Option<(Run, SessionId)>, Error> {
        call!(self.run(id))
    }

    pub(crate) async fn agent_session(
        &self,
        session: SessionId,
        provider_id: &str,
        host: &str,
    ) -> Result<Option<AgentSession>, Error> {
        call!(self.agent_session(session, provider_id, host))
    }

    pub(crate) async fn inbox(&self, session: SessionId) -> Result<Vec<Item>, Error> {
        call!(self.inbox(session))
    }

    pub(crate) async fn session_views(
        &self,
        query: &SessionQuery,
    ) -> Result<Vec<SessionView>, Error> {
        call!(self.session_views(query))
    }

    pub(crate) async fn tasks(
        &self,
        session: SessionId,
        before: Option<TaskId>,
        limit: usize,
    ) -> Result<Vec<Task>, Error> {
        call!(self.tasks(session, before, limit))
    }

    pub(crate) async fn head_moves(
        &self,
        session: SessionId,
        before: Option<MoveCursor>,
        limit: usize,
    ) -> Result<Vec<HeadMove>, Error> {
        call!(self.head_moves(session, before.map(|cursor| cursor.0), limit))
    }

    pub(crate) async fn tree(
        &self,
        session: SessionId,
        limit: usize,
    ) -> Result<Vec<TreeTurn>, Error> {
        call!(self.tree(session, limit))
    }

    pub(crate) async fn feed(
        &self,
        session: SessionId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<FeedEvent>, Error> {
        call!(self.feed(session, after, limit))
    }

    pub(crate) async fn feed_of_all(
        &self,
        after: FeedCursor,
        limit: usize,
    ) -> Result<Vec<FeedEvent>, Error> {
        call!(self.feed_of_all(after.0, limit))
    }

    pub(crate) async fn feed_mark(&self) -> Result<FeedCursor, Error> {
        call!(self.feed_mark()).map(FeedCursor)
    }

    /// Registers a node for as long as this handle is open.
    pub(crate) async fn join(&self, node: NodeId, until: Timestamp) -> Result<(), Error> {
        let registration = call!(self.join(node, until))?;
        self.registrations.lock().expect("no panic").push(registration);
        Ok(())
    }

    /// Drops the registrations of this handle, as the end of a process does.
    pub(crate) fn drop_registrations(&self) {
        self.registrations.lock().expect("no panic").clear();
    }

    pub(crate) async fn beat(&self, node: NodeId, until: Timestamp) -> Result<bool, Error> {
        call!(self.beat(node, until))
    }

    pub(crate) async fn leave(&self, node: NodeId) -> Result<(), Error> {
        call!(self.leave(node))
    }

    pub(crate) async fn dead_nodes(&self, now: Timestamp) -> Result<Vec<NodeId>, Error> {
        call!(self.dead_nodes(now))
    }

    pub(crate) async fn purge(&self, now: Timestamp) -> Result<bool, Error> {
        call!(self.purge(now))
    }

    /// Purges until nothing is left to purge.
    pub(crate) async fn purge_all(&self, now: Timestamp) {
        while self.purge(now).await.expect("purged") {}
    }

    pub(crate) async fn idle_tasks(
        &self,
        since: Timestamp,
        limit: usize,
    ) -> Result<Vec<SessionId>, Error> {
        call!(self.idle_tasks(since, limit))
    }

    pub(crate) async fn turns(&self, head: TurnId, limit: usize) -> Result<Vec<StoredTurn>, Error> {
        call!(self.turns(head, limit))
    }

    pub(crate) async fn turns_from(
        &self,
        head: TurnId,
        depth: u64,
        limit: usize,
    ) -> Result<Vec<StoredTurn>, Error> {
        call!(self.turns_from(head, depth, limit))
    }

    pub(crate) async fn is_made_in(&self, session: SessionId, turn: TurnId) -> Result<bool, Error> {
        call!(self.is_made_in(session, turn))
    }

    pub(crate) async fn common_ancestor(
        &self,
        a: TurnId,
        b: TurnId,
    ) -> Result<Option<TurnId>, Error> {
        call!(self.common_ancestor(a, b))
    }

    pub(crate) async fn files_written(
        &self,
        session: SessionId,
        after: Timestamp,
        limit: usize,
    ) -> Result<Vec<String>, Error> {
        call!(self.files_written(session, after, limit))
    }

    pub(crate) async fn context(
        &self,
        session: SessionId,
        head: TurnId,
        max_bytes: usize,
    ) -> Result<Context, Error> {
        call!(self.context(session, head, max_bytes))
    }

    pub(crate) async fn steps(
        &self,
        task: TaskId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StoredStep>, Error> {
        call!(self.steps(task, after, limit))
    }

    pub(crate) async fn task(&self, id: TaskId) -> Result<Option<Task>, Error> {
        call!(self.task(id))
    }

    pub(crate) async fn commits(
        &self,
        query: &CommitQuery,
    ) -> Result<Vec<(CommitId, Commit)>, Error> {
        call!(self.commits(query))
    }

    pub(crate) async fn narrative(
        &self,
        from: Timestamp,
        to: Timestamp,
        limit: usize,
    ) -> Result<Vec<Sentence>, Error> {
        call!(self.narrative(from, to, limit))
    }

    pub(crate) async fn search(&self, words: &str, limit: usize) -> Result<Vec<Hit>, Error> {
        call!(self.search(words, limit))
    }

    pub(crate) async fn search_from(
        &self,
        words: &str,
        from: Option<SearchPlace>,
        limit: usize,
    ) -> Result<SearchPage, Error> {
        call!(self.search_from(words, from, limit))
    }

    /// Waits until the indexes have seen everything that is stored.
    pub(crate) async fn catch_up(&self) {
        call!(self.settle()).expect("the indexes catch up");
    }

    pub(crate) async fn verify(
        &self,
        repair: bool,
        progress: Progress<'_>,
    ) -> Result<VerifyReport, Error> {
        call!(self.verify(repair, progress))
    }

    pub(crate) async fn gc(&self, now: Timestamp, grace: Span) -> Result<GcReport, Error> {
        call!(self.gc(now, grace))
    }

    /// Only a backend calls this: tests that run against any store copy through their backend.
    pub(crate) async fn backup(&self, to: &Path) -> Result<(), Error> {
        call!(self.backup(to))
    }

    pub(crate) async fn put_token(&self, token: &Token, digest: ObjectId) -> Result<(), Error> {
        call!(self.put_token(token, digest))
    }

    pub(crate) async fn token(&self, digest: ObjectId) -> Result<Option<Token>, Error> {
        call!(self.token(digest))
    }

    pub(crate) async fn tokens(&self) -> Result<Vec<Token>, Error> {
        call!(self.tokens())
    }

    pub(crate) async fn remove_token(&self, id: TokenId) -> Result<Option<Token>, Error> {
        call!(self.remove_token(id))
    }

    pub(crate) async fn health(&self) -> Result<Health, Error> {
        call!(self.health())
    }

    pub(crate) async fn counts(&self) -> Counts {
        let Health { sessions, turns, steps, commits, blobs, .. } =
            self.health().await.expect("a health report");
        Counts { sessions, turns, steps, commits, blobs }
    }

    /// The project that the store was created for.
    pub(crate) async fn project(&self) -> String {
        self.health().await.expect("a health report").project
    }
}
