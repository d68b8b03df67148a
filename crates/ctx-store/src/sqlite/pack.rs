//! Bodies: packed before the transaction, laid into segments inside it, checked when they are read.
//!
//! All bodies that one decision stores lie in one row of `bodies`, end to end; the rows of turns, steps,
//! commits and blobs say where. A body is compressed if that makes it smaller.

use std::cell::RefCell;
use std::sync::Arc;

use ctx_core::id::ObjectId;
use ctx_core::object::{Kind, Named};
use rusqlite::{Connection, OptionalExtension, Row, params};
use zstd::bulk::Compressor;

use crate::Error;

use super::words;

/// Smaller bodies are not worth a compressor's header.
const COMPRESS_MIN_BYTES: usize = 256;
/// Measured on recorded sessions: level 3 saves 3 % more than level 1 for twice the time.
const COMPRESS_LEVEL: i32 = 1;
/// When a decision stores more than this, it starts another segment.
const SEGMENT_MAX_BYTES: usize = 4 << 20;
/// No object is larger; what claims to be is damaged.
const OBJECT_MAX_BYTES: usize = 1 << 30;

const RAW: u8 = 0;
const ZSTD: u8 = 1;

/// An object ready to be stored.
pub(crate) struct Packed {
    pub(crate) id: ObjectId,
    pub(crate) kind: Kind,
    pub(crate) version: u16,
    pub(crate) size: usize,
    pub(crate) words: Arc<[u32]>,
    packing: u8,
    bytes: Vec<u8>,
}

impl Packed {
    /// How many bytes it takes on disk.
    pub(crate) fn stored_bytes(&self) -> usize {
        self.bytes.len()
    }
}

/// Compresses and reads the words: everything that costs and needs no transaction.
pub(crate) fn pack(named: Named, compress: bool) -> Packed {
    let id = named.id();
    let object = named.into_object();
    let size = object.bytes.len();
    let words = if object.kind == Kind::Blob { Arc::default() } else { words::hashes(&object.bytes).into() };
    let (packing, bytes) = match compressed(&object.bytes, compress) {
        Some(smaller) => (ZSTD, smaller),
        None => (RAW, object.bytes),
    };
    Packed { id, kind: object.kind, version: object.version, size, words, packing, bytes }
}

fn compressed(bytes: &[u8], compress: bool) -> Option<Vec<u8>> {
    if !compress || bytes.len() < COMPRESS_MIN_BYTES {
        return None;
    }
    COMPRESSOR.with_borrow_mut(|slot| {
        let compressor = match slot.take() {
            Some(compressor) => compressor,
            None => Compressor::new(COMPRESS_LEVEL).ok()?,
        };
        let smaller = slot.insert(compressor).compress(bytes).ok()?;
        (smaller.len() < bytes.len()).then_some(smaller)
    })
}

thread_local! {
    /// Making one costs more than compressing a tool's output with it.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
}

/// Where a body lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) seg: i64,
    pub(crate) off: i64,
    pub(crate) len: i64,
    pub(crate) packing: u8,
    pub(crate) size: i64,
}

impl Place {
    /// Reads `seg, off, len, packing, size` from five columns, the first of which is `from`; nothing where
    /// the body was purged.
    pub(crate) fn from_row(row: &Row<'_>, from: usize) -> rusqlite::Result<Option<Self>> {
        let Some(seg) = row.get(from)? else { return Ok(None) };
        Ok(Some(Self { seg, off: row.get(from + 1)?, len: row.get(from + 2)?, packing: row.get(from + 3)?, size: row.get(from + 4)? }))
    }

    /// Reads the body; whether it is what it should be is for a hash to say.
    pub(crate) fn read(&self, connection: &Connection) -> Result<Vec<u8>, Error> {
        let mut statement = connection.prepare_cached("SELECT substr(data, ?2, ?3) FROM bodies WHERE id = ?1")?;
        let bytes: Option<Vec<u8>> = statement.query_row(params![self.seg, self.off + 1, self.len], |row| row.get(0)).optional()?;
        let bytes = bytes.ok_or_else(|| Error::Damaged(format!("segment {} is missing", self.seg)))?;
        self.unpack(bytes)
    }

    fn unpack(&self, bytes: Vec<u8>) -> Result<Vec<u8>, Error> {
        let size = usize::try_from(self.size).ok().filter(|size| *size <= OBJECT_MAX_BYTES);
        let size = size.ok_or_else(|| Error::Damaged(format!("segment {}: impossible size {}", self.seg, self.size)))?;
        match self.packing {
            RAW => Ok(bytes),
            ZSTD => zstd::bulk::decompress(&bytes, size).map_err(|e| Error::Damaged(format!("segment {} at {}: {e}", self.seg, self.off))),
            other => Err(Error::Damaged(format!("segment {}: unknown packing {other}", self.seg))),
        }
    }
}

/// The segment that is being filled.
pub(crate) struct Segment {
    id: i64,
    data: Vec<u8>,
}

impl Segment {
    pub(crate) fn next(connection: &Connection) -> Result<Self, Error> {
        let id: i64 = connection.prepare_cached("SELECT COALESCE(MAX(id), 0) + 1 FROM bodies")?.query_row([], |row| row.get(0))?;
        Ok(Self { id, data: Vec::new() })
    }

    pub(crate) fn put(&mut self, connection: &Connection, packed: &Packed) -> Result<Place, Error> {
        if !self.data.is_empty() && self.data.len() + packed.bytes.len() > SEGMENT_MAX_BYTES {
            self.flush(connection)?;
        }
        let place = Place {
            seg: self.id,
            off: self.data.len() as i64,
            len: packed.bytes.len() as i64,
            packing: packed.packing,
            size: packed.size as i64,
        };
        self.data.extend_from_slice(&packed.bytes);
        Ok(place)
    }

    /// Stores what has been put; the next put starts another segment.
    pub(crate) fn flush(&mut self, connection: &Connection) -> Result<(), Error> {
        if !self.data.is_empty() {
            connection.prepare_cached("INSERT INTO bodies(id, data) VALUES (?1, ?2)")?.execute(params![self.id, self.data])?;
            self.id += 1;
            self.data.clear();
        }
        Ok(())
    }
}
