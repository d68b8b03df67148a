//! One session of a store, with one call for each thing that a test does with it.
//!
//! Every call takes its time, in milliseconds after [`EPOCH`]; nothing here reads a clock.

use ctx_core::decide::{self, CommitRecord, Decided, Invocation, Needs, SessionView, TurnNeed};
use ctx_core::id::{BlobId, IdGenerator, MessageId, NoteId, SessionId, TaskId, TurnId};
use ctx_core::message::{Message, Part, Role, Source};
use ctx_core::object::{Named, Object};
use ctx_core::refusal::Refusal;
use ctx_core::session::{New, Origin, Session};
use ctx_core::step::Entry;
use ctx_core::stored_content::Content;
use ctx_core::task::Task;
use ctx_core::time::Timestamp;
use ctx_core::turn::{About, Ready};
use ctx_store::{Error, Executed, Once, StoredStep, Target, VerifyReport, Write, Written};
use ulid::Ulid;

use super::StoreHandle;

/// The time at which every test begins.
const EPOCH: i64 = 1_760_000_000_000;

/// The default project of sessions.
pub(crate) const PROJECT: &str = "demo";

/// Everything about a session that does not depend on an argument of the command.
pub(crate) const EVERYTHING: Needs = Needs { pins: true, ..Needs::CLOSE };

/// [`EVERYTHING`], and the position of a turn relative to the head.
pub(crate) const fn with_ancestor(turn: TurnId) -> Needs {
    Needs { turn: Some(TurnNeed::Ancestor(turn)), ..EVERYTHING }
}

/// This many milliseconds after [`EPOCH`].
pub(crate) const fn at(ms: i64) -> Timestamp {
    Timestamp(EPOCH + ms)
}

pub(crate) fn label(label: &str) -> Target {
    Target::Label(label.to_owned())
}

pub(crate) fn note(text: &str) -> Entry {
    Entry::Note { id: NoteId(Ulid::new()), text: text.to_owned() }
}

/// A written file, and the blob that it needs where its content is large.
pub(crate) fn file(path: &str, content: Vec<u8>) -> (Entry, Vec<Named>) {
    let (content, blob) = Content::split(content);
    (Entry::FileWrite { path: path.to_owned(), content: Some(content) }, blob.into_iter().collect())
}

/// Text of `bytes` bytes that depends on the seed and does not compress well.
pub(crate) fn text_of(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let letter = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        b'a' + (state >> 32) as u8 % 26
    };
    (0..bytes).map(letter).collect()
}

/// A part that shows a picture.
pub(crate) fn image(picture: &Object) -> Part {
    let (blob, bytes) = (BlobId(picture.id()), Some(picture.bytes.len() as u64));
    Part::Image { media_type: "image/png".to_owned(), blob, bytes }
}

pub(crate) fn new_session(label: &str, ms: i64) -> New {
    New::idle(SessionId(Ulid::new()), label.to_owned(), PROJECT.to_owned(), Origin::Cli, at(ms))
}

/// A session that continues from `turn`, which has `depth` ancestors including itself.
pub(crate) fn fork_at(turn: TurnId, depth: u64, label: &str, ms: i64) -> New {
    New { origin: Origin::Fork, head: Some(turn), turn_count: depth, ..new_session(label, ms) }
}

/// Creates a session through the rule.
pub(crate) async fn create(store: &StoreHandle, new: New) -> Result<Written<()>, Error> {
    let (target, now) = (label(&new.label), new.created_at);
    let write = Write { target, needs: Needs::default(), objects: Vec::new(), now };
    let rule = move |found: Option<&SessionView>| decide::create_session(found, &new);
    store.execute(write, None, rule).await.map(done)
}

/// What was written by a request without a key.
pub(crate) fn done<R>(executed: Executed<R>) -> Written<R> {
    match executed {
        Executed::Written(written) => written,
        Executed::Replayed(answer) => panic!("a request without a key was replayed: {answer}"),
    }
}

/// A user's message of one text part.
pub(crate) fn message(words: &str, ms: i64) -> Message {
    let content = vec![Part::Text { text: words.to_owned() }];
    Message {
        id: MessageId(Ulid::new()),
        role: Role::User,
        source: Some(Source::Human),
        content,
        created_at: at(ms),
    }
}

/// A turn of one message, and its body.
pub(crate) fn turn(words: &str, ms: i64) -> (Ready, Named) {
    Ready::new(About::at(at(ms)), vec![message(words, ms)])
}

/// Verifies a store without repairing it.
pub(crate) async fn verify(store: &StoreHandle) -> VerifyReport {
    store.verify(false, &|_, _| {}).await.expect("an open store can be verified")
}

/// One session of a store, through one handle.
#[derive(Clone)]
pub(crate) struct SessionWriter {
    pub(crate) store: StoreHandle,
    pub(crate) target: Target,
}

impl SessionWriter {
    /// Creates a session.
    pub(crate) async fn create(store: &StoreHandle, name: &str, ms: i64) -> Self {
        Self::create_as(store, new_session(name, ms)).await
    }

    /// Creates a session that is more than a label.
    pub(crate) async fn create_as(store: &StoreHandle, new: New) -> Self {
        let name = new.label.clone();
        create(store, new).await.expect("the label is free");
        Self::of(store, &name)
    }

    /// The session that has a label.
    pub(crate) fn of(store: &StoreHandle, name: &str) -> Self {
        Self { store: store.clone(), target: label(name) }
    }

    /// The same session through another handle of the store.
    pub(crate) fn through(&self, store: &StoreHandle) -> Self {
        Self { store: store.clone(), target: self.target.clone() }
    }

    /// One transaction whose rule sees everything about an existing session.
    pub(crate) async fn decide<R: Send + 'static>(
        &self,
        ms: i64,
        objects: Vec<Named>,
        rule: impl Fn(&SessionView, &Invocation) -> Decided<R> + Send + 'static,
    ) -> Result<Written<R>, Error> {
        self.decide_on(EVERYTHING, ms, objects, rule).await
    }

    /// One transaction whose rule sees some of an existing session.
    pub(crate) async fn decide_on<R: Send + 'static>(
        &self,
        needs: Needs,
        ms: i64,
        objects: Vec<Named>,
        rule: impl Fn(&SessionView, &Invocation) -> Decided<R> + Send + 'static,
    ) -> Result<Written<R>, Error> {
        let rule = move |view: Option<&SessionView>, invocation: &Invocation| {
            rule(view.ok_or(Refusal::NoSession)?, invocation)
        };
        self.write_with(needs, ms, objects, rule).await
    }

    /// One transaction.
    pub(crate) async fn write_with<R: Send + 'static>(
        &self,
        needs: Needs,
        ms: i64,
        objects: Vec<Named>,
        rule: impl Fn(Option<&SessionView>, &Invocation) -> Decided<R> + Send + 'static,
    ) -> Result<Written<R>, Error> {
        self.write_once(needs, ms, objects, None, rule).await.map(done)
    }

    /// One transaction with an idempotency key.
    pub(crate) async fn write_once<R: Send + 'static>(
        &self,
        needs: Needs,
        ms: i64,
        objects: Vec<Named>,
        once: Option<Once<R>>,
        rule: impl Fn(Option<&SessionView>, &Invocation) -> Decided<R> + Send + 'static,
    ) -> Result<Executed<R>, Error> {
        let invocation = Invocation { now: at(ms), ids: IdGenerator::new(Ulid::new()) };
        let rule = move |view: Option<&SessionView>| rule(view, &invocation);
        let (target, now) = (self.target.clone(), at(ms));
        self.store.execute(Write { target, needs, objects, now }, once, rule).await
    }

    pub(crate) async fn try_view(&self) -> Option<SessionView> {
        self.store.view(&self.target, EVERYTHING).await.expect("a view")
    }

    pub(crate) async fn view(&self) -> SessionView {
        self.try_view().await.expect("a session")
    }

    pub(crate) async fn session(&self) -> Session {
        self.view().await.session
    }

    pub(crate) async fn id(&self) -> SessionId {
        self.session().await.id
    }

    pub(crate) async fn head(&self) -> TurnId {
        self.session().await.head.expect("a session with turns")
    }

    pub(crate) async fn start(&self, description: &str, ms: i64) -> TaskId {
        let description = description.to_owned();
        let decision = self
            .decide(ms, vec![], move |view, invocation| {
                decide::start(view, &description, invocation)
            })
            .await;
        decision.expect("no task is open").reply.id
    }

    pub(crate) async fn observe(
        &self,
        entries: Vec<Entry>,
        objects: Vec<Named>,
        ms: i64,
    ) -> Result<Written<Task>, Error> {
        self.decide(ms, objects, move |view, invocation| {
            decide::observe(view, &entries, invocation)
        })
        .await
    }

    /// A step with one note.
    pub(crate) async fn note(&self, text: &str, ms: i64) {
        self.observe(vec![note(text)], vec![], ms).await.expect("a note");
    }

    /// A step with one written file.
    pub(crate) async fn write(&self, path: &str, content: Vec<u8>, ms: i64) {
        let (entry, objects) = file(path, content);
        self.observe(vec![entry], objects, ms).await.expect("a file");
    }

    pub(crate) async fn seal(
        &self,
        summary: &str,
        ms: i64,
    ) -> Result<Written<CommitRecord>, Error> {
        let summary = summary.to_owned();
        self.decide(ms, vec![], move |view, invocation| {
            decide::seal(view, Some(&summary), invocation)
        })
        .await
    }

    /// A turn of one message; refused unless the session's head is `expected`.
    pub(crate) async fn append(
        &self,
        expected: Option<TurnId>,
        words: &str,
        ms: i64,
    ) -> Result<TurnId, Error> {
        let (ready, body) = turn(words, ms);
        let decision = self
            .decide(ms, vec![body], move |view, _| decide::append_turn(view, expected, &ready))
            .await?;
        Ok(decision.reply)
    }

    /// A turn of one message under the current head.
    pub(crate) async fn say(&self, words: &str, ms: i64) -> TurnId {
        self.append(self.view().await.session.head, words, ms).await.expect("the head did not move")
    }

    /// Every step of a task, page by page; asserts that they form one unbroken chain.
    pub(crate) async fn chain(&self, task: TaskId) -> Vec<StoredStep> {
        let mut steps: Vec<StoredStep> = Vec::new();
        loop {
            let page = self.store.steps(task, steps.len() as u64, 64).await.expect("steps");
            if page.is_empty() {
                return steps;
            }
            for stored in page {
                assert_eq!(stored.seq, steps.len() as u64 + 1, "each number occurs once");
                assert_eq!(
                    stored.step.parent,
                    steps.last().map(|before| before.id),
                    "the parent of a step is the step before it"
                );
                assert_eq!(stored.object.id(), stored.id.0);
                steps.push(stored);
            }
        }
    }
}
