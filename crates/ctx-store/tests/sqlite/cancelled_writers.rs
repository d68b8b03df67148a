//! Writers that are cancelled while they wait do not block the others.

use std::time::Duration;

use tokio::task::JoinSet;

use crate::StoreDir;
use crate::harness::{SessionWriter, note, verify};

/// Much longer than a write takes, so that only a stalled queue exceeds it.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Yields to other tasks this many times.
async fn yield_times(turns: u64) {
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
}

async fn run_writers(writers: u64, seed: u64) {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    let writer = SessionWriter::create(&store, "main", 0).await;
    let task = writer.start("a task", 1).await;
    let mut tasks = JoinSet::new();
    for n in 0..writers {
        let writer = writer.clone();
        let yields = (n.wrapping_mul(0x9E37_79B9).wrapping_add(seed) >> 3) % 12;
        tasks.spawn(async move {
            let name = format!("writer {n}");
            if n % 3 == 0 {
                writer.note(&name, 2).await;
                return Some(name);
            }
            tokio::select! {
                biased;
                done = writer.observe(vec![note(&name)], vec![], 2) => done.ok().map(|_| name),
                () = yield_times(yields) => None,
            }
        });
    }
    let told: Vec<String> = tokio::time::timeout(TIMEOUT, tasks.join_all())
        .await
        .expect("no writer hangs")
        .into_iter()
        .flatten()
        .collect();
    tokio::time::timeout(TIMEOUT, writer.note("the last", 3))
        .await
        .expect("the queue is not stalled");
    let chain = writer.chain(task).await;
    let notes: Vec<&str> = chain.iter().flat_map(|stored| stored.step.notes()).collect();
    assert!(told.len() as u64 >= writers / 3);
    for name in told {
        assert_eq!(
            notes.iter().filter(|note| **note == name).count(),
            1,
            "{name} was acknowledged"
        );
    }
    let mut once = notes.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), notes.len(), "nothing is written twice");
    assert_eq!(verify(&store).await.findings, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn cancelled_writers_do_not_stall_the_queue() {
    for seed in 0..12 {
        run_writers(120, seed * 7919).await;
    }
}

#[tokio::test]
async fn cancelled_writers_on_one_thread_do_not_stall_the_queue() {
    for seed in 0..12 {
        run_writers(60, seed * 104_729).await;
    }
}

#[tokio::test]
async fn a_write_cancelled_before_it_was_taken_is_not_done() {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    let writer = SessionWriter::create(&store, "main", 0).await;
    let task = writer.start("a task", 1).await;
    for n in 0..20 {
        // One poll queues the write but does not start it.
        let mut write = Box::pin(writer.observe(vec![note(&format!("cancelled {n}"))], vec![], 2));
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
async fn a_panicking_rule_does_not_affect_other_writers() {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    let writer = SessionWriter::create(&store, "main", 0).await;
    let task = writer.start("a task", 1).await;
    let mut tasks = JoinSet::new();
    for n in 0..60 {
        let writer = writer.clone();
        tasks.spawn(async move {
            if n % 10 == 0 {
                let failed =
                    writer.decide::<()>(2, vec![], |_, _| panic!("a rule that panics")).await;
                assert_eq!(failed.expect_err("it failed").code(), "internal");
            } else {
                writer.note(&format!("note {n}"), 2).await;
            }
        });
    }
    tokio::time::timeout(TIMEOUT, tasks.join_all()).await.expect("no writer hangs");
    assert_eq!(writer.chain(task).await.len(), 1 + 54);
    assert_eq!(verify(&store).await.findings, []);
}
