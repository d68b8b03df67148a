//! Round trips between the program and the server.

use crate::harness::{SessionWriter, ended};
use crate::proxy::Proxy;
use crate::{Database, open};

#[tokio::test(flavor = "multi_thread")]
async fn a_write_takes_two_round_trips() {
    let database = Database::fresh();
    let proxy = Proxy::to(database.server.port);
    let store = open(&database.url_at(proxy.port));
    let writer = SessionWriter::create(&store, "main", 0).await;
    let exchange = async |ms: i64| {
        let before = proxy.trips();
        let opened = writer.open_run("hello", ms).await;
        let (ended, body) = ended(&opened, "hi", ms);
        writer.end_run_as(ended, body, ms).await.expect("the run is open");
        proxy.trips() - before
    };
    // The first ones prepare statements, and find out what the rules read.
    for ms in 1..4 {
        exchange(ms).await;
    }
    for ms in 4..8 {
        assert_eq!(exchange(ms).await, 4, "a message and the end of its run");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_sends_many_rows_in_one_round_trip() {
    const TURNS: i64 = 200;
    let (source, target) = (Database::fresh(), Database::fresh());
    let from = open(&source.url());
    let writer = SessionWriter::create(&from, "main", 0).await;
    for ms in 1..=TURNS {
        writer.say("hello", ms).await;
    }
    let proxy = Proxy::to(target.server.port);
    let to = open(&target.url_at(proxy.port));
    let before = proxy.trips();
    from.copy_into(&to, false).await.expect("copied");
    let trips = proxy.trips() - before;
    assert!(trips < TURNS as u64 / 2, "{trips} round trips for {TURNS} turns");
}

/// Two updates of a session's row per message: neither writes an index.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_writes_no_index_of_its_session() {
    const MESSAGES: i64 = 50;
    let database = Database::fresh();
    let store = open(&database.url());
    let writer = SessionWriter::create(&store, "main", 0).await;
    for ms in 1..=MESSAGES {
        let opened = writer.open_run("hello", ms).await;
        let (ended, body) = ended(&opened, "hi", ms);
        writer.end_run_as(ended, body, ms).await.expect("the run is open");
    }
    drop((writer, store));
    // The server counts a connection's updates when it ends.
    let counted = "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'sessions'";
    while database.sql(counted).parse::<i64>().expect("a number") < 2 * MESSAGES {}
    let others = "SELECT n_tup_upd - n_tup_hot_upd FROM pg_stat_user_tables
         WHERE relname = 'sessions'";
    let others: i64 = database.sql(others).parse().expect("a number");
    assert!(others <= MESSAGES / 10, "{others} of {} updates", 2 * MESSAGES);
}
