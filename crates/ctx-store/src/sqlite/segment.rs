//! Where bodies lie: in segments, runs of bytes that grow at their end and are never moved.
//!
//! Segment 0 is in the database: the table `bodies`, cut into chunks that fill a page each, so that neither small nor
//! large bodies waste any. The others are files, `segments/N`, written when many write at once (`file`). A copy made by
//! `backup` has all of them in the database: a segment is read from its chunks where there are any, else from its file.
//! As in a sparse file, a chunk that is missing is all zeros; whether a body is what it should be is for its hash to say.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use ctx_core::time::Timestamp;
use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::Error;
use crate::driver::Place;
use crate::pack::{OBJECT_MAX_BYTES, Packed, unpack};

use super::open::Files;
use super::segment_file;

/// A row of so many bytes just fills a page of the database.
pub(crate) const CHUNK_BYTES: usize = 4056;
/// Chunks of a segment are numbered from its own number times this.
const CHUNKS_MAX: i64 = 1 << 40;
/// Segments are numbered below this.
pub(crate) const SEGMENTS_MAX: i64 = 1 << 20;
/// A transaction keeps so many bytes back before it writes chunks.
const KEEP_BACK_BYTES: usize = 4 << 20;
/// For a larger body in the database no room is made before it is clear that the segment goes that far.
const BELIEVED_BYTES: usize = 1 << 20;
/// A connection keeps so many files open.
const OPEN_MAX: usize = 16;

/// The segment in the database.
const IN_DATABASE: i64 = 0;

/// Reads and unpacks a body. The caller checks it against its hash.
pub(crate) fn read(connection: &Connection, place: &Place) -> Result<Vec<u8>, Error> {
    let range = Range::of(place.seg, place.off, place.len)?;
    let bytes = match range.in_chunks(connection)? {
        Some(bytes) => bytes,
        None => range.in_file(connection)?,
    };
    unpack(bytes, place.packing, place.size)
}

/// Reads `seg, off, len, packing, size` from five columns; `None` if the body was purged.
pub(crate) fn place_from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<Place>> {
    let Some(seg) = row.get(first)? else { return Ok(None) };
    Ok(Some(Place {
        seg,
        off: row.get(first + 1)?,
        len: row.get(first + 2)?,
        packing: row.get(first + 3)?,
        size: row.get(first + 4)?,
    }))
}

/// Some bytes of a segment.
#[derive(Clone, Copy)]
struct Range {
    seg: i64,
    off: usize,
    len: usize,
}

impl Range {
    /// The numbers of a row, unless they cannot be.
    fn of(seg: i64, off: i64, len: i64) -> Result<Self, Error> {
        let within = |n: i64, max: i64| usize::try_from(n).ok().filter(|_| n <= max);
        let off = within(off, CHUNKS_MAX)
            .zip(within(len, OBJECT_MAX_BYTES as i64))
            .filter(|_| (0..SEGMENTS_MAX).contains(&seg));
        let (off, len) = off.ok_or_else(|| {
            Error::Damaged(format!("a body lies at an impossible place in segment {seg}"))
        })?;
        Ok(Self { seg, off, len })
    }

    /// The ids of its first and last chunk.
    fn chunks(&self) -> (i64, i64) {
        let id = |at: usize| self.seg * CHUNKS_MAX + (at / CHUNK_BYTES) as i64;
        (id(self.off), id(self.off + self.len.max(1) - 1))
    }

    /// The part of it that lies in a chunk of so many bytes: from where to where in the chunk, and in the range.
    fn part_in(&self, id: i64, bytes: usize) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
        let start = (id - self.seg * CHUNKS_MAX) as usize * CHUNK_BYTES;
        let end = start + bytes;
        // A chunk may end before what a row claims to be in it.
        let from = self.off.clamp(start, end);
        let to = (self.off + self.len).clamp(from, end);
        let here = from.saturating_sub(self.off);
        (from - start..to - start, here..here + (to - from))
    }

    /// Nothing where the segment is a file.
    fn in_chunks(&self, connection: &Connection) -> Result<Option<Vec<u8>>, Error> {
        let (first, last) = self.chunks();
        if self.len > BELIEVED_BYTES
            && is_in_chunks(connection, self.seg)?
            && !reaches(connection, self.seg, last)?
        {
            return Err(self.past_the_end());
        }
        let mut statement =
            connection.prepare_cached("SELECT id, data FROM bodies WHERE id BETWEEN ?1 AND ?2")?;
        let mut chunks = statement.query([first, last])?;
        let mut bytes = None;
        while let Some(chunk) = chunks.next()? {
            let data = chunk
                .get_ref(1)?
                .as_blob()
                .map_err(|e| Error::Damaged(format!("segment {}: {e}", self.seg)))?;
            let (there, here) = self.part_in(chunk.get(0)?, data.len());
            bytes.get_or_insert_with(|| vec![0; self.len])[here].copy_from_slice(&data[there]);
        }
        match bytes {
            // Where all is zeros, no chunk is left to say so.
            None if is_in_chunks(connection, self.seg)? => Ok(Some(vec![0; self.len])),
            bytes => Ok(bytes),
        }
    }

    fn past_the_end(&self) -> Error {
        Error::Damaged(format!(
            "segment {} is missing, or ends before byte {}",
            self.seg,
            self.off + self.len
        ))
    }

    fn in_file(&self, connection: &Connection) -> Result<Vec<u8>, Error> {
        let mut statement = connection.prepare_cached("SELECT segment_file(?1, ?2, ?3)")?;
        let read: Option<Vec<u8>> = statement
            .query_row(params![self.seg, self.off as i64, self.len as i64], |row| row.get(0))?;
        read.ok_or_else(|| self.past_the_end())
    }
}

/// Lets statements of a connection read segments that are files: `segment_file(seg, off, len)`, null where it is not there.
/// The files stay open as long as the connection does.
pub(crate) fn read_files_through(connection: &Connection, files: &Files) -> Result<(), Error> {
    let dir = files.segments();
    let open: Mutex<HashMap<i64, File>> = Mutex::default();
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DIRECTONLY;
    connection.create_scalar_function("segment_file", 3, flags, move |call| {
        let (seg, off, len) =
            (call.get(0)?, call.get::<i64>(1)?.cast_unsigned(), call.get::<i64>(2)? as usize);
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        match read_file(&mut open, &dir, seg, off, len) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof) => {
                Ok(None)
            }
            Err(e) => Err(rusqlite::Error::UserFunctionError(Box::new(e))),
        }
    })?;
    Ok(())
}

fn read_file(
    open: &mut HashMap<i64, File>,
    dir: &Path,
    seg: i64,
    off: u64,
    len: usize,
) -> std::io::Result<Vec<u8>> {
    if open.len() >= OPEN_MAX && !open.contains_key(&seg) {
        open.clear();
    }
    let file = match open.entry(seg) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(new) => new.insert(File::open(dir.join(seg.to_string()))?),
    };
    // Before room is made for what a damaged row claims.
    if file.metadata()?.len() < off + len as u64 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, off)?;
    Ok(bytes)
}

/// Where the bodies of a transaction go: to the end of the segment in the database, or to that of a file.
pub(crate) enum BodyEnd<'a> {
    /// In the database.
    Chunks(Chunks),
    /// A transaction that stores no bodies.
    None,
    /// In a file.
    File(&'a mut segment_file::SegmentFile),
}

impl BodyEnd<'_> {
    /// Says where a body lies, and takes it along.
    pub(crate) fn put(&mut self, connection: &Connection, packed: &Packed) -> Result<Place, Error> {
        let (seg, off) = match self {
            Self::Chunks(chunks) => (IN_DATABASE, chunks.put(connection, &packed.bytes)? as i64),
            Self::File(segment) => (segment.number, segment.put(&packed.bytes).cast_signed()),
            Self::None => {
                return Err(Error::Internal("this transaction stores no bodies".to_owned()));
            }
        };
        Ok(Place {
            seg,
            off,
            len: packed.bytes.len() as i64,
            packing: packed.packing,
            size: packed.size as i64,
        })
    }

    /// Stores all that was put: in the database with the transaction, in a file at once.
    pub(crate) fn flush(self, connection: &Connection) -> Result<(), Error> {
        match self {
            Self::Chunks(mut chunks) => chunks.flush(connection),
            Self::File(segment) => segment.flush(),
            Self::None => Ok(()),
        }
    }
}

/// The end of the segment in the database, while a transaction adds to it.
pub(crate) struct Chunks {
    /// Where the bytes that are kept back begin: always at a chunk.
    at: usize,
    kept_back: Vec<u8>,
    /// How many of them are in the database already.
    stored: usize,
}

impl Chunks {
    pub(crate) fn find(connection: &Connection) -> Result<Self, Error> {
        let mut statement = connection
            .prepare_cached("SELECT id, data FROM bodies WHERE id < ?1 ORDER BY id DESC LIMIT 1")?;
        let last: Option<(i64, Vec<u8>)> =
            statement.query_row([CHUNKS_MAX], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        let (id, kept_back) = last.unwrap_or_default();
        Ok(Self { at: id as usize * CHUNK_BYTES, stored: kept_back.len(), kept_back })
    }

    fn put(&mut self, connection: &Connection, bytes: &[u8]) -> Result<usize, Error> {
        if self.kept_back.len() > KEEP_BACK_BYTES {
            self.flush(connection)?;
        }
        let off = self.at + self.kept_back.len();
        self.kept_back.extend_from_slice(bytes);
        Ok(off)
    }

    fn flush(&mut self, connection: &Connection) -> Result<(), Error> {
        if self.stored == self.kept_back.len() {
            return Ok(());
        }
        put_chunks(connection, IN_DATABASE, self.at, &self.kept_back)?;
        let whole = self.kept_back.len() / CHUNK_BYTES * CHUNK_BYTES;
        self.kept_back.drain(..whole);
        self.at += whole;
        self.stored = self.kept_back.len();
        Ok(())
    }
}

/// Stores bytes of a segment from the beginning of a chunk on.
fn put_chunks(connection: &Connection, seg: i64, at: usize, bytes: &[u8]) -> Result<(), Error> {
    let mut statement =
        connection.prepare_cached("INSERT OR REPLACE INTO bodies(id, data) VALUES (?1, ?2)")?;
    let first = seg * CHUNKS_MAX + (at / CHUNK_BYTES) as i64;
    for (id, chunk) in (first..).zip(bytes.chunks(CHUNK_BYTES)) {
        statement.execute(params![id, chunk])?;
    }
    Ok(())
}

/// Makes zeros of a body that no row names any more. In the database that is so with the transaction; in a file it waits until
/// nobody can be reading it (`erasing`).
pub(crate) fn erase(
    tx: &Connection,
    seg: i64,
    off: i64,
    len: i64,
    now: Timestamp,
) -> Result<(), Error> {
    if is_in_chunks(tx, seg)? {
        return zero_chunks(tx, seg, off, len);
    }
    tx.prepare_cached("INSERT INTO erasures(seg, off, len, erased_at) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![seg, off, len, now.0])?;
    Ok(())
}

/// The same for a segment that lies in the database.
pub(crate) fn zero_chunks(tx: &Connection, seg: i64, off: i64, len: i64) -> Result<(), Error> {
    let range = Range::of(seg, off, len)?;
    let (first, last) = range.chunks();
    tx.prepare_cached("DELETE FROM bodies WHERE id > ?1 AND id < ?2")?.execute([first, last])?;
    zero(tx, &range, first)?;
    if last != first {
        zero(tx, &range, last)?;
    }
    Ok(())
}

/// Whether a segment lies in the database.
pub(crate) fn is_in_chunks(connection: &Connection, seg: i64) -> Result<bool, Error> {
    let mut statement = connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM bodies WHERE id >= ?1 AND id < ?1 + ?2)")?;
    Ok(seg == IN_DATABASE
        || statement.query_row([seg * CHUNKS_MAX, CHUNKS_MAX], |row| row.get(0))?)
}

/// Whether a segment in the database goes on to this chunk at least: its last one is always there.
fn reaches(connection: &Connection, seg: i64, chunk: i64) -> Result<bool, Error> {
    let mut statement = connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM bodies WHERE id >= ?1 AND id < ?2)")?;
    Ok(statement.query_row([chunk, (seg + 1) * CHUNKS_MAX], |row| row.get(0))?)
}

/// The highest number of a segment that lies in the database.
pub(crate) fn highest_in_database(connection: &Connection) -> Result<i64, Error> {
    let chunk: i64 =
        connection.query_row("SELECT COALESCE(MAX(id), 0) FROM bodies", [], |row| row.get(0))?;
    Ok(chunk / CHUNKS_MAX)
}

/// Makes zeros of what a chunk has of a range; a chunk of zeros goes, but for the last one, where the segment ends.
fn zero(tx: &Connection, range: &Range, id: i64) -> Result<(), Error> {
    let mut find = tx.prepare_cached("SELECT data FROM bodies WHERE id = ?1")?;
    let Some(mut data) = find.query_row([id], |row| row.get::<_, Vec<u8>>(0)).optional()? else {
        return Ok(());
    };
    let dead = range.part_in(id, data.len()).0;
    data[dead].fill(0);
    let end: bool = tx
        .prepare_cached("SELECT NOT EXISTS (SELECT 1 FROM bodies WHERE id > ?1 AND id < ?2)")?
        .query_row([id, (range.seg + 1) * CHUNKS_MAX], |row| row.get(0))?;
    if !end && data.iter().all(|byte| *byte == 0) {
        tx.prepare_cached("DELETE FROM bodies WHERE id = ?1")?.execute([id])?;
    } else {
        tx.prepare_cached("UPDATE bodies SET data = ?2 WHERE id = ?1")?
            .execute(params![id, data])?;
    }
    Ok(())
}

/// Copies a segment's file into chunks of a database that has none of it; the last one even if it is zeros, as it says where the
/// segment ends.
pub(crate) fn take_in(copy: &Connection, seg: i64, file: &Path) -> Result<(), Error> {
    const STRIDE: usize = 256 * CHUNK_BYTES;
    let file = File::open(file)?;
    let (mut bytes, mut at) = (vec![0; STRIDE], 0);
    let mut zeros_at_the_end = None;
    loop {
        let read = fill(&file, &mut bytes, at as u64)?;
        for (n, chunk) in bytes[..read].chunks(CHUNK_BYTES).enumerate() {
            let start = at + n * CHUNK_BYTES;
            let zeros = chunk.iter().all(|byte| *byte == 0);
            zeros_at_the_end = zeros.then_some((start, chunk.len()));
            if !zeros {
                put_chunks(copy, seg, start, chunk)?;
            }
        }
        at += read;
        if read < STRIDE {
            break;
        }
    }
    if let Some((start, length)) = zeros_at_the_end {
        put_chunks(copy, seg, start, &vec![0; length])?;
    }
    Ok(())
}

/// Reads until the buffer is full or the file ends.
fn fill(file: &File, bytes: &mut [u8], at: u64) -> std::io::Result<usize> {
    let mut read = 0;
    while read < bytes.len() {
        match file.read_at(&mut bytes[read..], at + read as u64) {
            Ok(0) => break,
            Ok(n) => read += n,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(read)
}
