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
