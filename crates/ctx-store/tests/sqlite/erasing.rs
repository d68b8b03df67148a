//! What goes from a file: its row at once, its bytes after a minute, its neighbours never.

use std::fs::{self, File, OpenOptions};
use std::ops::Range;
use std::sync::Arc;

use ctx_core::decide;
use ctx_core::object::Object;
use ctx_store::Store;

use crate::Bench;
use crate::collect::{NO_GRACE, forget};
use crate::crowd::{Said, Saying, at_once, crowd, is_whole, sessions};
use crate::hand::{Hand, at, text_of, verify};

/// When things go.
const GONE_MS: i64 = 1000;
/// When nobody can be reading them any more.
const ERASED_MS: i64 = GONE_MS + 60_001;

/// A crowd whose first two members alone show one picture, and where it lies.
async fn with_one_picture_forgotten(
    bench: &Bench,
    store: &Arc<dyn Store>,
) -> (Vec<Said>, Object, Range<usize>) {
    let mut said = crowd(store, "member", 1).await;
    let picture = said[0].pictures[0].clone();
    let (seg, place) = bench.place("blobs", picture.id());
    assert_eq!(seg, 1);
    forget(bench, "member 0");
    forget(bench, "member 1");
    said.drain(..2);
    (said, picture, place)
}

fn lock(bench: &Bench) -> File {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(bench.file("erase.lock"))
        .expect("a file")
}

/// The file is as it was, but for zeros in these places.
fn is_erased(bench: &Bench, before: &[u8], places: &[Range<usize>]) {
    let mut expected = before.to_vec();
    for place in places {
        assert!(
            before[place.clone()].iter().any(|byte| *byte != 0),
            "there was something to erase"
        );
        expected[place.clone()].fill(0);
    }
    assert!(bench.segment(1) == expected, "just that is zeros");
    assert_eq!(bench.number("SELECT COUNT(*) FROM erasures"), 0);
}

#[tokio::test]
async fn a_blob_is_zeros_a_minute_after_it_went() {
    let bench = Bench::fresh();
    let store = bench.open();
    let (kept, picture, place) = with_one_picture_forgotten(&bench, &store).await;
    let before = bench.segment(1);
    assert_eq!(store.gc(at(GONE_MS), NO_GRACE).await.expect("collected").blobs_removed, 1);
    assert_eq!(store.object(picture.id()).await.expect("a look"), None);
    for ms in [GONE_MS, ERASED_MS - 1] {
        store.gc(at(ms), NO_GRACE).await.expect("collected");
        assert!(bench.segment(1) == before, "somebody may be reading it still");
    }
    store.gc(at(ERASED_MS), NO_GRACE).await.expect("collected");
    is_erased(&bench, &before, &[place]);
    is_whole(&store, &kept).await;
    assert_eq!(verify(&store).await.findings, []);
    // Once more, and somewhere else.
    let said = crowd(&store, "again", 1).await;
    is_whole(&store, &said).await;
    is_whole(&store, &kept).await;
}

#[tokio::test]
async fn nothing_is_erased_while_somebody_looks_at_everything() {
    let bench = Bench::fresh();
    let store = bench.open();
    let (kept, _, place) = with_one_picture_forgotten(&bench, &store).await;
    let before = bench.segment(1);
    store.gc(at(GONE_MS), NO_GRACE).await.expect("collected");
    let looking = lock(&bench);
    looking.lock_shared().expect("held");
    store.gc(at(ERASED_MS), NO_GRACE).await.expect("collected");
    assert!(!store.purge(at(ERASED_MS)).await.expect("purged"), "there is nothing to do now");
    assert!(bench.segment(1) == before, "it waits");
    drop(looking);
    assert!(!store.purge(at(ERASED_MS)).await.expect("purged"));
    is_erased(&bench, &before, &[place]);
    is_whole(&store, &kept).await;
}

#[tokio::test]
async fn who_verifies_looks_at_everything() {
    let bench = Bench::fresh();
    let store = bench.open();
    crowd(&store, "member", 1).await;
    let asked = std::sync::atomic::AtomicBool::new(false);
    let ask = |_, _| {
        assert!(lock(&bench).try_lock().is_err(), "nothing may be erased now");
        asked.store(true, std::sync::atomic::Ordering::Relaxed);
    };
    store.verify(false, &ask).await.expect("verified");
    assert!(asked.into_inner());
    lock(&bench).try_lock().expect("it is over");
}

#[tokio::test]
async fn what_cannot_be_erased_now_is_erased_later() {
    let bench = Bench::fresh();
    let store = bench.open();
    let (_, _, place) = with_one_picture_forgotten(&bench, &store).await;
    let before = bench.segment(1);
    store.gc(at(GONE_MS), NO_GRACE).await.expect("collected");
    // Not even root writes into a directory as if it were a file.
    fs::rename(bench.file("segments/1"), bench.file("aside")).expect("moved");
    fs::create_dir(bench.file("segments/1")).expect("made");
    assert!(store.gc(at(ERASED_MS), NO_GRACE).await.is_err(), "nobody is told that it is done");
    fs::remove_dir(bench.file("segments/1")).expect("removed");
    fs::rename(bench.file("aside"), bench.file("segments/1")).expect("moved");
    store.gc(at(ERASED_MS), NO_GRACE).await.expect("collected");
    is_erased(&bench, &before, &[place]);
}

async fn purge(store: &Arc<dyn Store>, ms: i64) {
    while store.purge(at(ms)).await.expect("purged") {}
}

#[tokio::test]
async fn the_words_of_a_deleted_session_are_zeros_a_minute_after_they_went() {
    // R244
    let bench = Bench::fresh();
    let store = bench.open();
    let mut said = crowd(&store, "member", 1).await;
    let gone: Vec<Said> = said.drain(10..13).collect();
    let places: Vec<_> = gone.iter().map(|said| bench.place("turns", said.turn.0).1).collect();
    for said in &gone {
        let hand = Hand { store: store.clone(), target: said.session.clone() };
        hand.decide(2, vec![], |view, _| decide::delete_session(view)).await.expect("deleted");
    }
    let before = bench.segment(1);
    purge(&store, GONE_MS).await;
    assert_eq!(bench.number("SELECT COUNT(*) FROM turns"), 61);
    purge(&store, ERASED_MS - 1).await;
    assert!(bench.segment(1) == before, "somebody may be reading it still");
    purge(&store, ERASED_MS).await;
    is_erased(&bench, &before, &places);
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
    let bench = Bench::fresh();
    let store = bench.open();
    // Longer than a chunk of the copy, so that whole chunks of it go.
    let (large, kept) = (Object::blob(text_of(7, 60_000)), Object::blob(text_of(8, 60_000)));
    let saying = |(hand, picture): (Hand, &Object)| Saying {
        hand,
        under: None,
        words: "look".to_owned(),
        pictures: vec![picture.clone()],
    };
    let hands = sessions(&store, "member", 10).await;
    let kept = [&large].into_iter().chain(std::iter::repeat_n(&kept, 9));
    let mut said: Vec<Said> = at_once(hands.into_iter().zip(kept).map(saying).collect())
        .await
        .into_iter()
        .map(|said| said.expect("shown"))
        .collect();
    assert_eq!(bench.segments(), ["1"]);
    said.remove(0);
    let packed = bench.segment(1)[bench.place("blobs", large.id()).1].to_vec();
    store.backup(&bench.file("early")).await.expect("copied");
    assert!(holds(&bench.file("early"), &packed), "it was there");
    forget(&bench, "member 0");
    store.gc(at(GONE_MS), NO_GRACE).await.expect("collected");
    assert!(holds(&bench.file("segments/1"), &packed), "it is not erased yet");
    store.backup(&bench.file("between")).await.expect("copied");
    store.gc(at(ERASED_MS), NO_GRACE).await.expect("collected");
    assert!(!holds(&bench.file("segments/1"), &packed));
    store.backup(&bench.file("late")).await.expect("copied");
    for name in ["between", "late"] {
        assert!(!holds(&bench.file(name), &packed), "{name}");
        let copy = Bench::empty();
        fs::rename(bench.file(name), copy.file("ctx.db")).expect("moved");
        is_whole(&copy.open(), &said).await;
        assert_eq!(copy.number("SELECT COUNT(*) FROM erasures"), 0, "{name}");
        assert_eq!(verify(&copy.open()).await.findings, [], "{name}");
    }
}
