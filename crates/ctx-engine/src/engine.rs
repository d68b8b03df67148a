//! The handle that every surface holds, and what concerns a store as a whole.

use ctx_store::Due;
use std::path::Path;
use std::sync::Arc;

use ctx_core::bundle::BadBundle;
use ctx_core::commit::Commit;
use ctx_core::decide::{self, CommitRecord, Decided, Moment, Needs, SessionView, Settings};
use ctx_core::id::{CommitId, Mint, ObjectId, SessionId, TaskId};
use ctx_core::object::{Named, Object};
use ctx_core::refusal::Refusal;
use ctx_core::session::{self, Origin, Session};
use ctx_core::task::Task;
use ctx_core::time::{Span, Timestamp};
use ctx_store::sqlite::{self, Options};
use ctx_store::{
    CommitQuery, Executed, FeedEvent, Found, GcReport, Health, Hit, Once, PAGE_MAX, SearchPage,
    SearchPlace, Sentence, SessionQuery, Store, Target, VerifyReport, Write, Written,
};
use ulid::Ulid;

use crate::classifier::{Classifier, RuleClassifier};
use crate::clock::{Clock, SystemClock};
use crate::recorder::Recorder;
use crate::shared::{Hub, Patience, Providers};

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store failed, or a rule said no.
    #[error(transparent)]
    Store(#[from] ctx_store::Error),
    /// A bundle was refused.
    #[error(transparent)]
    Bundle(#[from] BadBundle),
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Error::Store(refusal.into())
    }
}

impl Error {
    /// The stable code.
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

    /// The rule that said no, if one did.
    pub const fn refusal(&self) -> Option<&Refusal> {
        match self {
            Error::Store(ctx_store::Error::Refused(refusal)) => Some(refusal),
            _ => None,
        }
    }
}

/// What a clean-up sealed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CleanupReport {
    /// How many tasks.
    pub sealed: u32,
    /// Which.
    pub tasks: Vec<String>,
    /// The sessions whose task could not be sealed, and why.
    pub failed: Vec<(SessionId, String)>,
}

impl CleanupReport {
    fn add(&mut self, sealed: Option<CommitRecord>) {
        if let Some(record) = sealed {
            self.sealed += 1;
            self.tasks.push(record.commit.description);
        }
    }
}

/// Works on a store. Clones share it.
#[derive(Clone)]
pub struct Engine {
    store: Store,
    clock: Arc<dyn Clock>,
    classifier: Arc<dyn Classifier>,
    settings: Arc<Settings>,
    project: Arc<str>,
    hub: Arc<Hub>,
}

/// How many tasks one clean-up looks at in a go.
const CLEANUP_PAGE: usize = 100;

impl Engine {
    /// Works on any store; sessions that it makes belong to `project`.
    pub fn new(store: Store) -> Self {
        let project = store.project().into();
        Self {
            store,
            clock: Arc::new(SystemClock),
            classifier: Arc::new(RuleClassifier),
            settings: Arc::new(Settings::default()),
            project,
            hub: Arc::new(Hub::new(Providers::default(), Patience::default())),
        }
    }

    /// Works on the embedded store in a directory.
    ///
    /// # Errors
    /// If there is none, or it cannot be opened.
    pub fn sqlite(dir: &Path, options: Options) -> Result<Self, Error> {
        Ok(Self::new(sqlite::open(dir, options)?))
    }

    /// Makes an embedded store for a project in a directory; `false` where there is one already.
    ///
    /// # Errors
    /// If it cannot be made, or something else is there under its name.
    pub fn init(dir: &Path, project: &str) -> Result<bool, Error> {
        match sqlite::create(dir, project) {
            Err(ctx_store::Error::StoreExists(_)) => Ok(false),
            made => Ok(made.map(|()| true)?),
        }
    }

    /// With another clock.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// With another judge of messages.
    #[must_use]
    pub fn with_classifier(self, classifier: Arc<dyn Classifier>) -> Self {
        Self { classifier, ..self }
    }

    /// With other settings.
    #[must_use]
    pub fn with_settings(self, settings: Settings) -> Self {
        Self { settings: Arc::new(settings), ..self }
    }

    /// With providers, and more or less patience with them. Do this first: it makes a process of its own.
    #[must_use]
    pub fn with_providers(self, providers: Providers, patience: Patience) -> Self {
        Self { hub: Arc::new(Hub::new(providers, patience)), ..self }
    }

    /// Who can answer.
    pub fn providers(&self) -> &Providers {
        &self.hub.providers
    }

    /// How many sessions are awake in this process.
    pub fn awake(&self) -> usize {
        self.hub.awake()
    }

    /// How many sessions are followed or run in this process.
    pub fn channels(&self) -> usize {
        self.hub.feed.open_channels()
    }

    pub(crate) fn hub(&self) -> &Hub {
        &self.hub
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn classifier(&self) -> &dyn Classifier {
        &*self.classifier
    }

    /// What the user set.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The time by this engine's clock.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The project whose sessions it makes.
    pub fn project(&self) -> &str {
        &self.project
    }

    pub(crate) fn moment(&self) -> Moment {
        Moment { now: self.now(), mint: Mint::new(Ulid::new()) }
    }

    /// Executes a rule in one transaction on a session that must exist.
    pub(crate) async fn decide<R: Send + 'static>(
        &self,
        target: Target,
        needs: Needs,
        objects: Vec<Named>,
        rule: impl Fn(&SessionView, &Moment) -> Decided<R> + Send + 'static,
    ) -> Result<Written<R>, Error> {
        let moment = self.moment();
        let write = Write { target, needs, objects, now: moment.now };
        let rule = move |view: Option<&SessionView>| rule(view.ok_or(Refusal::NoSession)?, &moment);
        self.execute(write, rule).await
    }

    /// Executes a rule that may create its session, then tells followers.
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

    /// The same under an idempotency key.
    pub(crate) async fn execute_once<R: Send + 'static>(
        &self,
        write: Write,
        once: Option<Once<R>>,
        rule: impl Fn(Option<&SessionView>) -> Decided<R> + Send + 'static,
    ) -> Result<Executed<R>, Error> {
        let at = write.now;
        let mut executed = ctx_store::execute_once(&self.store, write, once, rule).await?;
        if let Executed::Written(written) = &mut executed {
            self.publish(at, written);
        }
        Ok(executed)
    }

    /// Tells followers of the events of a write that is on disk.
    fn publish<R>(&self, at: Timestamp, written: &mut Written<R>) {
        if written.events.is_empty() {
            return;
        }
        let (session, feed) = (written.session, &self.hub.feed);
        if let Some(row) = written.feed_row.filter(|_| self.hub.attends()) {
            feed.wrote(row);
        }
        // Where nobody follows, nothing is written out.
        let events = std::mem::take(&mut written.events);
        let first = (written.seq + 1).saturating_sub(events.len() as u64);
        let told = |(seq, event)| FeedEvent { row: 0, session, seq, at, event };
        let events = if feed.is_followed(session) {
            (first..).zip(events).map(told).collect()
        } else {
            Vec::new()
        };
        feed.publish(events);
    }

    /// The recorder of a session, by id or label; a label that nobody has makes one.
    ///
    /// # Errors
    /// If the store fails or the label is none.
    pub async fn recorder(&self, label: &str) -> Result<Recorder, Error> {
        let target = target(label);
        if self.store.view(&target, Needs::default()).await?.is_none() {
            match self.create_session(label, Origin::Cli).await {
                // Somebody else made it in this moment: that one is as good.
                Err(error) if matches!(error.refusal(), Some(Refusal::LabelInUse { .. })) => {}
                made => {
                    made?;
                }
            }
        }
        Ok(Recorder::new(self.clone(), target))
    }

    /// A recorder that makes no session: commands on a label that nobody has are refused.
    pub fn existing(&self, label: &str) -> Recorder {
        Recorder::new(self.clone(), target(label))
    }

    /// Makes an idle session.
    ///
    /// # Errors
    /// If the label is taken or is none.
    pub async fn create_session(&self, label: &str, origin: Origin) -> Result<SessionId, Error> {
        let moment = self.moment();
        let new = session::New::idle(
            SessionId(Ulid::new()),
            label.to_owned(),
            self.project.to_string(),
            origin,
            moment.now,
        );
        self.make_session(new).await
    }

    pub(crate) async fn make_session(&self, new: session::New) -> Result<SessionId, Error> {
        self.make_with(new, Vec::new()).await
    }

    /// Makes a session that begins with something.
    pub(crate) async fn make_with(
        &self,
        new: session::New,
        with: Vec<decide::Change>,
    ) -> Result<SessionId, Error> {
        let (id, now, target) = (new.id, new.created_at, Target::Label(new.label.clone()));
        let rule = move |found: Option<&SessionView>| {
            let mut decision = decide::create_session(found, &new)?;
            decision.changes.extend(with.iter().cloned());
            Ok(decision)
        };
        let write = Write { target, needs: Needs::default(), objects: Vec::new(), now };
        self.execute(write, rule).await?;
        Ok(id)
    }

    /// The sessions with the newest activity.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn sessions(&self, limit: usize) -> Result<Vec<Session>, Error> {
        let page = self.store.sessions(&SessionQuery::newest(limit)).await?;
        Ok(page.sessions.into_iter().map(|view| view.session).collect())
    }

    /// Seals every task that lay longer than `max_idle`. Call it at the start and now and then.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn cleanup_stale(&self, max_idle: Span) -> Result<CleanupReport, Error> {
        let mut report = CleanupReport::default();
        let since = Timestamp(self.now().0.saturating_sub_unsigned(max_idle.0));
        loop {
            let idle = self.store.due(Due::IdleTasks { since }, CLEANUP_PAGE).await?;
            let before = report.sealed;
            for session in &idle {
                let rule = move |view: &SessionView, moment: &Moment| {
                    decide::cleanup(view, max_idle, moment)
                };
                let needs = Needs::SEAL;
                match self.decide(Target::Id(*session), needs, Vec::new(), rule).await {
                    Ok(written) => report.add(written.reply),
                    // One that cannot be sealed must not keep the others from it.
                    Err(error) => report.failed.push((*session, error.to_string())),
                }
            }
            if idle.len() < CLEANUP_PAGE || report.sealed == before {
                return Ok(report);
            }
        }
    }

    /// Commits, newest first.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn commits(&self, query: &CommitQuery) -> Result<Vec<(CommitId, Commit)>, Error> {
        Ok(self.store.commits(query).await?)
    }

    /// A task, open or ended.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn task(&self, id: TaskId) -> Result<Option<Task>, Error> {
        Ok(self.store.task(id).await?)
    }

    /// An object by its whole id.
    ///
    /// # Errors
    /// If the store fails or the object is damaged.
    pub async fn object(&self, id: ObjectId) -> Result<Option<Object>, Error> {
        Ok(self.store.object(id).await?)
    }

    /// Everything whose id begins with these hex digits.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn resolve(&self, prefix: &str, limit: usize) -> Result<Vec<Found>, Error> {
        Ok(self.store.resolve(prefix, limit).await?)
    }

    /// The notes of a stretch of time, oldest first.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn narrative(
        &self,
        from: Timestamp,
        to: Timestamp,
        limit: usize,
    ) -> Result<Vec<Sentence>, Error> {
        Ok(self.store.narrative(from, to, limit).await?)
    }

    /// What was said, newest first.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn search(&self, words: &str, limit: usize) -> Result<Vec<Hit>, Error> {
        Ok(self.store.search_index().search(words, None, limit.min(PAGE_MAX)).await?.hits)
    }

    /// A page of the same, and where the next begins.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn search_from(
        &self,
        words: &str,
        from: Option<SearchPlace>,
        limit: usize,
    ) -> Result<SearchPage, Error> {
        Ok(self.store.search_index().search(words, from, limit.min(PAGE_MAX)).await?)
    }

    /// Brings the indexes behind the commits up to date.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn settle(&self) -> Result<(), Error> {
        Ok(self.store.search_index().catch_up().await?)
    }

    /// Re-hashes everything and follows every pointer.
    ///
    /// # Errors
    /// If the store cannot be looked at; what is wrong in it is in the report.
    pub async fn verify(
        &self,
        repair: bool,
        progress: ctx_store::Progress<'_>,
    ) -> Result<VerifyReport, Error> {
        Ok(self.store.verify(repair, progress).await?)
    }

    /// Removes blobs that nothing refers to.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn gc(&self, grace: Span) -> Result<GcReport, Error> {
        Ok(self.store.gc(self.now(), grace).await?)
    }

    /// Writes a consistent copy.
    ///
    /// # Errors
    /// If the copy cannot be made; there is none then.
    pub async fn backup(&self, to: &Path) -> Result<(), Error> {
        Ok(self.store.copy_to(to).await?)
    }

    /// Sizes and counts.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn health(&self) -> Result<Health, Error> {
        Ok(self.store.health().await?)
    }
}

/// An id if it reads as one, else a label.
pub(crate) fn target(name: &str) -> Target {
    name.parse().map_or_else(|_| Target::Label(name.to_owned()), Target::Id)
}
