//! Segments: bodies of many who write at once lie in files, all others in the database, and all of them read back.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use ctx_core::object::Object;
use ctx_store::Error;
use ctx_store::sqlite::{Indexing, Options};

use crate::Bench;
use crate::crowd::{CROWD, Saying, at_once, crowd, is_whole, sayings, sessions};
use crate::hand::{file, note, text_of, verify};

const PLAIN: Options = Options { compress: false, indexing: Indexing::OnDemand };

fn mode(bench: &Bench, name: &str) -> u32 {
    fs::metadata(bench.file(name)).expect("it is there").permissions().mode() & 0o777
}

#[tokio::test]
async fn the_bodies_of_a_crowd_lie_in_a_file_and_read_back() {
    let bench = Bench::fresh();
    let store = bench.open();
    let said = crowd(&store, "member", 1).await;
    assert_eq!(bench.segments(), ["1"]);
    assert_eq!(bench.number("SELECT COUNT(*) FROM turns WHERE seg = 1"), CROWD as i64);
    assert_eq!(
        bench.number("SELECT COUNT(*) FROM blobs WHERE seg = 1"),
        CROWD as i64 / 2,
        "equal pictures are stored once"
    );
    assert_eq!(bench.number("SELECT COUNT(*) FROM bodies"), 0, "and none of it twice");
    let plain = bench.number("SELECT COUNT(*) FROM turns WHERE packing = 0");
    assert!((40..64).contains(&plain), "nothing is compressed while sixteen wait: {plain} are not");
    assert_eq!(
        (mode(&bench, "segments"), mode(&bench, "segments/1")),
        (0o700, 0o600),
        "only the owner may read it"
    );
    assert!(store.health().await.expect("health").segment_bytes as usize >= bench.segment(1).len());
    is_whole(&store, &said).await;
    drop(store);
    let again = bench.open();
    is_whole(&again, &said).await;
    assert_eq!(verify(&again).await.findings, []);
}

#[tokio::test]
async fn who_is_refused_in_a_crowd_leaves_nothing_and_is_in_nobodys_way() {
    let bench = Bench::fresh();
    let store = bench.open();
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
    assert_eq!(bench.number("SELECT COUNT(*) FROM turns"), 64 + 56);
    is_whole(&store, &said).await;
    is_whole(&store, &old).await;
    assert_eq!(verify(&store).await.findings, []);
}

#[tokio::test]
async fn steps_are_part_of_a_crowd_however_large_they_are() {
    // A step is made inside the transaction, so nobody knows before how many bytes it will bring.
    let bench = Bench::fresh();
    let store = bench.open_with(PLAIN);
    let hands = sessions(&store, "member", CROWD).await;
    let mut tasks = Vec::new();
    for hand in &hands {
        tasks.push(hand.start("a task", 1).await);
    }
    let long = |seed| String::from_utf8(text_of(seed, 5000)).expect("letters");
    let observe = |(n, hand): (u64, &crate::hand::Hand)| {
        let (hand, (entry, objects)) = (hand.clone(), file("a.rs", text_of(n, 5000)));
        let entries = vec![entry, note(&long(1000 + n))];
        tokio::spawn(async move { hand.observe(entries, objects, 2).await })
    };
    for observed in (0..).zip(&hands).map(observe).collect::<Vec<_>>() {
        observed.await.expect("no panic").expect("observed");
    }
    assert_eq!(bench.segments(), ["1"]);
    assert_eq!(
        bench.number("SELECT COUNT(*) FROM steps WHERE seg = 0"),
        CROWD as i64,
        "where each began alone"
    );
    for (n, (hand, task)) in (0..).zip(hands.iter().zip(tasks)) {
        let chain = hand.chain(task).await;
        let notes: Vec<&str> = chain.iter().flat_map(|stored| stored.step.notes()).collect();
        assert_eq!(notes, [long(1000 + n)]);
    }
    assert_eq!(verify(&store).await.findings, []);
}

/// Some who each show a picture of their own at once.
async fn show(bench: &Bench, name: &str, count: u64, bytes: usize) {
    let store = bench.open_with(PLAIN);
    let saying = |(n, hand)| Saying {
        hand,
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
    let bench = Bench::fresh();
    show(&bench, "alone", 1, 300_000).await;
    show(&bench, "seven", 7, 20_000).await;
    show(&bench, "small", CROWD, 100).await;
    show(&bench, "too large", 8, 2_200_000).await;
    assert!(bench.segments().is_empty(), "{:?}", bench.segments());
    assert_eq!(bench.number("SELECT COUNT(*) FROM turns WHERE seg <> 0"), 0);
    assert_eq!(verify(&bench.open()).await.findings, []);
    show(&bench, "eight", 8, 20_001).await;
    assert_eq!(bench.segments(), ["1"], "eight with enough to say do");
}

#[tokio::test]
async fn two_stores_on_one_directory_use_two_files() {
    let bench = Bench::fresh();
    let stores = [bench.open(), bench.open()];
    let mut said = Vec::new();
    for round in 0..3 {
        let mut both = sayings(&stores[0], &format!("one {round}"), 10 + round).await;
        both.extend(sayings(&stores[1], &format!("two {round}"), 20 + round).await);
        said.extend(at_once(both).await.into_iter().map(|said| said.expect("said")));
    }
    assert_eq!(bench.segments(), ["1", "2"]);
    for seg in [1, 2] {
        assert_eq!(
            bench.number(&format!("SELECT COUNT(*) FROM turns WHERE seg = {seg}")),
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
    let bench = Bench::fresh();
    let mut said = crowd(&bench.open(), "first", 1).await;
    let before = bench.segment(1);
    // A process that died left some bytes that no row names.
    let torn = [&before[..], b"torn"].concat();
    fs::write(bench.file("segments/1"), &torn).expect("written");
    let store = bench.open();
    said.extend(crowd(&store, "second", 2).await);
    assert_eq!(bench.segments(), ["1"]);
    let after = bench.segment(1);
    assert!(
        after.len() > torn.len() && after.starts_with(&torn),
        "nothing that was written is written over"
    );
    assert_eq!(bench.number("SELECT COUNT(*) FROM turns WHERE seg = 1"), 2 * CROWD as i64);
    is_whole(&store, &said).await;
    assert_eq!(verify(&store).await.findings, []);
}

#[tokio::test]
async fn a_file_that_is_full_takes_no_more() {
    let bench = Bench::fresh();
    let mut said = crowd(&bench.open(), "first", 1).await;
    fs::OpenOptions::new()
        .write(true)
        .open(bench.file("segments/1"))
        .and_then(|file| file.set_len(1 << 30))
        .expect("a hole");
    let store = bench.open();
    said.extend(crowd(&store, "second", 2).await);
    assert_eq!(bench.segments(), ["1", "2"]);
    assert_eq!(bench.number("SELECT COUNT(*) FROM turns WHERE seg = 2"), CROWD as i64);
    is_whole(&store, &said).await;
}

#[tokio::test]
async fn where_no_file_can_be_had_there_is_the_database() {
    let bench = Bench::fresh();
    // Root may write into any directory, but nobody into a file as if it were one.
    fs::write(bench.file("segments"), "not a directory").expect("written");
    let store = bench.open();
    let said = crowd(&store, "member", 1).await;
    assert_eq!(bench.number("SELECT COUNT(*) FROM turns WHERE seg = 0"), CROWD as i64);
    is_whole(&store, &said).await;
    assert_eq!(verify(&store).await.findings, []);
    assert_eq!(fs::read(bench.file("segments")).expect("a file"), b"not a directory");
}

#[tokio::test]
async fn files_that_are_none_of_ours_are_in_nobodys_way() {
    let bench = Bench::fresh();
    fs::create_dir(bench.file("segments")).expect("made");
    for name in ["notes.txt", "0", "-3", "1048576", "99999999999", "99999999999999999999999"] {
        fs::write(bench.file(&format!("segments/{name}")), name).expect("written");
    }
    let store = bench.open();
    let said = crowd(&store, "member", 1).await;
    assert_eq!(bench.number("SELECT COUNT(*) FROM turns WHERE seg = 1"), CROWD as i64);
    is_whole(&store, &said).await;
    assert_eq!(verify(&store).await.findings, []);
    store.backup(&bench.file("copy")).await.expect("copied");
    for name in ["notes.txt", "0", "-3", "1048576", "99999999999"] {
        assert_eq!(
            fs::read(bench.file(&format!("segments/{name}"))).expect("a file"),
            name.as_bytes(),
            "it is as it was"
        );
    }
}

#[tokio::test]
async fn where_no_number_is_left_there_is_the_database() {
    let bench = Bench::fresh();
    let last = "segments/1048575";
    fs::create_dir(bench.file("segments")).expect("made");
    fs::write(bench.file(last), "").expect("written");
    fs::OpenOptions::new()
        .write(true)
        .open(bench.file(last))
        .and_then(|file| file.set_len(1 << 30))
        .expect("a hole");
    let store = bench.open();
    let said = crowd(&store, "member", 1).await;
    assert_eq!(bench.number("SELECT COUNT(*) FROM turns WHERE seg = 0"), CROWD as i64);
    is_whole(&store, &said).await;
    assert_eq!(verify(&store).await.findings, []);
}
