//! Carries out one run: adds the provider's stream to the open turn, stores it in checkpoints, and
//! ends the run once.
//!
//! Text is stored before it is sent to followers, so a crash loses nothing that was shown. Text
//! that arrives during a write is stored by the next one: each session has one write at a time, and
//! the writes of all sessions share a sync. Without followers, text is stored within a quarter of
//! a second. A run ends in one of four ways: with a completed turn, a failed turn, an interrupted
//! turn, or a suspension.

mod budget;
mod fold;
mod persist;
mod reads;
mod tool_calls;

use std::sync::Arc;
use std::time::Duration;

use ctx_core::agent_session::AgentSession;
use ctx_core::budget::Used;
use ctx_core::compaction::Compaction;
use ctx_core::decide::{Checkpoint, OpenedRun};
use ctx_core::draft::{Draft, Entry};
use ctx_core::id::{MessageId, SessionId, TurnId};
use ctx_core::inbox::Item;
use ctx_core::message::Role;
use ctx_core::object::Named;
use ctx_core::run::{Cancel, Outcome, Phase};
use ctx_core::session::Session;
use ctx_core::suspension::{Awaited, AwaitedCall, Kind};
use ctx_core::turn::Usage;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

use crate::compaction::CompactionResult;
use crate::context::History;
use crate::engine::{Engine, Error};
use crate::feed::StreamingRun;
use crate::provider::{
    AgentSessionState, DELTAS_MAX, Delta, End, Failure, FailureClass, Link, Pace, Provider,
    STEERS_MAX, Stop, TOOL_USES_MAX,
};
use crate::shared::Actor;

/// Most calls of a model that one run makes.
const ROUNDS_MAX: u32 = 100;
/// Longest pause before a failed call is retried.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(60);
/// How often a run reads its row, for requests of other processes.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// How often a run yields to its provider after a pause.
const READ_YIELDS: usize = 8;

pub(crate) struct Runner<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) session: SessionId,
    pub(crate) opened_run: Box<OpenedRun>,
    /// Whether the session's row was read again since the run was opened.
    pub(crate) row_was_read: bool,
    /// The history up to a head, if it was read or is known from the last run.
    pub(crate) history: Option<(Option<TurnId>, Arc<History>)>,
    pub(crate) draft: Draft,
    /// Progress that is not stored yet.
    pub(crate) new: Checkpoint,
    pub(crate) new_bytes: usize,
    /// Large contents that `new` refers to.
    pub(crate) blobs: Vec<Named>,
    /// When the oldest entry of `new` was received.
    pub(crate) since: Option<Instant>,
    /// Text that is sent to followers as soon as it is stored.
    pub(crate) unshown: Vec<UnshownText>,
    /// When progress was last stored. The transaction reports whether the run is to end.
    stored_at: Option<Instant>,
    /// Until then, no text is received: it is stored and sent together with later text.
    paused_until: Option<Instant>,
    /// Reports the pauses to the provider.
    pace: Arc<Pace>,
    /// Present once text of this run was sent to followers.
    streaming: Option<StreamingRun<'a>>,
    /// Whether the last checkpoint failed; the next one waits for its interval.
    pub(crate) store_failed: bool,
    /// The message that text is added to.
    pub(crate) message: Option<(MessageId, Role)>,
    pub(crate) phase: Phase,
    /// Whether output of this run was sent to followers.
    pub(crate) shown: bool,
    pub(crate) cancel: Option<Cancel>,
    /// Whether another process has taken over the session.
    pub(crate) run_lost: bool,
    pub(crate) failed: Option<Failure>,
    /// Whether the end of the run, or its suspension, is stored.
    pub(crate) ended: bool,
    /// Whether the transaction that ended the run saw nothing left to do.
    pub(crate) is_settled: bool,
    /// The agent's own session that this turn is sent to.
    pub(crate) agent_session: Option<AgentSession>,
    /// Whether the agent has ended normally, so that its own session contains the whole turn.
    pub(crate) seen: bool,
    /// Whether the provider has reported an overflow of its context.
    pub(crate) overflowed: bool,
    /// Whether long tool results are shortened, after an overflow.
    pub(crate) excerpts_results: bool,
    /// The usage of the turn before the current call of the provider.
    pub(crate) earlier_usage: Option<Usage>,
    /// What was used before this turn; `None` without a budget.
    pub(crate) used_before: Option<Used>,
    /// Set if the turn is a compaction that a user asked for.
    pub(crate) compaction: Option<Compaction>,
    /// Whether another session started this one.
    pub(crate) worker: bool,
    /// Whether the provider may keep a process for the session; one of a model API does not.
    keeps_resources: bool,
}

/// Text of one message that is not sent to followers yet.
pub(crate) struct UnshownText {
    pub(crate) message_id: MessageId,
    pub(crate) thought: bool,
    pub(crate) text: String,
}

/// Carries out a run until it has ended.
pub(crate) async fn run(
    engine: &Engine,
    session: SessionId,
    opened_run: Box<OpenedRun>,
    actor: &Arc<Actor>,
) -> RunResult {
    let draft = Draft::of(opened_run.drafts.iter().cloned());
    let (seq, head) = (opened_run.session.seq, opened_run.head);
    let history = engine.shared().histories().take(session, seq, head);
    engine.shared().feed.begin(session, opened_run.run.id, &draft);
    let mut runner = Runner {
        engine,
        session,
        draft,
        opened_run,
        row_was_read: false,
        history: history.map(|history| (head, history)),
        new: Checkpoint::default(),
        new_bytes: 0,
        blobs: Vec::new(),
        since: None,
        unshown: Vec::new(),
        stored_at: None,
        paused_until: None,
        pace: Arc::default(),
        streaming: None,
        store_failed: false,
        message: None,
        phase: Phase::Processing,
        shown: false,
        cancel: None,
        run_lost: false,
        failed: None,
        ended: false,
        is_settled: false,
        agent_session: None,
        seen: false,
        overflowed: false,
        excerpts_results: false,
        earlier_usage: None,
        used_before: None,
        compaction: None,
        worker: false,
        keeps_resources: false,
    };
    let ending = runner.drive(actor).await;
    runner.end(ending).await;
    if runner.keeps_resources {
        engine.shared().process_used(session, &runner.opened_run.run.provider_id, engine.now());
    }
    engine.shared().feed.end(session);
    if runner.worker
        && runner.ended
        && let Err(error) = Box::pin(engine.report(session)).await
    {
        tracing::warn!(%session, %error, "the report about a worker is sent later");
    }
    runner.result()
}

/// How a run ended for its actor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunResult {
    /// Its end is stored, and the transaction saw nothing left to do.
    Settled,
    /// Its end is stored; a message or a report may wait.
    Ended,
    /// It was given up before its end was stored.
    Abandoned,
}

/// How a run is to end.
pub(crate) enum Ending {
    Turn(Outcome),
    Wait(Vec<Awaited>),
    /// The process stops: the run stays open for recovery.
    Leave,
}

impl Runner<'_> {
    fn result(&self) -> RunResult {
        match (self.ended, self.is_settled) {
            (true, true) => RunResult::Settled,
            (true, false) => RunResult::Ended,
            (false, _) => RunResult::Abandoned,
        }
    }

    async fn drive(&mut self, actor: &Arc<Actor>) -> Ending {
        let Some(provider) = self.engine.shared().provider(&self.opened_run.run.provider_id) else {
            let name = &self.opened_run.run.provider_id;
            return self.fail(Failure::new(
                "unknown_provider",
                FailureClass::Permanent,
                format!("provider `{name}` is not configured"),
            ));
        };
        if let Some(command) = self.compact_command(&provider.about()) {
            if let Some(failure) = self.budget_failure().await {
                return self.fail(failure);
            }
            return Box::pin(self.compact_by_hand(&provider, command, actor)).await;
        }
        let mut tries = 0;
        for _ in 0..ROUNDS_MAX {
            if let Some(failure) = self.budget_failure().await {
                return self.fail(failure);
            }
            let end = match self.round(provider.clone(), actor).await {
                Ok(end) => end,
                Err(error) => Some(End::Failed(Failure::new(
                    error.code(),
                    FailureClass::Permanent,
                    error.to_string(),
                ))),
            };
            let Some(end) = end else { return Ending::Leave };
            if self.run_lost {
                return Ending::Leave;
            }
            if let Some(cancel) = self.cancel {
                return Ending::Turn(cancel.outcome());
            }
            match end {
                End::Suspended(awaited) => return Ending::Wait(awaited),
                End::Cancelled => return Ending::Turn(Outcome::Interrupted),
                End::Failed(failure)
                    if failure.class == FailureClass::Overflow && !self.overflowed =>
                {
                    self.overflowed = true;
                    match Box::pin(self.compact_after_overflow(&provider, actor)).await {
                        Ok(CompactionResult::Done) => {}
                        Ok(CompactionResult::Nothing) => return self.fail(failure),
                        Ok(CompactionResult::Stopped) => return self.stopped(),
                        Err(error) => {
                            return self.fail(Failure::new(
                                error.code(),
                                FailureClass::Permanent,
                                error.to_string(),
                            ));
                        }
                    }
                }
                End::Failed(failure) => {
                    // A longer pause than the limit is not waited for.
                    let bearable = failure.retry_after.is_none_or(|wait| wait <= RETRY_PAUSE_MAX);
                    let transient =
                        matches!(failure.class, FailureClass::RetryLater | FailureClass::RetryNow)
                            && bearable;
                    tries += 1;
                    if !transient || self.shown || tries >= self.engine.shared().timeouts.tries {
                        return self.fail(failure);
                    }
                    if !self.pause(&failure, tries, actor).await {
                        return self.stopped();
                    }
                }
                End::Done(stop) if provider.about().agent.is_some() => {
                    // An agent answers its own calls. The result of a call without one is unknown.
                    self.seen = true;
                    self.draft.cut_off();
                    return self.done(stop);
                }
                End::Done(stop) => {
                    let open = self.draft.unanswered_calls();
                    if open.is_empty() || stop == Stop::Refused {
                        return self.done(stop);
                    }
                    match Box::pin(self.answer_calls(open, actor)).await {
                        Ok(_) if self.run_lost || self.cancel.is_some() => return self.stopped(),
                        Ok(waiting) if waiting.is_empty() => {}
                        Ok(waiting) => return Ending::Wait(vec![awaiting(waiting)]),
                        Err(error) => {
                            return self.fail(Failure::new(
                                error.code(),
                                FailureClass::Permanent,
                                error.to_string(),
                            ));
                        }
                    }
                    tries = 0;
                }
            }
        }
        self.fail(Failure::new(
            "too_many_rounds",
            FailureClass::Permanent,
            format!("the model was called {ROUNDS_MAX} times and did not finish"),
        ))
    }

    /// The ending of a run that is cancelled or whose process stops.
    pub(crate) fn stopped(&self) -> Ending {
        match self.cancel {
            Some(cancel) if !self.run_lost => Ending::Turn(cancel.outcome()),
            _ => Ending::Leave,
        }
    }

    fn done(&mut self, stop: Stop) -> Ending {
        match stop {
            Stop::EndTurn | Stop::ToolCalls => Ending::Turn(Outcome::Completed),
            Stop::MaxTokens => self.fail(Failure::new(
                "max_tokens",
                FailureClass::Permanent,
                "the answer reached the model's output limit",
            )),
            Stop::Refused => self.fail(Failure::new(
                "refused",
                FailureClass::Permanent,
                "the provider refused the request",
            )),
        }
    }

    pub(crate) fn fail(&mut self, failure: Failure) -> Ending {
        self.begin_message(Role::Assistant, None);
        self.entry(Entry::Error {
            code: failure.code.clone(),
            message: failure.message.clone(),
            provider_id: Some(self.opened_run.run.provider_id.clone()),
        });
        self.failed = Some(failure);
        Ending::Turn(Outcome::Failed)
    }

    /// One call of the provider; `None` if this process is to stop.
    async fn round(
        &mut self,
        provider: Arc<dyn Provider>,
        actor: &Arc<Actor>,
    ) -> Result<Option<End>, Error> {
        let about = provider.about();
        self.keeps_resources = !about.repeatable;
        let is_first = !self.row_was_read && self.opened_run.resumes.is_empty();
        let session = self.row().await?;
        self.worker = session.is_worker();
        let Some(mut request) = self.request_that_fits(&session, &about, actor).await? else {
            return Ok(if self.run_lost || self.cancel.is_none() {
                None
            } else {
                Some(End::Cancelled)
            });
        };
        self.mark_agent_session_unclean(&session, request.own.as_ref()).await?;
        // Answers to suspensions are passed on once.
        request.resumes = std::mem::take(&mut self.opened_run.resumes);
        let (out, mut deltas) = mpsc::channel(DELTAS_MAX);
        let (steer, steers) = mpsc::channel(STEERS_MAX);
        let (tools, mut uses) = mpsc::channel(TOOL_USES_MAX);
        let stop = CancellationToken::new();
        let link = Link { out, cancel: stop.clone(), steers, tools, pace: self.pace.clone() };
        let mut steered: Vec<Item> = Vec::new();
        if let Some(stopped) = self.engine.shared().stopping(self.session) {
            tokio::select! {
                () = stopped.cancelled() => {}
                () = self.engine.shared().shutdown.cancelled() => return Ok(None),
            }
            self.poll_run(&stop, &steer, &mut steered).await;
            if self.run_lost || stop.is_cancelled() {
                return Ok(Some(End::Cancelled).filter(|_| !self.run_lost));
            }
        }
        let task = tokio::spawn(async move { provider.run(request, link).await });
        let abort = task.abort_handle();
        actor.set_call(task.abort_handle());
        self.message = None;
        self.earlier_usage = self.draft.usage.clone();
        let mut deadline: Option<Instant> = None;
        if !is_first {
            // Messages that the provider did not take during its last call are sent to it again.
            self.poll_run(&stop, &steer, &mut steered).await;
        }
        let shutdown = self.engine.shared().shutdown.cancelled();
        let poll_timer = tokio::time::sleep(POLL_INTERVAL);
        tokio::pin!(shutdown, poll_timer);
        // Calls of tools that still wait when this call of the provider ends are given up.
        let calls = CancellationToken::new();
        let _end_of_calls = calls.clone().drop_guard();
        let (report, mut reported) = mpsc::unbounded_channel();
        loop {
            if self.cancel.is_some() {
                stop.cancel();
                calls.cancel();
            }
            if stop.is_cancelled() && deadline.is_none() {
                deadline = Some(Instant::now() + self.engine.shared().timeouts.stop);
            }
            let due = self.since.map(|since| since + self.engine.shared().timeouts.checkpoint);
            tokio::select! {
                biased;
                () = &mut shutdown => {
                    abort.abort();
                    // Deltas that were sent before the shutdown are kept.
                    while let Ok(delta) = deltas.try_recv() {
                        self.take(delta, &steered).await;
                    }
                    self.checkpoint().await;
                    return Ok(None);
                }
                () = until(self.paused_until), if self.paused_until.is_some() => {
                    self.paused_until = None;
                    self.pace.resume();
                    // What the provider reads now is stored with what it has already sent.
                    for _ in 0..READ_YIELDS {
                        if deltas.is_empty() || self.pace.provider_waits() {
                            break;
                        }
                        tokio::task::yield_now().await;
                    }
                }
                delta = deltas.recv(), if self.paused_until.is_none() => match delta {
                    Some(delta) => {
                        self.take(delta, &steered).await;
                        self.take_received(&mut deltas, &steered).await;
                    }
                    None => break,
                },
                Some(tool) = uses.recv() => self.use_tool(tool, &calls, &report),
                Some(end) = reported.recv() => {
                    self.new.reported.push(end);
                    self.checkpoint().await;
                }
                () = actor.recheck.notified() => {
                    self.run_lost |= actor.is_abandoned();
                    self.poll_run(&stop, &steer, &mut steered).await;
                }
                () = until(due) => self.checkpoint().await,
                () = &mut poll_timer => {
                    poll_timer.as_mut().reset(Instant::now() + POLL_INTERVAL);
                    if !self.is_informed() {
                        self.poll_run(&stop, &steer, &mut steered).await;
                    }
                }
                () = until(deadline) => {
                    abort.abort();
                    break;
                }
            }
            if self.run_lost {
                if self.cancel.is_some() && about.agent.is_some() {
                    // The client has its answer; the agent is given time to stop.
                    self.engine.shared().stop_in_background(self.session, task);
                } else {
                    abort.abort();
                }
                return Ok(None);
            }
        }
        if actor.is_abandoned() {
            self.run_lost = true;
            return Ok(None);
        }
        // A provider that closed its stream ends soon; otherwise it is aborted.
        let timeouts = self.engine.shared().timeouts.stop;
        match tokio::time::timeout(timeouts, task).await {
            Ok(Ok(end)) => Ok(Some(end)),
            Ok(Err(error)) if error.is_cancelled() => Ok(Some(End::Cancelled)),
            Ok(Err(_)) => Ok(Some(End::Failed(Failure::new(
                "provider_panicked",
                FailureClass::Permanent,
                "the provider panicked",
            )))),
            Err(_) => {
                abort.abort();
                Ok(Some(End::Cancelled))
            }
        }
    }

    /// Adds the deltas that were received meanwhile, then stores and shows the text of all of them.
    /// The end of the run stores the text of an answer that is already complete.
    async fn take_received(&mut self, deltas: &mut mpsc::Receiver<Delta>, steered: &[Item]) {
        let is_followed = self.engine.shared().feed.is_followed(self.session);
        if is_followed && !self.pace.has_pauses() {
            // Lets the provider send what it has already received.
            tokio::task::yield_now().await;
        }
        for _ in 0..DELTAS_MAX {
            let Ok(delta) = deltas.try_recv() else { break };
            self.take(delta, steered).await;
        }
        let complete = deltas.is_closed() && deltas.is_empty();
        if !self.unshown.is_empty() && !complete && !self.store_failed && is_followed {
            let began = Instant::now();
            self.checkpoint().await;
            if self.pace.provider_waits() && !deltas.is_empty() {
                // The provider has read during the checkpoint. This text is stored at once:
                // otherwise all later text would be a pause late, too.
                return;
            }
            self.pause_text(began);
        }
        self.pace.received(self.paused_until.is_some());
    }

    /// Marks the agent's own session as unclean until the turn of this prompt has ended.
    async fn mark_agent_session_unclean(
        &mut self,
        session: &Session,
        own: Option<&AgentSessionState>,
    ) -> Result<(), Error> {
        let Some(own) = own.filter(|own| own.clean) else { return Ok(()) };
        let provider = &self.opened_run.run.provider_id;
        let row = crate::context::agent_session(self.engine, session.id, provider).await?;
        if let Some(row) = row.filter(|row| row.id == own.id) {
            self.new.agent = Some(AgentSession { clean: false, ..row });
            self.store_new().await?;
        }
        Ok(())
    }

    /// Waits before a retry. Returns `false` if the run is to end instead.
    pub(crate) async fn pause(
        &mut self,
        failure: &Failure,
        tries: u32,
        actor: &Arc<Actor>,
    ) -> bool {
        let timeouts = self.engine.shared().timeouts;
        let doubled = timeouts.retry.saturating_mul(1 << tries.min(16).saturating_sub(1));
        // Jitter, so that many clients do not retry at the same time.
        let jitter = doubled.mul_f64((Ulid::new().0 & 0xff) as f64 / 1024.0);
        let wanted = failure.retry_after.unwrap_or(match failure.class {
            FailureClass::RetryNow => Duration::ZERO,
            _ => doubled + jitter,
        });
        let until = Instant::now() + wanted.min(RETRY_PAUSE_MAX);
        let (stop, (steer, _steers)) = (CancellationToken::new(), mpsc::channel(STEERS_MAX));
        let shutdown = self.engine.shared().shutdown.clone();
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(until) => return true,
                () = shutdown.cancelled() => return false,
                () = actor.recheck.notified() => {
                    // Steering messages are left for the next call.
                    self.poll_run(&stop, &steer, &mut vec![]).await;
                    if self.run_lost || stop.is_cancelled() {
                        return false;
                    }
                }
            }
        }
    }
}

fn awaiting(tool_calls: Vec<AwaitedCall>) -> Awaited {
    Awaited {
        kind: Kind::ToolResult,
        tool_calls,
        options: Vec::new(),
        question: None,
        provider_state: None,
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
