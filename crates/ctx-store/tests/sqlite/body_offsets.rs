//! Bodies of any length at any offset in a chunk: kept ones read back, deleted ones leave no bytes.

use std::collections::BTreeMap;

use ctx_core::decide::{self, Settings, Submit, SubmitTarget};
use ctx_core::inbox::Mode;
use ctx_core::object::Object;
use ctx_store::sqlite::{Indexing, Options};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};

use crate::StoreDir;
use crate::garbage_collection::{NO_GRACE, show_pictures};
use crate::harness::{
    SessionWriter, StoreHandle, at, image, label, submission_in, text_of, verify,
};

const PLAIN: Options = Options { compress: false, indexing: Indexing::OnDemand };

/// A blob is up to five chunks long.
const BLOB_MAX_BYTES: usize = 20_000;
/// Length of the piece by which a blob is recognised in the file.
const PIECE_BYTES: usize = 24;

#[derive(Debug, Clone)]
enum Operation {
    /// A session stores blobs of these lengths; some are all zeros, like erased chunks.
    Show(Vec<(usize, bool)>),
    /// A session is deleted, with the blobs that no other session references.
    Delete(Index),
}

fn operation() -> impl Strategy<Value = Operation> {
    let length =
        prop_oneof![0..BLOB_MAX_BYTES, Just(0), Just(4056), Just(4055), Just(4057), Just(2 * 4056)];
    prop_oneof![
        2 => vec((length, prop::bool::weighted(0.2)), 1..4).prop_map(Operation::Show),
        1 => any::<Index>().prop_map(Operation::Delete),
    ]
}

/// The content of every chunk of the database, in order.
fn all_bytes(store_dir: &StoreDir) -> Vec<u8> {
    let sql = store_dir.sql();
    let mut chunks = sql.prepare("SELECT data FROM bodies ORDER BY id").expect("chunks");
    let chunks: Vec<Vec<u8>> = chunks
        .query_map([], |row| row.get(0))
        .expect("chunks")
        .collect::<Result<_, _>>()
        .expect("chunks");
    chunks.concat()
}

/// Deletes a session, purges its turns and collects its blobs.
async fn delete(store: &StoreHandle, name: &str) {
    let writer = SessionWriter { store: store.clone(), target: label(name) };
    writer.decide(2, vec![], |view, _| decide::delete_session(view)).await.expect("deleted");
    while store.purge(at(1000)).await.expect("purged") {}
    store.gc(at(1000), NO_GRACE).await.expect("collected");
}

async fn run_operations(operations: Vec<Operation>) {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open_with(PLAIN);
    let mut shown: BTreeMap<String, Vec<Object>> = BTreeMap::new();
    let mut gone: Vec<Object> = Vec::new();
    for (seed, operation) in (0..).zip(operations) {
        match operation {
            Operation::Show(lengths) => {
                let blob = |(n, (length, zeros)): (u64, (usize, bool))| {
                    Object::blob(if zeros {
                        vec![0; length]
                    } else {
                        text_of(seed * 10 + n, length)
                    })
                };
                let blobs: Vec<Object> = (0..).zip(lengths).map(blob).collect();
                let name = format!("session {seed}");
                show_pictures(&store, &name, blobs.clone(), 1).await;
                gone.retain(|object| !blobs.contains(object));
                shown.insert(name, blobs);
            }
            Operation::Delete(which) if !shown.is_empty() => {
                let name = shown.keys().nth(which.index(shown.len())).expect("a session").clone();
                delete(&store, &name).await;
                let blobs = shown.remove(&name).expect("a session");
                gone.extend(
                    blobs
                        .into_iter()
                        .filter(|object| !shown.values().flatten().any(|kept| kept == object)),
                );
            }
            Operation::Delete(_) => {}
        }
    }
    for object in shown.values().flatten() {
        assert_eq!(
            store.object(object.id()).await.expect("readable").as_ref(),
            Some(object),
            "{} bytes",
            object.bytes.len()
        );
    }
    let bytes = all_bytes(&store_dir);
    for object in gone {
        assert_eq!(store.object(object.id()).await.expect("a look"), None);
        let piece = object
            .bytes
            .chunks_exact(PIECE_BYTES)
            .find(|piece| piece.iter().any(|byte| *byte != 0));
        assert!(
            piece.is_none_or(|piece| memchr::memmem::find(&bytes, piece).is_none()),
            "{} bytes stay",
            object.bytes.len()
        );
    }
    assert_eq!(verify(&store).await.findings, []);
}

#[test]
fn kept_bodies_read_back_after_any_sequence_of_writes_and_deletions() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut runner = TestRunner::new(Config {
        cases: 24,
        max_shrink_iters: 200,
        failure_persistence: None,
        ..Config::default()
    });
    let live = |operations| {
        runtime.block_on(run_operations(operations));
        Ok(())
    };
    runner.run(&vec(operation(), 1..24), live).expect("every life");
}

#[tokio::test]
async fn zeros_at_the_end_of_a_segment_are_not_overwritten() {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open_with(PLAIN);
    let zeros = Object::blob(vec![0; 10_000]);
    // A queued message stores its picture and nothing behind it.
    let kept = SessionWriter::create(&store, "kept", 0).await;
    kept.open_run("hello", 1).await;
    let submit = Submit { content: vec![image(&zeros)], ..submission_in(Mode::Queue, "") };
    let objects = vec![zeros.clone().into()];
    kept.submit_with(SubmitTarget::Existing, submit, &Settings::default(), objects, 1)
        .await
        .expect("queued");
    show_pictures(&store, "gone", vec![], 1).await;
    delete(&store, "gone").await;
    let last: Vec<u8> = store_dir
        .sql()
        .query_row("SELECT data FROM bodies ORDER BY id DESC LIMIT 1", [], |row| row.get(0))
        .expect("the last chunk");
    assert!(last.iter().all(|byte| *byte == 0), "the end of the kept blob and the erased bytes");
    show_pictures(&store, "new", vec![Object::blob(text_of(1, 10_000))], 1).await;
    assert_eq!(store.object(zeros.id()).await.expect("readable"), Some(zeros));
    assert_eq!(verify(&store).await.findings, []);
}
