//! Ids: one type per kind of thing, so that a turn is never taken for a run.
//!
//! Immutable objects are named by the BLAKE3 hash of their canonical bytes and print as 64 lower-case
//! hex digits. Things that change (sessions, tasks, prompts) have ULIDs. Nothing in this crate makes
//! an id out of thin air: [`Mint`] counts up from a seed that the caller drew.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use ulid::Ulid;

/// The text that was given is not an id of the wanted kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {wanted}")]
pub struct BadId {
    /// What was given, clipped.
    pub text: String,
    /// What an id of this kind looks like.
    pub wanted: &'static str,
}

impl BadId {
    fn new(text: &str, wanted: &'static str) -> Self {
        Self { text: text.chars().take(80).collect(), wanted }
    }
}

/// The hash that names any immutable object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId([u8; 32]);

impl ObjectId {
    /// The id with these bytes; whether such an object exists is the store's to say.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The id of these exact bytes.
    pub fn of(bytes: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in bytes {
            hasher.update(part);
        }
        Self(*hasher.finalize().as_bytes())
    }

    /// The 32 bytes of the hash.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first twelve digits: what a person reads and types.
    pub fn short(&self) -> String {
        let mut hex = self.to_string();
        hex.truncate(12);
        hex
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(blake3::Hash::from_bytes(self.0).to_hex().as_str())
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.short())
    }
}

impl FromStr for ObjectId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        let lower_case = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        match blake3::Hash::from_hex(text) {
            Ok(hash) if lower_case => Ok(Self(*hash.as_bytes())),
            _ => Err(BadId::new(text, "64 lower-case hex digits")),
        }
    }
}

macro_rules! as_text {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = String::deserialize(from)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

macro_rules! object_id {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub ObjectId);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:?})", stringify!($name), self.0)
            }
        }

        impl FromStr for $name {
            type Err = BadId;

            fn from_str(text: &str) -> Result<Self, BadId> {
                text.parse().map(Self)
            }
        }

        impl From<$name> for ObjectId {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        as_text!($name);
    )+};
}

macro_rules! ulid_id {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub Ulid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }

        impl FromStr for $name {
            type Err = BadId;

            fn from_str(text: &str) -> Result<Self, BadId> {
                Ulid::from_string(text).map(Self).map_err(|_| BadId::new(text, "a ULID of 26 characters"))
            }
        }

        as_text!($name);
    )+};
}

as_text!(ObjectId);

object_id! {
    /// A turn: the hash of its header.
    TurnId,
    /// One flushed checkpoint of a task.
    StepId,
    /// A sealed task.
    CommitId,
    /// A tool output or a version of a file, kept as bytes.
    BlobId,
}

ulid_id! {
    /// A durable conversation.
    SessionId,
    /// One unit of work inside a session.
    TaskId,
    /// A message, queued or in history; the same id for ever.
    MessageId,
    /// A note inside a step.
    NoteId,
    /// A durable question with two choices.
    PromptId,
    /// One attempt of a provider to produce a turn.
    RunId,
    /// Something that a session waits for.
    SuspensionId,
    /// A process that runs sessions.
    NodeId,
    /// A token that lets a client in.
    TokenId,
}

/// Counts ids up from a seed, so that a rule that needs an id stays a function of its arguments.
///
/// The seed is a fresh ULID; its last 80 bits are random, so counting up from it never meets another
/// seed in practice, and a decision that is made twice from one seed gets the same ids.
#[derive(Debug, Clone)]
pub struct Mint(Ulid);

impl Mint {
    /// Counts from `seed`.
    pub const fn new(seed: Ulid) -> Self {
        Self(seed)
    }

    /// The next id.
    pub fn next_id(&mut self) -> Ulid {
        let id = self.0;
        self.0 = Ulid(id.0.wrapping_add(1));
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_id_reads_back_what_it_prints() {
        let id = ObjectId::of(&[b"a", b"b"]);
        assert_eq!(id, ObjectId::of(&[b"ab"]));
        assert_eq!(id.to_string().parse::<ObjectId>(), Ok(id));
        assert_eq!(id.to_string().len(), 64);
    }

    #[test]
    fn ids_refuse_what_is_not_one() {
        let upper = ObjectId::of(&[b"x"]).to_string().to_uppercase();
        for bad in ["", "abc", upper.as_str(), "é", &"g".repeat(64)] {
            assert!(bad.parse::<TurnId>().is_err(), "{bad}");
        }
        assert!("not-a-ulid".parse::<SessionId>().is_err());
    }

    #[test]
    fn a_mint_gives_the_same_ids_from_the_same_seed() {
        let seed = Ulid(7);
        let (mut a, mut b) = (Mint::new(seed), Mint::new(seed));
        assert_eq!(a.next_id(), b.next_id());
        let second = a.next_id();
        assert_eq!(second, b.next_id());
        assert_ne!(second, seed);
    }
}
