//! Beside a newer program an old one refuses; it never writes what that one would not understand.

use ctx_core::time::Span;
use ctx_store::Error;
use ctx_store::sqlite::Options;

use crate::Bench;
use crate::hand::{Hand, at, make, new_session, note};

fn set(bench: &Bench, key: &str, value: &str) {
    assert_eq!(
        bench
            .sql()
            .execute("UPDATE meta SET value = ?2 WHERE key = ?1", [key, value])
            .expect("set"),
        1
    );
}

/// What a newer program leaves that changed what is written.
fn upgrade(bench: &Bench) {
    set(bench, "schema", "99");
    set(bench, "min_writer", "99");
}

#[test]
fn a_store_of_a_newer_program_is_not_opened() {
    let bench = Bench::fresh();
    upgrade(&bench);
    let before = bench.rows();
    match bench.try_open(Options::default()).map(drop) {
        Err(error @ Error::TooNew { found: 99, known: 1 }) => {
            assert!(error.to_string().contains("newer"), "{error}")
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(bench.rows(), before);
}

#[test]
fn a_schema_that_is_no_number_is_damage() {
    for wrong in ["", "one", "-1", "99999999999"] {
        let bench = Bench::fresh();
        set(&bench, "schema", wrong);
        assert!(
            matches!(bench.try_open(Options::default()).map(drop), Err(Error::Damaged(_))),
            "{wrong}"
        );
    }
}

#[tokio::test]
async fn who_may_no_longer_write_is_refused_at_the_next_write() {
    let bench = Bench::fresh();
    let store = bench.open();
    let hand = Hand::create(&store, "main", 0).await;
    hand.start("a task", 1).await;
    upgrade(&bench);
    let before = bench.rows();
    for _ in 0..2 {
        let refused = hand.observe(vec![note("too late")], vec![], 2).await;
        assert!(matches!(refused, Err(Error::TooNew { found: 99, known: 1 })), "{refused:?}");
        let refused = make(&store, new_session("another", 3)).await;
        assert!(matches!(refused, Err(Error::TooNew { .. })), "{refused:?}");
    }
    assert_eq!(bench.rows(), before, "nothing was written");
    assert_eq!(hand.view().await.session.label, "main", "looking is still allowed");
}

#[tokio::test]
async fn the_least_writer_alone_decides_who_writes() {
    let bench = Bench::fresh();
    set(&bench, "min_writer", "99");
    let before = bench.rows();
    let refused = match bench.try_open(Options::default()) {
        Ok(store) => {
            make(&(std::sync::Arc::new(store) as _), new_session("main", 1)).await.map(drop)
        }
        Err(error) => Err(error),
    };
    assert!(matches!(refused, Err(Error::TooNew { found: 99, known: 1 })), "{refused:?}");
    assert_eq!(bench.rows(), before);
}

#[tokio::test]
async fn neither_collecting_nor_repairing_writes_to_a_newer_store() {
    let bench = Bench::fresh();
    let store = bench.open();
    Hand::create(&store, "main", 0).await;
    store.settle().await.expect("settled");
    upgrade(&bench);
    bench
        .sql()
        .execute("INSERT INTO refs(name, target, moved_at) VALUES ('PIN:x', 'what only a newer one knows', 1)", [])
        .expect("a newer ref");
    let before = bench.rows();
    let collected = store.gc(at(1000), Span(0)).await;
    assert!(matches!(collected, Err(Error::TooNew { .. })), "{collected:?}");
    let repaired = store.verify(true, &|_, _| {}).await;
    assert_eq!(bench.rows(), before, "nothing was written");
    assert!(matches!(repaired, Err(Error::TooNew { .. })), "{repaired:?}");
}
