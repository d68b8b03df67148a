//! The lease of this process: other processes end its runs when it is not renewed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ctx_core::time::Span;
use tokio::sync::Mutex;

use crate::engine::{Engine, Error};

/// A lease is renewed when this part of it is over: a third, so that a renewal may fail once.
const RENEWED_AFTER: u32 = 3;
/// How many times the age of the lease is checked during its length.
const CHECKS: u32 = 40;

/// The lease of this process. Times are milliseconds since boot, suspend included.
#[derive(Default)]
pub(crate) struct Lease {
    /// When the last successful renewal was sent; 0 before the first one.
    renewed_at: AtomicU64,
    /// Whether this process is registered. It is locked during a renewal.
    registered: Mutex<bool>,
}

impl Lease {
    fn age(&self) -> Duration {
        match self.renewed_at.load(Ordering::Acquire) {
            0 => Duration::MAX,
            renewed_at => boot_time().saturating_sub(Duration::from_millis(renewed_at)),
        }
    }

    /// Whether runs have to stop: other processes will soon count this one as dead.
    pub(crate) fn is_overdue(&self, length: Duration) -> bool {
        self.age() > length * 2 / 3
    }

    #[cfg(test)]
    pub(crate) fn expire(&self) {
        self.renewed_at.store(0, Ordering::Release);
    }

    /// Ends the renewals. Returns whether this process was registered.
    pub(crate) async fn end(&self) -> bool {
        std::mem::take(&mut *self.registered.lock().await)
    }
}

impl Engine {
    /// Registers this process before its first run, and renews its lease if it is due.
    ///
    /// Fails if the store does not answer in time.
    pub(crate) async fn ensure_lease(&self) -> Result<(), Error> {
        let (lease, length) = (&self.shared().lease, self.shared().timeouts.lease);
        if lease.age() < length / RENEWED_AFTER {
            return Ok(());
        }
        let renewal = async {
            let mut registered = lease.registered.lock().await;
            if lease.age() < length / RENEWED_AFTER {
                return Ok(());
            }
            self.renew_lease(*registered).await?;
            if !std::mem::replace(&mut *registered, true) {
                tokio::spawn(self.clone().keep_lease());
                tokio::spawn(self.clone().watch_lease());
            }
            Ok(())
        };
        tokio::time::timeout(length, renewal).await.unwrap_or_else(|_| {
            let why = "the lease of this process could not be renewed in time".to_owned();
            Err(ctx_store::Error::Unavailable(why).into())
        })
    }

    async fn renew_lease(&self, registered: bool) -> Result<(), Error> {
        let sent_at = u64::try_from(boot_time().as_millis()).unwrap_or(u64::MAX);
        let length = u64::try_from(self.shared().timeouts.lease.as_millis()).unwrap_or(u64::MAX);
        let node = self.shared().node;
        let known = self.store().keep_alive(node, self.now(), Span(length)).await?;
        if registered && !known {
            // The store has registered it anew; the fence rejects writes of its old runs.
            tracing::warn!("another process declared this one dead and ended its runs");
        }
        self.shared().lease.renewed_at.fetch_max(sent_at, Ordering::AcqRel);
        Ok(())
    }

    /// Renews the lease while sessions belong to this process.
    async fn keep_lease(self) {
        let length = self.shared().timeouts.lease;
        loop {
            tokio::select! {
                () = self.shared().shutdown.cancelled() => return,
                () = tokio::time::sleep(length / (RENEWED_AFTER + 1)) => {}
            }
            if !self.shared().has_sessions() {
                continue;
            }
            // A renewal that hangs is given up, so that the next one is tried in time.
            let registered = self.shared().lease.registered.lock().await;
            match tokio::time::timeout(length / RENEWED_AFTER, self.renew_lease(*registered)).await
            {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, "the lease could not be renewed"),
                Err(_) => tracing::warn!("the lease could not be renewed: the store hangs"),
            }
        }
    }

    /// Stops the runs of this process when the lease is overdue, also while a renewal hangs.
    async fn watch_lease(self) {
        let length = self.shared().timeouts.lease;
        let mut stopped = false;
        loop {
            tokio::select! {
                () = self.shared().shutdown.cancelled() => return,
                () = tokio::time::sleep(length / CHECKS) => {}
            }
            let overdue = self.shared().lease.is_overdue(length) && self.shared().awake() > 0;
            if overdue {
                if !std::mem::replace(&mut stopped, true) {
                    tracing::error!("the lease could not be renewed in time: all runs are stopped");
                }
                self.shared().abandon_runs();
            }
            stopped &= overdue;
        }
    }
}

/// Time since boot, including time in suspend.
fn boot_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_overdue_after_two_thirds_of_its_length_and_before_its_first_renewal() {
        let (lease, length) = (Lease::default(), Duration::from_secs(3600));
        assert!(lease.is_overdue(length), "the machine may have been started a moment ago");
        let now = u64::try_from(boot_time().as_millis()).expect("a number");
        lease.renewed_at.store(now.max(1), Ordering::Release);
        assert!(!lease.is_overdue(length));
        while !lease.is_overdue(Duration::from_micros(3)) {}
    }
}
