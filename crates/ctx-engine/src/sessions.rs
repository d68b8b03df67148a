//! Sessions: create, find, change, archive, delete.

use std::time::Duration;

use ctx_core::decide::{self, Invocation, Needs, Patch, SessionView, TurnNeed};
use ctx_core::id::{SessionId, TurnId};
use ctx_core::inbox::{Item, ItemState};
use ctx_core::prompt::Prompt;
use ctx_core::refusal::Refusal;
use ctx_core::run::Run;
use ctx_core::session::{self, Activity, Origin, Session, Status};
use ctx_core::suspension::Suspension;
use ctx_core::task::Task;
use ctx_store::{HeadMove, Hidden, SessionQuery, Target, TreeTurn};
use tokio::time::Instant;

use crate::engine::{DEFAULT_SESSION, Engine, Error};

/// How often a session that another process runs is read.
const SETTLED_POLL: Duration = Duration::from_millis(100);

/// A session with everything that clients show of it.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct Info {
    pub session: Session,
    pub task: Option<Task>,
    /// The open question with two choices.
    pub prompt: Option<Prompt>,
    /// The open run.
    pub run: Option<Run>,
    /// The open suspensions, oldest first.
    pub suspensions: Vec<Suspension>,
    /// Messages of the inbox that are not part of the open turn.
    pub inbox: Vec<Item>,
}

impl From<SessionView> for Info {
    fn from(view: SessionView) -> Self {
        let run = view.run.filter(|run| run.ended_at.is_none());
        let inbox =
            view.inbox.into_iter().filter(|item| !matches!(item.state, ItemState::Taken)).collect();
        Self {
            session: view.session,
            task: view.task,
            prompt: view.prompt,
            run,
            suspensions: view.suspensions,
            inbox,
        }
    }
}

impl Info {
    /// Whether the session runs, or is about to run a message of its inbox.
    pub fn is_busy(&self) -> bool {
        decide::is_busy(&self.session, self.prompt.as_ref(), &self.inbox)
    }
}

/// Sessions: create, find, change, fork, archive and delete them.
///
/// ```
/// # async fn example() -> Result<(), ctx_engine::Error> {
/// # let dir = tempfile::tempdir().expect("a directory");
/// # ctx_engine::Engine::init(dir.path(), "demo")?;
/// # let engine = ctx_engine::Engine::open(dir.path(), ctx_engine::Options::default())?;
/// use ctx_engine::NewSession;
///
/// let new = NewSession { label: Some("notes".to_owned()), ..NewSession::default() };
/// let (id, _) = engine.sessions().create(new, None, None).await?;
/// let info = engine.sessions().get("notes").await?;
/// assert_eq!(info.session.id, id);
/// let fork = engine.sessions().branch("notes", ctx_engine::Branch::default()).await?;
/// assert_ne!(fork, id);
/// # Ok(())
/// # }
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
/// # runtime.expect("a runtime").block_on(example()).expect("it works");
/// ```
#[derive(Clone, Copy)]
pub struct Sessions<'a> {
    pub(crate) engine: &'a Engine,
}

impl Engine {
    /// Sessions: create, find, change, fork, archive and delete them.
    pub const fn sessions(&self) -> Sessions<'_> {
        Sessions { engine: self }
    }
}

impl Sessions<'_> {
    /// Creates an idle session. The default session of a store that is shared by projects works in
    /// the directory of its project.
    ///
    /// Fails if the label is in use or not valid.
    pub async fn create_idle(self, label: &str, origin: Origin) -> Result<SessionId, Error> {
        let project = self.engine.project().to_owned();
        let is_of_directory = label != DEFAULT_SESSION && label == self.engine.default_session();
        let working_dir = is_of_directory.then(|| project.clone());
        let id = SessionId(self.engine.new_id());
        let idle = session::New::idle(id, label.to_owned(), project, origin, self.engine.now());
        self.engine.create(session::New { working_dir, ..idle }).await
    }

    /// Changes sessions whose process has died to what recovery will leave: idle and interrupted.
    /// For a process that only shows them; the next one that runs sessions recovers them.
    ///
    /// Fails if the store fails.
    pub async fn as_recovered(self, infos: &mut [Info]) -> Result<(), Error> {
        if infos.iter().all(|info| info.session.state != Activity::Running) {
            return Ok(());
        }
        let dead = self.engine.dead_nodes().await?;
        let is_dead = |info: &&mut Info| decide::is_orphaned(&info.session, &dead);
        for info in infos.iter_mut().filter(is_dead) {
            (info.session.state, info.session.status) = (Activity::Idle, Status::Suspended);
            info.run = None;
        }
        Ok(())
    }

    /// The sessions with the newest activity.
    ///
    /// Fails if the store fails.
    pub async fn newest(self, limit: usize) -> Result<Vec<Session>, Error> {
        Ok(self.engine.store().newest_sessions(limit).await?)
    }

    /// A session by id, label or alias.
    ///
    /// Fails if it does not exist.
    pub async fn get(self, session: &str) -> Result<Info, Error> {
        let view =
            self.engine.store().view(&self.engine.target(session).await?, Needs::RUN).await?;
        self.engine.info_of(view.ok_or(Refusal::NoSession)?).await
    }

    /// Changes the preferences of a session.
    ///
    /// Fails if the session does not exist, or a provider or persona is unknown.
    pub async fn update(self, session: &str, patch: Patch) -> Result<Info, Error> {
        let catalog = self.engine.shared().run_host().catalog;
        let rule = move |view: &SessionView, invocation: &Invocation| {
            decide::update_session(view, &patch, &catalog, invocation)
        };
        let written = self
            .engine
            .decide(self.engine.target(session).await?, Needs::RUN, Vec::new(), rule)
            .await?;
        self.engine.wake(written.session);
        self.engine.sessions().get(session).await
    }

    /// Archives a session; an open run is cancelled first.
    ///
    /// Fails if the session does not exist, or its history is damaged.
    pub async fn archive(self, session: &str) -> Result<Info, Error> {
        let before = self.engine.sessions().get(session).await?.session;
        let info = self.engine.stop_run(session, decide::archive).await?;
        if before.state != Activity::Idle {
            self.engine.inform_manager(&before, "was cancelled by the user and archived").await?;
        }
        Ok(info)
    }

    /// Makes an archived session active again.
    ///
    /// Fails if the session does not exist, or its history is damaged.
    pub async fn unarchive(self, session: &str) -> Result<Info, Error> {
        let written = self
            .engine
            .decide(
                self.engine.target(session).await?,
                Needs::NOTHING,
                Vec::new(),
                decide::unarchive,
            )
            .await?;
        self.engine.wake(written.session);
        self.engine.sessions().get(session).await
    }

    /// Deletes a session permanently, from any state.
    ///
    /// Fails if the session does not exist.
    pub async fn delete(self, session: &str) -> Result<(), Error> {
        let info = self.engine.sessions().get(session).await?;
        let rule = |view: &SessionView, _: &Invocation| decide::delete_session(view);
        self.engine.decide(Target::Id(info.session.id), Needs::NOTHING, Vec::new(), rule).await?;
        self.engine.shared().recheck(info.session.id);
        let (id, shared) = (info.session.id, self.engine.shared());
        let (processes, all) =
            (shared.providers_of(id), shared.providers().all.values().cloned().collect::<Vec<_>>());
        tokio::spawn(async move {
            for provider in processes {
                provider.release(id).await;
                provider.rest(id).await;
            }
            for provider in all {
                provider.forget(id).await;
            }
        });
        if info.is_busy() || info.session.state != Activity::Idle || info.session.unreported {
            self.engine.inform_manager(&info.session, "was deleted by the user").await?;
        }
        while self.engine.store().purge(self.engine.now()).await? {}
        Ok(())
    }

    /// Moves the head back to an earlier turn.
    ///
    /// Fails if the session is busy, or the turn is not an ancestor of its head.
    pub async fn rewind(self, session: &str, turn: TurnId) -> Result<Info, Error> {
        let needs = Needs { turn: Some(TurnNeed::Ancestor(turn)), ..Needs::RUN };
        self.engine
            .decide(
                self.engine.target(session).await?,
                needs,
                Vec::new(),
                move |view, invocation| decide::rewind(view, turn, invocation),
            )
            .await?;
        self.engine.sessions().get(session).await
    }

    /// Moves the head forward again to a turn that a rewind left.
    ///
    /// Fails if the session is busy, or the turn does not descend from its head.
    pub async fn undo_rewind(self, session: &str, turn: TurnId) -> Result<Info, Error> {
        let needs = Needs { turn: Some(TurnNeed::Descendant(turn)), ..Needs::RUN };
        self.engine
            .decide(
                self.engine.target(session).await?,
                needs,
                Vec::new(),
                move |view, invocation| decide::undo_rewind(view, turn, invocation),
            )
            .await?;
        self.engine.sessions().get(session).await
    }

    /// Waits until a session neither runs nor can deliver a message, or until the timeout.
    ///
    /// Fails if the session does not exist.
    pub async fn wait_until_settled(
        self,
        session: &str,
        timeouts: Duration,
    ) -> Result<Info, Error> {
        let (until, shared) = (Instant::now() + timeouts, self.engine.shared());
        let mut id: Option<SessionId> = session.parse().ok();
        loop {
            if let Some(actor) = id.and_then(|id| shared.actor(id)) {
                let _ = tokio::time::timeout_at(until, actor.ended.cancelled()).await;
            }
            let info = self.engine.sessions().get(session).await?;
            if !info.is_busy() || Instant::now() >= until {
                return Ok(info);
            }
            id = Some(info.session.id);
            if !shared.is_awake(info.session.id) {
                // Another process runs the session.
                tokio::time::sleep_until(until.min(Instant::now() + SETTLED_POLL)).await;
            }
        }
    }

    /// As [`Sessions::wait_until_settled`], and returns only the state. The store is not read if a
    /// run of this process left the session idle.
    ///
    /// Fails if the session does not exist.
    pub async fn settled_state(
        self,
        session: SessionId,
        timeouts: Duration,
    ) -> Result<Activity, Error> {
        let until = Instant::now() + timeouts;
        if let Some(actor) = self.engine.shared().actor(session) {
            let ended = tokio::time::timeout_at(until, actor.ended.cancelled()).await;
            if ended.is_ok() && actor.ended_as_idle() {
                return Ok(Activity::Idle);
            }
        }
        let left = until.saturating_duration_since(Instant::now());
        let info = self.wait_until_settled(&session.to_string(), left).await?;
        Ok(info.session.state)
    }

    /// The moves of a session's head before a row, newest first.
    ///
    /// Fails if the session does not exist.
    pub async fn head_moves(
        self,
        session: &str,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<HeadMove>, Error> {
        let id = self.engine.sessions().get(session).await?.session.id;
        Ok(self.engine.store().head_moves(id, before, limit).await?)
    }

    /// The tree of turns that contains a session's head.
    ///
    /// Fails if the session does not exist.
    pub async fn tree(self, session: &str, limit: usize) -> Result<Vec<TreeTurn>, Error> {
        let id = self.engine.sessions().get(session).await?.session.id;
        Ok(self.engine.store().tree(id, limit).await?)
    }

    /// Gives a session another label; the old one becomes an alias.
    ///
    /// Fails if the session does not exist, or the label is not valid or in use.
    pub async fn relabel(self, session: &str, label: &str) -> Result<Info, Error> {
        let id = self.get(session).await?.session.id;
        let now = self.engine.now();
        self.engine.store().relabel_session(&Target::Id(id), label, now).await?;
        self.engine.shared().recheck(id);
        self.get(&id.to_string()).await
    }

    /// The active sessions with this working directory, those with the newest activity first.
    ///
    /// Fails if the store fails.
    pub async fn in_directory(self, dir: &str, limit: usize) -> Result<Vec<Info>, Error> {
        let mut infos = Vec::new();
        for id in self.engine.store().sessions_in(dir, limit).await? {
            match self.get(&id.to_string()).await {
                Ok(info) => infos.push(info),
                Err(error) if error.code() == "no_session" => {}
                Err(error) => return Err(error),
            }
        }
        Ok(infos)
    }

    /// The number of sessions that match a query, whatever its cursor and limit are.
    ///
    /// Fails if the store fails.
    pub async fn count(self, query: &SessionQuery) -> Result<u64, Error> {
        Ok(self.engine.store().count_sessions(query).await?)
    }

    /// Sessions that match a query, those with the newest activity first; and the number of
    /// archived and of damaged sessions, both of one snapshot.
    ///
    /// Fails if the store fails.
    pub async fn list(self, query: &SessionQuery) -> Result<(Vec<Info>, Hidden), Error> {
        let page = self.engine.store().sessions(query).await?;
        let mut infos = Vec::with_capacity(page.sessions.len());
        for view in page.sessions {
            infos.push(self.engine.info_of(view).await?);
        }
        Ok((infos, page.hidden))
    }
}

impl Engine {
    /// A worker whose task was sealed still shows it.
    pub(crate) async fn info_of(&self, view: SessionView) -> Result<Info, Error> {
        let mut info = Info::from(view);
        if info.task.is_none() && info.session.is_worker() {
            info.task = self.store().tasks(info.session.id, true, None, 1).await?.pop();
        }
        Ok(info)
    }

    /// Informs providers of this process that a suspension was released.
    pub(crate) fn release(&self, session: SessionId) {
        for provider in self.shared().providers_of(session) {
            tokio::spawn(async move { provider.release(session).await });
        }
    }

    /// Releases everything that providers of this process keep for a session that was deleted or
    /// continues elsewhere.
    pub(crate) fn forget(&self, session: SessionId) {
        for provider in self.shared().providers_of(session) {
            tokio::spawn(async move {
                provider.release(session).await;
                provider.rest(session).await;
            });
        }
    }
}
