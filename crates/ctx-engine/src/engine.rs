//! The engine handle, and how it executes rules.

use std::sync::Arc;

use ctx_core::bundle::BadBundle;
use ctx_core::decide::{self, Decided, Event, Invocation, Needs, SessionView, Settings};
use ctx_core::id::{IdGenerator, SessionId};
use ctx_core::object::Named;
use ctx_core::refusal::Refusal;
use ctx_core::routing::Routed;
use ctx_core::session::{self};
use ctx_core::time::Timestamp;
use ctx_store::{Executed, FeedEvent, Location, Once, Options, Store, Target, Write, Written};
use ulid::Ulid;

use crate::classifier::{Classifier, RuleClassifier};
use crate::clock::{Clock, StoreClock};
use crate::configured_providers::Providers;
use crate::outbox::Courier;
use crate::schedules::Schedule;
use crate::shared::{EngineTimeouts, Shared};
use crate::usage::Spending;

/// Errors of the engine.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store failed, or a rule refused.
    #[error(transparent)]
    Store(#[from] ctx_store::Error),
    /// A bundle is damaged or of the wrong kind.
    #[error(transparent)]
    Bundle(#[from] BadBundle),
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Error::Store(refusal.into())
    }
}

impl Error {
    /// The stable code of the error, as the API reports it.
    pub const fn code(&self) -> &'static str {
        match self {
            Error::Store(error) => error.code(),
            Error::Bundle(BadBundle::NotABundle) => "not_a_bundle",
            Error::Bundle(BadBundle::TooNew) => "bundle_too_new",
            Error::Bundle(BadBundle::TooLarge { .. }) => "bundle_too_large",
            Error::Bundle(BadBundle::OtherKind { .. }) => "other_bundle",
            Error::Bundle(BadBundle::MissingStep(_)) => "missing_head",
            Error::Bundle(BadBundle::Damaged(_) | BadBundle::BadObject { .. }) => "bundle_damaged",
        }
    }

    /// The refusal, if a rule refused.
    pub const fn refusal(&self) -> Option<&Refusal> {
        match self {
            Error::Store(ctx_store::Error::Refused(refusal)) => Some(refusal),
            _ => None,
        }
    }
}

/// Access to a store. Clones share it; they are cheap.
#[derive(Clone)]
pub struct Engine {
    store: Store,
    clock: Arc<dyn Clock>,
    classifier: Arc<dyn Classifier>,
    settings: Arc<Settings>,
    project: Arc<str>,
    schedules: Arc<[Schedule]>,
    shared: Arc<Shared>,
    courier: Option<Arc<dyn Courier>>,
    spending: Arc<Spending>,
}

/// The project of sessions without a working directory in a store that is shared by projects.
const SHARED_PROJECT: &str = "shared";

/// The label of the default session of a store with one project.
pub const DEFAULT_SESSION: &str = "main";

impl Engine {
    /// An engine on an open store. New sessions belong to the store's project, if it has one.
    pub fn new(store: Store) -> Self {
        let project = match store.project() {
            "" => SHARED_PROJECT,
            project => project,
        };
        let project = project.into();
        Self {
            clock: Arc::new(StoreClock(store.clone())),
            store,
            classifier: Arc::new(RuleClassifier),
            settings: Arc::new(Settings::default()),
            project,
            schedules: Arc::from([]),
            shared: Arc::new(Shared::new(Providers::default(), EngineTimeouts::default())),
            courier: None,
            spending: Arc::default(),
        }
    }

    /// An engine on the store in a directory or in a PostgreSQL database.
    ///
    /// Fails if there is no store, or it cannot be opened.
    pub fn open(location: impl Into<Location>, options: Options) -> Result<Self, Error> {
        Ok(Self::new(ctx_store::open(location, options)?))
    }

    /// Creates a store for a project in a directory or in a PostgreSQL database. Returns `false` if
    /// one exists. A store with an empty name is shared by projects: the project of a session is
    /// its working directory.
    ///
    /// Fails if it cannot be created, or another file has its name.
    pub fn init(location: impl Into<Location>, project: &str) -> Result<bool, Error> {
        match ctx_store::create(location, project) {
            Err(ctx_store::Error::StoreExists(_)) => Ok(false),
            made => Ok(made.map(|()| true)?),
        }
    }

    /// Replaces the clock.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// Replaces the classifier of messages.
    #[must_use]
    pub fn with_classifier(self, classifier: Arc<dyn Classifier>) -> Self {
        Self { classifier, ..self }
    }

    /// Sets what delivers the outbox.
    #[must_use]
    pub fn with_courier(self, courier: Arc<dyn Courier>) -> Self {
        Self { courier: Some(courier), ..self }
    }

    /// Sets prices and limits.
    #[must_use]
    pub fn with_spending(self, spending: Spending) -> Self {
        Self { spending: Arc::new(spending), ..self }
    }

    /// Replaces the settings.
    #[must_use]
    pub fn with_settings(self, settings: Settings) -> Self {
        Self { settings: Arc::new(settings), ..self }
    }

    /// Sets the providers and timeouts. Call this before the engine is used: it creates a new
    /// process identity.
    #[must_use]
    pub fn with_providers(self, providers: Providers, timeouts: EngineTimeouts) -> Self {
        Self { shared: Arc::new(Shared::new(providers, timeouts)), ..self }
    }

    /// Sets the schedules. [`crate::Background::start`] runs them.
    #[must_use]
    pub fn with_schedules(self, schedules: Vec<Schedule>) -> Self {
        Self { schedules: Arc::from(schedules), ..self }
    }

    pub(crate) fn configured_schedules(&self) -> &[Schedule] {
        &self.schedules
    }

    /// The configured providers.
    pub fn providers(&self) -> Arc<Providers> {
        self.shared.providers()
    }

    /// Replaces the providers of all clones of this engine. Open runs continue on the provider that
    /// they started on. Processes of agents that were replaced end.
    pub fn replace_providers(&self, providers: Providers) {
        for (session, provider) in self.shared.replace_providers(providers) {
            tokio::spawn(async move { provider.rest(session).await });
        }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn classifier(&self) -> &dyn Classifier {
        &*self.classifier
    }

    pub(crate) fn courier(&self) -> Option<&Arc<dyn Courier>> {
        self.courier.as_ref()
    }

    /// Prices and limits of the user.
    pub fn spending(&self) -> &Spending {
        &self.spending
    }

    /// The settings of the user.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The time by this engine's clock.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A new id. Its time is that of this engine's clock.
    pub(crate) fn new_id(&self) -> Ulid {
        let at = u64::try_from(self.now().0).unwrap_or(0);
        Ulid::from_parts(at, Ulid::new().random())
    }

    /// The project of new sessions without a working directory, and of the caller's commits.
    pub fn project(&self) -> &str {
        &self.project
    }

    /// Sets [`Self::project`] to a directory, if the store is shared by projects.
    #[must_use]
    pub fn in_directory(self, dir: &str) -> Self {
        match self.store.project().is_empty() {
            true => Self { project: dir.into(), ..self },
            false => self,
        }
    }

    /// The project of a new session: that of the store, else its working directory.
    pub fn project_in(&self, working_dir: Option<&str>) -> String {
        let dir = working_dir.filter(|_| self.store.project().is_empty());
        dir.unwrap_or(&self.project).to_owned()
    }

    /// The label of the session that records work if no other one is named. In a store that is
    /// shared by projects, each of them has its own.
    pub fn default_session(&self) -> String {
        match self.store.project().is_empty() && &*self.project != SHARED_PROJECT {
            true => format!("{DEFAULT_SESSION}:{}", self.project),
            false => DEFAULT_SESSION.to_owned(),
        }
    }

    pub(crate) fn invocation(&self) -> Invocation {
        Invocation { now: self.now(), ids: IdGenerator::new(self.new_id()) }
    }

    /// Executes a rule in one transaction on a session that must exist.
    pub(crate) async fn decide<R: Send + 'static>(
        &self,
        target: Target,
        needs: Needs,
        objects: Vec<Named>,
        rule: impl Fn(&SessionView, &Invocation) -> Decided<R> + Send + 'static,
    ) -> Result<Written<R>, Error> {
        let invocation = self.invocation();
        let write = Write { target, needs, objects, now: invocation.now };
        let rule =
            move |view: Option<&SessionView>| rule(view.ok_or(Refusal::NoSession)?, &invocation);
        self.execute(write, rule).await
    }

    /// As `decide`. Between the events that change the run's phase and all others, `show` sends the
    /// text that the transaction stored.
    pub(crate) async fn decide_and_show<R: Send + 'static>(
        &self,
        target: Target,
        needs: Needs,
        objects: Vec<Named>,
        rule: impl Fn(&SessionView, &Invocation) -> Decided<R> + Send + 'static,
        show: impl FnOnce() + Send,
    ) -> Result<Written<R>, Error> {
        let invocation = self.invocation();
        let write = Write { target, needs, objects, now: invocation.now };
        let rule =
            move |view: Option<&SessionView>| rule(view.ok_or(Refusal::NoSession)?, &invocation);
        let at = write.now;
        let mut written = ctx_store::execute(&self.store, write, rule).await?;
        let is_phase = |event: &Event| matches!(event, Event::RunPhase { .. });
        let phases = written.events.iter().take_while(|event| is_phase(event)).count();
        let rest = written.events.split_off(phases);
        let newest = written.seq;
        written.seq = newest - rest.len() as u64;
        self.publish(at, &mut written);
        show();
        (written.seq, written.events) = (newest, rest);
        self.publish(at, &mut written);
        Ok(written)
    }

    /// Executes a rule that may create its session, and publishes its events.
    pub(crate) async fn execute<R: Send + 'static>(
        &self,
        write: Write,
        rule: impl Fn(Option<&SessionView>) -> Decided<R> + Send + 'static,
    ) -> Result<Written<R>, Error> {
        let at = write.now;
        let mut written = ctx_store::execute(&self.store, write, rule).await?;
        self.publish(at, &mut written);
        Ok(written)
    }

    /// As `execute`, under an idempotency key.
    pub(crate) async fn execute_once<R: Send + 'static>(
        &self,
        write: Write,
        once: Option<Once<R>>,
        rule: impl Fn(Option<&SessionView>) -> Decided<R> + Send + 'static,
    ) -> Result<Executed<R>, Error> {
        self.execute_routed(write, once, move |view, _| rule(view)).await
    }

    /// As `execute_once`, for a rule that sees how the session of a message was found.
    pub(crate) async fn execute_routed<R: Send + 'static>(
        &self,
        write: Write,
        once: Option<Once<R>>,
        rule: impl Fn(Option<&SessionView>, Option<&Routed>) -> Decided<R> + Send + 'static,
    ) -> Result<Executed<R>, Error> {
        let at = write.now;
        let mut executed = ctx_store::execute_routed(&self.store, write, once, rule).await?;
        if let Executed::Written(written) = &mut executed {
            self.publish(at, written);
        }
        Ok(executed)
    }

    /// Publishes the events of a write that is on disk.
    pub(crate) fn publish<R>(&self, at: Timestamp, written: &mut Written<R>) {
        if written.sends {
            self.shared.outbox_filled.notify_one();
        }
        if written.events.is_empty() {
            return;
        }
        self.tell_owner(written.session, written.owner);
        let (session, feed) = (written.session, &self.shared.feed);
        if let Some(row) = written.feed_row.filter(|_| self.shared.watches_store()) {
            feed.own_row(row);
        }
        // Without followers, no event is built.
        let events = std::mem::take(&mut written.events);
        let first = (written.seq + 1).saturating_sub(events.len() as u64);
        let feed_event = |(seq, event)| FeedEvent { row: 0, session, seq, at, event };
        let events = if feed.is_followed(session) {
            (first..).zip(events).map(feed_event).collect()
        } else {
            Vec::new()
        };
        feed.publish(events);
    }

    pub(crate) async fn create(&self, new: session::New) -> Result<SessionId, Error> {
        let (id, now, target) = (new.id, new.created_at, Target::Label(new.label.clone()));
        let rule = move |found: Option<&SessionView>| decide::create_session(found, &new);
        let write = Write { target, needs: Needs::default(), objects: Vec::new(), now };
        self.execute(write, rule).await?;
        Ok(id)
    }
}
