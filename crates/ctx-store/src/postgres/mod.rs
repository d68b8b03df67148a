//! A PostgreSQL database, 15 or newer, that any number of processes share.
//!
//! | file | owns |
//! |---|---|
//! | this one | opening a store, readers, nodes, the `Driver` implementation |
//! | `address`, `connection` | the URL and TLS; statements in pipelines, errors |
//! | `dialect`, `db` | shared statements in this dialect; their execution |
//! | `lanes` | queues and threads of writes |
//! | `writer` | groups of writes, maintenance transactions, locks, the outcome of a lost COMMIT |
//! | `search` | the index of words, and the newest settled row |
//!
//! The calls of the interface block, so each runs on a thread that may: a lane's own, or one of the
//! pool for blocking work.

mod address;
mod connection;
mod db;
mod dialect;
mod lanes;
mod search;
mod writer;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicI64;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use ctx_core::id::NodeId;
use ctx_core::time::{Span, Timestamp};
use tokio::sync::Semaphore;

use crate::driver::{Db, Driver, Inspection, Lock, Read, Snapshot, Transact, args};
use crate::location::{Indexing, Options, Server};
use crate::schema::SCHEMA;
use crate::transition::{Stored, Transition};
use crate::{Error, SearchIndex, SearchPage, SearchPlace, Store, Write};

use address::Address;
use connection::{Conn, Fault};
use db::PgDb;
use lanes::Lanes;
use writer::{LOCKS, Writer};

/// Reads that run at the same time. Further ones wait.
const READERS_MAX: usize = 8;
/// How often a read is repeated after its connection was lost.
const LOST_MAX: usize = 2;
/// How long the indexer waits for more rows.
const INDEX_DELAY: Duration = Duration::from_millis(200);
/// The advisory lock of the process that creates or migrates the schema.
const SCHEMA_LOCK: i64 = LOCKS;
/// One entry per schema number, in order. A released entry never changes.
const MIGRATIONS: [&str; SCHEMA as usize] = [include_str!("migrations/0001_first.sql")];

/// What the parts of an open store share.
struct Shared {
    address: Arc<Address>,
    compress: bool,
    /// The newest row before which no other can appear, as far as it is known.
    settled: AtomicI64,
    /// Wakes the indexer after each group.
    wake_indexer: Option<SyncSender<()>>,
}

/// What messages call a database. It contains no password.
pub(crate) fn name_of(server: &Server) -> String {
    Address::of(server).map_or_else(|_| "PostgreSQL".to_owned(), |address| address.name())
}

/// Creates a store for a project in a database that has none.
///
/// # Errors
/// If there is one, or the database cannot be reached.
pub fn create(server: &Server, project: &str) -> Result<(), Error> {
    on_own_thread(|| {
        let address = Arc::new(Address::of(server)?);
        let conn = Conn::open(&address)?;
        begin_exclusively(&conn)?;
        if is_store(&conn)? {
            return Err(Error::StoreExists(PathBuf::from(address.name())));
        }
        MIGRATIONS.iter().try_for_each(|sql| conn.command(sql))?;
        let (schema, store) = (SCHEMA.to_string(), ulid::Ulid::new().to_string());
        let rows = [
            ("schema", &*schema),
            ("min_writer", &schema),
            ("project", project),
            ("store", &store),
        ];
        for (key, value) in rows {
            conn.query("INSERT INTO meta(key, value) VALUES (?1, ?2)", args![key, value])?;
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
        let project = meta(&conn, "project")?.unwrap_or_default();
        let (wake_indexer, wakes) = sync_channel(1);
        let background = options.indexing == Indexing::Background;
        let shared = Arc::new(Shared {
            address,
            compress: options.compress,
            settled: AtomicI64::new(0),
            wake_indexer: background.then_some(wake_indexer),
        });
        if background {
            start_indexer(Arc::downgrade(&shared), wakes)?;
        }
        let database = Arc::new(Postgres {
            lanes: Lanes::start(&shared)?,
            maintenance: Arc::new(Mutex::new(Writer::new(shared.clone()))),
            pool: Arc::new(Pool { shared, idle: Mutex::new(vec![conn]) }),
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

fn is_store(conn: &Conn) -> Result<bool, Error> {
    let sql = "SELECT to_regclass('meta') IS NOT NULL AND to_regclass('row_numbers') IS NOT NULL";
    Ok(conn.query(sql, &[])?.first().is_some_and(|row| row.get(0)))
}

fn meta(conn: &Conn, key: &str) -> Result<Option<String>, Error> {
    let rows = conn.query("SELECT value FROM meta WHERE key = ?1", args![key])?;
    Ok(rows.first().map(|row| row.get(0)))
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
        for sql in MIGRATIONS.iter().skip(number("schema")? as usize) {
            conn.command(sql)?;
        }
        for key in ["schema", "min_writer"] {
            let value = SCHEMA.to_string();
            conn.query("UPDATE meta SET value = ?2 WHERE key = ?1", args![key, &value])?;
        }
        conn.command("COMMIT")?;
    }
    match number("min_writer")? {
        found if found > SCHEMA => Err(Error::TooNew { found, known: SCHEMA }),
        _ => Ok(()),
    }
}

fn start_indexer(shared: Weak<Shared>, wakes: Receiver<()>) -> Result<(), Error> {
    let run = move || {
        let mut conn = None;
        while wakes.recv().is_ok() {
            std::thread::sleep(INDEX_DELAY);
            wakes.try_iter().count();
            let Some(shared) = shared.upgrade() else { return };
            // A failure is retried after the next write; a search catches up first.
            let done = match conn.take() {
                Some(conn) => Ok(conn),
                None => Conn::open(&shared.address),
            }
            .and_then(|conn| search::catch_up(&conn, &shared).map(|()| conn));
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
    idle: Mutex<Vec<Conn>>,
}

impl Pool {
    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Conn>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a function with a connection on this thread, again if the connection was lost.
    fn run<T>(&self, run: &dyn Fn(&Conn, &Shared) -> Result<T, Error>) -> Result<T, Error> {
        let mut lost = 0;
        loop {
            let kept = self.idle().pop();
            let conn = match kept {
                Some(conn) => conn,
                None => Conn::open(&self.shared.address)?,
            };
            let result = run(&conn, &self.shared);
            if conn.take_fault() == Some(Fault::Lost) {
                // The other connections to the same server are lost as well, mostly.
                self.idle().clear();
                lost += 1;
                if lost <= LOST_MAX {
                    continue;
                }
            } else {
                let mut idle = self.idle();
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
             RETURNING xmax = 0";
        const REMOVE: &str = "DELETE FROM nodes WHERE id NOT IN
               (SELECT owner FROM sessions WHERE owner IS NOT NULL)
             AND (id = ?1 OR expires_at < (extract(epoch FROM now()) * 1000000)::bigint - ?2)";
        const EXPIRE: &str = "UPDATE nodes SET expires_at = 0 WHERE id = ?1";
        const FORGOTTEN_AFTER_MICROS: i64 = 86_400_000_000;
        let nodes = self.nodes.clone();
        // A lease is renewed however many reads wait.
        self.on_thread(move |conn, _| {
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
            let is_new = rows.first().is_some_and(|row| row.get(0));
            Ok(nodes().insert(node) || !is_new)
        })
        .await
    }

    async fn dead_nodes(&self, _: Timestamp) -> Result<Vec<NodeId>, Error> {
        const DEAD: &str = "SELECT id FROM nodes
               WHERE expires_at < (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
                 AND id IN (SELECT owner FROM sessions WHERE owner IS NOT NULL)
             UNION SELECT owner FROM sessions
               WHERE owner IS NOT NULL AND owner NOT IN (SELECT id FROM nodes)";
        self.on_thread(|conn, _| {
            let name = |row: &tokio_postgres::Row| {
                let name: &str = row.get(0);
                name.parse().map_err(|e| Error::Damaged(format!("a node's id: {e}")))
            };
            conn.query(DEAD, &[])?.iter().map(name).collect()
        })
        .await
    }

    async fn maintain(&self, _: Timestamp) -> Result<bool, Error> {
        const FORGET: &str = "DELETE FROM lanes WHERE used_at < now() - interval '7 days'";
        self.with_reader(|conn, _| conn.query(FORGET, &[]).map(|_| false)).await
    }

    async fn inspect(&self, _: bool) -> Result<Inspection, Error> {
        const SIZES: &str = "SELECT current_setting('server_version'),
             pg_database_size(current_database()), pg_total_relation_size('bodies'),
             pg_total_relation_size('words')";
        self.with_reader(|conn, _| {
            let rows = conn.query(SIZES, &[])?;
            let Some(row) = rows.first() else { return Ok(Inspection::default()) };
            let version: &str = row.get(0);
            let version = version.split(' ').next().unwrap_or_default();
            let bytes = |column: usize| row.get::<_, i64>(column).unsigned_abs();
            Ok(Inspection {
                engine: format!("PostgreSQL {version}"),
                sizes: vec![("database", bytes(1)), ("bodies", bytes(2)), ("search", bytes(3))],
                faults: Vec::new(),
            })
        })
        .await
    }

    async fn copy_to(&self, _: &Path) -> Result<(), Error> {
        Err(Error::Unsupported(
            "cannot write a backup: a store in PostgreSQL is backed up by the tools of PostgreSQL",
        ))
    }
}

#[async_trait]
impl SearchIndex for Postgres {
    async fn search(
        &self,
        words: &str,
        from: Option<SearchPlace>,
        limit: usize,
    ) -> Result<SearchPage, Error> {
        self.catch_up().await?;
        let words = words.to_owned();
        self.with_reader(move |conn, shared| {
            read_snapshot(conn, shared, false, &|db| search::search(db, &words, from, limit))
        })
        .await
    }

    async fn catch_up(&self) -> Result<(), Error> {
        self.with_reader(search::catch_up).await
    }

    async fn lag(&self) -> Result<u64, Error> {
        self.with_reader(|conn, shared| read_snapshot(conn, shared, false, &search::lag)).await
    }

    async fn rebuild(&self) -> Result<(), Error> {
        self.with_reader(|conn, _| search::clear(conn)).await
    }
}
