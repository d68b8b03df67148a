//! Exchange of sessions with another store: only what is missing moves, every object is verified by
//! its hash, and an exchange that was cut off continues where it was.
//!
//! | file | owns |
//! |---|---|
//! | `peer` | the port to a store that takes part in an exchange |
//! | `local_peer` | this store as a peer |
//! | `part_export`, `part_import` | parts of sessions, out of the store and into it |
//! | `shared_turns` | how many turns two histories share |
//! | `plan` | what the target lacks of each session |
//! | `transfer` | sending it |

mod local_peer;
mod part_export;
mod part_import;
mod peer;
mod plan;
mod shared_turns;
mod transfer;

pub use local_peer::LocalPeer;
pub use peer::{PartStored, Peer, PeerError};
pub use transfer::{Moved, Selection, Skipped, TransferReport, transfer};

use crate::engine::Engine;

/// Exchange of sessions with another store.
#[derive(Clone, Copy)]
pub struct Exchanges<'a> {
    pub(crate) engine: &'a Engine,
}

impl Engine {
    /// Exchange of sessions with another store.
    pub const fn exchanges(&self) -> Exchanges<'_> {
        Exchanges { engine: self }
    }
}
