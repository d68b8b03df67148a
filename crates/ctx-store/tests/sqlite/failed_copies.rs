//! Copies of damaged stores.

use ctx_store::Error;

use crate::StoreDir;
use crate::harness::{SessionWriter, verify};

async fn damaged(damage: &str) -> StoreDir {
    let source = StoreDir::fresh();
    let store = source.open();
    let writer = SessionWriter::create(&store, "main", 0).await;
    for n in 1..4 {
        writer.say("hello", n).await;
    }
    drop((store, writer));
    source.sql().execute_batch(damage).expect("damaged");
    source
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_with_a_missing_row_leaves_the_target_empty() {
    for (damage, fault) in [
        ("DELETE FROM turns WHERE id = 1", "row 1, which is missing"),
        ("UPDATE events SET events = '[{\"turn\":' WHERE id = 2", "an event"),
    ] {
        let (source, target) = (damaged(damage).await, StoreDir::fresh());
        let before = target.rows();
        let failed = source.open().copy_into(&target.open(), false).await;
        assert!(matches!(failed, Err(Error::Damaged(_))), "{damage}: {failed:?}");
        let text = failed.expect_err("it failed").to_string();
        assert!(text.contains(fault), "{damage}: {text}");
        assert_eq!(target.rows(), before, "{damage}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_body_is_copied_and_found_in_the_target() {
    let source = damaged("UPDATE turns SET off = 9999999 WHERE id = 2").await;
    let target = StoreDir::fresh();
    let (store, copy) = (source.open(), target.open());
    store.copy_into(&copy, false).await.expect("copied");
    let findings = verify(&store).await.findings;
    assert_eq!(findings.len(), 1);
    assert_eq!(verify(&copy).await.findings, findings);
}
