//! Reads the turns of a path from a head towards the root: rows in windows, bodies in order, and
//! the decoding of long paths on several threads.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::num::NonZero;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, TrySendError, sync_channel};
use std::thread;

use ctx_core::compaction::Compaction;
use ctx_core::id::{ObjectId, TurnId};
use ctx_core::object::{Kind, Object};
use ctx_core::turn::{self, Header};

use crate::driver::{Db, Place, Row, args};
use crate::pack::unpack;
use crate::{Error, StoredTurn, TurnQuery};

use super::turn_rows::missing;
use super::{checked, compaction_rows, decoded};

/// Most rows that one statement reads. On SQLite the rows of one session are mostly consecutive, so
/// a range of rows is read; PostgreSQL follows the parents, as its numbers have gaps.
const WINDOW_MAX: i64 = 128;
/// Turns that are read and decoded together.
const BATCH_TURNS: usize = 64;
/// Size of bodies, in bytes, after which a batch gets no further turn.
const BATCH_MAX_BYTES: usize = 1 << 20;
/// Most threads that decode one path, including the one that reads it.
const THREADS_MAX: usize = 4;
/// Batches that wait for each thread.
const QUEUED_PER_THREAD: usize = 1;

/// A row of `turns` with its header, which was checked against its hash.
pub(crate) struct TurnRow {
    row: i64,
    id: ObjectId,
    parent: Option<i64>,
    depth: u64,
    header: Header,
    body_version: u16,
    place: Option<Place>,
}

impl TurnRow {
    fn read(row: Row<'_>) -> Result<Self, Error> {
        let id = row.get(1)?;
        let bytes = row.get::<&str>(3)?.as_bytes().to_vec();
        let object = Object { kind: Kind::Turn, version: row.get(2)?, bytes };
        Ok(Self {
            row: row.get(0)?,
            id,
            header: decoded(id, &checked(id, object)?)?,
            parent: row.get(4)?,
            depth: row.get(5)?,
            body_version: row.get(6)?,
            place: row.place(7)?,
        })
    }

    fn size(&self) -> usize {
        self.place.map_or(0, |place| usize::try_from(place.size).unwrap_or(0))
    }
}

/// Turns whose bodies are neither unpacked nor checked.
struct Batch {
    turns: Vec<PackedTurn>,
    /// The bodies of all turns. Another batch uses the buffer again.
    buffer: Vec<u8>,
}

struct PackedTurn {
    row: TurnRow,
    /// Range of the body in the buffer.
    body: Option<Range<usize>>,
    compaction: Option<Compaction>,
}

impl Batch {
    /// Adds what only the connection can read.
    fn read(db: &dyn Db, rows: Vec<TurnRow>, mut buffer: Vec<u8>) -> Result<Self, Error> {
        let places: Vec<Place> = rows.iter().filter_map(|row| row.place).collect();
        buffer.clear();
        let mut bodies = db.packed(&places, &mut buffer)?.into_iter();
        let add = |row: TurnRow| {
            let compaction = match row.header.kind {
                turn::Kind::Compaction => compaction_rows::read(db, row.row)?,
                turn::Kind::Normal => None,
            };
            let body = row.place.and_then(|_| bodies.next());
            Ok(PackedTurn { row, body, compaction })
        };
        let turns = rows.into_iter().map(add).collect::<Result<_, Error>>()?;
        Ok(Self { turns, buffer })
    }

    /// Unpacks and maps each turn, and returns the buffer.
    fn map<T>(self, map: MapTurn<'_, T>) -> Result<(Vec<T>, Vec<u8>), Error> {
        let Self { turns, buffer } = self;
        let turns = turns.into_iter().map(|turn| map(turn.unpacked(&buffer)?));
        Ok((turns.collect::<Result<_, _>>()?, buffer))
    }
}

impl PackedTurn {
    /// Unpacks the body and checks it against its hash.
    fn unpacked(self, buffer: &[u8]) -> Result<StoredTurn, Error> {
        let TurnRow { id, depth, header, body_version, place, .. } = self.row;
        let body = match self.body.zip(place) {
            None => None,
            Some((range, place)) => {
                let packed = Cow::Borrowed(&buffer[range]);
                let bytes = unpack(packed, place.packing, place.size)?;
                let object = Object { kind: Kind::TurnBody, version: body_version, bytes };
                Some(checked(header.body, object)?)
            }
        };
        Ok(StoredTurn { id: TurnId(id), depth, header, body, compaction: self.compaction })
    }
}

/// What is made of each turn.
type MapTurn<'a, T> = &'a (dyn Fn(StoredTurn) -> Result<T, Error> + Sync);

/// Whether a path is followed further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visit {
    /// It ends before this turn.
    Before,
    /// This turn is the last.
    Last,
    On,
}

/// The rows of a turn and its ancestors, newest first.
pub(crate) struct Path<'a> {
    db: &'a dyn Db,
    /// The row to read next.
    at: Option<i64>,
    /// Number of rows that the next statement reads. It doubles while all of them are on the path,
    /// and is 1 again after one that was not.
    window: i64,
    read: VecDeque<TurnRow>,
}

impl<'a> Path<'a> {
    pub(crate) fn from(db: &'a dyn Db, turn: Option<i64>) -> Self {
        Self { db, at: turn, window: 1, read: VecDeque::new() }
    }

    /// The next turn, checked.
    pub(crate) fn next_turn(&mut self) -> Result<Option<StoredTurn>, Error> {
        let Some(row) = self.next_row()? else { return Ok(None) };
        let (mut turns, _) = Batch::read(self.db, vec![row], Vec::new())?.map(&Ok)?;
        Ok(turns.pop())
    }

    /// The next turns, up to the one for which `visit` is false, and their bodies. Of each turn,
    /// `visit` gets the id, the header, the size of the body in bytes, and the compaction.
    pub(crate) fn turns_while(
        mut self,
        mut visit: impl FnMut(TurnId, &Header, usize, Option<&Compaction>) -> Visit,
    ) -> Result<Vec<StoredTurn>, Error> {
        let mut rows = Vec::new();
        while let Some(row) = self.next_row()? {
            let compaction = match row.header.kind {
                turn::Kind::Compaction => compaction_rows::read(self.db, row.row)?,
                turn::Kind::Normal => None,
            };
            let visited = visit(TurnId(row.id), &row.header, row.size(), compaction.as_ref());
            if visited != Visit::Before {
                rows.push(row);
            }
            if visited != Visit::On {
                break;
            }
        }
        let (mut turns, mut rows) = (Vec::with_capacity(rows.len()), rows.into_iter().peekable());
        while rows.peek().is_some() {
            let mut bytes = 0;
            let mut some = Vec::new();
            while let Some(row) =
                rows.next_if(|_| some.len() < BATCH_TURNS && bytes < BATCH_MAX_BYTES)
            {
                bytes += row.size();
                some.push(row);
            }
            turns.extend(Batch::read(self.db, some, Vec::new())?.map(&Ok)?.0);
        }
        Ok(turns)
    }

    fn next_row(&mut self) -> Result<Option<TurnRow>, Error> {
        if let (true, Some(from)) = (self.read.is_empty(), self.at) {
            self.read_window(from)?;
        }
        Ok(self.read.pop_front())
    }

    fn read_window(&mut self, from: i64) -> Result<(), Error> {
        let mut others = false;
        self.db.query(
            "/*pg WITH RECURSIVE up(id, n) AS (
               SELECT ?1, 1 UNION ALL
               SELECT (SELECT t.parent FROM turns t WHERE t.id = up.id), up.n + 1 FROM up
               WHERE up.n < ?2 AND up.id IS NOT NULL)*/
             SELECT id, hash, version, header, parent, depth, body_version, seg, off, len, packing,
                    size
             FROM turns WHERE /*pg id = ANY(ARRAY(SELECT id FROM up)) AND (TRUE OR*/
               (id <= ?1 AND id > ?1 - ?2) /*pg )*/ ORDER BY id DESC",
            args![from, self.window],
            &mut |row| {
                if Some(row.get(0)?) == self.at {
                    let turn = TurnRow::read(row)?;
                    self.at = turn.parent;
                    self.read.push_back(turn);
                } else {
                    others = true;
                }
                Ok(())
            },
        )?;
        if self.read.is_empty() {
            return Err(missing(from));
        }
        self.window = if others { 1 } else { WINDOW_MAX.min(self.window * 2) };
        Ok(())
    }
}

/// The turns of a query that are still to be read.
struct Selected<'a> {
    path: Path<'a>,
    /// The turns of a query for the oldest first.
    reversed: Vec<TurnRow>,
    oldest_first: bool,
    turns: usize,
    messages: usize,
    bytes: usize,
}

impl<'a> Selected<'a> {
    fn new(mut path: Path<'a>, query: &TurnQuery) -> Result<Self, Error> {
        let mut reversed = Vec::new();
        while query.oldest_first
            && reversed.len() < query.limit
            && let Some(row) = path.next_row()?
        {
            reversed.push(row);
        }
        Ok(Self {
            path,
            reversed,
            oldest_first: query.oldest_first,
            turns: query.limit,
            messages: query.max_messages,
            bytes: query.max_bytes,
        })
    }

    fn has_more(&self) -> bool {
        let path_ends = self.path.read.is_empty() && self.path.at.is_none();
        let ends = if self.oldest_first { self.reversed.is_empty() } else { path_ends };
        self.turns > 0 && self.messages > 0 && !ends
    }

    /// The next turns with their bodies; empty at the end.
    fn next_batch(&mut self, is_first: bool, buffer: Vec<u8>) -> Result<Batch, Error> {
        let (mut batch, mut batch_bytes) = (Vec::new(), 0);
        while batch.len() < BATCH_TURNS && batch_bytes < BATCH_MAX_BYTES && self.has_more() {
            let next = match self.oldest_first {
                true => self.reversed.pop(),
                false => self.path.next_row()?,
            };
            let Some(row) = next else { break };
            let size = row.size();
            if size > self.bytes && !(is_first && batch.is_empty()) {
                self.turns = 0;
                break;
            }
            self.turns -= 1;
            self.messages = self.messages.saturating_sub(row.header.messages.len());
            self.bytes = self.bytes.saturating_sub(size);
            batch_bytes += size;
            batch.push(row);
        }
        Batch::read(self.path.db, batch, buffer)
    }
}

/// Reads the turns of a query and maps each of them. The order is kept.
pub(crate) fn map<T: Send>(
    path: Path<'_>,
    query: &TurnQuery,
    map: MapTurn<'_, T>,
) -> Result<Vec<T>, Error> {
    let mut selected = Selected::new(path, query)?;
    let (mut done, buffer) = selected.next_batch(true, Vec::new())?.map(map)?;
    if selected.has_more() {
        done.extend(on_threads(selected, buffer, map)?);
    }
    Ok(done)
}

/// A batch and its number.
type Numbered = (usize, Batch);

/// This thread reads and, while the queue of the other threads is full, decodes as well.
fn on_threads<T: Send>(
    mut selected: Selected<'_>,
    buffer: Vec<u8>,
    map: MapTurn<'_, T>,
) -> Result<Vec<T>, Error> {
    let helpers = thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX) - 1;
    let done: Mutex<Vec<(usize, Vec<T>)>> = Mutex::default();
    // As many as there are batches at one time: one per thread and one per place of the queue.
    let buffers = Mutex::new(vec![buffer]);
    let work = |(number, batch): Numbered| -> Result<(), Error> {
        let (mapped, buffer) = batch.map(map)?;
        lock(&buffers)?.push(buffer);
        lock(&done)?.push((number, mapped));
        Ok(())
    };
    let (send, queue) = sync_channel::<Numbered>((helpers * QUEUED_PER_THREAD).max(1));
    let queue = Mutex::new(queue);
    thread::scope(|scope| {
        // Dropped when this closure ends, even by an error: the threads end then.
        let (send, queue, work) = (send, &queue, &work);
        let threads: Vec<_> = (0..helpers)
            .filter_map(|_| {
                thread::Builder::new().spawn_scoped(scope, move || work_off(queue, work)).ok()
            })
            .collect();
        for number in 0.. {
            let buffer = lock(&buffers)?.pop().unwrap_or_default();
            let batch = selected.next_batch(false, buffer)?;
            if batch.turns.is_empty() {
                break;
            }
            let refused = if threads.is_empty() {
                Some((number, batch))
            } else {
                match send.try_send((number, batch)) {
                    Ok(()) => None,
                    // A thread ends early only after an error, which it returns.
                    Err(TrySendError::Full(back) | TrySendError::Disconnected(back)) => Some(back),
                }
            };
            refused.map_or(Ok(()), work)?;
        }
        drop(send);
        work_off(queue, work)?;
        for thread in threads {
            thread
                .join()
                .map_err(|_| Error::Internal("a decoding thread panicked".to_owned()))??;
        }
        Ok::<(), Error>(())
    })?;
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_unstable_by_key(|(number, _)| *number);
    Ok(done.into_iter().flat_map(|(_, turns)| turns).collect())
}

/// Decodes batches until the queue is closed and empty.
fn work_off(
    queue: &Mutex<Receiver<Numbered>>,
    work: &(dyn Fn(Numbered) -> Result<(), Error> + Sync),
) -> Result<(), Error> {
    loop {
        let next = lock(queue)?.recv();
        match next {
            Ok(batch) => work(batch)?,
            Err(_) => return Ok(()),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> Result<std::sync::MutexGuard<'_, T>, Error> {
    mutex.lock().map_err(|_| Error::Internal("a decoding thread panicked".to_owned()))
}
