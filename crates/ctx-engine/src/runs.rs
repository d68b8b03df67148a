//! Runs: cancel, retry, and answer what a suspended run waits for.

use std::time::Duration;

use ctx_core::decide::{
    self, Decided, Decision, HeadBefore, Invocation, Needs, OpenedRun, SessionView,
    TerminationCause,
};
use ctx_core::id::{RunId, SessionId, SuspensionId};
use ctx_core::inbox::Overrides;
use ctx_core::prompt::Choice;
use ctx_core::refusal::Refusal;
use ctx_core::run::Run;
use ctx_core::session::Activity;
use ctx_core::suspension::Answer;
use ctx_store::Target;
use tokio::time::Instant;

use crate::context::messages_of;
use crate::engine::{Engine, Error, target};
use crate::sessions::Info;
use crate::submit::{Submitted, to_completion};

/// Runs: cancel and retry them, and answer what a suspended one waits for.
///
/// ```
/// # async fn example() -> Result<(), ctx_engine::Error> {
/// # let dir = tempfile::tempdir().expect("a directory");
/// # ctx_engine::Engine::init(dir.path(), "demo")?;
/// # let engine = ctx_engine::Engine::open(dir.path(), ctx_engine::Options::default())?;
/// use ctx_engine::core::session::{Activity, Origin};
///
/// engine.sessions().create_idle("notes", Origin::Api).await?;
/// // Cancelling an idle session changes nothing.
/// let info = engine.runs().cancel("notes").await?;
/// assert_eq!(info.session.state, Activity::Idle);
/// # Ok(())
/// # }
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
/// # runtime.expect("a runtime").block_on(example()).expect("it works");
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
    /// Cancels the run or releases the suspension; returns when the session is idle. A provider
    /// that does not stop at once is stopped in the background.
    ///
    /// Fails if the session does not exist.
    pub async fn cancel(self, session: &str) -> Result<Info, Error> {
        let before = self.engine.sessions().get(session).await?.session;
        let info = self.engine.stop_run(session, decide::cancel).await?;
        if before.state != Activity::Idle {
            self.engine.inform_manager(&before, "was cancelled by the user").await?;
        }
        Ok(info)
    }

    /// Answers a suspension.
    ///
    /// Fails if the suspension does not exist, or the answer does not match it.
    pub async fn resume(
        self,
        session: &str,
        suspension: SuspensionId,
        answer: Answer,
    ) -> Result<Option<Run>, Error> {
        self.engine.ensure_lease().await?;
        let run_host = self.engine.shared().run_host.clone();
        let needs = Needs { suspension: Some(suspension), ..Needs::MESSAGE };
        let rule = move |view: &SessionView, invocation: &Invocation| {
            decide::resume(view, suspension, &answer, &run_host, invocation)
        };
        self.engine.open_run(target(session), needs, rule).await
    }

    /// Answers the question with two choices.
    ///
    /// Fails if no question is open.
    pub async fn answer_prompt(self, session: &str, choice: Choice) -> Result<Option<Run>, Error> {
        self.engine.ensure_lease().await?;
        let (run_host, settings) =
            (self.engine.shared().run_host.clone(), self.engine.settings().clone());
        let rule = move |view: &SessionView, invocation: &Invocation| {
            decide::answer_session_prompt(view, choice, &run_host, &settings, invocation)
        };
        self.engine.open_run(target(session), Needs::MESSAGE, rule).await
    }

    /// Runs the last message again, if wanted with another provider or model.
    ///
    /// Fails if the session is busy or has no turn.
    pub async fn retry(self, session: &str, overrides: Overrides) -> Result<Submitted, Error> {
        self.engine.ensure_lease().await?;
        let info = self.engine.sessions().get(session).await?;
        self.engine.shared().known(overrides.provider_id.as_deref(), None)?;
        let head = info.session.head.ok_or(Refusal::NothingToRetry)?;
        // A notice or a command to ctx is not what the user wants to be run again.
        let last = self.engine.last_exchange(head).await?.ok_or(Refusal::NothingToRetry)?;
        let turns = info.session.turn_count + 1 - last.depth;
        let before = HeadBefore { parent: last.header.parent, turns };
        let items = decide::retry_items(messages_of(last)?, &overrides, &self.engine.invocation());
        let first = items.first().map(|item| item.message_id).ok_or(Refusal::NothingToRetry)?;
        let run_host = self.engine.shared().run_host.clone();
        let rule = move |view: &SessionView, invocation: &Invocation| {
            let decision = decide::retry(view, head, before, &items, &run_host, invocation)?;
            let (batch, opened_run) = decision.into_parts();
            Ok(Decision::new(batch, Some(opened_run)))
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

    /// A run and its session.
    ///
    /// Fails if the run does not exist.
    pub async fn get(self, id: RunId) -> Result<(Run, SessionId), Error> {
        let run = self.engine.store().run(id).await?;
        Ok(run.ok_or_else(|| ctx_store::Error::NotFound { what: "run", name: id.to_string() })?)
    }

    /// Ends the run of a session if its process is dead, without waiting for the next sweep.
    ///
    /// Fails if the store fails.
    pub async fn end_orphaned(self, session: SessionId) -> Result<(), Error> {
        let Some(view) = self.engine.store().view(&Target::Id(session), Needs::NOTHING).await?
        else {
            return Ok(());
        };
        match view.session.owner {
            Some(owner) if owner != self.engine.shared().node => {
                let dead = self.engine.dead_nodes().await?;
                if dead.contains(&owner) {
                    self.engine.end_orphaned_run(session, &dead).await?;
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
        rule: fn(&SessionView, &Invocation) -> Decided<()>,
    ) -> Result<Info, Error> {
        let info = self.sessions().get(session).await?;
        let (waited, before) =
            (info.session.state == Activity::Suspended, info.run.map(|run| run.id));
        let id = self.decide(target(session), Needs::CLOSE, Vec::new(), rule).await?.session;
        self.shared().recheck(id);
        if waited {
            self.release(id);
        }
        let until = Instant::now() + self.shared().timeouts.cancel;
        let mut info = self.sessions().get(session).await?;
        while let Some(run) =
            info.run.as_ref().filter(|run| run.cancel.is_some() && Some(run.id) == before)
        {
            if Instant::now() >= until {
                // The provider does not stop: raise the fence and keep what was stored.
                self.terminate_run(id, run.id, TerminationCause::Cancelled).await?;
            } else {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            info = self.sessions().get(session).await?;
        }
        self.wake(id);
        Ok(info)
    }

    /// Executes a rule that may open a run, and hands the run to the session's actor.
    pub(crate) async fn open_run<F>(
        &self,
        target: Target,
        needs: Needs,
        rule: F,
    ) -> Result<Option<Run>, Error>
    where
        F: Fn(&SessionView, &Invocation) -> Decided<Option<Box<OpenedRun>>> + Send + 'static,
    {
        let engine = self.clone();
        to_completion(async move {
            let written = engine.decide(target, needs, Vec::new(), rule).await?;
            let run = written.reply.as_ref().map(|opened_run| opened_run.run.clone());
            if let Some(opened_run) = written.reply {
                engine.start_run(written.session, opened_run);
            } else {
                engine.wake(written.session);
            }
            Ok(run)
        })
        .await
    }
}
