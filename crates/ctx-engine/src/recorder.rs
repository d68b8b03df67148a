//! Records an agent's work in one session.
//!
//! Observations are kept in memory until [`Recorder::flush`] stores them as steps. Every other call
//! flushes first, so that the order is kept. A crash loses only observations that were not flushed.

use ctx_core::decide::{
    self, Classified, CommitRecord, Decided, Handled, Incorporated, Invocation, Moved, Needs,
    Recovered, SessionView, classifier_input,
};
use ctx_core::id::{BlobId, NoteId};
use ctx_core::intent::{Intent, classify};
use ctx_core::object::Named;
use ctx_core::prompt::{Choice, Prompt};
use ctx_core::refusal::Refusal;
use ctx_core::relation::Edge;
use ctx_core::stale::{self, Staleness};
use ctx_core::step::Entry;
use ctx_core::stored_content::Content;
use ctx_core::task::{State, Task};
use ctx_core::text_limits::{TEXT_MAX_BYTES, check};
use ctx_core::time::Span;
use ctx_store::{StoredStep, Target};

use crate::engine::{Engine, Error};

/// How often a message is classified again because the task has changed meanwhile.
const CLASSIFY_TRIES: u32 = 16;

const SEAL: Needs = Needs::SEAL;
const PLAIN: Needs = Needs::WORK;

/// State of the open task.
#[derive(Debug, Clone, PartialEq, Default)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct Status {
    pub task: Option<Task>,
    /// What its idle time means.
    pub stale: Option<Staleness>,
    /// Time since its last activity.
    pub idle: Option<Span>,
    /// The open question with two choices.
    pub prompt: Option<Prompt>,
}

/// The result of a message.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Its classification.
    pub intent: Intent,
    /// What was done with it.
    pub reply: Handled,
}

/// Records the work of one session.
pub struct Recorder {
    engine: Engine,
    target: Target,
    pending: Vec<Entry>,
    objects: Vec<Named>,
}

impl Recorder {
    pub(crate) const fn new(engine: Engine, target: Target) -> Self {
        Self { engine, target, pending: Vec::new(), objects: Vec::new() }
    }

    pub(crate) const fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    pub(crate) const fn target(&self) -> &Target {
        &self.target
    }

    /// Removes the observations that were not flushed, and their contents.
    pub(crate) fn take_pending(&mut self) -> (Vec<Entry>, Vec<Named>) {
        (std::mem::take(&mut self.pending), std::mem::take(&mut self.objects))
    }

    // ---- reading --------------------------------------------------------------------------------

    pub(crate) async fn view(&self) -> Result<SessionView, Error> {
        let view = self.engine.store().view(&self.target, PLAIN).await?;
        Ok(view.ok_or(Refusal::NoSession)?)
    }

    /// The open task.
    ///
    /// Fails if the store fails or the session does not exist.
    pub async fn task(&self) -> Result<Option<Task>, Error> {
        Ok(self.view().await?.task)
    }

    /// The open task and its idle time. It changes nothing.
    ///
    /// Fails if the store fails or the session does not exist.
    pub async fn status(&self) -> Result<Status, Error> {
        let view = self.view().await?;
        let idle = view.task.as_ref().map(|task| stale::idle(task, self.engine.now()));
        let stale = idle.map(|idle| self.engine.settings().stale.staleness(idle));
        Ok(Status { task: view.task, stale, idle, prompt: view.prompt })
    }

    /// The steps of the open task with a number above `after`, oldest first.
    ///
    /// Fails if no task is open.
    pub async fn steps(&self, after: u64, limit: usize) -> Result<Vec<StoredStep>, Error> {
        let task = self.task().await?.ok_or(Refusal::NoTask)?;
        Ok(self.engine.store().steps(task.id, after, limit).await?)
    }

    // ---- observing ------------------------------------------------------------------------------

    /// Records a note, a sentence of the narrative.
    pub fn observe_note(&mut self, text: impl Into<String>) {
        self.pending.push(Entry::Note { id: NoteId(self.engine.new_id()), text: text.into() });
    }

    /// Records the agent's plan.
    pub fn observe_plan(&mut self, text: impl Into<String>) {
        self.pending.push(Entry::Plan { text: text.into() });
    }

    /// Records that a file was read, with its content.
    pub fn observe_file_read(&mut self, path: impl Into<String>, bytes: Vec<u8>) {
        let content = self.content(bytes);
        self.pending.push(Entry::FileRead { path: path.into(), content });
    }

    /// Records that a file was written, with its new content.
    pub fn observe_file_write(&mut self, path: impl Into<String>, bytes: Vec<u8>) {
        let content = Some(self.content(bytes));
        self.pending.push(Entry::FileWrite { path: path.into(), content });
    }

    /// Records that a file was read whose content is not stored, with its hash and size.
    pub fn observe_omitted_read(&mut self, path: impl Into<String>, omitted: BlobId, bytes: u64) {
        let content = Content::Omitted { omitted, bytes };
        self.pending.push(Entry::FileRead { path: path.into(), content });
    }

    /// Records that a file was written whose content is not stored, with its hash and size.
    pub fn observe_omitted_write(&mut self, path: impl Into<String>, omitted: BlobId, bytes: u64) {
        let content = Some(Content::Omitted { omitted, bytes });
        self.pending.push(Entry::FileWrite { path: path.into(), content });
    }

    /// Records that a file was removed.
    pub fn observe_file_removed(&mut self, path: impl Into<String>) {
        self.pending.push(Entry::FileWrite { path: path.into(), content: None });
    }

    /// Records that a command was executed.
    pub fn observe_command<S: Into<String>>(
        &mut self,
        argv: impl IntoIterator<Item = S>,
        exit: Option<i32>,
        output: Option<Vec<u8>>,
    ) {
        let output = output.map(|bytes| self.content(bytes));
        self.pending.push(Entry::Command {
            argv: argv.into_iter().map(Into::into).collect(),
            exit,
            output,
        });
    }

    /// Records a relation between two nodes.
    pub fn observe_relation(&mut self, edge: Edge) {
        self.pending.push(Entry::Relation(edge));
    }

    fn content(&mut self, bytes: Vec<u8>) -> Content {
        let (content, blob) = decide::observed_content(bytes);
        self.objects.extend(blob);
        content
    }

    /// Stores the observations as steps; does nothing without observations.
    ///
    /// Fails if no task is open or a text is not valid. The observations are kept then, to be
    /// flushed again or discarded.
    pub async fn flush(&mut self) -> Result<Option<Task>, Error> {
        if self.pending.is_empty() {
            return self.task().await;
        }
        // Check everything before storing anything: there may be more than one transaction.
        decide::check_observations(&self.pending)?;
        let mut task = None;
        while !self.pending.is_empty() {
            let some = self.pending.len().min(decide::OBSERVATIONS_MAX);
            let (entries, objects) = (self.pending[..some].to_vec(), self.objects.clone());
            let rule = move |view: &SessionView, invocation: &Invocation| {
                decide::observe(view, &entries, invocation)
            };
            task = Some(self.engine.decide(self.target.clone(), PLAIN, objects, rule).await?.reply);
            self.pending.drain(..some);
        }
        self.objects.clear();
        Ok(task)
    }

    /// Drops observations that were not flushed. An invalid one would make every later call fail.
    pub fn discard(&mut self) {
        self.pending.clear();
        self.objects.clear();
    }

    // ---- changing the task ----------------------------------------------------------------------

    async fn act<R: Send + 'static>(
        &mut self,
        needs: Needs,
        rule: impl Fn(&SessionView, &Invocation) -> Decided<R> + Send + 'static,
    ) -> Result<R, Error> {
        if !self.pending.is_empty() {
            self.flush().await?;
        }
        Ok(self.engine.decide(self.target.clone(), needs, Vec::new(), rule).await?.reply)
    }

    /// Opens a task.
    ///
    /// Fails if a task is open, or the description is not valid.
    pub async fn start(&mut self, description: &str) -> Result<Task, Error> {
        let description = description.to_owned();
        self.act(PLAIN, move |view, invocation| decide::start(view, &description, invocation)).await
    }

    /// Asks the user a question.
    ///
    /// Fails if the task is not running.
    pub async fn ask(&mut self, question: &str) -> Result<Task, Error> {
        let question = question.to_owned();
        self.act(PLAIN, move |view, invocation| decide::ask(view, &question, invocation)).await
    }

    /// Answers the agent's question.
    ///
    /// Fails if the task does not wait for an answer.
    pub async fn answer(&mut self, response: &str) -> Result<Task, Error> {
        let response = response.to_owned();
        self.act(PLAIN, move |view, invocation| decide::answer(view, &response, invocation)).await
    }

    /// Interrupts the agent with a message.
    ///
    /// Fails if the task is neither running nor interrupted.
    pub async fn interrupt(&mut self, message: &str) -> Result<Task, Error> {
        let message = message.to_owned();
        self.act(PLAIN, move |view, invocation| decide::interrupt(view, &message, invocation)).await
    }

    /// Incorporates the interruption; the reply holds its text.
    ///
    /// Fails if the task is not interrupted.
    pub async fn incorporate(&mut self) -> Result<Incorporated, Error> {
        self.act(PLAIN, decide::incorporate).await
    }

    /// Declares the task done, with a summary.
    ///
    /// Fails if the task is not running.
    pub async fn done(&mut self, summary: &str) -> Result<Task, Error> {
        let summary = summary.to_owned();
        self.act(PLAIN, move |view, invocation| decide::done(view, &summary, invocation)).await
    }

    /// Requests more work before the task is done.
    ///
    /// Fails if the task is not pending completion.
    pub async fn more(&mut self, request: &str) -> Result<Task, Error> {
        let request = request.to_owned();
        self.act(PLAIN, move |view, invocation| decide::more(view, &request, invocation)).await
    }

    /// Confirms the task, which is sealed.
    ///
    /// Fails if the task is not pending completion.
    pub async fn confirm(&mut self) -> Result<CommitRecord, Error> {
        self.act(SEAL, decide::confirm).await
    }

    /// Moves the task to a state, as a durable step; completing it seals it.
    ///
    /// Fails if the table has no such transition.
    pub async fn set_state(&mut self, state: State) -> Result<Moved, Error> {
        self.act(SEAL, move |view, invocation| decide::set_state(view, &state, invocation)).await
    }

    /// Seals the open task.
    ///
    /// Fails if no task is open.
    pub async fn seal(&mut self, message: Option<&str>) -> Result<CommitRecord, Error> {
        let message = message.map(str::to_owned);
        self.act(SEAL, move |view, invocation| decide::seal(view, message.as_deref(), invocation))
            .await
    }

    /// Aborts the task, which is sealed as abandoned.
    ///
    /// Fails if no task is open.
    pub async fn abort(&mut self, reason: Option<&str>) -> Result<CommitRecord, Error> {
        let reason = reason.map(str::to_owned);
        self.act(SEAL, move |view, invocation| decide::abort(view, reason.as_deref(), invocation))
            .await
    }

    /// Returns to the open task; the reply holds a text for the user.
    ///
    /// Fails if no task is open.
    pub async fn recover(&mut self) -> Result<Recovered, Error> {
        let settings = self.engine.settings().clone();
        self.act(SEAL, move |view, invocation| decide::recover(view, &settings, invocation)).await
    }

    /// Answers the open question with two choices.
    ///
    /// Fails if no question is open.
    pub async fn choose(&mut self, choice: Choice) -> Result<Handled, Error> {
        let settings = self.engine.settings().clone();
        self.act(SEAL, move |view, invocation| decide::choose(view, choice, &settings, invocation))
            .await
    }

    /// Classifies a user's message and handles it by the table.
    ///
    /// Fails if the message is not valid, or a question is open that it does not answer.
    pub async fn message(&mut self, text: &str) -> Result<Outcome, Error> {
        check(text, TEXT_MAX_BYTES).map_err(|why| Refusal::BadText { what: "message", why })?;
        for _ in 0..CLASSIFY_TRIES {
            let view = self.view().await?;
            let intent = self.classify(text, view.task.as_ref()).await;
            let classified = Classified::against(intent, view.task.as_ref());
            let (text, settings) = (text.to_owned(), self.engine.settings().clone());
            let rule = move |view: &SessionView, invocation: &Invocation| {
                decide::classified_message(view, &text, &classified, &settings, invocation)
            };
            match self.act(SEAL, rule).await {
                Err(error) if error.refusal() == Some(&Refusal::StaleWriter) => {}
                reply => return Ok(Outcome { intent, reply: reply? }),
            }
        }
        Err(Refusal::StaleWriter.into())
    }

    async fn classify(&self, text: &str, task: Option<&Task>) -> Intent {
        let classifier_input = classifier_input(task);
        match self.engine.classifier().classify(text, classifier_input).await {
            Some(intent) => intent,
            None => classify(text, &classifier_input).intent,
        }
    }
}
