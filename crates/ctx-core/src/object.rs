//! Immutable objects. The id of an object is the hash of `kind version length\0` and its bytes.
//!
//! This prefix is hashed but not stored: kind and version are columns (in a bundle, fields of the
//! entry line). Every version that was ever written stays readable. An object with a newer version
//! than this program knows is an error.

use std::fmt;
use std::marker::PhantomData;

use serde::Serialize;
use serde::de::{DeserializeOwned, DeserializeSeed};

use crate::canonical;
use crate::id::ObjectId;

/// The kind of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The header of a turn. Its hash is the turn id.
    Turn,
    /// The messages of a turn. A purge deletes the body and keeps the header.
    TurnBody,
    /// One stored checkpoint of a task.
    Step,
    /// A sealed task.
    Commit,
    /// Plain bytes without an encoding of ctx.
    Blob,
}

impl Kind {
    /// All kinds, in the order of their numbers in the database.
    pub const ALL: [Kind; 5] = [Kind::Turn, Kind::TurnBody, Kind::Step, Kind::Commit, Kind::Blob];

    /// The name in headers, bundles and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Turn => "turn",
            Kind::TurnBody => "turn-body",
            Kind::Step => "step",
            Kind::Commit => "commit",
            Kind::Blob => "blob",
        }
    }

    /// The newest encoding version that this program writes and reads.
    pub const fn newest_version(self) -> u16 {
        1
    }

    #[allow(missing_docs, reason = "the name is self-explanatory")]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The bytes of an object, with the kind and version that its id depends on.
#[derive(Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Object {
    pub kind: Kind,
    /// Version of the encoding of this kind.
    pub version: u16,
    /// Canonical JSON, or the content of a blob.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} of {} bytes", self.kind, self.id(), self.bytes.len())
    }
}

/// Why bytes are not the expected object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub enum ObjectError {
    /// The hash of the bytes is not the expected id.
    #[error("hash mismatch: the bytes have the hash {found}")]
    HashMismatch {
        /// The actual hash.
        found: ObjectId,
    },
    /// The version is newer than this program.
    #[error(
        "{kind} has version {version}: a newer ctx wrote it, and this one reads versions up to \
         {newest}"
    )]
    TooNew {
        kind: Kind,
        version: u16,
        /// The newest version that this program reads.
        newest: u16,
    },
    /// The hash is right but the bytes cannot be decoded.
    #[error("cannot decode {kind}: {why}")]
    DecodeFailed {
        kind: Kind,
        /// The error of the parser.
        why: String,
    },
}

impl Object {
    /// Encodes a value as canonical JSON, in the newest version of the kind.
    pub fn encode<T: Serialize>(kind: Kind, value: &T) -> Self {
        Self { kind, version: kind.newest_version(), bytes: canonical::to_bytes(value) }
    }

    /// Creates a blob.
    pub fn blob(bytes: Vec<u8>) -> Self {
        Self { kind: Kind::Blob, version: Kind::Blob.newest_version(), bytes }
    }

    /// Computes the hash of prefix and bytes. The result is not cached, see [`Named`].
    pub fn id(&self) -> ObjectId {
        id_of(self.kind, self.version, &self.bytes)
    }

    /// Decodes the value.
    ///
    /// # Errors
    /// If the version is newer than this program, or the bytes are not a value of this kind.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, ObjectError> {
        self.decode_as(PhantomData)
    }

    /// Decodes the value that a seed reads.
    pub(crate) fn decode_as<'a, S: DeserializeSeed<'a>>(
        &'a self,
        seed: S,
    ) -> Result<S::Value, ObjectError> {
        self.check_version()?;
        let mut json = serde_json::Deserializer::from_slice(&self.bytes);
        let value = seed.deserialize(&mut json).and_then(|value| json.end().map(|()| value));
        value.map_err(|e| ObjectError::DecodeFailed { kind: self.kind, why: e.to_string() })
    }

    /// Checks that the object has this id.
    ///
    /// # Errors
    /// If the hash is another one, or the version is newer than this program.
    pub fn check(&self, id: ObjectId) -> Result<(), ObjectError> {
        let found = self.id();
        if found != id {
            return Err(ObjectError::HashMismatch { found });
        }
        self.check_version()
    }

    fn check_version(&self) -> Result<(), ObjectError> {
        let newest = self.kind.newest_version();
        if self.version > newest {
            return Err(ObjectError::TooNew { kind: self.kind, version: self.version, newest });
        }
        Ok(())
    }
}

/// An object with its id, so that it is hashed only once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    id: ObjectId,
    object: Object,
}

impl Named {
    #[allow(missing_docs, reason = "the name is self-explanatory")]
    pub const fn id(&self) -> ObjectId {
        self.id
    }

    #[allow(missing_docs, reason = "the name is self-explanatory")]
    pub const fn object(&self) -> &Object {
        &self.object
    }

    #[allow(missing_docs, reason = "the name is self-explanatory")]
    pub fn into_object(self) -> Object {
        self.object
    }
}

impl From<Object> for Named {
    fn from(object: Object) -> Self {
        Self { id: object.id(), object }
    }
}

/// Computes the id of an object from borrowed bytes.
pub fn id_of(kind: Kind, version: u16, bytes: &[u8]) -> ObjectId {
    let header = format!("{kind} {version} {}\0", bytes.len());
    if bytes.len() > CONTIGUOUS_MAX_BYTES {
        return ObjectId::of(&[header.as_bytes(), bytes]);
    }
    // BLAKE3 hashes contiguous input faster, because it processes several chunks at once.
    ObjectId::of(&[&[header.as_bytes(), bytes].concat()])
}

/// Above this size, copying the bytes costs more than contiguous hashing saves.
const CONTIGUOUS_MAX_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_and_version_are_part_of_the_id() {
        let blob = Object::blob(b"{}".to_vec());
        let step = Object { kind: Kind::Step, ..blob.clone() };
        let newer = Object { version: 2, ..step.clone() };
        assert_ne!(blob.id(), step.id());
        assert_ne!(step.id(), newer.id());
    }

    #[test]
    fn a_flipped_bit_changes_the_hash() {
        let object = Object::blob(b"some tool output".to_vec());
        let id = object.id();
        for at in 0..object.bytes.len() {
            let mut damaged = object.clone();
            damaged.bytes[at] ^= 1;
            assert!(matches!(damaged.check(id), Err(ObjectError::HashMismatch { .. })));
        }
    }

    #[test]
    fn a_newer_version_is_an_error() {
        let object = Object { kind: Kind::Step, version: 9, bytes: b"{}".to_vec() };
        assert_eq!(
            object.check(object.id()),
            Err(ObjectError::TooNew { kind: Kind::Step, version: 9, newest: 1 })
        );
    }
}
