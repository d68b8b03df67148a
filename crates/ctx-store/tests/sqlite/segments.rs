//! Segments: bodies of large groups of writes are in files, all others in the database.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use ctx_core::object::Object;
use ctx_store::Error;
use ctx_store::sqlite::{Indexing, Options};

use crate::StoreDir;
use crate::harness::{file, note, text_of, verify};
use crate::write_groups::{
    GROUP_SIZE, TurnWrite, assert_reads_back, sessions, turn_writes, write_concurrently,
    write_group,
};

const PLAIN: Options = Options { compress: false, indexing: Indexing::OnDemand };

fn mode(store_dir: &StoreDir, name: &str) -> u32 {
    fs::metadata(store_dir.file(name)).expect("it is there").permissions().mode() & 0o777
}

#[tokio::test]
async fn bodies_of_a_large_group_are_in_a_segment_file_and_read_back() {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    let written = write_group(&store, "member", 1).await;
    assert_eq!(store_dir.segments(), ["1"]);
    assert_eq!(store_dir.number("SELECT COUNT(*) FROM turns WHERE seg = 1"), GROUP_SIZE as i64);
    assert_eq!(
        store_dir.number("SELECT COUNT(*) FROM blobs WHERE seg = 1"),
        GROUP_SIZE as i64 / 2,
        "equal pictures are stored once"
    );
    assert_eq!(store_dir.number("SELECT COUNT(*) FROM bodies"), 0, "nothing is stored twice");
    let plain = store_dir.number("SELECT COUNT(*) FROM turns WHERE packing = 0");
    assert!(
        (40..64).contains(&plain),
        "bodies are not compressed while 16 writers wait: {plain} are plain"
    );
    assert_eq!(
        (mode(&store_dir, "segments"), mode(&store_dir, "segments/1")),
        (0o700, 0o600),
        "only the owner may read it"
    );
    assert!(
        store.health().await.expect("health").size("segments") as usize
            >= store_dir.segment(1).len()
    );
    assert_reads_back(&store, &written).await;
    drop(store);
    let again = store_dir.open();
    assert_reads_back(&again, &written).await;
    assert_eq!(verify(&again).await.findings, []);
}

#[tokio::test]
async fn refused_writes_of_a_large_group_leave_nothing_behind() {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    let old = write_group(&store, "old", 1).await;
    let mut all = turn_writes(&store, "new", 2).await;
    for turn_write in all.iter_mut().step_by(8) {
        turn_write.under = Some(old[0].turn);
    }
    let (mut written, mut refused) = (Vec::new(), 0);
    for outcome in write_concurrently(all).await {
        match outcome {
            Ok(one) => written.push(one),
            Err(Error::Refused(_)) => refused += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!((written.len(), refused), (56, 8));
    assert_eq!(store_dir.number("SELECT COUNT(*) FROM turns"), 64 + 56);
    assert_reads_back(&store, &written).await;
    assert_reads_back(&store, &old).await;
    assert_eq!(verify(&store).await.findings, []);
}

#[tokio::test]
async fn steps_of_any_size_are_part_of_a_large_group() {
    // Steps are encoded inside the transaction, so their size is not known before.
    let store_dir = StoreDir::fresh();
    let store = store_dir.open_with(PLAIN);
    let session_writers = sessions(&store, "member", GROUP_SIZE).await;
    let mut tasks = Vec::new();
    for writer in &session_writers {
        tasks.push(writer.start("a task", 1).await);
    }
    let long = |seed| String::from_utf8(text_of(seed, 5000)).expect("letters");
    let observe = |(n, writer): (u64, &crate::harness::SessionWriter)| {
        let (writer, (entry, objects)) = (writer.clone(), file("a.rs", text_of(n, 5000)));
        let entries = vec![entry, note(&long(1000 + n))];
        tokio::spawn(async move { writer.observe(entries, objects, 2).await })
    };
    for observed in (0..).zip(&session_writers).map(observe).collect::<Vec<_>>() {
        observed.await.expect("no panic").expect("observed");
    }
    assert_eq!(store_dir.segments(), ["1"]);
    assert_eq!(
        store_dir.number("SELECT COUNT(*) FROM steps WHERE seg = 0"),
        GROUP_SIZE as i64,
        "the first step of each task was written alone"
    );
    for (n, (writer, task)) in (0..).zip(session_writers.iter().zip(tasks)) {
        let chain = writer.chain(task).await;
        let notes: Vec<&str> = chain.iter().flat_map(|stored| stored.step.notes()).collect();
        assert_eq!(notes, [long(1000 + n)]);
    }
    assert_eq!(verify(&store).await.findings, []);
}

/// Concurrent writes of one picture each.
async fn show_pictures(store_dir: &StoreDir, name: &str, count: u64, bytes: usize) {
    let store = store_dir.open_with(PLAIN);
    let turn_write = |(n, writer)| TurnWrite {
        writer,
        under: None,
        words: "look".to_owned(),
        pictures: vec![Object::blob(text_of(n, bytes))],
    };
    let written = write_concurrently(
        (0..).zip(sessions(&store, name, count).await).map(turn_write).collect(),
    )
    .await;
    let written: Vec<_> = written.into_iter().map(|written| written.expect("shown")).collect();
    assert_reads_back(&store, &written).await;
}

#[tokio::test]
async fn small_groups_and_very_large_ones_use_no_segment_file() {
    let store_dir = StoreDir::fresh();
    show_pictures(&store_dir, "alone", 1, 300_000).await;
    show_pictures(&store_dir, "seven", 7, 20_000).await;
    show_pictures(&store_dir, "small", GROUP_SIZE, 100).await;
    show_pictures(&store_dir, "too large", 8, 2_200_000).await;
    assert!(store_dir.segments().is_empty(), "{:?}", store_dir.segments());
    assert_eq!(store_dir.number("SELECT COUNT(*) FROM turns WHERE seg <> 0"), 0);
    assert_eq!(verify(&store_dir.open()).await.findings, []);
    show_pictures(&store_dir, "eight", 8, 20_001).await;
    assert_eq!(store_dir.segments(), ["1"], "eight large enough writes use a file");
}

#[tokio::test]
async fn two_handles_on_one_directory_use_two_segment_files() {
    let store_dir = StoreDir::fresh();
    let stores = [store_dir.open(), store_dir.open()];
    let mut written = Vec::new();
    for round in 0..3 {
        let mut both = turn_writes(&stores[0], &format!("one {round}"), 10 + round).await;
        both.extend(turn_writes(&stores[1], &format!("two {round}"), 20 + round).await);
        written.extend(
            write_concurrently(both).await.into_iter().map(|written| written.expect("written")),
        );
    }
    assert_eq!(store_dir.segments(), ["1", "2"]);
    for seg in [1, 2] {
        assert_eq!(
            store_dir.number(&format!("SELECT COUNT(*) FROM turns WHERE seg = {seg}")),
            3 * GROUP_SIZE as i64
        );
    }
    for store in &stores {
        assert_reads_back(store, &written).await;
        assert_eq!(verify(store).await.findings, []);
    }
}

#[tokio::test]
async fn a_segment_file_is_reused_and_its_content_stays() {
    let store_dir = StoreDir::fresh();
    let mut written = write_group(&store_dir.open(), "first", 1).await;
    let before = store_dir.segment(1);
    // A crashed process left bytes that no row references.
    let torn = [&before[..], b"torn"].concat();
    fs::write(store_dir.file("segments/1"), &torn).expect("written");
    let store = store_dir.open();
    written.extend(write_group(&store, "second", 2).await);
    assert_eq!(store_dir.segments(), ["1"]);
    let after = store_dir.segment(1);
    assert!(
        after.len() > torn.len() && after.starts_with(&torn),
        "written bytes are not overwritten"
    );
    assert_eq!(store_dir.number("SELECT COUNT(*) FROM turns WHERE seg = 1"), 2 * GROUP_SIZE as i64);
    assert_reads_back(&store, &written).await;
    assert_eq!(verify(&store).await.findings, []);
}

#[tokio::test]
async fn a_full_segment_file_takes_no_more() {
    let store_dir = StoreDir::fresh();
    let mut written = write_group(&store_dir.open(), "first", 1).await;
    fs::OpenOptions::new()
        .write(true)
        .open(store_dir.file("segments/1"))
        .and_then(|file| file.set_len(1 << 30))
        .expect("a hole");
    let store = store_dir.open();
    written.extend(write_group(&store, "second", 2).await);
    assert_eq!(store_dir.segments(), ["1", "2"]);
    assert_eq!(store_dir.number("SELECT COUNT(*) FROM turns WHERE seg = 2"), GROUP_SIZE as i64);
    assert_reads_back(&store, &written).await;
}

#[tokio::test]
async fn without_a_segment_file_bodies_go_into_the_database() {
    let store_dir = StoreDir::fresh();
    // A file in place of the directory: root ignores permissions, but not this.
    fs::write(store_dir.file("segments"), "not a directory").expect("written");
    let store = store_dir.open();
    let written = write_group(&store, "member", 1).await;
    assert_eq!(store_dir.number("SELECT COUNT(*) FROM turns WHERE seg = 0"), GROUP_SIZE as i64);
    assert_reads_back(&store, &written).await;
    assert_eq!(verify(&store).await.findings, []);
    assert_eq!(fs::read(store_dir.file("segments")).expect("a file"), b"not a directory");
}

#[tokio::test]
async fn foreign_files_in_the_segment_directory_are_ignored() {
    let store_dir = StoreDir::fresh();
    fs::create_dir(store_dir.file("segments")).expect("made");
    for name in ["notes.txt", "0", "-3", "1048576", "99999999999", "99999999999999999999999"] {
        fs::write(store_dir.file(&format!("segments/{name}")), name).expect("written");
    }
    let store = store_dir.open();
    let written = write_group(&store, "member", 1).await;
    assert_eq!(store_dir.number("SELECT COUNT(*) FROM turns WHERE seg = 1"), GROUP_SIZE as i64);
    assert_reads_back(&store, &written).await;
    assert_eq!(verify(&store).await.findings, []);
    store.copy_to(&store_dir.file("copy")).await.expect("copied");
    for name in ["notes.txt", "0", "-3", "1048576", "99999999999"] {
        assert_eq!(
            fs::read(store_dir.file(&format!("segments/{name}"))).expect("a file"),
            name.as_bytes(),
            "the file is unchanged"
        );
    }
}

#[tokio::test]
async fn without_a_free_segment_number_bodies_go_into_the_database() {
    let store_dir = StoreDir::fresh();
    let last = "segments/1048575";
    fs::create_dir(store_dir.file("segments")).expect("made");
    fs::write(store_dir.file(last), "").expect("written");
    fs::OpenOptions::new()
        .write(true)
        .open(store_dir.file(last))
        .and_then(|file| file.set_len(1 << 30))
        .expect("a hole");
    let store = store_dir.open();
    let written = write_group(&store, "member", 1).await;
    assert_eq!(store_dir.number("SELECT COUNT(*) FROM turns WHERE seg = 0"), GROUP_SIZE as i64);
    assert_reads_back(&store, &written).await;
    assert_eq!(verify(&store).await.findings, []);
}
