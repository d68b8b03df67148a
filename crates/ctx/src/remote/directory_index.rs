//! The index of a directory remote: which turns and tasks are in which file, and the sessions that
//! they make up.
//!
//! Machines add entries without a lock, so a session may get two heads. Like any diverged session,
//! it is then shown as two: the session and a branch. Which of them keeps the name depends only on
//! the turns, so every machine sees the same.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use ctx_engine::core::exchange::{SessionHead, TaskMark, branch_placement, task_digest};
use ctx_engine::core::id::{ObjectId, SessionId, TaskId, TurnId};
use ctx_engine::core::session::Origin;
use ctx_engine::core::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Version of the index files.
pub(super) const FORMAT: u32 = 1;

/// An index file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Segment {
    pub(super) format: u32,
    pub(super) entries: Vec<Entry>,
}

/// A part of a session in a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) session: SessionId,
    pub(super) label: String,
    pub(super) origin: Origin,
    pub(super) at: Timestamp,
    /// The turn before the part.
    pub(super) base: Option<TurnId>,
    /// Number of turns from the root to `base`.
    pub(super) base_turns: u64,
    pub(super) turns: Vec<TurnId>,
    pub(super) tasks: Vec<TaskMark>,
    /// The name of the file.
    pub(super) part: ObjectId,
}

impl Entry {
    fn head(&self) -> Option<TurnId> {
        self.turns.last().copied().or(self.base)
    }
}

struct Place {
    parent: Option<TurnId>,
    depth: u64,
    entry: usize,
}

#[derive(Default)]
pub(super) struct Index {
    entries: Vec<Entry>,
    turns: HashMap<TurnId, Place>,
    /// The newest mark of each task, and its entry.
    tasks: HashMap<TaskId, (TaskMark, usize)>,
    /// Entries whose base is not there yet.
    waiting: Vec<Entry>,
}

impl Index {
    /// Adds entries. One whose base is unknown waits until its base is added.
    pub(super) fn add(&mut self, entries: Vec<Entry>) {
        let mut all = std::mem::take(&mut self.waiting);
        all.extend(entries);
        all.sort_by_key(|entry| entry.base_turns);
        for entry in all {
            let is_known = match entry.base {
                Some(base) => self.turns.get(&base).is_some_and(|it| it.depth == entry.base_turns),
                None => entry.base_turns == 0,
            };
            if is_known {
                self.add_known(entry);
            } else {
                self.waiting.push(entry);
            }
        }
    }

    fn add_known(&mut self, entry: Entry) {
        let at = self.entries.len();
        let mut parent = entry.base;
        for (turn, depth) in entry.turns.iter().zip(entry.base_turns + 1..) {
            self.turns.entry(*turn).or_insert(Place { parent, depth, entry: at });
            parent = Some(*turn);
        }
        for mark in &entry.tasks {
            let known = self.tasks.get(&mark.task).map(|(known, _)| known);
            if mark.is_wanted(known) {
                self.tasks.insert(mark.task, (mark.clone(), at));
            }
        }
        self.entries.push(entry);
    }

    pub(super) fn has(&self, turn: TurnId) -> bool {
        self.turns.contains_key(&turn)
    }

    pub(super) fn depth(&self, turn: TurnId) -> Option<u64> {
        self.turns.get(&turn).map(|place| place.depth)
    }

    pub(super) fn task(&self, task: TaskId) -> Option<&TaskMark> {
        self.tasks.get(&task).map(|(mark, _)| mark)
    }

    /// The entry that holds a turn.
    pub(super) fn entry_of_turn(&self, turn: TurnId) -> Option<&Entry> {
        self.turns.get(&turn).map(|place| &self.entries[place.entry])
    }

    pub(super) fn entry_of_task(&self, task: TaskId) -> Option<&Entry> {
        self.tasks.get(&task).map(|(_, at)| &self.entries[*at])
    }

    /// The newest entry of a session.
    pub(super) fn entry_of_session(&self, session: SessionId) -> Option<&Entry> {
        self.entries.iter().rev().find(|entry| entry.session == session)
    }

    /// The turns from the root to a head, as far as they are known.
    pub(super) fn path(&self, head: TurnId) -> Vec<TurnId> {
        let mut path = Vec::new();
        let mut at = Some(head);
        while let Some(turn) = at {
            let Some(place) = self.turns.get(&turn) else { break };
            path.push(turn);
            at = place.parent;
        }
        path.reverse();
        path
    }

    /// The tasks of a session, by id.
    pub(super) fn tasks_of(&self, session: SessionId) -> Vec<TaskMark> {
        let entries = self.entries.iter().filter(|entry| entry.session == session);
        let ids: BTreeSet<TaskId> =
            entries.flat_map(|entry| entry.tasks.iter().map(|mark| mark.task)).collect();
        ids.iter().filter_map(|id| self.task(*id).cloned()).collect()
    }

    /// Every session, with the branches of sessions that have several heads.
    pub(super) fn heads(&self) -> Vec<SessionHead> {
        let mut open: BTreeMap<SessionId, Candidates> = BTreeMap::new();
        for entry in &self.entries {
            let candidates = open.entry(entry.session).or_default();
            candidates.label.clone_from(&entry.label);
            candidates.origin = Some(entry.origin);
            candidates.at = candidates.at.max(entry.at.0);
            candidates.heads.extend(entry.head());
            candidates.tasks.extend(entry.tasks.iter().map(|mark| mark.task));
        }
        let mut rows = Vec::new();
        while let Some((session, candidates)) = open.pop_first() {
            let paths = self.tips(&candidates.heads);
            let mut marks: Vec<TaskMark> =
                candidates.tasks.iter().filter_map(|task| self.task(*task).cloned()).collect();
            rows.push(SessionHead {
                session,
                label: candidates.label.clone(),
                origin: candidates.origin.unwrap_or(Origin::Import),
                head: paths.first().and_then(|path| path.last().copied()),
                turns: paths.first().map_or(0, Vec::len) as u64,
                tasks: task_digest(&mut marks),
                updated_at: Timestamp(candidates.at),
            });
            for other in paths.iter().skip(1) {
                let first = other.iter().zip(&paths[0]).position(|(a, b)| a != b);
                let Some(first) = first.and_then(|at| other.get(at)) else { continue };
                let placement = branch_placement(session, &candidates.label, *first);
                // A branch that was processed before would not end the loop.
                if rows.iter().any(|row| row.session == placement.session) {
                    continue;
                }
                let branch = open.entry(placement.session).or_default();
                branch.heads.extend(other.last());
                branch.at = branch.at.max(candidates.at);
                if branch.label.is_empty() {
                    branch.label = placement.labels.into_iter().next().unwrap_or_default();
                }
            }
        }
        rows
    }

    /// The paths to the heads that are not ancestors of others, in the order of their turns.
    fn tips(&self, heads: &HashSet<TurnId>) -> Vec<Vec<TurnId>> {
        let mut deepest: Vec<TurnId> = heads.iter().copied().collect();
        deepest.sort_by_key(|turn| std::cmp::Reverse(self.depth(*turn)));
        let mut seen: HashSet<TurnId> = HashSet::new();
        let mut paths = Vec::new();
        for head in deepest {
            if seen.contains(&head) {
                continue;
            }
            let path = self.path(head);
            seen.extend(&path);
            paths.push(path);
        }
        paths.sort();
        paths
    }
}

#[derive(Default)]
struct Candidates {
    label: String,
    origin: Option<Origin>,
    at: i64,
    heads: HashSet<TurnId>,
    tasks: BTreeSet<TaskId>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use ulid::Ulid;

    fn turn(n: u8) -> TurnId {
        TurnId(ObjectId::from_bytes([n; 32]))
    }

    fn entry(session: SessionId, base: Option<(u8, u64)>, turns: &[u8]) -> Entry {
        Entry {
            session,
            label: "main".into(),
            origin: Origin::Cli,
            at: Timestamp(1),
            base: base.map(|(n, _)| turn(n)),
            base_turns: base.map_or(0, |(_, depth)| depth),
            turns: turns.iter().map(|n| turn(*n)).collect(),
            tasks: Vec::new(),
            part: ObjectId::from_bytes([0; 32]),
        }
    }

    #[test]
    fn a_session_with_two_heads_is_a_session_and_a_branch_on_every_machine() {
        let session = SessionId(Ulid(1 << 90));
        let entries = [
            entry(session, None, &[1, 2]),
            entry(session, Some((2, 2)), &[5, 6]),
            entry(session, Some((2, 2)), &[4]),
            entry(session, Some((6, 4)), &[7]),
        ];
        let orders = [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]];
        for order in orders {
            let mut index = Index::default();
            for at in order {
                index.add(vec![entries[at].clone()]);
            }
            let rows: Vec<_> =
                index.heads().into_iter().map(|row| (row.session, row.head, row.turns)).collect();
            let branch = branch_placement(session, "main", turn(5)).session;
            let mut expected = [(session, Some(turn(4)), 3), (branch, Some(turn(7)), 5)];
            expected.sort_by_key(|row| row.0);
            let mut rows = rows;
            rows.sort_by_key(|row| row.0);
            assert_eq!(rows, expected, "{order:?}");
        }
    }

    #[test]
    fn an_entry_waits_for_its_base() {
        let session = SessionId(Ulid(1 << 90));
        let mut index = Index::default();
        index.add(vec![entry(session, Some((2, 2)), &[3])]);
        assert!(index.heads().is_empty() && !index.has(turn(3)));
        index.add(vec![entry(session, None, &[1, 2])]);
        assert_eq!(index.path(turn(3)), [turn(1), turn(2), turn(3)]);
    }
}
