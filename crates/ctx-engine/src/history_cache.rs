//! The histories of sessions that ran lately, so that the next run does not read and decode them
//! again.
//!
//! An entry is valid for one event number of its session: every change of a session stores an
//! event. The transaction that opens a run reads the number, so a fork, a rewind, a pin or a write
//! of another process makes the entry invalid. A pin can change during the run that makes the
//! entry; the transaction that ends the run reports the pins. The cache is bounded; an entry that
//! does not fit is not kept.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ctx_core::id::{SessionId, TurnId};
use ctx_core::time::Timestamp;

use crate::context::History;

/// Size of all entries in bytes.
const CACHE_MAX_BYTES: usize = 32 << 20;
/// Size of one entry in bytes.
const ENTRY_MAX_BYTES: usize = 8 << 20;

struct Entry {
    seq: u64,
    head: Option<TurnId>,
    history: Arc<History>,
    bytes: usize,
    put_at: Timestamp,
    /// Key in `by_age`.
    age: u64,
}

#[derive(Default)]
pub(crate) struct HistoryCache {
    entries: HashMap<SessionId, Entry>,
    /// The entries, oldest first.
    by_age: BTreeMap<u64, SessionId>,
    next_age: u64,
    bytes: usize,
}

impl HistoryCache {
    /// Removes the history of a session and returns it if it is the one of this event number and
    /// head.
    pub(crate) fn take(
        &mut self,
        session: SessionId,
        seq: u64,
        head: Option<TurnId>,
    ) -> Option<Arc<History>> {
        let entry = self.remove(session)?;
        (entry.seq == seq && entry.head == head).then_some(entry.history)
    }

    /// Keeps the history of a session until it changes, and drops the oldest ones if there is no
    /// room.
    pub(crate) fn put(
        &mut self,
        session: SessionId,
        seq: u64,
        head: Option<TurnId>,
        history: Arc<History>,
        now: Timestamp,
    ) {
        self.remove(session);
        let bytes = history.bytes();
        if bytes > ENTRY_MAX_BYTES {
            return;
        }
        self.bytes += bytes;
        self.next_age += 1;
        let age = self.next_age;
        self.by_age.insert(age, session);
        self.entries.insert(session, Entry { seq, head, history, bytes, put_at: now, age });
        while self.bytes > CACHE_MAX_BYTES {
            let Some((_, oldest)) = self.by_age.first_key_value() else { break };
            self.remove(*oldest);
        }
    }

    /// Drops the entries that were put before a time.
    pub(crate) fn drop_older(&mut self, before: Timestamp) {
        while let Some((_, session)) = self.by_age.first_key_value() {
            let session = *session;
            if self.entries.get(&session).is_some_and(|entry| entry.put_at >= before) {
                break;
            }
            self.remove(session);
        }
        if self.entries.is_empty() {
            self.entries.shrink_to_fit();
        }
    }

    fn remove(&mut self, session: SessionId) -> Option<Entry> {
        let entry = self.entries.remove(&session)?;
        self.by_age.remove(&entry.age);
        self.bytes -= entry.bytes;
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctx_core::id::ObjectId;
    use ulid::Ulid;

    fn session(n: u128) -> SessionId {
        SessionId(Ulid(n))
    }

    fn turn(n: u8) -> Option<TurnId> {
        Some(TurnId(ObjectId::from_bytes([n; 32])))
    }

    fn of_bytes(bytes: usize) -> Arc<History> {
        Arc::new(History::of_bytes(bytes))
    }

    #[test]
    fn an_entry_is_valid_for_one_event_number_and_head() {
        for (seq, head, valid) in [(7, turn(1), true), (8, turn(1), false), (7, turn(2), false)] {
            let mut cache = HistoryCache::default();
            cache.put(session(1), 7, turn(1), of_bytes(10), Timestamp(0));
            assert_eq!(cache.take(session(1), seq, head).is_some(), valid, "{seq} {head:?}");
            assert!(cache.take(session(1), 7, turn(1)).is_none(), "it was removed");
            assert_eq!((cache.bytes, cache.by_age.len()), (0, 0));
        }
    }

    #[test]
    fn the_oldest_entries_are_dropped_when_there_is_no_room() {
        let mut cache = HistoryCache::default();
        let count = CACHE_MAX_BYTES / ENTRY_MAX_BYTES;
        for n in 0..=count {
            cache.put(session(n as u128), 1, None, of_bytes(ENTRY_MAX_BYTES), Timestamp(n as i64));
        }
        cache.put(session(99), 1, None, of_bytes(ENTRY_MAX_BYTES + 1), Timestamp(0));
        let kept: Vec<bool> =
            (0..=count).map(|n| cache.entries.contains_key(&session(n as u128))).collect();
        assert_eq!(kept.iter().filter(|kept| **kept).count(), count);
        assert!(!kept[0] && !cache.entries.contains_key(&session(99)));
        assert_eq!(cache.bytes, CACHE_MAX_BYTES);
    }

    #[test]
    fn old_entries_are_dropped_by_time() {
        let mut cache = HistoryCache::default();
        for n in [1, 2, 3] {
            cache.put(session(n), 1, None, of_bytes(2048), Timestamp(n as i64));
        }
        cache.drop_older(Timestamp(3));
        assert!(cache.entries.contains_key(&session(3)));
        assert_eq!((cache.entries.len(), cache.bytes), (1, 2048));
    }
}
