//! Turns: only who knows the head moves it, and forks share what came before.

use std::collections::{HashMap, HashSet};

use ctx_core::decide;
use ctx_core::id::TurnId;
use ctx_core::object::Object;
use ctx_core::refusal::Refusal;
use ctx_core::session::{New, Origin};
use ctx_store::{Error, StoredTurn};
use tokio::task::JoinSet;

use crate::Place;
use crate::hand::{Hand, at, label, make, new_session, turn, verify};

/// What one message of a turn said.
fn words(stored: &StoredTurn) -> String {
    let said = stored.messages().expect("a body").expect("not purged");
    said[0].content[0].words().expect("words").to_owned()
}

pub(crate) async fn a_turn_reads_back_as_it_was_said(place: &impl Place) {
    let store = place.open().await;
    let hand = Hand::create(&store, "main", 0).await;
    let (ready, body) = turn("Grüße,\n\"世界\" \\ \u{1F600}", 7);
    let record = ready.under(None);
    hand.decide(7, vec![body.clone()], move |view, _| decide::append_turn(view, None, &ready))
        .await
        .expect("the first turn");

    let turns = store.turns(record.id, 10).await.expect("turns");
    let header = record.object.decode().expect("a header");
    assert_eq!(
        turns,
        [StoredTurn {
            id: record.id,
            depth: 1,
            header,
            body: Some(body.into_object()),
            compaction: None
        }]
    );
    assert_eq!(words(&turns[0]), "Grüße,\n\"世界\" \\ \u{1F600}");
    let session = hand.view().await.session;
    assert_eq!(
        (session.head, session.turn_count, session.last_activity_at),
        (Some(record.id), 1, at(7))
    );
}

pub(crate) async fn a_turn_under_a_head_that_moved_is_refused(place: &impl Place) {
    let store = place.open().await;
    let hand = Hand::create(&store, "main", 0).await;
    let first = hand.append(None, "first", 1).await.expect("an empty session");
    let second = hand.append(Some(first), "second", 2).await.expect("the head is known");
    for stale in [None, Some(first)] {
        let refused = hand.append(stale, "late", 3).await;
        assert!(matches!(refused, Err(Error::Refused(Refusal::StaleWriter))), "{refused:?}");
    }
    assert_eq!(hand.view().await.session.head, Some(second));
    assert_eq!(store.health().await.expect("health").turns, 2);
}

pub(crate) async fn of_fifty_appenders_no_two_get_the_same_parent(place: &impl Place) {
    let store = place.open().await;
    let hand = Hand::create(&store, "main", 0).await;
    let mut appenders = JoinSet::new();
    for n in 0..50 {
        let hand = hand.clone();
        appenders.spawn(async move {
            loop {
                let head = hand.view().await.session.head;
                match hand.append(head, &format!("turn {n}"), n).await {
                    Err(Error::Refused(Refusal::StaleWriter)) => {}
                    added => return (head, added.expect("only a moved head is refused")),
                }
            }
        });
    }
    let child_of: HashMap<Option<TurnId>, TurnId> =
        appenders.join_all().await.into_iter().collect();
    assert_eq!(child_of.len(), 50, "fifty different parents");
    let session = hand.view().await.session;
    let turns = store.turns(session.head.expect("a head"), 100).await.expect("turns");
    assert_eq!((turns.len(), session.turn_count), (50, 50));
    assert!(turns.iter().all(|stored| child_of.get(&stored.header.parent) == Some(&stored.id)));
    assert_eq!(turns.iter().map(words).collect::<HashSet<_>>().len(), 50);
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn turns_are_walked_from_the_newest_and_no_further_than_asked(place: &impl Place) {
    let store = place.open().await;
    let hand = Hand::create(&store, "main", 0).await;
    let mut ids = Vec::new();
    for n in 0..10 {
        ids.insert(0, hand.say(&format!("turn {n}"), n).await);
    }
    let walked = async |head, limit| -> Vec<TurnId> {
        store.turns(head, limit).await.expect("turns").iter().map(|stored| stored.id).collect()
    };
    assert_eq!(walked(ids[0], 100).await, ids);
    assert_eq!(walked(ids[0], 3).await, ids[..3]);
    assert_eq!(walked(ids[4], 2).await, ids[4..6], "from any turn");
    assert!(walked(ids[0], 0).await.is_empty());
    let depths: Vec<u64> =
        store.turns(ids[0], 100).await.expect("turns").iter().map(|stored| stored.depth).collect();
    assert_eq!(depths, (1..=10).rev().collect::<Vec<u64>>());
}

pub(crate) async fn an_unknown_head_is_not_found(place: &impl Place) {
    let store = place.open().await;
    Hand::create(&store, "main", 0).await.say("hello", 1).await;
    let unknown = TurnId(Object::blob(b"no turn".to_vec()).id());
    assert!(matches!(store.turns(unknown, 5).await, Err(Error::NotFound { what: "turn", .. })));
}

fn fork_at(turn: TurnId, depth: u64, label: &str, ms: i64) -> New {
    New { origin: Origin::Fork, head: Some(turn), turn_count: depth, ..new_session(label, ms) }
}

pub(crate) async fn a_fork_shares_every_turn_up_to_where_it_began(place: &impl Place) {
    let store = place.open().await;
    let main = Hand::create(&store, "main", 0).await;
    let first = main.say("first", 1).await;
    let second = main.say("second", 2).await;
    main.say("third", 3).await;
    make(&store, fork_at(second, 2, "fork", 4)).await.expect("the turn is known");
    assert_eq!(store.health().await.expect("health").turns, 3, "a fork copies nothing");

    let fork = Hand { store: store.clone(), target: label("fork") };
    let own = fork.say("another third", 5).await;
    let walked: Vec<TurnId> =
        store.turns(own, 10).await.expect("turns").iter().map(|stored| stored.id).collect();
    assert_eq!(walked, [own, second, first]);
    assert_eq!(
        (fork.view().await.session.turn_count, main.view().await.session.turn_count),
        (3, 3)
    );
    assert_ne!(fork.view().await.session.head, main.view().await.session.head);
    store.settle().await.expect("settled");
    make(&store, fork_at(first, 1, "late fork", 6)).await.expect("an indexed turn is known too");
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn a_fork_of_an_unknown_turn_is_not_made(place: &impl Place) {
    let store = place.open().await;
    let unknown = TurnId(Object::blob(b"no turn".to_vec()).id());
    let failed = make(&store, fork_at(unknown, 1, "fork", 1)).await;
    assert!(matches!(failed, Err(Error::NotFound { what: "turn", .. })), "{failed:?}");
    assert!(
        store.sessions(&ctx_store::SessionQuery::newest(10)).await.expect("sessions").is_empty()
    );
}

pub(crate) async fn the_turns_since_a_task_began_are_counted(place: &impl Place) {
    let store = place.open().await;
    let hand = Hand::create(&store, "main", 0).await;
    hand.say("before", 1).await;
    hand.start("a task", 2).await;
    assert_eq!((hand.view().await.first_turn, hand.view().await.turns_since), (None, 0));
    let first = hand.say("during", 3).await;
    let last = hand.say("still", 4).await;
    assert_eq!((hand.view().await.first_turn, hand.view().await.turns_since), (Some(first), 2));
    let sealed = hand.seal("done", 5).await.expect("sealed").reply.commit;
    let range = sealed.turns.expect("a conversation");
    assert_eq!((range.first, range.last, range.count), (first, last, 2));
}

pub(crate) async fn one_turn_in_two_sessions_is_one_object(place: &impl Place) {
    let store = place.open().await;
    let (one, two) = (Hand::create(&store, "one", 0).await, Hand::create(&store, "two", 0).await);
    let (ready, body) = turn("imported twice", 1);
    let id = ready.under(None).id;
    for hand in [one, two] {
        let ready = ready.clone();
        hand.decide(1, vec![body.clone()], move |view, _| decide::append_turn(view, None, &ready))
            .await
            .expect("appended");
        assert_eq!(hand.view().await.session.head, Some(id));
    }
    let found = store.resolve(&id.to_string()[..12], 10).await.expect("resolved");
    assert_eq!(found.len(), 1, "one id names one thing: {found:?}");
    assert_eq!(store.search("imported", 10).await.expect("searched").len(), 1);
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn lines_that_part_meet_where_they_did_however_deep(place: &impl Place) {
    // R182
    const DEEP: u64 = 10_000;
    let store = place.open().await;
    let hand = Hand::create(&store, "main", 0).await;
    let (ready, body) = turn("the same words each time", 1);
    let mut ids = Vec::new();
    for _ in 0..DEEP {
        ids.push(ready.under(ids.last().copied()).id);
    }
    let appended = move |_: &decide::SessionView, _: &decide::Invocation| {
        let mut parent = None;
        let changes = (0..DEEP).map(|_| {
            let record = ready.under(parent);
            parent = Some(record.id);
            decide::Change::AppendTurn(Box::new(record))
        });
        Ok(decide::Decision { changes: changes.collect(), ..decide::Decision::unchanged(()) })
    };
    hand.decide(1, vec![body], appended).await.expect("a long line");
    let near = fork_at(ids[9_989], 9_990, "near", 2);
    let far = fork_at(ids[4], 5, "far", 2);
    for fork in [near, far] {
        make(&store, fork).await.expect("a fork");
    }
    let (near, far) = (
        Hand { store: store.clone(), target: label("near") },
        Hand { store: store.clone(), target: label("far") },
    );
    let (near, far) = (near.say("another way", 3).await, far.say("far away", 3).await);
    let alone = Hand::create(&store, "alone", 4).await.say("nothing to do with it", 5).await;
    store.settle().await.expect("indexed");
    let head = *ids.last().expect("a head");
    let began = std::time::Instant::now();
    let table = [
        (head, near, Some(ids[9_989])),
        (near, far, Some(ids[4])),
        (far, ids[2], Some(ids[2])),
        (head, head, Some(head)),
        (near, alone, None),
    ];
    for (a, b, met) in table {
        assert_eq!(store.common_ancestor(a, b).await.expect("walked"), met);
        assert_eq!(store.common_ancestor(b, a).await.expect("walked"), met);
    }
    assert!(began.elapsed().as_secs() < 2, "ten walks took {:?}", began.elapsed());
}
