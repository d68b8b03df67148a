//! Idempotency keys: a request with a key is done once, and answered the same each time.

use ctx_core::decide::{self, Decision, Needs, Settings, Submit, To};
use ctx_core::id::ObjectId;
use ctx_core::refusal::Refusal;
use ctx_core::time::Span;
use ctx_store::{Error, Once};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::Backend;
use crate::harness::{
    SessionWriter, Snapshot, StoreHandle, create, image, new_session, submission, submission_in,
    text_of,
};

const WEEK_MS: i64 = Span::days(7).0 as i64;

fn answer(decision: &Decision) -> Value {
    json!({
        "message": decision.reply.accepted.as_ref().map(|accepted| accepted.message_id.to_string()),
        "seq": decision.reply.seq,
        "text": "ü \u{1F600}",
    })
}

fn once(scope: &str, key: &str, request: &str) -> Once {
    let request = ObjectId::of(&[request.as_bytes()]);
    Once { scope: scope.to_owned(), key: key.to_owned(), request, answer }
}

async fn send(writer: &SessionWriter, once: Once, ms: i64) -> Result<Decision, Error> {
    let submit = submission_in(ctx_core::inbox::Mode::Queue, "hello");
    writer.submit_with(To::Existing, submit, &Settings::default(), vec![], Some(once), ms).await
}

async fn busy(store: &StoreHandle) -> SessionWriter {
    let writer = SessionWriter::create(store, "main", 0).await;
    writer.open_run("the first", 1).await;
    writer
}

pub(crate) async fn the_same_key_gets_the_same_answer_and_is_done_once(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = busy(&store).await;
    let first = send(&writer, once("s", "k", "body"), 2).await.expect("done");
    assert_eq!(first.reply.replayed, None);
    let expected = answer(&first);
    let before = Snapshot::of(&store).await;
    let other = writer.through(&backend.open().await);
    for (n, writer) in [&writer, &other, &writer].into_iter().enumerate() {
        let again = send(writer, once("s", "k", "body"), 3 + n as i64).await.expect("replayed");
        assert_eq!(again.reply.replayed.as_ref(), Some(&expected));
        assert!(again.changes.is_empty() && again.events.is_empty());
    }
    assert_eq!(Snapshot::of(&store).await, before, "nothing is done twice");
    drop((store, writer, other));
    let writer = SessionWriter::of(&backend.open().await, "main");
    let again = send(&writer, once("s", "k", "body"), 9).await.expect("replayed");
    assert_eq!(again.reply.replayed, Some(expected), "after reopening");
}

pub(crate) async fn a_key_with_another_request_is_refused(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = busy(&store).await;
    send(&writer, once("s", "k", "body"), 2).await.expect("done");
    let before = Snapshot::of(&store).await;
    let refused = send(&writer, once("s", "k", "another body"), 3).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::IdempotencyMismatch))), "{refused:?}");
    assert_eq!(Snapshot::of(&store).await, before);
    for (scope, key) in [("other scope", "k"), ("s", "other key"), ("", ""), ("s", "\u{1F600}")] {
        let done = send(&writer, once(scope, key, "another body"), 4).await.expect("done");
        assert_eq!(done.reply.replayed, None, "{scope} {key}");
    }
    assert_eq!(writer.view().await.inbox.len(), 6);
}

pub(crate) async fn of_twenty_requests_with_one_key_one_is_done(backend: &impl Backend) {
    let (one, two) = (backend.open().await, backend.open().await);
    let writer = busy(&one).await;
    let mut sends = JoinSet::new();
    for n in 0..20 {
        let writer = writer.through(if n % 2 == 0 { &one } else { &two });
        sends.spawn(
            async move { send(&writer, once("s", "k", "body"), 2).await.expect("answered") },
        );
    }
    let answers = sends.join_all().await;
    let (replayed, done): (Vec<_>, Vec<_>) =
        answers.into_iter().partition(|decision| decision.reply.replayed.is_some());
    assert_eq!((done.len(), replayed.len()), (1, 19));
    let expected = Some(answer(&done[0]));
    assert!(replayed.iter().all(|decision| decision.reply.replayed == expected));
    assert_eq!(writer.view().await.inbox.len(), 2);
}

pub(crate) async fn a_request_that_failed_leaves_its_key_free(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = busy(&store).await;
    let missing = SessionWriter::of(&store, "unknown");
    let refused = send(&missing, once("s", "refused", "body"), 2).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::NoSession))), "{refused:?}");
    let done = send(&writer, once("s", "refused", "another body"), 3).await.expect("done");
    assert_eq!(done.reply.replayed, None);

    let picture = ctx_core::object::Object::blob(text_of(1, 5000));
    let submit = Submit { content: vec![image(&picture)], ..submission("") };
    let (to, settings) = (To::Existing, Settings::default());
    let key = Some(once("s", "failed", "body"));
    let failed = writer.submit_with(to, submit, &settings, vec![], key, 4).await;
    assert!(matches!(failed, Err(Error::NotFound { what: "blob", .. })), "{failed:?}");
    let done = send(&writer, once("s", "failed", "another body"), 5).await.expect("done");
    assert_eq!(done.reply.replayed, None);
}

pub(crate) async fn a_key_is_kept_for_a_week(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = busy(&store).await;
    send(&writer, once("s", "k", "body"), 2).await.expect("done");
    store.purge_all(crate::harness::at(1 + WEEK_MS)).await;
    let last = send(&writer, once("s", "k", "body"), 1 + WEEK_MS).await.expect("replayed");
    assert!(last.reply.replayed.is_some(), "until then");
    let done = send(&writer, once("s", "k", "another body"), 2 + WEEK_MS).await.expect("done");
    assert_eq!(done.reply.replayed, None, "from then on it is free");
    let again = send(&writer, once("s", "k", "another body"), 3 + WEEK_MS).await.expect("done");
    assert!(again.reply.replayed.is_some());
    store.purge_all(crate::harness::at(2 + 2 * WEEK_MS)).await;
    let done = send(&writer, once("s", "k", "body"), 2 + WEEK_MS).await.expect("done");
    assert_eq!(done.reply.replayed, None, "a purged key is forgotten");
}

pub(crate) async fn creating_a_session_takes_a_key_too(backend: &impl Backend) {
    let store = backend.open().await;
    let new = new_session("main", 1);
    let id = new.id;
    let target = SessionWriter::of(&store, "main");
    let made = |new: ctx_core::session::New| {
        target.write_with(
            Needs::NOTHING,
            1,
            vec![],
            Some(once("create", "k", "body")),
            move |found, _| decide::create_session(found, &new),
        )
    };
    assert_eq!(made(new).await.expect("created").reply.session, Some(id));
    let again = made(new_session("main", 1)).await.expect("replayed");
    assert_eq!(again.reply.replayed.expect("an answer")["seq"], 1);
    let taken = create(&store, new_session("main", 2)).await;
    assert!(matches!(taken, Err(Error::Refused(Refusal::LabelInUse { .. }))), "without the key");
    assert_eq!(store.counts().await.sessions, 1);
}

pub(crate) async fn a_request_that_changed_nothing_keeps_its_key(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let cancel = |request: &str| {
        let key = Some(once("s", "k", request));
        writer.write_with(Needs::CLOSE, 1, vec![], key, |view, moment| {
            decide::cancel(view.ok_or(Refusal::NoSession)?, moment)
        })
    };
    assert!(cancel("body").await.expect("an idle session").changes.is_empty());
    assert!(cancel("body").await.expect("replayed").reply.replayed.is_some());
    let refused = cancel("another body").await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::IdempotencyMismatch))), "{refused:?}");
}
