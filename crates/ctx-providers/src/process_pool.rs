//! Agents' processes between two runs: those that are kept for their session, and those that are on their way out.
//!
//! A process that goes may still write to its conversation, so nobody opens that again before it is gone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ctx_core::id::SessionId;
use tokio_util::sync::CancellationToken;

/// Clones share them.
pub(crate) struct Kept<L>(Arc<Mutex<Both<L>>>);

struct Both<L> {
    live: HashMap<SessionId, L>,
    /// Set once the process is gone.
    leaving: HashMap<SessionId, CancellationToken>,
}

impl<L> Default for Kept<L> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Both { live: HashMap::new(), leaving: HashMap::new() })))
    }
}

impl<L> Clone for Kept<L> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<L: Send + 'static> Kept<L> {
    fn both(&self) -> MutexGuard<'_, Both<L>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a process for its session.
    pub(crate) fn put(&self, session: SessionId, live: L) {
        self.both().live.insert(session, live);
    }

    /// Takes the process of a session out.
    pub(crate) fn take(&self, session: SessionId) -> Option<L> {
        self.both().live.remove(&session)
    }

    /// Ends the process of a session, if it is one of those; what is returned is set once it is gone.
    pub(crate) fn end_if<E>(
        &self,
        session: SessionId,
        which: impl FnOnce(&L) -> bool,
        how: impl FnOnce(L) -> E,
    ) -> CancellationToken
    where
        E: Future<Output = ()> + Send + 'static,
    {
        let mut both = self.both();
        match both
            .live
            .get(&session)
            .is_some_and(which)
            .then(|| both.live.remove(&session))
            .flatten()
        {
            Some(live) => both.leave(session, how(live)),
            None => both.leaving.get(&session).cloned().unwrap_or_else(gone),
        }
    }

    /// Ends a process that was taken out; what is returned is set once it is gone.
    pub(crate) fn end(
        &self,
        session: SessionId,
        ending: impl Future<Output = ()> + Send + 'static,
    ) -> CancellationToken {
        self.both().leave(session, ending)
    }

    /// Waits until the processes that left a session are gone.
    pub(crate) async fn gone(&self, session: SessionId) {
        let leaving = self.both().leaving.get(&session).cloned();
        if let Some(leaving) = leaving {
            leaving.cancelled().await;
        }
    }
}

fn gone() -> CancellationToken {
    let gone = CancellationToken::new();
    gone.cancel();
    gone
}

impl<L> Both<L> {
    fn leave(
        &mut self,
        session: SessionId,
        ending: impl Future<Output = ()> + Send + 'static,
    ) -> CancellationToken {
        self.leaving.retain(|_, gone| !gone.is_cancelled());
        let gone = CancellationToken::new();
        let before = self.leaving.insert(session, gone.clone());
        // Set whatever comes of the task.
        let told = gone.clone().drop_guard();
        tokio::spawn(async move {
            let _told = told;
            ending.await;
            if let Some(before) = before {
                before.cancelled().await;
            }
        });
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;
    use ulid::Ulid;

    #[tokio::test]
    async fn whoever_comes_next_waits_for_those_that_leave() {
        let (kept, session) = (Kept::<u8>::default(), SessionId(Ulid(1)));
        kept.gone(session).await;
        let (first, second) = (oneshot::channel::<()>(), oneshot::channel::<()>());
        kept.put(session, 1);
        let ending = kept.end_if(session, |live| *live == 1, |_| async { drop(first.1.await) });
        kept.end(session, async { drop(second.1.await) });
        assert!(kept.take(session).is_none());
        second.0.send(()).expect("heard");
        assert!(!ending.is_cancelled());
        first.0.send(()).expect("heard");
        kept.gone(session).await;
        assert!(ending.is_cancelled(), "both are gone");
    }
}
