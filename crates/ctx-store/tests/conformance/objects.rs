//! Objects: stored once, and found by their hash or a prefix of it.

use std::collections::HashSet;

use ctx_core::id::ObjectId;
use ctx_core::object::{Kind, Object};
use ctx_core::stored_content::Content;

use crate::Backend;
use crate::harness::{SessionWriter, file, label, text_of, verify};

const CONTENT_BYTES: usize = 5 * 1024;

pub(crate) async fn equal_content_is_stored_once(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    writer.start("a task", 1).await;
    let content = text_of(1, CONTENT_BYTES);
    for n in 0..10 {
        writer.write(&format!("{n}.rs"), content.clone(), 2 + n).await;
    }
    assert_eq!(store.counts().await.blobs, 1);
    store.catch_up().await;
    writer.write("after settling.rs", content.clone(), 20).await;
    assert_eq!(store.counts().await.blobs, 1);

    let other = SessionWriter::create(&backend.open().await, "other", 21).await;
    other.start("another task", 22).await;
    other.write("from elsewhere.rs", content.clone(), 23).await;
    drop((store, writer, other));
    let again = SessionWriter { store: backend.open().await, target: label("main") };
    again.write("after reopening.rs", content.clone(), 30).await;
    assert_eq!(again.store.counts().await.blobs, 1);
    let id = Object::blob(content.clone()).id();
    assert_eq!(again.store.object(id).await.expect("readable"), Some(Object::blob(content)));
    assert_eq!(verify(&again.store).await.findings, []);
}

pub(crate) async fn content_of_another_handle_is_not_stored_again(backend: &impl Backend) {
    let (one, two) = (backend.open().await, backend.open().await);
    let first = SessionWriter::create(&one, "main", 0).await;
    first.start("a task", 1).await;
    let second = first.through(&two);
    for n in 0..6 {
        let content = text_of(10 + n / 2, CONTENT_BYTES);
        let writer = if n % 2 == 0 { &first } else { &second };
        writer.write(&format!("{n}.rs"), content, 2 + n as i64).await;
    }
    assert_eq!(one.counts().await.blobs, 3);
}

pub(crate) async fn one_content_in_two_entries_of_a_step_is_stored_once(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    writer.start("a task", 1).await;
    let (one, objects) = file("one.rs", text_of(1, CONTENT_BYTES));
    let (two, again) = file("two.rs", text_of(1, CONTENT_BYTES));
    writer.observe(vec![one, two], [objects, again].concat(), 2).await.expect("observed");
    assert_eq!(store.counts().await.blobs, 1);
}

/// One object of each kind that is found by its hash.
async fn one_of_each(writer: &SessionWriter) -> Vec<(ObjectId, Kind)> {
    let turn = writer.say("hello", 1).await;
    let task = writer.start("a task", 2).await;
    let content = text_of(3, CONTENT_BYTES);
    writer.write("a.rs", content.clone(), 3).await;
    let step = writer.chain(task).await[1].id;
    let commit = writer.seal("done", 4).await.expect("sealed").reply.id;
    vec![
        (turn.0, Kind::Turn),
        (step.0, Kind::Step),
        (commit.0, Kind::Commit),
        (Object::blob(content).id(), Kind::Blob),
    ]
}

pub(crate) async fn every_kind_of_object_is_found_by_its_hash(backend: &impl Backend) {
    let store = backend.open().await;
    let all = one_of_each(&SessionWriter::create(&store, "main", 0).await).await;
    let unknown = Object::blob(b"never stored".to_vec()).id();
    for indexed in [false, true] {
        if indexed {
            store.catch_up().await;
        }
        for (id, kind) in &all {
            let object = store.object(*id).await.expect("readable").expect("stored");
            assert_eq!((object.kind, object.id()), (*kind, *id), "indexed: {indexed}");
        }
        assert_eq!(store.object(unknown).await.expect("a look"), None);
    }
    let other = backend.open().await;
    assert!(other.object(all[0].0).await.expect("readable").is_some());
}

pub(crate) async fn an_object_is_found_while_the_indexes_catch_up(backend: &impl Backend) {
    let (store, indexer) = (backend.open().await, backend.open().await);
    let writer = SessionWriter::create(&store, "main", 0).await;
    for n in 0..150 {
        let turn = writer.say(&format!("turn {n}"), n).await;
        let indexing = tokio::spawn({
            let indexer = indexer.clone();
            async move { indexer.catch_up().await }
        });
        while !indexing.is_finished() {
            assert!(store.object(turn.0).await.expect("readable").is_some(), "turn {n} is found");
        }
        indexing.await.expect("no panic");
    }
}

pub(crate) async fn an_unused_object_is_not_stored(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    writer.start("a task", 1).await;
    let stray = Object::blob(text_of(5, CONTENT_BYTES));
    writer.observe(vec![], vec![stray.clone().into()], 2).await.expect("nothing observed");
    assert_eq!(store.object(stray.id()).await.expect("a look"), None);
}

pub(crate) async fn a_unique_prefix_resolves_to_one_object(backend: &impl Backend) {
    let store = backend.open().await;
    let all = one_of_each(&SessionWriter::create(&store, "main", 0).await).await;
    for (id, kind) in &all {
        for digits in [12, 16, 17, 63, 64] {
            let found = store.resolve(&id.to_string()[..digits], 10).await.expect("resolved");
            assert_eq!(
                found.iter().map(|found| (found.id, found.kind)).collect::<Vec<_>>(),
                [(*id, *kind)],
                "{digits} digits"
            );
        }
    }
    for nothing in
        ["zz", "é", "-1", "+", " ", &"0".repeat(65), &all[0].0.to_string().to_uppercase()]
    {
        assert_eq!(store.resolve(nothing, 10).await.expect("no fault"), [], "{nothing}");
    }
}

pub(crate) async fn a_shared_prefix_resolves_to_every_match(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let task = writer.start("a task", 1).await;
    for n in 0..40 {
        writer.note(&format!("note {n}"), 2 + n).await;
    }
    let ids: HashSet<ObjectId> =
        writer.chain(task).await.iter().map(|stored| stored.id.0).collect();
    for digit in "0123456789abcdef".chars() {
        let expected: HashSet<ObjectId> =
            ids.iter().copied().filter(|id| id.to_string().starts_with(digit)).collect();
        let found = store.resolve(&digit.to_string(), 100).await.expect("resolved");
        assert_eq!(found.iter().map(|found| found.id).collect::<HashSet<_>>(), expected);
        assert_eq!(found.len(), expected.len());
    }
    assert_eq!(
        store.resolve("", 100).await.expect("resolved").len(),
        ids.len(),
        "an empty prefix matches everything"
    );
    assert_eq!(store.resolve("", 7).await.expect("resolved").len(), 7);
}

pub(crate) async fn a_limit_of_zero_resolves_nothing(backend: &impl Backend) {
    let store = backend.open().await;
    let all = one_of_each(&SessionWriter::create(&store, "main", 0).await).await;
    assert_eq!(store.resolve(&all[0].0.to_string(), 0).await.expect("resolved"), []);
}

pub(crate) async fn binary_content_reads_back_byte_for_byte(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    writer.start("a task", 1).await;
    for (n, bytes) in [vec![0xff; 5], (0..=255).collect(), vec![0; 1 << 20], b"\0".to_vec()]
        .into_iter()
        .enumerate()
    {
        let id = Content::split(bytes.clone()).0.blob().expect("a blob").0;
        writer.write(&format!("{n}.bin"), bytes.clone(), 2).await;
        assert_eq!(store.object(id).await.expect("readable").expect("stored").bytes, bytes);
    }
}
