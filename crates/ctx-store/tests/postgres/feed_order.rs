//! Rows become visible in another order than that of their numbers.

use ctx_store::Options;

use crate::harness::{FeedCursor, SessionWriter, feed_after};
use crate::{Database, open};

#[tokio::test(flavor = "multi_thread")]
async fn a_row_waits_for_an_older_one_that_is_not_visible_yet() {
    let database = Database::fresh();
    let store = open(&database.url());
    let writer = SessionWriter::create(&store, "main", 0).await;
    let before = store.newest_feed_row().await.expect("a row");

    // A transaction that has drawn its numbers and is slow to commit.
    let mut other = database.server.connect(&database.name);
    other.execute("BEGIN; SELECT pg_advisory_xact_lock_shared(27994081439252481)");
    let older = other.execute("SELECT nextval('row_numbers')");
    let older: i64 = older.parse().expect("a number");

    writer.say("hello", 1).await;
    assert_eq!(feed_after(&store, before, 9).await, [], "an older row may still appear");
    assert_eq!(store.newest_feed_row().await.expect("a row"), before);
    other.execute(&format!(
        "INSERT INTO events(id, session, seq, at, events)
         SELECT {older}, row, 99, 0, '[]' FROM sessions"
    ));
    other.execute("COMMIT");
    let after = feed_after(&store, before, 9).await;
    assert!(after.iter().all(|event| event.row > older), "in the order of their numbers");
    assert!(store.newest_feed_row().await.expect("a row") > FeedCursor::START);
    assert_eq!(after.len(), 1);
    drop(ctx_store::open(&database.url(), Options::default()).expect("it opens"));
}
