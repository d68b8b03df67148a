//! Copies whose connections are cut.

use ctx_store::Error;

use crate::harness::{SessionWriter, Snapshot, verify};
use crate::proxy::{Cut, Proxy};
use crate::{Database, open};

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_cut_leaves_all_or_nothing_of_a_copy() {
    let source = Database::fresh();
    let from = open(&source.url());
    let writer = SessionWriter::create(&from, "main", 0).await;
    for n in 1..30 {
        writer.say("hello", n).await;
    }
    let told = Snapshot::of(&from).await;
    for (bytes, cut, is_copied) in [
        ("INSERT INTO turns", Cut::Before, false),
        ("INSERT INTO events", Cut::Answer, false),
        ("COMMIT\0", Cut::Before, false),
        ("COMMIT\0", Cut::After, true),
        ("COMMIT\0", Cut::Answer, true),
    ] {
        let here = format!("{bytes} {cut:?}");
        let target = Database::fresh();
        let proxy = Proxy::to(target.server.port);
        let through = open(&target.url_at(proxy.port));
        proxy.cut_at(bytes, cut);
        let copied = from.copy_into(&through, false).await;
        assert!(proxy.has_cut(), "{here}");
        let direct = open(&target.url());
        if is_copied {
            copied.expect(&here);
        } else {
            assert!(matches!(copied, Err(Error::Unavailable(_))), "{here}: {copied:?}");
            assert_eq!(direct.counts().await.turns, 0, "{here}");
            from.copy_into(&direct, false).await.expect(&here);
        }
        assert_eq!(Snapshot::of(&direct).await, told, "{here}");
        assert_eq!(verify(&direct).await.findings, [], "{here}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_to_the_source_copies_nothing() {
    let (source, target) = (Database::fresh(), Database::fresh());
    let proxy = Proxy::to(source.server.port);
    let from = open(&source.url_at(proxy.port));
    SessionWriter::create(&from, "main", 0).await.say("hello", 1).await;
    let to = open(&target.url());
    for bytes in ["FROM sessions", "FROM turns", "FROM outbox"] {
        proxy.cut_at(bytes, Cut::Answer);
        let failed = from.copy_into(&to, false).await;
        assert!(matches!(failed, Err(Error::Unavailable(_))), "{bytes}: {failed:?}");
        assert!(proxy.has_cut(), "{bytes}");
        assert_eq!(to.counts().await.sessions, 0, "{bytes}");
    }
    from.copy_into(&to, false).await.expect("copied");
    assert_eq!(Snapshot::of(&to).await, Snapshot::of(&from).await);
}
