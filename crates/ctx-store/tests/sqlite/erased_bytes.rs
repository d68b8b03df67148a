//! Removal from a segment file: the row goes at once, its bytes are zeroed after a minute.

use std::fs::{self, File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;

use ctx_core::decide;
use ctx_core::object::Object;

use crate::StoreDir;
use crate::garbage_collection::{NO_GRACE, remove_rows};
use crate::harness::{SessionWriter, StoreHandle, at, text_of, verify};
use crate::write_groups::{
    TurnWrite, WrittenTurn, assert_reads_back, sessions, write_concurrently, write_group,
};

/// The time at which objects are removed.
const GONE_MS: i64 = 1000;
/// The first moment at which no reader can still use the removed bytes.
const ERASED_MS: i64 = GONE_MS + 60_001;

/// A group of writes in which only two removed sessions reference a picture, and its range.
async fn with_one_picture_forgotten(
    store_dir: &StoreDir,
    store: &StoreHandle,
) -> (Vec<WrittenTurn>, Object, Range<usize>) {
    let mut written = write_group(store, "member", 1).await;
    let picture = written[0].pictures[0].clone();
    let (seg, place) = store_dir.place("blobs", picture.id());
    assert_eq!(seg, 1);
    remove_rows(store_dir, "member 0");
    remove_rows(store_dir, "member 1");
    written.drain(..2);
    (written, picture, place)
}

fn lock(store_dir: &StoreDir) -> File {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(store_dir.file("erase.lock"))
        .expect("a file")
}

/// Asserts that the file is unchanged except for zeros in these ranges.
fn assert_erased(store_dir: &StoreDir, before: &[u8], places: &[Range<usize>]) {
    let mut expected = before.to_vec();
    for place in places {
        assert!(
            before[place.clone()].iter().any(|byte| *byte != 0),
            "there was something to erase"
        );
        expected[place.clone()].fill(0);
    }
    assert!(store_dir.segment(1) == expected, "only these ranges are zeroed");
    assert_eq!(store_dir.number("SELECT COUNT(*) FROM erasures"), 0);
}

#[tokio::test]
async fn a_removed_blob_is_zeroed_after_a_minute() {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    let (kept, picture, place) = with_one_picture_forgotten(&store_dir, &store).await;
    let before = store_dir.segment(1);
    assert_eq!(store.gc(at(GONE_MS), NO_GRACE).await.expect("collected").blobs_removed, 1);
    assert_eq!(store.object(picture.id()).await.expect("a look"), None);
    for ms in [GONE_MS, ERASED_MS - 1] {
        store.gc(at(ms), NO_GRACE).await.expect("collected");
        assert!(store_dir.segment(1) == before, "a reader may still use it");
    }
    store.gc(at(ERASED_MS), NO_GRACE).await.expect("collected");
    assert_erased(&store_dir, &before, &[place]);
    assert_reads_back(&store, &kept).await;
    assert_eq!(verify(&store).await.findings, []);
    // Later writes do not reuse the zeroed range.
    let written = write_group(&store, "again", 1).await;
    assert_reads_back(&store, &written).await;
    assert_reads_back(&store, &kept).await;
}

#[tokio::test]
async fn nothing_is_erased_while_the_erase_lock_is_held() {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    let (kept, _, place) = with_one_picture_forgotten(&store_dir, &store).await;
    let before = store_dir.segment(1);
    store.gc(at(GONE_MS), NO_GRACE).await.expect("collected");
    let looking = lock(&store_dir);
    looking.lock_shared().expect("held");
    store.gc(at(ERASED_MS), NO_GRACE).await.expect("collected");
    assert!(!store.purge(at(ERASED_MS)).await.expect("purged"), "nothing is left to purge");
    assert!(store_dir.segment(1) == before, "the erasure waits");
    drop(looking);
    assert!(!store.purge(at(ERASED_MS)).await.expect("purged"));
    assert_erased(&store_dir, &before, &[place]);
    assert_reads_back(&store, &kept).await;
}

/// Waits until another handle waits for the lock of a file, as the kernel lists it.
async fn until_awaited(file: &fs::File) {
    let inode = format!(":{} ", file.metadata().expect("a file").ino());
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let locks = fs::read_to_string("/proc/locks").expect("the list of locks");
        if locks.lines().any(|line| line.contains("->") && line.contains(&inode)) {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "nobody waits for the lock: {locks}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn verify_shares_the_erase_lock() {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    write_group(&store, "member", 1).await;
    let erasing = lock(&store_dir);
    erasing.lock().expect("nobody verifies");
    let verifying = tokio::spawn(async move { verify(&store).await });
    until_awaited(&erasing).await;
    assert!(!verifying.is_finished(), "it waits for the end of the erasure");
    drop(erasing);
    assert_eq!(verifying.await.expect("no panic").findings, []);
    lock(&store_dir).try_lock().expect("the lock is released");
}

#[tokio::test]
async fn a_failed_erasure_is_repeated_later() {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    let (_, _, place) = with_one_picture_forgotten(&store_dir, &store).await;
    let before = store_dir.segment(1);
    store.gc(at(GONE_MS), NO_GRACE).await.expect("collected");
    // A directory cannot be opened as a file, not even by root.
    fs::rename(store_dir.file("segments/1"), store_dir.file("aside")).expect("moved");
    fs::create_dir(store_dir.file("segments/1")).expect("made");
    assert!(store.gc(at(ERASED_MS), NO_GRACE).await.is_err(), "the failure is reported");
    fs::remove_dir(store_dir.file("segments/1")).expect("removed");
    fs::rename(store_dir.file("aside"), store_dir.file("segments/1")).expect("moved");
    store.gc(at(ERASED_MS), NO_GRACE).await.expect("collected");
    assert_erased(&store_dir, &before, &[place]);
}

async fn purge(store: &StoreHandle, ms: i64) {
    while store.purge(at(ms)).await.expect("purged") {}
}

#[tokio::test]
async fn turns_of_a_deleted_session_are_zeroed_after_a_minute() {
    // R244
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    let mut written = write_group(&store, "member", 1).await;
    let gone: Vec<WrittenTurn> = written.drain(10..13).collect();
    let places: Vec<_> =
        gone.iter().map(|written| store_dir.place("turns", written.turn.0).1).collect();
    for written in &gone {
        let writer = SessionWriter { store: store.clone(), target: written.session.clone() };
        writer.decide(2, vec![], |view, _| decide::delete_session(view)).await.expect("deleted");
    }
    let before = store_dir.segment(1);
    purge(&store, GONE_MS).await;
    assert_eq!(store_dir.number("SELECT COUNT(*) FROM turns"), 61);
    purge(&store, ERASED_MS - 1).await;
    assert!(store_dir.segment(1) == before, "a reader may still use it");
    purge(&store, ERASED_MS).await;
    assert_erased(&store_dir, &before, &places);
    assert_reads_back(&store, &written).await;
    assert_eq!(verify(&store).await.findings, []);
}

/// Whether a file contains any 32-byte piece of some bytes.
fn contains_piece(file: &std::path::Path, bytes: &[u8]) -> bool {
    let file = fs::read(file).expect("a file");
    bytes.chunks_exact(32).any(|piece| memchr::memmem::find(&file, piece).is_some())
}

#[tokio::test]
async fn a_backup_has_no_bytes_of_what_was_removed_before() {
    // R244
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    // Longer than a chunk of the backup, so that whole chunks are erased.
    let (large, kept) = (Object::blob(text_of(7, 60_000)), Object::blob(text_of(8, 60_000)));
    let turn_write = |(writer, picture): (SessionWriter, &Object)| TurnWrite {
        writer,
        under: None,
        words: "look".to_owned(),
        pictures: vec![picture.clone()],
    };
    let session_writers = sessions(&store, "member", 10).await;
    let kept = [&large].into_iter().chain(std::iter::repeat_n(&kept, 9));
    let mut written: Vec<WrittenTurn> =
        write_concurrently(session_writers.into_iter().zip(kept).map(turn_write).collect())
            .await
            .into_iter()
            .map(|written| written.expect("shown"))
            .collect();
    assert_eq!(store_dir.segments(), ["1"]);
    written.remove(0);
    let packed = store_dir.segment(1)[store_dir.place("blobs", large.id()).1].to_vec();
    store.copy_to(&store_dir.file("early")).await.expect("copied");
    assert!(contains_piece(&store_dir.file("early"), &packed), "it was there");
    remove_rows(&store_dir, "member 0");
    store.gc(at(GONE_MS), NO_GRACE).await.expect("collected");
    assert!(contains_piece(&store_dir.file("segments/1"), &packed), "it is not erased yet");
    store.copy_to(&store_dir.file("between")).await.expect("copied");
    store.gc(at(ERASED_MS), NO_GRACE).await.expect("collected");
    assert!(!contains_piece(&store_dir.file("segments/1"), &packed));
    store.copy_to(&store_dir.file("late")).await.expect("copied");
    for name in ["between", "late"] {
        assert!(!contains_piece(&store_dir.file(name), &packed), "{name}");
        let copy = StoreDir::empty();
        fs::rename(store_dir.file(name), copy.file("ctx.db")).expect("moved");
        assert_reads_back(&copy.open(), &written).await;
        assert_eq!(copy.number("SELECT COUNT(*) FROM erasures"), 0, "{name}");
        assert_eq!(verify(&copy.open()).await.findings, [], "{name}");
    }
}
