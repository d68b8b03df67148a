//! Immutable objects: bytes under the hash of `kind version length\0` and themselves.
//!
//! The header is hashed but not stored twice: kind and version are columns (or the bundle's entry line)
//! and give it back. Every version that was ever written stays readable; a newer one than this program
//! knows is refused, never guessed at.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::canonical;
use crate::id::ObjectId;

/// What kind of object some bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The header of a turn; its hash is the turn's id.
    Turn,
    /// The messages of a turn; a purge removes these and leaves the header.
    TurnBody,
    /// One flushed checkpoint of a task.
    Step,
    /// A sealed task.
    Commit,
    /// Bytes as they are.
    Blob,
}

impl Kind {
    /// Every kind, in the order of its number.
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

    /// The newest encoding that this program writes and reads.
    pub const fn newest_version(self) -> u16 {
        1
    }

    /// The kind with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An object's bytes with what is needed to name them.
#[derive(Clone, PartialEq, Eq)]
pub struct Object {
    /// What it is.
    pub kind: Kind,
    /// Which encoding of that kind.
    pub version: u16,
    /// The canonical bytes, or a blob's own.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} of {} bytes", self.kind, self.id(), self.bytes.len())
    }
}

/// Bytes that are not the object they should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The bytes hash to something else.
    #[error("its bytes hash to {found}")]
    WrongHash {
        /// What they hash to.
        found: ObjectId,
    },
    /// A newer program wrote it.
    #[error(
        "it is a {kind} of version {version}, and this ctx reads up to {newest}; a newer ctx wrote it"
    )]
    TooNew {
        /// Its kind.
        kind: Kind,
        /// Its version.
        version: u16,
        /// The newest version read here.
        newest: u16,
    },
    /// It hashes right and still cannot be read.
    #[error("it cannot be read as a {kind}: {why}")]
    Unreadable {
        /// Its kind.
        kind: Kind,
        /// The parser's word.
        why: String,
    },
}

impl Object {
    /// Encodes a value canonically, in the newest version of its kind.
    pub fn encode<T: Serialize>(kind: Kind, value: &T) -> Self {
        Self { kind, version: kind.newest_version(), bytes: canonical::to_bytes(value) }
    }

    /// A blob is its bytes.
    pub fn blob(bytes: Vec<u8>) -> Self {
        Self { kind: Kind::Blob, version: Kind::Blob.newest_version(), bytes }
    }

    /// The hash of the header and the bytes.
    pub fn id(&self) -> ObjectId {
        id_of(self.kind, self.version, &self.bytes)
    }

    /// Reads the value back.
    ///
    /// # Errors
    /// If a newer program wrote it, or it is not what its kind says.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        self.check_version()?;
        serde_json::from_slice(&self.bytes)
            .map_err(|e| Fault::Unreadable { kind: self.kind, why: e.to_string() })
    }

    /// Whether these bytes are the object of that name.
    ///
    /// # Errors
    /// If they hash to something else, or a newer program wrote them.
    pub fn check(&self, id: ObjectId) -> Result<(), Fault> {
        let found = self.id();
        if found != id {
            return Err(Fault::WrongHash { found });
        }
        self.check_version()
    }

    fn check_version(&self) -> Result<(), Fault> {
        let newest = self.kind.newest_version();
        if self.version > newest {
            return Err(Fault::TooNew { kind: self.kind, version: self.version, newest });
        }
        Ok(())
    }
}

/// An object under its name, so that it is hashed once on its way to the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    id: ObjectId,
    object: Object,
}

impl Named {
    /// Its name.
    pub const fn id(&self) -> ObjectId {
        self.id
    }

    /// The object.
    pub const fn object(&self) -> &Object {
        &self.object
    }

    /// The object, out of its name.
    pub fn into_object(self) -> Object {
        self.object
    }
}

impl From<Object> for Named {
    fn from(object: Object) -> Self {
        Self { id: object.id(), object }
    }
}

/// The id of bytes of some kind, without owning them.
pub fn id_of(kind: Kind, version: u16, bytes: &[u8]) -> ObjectId {
    let header = format!("{kind} {version} {}\0", bytes.len());
    if bytes.len() > CONTIGUOUS_MAX_BYTES {
        return ObjectId::of(&[header.as_bytes(), bytes]);
    }
    // In one piece, BLAKE3 takes several chunks at a time.
    ObjectId::of(&[&[header.as_bytes(), bytes].concat()])
}

/// Copying more than this costs more than it saves.
const CONTIGUOUS_MAX_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_and_version_are_part_of_the_name() {
        let blob = Object::blob(b"{}".to_vec());
        let step = Object { kind: Kind::Step, ..blob.clone() };
        let newer = Object { version: 2, ..step.clone() };
        assert_ne!(blob.id(), step.id());
        assert_ne!(step.id(), newer.id());
    }

    #[test]
    fn a_flipped_byte_is_found() {
        let object = Object::blob(b"some tool output".to_vec());
        let id = object.id();
        for at in 0..object.bytes.len() {
            let mut damaged = object.clone();
            damaged.bytes[at] ^= 1;
            assert!(matches!(damaged.check(id), Err(Fault::WrongHash { .. })));
        }
    }

    #[test]
    fn a_newer_encoding_is_refused_by_name() {
        let object = Object { kind: Kind::Step, version: 9, bytes: b"{}".to_vec() };
        assert_eq!(
            object.check(object.id()),
            Err(Fault::TooNew { kind: Kind::Step, version: 9, newest: 1 })
        );
    }
}
