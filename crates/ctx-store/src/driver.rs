//! The interface between the relational layer and a database.
//!
//! All SQL that both databases share is written once, above this interface ([`crate::relational`]).
//! A driver executes it: [`Db`] reads one snapshot, [`Tx`] adds writes, [`Driver`] opens both. The
//! calls are synchronous; a driver runs them on a thread that may block.
//!
//! A statement is a `&'static str` with numbered parameters (`?1`). A driver may cache prepared
//! statements under the address of the text. There are two dialect markers: `IN LIST(?1)`, whose
//! parameter is a list of values ([`Arg::Ints`], [`Arg::Texts`]); and `/*pg … */`, a comment for
//! SQLite whose content is part of the statement for PostgreSQL. A boolean parameter is an integer.

use std::ops::Range;
use std::path::Path;
use std::time::SystemTime;

use async_trait::async_trait;
use ctx_core::id::{NodeId, ObjectId};
use ctx_core::object::Kind;
use ctx_core::time::{Span, Timestamp};
use tokio::sync::mpsc;

use crate::pack::{Packed, unpack};
use crate::transition::{Stored, Transition};
use crate::{Error, Write};

/// The tables whose rows are identified by a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Table {
    Turns = 0,
    Steps = 1,
    Commits = 2,
    Blobs = 3,
}

impl Table {
    pub(crate) const ALL: [Table; 4] = [Table::Turns, Table::Steps, Table::Commits, Table::Blobs];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Table::Turns => "turns",
            Table::Steps => "steps",
            Table::Commits => "commits",
            Table::Blobs => "blobs",
        }
    }

    pub(crate) const fn kind(self) -> Kind {
        match self {
            Table::Turns => Kind::Turn,
            Table::Steps => Kind::Step,
            Table::Commits => Kind::Commit,
            Table::Blobs => Kind::Blob,
        }
    }
}

/// Location of a stored body: the columns `seg, off, len, packing, size` of its row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) seg: i64,
    pub(crate) off: i64,
    /// Stored length in bytes.
    pub(crate) len: i64,
    pub(crate) packing: u8,
    /// Length in bytes after unpacking.
    pub(crate) size: i64,
}

/// Selects rows of a [`Table`] by their hash.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HashQuery<'a> {
    Exact(ObjectId),
    /// Lower-case hex digits.
    Prefix(&'a str),
}

/// A statement parameter.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Arg<'a> {
    Null(ArgType),
    Int(i64),
    Bool(bool),
    Text(&'a str),
    Bytes(&'a [u8]),
    Ints(&'a [i64]),
    Texts(&'a [String]),
}

/// The type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ArgType {
    Int,
    Text,
    Bytes,
    Ints,
    Texts,
}

/// A type whose values are parameters of one type.
pub(crate) trait Typed {
    const TYPE: ArgType;
}

macro_rules! arg_from {
    ($($from:ty: $kind:ident => |$value:ident| $arg:expr),+ $(,)?) => {
        $(impl<'a> From<$from> for Arg<'a> {
            fn from($value: $from) -> Self {
                $arg
            }
        }

        impl<'a> Typed for $from {
            const TYPE: ArgType = ArgType::$kind;
        })+
    };
}

arg_from! {
    i64: Int => |value| Arg::Int(value),
    u64: Int => |value| Arg::Int(value.cast_signed()),
    u16: Int => |value| Arg::Int(i64::from(value)),
    u8: Int => |value| Arg::Int(i64::from(value)),
    bool: Int => |value| Arg::Bool(value),
    &'a str: Text => |value| Arg::Text(value),
    &'a String: Text => |value| Arg::Text(value),
    &'a [u8; 32]: Bytes => |value| Arg::Bytes(value),
    &'a ObjectId: Bytes => |value| Arg::Bytes(value.as_bytes()),
    &'a [i64]: Ints => |value| Arg::Ints(value),
    &'a Vec<i64>: Ints => |value| Arg::Ints(value),
    &'a [String]: Texts => |value| Arg::Texts(value),
    Timestamp: Int => |value| Arg::Int(value.0),
}

impl<'a, T: Into<Arg<'a>> + Typed> From<Option<T>> for Arg<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Arg::Null(T::TYPE), Into::into)
    }
}

/// Builds a slice of [`Arg`] from values.
macro_rules! args {
    ($($value:expr),* $(,)?) => {
        &[$($crate::driver::Arg::from($value)),*]
    };
}
pub(crate) use args;

/// A page size as a statement parameter.
pub(crate) fn limit_arg(limit: usize) -> Arg<'static> {
    Arg::Int(i64::try_from(limit).unwrap_or(i64::MAX))
}

/// The columns of one result row.
pub(crate) trait Cells {
    fn int(&self, column: usize) -> Result<Option<i64>, Error>;
    fn text(&self, column: usize) -> Result<Option<&str>, Error>;
    fn bytes(&self, column: usize) -> Result<Option<&[u8]>, Error>;
}

/// One result row, read by column number from 0.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a>(pub(crate) &'a dyn Cells);

impl<'a> Row<'a> {
    pub(crate) fn get<T: FromCell<'a>>(&self, column: usize) -> Result<T, Error> {
        T::read(self.0, column)
    }

    /// Reads `seg, off, len, packing, size` from five columns; `None` if the body was purged.
    pub(crate) fn place(&self, first: usize) -> Result<Option<Place>, Error> {
        let Some(seg) = self.get(first)? else { return Ok(None) };
        Ok(Some(Place {
            seg,
            off: self.get(first + 1)?,
            len: self.get(first + 2)?,
            packing: self.get(first + 3)?,
            size: self.get(first + 4)?,
        }))
    }
}

/// A type that a column can be read as. A column that does not fit is [`Error::Damaged`].
pub(crate) trait FromCell<'a>: Sized {
    fn read(cells: &'a dyn Cells, column: usize) -> Result<Self, Error>;
}

fn unexpected(column: usize, expected: &str) -> Error {
    Error::Damaged(format!("column {column} of a row is not {expected}"))
}

impl<'a> FromCell<'a> for i64 {
    fn read(cells: &'a dyn Cells, column: usize) -> Result<Self, Error> {
        cells.int(column)?.ok_or_else(|| unexpected(column, "an integer"))
    }
}

macro_rules! integer_cell {
    ($($ty:ty),+) => {
        $(impl<'a> FromCell<'a> for $ty {
            fn read(cells: &'a dyn Cells, column: usize) -> Result<Self, Error> {
                let value = i64::read(cells, column)?;
                value.try_into().map_err(|_| unexpected(column, stringify!($ty)))
            }
        })+
    };
}

integer_cell!(u64, u16, u8, usize);

impl<'a> FromCell<'a> for bool {
    fn read(cells: &'a dyn Cells, column: usize) -> Result<Self, Error> {
        Ok(i64::read(cells, column)? != 0)
    }
}

impl<'a> FromCell<'a> for Timestamp {
    fn read(cells: &'a dyn Cells, column: usize) -> Result<Self, Error> {
        i64::read(cells, column).map(Timestamp)
    }
}

impl<'a> FromCell<'a> for &'a str {
    fn read(cells: &'a dyn Cells, column: usize) -> Result<Self, Error> {
        cells.text(column)?.ok_or_else(|| unexpected(column, "text"))
    }
}

impl<'a> FromCell<'a> for String {
    fn read(cells: &'a dyn Cells, column: usize) -> Result<Self, Error> {
        <&str>::read(cells, column).map(str::to_owned)
    }
}

impl<'a> FromCell<'a> for &'a [u8] {
    fn read(cells: &'a dyn Cells, column: usize) -> Result<Self, Error> {
        cells.bytes(column)?.ok_or_else(|| unexpected(column, "bytes"))
    }
}

impl<'a> FromCell<'a> for ObjectId {
    fn read(cells: &'a dyn Cells, column: usize) -> Result<Self, Error> {
        object_id(<&[u8]>::read(cells, column)?)
    }
}

fn object_id(bytes: &[u8]) -> Result<ObjectId, Error> {
    let damaged = |_| Error::Damaged("a stored hash does not have 32 bytes".to_owned());
    Ok(ObjectId::from_bytes(bytes.try_into().map_err(damaged)?))
}

macro_rules! optional_cell {
    ($($ty:ty: $cell:ident => |$value:ident, $column:ident| $read:expr),+ $(,)?) => {
        $(impl<'a> FromCell<'a> for Option<$ty> {
            fn read(cells: &'a dyn Cells, $column: usize) -> Result<Self, Error> {
                cells.$cell($column)?.map(|$value| $read).transpose()
            }
        })+
    };
}

optional_cell! {
    i64: int => |value, column| Ok(value),
    u64: int => |value, column| value.try_into().map_err(|_| unexpected(column, "u64")),
    bool: int => |value, column| Ok(value != 0),
    Timestamp: int => |value, column| Ok(Timestamp(value)),
    &'a str: text => |value, column| Ok(value),
    String: text => |value, column| Ok(value.to_owned()),
    ObjectId: bytes => |value, column| object_id(value),
}

/// Read access inside one snapshot.
pub(crate) trait Db {
    /// Runs a query and calls `each` for every row, in order.
    fn query(
        &self,
        sql: &'static str,
        args: &[Arg<'_>],
        each: &mut dyn FnMut(Row<'_>) -> Result<(), Error>,
    ) -> Result<(), Error>;

    /// The rows of a table with a hash, or with hashes of a prefix, at most `limit`.
    fn locate(
        &self,
        table: Table,
        hash: HashQuery<'_>,
        limit: usize,
    ) -> Result<Vec<(i64, ObjectId)>, Error>;

    /// Reads the stored bytes of bodies, as [`crate::pack`] made them, into an empty buffer.
    /// Returns the range of each body, in the order of their places.
    fn packed(&self, places: &[Place], buffer: &mut Vec<u8>) -> Result<Vec<Range<usize>>, Error>;
}

impl dyn Db + '_ {
    /// Every row of a query.
    pub(crate) fn rows<T>(
        &self,
        sql: &'static str,
        args: &[Arg<'_>],
        mut read: impl FnMut(Row<'_>) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let mut rows = Vec::new();
        self.query(sql, args, &mut |row| {
            rows.push(read(row)?);
            Ok(())
        })?;
        Ok(rows)
    }

    /// The first row of a query.
    pub(crate) fn row<T>(
        &self,
        sql: &'static str,
        args: &[Arg<'_>],
        mut read: impl FnMut(Row<'_>) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        let mut first = None;
        self.query(sql, args, &mut |row| {
            if first.is_none() {
                first = Some(read(row)?);
            }
            Ok(())
        })?;
        Ok(first)
    }

    /// The integer in the first column of the first row.
    pub(crate) fn int(&self, sql: &'static str, args: &[Arg<'_>]) -> Result<Option<i64>, Error> {
        Ok(self.row(sql, args, |row| row.get::<Option<i64>>(0))?.flatten())
    }

    /// Whether a query that selects one boolean selects true.
    pub(crate) fn is_true(&self, sql: &'static str, args: &[Arg<'_>]) -> Result<bool, Error> {
        Ok(self.int(sql, args)?.unwrap_or(0) != 0)
    }

    /// The unpacked bytes of a body. The caller checks them against their hash.
    pub(crate) fn body(&self, place: &Place) -> Result<Vec<u8>, Error> {
        let mut packed = Vec::new();
        self.packed(std::slice::from_ref(place), &mut packed)?;
        unpack(packed.into(), place.packing, place.size)
    }

    /// The row of an object.
    pub(crate) fn locate_one(&self, table: Table, id: ObjectId) -> Result<Option<i64>, Error> {
        Ok(self.locate(table, HashQuery::Exact(id), 1)?.first().map(|(row, _)| *row))
    }
}

/// Write access inside one transaction. A driver may queue writes and send them with COMMIT.
pub(crate) trait Tx: Db {
    /// Executes a statement that inserts one row, and returns the row's number.
    fn insert(&mut self, sql: &'static str, args: &[Arg<'_>]) -> Result<i64, Error>;

    /// Locks the row of a session that this transaction has read. It fails if another transaction
    /// may have changed the row meanwhile; the driver then runs the write again. A database with
    /// one writer at a time has nothing to lock.
    fn lock_session(&mut self, _session: i64) -> Result<(), Error> {
        Ok(())
    }

    /// Executes a statement. A driver may send inserts and statements later, at the latest with
    /// COMMIT; every query of the transaction finds their rows, except in a group of writes.
    fn execute(&mut self, sql: &'static str, args: &[Arg<'_>]) -> Result<(), Error>;

    /// Executes a statement of a maintenance transaction, and returns the number of rows that it
    /// changed.
    fn execute_counted(&mut self, sql: &'static str, args: &[Arg<'_>]) -> Result<u64, Error>;

    /// Inserts a row of an object table together with its body. The statement's last five
    /// parameters are the body's place, which the driver adds: `seg, off, len, packing, size`.
    fn insert_object(
        &mut self,
        table: Table,
        sql: &'static str,
        args: &[Arg<'_>],
        body: Option<&Packed>,
    ) -> Result<i64, Error>;

    /// Erases a body that no row refers to any more.
    fn erase(&mut self, place: &Place, now: Timestamp) -> Result<(), Error>;
}

/// The state of the database below the relational layer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Inspection {
    /// Name and version, such as `SQLite 3.50.4`.
    pub(crate) engine: String,
    /// Named sizes in bytes, such as `database` and `wal`.
    pub(crate) sizes: Vec<(&'static str, u64)>,
    /// Faults found in the database's own structures.
    pub(crate) faults: Vec<String>,
}

/// How long a read may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Snapshot {
    /// Microseconds: a few rows by their keys. It may run on the caller's thread.
    Rows,
    /// Less than a second.
    Short,
    /// Any time: bodies that become free meanwhile are not erased before it ends.
    Long,
}

/// What a maintenance transaction excludes until it ends. With one writer at a time, every
/// transaction excludes all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lock {
    /// Every other transaction that writes.
    Store = 1,
    /// Other changes of deliveries, except new ones.
    Outbox = 2,
    /// Other changes of schedules.
    Schedules = 3,
    /// Other deletions of what is no longer needed.
    Purge = 4,
}

/// What a listening node receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A text of another node, or of this one.
    Text(String),
    /// The connection was interrupted, so texts may be missing before this.
    Gap,
}

/// A function that reads one snapshot. It may run more than once.
pub(crate) type Read = Box<dyn Fn(&dyn Db) -> Result<(), Error> + Send + Sync>;
/// A function that runs inside a write transaction. Its error rolls the transaction back.
pub(crate) type Transact = Box<dyn FnMut(&mut dyn Tx) -> Result<(), Error> + Send>;

/// A database. `Ok` from a write means that it is synced to disk.
#[async_trait]
pub(crate) trait Driver: Send + Sync {
    /// Runs one write, alone or in a group with others ([`crate::write::run`]).
    async fn write(&self, write: Write, rule: Box<dyn Transition>) -> Result<Stored, Error>;

    /// Reads one snapshot.
    async fn read(&self, snapshot: Snapshot, read: Read) -> Result<(), Error>;

    /// Runs a maintenance transaction.
    async fn transact(&self, lock: Lock, change: Transact) -> Result<(), Error>;

    /// Registers this process as a node, or renews its lease for `length`; `None` removes it.
    /// `false` if another process had declared it dead and removed it. `now` is the caller's clock,
    /// which a database with a clock of its own ignores.
    async fn lease(
        &self,
        node: NodeId,
        now: Timestamp,
        length: Option<Span>,
    ) -> Result<bool, Error>;

    /// Nodes whose process has ended, or that own a session under an expired lease. `now` is the
    /// caller's clock, which a database with a clock of its own ignores.
    async fn dead_nodes(&self, now: Timestamp) -> Result<Vec<NodeId>, Error>;

    /// Whether the process of a node lives and its lease has not expired at `now`, which is as in
    /// `dead_nodes`.
    async fn is_alive(&self, node: NodeId, now: Timestamp) -> Result<bool, Error>;

    /// Physical upkeep that is due at `now`, such as erasing freed bytes; `true` if there is more.
    async fn maintain(&self, now: Timestamp) -> Result<bool, Error>;

    /// Name, version and sizes of the database; with `deep`, also faults in its own structures.
    async fn inspect(&self, deep: bool) -> Result<Inspection, Error>;

    /// The time. A database that several machines share returns the time of its own clock: what
    /// it last read there, and the time that has passed since.
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    /// Sends a text to a node, or to every node. It may be lost, and it is sent after the call
    /// returns. A database on one machine sends nothing.
    fn notify(&self, _to: Option<NodeId>, _text: String) {}

    /// Texts that are sent to a node from now on; `None` if the database sends none.
    async fn listen(&self, _node: NodeId) -> Option<mpsc::Receiver<Notice>> {
        None
    }

    /// Writes a consistent copy to a new file.
    async fn copy_to(&self, path: &Path) -> Result<(), Error>;
}
