//! What goes from a file: its row at once, its bytes after a minute, its neighbours never.

use std::fs::{self, File, OpenOptions};
use std::ops::Range;

use ctx_core::decide;
use ctx_core::object::Object;

use crate::StoreDir;
use crate::garbage_collection::{NO_GRACE, forget};
use crate::harness::{SessionWriter, StoreHandle, at, text_of, verify};
use crate::write_groups::{Said, Saying, at_once, crowd, is_whole, sessions};

/// When things go.
const GONE_MS: i64 = 1000;
/// When nobody can be reading them any more.
const ERASED_MS: i64 = GONE_MS + 60_001;

/// A crowd whose first two members alone show one picture, and where it lies.
async fn with_one_picture_forgotten(
    store_dir: &StoreDir,
    store: &StoreHandle,
) -> (Vec<Said>, Object, Range<usize>) {
    let mut said = crowd(store, "member", 1).await;
    let picture = said[0].pictures[0].clone();
    let (seg, place) = store_dir.place("blobs", picture.id());
    assert_eq!(seg, 1);
    forget(store_dir, "member 0");
    forget(store_dir, "member 1");
    said.drain(..2);
    (said, picture, place)
}

fn lock(store_dir: &StoreDir) -> File {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(store_dir.file("erase.lock"))
        .expect("a file")
}

/// The file is as it was, but for zeros in these places.
fn is_erased(store_dir: &StoreDir, before: &[u8], places: &[Range<usize>]) {
    let mut expected = before.to_vec();
    for place in places {
        assert!(
            before[place.clone()].iter().any(|byte| *byte != 0),
            "there was something to erase"
        );
        expected[place.clone()].fill(0);
    }
    assert!(store_dir.segment(1) == expected, "just that is zeros");
    assert_eq!(store_dir.number("SELECT COUNT(*) FROM erasures"), 0);
}

#[tokio::test]
async fn a_blob_is_zeros_a_minute_after_it_went() {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    let (kept, picture, place) = with_one_picture_forgotten(&store_dir, &store).await;
    let before = store_dir.segment(1);
    assert_eq!(store.gc(at(GONE_MS), NO_GRACE).await.expect("collected").blobs_removed, 1);
    assert_eq!(store.object(picture.id()).await.expect("a look"), None);
    for ms in [GONE_MS, ERASED_MS - 1] {
        store.gc(at(ms), NO_GRACE).await.expect("collected");
        assert!(store_dir.segment(1) == before, "somebody may be reading it still");
    }
    store.gc(at(ERASED_MS), NO_GRACE).await.expect("collected");
    is_erased(&store_dir, &before, &[place]);
    is_whole(&store, &kept).await;
    assert_eq!(verify(&store).await.findings, []);
    // Once more, and somewhere else.
    let said = crowd(&store, "again", 1).await;
    is_whole(&store, &said).await;
    is_whole(&store, &kept).await;
}

#[tokio::test]
async fn nothing_is_erased_while_somebody_looks_at_everything() {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    let (kept, _, place) = with_one_picture_forgotten(&store_dir, &store).await;
    let before = store_dir.segment(1);
    store.gc(at(GONE_MS), NO_GRACE).await.expect("collected");
    let looking = lock(&store_dir);
    looking.lock_shared().expect("held");
    store.gc(at(ERASED_MS), NO_GRACE).await.expect("collected");
    assert!(!store.purge(at(ERASED_MS)).await.expect("purged"), "there is nothing to do now");
    assert!(store_dir.segment(1) == before, "it waits");
    drop(looking);
    assert!(!store.purge(at(ERASED_MS)).await.expect("purged"));
    is_erased(&store_dir, &before, &[place]);
    is_whole(&store, &kept).await;
}

#[tokio::test]
async fn who_verifies_looks_at_everything() {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    crowd(&store, "member", 1).await;
    let asked = std::sync::atomic::AtomicBool::new(false);
    let ask = |_, _| {
        assert!(lock(&store_dir).try_lock().is_err(), "nothing may be erased now");
        asked.store(true, std::sync::atomic::Ordering::Relaxed);
    };
    store.verify(false, &ask).await.expect("verified");
    assert!(asked.into_inner());
    lock(&store_dir).try_lock().expect("it is over");
}

#[tokio::test]
async fn what_cannot_be_erased_now_is_erased_later() {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    let (_, _, place) = with_one_picture_forgotten(&store_dir, &store).await;
    let before = store_dir.segment(1);
    store.gc(at(GONE_MS), NO_GRACE).await.expect("collected");
    // Not even root writes into a directory as if it were a file.
    fs::rename(store_dir.file("segments/1"), store_dir.file("aside")).expect("moved");
    fs::create_dir(store_dir.file("segments/1")).expect("made");
    assert!(store.gc(at(ERASED_MS), NO_GRACE).await.is_err(), "nobody is told that it is done");
    fs::remove_dir(store_dir.file("segments/1")).expect("removed");
    fs::rename(store_dir.file("aside"), store_dir.file("segments/1")).expect("moved");
    store.gc(at(ERASED_MS), NO_GRACE).await.expect("collected");
    is_erased(&store_dir, &before, &[place]);
}

async fn purge(store: &StoreHandle, ms: i64) {
    while store.purge(at(ms)).await.expect("purged") {}
}

#[tokio::test]
async fn the_words_of_a_deleted_session_are_zeros_a_minute_after_they_went() {
    // R244
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    let mut said = crowd(&store, "member", 1).await;
    let gone: Vec<Said> = said.drain(10..13).collect();
    let places: Vec<_> = gone.iter().map(|said| store_dir.place("turns", said.turn.0).1).collect();
    for said in &gone {
        let writer = SessionWriter { store: store.clone(), target: said.session.clone() };
        writer.decide(2, vec![], |view, _| decide::delete_session(view)).await.expect("deleted");
    }
    let before = store_dir.segment(1);
    purge(&store, GONE_MS).await;
    assert_eq!(store_dir.number("SELECT COUNT(*) FROM turns"), 61);
    purge(&store, ERASED_MS - 1).await;
    assert!(store_dir.segment(1) == before, "somebody may be reading it still");
    purge(&store, ERASED_MS).await;
    is_erased(&store_dir, &before, &places);
    is_whole(&store, &said).await;
    assert_eq!(verify(&store).await.findings, []);
}

/// Whether any piece of some bytes is in a file.
fn holds(file: &std::path::Path, bytes: &[u8]) -> bool {
    let file = fs::read(file).expect("a file");
    bytes.chunks_exact(32).any(|piece| memchr::memmem::find(&file, piece).is_some())
}

#[tokio::test]
async fn a_copy_has_nothing_of_what_went_before_it() {
    // R244
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    // Longer than a chunk of the copy, so that whole chunks of it go.
    let (large, kept) = (Object::blob(text_of(7, 60_000)), Object::blob(text_of(8, 60_000)));
    let saying = |(writer, picture): (SessionWriter, &Object)| Saying {
        writer,
        under: None,
        words: "look".to_owned(),
        pictures: vec![picture.clone()],
    };
    let session_writers = sessions(&store, "member", 10).await;
    let kept = [&large].into_iter().chain(std::iter::repeat_n(&kept, 9));
    let mut said: Vec<Said> = at_once(session_writers.into_iter().zip(kept).map(saying).collect())
        .await
        .into_iter()
        .map(|said| said.expect("shown"))
        .collect();
    assert_eq!(store_dir.segments(), ["1"]);
    said.remove(0);
    let packed = store_dir.segment(1)[store_dir.place("blobs", large.id()).1].to_vec();
    store.backup(&store_dir.file("early")).await.expect("copied");
    assert!(holds(&store_dir.file("early"), &packed), "it was there");
    forget(&store_dir, "member 0");
    store.gc(at(GONE_MS), NO_GRACE).await.expect("collected");
    assert!(holds(&store_dir.file("segments/1"), &packed), "it is not erased yet");
    store.backup(&store_dir.file("between")).await.expect("copied");
    store.gc(at(ERASED_MS), NO_GRACE).await.expect("collected");
    assert!(!holds(&store_dir.file("segments/1"), &packed));
    store.backup(&store_dir.file("late")).await.expect("copied");
    for name in ["between", "late"] {
        assert!(!holds(&store_dir.file(name), &packed), "{name}");
        let copy = StoreDir::empty();
        fs::rename(store_dir.file(name), copy.file("ctx.db")).expect("moved");
        is_whole(&copy.open(), &said).await;
        assert_eq!(copy.number("SELECT COUNT(*) FROM erasures"), 0, "{name}");
        assert_eq!(verify(&copy.open()).await.findings, [], "{name}");
    }
}
