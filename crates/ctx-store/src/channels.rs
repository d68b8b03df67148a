//! [`Store`]: what it keeps about channels. Senders, aliases, deliveries and schedules.

use std::sync::Arc;

use ctx_core::alias::Alias;
use ctx_core::id::{EntityId, NodeId, OutgoingId};
use ctx_core::identity::{Address, Entity, Envelope, Identity, Principal};
use ctx_core::outbox::{Outgoing, Settlement};
use ctx_core::schedule::ScheduleState;
use ctx_core::time::{Span, Timestamp};

use crate::driver::{Db, Lock};
use crate::relational::{identity_rows, outbox_rows, schedule_rows};
use crate::{Error, OutboxQuery, Store, StoredOutgoing, Target};

impl Store {
    /// Stores an entity, or what changed of it.
    pub async fn put_entity(&self, entity: &Entity) -> Result<(), Error> {
        let entity = entity.clone();
        self.transact(Lock::Store, move |tx| identity_rows::put_entity(tx, &entity)).await
    }

    /// An entity by its id, also if it was merged.
    pub async fn entity(&self, id: EntityId) -> Result<Option<Entity>, Error> {
        self.read(move |db| identity_rows::entity(db, id)).await
    }

    /// The first two entities with a name that were not merged.
    pub async fn entities_named(&self, name: &str) -> Result<Vec<Entity>, Error> {
        let name = name.to_owned();
        self.read(move |db| identity_rows::entities_named(db, &name)).await
    }

    /// Entities that were not merged, oldest first, after one.
    pub async fn entities(
        &self,
        after: Option<EntityId>,
        limit: usize,
    ) -> Result<Vec<Entity>, Error> {
        self.read(move |db| identity_rows::entities(db, after, limit)).await
    }

    /// The identities of an entity, oldest first.
    pub async fn identities(&self, entity: EntityId) -> Result<Vec<Identity>, Error> {
        self.read(move |db| identity_rows::identities(db, entity)).await
    }

    /// Links an address to an entity.
    pub async fn link_identity(&self, identity: &Identity) -> Result<Identity, Error> {
        let identity = identity.clone();
        self.transact(Lock::Store, move |tx| identity_rows::link(tx, &identity)).await
    }

    /// Removes the link of an address to an entity.
    pub async fn unlink_identity(
        &self,
        entity: EntityId,
        address: &Address,
    ) -> Result<Identity, Error> {
        let address = address.clone();
        self.transact(Lock::Store, move |tx| identity_rows::unlink(tx, entity, &address)).await
    }

    /// Merges an entity into another one and returns the other one.
    pub async fn merge_entities(
        &self,
        into: EntityId,
        from: EntityId,
        now: Timestamp,
    ) -> Result<Entity, Error> {
        self.transact(Lock::Store, move |tx| identity_rows::merge(tx, into, from, now)).await
    }

    /// The labels of the sessions with direct messages of an entity, those with the newest activity
    /// first.
    pub async fn entity_sessions(
        &self,
        entity: EntityId,
        limit: usize,
    ) -> Result<Vec<String>, Error> {
        self.read_rows(move |db| identity_rows::session_labels(db, entity, limit)).await
    }

    /// The sender of a message with this envelope, and whether its identity is verified.
    pub async fn principal(&self, envelope: &Envelope) -> Result<(Principal, bool), Error> {
        let envelope = envelope.clone();
        self.read(move |db| identity_rows::principal(db, &envelope)).await
    }

    /// Aliases in the order of their names, after one; of one session if it is given.
    pub async fn aliases(
        &self,
        session_label: Option<&str>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Alias>, Error> {
        let (of, after) = (session_label.map(str::to_owned), after.map(str::to_owned));
        let read =
            move |db: &dyn Db| identity_rows::aliases(db, of.as_deref(), after.as_deref(), limit);
        self.read(read).await
    }

    /// Adds an alias of a session.
    pub async fn add_alias(
        &self,
        alias: &str,
        session: &Target,
        now: Timestamp,
    ) -> Result<Alias, Error> {
        let (alias, session) = (alias.to_owned(), session.clone());
        self.transact(Lock::Store, move |tx| identity_rows::add_alias(tx, &alias, &session, now))
            .await
    }

    /// Gives a session another label; the old one becomes an alias.
    pub async fn relabel_session(
        &self,
        session: &Target,
        label: &str,
        now: Timestamp,
    ) -> Result<(), Error> {
        let (label, session) = (label.to_owned(), session.clone());
        self.transact(Lock::Store, move |tx| identity_rows::relabel(tx, &session, &label, now))
            .await
    }

    /// Removes an alias and returns it.
    pub async fn remove_alias(&self, alias: &str) -> Result<Alias, Error> {
        let alias = alias.to_owned();
        self.transact(Lock::Store, move |tx| identity_rows::remove_alias(tx, &alias)).await
    }

    /// Deliveries to channels, newest first.
    pub async fn outbox(&self, query: &OutboxQuery) -> Result<Vec<StoredOutgoing>, Error> {
        let query = query.clone();
        self.read(move |db| outbox_rows::list(db, &query)).await
    }

    /// A delivery by its id.
    pub async fn outgoing(&self, id: OutgoingId) -> Result<Option<Outgoing>, Error> {
        self.read(move |db| Ok(outbox_rows::by_id(db, id)?.map(|found| found.outgoing))).await
    }

    /// Claims due deliveries of these channels for a process, which has the time of the lease to
    /// settle them. Of each recipient, only the oldest pending one can be due.
    pub async fn claim_outgoing(
        &self,
        channels: &[String],
        node: NodeId,
        lease: Span,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<Outgoing>, Error> {
        let channels: Arc<[String]> = channels.into();
        let names = channels.clone();
        // A look without the lock of writers comes first: this is called every second.
        if limit == 0 || !self.read(move |db| outbox_rows::is_due(db, &names, now)).await? {
            return Ok(Vec::new());
        }
        self.transact(Lock::Outbox, move |tx| {
            outbox_rows::claim(tx, &channels, node, lease, now, limit)
        })
        .await
    }

    /// Stores how the delivery that was begun as `attempt` ended. `None` if its session is deleted.
    pub async fn settle_outgoing(
        &self,
        id: OutgoingId,
        attempt: u64,
        settlement: &Settlement,
        now: Timestamp,
    ) -> Result<Option<Outgoing>, Error> {
        let settlement = settlement.clone();
        self.transact(Lock::Outbox, move |tx| {
            outbox_rows::settle(tx, id, attempt, &settlement, now)
        })
        .await
    }

    /// Makes a dead delivery due.
    pub async fn retry_outgoing(&self, id: OutgoingId, now: Timestamp) -> Result<Outgoing, Error> {
        self.transact(Lock::Outbox, move |tx| outbox_rows::retry(tx, id, now)).await
    }

    /// Makes the deliveries due that these processes, which have ended, had claimed.
    pub async fn release_outgoing(&self, nodes: &[NodeId], now: Timestamp) -> Result<u64, Error> {
        let nodes = outbox_rows::node_names(nodes);
        self.transact(Lock::Outbox, move |tx| outbox_rows::release(tx, &nodes, now)).await
    }

    /// Stores when a schedule was first seen, unless it is known, and returns its state.
    pub async fn see_schedule(&self, name: &str, now: Timestamp) -> Result<ScheduleState, Error> {
        let name = name.to_owned();
        self.transact(Lock::Schedules, move |tx| schedule_rows::see(tx, &name, now)).await
    }

    /// Every schedule that was seen, by name.
    pub async fn schedules(&self) -> Result<Vec<(String, ScheduleState)>, Error> {
        self.read(schedule_rows::list).await
    }

    /// Stores that a tick of a schedule is over. An older tick changes nothing.
    pub async fn set_last_tick(&self, name: &str, tick: Timestamp) -> Result<(), Error> {
        let name = name.to_owned();
        self.transact(Lock::Schedules, move |tx| schedule_rows::set_last_tick(tx, &name, tick))
            .await
    }
}
