//! Prepares bodies before the transaction: compresses them if that makes them smaller.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;

use ctx_core::id::ObjectId;
use ctx_core::object::{Kind, Named};
use zstd::bulk::{Compressor, Decompressor};

use crate::Error;

/// Bodies below this size are stored uncompressed.
const COMPRESS_MIN_BYTES: usize = 256;
/// Measured on recorded sessions: level 3 saves 3 % more than level 1 for twice the time.
const COMPRESS_LEVEL: i32 = 1;
/// Largest object. A row that claims more is damaged.
pub(crate) const OBJECT_MAX_BYTES: usize = 1 << 30;

const RAW: u8 = 0;
const ZSTD: u8 = 1;

/// An object ready to be stored.
pub(crate) struct Packed {
    pub(crate) id: ObjectId,
    pub(crate) kind: Kind,
    pub(crate) version: u16,
    pub(crate) size: usize,
    pub(crate) packing: u8,
    pub(crate) bytes: Arc<Vec<u8>>,
}

/// Does the work that needs no transaction.
pub(crate) fn pack(named: Named, compress: bool) -> Packed {
    let id = named.id();
    let object = named.into_object();
    let size = object.bytes.len();
    let smaller = compressed(&object.bytes, compress);
    let whole = Arc::new(object.bytes);
    let (packing, bytes) = match smaller {
        Some(smaller) => (ZSTD, Arc::new(smaller)),
        None => (RAW, whole),
    };
    Packed { id, kind: object.kind, version: object.version, size, packing, bytes }
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
    /// Creating a compressor costs more than compressing one tool output with it.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    /// Creating a decompressor costs seven times as much as unpacking the body of a turn with it.
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

fn decompressed(bytes: &[u8], size: usize) -> std::io::Result<Vec<u8>> {
    DECOMPRESSOR.with_borrow_mut(|slot| {
        let decompressor = match slot.take() {
            Some(decompressor) => decompressor,
            None => Decompressor::new()?,
        };
        slot.insert(decompressor).decompress(bytes, size)
    })
}

/// Reverses packing. The caller checks the bytes against their hash.
pub(crate) fn unpack(bytes: Cow<'_, [u8]>, packing: u8, size: i64) -> Result<Vec<u8>, Error> {
    let size = usize::try_from(size).ok().filter(|size| *size <= OBJECT_MAX_BYTES);
    let size = size.ok_or_else(|| Error::Damaged("a body has an impossible size".to_owned()))?;
    match packing {
        RAW => Ok(bytes.into_owned()),
        ZSTD => decompressed(&bytes, size)
            .map_err(|e| Error::Damaged(format!("a body cannot be unpacked: {e}"))),
        other => Err(Error::Damaged(format!("a body has the unknown packing {other}"))),
    }
}
