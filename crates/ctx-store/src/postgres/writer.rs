//! Transactions that write: what they lock and read first, and what became of a lost COMMIT.
//!
//! A group of writes is one transaction. Its first pipeline locks and reads, its last one sends
//! every change with COMMIT. The rules run in between. Where another transaction was in the way,
//! the writes of the group are run again one by one.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::driver::{Arg, Lock, args};
use crate::relational::idempotency_rows;
use crate::schema::SCHEMA;
use crate::transition::Outcome;
use crate::write::{self, PreparedWrite, WriteError};
use crate::{Error, Target};

use super::Shared;
use super::connection::{Conn, Fault};
use super::db::{COMMIT, Query, push_queries};
use super::tx::{BLOCK, PgTx, Repeat};

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

const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
const ROLLBACK: &str = "ROLLBACK";
/// What is acknowledged is synced.
const SETTINGS: &str = "SELECT set_config('lock_timeout', ?1, ?3 <> 0),
     set_config('idle_in_transaction_session_timeout', ?2, ?3 <> 0),
     set_config('synchronous_commit', CASE current_setting('synchronous_commit')
       WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, ?3 <> 0)";
/// Groups read by keys. Their plans are those of large tables, and are made once.
const PLANS: &str = "SELECT set_config('plan_cache_mode', 'force_generic_plan', FALSE),
     set_config('enable_seqscan', 'off', FALSE), set_config('enable_hashjoin', 'off', FALSE),
     set_config('enable_mergejoin', 'off', FALSE), set_config('enable_bitmapscan', 'off', FALSE),
     set_config('jit', 'off', FALSE)";
const SHARE: &str = "SELECT pg_advisory_xact_lock_shared(?1)";
const EXCLUDE: &str = "SELECT pg_advisory_xact_lock(?1)";
const EXCLUDE_KEYS: &str = "SELECT pg_advisory_xact_lock(key) FROM unnest(?1) AS key";
const LOCK_IDS: &str =
    "SELECT row FROM sessions WHERE id IN LIST(?1) ORDER BY row FOR NO KEY UPDATE";
const LOCK_LABELS: &str =
    "SELECT row FROM sessions WHERE label IN LIST(?1) ORDER BY row FOR NO KEY UPDATE";
/// One statement: two of them would lock rows in another order than those of another group.
const LOCK_IDS_AND_LABELS: &str = "SELECT row FROM sessions WHERE row IN
       (SELECT row FROM sessions WHERE id IN LIST(?1)
        UNION SELECT row FROM sessions WHERE label IN LIST(?2))
     ORDER BY row FOR NO KEY UPDATE";
/// One row for each block of row numbers.
const FACTS: &str = "SELECT nextval('row_numbers'), pg_current_xact_id()::text::bigint,
     pg_backend_pid(), (SELECT value FROM meta WHERE key = 'min_writer'),
     (extract(epoch FROM clock_timestamp()) * 1000)::bigint FROM unnest(?1)";
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
#[derive(Default, Clone)]
struct Begin {
    lock: Option<Lock>,
    keys: Vec<i64>,
    ids: Vec<String>,
    labels: Vec<String>,
    /// Number of writes.
    writes: usize,
    /// Queries that the writes will make, mostly.
    ahead: Vec<Query>,
}

/// A transaction that was begun.
struct Begun<'c> {
    tx: PgTx<'c>,
    xid: i64,
    backend: i64,
}

/// How a transaction waits.
pub(super) struct Limits {
    /// For locks.
    lock: &'static str,
    /// The server, for the next statement.
    idle: &'static str,
    reads_by_key: bool,
}

impl Limits {
    /// A group waits for locks less long than its callers. A stopped process loses its locks.
    pub(super) const GROUP: Self = Self { lock: "5s", idle: "3s", reads_by_key: true };
    pub(super) const MAINTENANCE: Self = Self { lock: "15s", idle: "60s", reads_by_key: false };

    fn args(&self, local: bool) -> [Arg<'static>; 3] {
        [Arg::Text(self.lock), Arg::Text(self.idle), Arg::Bool(local)]
    }
}

/// A connection that writes. Only one thread uses it at a time.
pub(super) struct Writer {
    shared: Arc<Shared>,
    limits: Limits,
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
        let blobs = write.blobs().map(Query::of_blob);
        key.into_iter().chain(made).chain(blobs).collect()
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
    pub(super) fn new(shared: Arc<Shared>, limits: Limits) -> Self {
        let lane = (u128::from(ulid::Ulid::new()) >> 1) as u64 as i64;
        Self { shared, limits, conn: None, lane, written: 0 }
    }

    fn connect(&self) -> Result<Conn, Error> {
        let conn = self.shared.connect_writer()?;
        if conn.direct {
            conn.push(SETTINGS, &self.limits.args(false))?;
            if self.limits.reads_by_key {
                conn.push(PLANS, &[])?;
            }
            conn.run()?;
        }
        Ok(conn)
    }

    /// Runs a maintenance transaction, again if another transaction was in the way.
    pub(super) fn transact(
        &mut self,
        lock: Lock,
        change: &mut dyn FnMut(&mut PgTx<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let begin = Begin { lock: Some(lock), ..Begin::default() };
        self.repeated(|writer| {
            writer.transaction(begin.clone(), &mut |tx| change(tx).map(|()| ((), true)))
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
            match self.transaction(begin.clone(), &mut |tx| run_writes(tx, group, made)) {
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
            writer.transaction(begin.clone(), &mut |tx| run_writes(tx, &group, made))
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
    fn transaction<T>(&mut self, begin: Begin, run: Run<'_, T>) -> Result<T, Failure> {
        let conn = match self.conn.take() {
            Some(conn) => conn,
            None => self.connect().map_err(Failure::Final)?,
        };
        self.written += 1;
        let _ = conn.take_fault();
        let mut begun = match begin.send(&conn, &self.limits, &self.shared) {
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
        let (xid, backend) = (begun.xid, begun.backend);
        let sent = match stores {
            true => begun.tx.flush(|conn| {
                conn.push(MARK, &[Arg::Int(self.lane), Arg::Int(self.written)])?;
                conn.push(COMMIT, &[])
            }),
            false => Ok(()),
        };
        drop(begun);
        let Err(failed) = sent else {
            let ended = stores || (conn.push(ROLLBACK, &[]).is_ok() && conn.run_later().is_ok());
            self.conn = ended.then_some(conn);
            return Ok(done);
        };
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
        if conn.command(ROLLBACK).is_ok() {
            self.conn = Some(conn);
        }
        match fault {
            Some(Fault::Contended) => Failure::Contended(error),
            _ => Failure::Final(error),
        }
    }

    /// Whether the transaction was committed whose COMMIT got no answer. The server's record of
    /// the transaction shows whether it is over. The row of the lane shows how it ended: after a
    /// crash, another transaction may have got the number of one that was lost.
    fn was_committed(&mut self, xid: i64, backend: i64) -> Result<bool, Error> {
        let until = Instant::now() + OUTCOME_MAX;
        loop {
            let conn = self.connect()?;
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
        Ok(rows) => rows.first().is_some_and(|row| row.number(0) != 0),
        // After a crash, the number of a lost transaction may not be in use yet.
        Err(error) if conn.take_fault() == Some(Fault::Lost) => return Err(error),
        Err(_) => false,
    };
    if runs {
        conn.query(END, &args)?;
        return Ok(None);
    }
    let written = conn.query(WRITTEN, &[Arg::Int(lane)])?;
    Ok(Some(written.first().map_or(0, |row| row.number(0))))
}

impl Begin {
    /// What a group locks: the sessions and idempotency keys of its writes.
    fn of(writes: &[&PreparedWrite], made: &MadeQueries) -> Self {
        let ahead = writes.iter().flat_map(|write| made.expected(write)).collect();
        let mut begin = Self { writes: writes.len(), ahead, ..Self::default() };
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

    /// Begins the transaction: one pipeline. The locks of [`Lock`] come before every other lock,
    /// row numbers are drawn at the end.
    fn send<'c>(
        self,
        conn: &'c Conn,
        limits: &Limits,
        shared: &Shared,
    ) -> Result<Begun<'c>, Error> {
        let store = Arg::Int(LOCKS + Lock::Store as i64);
        conn.push(BEGIN, &[])?;
        let mut before = 2;
        if !conn.direct {
            conn.push(SETTINGS, &limits.args(true))?;
            before += 1;
        }
        match self.lock {
            Some(Lock::Store) => conn.push(EXCLUDE, &[store])?,
            Some(own) => {
                conn.push(SHARE, &[store])?;
                conn.push(EXCLUDE, &[Arg::Int(LOCKS + own as i64)])?;
                before += 1;
            }
            None => conn.push(SHARE, &[store])?,
        }
        if !self.keys.is_empty() {
            conn.push(EXCLUDE_KEYS, &[Arg::Ints(&self.keys)])?;
            before += 1;
        }
        let (ids, labels) = (Arg::Texts(&self.ids), Arg::Texts(&self.labels));
        let locks = match (self.ids.is_empty(), self.labels.is_empty()) {
            (true, true) => 0,
            (false, true) => conn.push(LOCK_IDS, &[ids]).map(|()| 1)?,
            (true, false) => conn.push(LOCK_LABELS, &[labels]).map(|()| 1)?,
            (false, false) => conn.push(LOCK_IDS_AND_LABELS, &[ids, labels]).map(|()| 1)?,
        };
        let assign = push_queries(conn, self.ahead)?;
        let blocks = vec![0; 1 + self.writes * NUMBERS_PER_WRITE / BLOCK as usize];
        conn.push(FACTS, &[Arg::Ints(&blocks)])?;
        let answers = conn.run()?.into_iter().map(|answer| answer.rows);
        let mut answers: Vec<_> = answers.skip(before).collect();
        let facts = answers.pop().unwrap_or_default();
        let Some(fact) = facts.first() else {
            return Err(Error::Internal("a SELECT without a row".to_owned()));
        };
        shared.clock.read(fact.number(4));
        let min_writer = fact.string(3).parse().unwrap_or(u32::MAX);
        if min_writer > SCHEMA {
            return Err(Error::TooNew { found: min_writer, known: SCHEMA });
        }
        let ahead = assign(answers.split_off(locks));
        let locked = answers.iter().flatten().map(|row| row.number(0)).collect();
        let drawn = facts.iter().map(|row| row.number(0)).collect();
        let tx = PgTx::new(conn, self.lock.is_none(), locked, drawn, ahead);
        Ok(Begun { tx, xid: fact.number(1), backend: fact.number(2) })
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
        });
        made.remember(write, tx.next_write());
    }
    let stores = |(write, outcome): (&&PreparedWrite, &Option<Result<Outcome, Error>>)| {
        outcome.as_ref().is_some_and(|outcome| !write::stores_nothing(write, outcome))
    };
    let stores = group.iter().zip(&outcomes).any(stores);
    Ok((outcomes, stores))
}
