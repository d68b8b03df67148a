//! The embedded store: SQLite, one file, `COMMIT` under `synchronous = FULL` the only commit point.
//!
//! | file | owns |
//! |---|---|
//! | `open` | the files, the schema, each connection's settings |
//! | `queue`, `writer` | who commits for whom; transactions, the lock between processes, checkpoints |
//! | `apply`, `transaction` | a decision made into rows, and what those of one transaction share |
//! | `rows` | rows read back into what rules see |
//! | `pack`, `segment`, `file`, `erasing` | bodies: made ready, where they lie, those of many writers, those that go |
//! | `hashes`, `words`, `behind` | the indexes behind the commits |
//! | `read`, `list`, `views`, `lineage`, `feed`, `search` | what surfaces look at |
//! | `talk`, `once` | the inbox, runs, open turns, suspensions; what is done only once |
//! | `nodes`, `purge` | which processes live; turns of deleted sessions |
//! | `tokens` | who may ask over the network |
//! | `verify`, `repair`, `gc` | keeping it well |

mod apply;
mod behind;
mod erasing;
mod feed;
mod file;
mod gc;
mod hashes;
mod lineage;
mod list;
mod nodes;
mod once;
mod open;
mod pack;
mod purge;
mod queue;
mod read;
mod repair;
mod rows;
mod search;
mod segment;
mod shorten;
mod talk;
mod tokens;
mod transaction;
mod verify;
mod views;
mod words;
mod writer;

use std::fs::File;
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use ctx_core::agent_session::AgentSession;
use ctx_core::commit::Commit;
use ctx_core::decide::{Needs, SessionView};
use ctx_core::id::{CommitId, NodeId, ObjectId, RunId, SessionId, TaskId, TokenId, TurnId};
use ctx_core::inbox::Item;
use ctx_core::lineage::Walk;
use ctx_core::object::Object;
use ctx_core::run::Run;
use ctx_core::session::Session;
use ctx_core::task::Task;
use ctx_core::time::{Span, Timestamp};
use ctx_core::token::Token;
use rusqlite::Connection;

use crate::{
    CommitQuery, Context, Error, FeedEvent, Found, GcReport, HeadMove, Health, Hidden, Progress,
    SearchPage, SearchPlace, Sentence, SessionQuery, Store, Stored, StoredStep, StoredTurn, Target,
    Transition, TreeTurn, VerifyReport, Write,
};

use behind::{Indexer, Side};
use hashes::Table;
use open::Files;
use pack::pack;
use queue::Queue;
use writer::Shared;

/// The most connections that are kept for readers.
const READERS_MAX: usize = 8;
/// A process that fills the indexes only on demand does so when this many rows wait.
const LAG_MAX_ROWS: u64 = 2000;
/// A smaller store is indexed by whoever first searches it, in no time.
const SMALL_BYTES: u64 = 2 << 20;
/// How long the indexer lets rows gather.
const GATHER: Duration = Duration::from_millis(200);

/// Who brings the indexes up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Indexing {
    /// Whoever needs them, and a closing store when much has gathered: for a process that does one thing and exits.
    #[default]
    OnDemand,
    /// A thread behind the commits: for a process that stays.
    Background,
}

/// How a store is opened.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Whether bodies are compressed where that pays.
    pub compress: bool,
    /// Who brings the indexes up to date.
    pub indexing: Indexing,
}

impl Default for Options {
    fn default() -> Self {
        Self { compress: true, indexing: Indexing::OnDemand }
    }
}

/// A handle to an open store; clones share it.
#[derive(Clone)]
pub struct SqliteStore(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    queue: Arc<Queue>,
    readers: Mutex<Vec<Reader>>,
    indexer: Arc<Mutex<Option<Indexer>>>,
    indexing: Indexing,
    /// Held by a process that stays: others leave the indexes to it.
    _indexes: Option<File>,
}

/// A pair of connections for one reader at a time.
struct Reader {
    main: Connection,
    side: Option<Side>,
}

impl Reader {
    /// Looks with both connections. The one to `search.db` is opened before the moment begins: whether it fits
    /// the store is a question about the newest rows.
    fn look<T>(
        &mut self,
        files: &Files,
        look: impl Fn(&Connection, &Connection) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let side = Side::current(&mut self.side, files, &self.main)?;
        in_one_moment(&self.main, |main| look(main, side))
    }
}

fn in_one_moment<T>(
    main: &Connection,
    look: impl FnOnce(&Connection) -> Result<T, Error>,
) -> Result<T, Error> {
    main.prepare_cached("BEGIN")?.execute([])?;
    let looked = look(main);
    // A failing disk may have ended it already.
    if !main.is_autocommit() {
        main.prepare_cached("COMMIT")?.execute([])?;
    }
    looked
}

impl SqliteStore {
    /// Makes a store for a project in a directory that has none.
    ///
    /// # Errors
    /// If there is one, or it cannot be made.
    pub fn create(dir: &Path, project: &str) -> Result<(), Error> {
        open::create(&Files { dir: dir.to_owned() }, project, &ulid::Ulid::new().to_string())
    }

    /// Whether there is a store in a directory.
    ///
    /// # Errors
    /// If there is something else under its name.
    pub fn exists(dir: &Path) -> Result<bool, Error> {
        open::is_store(&Files { dir: dir.to_owned() })
    }

    /// Opens the store in a directory.
    ///
    /// # Errors
    /// If there is none, it is damaged, or a newer program wrote it.
    pub fn open(dir: &Path, options: Options) -> Result<Self, Error> {
        let files = Files { dir: dir.to_owned() };
        if !open::is_store(&files)? {
            return Err(Error::NoStore(dir.to_owned()));
        }
        open::refuse_network_disk(dir)?;
        let mut main = open::connect(&files)?;
        open::check_schema(&mut main)?;
        open::keep_a_log(&main)?;
        let indexer = Arc::new(Mutex::new(None));
        let mut shared = Shared {
            files,
            compress: options.compress,
            remembered: Mutex::default(),
            wake_indexer: None,
            wake_checkpointer: None,
        };
        let shared = match options.indexing {
            Indexing::OnDemand => Arc::new(shared),
            Indexing::Background => {
                let ((index, indexes), (checkpoint, checkpoints)) =
                    (sync_channel(1), sync_channel(1));
                (shared.wake_indexer, shared.wake_checkpointer) = (Some(index), Some(checkpoint));
                let shared = Arc::new(shared);
                start_indexer(Arc::downgrade(&shared), indexer.clone(), indexes)?;
                writer::start_checkpointer(shared.files.clone(), checkpoints)?;
                shared
            }
        };
        let queue = Arc::new(Queue::new(shared.clone()));
        let indexes = match options.indexing {
            Indexing::OnDemand => None,
            Indexing::Background => open::lock_file(&shared.files.indexing_lock())
                .ok()
                .filter(|lock| lock.try_lock_shared().is_ok()),
        };
        let readers = Mutex::new(vec![Reader { main, side: None }]);
        Ok(Self(Arc::new(Inner {
            shared,
            queue,
            readers,
            indexer,
            indexing: options.indexing,
            _indexes: indexes,
        })))
    }

    /// The name of the project that the store was made for.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn project(&self) -> Result<String, Error> {
        let reader = self.0.reader()?;
        let project = open::meta(&reader.main, "project")?.unwrap_or_default();
        self.0.give_back(reader);
        Ok(project)
    }

    /// Where nothing can be written, whoever looks goes through the rows behind the mark.
    async fn settle_if_possible(&self) -> Result<(), Error> {
        match self.settle().await {
            Err(Error::ReadOnly(_) | Error::Full) => Ok(()),
            settled => settled,
        }
    }

    /// Runs a look on a thread that may wait, in one read transaction: all it sees is of one moment.
    async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.on_reader(|reader, _| in_one_moment(&reader.main, |main| look(main))).await
    }

    /// The same for a look that needs the indexes. A damaged index is thrown away, and the look tried once more
    /// without it: it holds nothing that the store does not.
    async fn read_indexed<T: Send + 'static>(
        &self,
        look: impl Fn(&Connection, &Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.on_reader(move |reader, files| {
            let mut looked = reader.look(files, &look);
            if let Err(Error::Damaged(_)) = looked
                && Side::heal(&mut reader.side, files, &reader.main)?
            {
                looked = reader.look(files, &look);
            }
            looked
        })
        .await
    }

    /// Runs something on a reader's connections, on a thread that may wait.
    async fn on_reader<T: Send + 'static>(
        &self,
        look: impl FnOnce(&mut Reader, &Files) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let inner = self.0.clone();
        let looked = tokio::task::spawn_blocking(move || {
            let mut reader = inner.reader()?;
            let result = look(&mut reader, &inner.shared.files);
            inner.give_back(reader);
            result
        });
        looked.await.map_err(|e| Error::Internal(e.to_string()))?
    }
}

/// Moves the log of a database file into it and empties the log, for whoever measures or copies the file.
///
/// # Errors
/// If the file cannot be opened.
pub fn truncate_log(database: &Path) -> Result<(), Error> {
    let connection = Connection::open(database)?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}

fn start_indexer(
    shared: std::sync::Weak<Shared>,
    indexer: Arc<Mutex<Option<Indexer>>>,
    wakes: Receiver<()>,
) -> Result<(), Error> {
    let run = move || {
        writer::behind_others();
        while wakes.recv().is_ok() {
            let until = Instant::now() + GATHER;
            while wakes.recv_timeout(until.saturating_duration_since(Instant::now())).is_ok() {}
            let Some(shared) = shared.upgrade() else { return };
            // What fails now is tried again with the next commit; a search settles for itself.
            let _ = catch_up(&shared, &indexer);
        }
    };
    std::thread::Builder::new().name("ctx-indexer".to_owned()).spawn(run)?;
    Ok(())
}

fn catch_up(shared: &Shared, indexer: &Mutex<Option<Indexer>>) -> Result<(), Error> {
    let mut slot =
        indexer.lock().map_err(|_| Error::Internal("the indexer failed before".to_owned()))?;
    let mut working = match slot.take() {
        Some(working) => working,
        None => Indexer::open(&shared.files)?,
    };
    let mut caught_up = working.catch_up(&shared.remembered);
    if let Err(Error::Damaged(_)) = caught_up
        && working.heal()?
    {
        caught_up = working.catch_up(&shared.remembered);
    }
    *slot = Some(working);
    caught_up
}

impl Inner {
    fn reader(&self) -> Result<Reader, Error> {
        let kept = self.readers.lock().ok().and_then(|mut readers| readers.pop());
        match kept {
            Some(reader) => Ok(reader),
            None => Ok(Reader { main: open::connect(&self.shared.files)?, side: None }),
        }
    }

    fn give_back(&self, reader: Reader) {
        if let Ok(mut readers) = self.readers.lock()
            && readers.len() < READERS_MAX
            && reader.main.is_autocommit()
        {
            readers.push(reader);
        }
    }

    fn settle(&self) -> Result<(), Error> {
        catch_up(&self.shared, &self.indexer)
    }

    /// A process that records and never searches must not leave the indexes ever further behind.
    fn settle_if_far_behind(&self) {
        if std::fs::metadata(self.shared.files.database())
            .is_ok_and(|meta| meta.len() < SMALL_BYTES)
        {
            return;
        }
        let somebody = open::lock_file(&self.shared.files.indexing_lock())
            .is_ok_and(|lock| lock.try_lock().is_err());
        if somebody {
            return;
        }
        let lag = self.reader().and_then(|mut reader| reader.look(&self.shared.files, behind::lag));
        if lag.is_ok_and(|lag| lag > LAG_MAX_ROWS) {
            let _ = self.settle();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.indexing == Indexing::OnDemand && self.queue.has_written() {
            self.settle_if_far_behind();
        }
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn write(&self, mut write: Write, rule: Box<dyn Transition>) -> Result<Stored, Error> {
        // What is compressed while many write would be a third of the work; it is left out then.
        let compress = self.0.shared.compress && !self.0.queue.is_busy();
        let objects = std::mem::take(&mut write.objects)
            .into_iter()
            .map(|object| pack(object, compress))
            .collect();
        self.0.queue.commit(write, rule, objects).await
    }

    async fn view(&self, target: &Target, needs: Needs) -> Result<Option<SessionView>, Error> {
        let target = target.clone();
        self.read(move |main| read::view(main, &target, needs)).await
    }

    async fn object(&self, id: ObjectId) -> Result<Option<Object>, Error> {
        self.read_indexed(move |main, side| read::object(main, side, id)).await
    }

    async fn resolve(&self, prefix: &str, limit: usize) -> Result<Vec<Found>, Error> {
        self.settle_if_possible().await?;
        let prefix = prefix.to_owned();
        self.read_indexed(move |main, side| hashes::starting_with(main, side, &prefix, limit)).await
    }

    async fn sessions(&self, query: &SessionQuery) -> Result<Vec<Session>, Error> {
        let query = query.clone();
        self.read(move |main| list::sessions(main, &query)).await
    }

    async fn hidden(&self) -> Result<Hidden, Error> {
        self.read(list::hidden).await
    }

    async fn unattended(&self, dead: &[NodeId], limit: usize) -> Result<Vec<SessionId>, Error> {
        let dead = dead.to_vec();
        self.read(move |main| list::unattended(main, &dead, limit)).await
    }

    async fn idle_sessions(&self, since: Timestamp, limit: usize) -> Result<Vec<SessionId>, Error> {
        self.read(move |main| list::idle_sessions(main, since, limit)).await
    }

    async fn run(&self, id: RunId) -> Result<Option<(Run, SessionId)>, Error> {
        self.read(move |main| talk::run_by_id(main, id)).await
    }

    async fn agent_session(
        &self,
        session: SessionId,
        provider_id: &str,
        host: &str,
    ) -> Result<Option<AgentSession>, Error> {
        let (provider_id, host) = (provider_id.to_owned(), host.to_owned());
        self.read(move |main| {
            talk::agent_session(main, list::known_row(main, session)?, &provider_id, &host)
        })
        .await
    }

    async fn inbox(&self, session: SessionId) -> Result<Vec<Item>, Error> {
        self.read(move |main| talk::inbox(main, list::known_row(main, session)?, true)).await
    }

    async fn session_views(&self, query: &SessionQuery) -> Result<Vec<SessionView>, Error> {
        let query = query.clone();
        self.read(move |main| views::of_page(main, &query)).await
    }

    async fn tasks(
        &self,
        session: SessionId,
        before: Option<TaskId>,
        limit: usize,
    ) -> Result<Vec<Task>, Error> {
        self.read(move |main| list::tasks(main, session, before, limit)).await
    }

    async fn head_moves(
        &self,
        session: SessionId,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<HeadMove>, Error> {
        self.read(move |main| list::head_moves(main, session, before, limit)).await
    }

    async fn tree(&self, session: SessionId, limit: usize) -> Result<Vec<TreeTurn>, Error> {
        self.read(move |main| list::tree(main, session, limit)).await
    }

    async fn feed(
        &self,
        session: SessionId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<FeedEvent>, Error> {
        self.read(move |main| feed::of_session(main, session, after, limit)).await
    }

    async fn feed_of_all(&self, after: i64, limit: usize) -> Result<Vec<FeedEvent>, Error> {
        self.read(move |main| feed::of_all(main, after, limit)).await
    }

    async fn feed_mark(&self) -> Result<i64, Error> {
        self.read(feed::mark).await
    }

    async fn join(&self, node: NodeId, until: Timestamp) -> Result<Box<dyn Send + Sync>, Error> {
        let held = self
            .on_reader(move |reader, files| nodes::join(&mut reader.main, files, node, until))
            .await?;
        Ok(Box::new(held))
    }

    async fn beat(&self, node: NodeId, until: Timestamp) -> Result<bool, Error> {
        self.on_reader(move |reader, files| nodes::beat(&mut reader.main, files, node, until)).await
    }

    async fn leave(&self, node: NodeId) -> Result<(), Error> {
        self.on_reader(move |reader, files| nodes::leave(&mut reader.main, files, node)).await
    }

    async fn dead_nodes(&self, now: Timestamp) -> Result<Vec<NodeId>, Error> {
        self.on_reader(move |reader, files| nodes::dead(&reader.main, files, now)).await
    }

    async fn purge(&self, now: Timestamp) -> Result<bool, Error> {
        self.on_reader(move |reader, files| {
            let more = purge::purge(&mut reader.main, files, now)?;
            once::forget(&reader.main, files, now)?;
            Ok(more)
        })
        .await
    }

    async fn idle_tasks(&self, since: Timestamp, limit: usize) -> Result<Vec<SessionId>, Error> {
        self.read(move |main| read::idle_tasks(main, since, limit)).await
    }

    async fn turns(&self, head: TurnId, limit: usize) -> Result<Vec<StoredTurn>, Error> {
        self.read_indexed(move |main, side| read::turns(main, side, head, None, limit)).await
    }

    async fn turns_from(
        &self,
        head: TurnId,
        depth: u64,
        limit: usize,
    ) -> Result<Vec<StoredTurn>, Error> {
        self.read_indexed(move |main, side| read::turns(main, side, head, Some(depth), limit)).await
    }

    async fn is_made_in(&self, session: SessionId, turn: TurnId) -> Result<bool, Error> {
        self.read_indexed(move |main, side| lineage::is_made_in(main, side, session, turn)).await
    }

    async fn common_ancestor(&self, a: TurnId, b: TurnId) -> Result<Option<TurnId>, Error> {
        let place = move |main: &Connection, side: &Connection| {
            Ok((lineage::place_of(main, side, a)?, lineage::place_of(main, side, b)?))
        };
        let (mut a, mut b) = self.read_indexed(place).await?;
        loop {
            match self.read(move |main| lineage::walk(main, a, b)).await? {
                Walk::Meet(at) => {
                    return self.read(move |main| lineage::name_of(main, at.id).map(Some)).await;
                }
                Walk::Apart => return Ok(None),
                Walk::Further(up, across) => (a, b) = (up, across),
            }
        }
    }

    async fn files_written(
        &self,
        session: SessionId,
        after: Timestamp,
        limit: usize,
    ) -> Result<Vec<String>, Error> {
        self.read(move |main| lineage::files_written(main, session, after, limit)).await
    }

    async fn context(
        &self,
        session: SessionId,
        head: TurnId,
        max_bytes: usize,
    ) -> Result<Context, Error> {
        self.read_indexed(move |main, side| shorten::context(main, side, session, head, max_bytes))
            .await
    }

    async fn steps(
        &self,
        task: TaskId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StoredStep>, Error> {
        self.read(move |main| read::steps(main, task, after, limit)).await
    }

    async fn task(&self, id: TaskId) -> Result<Option<Task>, Error> {
        self.read(move |main| rows::task_by_id(main, id)).await
    }

    async fn commits(&self, query: &CommitQuery) -> Result<Vec<(CommitId, Commit)>, Error> {
        let query = query.clone();
        let Some(before) = query.before else {
            return self.read(move |main| read::commits(main, i64::MAX, &query)).await;
        };
        self.read_indexed(move |main, side| {
            let row = hashes::locate(main, side, Table::Commits, before.0)?;
            read::commits(
                main,
                row.ok_or(Error::NotFound { what: "commit", name: before.to_string() })?,
                &query,
            )
        })
        .await
    }

    async fn narrative(
        &self,
        from: Timestamp,
        to: Timestamp,
        limit: usize,
    ) -> Result<Vec<Sentence>, Error> {
        self.read(move |main| read::narrative(main, from, to, limit)).await
    }

    async fn search_from(
        &self,
        words: &str,
        from: Option<SearchPlace>,
        limit: usize,
    ) -> Result<SearchPage, Error> {
        self.settle_if_possible().await?;
        let words = words.to_owned();
        self.read_indexed(move |main, side| search::search(main, side, &words, from, limit)).await
    }

    async fn settle(&self) -> Result<(), Error> {
        let inner = self.0.clone();
        tokio::task::spawn_blocking(move || inner.settle())
            .await
            .map_err(|e| Error::Internal(e.to_string()))?
    }

    async fn verify(&self, repair: bool, progress: Progress<'_>) -> Result<VerifyReport, Error> {
        // On this task's own thread: the caller's progress is told as it goes.
        let mut reader = self.0.reader()?;
        let files = &self.0.shared.files;
        let _whole = erasing::hold(files);
        let repaired = if repair { repair::repair(&mut reader, files)? } else { Vec::new() };
        let report = verify::verify(&reader.main, repaired, progress);
        self.0.give_back(reader);
        report
    }

    async fn gc(&self, now: Timestamp, grace: Span) -> Result<GcReport, Error> {
        self.settle().await?;
        self.on_reader(move |reader, files| gc::gc(&mut reader.main, files, now, grace)).await
    }

    async fn backup(&self, to: &Path) -> Result<(), Error> {
        let to = to.to_owned();
        self.on_reader(move |reader, files| read::backup(&reader.main, files, &to)).await
    }

    async fn put_token(&self, token: &Token, digest: ObjectId) -> Result<(), Error> {
        let token = token.clone();
        self.on_reader(move |reader, files| tokens::put(&mut reader.main, files, &token, digest))
            .await
    }

    async fn token(&self, digest: ObjectId) -> Result<Option<Token>, Error> {
        self.read(move |main| tokens::by_digest(main, digest)).await
    }

    async fn tokens(&self) -> Result<Vec<Token>, Error> {
        self.read(tokens::all).await
    }

    async fn remove_token(&self, id: TokenId) -> Result<Option<Token>, Error> {
        self.on_reader(move |reader, files| tokens::remove(&mut reader.main, files, id)).await
    }

    async fn health(&self) -> Result<Health, Error> {
        let files = self.0.shared.files.clone();
        self.read_indexed(move |main, side| read::health(main, side, &files)).await
    }
}
