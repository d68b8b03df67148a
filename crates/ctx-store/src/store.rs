//! [`Store`]: everything that the engine may ask of a store, above the database drivers.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use ctx_core::commit::Commit;
use ctx_core::decide::{Drafts, Needs, SessionView};
use ctx_core::exchange::{PathQuery, SessionHead, TaskMark};
use ctx_core::id::{CommitId, NodeId, ObjectId, RunId, SessionId, TaskId, TokenId, TurnId};
use ctx_core::object::Object;
use ctx_core::run::Run;
use ctx_core::search::Page;
use ctx_core::session::Session;
use ctx_core::task::Task;
use ctx_core::time::{Span, Timestamp};
use ctx_core::token::Token;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::driver::{Db, Driver, Lock, Notice, Snapshot, Tx};
use crate::relational::row_counts::RowCounts;
use crate::relational::{
    compaction_rows, conversation_rows, event_rows, exchange_rows, gc, history_rows,
    idempotency_rows, load, outbox_rows, purge, repair, session_rows, task_rows, token_rows,
    turn_path, turn_rows, verify,
};
use crate::schema::{self, SCHEMA};
use crate::transition::{OnceKey, Stored, Transition};
use crate::{
    CommitQuery, Context, Due, Error, FeedEvent, FeedQuery, Found, FoundHistory, GcReport,
    HeadMove, Health, NarrativeNote, Progress, SearchQuery, SessionPage, SessionQuery, StoredStep,
    StoredTurn, Target, TreeTurn, TurnQuery, VerifyReport, Write,
};

/// Full-text search, filled behind the writes.
#[async_trait]
pub trait SearchIndex: Send + Sync {
    /// A page of hits, best first.
    async fn search(&self, query: &SearchQuery) -> Result<Page, Error>;

    /// Indexes every row that is stored now.
    async fn catch_up(&self) -> Result<(), Error>;

    /// Number of rows that are not indexed yet.
    async fn lag(&self) -> Result<u64, Error>;

    /// Discards the index and starts a new one.
    async fn rebuild(&self) -> Result<(), Error>;
}

/// A handle to an open store. Clones share it.
#[derive(Clone)]
pub struct Store {
    driver: Arc<dyn Driver>,
    search: Arc<dyn SearchIndex>,
    project: Arc<str>,
}

impl Store {
    pub(crate) fn new(
        driver: Arc<dyn Driver>,
        search: Arc<dyn SearchIndex>,
        project: &str,
    ) -> Self {
        Self { driver, search, project: project.into() }
    }

    /// Reads a few rows by their keys, in one snapshot.
    pub(crate) async fn read_rows<T: Send + 'static>(
        &self,
        read: impl Fn(&dyn Db) -> Result<T, Error> + Send + Sync + 'static,
    ) -> Result<T, Error> {
        self.read_snapshot(Snapshot::Rows, read).await
    }

    /// Runs a read in one snapshot.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl Fn(&dyn Db) -> Result<T, Error> + Send + Sync + 'static,
    ) -> Result<T, Error> {
        self.read_snapshot(Snapshot::Short, read).await
    }

    pub(crate) async fn read_snapshot<T: Send + 'static>(
        &self,
        snapshot: Snapshot,
        read: impl Fn(&dyn Db) -> Result<T, Error> + Send + Sync + 'static,
    ) -> Result<T, Error> {
        let (result, slot) = result_slot();
        let read = move |db: &dyn Db| {
            result.set(read(db)?);
            Ok(())
        };
        self.driver.read(snapshot, Box::new(read)).await?;
        slot.take()
    }

    /// Runs a maintenance transaction.
    pub(crate) async fn transact<T: Send + 'static>(
        &self,
        lock: Lock,
        mut change: impl FnMut(&mut dyn Tx) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (result, slot) = result_slot();
        let change = move |tx: &mut dyn Tx| {
            result.set(change(tx)?);
            Ok(())
        };
        self.driver.transact(lock, Box::new(change)).await?;
        slot.take()
    }

    /// Runs a rule in one transaction; `Ok` means that its changes are synced. Callers use
    /// [`crate::execute`], which keeps the type of the reply.
    pub(crate) async fn write(
        &self,
        write: Write,
        rule: Box<dyn Transition>,
    ) -> Result<Stored, Error> {
        self.driver.write(write, rule).await
    }

    /// What a rule would see now.
    pub async fn view(&self, target: &Target, needs: Needs) -> Result<Option<SessionView>, Error> {
        let target = target.clone();
        // The open turn, the turns of a task and the way to an ancestor may be long.
        let is_short = needs.drafts == Drafts::No && !needs.to_seal && needs.turn.is_none();
        let snapshot = if is_short { Snapshot::Rows } else { Snapshot::Short };
        let read = move |db: &dyn Db| Ok(load::load(db, &target, &needs, Timestamp(0))?.view);
        self.read_snapshot(snapshot, read).await
    }

    /// A turn header, step, commit or blob by its hash, checked.
    pub async fn object(&self, id: ObjectId) -> Result<Option<Object>, Error> {
        self.read(move |db| turn_rows::object(db, id)).await
    }

    /// Objects whose id begins with hex digits.
    pub async fn resolve(&self, prefix: &str, limit: usize) -> Result<Vec<Found>, Error> {
        self.catch_up_if_writable().await?;
        let prefix = prefix.to_owned();
        self.read(move |db| turn_rows::resolve(db, &prefix, limit)).await
    }

    /// A page of sessions with what a list shows of each.
    pub async fn sessions(&self, query: &SessionQuery) -> Result<SessionPage, Error> {
        let query = query.clone();
        self.read(move |db| {
            Ok(SessionPage {
                sessions: load::views(db, &query)?,
                hidden: session_rows::hidden(db)?,
            })
        })
        .await
    }

    /// The number of sessions that a query matches, whatever its cursor and limit are.
    pub async fn count_sessions(&self, query: &SessionQuery) -> Result<u64, Error> {
        let query = query.clone();
        self.read(move |db| session_rows::count(db, &query)).await
    }

    /// The active sessions with a working directory, those with the newest activity first.
    pub async fn sessions_in(&self, dir: &str, limit: usize) -> Result<Vec<SessionId>, Error> {
        let dir = dir.to_owned();
        self.read(move |db| session_rows::in_directory(db, &dir, limit)).await
    }

    /// The number of commits that a query matches, whatever its limit is.
    pub async fn count_commits(&self, query: &CommitQuery) -> Result<u64, Error> {
        let query = query.clone();
        self.read(move |db| task_rows::count_commits(db, &query)).await
    }

    /// The sessions with the newest activity, without what happens in them.
    pub async fn newest_sessions(&self, limit: usize) -> Result<Vec<Session>, Error> {
        // Reading fifty rows takes less time than handing the read to another thread.
        let snapshot = if limit <= 50 { Snapshot::Rows } else { Snapshot::Short };
        self.read_snapshot(snapshot, move |db| {
            let found = session_rows::list(db, &SessionQuery::newest(limit))?;
            Ok(found.into_iter().map(|found| found.session).collect())
        })
        .await
    }

    /// Sessions that need background work.
    pub async fn due(&self, due: Due, limit: usize) -> Result<Vec<SessionId>, Error> {
        self.read(move |db| session_rows::due(db, &due, limit)).await
    }

    /// A run and its session.
    pub async fn run(&self, id: RunId) -> Result<Option<(Run, SessionId)>, Error> {
        self.read_rows(move |db| conversation_rows::run_by_id(db, id)).await
    }

    /// The messages with one of the history keys, newest first.
    pub async fn histories(
        &self,
        scope: &str,
        keys: &[String],
        limit: usize,
    ) -> Result<Vec<FoundHistory>, Error> {
        let (scope, keys) = (scope.to_owned(), keys.to_vec());
        self.read_rows(move |db| history_rows::find(db, &scope, &keys, limit)).await
    }

    /// The answer that is stored under an idempotency key.
    ///
    /// # Errors
    /// If the key was used for another request, or the store fails.
    pub async fn answer_of(&self, key: &OnceKey, now: Timestamp) -> Result<Option<Value>, Error> {
        let key = key.clone();
        self.read_rows(move |db| idempotency_rows::find(db, &key, now)).await
    }

    /// The tasks of a session after the task `after`, newest or oldest first.
    pub async fn tasks(
        &self,
        session: SessionId,
        newest_first: bool,
        after: Option<TaskId>,
        limit: usize,
    ) -> Result<Vec<Task>, Error> {
        self.read(move |db| task_rows::list(db, session, newest_first, after, limit)).await
    }

    /// The tasks that had activity in a time range, in the order of their start.
    pub async fn tasks_between(
        &self,
        from: Timestamp,
        to: Timestamp,
        limit: usize,
    ) -> Result<Vec<Task>, Error> {
        self.read(move |db| task_rows::between(db, from, to, limit)).await
    }

    /// A task, open or ended.
    pub async fn task(&self, id: TaskId) -> Result<Option<Task>, Error> {
        self.read(move |db| Ok(task_rows::by_id(db, id)?.map(|found| found.task))).await
    }

    /// The newest tasks of all sessions, newest first; at most [`crate::PAGE_MAX`].
    pub async fn newest_tasks(&self, limit: usize) -> Result<Vec<Task>, Error> {
        self.read(move |db| task_rows::newest(db, limit)).await
    }

    /// The newest steps that record only relations, newest first.
    pub async fn relation_steps(&self, limit: usize) -> Result<Vec<StoredStep>, Error> {
        self.read(move |db| task_rows::relation_steps(db, limit)).await
    }

    /// The moves of a session's head before a cursor, newest first.
    pub async fn head_moves(
        &self,
        session: SessionId,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<HeadMove>, Error> {
        self.read(move |db| session_rows::head_moves(db, session, before, limit)).await
    }

    /// The tree of turns that a session's head is in, oldest first.
    pub async fn tree(&self, session: SessionId, limit: usize) -> Result<Vec<TreeTurn>, Error> {
        self.read(move |db| turn_rows::tree(db, session, limit)).await
    }

    /// A page of events, oldest first.
    pub async fn feed(&self, query: FeedQuery, limit: usize) -> Result<Vec<FeedEvent>, Error> {
        self.read(move |db| event_rows::list(db, query, limit)).await
    }

    /// Fails if the store does not answer, or this program is too old to write it.
    pub async fn check_writer(&self) -> Result<(), Error> {
        self.read_rows(schema::check_writer).await
    }

    /// The newest feed row: the cursor of a reader of all sessions that starts now.
    pub async fn newest_feed_row(&self) -> Result<i64, Error> {
        self.read_rows(event_rows::newest).await
    }

    /// A head and its ancestors, newest first, with their bodies.
    pub async fn turns(&self, query: TurnQuery) -> Result<Vec<StoredTurn>, Error> {
        self.map_turns(query, Ok).await
    }

    /// A head and its ancestors, newest first, each mapped. A long path is decoded and mapped on
    /// several threads.
    pub async fn map_turns<T: Send + 'static>(
        &self,
        query: TurnQuery,
        map: impl Fn(StoredTurn) -> Result<T, Error> + Send + Sync + 'static,
    ) -> Result<Vec<T>, Error> {
        self.read(move |db| turn_path::map(turn_rows::path(db, &query)?, &query, &map)).await
    }

    /// The last common ancestor of two turns, which may be one of them; `None` if there is none.
    pub async fn common_ancestor(&self, a: TurnId, b: TurnId) -> Result<Option<TurnId>, Error> {
        self.read(move |db| turn_rows::common_ancestor(db, a, b)).await
    }

    /// What an exchange tells about every session, in one snapshot.
    pub async fn session_heads(&self) -> Result<Vec<SessionHead>, Error> {
        self.read(exchange_rows::heads).await
    }

    /// The turns at depths of paths; `None` for a head that is not stored and a depth beyond it.
    pub async fn path_turns(
        &self,
        queries: Vec<PathQuery>,
    ) -> Result<Vec<Vec<Option<TurnId>>>, Error> {
        self.read(move |db| queries.iter().map(|query| exchange_rows::path(db, query)).collect())
            .await
    }

    /// The depths of turns, counted from 1; `None` for a turn that is not stored.
    pub async fn turn_depths(&self, turns: Vec<TurnId>) -> Result<Vec<Option<u64>>, Error> {
        self.read(move |db| exchange_rows::depths(db, &turns)).await
    }

    /// How far the tasks of sessions are.
    pub async fn tasks_of_sessions(
        &self,
        sessions: Vec<SessionId>,
    ) -> Result<Vec<Vec<TaskMark>>, Error> {
        self.read(move |db| sessions.iter().map(|id| exchange_rows::tasks_of(db, *id)).collect())
            .await
    }

    /// How far tasks are; `None` for a task that is not stored.
    pub async fn task_marks(&self, tasks: Vec<TaskId>) -> Result<Vec<Option<TaskMark>>, Error> {
        self.read(move |db| tasks.iter().map(|id| exchange_rows::task(db, *id)).collect()).await
    }

    /// The turns that a request of a session is made of. Reading stops before the bodies exceed
    /// `max_bytes`.
    pub async fn context(
        &self,
        session: SessionId,
        head: TurnId,
        max_bytes: usize,
    ) -> Result<Context, Error> {
        self.read(move |db| compaction_rows::context(db, session, head, max_bytes)).await
    }

    /// The files that a session's tasks wrote after a time, by name.
    pub async fn files_written(
        &self,
        session: SessionId,
        after: Timestamp,
        limit: usize,
    ) -> Result<Vec<String>, Error> {
        self.read(move |db| task_rows::files_written(db, session, after, limit)).await
    }

    /// The steps of a task after a sequence number, oldest first.
    pub async fn steps(
        &self,
        task: TaskId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StoredStep>, Error> {
        self.read(move |db| task_rows::steps(db, task, after, limit)).await
    }

    /// Commits, newest first.
    pub async fn commits(&self, query: &CommitQuery) -> Result<Vec<(CommitId, Commit)>, Error> {
        let query = query.clone();
        self.read(move |db| task_rows::commits(db, &query)).await
    }

    /// The notes written in a time range, oldest first.
    pub async fn narrative(
        &self,
        from: Timestamp,
        to: Timestamp,
        limit: usize,
    ) -> Result<Vec<NarrativeNote>, Error> {
        self.read(move |db| task_rows::narrative(db, from, to, limit)).await
    }

    /// Registers this process as a node that runs sessions, or renews its lease. `false` if another
    /// process had declared it dead; it is then registered anew. `now` is this process's clock; a
    /// database with a clock of its own ignores it.
    pub async fn keep_alive(
        &self,
        node: NodeId,
        now: Timestamp,
        length: Span,
    ) -> Result<bool, Error> {
        self.driver.lease(node, now, Some(length)).await
    }

    /// Removes a node that owns no session. One that still owns some counts as dead from now on.
    pub async fn remove_node(&self, node: NodeId) -> Result<(), Error> {
        self.driver.lease(node, Timestamp(0), None).await.map(drop)
    }

    /// Nodes whose process has ended, or that own a session under an expired lease. `now` is as in
    /// [`Store::keep_alive`].
    pub async fn dead_nodes(&self, now: Timestamp) -> Result<Vec<NodeId>, Error> {
        self.driver.dead_nodes(now).await
    }

    /// Whether the process of a node lives and its lease has not expired. `now` is as in
    /// [`Store::keep_alive`].
    pub async fn is_alive(&self, node: NodeId, now: Timestamp) -> Result<bool, Error> {
        self.driver.is_alive(node, now).await
    }

    /// Deletes turns of deleted sessions, expired idempotency keys and deliveries of long ago;
    /// `true` if there is more.
    pub async fn purge(&self, now: Timestamp) -> Result<bool, Error> {
        let due = self.read(move |db| {
            let keys = idempotency_rows::has_expired(db, now)?;
            Ok((purge::is_due(db)?, keys, outbox_rows::has_expired(db, now)?))
        });
        let (turns, keys, deliveries) = due.await?;
        if deliveries {
            self.transact(Lock::Outbox, move |tx| outbox_rows::delete_expired(tx, now)).await?;
        }
        if keys {
            self.transact(Lock::Purge, move |tx| idempotency_rows::delete_expired(tx, now)).await?;
        }
        match turns {
            true => self.transact(Lock::Purge, move |tx| purge::purge(tx, now)).await,
            false => self.driver.maintain(now).await,
        }
    }

    /// Re-hashes everything and checks every pointer; with `repair`, rebuilds derived data first.
    pub async fn verify(
        &self,
        repair: bool,
        progress: Progress<'_>,
    ) -> Result<VerifyReport, Error> {
        let mut repaired = Vec::new();
        if repair {
            self.search.rebuild().await?;
            repaired.push("the search index".to_owned());
            repaired.extend(self.transact(Lock::Store, repair::repair).await?);
        }
        let structure = self.driver.inspect(true).await?.faults;
        let (sender, mut reports) = mpsc::unbounded_channel();
        let check = self.read_snapshot(Snapshot::Long, move |db| {
            let report = |done, total| {
                let _ = sender.send((done, total));
            };
            verify::verify(db, &structure, &report)
        });
        tokio::pin!(check);
        let report = loop {
            tokio::select! {
                Some((done, total)) = reports.recv() => progress(done, total),
                report = &mut check => break report?,
            }
        };
        while let Ok((done, total)) = reports.try_recv() {
            progress(done, total);
        }
        Ok(VerifyReport { repaired, ..report })
    }

    /// Deletes blobs that nothing refers to and that are older than the grace period.
    pub async fn gc(&self, now: Timestamp, grace: Span) -> Result<GcReport, Error> {
        self.search.catch_up().await?;
        while self.driver.maintain(now).await? {}
        let mut all = GcReport::default();
        loop {
            let some = self.transact(Lock::Store, move |tx| gc::collect(tx, now, grace)).await?;
            all.blobs_removed += some.blobs_removed;
            all.bytes_removed += some.bytes_removed;
            all.blobs_kept = some.blobs_kept;
            if some.blobs_removed < gc::DELETE_MAX as u64 {
                return Ok(all);
            }
        }
    }

    /// The time by which everything is stored: that of the database if several machines share it.
    pub fn now(&self) -> Timestamp {
        self.driver.now()
    }

    /// Sends a text to a node, or to every node. It may be lost.
    pub fn notify(&self, to: Option<NodeId>, text: String) {
        self.driver.notify(to, text);
    }

    /// Texts that are sent to a node from now on; `None` if the database sends none.
    pub async fn listen(&self, node: NodeId) -> Option<mpsc::Receiver<Notice>> {
        self.driver.listen(node).await
    }

    /// Writes a consistent copy to a new file, beside running writers.
    pub async fn copy_to(&self, path: &Path) -> Result<(), Error> {
        self.driver.copy_to(path).await
    }

    /// Stores a token under the hash of its secret.
    pub async fn insert_token(&self, token: &Token, digest: ObjectId) -> Result<(), Error> {
        let token = token.clone();
        self.transact(Lock::Store, move |tx| token_rows::insert(tx, &token, digest)).await
    }

    /// The token whose secret has this hash.
    pub async fn token(&self, digest: ObjectId) -> Result<Option<Token>, Error> {
        self.read_rows(move |db| token_rows::by_digest(db, digest)).await
    }

    /// Every token, oldest first.
    pub async fn tokens(&self) -> Result<Vec<Token>, Error> {
        self.read(token_rows::list).await
    }

    /// Deletes a token and returns it.
    pub async fn delete_token(&self, id: TokenId) -> Result<Option<Token>, Error> {
        self.transact(Lock::Store, move |tx| token_rows::delete(tx, id)).await
    }

    /// The project that the store was created for.
    pub fn project(&self) -> &str {
        &self.project
    }

    /// Version, sizes and counts.
    pub async fn health(&self) -> Result<Health, Error> {
        let inspection = self.driver.inspect(false).await?;
        let unindexed = self.search.lag().await?;
        let project = self.project.to_string();
        self.read(move |db| {
            let RowCounts { sessions, turns, steps, commits, blobs } = RowCounts::read(db)?;
            Ok(Health {
                schema: SCHEMA,
                project: project.clone(),
                engine: inspection.engine.clone(),
                bytes: inspection.sizes.iter().copied().collect(),
                sessions,
                turns,
                steps,
                commits,
                blobs,
                unindexed,
            })
        })
        .await
    }

    /// Full-text search over turns, steps and commits.
    pub fn search_index(&self) -> &dyn SearchIndex {
        &*self.search
    }

    /// A store on a disk that cannot be written still answers from the rows behind the index.
    pub(crate) async fn catch_up_if_writable(&self) -> Result<(), Error> {
        match self.search.catch_up().await {
            Err(Error::ReadOnly(_) | Error::Full) => Ok(()),
            done => done,
        }
    }
}

/// Carries the result of a closure out of a driver's call. The last run of the closure counts.
fn result_slot<T>() -> (ResultSender<T>, ResultSlot<T>) {
    let cell = Arc::new(std::sync::Mutex::new(None));
    (ResultSender(cell.clone()), ResultSlot(cell))
}

struct ResultSender<T>(Arc<std::sync::Mutex<Option<T>>>);

impl<T> ResultSender<T> {
    fn set(&self, value: T) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(value);
    }
}

struct ResultSlot<T>(Arc<std::sync::Mutex<Option<T>>>);

impl<T> ResultSlot<T> {
    fn take(&self) -> Result<T, Error> {
        let value = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        value.ok_or_else(|| Error::Internal("a read returned no result".to_owned()))
    }
}
