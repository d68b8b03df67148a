//! Backups of a store with segment files: one database file that includes all of them.

use std::fs;

use ctx_core::object::Object;

use crate::StoreDir;
use crate::garbage_collection::{NO_GRACE, remove_rows};
use crate::harness::{SessionWriter, StoreHandle, at, text_of, verify};
use crate::write_groups::{
    GROUP_SIZE, TurnWrite, WrittenTurn, assert_reads_back, sessions, write_concurrently,
    write_group,
};

/// A backup in a directory of its own.
async fn copied(store: &StoreHandle) -> StoreDir {
    let store_dir = StoreDir::empty();
    store.copy_to(&store_dir.file("ctx.db")).await.expect("copied");
    let names: Vec<_> = fs::read_dir(store_dir.0.path())
        .expect("listed")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(names, ["ctx.db"], "a backup is one file");
    store_dir
}

/// Two groups of writes in two segment files, and one body in the database.
async fn populated(store_dir: &StoreDir) -> (StoreHandle, Vec<WrittenTurn>) {
    let (store, other) = (store_dir.open(), store_dir.open());
    let mut written = write_group(&store, "one", 1).await;
    written.extend(write_group(&other, "two", 2).await);
    assert_eq!(store_dir.segments(), ["1", "2"]);
    let writer = SessionWriter::create(&store, "alone", 0).await;
    let alone = TurnWrite {
        writer,
        under: None,
        words: "alone".to_owned(),
        pictures: vec![Object::blob(text_of(77, 9000))],
    };
    written.push(alone.say().await.expect("written"));
    (store, written)
}

#[tokio::test]
async fn a_backup_includes_segment_files_and_continues_in_a_new_one() {
    let store_dir = StoreDir::fresh();
    let (store, mut written) = populated(&store_dir).await;
    let copy = copied(&store).await;
    let there = copy.open();
    assert_reads_back(&there, &written).await;
    assert_eq!(verify(&there).await.findings, []);
    written.extend(write_group(&there, "three", 3).await);
    assert_eq!(copy.segments(), ["3"], "the first two are in the database");
    assert_eq!(copy.number("SELECT COUNT(*) FROM turns WHERE seg = 3"), GROUP_SIZE as i64);
    assert_reads_back(&there, &written).await;
    let second = copied(&there).await;
    assert_reads_back(&second.open(), &written).await;
    assert_eq!(verify(&second.open()).await.findings, []);
    written.extend(write_group(&second.open(), "four", 4).await);
    assert_eq!(second.segments(), ["4"]);
    assert_reads_back(&second.open(), &written).await;
    assert_eq!(verify(&second.open()).await.findings, []);
}

#[tokio::test]
async fn removed_blobs_of_a_backup_are_erased_at_once() {
    let store_dir = StoreDir::fresh();
    let (store, mut written) = populated(&store_dir).await;
    let copy = copied(&store).await;
    let there = copy.open();
    let picture = written[0].pictures[0].clone();
    remove_rows(&copy, "one 0");
    remove_rows(&copy, "one 1");
    written.drain(..2);
    assert_eq!(there.gc(at(1000), NO_GRACE).await.expect("collected").blobs_removed, 1);
    assert_eq!(there.object(picture.id()).await.expect("a look"), None);
    assert_eq!(copy.number("SELECT COUNT(*) FROM erasures"), 0, "no erasure is pending");
    assert_reads_back(&there, &written).await;
    assert_eq!(verify(&there).await.findings, []);
    assert_eq!(
        store.object(picture.id()).await.expect("readable"),
        Some(picture),
        "the original still has it"
    );
}

#[tokio::test]
async fn a_backup_restored_beside_old_segment_files_continues_in_a_new_one() {
    let store_dir = StoreDir::fresh();
    let (store, mut written) = populated(&store_dir).await;
    let copy = copied(&store).await;
    drop(store);
    for name in ["ctx.db-wal", "ctx.db-shm", "search.db", "search.db-wal", "search.db-shm"] {
        let _ = fs::remove_file(store_dir.file(name));
    }
    fs::copy(copy.file("ctx.db"), store_dir.file("ctx.db")).expect("put back");
    let store = store_dir.open();
    assert_reads_back(&store, &written).await;
    written.extend(write_group(&store, "three", 3).await);
    assert_eq!(
        store_dir.number("SELECT COUNT(*) FROM turns WHERE seg = 3"),
        GROUP_SIZE as i64,
        "a segment number is not reused"
    );
    assert_reads_back(&store, &written).await;
    assert_eq!(verify(&store).await.findings, []);
}

#[tokio::test]
async fn a_backup_includes_bodies_of_any_length_and_of_zeros() {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    // Adjacent zeros fill whole chunks of the backup, which stores none of these chunks.
    let picture = |n: u64, m: u64| {
        let length = (n as usize * 7919 + m as usize * 4057) % 20_000;
        Object::blob(if n.is_multiple_of(3) {
            vec![0; 20_000 + length]
        } else {
            text_of(n * 10 + m, length)
        })
    };
    let turn_write = |(n, writer)| TurnWrite {
        writer,
        under: None,
        words: "look".to_owned(),
        pictures: (0..4).map(|m| picture(n, m)).collect(),
    };
    let session_writers = sessions(&store, "member", GROUP_SIZE).await;
    let mut turn_writes: Vec<TurnWrite> = (0..).zip(session_writers).map(turn_write).collect();
    // The segment file ends with many zeros.
    turn_writes.last_mut().expect("a group").pictures = vec![Object::blob(vec![0; 2 << 20])];
    let written = write_concurrently(turn_writes).await;
    let written: Vec<WrittenTurn> =
        written.into_iter().map(|written| written.expect("shown")).collect();
    assert_eq!(store_dir.segments(), ["1"]);
    assert_reads_back(&store, &written).await;
    let copy = copied(&store).await;
    assert_reads_back(&copy.open(), &written).await;
    assert_eq!(verify(&copy.open()).await.findings, []);
}
