//! Which process moves the write-ahead log into the database.

use std::fs;

use ctx_store::sqlite::{Indexing, Options};

use crate::StoreDir;
use crate::harness::{SessionWriter, StoreHandle};

/// A verb moves a log of this size in bytes.
const LONG_LOG_BYTES: usize = 4 << 20;

fn log_bytes(store_dir: &StoreDir) -> u64 {
    fs::metadata(store_dir.file("ctx.db-wal")).expect("a log").len()
}

/// Stores a file that makes the log long.
async fn write_long(store: &StoreHandle) {
    let writer = SessionWriter::create(store, "main", 0).await;
    writer.start("a task", 1).await;
    writer.write("a.bin", vec![b'x'; LONG_LOG_BYTES + 1000], 2).await;
}

const VERB: Options = Options { compress: false, indexing: Indexing::OnDemand };
const SERVER: Options = Options { compress: false, indexing: Indexing::Background };

#[tokio::test]
async fn a_verb_empties_a_long_log() {
    let store_dir = StoreDir::fresh();
    write_long(&store_dir.open_with(VERB)).await;
    assert_eq!(log_bytes(&store_dir), 0);
}

#[tokio::test]
async fn a_verb_leaves_the_log_to_a_long_running_process() {
    let store_dir = StoreDir::fresh();
    let server = store_dir.open_with(SERVER);
    write_long(&store_dir.open_with(VERB)).await;
    assert!(log_bytes(&store_dir) > LONG_LOG_BYTES as u64);
    drop(server);
}
