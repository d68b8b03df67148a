//! Compaction inside a run: before a call that would exceed the window, once after an overflow, and
//! on request. Nothing is stored before the summary is complete, so a crash leaves either no
//! compaction or a complete one.

use std::sync::Arc;
use std::time::Duration;

use ctx_core::compaction::plan::{FULL_PERCENT, OVERFLOW_PERCENT};
use ctx_core::compaction::{By, Command, Compaction, Metadata, Trigger, Type};
use ctx_core::decide::{self, Invocation, Needs, SessionView};
use ctx_core::draft::Entry;
use ctx_core::id::MessageId;
use ctx_core::message::{Message, Part, Role};
use ctx_core::refusal::Refusal;
use ctx_core::run::{Outcome, Phase};
use ctx_core::session::Session;
use ctx_core::time::Timestamp;
use ctx_core::turn::{self, About as TurnAbout, Ready, Usage};
use ctx_store::Target;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

use super::request_size::window;
use super::summary_plan::{self, CompactionRequest, Plan, Words};
use crate::context::{self, Assembled};
use crate::engine::Error;
use crate::provider::{
    About, DELTAS_MAX, Delta, End, Failure, FailureClass, Link, Provider, Request, STEERS_MAX,
};
use crate::runner::{Ending, POLL_INTERVAL, Runner};
use crate::shared::Actor;

/// Longest time for one summary.
const SUMMARY_TIME_MAX: Duration = Duration::from_secs(180);
/// Most bytes of a model's answer that are used.
const SUMMARY_MAX_BYTES: usize = 256 * 1024;

/// The result of a compaction inside a run.
pub(crate) enum CompactionResult {
    /// The context was shortened.
    Done,
    /// Nothing could be saved.
    Nothing,
    /// The run is to end, or this process stops.
    Stopped,
}

/// The result of asking a model for a summary.
enum SummaryReply {
    Written(String, Option<Usage>),
    Failed(Failure),
    Stopped,
}

impl Runner<'_> {
    /// The command, if this run consists of a request for a compaction. Agents receive the command
    /// themselves.
    pub(crate) fn compact_command(&self, about: &About) -> Option<Command> {
        match self.opened_run.items.as_slice() {
            [item] if about.agent.is_none() && self.opened_run.drafts.is_empty() => {
                Command::of(&item.text())
            }
            _ => None,
        }
    }

    /// The request of the next call, after a compaction if it would exceed the window (R168). None
    /// if the run is to end.
    pub(crate) async fn request_that_fits(
        &mut self,
        session: &Session,
        about: &About,
        actor: &Arc<Actor>,
    ) -> Result<Option<Request>, Error> {
        let mut assembled = self.assembled(session, about).await?;
        if assembled.is_full(window(about)) {
            let request_for = CompactionRequest { trigger: Trigger::ContextLimit, focus: None };
            match Box::pin(self.shorten(session, about, &assembled, request_for, actor)).await? {
                CompactionResult::Done => assembled = self.assembled(session, about).await?,
                CompactionResult::Nothing => {}
                CompactionResult::Stopped => return Ok(None),
            }
        }
        let percent = if self.excerpts_results { OVERFLOW_PERCENT } else { FULL_PERCENT };
        if self.excerpts_results || assembled.is_full(window(about)) {
            assembled.shorten_tool_results(window(about).saturating_mul(percent) / 100);
        }
        Ok(Some(assembled.request))
    }

    async fn assembled(&mut self, session: &Session, about: &About) -> Result<Assembled, Error> {
        let history = self.history().await?;
        let (opened_run, draft) = (&self.opened_run, &self.draft);
        context::assemble(self.engine, session, opened_run, history, draft, about).await
    }

    /// Compacts after the provider reported an overflow (R170).
    pub(crate) async fn compact_after_overflow(
        &mut self,
        provider: &Arc<dyn Provider>,
        actor: &Arc<Actor>,
    ) -> Result<CompactionResult, Error> {
        let (about, session) = (provider.about(), self.row().await?);
        let mut assembled = self.assembled(&session, &about).await?;
        if assembled.request.own.is_some() {
            // An agent compacts its own context.
            return Ok(CompactionResult::Nothing);
        }
        let request_for = CompactionRequest { trigger: Trigger::OverflowRecovery, focus: None };
        let shortened = self.shorten(&session, &about, &assembled, request_for, actor).await?;
        // Long results in the open turn can only be shortened in the request.
        self.excerpts_results = true;
        let shortened_any =
            assembled.shorten_tool_results(window(&about).saturating_mul(OVERFLOW_PERCENT) / 100);
        Ok(if matches!(shortened, CompactionResult::Nothing) && shortened_any {
            CompactionResult::Done
        } else {
            shortened
        })
    }

    /// Compacts on request: the summary becomes the turn (R177).
    pub(crate) async fn compact_by_hand(
        &mut self,
        provider: &Arc<dyn Provider>,
        command: Command,
        actor: &Arc<Actor>,
    ) -> Ending {
        match self.summary_by_hand(&provider.about(), command, actor).await {
            Ok(CompactionResult::Done) => Ending::Turn(Outcome::Completed),
            Ok(CompactionResult::Nothing) => {
                self.begin_message(Role::System, None);
                self.entry(Entry::Text {
                    text: "There is nothing to summarise: the context cannot be shortened further."
                        .to_owned(),
                });
                Ending::Turn(Outcome::Completed)
            }
            Ok(CompactionResult::Stopped) => self.stopped(),
            Err(error) => {
                self.fail(Failure::new(error.code(), FailureClass::Permanent, error.to_string()))
            }
        }
    }

    async fn summary_by_hand(
        &mut self,
        about: &About,
        command: Command,
        actor: &Arc<Actor>,
    ) -> Result<CompactionResult, Error> {
        let session = self.row().await?;
        let items = std::mem::take(&mut self.opened_run.items);
        // The command itself is not part of the context.
        let assembled = self.assembled(&session, about).await;
        self.opened_run.items = items;
        let request_for = CompactionRequest { trigger: Trigger::Manual, focus: command.focus };
        let Some(plan) = self.plan(&session, about, &assembled?, request_for).await? else {
            return Ok(CompactionResult::Nothing);
        };
        let Some((row, usage)) = self.carry_out(&session, plan, actor).await? else {
            return Ok(CompactionResult::Stopped);
        };
        self.draft.messages.push(summary_message(&row, self.engine.now()));
        self.draft.usage = usage;
        self.compaction = Some(row);
        Ok(CompactionResult::Done)
    }

    async fn plan(
        &self,
        session: &Session,
        about: &About,
        assembled: &Assembled,
        request_for: CompactionRequest,
    ) -> Result<Option<Plan>, Error> {
        summary_plan::plan(self.engine, session, assembled, window(about), request_for).await
    }

    /// Compacts in the middle of a run.
    async fn shorten(
        &mut self,
        session: &Session,
        about: &About,
        assembled: &Assembled,
        request_for: CompactionRequest,
        actor: &Arc<Actor>,
    ) -> Result<CompactionResult, Error> {
        let overflowed = request_for.trigger == Trigger::OverflowRecovery;
        let Some(plan) = self.plan(session, about, assembled, request_for).await? else {
            return Ok(CompactionResult::Nothing);
        };
        if overflowed || self.phase == Phase::Streaming {
            // Only a streaming run can change to compacting; a call that failed at once counts as
            // streaming (R150).
            for phase in [Phase::Streaming, Phase::Compacting] {
                self.new.phase = Some(phase);
                self.store_new().await?;
            }
            self.phase = Phase::Streaming;
        }
        let started_at = self.engine.now();
        let Some((row, usage)) = self.carry_out(session, plan, actor).await? else {
            return Ok(CompactionResult::Stopped);
        };
        self.add(row, usage, started_at).await
    }

    /// Records that an agent compacted its own context. This does not change what ctx sends.
    pub(crate) async fn agent_compacted(
        &mut self,
        summary: String,
        trigger: Trigger,
        tokens_before: u64,
        tokens_after: u64,
    ) {
        let row = Compaction {
            summary: if summary.trim().is_empty() {
                "The agent has shortened its own context.".to_owned()
            } else {
                summary
            },
            summarized_through: self.opened_run.head,
            first_kept: None,
            turns_summarized: 0,
            kind: Type::Summary,
            model: self.opened_run.run.model.clone(),
            provider: Some(self.opened_run.run.provider_id.clone()),
            tokens_before,
            tokens_after,
            summary_tokens: 0,
            summarization_input_tokens: None,
            summarization_output_tokens: None,
            duration_ms: 0,
            trigger,
            metadata: Metadata { by: By::Agent, ..Metadata::default() },
        };
        if let Err(error) = self.add(row, None, self.engine.now()).await {
            tracing::warn!(session = %self.session, %error, "the compaction of an agent could not \
                be recorded");
        }
    }

    /// Appends the compaction's turn; the run continues after it.
    async fn add(
        &mut self,
        row: Compaction,
        usage: Option<Usage>,
        started_at: Timestamp,
    ) -> Result<CompactionResult, Error> {
        let ended_at = self.engine.now();
        let about = TurnAbout {
            kind: turn::Kind::Compaction,
            status: turn::Status::Completed,
            provider_id: row.provider.clone(),
            model: row.model.clone(),
            usage,
            started_at,
            ended_at,
        };
        let (ready, body) = Ready::new(about, vec![summary_message(&row, ended_at)]);
        let new = decide::NewCompaction {
            run: self.opened_run.run.id,
            fence: self.opened_run.run.fence,
            head: self.opened_run.head,
            ready,
            compaction: row,
        };
        let rule = move |view: &SessionView, invocation: &Invocation| {
            decide::add_compaction(view, &new, invocation)
        };
        match self.engine.decide(Target::Id(self.session), Needs::RUN, vec![body], rule).await {
            Ok(written) => {
                self.opened_run.head = Some(written.reply.turn);
                self.cancel = self.cancel.or(written.reply.cancel);
                Ok(if self.cancel.is_some() {
                    CompactionResult::Stopped
                } else {
                    CompactionResult::Done
                })
            }
            Err(error)
                if matches!(error.refusal(), Some(Refusal::StaleWriter | Refusal::NoSession)) =>
            {
                self.run_lost = true;
                Ok(CompactionResult::Stopped)
            }
            Err(error) => Err(error),
        }
    }

    /// Has the summary written. None if the run is to end.
    async fn carry_out(
        &mut self,
        session: &Session,
        plan: Plan,
        actor: &Arc<Actor>,
    ) -> Result<Option<(Compaction, Option<Usage>)>, Error> {
        let started = Instant::now();
        let provider = plan.who.as_ref().and_then(|(name, _)| self.engine.shared().provider(name));
        let Some(provider) = provider else {
            let why = "no model is available for a summary in this session".to_owned();
            return Ok(Some(plan.finish(Err(why))));
        };
        let mut so_far: Option<String> = None;
        let mut usage: Option<Usage> = None;
        for part in 0..plan.parts.len() {
            let request = plan.request(
                session,
                self.opened_run.run.id,
                part,
                so_far.as_deref(),
                self.engine.now(),
            );
            match self.ask(&provider, &request, actor).await {
                SummaryReply::Written(text, reported) => {
                    so_far = Some(plan.shortened(&text));
                    if let Some(call) = reported {
                        usage = Some(Usage::after(usage.as_ref(), call));
                    }
                }
                SummaryReply::Failed(failure) => {
                    tracing::warn!(
                        session = %self.session,
                        code = failure.code,
                        "no summary available; an extract is used instead"
                    );
                    let why = format!("{}: {}", failure.code, failure.message);
                    return Ok(Some(plan.finish(Err(why))));
                }
                SummaryReply::Stopped => return Ok(None),
            }
        }
        let millis = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let wrote = so_far
            .ok_or_else(|| "there was no text to summarise".to_owned())
            .map(|text| Words { text, usage: usage.unwrap_or_default(), millis });
        Ok(Some(plan.finish(wrote)))
    }

    /// Asks a model, and retries transient failures.
    async fn ask(
        &mut self,
        provider: &Arc<dyn Provider>,
        request: &Request,
        actor: &Arc<Actor>,
    ) -> SummaryReply {
        let tries_max = self.engine.shared().timeouts.tries;
        let mut tries = 1;
        loop {
            match self.ask_once(provider, request.clone(), actor).await {
                SummaryReply::Failed(failure)
                    if tries < tries_max
                        && matches!(
                            failure.class,
                            FailureClass::RetryLater | FailureClass::RetryNow
                        ) =>
                {
                    if !self.pause(&failure, tries, actor).await {
                        return SummaryReply::Stopped;
                    }
                    tries += 1;
                }
                reply => return reply,
            }
        }
    }

    async fn ask_once(
        &mut self,
        provider: &Arc<dyn Provider>,
        request: Request,
        actor: &Arc<Actor>,
    ) -> SummaryReply {
        let (out, mut deltas) = mpsc::channel(DELTAS_MAX);
        let (steer, steers) = mpsc::channel(STEERS_MAX);
        let (tools, _uses) = mpsc::channel(1);
        let stop = CancellationToken::new();
        let link = Link { out, cancel: stop.clone(), steers, tools, pace: Arc::default() };
        let provider = provider.clone();
        let task = tokio::spawn(async move { provider.run(request, link).await });
        let abort = task.abort_handle();
        actor.set_call(task.abort_handle());
        let shutdown = self.engine.shared().shutdown.clone();
        let until = Instant::now() + SUMMARY_TIME_MAX;
        let (mut summary, mut usage) = (String::new(), None);
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {
                    abort.abort();
                    return SummaryReply::Stopped;
                }
                delta = deltas.recv() => match delta {
                    Some(Delta::Text(text)) if summary.len() < SUMMARY_MAX_BYTES => {
                        summary.push_str(&text);
                    }
                    Some(Delta::Usage(reported)) => usage = Some(reported),
                    Some(_) => {}
                    None => break,
                },
                () = actor.recheck.notified() => {
                    self.run_lost |= actor.is_abandoned();
                    self.poll_run(&stop, &steer, &mut Vec::new()).await;
                }
                () = tokio::time::sleep(POLL_INTERVAL) => {
                    self.poll_run(&stop, &steer, &mut Vec::new()).await;
                }
                () = tokio::time::sleep_until(until) => {
                    abort.abort();
                    let why = "the summary timed out";
                    let failure = Failure::new("timeout", FailureClass::Permanent, why);
                    return SummaryReply::Failed(failure);
                }
            }
            if self.run_lost || self.cancel.is_some() {
                abort.abort();
                return SummaryReply::Stopped;
            }
        }
        match tokio::time::timeout(self.engine.shared().timeouts.stop, task).await {
            Ok(Ok(End::Failed(failure))) => SummaryReply::Failed(failure),
            _ if summary.trim().is_empty() => SummaryReply::Failed(Failure::new(
                "empty_summary",
                FailureClass::Permanent,
                "the model's summary is empty",
            )),
            Ok(Ok(End::Done(_))) => SummaryReply::Written(summary, usage),
            _ => SummaryReply::Failed(Failure::new(
                "no_summary",
                FailureClass::Permanent,
                "the model did not finish its summary",
            )),
        }
    }
}

/// The summary as the message of its turn.
fn summary_message(row: &Compaction, at: Timestamp) -> Message {
    let content = vec![Part::Summary { text: row.summary.clone() }];
    Message {
        id: MessageId(Ulid::new()),
        role: Role::System,
        source: None,
        content,
        created_at: at,
    }
}
