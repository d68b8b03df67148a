//! Connections that are cut at every step of a transaction, and servers that restart: what was
//! acknowledged is stored, and nothing is stored twice.

use ctx_store::Options;

use crate::harness::postgres_server::Server;
use crate::harness::{FeedCursor, PROJECT, SessionWriter, feed_after, verify};
use crate::proxy::{Cut, Proxy};
use crate::{Database, open};

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_cut_at_any_step_loses_and_repeats_nothing() {
    let database = Database::fresh();
    let proxy = Proxy::to(database.server.port);
    let store = open(&database.url_at(proxy.port));
    let writer = SessionWriter::create(&store, "main", 0).await;
    writer.say("first", 1).await;
    let mut turns = 1;
    for bytes in ["BEGIN", "COMMIT"] {
        for cut in [Cut::Before, Cut::After, Cut::Answer] {
            proxy.cut_at(bytes, cut);
            writer.say(&format!("{bytes} {cut:?}"), 2).await;
            turns += 1;
            assert!(proxy.has_cut(), "{bytes} {cut:?}");
            assert_eq!(writer.session().await.turn_count, turns, "{bytes} {cut:?}");
        }
    }
    assert_eq!(verify(&store).await.findings, []);
    let direct = open(&database.url());
    let events = feed_after(&direct, FeedCursor::START, 99).await;
    assert_eq!(events.len() as u64, writer.session().await.seq, "each event once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_is_repeated_on_a_new_connection() {
    let database = Database::fresh();
    let proxy = Proxy::to(database.server.port);
    let store = open(&database.url_at(proxy.port));
    let writer = SessionWriter::create(&store, "main", 0).await;
    for cut in [Cut::Before, Cut::After, Cut::Answer] {
        proxy.cut_at("BEGIN", cut);
        assert_eq!(writer.session().await.label, "main");
        assert!(proxy.has_cut(), "{cut:?}");
    }
}

/// Another transaction may have the number of one that was lost in a crash. So the number alone
/// does not tell whether the lost one was committed.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_restarts_loses_nothing_that_was_acknowledged() {
    let server = Server::start("", false);
    let name = server.create_database();
    let url = server.url(&name);
    ctx_store::create(&url, PROJECT).expect("a store");
    let store = open(&url);
    let writer = SessionWriter::create(&store, "main", 0).await;
    let mut told = 0;
    for mode in ["fast", "immediate", "fast"] {
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let writing = tokio::spawn({
            let writer = writer.through(&store);
            async move {
                let (mut said, mut stopped) = (0, stopped);
                while stopped.try_recv().is_err() {
                    writer.say("hello", 1).await;
                    said += 1;
                }
                said
            }
        });
        server.restart(mode);
        stop.send(()).expect("it writes");
        told += writing.await.expect("no panic");
        writer.say("after the restart", 2).await;
        told += 1;
        assert_eq!(writer.session().await.turn_count, told, "{mode}");
    }
    assert_eq!(verify(&store).await.findings, []);
    drop(ctx_store::open(&url, Options::default()).expect("it opens"));
}
