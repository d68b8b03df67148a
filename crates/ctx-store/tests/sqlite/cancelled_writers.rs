//! Writers that go away while they wait: nobody else may be left waiting for them.

use std::time::Duration;

use tokio::task::JoinSet;

use crate::StoreDir;
use crate::harness::{SessionWriter, note, verify};

/// Long for one write, short for a person who waits for a test that hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Lets others run so many times, and then gives up.
async fn after(turns: u64) {
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
}

async fn crowd(writers: u64, seed: u64) {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    let writer = SessionWriter::create(&store, "main", 0).await;
    let task = writer.start("a task", 1).await;
    let mut crowd = JoinSet::new();
    for n in 0..writers {
        let writer = writer.clone();
        let patience = (n.wrapping_mul(0x9E37_79B9).wrapping_add(seed) >> 3) % 12;
        crowd.spawn(async move {
            let name = format!("writer {n}");
            if n % 3 == 0 {
                writer.note(&name, 2).await;
                return Some(name);
            }
            tokio::select! {
                biased;
                done = writer.observe(vec![note(&name)], vec![], 2) => done.ok().map(|_| name),
                () = after(patience) => None,
            }
        });
    }
    let told: Vec<String> = tokio::time::timeout(PATIENCE, crowd.join_all())
        .await
        .expect("nobody hangs")
        .into_iter()
        .flatten()
        .collect();
    tokio::time::timeout(PATIENCE, writer.note("the last", 3))
        .await
        .expect("the queue still moves");
    let chain = writer.chain(task).await;
    let notes: Vec<&str> = chain.iter().flat_map(|stored| stored.step.notes()).collect();
    assert!(told.len() as u64 >= writers / 3);
    for name in told {
        assert_eq!(
            notes.iter().filter(|note| **note == name).count(),
            1,
            "{name} was told that it is done"
        );
    }
    let mut once = notes.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), notes.len(), "nothing is written twice");
    assert_eq!(verify(&store).await.findings, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_gives_up_leaves_the_queue_moving() {
    for seed in 0..12 {
        crowd(120, seed * 7919).await;
    }
}

#[tokio::test]
async fn who_gives_up_on_one_thread_leaves_the_queue_moving() {
    for seed in 0..12 {
        crowd(60, seed * 104_729).await;
    }
}

#[tokio::test]
async fn who_gives_up_before_anybody_took_the_write_takes_it_along() {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    let writer = SessionWriter::create(&store, "main", 0).await;
    let task = writer.start("a task", 1).await;
    for n in 0..20 {
        // Once is enough to queue the write, and not enough to take the writer.
        let mut write = Box::pin(writer.observe(vec![note(&format!("given up {n}"))], vec![], 2));
        std::future::poll_fn(|context| {
            assert!(write.as_mut().poll(context).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
    }
    writer.note("the only one", 3).await;
    let chain = writer.chain(task).await;
    assert_eq!(
        chain.iter().flat_map(|stored| stored.step.notes()).collect::<Vec<_>>(),
        ["the only one"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_rule_that_fails_takes_nobody_with_it() {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    let writer = SessionWriter::create(&store, "main", 0).await;
    let task = writer.start("a task", 1).await;
    let mut crowd = JoinSet::new();
    for n in 0..60 {
        let writer = writer.clone();
        crowd.spawn(async move {
            if n % 10 == 0 {
                let failed =
                    writer.decide(2, vec![], |_, _| panic!("a rule with a fault in it")).await;
                assert_eq!(failed.expect_err("it failed").code(), "internal");
            } else {
                writer.note(&format!("note {n}"), 2).await;
            }
        });
    }
    tokio::time::timeout(PATIENCE, crowd.join_all()).await.expect("nobody hangs");
    assert_eq!(writer.chain(task).await.len(), 1 + 54);
    assert_eq!(verify(&store).await.findings, []);
}
