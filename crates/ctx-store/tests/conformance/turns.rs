//! Turns: appended under the expected head only, and shared by forks.

use std::collections::{HashMap, HashSet};

use ctx_core::decide::{self, Needs, TurnNeed};
use ctx_core::id::TurnId;
use ctx_core::object::Object;
use ctx_core::refusal::Refusal;
use ctx_store::{Error, StoredTurn, TurnQuery};
use tokio::task::JoinSet;

use crate::Backend;
use crate::harness::{SessionWriter, StoreHandle, at, create, fork_at, turn, verify};

/// The text of the first message of a turn.
fn words(stored: &StoredTurn) -> String {
    let said = stored.messages().expect("a body").expect("not purged");
    said[0].content[0].searchable_text().expect("words").to_owned()
}

pub(crate) async fn a_turn_reads_back_as_written(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let (ready, body) = turn("Grüße,\n\"世界\" \\ \u{1F600}", 7);
    let record = ready.with_parent(None);
    writer
        .decide(7, vec![body.clone()], move |view, _| decide::append_turn(view, None, &ready))
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
    let session = writer.view().await.session;
    assert_eq!(
        (session.head, session.turn_count, session.last_activity_at),
        (Some(record.id), 1, at(7))
    );
}

pub(crate) async fn a_turn_under_a_head_that_moved_is_refused(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let first = writer.append(None, "first", 1).await.expect("an empty session");
    let second = writer.append(Some(first), "second", 2).await.expect("the head is known");
    for stale in [None, Some(first)] {
        let refused = writer.append(stale, "late", 3).await;
        assert!(matches!(refused, Err(Error::Refused(Refusal::StaleWriter))), "{refused:?}");
    }
    assert_eq!(writer.view().await.session.head, Some(second));
    assert_eq!(store.counts().await.turns, 2);
}

pub(crate) async fn fifty_concurrent_turns_form_one_chain(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let mut appenders = JoinSet::new();
    for n in 0..50 {
        let writer = writer.clone();
        appenders.spawn(async move {
            loop {
                let head = writer.view().await.session.head;
                match writer.append(head, &format!("turn {n}"), n).await {
                    Err(Error::Refused(Refusal::StaleWriter)) => {}
                    added => return (head, added.expect("only a moved head is refused")),
                }
            }
        });
    }
    let child_of: HashMap<Option<TurnId>, TurnId> =
        appenders.join_all().await.into_iter().collect();
    assert_eq!(child_of.len(), 50, "fifty different parents");
    let session = writer.view().await.session;
    let turns = store.turns(session.head.expect("a head"), 100).await.expect("turns");
    assert_eq!((turns.len(), session.turn_count), (50, 50));
    assert!(turns.iter().all(|stored| child_of.get(&stored.header.parent) == Some(&stored.id)));
    assert_eq!(turns.iter().map(words).collect::<HashSet<_>>().len(), 50);
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn turns_are_listed_newest_first_up_to_the_limit(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let mut ids = Vec::new();
    for n in 0..10 {
        ids.insert(0, writer.say(&format!("turn {n}"), n).await);
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

pub(crate) async fn an_unknown_head_is_not_found(backend: &impl Backend) {
    let store = backend.open().await;
    SessionWriter::create(&store, "main", 0).await.say("hello", 1).await;
    let unknown = TurnId(Object::blob(b"no turn".to_vec()).id());
    assert!(matches!(store.turns(unknown, 5).await, Err(Error::NotFound { what: "turn", .. })));
}

pub(crate) async fn a_fork_shares_its_ancestors_and_copies_nothing(backend: &impl Backend) {
    let store = backend.open().await;
    let main = SessionWriter::create(&store, "main", 0).await;
    let first = main.say("first", 1).await;
    let second = main.say("second", 2).await;
    main.say("third", 3).await;
    create(&store, fork_at(second, 2, "fork", 4)).await.expect("the turn is known");
    assert_eq!(store.counts().await.turns, 3, "a fork copies nothing");

    let fork = SessionWriter::of(&store, "fork");
    let own = fork.say("another third", 5).await;
    let walked: Vec<TurnId> =
        store.turns(own, 10).await.expect("turns").iter().map(|stored| stored.id).collect();
    assert_eq!(walked, [own, second, first]);
    assert_eq!(
        (fork.view().await.session.turn_count, main.view().await.session.turn_count),
        (3, 3)
    );
    assert_ne!(fork.view().await.session.head, main.view().await.session.head);
    store.catch_up().await;
    create(&store, fork_at(first, 1, "late fork", 6)).await.expect("an indexed turn is known too");
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn a_fork_of_an_unknown_turn_is_not_created(backend: &impl Backend) {
    let store = backend.open().await;
    let unknown = TurnId(Object::blob(b"no turn".to_vec()).id());
    let failed = create(&store, fork_at(unknown, 1, "fork", 1)).await;
    assert!(matches!(failed, Err(Error::NotFound { what: "turn", .. })), "{failed:?}");
    assert!(
        store.sessions(&ctx_store::SessionQuery::newest(10)).await.expect("sessions").is_empty()
    );
}

pub(crate) async fn the_turns_since_a_task_began_are_counted(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    writer.say("before", 1).await;
    writer.start("a task", 2).await;
    assert_eq!((writer.view().await.first_turn, writer.view().await.turns_since), (None, 0));
    let first = writer.say("during", 3).await;
    let last = writer.say("still", 4).await;
    assert_eq!((writer.view().await.first_turn, writer.view().await.turns_since), (Some(first), 2));
    let sealed = writer.seal("done", 5).await.expect("sealed").reply.commit;
    let range = sealed.turns.expect("a conversation");
    assert_eq!((range.first, range.last, range.count), (first, last, 2));
}

pub(crate) async fn one_turn_in_two_sessions_is_one_object(backend: &impl Backend) {
    let store = backend.open().await;
    let (one, two) = (
        SessionWriter::create(&store, "one", 0).await,
        SessionWriter::create(&store, "two", 0).await,
    );
    let (ready, body) = turn("imported twice", 1);
    let id = ready.with_parent(None).id;
    for writer in [one, two] {
        let ready = ready.clone();
        writer
            .decide(1, vec![body.clone()], move |view, _| decide::append_turn(view, None, &ready))
            .await
            .expect("appended");
        assert_eq!(writer.view().await.session.head, Some(id));
    }
    let found = store.resolve(&id.to_string()[..12], 10).await.expect("resolved");
    assert_eq!(found.len(), 1, "one id names one thing: {found:?}");
    store.catch_up().await;
    assert_eq!(store.search("imported", 10).await.expect("searched").len(), 1);
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn the_common_ancestor_is_found_at_any_depth(backend: &impl Backend) {
    // R182
    const DEEP: u64 = 10_000;
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let (ready, body) = turn("the same words each time", 1);
    let mut ids = Vec::new();
    for _ in 0..DEEP {
        ids.push(ready.with_parent(ids.last().copied()).id);
    }
    let appended = move |_: &decide::SessionView, _: &decide::Invocation| {
        let mut parent = None;
        let changes = (0..DEEP).map(|_| {
            let record = ready.with_parent(parent);
            parent = Some(record.id);
            decide::Change::AppendTurn(Box::new(record))
        });
        Ok(decide::Decision { changes: changes.collect(), ..decide::Decision::unchanged(()) })
    };
    writer.decide(1, vec![body], appended).await.expect("a long line");
    let near = fork_at(ids[9_989], 9_990, "near", 2);
    let far = fork_at(ids[4], 5, "far", 2);
    for fork in [near, far] {
        create(&store, fork).await.expect("a fork");
    }
    let (near, far) = (SessionWriter::of(&store, "near"), SessionWriter::of(&store, "far"));
    let (near, far) = (near.say("another way", 3).await, far.say("far away", 3).await);
    let alone =
        SessionWriter::create(&store, "alone", 4).await.say("nothing to do with it", 5).await;
    store.catch_up().await;
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
    assert!(began.elapsed().as_secs() < 10, "ten walks took {:?}", began.elapsed());
}

/// The words of a query's turns.
async fn read(store: &StoreHandle, query: TurnQuery) -> Vec<String> {
    let turns = store.query_turns(query).await.expect("turns");
    turns.iter().map(words).collect()
}

pub(crate) async fn a_long_path_between_other_turns_is_read_in_order(backend: &impl Backend) {
    // More than one batch, whose rows are consecutive at first and then alternate with others.
    const COUNT: usize = 300;
    let store = backend.open().await;
    let main = SessionWriter::create(&store, "main", 0).await;
    let other = SessionWriter::create(&store, "other", 0).await;
    let (mut expected, mut head) = (Vec::new(), None);
    for n in 0..COUNT {
        // Some bodies are read alone, most with their neighbours.
        let text = if n % 50 == 7 { "long ".repeat(40_000) } else { format!("turn {n}") };
        head = Some(main.say(&text, 1).await);
        expected.push(text);
        if n >= COUNT / 2 {
            other.say("between", 1).await;
        }
    }
    let query = TurnQuery::newest(head.expect("a head"), usize::MAX);
    assert_eq!(read(&store, TurnQuery { oldest_first: true, ..query }).await, expected);
    let ids = store.turn_ids(query.head, usize::MAX).await.expect("ids");
    let turns = store.turns(query.head, usize::MAX).await.expect("turns");
    assert_eq!(turns.iter().map(|turn| turn.id).collect::<Vec<_>>(), ids);
    expected.reverse();
    assert_eq!(read(&store, query).await, expected);
    let some = TurnQuery { limit: 70, from_depth: Some(200), ..query };
    assert_eq!(read(&store, some).await, expected[COUNT - 200..][..70]);
}

pub(crate) async fn a_read_ends_after_its_messages_or_bytes(backend: &impl Backend) {
    let store = backend.open().await;
    let main = SessionWriter::create(&store, "main", 0).await;
    let mut head = None;
    for n in 0..100 {
        head = Some(main.say(&format!("turn {n:03}"), 1).await);
    }
    let query = TurnQuery::newest(head.expect("a head"), 90);
    let size = store.turns(query.head, 1).await.expect("a turn")[0].body.clone();
    let size = size.expect("a body").bytes.len();
    for (max_messages, max_bytes, found) in [
        (usize::MAX, usize::MAX, 90),
        (0, usize::MAX, 0),
        (1, usize::MAX, 1),
        (70, usize::MAX, 70),
        (usize::MAX, 0, 1),
        (usize::MAX, size, 1),
        (usize::MAX, size * 2, 2),
        (usize::MAX, size * 80 - 1, 79),
    ] {
        let limited = TurnQuery { max_messages, max_bytes, ..query };
        let newest = read(&store, limited).await;
        assert_eq!(newest.len(), found, "{max_messages} messages, {max_bytes} bytes");
        let oldest = read(&store, TurnQuery { oldest_first: true, ..limited }).await;
        assert_eq!(oldest.len(), found, "{max_messages} messages, {max_bytes} bytes");
        if found > 0 {
            assert_eq!((newest[0].as_str(), oldest[0].as_str()), ("turn 099", "turn 010"));
        }
    }
}

pub(crate) async fn a_fork_point_is_any_turn_with_the_root_of_a_head(backend: &impl Backend) {
    // R181
    let store = backend.open().await;
    let main = SessionWriter::create(&store, "main", 0).await;
    let mut line = Vec::new();
    for n in 0..40 {
        line.push(main.say(&format!("turn {n}"), 1).await);
    }
    let left = main.say("on a branch that is left", 2).await;
    main.rewind(line[20], 3).await.expect("rewound");
    let fork = SessionWriter::create_as(&store, fork_at(line[30], 31, "fork", 4)).await;
    let own = fork.say("only in the fork", 5).await;
    let second = SessionWriter::create_as(&store, fork_at(own, 32, "second", 6)).await;
    let foreign = SessionWriter::create(&store, "foreign", 7).await.say("unrelated", 8).await;
    // Back before the first turn, and on with a second root.
    let moved = |_: &decide::SessionView, _: &decide::Invocation| {
        let back = decide::Change::MoveHead { turn: None, depth: 0 };
        Ok(decide::Decision { changes: vec![back], ..decide::Decision::unchanged(()) })
    };
    main.decide(9, Vec::new(), moved).await.expect("moved");
    let root = main.say("a second root", 10).await;
    let reachable = async |writer: &SessionWriter, turn: TurnId| {
        let needs = Needs { turn: Some(TurnNeed::ForkPoint(turn)), ..Needs::PINS };
        let view = store.view_of(writer.id().await, needs).await.expect("a view");
        view.turn.expect("its position").reachable
    };
    for turn in [line[0], line[20], line[39], left, own, root] {
        assert!(reachable(&main, turn).await, "{turn}");
    }
    for turn in [line[0], line[30], line[39], left, own] {
        assert!(reachable(&fork, turn).await && reachable(&second, turn).await, "{turn}");
    }
    assert!(!reachable(&fork, root).await && !reachable(&second, root).await);
    for writer in [&main, &fork, &second] {
        assert!(!reachable(writer, foreign).await);
    }
    verify(&store).await;
}
