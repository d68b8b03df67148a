//! All changes of a decision or none, and no write pays for another's fault.

use ctx_core::content::{BLOB_MIN_BYTES, Content};
use ctx_core::decide::{self, Decision, Event, Invocation, SessionView};
use ctx_core::id::BlobId;
use ctx_core::message::{Message, Part, Role};
use ctx_core::object::{Named, Object};
use ctx_core::step::Entry;
use ctx_core::turn::{About, Ready};
use ctx_store::Error;
use tokio::task::JoinSet;

use crate::Place;
use crate::hand::{Hand, at, file, make, message, new_session, note, text_of, turn, verify};

/// A decision in which everything but the last change can be stored.
fn good_then_bad(
    view: &SessionView,
    invocation: &Invocation,
    bad: &Ready,
) -> decide::Decided<ctx_core::task::Task> {
    let mut decision = decide::start(view, "a task that never was", invocation)?;
    let turn = decide::append_turn(view, view.session.head, bad)?;
    decision.changes.extend(turn.changes);
    decision.events.extend(turn.events);
    Ok(decision)
}

async fn leaves_nothing(place: &impl Place, bad: Ready, objects: Vec<Named>) {
    // R152
    let store = place.open().await;
    let hand = Hand::create(&store, "main", 0).await;
    hand.say("hello", 1).await;
    let before = (hand.view().await, store.health().await.expect("health"));
    let failed = hand
        .decide(9, objects, move |view, invocation| good_then_bad(view, invocation, &bad))
        .await;
    assert!(matches!(failed, Err(ref error) if !matches!(error, Error::Refused(_))), "{failed:?}");

    let after = (hand.view().await, store.health().await.expect("health"));
    assert_eq!(after.0, before.0, "no task, no turn, no event");
    assert_eq!((after.1.turns, after.1.steps, after.1.blobs, after.1.unindexed), (1, 0, 0, 1));
    hand.start("a task that is", 10).await;
    hand.say("still here", 11).await;
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn a_turn_without_its_blob_leaves_nothing_of_its_decision(place: &impl Place) {
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
    leaves_nothing(place, ready, vec![body]).await;
}

pub(crate) async fn a_turn_without_its_body_leaves_nothing_of_its_decision(place: &impl Place) {
    let (ready, _) = turn("words that were not brought", 9);
    leaves_nothing(place, ready, vec![]).await;
}

pub(crate) async fn one_of_sixty_four_fails_alone(place: &impl Place) {
    let store = place.open().await;
    let hand = Hand::create(&store, "main", 0).await;
    let task = hand.start("a task", 1).await;
    let shared = text_of(2, 5 * 1024);
    let mut writes = JoinSet::new();
    for n in 0..64 {
        let (hand, shared) = (hand.clone(), shared.clone());
        writes.spawn(async move {
            let (entry, objects) = file(&format!("{n}.rs"), shared);
            if n != 31 {
                return (n, hand.observe(vec![entry], objects, 2).await);
            }
            let (broken, _) = file("broken.rs", text_of(3, 5 * 1024));
            (n, hand.observe(vec![entry, note("between"), broken], objects, 2).await)
        });
    }
    for (n, outcome) in writes.join_all().await {
        match n {
            31 => {
                assert!(matches!(outcome, Err(Error::NotFound { what: "blob", .. })), "{outcome:?}")
            }
            _ => assert!(outcome.is_ok(), "{n}: {outcome:?}"),
        }
    }
    let chain = hand.chain(task).await;
    assert_eq!(chain.len(), 64, "the first step and 63 files");
    assert!(!chain.iter().any(|stored| format!("{:?}", stored.step.payload).contains("broken.rs")));
    assert_eq!(store.health().await.expect("health").blobs, 1);
    let blob = chain[1].step.blobs()[0];
    assert_eq!(store.object(blob.0).await.expect("readable").expect("stored").bytes, shared);
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn a_refusal_among_others_is_no_fault_of_theirs(place: &impl Place) {
    let store = place.open().await;
    let mut writes = JoinSet::new();
    for n in 0..64 {
        let store = store.clone();
        writes.spawn(async move {
            make(&store, new_session(&format!("session {}", n / 2), n)).await.is_ok()
        });
    }
    assert_eq!(writes.join_all().await.into_iter().filter(|made| *made).count(), 32);
    assert_eq!(
        store.sessions(&ctx_store::SessionQuery::newest(100)).await.expect("sessions").len(),
        32
    );
}

pub(crate) async fn an_event_alone_is_kept_as_well(place: &impl Place) {
    let store = place.open().await;
    let hand = Hand::create(&store, "main", 0).await;
    let before = hand.view().await.session.seq;
    let (ready, _) = turn("only an example", 1);
    let told = Event::TurnCommitted { turn: Some(ready.under(None).id) };
    let rule = move |_: &SessionView, _: &Invocation| {
        Ok(Decision { events: vec![told.clone()], ..Decision::unchanged(()) })
    };
    hand.decide(1, vec![], rule).await.expect("an event");
    assert_eq!(hand.view().await.session.seq, before + 1, "what was answered with Ok is stored");
}

pub(crate) async fn every_event_gets_the_next_number(place: &impl Place) {
    let store = place.open().await;
    let hand = Hand::create(&store, "main", 0).await;
    let mut told = 1;
    hand.start("a task", 1).await;
    let observed = hand
        .observe(vec![note("one"), Entry::Plan { text: "two".to_owned() }], vec![], 2)
        .await
        .expect("steps");
    told += 1 + observed.events.len() as u64;
    told += hand.seal("done", 3).await.expect("sealed").events.len() as u64;
    assert_eq!(hand.view().await.session.seq, told);
}

pub(crate) async fn a_decision_of_many_megabytes_is_stored_whole(place: &impl Place) {
    let store = place.open().await;
    let hand = Hand::create(&store, "main", 0).await;
    let task = hand.start("a task", 1).await;
    let contents: Vec<Vec<u8>> = (0..3).map(|n| text_of(100 + n, 3 << 20)).collect();
    let split: Vec<(Content, Option<Named>)> =
        contents.iter().cloned().map(Content::split).collect();
    let write =
        |n: usize| Entry::FileWrite { path: format!("{n}.bin"), content: Some(split[n].0.clone()) };
    let objects = split.iter().filter_map(|(_, blob)| blob.clone()).collect();
    hand.observe(vec![write(0), write(1), write(2), note("all of it")], objects, 2)
        .await
        .expect("stored");

    assert_eq!(hand.chain(task).await.len(), 3);
    for (content, bytes) in split.iter().zip(&contents) {
        let id = content.0.blob().expect("a blob").0;
        assert_eq!(&store.object(id).await.expect("readable").expect("stored").bytes, bytes);
    }
    assert_eq!(verify(&store).await.findings, []);
}
