//! Several handles on one directory, as several processes would open them.

use ctx_core::refusal::Refusal;
use ctx_store::Error;
use tokio::task::JoinSet;

use crate::StoreDir;
use crate::harness::{SessionWriter, StoreHandle, create, new_session, text_of, verify};

#[tokio::test]
async fn two_alternating_handles_form_one_chain() {
    let store_dir = StoreDir::fresh();
    let (one, two) = (store_dir.open(), store_dir.open());
    let writer = SessionWriter::create(&one, "main", 0).await;
    let task = writer.through(&two).start("a task", 1).await;
    for n in 0..40 {
        let store = if n % 2 == 0 { &one } else { &two };
        writer.through(store).note(&format!("note {n}"), 2 + n).await;
    }
    let chain = writer.chain(task).await;
    let told: Vec<&str> = chain.iter().flat_map(|stored| stored.step.notes()).collect();
    assert_eq!(told, (0..40).map(|n| format!("note {n}")).collect::<Vec<_>>());
    assert_eq!(verify(&two).await.findings, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn four_concurrent_handles_form_one_chain() {
    let store_dir = StoreDir::fresh();
    let stores: Vec<StoreHandle> = (0..4).map(|_| store_dir.open()).collect();
    let writer = SessionWriter::create(&stores[0], "main", 0).await;
    let task = writer.start("a task", 1).await;
    let mut writers = JoinSet::new();
    for (n, store) in stores.iter().enumerate() {
        let writer = writer.through(store);
        writers.spawn(async move {
            for m in 0..25 {
                writer.write(&format!("{n}-{m}.rs"), text_of(m, 5000), 2).await;
            }
        });
    }
    writers.join_all().await;
    assert_eq!(writer.chain(task).await.len(), 101);
    for store in &stores {
        assert_eq!(store.health().await.expect("health").blobs, 25, "each content is stored once");
    }
    assert_eq!(verify(&stores[3]).await.findings, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_many_handles_gets_a_label() {
    let store_dir = StoreDir::fresh();
    let mut tries = JoinSet::new();
    for n in 0..8 {
        let store = store_dir.open();
        tries.spawn(async move { create(&store, new_session("wanted", n)).await });
    }
    let tried = tries.join_all().await;
    assert_eq!(tried.iter().filter(|tried| tried.is_ok()).count(), 1);
    assert_eq!(
        tried
            .iter()
            .filter(|tried| matches!(tried, Err(Error::Refused(Refusal::LabelInUse { .. }))))
            .count(),
        7
    );
}

#[tokio::test]
async fn an_acknowledged_write_is_visible_to_other_handles() {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    let writer = SessionWriter::create(&store, "main", 0).await;
    let reader = writer.through(&store_dir.open());
    for n in 1..=20 {
        let turn = writer.say("hello", n).await;
        assert_eq!(reader.view().await.session.head, Some(turn));
        assert_eq!(reader.store.turns(turn, 100).await.expect("turns").len() as i64, n);
    }
}

/// SQLite's locks belong to the process, and closing any descriptor of the file drops them all. If
/// the store opened `ctx.db` without SQLite, another program would see no lock and remove the log.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_second_handle_does_not_drop_the_locks_of_the_first() {
    use std::os::unix::fs::MetadataExt;
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    SessionWriter::create(&store, "main", 0).await;
    let (process, inode) =
        (std::process::id(), std::fs::metadata(store_dir.file("ctx.db")).expect("a file").ino());
    let is_listed = || {
        let locks = std::fs::read_to_string("/proc/locks").expect("locks");
        locks.lines().any(|line| {
            line.contains(&format!(" {process} ")) && line.contains(&format!(":{inode} "))
        })
    };
    // The kernel may omit a lock from the list while other tests lock and unlock.
    let locked = || (0..100).any(|_| is_listed());
    assert!(locked(), "an open store holds a lock");
    assert!(ctx_store::sqlite::exists(store_dir.0.path()).expect("a look"));
    assert!(locked(), "after a check whether the store exists");
    let second = store_dir.open();
    assert!(locked(), "after a second handle");
    drop(second);
    assert!(locked(), "after the second was closed");
}
