//! A connection to PostgreSQL, used by one thread at a time, and what its errors mean.
//!
//! Statements are collected in a pipeline: one write, one read. An error of one of them skips those
//! that follow.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;
use postgres_protocol::{IsNull, Oid};

use crate::Error;
use crate::driver::{Arg, ArgType};

use super::address::Address;
use super::dialect::{self, Form};
use super::socket::{NotConnected, Report, Socket};
use super::values::{Owned, Row, encode, encode_list, list_of, oid, type_of};

/// How long a caller waits for a server that does not accept connections, such as during a restart.
const RECONNECT_MAX: Duration = Duration::from_secs(5);
/// Pause between two attempts to connect.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);
/// How long an answer may take, except those of a long read. It is above the limits of the server.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Bytes of statements with answers that are sent before these are read: a server whose answers
/// are not read does not read either.
const PART_BYTES: usize = 1 << 15;

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
pub(super) struct Statement {
    /// Empty for a pooler that does not know prepared statements: sent as text each time.
    name: String,
    text: String,
    types: Vec<Oid>,
    parsed: AtomicBool,
    /// Whether the last parameter is that of [`dialect::Translated::settled`].
    pub(super) settled: bool,
}

type Statements = HashMap<(usize, usize, Form), Option<Arc<Statement>>>;

/// The answer to a statement.
#[derive(Default)]
pub(super) struct Answer {
    pub(super) rows: Vec<Row>,
    /// Number of rows that were changed.
    pub(super) changed: u64,
}

/// The first statement of a pipeline that failed.
pub(super) struct Failed {
    /// The server has rejected a statement and accepts further ones.
    pub(super) rejected: bool,
    pub(super) error: Error,
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        failed.error
    }
}

/// The pipeline that is being collected.
#[derive(Default)]
struct Pipeline {
    /// Statements that the server prepares, in the order of its answers.
    parsing: Vec<Arc<Statement>>,
    answers: Vec<Answer>,
    current: Answer,
    /// Statements that are not answered yet.
    unanswered: usize,
    report: Option<Report>,
}

pub(super) struct Conn {
    socket: RefCell<Socket>,
    pipeline: RefCell<Pipeline>,
    /// A pipeline whose answers are not read yet.
    dropped: Cell<Option<Pipeline>>,
    address: Arc<Address>,
    /// Whether the server is connected without a pooler.
    pub(super) direct: bool,
    /// Statements by the address of their text; `None` if there is none in the form.
    statements: RefCell<Statements>,
    fault: Cell<Option<Fault>>,
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
    pub(super) fn try_open(address: &Arc<Address>) -> Result<Self, (bool, Error)> {
        let opened = match Socket::open(address, true) {
            // A pooler that refuses the mark.
            Err(NotConnected::Refused(report)) if report.code == "08P01" => {
                Socket::open(address, false)
            }
            opened => opened,
        };
        let mut socket = opened.map_err(|failed| match failed {
            NotConnected::Refused(report) => {
                let passes = matches!(&*report.code, "57P03" | "53300");
                (passes, classified(address, &report).1)
            }
            NotConnected::Failed(error) => {
                let refused = [ErrorKind::InvalidData, ErrorKind::Other];
                (!refused.contains(&error.kind()), unreachable(address, &error))
            }
        })?;
        socket.set_timeout(Some(ANSWER_MAX)).map_err(|e| (true, unreachable(address, &e)))?;
        let mut conn = Self {
            socket: RefCell::new(socket),
            pipeline: RefCell::default(),
            dropped: Cell::default(),
            address: address.clone(),
            direct: false,
            statements: RefCell::default(),
            fault: Cell::new(None),
        };
        // Only the server of a direct connection sees the mark. The servers behind a pooler change
        // between transactions, and statements that other clients have prepared there under the
        // same names would be executed.
        let marked = conn.query("SELECT current_setting('ctx.direct', TRUE) = '1'", &[]);
        let marked = marked.map_err(|error| (true, error))?;
        conn.direct = marked.first().is_some_and(|row| row.number(0) == 1);
        conn.statements = RefCell::default();
        Ok(conn)
    }

    /// The fault that was found since the last call.
    pub(super) fn take_fault(&self) -> Option<Fault> {
        self.fault.take()
    }

    /// Sets how long answers may take: any time for a long read.
    pub(super) fn set_long(&self, long: bool) {
        let timeout = if long { None } else { Some(ANSWER_MAX) };
        let _ = self.socket.borrow_mut().set_timeout(timeout);
    }

    /// A shared statement in a form; `None` if it has no such form.
    pub(super) fn statement(
        &self,
        sql: &'static str,
        types: &[ArgType],
        form: Form,
    ) -> Option<Arc<Statement>> {
        let key = (sql.as_ptr() as usize, sql.len(), form);
        let mut statements = self.statements.borrow_mut();
        let number = statements.len();
        let statement = || {
            let translated = dialect::translate(sql, types, form)?;
            let mut oids: Vec<Oid> = match form.merged {
                false => types.iter().map(|kind| oid(*kind)).collect(),
                true => types.iter().filter_map(|kind| Some(list_of(*kind)?.0)).collect(),
            };
            oids.extend(translated.settled.then_some(oid(ArgType::Int)));
            let verb = translated.text.split([' ', '\n']).next().unwrap_or_default();
            Some(Arc::new(Statement {
                name: if self.direct { format!("{number} {verb}") } else { String::new() },
                types: oids,
                parsed: AtomicBool::new(false),
                settled: translated.settled,
                text: translated.text,
            }))
        };
        statements.entry(key).or_insert_with(statement).clone()
    }

    /// Adds a shared statement to the pipeline.
    pub(super) fn push(&self, sql: &'static str, args: &[Arg<'_>]) -> Result<(), Error> {
        let types: Vec<ArgType> = args.iter().map(type_of).collect();
        let statement = self.plain(sql, &types)?;
        self.push_statement(&statement, args.len(), |n, out| encode(&args[n], out))
    }

    /// A shared statement as it is.
    pub(super) fn plain(
        &self,
        sql: &'static str,
        types: &[ArgType],
    ) -> Result<Arc<Statement>, Error> {
        let statement = self.statement(sql, types, Form::default());
        statement.ok_or_else(|| Error::Internal("a statement without a form".to_owned()))
    }

    /// Adds a statement with the parameters of several rows to the pipeline.
    pub(super) fn push_rows(
        &self,
        statement: &Arc<Statement>,
        types: &[ArgType],
        rows: &[&[Owned]],
    ) -> Result<(), Error> {
        self.push_statement(statement, types.len(), |n, out| {
            encode_list(types[n], rows.iter().map(|row| row[n].as_arg()), out);
            IsNull::No
        })
    }

    /// Adds a statement to the pipeline. `encode` writes a parameter by its number.
    pub(super) fn push_statement(
        &self,
        statement: &Arc<Statement>,
        args: usize,
        mut encode: impl FnMut(usize, &mut bytes::BytesMut) -> IsNull,
    ) -> Result<(), Error> {
        let mut pipeline = self.pipeline.borrow_mut();
        let written = {
            let out = &mut self.socket.borrow_mut().output;
            let parsing = pipeline.parsing.iter().any(|one| Arc::ptr_eq(one, statement));
            if statement.name.is_empty() || (!statement.parsed.load(Ordering::Relaxed) && !parsing)
            {
                let types = statement.types.iter().copied();
                frontend::parse(&statement.name, &statement.text, types, out)?;
                pipeline.parsing.push(statement.clone());
            }
            let bound = frontend::bind(
                "",
                &statement.name,
                [1],
                0..args,
                |n, out| Ok(encode(n, out)),
                [1],
                out,
            );
            bound.map_err(|_| Error::Internal("a parameter is too large".to_owned()))?;
            frontend::execute("", 0, out)?;
            out.len()
        };
        pipeline.unanswered += 1;
        let answers = statement.text.starts_with("SELECT") || statement.text.starts_with("WITH");
        if answers && written > PART_BYTES {
            frontend::flush(&mut self.socket.borrow_mut().output);
            self.receive(&mut pipeline, false).map_err(|failed| failed.error)?;
        }
        Ok(())
    }

    /// Adds a statement of any text to the pipeline. It is not kept.
    pub(super) fn push_text(&self, text: &str) -> Result<(), Error> {
        let statement = Arc::new(Statement {
            name: String::new(),
            text: text.to_owned(),
            types: Vec::new(),
            parsed: AtomicBool::new(false),
            settled: false,
        });
        self.push_statement(&statement, 0, |_, _| IsNull::Yes)
    }

    /// Size of the pipeline.
    pub(super) fn unsent_bytes(&self) -> usize {
        self.socket.borrow().output.len()
    }

    /// Sends the pipeline, and returns the answer to each statement.
    pub(super) fn run(&self) -> Result<Vec<Answer>, Failed> {
        let mut pipeline = self.pipeline.take();
        frontend::sync(&mut self.socket.borrow_mut().output);
        self.receive(&mut pipeline, true)?;
        match pipeline.report {
            None => Ok(pipeline.answers),
            Some(report) => Err(self.failed(&report)),
        }
    }

    fn failed(&self, report: &Report) -> Failed {
        let (fault, error) = classified(&self.address, report);
        let fault = if report.fatal { Fault::Lost } else { fault };
        self.found(fault);
        Failed { rejected: fault != Fault::Lost, error }
    }

    /// Sends what is collected, and reads answers: up to the end of the pipeline, or those to the
    /// statements so far.
    fn receive(&self, pipeline: &mut Pipeline, to_end: bool) -> Result<(), Failed> {
        if let Some(mut dropped) = self.dropped.take() {
            self.receive(&mut dropped, true)?;
        }
        let mut socket = self.socket.borrow_mut();
        let lost = |error: &std::io::Error| {
            self.found(Fault::Lost);
            Failed { rejected: false, error: unreachable(&self.address, error) }
        };
        // What the server says before it closes a connection is worth more than a failed write.
        let flushed = socket.flush();
        let mut parsed = 0;
        while to_end || (pipeline.unanswered > 0 && pipeline.report.is_none()) {
            let message = match socket.next() {
                Ok(message) => message,
                // The server has reported why it closes the connection.
                Err(_) if pipeline.report.is_some() => break,
                Err(error) => return Err(lost(flushed.as_ref().err().unwrap_or(&error))),
            };
            match message {
                Message::ParseComplete => {
                    pipeline.parsing[parsed].parsed.store(true, Ordering::Relaxed);
                    parsed += 1;
                }
                Message::DataRow(body) => {
                    pipeline.current.rows.push(Row::new(body.buffer_bytes().clone()));
                }
                Message::CommandComplete(body) => {
                    let mut answer = std::mem::take(&mut pipeline.current);
                    let tag = body.tag().map_err(|e| lost(&e))?;
                    let changed = tag.rsplit(' ').next().and_then(|number| number.parse().ok());
                    answer.changed = changed.unwrap_or(0);
                    pipeline.answers.push(answer);
                    pipeline.unanswered = pipeline.unanswered.saturating_sub(1);
                }
                Message::ErrorResponse(body) => {
                    pipeline.report = pipeline.report.take().or(Some(Report::of(&body)));
                }
                Message::ReadyForQuery(_) => break,
                _ => {}
            }
        }
        pipeline.parsing.drain(..parsed);
        Ok(())
    }

    /// Sends statements without parameters, and waits for the last.
    pub(super) fn command(&self, sql: &str) -> Result<(), Error> {
        let query = frontend::query(sql, &mut self.socket.borrow_mut().output);
        query?;
        let mut pipeline = Pipeline::default();
        self.receive(&mut pipeline, true)?;
        pipeline.report.map_or(Ok(()), |report| Err(self.failed(&report).error))
    }

    /// Sends the pipeline without waiting: its answers are dropped before those of the next one.
    pub(super) fn run_later(&self) -> Result<(), Error> {
        let dropped = self.pipeline.take();
        let mut socket = self.socket.borrow_mut();
        frontend::sync(&mut socket.output);
        socket.flush().map_err(|error| {
            self.found(Fault::Lost);
            unreachable(&self.address, &error)
        })?;
        self.dropped.set(Some(dropped));
        Ok(())
    }

    /// Runs a shared statement alone.
    pub(super) fn query(&self, sql: &'static str, args: &[Arg<'_>]) -> Result<Vec<Row>, Error> {
        self.push(sql, args)?;
        Ok(self.run()?.pop().unwrap_or_default().rows)
    }

    /// Remembers the first fault, the cause of those that follow.
    fn found(&self, fault: Fault) {
        if self.fault.get().is_none_or(|known| known == Fault::Other) {
            self.fault.set(Some(fault));
        }
    }

    /// Waits for the next notification: its text, or nothing after a while.
    pub(super) fn notification(&self, wait: Duration) -> Result<Option<String>, Error> {
        let mut socket = self.socket.borrow_mut();
        let lost = |error| unreachable(&self.address, &error);
        socket.set_timeout(Some(wait)).map_err(lost)?;
        loop {
            match socket.next() {
                Ok(Message::NotificationResponse(body)) => {
                    return Ok(Some(body.message().map_err(lost)?.to_owned()));
                }
                Ok(Message::ErrorResponse(body)) => {
                    return Err(classified(&self.address, &Report::of(&body)).1);
                }
                Ok(_) => {}
                Err(error) if is_timeout(&error) => return Ok(None),
                Err(error) => return Err(lost(error)),
            }
        }
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// The error of a connection that failed. It names the place, never the password.
fn unreachable(address: &Address, error: &std::io::Error) -> Error {
    let name = address.name();
    match is_timeout(error) {
        true => Error::Unavailable(format!("{name} does not answer")),
        false => Error::Unavailable(format!("{name}: {error}")),
    }
}

/// What an error of the server means, and the error that callers get.
fn classified(address: &Address, report: &Report) -> (Fault, Error) {
    let text = format!("{}: {}", address.name(), report.message);
    let code = &*report.code;
    match code {
        "40001" | "40P01" | "55P03" | "23505" | "23503" => {
            (Fault::Contended, Error::Unavailable(text))
        }
        "25P03" | "57P01" | "57P02" | "57P03" | "57P05" => (Fault::Lost, Error::Unavailable(text)),
        "53100" => (Fault::Other, Error::Full),
        // A server that became a standby: the address may lead to another one now.
        "25006" => (Fault::Lost, Error::ReadOnly(text)),
        "0A000" if report.message.contains("recovery") => (Fault::Lost, Error::ReadOnly(text)),
        "42501" => (Fault::Other, Error::ReadOnly(text)),
        "XX001" | "XX002" => (Fault::Other, Error::Damaged(text)),
        _ => match code.get(..2).unwrap_or_default() {
            "08" => (Fault::Lost, Error::Unavailable(text)),
            // Resources, credentials, a database that does not exist, an operator's intervention.
            "53" | "28" | "3D" | "57" => (Fault::Other, Error::Unavailable(text)),
            _ => (Fault::Other, Error::Internal(format!("{text} ({code})"))),
        },
    }
}
