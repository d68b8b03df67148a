//! An old program refuses to write to a store that a newer program has upgraded.

use ctx_core::time::Span;
use ctx_store::Error;
use ctx_store::sqlite::Options;

use crate::StoreDir;
use crate::harness::{SessionWriter, StoreHandle, at, create, new_session, note};

fn set(store_dir: &StoreDir, key: &str, value: &str) {
    assert_eq!(
        store_dir
            .sql()
            .execute("UPDATE meta SET value = ?2 WHERE key = ?1", [key, value])
            .expect("set"),
        1
    );
}

/// Marks the store as upgraded by a newer program.
fn upgrade(store_dir: &StoreDir) {
    set(store_dir, "schema", "99");
    set(store_dir, "min_writer", "99");
}

#[test]
fn a_store_with_a_newer_schema_is_not_opened() {
    let store_dir = StoreDir::fresh();
    upgrade(&store_dir);
    let before = store_dir.rows();
    match store_dir.try_open(Options::default()).map(drop) {
        Err(error @ Error::TooNew { found: 99, known: 1 }) => {
            assert!(error.to_string().contains("newer"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(store_dir.rows(), before);
}

#[test]
fn a_schema_that_is_not_a_number_is_damage() {
    for wrong in ["", "one", "-1", "99999999999"] {
        let store_dir = StoreDir::fresh();
        set(&store_dir, "schema", wrong);
        assert!(
            matches!(store_dir.try_open(Options::default()).map(drop), Err(Error::Damaged(_))),
            "{wrong}"
        );
    }
}

#[tokio::test]
async fn an_outdated_writer_is_refused_at_its_next_write() {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    let writer = SessionWriter::create(&store, "main", 0).await;
    writer.start("a task", 1).await;
    upgrade(&store_dir);
    let before = store_dir.rows();
    for _ in 0..2 {
        let refused = writer.observe(vec![note("too late")], vec![], 2).await;
        assert!(matches!(refused, Err(Error::TooNew { found: 99, known: 1 })), "{refused:?}");
        let refused = create(&store, new_session("another", 3)).await;
        assert!(matches!(refused, Err(Error::TooNew { .. })), "{refused:?}");
    }
    assert_eq!(store_dir.rows(), before, "nothing was written");
    assert_eq!(writer.view().await.session.label, "main", "reading is still allowed");
}

#[tokio::test]
async fn the_minimum_writer_alone_decides_who_may_write() {
    let store_dir = StoreDir::fresh();
    set(&store_dir, "min_writer", "99");
    let before = store_dir.rows();
    let refused = match store_dir.try_open(Options::default()) {
        Ok(store) => create(&StoreHandle::new(store), new_session("main", 1)).await.map(drop),
        Err(error) => Err(error),
    };
    assert!(matches!(refused, Err(Error::TooNew { found: 99, known: 1 })), "{refused:?}");
    assert_eq!(store_dir.rows(), before);
}

#[tokio::test]
async fn neither_gc_nor_repair_writes_to_a_newer_store() {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    SessionWriter::create(&store, "main", 0).await;
    store.catch_up().await;
    upgrade(&store_dir);
    store_dir
        .sql()
        .execute("INSERT INTO refs(name, target, moved_at) VALUES ('PIN:x', 'newer', 1)", [])
        .expect("a newer ref");
    let before = store_dir.rows();
    let collected = store.gc(at(1000), Span(0)).await;
    assert!(matches!(collected, Err(Error::TooNew { .. })), "{collected:?}");
    let repaired = store.verify(true, &|_, _| {}).await;
    assert_eq!(store_dir.rows(), before, "nothing was written");
    assert!(matches!(repaired, Err(Error::TooNew { .. })), "{repaired:?}");
}
