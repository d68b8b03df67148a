//! Every call that a test makes of a [`Store`] and its [`ctx_store::SearchIndex`] goes through this
//! file.
//!
//! When the interface changes, this file changes and the tests do not. Each call records the
//! method's name, so that a test can compare what was called with what the interface has.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use ctx_core::agent_session::AgentSession;
use ctx_core::alias::Alias;
use ctx_core::commit::Commit;
use ctx_core::decide::{Change, Decided, Needs, SessionView};
use ctx_core::exchange::{PathQuery, SessionHead, TaskMark};
use ctx_core::id::{
    CommitId, EntityId, NodeId, ObjectId, OutgoingId, RunId, SessionId, TaskId, TokenId, TurnId,
};
use ctx_core::identity::{Address, Entity, Envelope, Identity, Principal};
use ctx_core::inbox::Item;
use ctx_core::object::Object;
use ctx_core::outbox::{Outgoing, Settlement};
use ctx_core::routing::Routed;
use ctx_core::run::Run;
use ctx_core::schedule::ScheduleState;
use ctx_core::search::{Hit, Page};
use ctx_core::session::Session;
use ctx_core::task::Task;
use ctx_core::time::{Span, Timestamp};
use ctx_core::token::Token;
use ctx_core::usage_query::UsageQuery;
use ctx_store::{
    CommitQuery, Context, CopyReport, Due, Error, Executed, FeedEvent, FeedQuery, Found,
    FoundHistory, GcReport, HeadMove, Health, Hidden, NarrativeNote, Notice, Once, OnceKey,
    OutboxQuery, Progress, SearchQuery, SessionPage, SessionQuery, Store, StoredOutgoing,
    StoredStep, StoredTurn, Target, TreeTurn, TurnQuery, UlidKind, UsageOfScopes, UsageRow,
    VerifyReport, Write, Written, execute_routed,
};
use serde_json::Value;
use ulid::Ulid;

/// What the handles of one store were used for.
#[derive(Debug, Default)]
pub(crate) struct Used {
    /// The names of the methods that were called.
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

    /// Behind a transaction; `None` if it had no events.
    pub(crate) fn of<R>(written: &Written<R>) -> Option<Self> {
        written.feed_row.map(Self)
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
    store: Store,
    calls: Calls,
}

macro_rules! call {
    ($self:ident.$method:ident($($argument:expr),*)) => {{
        $self.called(stringify!($method));
        $self.store.$method($($argument),*).await
    }};
}

macro_rules! search_call {
    ($self:ident.$method:ident($($argument:expr),*)) => {{
        $self.called(stringify!($method));
        $self.store.search_index().$method($($argument),*).await
    }};
}

/// The name of a change's variant.
fn kind_of(change: &Change) -> String {
    let text = format!("{change:?}");
    text.chars().take_while(|letter| letter.is_alphanumeric()).collect()
}

impl StoreHandle {
    pub(crate) fn new(store: Store) -> Self {
        Self::recording(store, Calls::default())
    }

    /// A handle that adds the names of the methods that are called to `calls`.
    pub(crate) fn recording(store: Store, calls: Calls) -> Self {
        Self { store, calls }
    }

    fn called(&self, method: &str) {
        self.calls.methods.lock().expect("no panic").insert(method.to_owned());
    }

    pub(crate) async fn execute<R: Send + 'static>(
        &self,
        write: Write,
        once: Option<Once<R>>,
        rule: impl Fn(Option<&SessionView>) -> Decided<R> + Send + 'static,
    ) -> Result<Executed<R>, Error> {
        self.execute_routed(write, once, move |view, _| rule(view)).await
    }

    pub(crate) async fn execute_routed<R: Send + 'static>(
        &self,
        write: Write,
        once: Option<Once<R>>,
        rule: impl Fn(Option<&SessionView>, Option<&Routed>) -> Decided<R> + Send + 'static,
    ) -> Result<Executed<R>, Error> {
        let kinds: Arc<Mutex<Vec<String>>> = Arc::default();
        let decided = kinds.clone();
        let rule = move |view: Option<&SessionView>, routed: Option<&Routed>| {
            let decision = rule(view, routed)?;
            *decided.lock().expect("no panic") = decision.changes.iter().map(kind_of).collect();
            Ok(decision)
        };
        let executed = execute_routed(&self.store, write, once, rule).await?;
        self.calls
            .changes
            .lock()
            .expect("no panic")
            .extend(kinds.lock().expect("no panic").drain(..));
        Ok(executed)
    }

    pub(crate) async fn view(
        &self,
        target: &Target,
        needs: Needs,
    ) -> Result<Option<SessionView>, Error> {
        call!(self.view(target, needs))
    }

    pub(crate) async fn answer_of(
        &self,
        key: &OnceKey,
        now: Timestamp,
    ) -> Result<Option<Value>, Error> {
        call!(self.answer_of(key, now))
    }

    pub(crate) async fn histories(
        &self,
        scope: &str,
        keys: &[String],
        limit: usize,
    ) -> Result<Vec<FoundHistory>, Error> {
        call!(self.histories(scope, keys, limit))
    }

    pub(crate) async fn newest_tasks(&self, limit: usize) -> Result<Vec<Task>, Error> {
        call!(self.newest_tasks(limit))
    }

    pub(crate) async fn relation_steps(&self, limit: usize) -> Result<Vec<StoredStep>, Error> {
        call!(self.relation_steps(limit))
    }

    pub(crate) async fn object(&self, id: ObjectId) -> Result<Option<Object>, Error> {
        call!(self.object(id))
    }

    pub(crate) async fn resolve(&self, prefix: &str, limit: usize) -> Result<Vec<Found>, Error> {
        call!(self.resolve(prefix, limit))
    }

    pub(crate) async fn sessions_named(
        &self,
        name: &str,
        beginning: &str,
        limit: usize,
    ) -> Result<Vec<SessionId>, Error> {
        call!(self.sessions_named(name, beginning, limit))
    }

    pub(crate) async fn ids_beginning(
        &self,
        kind: UlidKind,
        beginning: &str,
        limit: usize,
    ) -> Result<Vec<Ulid>, Error> {
        call!(self.ids_beginning(kind, beginning, limit))
    }

    pub(crate) async fn short_ids(
        &self,
        kind: UlidKind,
        ids: Vec<Ulid>,
    ) -> Result<Vec<String>, Error> {
        call!(self.short_ids(kind, ids))
    }

    pub(crate) async fn short_hashes(&self, ids: Vec<ObjectId>) -> Result<Vec<String>, Error> {
        call!(self.short_hashes(ids))
    }

    pub(crate) async fn tasks_between(
        &self,
        from: Timestamp,
        to: Timestamp,
        limit: usize,
    ) -> Result<Vec<Task>, Error> {
        call!(self.tasks_between(from, to, limit))
    }

    pub(crate) async fn sessions_in(
        &self,
        dir: &str,
        limit: usize,
    ) -> Result<Vec<SessionId>, Error> {
        call!(self.sessions_in(dir, limit))
    }

    pub(crate) async fn relabel_session(
        &self,
        session: &Target,
        label: &str,
        now: Timestamp,
    ) -> Result<(), Error> {
        call!(self.relabel_session(session, label, now))
    }

    pub(crate) async fn count_sessions(&self, query: &SessionQuery) -> Result<u64, Error> {
        call!(self.count_sessions(query))
    }

    pub(crate) async fn count_commits(&self, query: &CommitQuery) -> Result<u64, Error> {
        call!(self.count_commits(query))
    }

    async fn session_page(&self, query: &SessionQuery) -> Result<SessionPage, Error> {
        call!(self.sessions(query))
    }

    pub(crate) async fn session_views(
        &self,
        query: &SessionQuery,
    ) -> Result<Vec<SessionView>, Error> {
        Ok(self.session_page(query).await?.sessions)
    }

    pub(crate) async fn sessions(&self, query: &SessionQuery) -> Result<Vec<Session>, Error> {
        let views = self.session_views(query).await?;
        Ok(views.into_iter().map(|view| view.session).collect())
    }

    pub(crate) async fn newest_sessions(&self, limit: usize) -> Result<Vec<Session>, Error> {
        call!(self.newest_sessions(limit))
    }

    pub(crate) async fn hidden(&self) -> Result<Hidden, Error> {
        Ok(self.session_page(&SessionQuery::newest(0)).await?.hidden)
    }

    pub(crate) async fn unattended(
        &self,
        dead: &[NodeId],
        limit: usize,
    ) -> Result<Vec<SessionId>, Error> {
        call!(self.due(Due::Unattended { dead: dead.to_vec(), after: None }, limit))
    }

    pub(crate) async fn idle_sessions(
        &self,
        since: Timestamp,
        limit: usize,
    ) -> Result<Vec<SessionId>, Error> {
        call!(self.due(Due::IdleSessions { since }, limit))
    }

    pub(crate) async fn idle_tasks(
        &self,
        since: Timestamp,
        limit: usize,
    ) -> Result<Vec<SessionId>, Error> {
        call!(self.due(Due::IdleTasks { since }, limit))
    }

    pub(crate) async fn run(&self, id: RunId) -> Result<Option<(Run, SessionId)>, Error> {
        call!(self.run(id))
    }

    pub(crate) async fn view_of(
        &self,
        session: SessionId,
        needs: Needs,
    ) -> Result<SessionView, Error> {
        let view = self.view(&Target::Id(session), needs).await?;
        Ok(view.expect("the session exists"))
    }

    pub(crate) async fn agent_session(
        &self,
        session: SessionId,
        provider_id: &str,
        host: &str,
    ) -> Result<Option<AgentSession>, Error> {
        let wanted = Some((provider_id.to_owned(), host.to_owned()));
        let needs = Needs { agent_session: wanted, ..Needs::NOTHING };
        Ok(self.view_of(session, needs).await?.agent_session)
    }

    /// The inbox of a session, with the messages that the cap dropped.
    pub(crate) async fn inbox(&self, session: SessionId) -> Result<Vec<Item>, Error> {
        Ok(self.view_of(session, Needs { dropped: true, ..Needs::NOTHING }).await?.inbox)
    }

    pub(crate) async fn tasks(
        &self,
        session: SessionId,
        newest_first: bool,
        after: Option<TaskId>,
        limit: usize,
    ) -> Result<Vec<Task>, Error> {
        call!(self.tasks(session, newest_first, after, limit))
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
        call!(self.feed(FeedQuery::Session { id: session, after }, limit))
    }

    pub(crate) async fn feed_of_all(
        &self,
        after: FeedCursor,
        limit: usize,
    ) -> Result<Vec<FeedEvent>, Error> {
        call!(self.feed(FeedQuery::All { after: after.0 }, limit))
    }

    pub(crate) async fn check_writer(&self) -> Result<(), Error> {
        call!(self.check_writer())
    }

    pub(crate) async fn newest_feed_row(&self) -> Result<FeedCursor, Error> {
        call!(self.newest_feed_row()).map(FeedCursor)
    }

    /// Registers a node or renews its lease; it stays registered while the store is open.
    pub(crate) async fn keep_alive(
        &self,
        node: NodeId,
        now: Timestamp,
        length: Span,
    ) -> Result<bool, Error> {
        call!(self.keep_alive(node, now, length))
    }

    pub(crate) async fn remove_node(&self, node: NodeId) -> Result<(), Error> {
        call!(self.remove_node(node))
    }

    pub(crate) async fn dead_nodes(&self, now: Timestamp) -> Result<Vec<NodeId>, Error> {
        call!(self.dead_nodes(now))
    }

    pub(crate) async fn is_alive(&self, node: NodeId, now: Timestamp) -> Result<bool, Error> {
        call!(self.is_alive(node, now))
    }

    pub(crate) async fn session_heads(&self) -> Result<Vec<SessionHead>, Error> {
        call!(self.session_heads())
    }

    pub(crate) async fn path_turns(
        &self,
        queries: Vec<PathQuery>,
    ) -> Result<Vec<Vec<Option<TurnId>>>, Error> {
        call!(self.path_turns(queries))
    }

    pub(crate) async fn turn_depths(&self, turns: Vec<TurnId>) -> Result<Vec<Option<u64>>, Error> {
        call!(self.turn_depths(turns))
    }

    pub(crate) async fn tasks_of_sessions(
        &self,
        sessions: Vec<SessionId>,
    ) -> Result<Vec<Vec<TaskMark>>, Error> {
        call!(self.tasks_of_sessions(sessions))
    }

    pub(crate) async fn task_marks(
        &self,
        tasks: Vec<TaskId>,
    ) -> Result<Vec<Option<TaskMark>>, Error> {
        call!(self.task_marks(tasks))
    }

    pub(crate) async fn outbox(&self, query: &OutboxQuery) -> Result<Vec<StoredOutgoing>, Error> {
        call!(self.outbox(query))
    }

    pub(crate) async fn outgoing(&self, id: OutgoingId) -> Result<Option<Outgoing>, Error> {
        call!(self.outgoing(id))
    }

    pub(crate) async fn claim_outgoing(
        &self,
        channels: &[String],
        node: NodeId,
        lease: Span,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<Outgoing>, Error> {
        call!(self.claim_outgoing(channels, node, lease, now, limit))
    }

    pub(crate) async fn settle_outgoing(
        &self,
        id: OutgoingId,
        attempt: u64,
        settlement: &Settlement,
        now: Timestamp,
    ) -> Result<Option<Outgoing>, Error> {
        call!(self.settle_outgoing(id, attempt, settlement, now))
    }

    pub(crate) async fn retry_outgoing(
        &self,
        id: OutgoingId,
        now: Timestamp,
    ) -> Result<Outgoing, Error> {
        call!(self.retry_outgoing(id, now))
    }

    pub(crate) async fn release_outgoing(
        &self,
        nodes: &[NodeId],
        now: Timestamp,
    ) -> Result<u64, Error> {
        call!(self.release_outgoing(nodes, now))
    }

    pub(crate) async fn purge(&self, now: Timestamp) -> Result<bool, Error> {
        call!(self.purge(now))
    }

    /// Purges until nothing is left to purge.
    pub(crate) async fn purge_all(&self, now: Timestamp) {
        while self.purge(now).await.expect("purged") {}
    }

    pub(crate) async fn turns(&self, head: TurnId, limit: usize) -> Result<Vec<StoredTurn>, Error> {
        call!(self.turns(TurnQuery::newest(head, limit)))
    }

    pub(crate) async fn query_turns(&self, query: TurnQuery) -> Result<Vec<StoredTurn>, Error> {
        call!(self.turns(query))
    }

    /// The ids of a head and its ancestors, newest first.
    pub(crate) async fn turn_ids(&self, head: TurnId, limit: usize) -> Result<Vec<TurnId>, Error> {
        call!(self.map_turns(TurnQuery::newest(head, limit), |turn| Ok(turn.id)))
    }

    pub(crate) async fn turns_from(
        &self,
        head: TurnId,
        depth: u64,
        limit: usize,
    ) -> Result<Vec<StoredTurn>, Error> {
        call!(self.turns(TurnQuery::from_depth(head, depth, limit)))
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
    ) -> Result<Vec<NarrativeNote>, Error> {
        call!(self.narrative(from, to, limit))
    }

    pub(crate) async fn search(&self, words: &str, limit: usize) -> Result<Vec<Hit>, Error> {
        Ok(self.search_from(words, None, limit).await?.hits)
    }

    pub(crate) async fn search_from(
        &self,
        words: &str,
        cursor: Option<String>,
        limit: usize,
    ) -> Result<Page, Error> {
        let now = super::at(10_000);
        let text = words.to_owned();
        search_call!(self.search(&SearchQuery { text, sessions: None, cursor, limit, now }))
    }

    /// Waits until the indexes have seen everything that is stored.
    pub(crate) async fn catch_up(&self) {
        search_call!(self.catch_up()).expect("the indexes catch up");
    }

    /// Number of rows that are not indexed yet.
    pub(crate) async fn lag(&self) -> Result<u64, Error> {
        search_call!(self.lag())
    }

    pub(crate) async fn rebuild_index(&self) -> Result<(), Error> {
        search_call!(self.rebuild())
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

    pub(crate) async fn listen(&self, node: NodeId) -> Option<tokio::sync::mpsc::Receiver<Notice>> {
        call!(self.listen(node))
    }

    pub(crate) fn notify(&self, to: Option<NodeId>, text: &str) {
        self.store.notify(to, text.to_owned());
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.store.now()
    }

    /// Only a backend calls this: tests that run against any store copy through their backend.
    pub(crate) async fn copy_to(&self, path: &Path) -> Result<(), Error> {
        call!(self.copy_to(path))
    }

    /// Copies everything into another store.
    pub(crate) async fn copy_into(&self, to: &Self, merge: bool) -> Result<CopyReport, Error> {
        ctx_store::copy(&self.store, &to.store, merge, &|_, _| {}).await
    }

    pub(crate) async fn put_entity(&self, entity: &Entity) -> Result<(), Error> {
        call!(self.put_entity(entity))
    }

    pub(crate) async fn entity(&self, id: EntityId) -> Result<Option<Entity>, Error> {
        call!(self.entity(id))
    }

    pub(crate) async fn entities(
        &self,
        after: Option<EntityId>,
        limit: usize,
    ) -> Result<Vec<Entity>, Error> {
        call!(self.entities(after, limit))
    }

    pub(crate) async fn entities_named(&self, name: &str) -> Result<Vec<Entity>, Error> {
        call!(self.entities_named(name))
    }

    pub(crate) async fn identities(&self, entity: EntityId) -> Result<Vec<Identity>, Error> {
        call!(self.identities(entity))
    }

    pub(crate) async fn link_identity(&self, identity: &Identity) -> Result<Identity, Error> {
        call!(self.link_identity(identity))
    }

    pub(crate) async fn unlink_identity(
        &self,
        entity: EntityId,
        address: &Address,
    ) -> Result<Identity, Error> {
        call!(self.unlink_identity(entity, address))
    }

    pub(crate) async fn merge_entities(
        &self,
        into: EntityId,
        from: EntityId,
        now: Timestamp,
    ) -> Result<Entity, Error> {
        call!(self.merge_entities(into, from, now))
    }

    pub(crate) async fn entity_sessions(
        &self,
        entity: EntityId,
        limit: usize,
    ) -> Result<Vec<String>, Error> {
        call!(self.entity_sessions(entity, limit))
    }

    pub(crate) async fn principal(&self, envelope: &Envelope) -> Result<(Principal, bool), Error> {
        call!(self.principal(envelope))
    }

    pub(crate) async fn aliases(
        &self,
        session_label: Option<&str>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Alias>, Error> {
        call!(self.aliases(session_label, after, limit))
    }

    pub(crate) async fn add_alias(
        &self,
        alias: &str,
        session: &Target,
        now: Timestamp,
    ) -> Result<Alias, Error> {
        call!(self.add_alias(alias, session, now))
    }

    pub(crate) async fn remove_alias(&self, alias: &str) -> Result<Alias, Error> {
        call!(self.remove_alias(alias))
    }

    pub(crate) async fn insert_token(&self, token: &Token, digest: ObjectId) -> Result<(), Error> {
        call!(self.insert_token(token, digest))
    }

    pub(crate) async fn token(&self, digest: ObjectId) -> Result<Option<Token>, Error> {
        call!(self.token(digest))
    }

    pub(crate) async fn tokens(&self) -> Result<Vec<Token>, Error> {
        call!(self.tokens())
    }

    pub(crate) async fn delete_token(&self, id: TokenId) -> Result<Option<Token>, Error> {
        call!(self.delete_token(id))
    }

    pub(crate) async fn see_schedule(
        &self,
        name: &str,
        now: Timestamp,
    ) -> Result<ScheduleState, Error> {
        call!(self.see_schedule(name, now))
    }

    pub(crate) async fn usage(&self, query: UsageQuery) -> Result<Vec<UsageRow>, Error> {
        call!(self.usage(query))
    }

    pub(crate) async fn usage_of_scopes(
        &self,
        session: SessionId,
        day: i64,
    ) -> Result<UsageOfScopes, Error> {
        call!(self.usage_of_scopes(session, day))
    }

    pub(crate) async fn schedules(&self) -> Result<Vec<(String, ScheduleState)>, Error> {
        call!(self.schedules())
    }

    pub(crate) async fn set_last_tick(&self, name: &str, tick: Timestamp) -> Result<(), Error> {
        call!(self.set_last_tick(name, tick))
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
    pub(crate) fn project(&self) -> &str {
        self.store.project()
    }
}
