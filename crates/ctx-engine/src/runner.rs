//! Carries out one run: folds the provider's stream into the open turn, stores it as it grows, ends it once.
//!
//! Words go to followers at once and to the store at most a quarter of a second later, so a crash loses no more than
//! that. Whatever the provider does, the run ends in one of four ways: a turn, a failed turn, a turn that was cut short,
//! or a turn that waits.

use std::sync::Arc;
use std::time::Duration;

use ctx_core::decide::{self, Checkpoint, Cut, Ended, Event, Moment, Needs, Opened, SessionView, said};
use ctx_core::draft::{Draft, Entry};
use ctx_core::id::{MessageId, NoteId, SessionId};
use ctx_core::inbox::Item;
use ctx_core::message::{Message, Role, Source};
use ctx_core::object::Named;
use ctx_core::refusal::Refusal;
use ctx_core::run::{Cancel, Outcome, Phase};
use ctx_core::session::Session;
use ctx_core::step;
use ctx_core::suspension::{Awaited, AwaitedCall, Kind};
use ctx_core::text::one_line;
use ctx_core::turn::{self, About, Ready};
use ctx_store::Target;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

use crate::context;
use crate::engine::{Engine, Error};
use crate::hub::Actor;
use crate::provider::{Class, DELTAS_MAX, Delta, End, Failure, Link, Provider, STEERS_MAX, Steer, Stop};
use crate::tools;

/// So many bytes of words are stored without waiting any longer.
const CHECKPOINT_BYTES: usize = 4096;
/// The most calls of a model that one run makes.
const ROUNDS_MAX: u32 = 100;
/// The longest pause before a failed call is tried again.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(60);
/// How often a run looks by itself whether another process wants something of it.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often the end of a run is written before it is left to recovery.
const END_TRIES: u32 = 60;

struct Runner<'a> {
    engine: &'a Engine,
    session: SessionId,
    opened: Opened,
    draft: Draft,
    /// What is not stored yet.
    new: Checkpoint,
    new_bytes: usize,
    /// When the oldest of it came.
    since: Option<Instant>,
    /// The message that words go to.
    message: Option<(MessageId, Role)>,
    phase: Phase,
    /// Something of this run was shown.
    shown: bool,
    cancel: Option<Cancel>,
    /// Somebody else has the session now.
    lost: bool,
    failed: Option<Failure>,
    /// It is stored that the run is over, or that it waits.
    ended: bool,
}

/// Carries a run out, from its opening to its end; `false` where it had to be given up before.
pub(crate) async fn execute(engine: &Engine, session: SessionId, opened: Opened, actor: &Arc<Actor>) -> bool {
    let draft = Draft::of(opened.drafts.iter().cloned());
    engine.hub().feed.begin(session, opened.run.id, &draft);
    let mut runner = Runner {
        engine,
        session,
        draft,
        opened,
        new: Checkpoint::default(),
        new_bytes: 0,
        since: None,
        message: None,
        phase: Phase::Processing,
        shown: false,
        cancel: None,
        lost: false,
        failed: None,
        ended: false,
    };
    let ending = runner.drive(actor).await;
    runner.finish(ending).await;
    engine.hub().keep_warm(session, &runner.opened.run.provider_id, engine.now());
    engine.hub().feed.end(session);
    runner.ended
}

/// How a run is to end.
enum Ending {
    Turn(Outcome),
    Wait(Vec<Awaited>),
    /// The process stops: the run is left as it is.
    Leave,
}

impl Runner<'_> {
    async fn drive(&mut self, actor: &Arc<Actor>) -> Ending {
        let Some(provider) = self.engine.hub().provider(&self.opened.run.provider_id) else {
            let name = &self.opened.run.provider_id;
            return self.fail(Failure::new("unknown_provider", Class::GiveUp, format!("no provider called `{name}` is configured")));
        };
        let mut tries = 0;
        for _ in 0..ROUNDS_MAX {
            let end = match self.round(provider.clone(), actor).await {
                Ok(end) => end,
                Err(error) => Some(End::Failed(Failure::new(error.code(), Class::GiveUp, error.to_string()))),
            };
            let Some(end) = end else { return Ending::Leave };
            if self.lost {
                return Ending::Leave;
            }
            if let Some(cancel) = self.cancel {
                return Ending::Turn(cancel.outcome());
            }
            match end {
                End::Suspended(awaited) => return Ending::Wait(awaited),
                End::Cancelled => return Ending::Turn(Outcome::Interrupted),
                End::Failed(failure) => {
                    // Who wants to be left alone for longer than anybody waits is not asked again before that.
                    let bearable = failure.retry_after.is_none_or(|wait| wait <= RETRY_PAUSE_MAX);
                    let transient = matches!(failure.class, Class::RetryLater | Class::RetryNow) && bearable;
                    tries += 1;
                    if !transient || self.shown || tries >= self.engine.hub().patience.tries {
                        return self.fail(failure);
                    }
                    if !self.pause(&failure, tries, actor).await {
                        let outcome = self.cancel.map_or(Outcome::Interrupted, Cancel::outcome);
                        return if self.lost || self.cancel.is_none() { Ending::Leave } else { Ending::Turn(outcome) };
                    }
                }
                End::Done(stop) => {
                    let open = self.draft.open_calls();
                    if open.is_empty() || stop == Stop::Refused {
                        return self.done(stop);
                    }
                    match self.answer_calls(open).await {
                        Ok(waiting) if waiting.is_empty() => {}
                        Ok(waiting) => return Ending::Wait(vec![awaiting(waiting)]),
                        Err(error) => return self.fail(Failure::new(error.code(), Class::GiveUp, error.to_string())),
                    }
                    tries = 0;
                }
            }
        }
        self.fail(Failure::new("too_many_rounds", Class::GiveUp, format!("the model was called {ROUNDS_MAX} times without an end")))
    }

    fn done(&mut self, stop: Stop) -> Ending {
        match stop {
            Stop::EndTurn | Stop::ToolCalls => Ending::Turn(Outcome::Completed),
            Stop::MaxTokens => self.fail(Failure::new("max_tokens", Class::GiveUp, "the answer was cut at the model's limit")),
            Stop::Refused => self.fail(Failure::new("refused", Class::GiveUp, "the provider refused to answer this")),
        }
    }

    fn fail(&mut self, failure: Failure) -> Ending {
        self.begin_message(Role::Assistant, None);
        self.entry(Entry::Error {
            code: failure.code.clone(),
            message: failure.message.clone(),
            provider_id: Some(self.opened.run.provider_id.clone()),
        });
        self.failed = Some(failure);
        Ending::Turn(Outcome::Failed)
    }

    /// One call of the provider; `None` when this process is to stop.
    async fn round(&mut self, provider: Arc<dyn Provider>, actor: &Arc<Actor>) -> Result<Option<End>, Error> {
        let about = provider.about();
        let session = self.row().await?;
        let mut request = context::assemble(self.engine, &session, &self.opened, &self.draft, &about).await?;
        // What it resumes from is told once.
        request.resumes = std::mem::take(&mut self.opened.resumes);
        let (out, mut deltas) = mpsc::channel(DELTAS_MAX);
        let (steer, steers) = mpsc::channel(STEERS_MAX);
        let stop = CancellationToken::new();
        let link = Link { out, cancel: stop.clone(), steers };
        let task = tokio::spawn(async move { provider.run(request, link).await });
        let abort = task.abort_handle();
        self.message = None;
        let mut steered: Vec<Item> = Vec::new();
        let mut deadline: Option<Instant> = None;
        self.look(&stop, &steer, &mut steered).await;
        let shutdown = self.engine.hub().shutdown.clone();
        let mut looked = Instant::now();
        loop {
            if self.cancel.is_some() {
                stop.cancel();
            }
            if stop.is_cancelled() && deadline.is_none() {
                deadline = Some(Instant::now() + self.engine.hub().patience.stop);
            }
            let due = self.since.map(|since| since + self.engine.hub().patience.checkpoint);
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {
                    abort.abort();
                    // What the provider has said is kept, though nobody had listened yet.
                    while let Ok(delta) = deltas.try_recv() {
                        self.take(delta, &steered).await;
                    }
                    self.checkpoint().await;
                    return Ok(None);
                }
                delta = deltas.recv() => match delta {
                    Some(delta) => self.take(delta, &steered).await,
                    None => break,
                },
                () = actor.recheck.notified() => {
                    self.lost |= actor.was_forsaken();
                    self.look(&stop, &steer, &mut steered).await;
                }
                () = until(due) => self.checkpoint().await,
                () = tokio::time::sleep_until(looked + LOOK_EVERY) => {
                    looked = Instant::now();
                    self.look(&stop, &steer, &mut steered).await;
                }
                () = until(deadline) => {
                    abort.abort();
                    break;
                }
            }
            if self.lost {
                abort.abort();
                return Ok(None);
            }
        }
        // A provider that closed its stream ends soon; one that does not is not waited for.
        let patience = self.engine.hub().patience.stop;
        match tokio::time::timeout(patience, task).await {
            Ok(Ok(end)) => Ok(Some(end)),
            Ok(Err(error)) if error.is_cancelled() => Ok(Some(End::Cancelled)),
            Ok(Err(_)) => Ok(Some(End::Failed(Failure::new("provider_panicked", Class::GiveUp, "the provider broke down")))),
            Err(_) => {
                abort.abort();
                Ok(Some(End::Cancelled))
            }
        }
    }

    async fn row(&self) -> Result<Session, Error> {
        let view = self.engine.store().view(&Target::Id(self.session), Needs::NOTHING).await?;
        Ok(view.ok_or(Refusal::NoSession)?.session)
    }

    /// Whether the run is to end, and what is to go into it.
    async fn look(&mut self, stop: &CancellationToken, steer: &mpsc::Sender<Steer>, steered: &mut Vec<Item>) {
        let Ok(view) = self.engine.store().view(&Target::Id(self.session), Needs::RUN).await else { return };
        let Some(view) = view else {
            // Deleted: nobody wants to know any more.
            self.lost = true;
            return;
        };
        let Some(run) = view.run.filter(|run| run.id == self.opened.run.id && run.ended_at.is_none()) else {
            self.lost = true;
            return;
        };
        if let Some(cancel) = run.cancel {
            self.cancel.get_or_insert(cancel);
            stop.cancel();
        }
        for item in view.inbox.into_iter().filter(|item| item.state == ctx_core::inbox::ItemState::Steering) {
            if steered.iter().all(|other| other.message_id != item.message_id) {
                let sent = steer.try_send(Steer { message_id: item.message_id, text: item.text() });
                if sent.is_ok() {
                    steered.push(item);
                }
            }
        }
    }

    fn begin_message(&mut self, role: Role, source: Option<Source>) -> MessageId {
        match self.message {
            Some((id, open)) if open == role => id,
            _ => self.open_message(MessageId(Ulid::new()), role, source),
        }
    }

    fn open_message(&mut self, id: MessageId, role: Role, source: Option<Source>) -> MessageId {
        self.entry(Entry::Message { id, role, source, at: self.engine.now() });
        self.message = Some((id, role));
        id
    }

    fn entry(&mut self, entry: Entry) {
        self.since.get_or_insert_with(Instant::now);
        self.new_bytes += entry.weight();
        self.draft.add(entry.clone());
        match (self.new.entries.last_mut(), &entry) {
            // Words between two checkpoints are stored as one entry.
            (Some(Entry::Text { text: before }), Entry::Text { text }) => before.push_str(text),
            _ => self.new.entries.push(entry),
        }
    }

    async fn take(&mut self, delta: Delta, steered: &[Item]) {
        if self.phase == Phase::Processing {
            self.phase = Phase::Streaming;
            self.new.phase = Some(Phase::Streaming);
            self.since.get_or_insert_with(Instant::now);
        }
        let run_id = self.opened.run.id;
        let mut boundary = false;
        match delta {
            Delta::Text(text) => {
                self.shown = true;
                let id = self.begin_message(Role::Assistant, None);
                self.engine.hub().feed.say(self.session, id, false, &text);
                self.entry(Entry::Text { text });
            }
            Delta::Thought { text, raw } => {
                self.shown = true;
                let id = self.begin_message(Role::Assistant, None);
                if !text.is_empty() {
                    self.engine.hub().feed.say(self.session, id, true, &text);
                }
                self.entry(Entry::Thought { text, raw });
            }
            Delta::ToolCall { id, name, params } => {
                self.shown = true;
                boundary = true;
                self.begin_message(Role::Assistant, None);
                self.new.events.push(Event::ToolCallStarted { run_id, tool_call_id: id.clone(), name: name.clone() });
                self.entry(Entry::ToolCall { id, name, params });
            }
            Delta::ToolStatus { id, status } => {
                self.new.events.push(Event::ToolCallUpdated { run_id, tool_call_id: id.clone(), status });
                self.entry(Entry::ToolStatus { id, status });
            }
            Delta::ToolResult { id, content, is_error } => {
                boundary = true;
                self.tool_result(id, content, is_error);
            }
            Delta::Plan(entries) => {
                self.begin_message(Role::Assistant, None);
                self.new.events.push(Event::PlanUpdated { run_id });
                self.entry(Entry::Plan { entries });
            }
            Delta::Usage(usage) => {
                self.new.events.push(Event::UsageUpdated { run_id, usage: usage.clone() });
                self.entry(Entry::Usage { usage });
            }
            Delta::Observed(entry) => {
                self.since.get_or_insert_with(Instant::now);
                self.new.observed.push(entry);
            }
            Delta::Injected(id) => {
                boundary = true;
                if let Some(item) = steered.iter().find(|item| item.message_id == id) {
                    self.open_message(id, Role::User, Some(item.source));
                    self.entry(Entry::Text { text: item.text() });
                    self.new.injected.push(id);
                    self.message = None;
                }
            }
        }
        if boundary || self.new_bytes >= CHECKPOINT_BYTES {
            self.checkpoint().await;
        }
    }

    fn tool_result(&mut self, id: String, content: String, is_error: bool) {
        let run_id = self.opened.run.id;
        self.begin_message(Role::Tool, None);
        self.new.events.push(Event::ToolCallCompleted { run_id, tool_call_id: id.clone(), is_error });
        let outcome = if is_error { "failed" } else { "answered" };
        let text = format!("Tool call {id} {outcome}: {}", one_line(&content, 120));
        self.new.observed.push(step::Entry::Note { id: NoteId(Ulid::new()), text });
        self.entry(Entry::ToolResult { id, content, is_error });
    }

    /// Stores what is new. Failing is no harm yet: it is kept and stored with the next one.
    async fn checkpoint(&mut self) {
        self.since = None;
        self.new_bytes = 0;
        let (run, fence, new) = (self.opened.run.id, self.opened.run.fence, std::mem::take(&mut self.new));
        let kept = new.clone();
        let rule = move |view: &SessionView, moment: &Moment| decide::checkpoint(view, run, fence, &new, moment);
        match self.engine.decide(Target::Id(self.session), Needs::RUN, Vec::new(), rule).await {
            Ok(decision) => self.cancel = self.cancel.or(decision.reply.cancel),
            Err(error) if is_over(&error) => self.lost = true,
            Err(error) if error.refusal().is_some() => {
                // Something of it cannot be recorded; the words can.
                tracing::warn!(session = %self.session, %error, "a checkpoint was refused in part");
                self.new = Checkpoint { entries: kept.entries, phase: kept.phase, events: kept.events, ..Checkpoint::default() };
                self.since = Some(Instant::now());
            }
            Err(error) => {
                tracing::warn!(session = %self.session, %error, "a checkpoint failed");
                self.new = kept;
                self.since = Some(Instant::now());
            }
        }
    }

    /// Own tools are carried out; the calls that only the client can answer are given back.
    async fn answer_calls(&mut self, open: Vec<(String, String, serde_json::Value)>) -> Result<Vec<AwaitedCall>, Error> {
        let mut waiting = Vec::new();
        for (id, name, params) in open {
            if self.opened.run.tools.iter().any(|tool| tool.name == name) {
                waiting.push(AwaitedCall { id, name, params });
            } else if tools::is_own(&name) {
                let (content, is_error) = tools::call(self.engine, self.session, self.opened.run.fence, &name, &params).await?;
                self.tool_result(id, content, is_error);
            } else {
                self.tool_result(id, format!("there is no tool called `{name}`"), true);
            }
        }
        if waiting.is_empty() {
            self.checkpoint().await;
        }
        Ok(waiting)
    }

    /// Waits before a call is tried again; `false` when the run is to end instead.
    async fn pause(&mut self, failure: &Failure, tries: u32, actor: &Arc<Actor>) -> bool {
        let patience = self.engine.hub().patience;
        let doubled = patience.retry.saturating_mul(1 << tries.min(16).saturating_sub(1));
        // A little apart, so that many do not come back at once.
        let jitter = doubled.mul_f64((Ulid::new().0 & 0xff) as f64 / 1024.0);
        let wanted = failure.retry_after.unwrap_or(match failure.class {
            Class::RetryNow => Duration::ZERO,
            _ => doubled + jitter,
        });
        let until = Instant::now() + wanted.min(RETRY_PAUSE_MAX);
        let (stop, (steer, _steers)) = (CancellationToken::new(), mpsc::channel(STEERS_MAX));
        let shutdown = self.engine.hub().shutdown.clone();
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(until) => return true,
                () = shutdown.cancelled() => return false,
                () = actor.recheck.notified() => {
                    // Messages that could go in are left for the next call.
                    self.look(&stop, &steer, &mut vec![]).await;
                    if self.lost || stop.is_cancelled() {
                        return false;
                    }
                }
            }
        }
    }

    async fn finish(&mut self, ending: Ending) {
        if self.lost {
            return;
        }
        match ending {
            Ending::Leave => {}
            Ending::Turn(outcome) => self.end(outcome).await,
            Ending::Wait(awaited) => {
                // What it did and told since the last checkpoint is more than the entries that waiting keeps.
                self.checkpoint().await;
                if let Some(cancel) = self.wait(awaited).await {
                    self.end(cancel.outcome()).await;
                }
            }
        }
    }

    /// Stores what the turn waits for; `Some` when it is to end instead.
    async fn wait(&mut self, awaited: Vec<Awaited>) -> Option<Cancel> {
        for try_ in 0..END_TRIES {
            let (run, fence, entries, awaited) = (self.opened.run.id, self.opened.run.fence, self.new.entries.clone(), awaited.clone());
            let rule = move |view: &SessionView, moment: &Moment| decide::suspend(view, run, fence, &entries, &awaited, moment);
            match self.engine.decide(Target::Id(self.session), Needs::RUN, Vec::new(), rule).await {
                Ok(decision) => {
                    self.ended = decision.reply.cancel.is_none();
                    return decision.reply.cancel;
                }
                Err(error) if error.refusal().is_some() => return None,
                Err(error) => self.later(try_, &error).await,
            }
        }
        None
    }

    /// Commits the turn.
    async fn end(&mut self, outcome: Outcome) {
        if outcome != Outcome::Completed {
            self.draft.cut_off();
        }
        let last_words = self.draft.last_words().map(str::to_owned);
        let usage = self.draft.usage.clone();
        let (made, blobs) = std::mem::take(&mut self.draft).finish();
        let completed = made.iter().filter(|message| message.role == Role::Assistant).map(|message| message.id).collect();
        let messages: Vec<Message> = self.opened.items.iter().map(said).chain(made).collect();
        let about = About {
            kind: turn::Kind::Normal,
            status: match outcome {
                Outcome::Completed | Outcome::Suspended => turn::Status::Completed,
                Outcome::Failed => turn::Status::Failed,
                Outcome::Cancelled => turn::Status::Cancelled,
                Outcome::Interrupted => turn::Status::Interrupted,
            },
            provider_id: Some(self.opened.run.provider_id.clone()),
            model: self.opened.run.model.clone(),
            usage,
            started_at: self.opened.run.turn_started_at,
            ended_at: self.engine.now(),
        };
        let (ready, body) = Ready::new(about, messages);
        let mut objects: Vec<Named> = blobs;
        objects.push(body);
        let ended = Ended {
            run: self.opened.run.id,
            fence: self.opened.run.fence,
            ready,
            outcome,
            code: self.failed.as_ref().map(|failure| failure.code.clone()),
            messages: completed,
            last_words,
            events: std::mem::take(&mut self.new.events),
            injected: std::mem::take(&mut self.new.injected),
            observed: std::mem::take(&mut self.new.observed),
        };
        for try_ in 0..END_TRIES {
            let (objects, ended) = (objects.clone(), ended.clone());
            let rule = move |view: &SessionView, moment: &Moment| decide::end_run(view, &ended, moment);
            match self.engine.decide(Target::Id(self.session), Needs::RUN, objects, rule).await {
                Ok(_) => {
                    self.ended = true;
                    return;
                }
                // Somebody else ended it; what it made up to the last checkpoint is in that turn.
                Err(error) if is_over(&error) => {
                    tracing::info!(session = %self.session, %error, "a run was ended by somebody else");
                    return;
                }
                Err(error) if error.refusal().is_some() => {
                    // A run must end, whatever else is refused: what is stored of it becomes its turn.
                    tracing::error!(session = %self.session, %error, "the end of a run was refused");
                    self.ended = self.engine.cut_off(self.session, self.opened.run.id, Cut::Cancelled).await.is_ok();
                    return;
                }
                Err(error) => self.later(try_, &error).await,
            }
        }
    }

    async fn later(&self, try_: u32, error: &Error) {
        tracing::warn!(session = %self.session, %error, try_, "the end of a run could not be stored");
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
            () = self.engine.hub().shutdown.cancelled() => {}
        }
    }
}

/// Whether a rule refused because the run is not ours any more.
fn is_over(error: &Error) -> bool {
    matches!(error.refusal(), Some(Refusal::StaleWriter | Refusal::NoSession))
}

fn awaiting(tool_calls: Vec<AwaitedCall>) -> Awaited {
    Awaited { kind: Kind::ToolResult, tool_calls, options: Vec::new(), question: None, provider_state: None }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
