//! `search.db` is derived data: a lost, damaged or foreign index is rebuilt.

use std::fs;
use std::sync::Arc;

use ctx_core::object::Object;
use ctx_core::step::Entry;
use ctx_store::sqlite::{Indexing, Options};
use tokio::task::JoinSet;

use crate::StoreDir;
use crate::harness::{SessionWriter, StoreHandle, at, label, note, text_of, verify};

fn remove_index(store_dir: &StoreDir) {
    for name in ["search.db", "search.db-wal", "search.db-shm"] {
        let _ = fs::remove_file(store_dir.file(name));
    }
}

/// A closed store with an up-to-date index of one task and one blob.
async fn indexed_store() -> (StoreDir, Object) {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    let writer = SessionWriter::create(&store, "main", 0).await;
    writer.start("needle task", 1).await;
    let blob = Object::blob(text_of(1, 5000));
    writer.write("a.rs", blob.bytes.clone(), 2).await;
    store.catch_up().await;
    (store_dir, blob)
}

async fn assert_indexed(store: &StoreHandle, blob: &Object) {
    assert_eq!(store.search("needle", 10).await.expect("searched").len(), 1);
    assert_eq!(store.object(blob.id()).await.expect("readable").as_ref(), Some(blob));
    assert_eq!(store.resolve(&blob.id().to_string()[..12], 10).await.expect("resolved").len(), 1);
    let writer = SessionWriter { store: store.clone(), target: label("main") };
    writer.write("again.rs", blob.bytes.clone(), 50).await;
    assert_eq!(
        store.health().await.expect("health").blobs,
        1,
        "the known blob is not stored again"
    );
}

#[tokio::test]
async fn a_lost_index_is_rebuilt() {
    let (store_dir, blob) = indexed_store().await;
    remove_index(&store_dir);
    assert_indexed(&store_dir.open(), &blob).await;
}

#[tokio::test]
async fn a_damaged_index_is_rebuilt() {
    let (store_dir, blob) = indexed_store().await;
    for content in [&b""[..], b"garbage", &[0x5A; 20_000]] {
        remove_index(&store_dir);
        fs::write(store_dir.file("search.db"), content).expect("written");
        assert_indexed(&store_dir.open(), &blob).await;
    }
}

/// Overwrites the first page of a table or index of `search.db`.
fn overwrite_page(store_dir: &StoreDir, name: &str) {
    let sql = rusqlite::Connection::open(store_dir.file("search.db")).expect("a database");
    sql.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("a checkpoint");
    let root = "SELECT rootpage, (SELECT page_size FROM pragma_page_size) FROM sqlite_schema
         WHERE name = ?1";
    let (page, size): (usize, usize) =
        sql.query_row(root, [name], |row| Ok((row.get(0)?, row.get(1)?))).expect("it is there");
    drop(sql);
    let mut bytes = fs::read(store_dir.file("search.db")).expect("read");
    bytes[(page - 1) * size..page * size].fill(0x5A);
    remove_index(store_dir);
    fs::write(store_dir.file("search.db"), bytes).expect("written");
}

#[tokio::test]
async fn an_index_with_an_overwritten_page_is_rebuilt() {
    for name in ["runs", "runs_by_row", "documents", "words_data", "words_idx", "marks", "info"] {
        let (store_dir, blob) = indexed_store().await;
        overwrite_page(&store_dir, name);
        assert_indexed(&store_dir.open(), &blob).await;
    }
}

#[tokio::test]
async fn an_overwritten_index_page_does_not_stop_writes_and_is_repaired() {
    for name in ["runs", "runs_by_row", "documents", "words_data"] {
        let (store_dir, _) = indexed_store().await;
        overwrite_page(&store_dir, name);
        let store = store_dir.open();
        let writer = SessionWriter { store: store.clone(), target: label("main") };
        writer.write("more.rs", text_of(2, 5000), 60).await;
        assert_eq!(store.verify(true, &|_, _| {}).await.expect("repaired").findings, [], "{name}");
        assert_eq!(store.search("needle", 10).await.expect("searched").len(), 1, "{name}");
    }
}

#[tokio::test]
async fn a_restored_backup_is_not_searched_with_a_newer_index() {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    let writer = SessionWriter::create(&store, "main", 0).await;
    writer.start("a task", 1).await;
    writer.note("before the copy", 2).await;
    store.copy_to(&store_dir.file("copy.db")).await.expect("copied");
    for n in 0..100 {
        writer.note(&format!("gone{n}"), 3).await;
    }
    store.catch_up().await;
    drop((store, writer));
    for name in ["ctx.db-wal", "ctx.db-shm"] {
        let _ = fs::remove_file(store_dir.file(name));
    }
    fs::rename(store_dir.file("copy.db"), store_dir.file("ctx.db")).expect("put back");
    let store = store_dir.open();
    let writer = SessionWriter { store: store.clone(), target: label("main") };
    for n in 0..110 {
        writer.note(&format!("other{n}"), 4).await;
    }
    for n in [0, 1, 50, 99, 109] {
        assert_eq!(
            store.search(&format!("other{n}"), 10).await.expect("searched").len(),
            1,
            "other{n}"
        );
    }
    assert_eq!(store.search("gone1", 10).await.expect("searched"), []);
}

#[tokio::test]
async fn the_index_of_another_store_is_rebuilt() {
    let (store_dir, blob) = indexed_store().await;
    let (other, _) = indexed_store().await;
    rusqlite::Connection::open(other.file("search.db"))
        .expect("a database")
        .execute_batch("PRAGMA journal_mode = DELETE")
        .expect("one file");
    remove_index(&store_dir);
    fs::copy(other.file("search.db"), store_dir.file("search.db")).expect("copied");
    assert_indexed(&store_dir.open(), &blob).await;
}

#[tokio::test]
async fn an_index_ahead_of_its_store_is_rebuilt() {
    let (store_dir, blob) = indexed_store().await;
    rusqlite::Connection::open(store_dir.file("search.db"))
        .expect("a database")
        .execute("UPDATE marks SET upto = 1000", [])
        .expect("moved");
    assert_indexed(&store_dir.open(), &blob).await;
}

/// Searches with many readers at once, so that some of them open a new connection.
async fn assert_all_find(store: &StoreHandle, word: &'static str, expected: usize) {
    let mut searches = JoinSet::new();
    for _ in 0..24 {
        let store = store.clone();
        searches.spawn(async move { store.search(word, 100).await.expect("searched").len() });
    }
    assert_eq!(searches.join_all().await, vec![expected; 24]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_open_handle_can_search_after_a_repair() {
    let (store_dir, _) = indexed_store().await;
    let (one, two) = (store_dir.open(), store_dir.open());
    for store in [&one, &two] {
        assert_eq!(store.search("needle", 10).await.expect("searched").len(), 1);
    }
    one.verify(true, &|_, _| {}).await.expect("repaired");
    assert_all_find(&one, "needle", 1).await;
    assert_all_find(&two, "needle", 1).await;
    let writer = SessionWriter { store: one.clone(), target: label("main") };
    writer.say("needle again", 10).await;
    writer.through(&two).say("needle once more", 11).await;
    // The task is open during both turns.
    assert_all_find(&one, "needle", 2).await;
    assert_all_find(&two, "needle", 2).await;
    assert_eq!(verify(&one).await.findings, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn handles_that_open_concurrently_share_one_new_index() {
    let (store_dir, _) = indexed_store().await;
    let store_dir = Arc::new(store_dir);
    remove_index(&store_dir);
    let mut handles = JoinSet::new();
    for _ in 0..12 {
        let store_dir = store_dir.clone();
        handles.spawn(async move {
            store_dir.open().search("needle", 10).await.expect("searched").len()
        });
    }
    assert_eq!(handles.join_all().await, [1; 12]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_background_indexer_misses_no_row() {
    let store_dir = StoreDir::fresh();
    let store =
        store_dir.open_with(Options { indexing: Indexing::Background, ..Options::default() });
    let mut writers = JoinSet::new();
    for n in 0..40 {
        let store = store.clone();
        writers.spawn(async move {
            let writer = SessionWriter::create(&store, &format!("session {n}"), 0).await;
            writer.say(&format!("common rare{n}"), 2 + n).await;
        });
    }
    while writers.join_next().await.is_some() {
        store.search("common", 100).await.expect("a search between the writes");
    }
    assert_all_find(&store, "common", 40).await;
    drop(store);
    let store = store_dir.open();
    for n in 0..40 {
        assert_eq!(store.search(&format!("rare{n}"), 10).await.expect("searched").len(), 1);
    }
}

/// Writes more rows than the index may lag behind and closes the store; the lag that is left.
async fn rows_left_unindexed(store_dir: &StoreDir) -> u64 {
    let store = store_dir.open();
    let writer = SessionWriter::create(&store, "main", 0).await;
    writer.start("a task", 1).await;
    for n in 0..3 {
        let entry =
            |m| if m % 2 == 0 { note("one") } else { Entry::Plan { text: "two".to_owned() } };
        writer.observe((0..900).map(entry).collect(), vec![], 2 + n).await.expect("observed");
    }
    writer.write("large.rs", text_of(1, 3 << 20), 10).await;
    store_dir.checkpoint();
    assert!(store.health().await.expect("health").unindexed > 2000);
    drop((store, writer));
    store_dir.open().health().await.expect("health").unindexed
}

#[tokio::test]
async fn a_short_process_does_not_let_the_index_fall_behind_further() {
    let store_dir = StoreDir::fresh();
    let mut left = rows_left_unindexed(&store_dir).await;
    assert!(left < 2600, "{left}");
    // Each process that writes indexes a batch at least, up to the usual lag.
    for n in 0..10 {
        let store = store_dir.open();
        SessionWriter::create(&store, &format!("other{n}"), 0).await;
        drop(store);
        let now = store_dir.open().health().await.expect("health").unindexed;
        assert!(now < left || now <= 2000, "{left}, then {now}");
        left = now;
    }
    assert!(left <= 2000, "{left}");
}

#[tokio::test]
async fn a_short_process_leaves_the_index_to_a_long_running_one() {
    let store_dir = StoreDir::fresh();
    let stays =
        store_dir.open_with(Options { indexing: Indexing::Background, ..Options::default() });
    // It has written nothing itself, so its indexer is not woken.
    assert!(rows_left_unindexed(&store_dir).await > 2000);
    drop(stays);
}

/// The bytes of the files of the index.
fn index_bytes(store_dir: &StoreDir) -> Vec<u8> {
    let names = ["search.db", "search.db-wal"];
    names.iter().flat_map(|name| fs::read(store_dir.file(name)).unwrap_or_default()).collect()
}

#[tokio::test]
async fn the_words_of_a_deleted_session_are_gone_from_the_file() {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    for name in ["kept", "gone"] {
        let writer = SessionWriter::create(&store, name, 0).await;
        for n in 0..20 {
            writer.say(&format!("common secret{name}word number{n}"), 1 + n).await;
            store.catch_up().await;
        }
    }
    let has = |word: &str| {
        let bytes = index_bytes(&store_dir);
        bytes.windows(word.len()).any(|window| window == word.as_bytes())
    };
    assert!(has("secretgoneword") && has("secretkeptword"));
    SessionWriter { store: store.clone(), target: label("gone") }
        .delete(90)
        .await
        .expect("deleted");
    assert_eq!(store.search("secretgoneword", 9).await.expect("searched"), []);
    store.purge_all(at(1000)).await;
    store.catch_up().await;
    assert!(!has("secretgoneword"), "the word of a deleted text is in the index");
    assert_eq!(store.search("secretkeptword", 99).await.expect("searched").len(), 20);
    assert_eq!(store.search("common", 99).await.expect("searched").len(), 20);
}

#[tokio::test]
async fn an_index_without_its_last_rows_is_completed() {
    // A crash between the rows and the index, or between two batches of it.
    let (store_dir, _) = indexed_store().await;
    let store = store_dir.open();
    let writer = SessionWriter { store: store.clone(), target: label("main") };
    for n in 0..9 {
        writer.say(&format!("unindexed{n} needle"), 10 + n).await;
    }
    drop((store, writer));
    let store = store_dir.open();
    for n in 0..9 {
        assert_eq!(store.search(&format!("unindexed{n}"), 9).await.expect("searched").len(), 1);
    }
    assert_eq!(store.search_from("needle", None, 99).await.expect("searched").lag, 0);
}
