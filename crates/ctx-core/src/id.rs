//! Ids: one type per kind of record, so that the compiler rejects a turn id in place of a run id.
//!
//! The id of an immutable object is the BLAKE3 hash of its bytes, printed as 64 lower-case hex
//! digits. Mutable records (sessions, tasks, prompts) have ULIDs. This crate has no source of
//! randomness: [`IdGenerator`] counts up from a seed that the caller provides.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use ulid::Ulid;

/// The text is not an id of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid id `{text}`: expected {wanted}")]
pub struct BadId {
    /// The text, truncated to 80 characters.
    pub text: String,
    /// The expected format.
    pub wanted: &'static str,
}

impl BadId {
    fn new(text: &str, wanted: &'static str) -> Self {
        Self { text: text.chars().take(80).collect(), wanted }
    }
}

/// The id of an immutable object of any kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId([u8; 32]);

impl ObjectId {
    /// Creates an id from its bytes. The object does not have to exist.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Hashes the concatenation of the byte slices.
    pub fn of(bytes: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in bytes {
            hasher.update(part);
        }
        Self(*hasher.finalize().as_bytes())
    }

    #[allow(missing_docs, reason = "the name is self-explanatory")]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first twelve digits, for display and for input by a user.
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
        let bad = || BadId::new(text, "64 lower-case hex digits");
        let digits: &[u8; 64] = text.as_bytes().try_into().map_err(|_| bad())?;
        let (mut bytes, mut valid) = ([0; 32], true);
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let (high, low) = (hex_value(pair[0]), hex_value(pair[1]));
            valid &= high < 16 && low < 16;
            *byte = high << 4 | low & 15;
        }
        if valid { Ok(Self(bytes)) } else { Err(bad()) }
    }
}

/// The value of a lower-case hex digit; more than 15 for any other byte.
const fn hex_value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => u8::MAX,
    }
}

/// Parses an id from text without a copy of the text.
struct IdVisitor<T>(PhantomData<T>);

impl<T: FromStr<Err = BadId>> Visitor<'_> for IdVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an id")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
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
                from.deserialize_str(IdVisitor(PhantomData))
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
                let ulid = Ulid::from_string(text);
                ulid.map(Self).map_err(|_| BadId::new(text, "a ULID of 26 characters"))
            }
        }

        as_text!($name);
    )+};
}

as_text!(ObjectId);

object_id! {
    /// Id of a turn: the hash of its header.
    TurnId,
    /// Id of one stored checkpoint of a task.
    StepId,
    /// Id of a sealed task.
    CommitId,
    /// Id of a blob: a tool output, an image or a version of a file.
    BlobId,
}

ulid_id! {
    /// Id of a durable conversation.
    SessionId,
    /// Id of one unit of work inside a session. It is the same in every store.
    TaskId,
    /// Id of a message. It is the same in the inbox and in the history.
    MessageId,
    /// Id of a note inside a step.
    NoteId,
    /// Id of a durable question with two choices.
    PromptId,
    /// Id of a person, agent or service.
    EntityId,
    /// Id of one attempt of a provider to produce a turn.
    RunId,
    /// Id of something that a session waits for.
    SuspensionId,
    /// Id of a delivery to a channel. It is the same for every attempt.
    OutgoingId,
    /// Id of a process that runs sessions.
    NodeId,
    /// Id of an API token. It is not secret.
    TokenId,
}

/// An id that depends only on a name, for records that are imported: an import that is repeated
/// gives the same ids. `at` is the time of the record in milliseconds.
pub fn derived_ulid(name: &[&str], at: i64) -> Ulid {
    let mut hasher = blake3::Hasher::new();
    for part in name {
        // With its length, so that different names are different bytes.
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    let hash = hasher.finalize();
    let random =
        hash.as_bytes()[..10].iter().fold(0_u128, |bits, byte| bits << 8 | u128::from(*byte));
    Ulid::from_parts(u64::try_from(at).unwrap_or(0), random)
}

/// Generates ids from a seed, so that a rule that needs ids is a pure function of its arguments.
///
/// The seed is a new ULID. Its last 80 bits are random, so sequences of two seeds do not overlap in
/// practice. A rule that runs twice with one seed generates the same ids.
#[derive(Debug, Clone)]
pub struct IdGenerator(Ulid);

impl IdGenerator {
    /// The first id is `seed` itself.
    pub const fn new(seed: Ulid) -> Self {
        Self(seed)
    }

    /// Returns the next id.
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
    fn a_printed_object_id_parses_to_the_same_id() {
        let id = ObjectId::of(&[b"a", b"b"]);
        assert_eq!(id, ObjectId::of(&[b"ab"]));
        assert_eq!(id.to_string().parse::<ObjectId>(), Ok(id));
        assert_eq!(id.to_string().len(), 64);
    }

    #[test]
    fn invalid_ids_are_rejected() {
        let upper = ObjectId::of(&[b"x"]).to_string().to_uppercase();
        for bad in ["", "abc", upper.as_str(), "é", &"g".repeat(64)] {
            assert!(bad.parse::<TurnId>().is_err(), "{bad}");
        }
        assert!("not-a-ulid".parse::<SessionId>().is_err());
    }

    #[test]
    fn the_same_seed_generates_the_same_ids() {
        let seed = Ulid(7);
        let (mut a, mut b) = (IdGenerator::new(seed), IdGenerator::new(seed));
        assert_eq!(a.next_id(), b.next_id());
        let second = a.next_id();
        assert_eq!(second, b.next_id());
        assert_ne!(second, seed);
    }
}
