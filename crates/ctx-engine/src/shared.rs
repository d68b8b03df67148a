//! State that the clones of one engine share: providers, actors and the feed.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use ctx_core::decide::{OpenedRun, ProviderCapabilities, ProviderCatalog, RunHost};
use ctx_core::id::{NodeId, SessionId};
use ctx_core::policy::Policies;
use ctx_core::refusal::Refusal;
use ctx_core::time::Timestamp;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinHandle};
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

use crate::feed::Feed;
use crate::history_cache::HistoryCache;
use crate::lease::Lease;
use crate::nodes::Nodes;
use crate::provider::{End, Provider};
use crate::run_slots::{RunSlot, RunSlots};

/// A named system prompt.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct Persona {
    pub system_prompt: String,
}

/// The provider of summaries, if it is not the one of the session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct Summariser {
    pub provider: String,
    /// The model; the provider's default if none.
    pub model: Option<String>,
}

/// The configured providers and personas.
#[derive(Clone, Default)]
pub struct Providers {
    /// The name of the provider of sessions that prefer none.
    pub default: String,
    /// All providers by name.
    pub all: BTreeMap<String, Arc<dyn Provider>>,
    /// All personas by name.
    pub personas: BTreeMap<String, Persona>,
    /// The name of this machine, under which agents' own sessions are stored.
    pub host: String,
    /// The provider of summaries; the session's own if none.
    pub summariser: Option<Summariser>,
}

impl Providers {
    /// A single provider, which is the default.
    pub fn only(name: &str, provider: Arc<dyn Provider>) -> Self {
        Self {
            default: name.to_owned(),
            all: BTreeMap::from([(name.to_owned(), provider)]),
            personas: BTreeMap::new(),
            host: String::new(),
            summariser: None,
        }
    }

    /// The capabilities that rules depend on.
    pub fn catalog(&self) -> ProviderCatalog {
        let capabilities = |provider: &Arc<dyn Provider>| {
            let about = provider.about();
            ProviderCapabilities {
                can_steer: about.can.steer,
                supports_tools: about.can.tools,
                repeatable: about.repeatable,
            }
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

/// Timeouts and limits of an engine. Tests use shorter ones.
#[derive(Debug, Clone, Copy)]
pub struct EngineTimeouts {
    /// Longest time for which text is kept in memory before it is stored, in a session without
    /// followers.
    pub checkpoint: Duration,
    /// Pause before the first retry of a failed call; it doubles with each retry.
    pub retry: Duration,
    /// Number of calls, including the first, before a transient failure is final.
    pub tries: u32,
    /// How long a cancelled provider may take to stop.
    pub stop: Duration,
    /// How long a cancellation waits for the run to end before it closes the turn itself. The
    /// provider then stops in the background.
    pub cancel: Duration,
    /// Longest time for which `dispatch_to_agent` waits for a worker. Clients of MCP give up after
    /// 60 s, and a result that they do not receive is lost.
    pub worker_wait: Duration,
    /// Time without renewal after which a process counts as dead.
    pub lease: Duration,
    /// Runs that this process carries out at the same time.
    pub runs_max: usize,
    /// Idle time after which the agent process of a session is released.
    pub process_idle: ctx_core::time::Span,
    /// Idle time after which a session is archived.
    pub archive_after: ctx_core::time::Span,
    /// How often the outbox is looked at without a notification.
    pub outbox_poll: Duration,
}

impl Default for EngineTimeouts {
    fn default() -> Self {
        Self {
            checkpoint: Duration::from_millis(250),
            retry: Duration::from_millis(500),
            tries: 4,
            stop: Duration::from_secs(10),
            cancel: Duration::from_millis(750),
            worker_wait: Duration::from_secs(50),
            lease: Duration::from_secs(10),
            runs_max: 1000,
            process_idle: ctx_core::time::Span::minutes(5),
            archive_after: ctx_core::time::Span::days(30),
            outbox_poll: Duration::from_secs(1),
        }
    }
}

/// The actor of a session in this process.
pub(crate) struct Actor {
    /// Cancelled when the actor has ended.
    pub(crate) ended: CancellationToken,
    /// Whether the session was idle, with nothing to deliver, when the actor ended.
    ended_as_idle: AtomicBool,
    /// Notified when the inbox is to be looked at.
    pub(crate) wake: Notify,
    woken: AtomicBool,
    opened_run: Mutex<Option<PlacedRun>>,
    /// Notified when the open run should read its row again.
    pub(crate) recheck: Notify,
    /// The run that is being carried out.
    current: Mutex<Option<CurrentRun>>,
}

/// A run to carry out, and its place among those of this process.
pub(crate) type PlacedRun = (Box<OpenedRun>, RunSlot);

/// A run that is being carried out.
#[derive(Default)]
struct CurrentRun {
    /// The call of the provider.
    call: Option<AbortHandle>,
    /// Set when the lease was lost: the run no longer belongs to this process.
    abandoned: bool,
}

impl Actor {
    fn current(&self) -> MutexGuard<'_, Option<CurrentRun>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin_run(&self) {
        *self.current() = Some(CurrentRun::default());
    }

    pub(crate) fn end_run(&self) {
        *self.current() = None;
    }

    /// Records the call of the provider. The call of an abandoned run is aborted.
    pub(crate) fn set_call(&self, call: AbortHandle) {
        match &mut *self.current() {
            Some(run) if !run.abandoned => run.call = Some(call),
            _ => call.abort(),
        }
    }

    /// Whether the run no longer belongs to this process.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.current().as_ref().is_some_and(|run| run.abandoned)
    }

    /// Stops the call of the provider, even while the run waits for the store.
    fn abandon(&self) {
        if let Some(run) = &mut *self.current() {
            run.abandoned = true;
            if let Some(call) = run.call.take() {
                call.abort();
            }
            self.recheck.notify_one();
        }
    }

    /// Records that the last transaction of the actor left the session idle.
    pub(crate) fn end_as_idle(&self) {
        self.ended_as_idle.store(true, Ordering::Release);
    }

    pub(crate) fn ended_as_idle(&self) -> bool {
        self.ended_as_idle.load(Ordering::Acquire)
    }

    /// Whether it was woken since the last call.
    pub(crate) fn take_woken(&self) -> bool {
        self.woken.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn take_opened(&self) -> Option<PlacedRun> {
        self.opened_run.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

pub(crate) struct Shared {
    pub(crate) node: NodeId,
    pub(crate) lease: Lease,
    pub(crate) slots: Arc<RunSlots>,
    pub(crate) nodes: Nodes,
    pub(crate) providers: Providers,
    pub(crate) host: String,
    pub(crate) run_host: RunHost,
    pub(crate) timeouts: EngineTimeouts,
    pub(crate) feed: Feed,
    /// Cancels every run and every loop of this process.
    pub(crate) shutdown: CancellationToken,
    actors: Mutex<HashMap<SessionId, Arc<Actor>>>,
    /// When each provider was last used for a session, until it releases the session's process.
    processes: Mutex<HashMap<(SessionId, String), Timestamp>>,
    histories: Mutex<HistoryCache>,
    /// Calls of agents that were cancelled and have not stopped yet.
    stopping: Mutex<HashMap<SessionId, CancellationToken>>,
    /// Notified when this process has stored a row of the outbox.
    pub(crate) outbox_filled: Notify,
    /// Notified when the last actor has ended.
    pub(crate) all_actors_stopped: Notify,
    watches_store: AtomicBool,
    /// For messages from channels; none if there is no file.
    policies: RwLock<Option<Arc<Policies>>>,
}

impl Shared {
    pub(crate) fn new(providers: Providers, timeouts: EngineTimeouts) -> Self {
        let node = NodeId(Ulid::new());
        let run_host = RunHost { node, catalog: providers.catalog() };
        Self {
            node,
            lease: Lease::default(),
            slots: RunSlots::new(timeouts.runs_max),
            nodes: Nodes::default(),
            host: providers.host.clone(),
            providers,
            run_host,
            timeouts,
            feed: Feed::new(),
            shutdown: CancellationToken::new(),
            actors: Mutex::default(),
            processes: Mutex::default(),
            histories: Mutex::default(),
            stopping: Mutex::default(),
            outbox_filled: Notify::new(),
            all_actors_stopped: Notify::new(),
            watches_store: AtomicBool::new(false),
            policies: RwLock::default(),
        }
    }

    /// The policies for messages from channels.
    pub(crate) fn policies(&self) -> Option<Arc<Policies>> {
        self.policies.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_policies(&self, policies: Option<Arc<Policies>>) {
        *self.policies.write().unwrap_or_else(PoisonError::into_inner) = policies;
    }

    fn actors(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Actor>>> {
        // No code that can panic runs under this lock.
        self.actors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether sessions belong to this process: they run here, or have a live agent here.
    pub(crate) fn has_sessions(&self) -> bool {
        let keeps_agents = || {
            let processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
            !processes.is_empty()
        };
        self.awake() > 0 || keeps_agents()
    }

    /// Whether the background duties report writes of other processes.
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

    /// Wakes a session's actor, with a run to carry out if there is one. Returns the actor if the
    /// caller has to start it.
    pub(crate) fn wake(
        &self,
        session: SessionId,
        opened_run: Option<PlacedRun>,
    ) -> Option<Arc<Actor>> {
        let mut actors = self.actors();
        let (actor, is_new) = match actors.get(&session) {
            Some(actor) => (actor.clone(), false),
            None => {
                let actor = Arc::new(Actor {
                    ended: CancellationToken::new(),
                    ended_as_idle: AtomicBool::new(false),
                    wake: Notify::new(),
                    woken: AtomicBool::new(false),
                    opened_run: Mutex::new(None),
                    recheck: Notify::new(),
                    current: Mutex::default(),
                });
                actors.insert(session, actor.clone());
                (actor, true)
            }
        };
        match opened_run {
            Some(opened_run) => {
                *actor.opened_run.lock().unwrap_or_else(PoisonError::into_inner) = Some(opened_run);
            }
            None => actor.recheck.notify_one(),
        }
        actor.woken.store(true, Ordering::Release);
        actor.wake.notify_one();
        is_new.then_some(actor)
    }

    /// Asks the open run of a session to read its row again; does nothing for sessions without an
    /// actor.
    pub(crate) fn recheck(&self, session: SessionId) {
        if let Some(actor) = self.actors().get(&session) {
            actor.woken.store(true, Ordering::Release);
            actor.wake.notify_one();
            actor.recheck.notify_one();
        }
    }

    /// Removes an actor without work, unless it was woken meanwhile.
    pub(crate) fn sleep(&self, session: SessionId, actor: &Arc<Actor>) -> bool {
        let mut actors = self.actors();
        if actor.woken.load(Ordering::Acquire) {
            actor.ended_as_idle.store(false, Ordering::Release);
            return false;
        }
        actors.remove(&session);
        actor.ended.cancel();
        if actors.is_empty() {
            self.all_actors_stopped.notify_waiters();
        }
        true
    }

    /// Lets a cancelled call of an agent stop in the background. It is aborted after the timeout.
    pub(crate) fn stop_in_background(&self, session: SessionId, call: JoinHandle<End>) {
        let stopped = CancellationToken::new();
        let mut stopping = self.stopping.lock().unwrap_or_else(PoisonError::into_inner);
        stopping.retain(|_, stopped| !stopped.is_cancelled());
        let before = stopping.insert(session, stopped.clone());
        let (timeout, abort) = (self.timeouts.stop, call.abort_handle());
        tokio::spawn(async move {
            let _stopped = stopped.drop_guard();
            if tokio::time::timeout(timeout, call).await.is_err() {
                abort.abort();
            }
            if let Some(before) = before {
                before.cancelled().await;
            }
        });
    }

    /// The cancelled call of the session's agent that is still stopping. Two calls must not work at
    /// the same time.
    pub(crate) fn stopping(&self, session: SessionId) -> Option<CancellationToken> {
        let stopping = self.stopping.lock().unwrap_or_else(PoisonError::into_inner);
        stopping.get(&session).filter(|stopped| !stopped.is_cancelled()).cloned()
    }

    /// Records that a provider which may keep a process was used for a session.
    pub(crate) fn process_used(&self, session: SessionId, provider: &str, now: Timestamp) {
        self.processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert((session, provider.to_owned()), now);
    }

    /// The providers of this process that may keep resources for a session.
    pub(crate) fn providers_of(&self, session: SessionId) -> Vec<Arc<dyn Provider>> {
        let processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        processes
            .keys()
            .filter(|(processes, _)| *processes == session)
            .filter_map(|(_, provider)| self.provider(provider))
            .collect()
    }

    /// Removes and returns the providers that were last used before the given time, for sessions
    /// without an actor.
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

    /// Abandons every run of this process: the lease was not renewed in time, so other processes
    /// may take over.
    pub(crate) fn abandon_runs(&self) {
        self.actors().values().for_each(|actor| actor.abandon());
    }

    pub(crate) fn is_awake(&self, session: SessionId) -> bool {
        self.actors().contains_key(&session)
    }

    /// The actor of a session; none if it has none in this process.
    pub(crate) fn actor(&self, session: SessionId) -> Option<Arc<Actor>> {
        self.actors().get(&session).cloned()
    }

    pub(crate) fn histories(&self) -> MutexGuard<'_, HistoryCache> {
        self.histories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn awake(&self) -> usize {
        self.actors().len()
    }
}
