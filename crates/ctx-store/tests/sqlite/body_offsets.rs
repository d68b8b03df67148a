//! Bodies of any length, wherever they begin and end in a chunk: what is kept reads back, what went is gone.

use std::collections::BTreeMap;

use ctx_core::decide;
use ctx_core::object::Object;
use ctx_store::sqlite::{Indexing, Options};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};

use crate::StoreDir;
use crate::garbage_collection::{NO_GRACE, show};
use crate::harness::{SessionWriter, StoreHandle, at, label, text_of, verify};

const PLAIN: Options = Options { compress: false, indexing: Indexing::OnDemand };

/// A blob is up to five chunks long.
const BLOB_MAX_BYTES: usize = 20_000;
/// How many bytes of a blob say that it is there.
const PIECE_BYTES: usize = 24;

#[derive(Debug, Clone)]
enum Deed {
    /// A session shows blobs of these lengths; some of them are all zeros, as chunks that went are.
    Show(Vec<(usize, bool)>),
    /// One of the sessions goes, and the blobs that only it showed.
    Forget(Index),
}

fn deed() -> impl Strategy<Value = Deed> {
    let length =
        prop_oneof![0..BLOB_MAX_BYTES, Just(0), Just(4056), Just(4055), Just(4057), Just(2 * 4056)];
    prop_oneof![
        2 => vec((length, prop::bool::weighted(0.2)), 1..4).prop_map(Deed::Show),
        1 => any::<Index>().prop_map(Deed::Forget),
    ]
}

/// Every chunk of the database, end to end.
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

/// Deletes a session with its words, and what only it showed.
async fn delete(store: &StoreHandle, name: &str) {
    let writer = SessionWriter { store: store.clone(), target: label(name) };
    writer.decide(2, vec![], |view, _| decide::delete_session(view)).await.expect("deleted");
    while store.purge(at(1000)).await.expect("purged") {}
    store.gc(at(1000), NO_GRACE).await.expect("collected");
}

async fn is_lived(deeds: Vec<Deed>) {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open_with(PLAIN);
    let mut shown: BTreeMap<String, Vec<Object>> = BTreeMap::new();
    let mut gone: Vec<Object> = Vec::new();
    for (seed, deed) in (0..).zip(deeds) {
        match deed {
            Deed::Show(lengths) => {
                let blob = |(n, (length, zeros)): (u64, (usize, bool))| {
                    Object::blob(if zeros {
                        vec![0; length]
                    } else {
                        text_of(seed * 10 + n, length)
                    })
                };
                let blobs: Vec<Object> = (0..).zip(lengths).map(blob).collect();
                let name = format!("session {seed}");
                show(&store, &name, blobs.clone(), 1).await;
                gone.retain(|object| !blobs.contains(object));
                shown.insert(name, blobs);
            }
            Deed::Forget(which) if !shown.is_empty() => {
                let name = shown.keys().nth(which.index(shown.len())).expect("a session").clone();
                delete(&store, &name).await;
                let blobs = shown.remove(&name).expect("a session");
                gone.extend(
                    blobs
                        .into_iter()
                        .filter(|object| !shown.values().flatten().any(|kept| kept == object)),
                );
            }
            Deed::Forget(_) => {}
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
fn whatever_comes_and_goes_what_is_kept_reads_back() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut runner = TestRunner::new(Config {
        cases: 24,
        max_shrink_iters: 200,
        failure_persistence: None,
        ..Config::default()
    });
    let live = |deeds| {
        runtime.block_on(is_lived(deeds));
        Ok(())
    };
    runner.run(&vec(deed(), 1..24), live).expect("every life");
}

#[tokio::test]
async fn zeros_at_the_end_of_a_segment_are_not_written_over() {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open_with(PLAIN);
    let zeros = Object::blob(vec![0; 10_000]);
    show(&store, "kept", vec![zeros.clone()], 1).await;
    show(&store, "gone", vec![], 1).await;
    delete(&store, "gone").await;
    let last: Vec<u8> = store_dir
        .sql()
        .query_row("SELECT data FROM bodies ORDER BY id DESC LIMIT 1", [], |row| row.get(0))
        .expect("the last chunk");
    assert!(last.iter().all(|byte| *byte == 0), "the end of what is kept, and what went");
    show(&store, "new", vec![Object::blob(text_of(1, 10_000))], 1).await;
    assert_eq!(store.object(zeros.id()).await.expect("readable"), Some(zeros));
    assert_eq!(verify(&store).await.findings, []);
}
