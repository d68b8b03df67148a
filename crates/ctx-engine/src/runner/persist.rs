//! Stores the progress, the suspension and the end of a run.

use std::sync::Arc;
use std::time::Duration;

use ctx_core::decide::{
    self, Checkpoint, Drafts, EndedRun, Invocation, Needs, RunEnd, SessionView, Suspending,
    TerminationCause, item_message,
};
use ctx_core::message::{Message, Role};
use ctx_core::object::Named;
use ctx_core::outbox::Spoken;
use ctx_core::refusal::Refusal;
use ctx_core::run::{Cancel, Outcome, TaskEffect};
use ctx_core::suspension::Awaited;
use ctx_core::turn::{self, About, Ready};
use ctx_store::Target;
use tokio::time::Instant;

use super::{Ending, POLL_INTERVAL, Runner};
use crate::context::Turn;
use crate::engine::Error;

/// Share of each run that streams text in the pause between two checkpoints of a run: together they
/// store 6,000 checkpoints a second.
const PAUSE_PER_RUN: Duration = Duration::from_micros(160);
/// Shortest pause between two checkpoints of a run. A shorter one is not worth a timer.
const PAUSE_MIN: Duration = Duration::from_millis(2);
/// Pauses end at multiples of this time, so that the runs share transactions and wake-ups.
const PAUSE_STEP: Duration = Duration::from_millis(5);
/// Longest pause between two checkpoints of a run, and longest delay of text by it.
const PAUSE_MAX: Duration = Duration::from_millis(80);
/// How often storing the end of a run is tried before it is left to recovery.
const END_TRIES: u32 = 60;

impl Runner<'_> {
    /// Stores the progress. After a failure it is kept for the next checkpoint.
    pub(crate) async fn checkpoint(&mut self) {
        // Boxed, so that the futures of the callers stay small: they are moved for each delta.
        if let Err(error) = Box::pin(self.store_new()).await {
            tracing::warn!(session = %self.session, %error, "a checkpoint failed");
        }
    }

    /// Whether the run's row need not be read now: a checkpoint has reported a cancellation, and
    /// the background duties report messages of other processes.
    pub(super) fn is_informed(&self) -> bool {
        let stored = self.stored_at.is_some_and(|at| at.elapsed() < POLL_INTERVAL);
        stored && self.engine.shared().watches_store()
    }

    /// Pauses the text of this run after a checkpoint that began at the given time. The pause grows
    /// with the number of runs that stream text, so that many runs store several deltas in each
    /// checkpoint and share transactions.
    pub(super) fn pause_text(&mut self, began: Instant) {
        let feed = &self.engine.shared().feed;
        self.streaming.get_or_insert_with(|| feed.count_streaming());
        let runs = u32::try_from(feed.streaming()).unwrap_or(u32::MAX);
        let pause = PAUSE_PER_RUN.saturating_mul(runs).min(PAUSE_MAX);
        let until = match began + pause {
            until if pause >= PAUSE_STEP => feed.nearest_multiple(until, PAUSE_STEP),
            until => until,
        };
        // A timer for a pause that is already over would fire late on a busy runtime.
        let left = until.saturating_duration_since(Instant::now());
        self.paused_until = (left >= PAUSE_MIN).then_some(until);
    }

    /// Whether the idle session stays with this process, which has a live agent for it. Where all
    /// processes run on one machine, a message never waits for another process.
    fn keeps_agent(&self) -> bool {
        self.engine.shared().nodes.is_listening() && self.is_agent()
    }

    /// Whether the run's provider is an agent with a process of its own.
    fn is_agent(&self) -> bool {
        let provider = self.engine.shared().provider(&self.opened_run.run.provider_id);
        provider.is_some_and(|it| it.about().agent.is_some())
    }

    /// Stores the progress, or keeps it for the next try.
    pub(crate) async fn store_new(&mut self) -> Result<(), Error> {
        self.since = None;
        self.new_bytes = 0;
        let (run, fence, new) =
            (self.opened_run.run.id, self.opened_run.run.fence, std::mem::take(&mut self.new));
        let (kept, blobs) = (new.clone(), std::mem::take(&mut self.blobs));
        let objects = blobs.clone();
        // Text is stored often.
        let text_only = new.observed.is_empty() && new.injected.is_empty();
        let needs = if text_only { Needs::TEXT } else { Needs::RUN };
        let rule = move |view: &SessionView, invocation: &Invocation| {
            decide::checkpoint(view, run, fence, &new, invocation)
        };
        let unshown = std::mem::take(&mut self.unshown);
        let (feed, session) = (&self.engine.shared().feed, self.session);
        let show = || feed.send_texts(session, &unshown);
        let target = Target::Id(session);
        match self.engine.decide_and_show(target, needs, objects, rule, show).await {
            Ok(written) => {
                self.store_failed = false;
                self.stored_at = Some(Instant::now());
                self.cancel = self.cancel.or(written.reply);
                Ok(())
            }
            Err(error) if run_is_lost(&error) => {
                self.run_lost = true;
                Ok(())
            }
            Err(error) if error.refusal().is_some() => {
                // An observation or a steering message was refused; the text can be stored.
                tracing::warn!(session = %self.session, %error, "part of a checkpoint was refused");
                self.new = Checkpoint { observed: Vec::new(), injected: Vec::new(), ..kept };
                self.since = Some(Instant::now());
                self.unshown = unshown;
                Ok(())
            }
            Err(error) => {
                (self.new, self.blobs) = (kept, blobs);
                self.since = Some(Instant::now());
                (self.unshown, self.store_failed) = (unshown, true);
                Err(error)
            }
        }
    }

    pub(crate) async fn end(&mut self, ending: Ending) {
        if self.run_lost {
            return;
        }
        match ending {
            Ending::Leave => {}
            Ending::Turn(outcome) => self.end_run(outcome).await,
            Ending::Wait(awaited) => {
                // Events and observations are not stored by the suspension itself.
                self.checkpoint().await;
                if let Some(cancel) = self.suspend(awaited).await {
                    self.end_run(cancel.outcome()).await;
                }
            }
        }
    }

    /// Stores the suspension. Returns the reason if the run was cancelled instead.
    async fn suspend(&mut self, awaited: Vec<Awaited>) -> Option<Cancel> {
        for try_ in 0..END_TRIES {
            let (run, fence) = (self.opened_run.run.id, self.opened_run.run.fence);
            let suspending = Suspending {
                entries: self.new.entries.clone(),
                awaited: awaited.clone(),
                keeps_agent: self.is_agent() && self.engine.shared().watches_store(),
            };
            let rule = move |view: &SessionView, invocation: &Invocation| {
                decide::suspend(view, run, fence, &suspending, invocation)
            };
            let (feed, session) = (&self.engine.shared().feed, self.session);
            let show = || feed.send_texts(session, &self.unshown);
            let target = Target::Id(session);
            // The text so far goes to the channels together with the question.
            let needs = Needs { drafts: Drafts::Always, ..Needs::RUN };
            match self.engine.decide_and_show(target, needs, Vec::new(), rule, show).await {
                Ok(written) => {
                    self.unshown.clear();
                    self.ended = written.reply.is_none();
                    return written.reply;
                }
                Err(error) if error.refusal().is_some() => return None,
                Err(error) => self.pause_after_failure(try_, &error).await,
            }
        }
        None
    }

    /// The model of the turn, if it is known.
    pub(crate) fn model(&self) -> Option<String> {
        self.opened_run.run.model.clone().or_else(|| {
            self.engine.shared().provider(&self.opened_run.run.provider_id)?.about().model
        })
    }

    /// Stores the turn and the end of the run.
    async fn end_run(&mut self, outcome: Outcome) {
        if outcome != Outcome::Completed {
            self.draft.cut_off();
        }
        let last_text = self.draft.last_text().map(str::to_owned);
        let usage = self.draft.usage.clone();
        let (made, blobs) = std::mem::take(&mut self.draft).finish();
        let spoken = Spoken::of(&made, self.opened_run.run.replies.sent_until);
        let completed = made
            .iter()
            .filter(|message| message.role == Role::Assistant)
            .map(|message| message.id)
            .collect();
        let notice = self.budget_notice(usage.as_ref());
        let messages: Vec<Message> =
            self.opened_run.items.iter().map(item_message).chain(made).chain(notice).collect();
        let about = About {
            kind: if self.compaction.is_some() {
                turn::Kind::Compaction
            } else {
                turn::Kind::Normal
            },
            status: outcome.turn_status(),
            provider_id: Some(self.opened_run.run.provider_id.clone()),
            model: self.model(),
            usage,
            started_at: self.opened_run.run.turn_started_at,
            ended_at: self.engine.now(),
        };
        let turn = (about.clone(), messages.clone());
        let (ready, body) = Ready::new(about, messages);
        let body_bytes = body.object().bytes.len();
        let mut objects: Vec<Named> = blobs;
        objects.append(&mut self.blobs);
        objects.push(body);
        let ended = EndedRun {
            run: self.opened_run.run.id,
            fence: self.opened_run.run.fence,
            ready,
            outcome,
            code: self.failed.as_ref().map(|failure| failure.code.clone()),
            messages: completed,
            last_text,
            events: std::mem::take(&mut self.new.events),
            injected: std::mem::take(&mut self.new.injected),
            observed: std::mem::take(&mut self.new.observed),
            spoken,
            compaction: self.compaction.take(),
            keeps_agent: self.keeps_agent(),
            agent: self.agent_session.clone().filter(|_| self.seen && self.cancel.is_none()),
        };
        for try_ in 0..END_TRIES {
            let (objects, ended) = (objects.clone(), ended.clone());
            let rule = move |view: &SessionView, invocation: &Invocation| {
                decide::end_run(view, &ended, invocation)
            };
            // Only the end of a worker's run may seal its task.
            let seals = self.worker || self.opened_run.run.task_effect == TaskEffect::Confirm;
            let needs = if seals { Needs::SEALING_END } else { Needs::END };
            let (feed, session) = (&self.engine.shared().feed, self.session);
            let show = || feed.send_texts(session, &self.unshown);
            let target = Target::Id(session);
            match self.engine.decide_and_show(target, needs, objects, rule, show).await {
                Ok(written) => {
                    self.ended = true;
                    self.is_settled = written.reply.is_settled;
                    self.keep_history(written.seq, &written.reply, turn, body_bytes);
                    return;
                }
                // Another process ended the run; its turn contains everything up to the last
                // checkpoint.
                Err(error) if run_is_lost(&error) => {
                    tracing::info!(session = %self.session, %error, "the run was ended by another \
                        process");
                    return;
                }
                Err(error) if error.refusal().is_some() => {
                    // A run must end in any case: the stored part of it becomes its turn.
                    tracing::error!(session = %self.session, %error, "ending the run was refused");
                    self.ended = self
                        .engine
                        .terminate_run(
                            self.session,
                            self.opened_run.run.id,
                            TerminationCause::Cancelled,
                        )
                        .await
                        .is_ok();
                    return;
                }
                Err(error) => self.pause_after_failure(try_, &error).await,
            }
        }
    }

    /// Keeps the history with the new turn for the next run, unless the pins have changed since it
    /// was read.
    fn keep_history(
        &mut self,
        seq: u64,
        end: &RunEnd,
        (about, messages): (About, Vec<Message>),
        body_bytes: usize,
    ) {
        let Some((head, history)) = self.history.take() else { return };
        let Some(turn) = end.turn.filter(|_| end.head == end.turn) else { return };
        let pins_changed = end.pins.len() != history.pins.len()
            || !end.pins.iter().all(|pin| history.pins.contains(pin));
        let is_compaction = about.kind == turn::Kind::Compaction;
        if head != self.opened_run.head || pins_changed || is_compaction {
            return;
        }
        let mut history = Arc::unwrap_or_clone(history);
        history.turns.push(Arc::new(Turn::new(turn, about, None, messages, body_bytes)));
        let (history, now) = (Arc::new(history), self.engine.now());
        self.engine.shared().histories().put(self.session, seq, end.head, history, now);
    }

    async fn pause_after_failure(&self, try_: u32, error: &Error) {
        tracing::warn!(session = %self.session, %error, try_, "the end of the run could not be \
            stored");
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
            () = self.engine.shared().shutdown.cancelled() => {}
        }
    }
}

/// Whether a rule refused because the run no longer belongs to this process.
fn run_is_lost(error: &Error) -> bool {
    matches!(error.refusal(), Some(Refusal::StaleWriter | Refusal::NoSession))
}
