//! The embedded database: SQLite, `COMMIT` under `synchronous = FULL`.
//!
//! | file | owns |
//! |---|---|
//! | this one | opening a store, readers, background threads, the `Driver` implementation |
//! | `open` | file names, schema, connection settings, the lock between processes |
//! | `db` | shared SQL executed on a connection |
//! | `write_queue`, `writer` | group commit; transactions and checkpoints |
//! | `segment`, `segment_file`, `erasure` | where bodies are stored; segment files; freed bytes |
//! | `search_db`, `indexer` | `search.db`: opening it; filling it |
//! | `hash_index`, `postings` | its contents: hash to row; words to documents |
//! | `node_locks` | which processes run sessions, and which have ended |
//! | `backup` | a copy in one file |

mod backup;
mod db;
mod erasure;
mod hash_index;
mod indexer;
mod node_locks;
mod open;
mod postings;
mod search_db;
mod segment;
mod segment_file;
mod write_queue;
mod writer;

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use ctx_core::id::NodeId;
use ctx_core::search::Page;
use ctx_core::time::{Span, Timestamp};
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::Semaphore;

use crate::driver::{Db, Driver, Inspection, Lock, Read, Snapshot, Transact};
pub use crate::location::{Indexing, Options};
use crate::relational::search;
use crate::transition::{Stored, Transition};
use crate::write::PreparedWrite;
use crate::{Error, SearchIndex, SearchQuery, Store, Write};

use db::{HashIndex, SqliteDb, SqliteTx};
use indexer::{Extent, Indexer};
use node_locks::NodeLocks;
use open::Files;
use postings::SqlitePostings;
use search_db::SearchDb;
use segment::BodySink;
use write_queue::WriteQueue;
use writer::Shared;

/// Connections that are kept open for readers. Reads of a few rows run on the caller's thread, so
/// they need no more than there are threads.
const READERS_MAX: usize = 8;
/// Longer reads and maintenance transactions that run at the same time. Further ones wait.
const BLOCKING_READS_MAX: usize = 4;
/// Rows behind the index from which a process that ends brings it up to date.
const LAG_MAX_ROWS: u64 = 2000;
/// A smaller store is indexed quickly by the first search.
const SMALL_BYTES: u64 = 2 << 20;
/// How long a search waits for an index that is behind.
const SEARCH_CATCH_UP: Duration = Duration::from_secs(2);
/// How long a process that ends indexes words.
const CLOSING_CATCH_UP: Duration = Duration::from_millis(50);
/// How long the indexer waits for more rows.
const INDEX_DELAY: Duration = Duration::from_millis(200);

/// Creates a store for a project in a directory that has none.
///
/// # Errors
/// If there is one, or it cannot be created.
pub fn create(dir: &Path, project: &str) -> Result<(), Error> {
    open::create(&Files { dir: dir.to_owned() }, project, &ulid::Ulid::new().to_string())
}

/// Whether a directory contains a store.
///
/// # Errors
/// If a file with the database's name is not a database.
pub fn exists(dir: &Path) -> Result<bool, Error> {
    open::is_store(&Files { dir: dir.to_owned() })
}

/// Opens the store in a directory.
///
/// # Errors
/// If there is none, it is damaged, or a newer program wrote it.
pub fn open(dir: &Path, options: Options) -> Result<Store, Error> {
    let (database, project) = Sqlite::open(dir, options)?;
    let database = Arc::new(database);
    Ok(Store::new(database.clone(), database, &project))
}

/// Moves the log of a database file into it and empties the log, for programs that measure or copy
/// the file.
///
/// # Errors
/// If the file cannot be opened.
pub fn truncate_log(database: &Path) -> Result<(), Error> {
    let connection = Connection::open(database)?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}

/// An open SQLite store.
struct Sqlite {
    pool: Arc<Pool>,
    queue: Arc<WriteQueue>,
    indexer: Arc<Mutex<Option<Indexer>>>,
    indexing: Indexing,
    nodes: Arc<NodeLocks>,
    /// Held by a long-running process: other processes leave the index to it.
    _indexing_lock: Option<File>,
}

/// Connections for readers and maintenance transactions.
struct Pool {
    shared: Arc<Shared>,
    blocking_reads: Semaphore,
}

/// The connections of one reader: the database, and `search.db` once it was needed.
pub(crate) struct Reader {
    main: Connection,
    search_db: Option<SearchDb>,
}

impl Sqlite {
    /// Opens the store and reads the name of its project.
    fn open(dir: &Path, options: Options) -> Result<(Self, String), Error> {
        let files = Files { dir: dir.to_owned() };
        if !open::is_store(&files)? {
            return Err(Error::NoStore(dir.to_owned()));
        }
        open::reject_network_file_system(dir)?;
        let mut main = open::connect(&files)?;
        open::check_schema(&mut main)?;
        open::enable_wal(&main)?;
        let project = open::meta(&main, "project")?.unwrap_or_default();
        let indexer = Arc::new(Mutex::new(None));
        let mut shared = Shared {
            files,
            compress: options.compress,
            wake_indexer: None,
            wake_checkpointer: None,
            log: Arc::default(),
            readers: Mutex::new(vec![Reader { main, search_db: None }]),
        };
        let mut indexing_lock = None;
        let shared = match options.indexing {
            Indexing::OnDemand => Arc::new(shared),
            Indexing::Background | Indexing::Hashes => {
                let (wake_indexer, index_wakes) = sync_channel(1);
                let (wake_checkpointer, checkpoint_wakes) = sync_channel(1);
                shared.wake_indexer = Some(wake_indexer);
                shared.wake_checkpointer = Some(wake_checkpointer);
                let shared = Arc::new(shared);
                let extent = match options.indexing {
                    Indexing::Hashes => Extent::Hashes,
                    _ => Extent::HashesAndWords,
                };
                start_indexer(Arc::downgrade(&shared), indexer.clone(), extent, index_wakes)?;
                writer::start_checkpointer(
                    shared.files.clone(),
                    shared.log.clone(),
                    checkpoint_wakes,
                )?;
                indexing_lock = open::lock_file(&shared.files.indexing_lock())
                    .ok()
                    .filter(|lock| lock.try_lock_shared().is_ok());
                shared
            }
        };
        let database = Self {
            queue: Arc::new(WriteQueue::new(shared.clone())),
            pool: Arc::new(Pool { shared, blocking_reads: Semaphore::new(BLOCKING_READS_MAX) }),
            indexer,
            indexing: options.indexing,
            nodes: Arc::default(),
            _indexing_lock: indexing_lock,
        };
        Ok((database, project))
    }

    /// Runs a function with a reader's connections on a thread that may block, at most
    /// [`BLOCKING_READS_MAX`] at a time.
    async fn with_reader<T: Send + 'static>(
        &self,
        run: impl FnOnce(&mut Reader, &Files) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let permit = self.pool.blocking_reads.acquire().await;
        let done = self.on_thread(run).await;
        drop(permit);
        done
    }

    /// Runs a function with a reader's connections on a thread that may block.
    async fn on_thread<T: Send + 'static>(
        &self,
        run: impl FnOnce(&mut Reader, &Files) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let pool = self.pool.clone();
        let done = tokio::task::spawn_blocking(move || pool.with_reader(run));
        done.await.map_err(|e| Error::Internal(e.to_string()))?
    }

    async fn catch_up_until(&self, until: Option<Instant>) -> Result<(), Error> {
        let (pool, indexer) = (self.pool.clone(), self.indexer.clone());
        let done = tokio::task::spawn_blocking(move || {
            catch_up(&pool.shared, &indexer, Extent::HashesAndWords, until)
        });
        done.await.map_err(|e| Error::Internal(e.to_string()))?
    }

    /// Keeps the index of a store from falling behind further with each process that only records.
    fn catch_up_before_closing(&self) {
        let files = &self.pool.shared.files;
        if fs::metadata(files.database()).is_ok_and(|meta| meta.len() < SMALL_BYTES) {
            return;
        }
        if open::is_open_in_background(files) {
            return;
        }
        self.queue.close_writer();
        let lag = self.pool.take().and_then(|mut reader| reader.lag(files));
        if lag.is_ok_and(|lag| lag > LAG_MAX_ROWS) {
            let until = Instant::now() + CLOSING_CATCH_UP;
            let _ = catch_up(&self.pool.shared, &self.indexer, Extent::HashesAndWords, Some(until));
        }
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        if !self.queue.has_written() {
            return;
        }
        match self.indexing {
            Indexing::OnDemand => self.catch_up_before_closing(),
            Indexing::Hashes => {
                self.queue.close_writer();
                // A failure is harmless: the log holds everything.
                let _ = truncate_log(&self.pool.shared.files.database());
            }
            Indexing::Background => {}
        }
    }
}

impl Pool {
    /// Runs a function with a reader's connections on this thread.
    fn with_reader<T>(
        &self,
        run: impl FnOnce(&mut Reader, &Files) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut reader = self.take()?;
        let result = run(&mut reader, &self.shared.files);
        self.put_back(reader);
        result
    }

    fn take(&self) -> Result<Reader, Error> {
        match self.shared.take_reader() {
            Some(reader) => Ok(reader),
            None => Ok(Reader { main: open::connect(&self.shared.files)?, search_db: None }),
        }
    }

    fn put_back(&self, reader: Reader) {
        if let Ok(mut readers) = self.shared.readers.lock()
            && readers.len() < READERS_MAX
            && reader.main.is_autocommit()
        {
            readers.push(reader);
        }
    }
}

impl Reader {
    /// Runs a read in one snapshot. `search.db` is opened when a lookup needs it, and always before
    /// the snapshot begins: whether it fits the store is decided by the newest rows.
    fn read(
        &mut self,
        files: &Files,
        read: &dyn Fn(&dyn Db) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.search_db.is_some() {
            SearchDb::current(&mut self.search_db, files, &self.main)?;
        }
        let (mut result, index_needed) = self.read_once(read)?;
        if index_needed {
            SearchDb::current(&mut self.search_db, files, &self.main)?;
            result = self.read_once(read)?.0;
        }
        // A damaged index holds nothing that the store does not: it is replaced, and the read
        // repeated.
        if let Err(Error::Damaged(_)) = result
            && self.search_db.is_some()
            && SearchDb::replace_if_damaged(&mut self.search_db, files, &self.main)?
        {
            result = self.read_once(read)?.0;
        }
        result
    }

    /// The result, and whether the index must be opened first.
    #[allow(clippy::type_complexity, reason = "the inner result is the caller's")]
    fn read_once(
        &self,
        read: &dyn Fn(&dyn Db) -> Result<(), Error>,
    ) -> Result<(Result<(), Error>, bool), Error> {
        self.main.prepare_cached("BEGIN")?.execute([])?;
        let db = SqliteDb::new(&self.main, HashIndex::Reader(self.search_db.as_deref()));
        let result = read(&db);
        let index_needed = db.index_needed();
        drop(db);
        // A failing disk may have ended the transaction.
        if !self.main.is_autocommit() {
            self.main.prepare_cached("COMMIT")?.execute([])?;
        }
        Ok((result, index_needed))
    }

    /// Runs a maintenance transaction, again if it needs the index.
    fn transact(&mut self, files: &Files, change: &mut Transact) -> Result<(), Error> {
        if self.search_db.is_some() {
            SearchDb::current(&mut self.search_db, files, &self.main)?;
        }
        let (result, index_needed) = self.transact_once(files, change)?;
        if !index_needed {
            return result;
        }
        SearchDb::current(&mut self.search_db, files, &self.main)?;
        self.transact_once(files, change)?.0
    }

    #[allow(clippy::type_complexity, reason = "the inner result is the caller's")]
    fn transact_once(
        &mut self,
        files: &Files,
        change: &mut Transact,
    ) -> Result<(Result<(), Error>, bool), Error> {
        let _lock = open::acquire_write_lock(files)?;
        let transaction = self.main.transaction_with_behavior(TransactionBehavior::Immediate)?;
        open::check_min_writer(&transaction)?;
        let db = SqliteDb::new(&transaction, HashIndex::Reader(self.search_db.as_deref()));
        let mut tx = SqliteTx::new(db, BodySink::Unopened);
        let result = change(&mut tx);
        let index_needed = tx.index_needed();
        let result = result.and_then(|()| tx.flush().map(drop));
        if result.is_ok() {
            transaction.commit()?;
            writer::empty_large_log(&self.main, files);
        }
        Ok((result, index_needed))
    }

    fn search(&mut self, files: &Files, query: &SearchQuery) -> Result<Page, Error> {
        let search_db = SearchDb::current(&mut self.search_db, files, &self.main)?;
        if search_db.is_in_memory() {
            indexer::fill(&self.main, search_db)?;
        }
        let main = self.main.unchecked_transaction()?;
        let db = SqliteDb::new(&main, HashIndex::Reader(Some(search_db)));
        let mut page = search::search(&db, &SqlitePostings(search_db), query)?;
        page.lag = indexer::lag(&main, search_db)?;
        Ok(page)
    }

    fn lag(&mut self, files: &Files) -> Result<u64, Error> {
        let search_db = SearchDb::current(&mut self.search_db, files, &self.main)?;
        indexer::lag(&self.main, search_db)
    }
}

fn start_indexer(
    shared: std::sync::Weak<Shared>,
    indexer: Arc<Mutex<Option<Indexer>>>,
    extent: Extent,
    wakes: Receiver<()>,
) -> Result<(), Error> {
    let run = move || {
        writer::lower_priority();
        while wakes.recv().is_ok() {
            // Asleep, not waiting on the channel: each group would wake the thread.
            std::thread::sleep(INDEX_DELAY);
            wakes.try_iter().count();
            let Some(shared) = shared.upgrade() else { return };
            // A failure is retried after the next write; a search catches up first.
            let _ = catch_up(&shared, &indexer, extent, None);
        }
    };
    std::thread::Builder::new().name("ctx-indexer".to_owned()).spawn(run)?;
    Ok(())
}

/// Indexes all rows that are stored now, or as many as it can until a time.
fn catch_up(
    shared: &Shared,
    indexer: &Mutex<Option<Indexer>>,
    extent: Extent,
    until: Option<Instant>,
) -> Result<(), Error> {
    let mut slot =
        indexer.lock().map_err(|_| Error::Internal("the indexer panicked".to_owned()))?;
    let mut working = match slot.take() {
        Some(working) => working,
        None => Indexer::open(&shared.files)?,
    };
    let mut caught_up = working.catch_up(extent, until);
    if let Err(Error::Damaged(_)) = caught_up
        && working.replace_if_damaged()?
    {
        caught_up = working.catch_up(extent, until);
    }
    *slot = Some(working);
    caught_up
}

#[async_trait]
impl Driver for Sqlite {
    async fn write(&self, write: Write, rule: Box<dyn Transition>) -> Result<Stored, Error> {
        // Under load, compression would be a third of the work.
        let compress = self.pool.shared.compress && !self.queue.is_busy();
        self.queue.run(PreparedWrite::new(write, rule, compress)).await
    }

    async fn read(&self, snapshot: Snapshot, read: Read) -> Result<(), Error> {
        if snapshot == Snapshot::Rows {
            return self.pool.with_reader(|reader, files| reader.read(files, &*read));
        }
        self.with_reader(move |reader, files| {
            let is_long = snapshot == Snapshot::Long;
            let _keep_bodies = is_long.then(|| erasure::prevent_erasure(files));
            reader.read(files, &*read)
        })
        .await
    }

    async fn transact(&self, _lock: Lock, mut change: Transact) -> Result<(), Error> {
        self.with_reader(move |reader, files| reader.transact(files, &mut change)).await
    }

    async fn lease(
        &self,
        node: NodeId,
        now: Timestamp,
        length: Option<Span>,
    ) -> Result<bool, Error> {
        let nodes = self.nodes.clone();
        let until = length.map(|length| Timestamp(now.0.saturating_add_unsigned(length.0)));
        // A lease is renewed however many reads wait.
        self.on_thread(move |reader, files| match until {
            Some(until) => nodes.keep_alive(&mut reader.main, files, node, until),
            None => nodes.leave(&mut reader.main, files, node).map(|()| true),
        })
        .await
    }

    async fn dead_nodes(&self, now: Timestamp) -> Result<Vec<NodeId>, Error> {
        self.on_thread(move |reader, files| node_locks::dead(&reader.main, files, now)).await
    }

    async fn is_alive(&self, node: NodeId, now: Timestamp) -> Result<bool, Error> {
        self.on_thread(move |reader, files| node_locks::is_alive(&reader.main, files, node, now))
            .await
    }

    async fn maintain(&self, now: Timestamp) -> Result<bool, Error> {
        // Verbs leave the log to this process, also while it writes nothing itself.
        let shared = &self.pool.shared;
        for wake in [&shared.wake_checkpointer, &shared.wake_indexer].into_iter().flatten() {
            let _ = wake.try_send(());
        }
        self.with_reader(move |reader, files| erasure::erase_due(&mut reader.main, files, now))
            .await
    }

    async fn inspect(&self, deep: bool) -> Result<Inspection, Error> {
        self.with_reader(move |reader, files| {
            let bytes = |path: &Path| fs::metadata(path).map_or(0, |meta| meta.len());
            let segments = files.segment_numbers()?.into_iter().map(|n| files.segment(n));
            Ok(Inspection {
                engine: format!("SQLite {}", rusqlite::version()),
                sizes: vec![
                    ("database", bytes(&files.database())),
                    ("wal", bytes(&files.wal())),
                    ("segments", segments.map(|path| allocated_bytes(&path)).sum()),
                    ("search", bytes(&files.search_db())),
                ],
                faults: if deep { structural_faults(&reader.main) } else { Vec::new() },
            })
        })
        .await
    }

    async fn copy_to(&self, path: &Path) -> Result<(), Error> {
        let path = path.to_owned();
        self.with_reader(move |reader, files| backup::copy_to(&reader.main, files, &path)).await
    }
}

/// Size of a file without its holes.
fn allocated_bytes(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |meta| meta.blocks() * 512)
}

/// Faults that SQLite finds in its pages and indexes.
fn structural_faults(main: &Connection) -> Vec<String> {
    let lines = main.prepare("PRAGMA quick_check(100)").and_then(|mut statement| {
        statement.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()
    });
    match lines {
        Ok(lines) => lines.into_iter().filter(|line| line != "ok").collect(),
        Err(error) => vec![error.to_string()],
    }
}

#[async_trait]
impl SearchIndex for Sqlite {
    async fn search(&self, query: &SearchQuery) -> Result<Page, Error> {
        match self.catch_up_until(Some(Instant::now() + SEARCH_CATCH_UP)).await {
            // On a disk that cannot be written, the search fills an index in memory.
            Err(Error::ReadOnly(_) | Error::Full) => {}
            caught_up => caught_up?,
        }
        let query = query.clone();
        self.with_reader(move |reader, files| {
            let found = reader.search(files, &query);
            if let Err(Error::Damaged(_)) = found
                && SearchDb::replace_if_damaged(&mut reader.search_db, files, &reader.main)?
            {
                let search_db = SearchDb::current(&mut reader.search_db, files, &reader.main)?;
                indexer::fill(&reader.main, search_db)?;
                return reader.search(files, &query);
            }
            found
        })
        .await
    }

    async fn catch_up(&self) -> Result<(), Error> {
        self.catch_up_until(None).await?;
        let indexer = self.indexer.clone();
        let emptied = tokio::task::spawn_blocking(move || {
            if let Ok(mut indexer) = indexer.lock() {
                indexer.as_mut().map(Indexer::empty_log);
            }
        });
        emptied.await.map_err(|e| Error::Internal(e.to_string()))
    }

    async fn lag(&self) -> Result<u64, Error> {
        self.with_reader(|reader, files| reader.lag(files)).await
    }

    async fn rebuild(&self) -> Result<(), Error> {
        self.with_reader(|reader, files| {
            let _lock = open::acquire_write_lock(files)?;
            SearchDb::recreate(&mut reader.search_db, files, &reader.main)
        })
        .await
    }
}
