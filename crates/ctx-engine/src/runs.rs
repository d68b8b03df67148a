//! Runs: cancel, retry, and answer what a suspended run waits for.

use std::time::Duration;

use ctx_core::decide::{
    self, Change, Decided, Decision, HeadBefore, HistoryKey, Invocation, Needs, OfferedRun,
    OpenedRun, RunHost, SessionView, TerminationCause,
};
use ctx_core::draft::Entry;
use ctx_core::id::{MessageId, NodeId, RunId, SessionId, SuspensionId};
use ctx_core::inbox::Overrides;
use ctx_core::message::Role;
use ctx_core::prompt::Choice;
use ctx_core::refusal::Refusal;
use ctx_core::run::Run;
use ctx_core::session::Activity;
use ctx_core::suspension::Answer;
use ctx_store::{Executed, Once, OnceKey, Target, Write};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::context::messages_of;
use crate::engine::{Engine, Error};
use crate::sessions::Info;
use crate::submit::{Submitted, replayed, to_completion};

/// How long a process may take to adopt the run that an answer opened for it. A process that lives
/// reads the event within a fraction of this time.
const ADOPTION_MAX: Duration = Duration::from_secs(3);

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
        let target = self.engine.target(session).await?;
        let opened = self.resume_once(target, suspension, answer, None).await?;
        Ok(opened.and_then(|opened| opened.run))
    }

    /// As [`Runs::resume`], under an idempotency key. `None` if other suspensions are open.
    pub(crate) async fn resume_once(
        self,
        target: Target,
        suspension: SuspensionId,
        answer: Answer,
        key: Option<OnceKey>,
    ) -> Result<Option<StartedRun>, Error> {
        self.engine.ensure_lease().await?;
        let run_host = self.engine.shared().run_host();
        let keeper = self.engine.agent_keeper(&target).await?;
        let needs = Needs { suspension: Some(suspension), ..Needs::MESSAGE };
        let rule = move |view: &SessionView, invocation: &Invocation| {
            let keeper = keeper.filter(|_| view.session.owner == keeper);
            let run_host = RunHost { node: keeper.unwrap_or(run_host.node), ..run_host.clone() };
            decide::resume(view, suspension, &answer, &run_host, invocation)
        };
        self.engine.open_run(target, needs, key, rule).await
    }

    /// Answers the question with two choices.
    ///
    /// Fails if no question is open.
    pub async fn answer_prompt(self, session: &str, choice: Choice) -> Result<Option<Run>, Error> {
        self.engine.ensure_lease().await?;
        let (run_host, settings) =
            (self.engine.shared().run_host(), self.engine.settings().clone());
        let rule = move |view: &SessionView, invocation: &Invocation| {
            decide::answer_session_prompt(view, choice, &run_host, &settings, invocation)
        };
        let target = self.engine.target(session).await?;
        let opened = self.engine.open_run(target, Needs::MESSAGE, None, rule).await?;
        Ok(opened.and_then(|opened| opened.run))
    }

    /// Runs the last message again, if wanted with another provider or model.
    ///
    /// Fails if the session is busy or has no turn.
    pub async fn retry(self, session: &str, overrides: Overrides) -> Result<Submitted, Error> {
        self.retry_once(session, overrides, Vec::new(), None).await
    }

    /// As [`Runs::retry`], under an idempotency key. The message is found by the history keys,
    /// which are pairs of scope and key.
    pub(crate) async fn retry_once(
        self,
        session: &str,
        overrides: Overrides,
        keys: Vec<(String, String)>,
        once: Option<OnceKey>,
    ) -> Result<Submitted, Error> {
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
        let run_host = self.engine.shared().run_host();
        let rule = move |view: &SessionView, invocation: &Invocation| {
            let decision = decide::retry(view, head, before, &items, &run_host, invocation)?;
            let (mut batch, opened_run) = decision.into_parts();
            let key = |(scope, key): &(String, String)| HistoryKey {
                scope: scope.clone(),
                key: key.clone(),
                message: first,
            };
            let keys = keys.iter().map(|pair| Change::PutHistoryKey(Box::new(key(pair))));
            batch.changes.extend(keys);
            Ok(Decision::new(batch, Some(opened_run)))
        };
        let target = Target::Id(info.session.id);
        let opened = self.engine.open_run(target, Needs::MESSAGE, once, rule).await?;
        let started = opened.ok_or(Refusal::NothingToRetry)?;
        Ok(started.submitted)
    }

    /// A run and its session.
    ///
    /// Fails if the run does not exist.
    pub async fn get(self, id: RunId) -> Result<(Run, SessionId), Error> {
        let run = self.engine.store().run(id).await?;
        Ok(run.ok_or_else(|| ctx_store::Error::NotFound { what: "run", name: id.to_string() })?)
    }

    /// Whether this process runs the session.
    pub fn is_here(self, session: SessionId) -> bool {
        self.engine.shared().is_awake(session)
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
    /// The other process whose agent waits for the answer to a suspension, if that process lives.
    /// A second agent process would write to the agent's conversation at the same time.
    async fn agent_keeper(&self, target: &Target) -> Result<Option<NodeId>, Error> {
        let view = self.store().view(target, Needs::NOTHING).await?;
        let owner = view.and_then(|view| view.session.owner);
        match owner.filter(|owner| *owner != self.shared().node) {
            Some(owner) if self.store().is_alive(owner, self.now()).await? => Ok(Some(owner)),
            _ => Ok(None),
        }
    }

    /// Carries out a run here if the process for which it was opened does not adopt it in time.
    fn watch_offered_run(&self, session: SessionId, run: &Run, owner: NodeId) {
        let engine = self.clone();
        let offered = OfferedRun { run: run.id, owner, fence: Some(run.fence) };
        tokio::spawn(async move {
            tokio::time::sleep(ADOPTION_MAX).await;
            match engine.adopt_run(session, offered).await {
                Ok(true) => tracing::info!(%session, %owner, "a run was not adopted in time"),
                Ok(false) => {}
                Err(error) => tracing::warn!(%session, %error, "a run could not be adopted"),
            }
        });
    }

    /// Adopts a run that another process opened for the agent that waits in this process. Returns
    /// `false` if the run is not ours.
    pub(crate) async fn adopt_own_run(
        &self,
        session: SessionId,
        run: RunId,
    ) -> Result<bool, Error> {
        let owner = self.shared().node;
        let view = self.store().view(&Target::Id(session), Needs::NOTHING).await?;
        if view.is_none_or(|view| view.session.owner != Some(owner)) {
            return Ok(false);
        }
        self.adopt_run(session, OfferedRun { run, owner, fence: None }).await
    }

    /// Carries out an offered run in this process. Returns `false` if another process does.
    async fn adopt_run(&self, session: SessionId, offered: OfferedRun) -> Result<bool, Error> {
        self.ensure_lease().await?;
        let node = self.shared().node;
        let rule = move |view: &SessionView, invocation: &Invocation| {
            decide::adopt_run(view, &offered, node, invocation)
        };
        Ok(self.open_run(Target::Id(session), Needs::ADOPT, None, rule).await?.is_some())
    }

    /// Executes a rule that asks the open run to end, and waits until it has ended.
    pub(crate) async fn stop_run(
        &self,
        session: &str,
        rule: fn(&SessionView, &Invocation) -> Decided<()>,
    ) -> Result<Info, Error> {
        let info = self.sessions().get(session).await?;
        let (waited, before) =
            (info.session.state == Activity::Suspended, info.run.map(|run| run.id));
        let id =
            self.decide(self.target(session).await?, Needs::CLOSE, Vec::new(), rule).await?.session;
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
        key: Option<OnceKey>,
        rule: F,
    ) -> Result<Option<StartedRun>, Error>
    where
        F: Fn(&SessionView, &Invocation) -> Decided<Option<Box<OpenedRun>>> + Send + 'static,
    {
        let engine = self.clone();
        let invocation = self.invocation();
        let write = Write { target, needs, objects: Vec::new(), now: invocation.now };
        let once = key.map(|key| Once { key, answer: started_answer });
        let rule =
            move |view: Option<&SessionView>| rule(view.ok_or(Refusal::NoSession)?, &invocation);
        to_completion(async move {
            let written = match engine.execute_once(write, once, rule).await? {
                Executed::Written(written) => written,
                Executed::Replayed(answer) => {
                    let submitted = Submitted { replayed: true, ..replayed(answer)? };
                    return Ok(Some(StartedRun { run: None, submitted }));
                }
            };
            let Some(opened_run) = written.reply else {
                engine.wake(written.session);
                return Ok(None);
            };
            let submitted = started(written.session, &opened_run);
            let run = Some(opened_run.run.clone());
            match opened_run.session.owner {
                Some(owner) if owner != engine.shared().node => {
                    engine.watch_offered_run(written.session, &opened_run.run, owner);
                }
                _ => engine.start_run(written.session, opened_run),
            }
            Ok(Some(StartedRun { run, submitted }))
        })
        .await
    }
}

/// A run that was opened by an answer or a retry.
pub(crate) struct StartedRun {
    /// `None` if it was started before, with the same idempotency key.
    pub(crate) run: Option<Run>,
    pub(crate) submitted: Submitted,
}

/// The result for a run that was opened. Its message is the one that the run answers: the results
/// of the client's tools, or the first message of the turn.
fn started(session: SessionId, opened: &OpenedRun) -> Submitted {
    let results = opened.drafts.iter().rev().find_map(|entry| match entry {
        Entry::Message { id, role: Role::Tool, .. } if !opened.resumes.is_empty() => Some(*id),
        _ => None,
    });
    let first = opened.items.first().map(|item| item.message_id);
    Submitted {
        session,
        message_id: results.or(first).unwrap_or(MessageId(opened.run.id.0)),
        run_id: Some(opened.run.id),
        position: None,
        state: Activity::Running,
        intent: None,
        prompt: None,
        replayed: false,
    }
}

fn started_answer(session: SessionId, opened: &Option<Box<OpenedRun>>) -> Value {
    opened.as_ref().map_or(Value::Null, |opened| json!(started(session, opened)))
}
