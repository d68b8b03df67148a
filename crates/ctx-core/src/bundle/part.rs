//! Parts: some turns and tasks of a session, in the encoding of a bundle, for a store that has the
//! turns before them.
//!
//! A long session is exchanged in several parts. Each is verified like a bundle and leaves a valid
//! session in the receiving store, so an exchange that was cut off continues after the last part.

use serde::{Deserialize, Serialize};

use crate::id::{TaskId, TurnId};
use crate::object::Object;
use crate::session::Origin;

use super::session::import_after;
use super::{BadBundle, Manifest, SessionBundle, SessionImport, damaged, manifest, read};

/// The manifest of a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionPart {
    /// The session; its head and number of turns are those of the part's last turn, and its tasks
    /// are those in the part.
    pub session: SessionBundle,
    /// The parent of the part's first turn. The receiving store has it.
    pub base: Option<TurnId>,
    /// Number of turns from the root to `base`.
    pub base_turns: u64,
    /// How the session was created.
    pub origin: Origin,
}

impl SessionPart {
    /// Number of turns in the part.
    pub const fn turn_count(&self) -> u64 {
        self.session.turn_count.saturating_sub(self.base_turns)
    }

    /// The tasks in the part.
    pub fn task_ids(&self) -> impl Iterator<Item = TaskId> {
        self.session.tasks.iter().map(|end| end.task.task)
    }

    /// The origin that the session gets in the receiving store.
    pub const fn new_origin(&self) -> Origin {
        match self.origin {
            Origin::Fork => Origin::Fork,
            _ => Origin::Import,
        }
    }
}

/// Decodes only the manifest of a part. Nothing is verified.
///
/// # Errors
/// If the bytes are not a part.
pub fn part_manifest(bytes: &[u8]) -> Result<SessionPart, BadBundle> {
    match manifest(bytes)?.0 {
        Manifest::Part(part) => Ok(*part),
        other => Err(BadBundle::OtherKind { found: other.kind_name(), wanted: "part" }),
    }
}

/// Decodes and verifies a part: the closing hash, the hash of every object, and that the turns are
/// one chain from the base to the head.
///
/// # Errors
/// If a check fails.
pub fn part_import(bytes: &[u8]) -> Result<(SessionPart, SessionImport, Vec<Object>), BadBundle> {
    let (Manifest::Part(part), objects) = read(bytes)? else {
        return Err(BadBundle::OtherKind { found: "bundle", wanted: "part" });
    };
    if part.base.is_none() != (part.base_turns == 0) {
        return Err(damaged("the number of turns before the part is wrong"));
    }
    let import = import_after(part.session.clone(), part.base, part.base_turns, &objects)?;
    Ok((*part, import, objects))
}
