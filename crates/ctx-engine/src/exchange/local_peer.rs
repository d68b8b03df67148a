//! [`LocalPeer`]: a store of this machine as a peer.

use std::sync::Arc;

use async_trait::async_trait;
use ctx_core::exchange::{
    BATCH_PARTS_MAX, PART_BYTES, PartRequest, PathQuery, Placement, QUERY_IDS_MAX, SessionHead,
    TaskMark,
};
use ctx_core::id::{SessionId, TaskId, TurnId};
use futures_util::future::join_all;

use crate::engine::{Engine, Error};

use super::peer::{PartStored, Peer, PeerError};

/// Maps a working directory to one of this machine, or to none.
type KeepDir = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// A store of this machine as a peer.
#[derive(Clone)]
pub struct LocalPeer {
    engine: Engine,
    keep_dir: KeepDir,
}

impl LocalPeer {
    /// `keep_dir` maps the working directory of a session to one of this machine, or to none.
    pub fn new(
        engine: Engine,
        keep_dir: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self { engine, keep_dir: Arc::new(keep_dir) }
    }
}

/// Refuses a request that asks for too much at once.
fn check_count(count: usize, max: usize) -> Result<(), PeerError> {
    if count <= max {
        return Ok(());
    }
    let message = format!("too many entries in one request: {count}, the limit is {max}");
    Err(PeerError::new("too_many", message))
}

#[async_trait]
impl Peer for LocalPeer {
    async fn heads(&self) -> Result<Vec<SessionHead>, PeerError> {
        Ok(self.engine.store().session_heads().await.map_err(Error::from)?)
    }

    async fn paths(&self, queries: &[PathQuery]) -> Result<Vec<Vec<Option<TurnId>>>, PeerError> {
        check_count(queries.iter().map(|query| query.depths.len()).sum(), QUERY_IDS_MAX)?;
        check_count(queries.len(), QUERY_IDS_MAX)?;
        Ok(self.engine.store().path_turns(queries.to_vec()).await.map_err(Error::from)?)
    }

    async fn have(&self, turns: &[TurnId]) -> Result<Vec<bool>, PeerError> {
        check_count(turns.len(), QUERY_IDS_MAX)?;
        let depths = self.engine.store().turn_depths(turns.to_vec()).await.map_err(Error::from)?;
        Ok(depths.iter().map(Option::is_some).collect())
    }

    async fn tasks(&self, sessions: &[SessionId]) -> Result<Vec<Vec<TaskMark>>, PeerError> {
        check_count(sessions.len(), QUERY_IDS_MAX)?;
        let tasks = self.engine.store().tasks_of_sessions(sessions.to_vec()).await;
        Ok(tasks.map_err(Error::from)?)
    }

    async fn task_marks(&self, tasks: &[TaskId]) -> Result<Vec<Option<TaskMark>>, PeerError> {
        check_count(tasks.len(), QUERY_IDS_MAX)?;
        Ok(self.engine.store().task_marks(tasks.to_vec()).await.map_err(Error::from)?)
    }

    async fn read(&self, requests: &[PartRequest]) -> Result<Vec<Vec<u8>>, PeerError> {
        check_count(requests.len(), BATCH_PARTS_MAX)?;
        let (mut parts, mut bytes): (Vec<Vec<u8>>, usize) = (Vec::new(), 0);
        for request in requests {
            let part = self.engine.exchanges().export_part(request).await?;
            bytes += part.len();
            if !parts.is_empty() && bytes > 2 * PART_BYTES {
                break;
            }
            parts.push(part);
            if bytes > PART_BYTES {
                break;
            }
        }
        Ok(parts)
    }

    async fn write(
        &self,
        parts: &[(Placement, Vec<u8>)],
    ) -> Result<Vec<Result<PartStored, PeerError>>, PeerError> {
        check_count(parts.len(), BATCH_PARTS_MAX)?;
        // Concurrent writes share a group commit.
        let store = |(placement, bytes): &(Placement, Vec<u8>)| {
            let (peer, placement, bytes) = (self.clone(), placement.clone(), bytes.clone());
            async move {
                let keep_dir = |dir: &str| (peer.keep_dir)(dir);
                let exchanges = peer.engine.exchanges();
                Ok(exchanges.import_part(&placement, &bytes, keep_dir).await?)
            }
        };
        Ok(join_all(parts.iter().map(store)).await)
    }
}
