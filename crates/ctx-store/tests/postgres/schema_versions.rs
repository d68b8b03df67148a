//! Programs of different versions on one store.

use ctx_store::{Error, Options};

use crate::harness::{SessionWriter, create, new_session};
use crate::{Database, open};

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_schema_is_served_until_it_needs_a_newer_writer() {
    let database = Database::fresh();
    let store = open(&database.url());
    let writer = SessionWriter::create(&store, "main", 0).await;
    database.sql("UPDATE meta SET value = '2' WHERE key = 'schema'");
    ctx_store::open(&database.url(), Options::default()).expect("it serves the newer schema");
    writer.say("hello", 1).await;
    database.sql("UPDATE meta SET value = '2' WHERE key = 'min_writer'");
    let opened = ctx_store::open(&database.url(), Options::default());
    assert!(matches!(opened, Err(Error::TooNew { found: 2, known: 1 })));
    let written = create(&store, new_session("another", 2)).await;
    assert!(matches!(written, Err(Error::TooNew { found: 2, known: 1 })), "{written:?}");
}
