//! A peer on another machine, behind a channel that carries messages.

use async_trait::async_trait;
use ctx_engine::core::exchange::{PartRequest, PathQuery, Placement, SessionHead, TaskMark};
use ctx_engine::core::id::{SessionId, TaskId, TurnId};
use ctx_engine::exchange::{PartStored, Peer, PeerError};

use super::wire::{Answer, Request, split};

/// Carries a request to the other machine and returns its answer.
#[async_trait]
pub(super) trait Channel: Send + Sync {
    async fn ask(
        &self,
        request: &Request,
        parts: &[Vec<u8>],
    ) -> Result<(Answer, Vec<u8>), PeerError>;
}

pub(super) struct ChannelPeer<C>(pub(super) C);

impl<C: Channel> ChannelPeer<C> {
    async fn ask(&self, request: Request) -> Result<Answer, PeerError> {
        self.0.ask(&request, &[]).await.and_then(|(answer, _)| succeeded(answer))
    }
}

fn succeeded(answer: Answer) -> Result<Answer, PeerError> {
    match answer {
        Answer::Failed { error } => Err(error),
        answer => Ok(answer),
    }
}

fn unexpected() -> PeerError {
    PeerError::protocol("the answer does not fit the request")
}

#[async_trait]
impl<C: Channel> Peer for ChannelPeer<C> {
    async fn heads(&self) -> Result<Vec<SessionHead>, PeerError> {
        match self.ask(Request::Heads {}).await? {
            Answer::Heads { heads } => Ok(heads),
            _ => Err(unexpected()),
        }
    }

    async fn paths(&self, queries: &[PathQuery]) -> Result<Vec<Vec<Option<TurnId>>>, PeerError> {
        if queries.is_empty() {
            return Ok(Vec::new());
        }
        match self.ask(Request::Paths { queries: queries.to_vec() }).await? {
            Answer::Paths { turns } => Ok(turns),
            _ => Err(unexpected()),
        }
    }

    async fn have(&self, turns: &[TurnId]) -> Result<Vec<bool>, PeerError> {
        match self.ask(Request::Have { turns: turns.to_vec() }).await? {
            Answer::Have { stored } => Ok(stored),
            _ => Err(unexpected()),
        }
    }

    async fn tasks(&self, sessions: &[SessionId]) -> Result<Vec<Vec<TaskMark>>, PeerError> {
        match self.ask(Request::Tasks { sessions: sessions.to_vec() }).await? {
            Answer::Tasks { tasks } => Ok(tasks),
            _ => Err(unexpected()),
        }
    }

    async fn task_marks(&self, tasks: &[TaskId]) -> Result<Vec<Option<TaskMark>>, PeerError> {
        match self.ask(Request::TaskMarks { tasks: tasks.to_vec() }).await? {
            Answer::TaskMarks { marks } => Ok(marks),
            _ => Err(unexpected()),
        }
    }

    async fn read(&self, requests: &[PartRequest]) -> Result<Vec<Vec<u8>>, PeerError> {
        let request = Request::Read { requests: requests.to_vec() };
        let (answer, bytes) = self.0.ask(&request, &[]).await?;
        match succeeded(answer)? {
            Answer::Parts { sizes } => split(&bytes, &sizes),
            _ => Err(unexpected()),
        }
    }

    async fn write(
        &self,
        parts: &[(Placement, Vec<u8>)],
    ) -> Result<Vec<Result<PartStored, PeerError>>, PeerError> {
        let (placements, parts): (Vec<Placement>, Vec<Vec<u8>>) = parts.iter().cloned().unzip();
        let sizes = parts.iter().map(Vec::len).collect();
        let request = Request::Write { placements, sizes };
        let (answer, _) = self.0.ask(&request, &parts).await?;
        match succeeded(answer)? {
            Answer::Written { results } => Ok(results),
            _ => Err(unexpected()),
        }
    }
}
