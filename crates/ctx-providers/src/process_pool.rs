//! Agent processes between two runs: those kept for the next prompt of their session, and those
//! that are ending.
//!
//! A process that is ending may still write to its conversation. The conversation is not opened
//! again before that process has ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ctx_core::id::SessionId;
use tokio_util::sync::CancellationToken;

/// At most one kept process per session. Clones share the same pool.
pub(crate) struct ProcessPool<P>(Arc<Mutex<State<P>>>);

struct State<P> {
    kept: HashMap<SessionId, P>,
    /// Each token is cancelled once the process has ended.
    ending: HashMap<SessionId, CancellationToken>,
}

impl<P> Default for ProcessPool<P> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State { kept: HashMap::new(), ending: HashMap::new() })))
    }
}

impl<P> Clone for ProcessPool<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<P: Send + 'static> ProcessPool<P> {
    fn state(&self) -> MutexGuard<'_, State<P>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a process for the next run of its session.
    pub(crate) fn put(&self, session: SessionId, process: P) {
        self.state().kept.insert(session, process);
    }

    /// Removes and returns the kept process of a session.
    pub(crate) fn take(&self, session: SessionId) -> Option<P> {
        self.state().kept.remove(&session)
    }

    /// Ends the kept process of a session if `condition` holds for it. The returned token is
    /// cancelled once no process of the session is ending.
    pub(crate) fn end_if<E>(
        &self,
        session: SessionId,
        condition: impl FnOnce(&P) -> bool,
        end: impl FnOnce(P) -> E,
    ) -> CancellationToken
    where
        E: Future<Output = ()> + Send + 'static,
    {
        let mut state = self.state();
        let process = if state.kept.get(&session).is_some_and(condition) {
            state.kept.remove(&session)
        } else {
            None
        };
        match process {
            Some(process) => state.track_end(session, end(process)),
            None => state.ending.get(&session).cloned().unwrap_or_else(cancelled_token),
        }
    }

    /// Ends a process that was taken out of the pool. The returned token is cancelled once it and
    /// all earlier processes of the session have ended.
    pub(crate) fn end(
        &self,
        session: SessionId,
        end: impl Future<Output = ()> + Send + 'static,
    ) -> CancellationToken {
        self.state().track_end(session, end)
    }

    /// Waits until no process of the session is ending.
    pub(crate) async fn wait_until_ended(&self, session: SessionId) {
        let ending = self.state().ending.get(&session).cloned();
        if let Some(ending) = ending {
            ending.cancelled().await;
        }
    }
}

fn cancelled_token() -> CancellationToken {
    let token = CancellationToken::new();
    token.cancel();
    token
}

impl<P> State<P> {
    fn track_end(
        &mut self,
        session: SessionId,
        end: impl Future<Output = ()> + Send + 'static,
    ) -> CancellationToken {
        self.ending.retain(|_, ended| !ended.is_cancelled());
        let ended = CancellationToken::new();
        let previous = self.ending.insert(session, ended.clone());
        // Cancels the token even if the task panics.
        let guard = ended.clone().drop_guard();
        tokio::spawn(async move {
            let _guard = guard;
            end.await;
            if let Some(previous) = previous {
                previous.cancelled().await;
            }
        });
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;
    use ulid::Ulid;

    #[tokio::test]
    async fn next_run_waits_for_all_ending_processes() {
        let (pool, session) = (ProcessPool::<u8>::default(), SessionId(Ulid(1)));
        pool.wait_until_ended(session).await;
        let (first, second) = (oneshot::channel::<()>(), oneshot::channel::<()>());
        pool.put(session, 1);
        let ended =
            pool.end_if(session, |process| *process == 1, |_| async { drop(first.1.await) });
        pool.end(session, async { drop(second.1.await) });
        assert!(pool.take(session).is_none());
        second.0.send(()).expect("the second process is ending");
        assert!(!ended.is_cancelled());
        first.0.send(()).expect("the first process is ending");
        pool.wait_until_ended(session).await;
        assert!(ended.is_cancelled(), "both processes have ended");
    }
}
