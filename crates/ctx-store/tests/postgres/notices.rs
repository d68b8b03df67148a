//! Texts between the nodes of one database, and its clock.

use ctx_core::id::NodeId;
use ctx_store::{Location, Notice, Options, Server};
use tokio::sync::mpsc::Receiver;

use crate::harness::StoreHandle;
use crate::pooler::Pooler;
use crate::proxy::{Cut, Proxy};
use crate::{Database, open};

const NODE: NodeId = NodeId(ulid::Ulid(7));

/// The next text. Gaps before it are counted.
async fn next_text(received: &mut Receiver<Notice>) -> (usize, String) {
    let mut gaps = 0;
    loop {
        match received.recv().await.expect("it listens") {
            Notice::Text(text) => return (gaps, text),
            Notice::Gap => gaps += 1,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_reaches_its_node_and_one_to_all_reaches_every_node() {
    let database = Database::fresh();
    let (store, other) = (open(&database.url()), open(&database.url()));
    let mut received = store.listen(NODE).await.expect("a direct connection");
    let mut others = other.listen(NodeId(ulid::Ulid(8))).await.expect("a direct connection");
    other.notify(Some(NODE), &"too long ".repeat(1000));
    other.notify(Some(NODE), "to one");
    other.notify(None, "to all, \u{1F600}");
    assert_eq!(next_text(&mut received).await, (0, "to one".to_owned()));
    assert_eq!(next_text(&mut received).await, (0, "to all, \u{1F600}".to_owned()));
    assert_eq!(next_text(&mut others).await, (0, "to all, \u{1F600}".to_owned()));
    drop((store, other));
    assert_eq!(received.recv().await, None, "it ends with its store");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_connection_is_a_gap_and_texts_arrive_after_it() {
    let database = Database::fresh();
    let proxy = Proxy::to(database.server.port);
    let store = open(&database.url_at(proxy.port));
    let other = open(&database.url());
    proxy.cut_at("LISTEN", Cut::Answer);
    let mut received = store.listen(NODE).await.expect("it connects later");
    assert_eq!(received.recv().await, Some(Notice::Gap), "the first connection was cut");
    other.notify(Some(NODE), "first");
    assert_eq!(next_text(&mut received).await, (0, "first".to_owned()));
    database
        .sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'");
    assert_eq!(received.recv().await, Some(Notice::Gap));
    other.notify(Some(NODE), "second");
    assert_eq!(next_text(&mut received).await, (0, "second".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_behind_a_pooler_listens_on_a_connection_of_its_own() {
    let database = Database::fresh();
    let pooler = Pooler::to(database.server);
    let store = open(&database.url_at(pooler.port));
    assert!(store.listen(NODE).await.is_none(), "it polls");
    let server = Server::at(database.url_at(pooler.port)).with_listen_url(Some(database.url()));
    let direct = ctx_store::open(Location::Server(server), Options::default()).expect("it opens");
    let direct = StoreHandle::new(direct);
    let mut received = direct.listen(NODE).await.expect("a direct connection");
    store.notify(Some(NODE), "through the pooler");
    assert_eq!(next_text(&mut received).await, (0, "through the pooler".to_owned()));
}

/// A clock of the database that is an hour ahead cannot be made here; one that is the same can.
#[tokio::test(flavor = "multi_thread")]
async fn the_time_is_that_of_the_database() {
    let database = Database::fresh();
    let store = open(&database.url());
    let read = || database.sql("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint");
    let before: i64 = read().parse().expect("a number");
    let now = store.now().0;
    let after: i64 = read().parse().expect("a number");
    assert!((before - 1000..=after).contains(&now), "{before} {now} {after}");
}
