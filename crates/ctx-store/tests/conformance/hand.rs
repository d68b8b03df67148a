//! A hand on a store: one session, one call for each thing that a test does with it.
//!
//! Every call says when it happens, in milliseconds after [`EPOCH`]; nothing here reads a clock.

use std::sync::Arc;

use ctx_core::content::Content;
use ctx_core::decide::{self, CommitRecord, Decided, Invocation, Needs, SessionView};
use ctx_core::id::{MessageId, Mint, NoteId, SessionId, TaskId, TurnId};
use ctx_core::message::{Message, Part, Role, Source};
use ctx_core::object::Named;
use ctx_core::refusal::Refusal;
use ctx_core::session::{New, Origin};
use ctx_core::step::Entry;
use ctx_core::task::Task;
use ctx_core::time::Timestamp;
use ctx_core::turn::{About, Ready};
use ctx_store::{Error, Store, StoredStep, Target, VerifyReport, Write, Written, execute};
use ulid::Ulid;

/// When every test begins.
const EPOCH: i64 = 1_760_000_000_000;

/// The project of every session that does not say otherwise.
pub(crate) const PROJECT: &str = "demo";

/// All that a rule may ask to see.
const NEEDS: Needs = Needs::SEAL;

/// So many milliseconds after the beginning.
pub(crate) const fn at(ms: i64) -> Timestamp {
    Timestamp(EPOCH + ms)
}

pub(crate) fn label(label: &str) -> Target {
    Target::Label(label.to_owned())
}

pub(crate) fn note(text: &str) -> Entry {
    Entry::Note { id: NoteId(Ulid::new()), text: text.to_owned() }
}

/// A file that was written, and the blob it needs where its content is large.
pub(crate) fn file(path: &str, content: Vec<u8>) -> (Entry, Vec<Named>) {
    let (content, blob) = Content::split(content);
    (Entry::FileWrite { path: path.to_owned(), content: Some(content) }, blob.into_iter().collect())
}

/// Text of `bytes` bytes that no other seed gives and that does not compress to nothing.
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

/// A session that is to be made.
pub(crate) fn new_session(label: &str, ms: i64) -> New {
    New::idle(SessionId(Ulid::new()), label.to_owned(), PROJECT.to_owned(), Origin::Cli, at(ms))
}

/// Makes a session by the rule.
pub(crate) async fn make(store: &Arc<dyn Store>, new: New) -> Result<Written<()>, Error> {
    let (target, now) = (label(&new.label), new.created_at);
    let rule = move |found: Option<&SessionView>| decide::create_session(found, &new);
    let write = Write { target, needs: Needs::default(), objects: Vec::new(), now };
    execute(&**store, write, rule).await
}

/// One message of a user.
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

/// Everything that `verify` has to say about a store.
pub(crate) async fn verify(store: &Arc<dyn Store>) -> VerifyReport {
    store.verify(false, &|_, _| {}).await.expect("a store that opens can be looked at")
}

/// One session of a store.
#[derive(Clone)]
pub(crate) struct Hand {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) target: Target,
}

impl Hand {
    /// Makes a session and takes hold of it.
    pub(crate) async fn create(store: &Arc<dyn Store>, name: &str, ms: i64) -> Self {
        make(store, new_session(name, ms)).await.expect("the label is free");
        Self { store: store.clone(), target: label(name) }
    }

    /// The same session through another handle of the store.
    pub(crate) fn through(&self, store: &Arc<dyn Store>) -> Self {
        Self { store: store.clone(), target: self.target.clone() }
    }

    /// One transaction on the session.
    pub(crate) async fn decide<R: Send + 'static>(
        &self,
        ms: i64,
        objects: Vec<Named>,
        rule: impl Fn(&SessionView, &Invocation) -> Decided<R> + Send + 'static,
    ) -> Result<Written<R>, Error> {
        let invocation = Invocation { now: at(ms), mint: Mint::new(Ulid::new()) };
        let rule =
            move |view: Option<&SessionView>| rule(view.ok_or(Refusal::NoSession)?, &invocation);
        let write = Write { target: self.target.clone(), needs: NEEDS, objects, now: at(ms) };
        execute(&*self.store, write, rule).await
    }

    pub(crate) async fn view(&self) -> SessionView {
        self.store.view(&self.target, NEEDS).await.expect("a view").expect("a session")
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

    /// A turn of one message under a head that must be the session's.
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

    /// A turn of one message under whatever the head is.
    pub(crate) async fn say(&self, words: &str, ms: i64) -> TurnId {
        self.append(self.view().await.session.head, words, ms).await.expect("nobody else writes")
    }

    /// Every step of a task, page by page; checks that they form one unbroken chain from the first.
    pub(crate) async fn chain(&self, task: TaskId) -> Vec<StoredStep> {
        let mut steps: Vec<StoredStep> = Vec::new();
        loop {
            let page = self.store.steps(task, steps.len() as u64, 64).await.expect("steps");
            if page.is_empty() {
                return steps;
            }
            for stored in page {
                assert_eq!(
                    stored.seq,
                    steps.len() as u64 + 1,
                    "every place in the chain is taken once"
                );
                assert_eq!(
                    stored.step.parent,
                    steps.last().map(|before| before.id),
                    "each hangs off the one before it"
                );
                assert_eq!(stored.object.id(), stored.id.0);
                steps.push(stored);
            }
        }
    }
}
