//! Aliases: no change of the trait writes them yet, but sessions are found by them.

use ctx_store::Target;

use crate::StoreDir;
use crate::harness::{SessionWriter, label};

fn add_alias(store_dir: &StoreDir, alias: &str, session: &str) {
    let sql = "INSERT INTO session_aliases(alias, session_label, created_at) VALUES (?1, ?2, 0)";
    store_dir.sql().execute(sql, [alias, session]).expect("an alias");
}

#[tokio::test]
async fn an_alias_finds_its_session_unless_a_label_is_the_same() {
    // R137, R142
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    let first = SessionWriter::create(&store, "first", 0).await.id().await;
    add_alias(&store_dir, "dm:entity", "first");
    let by_alias = SessionWriter { store: store.clone(), target: label("dm:entity") };
    assert_eq!(by_alias.id().await, first);
    by_alias.say("through the alias", 1).await;
    assert_eq!(SessionWriter::of(&store, "first").session().await.turn_count, 1);
    let second = SessionWriter::create(&store, "second", 2).await.id().await;
    add_alias(&store_dir, "second", "first");
    assert_eq!(SessionWriter::of(&store, "second").id().await, second, "the label comes first");
    assert_ne!(second, first);
    let by_id = SessionWriter { store: store.clone(), target: Target::Id(second) };
    assert_eq!(by_id.session().await.label, "second");
}

#[tokio::test]
async fn deleting_a_session_removes_its_aliases() {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    let writer = SessionWriter::create(&store, "first", 0).await;
    add_alias(&store_dir, "alias", "first");
    writer.delete(1).await.expect("deleted");
    assert_eq!(SessionWriter::of(&store, "alias").try_view().await, None);
    assert_eq!(store_dir.number("SELECT COUNT(*) FROM session_aliases"), 0);
}
