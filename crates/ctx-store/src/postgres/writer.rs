//! Transactions that write: what they lock and read first, and what became of a lost COMMIT.
//!
//! A group of writes is one transaction. Its first pipeline locks and reads, its last one sends
//! every change with COMMIT. The rules run in between. Where another transaction was in the way,
//! the writes of the group are run again one by one.

use std::any::{Any, TypeId};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::driver::{Arg, Lock, args};
use crate::relational::idempotency_rows;
use crate::schema::SCHEMA;
use crate::transition::Outcome;
use crate::write::{self, PreparedWrite, WriteError};
use crate::{Error, Target};

use super::Shared;
use super::connection::{Conn, Fault, Prepared, Request};
use super::db::{BLOCK, DRAW, Owned, PgTx, Query, Repeat};

/// Row numbers that a write needs, mostly: a turn, an event, a move of the head, a step.
const NUMBERS_PER_WRITE: usize = 4;
/// Kinds of writes and sessions of which a lane remembers the queries.
const REMEMBERED_MAX: usize = 4096;
/// How often a write is run again after another transaction was in the way.
const CONTENDED_MAX: usize = 20;
/// How often a transaction is run again after its connection was lost before COMMIT.
const LOST_MAX: usize = 3;
/// How long the outcome of a lost COMMIT is asked for.
const OUTCOME_MAX: Duration = Duration::from_secs(20);
/// Pause between two such questions.
const OUTCOME_PAUSE: Duration = Duration::from_millis(20);
/// Advisory locks of [`Lock`] are numbered from here.
pub(super) const LOCKS: i64 = 0x0063_7478_0000_0000;

/// A group waits for locks less long than its callers. A stopped process loses its locks.
const BEGIN_GROUP: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; \
     SET LOCAL lock_timeout = '5s'; SET LOCAL idle_in_transaction_session_timeout = '3s'";
const BEGIN_MAINTENANCE: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; \
     SET LOCAL lock_timeout = '15s'; SET LOCAL idle_in_transaction_session_timeout = '60s'";
const EXCLUDE_KEYS: &str = "SELECT pg_advisory_xact_lock(key) FROM unnest(?1) AS key";
const LOCK_IDS: &str =
    "SELECT row FROM sessions WHERE id IN LIST(?1) ORDER BY row FOR NO KEY UPDATE";
const LOCK_LABELS: &str =
    "SELECT row FROM sessions WHERE label IN LIST(?1) ORDER BY row FOR NO KEY UPDATE";
/// What is acknowledged is synced.
const FACTS: &str = "SELECT pg_current_xact_id()::text::bigint, pg_backend_pid()::bigint,
     nextval('row_numbers'), (SELECT value FROM meta WHERE key = 'min_writer'),
     set_config('synchronous_commit', CASE current_setting('synchronous_commit')
       WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, TRUE)";
const MARK: &str = "INSERT INTO lanes(id, written, used_at) VALUES (?1, ?2, now())
     ON CONFLICT(id) DO UPDATE SET written = ?2, used_at = now()";

/// Why a transaction changed nothing.
enum Failure {
    /// The connection was lost before COMMIT, or the server did not execute it.
    Lost(Error),
    /// Another transaction was in the way.
    Contended(Error),
    Final(Error),
}

/// What a transaction does; it returns its result and whether there is anything to commit.
type Run<'a, T> = &'a mut dyn FnMut(&mut PgTx<'_>) -> Result<(T, bool), Error>;

/// What a transaction locks and reads first.
#[derive(Default)]
struct Begin<'a> {
    lock: Option<Lock>,
    keys: Vec<i64>,
    ids: Vec<String>,
    labels: Vec<String>,
    writes: &'a [&'a PreparedWrite],
    /// Queries that the writes will make, mostly.
    ahead: Vec<Query>,
}

/// A transaction that was begun.
struct Begun<'c> {
    tx: PgTx<'c>,
    xid: i64,
    backend: i64,
}

/// A connection that writes. Only one thread uses it at a time.
pub(super) struct Writer {
    shared: Arc<Shared>,
    conn: Option<Conn>,
    /// The row of this writer in `lanes`.
    lane: i64,
    /// Number of the last transaction of this writer.
    written: i64,
}

/// The queries that the last write of each kind and session made. The next one makes nearly the
/// same, so they are sent with the beginning of its transaction.
#[derive(Default)]
pub(super) struct MadeQueries(HashMap<(u64, TypeId), Vec<Query>>);

impl MadeQueries {
    fn key(write: &PreparedWrite) -> (u64, TypeId) {
        let rule: &dyn Any = &*write.rule;
        (target_hash(&write.write.target), rule.type_id())
    }

    /// The queries that a write is expected to make.
    fn expected(&self, write: &PreparedWrite) -> Vec<Query> {
        let key = write
            .rule
            .key()
            .map(|key| Query::new(idempotency_rows::FIND, args![&key.scope, &key.key]));
        let made = self.0.get(&Self::key(write)).cloned().unwrap_or_default();
        key.into_iter().chain(made).collect()
    }

    fn remember(&mut self, write: &PreparedWrite, mut queries: Vec<Query>) {
        // The key of the next request is another one.
        queries.retain(|query| !std::ptr::eq(query.sql, idempotency_rows::FIND));
        if self.0.len() >= REMEMBERED_MAX {
            self.0.clear();
        }
        self.0.insert(Self::key(write), queries);
    }
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let lane = (u128::from(ulid::Ulid::new()) >> 1) as u64 as i64;
        Self { shared, conn: None, lane, written: 0 }
    }

    /// Runs a maintenance transaction, again if another transaction was in the way.
    pub(super) fn transact(
        &mut self,
        lock: Lock,
        change: &mut dyn FnMut(&mut PgTx<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let begin = Begin { lock: Some(lock), ..Begin::default() };
        self.repeated(|writer| {
            writer.transaction(&begin, &mut |tx| change(tx).map(|()| ((), true)))
        })
    }

    /// Runs a group in one transaction. `None` for a write that must wait for the next group.
    pub(super) fn run_group(
        &mut self,
        group: &[&PreparedWrite],
        made: &mut MadeQueries,
    ) -> Vec<Option<Result<Outcome, Error>>> {
        let begin = Begin::of(group, made);
        let mut lost = 0;
        let error = loop {
            match self.transaction(&begin, &mut |tx| run_writes(tx, group, made)) {
                Ok(outcomes) => return outcomes,
                Err(Failure::Lost(_)) if lost < LOST_MAX => lost += 1,
                Err(Failure::Contended(_)) => {
                    return group.iter().map(|write| Some(self.run_alone(write, made))).collect();
                }
                // One write caused the failure; run alone, only that one fails.
                Err(Failure::Final(Error::NotFound { .. } | Error::Internal(_)))
                    if group.len() > 1 =>
                {
                    return group.iter().map(|write| Some(self.run_alone(write, made))).collect();
                }
                Err(Failure::Lost(e) | Failure::Final(e)) => break e,
            }
        };
        group.iter().map(|_| Some(Err(error.clone()))).collect()
    }

    fn run_alone(
        &mut self,
        write: &PreparedWrite,
        made: &mut MadeQueries,
    ) -> Result<Outcome, Error> {
        let group = [write];
        let begin = Begin::of(&group, made);
        let mut outcomes = self.repeated(|writer| {
            writer.transaction(&begin, &mut |tx| run_writes(tx, &group, made))
        })?;
        let outcome = outcomes.pop().flatten();
        outcome.unwrap_or_else(|| Err(Error::Internal("a write without an outcome".to_owned())))
    }

    fn repeated<T>(
        &mut self,
        mut run: impl FnMut(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, Error> {
        let (mut lost, mut contended) = (0, 0);
        loop {
            match run(self) {
                Ok(done) => return Ok(done),
                Err(Failure::Lost(_)) if lost < LOST_MAX => lost += 1,
                Err(Failure::Contended(_)) if contended < CONTENDED_MAX => {
                    contended += 1;
                    // Different for each writer, so that one of them is first.
                    let wait = self.lane.unsigned_abs() % 7 + 1;
                    std::thread::sleep(Duration::from_millis(wait * contended as u64 / 2));
                }
                Err(Failure::Lost(e) | Failure::Contended(e) | Failure::Final(e)) => return Err(e),
            }
        }
    }

    /// Runs a transaction once.
    fn transaction<T>(&mut self, begin: &Begin<'_>, run: Run<'_, T>) -> Result<T, Failure> {
        let conn = match self.conn.take() {
            Some(conn) => conn,
            None => Conn::open(&self.shared.address).map_err(Failure::Final)?,
        };
        self.written += 1;
        let _ = conn.take_fault();
        let mut begun = match begin.send(&conn) {
            Ok(begun) => begun,
            Err(error) => return Err(self.roll_back(conn, error)),
        };
        let (done, stores) = match run(&mut begun.tx) {
            Ok(done) => done,
            Err(error) => {
                drop(begun);
                return Err(self.roll_back(conn, error));
            }
        };
        if !stores {
            drop(begun);
            let ended = conn.command("ROLLBACK");
            self.conn = ended.is_ok().then_some(conn);
            return Ok(done);
        }
        let args = [Arg::Int(self.lane), Arg::Int(self.written)];
        let mark = match conn.prepare(MARK, &args, false) {
            Ok(mark) => mark,
            Err(error) => {
                drop(begun);
                return Err(self.roll_back(conn, error));
            }
        };
        let last = [Request::Execute(&mark, &args), Request::Command("COMMIT")];
        let (xid, backend) = (begun.xid, begun.backend);
        let sent = begun.tx.flush(&last);
        drop(begun);
        let Err(failed) = sent else {
            // A COMMIT after an error would be answered without one; there was none.
            self.conn = Some(conn);
            return Ok(done);
        };
        // The server has rolled back: it answers COMMIT after an error with ROLLBACK.
        if failed.rejected {
            return Err(self.roll_back(conn, failed.error));
        }
        drop(conn);
        match self.was_committed(xid, backend) {
            Ok(true) => Ok(done),
            Ok(false) => Err(Failure::Lost(failed.error)),
            Err(error) => Err(Failure::Final(error)),
        }
    }

    /// Rolls back and keeps the connection, unless it is lost.
    fn roll_back(&mut self, conn: Conn, error: Error) -> Failure {
        let fault = conn.take_fault();
        if fault == Some(Fault::Lost) {
            return Failure::Lost(error);
        }
        if conn.command("ROLLBACK").is_ok() {
            self.conn = Some(conn);
        }
        match fault {
            Some(Fault::Contended) => Failure::Contended(error),
            _ => Failure::Final(error),
        }
    }

    /// Whether the transaction was committed whose COMMIT got no answer. The server's record of
    /// the transaction tells whether it is over. What it wrote tells how it ended: after a crash,
    /// another transaction may have got the number of one that was lost.
    fn was_committed(&mut self, xid: i64, backend: i64) -> Result<bool, Error> {
        let until = Instant::now() + OUTCOME_MAX;
        loop {
            let conn = Conn::open(&self.shared.address)?;
            match outcome(&conn, xid, backend, self.lane) {
                Ok(Some(written)) => {
                    self.conn = Some(conn);
                    return Ok(written == self.written);
                }
                Ok(None) if Instant::now() < until => {}
                Err(error) if conn.take_fault() != Some(Fault::Lost) => return Err(error),
                Err(_) if Instant::now() < until => {}
                Ok(None) | Err(_) => {
                    let unknown = "it is not known whether the last write was stored";
                    return Err(unavailable(&self.shared, unknown));
                }
            }
            std::thread::sleep(OUTCOME_PAUSE);
        }
    }
}

fn unavailable(shared: &Shared, why: &str) -> Error {
    Error::Unavailable(format!("{}: {why}", shared.address.name()))
}

/// The number of the last transaction of a lane that is stored; `None` while `xid` is not over.
fn outcome(conn: &Conn, xid: i64, backend: i64, lane: i64) -> Result<Option<i64>, Error> {
    const RUNS: &str = "SELECT COALESCE(pg_xact_status(?1::text::xid8) = 'in progress', FALSE)";
    const END: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE pid = ?2 AND backend_xid = (?1::text::xid8)::xid";
    const WRITTEN: &str = "SELECT written FROM lanes WHERE id = ?1";
    let args = [Arg::Int(xid), Arg::Int(backend)];
    let runs = match conn.query(RUNS, &args[..1]) {
        Ok(rows) => rows.first().is_some_and(|row| row.get(0)),
        // After a crash, the number of a lost transaction may not be in use yet.
        Err(error) if conn.take_fault() == Some(Fault::Lost) => return Err(error),
        Err(_) => false,
    };
    if runs {
        conn.query(END, &args)?;
        return Ok(None);
    }
    let written = conn.query(WRITTEN, &[Arg::Int(lane)])?;
    Ok(Some(written.first().map_or(0, |row| row.get(0))))
}

impl<'a> Begin<'a> {
    /// What a group locks: the sessions and idempotency keys of its writes.
    fn of(writes: &'a [&'a PreparedWrite], made: &MadeQueries) -> Self {
        let ahead = writes.iter().flat_map(|write| made.expected(write)).collect();
        let mut begin = Self { writes, ahead, ..Self::default() };
        for write in writes {
            match &write.write.target {
                Target::Id(id) => begin.ids.push(id.to_string()),
                Target::Label(label) => begin.labels.push(label.clone()),
                // Its session is locked once it is found.
                Target::Inbound(_) => {}
            }
            begin.keys.extend(key_of(write));
        }
        begin.keys.sort_unstable();
        begin
    }

    /// The statements without parameters. The locks of [`Lock`] come before every other lock.
    fn command(&self) -> String {
        let (begin, own) = match self.lock {
            None => (BEGIN_GROUP, None),
            Some(lock) => (BEGIN_MAINTENANCE, Some(LOCKS + lock as i64)),
        };
        let store = LOCKS + Lock::Store as i64;
        match own {
            Some(own) if own == store => format!("{begin}; SELECT pg_advisory_xact_lock({own})"),
            Some(own) => format!(
                "{begin}; SELECT pg_advisory_xact_lock_shared({store}); \
                 SELECT pg_advisory_xact_lock({own})"
            ),
            None => format!("{begin}; SELECT pg_advisory_xact_lock_shared({store})"),
        }
    }

    /// Begins the transaction: one pipeline.
    fn send<'c>(&self, conn: &'c Conn) -> Result<Begun<'c>, Error> {
        let more = (self.writes.len() * NUMBERS_PER_WRITE) as i64 / BLOCK;
        let (keys, ids, labels) =
            ([Arg::Ints(&self.keys)], [Arg::Texts(&self.ids)], [Arg::Texts(&self.labels)]);
        let blocks = [Arg::Int(more)];
        let sent: Vec<(&'static str, &[Arg<'_>])> = [
            (EXCLUDE_KEYS, keys.as_slice(), !self.keys.is_empty()),
            (LOCK_IDS, &ids, !self.ids.is_empty()),
            (LOCK_LABELS, &labels, !self.labels.is_empty()),
            (DRAW, &blocks, more > 0),
            (FACTS, &[], true),
        ]
        .into_iter()
        .filter_map(|(sql, args, wanted)| wanted.then_some((sql, args)))
        .collect();
        let prepared = sent
            .iter()
            .map(|(sql, args)| conn.prepare(sql, args, false))
            .collect::<Result<Vec<_>, _>>()?;
        let begin = self.command();
        let ahead: Vec<(Prepared, Vec<Arg<'_>>)> = self
            .ahead
            .iter()
            .map(|query| {
                let args: Vec<Arg<'_>> = query.args.iter().map(Owned::as_arg).collect();
                Ok((conn.prepare(query.sql, &args, false)?, args))
            })
            .collect::<Result<_, Error>>()?;
        let requests: Vec<Request<'_>> = [Request::Command(&begin)]
            .into_iter()
            .chain(prepared.iter().zip(&sent).map(|(one, (_, args))| Request::Query(one, args)))
            .chain(ahead.iter().map(|(one, args)| Request::Query(one, args)))
            .collect();
        let mut answers = conn.send(&requests).map_err(|failed| failed.error)?;
        let read = answers.split_off(1 + sent.len()).into_iter().map(|answer| answer.rows);
        let read = self.ahead.iter().cloned().zip(read).collect();
        let facts = answers.pop().unwrap_or_default().rows.pop();
        let facts = facts.ok_or_else(|| Error::Internal("a SELECT without a row".to_owned()))?;
        let min_writer = facts.get::<_, Option<&str>>(3).and_then(|text| text.parse().ok());
        if let Some(found) = Some(min_writer.unwrap_or(u32::MAX)).filter(|found| *found > SCHEMA) {
            return Err(Error::TooNew { found, known: SCHEMA });
        }
        let (mut locked, mut blocks) = (HashSet::new(), vec![facts.get(2)]);
        for ((sql, _), answer) in sent.iter().zip(&answers[1..]) {
            let rows = answer.rows.iter().map(|row| row.get::<_, i64>(0));
            match *sql {
                LOCK_IDS | LOCK_LABELS => locked.extend(rows),
                DRAW => blocks.extend(rows),
                _ => {}
            }
        }
        let tx = PgTx::new(conn, self.lock.is_none(), locked, &blocks, read);
        Ok(Begun { tx, xid: facts.get(0), backend: facts.get(1) })
    }
}

/// The advisory lock of a write's idempotency key: a request that is sent twice is executed once.
pub(super) fn key_of(write: &PreparedWrite) -> Option<i64> {
    write.rule.key().map(|key| hash_of(&[&key.scope, &key.key]).cast_signed())
}

pub(super) fn target_hash(target: &Target) -> u64 {
    match target {
        Target::Id(id) => hash_of(&[&id.to_string()]),
        Target::Label(label) => hash_of(&[label]),
        Target::Inbound(inbound) => hash_of(&[&inbound.envelope.address().key()]),
    }
}

/// FNV-1a: the same in every process of every version.
fn hash_of(texts: &[&str]) -> u64 {
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0xff]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The outcome of each write of a group, and whether there is anything to commit.
#[allow(clippy::type_complexity, reason = "a write has an outcome, an error, or must wait")]
fn run_writes(
    tx: &mut PgTx<'_>,
    group: &[&PreparedWrite],
    made: &mut MadeQueries,
) -> Result<(Vec<Option<Result<Outcome, Error>>>, bool), Error> {
    let mut outcomes = Vec::with_capacity(group.len());
    for write in group {
        outcomes.push(loop {
            let outcome = write::run(tx, write);
            match (tx.take_repeat(), outcome) {
                (Some(Repeat::Now(session)), _) => tx.lock(session)?,
                (Some(Repeat::Later), _) => break None,
                (None, Ok(outcome)) => break Some(Ok(outcome)),
                (None, Err(WriteError::Rejected(error))) => break Some(Err(error)),
                (None, Err(WriteError::Failed(error))) => return Err(error),
            }
            tx.take_made();
        });
        made.remember(write, tx.take_made());
    }
    let stores = |(write, outcome): (&&PreparedWrite, &Option<Result<Outcome, Error>>)| {
        outcome.as_ref().is_some_and(|outcome| !write::stores_nothing(write, outcome))
    };
    let stores = group.iter().zip(&outcomes).any(stores);
    Ok((outcomes, stores))
}
