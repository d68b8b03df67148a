//! Damaged bytes: verify reports a flipped byte of any stored object under the object's id.

use std::fs;

use ctx_core::id::{ObjectId, TaskId, TurnId};
use ctx_core::object::Object;
use ctx_store::Error;
use ctx_store::sqlite::{Indexing, Options};

use crate::StoreDir;
use crate::harness::{SessionWriter, StoreHandle, note, text_of, verify};

const PLAIN: Options = Options { compress: false, indexing: Indexing::OnDemand };
const PACKED: Options = Options { compress: true, indexing: Indexing::OnDemand };

struct Stored {
    task: TaskId,
    turn: TurnId,
    step: ObjectId,
    commit: ObjectId,
    blob: ObjectId,
}

/// One large object of each kind.
async fn one_of_each(store_dir: &StoreDir, options: Options) -> Stored {
    let store = store_dir.open_with(options);
    let writer = SessionWriter::create(&store, "main", 0).await;
    let long = |seed| String::from_utf8(text_of(seed, 900)).expect("letters");
    let turn = writer.say(&long(1), 1).await;
    let task = writer.start("a task", 2).await;
    writer.observe(vec![note(&long(2))], vec![], 3).await.expect("observed");
    let step = writer.chain(task).await[1].id.0;
    let content = text_of(3, 6000);
    writer.write("a.rs", content.clone(), 4).await;
    let commit = writer.seal(&long(4), 5).await.expect("sealed").reply.id.0;
    Stored { task, turn, step, commit, blob: Object::blob(content).id() }
}

/// The stored bytes of an object in a table.
fn packed(store_dir: &StoreDir, table: &str, id: ObjectId) -> Vec<u8> {
    let sql = store_dir.sql();
    let mut chunks = sql.prepare("SELECT data FROM bodies ORDER BY id").expect("chunks");
    let all: Vec<Vec<u8>> = chunks
        .query_map([], |row| row.get(0))
        .expect("chunks")
        .collect::<Result<_, _>>()
        .expect("chunks");
    let place = format!("SELECT off, len FROM {table} WHERE hash = ?1");
    let (off, len): (usize, usize) = sql
        .query_row(&place, [id.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))
        .expect("a body");
    all.concat()[off..off + len].to_vec()
}

fn header(store_dir: &StoreDir, id: ObjectId) -> Vec<u8> {
    let text: String = store_dir
        .sql()
        .query_row("SELECT header FROM turns WHERE hash = ?1", [id.as_bytes()], |row| row.get(0))
        .expect("a header");
    text.into_bytes()
}

/// Flips a byte in every copy of a piece of these bytes, since free space in pages keeps old bytes.
/// `None` where the piece spans the end of a page.
fn flipped(file: &[u8], bytes: &[u8], start: usize, mask: u8) -> Option<Vec<u8>> {
    const PIECE_BYTES: usize = 24;
    let piece = &bytes[start..start + PIECE_BYTES];
    let copies: Vec<usize> =
        (0..file.len() - PIECE_BYTES).filter(|&at| &file[at..at + PIECE_BYTES] == piece).collect();
    let mut damaged = file.to_owned();
    copies.iter().for_each(|at| damaged[at + 7] ^= mask);
    (!copies.is_empty()).then_some(damaged)
}

/// Flips bytes of one object one at a time; each must be reported and make reading fail.
async fn assert_found(
    store_dir: &StoreDir,
    bytes: &[u8],
    named: ObjectId,
    read: impl AsyncFn(&StoreHandle) -> bool,
) {
    store_dir.checkpoint();
    let whole = fs::read(store_dir.file("ctx.db")).expect("a file");
    let mut flips = 0;
    for start in [0, bytes.len() / 3, bytes.len() / 2, bytes.len() - 24] {
        for mask in [0x01, 0x80] {
            let Some(damaged) = flipped(&whole, bytes, start, mask) else { continue };
            fs::write(store_dir.file("ctx.db"), &damaged).expect("written");
            let store = store_dir.open();
            let findings = verify(&store).await.findings;
            assert!(
                findings.iter().any(|found| found.what.contains(&named.to_string())),
                "{named} at {start}: {findings:?}"
            );
            assert!(!read(&store).await, "damaged bytes are never returned");
            flips += 1;
        }
    }
    assert!(flips >= 6, "the object is in the file");
    fs::write(store_dir.file("ctx.db"), whole).expect("written");
    assert_eq!(verify(&store_dir.open()).await.findings, []);
}

async fn every_kind(options: Options) {
    let store_dir = StoreDir::fresh();
    let stored = one_of_each(&store_dir, options).await;
    let (turn, task) = (stored.turn, stored.task);
    for (table, id) in [("steps", stored.step), ("commits", stored.commit), ("blobs", stored.blob)]
    {
        assert_found(&store_dir, &packed(&store_dir, table, id), id, async |store| {
            store.object(id).await.is_ok()
        })
        .await;
    }
    assert_found(&store_dir, &packed(&store_dir, "turns", turn.0), turn.0, async |store| {
        store.turns(turn, 1).await.is_ok()
    })
    .await;
    assert_found(&store_dir, &header(&store_dir, turn.0), turn.0, async |store| {
        store.object(turn.0).await.is_ok()
    })
    .await;
    assert_found(
        &store_dir,
        &packed(&store_dir, "steps", stored.step),
        stored.step,
        async |store| store.steps(task, 0, 9).await.is_ok(),
    )
    .await;
}

#[tokio::test]
async fn a_flipped_byte_of_a_plain_object_is_found_by_name() {
    every_kind(PLAIN).await;
}

#[tokio::test]
async fn a_flipped_byte_of_a_compressed_object_is_found_by_name() {
    every_kind(PACKED).await;
}

#[tokio::test]
async fn the_error_of_a_damaged_object_has_its_id() {
    for options in [PLAIN, PACKED] {
        let store_dir = StoreDir::fresh();
        let stored = one_of_each(&store_dir, options).await;
        store_dir
            .sql()
            .execute("UPDATE bodies SET data = zeroblob(length(data))", [])
            .expect("damaged");
        let store = store_dir.open();
        for id in [stored.step, stored.commit, stored.blob] {
            let read = store.object(id).await;
            assert!(
                matches!(read, Err(Error::DamagedObject { id: named, .. }) if named == id),
                "{id}: {read:?}"
            );
        }
    }
}

#[tokio::test]
async fn one_damaged_body_does_not_affect_the_others() {
    let store_dir = StoreDir::fresh();
    let stored = one_of_each(&store_dir, PACKED).await;
    store_dir
        .sql()
        .execute("DELETE FROM bodies WHERE id = (SELECT (off + len / 2) / 4056 FROM blobs)", [])
        .expect("damaged");
    let store = store_dir.open();
    let report = verify(&store).await;
    assert!(
        report.findings.iter().any(|found| found.what.contains(&stored.blob.to_string())),
        "{:?}",
        report.findings
    );
    assert_eq!((report.turns, report.commits), (1, 1), "the rest was verified");
    assert!(store.object(stored.commit).await.expect("readable").is_some());
    assert_eq!(store.search("nothing", 5).await.expect("search works"), []);
}

#[tokio::test]
async fn plain_and_compressed_stores_read_each_other() {
    let store_dir = StoreDir::fresh();
    let plain = store_dir.open_with(PLAIN);
    let writer = SessionWriter::create(&plain, "main", 0).await;
    let task = writer.start("a task", 1).await;
    let shared = text_of(9, 8000);
    let blob = Object::blob(shared.clone());
    for (n, options) in [PLAIN, PACKED, PLAIN, PACKED].into_iter().enumerate() {
        let writer = writer.through(&store_dir.open_with(options));
        writer.write("shared.rs", shared.clone(), 2).await;
        writer.write("own.rs", text_of(10 + n as u64, 5000), 3).await;
        writer.say(&"many words that repeat ".repeat(40), 4).await;
    }
    for options in [PLAIN, PACKED] {
        let store = store_dir.open_with(options);
        assert_eq!(writer.through(&store).chain(task).await.len(), 9);
        assert_eq!(store.object(blob.id()).await.expect("readable"), Some(blob.clone()));
        let head = writer.view().await.session.head.expect("a head");
        assert!(store.turns(head, 10).await.expect("turns").iter().all(|turn| turn.body.is_some()));
        assert_eq!(verify(&store).await.findings, []);
        assert_eq!(store.health().await.expect("health").blobs, 5);
    }
    let packings: i64 = store_dir
        .sql()
        .query_row("SELECT COUNT(DISTINCT packing) FROM turns", [], |row| row.get(0))
        .expect("a count");
    assert_eq!(packings, 2, "both encodings were used");
}
