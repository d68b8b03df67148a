//! A PostgreSQL database, 15 or newer, that any number of processes share.
//!
//! | file | owns |
//! |---|---|
//! | this one | opening a store, readers, nodes, the `Driver` implementation |
//! | `address`, `tls`, `socket` | the URL, certificates, authentication |
//! | `connection`, `values` | statements in pipelines, errors; values in binary form |
//! | `dialect`, `db`, `tx` | shared statements in this dialect; reading; writing |
//! | `lanes` | queues and threads of writes |
//! | `writer` | groups of writes, maintenance transactions, locks, the outcome of a lost COMMIT |
//! | `search` | the index of words, and the newest settled row |
//! | `clock`, `notices` | the database's clock; texts between nodes |
//! | `inspection` | sizes, and faults in tables and indexes |
//!
//! The calls of the interface block, so each runs on a thread that may: a lane's own, or one of the
//! pool for blocking work.

mod address;
mod clock;
mod connection;
mod db;
mod dialect;
mod inspection;
mod lanes;
mod notices;
mod search;
mod socket;
mod tls;
mod tx;
mod values;
mod writer;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicI64;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use ctx_core::id::NodeId;
use ctx_core::search::Page;
use ctx_core::time::{Span, Timestamp};
use tokio::sync::{Semaphore, mpsc};

use crate::driver::{Db, Driver, Inspection, Lock, Notice, Read, Snapshot, Transact, args};
use crate::location::{Indexing, Options, Server};
use crate::relational;
use crate::schema::SCHEMA;
use crate::transition::{Stored, Transition};
use crate::{Error, SearchIndex, SearchQuery, Store, Write};

use address::Address;
use clock::Clock;
use connection::{Conn, Fault};
use db::PgDb;
use lanes::Lanes;
use notices::Notifier;
use search::{Election, PgPostings};
use writer::{LOCKS, Limits, Writer};

/// Reads that run at the same time. Further ones wait.
const READERS_MAX: usize = 8;
/// How often a read is repeated after its connection was lost.
const LOST_MAX: usize = 2;
/// The indexer waits until nothing was written for this long: it takes more time than the writes.
const INDEX_DELAY: Duration = Duration::from_millis(200);
/// How long it waits at most. A search catches up first.
const INDEX_DELAY_MAX: Duration = Duration::from_secs(10);
/// How long a search waits for an index that is behind.
const SEARCH_CATCH_UP: Duration = Duration::from_secs(2);
/// The advisory lock of the process that creates or migrates the schema.
const SCHEMA_LOCK: i64 = LOCKS;
/// One entry per schema number, in order, with the oldest schema whose programs may write after it.
/// A migration that only adds leaves that as it is, so that both programs serve side by side. A
/// released entry never changes.
const MIGRATIONS: [(&str, u32); SCHEMA as usize] = [(include_str!("migrations/0001_first.sql"), 1)];

/// What the parts of an open store share.
struct Shared {
    address: Arc<Address>,
    /// The address for notifications, if it is another one.
    listen_address: Option<Arc<Address>>,
    clock: Clock,
    notifier: Notifier,
    compress: bool,
    /// The newest row before which no other can appear, as far as it is known.
    settled: AtomicI64,
    /// Words of the index that this process has seen stored.
    known_words: Mutex<HashSet<String>>,
    /// Wakes the indexer after each group.
    wake_indexer: Option<SyncSender<()>>,
    /// Connections of readers that are not in use.
    idle_readers: Mutex<Vec<Conn>>,
}

impl Shared {
    fn idle_readers(&self) -> MutexGuard<'_, Vec<Conn>> {
        self.idle_readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connects for reading. Plans are kept, so they are made for large tables: a plan for the
    /// first rows of a table would read all of it later.
    fn connect_reader(&self) -> Result<Conn, Error> {
        let conn = Conn::open(&self.address)?;
        if conn.direct {
            conn.query("SELECT set_config('enable_seqscan', 'off', FALSE)", &[])?;
        }
        Ok(conn)
    }

    /// Connects for writing. Where the server has no connection left, those of idle readers are
    /// closed.
    fn connect_writer(&self) -> Result<Conn, Error> {
        match Conn::try_open(&self.address) {
            Err((true, _)) => {
                self.idle_readers().clear();
                Conn::open(&self.address)
            }
            opened => opened.map_err(|(_, error)| error),
        }
    }
}

/// What messages call a database. It contains no password.
pub(crate) fn name_of(server: &Server) -> String {
    Address::of(server).map_or_else(|_| "PostgreSQL".to_owned(), |address| address.name())
}

/// Whether the URL, the environment or a file has the password of a database.
pub(crate) fn has_password(server: &Server) -> bool {
    Address::of(server).is_ok_and(|address| address.password.is_some())
}

/// Creates a store for a project in a database that has none.
///
/// # Errors
/// If there is one, or the database cannot be reached.
pub fn create(server: &Server, project: &str) -> Result<(), Error> {
    on_own_thread(|| {
        let address = Arc::new(Address::of(server)?);
        let conn = Conn::open(&address)?;
        check_encoding(&conn, &address)?;
        begin_exclusively(&conn)?;
        if is_store(&conn)? {
            return Err(Error::StoreExists(PathBuf::from(address.name())));
        }
        migrate(&conn, 0, 0)?;
        let store = ulid::Ulid::new().to_string();
        for (key, value) in [("project", project), ("store", &store)] {
            conn.query(PUT_META, args![key, value])?;
        }
        conn.command("COMMIT")
    })
}

/// Whether the database contains a store.
///
/// # Errors
/// If the database cannot be reached.
pub fn exists(server: &Server) -> Result<bool, Error> {
    on_own_thread(|| is_store(&Conn::open(&Arc::new(Address::of(server)?))?))
}

/// Opens the store in a database.
///
/// # Errors
/// If there is none, the database cannot be reached, or a newer program wrote it.
pub fn open(server: &Server, options: Options) -> Result<Store, Error> {
    on_own_thread(|| {
        let address = Arc::new(Address::of(server)?);
        let conn = Conn::open(&address)?;
        if !is_store(&conn)? {
            return Err(Error::NoStore(PathBuf::from(address.name())));
        }
        check_schema(&conn)?;
        let clock = Clock::default();
        let time = conn.query(NOW, &[])?;
        time.first().into_iter().for_each(|row| clock.read(row.number(0)));
        let project = meta(&conn, "project")?.unwrap_or_default();
        let (wake_indexer, wakes) = sync_channel(1);
        let background = options.indexing != Indexing::OnDemand;
        let shared = Arc::new(Shared {
            address,
            listen_address: Address::of_listener(server)?.map(Arc::new),
            clock,
            notifier: Notifier::default(),
            compress: options.compress,
            settled: AtomicI64::new(0),
            known_words: Mutex::default(),
            wake_indexer: background.then_some(wake_indexer),
            idle_readers: Mutex::default(),
        });
        if background {
            start_indexer(Arc::downgrade(&shared), wakes)?;
        }
        let database = Arc::new(Postgres {
            lanes: Lanes::start(&shared)?,
            maintenance: Arc::new(Mutex::new(Writer::new(shared.clone(), Limits::MAINTENANCE))),
            pool: Arc::new(Pool { shared }),
            reads: Semaphore::new(READERS_MAX),
            nodes: Arc::default(),
        });
        Ok(Store::new(database.clone(), database, &project))
    })
}

/// Runs a function that blocks. The caller's thread may belong to a runtime.
fn on_own_thread<T: Send>(run: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    let done = std::thread::scope(|scope| scope.spawn(run).join());
    done.unwrap_or_else(|_| Err(Error::Internal("opening the store panicked".to_owned())))
}

/// Begins a transaction that changes the schema: no other process does, and none writes.
fn begin_exclusively(conn: &Conn) -> Result<(), Error> {
    let store = LOCKS + Lock::Store as i64;
    conn.command(&format!(
        "BEGIN; SELECT pg_advisory_xact_lock({SCHEMA_LOCK}), pg_advisory_xact_lock({store})"
    ))
}

/// Other encodings cannot store every text.
fn check_encoding(conn: &Conn, address: &Address) -> Result<(), Error> {
    let rows = conn.query("SELECT current_setting('server_encoding')", &[])?;
    match rows.first().map_or("", |row| row.string(0)) {
        "UTF8" => Ok(()),
        other => Err(Error::Unavailable(format!(
            "{}: the encoding of the database is {other}, and ctx needs UTF8",
            address.name()
        ))),
    }
}

fn is_store(conn: &Conn) -> Result<bool, Error> {
    let sql = "SELECT to_regclass('meta') IS NOT NULL AND to_regclass('row_numbers') IS NOT NULL";
    Ok(conn.query(sql, &[])?.first().is_some_and(|row| row.number(0) != 0))
}

fn meta(conn: &Conn, key: &str) -> Result<Option<String>, Error> {
    let rows = conn.query("SELECT value FROM meta WHERE key = ?1", args![key])?;
    Ok(rows.first().map(|row| row.string(0).to_owned()))
}

/// Rejects a store that a newer ctx wrote, and migrates an older one. Newer schemas only add tables
/// and columns; `min_writer` decides whether this ctx may write.
fn check_schema(conn: &Conn) -> Result<(), Error> {
    let number = |key| {
        let text = meta(conn, key)?;
        text.and_then(|text| text.parse::<u32>().ok())
            .ok_or_else(|| Error::Damaged("its schema version cannot be read".to_owned()))
    };
    if number("schema")? < SCHEMA {
        begin_exclusively(conn)?;
        migrate(conn, number("schema")?, number("min_writer")?)?;
        conn.command("COMMIT")?;
    }
    match number("min_writer")? {
        found if found > SCHEMA => Err(Error::TooNew { found, known: SCHEMA }),
        _ => Ok(()),
    }
}

const PUT_META: &str = "INSERT INTO meta(key, value) VALUES (?1, ?2)
     ON CONFLICT(key) DO UPDATE SET value = ?2";

/// Applies the migrations after a schema number.
fn migrate(conn: &Conn, schema: u32, mut min_writer: u32) -> Result<(), Error> {
    for (sql, oldest) in MIGRATIONS.iter().skip(schema as usize) {
        conn.command(sql)?;
        min_writer = min_writer.max(*oldest);
    }
    for (key, value) in [("schema", SCHEMA.max(schema)), ("min_writer", min_writer)] {
        conn.query(PUT_META, args![key, &value.to_string()])?;
    }
    Ok(())
}

const NOW: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";

fn start_indexer(shared: Weak<Shared>, wakes: Receiver<()>) -> Result<(), Error> {
    let run = move || {
        let mut conn = None;
        while wakes.recv().is_ok() {
            let until = Instant::now() + INDEX_DELAY_MAX;
            while Instant::now() < until {
                std::thread::sleep(INDEX_DELAY);
                if wakes.try_iter().count() == 0 {
                    break;
                }
            }
            let Some(shared) = shared.upgrade() else { return };
            // A failure is retried after the next write; a search catches up first.
            let done = match conn.take() {
                Some(conn) => Ok(conn),
                None => Conn::open(&shared.address),
            }
            .and_then(|conn| {
                search::catch_up(&conn, &shared, Election::Leave, None).map(|()| conn)
            });
            conn = done.ok();
        }
    };
    std::thread::Builder::new().name("ctx-indexer".to_owned()).spawn(run)?;
    Ok(())
}

/// An open PostgreSQL store.
struct Postgres {
    lanes: Lanes,
    /// Maintenance transactions of this process run one after the other.
    maintenance: Arc<Mutex<Writer>>,
    pool: Arc<Pool>,
    reads: Semaphore,
    /// The nodes that this process has registered.
    nodes: Arc<Mutex<HashSet<NodeId>>>,
}

/// Connections of readers.
struct Pool {
    shared: Arc<Shared>,
}

impl Pool {
    /// Runs a function with a connection on this thread, again if the connection was lost.
    fn run<T>(&self, run: &dyn Fn(&Conn, &Shared) -> Result<T, Error>) -> Result<T, Error> {
        let mut lost = 0;
        loop {
            let kept = self.shared.idle_readers().pop();
            let conn = match kept {
                Some(conn) => conn,
                None => self.shared.connect_reader()?,
            };
            let result = run(&conn, &self.shared);
            if conn.take_fault() == Some(Fault::Lost) {
                // The other connections to the same server are lost as well, mostly.
                self.shared.idle_readers().clear();
                lost += 1;
                if lost <= LOST_MAX {
                    continue;
                }
            } else {
                let mut idle = self.shared.idle_readers();
                if idle.len() < READERS_MAX {
                    idle.push(conn);
                }
            }
            return result;
        }
    }
}

impl Postgres {
    /// Runs a function with a connection on a thread that may block, at most [`READERS_MAX`] at a
    /// time.
    async fn with_reader<T: Send + 'static>(
        &self,
        run: impl Fn(&Conn, &Shared) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let permit = self.reads.acquire().await;
        let done = self.on_thread(run).await;
        drop(permit);
        done
    }

    async fn on_thread<T: Send + 'static>(
        &self,
        run: impl Fn(&Conn, &Shared) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let pool = self.pool.clone();
        let done = tokio::task::spawn_blocking(move || pool.run(&run));
        done.await.map_err(|e| Error::Internal(e.to_string()))?
    }
}

/// Reads one snapshot, again if a query needs the newest settled row.
fn read_snapshot<T>(
    conn: &Conn,
    shared: &Shared,
    long: bool,
    read: &dyn Fn(&dyn Db) -> Result<T, Error>,
) -> Result<T, Error> {
    conn.set_long(long);
    let once = |settled| {
        let db = PgDb::snapshot(conn, long, settled);
        let result = read(&db);
        let needed = db.settled_needed();
        let ended = db.finish();
        Ok::<_, Error>((result.and_then(|value| ended.map(|()| value)), needed))
    };
    let (mut result, needed) = once(None)?;
    if needed {
        (result, _) = once(Some(search::settled(conn, shared)?))?;
    }
    conn.set_long(false);
    result
}

#[async_trait]
impl Driver for Postgres {
    async fn write(&self, write: Write, rule: Box<dyn Transition>) -> Result<Stored, Error> {
        self.lanes.run(write, rule).await
    }

    async fn read(&self, snapshot: Snapshot, read: Read) -> Result<(), Error> {
        let long = snapshot == Snapshot::Long;
        self.with_reader(move |conn, shared| read_snapshot(conn, shared, long, &*read)).await
    }

    async fn transact(&self, lock: Lock, mut change: Transact) -> Result<(), Error> {
        let writer = self.maintenance.clone();
        let done = tokio::task::spawn_blocking(move || {
            let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
            writer.transact(lock, &mut |tx| change(tx))
        });
        done.await.map_err(|e| Error::Internal(e.to_string()))?
    }

    async fn lease(&self, node: NodeId, _: Timestamp, length: Option<Span>) -> Result<bool, Error> {
        const RENEW: &str = "INSERT INTO nodes(id, epoch, host, expires_at)
             VALUES (?1, 1, ?2, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + ?3)
             ON CONFLICT(id) DO UPDATE SET expires_at = excluded.expires_at
             RETURNING xmax = 0, (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
        const REMOVE: &str = "DELETE FROM nodes WHERE id NOT IN
               (SELECT s.owner FROM runs r JOIN sessions s ON s.row = r.session
                WHERE r.ended_at IS NULL AND s.owner IS NOT NULL)
             AND (id = ?1 OR expires_at < (extract(epoch FROM now()) * 1000000)::bigint - ?2)";
        const EXPIRE: &str = "UPDATE nodes SET expires_at = 0 WHERE id = ?1";
        const FORGOTTEN_AFTER_MICROS: i64 = 86_400_000_000;
        let nodes = self.nodes.clone();
        // A lease is renewed however many reads wait.
        self.on_thread(move |conn, shared| {
            let name = node.to_string();
            let nodes = || nodes.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(length) = length else {
                nodes().remove(&node);
                conn.query(REMOVE, args![&name, FORGOTTEN_AFTER_MICROS])?;
                conn.query(EXPIRE, args![&name])?;
                return Ok(true);
            };
            let micros = i64::try_from(length.0.saturating_mul(1000)).unwrap_or(i64::MAX >> 8);
            let process = std::process::id().to_string();
            let rows = conn.query(RENEW, args![&name, &process, micros])?;
            rows.first().into_iter().for_each(|row| shared.clock.read(row.number(1)));
            let is_new = rows.first().is_some_and(|row| row.number(0) != 0);
            Ok(nodes().insert(node) || !is_new)
        })
        .await
    }

    async fn dead_nodes(&self, _: Timestamp) -> Result<Vec<NodeId>, Error> {
        // The owner of an idle session matters if a message waits for it.
        const DEAD: &str = "WITH owners AS (
               SELECT s.owner FROM runs r JOIN sessions s ON s.row = r.session
               WHERE r.ended_at IS NULL AND s.owner IS NOT NULL
               UNION SELECT s.owner FROM inbox i JOIN sessions s ON s.row = i.session
               WHERE s.owner IS NOT NULL)
             SELECT owner FROM owners LEFT JOIN nodes ON id = owner WHERE id IS NULL
               OR expires_at < (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
        self.on_thread(|conn, _| {
            let name = |row: &values::Row| {
                row.string(0).parse().map_err(|e| Error::Damaged(format!("a node's id: {e}")))
            };
            conn.query(DEAD, &[])?.iter().map(name).collect()
        })
        .await
    }

    async fn is_alive(&self, node: NodeId, _: Timestamp) -> Result<bool, Error> {
        const ALIVE: &str = "SELECT 1 FROM nodes WHERE id = ?1
             AND expires_at >= (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
        self.on_thread(move |conn, _| Ok(!conn.query(ALIVE, args![&node.to_string()])?.is_empty()))
            .await
    }

    async fn maintain(&self, _: Timestamp) -> Result<bool, Error> {
        const FORGET: &str = "DELETE FROM lanes WHERE used_at < now() - interval '7 days'";
        self.with_reader(|conn, _| conn.query(FORGET, &[]).map(|_| false)).await
    }

    async fn inspect(&self, deep: bool) -> Result<Inspection, Error> {
        self.with_reader(move |conn, _| inspection::inspect(conn, deep)).await
    }

    fn now(&self) -> Timestamp {
        self.pool.shared.clock.now()
    }

    fn notify(&self, to: Option<NodeId>, text: String) {
        let shared = &self.pool.shared;
        shared.notifier.send(&shared.address, to, text);
    }

    async fn listen(&self, node: NodeId) -> Option<mpsc::Receiver<Notice>> {
        let shared = &self.pool.shared;
        let address = shared.listen_address.as_ref().unwrap_or(&shared.address).clone();
        let store = Arc::downgrade(shared);
        let started = tokio::task::spawn_blocking(move || notices::listen(address, node, store));
        started.await.ok()?
    }

    async fn copy_to(&self, _: &Path) -> Result<(), Error> {
        Err(Error::Unsupported(
            "cannot write a backup: a store in PostgreSQL is backed up by the tools of PostgreSQL",
        ))
    }
}

#[async_trait]
impl SearchIndex for Postgres {
    async fn search(&self, query: &SearchQuery) -> Result<Page, Error> {
        self.with_reader(|conn, shared| {
            let until = Instant::now() + SEARCH_CATCH_UP;
            search::catch_up(conn, shared, Election::Wait, Some(until))
        })
        .await?;
        let query = query.clone();
        self.with_reader(move |conn, shared| {
            read_snapshot(conn, shared, false, &|db| {
                let mut page = relational::search::search(db, &PgPostings(db), &query)?;
                page.lag = search::lag(db)?;
                Ok(page)
            })
        })
        .await
    }

    async fn catch_up(&self) -> Result<(), Error> {
        self.with_reader(|conn, shared| search::catch_up(conn, shared, Election::Wait, None)).await
    }

    async fn lag(&self) -> Result<u64, Error> {
        self.with_reader(|conn, shared| read_snapshot(conn, shared, false, &search::lag)).await
    }

    async fn rebuild(&self) -> Result<(), Error> {
        self.with_reader(search::clear).await
    }
}
