//! Recording an agent's work in one session: the library's main handle.
//!
//! Observations gather in memory until [`Recorder::flush`] makes them steps; every other call flushes
//! first, so that nothing which was observed before it can come after it. A crash loses at most what
//! was not flushed.

use ctx_core::decide::{
    self, Classified, CommitRecord, Decided, Handled, Incorporated, Invocation, Moved, Needs,
    Recovered, SessionView, classifier_input,
};
use ctx_core::id::NoteId;
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
use ulid::Ulid;

use crate::engine::{Engine, Error};

/// How often a message is judged anew when the task moves meanwhile.
const CLASSIFY_TRIES: u32 = 16;

const SEAL: Needs = Needs::SEAL;
const PLAIN: Needs = Needs::WORK;

/// Where the work stands.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Status {
    /// The open task.
    pub task: Option<Task>,
    /// What its idle time means.
    pub stale: Option<Staleness>,
    /// How long it has lain.
    pub idle: Option<Span>,
    /// The question that waits for a choice.
    pub prompt: Option<Prompt>,
}

/// What became of a message.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// What it was taken for.
    pub intent: Intent,
    /// What was done.
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

    // ---- looking ------------------------------------------------------------------------------------

    pub(crate) async fn view(&self) -> Result<SessionView, Error> {
        let view = self.engine.store().view(&self.target, PLAIN).await?;
        Ok(view.ok_or(Refusal::NoSession)?)
    }

    /// The open task, from the store; it does not walk the chain.
    ///
    /// # Errors
    /// If the store fails or the session is gone.
    pub async fn task(&self) -> Result<Option<Task>, Error> {
        Ok(self.view().await?.task)
    }

    /// The open task and what its idle time means. It never changes anything.
    ///
    /// # Errors
    /// If the store fails or the session is gone.
    pub async fn status(&self) -> Result<Status, Error> {
        let view = self.view().await?;
        let idle = view.task.as_ref().map(|task| stale::idle(task, self.engine.now()));
        let stale = idle.map(|idle| self.engine.settings().stale.judge(idle));
        Ok(Status { task: view.task, stale, idle, prompt: view.prompt })
    }

    /// The steps of the open task after `after`, oldest first.
    ///
    /// # Errors
    /// If there is no open task.
    pub async fn steps(&self, after: u64, limit: usize) -> Result<Vec<StoredStep>, Error> {
        let task = self.task().await?.ok_or(Refusal::NoTask)?;
        Ok(self.engine.store().steps(task.id, after, limit).await?)
    }

    // ---- observing ----------------------------------------------------------------------------------

    /// A sentence for the narrative.
    pub fn observe_note(&mut self, text: impl Into<String>) {
        self.pending.push(Entry::Note { id: NoteId(Ulid::new()), text: text.into() });
    }

    /// What the agent means to do.
    pub fn observe_plan(&mut self, text: impl Into<String>) {
        self.pending.push(Entry::Plan { text: text.into() });
    }

    /// A file was read, with what was in it.
    pub fn observe_file_read(&mut self, path: impl Into<String>, bytes: Vec<u8>) {
        let content = self.content(bytes);
        self.pending.push(Entry::FileRead { path: path.into(), content });
    }

    /// A file was written, with what is in it now.
    pub fn observe_file_write(&mut self, path: impl Into<String>, bytes: Vec<u8>) {
        let content = Some(self.content(bytes));
        self.pending.push(Entry::FileWrite { path: path.into(), content });
    }

    /// A file was removed.
    pub fn observe_file_removed(&mut self, path: impl Into<String>) {
        self.pending.push(Entry::FileWrite { path: path.into(), content: None });
    }

    /// A command ran.
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

    /// Something is related to something.
    pub fn observe_relation(&mut self, edge: Edge) {
        self.pending.push(Entry::Relation(edge));
    }

    fn content(&mut self, bytes: Vec<u8>) -> Content {
        let (content, blob) = decide::observed_content(bytes);
        self.objects.extend(blob);
        content
    }

    /// Makes what was observed durable, as steps in one transaction; nothing observed is nothing done.
    ///
    /// # Errors
    /// If no task is open or a text is none; what was observed is kept, to be flushed again or discarded.
    pub async fn flush(&mut self) -> Result<Option<Task>, Error> {
        if self.pending.is_empty() {
            return self.task().await;
        }
        // All of it before any of it is stored: there may be more than one transaction.
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

    /// Forgets what was observed and not flushed: what a flush refuses, every later call would refuse too.
    pub fn discard(&mut self) {
        self.pending.clear();
        self.objects.clear();
    }

    // ---- moving -------------------------------------------------------------------------------------

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
    /// # Errors
    /// If one is open, or the text is none.
    pub async fn start(&mut self, description: &str) -> Result<Task, Error> {
        let description = description.to_owned();
        self.act(PLAIN, move |view, invocation| decide::start(view, &description, invocation)).await
    }

    /// The agent asks the user.
    ///
    /// # Errors
    /// If the task is not running.
    pub async fn ask(&mut self, question: &str) -> Result<Task, Error> {
        let question = question.to_owned();
        self.act(PLAIN, move |view, invocation| decide::ask(view, &question, invocation)).await
    }

    /// The user answers the agent's question.
    ///
    /// # Errors
    /// If the task awaits no answer.
    pub async fn answer(&mut self, response: &str) -> Result<Task, Error> {
        let response = response.to_owned();
        self.act(PLAIN, move |view, invocation| decide::answer(view, &response, invocation)).await
    }

    /// The user says something while the agent works.
    ///
    /// # Errors
    /// If the task is neither running nor interrupted.
    pub async fn interrupt(&mut self, message: &str) -> Result<Task, Error> {
        let message = message.to_owned();
        self.act(PLAIN, move |view, invocation| decide::interrupt(view, &message, invocation)).await
    }

    /// The agent takes in what the user said; the reply's text is that.
    ///
    /// # Errors
    /// If nothing interrupted the task.
    pub async fn incorporate(&mut self) -> Result<Incorporated, Error> {
        self.act(PLAIN, decide::incorporate).await
    }

    /// The agent says that it is done.
    ///
    /// # Errors
    /// If the task is not running.
    pub async fn done(&mut self, summary: &str) -> Result<Task, Error> {
        let summary = summary.to_owned();
        self.act(PLAIN, move |view, invocation| decide::done(view, &summary, invocation)).await
    }

    /// The user wants more before it is done.
    ///
    /// # Errors
    /// If the task is not pending completion.
    pub async fn more(&mut self, request: &str) -> Result<Task, Error> {
        let request = request.to_owned();
        self.act(PLAIN, move |view, invocation| decide::more(view, &request, invocation)).await
    }

    /// The user confirms; the task is sealed.
    ///
    /// # Errors
    /// If the task is not pending completion.
    pub async fn confirm(&mut self) -> Result<CommitRecord, Error> {
        self.act(SEAL, decide::confirm).await
    }

    /// Moves the task by the table, as a durable step; completing it seals it.
    ///
    /// # Errors
    /// If the table has no such row.
    pub async fn set_state(&mut self, state: State) -> Result<Moved, Error> {
        self.act(SEAL, move |view, invocation| decide::set_state(view, &state, invocation)).await
    }

    /// Seals the open task: the user's own word that the work is done.
    ///
    /// # Errors
    /// If no task is open.
    pub async fn seal(&mut self, message: Option<&str>) -> Result<CommitRecord, Error> {
        let message = message.map(str::to_owned);
        self.act(SEAL, move |view, invocation| decide::seal(view, message.as_deref(), invocation))
            .await
    }

    /// Gives the task up; what was done is sealed as abandoned.
    ///
    /// # Errors
    /// If no task is open.
    pub async fn abort(&mut self, reason: Option<&str>) -> Result<CommitRecord, Error> {
        let reason = reason.map(str::to_owned);
        self.act(SEAL, move |view, invocation| decide::abort(view, reason.as_deref(), invocation))
            .await
    }

    /// Comes back to the open task; the reply's text is what the user should read.
    ///
    /// # Errors
    /// If no task is open.
    pub async fn recover(&mut self) -> Result<Recovered, Error> {
        let settings = self.engine.settings().clone();
        self.act(SEAL, move |view, invocation| decide::recover(view, &settings, invocation)).await
    }

    /// Answers the open question.
    ///
    /// # Errors
    /// If none is open.
    pub async fn choose(&mut self, choice: Choice) -> Result<Handled, Error> {
        let settings = self.engine.settings().clone();
        self.act(SEAL, move |view, invocation| decide::choose(view, choice, &settings, invocation))
            .await
    }

    /// A user's message: judged, then handled by the table.
    ///
    /// # Errors
    /// If it is no text, or a question is open that it does not answer.
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
