//! Deliveries to channels: the port that delivers one, the task that delivers what is due, and the
//! handle that lists and retries them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ctx_core::id::OutgoingId;
use ctx_core::outbox::{NO_CHANNEL, Outgoing, Settlement, Status};
use ctx_core::time::Span;
use ctx_store::{OutboxQuery, StoredOutgoing};
use tokio::task::JoinSet;

use crate::engine::{Engine, Error};

/// Deliveries that one process makes at the same time.
const DELIVERIES_MAX: usize = 16;
/// Time for storing the end of a delivery, after which another process may begin it again.
const SETTLE_TIME: Duration = Duration::from_secs(5);
/// How often storing the end of a delivery is tried. It is repeated after its lease otherwise.
const SETTLE_TRIES: u32 = 3;

/// Why a delivery failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeliveryError {
    /// It is tried again.
    #[error("{0}")]
    Failed(String),
    /// The channel will never accept it.
    #[error("{0}")]
    Gone(String),
}

/// Delivers to channels.
#[async_trait]
pub trait Courier: Send + Sync {
    /// The configured channels. Rows of other channels wait.
    fn channels(&self) -> Vec<String>;

    /// The longest time that one delivery takes.
    fn timeout(&self) -> Duration;

    /// Delivers one row. `Ok` means that the channel has accepted it.
    async fn deliver(&self, outgoing: &Outgoing) -> Result<(), DeliveryError>;
}

/// Deliveries to channels, and the retry of dead ones.
///
/// ```
/// # async fn example() -> Result<(), ctx_engine::Error> {
/// # let dir = tempfile::tempdir().expect("a directory");
/// # ctx_engine::Engine::init(dir.path(), "demo")?;
/// # let engine = ctx_engine::Engine::open(dir.path(), ctx_engine::Options::default())?;
/// use ctx_engine::OutboxQuery;
/// use ctx_engine::core::outbox::Status;
///
/// let dead = OutboxQuery { status: Some(Status::Dead), limit: 100, ..OutboxQuery::default() };
/// for stored in engine.outbox().list(&dead).await? {
///     engine.outbox().retry(stored.outgoing.id).await?;
/// }
/// # Ok(())
/// # }
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
/// # runtime.expect("a runtime").block_on(example()).expect("it works");
/// ```
#[derive(Clone, Copy)]
pub struct Outbox<'a> {
    engine: &'a Engine,
}

impl Engine {
    /// Deliveries to channels, and the retry of dead ones.
    pub const fn outbox(&self) -> Outbox<'_> {
        Outbox { engine: self }
    }
}

impl Outbox<'_> {
    /// A page of deliveries, newest first.
    ///
    /// Fails if the session of the query does not exist.
    pub async fn list(self, query: &OutboxQuery) -> Result<Vec<StoredOutgoing>, Error> {
        let found = self.engine.store().outbox(query).await?;
        let shown = |stored: StoredOutgoing| StoredOutgoing {
            outgoing: self.shown(stored.outgoing),
            ..stored
        };
        Ok(found.into_iter().map(shown).collect())
    }

    /// A delivery by its id.
    ///
    /// Fails if it does not exist.
    pub async fn get(self, id: OutgoingId) -> Result<Outgoing, Error> {
        let found = self.engine.store().outgoing(id).await?;
        let missing = || ctx_store::Error::NotFound { what: "delivery", name: id.to_string() };
        Ok(self.shown(found.ok_or_else(missing)?))
    }

    /// Delivers a dead one again, with the attempts counted anew.
    ///
    /// Fails if it does not exist or is not dead.
    pub async fn retry(self, id: OutgoingId) -> Result<Outgoing, Error> {
        let outgoing = self.engine.store().retry_outgoing(id, self.engine.now()).await?;
        self.engine.shared().outbox_filled.notify_one();
        Ok(self.shown(outgoing))
    }

    /// A row that waits for the configuration of its channel has this as its last error.
    fn shown(self, outgoing: Outgoing) -> Outgoing {
        let Some(courier) = self.engine.courier() else { return outgoing };
        let waits = outgoing.status == Status::Pending
            && !courier.channels().contains(&outgoing.to.channel);
        let last_error = if waits { Some(NO_CHANNEL.to_owned()) } else { outgoing.last_error };
        Outgoing { last_error, ..outgoing }
    }
}

impl Engine {
    /// Starts the task that delivers what is due, until shutdown.
    pub(crate) fn start_courier(&self) {
        let Some(courier) = self.courier().cloned() else { return };
        let engine = self.clone();
        tokio::spawn(async move { engine.deliver_outbox(courier).await });
    }

    async fn deliver_outbox(self, courier: Arc<dyn Courier>) {
        let channels = courier.channels();
        if channels.is_empty() {
            return;
        }
        let mut deliveries = JoinSet::new();
        loop {
            let free = DELIVERIES_MAX - deliveries.len();
            match self.claim_outgoing(&channels, &*courier, free).await {
                Ok(claimed) => {
                    for outgoing in claimed {
                        deliveries.spawn(self.clone().deliver(courier.clone(), outgoing));
                    }
                }
                Err(error) => tracing::warn!(%error, "the outbox could not be read"),
            }
            let shared = self.shared();
            tokio::select! {
                // The deliveries that are under way are dropped; shutdown releases their rows.
                () = shared.shutdown.cancelled() => return,
                () = shared.outbox_filled.notified(), if deliveries.len() < DELIVERIES_MAX => {}
                // The next row of the same recipient can be due now.
                Some(_) = deliveries.join_next() => {}
                () = tokio::time::sleep(shared.timeouts.outbox_poll) => {}
            }
        }
    }

    async fn claim_outgoing(
        &self,
        channels: &[String],
        courier: &dyn Courier,
        limit: usize,
    ) -> Result<Vec<Outgoing>, Error> {
        let lease = courier.timeout() + SETTLE_TIME;
        let lease = Span(u64::try_from(lease.as_millis()).unwrap_or(u64::MAX));
        let (node, now) = (self.shared().node, self.now());
        Ok(self.store().claim_outgoing(channels, node, lease, now, limit).await?)
    }

    async fn deliver(self, courier: Arc<dyn Courier>, outgoing: Outgoing) {
        let timeout = courier.timeout();
        let delivered = tokio::time::timeout(timeout, courier.deliver(&outgoing)).await;
        let settlement = match delivered {
            Ok(Ok(())) => Settlement::Delivered,
            Ok(Err(DeliveryError::Failed(error))) => Settlement::Failed(error),
            Ok(Err(DeliveryError::Gone(error))) => Settlement::Dead(error),
            Err(_) => Settlement::Failed(format!("no answer within {} s", timeout.as_secs_f32())),
        };
        let (id, channel) = (outgoing.id, &outgoing.to.channel);
        for try_ in 0..SETTLE_TRIES {
            let now = self.now();
            match self.store().settle_outgoing(id, outgoing.attempts, &settlement, now).await {
                Ok(settled) => {
                    if settled.is_some_and(|row| row.status == Status::Dead) {
                        tracing::warn!(%id, %channel, "a delivery failed for good; retry it with \
                            `ctx outbox retry`");
                    }
                    return;
                }
                Err(error) => {
                    tracing::warn!(%id, %error, "the end of a delivery could not be stored");
                    tokio::time::sleep(self.shared().timeouts.retry * (try_ + 1)).await;
                }
            }
        }
    }
}
