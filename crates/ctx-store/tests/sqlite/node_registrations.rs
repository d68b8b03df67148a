//! A node's registration is a file lock: the kernel releases it however the process ends.

use ctx_core::id::NodeId;
use ctx_core::time::Span;
use ulid::Ulid;

use crate::StoreDir;
use crate::harness::{NODE, SessionWriter, at};

#[tokio::test]
async fn a_node_is_dead_as_soon_as_its_store_is_closed() {
    let store_dir = StoreDir::fresh();
    let (store, other) = (store_dir.open(), store_dir.open());
    store.keep_alive(NODE, at(0), Span::hours(1)).await.expect("registered");
    SessionWriter::create(&store, "main", 0).await.open_run("hello", 1).await;
    assert!(other.dead_nodes(at(2)).await.expect("nodes").is_empty());
    drop(store);
    assert_eq!(other.dead_nodes(at(2)).await.expect("nodes"), [NODE]);
}

#[tokio::test]
async fn a_closed_node_without_sessions_is_listed_until_it_left() {
    let store_dir = StoreDir::fresh();
    let (store, other) = (store_dir.open(), store_dir.open());
    let idle = NodeId(Ulid(5));
    store.keep_alive(idle, at(0), Span::hours(1)).await.expect("registered");
    drop(store);
    assert_eq!(other.dead_nodes(at(1)).await.expect("nodes"), [idle]);
    other.remove_node(idle).await.expect("left");
    assert!(other.dead_nodes(at(1)).await.expect("nodes").is_empty());
}

#[tokio::test]
async fn a_node_that_registers_again_is_alive_again() {
    let store_dir = StoreDir::fresh();
    let (store, again) = (store_dir.open(), store_dir.open());
    store.keep_alive(NODE, at(0), Span::hours(1)).await.expect("registered");
    SessionWriter::create(&store, "main", 0).await.open_run("hello", 1).await;
    assert!(again.keep_alive(NODE, at(0), Span::hours(1)).await.expect("registered again"));
    drop(store);
    assert!(again.dead_nodes(at(2)).await.expect("nodes").is_empty());
}

#[tokio::test]
async fn a_lease_ends_by_the_clock_of_the_caller() {
    let store_dir = StoreDir::fresh();
    let (store, other) = (store_dir.open(), store_dir.open());
    assert!(store.keep_alive(NODE, at(50), Span(50)).await.expect("registered"));
    SessionWriter::create(&store, "main", 0).await.open_run("hello", 1).await;
    for (now, dead) in [(0, vec![]), (100, vec![]), (101, vec![NODE])] {
        assert_eq!(other.dead_nodes(at(now)).await.expect("nodes"), dead, "at {now}");
    }
    assert!(store.keep_alive(NODE, at(101), Span(99)).await.expect("renewed"));
    assert!(other.dead_nodes(at(200)).await.expect("nodes").is_empty());
    assert_eq!(other.dead_nodes(at(201)).await.expect("nodes"), [NODE]);
}
