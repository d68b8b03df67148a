//! Segments: bodies of many who write at once lie in files, all others in the database, and all of them read back.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use ctx_core::object::Object;
use ctx_store::Error;
use ctx_store::sqlite::{Indexing, Options};

use crate::StoreDir;
use crate::harness::{file, note, text_of, verify};
use crate::write_groups::{CROWD, Saying, at_once, crowd, is_whole, sayings, sessions};

const PLAIN: Options = Options { compress: false, indexing: Indexing::OnDemand };

fn mode(store_dir: &StoreDir, name: &str) -> u32 {
    fs::metadata(store_dir.file(name)).expect("it is there").permissions().mode() & 0o777
}

#[tokio::test]
async fn the_bodies_of_a_crowd_lie_in_a_file_and_read_back() {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    let said = crowd(&store, "member", 1).await;
    assert_eq!(store_dir.segments(), ["1"]);
    assert_eq!(store_dir.number("SELECT COUNT(*) FROM turns WHERE seg = 1"), CROWD as i64);
    assert_eq!(
        store_dir.number("SELECT COUNT(*) FROM blobs WHERE seg = 1"),
        CROWD as i64 / 2,
        "equal pictures are stored once"
    );
    assert_eq!(store_dir.number("SELECT COUNT(*) FROM bodies"), 0, "and none of it twice");
    let plain = store_dir.number("SELECT COUNT(*) FROM turns WHERE packing = 0");
    assert!((40..64).contains(&plain), "nothing is compressed while sixteen wait: {plain} are not");
    assert_eq!(
        (mode(&store_dir, "segments"), mode(&store_dir, "segments/1")),
        (0o700, 0o600),
        "only the owner may read it"
    );
    assert!(
        store.health().await.expect("health").segment_bytes as usize >= store_dir.segment(1).len()
    );
    is_whole(&store, &said).await;
    drop(store);
    let again = store_dir.open();
    is_whole(&again, &said).await;
    assert_eq!(verify(&again).await.findings, []);
}

#[tokio::test]
async fn who_is_refused_in_a_crowd_leaves_nothing_and_is_in_nobodys_way() {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    let old = crowd(&store, "old", 1).await;
    let mut all = sayings(&store, "new", 2).await;
    for saying in all.iter_mut().step_by(8) {
        saying.under = Some(old[0].turn);
    }
    let (mut said, mut refused) = (Vec::new(), 0);
    for outcome in at_once(all).await {
        match outcome {
            Ok(one) => said.push(one),
            Err(Error::Refused(_)) => refused += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!((said.len(), refused), (56, 8));
    assert_eq!(store_dir.number("SELECT COUNT(*) FROM turns"), 64 + 56);
    is_whole(&store, &said).await;
    is_whole(&store, &old).await;
    assert_eq!(verify(&store).await.findings, []);
}

#[tokio::test]
async fn steps_are_part_of_a_crowd_however_large_they_are() {
    // A step is made inside the transaction, so nobody knows before how many bytes it will bring.
    let store_dir = StoreDir::fresh();
    let store = store_dir.open_with(PLAIN);
    let session_writers = sessions(&store, "member", CROWD).await;
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
        CROWD as i64,
        "where each began alone"
    );
    for (n, (writer, task)) in (0..).zip(session_writers.iter().zip(tasks)) {
        let chain = writer.chain(task).await;
        let notes: Vec<&str> = chain.iter().flat_map(|stored| stored.step.notes()).collect();
        assert_eq!(notes, [long(1000 + n)]);
    }
    assert_eq!(verify(&store).await.findings, []);
}

/// Some who each show a picture of their own at once.
async fn show(store_dir: &StoreDir, name: &str, count: u64, bytes: usize) {
    let store = store_dir.open_with(PLAIN);
    let saying = |(n, writer)| Saying {
        writer,
        under: None,
        words: "look".to_owned(),
        pictures: vec![Object::blob(text_of(n, bytes))],
    };
    let said = at_once((0..).zip(sessions(&store, name, count).await).map(saying).collect()).await;
    let said: Vec<_> = said.into_iter().map(|said| said.expect("shown")).collect();
    is_whole(&store, &said).await;
}

#[tokio::test]
async fn few_small_and_very_large_writes_need_no_file() {
    let store_dir = StoreDir::fresh();
    show(&store_dir, "alone", 1, 300_000).await;
    show(&store_dir, "seven", 7, 20_000).await;
    show(&store_dir, "small", CROWD, 100).await;
    show(&store_dir, "too large", 8, 2_200_000).await;
    assert!(store_dir.segments().is_empty(), "{:?}", store_dir.segments());
    assert_eq!(store_dir.number("SELECT COUNT(*) FROM turns WHERE seg <> 0"), 0);
    assert_eq!(verify(&store_dir.open()).await.findings, []);
    show(&store_dir, "eight", 8, 20_001).await;
    assert_eq!(store_dir.segments(), ["1"], "eight with enough to say do");
}

#[tokio::test]
async fn two_stores_on_one_directory_use_two_files() {
    let store_dir = StoreDir::fresh();
    let stores = [store_dir.open(), store_dir.open()];
    let mut said = Vec::new();
    for round in 0..3 {
        let mut both = sayings(&stores[0], &format!("one {round}"), 10 + round).await;
        both.extend(sayings(&stores[1], &format!("two {round}"), 20 + round).await);
        said.extend(at_once(both).await.into_iter().map(|said| said.expect("said")));
    }
    assert_eq!(store_dir.segments(), ["1", "2"]);
    for seg in [1, 2] {
        assert_eq!(
            store_dir.number(&format!("SELECT COUNT(*) FROM turns WHERE seg = {seg}")),
            3 * CROWD as i64
        );
    }
    for store in &stores {
        is_whole(store, &said).await;
        assert_eq!(verify(store).await.findings, []);
    }
}

#[tokio::test]
async fn a_file_is_taken_up_again_and_what_is_in_it_stays() {
    let store_dir = StoreDir::fresh();
    let mut said = crowd(&store_dir.open(), "first", 1).await;
    let before = store_dir.segment(1);
    // A process that died left some bytes that no row names.
    let torn = [&before[..], b"torn"].concat();
    fs::write(store_dir.file("segments/1"), &torn).expect("written");
    let store = store_dir.open();
    said.extend(crowd(&store, "second", 2).await);
    assert_eq!(store_dir.segments(), ["1"]);
    let after = store_dir.segment(1);
    assert!(
        after.len() > torn.len() && after.starts_with(&torn),
        "nothing that was written is written over"
    );
    assert_eq!(store_dir.number("SELECT COUNT(*) FROM turns WHERE seg = 1"), 2 * CROWD as i64);
    is_whole(&store, &said).await;
    assert_eq!(verify(&store).await.findings, []);
}

#[tokio::test]
async fn a_file_that_is_full_takes_no_more() {
    let store_dir = StoreDir::fresh();
    let mut said = crowd(&store_dir.open(), "first", 1).await;
    fs::OpenOptions::new()
        .write(true)
        .open(store_dir.file("segments/1"))
        .and_then(|file| file.set_len(1 << 30))
        .expect("a hole");
    let store = store_dir.open();
    said.extend(crowd(&store, "second", 2).await);
    assert_eq!(store_dir.segments(), ["1", "2"]);
    assert_eq!(store_dir.number("SELECT COUNT(*) FROM turns WHERE seg = 2"), CROWD as i64);
    is_whole(&store, &said).await;
}

#[tokio::test]
async fn where_no_file_can_be_had_there_is_the_database() {
    let store_dir = StoreDir::fresh();
    // Root may write into any directory, but nobody into a file as if it were one.
    fs::write(store_dir.file("segments"), "not a directory").expect("written");
    let store = store_dir.open();
    let said = crowd(&store, "member", 1).await;
    assert_eq!(store_dir.number("SELECT COUNT(*) FROM turns WHERE seg = 0"), CROWD as i64);
    is_whole(&store, &said).await;
    assert_eq!(verify(&store).await.findings, []);
    assert_eq!(fs::read(store_dir.file("segments")).expect("a file"), b"not a directory");
}

#[tokio::test]
async fn files_that_are_none_of_ours_are_in_nobodys_way() {
    let store_dir = StoreDir::fresh();
    fs::create_dir(store_dir.file("segments")).expect("made");
    for name in ["notes.txt", "0", "-3", "1048576", "99999999999", "99999999999999999999999"] {
        fs::write(store_dir.file(&format!("segments/{name}")), name).expect("written");
    }
    let store = store_dir.open();
    let said = crowd(&store, "member", 1).await;
    assert_eq!(store_dir.number("SELECT COUNT(*) FROM turns WHERE seg = 1"), CROWD as i64);
    is_whole(&store, &said).await;
    assert_eq!(verify(&store).await.findings, []);
    store.backup(&store_dir.file("copy")).await.expect("copied");
    for name in ["notes.txt", "0", "-3", "1048576", "99999999999"] {
        assert_eq!(
            fs::read(store_dir.file(&format!("segments/{name}"))).expect("a file"),
            name.as_bytes(),
            "it is as it was"
        );
    }
}

#[tokio::test]
async fn where_no_number_is_left_there_is_the_database() {
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
    let said = crowd(&store, "member", 1).await;
    assert_eq!(store_dir.number("SELECT COUNT(*) FROM turns WHERE seg = 0"), CROWD as i64);
    is_whole(&store, &said).await;
    assert_eq!(verify(&store).await.findings, []);
}
