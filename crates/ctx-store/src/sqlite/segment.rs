//! Stores bodies in segments: byte sequences that grow at the end and whose bytes never move.
//!
//! Segment 0 is in the database, in the table `bodies`. It is divided into chunks that fill a page
//! each, so that neither small nor large bodies waste space. All other segments are files,
//! `segments/N`, which are written when many writes arrive at once (`segment_file`). A copy made by
//! `backup` has all segments in the database: a segment is read from its chunks if it has any, else
//! from its file.
//!
//! A missing chunk is read as zeros, like a hole in a sparse file. The hash of a body shows whether
//! its bytes are intact.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::ErrorKind;
use std::ops;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use ctx_core::time::Timestamp;
use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, OptionalExtension, params};

use crate::Error;
use crate::driver::Place;
use crate::pack::{OBJECT_MAX_BYTES, Packed};

use super::open::Files;
use super::segment_file;

/// Size of a chunk in bytes: a row of this size fills one page of the database.
pub(crate) const CHUNK_BYTES: usize = 4056;
/// Most chunks of a segment. The ids of its chunks begin at the segment number times this.
const CHUNKS_MAX: i64 = 1 << 40;
/// Segment numbers are below this.
pub(crate) const SEGMENTS_MAX: i64 = 1 << 20;
/// Size of buffered bodies in bytes after which a transaction writes chunks.
const BUFFER_MAX_BYTES: usize = 4 << 20;
/// A range in the database that is longer than this, in bytes, is compared with the end of the
/// segment before memory is allocated: a damaged row may claim any length.
const UNCHECKED_MAX_BYTES: usize = 1 << 20;
/// Larger bodies, in bytes, are read alone.
const CLOSE_MAX_BYTES: usize = 64 << 10;
/// Bodies with at most this many bytes between them are read together.
const GAP_MAX_BYTES: usize = 4 * CHUNK_BYTES;
/// Most segment files that a connection keeps open.
const OPEN_FILES_MAX: usize = 16;

/// Number of the segment that is in the database.
const DATABASE_SEGMENT: i64 = 0;

/// Reads the stored bytes of bodies into an empty buffer, and returns where each of them is. Bodies
/// that are close to each other are read together, with what is between them.
pub(crate) fn read_packed(
    connection: &Connection,
    places: &[Place],
    buffer: &mut Vec<u8>,
) -> Result<Vec<ops::Range<usize>>, Error> {
    let mut ranges = Vec::with_capacity(places.len());
    for (index, place) in places.iter().enumerate() {
        ranges.push((Range::of(place)?, index));
    }
    ranges.sort_unstable_by_key(|(range, _)| (range.seg, range.off));
    let mut found = vec![0..0; places.len()];
    for group in ranges.chunk_by(|(a, _), (b, _)| a.is_close_to(b)) {
        let ((first, _), (last, _)) = (group[0], group[group.len() - 1]);
        let start = buffer.len();
        let len = last.off + last.len - first.off;
        Range { len, ..first }.read(connection, buffer)?;
        for (range, index) in group {
            let at = start + range.off - first.off;
            found[*index] = at..at + range.len;
        }
    }
    Ok(found)
}

/// A byte range of a segment.
#[derive(Clone, Copy)]
struct Range {
    seg: i64,
    off: usize,
    len: usize,
}

impl Range {
    /// Validates the numbers of a row.
    fn checked(seg: i64, off: i64, len: i64) -> Result<Self, Error> {
        let within = |n: i64, max: i64| usize::try_from(n).ok().filter(|_| n <= max);
        let off = within(off, CHUNKS_MAX)
            .zip(within(len, OBJECT_MAX_BYTES as i64))
            .filter(|_| (0..SEGMENTS_MAX).contains(&seg));
        let (off, len) = off.ok_or_else(|| {
            Error::Damaged(format!("segment {seg}: a row refers to an invalid range"))
        })?;
        Ok(Self { seg, off, len })
    }

    fn of(place: &Place) -> Result<Self, Error> {
        Self::checked(place.seg, place.off, place.len)
    }

    /// Whether a range begins so soon after this one that both are read at once. The size of a
    /// group has no bound of its own: callers read bounded batches.
    fn is_close_to(&self, next: &Self) -> bool {
        let end = self.off + self.len;
        self.seg == next.seg
            && self.len <= CLOSE_MAX_BYTES
            && next.len <= CLOSE_MAX_BYTES
            && next.off >= end
            && next.off - end <= GAP_MAX_BYTES
    }

    /// Appends the bytes to a buffer.
    fn read(&self, connection: &Connection, to: &mut Vec<u8>) -> Result<(), Error> {
        if !self.read_chunks(connection, to)? {
            self.read_file(connection, to)?;
        }
        Ok(())
    }

    /// Ids of the first and the last chunk of the range.
    fn chunks(&self) -> (i64, i64) {
        let id = |at: usize| self.seg * CHUNKS_MAX + (at / CHUNK_BYTES) as i64;
        (id(self.off), id(self.off + self.len.max(1) - 1))
    }

    /// Overlap with a chunk of `bytes` bytes, as a range of the chunk and as a range of `self`.
    fn overlap(&self, id: i64, bytes: usize) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
        let start = (id - self.seg * CHUNKS_MAX) as usize * CHUNK_BYTES;
        let end = start + bytes;
        // A damaged row may claim bytes after the end of a chunk.
        let from = self.off.clamp(start, end);
        let to = (self.off + self.len).clamp(from, end);
        let here = from.saturating_sub(self.off);
        (from - start..to - start, here..here + (to - from))
    }

    /// Appends the range from chunks; `false` if the segment is a file.
    fn read_chunks(&self, connection: &Connection, to: &mut Vec<u8>) -> Result<bool, Error> {
        let (first, last) = self.chunks();
        if self.len > UNCHECKED_MAX_BYTES
            && is_in_chunks(connection, self.seg)?
            && !has_chunk_from(connection, self.seg, last)?
        {
            return Err(self.truncated());
        }
        let mut statement = connection
            .prepare_cached("SELECT id, data FROM bodies WHERE id BETWEEN ?1 AND ?2 ORDER BY id")?;
        let mut chunks = statement.query([first, last])?;
        let (start, mut found) = (to.len(), false);
        while let Some(chunk) = chunks.next()? {
            let data = chunk
                .get_ref(1)?
                .as_blob()
                .map_err(|e| Error::Damaged(format!("segment {}: {e}", self.seg)))?;
            let (there, here) = self.overlap(chunk.get(0)?, data.len());
            // A missing chunk is read as zeros.
            to.resize(start + here.start, 0);
            to.extend_from_slice(&data[there]);
            found = true;
        }
        // Chunks of zeros are not stored.
        found = found || is_in_chunks(connection, self.seg)?;
        if found {
            to.resize(start + self.len, 0);
        }
        Ok(found)
    }

    fn truncated(&self) -> Error {
        Error::Damaged(format!(
            "segment {} is missing or ends before byte {}",
            self.seg,
            self.off + self.len
        ))
    }

    /// Appends the range from the segment's file.
    fn read_file(&self, connection: &Connection, to: &mut Vec<u8>) -> Result<(), Error> {
        let mut statement = connection.prepare_cached("SELECT segment_file(?1, ?2, ?3)")?;
        let read =
            statement.query_row(params![self.seg, self.off as i64, self.len as i64], |row| {
                let bytes = row.get_ref(0)?.as_blob_or_null()?;
                to.extend_from_slice(bytes.unwrap_or_default());
                Ok(bytes.is_some())
            })?;
        if read { Ok(()) } else { Err(self.truncated()) }
    }
}

/// Defines the SQL function `segment_file(seg, off, len)`, which reads segment files. It returns
/// null if the file or the range does not exist. Files stay open as long as the connection.
pub(crate) fn register_segment_file(connection: &Connection, files: &Files) -> Result<(), Error> {
    let dir = files.segments();
    let open: Mutex<HashMap<i64, File>> = Mutex::default();
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DIRECTONLY;
    connection.create_scalar_function("segment_file", 3, flags, move |call| {
        let (seg, off, len) =
            (call.get(0)?, call.get::<i64>(1)?.cast_unsigned(), call.get::<i64>(2)? as usize);
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        match read_segment_file(&mut open, &dir, seg, off, len) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof) => {
                Ok(None)
            }
            Err(e) => Err(rusqlite::Error::UserFunctionError(Box::new(e))),
        }
    })?;
    Ok(())
}

fn read_segment_file(
    open: &mut HashMap<i64, File>,
    dir: &Path,
    seg: i64,
    off: u64,
    len: usize,
) -> std::io::Result<Vec<u8>> {
    if open.len() >= OPEN_FILES_MAX && !open.contains_key(&seg) {
        open.clear();
    }
    let file = match open.entry(seg) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(new) => new.insert(File::open(dir.join(seg.to_string()))?),
    };
    // Checked before memory is allocated: a damaged row may claim any length.
    if file.metadata()?.len() < off + len as u64 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, off)?;
    Ok(bytes)
}

/// Destination of the bodies of a transaction.
pub(crate) enum BodySink<'a> {
    Chunks(ChunkAppender),
    /// Opened by the first body, for a transaction that mostly stores none.
    Unopened,
    File(&'a mut segment_file::SegmentFile),
}

impl BodySink<'_> {
    /// Appends a body and returns its location.
    pub(crate) fn put(&mut self, connection: &Connection, packed: &Packed) -> Result<Place, Error> {
        if let Self::Unopened = self {
            *self = Self::Chunks(ChunkAppender::open(connection)?);
        }
        let (seg, off) = match self {
            Self::Chunks(chunks) => {
                (DATABASE_SEGMENT, chunks.put(connection, &packed.bytes)? as i64)
            }
            Self::File(segment) => (segment.number, segment.put(&packed.bytes).cast_signed()),
            Self::Unopened => {
                return Err(Error::Internal("the segment for bodies is not open".to_owned()));
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

    /// Writes all appended bodies: with the transaction in the database, immediately in a file.
    pub(crate) fn flush(self, connection: &Connection) -> Result<(), Error> {
        match self {
            Self::Chunks(mut chunks) => chunks.flush(connection),
            Self::File(segment) => segment.flush(),
            Self::Unopened => Ok(()),
        }
    }
}

/// Appends to the segment in the database during one transaction.
pub(crate) struct ChunkAppender {
    /// Offset of `buffer` in the segment, always the start of a chunk.
    buffer_start: usize,
    buffer: Vec<u8>,
    /// Number of bytes of `buffer` that are already in the database.
    flushed: usize,
}

impl ChunkAppender {
    pub(crate) fn open(connection: &Connection) -> Result<Self, Error> {
        let mut statement = connection
            .prepare_cached("SELECT id, data FROM bodies WHERE id < ?1 ORDER BY id DESC LIMIT 1")?;
        let last: Option<(i64, Vec<u8>)> =
            statement.query_row([CHUNKS_MAX], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        let (id, buffer) = last.unwrap_or_default();
        Ok(Self { buffer_start: id as usize * CHUNK_BYTES, flushed: buffer.len(), buffer })
    }

    fn put(&mut self, connection: &Connection, bytes: &[u8]) -> Result<usize, Error> {
        if self.buffer.len() > BUFFER_MAX_BYTES {
            self.flush(connection)?;
        }
        let off = self.buffer_start + self.buffer.len();
        self.buffer.extend_from_slice(bytes);
        Ok(off)
    }

    fn flush(&mut self, connection: &Connection) -> Result<(), Error> {
        if self.flushed == self.buffer.len() {
            return Ok(());
        }
        put_chunks(connection, DATABASE_SEGMENT, self.buffer_start, &self.buffer)?;
        let whole = self.buffer.len() / CHUNK_BYTES * CHUNK_BYTES;
        self.buffer.drain(..whole);
        self.buffer_start += whole;
        self.flushed = self.buffer.len();
        Ok(())
    }
}

/// Stores bytes of a segment. `at` is the offset of the first one and the start of a chunk.
fn put_chunks(connection: &Connection, seg: i64, at: usize, bytes: &[u8]) -> Result<(), Error> {
    let mut statement =
        connection.prepare_cached("INSERT OR REPLACE INTO bodies(id, data) VALUES (?1, ?2)")?;
    let first = seg * CHUNKS_MAX + (at / CHUNK_BYTES) as i64;
    for (id, chunk) in (first..).zip(bytes.chunks(CHUNK_BYTES)) {
        statement.execute(params![id, chunk])?;
    }
    Ok(())
}

/// Zeroes a body that no row refers to any more. In the database this is part of the transaction.
/// In a file it is delayed until no reader can use the body (`erasure`).
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

/// Zeroes a body of a segment that is in the database.
pub(crate) fn zero_chunks(tx: &Connection, seg: i64, off: i64, len: i64) -> Result<(), Error> {
    let range = Range::checked(seg, off, len)?;
    let (first, last) = range.chunks();
    tx.prepare_cached("DELETE FROM bodies WHERE id > ?1 AND id < ?2")?.execute([first, last])?;
    zero_in_chunk(tx, &range, first)?;
    if last != first {
        zero_in_chunk(tx, &range, last)?;
    }
    Ok(())
}

/// Whether a segment is in the database.
pub(crate) fn is_in_chunks(connection: &Connection, seg: i64) -> Result<bool, Error> {
    let mut statement = connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM bodies WHERE id >= ?1 AND id < ?1 + ?2)")?;
    Ok(seg == DATABASE_SEGMENT
        || statement.query_row([seg * CHUNKS_MAX, CHUNKS_MAX], |row| row.get(0))?)
}

/// Whether a segment in the database has this chunk or a later one; its last chunk is always
/// stored, even if it contains only zeros.
fn has_chunk_from(connection: &Connection, seg: i64, chunk: i64) -> Result<bool, Error> {
    let mut statement = connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM bodies WHERE id >= ?1 AND id < ?2)")?;
    Ok(statement.query_row([chunk, (seg + 1) * CHUNKS_MAX], |row| row.get(0))?)
}

/// Highest number of a segment that is in the database.
pub(crate) fn highest_in_database(connection: &Connection) -> Result<i64, Error> {
    let chunk: i64 =
        connection.query_row("SELECT COALESCE(MAX(id), 0) FROM bodies", [], |row| row.get(0))?;
    Ok(chunk / CHUNKS_MAX)
}

/// Zeroes the part of a range that is in one chunk. A chunk of zeros is deleted, except the last
/// one, which marks the end of the segment.
fn zero_in_chunk(tx: &Connection, range: &Range, id: i64) -> Result<(), Error> {
    let mut find = tx.prepare_cached("SELECT data FROM bodies WHERE id = ?1")?;
    let Some(mut data) = find.query_row([id], |row| row.get::<_, Vec<u8>>(0)).optional()? else {
        return Ok(());
    };
    let dead = range.overlap(id, data.len()).0;
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

/// Copies a segment file into chunks of a database that has none of this segment. The last chunk is
/// stored even if it is all zeros, because it marks the end of the segment.
pub(crate) fn import_file(copy: &Connection, seg: i64, file: &Path) -> Result<(), Error> {
    const STRIDE: usize = 256 * CHUNK_BYTES;
    let file = File::open(file)?;
    let (mut bytes, mut at) = (vec![0; STRIDE], 0);
    let mut trailing_zeros = None;
    loop {
        let read = read_full(&file, &mut bytes, at as u64)?;
        for (n, chunk) in bytes[..read].chunks(CHUNK_BYTES).enumerate() {
            let start = at + n * CHUNK_BYTES;
            let zeros = chunk.iter().all(|byte| *byte == 0);
            trailing_zeros = zeros.then_some((start, chunk.len()));
            if !zeros {
                put_chunks(copy, seg, start, chunk)?;
            }
        }
        at += read;
        if read < STRIDE {
            break;
        }
    }
    if let Some((start, length)) = trailing_zeros {
        put_chunks(copy, seg, start, &vec![0; length])?;
    }
    Ok(())
}

/// Reads until the buffer is full or the file ends.
fn read_full(file: &File, bytes: &mut [u8], at: u64) -> std::io::Result<usize> {
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
