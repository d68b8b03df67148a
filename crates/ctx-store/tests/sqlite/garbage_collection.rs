//! Garbage collection of unreferenced blobs, and writes after it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ctx_core::decide::{self, Change};
use ctx_core::id::{BlobId, MessageId};
use ctx_core::inbox::{Item, ItemState, Mode, Overrides};
use ctx_core::message::{Message, Part, Source};
use ctx_core::object::{Named, Object};
use ctx_core::time::Span;
use ctx_core::turn::{About, Ready};
use ctx_store::{Error, GcReport};
use tokio::task::JoinSet;
use ulid::Ulid;

use crate::StoreDir;
use crate::harness::{SessionWriter, StoreHandle, at, message, text_of, verify};

fn blob(seed: u64) -> Object {
    Object::blob(text_of(seed, 5000))
}

/// A session with one turn that shows these pictures; its blobs are ordered by hash.
pub(crate) async fn show_pictures(store: &StoreHandle, name: &str, pictures: Vec<Object>, ms: i64) {
    let writer = SessionWriter::create(store, name, ms).await;
    let part = |object: &Object| Part::Image {
        media_type: "image/png".to_owned(),
        blob: BlobId(object.id()),
        bytes: None,
    };
    let shown = Message { content: pictures.iter().map(part).collect(), ..message("", ms) };
    let (ready, body) = Ready::new(About::at(at(ms)), vec![shown]);
    let objects = pictures.into_iter().map(Named::from).chain([body]).collect();
    writer
        .decide(ms, objects, move |view, _| decide::append_turn(view, None, &ready))
        .await
        .expect("shown");
}

/// Deletes the rows of a session and of its turns.
pub(crate) fn remove_rows(store_dir: &StoreDir, name: &str) {
    let sql = format!(
        "CREATE TEMP TABLE gone AS SELECT row FROM sessions WHERE label = '{name}';
         DELETE FROM turns WHERE session IN gone; DELETE FROM session_history WHERE session IN gone;
         DELETE FROM usage_totals WHERE session IN gone;
         DELETE FROM tool_totals WHERE session IN gone; DELETE FROM events WHERE session IN gone;
         DELETE FROM sessions WHERE row IN gone;"
    );
    store_dir.sql().execute_batch(&sql).expect("removed");
}

pub(crate) const NO_GRACE: Span = Span(0);

#[tokio::test]
async fn unreferenced_blobs_are_removed_and_their_neighbours_stay_readable() {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    let blobs: Vec<Object> = (0..8).map(blob).collect();
    let (dead, kept) = blobs.split_at(4);
    show_pictures(&store, "gone", blobs.clone(), 1).await;
    show_pictures(&store, "kept", kept.to_vec(), 2).await;
    assert_eq!(store.health().await.expect("health").blobs, 8);
    remove_rows(&store_dir, "gone");
    let report = store.gc(at(1000), NO_GRACE).await.expect("collected");
    assert_eq!((report.blobs_removed, report.blobs_kept), (4, 4));
    assert!(report.bytes_removed > 4 * 2000, "{report:?}");
    for object in dead {
        assert_eq!(store.object(object.id()).await.expect("a look"), None);
    }
    for object in kept {
        assert_eq!(store.object(object.id()).await.expect("readable").as_ref(), Some(object));
    }
    assert_eq!(verify(&store).await.findings, []);
    let again = store.gc(at(1000), NO_GRACE).await.expect("collected");
    assert_eq!(again, GcReport { blobs_kept: 4, blobs_removed: 0, bytes_removed: 0 });
}

#[tokio::test]
async fn the_picture_of_a_waiting_message_is_kept_until_it_is_withdrawn() {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    let writer = SessionWriter::create(&store, "main", 0).await;
    let picture = blob(1);
    let message_id = MessageId(Ulid(7));
    let item = Item {
        message_id,
        position: 1,
        mode: Mode::Queue,
        source: Source::Human,
        content: vec![Part::Image {
            media_type: "image/png".to_owned(),
            blob: BlobId(picture.id()),
            bytes: None,
        }],
        intent: None,
        overrides: Overrides::default(),
        state: ItemState::Waiting,
        enqueued_at: at(1),
    };
    let put = |item: Item| vec![Change::PutItem(Box::new(item))];
    let refused = writer.write_changes(put(item.clone()), vec![], 1).await;
    assert!(
        matches!(refused, Err(Error::NotFound { what: "blob", .. })),
        "the bytes of the picture are missing: {refused:?}"
    );
    writer.write_changes(put(item), vec![Named::from(picture.clone())], 1).await.expect("put");
    assert_eq!(store.gc(at(1000), NO_GRACE).await.expect("collected").blobs_removed, 0);
    assert_eq!(store.object(picture.id()).await.expect("readable").as_ref(), Some(&picture));
    writer.write_changes(vec![Change::RemoveItem(message_id)], vec![], 2).await.expect("withdrawn");
    assert_eq!(store.gc(at(1000), NO_GRACE).await.expect("collected").blobs_removed, 1);
}

#[tokio::test]
async fn a_blob_referenced_only_by_a_lost_step_is_removed() {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    let writer = SessionWriter::create(&store, "main", 0).await;
    let task = writer.start("a task", 1).await;
    writer.write("kept.rs", blob(1).bytes, 2).await;
    writer.write("lost.rs", blob(2).bytes, 3).await;
    store_dir.sql().execute("DELETE FROM steps WHERE seq = 3", []).expect("lost");
    // A lost step stays a finding: repair does not hide it.
    let lost = store.verify(true, &|_, _| {}).await.expect("verified").findings;
    assert!(lost.iter().any(|finding| finding.fault.contains("newest step of task")), "{lost:?}");
    assert_eq!(store.gc(at(1000), NO_GRACE).await.expect("collected").blobs_removed, 1);
    assert_eq!(verify(&store).await.findings, lost);
    assert_eq!(store.object(blob(1).id()).await.expect("readable"), Some(blob(1)));
    assert_eq!(writer.chain(task).await.len(), 2);
}

#[tokio::test]
async fn a_blob_stays_for_the_grace() {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    show_pictures(&store, "old", vec![blob(1)], 0).await;
    show_pictures(&store, "new", vec![blob(2)], 1000).await;
    remove_rows(&store_dir, "old");
    remove_rows(&store_dir, "new");
    let hour = Span::hours(1);
    let ms = 3_600_000;
    assert_eq!(
        store.gc(at(ms), hour).await.expect("collected").blobs_removed,
        0,
        "an hour old is not older than an hour"
    );
    assert_eq!(store.gc(at(ms + 1), hour).await.expect("collected").blobs_removed, 1);
    assert_eq!(store.object(blob(2).id()).await.expect("readable"), Some(blob(2)));
    assert_eq!(store.gc(at(ms + 1001), hour).await.expect("collected").blobs_removed, 1);
}

#[tokio::test]
async fn removed_content_can_be_stored_again() {
    let store_dir = StoreDir::fresh();
    let (store, other) = (store_dir.open(), store_dir.open());
    show_pictures(&store, "kept", vec![blob(1)], 1).await;
    show_pictures(&other, "kept too", vec![blob(1)], 1).await;
    show_pictures(&store, "gone", vec![blob(2)], 2).await;
    remove_rows(&store_dir, "gone");
    assert_eq!(store.gc(at(1000), NO_GRACE).await.expect("collected").blobs_removed, 1);
    for (name, store) in [("again", &store), ("elsewhere", &other)] {
        show_pictures(store, name, vec![blob(2)], 2000).await;
        assert_eq!(store.object(blob(2).id()).await.expect("readable"), Some(blob(2)), "{name}");
        assert_eq!(verify(store).await.findings, [], "{name}");
    }
}

#[tokio::test]
async fn content_stored_after_gc_is_found() {
    let store_dir = StoreDir::fresh();
    let (store, other) = (store_dir.open(), store_dir.open());
    show_pictures(&store, "kept", vec![blob(1)], 1).await;
    show_pictures(&store, "gone", vec![blob(2)], 2).await;
    show_pictures(&other, "also kept", vec![blob(1)], 3).await;
    assert!(other.object(blob(2).id()).await.expect("readable").is_some());
    remove_rows(&store_dir, "gone");
    assert_eq!(store.gc(at(1000), NO_GRACE).await.expect("collected").blobs_removed, 1);
    show_pictures(&store, "new", vec![blob(3)], 2000).await;
    for (name, store) in
        [("the one", &store), ("the other", &other), ("a new one", &store_dir.open())]
    {
        assert_eq!(store.object(blob(3).id()).await.expect("readable"), Some(blob(3)), "{name}");
        assert_eq!(store.object(blob(2).id()).await.expect("a look"), None, "{name}");
    }
    show_pictures(&other, "shared", vec![blob(3)], 3000).await;
    assert_eq!(store.health().await.expect("health").blobs, 2, "and it is still stored once");
    assert_eq!(verify(&store).await.findings, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_see_intact_objects_while_their_neighbours_are_removed() {
    const ROUNDS: usize = 40;
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    let kept: Arc<Vec<Object>> = Arc::new((0..ROUNDS).map(|round| blob(round as u64)).collect());
    for (round, kept) in kept.iter().enumerate() {
        let pictures =
            (0..4).map(|n| blob(1000 + 10 * round as u64 + n)).chain([kept.clone()]).collect();
        show_pictures(&store, &format!("gone {round}"), pictures, 1).await;
    }
    show_pictures(&store, "kept", kept.to_vec(), 2).await;
    store.catch_up().await;
    let at_round = Arc::new(AtomicUsize::new(0));
    let mut readers = JoinSet::new();
    for _ in 0..3 {
        let (reader, kept, at_round) = (store_dir.open(), kept.clone(), at_round.clone());
        readers.spawn(async move {
            while let Some(kept) = kept.get(at_round.load(Ordering::Relaxed)) {
                assert_eq!(reader.object(kept.id()).await.expect("whole").as_ref(), Some(kept));
            }
        });
    }
    for round in 0..ROUNDS {
        remove_rows(&store_dir, &format!("gone {round}"));
        store.gc(at(1000), NO_GRACE).await.expect("collected");
        at_round.store(round + 1, Ordering::Relaxed);
    }
    readers.join_all().await;
    assert_eq!(verify(&store).await.findings, []);
}
