//! Backups: a consistent snapshot, taken while writers run.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ctx_core::time::Span;
use tokio::sync::mpsc;

use crate::StoreDir;
use crate::harness::{SessionWriter, StoreHandle, at, label, text_of, verify};

/// A backup in a directory of its own, opened like any store.
async fn restored(store: &StoreHandle) -> StoreDir {
    let store_dir = StoreDir::empty();
    store.copy_to(&store_dir.file("copy")).await.expect("copied");
    fs::rename(store_dir.file("copy"), store_dir.file("ctx.db")).expect("moved");
    store_dir
}

async fn populated(store_dir: &StoreDir) -> StoreHandle {
    let store = store_dir.open();
    let writer = SessionWriter::create(&store, "main", 0).await;
    writer.start("a task", 1).await;
    writer.write("a.rs", text_of(1, 9000), 2).await;
    writer.say("hello", 3).await;
    store
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_backup_beside_four_writers_has_every_acknowledged_write() {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    let stop = Arc::new(AtomicBool::new(false));
    let (told, mut acknowledged) = mpsc::unbounded_channel();
    let mut writers = tokio::task::JoinSet::new();
    for n in 0..4 {
        let writer = SessionWriter::create(&store, &format!("writer {n}"), 0).await;
        let (told, stop) = (told.clone(), stop.clone());
        let task = writer.start("a task", 1).await;
        writers.spawn(async move {
            for m in 0.. {
                writer.write("a.rs", text_of(n * 1_000_000 + m, 5000), 2).await;
                told.send((task, m + 2)).expect("the receiver is open");
                if stop.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
    }
    let mut before = std::collections::HashMap::new();
    for _ in 0..60 {
        let (task, steps) = acknowledged.recv().await.expect("writers write");
        before.insert(task, steps);
    }
    while let Ok((task, steps)) = acknowledged.try_recv() {
        before.insert(task, steps);
    }
    let copy = restored(&store).await;
    stop.store(true, Ordering::Relaxed);
    writers.join_all().await;

    let copied = copy.open();
    assert_eq!(verify(&copied).await.findings, []);
    for n in 0..4 {
        let writer = SessionWriter { store: copied.clone(), target: label(&format!("writer {n}")) };
        let task = writer.view().await.task.expect("open").id;
        let steps = writer.chain(task).await.len() as u64;
        assert!(
            steps >= before.get(&task).copied().unwrap_or(1),
            "writer {n}: {steps} of {before:?}"
        );
    }
    assert_eq!(verify(&store).await.findings, []);
}

#[tokio::test]
async fn a_backup_opens_as_a_store_of_its_own() {
    let store_dir = StoreDir::fresh();
    let store = populated(&store_dir).await;
    let copy = restored(&store).await;
    assert_eq!(
        fs::metadata(copy.file("ctx.db")).expect("a file").permissions().mode() & 0o777,
        0o600
    );
    let copied = copy.open();
    let (original, writer) = (
        SessionWriter { store, target: label("main") },
        SessionWriter { store: copied.clone(), target: label("main") },
    );
    assert_eq!(writer.view().await, original.view().await);
    writer.say("only here", 10).await;
    assert_eq!(copied.search("here", 10).await.expect("searched").len(), 1);
    assert_eq!(original.store.search("here", 10).await.expect("searched"), []);
    assert_eq!(copied.gc(at(1000), Span(0)).await.expect("collected").blobs_removed, 0);
    assert_eq!(verify(&copied).await.findings, []);
}

#[tokio::test]
async fn gc_works_in_a_backup_before_the_first_write() {
    let store_dir = StoreDir::fresh();
    let copy = restored(&populated(&store_dir).await).await;
    assert_eq!(copy.open().gc(at(1000), Span(0)).await.expect("collected").blobs_kept, 1);
}

#[tokio::test]
async fn a_backup_uses_the_write_ahead_log() {
    let store_dir = StoreDir::fresh();
    let copy = restored(&populated(&store_dir).await).await;
    let writer = SessionWriter { store: copy.open(), target: label("main") };
    writer.say("only here", 10).await;
    let mode: String =
        copy.sql().query_row("PRAGMA journal_mode", [], |row| row.get(0)).expect("a mode");
    assert_eq!(mode, "wal", "otherwise readers and writers block each other");
}

#[tokio::test]
async fn a_backup_never_replaces_a_file() {
    let store_dir = StoreDir::fresh();
    let store = populated(&store_dir).await;
    let elsewhere = StoreDir::empty();
    fs::write(elsewhere.file("taken"), "precious").expect("written");
    fs::create_dir(elsewhere.file("dir")).expect("made");
    for taken in ["taken", "dir"] {
        let refused = store.copy_to(&elsewhere.file(taken)).await;
        assert!(refused.is_err_and(|error| error.to_string().contains("exists")), "{taken}");
    }
    assert!(store.copy_to(&elsewhere.file("missing/copy")).await.is_err());
    assert_eq!(fs::read(elsewhere.file("taken")).expect("a file"), b"precious");
    let mut left: Vec<_> = fs::read_dir(elsewhere.0.path())
        .expect("listed")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["dir", "taken"], "no partial backup is left");
}
