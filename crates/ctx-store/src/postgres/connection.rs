//! A connection to PostgreSQL, used by one thread at a time, and what its errors mean.
//!
//! Each connection has a runtime of its own, which works only while a call waits: a thread that may
//! block sends statements, in one pipeline where that is possible, and waits for their answers.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::runtime::Runtime;
use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Config, Row, Statement};

use crate::Error;
use crate::driver::{Arg, ArgType};

use super::address::Address;
use super::db::{Owned, Query};
use super::dialect::{translate, with_row_number};

/// How long a caller waits for a server that does not accept connections, such as during a restart.
const RECONNECT_MAX: Duration = Duration::from_secs(5);
/// Pause between two attempts to connect.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);
/// How long answers may take, except those of a long read. It is above the limits of the server.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// What an error means for the transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The connection is gone, or of no use any more.
    Lost,
    /// Another transaction was in the way: run again, it may succeed.
    Contended,
    Other,
}

/// A statement in the dialect of the server.
#[derive(Clone)]
pub(super) struct Prepared {
    /// `None`: sent as text each time, for a pooler that does not know prepared statements.
    statement: Option<Statement>,
    text: Arc<str>,
    /// Whether the last parameter is that of [`super::dialect::Translated::settled`].
    pub(super) settled: bool,
}

/// What is sent in a pipeline.
pub(super) enum Request<'a> {
    Command(&'a str),
    Query(&'a Prepared, &'a [Arg<'a>]),
    Execute(&'a Prepared, &'a [Arg<'a>]),
}

/// The answer to a request.
#[derive(Default)]
pub(super) struct Answer {
    pub(super) rows: Vec<Row>,
    /// Number of rows that were changed.
    pub(super) changed: u64,
}

/// The first request that failed.
pub(super) struct Failed {
    /// The server has rejected a statement and goes on.
    pub(super) rejected: bool,
    pub(super) error: Error,
}

pub(super) struct Conn {
    runtime: Running,
    client: Client,
    address: Arc<Address>,
    unprepared: bool,
    statements: RefCell<HashMap<(usize, usize, bool), Prepared>>,
    fault: Cell<Option<Fault>>,
    answer_max: Cell<Duration>,
}

/// A runtime that may be dropped on a thread of another one.
struct Running(Option<Runtime>);

impl Running {
    fn wait_for<T>(&self, future: impl Future<Output = T>) -> T {
        self.0.as_ref().expect("it is taken by drop only").block_on(future)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Conn {
    /// Connects. A server that does not accept connections is tried again for a while.
    pub(super) fn open(address: &Arc<Address>) -> Result<Self, Error> {
        let until = Instant::now() + RECONNECT_MAX;
        loop {
            match Self::try_open(address) {
                Err((true, _)) if Instant::now() < until => std::thread::sleep(RECONNECT_PAUSE),
                opened => return opened.map_err(|(_, error)| error),
            }
        }
    }

    /// Connects once. An error comes with whether a later attempt may succeed.
    fn try_open(address: &Arc<Address>) -> Result<Self, (bool, Error)> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| (false, Error::from(e)))?;
        let connect = |config: &Config| runtime.block_on(config.connect(address.tls.clone()));
        let connected = match connect(&marked(&address.config)) {
            Err(e) if e.code() == Some(&SqlState::PROTOCOL_VIOLATION) => connect(&address.config),
            connected => connected,
        };
        let (client, connection) = connected.map_err(|e| {
            let passes = e.as_db_error().is_none_or(|db| {
                [SqlState::CANNOT_CONNECT_NOW, SqlState::TOO_MANY_CONNECTIONS].contains(db.code())
            });
            (passes, classified(address, &e).1)
        })?;
        runtime.spawn(async move {
            let _ = connection.await;
        });
        let mut conn = Self {
            runtime: Running(Some(runtime)),
            client,
            address: address.clone(),
            unprepared: true,
            statements: RefCell::default(),
            fault: Cell::new(None),
            answer_max: Cell::new(ANSWER_MAX),
        };
        let marked = conn.query("SELECT current_setting('ctx.direct', TRUE) = '1'", &[]);
        let marked = marked.map_err(|error| (true, error))?;
        conn.unprepared = marked.first().and_then(|row| row.get(0)) != Some(true);
        conn.statements = RefCell::default();
        Ok(conn)
    }

    /// The fault that was found since the last call.
    pub(super) fn take_fault(&self) -> Option<Fault> {
        self.fault.take()
    }

    /// Sets how long answers may take: any time for a long read.
    pub(super) fn set_long(&self, long: bool) {
        self.answer_max.set(if long { Duration::MAX } else { ANSWER_MAX });
    }

    /// A shared statement; with `numbered`, with the number of the row that it inserts.
    pub(super) fn prepare(
        &self,
        sql: &'static str,
        args: &[Arg<'_>],
        numbered: bool,
    ) -> Result<Prepared, Error> {
        let key = (sql.as_ptr() as usize, sql.len(), numbered);
        if let Some(known) = self.statements.borrow().get(&key) {
            return Ok(known.clone());
        }
        let mut types: Vec<Type> = args.iter().map(type_of).collect();
        let translated = match numbered {
            true => translate(&with_row_number(sql, args.len()), args.len() + 1),
            false => translate(sql, args.len()),
        };
        types.extend((numbered || translated.settled).then_some(Type::INT8));
        let statement = match self.unprepared {
            true => None,
            false => Some(self.wait(self.client.prepare_typed(&translated.text, &types))?),
        };
        let prepared =
            Prepared { statement, text: translated.text.into(), settled: translated.settled };
        self.statements.borrow_mut().insert(key, prepared.clone());
        Ok(prepared)
    }

    /// A statement that is not kept.
    pub(super) fn prepare_text(&self, text: &str) -> Result<Prepared, Error> {
        let statement = match self.unprepared {
            true => None,
            false => Some(self.wait(self.client.prepare(text))?),
        };
        Ok(Prepared { statement, text: text.into(), settled: false })
    }

    /// Sends statements without parameters, and waits for the last.
    pub(super) fn command(&self, sql: &str) -> Result<(), Error> {
        self.wait(self.client.batch_execute(sql))
    }

    /// Runs a shared statement alone.
    pub(super) fn query(&self, sql: &'static str, args: &[Arg<'_>]) -> Result<Vec<Row>, Error> {
        let statement = self.prepare(sql, args, false)?;
        let answers = self.send(&[Request::Query(&statement, args)]);
        Ok(answers.map_err(|failed| failed.error)?.pop().unwrap_or_default().rows)
    }

    /// Runs shared statements in one pipeline, and returns the rows of each.
    pub(super) fn query_all(&self, queries: &[Query]) -> Result<Vec<Vec<Row>>, Error> {
        let prepared: Vec<(Prepared, Vec<Arg<'_>>)> = queries
            .iter()
            .map(|query| {
                let args: Vec<Arg<'_>> = query.args.iter().map(Owned::as_arg).collect();
                Ok((self.prepare(query.sql, &args, false)?, args))
            })
            .collect::<Result<_, Error>>()?;
        let requests: Vec<Request<'_>> =
            prepared.iter().map(|(one, args)| Request::Query(one, args)).collect();
        let answers = self.send(&requests).map_err(|failed| failed.error)?;
        Ok(answers.into_iter().map(|answer| answer.rows).collect())
    }

    /// Sends requests in one pipeline, and returns their answers.
    pub(super) fn send(&self, requests: &[Request<'_>]) -> Result<Vec<Answer>, Failed> {
        let answers = self.runtime.wait_for(async {
            let sent = pipelined(requests.iter().map(|request| self.answer(request)).collect());
            tokio::time::timeout(self.answer_max.get(), sent).await
        });
        match answers {
            Ok(Ok(answers)) => Ok(answers),
            Ok(Err(error)) => {
                let severity = error.as_db_error().and_then(|db| db.parsed_severity());
                let error = self.failed(&error);
                let lost = self.fault.get() == Some(Fault::Lost);
                Err(Failed { rejected: severity == Some(Severity::Error) && !lost, error })
            }
            Err(_) => Err(Failed { rejected: false, error: self.timed_out() }),
        }
    }

    fn wait<T>(
        &self,
        answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Error> {
        let limited = async { tokio::time::timeout(self.answer_max.get(), answer).await };
        match self.runtime.wait_for(limited) {
            Ok(answer) => answer.map_err(|e| self.failed(&e)),
            Err(_) => Err(self.timed_out()),
        }
    }

    async fn answer(&self, request: &Request<'_>) -> Result<Answer, tokio_postgres::Error> {
        let mut answer = Answer::default();
        match request {
            Request::Command(sql) => self.client.batch_execute(sql).await?,
            Request::Query(Prepared { statement: Some(statement), .. }, args) => {
                answer.rows = self.client.query(statement, &untyped(args)).await?;
            }
            Request::Execute(Prepared { statement: Some(statement), .. }, args) => {
                answer.changed = self.client.execute(statement, &untyped(args)).await?;
            }
            Request::Query(Prepared { text, .. }, args) => {
                answer.rows = self.client.query_typed(text, &typed(args)).await?;
            }
            Request::Execute(Prepared { text, .. }, args) => {
                answer.changed = self.client.execute_typed(text, &typed(args)).await?;
            }
        }
        Ok(answer)
    }

    fn failed(&self, error: &tokio_postgres::Error) -> Error {
        let (fault, error) = classified(&self.address, error);
        // The first fault is the cause of those that follow.
        if self.fault.get().is_none_or(|known| known == Fault::Other) {
            self.fault.set(Some(fault));
        }
        error
    }

    fn timed_out(&self) -> Error {
        self.fault.set(Some(Fault::Lost));
        Error::Unavailable(format!("{} does not answer", self.address.name()))
    }
}

/// Adds a mark that only the server of a direct connection sees. A pooler refuses or drops it; its
/// servers change between transactions, and statements that other clients have prepared there under
/// the same names would be executed.
fn marked(config: &Config) -> Config {
    let mut marked = config.clone();
    let options = config.get_options().unwrap_or_default();
    marked.options(format!("{options} -c ctx.direct=1"));
    marked
}

/// Sends all requests before it waits for the first answer.
async fn pipelined<'a, T: 'a>(
    requests: Vec<impl Future<Output = Result<T, tokio_postgres::Error>> + 'a>,
) -> Result<Vec<T>, tokio_postgres::Error> {
    let mut pending: Vec<Pin<Box<_>>> = requests.into_iter().map(Box::pin).collect();
    let mut early: Vec<Option<Result<T, _>>> = Vec::with_capacity(pending.len());
    poll_fn(|context| {
        for request in &mut pending {
            early.push(match request.as_mut().poll(context) {
                Poll::Ready(answer) => Some(answer),
                Poll::Pending => None,
            });
        }
        Poll::Ready(())
    })
    .await;
    let mut answers = Vec::with_capacity(pending.len());
    for (request, early) in pending.into_iter().zip(early) {
        let answer = match early {
            Some(answer) => answer,
            None => request.await,
        };
        answers.push(answer?);
    }
    Ok(answers)
}

/// What an error means, and the error that callers get. It names the place, never the password.
fn classified(address: &Address, error: &tokio_postgres::Error) -> (Fault, Error) {
    let Some(db) = error.as_db_error() else {
        let mut text = format!("{}: {error}", address.name());
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            text.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        return (Fault::Lost, Error::Unavailable(text));
    };
    let text = format!("{}: {}", address.name(), db.message());
    let code = db.code().code();
    match code {
        "40001" | "40P01" | "55P03" | "23505" | "23503" => {
            (Fault::Contended, Error::Unavailable(text))
        }
        "25P03" | "57P01" | "57P02" | "57P03" | "57P05" => (Fault::Lost, Error::Unavailable(text)),
        "53100" => (Fault::Other, Error::Full),
        "25006" | "42501" => (Fault::Other, Error::ReadOnly(text)),
        "XX001" | "XX002" => (Fault::Other, Error::Damaged(text)),
        _ => match &code[..2] {
            "08" => (Fault::Lost, Error::Unavailable(text)),
            // Resources, credentials, a database that does not exist, an operator's intervention.
            "53" | "28" | "3D" | "57" => (Fault::Other, Error::Unavailable(text)),
            _ => (Fault::Other, Error::Internal(format!("{text} ({code})"))),
        },
    }
}

fn type_of(arg: &Arg<'_>) -> Type {
    let kind = match arg {
        Arg::Null(kind) => *kind,
        Arg::Int(_) | Arg::Bool(_) => ArgType::Int,
        Arg::Text(_) => ArgType::Text,
        Arg::Bytes(_) => ArgType::Bytes,
        Arg::Ints(_) => ArgType::Ints,
        Arg::Texts(_) => ArgType::Texts,
    };
    match kind {
        ArgType::Int => Type::INT8,
        ArgType::Text => Type::TEXT,
        ArgType::Bytes => Type::BYTEA,
        ArgType::Ints => Type::INT8_ARRAY,
        ArgType::Texts => Type::TEXT_ARRAY,
    }
}

fn untyped<'a>(args: &'a [Arg<'a>]) -> Vec<&'a (dyn ToSql + Sync)> {
    args.iter().map(|arg| arg as &(dyn ToSql + Sync)).collect()
}

fn typed<'a>(args: &'a [Arg<'a>]) -> Vec<(&'a (dyn ToSql + Sync), Type)> {
    args.iter().map(|arg| (arg as &(dyn ToSql + Sync), type_of(arg))).collect()
}

impl ToSql for Arg<'_> {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Arg::Null(_) => Ok(IsNull::Yes),
            Arg::Int(value) => value.to_sql(ty, out),
            Arg::Bool(value) => i64::from(*value).to_sql(ty, out),
            // A text has no NUL here. No rule accepts one; a lookup with one finds nothing.
            Arg::Text(value) if value.contains('\0') => {
                value.replace('\0', "\u{10FFFF}").to_sql(ty, out)
            }
            Arg::Text(value) => value.to_sql(ty, out),
            Arg::Bytes(value) => value.to_sql(ty, out),
            Arg::Ints(values) => values.to_sql(ty, out),
            Arg::Texts(values) if values.iter().any(|value| value.contains('\0')) => {
                let replaced = values.iter().map(|value| value.replace('\0', "\u{10FFFF}"));
                replaced.collect::<Vec<_>>().to_sql(ty, out)
            }
            Arg::Texts(values) => values.to_sql(ty, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}
