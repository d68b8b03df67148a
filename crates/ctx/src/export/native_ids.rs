//! Ids in the forms of other tools. They depend only on the session and its head, so a second
//! export of the same history finds that its target exists.

use ctx_engine::core::id::{ObjectId, TurnId};
use ctx_engine::core::session::Session;
use ctx_engine::core::time::Timestamp;

/// Letters and digits of the random part of OpenCode ids.
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Characters of the random part of OpenCode ids.
const RANDOM_CHARS: usize = 14;
/// OpenCode counts this many ids per millisecond.
const IDS_PER_MS: u64 = 0x1000;
/// OpenCode stores 48 bits of the time.
const TIME_MASK: u64 = (1 << 48) - 1;

/// Derives ids from a session and its head.
#[derive(Clone)]
pub(super) struct NativeIds {
    seed: String,
    /// The last time of an OpenCode id, so that ids are in order.
    last: u64,
}

impl NativeIds {
    pub(super) fn new(session: &Session, tool: &str) -> Self {
        let head = session.head.map(|head: TurnId| head.to_string()).unwrap_or_default();
        Self { seed: format!("{tool} {} {head}", session.id), last: 0 }
    }

    fn hash(&self, name: &str) -> [u8; 32] {
        *ObjectId::of(&[self.seed.as_bytes(), b"\0", name.as_bytes()]).as_bytes()
    }

    /// A random UUID.
    pub(super) fn uuid(&self, name: &str) -> String {
        let mut bytes = self.hash(name);
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        uuid_text(&bytes)
    }

    /// A UUID that starts with a time.
    pub(super) fn timed_uuid(&self, name: &str, at: Timestamp) -> String {
        let mut bytes = self.hash(name);
        let ms = u64::try_from(at.0).unwrap_or(0).to_be_bytes();
        bytes[..6].copy_from_slice(&ms[2..]);
        bytes[6] = bytes[6] & 0x0f | 0x70;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        uuid_text(&bytes)
    }

    /// Eight hexadecimal digits.
    pub(super) fn short(&self, name: &str) -> String {
        hex(&self.hash(name)[..4])
    }

    /// The id of an OpenCode session: newer ones sort first.
    pub(super) fn open_code_session(&self, at: Timestamp) -> String {
        let time = u64::try_from(at.0).unwrap_or(0).wrapping_mul(IDS_PER_MS) + 1;
        format!("ses_{:012x}{}", !time & TIME_MASK, self.random("session"))
    }

    /// The id of an OpenCode message or part, after all ids before it.
    pub(super) fn open_code(&mut self, prefix: &str, at: Timestamp) -> String {
        let time = u64::try_from(at.0).unwrap_or(0).wrapping_mul(IDS_PER_MS) + 1;
        self.last = time.max(self.last + 1);
        let random = self.random(&format!("{prefix} {}", self.last));
        format!("{prefix}_{:012x}{random}", self.last & TIME_MASK)
    }

    fn random(&self, name: &str) -> String {
        let hash = self.hash(name);
        let letter = |byte: &u8| char::from(BASE62[usize::from(*byte) % BASE62.len()]);
        hash[..RANDOM_CHARS].iter().map(letter).collect()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn uuid_text(bytes: &[u8]) -> String {
    let parts = [&bytes[..4], &bytes[4..6], &bytes[6..8], &bytes[8..10], &bytes[10..16]];
    parts.map(hex).join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids() -> NativeIds {
        NativeIds { seed: "claude-code 01 ab".to_owned(), last: 0 }
    }

    #[test]
    fn uuids_have_their_versions_and_are_stable() {
        let (random, timed) = (ids().uuid("a"), ids().timed_uuid("a", Timestamp(0x0123_4567_89ab)));
        assert_eq!((random.len(), random.as_bytes()[14]), (36, b'4'));
        assert_eq!(&timed[..15], "01234567-89ab-7");
        assert_eq!(random, ids().uuid("a"));
        assert_ne!(random, ids().uuid("b"));
    }

    #[test]
    fn ids_of_open_code_are_in_order_and_newer_sessions_come_first() {
        let mut ids = ids();
        let at = Timestamp(1_794_770_884_275);
        let first = ids.open_code("msg", at);
        assert!(first.starts_with("msg_1e0ae56b3001") && first.len() == 30, "{first}");
        assert!(ids.open_code("msg", Timestamp(at.0 - 5)) > first);
        assert!(ids.open_code_session(at) > ids.open_code_session(Timestamp(at.0 + 1)));
    }
}
