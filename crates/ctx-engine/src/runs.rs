//! Runs: ending them early, running a message again, answering what a run waits for.

use ctx_store::TurnQuery;
use std::time::Duration;

use ctx_core::decide::{self, Cut, Decided, Decision, Moment, Needs, Opened, SessionView};
use ctx_core::id::{RunId, SessionId, SuspensionId};
use ctx_core::inbox::Overrides;
use ctx_core::prompt::Choice;
use ctx_core::refusal::Refusal;
use ctx_core::run::Run;
use ctx_core::session::Activity;
use ctx_core::suspension::Answer;
use ctx_store::Target;
use tokio::time::Instant;

use crate::context::words_of;
use crate::engine::{Engine, Error, target};
use crate::sessions::Info;
use crate::submit::{Submitted, to_completion};

/// Runs: cancel and retry them, and answer what a suspended one waits for.
///
/// ```
/// # async fn example() -> Result<(), ctx_engine::Error> {
/// # let dir = tempfile::tempdir().expect("a directory");
/// # ctx_engine::Engine::init(dir.path(), "demo")?;
/// # let engine = ctx_engine::Engine::sqlite(dir.path(), ctx_engine::Options::default())?;
/// use ctx_engine::core::session::{Activity, Origin};
///
/// engine.sessions().create_idle("notes", Origin::Api).await?;
/// // Cancelling an idle session changes nothing.
/// let info = engine.runs().cancel("notes").await?;
/// assert_eq!(info.session.state, Activity::Idle);
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(example()).expect("it works");
/// ```
#[derive(Clone, Copy)]
pub struct Runs<'a> {
    pub(crate) engine: &'a Engine,
}

impl Engine {
    /// Runs: cancel and retry them, and answer what a suspended one waits for.
    pub const fn runs(&self) -> Runs<'_> {
        Runs { engine: self }
    }
}

impl Runs<'_> {
    /// Ends what runs or releases what is awaited; returns when that is done.
    ///
    /// # Errors
    /// If there is no such session.
    pub async fn cancel(self, session: &str) -> Result<Info, Error> {
        self.engine.stop_run(session, decide::cancel).await
    }

    /// Answers what a session waits for.
    ///
    /// # Errors
    /// If it waits for no such thing, or the answer does not fit.
    pub async fn resume(
        self,
        session: &str,
        suspension: SuspensionId,
        answer: Answer,
    ) -> Result<Option<Run>, Error> {
        self.engine.join().await?;
        let opener = self.engine.hub().opener.clone();
        let needs = Needs { suspension: Some(suspension), ..Needs::MESSAGE };
        let rule = move |view: &SessionView, moment: &Moment| {
            decide::resume(view, suspension, &answer, &opener, moment)
        };
        self.engine.open_run(target(session), needs, rule).await
    }

    /// Answers the question with two choices.
    ///
    /// # Errors
    /// If none is open.
    pub async fn answer_prompt(self, session: &str, choice: Choice) -> Result<Option<Run>, Error> {
        self.engine.join().await?;
        let (opener, settings) = (self.engine.hub().opener.clone(), self.engine.settings().clone());
        let rule = move |view: &SessionView, moment: &Moment| {
            decide::settle_choice(view, choice, &opener, &settings, moment)
        };
        self.engine.open_run(target(session), Needs::MESSAGE, rule).await
    }

    /// Runs the last message again, perhaps elsewhere.
    ///
    /// # Errors
    /// If the session is busy, or nothing was said yet.
    pub async fn retry(self, session: &str, overrides: Overrides) -> Result<Submitted, Error> {
        self.engine.join().await?;
        let info = self.engine.sessions().get(session).await?;
        self.engine.hub().known(overrides.provider_id.as_deref(), None)?;
        let head = info.session.head.ok_or(Refusal::NothingToRetry)?;
        let turn = self
            .engine
            .store()
            .turns(TurnQuery::newest(head, 1))
            .await?
            .pop()
            .ok_or(Refusal::NothingToRetry)?;
        let parent = turn.header.parent;
        let items = decide::retry_items(words_of(turn)?, &overrides, &self.engine.moment());
        let first = items.first().map(|item| item.message_id).ok_or(Refusal::NothingToRetry)?;
        let opener = self.engine.hub().opener.clone();
        let rule = move |view: &SessionView, moment: &Moment| {
            let decision = decide::retry(view, head, parent, &items, &opener, moment)?;
            let (batch, opened) = decision.into_parts();
            Ok(Decision::new(batch, Some(opened)))
        };
        let run = self.engine.open_run(Target::Id(info.session.id), Needs::MESSAGE, rule).await?;
        Ok(Submitted {
            session: info.session.id,
            message_id: first,
            run_id: run.map(|run| run.id),
            position: None,
            state: Activity::Running,
            intent: None,
            prompt: None,
            replayed: false,
        })
    }

    /// One run and its session.
    ///
    /// # Errors
    /// If there is none.
    pub async fn get(self, id: RunId) -> Result<(Run, SessionId), Error> {
        let run = self.engine.store().run(id).await?;
        Ok(run.ok_or_else(|| ctx_store::Error::NotFound { what: "run", name: id.to_string() })?)
    }

    /// If the process that runs a session is dead, its run is ended now rather than with the next sweep.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn end_orphaned(self, session: SessionId) -> Result<(), Error> {
        let Some(view) = self.engine.store().view(&Target::Id(session), Needs::NOTHING).await?
        else {
            return Ok(());
        };
        match view.session.owner {
            Some(owner) if owner != self.engine.hub().node => {
                let dead = self.engine.dead().await?;
                if dead.contains(&owner) {
                    self.engine.take_over(session, &dead).await?;
                    self.engine.wake(session);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Engine {
    /// Executes a rule that asks the open run to end, and waits until it has ended.
    pub(crate) async fn stop_run(
        &self,
        session: &str,
        rule: fn(&SessionView, &Moment) -> Decided<()>,
    ) -> Result<Info, Error> {
        let info = self.sessions().get(session).await?;
        let (waited, before) =
            (info.session.state == Activity::Suspended, info.run.map(|run| run.id));
        let id = self.decide(target(session), Needs::CLOSE, Vec::new(), rule).await?.session;
        self.hub().recheck(id);
        if waited {
            self.release(id);
        }
        let until = Instant::now() + self.hub().patience.cancel;
        let mut info = self.sessions().get(session).await?;
        while let Some(run) =
            info.run.as_ref().filter(|run| run.cancel.is_some() && Some(run.id) == before)
        {
            if Instant::now() >= until {
                // Whoever runs it does not hear: the fence is raised, and what is stored of it is kept.
                self.cut_off(id, run.id, Cut::Cancelled).await?;
            } else {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            info = self.sessions().get(session).await?;
        }
        self.wake(id);
        Ok(info)
    }

    /// Executes a rule that may open a run, and hands the run to the session's actor.
    pub(crate) async fn open_run(
        &self,
        target: Target,
        needs: Needs,
        rule: impl Fn(&SessionView, &Moment) -> Decided<Option<Opened>> + Send + 'static,
    ) -> Result<Option<Run>, Error> {
        let engine = self.clone();
        to_completion(async move {
            let written = engine.decide(target, needs, Vec::new(), rule).await?;
            let run = written.reply.as_ref().map(|opened| opened.run.clone());
            if let Some(opened) = written.reply {
                engine.start_run(written.session, opened);
            } else {
                engine.wake(written.session);
            }
            Ok(run)
        })
        .await
    }
}
