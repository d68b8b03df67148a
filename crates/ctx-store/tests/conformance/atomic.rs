//! Atomicity: all changes of a decision or none, and a failing write does not affect others.

use ctx_core::decide::{self, Decided, Decision, Event, Invocation, SessionView};
use ctx_core::id::BlobId;
use ctx_core::message::{Message, Part, Role};
use ctx_core::object::{Named, Object};
use ctx_core::step::Entry;
use ctx_core::stored_content::{BLOB_MIN_BYTES, Content};
use ctx_core::task::Task;
use ctx_core::turn::{About, Ready};
use ctx_store::Error;
use tokio::task::JoinSet;

use crate::Backend;
use crate::harness::{
    SessionWriter, Snapshot, at, create, file, message, new_session, note, text_of, turn, verify,
};

/// A decision of which only the last change fails.
fn good_then_bad(view: &SessionView, invocation: &Invocation, bad: &Ready) -> Decided<Task> {
    let mut decision = decide::start(view, "a task that is undone", invocation)?;
    let turn = decide::append_turn(view, view.session.head, bad)?;
    decision.changes.extend(turn.changes);
    decision.events.extend(turn.events);
    Ok(decision)
}

async fn leaves_nothing(backend: &impl Backend, bad: Ready, objects: Vec<Named>) {
    // R152
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    writer.say("hello", 1).await;
    let before = Snapshot::of(&store).await;
    let failed = writer
        .decide(9, objects, move |view, invocation| good_then_bad(view, invocation, &bad))
        .await;
    assert!(matches!(failed, Err(ref error) if !matches!(error, Error::Refused(_))), "{failed:?}");

    assert_eq!(Snapshot::of(&store).await, before, "no task, no turn, no event");
    writer.start("a task that is", 10).await;
    writer.say("still here", 11).await;
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn a_missing_blob_undoes_the_whole_decision(backend: &impl Backend) {
    let missing = BlobId(Object::blob(text_of(1, BLOB_MIN_BYTES)).id());
    let said = Message {
        role: Role::Tool,
        content: vec![Part::Image {
            media_type: "image/png".to_owned(),
            blob: missing,
            bytes: None,
        }],
        ..message("", 9)
    };
    let (ready, body) = Ready::new(About::at(at(9)), vec![said]);
    leaves_nothing(backend, ready, vec![body]).await;
}

pub(crate) async fn a_missing_body_undoes_the_whole_decision(backend: &impl Backend) {
    let (ready, _) = turn("words that were not brought", 9);
    leaves_nothing(backend, ready, vec![]).await;
}

pub(crate) async fn one_failing_write_of_sixty_four_fails_alone(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let task = writer.start("a task", 1).await;
    let shared = text_of(2, 5 * 1024);
    let mut writes = JoinSet::new();
    for n in 0..64 {
        let (writer, shared) = (writer.clone(), shared.clone());
        writes.spawn(async move {
            let (entry, objects) = file(&format!("{n}.rs"), shared);
            if n != 31 {
                return (n, writer.observe(vec![entry], objects, 2).await);
            }
            let (broken, _) = file("broken.rs", text_of(3, 5 * 1024));
            (n, writer.observe(vec![entry, note("between"), broken], objects, 2).await)
        });
    }
    for (n, outcome) in writes.join_all().await {
        match n {
            31 => {
                assert!(
                    matches!(outcome, Err(Error::NotFound { what: "blob", .. })),
                    "{outcome:?}"
                );
            }
            _ => assert!(outcome.is_ok(), "{n}: {outcome:?}"),
        }
    }
    let chain = writer.chain(task).await;
    assert_eq!(chain.len(), 64, "the first step and 63 files");
    assert!(!chain.iter().any(|stored| format!("{:?}", stored.step.payload).contains("broken.rs")));
    assert_eq!(store.counts().await.blobs, 1);
    let blob = chain[1].step.blobs()[0];
    assert_eq!(store.object(blob.0).await.expect("readable").expect("stored").bytes, shared);
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn refused_writes_do_not_affect_concurrent_ones(backend: &impl Backend) {
    let store = backend.open().await;
    let mut writes = JoinSet::new();
    for n in 0..64 {
        let store = store.clone();
        writes.spawn(async move {
            create(&store, new_session(&format!("session {}", n / 2), n)).await.is_ok()
        });
    }
    assert_eq!(writes.join_all().await.into_iter().filter(|made| *made).count(), 32);
    assert_eq!(
        store.sessions(&ctx_store::SessionQuery::newest(100)).await.expect("sessions").len(),
        32
    );
}

pub(crate) async fn a_decision_of_one_event_is_stored(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let before = writer.view().await.session.seq;
    let (ready, _) = turn("only an example", 1);
    let told = Event::TurnCommitted { turn: Some(ready.with_parent(None).id) };
    let rule = move |_: &SessionView, _: &Invocation| {
        Ok(Decision { events: vec![told.clone()], ..Decision::unchanged(()) })
    };
    writer.decide(1, vec![], rule).await.expect("an event");
    assert_eq!(writer.view().await.session.seq, before + 1, "an acknowledged event is stored");
}

pub(crate) async fn events_are_numbered_without_gaps(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let mut told = 1;
    writer.start("a task", 1).await;
    let observed = writer
        .observe(vec![note("one"), Entry::Plan { text: "two".to_owned() }], vec![], 2)
        .await
        .expect("steps");
    told += 1 + observed.events.len() as u64;
    told += writer.seal("done", 3).await.expect("sealed").events.len() as u64;
    assert_eq!(writer.view().await.session.seq, told);
}

pub(crate) async fn a_decision_of_several_megabytes_is_stored_completely(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let task = writer.start("a task", 1).await;
    let contents: Vec<Vec<u8>> = (0..3).map(|n| text_of(100 + n, 3 << 20)).collect();
    let split: Vec<(Content, Option<Named>)> =
        contents.iter().cloned().map(Content::split).collect();
    let write =
        |n: usize| Entry::FileWrite { path: format!("{n}.bin"), content: Some(split[n].0.clone()) };
    let objects = split.iter().filter_map(|(_, blob)| blob.clone()).collect();
    writer
        .observe(vec![write(0), write(1), write(2), note("all of it")], objects, 2)
        .await
        .expect("stored");

    assert_eq!(writer.chain(task).await.len(), 3);
    for (content, bytes) in split.iter().zip(&contents) {
        let id = content.0.blob().expect("a blob").0;
        assert_eq!(&store.object(id).await.expect("readable").expect("stored").bytes, bytes);
    }
    assert_eq!(verify(&store).await.findings, []);
}
