//! Maintenance: verify, repair, gc and health of an intact store.

use std::sync::Mutex;

use ctx_core::decide;
use ctx_core::id::BlobId;
use ctx_core::message::{Message, Part};
use ctx_core::object::Object;
use ctx_core::time::Span;
use ctx_core::turn::{About, Ready};
use ctx_store::GcReport;
use tokio::task::JoinSet;

use crate::Backend;
use crate::harness::{PROJECT, SessionWriter, at, message, note, text_of, verify};

/// Writes objects of every kind; returns the blobs.
async fn some_of_everything(backend: &impl Backend) -> Vec<Object> {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let mut blobs: Vec<Object> =
        (0..6).map(|n| Object::blob(text_of(n, 4096 + 1000 * n as usize))).collect();
    writer.start("a task", 1).await;
    for blob in &blobs {
        writer.write("file.rs", blob.bytes.clone(), 2).await;
    }
    writer.seal("done", 3).await.expect("sealed");
    writer.start("another", 4).await;
    writer.write("staged.rs", text_of(50, 5000), 5).await;
    blobs.push(Object::blob(text_of(50, 5000)));
    let picture = Object::blob(text_of(60, 8000));
    let part =
        Part::Image { media_type: "image/png".to_owned(), blob: BlobId(picture.id()), bytes: None };
    let shown = Message { content: vec![part], ..message("", 6) };
    let (ready, body) = Ready::new(About::at(at(6)), vec![shown]);
    writer
        .decide(6, vec![body, picture.clone().into()], move |view, _| {
            decide::append_turn(view, None, &ready)
        })
        .await
        .expect("appended");
    blobs.push(picture);
    SessionWriter::create(&store, "empty", 7).await;
    blobs
}

pub(crate) async fn verify_finds_nothing_in_an_intact_store(backend: &impl Backend) {
    let store = backend.open().await;
    assert_eq!(verify(&store).await.findings, [], "an empty store");
    let blobs = some_of_everything(backend).await;
    let told = Mutex::new(Vec::new());
    let report = store
        .verify(false, &|done, of| told.lock().expect("no panic").push((done, of)))
        .await
        .expect("verified");
    assert_eq!((&report.findings, &report.repaired), (&vec![], &vec![]));
    assert_eq!((report.sessions, report.tasks, report.commits, report.turns), (2, 2, 1, 1));
    assert_eq!(report.blobs, blobs.len() as u64);
    assert_eq!(report.steps, store.counts().await.steps);
    assert!(report.bytes > blobs.iter().map(|blob| blob.bytes.len() as u64).sum());
    let told = told.into_inner().expect("no panic");
    assert!(
        told.iter().all(|(done, of)| done <= of)
            && told.last().is_some_and(|(done, of)| done == of)
    );
}

pub(crate) async fn repairing_an_intact_store_changes_nothing(backend: &impl Backend) {
    let blobs = some_of_everything(backend).await;
    let store = backend.open().await;
    let sessions = store.sessions(&ctx_store::SessionQuery::newest(10)).await.expect("sessions");
    let report = store.verify(true, &|_, _| {}).await.expect("repaired");
    assert_eq!(report.findings, []);
    assert_eq!(
        store.sessions(&ctx_store::SessionQuery::newest(10)).await.expect("sessions"),
        sessions
    );
    assert!(store.object(blobs[0].id()).await.expect("readable").is_some());
    store.catch_up().await;
    assert_eq!(store.search("another", 10).await.expect("searched").len(), 1);
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn verify_finds_nothing_while_writers_run(backend: &impl Backend) {
    let store = backend.open().await;
    let mut writers = JoinSet::new();
    for n in 0..4 {
        let store = store.clone();
        writers.spawn(async move {
            let writer = SessionWriter::create(&store, &format!("session {n}"), n).await;
            for m in 0..20 {
                writer.start("a task", m).await;
                writer.observe(vec![note("one")], vec![], m).await.expect("observed");
                writer.say("hello", m).await;
                writer.seal("done", m).await.expect("sealed");
            }
        });
    }
    let looker = backend.open().await;
    let mut looks = 0;
    while !writers.is_empty() {
        assert_eq!(verify(&looker).await.findings, []);
        looks += 1;
        while writers.try_join_next().is_some_and(|joined| joined.is_ok()) {}
    }
    assert!(looks > 1, "verify ran while writers ran");
}

pub(crate) async fn gc_removes_no_referenced_blob(backend: &impl Backend) {
    let blobs = some_of_everything(backend).await;
    let store = backend.open().await;
    let kept = GcReport { blobs_kept: blobs.len() as u64, blobs_removed: 0, bytes_removed: 0 };
    for grace in [Span(0), Span::hours(1)] {
        assert_eq!(store.gc(at(1_000_000_000), grace).await.expect("collected"), kept);
    }
    for blob in &blobs {
        assert_eq!(store.object(blob.id()).await.expect("readable").as_ref(), Some(blob));
    }
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn health_counts_every_kind(backend: &impl Backend) {
    let blobs = some_of_everything(backend).await;
    let store = backend.open().await;
    assert_eq!(store.project(), PROJECT);
    let counts = store.counts().await;
    assert_eq!(
        (counts.sessions, counts.turns, counts.commits, counts.blobs),
        (2, 1, 1, blobs.len() as u64)
    );
    assert_eq!(counts.steps, verify(&store).await.steps);
    store.catch_up().await;
    assert_eq!(store.counts().await, counts, "indexing changes no count");
}
