//! Exchange of sessions between two stores: what moves, what becomes a branch, and peers that lie.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use ctx_core::bundle::{self, Manifest};
use ctx_core::exchange::{PartRequest, PathQuery, Placement, SessionHead, TaskMark};
use ctx_core::id::{BlobId, MessageId, SessionId, TaskId, TurnId};
use ctx_core::message::{Message, Part, Role};
use ctx_core::object::{Kind, Named, Object};
use ctx_core::session::Origin;
use ctx_core::time::Timestamp;
use ctx_core::turn::About;
use ctx_engine::exchange::{
    LocalPeer, PartStored, Peer, PeerError, Selection, TransferReport, transfer,
};
use ctx_engine::{Engine, NewTurn, Options};
use ulid::Ulid;

use crate::harness::TestStore;

/// A store, its engine, and its engine as a peer.
struct Machine {
    engine: Engine,
    peer: LocalPeer,
    _store: TestStore,
}

impl Machine {
    fn new() -> Self {
        let store = TestStore::new();
        let engine = Engine::open(store.location(), Options::default()).expect("an engine");
        let peer = LocalPeer::new(engine.clone(), |_| None);
        Self { engine, peer, _store: store }
    }

    /// A store with a session of some turns.
    async fn with_turns(label: &str, count: usize) -> Self {
        let machine = Self::new();
        machine.engine.sessions().create_idle(label, Origin::Cli).await.expect("a session");
        for n in 0..count {
            machine.say(label, &format!("turn {n}")).await;
        }
        machine
    }

    async fn head(&self, label: &str) -> Option<TurnId> {
        self.engine.sessions().get(label).await.expect("a session").session.head
    }

    async fn say(&self, label: &str, text: &str) {
        self.add(label, Part::Text { text: text.to_owned() }, Vec::new()).await;
    }

    async fn say_with_blob(&self, label: &str, bytes: Vec<u8>) {
        let (size, blob) = (bytes.len() as u64, Object::blob(bytes));
        let image = Part::Image {
            media_type: "image/png".into(),
            blob: BlobId(blob.id()),
            bytes: Some(size),
        };
        self.add(label, image, vec![Named::from(blob)]).await;
    }

    async fn add(&self, label: &str, part: Part, blobs: Vec<Named>) {
        let message = Message {
            id: MessageId(Ulid::new()),
            role: Role::User,
            source: None,
            content: vec![part],
            created_at: Timestamp(1),
        };
        let turn = NewTurn { about: About::at(Timestamp(1)), messages: vec![message], blobs };
        let head = self.head(label).await;
        self.engine.messages().append_turn(label, head, turn).await.expect("a turn");
    }

    /// The labels with their numbers of turns, sorted.
    async fn sessions(&self) -> Vec<(String, u64)> {
        let heads = self.peer.heads().await.expect("heads").into_iter();
        let mut sessions: Vec<_> = heads.map(|row| (row.label, row.turns)).collect();
        sessions.sort();
        sessions
    }

    async fn assert_whole(&self) {
        let report = self.engine.maintenance().verify(false, &|_, _| {}).await.expect("a report");
        assert!(report.findings.is_empty(), "{:?}", report.findings);
    }
}

async fn send(from: &dyn Peer, to: &dyn Peer) -> TransferReport {
    transfer(from, to, &Selection::All, &|_, _| {}).await.expect("a transfer")
}

/// Number of turns that were sent, and of sessions that diverged.
fn counts(report: &TransferReport) -> (u64, usize) {
    let turns = report.moved.iter().map(|moved| moved.turns).sum();
    (turns, report.moved.iter().filter(|moved| moved.branch_of.is_some()).count())
}

/// Counts the bytes of the parts that pass through it, and may change them.
struct Middle<'a, F> {
    peer: &'a dyn Peer,
    bytes: AtomicUsize,
    change: F,
}

impl<'a, F: Fn(Vec<u8>) -> Vec<u8> + Send + Sync> Middle<'a, F> {
    fn new(peer: &'a dyn Peer, change: F) -> Self {
        Self { peer, bytes: AtomicUsize::new(0), change }
    }
}

#[async_trait]
impl<F: Fn(Vec<u8>) -> Vec<u8> + Send + Sync> Peer for Middle<'_, F> {
    async fn heads(&self) -> Result<Vec<SessionHead>, PeerError> {
        self.peer.heads().await
    }

    async fn paths(&self, queries: &[PathQuery]) -> Result<Vec<Vec<Option<TurnId>>>, PeerError> {
        self.peer.paths(queries).await
    }

    async fn have(&self, turns: &[TurnId]) -> Result<Vec<bool>, PeerError> {
        self.peer.have(turns).await
    }

    async fn tasks(&self, sessions: &[SessionId]) -> Result<Vec<Vec<TaskMark>>, PeerError> {
        self.peer.tasks(sessions).await
    }

    async fn task_marks(&self, tasks: &[TaskId]) -> Result<Vec<Option<TaskMark>>, PeerError> {
        self.peer.task_marks(tasks).await
    }

    async fn read(&self, requests: &[PartRequest]) -> Result<Vec<Vec<u8>>, PeerError> {
        let parts = self.peer.read(requests).await?;
        self.bytes.fetch_add(parts.iter().map(Vec::len).sum(), Ordering::Relaxed);
        Ok(parts.into_iter().map(&self.change).collect())
    }

    async fn write(
        &self,
        parts: &[(Placement, Vec<u8>)],
    ) -> Result<Vec<Result<PartStored, PeerError>>, PeerError> {
        self.peer.write(parts).await
    }
}

#[tokio::test]
async fn only_missing_turns_are_sent_and_a_session_that_is_behind_is_extended() {
    let (here, there) = (Machine::with_turns("talk", 3).await, Machine::new());
    assert_eq!(counts(&send(&here.peer, &there.peer).await), (3, 0));
    assert_eq!(there.head("talk").await, here.head("talk").await);
    let again = send(&here.peer, &there.peer).await;
    assert_eq!((again.moved.len(), again.unchanged), (0, 1));
    here.say("talk", "more").await;
    assert_eq!(counts(&send(&here.peer, &there.peer).await), (1, 0));
    there.say("talk", "there").await;
    assert_eq!(counts(&send(&here.peer, &there.peer).await), (0, 0), "the target is ahead");
    assert_eq!(counts(&send(&there.peer, &here.peer).await), (1, 0));
    assert_eq!(there.sessions().await, here.sessions().await);
    there.assert_whole().await;
}

#[tokio::test]
async fn diverged_sessions_become_two_branches_on_both_sides_and_stay_two() {
    let (a, b) = (Machine::with_turns("talk", 2).await, Machine::new());
    send(&a.peer, &b.peer).await;
    a.say("talk", "of a").await;
    b.say("talk", "of b").await;
    let (head_a, head_b) = (a.head("talk").await, b.head("talk").await);
    let pulled = send(&b.peer, &a.peer).await;
    assert_eq!(counts(&pulled), (1, 1));
    let branch = pulled.moved[0].label.clone();
    assert!(branch.starts_with("talk~"), "{branch}");
    assert_eq!((a.head("talk").await, a.head(&branch).await), (head_a, head_b));
    let pushed = send(&a.peer, &b.peer).await;
    assert_eq!(counts(&pushed), (1, 1));
    assert_eq!(b.head("talk").await, head_b, "nothing is overwritten");
    for _ in 0..2 {
        assert_eq!(counts(&send(&b.peer, &a.peer).await), (0, 0));
        assert_eq!(counts(&send(&a.peer, &b.peer).await), (0, 0));
    }
    // Both continue; the branches follow and no third session appears.
    a.say("talk", "more of a").await;
    b.say("talk", "more of b").await;
    assert_eq!(counts(&send(&b.peer, &a.peer).await), (1, 1));
    assert_eq!(counts(&send(&a.peer, &b.peer).await), (1, 1));
    assert_eq!((a.sessions().await.len(), b.sessions().await.len()), (2, 2));
    assert_eq!(a.head(&branch).await, b.head("talk").await);
    a.assert_whole().await;
    b.assert_whole().await;
}

#[tokio::test]
async fn a_branch_that_diverges_again_becomes_a_session_of_its_own() {
    let (a, b) = (Machine::with_turns("talk", 1).await, Machine::new());
    send(&a.peer, &b.peer).await;
    a.say("talk", "of a").await;
    b.say("talk", "of b").await;
    let branch = send(&a.peer, &b.peer).await.moved[0].label.clone();
    b.say(&branch, "b continues the branch of a").await;
    a.say("talk", "a continues").await;
    assert_eq!(counts(&send(&a.peer, &b.peer).await), (1, 1));
    assert_eq!(b.sessions().await.len(), 3);
    send(&b.peer, &a.peer).await;
    for _ in 0..2 {
        assert_eq!(counts(&send(&a.peer, &b.peer).await), (0, 0));
        assert_eq!(counts(&send(&b.peer, &a.peer).await), (0, 0));
    }
    a.assert_whole().await;
    b.assert_whole().await;
}

#[tokio::test]
async fn a_fork_is_sent_without_the_turns_that_it_shares() {
    let (here, there) = (Machine::with_turns("talk", 5).await, Machine::new());
    let turn = here.head("talk").await.expect("a turn");
    here.engine.sessions().fork("talk", turn, Some("fork")).await.expect("a fork");
    here.say("fork", "only in the fork").await;
    let middle = Middle::new(&here.peer, |part| part);
    let report = send(&middle, &there.peer).await;
    assert_eq!(counts(&report), (6, 0), "{report:?}");
    assert_eq!(there.sessions().await, [("fork".to_owned(), 6), ("talk".to_owned(), 5)]);
    there.assert_whole().await;
}

#[tokio::test]
async fn a_label_in_use_by_another_session_is_not_taken_over() {
    let (here, there) =
        (Machine::with_turns("talk", 1).await, Machine::with_turns("talk", 2).await);
    let report = send(&here.peer, &there.peer).await;
    assert_eq!(counts(&report), (1, 0));
    let label = &report.moved[0].label;
    assert!(label.starts_with("talk~"), "{label}");
    assert_eq!(there.sessions().await.len(), 2);
    assert_eq!(counts(&send(&here.peer, &there.peer).await), (0, 0));
}

#[tokio::test]
async fn a_long_session_arrives_in_parts_and_continues_after_a_cut() {
    let here = Machine::with_turns("talk", 2).await;
    for n in 0..5_u8 {
        // Not compressible, and larger than a part together.
        let noise = ctx_core::id::ObjectId::of(&[&[n]]);
        let bytes = noise.as_bytes().repeat(50_000);
        here.say_with_blob("talk", bytes).await;
    }
    let there = Machine::new();
    // The connection is cut off after the first part.
    let calls = AtomicUsize::new(0);
    let cut = Middle::new(&here.peer, |part: Vec<u8>| {
        let is_first = calls.fetch_add(1, Ordering::Relaxed) == 0;
        if is_first { part } else { part[..part.len() / 2].to_vec() }
    });
    let error = transfer(&cut, &there.peer, &Selection::All, &|_, _| {}).await;
    assert_eq!(error.expect_err("it was cut off").code, "bundle_damaged");
    let stored = there.sessions().await[0].1;
    assert!(stored > 0 && stored < 7, "{stored} turns");
    there.assert_whole().await;
    let rest = Middle::new(&here.peer, |part| part);
    assert_eq!(counts(&send(&rest, &there.peer).await), (7 - stored, 0));
    assert_eq!(there.head("talk").await, here.head("talk").await);
    there.assert_whole().await;
}

#[tokio::test]
async fn tasks_and_their_commits_move_with_their_session() {
    // R115, R116
    let (here, there) = (Machine::with_turns("main", 1).await, Machine::new());
    let mut work = here.engine.tasks().recorder("main").await.expect("a recorder");
    work.start("Add retries").await.expect("a task");
    work.observe_file_write("a.rs", vec![b'x'; 9000]);
    work.done("Retries five times").await.expect("done");
    work.confirm().await.expect("sealed");
    work.start("Write the docs").await.expect("a second task");
    let report = send(&here.peer, &there.peer).await;
    assert_eq!(report.moved.iter().map(|moved| moved.tasks).sum::<usize>(), 2, "{report:?}");
    assert_eq!(send(&here.peer, &there.peer).await.moved, []);
    work.observe_note("a note");
    work.flush().await.expect("a step");
    let report = send(&here.peer, &there.peer).await;
    assert_eq!(report.moved.iter().map(|moved| moved.tasks).sum::<usize>(), 1, "{report:?}");
    let recorder = there.engine.tasks().recorder("main").await.expect("a recorder");
    assert_eq!(recorder.task().await.expect("read").expect("open").description, "Write the docs");
    there.assert_whole().await;
}

#[tokio::test]
async fn a_peer_that_lies_about_hashes_changes_nothing() {
    let here = Machine::with_turns("talk", 3).await;
    here.say_with_blob("talk", vec![7; 10_000]).await;
    let rewritten = |change: fn(&mut Vec<Object>)| {
        move |part: Vec<u8>| {
            let (manifest, mut objects) = bundle::read(&part).expect("a part");
            change(&mut objects);
            bundle::write(&manifest, &objects)
        }
    };
    // A changed object gets another id, so the part no longer fits its manifest or lacks something.
    let lies: [fn(&mut Vec<Object>); 5] = [
        |objects| {
            let body = objects.iter_mut().find(|object| object.kind == Kind::TurnBody);
            let body = body.expect("a body");
            body.bytes = String::from_utf8_lossy(&body.bytes).replace("turn 0", "turn 9").into();
        },
        |objects| {
            let turn = objects.iter_mut().rfind(|object| object.kind == Kind::Turn);
            turn.expect("a turn").bytes.push(b' ');
        },
        |objects| {
            let first = objects.iter().position(|object| object.kind == Kind::Turn);
            objects.remove(first.expect("a turn"));
        },
        |objects| objects.retain(|object| object.kind != Kind::Blob),
        |objects| objects.reverse(),
    ];
    for (at, lie) in lies.into_iter().enumerate() {
        let there = Machine::new();
        let liar = Middle::new(&here.peer, rewritten(lie));
        let result = transfer(&liar, &there.peer, &Selection::All, &|_, _| {}).await;
        if at == 0 {
            // The body that the header names is missing, like one that was purged.
            if let Ok(report) = &result {
                assert_eq!(report.moved.len(), 1);
                there.assert_whole().await;
                continue;
            }
        }
        assert!(result.is_err(), "lie {at}: {result:?}");
        assert_eq!(there.sessions().await, [], "lie {at}");
        there.assert_whole().await;
    }
    // The bytes of an object under the id of another one.
    let there = Machine::new();
    let liar = Middle::new(&here.peer, |part: Vec<u8>| {
        let mut part = part;
        let at = part.windows(6).position(|bytes| bytes == b"turn 0").expect("a text");
        part[at + 5] = b'9';
        part
    });
    let result = transfer(&liar, &there.peer, &Selection::All, &|_, _| {}).await;
    assert_eq!(result.expect_err("a wrong hash").code, "bundle_damaged");
    assert_eq!(there.sessions().await, []);
}

#[tokio::test]
async fn a_part_that_was_not_asked_for_is_refused() {
    let (here, other) =
        (Machine::with_turns("talk", 3).await, Machine::with_turns("other", 3).await);
    let row = other.peer.heads().await.expect("heads").remove(0);
    let request = PartRequest { session: row.session, head: row.head, after: None, tasks: vec![] };
    let foreign = other.peer.read(&[request]).await.expect("a part").remove(0);
    let there = Machine::new();
    let liar = Middle::new(&here.peer, move |_| foreign.clone());
    let result = transfer(&liar, &there.peer, &Selection::All, &|_, _| {}).await;
    assert_eq!(result.expect_err("another session").code, "remote_protocol");
    // More turns than were announced, and a base that is not stored.
    let changes: [fn(&mut bundle::SessionPart); 3] = [
        |part| part.session.turn_count += 1,
        |part| part.base_turns = 1,
        |part| part.base = part.session.head,
    ];
    for change in changes {
        let liar = Middle::new(&here.peer, move |part: Vec<u8>| {
            let (manifest, objects) = bundle::read(&part).expect("a part");
            let Manifest::Part(mut part) = manifest else { panic!("a part") };
            change(&mut part);
            bundle::write(&Manifest::Part(part), &objects)
        });
        let result = transfer(&liar, &there.peer, &Selection::All, &|_, _| {}).await;
        assert!(result.is_err(), "{result:?}");
        assert_eq!(there.sessions().await, []);
    }
}

#[tokio::test]
async fn a_named_session_is_exchanged_alone() {
    let (here, there) = (Machine::with_turns("one", 1).await, Machine::new());
    here.engine.sessions().create_idle("two", Origin::Cli).await.expect("a session");
    let named = |name: &str| Selection::Named(vec![name.to_owned()]);
    let report = transfer(&here.peer, &there.peer, &named("one"), &|_, _| {}).await;
    assert_eq!(report.expect("a transfer").moved.len(), 1);
    assert_eq!(there.sessions().await, [("one".to_owned(), 1)]);
    let missing = transfer(&here.peer, &there.peer, &named("three"), &|_, _| {}).await;
    assert_eq!(missing.expect_err("unknown").code, "no_session");
}
