//! Rows that the indexes have not seen yet are found as well, without waiting for the indexes.

use rusqlite::Connection;

use crate::StoreDir;
use crate::harness::SessionWriter;

#[tokio::test]
async fn search_finds_rows_that_are_not_indexed_yet() {
    let store_dir = StoreDir::fresh();
    let (one, two) = (store_dir.open(), store_dir.open());
    let writer = SessionWriter::create(&one, "main", 0).await;
    for n in 1..20_usize {
        let (speaker, searcher) = if n % 2 == 0 { (&one, &two) } else { (&two, &one) };
        writer.through(speaker).say(&format!("word{n} common"), n as i64).await;
        assert_eq!(searcher.search(&format!("word{n}"), 9).await.expect("searched").len(), 1);
        assert_eq!(searcher.search("common", 99).await.expect("searched").len(), n);
    }
    drop((one, two, writer));
    let again = store_dir.open();
    assert_eq!(again.search("common", 99).await.expect("searched").len(), 19);
}

#[tokio::test]
async fn health_reports_how_far_the_indexes_lag_behind() {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    let writer = SessionWriter::create(&store, "main", 0).await;
    writer.start("a task", 1).await;
    writer.write("a.rs", vec![b'x'; 5000], 2).await;
    writer.say("hello", 3).await;
    writer.seal("done", 4).await.expect("sealed");
    let health = store.health().await.expect("health");
    assert_eq!(health.unindexed, health.turns + health.steps + health.commits + health.blobs);
    assert!(health.size("database") > 0 && health.schema == 1);
    store.catch_up().await;
    assert_eq!(store.health().await.expect("health").unindexed, 0);
}

/// The rows of the index, without their numbers.
fn index_rows(store_dir: &StoreDir) -> Vec<(i64, i64, Vec<u8>)> {
    let index = Connection::open(store_dir.file("search.db")).expect("an index");
    let mut rows = index
        .prepare(
            "SELECT tbl, first, entries FROM runs UNION ALL SELECT 9, unit, x'' FROM documents
             ORDER BY 1, 2, 3",
        )
        .expect("rows");
    rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .expect("rows")
        .collect::<Result<_, _>>()
        .expect("rows")
}

#[tokio::test]
async fn an_index_that_is_filled_in_small_steps_equals_one_that_is_filled_at_once() {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    let writer = SessionWriter::create(&store, "main", 0).await;
    for n in 1..=150 {
        writer.say(&format!("word{n} common"), n).await;
        if n % 7 == 0 {
            store.catch_up().await;
        }
    }
    store.catch_up().await;
    let in_steps = index_rows(&store_dir);
    store.rebuild_index().await.expect("rebuilt");
    store.catch_up().await;
    assert_eq!(in_steps.len(), 151, "a run and a document for each turn");
    assert_eq!(in_steps, index_rows(&store_dir));
}
