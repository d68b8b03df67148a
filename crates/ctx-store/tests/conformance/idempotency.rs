//! Idempotency keys: a request with a key is done once, and answered the same each time.

use ctx_core::decide::{self, Accepted, Needs, Settings, Submit, SubmitTarget};
use ctx_core::id::{ObjectId, SessionId};
use ctx_core::refusal::Refusal;
use ctx_core::time::Span;
use ctx_store::{Error, Executed, Once, OnceKey};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::Backend;
use crate::harness::{
    SessionWriter, Snapshot, StoreHandle, at, create, done, image, new_session, submission,
    submission_in, text_of,
};

const WEEK_MS: i64 = Span::days(7).0 as i64;

fn answer(session: SessionId, accepted: &Accepted) -> Value {
    json!({
        "message": accepted.message_id.to_string(),
        "session": session.to_string(),
        "text": "ü \u{1F600}",
    })
}

fn key(scope: &str, key: &str, request: &str) -> OnceKey {
    let request = ObjectId::of(&[request.as_bytes()]);
    OnceKey { scope: scope.to_owned(), key: key.to_owned(), request, max_age: None }
}

async fn send(writer: &SessionWriter, key: OnceKey, ms: i64) -> Result<Executed<Accepted>, Error> {
    let submit = submission_in(ctx_core::inbox::Mode::Queue, "hello");
    let once = Some(Once { key, answer });
    writer.submit_once(SubmitTarget::Existing, submit, &Settings::default(), vec![], once, ms).await
}

/// The stored answer, if the request was executed before.
fn replayed<R>(executed: Executed<R>) -> Option<Value> {
    match executed {
        Executed::Replayed(answer) => Some(answer),
        Executed::Written(_) => None,
    }
}

async fn busy(store: &StoreHandle) -> SessionWriter {
    let writer = SessionWriter::create(store, "main", 0).await;
    writer.open_run("the first", 1).await;
    writer
}

pub(crate) async fn the_same_key_gets_the_same_answer_and_is_done_once(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = busy(&store).await;
    let first = send(&writer, key("s", "k", "body"), 2).await.expect("done");
    let first = done(first);
    let expected = answer(first.session, &first.reply);
    let before = Snapshot::of(&store).await;
    let other = writer.through(&backend.open().await);
    for (n, writer) in [&writer, &other, &writer].into_iter().enumerate() {
        let again = send(writer, key("s", "k", "body"), 3 + n as i64).await.expect("replayed");
        assert_eq!(replayed(again).as_ref(), Some(&expected));
    }
    assert_eq!(Snapshot::of(&store).await, before, "nothing is done twice");
    drop((store, writer, other));
    let writer = SessionWriter::of(&backend.open().await, "main");
    let again = send(&writer, key("s", "k", "body"), 9).await.expect("replayed");
    assert_eq!(replayed(again), Some(expected), "after reopening");
}

pub(crate) async fn an_answer_that_is_too_old_for_its_request_is_replaced(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = busy(&store).await;
    let aged = |ms: u64| OnceKey { max_age: Some(Span(ms)), ..key("s", "k", "body") };
    let first = done(send(&writer, aged(0), 2).await.expect("done"));
    let second = done(send(&writer, aged(0), 2).await.expect("done again"));
    assert_ne!(first.reply.message_id, second.reply.message_id);
    let expected = Some(answer(second.session, &second.reply));
    let store = backend.open().await;
    assert_eq!(store.answer_of(&aged(100), at(101)).await.expect("read"), expected);
    assert_eq!(store.answer_of(&aged(100), at(102)).await.expect("read"), None);
    let again = send(&writer, aged(100), 101).await.expect("replayed");
    assert_eq!(replayed(again), expected);
    let late = done(send(&writer, aged(100), 102).await.expect("done"));
    assert_ne!(late.reply.message_id, second.reply.message_id);
}

pub(crate) async fn a_key_with_another_request_is_refused(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = busy(&store).await;
    send(&writer, key("s", "k", "body"), 2).await.expect("done");
    let before = Snapshot::of(&store).await;
    let refused = send(&writer, key("s", "k", "another body"), 3).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::IdempotencyMismatch))), "{refused:?}");
    assert_eq!(Snapshot::of(&store).await, before);
    for (scope, name) in [("other scope", "k"), ("s", "other key"), ("", ""), ("s", "\u{1F600}")] {
        let sent = send(&writer, key(scope, name, "another body"), 4).await.expect("done");
        assert_eq!(replayed(sent), None, "{scope} {name}");
    }
    assert_eq!(writer.view().await.inbox.len(), 6);
}

pub(crate) async fn of_twenty_requests_with_one_key_one_is_done(backend: &impl Backend) {
    let (one, two) = (backend.open().await, backend.open().await);
    let writer = busy(&one).await;
    let mut sends = JoinSet::new();
    for n in 0..20 {
        let writer = writer.through(if n % 2 == 0 { &one } else { &two });
        sends
            .spawn(async move { send(&writer, key("s", "k", "body"), 2).await.expect("answered") });
    }
    let answers = sends.join_all().await;
    let (mut written, mut answered) = (Vec::new(), Vec::new());
    for executed in answers {
        match executed {
            Executed::Written(one) => written.push(one),
            Executed::Replayed(answer) => answered.push(answer),
        }
    }
    assert_eq!((written.len(), answered.len()), (1, 19));
    let expected = answer(written[0].session, &written[0].reply);
    assert!(answered.iter().all(|answer| *answer == expected));
    assert_eq!(writer.view().await.inbox.len(), 2);
}

pub(crate) async fn a_request_that_failed_leaves_its_key_free(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = busy(&store).await;
    let missing = SessionWriter::of(&store, "unknown");
    let refused = send(&missing, key("s", "refused", "body"), 2).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::NoSession))), "{refused:?}");
    let sent = send(&writer, key("s", "refused", "another body"), 3).await.expect("done");
    assert_eq!(replayed(sent), None);

    let picture = ctx_core::object::Object::blob(text_of(1, 5000));
    let submit = Submit { content: vec![image(&picture)], ..submission("") };
    let (to, settings) = (SubmitTarget::Existing, Settings::default());
    let once = Some(Once { key: key("s", "failed", "body"), answer });
    let failed = writer.submit_once(to, submit, &settings, vec![], once, 4).await;
    assert!(matches!(failed, Err(Error::NotFound { what: "blob", .. })), "{failed:?}");
    let sent = send(&writer, key("s", "failed", "another body"), 5).await.expect("done");
    assert_eq!(replayed(sent), None);
}

pub(crate) async fn a_key_is_kept_for_a_week(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = busy(&store).await;
    send(&writer, key("s", "k", "body"), 2).await.expect("done");
    store.purge_all(crate::harness::at(1 + WEEK_MS)).await;
    let last = send(&writer, key("s", "k", "body"), 1 + WEEK_MS).await.expect("replayed");
    assert!(replayed(last).is_some(), "until then");
    let sent = send(&writer, key("s", "k", "another body"), 2 + WEEK_MS).await.expect("done");
    assert_eq!(replayed(sent), None, "from then on it is free");
    let again = send(&writer, key("s", "k", "another body"), 3 + WEEK_MS).await.expect("done");
    assert!(replayed(again).is_some());
    store.purge_all(crate::harness::at(2 + 2 * WEEK_MS)).await;
    let sent = send(&writer, key("s", "k", "body"), 2 + WEEK_MS).await.expect("done");
    assert_eq!(replayed(sent), None, "a purged key is forgotten");
}

pub(crate) async fn creating_a_session_takes_a_key_too(backend: &impl Backend) {
    let store = backend.open().await;
    let new = new_session("main", 1);
    let id = new.id;
    let target = SessionWriter::of(&store, "main");
    let made = |new: ctx_core::session::New| {
        let answer = |session: SessionId, (): &()| json!({"id": session.to_string()});
        let once = Some(Once { key: key("create", "k", "body"), answer });
        let rule = move |found: Option<&_>, _: &_| decide::create_session(found, &new);
        target.write_once(Needs::NOTHING, 1, vec![], once, rule)
    };
    assert_eq!(done(made(new).await.expect("created")).session, id);
    let again = replayed(made(new_session("main", 1)).await.expect("replayed"));
    assert_eq!(again.expect("an answer")["id"], id.to_string());
    let taken = create(&store, new_session("main", 2)).await;
    assert!(matches!(taken, Err(Error::Refused(Refusal::LabelInUse { .. }))), "without the key");
    assert_eq!(store.counts().await.sessions, 1);
}

pub(crate) async fn a_request_that_changed_nothing_keeps_its_key(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let cancel = |request: &str| {
        let answer = |_: SessionId, (): &()| json!("done");
        let once = Some(Once { key: key("s", "k", request), answer });
        writer.write_once(Needs::CLOSE, 1, vec![], once, |view, invocation| {
            decide::cancel(view.ok_or(Refusal::NoSession)?, invocation)
        })
    };
    let before = writer.view().await;
    assert!(done(cancel("body").await.expect("an idle session")).events.is_empty());
    assert_eq!(writer.view().await, before, "nothing changed");
    assert_eq!(replayed(cancel("body").await.expect("replayed")), Some(json!("done")));
    let refused = cancel("another body").await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::IdempotencyMismatch))), "{refused:?}");
}
