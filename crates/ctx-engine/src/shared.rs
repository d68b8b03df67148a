//! What the clones of one engine share: who can answer, which sessions are awake, who follows them.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ctx_core::decide::{OpenedRun, ProviderCapabilities, ProviderCatalog, RunHost};
use ctx_core::id::{NodeId, SessionId};
use ctx_core::refusal::Refusal;
use ctx_core::time::Timestamp;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

use crate::background::NodeLease;
use crate::feed::Feed;
use crate::provider::Provider;

/// A named system prompt with preferences.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Persona {
    /// What the model is told first.
    pub system_prompt: String,
}

/// Who writes summaries, where that is not who answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summariser {
    /// Which provider.
    pub provider: String,
    /// With which model; the provider's own choice if none.
    pub model: Option<String>,
}

/// Who can answer.
#[derive(Clone, Default)]
pub struct Providers {
    /// Who answers where nobody is named.
    pub default: String,
    /// All of them, by name.
    pub all: BTreeMap<String, Arc<dyn Provider>>,
    /// The personas, by name.
    pub personas: BTreeMap<String, Persona>,
    /// The machine that agents' own conversations lie on.
    pub host: String,
    /// Who writes summaries; whoever answers in the session if none.
    pub summariser: Option<Summariser>,
}

impl Providers {
    /// One provider, which is the default.
    pub fn only(name: &str, provider: Arc<dyn Provider>) -> Self {
        Self {
            default: name.to_owned(),
            all: BTreeMap::from([(name.to_owned(), provider)]),
            personas: BTreeMap::new(),
            host: String::new(),
            summariser: None,
        }
    }

    /// What rules need to know of them.
    pub fn catalog(&self) -> ProviderCatalog {
        let capabilities = |provider: &Arc<dyn Provider>| {
            let can = provider.about().can;
            ProviderCapabilities { can_steer: can.steer, supports_tools: can.tools }
        };
        ProviderCatalog {
            default: self.default.clone(),
            providers: self
                .all
                .iter()
                .map(|(name, provider)| (name.clone(), capabilities(provider)))
                .collect(),
            personas: self.personas.keys().cloned().collect(),
        }
    }
}

/// How patient an engine is; tests are less so.
#[derive(Debug, Clone, Copy)]
pub struct EngineTimeouts {
    /// Words are kept in memory at most so long before they are stored.
    pub checkpoint: Duration,
    /// The pause before a failed call is tried again; it doubles.
    pub retry: Duration,
    /// How often a call that failed for a while is tried.
    pub tries: u32,
    /// How long a cancelled provider may take to stop.
    pub stop: Duration,
    /// How long a canceller waits for the process that runs the session.
    pub cancel: Duration,
    /// How long a process may be silent before it is taken for dead.
    pub lease: Duration,
    /// How long a provider keeps what it has for a session that does not speak.
    pub process_idle: ctx_core::time::Span,
    /// How long a session may be idle before it is put away.
    pub archive_after: ctx_core::time::Span,
}

impl Default for EngineTimeouts {
    fn default() -> Self {
        Self {
            checkpoint: Duration::from_millis(250),
            retry: Duration::from_millis(500),
            tries: 4,
            stop: Duration::from_secs(10),
            cancel: Duration::from_secs(5),
            lease: Duration::from_secs(10),
            process_idle: ctx_core::time::Span::minutes(5),
            archive_after: ctx_core::time::Span::days(30),
        }
    }
}

/// A session that is awake in this process.
pub(crate) struct Actor {
    /// Something is to be looked at.
    pub(crate) wake: Notify,
    woken: AtomicBool,
    opened_run: Mutex<Option<OpenedRun>>,
    /// Set while a run is carried out: ask the store whether it should end.
    pub(crate) recheck: Notify,
    /// The lease is lost: what runs is not ours any more.
    lease_lost: AtomicBool,
}

impl Actor {
    /// Whether its run was given up; told once.
    pub(crate) fn take_lease_lost(&self) -> bool {
        self.lease_lost.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn take_opened(&self) -> Option<OpenedRun> {
        self.opened_run.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

pub(crate) struct Shared {
    pub(crate) node: NodeId,
    pub(crate) lease: tokio::sync::Mutex<Option<NodeLease>>,
    pub(crate) providers: Providers,
    pub(crate) host: String,
    pub(crate) run_host: RunHost,
    pub(crate) timeouts: EngineTimeouts,
    pub(crate) feed: Feed,
    /// Ends every run and every loop of this process.
    pub(crate) shutdown: CancellationToken,
    actors: Mutex<HashMap<SessionId, Arc<Actor>>>,
    /// Who ran a session last, and when that ended, until the provider was told to rest.
    processes: Mutex<HashMap<(SessionId, String), Timestamp>>,
    /// Told when the last actor has gone.
    pub(crate) all_actors_stopped: Notify,
    watches_store: AtomicBool,
}

impl Shared {
    pub(crate) fn new(providers: Providers, timeouts: EngineTimeouts) -> Self {
        let node = NodeId(Ulid::new());
        let run_host = RunHost { node, catalog: providers.catalog() };
        Self {
            node,
            lease: tokio::sync::Mutex::new(None),
            host: providers.host.clone(),
            providers,
            run_host,
            timeouts,
            feed: Feed::new(),
            shutdown: CancellationToken::new(),
            actors: Mutex::default(),
            processes: Mutex::default(),
            all_actors_stopped: Notify::new(),
            watches_store: AtomicBool::new(false),
        }
    }

    fn actors(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Actor>>> {
        // Nothing that can panic is done under this lock.
        self.actors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this process hears of what others write.
    pub(crate) fn watches_store(&self) -> bool {
        self.watches_store.load(Ordering::Relaxed)
    }

    pub(crate) fn set_watching(&self) {
        self.watches_store.store(true, Ordering::Relaxed);
    }

    pub(crate) fn provider(&self, name: &str) -> Option<Arc<dyn Provider>> {
        self.providers.all.get(name).cloned()
    }

    pub(crate) fn known(
        &self,
        provider: Option<&str>,
        persona: Option<&str>,
    ) -> Result<(), Refusal> {
        ctx_core::decide::check_provider_and_persona(&self.run_host.catalog, provider, persona)
    }

    /// Wakes a session, perhaps with a run to carry out; `Some` when the caller has to start its actor.
    pub(crate) fn wake(
        &self,
        session: SessionId,
        opened_run: Option<OpenedRun>,
    ) -> Option<Arc<Actor>> {
        let mut actors = self.actors();
        let (actor, is_new) = match actors.get(&session) {
            Some(actor) => (actor.clone(), false),
            None => {
                let actor = Arc::new(Actor {
                    wake: Notify::new(),
                    woken: AtomicBool::new(false),
                    opened_run: Mutex::new(None),
                    recheck: Notify::new(),
                    lease_lost: AtomicBool::new(false),
                });
                actors.insert(session, actor.clone());
                (actor, true)
            }
        };
        if let Some(opened_run) = opened_run {
            *actor.opened_run.lock().unwrap_or_else(PoisonError::into_inner) = Some(opened_run);
        }
        actor.woken.store(true, Ordering::Release);
        actor.wake.notify_one();
        actor.recheck.notify_one();
        is_new.then_some(actor)
    }

    /// Looks whether a run that this process carries out should end; does nothing for other sessions.
    pub(crate) fn recheck(&self, session: SessionId) {
        if let Some(actor) = self.actors().get(&session) {
            actor.woken.store(true, Ordering::Release);
            actor.wake.notify_one();
            actor.recheck.notify_one();
        }
    }

    /// An actor has nothing to do: it goes, unless somebody has woken it meanwhile.
    pub(crate) fn sleep(&self, session: SessionId, actor: &Arc<Actor>) -> bool {
        let mut actors = self.actors();
        if actor.woken.swap(false, Ordering::AcqRel) {
            return false;
        }
        actors.remove(&session);
        if actors.is_empty() {
            self.all_actors_stopped.notify_waiters();
        }
        true
    }

    /// A run of a session has ended.
    pub(crate) fn process_used(&self, session: SessionId, provider: &str, now: Timestamp) {
        self.processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert((session, provider.to_owned()), now);
    }

    /// The providers of this process that may keep something for a session.
    pub(crate) fn providers_of(&self, session: SessionId) -> Vec<Arc<dyn Provider>> {
        let processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        processes
            .keys()
            .filter(|(processes, _)| *processes == session)
            .filter_map(|(_, provider)| self.provider(provider))
            .collect()
    }

    /// Those that have been warm since before then and run nothing now; each is told once.
    pub(crate) fn take_idle_processes(&self, before: Timestamp) -> Vec<(SessionId, String)> {
        let mut processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        let cold: Vec<_> = processes
            .iter()
            .filter(|((session, _), since)| **since <= before && !self.is_awake(*session))
            .map(|(who, _)| who.clone())
            .collect();
        cold.iter().for_each(|who| {
            processes.remove(who);
        });
        cold
    }

    /// Every run of this process ends without a word: the lease could not be kept, and others decide now.
    pub(crate) fn abandon_runs(&self) {
        for actor in self.actors().values() {
            actor.lease_lost.store(true, Ordering::Release);
            actor.recheck.notify_one();
        }
    }

    pub(crate) fn is_awake(&self, session: SessionId) -> bool {
        self.actors().contains_key(&session)
    }

    pub(crate) fn awake(&self) -> usize {
        self.actors().len()
    }
}
