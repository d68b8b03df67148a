//! Exchange of sessions between stores: what one store tells another about its sessions, how two
//! histories relate, and where a session that diverged is stored.
//!
//! A session has the same id in every store. Two histories of one session that each have turns of
//! their own have diverged: the receiving store keeps its session as it is and stores the other
//! history as a session of its own, a *branch*. The id of a branch depends only on the session and
//! on the first turn that the two histories do not share, so a later exchange finds the branch
//! again and extends it.

use serde::{Deserialize, Serialize};
use ulid::Ulid;

use crate::bundle::alternative_labels;
use crate::id::{ObjectId, SessionId, StepId, TaskId, TurnId};
use crate::session::Origin;
use crate::time::Timestamp;

/// Size of the objects of a part in bytes after which it gets no further turn or task.
pub const PART_BYTES: usize = 4 << 20;
/// Maximum size of a part in bytes. A part with a single large object may exceed [`PART_BYTES`].
pub const PART_MAX_BYTES: usize = 64 << 20;
/// Maximum number of turns in a part.
pub const PART_TURNS_MAX: usize = 1024;
/// Maximum number of parts in one message between two stores.
pub const BATCH_PARTS_MAX: usize = 64;
/// Maximum number of ids in one query of a store.
pub const QUERY_IDS_MAX: usize = 4096;

/// What a store tells about one of its sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields of `Session` under the same names")]
pub struct SessionHead {
    pub session: SessionId,
    pub label: String,
    pub origin: Origin,
    pub head: Option<TurnId>,
    /// Number of turns from the root to the head.
    pub turns: u64,
    /// Digest of the tasks; `None` if the session has no task.
    pub tasks: Option<String>,
    pub updated_at: Timestamp,
}

impl SessionHead {
    /// Whether there is nothing to send besides the session row.
    pub const fn is_empty(&self) -> bool {
        self.head.is_none() && self.tasks.is_none()
    }

    /// Whether it is the session that every store of a project begins with, without any use.
    pub fn is_unused_default(&self) -> bool {
        self.is_empty() && self.label == "main" && self.origin == Origin::Cli
    }
}

/// How far a task is in a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct TaskMark {
    pub task: TaskId,
    /// The newest step.
    pub head: StepId,
    /// Number of steps.
    pub steps: u64,
    pub ended: bool,
}

impl TaskMark {
    /// Whether the target lacks something of this task. A task that ended in the target is final.
    pub fn is_wanted(&self, target: Option<&Self>) -> bool {
        match target {
            None => true,
            Some(target) if target.ended => false,
            Some(target) => self.steps > target.steps || (self.ended && self.head == target.head),
        }
    }
}

/// Digest of the tasks of a session, in any order; `None` without tasks.
pub fn task_digest(marks: &mut [TaskMark]) -> Option<String> {
    if marks.is_empty() {
        return None;
    }
    marks.sort_by_key(|mark| mark.task);
    let line = |mark: &TaskMark| format!("{} {} {}\n", mark.task, mark.head, mark.ended);
    let text: String = marks.iter().map(line).collect();
    Some(ObjectId::of(&[text.as_bytes()]).to_string()[..32].to_owned())
}

/// Asks for the turns at some depths of the path from the root to a head. Depths count from 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct PathQuery {
    pub head: TurnId,
    pub depths: Vec<u64>,
}

/// Asks for the next part of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct PartRequest {
    pub session: SessionId,
    /// The last turn that is wanted.
    pub head: Option<TurnId>,
    /// The newest turn that the target has. The part starts after it.
    pub after: Option<TurnId>,
    /// Tasks to send after the last turn.
    pub tasks: Vec<TaskId>,
}

/// Where a store puts a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Placement {
    pub session: SessionId,
    /// Labels in order of preference, if the session must be created.
    pub labels: Vec<String>,
}

/// How the history in the target relates to the one in the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// The target has every turn of the source.
    Complete,
    /// The target lacks only the newest turns.
    Behind,
    /// Each has turns that the other lacks.
    Diverged,
}

impl Relation {
    /// `shared` is the number of turns from the root that both histories have.
    pub const fn of(source_turns: u64, target_turns: u64, shared: u64) -> Self {
        if shared == source_turns {
            Self::Complete
        } else if shared == target_turns {
            Self::Behind
        } else {
            Self::Diverged
        }
    }
}

/// The session that stores the other history of a diverged session. `first` is the first turn that
/// the target's session does not have.
pub fn branch_id(session: SessionId, first: TurnId) -> SessionId {
    let name = ObjectId::of(&[b"branch ", session.to_string().as_bytes(), first.0.as_bytes()]);
    let mut random = [0; 16];
    random[6..].copy_from_slice(&name.as_bytes()[..10]);
    // The time half stays, so that the branch is listed beside its session.
    let time = session.0.0 & !((1 << 80) - 1);
    SessionId(Ulid(time | u128::from_be_bytes(random)))
}

/// Where a branch is stored.
pub fn branch_placement(session: SessionId, label: &str, first: TurnId) -> Placement {
    let [_, short, long] = alternative_labels(label, first.0);
    Placement { session: branch_id(session, first), labels: vec![short, long] }
}

/// Where a session is stored that the target does not have.
pub fn new_placement(session: SessionId, label: &str) -> Placement {
    let name = ObjectId::of(&[session.to_string().as_bytes()]);
    Placement { session, labels: alternative_labels(label, name).to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(n: u8) -> TurnId {
        TurnId(ObjectId::from_bytes([n; 32]))
    }

    #[test]
    fn histories_relate_by_the_turns_that_they_share() {
        let table = [
            ((3, 3, 3), Relation::Complete),
            ((3, 5, 3), Relation::Complete),
            ((0, 0, 0), Relation::Complete),
            ((5, 3, 3), Relation::Behind),
            ((5, 0, 0), Relation::Behind),
            ((5, 5, 4), Relation::Diverged),
            ((5, 3, 2), Relation::Diverged),
        ];
        for ((source, target, shared), expected) in table {
            assert_eq!(Relation::of(source, target, shared), expected, "{source} {target}");
        }
    }

    #[test]
    fn a_branch_has_the_same_id_in_every_exchange_and_the_time_of_its_session() {
        let session = SessionId(Ulid::from_string("01J9Z3N0ABCDEFGHJKMNPQRSTV").expect("an id"));
        let branch = branch_id(session, turn(1));
        assert_eq!(branch, branch_id(session, turn(1)));
        assert_ne!(branch, branch_id(session, turn(2)));
        assert_ne!(branch, branch_id(branch, turn(1)));
        assert_eq!(branch.to_string()[..10], session.to_string()[..10]);
        let placement = branch_placement(session, "main", turn(0xab));
        assert_eq!(placement.labels, ["main~abababab", "main~abababababababab"]);
    }

    #[test]
    fn a_task_is_sent_while_the_target_lacks_steps_or_its_end() {
        let mark = |steps: u8, ended: bool| TaskMark {
            task: TaskId(Ulid(1)),
            head: StepId(ObjectId::from_bytes([steps; 32])),
            steps: u64::from(steps),
            ended,
        };
        assert!(mark(1, false).is_wanted(None));
        assert!(mark(2, false).is_wanted(Some(&mark(1, false))));
        assert!(mark(2, true).is_wanted(Some(&mark(2, false))));
        assert!(!mark(2, false).is_wanted(Some(&mark(2, false))));
        assert!(!mark(1, false).is_wanted(Some(&mark(2, false))));
        assert!(!mark(3, false).is_wanted(Some(&mark(2, true))));
        let (mut one, mut two) = (vec![mark(1, false)], vec![mark(1, true)]);
        assert_ne!(task_digest(&mut one), task_digest(&mut two));
        assert_eq!(task_digest(&mut []), None);
    }
}
