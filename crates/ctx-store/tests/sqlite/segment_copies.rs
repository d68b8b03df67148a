//! Copies of a store with files: one file that holds them all, and a store like any other.

use std::fs;

use ctx_core::object::Object;

use crate::StoreDir;
use crate::garbage_collection::{NO_GRACE, forget};
use crate::harness::{SessionWriter, StoreHandle, at, text_of, verify};
use crate::write_groups::{CROWD, Said, Saying, at_once, crowd, is_whole, sessions};

/// A copy in a directory of its own.
async fn copied(store: &StoreHandle) -> StoreDir {
    let store_dir = StoreDir::empty();
    store.backup(&store_dir.file("ctx.db")).await.expect("copied");
    let names: Vec<_> = fs::read_dir(store_dir.0.path())
        .expect("listed")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(names, ["ctx.db"], "it is one file");
    store_dir
}

/// Two crowds in two files, and something in the database.
async fn lived_in(store_dir: &StoreDir) -> (StoreHandle, Vec<Said>) {
    let (store, other) = (store_dir.open(), store_dir.open());
    let mut said = crowd(&store, "one", 1).await;
    said.extend(crowd(&other, "two", 2).await);
    assert_eq!(store_dir.segments(), ["1", "2"]);
    let writer = SessionWriter::create(&store, "alone", 0).await;
    let alone = Saying {
        writer,
        under: None,
        words: "alone".to_owned(),
        pictures: vec![Object::blob(text_of(77, 9000))],
    };
    said.push(alone.say().await.expect("said"));
    (store, said)
}

#[tokio::test]
async fn a_copy_holds_what_is_in_files_and_goes_on_in_a_new_one() {
    let store_dir = StoreDir::fresh();
    let (store, mut said) = lived_in(&store_dir).await;
    let copy = copied(&store).await;
    let there = copy.open();
    is_whole(&there, &said).await;
    assert_eq!(verify(&there).await.findings, []);
    said.extend(crowd(&there, "three", 3).await);
    assert_eq!(copy.segments(), ["3"], "the first two are in the database");
    assert_eq!(copy.number("SELECT COUNT(*) FROM turns WHERE seg = 3"), CROWD as i64);
    is_whole(&there, &said).await;
    let second = copied(&there).await;
    is_whole(&second.open(), &said).await;
    assert_eq!(verify(&second.open()).await.findings, []);
    said.extend(crowd(&second.open(), "four", 4).await);
    assert_eq!(second.segments(), ["4"]);
    is_whole(&second.open(), &said).await;
    assert_eq!(verify(&second.open()).await.findings, []);
}

#[tokio::test]
async fn what_goes_from_a_copy_goes_at_once() {
    let store_dir = StoreDir::fresh();
    let (store, mut said) = lived_in(&store_dir).await;
    let copy = copied(&store).await;
    let there = copy.open();
    let picture = said[0].pictures[0].clone();
    forget(&copy, "one 0");
    forget(&copy, "one 1");
    said.drain(..2);
    assert_eq!(there.gc(at(1000), NO_GRACE).await.expect("collected").blobs_removed, 1);
    assert_eq!(there.object(picture.id()).await.expect("a look"), None);
    assert_eq!(copy.number("SELECT COUNT(*) FROM erasures"), 0, "nothing waits");
    is_whole(&there, &said).await;
    assert_eq!(verify(&there).await.findings, []);
    assert_eq!(
        store.object(picture.id()).await.expect("readable"),
        Some(picture),
        "the original has it still"
    );
}

#[tokio::test]
async fn a_copy_put_back_beside_the_files_it_was_made_of_goes_on_in_a_new_one() {
    let store_dir = StoreDir::fresh();
    let (store, mut said) = lived_in(&store_dir).await;
    let copy = copied(&store).await;
    drop(store);
    for name in ["ctx.db-wal", "ctx.db-shm", "search.db", "search.db-wal", "search.db-shm"] {
        let _ = fs::remove_file(store_dir.file(name));
    }
    fs::copy(copy.file("ctx.db"), store_dir.file("ctx.db")).expect("put back");
    let store = store_dir.open();
    is_whole(&store, &said).await;
    said.extend(crowd(&store, "three", 3).await);
    assert_eq!(
        store_dir.number("SELECT COUNT(*) FROM turns WHERE seg = 3"),
        CROWD as i64,
        "a number means one place"
    );
    is_whole(&store, &said).await;
    assert_eq!(verify(&store).await.findings, []);
}

#[tokio::test]
async fn a_copy_holds_bodies_of_any_length_and_of_zeros_too() {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    // Next to each other, zeros fill whole chunks of the copy, and none of these is stored.
    let picture = |n: u64, m: u64| {
        let length = (n as usize * 7919 + m as usize * 4057) % 20_000;
        Object::blob(if n.is_multiple_of(3) {
            vec![0; 20_000 + length]
        } else {
            text_of(n * 10 + m, length)
        })
    };
    let saying = |(n, writer)| Saying {
        writer,
        under: None,
        words: "look".to_owned(),
        pictures: (0..4).map(|m| picture(n, m)).collect(),
    };
    let session_writers = sessions(&store, "member", CROWD).await;
    let mut sayings: Vec<Saying> = (0..).zip(session_writers).map(saying).collect();
    // The file ends with many of them.
    sayings.last_mut().expect("a crowd").pictures = vec![Object::blob(vec![0; 2 << 20])];
    let said = at_once(sayings).await;
    let said: Vec<Said> = said.into_iter().map(|said| said.expect("shown")).collect();
    assert_eq!(store_dir.segments(), ["1"]);
    is_whole(&store, &said).await;
    let copy = copied(&store).await;
    is_whole(&copy.open(), &said).await;
    assert_eq!(verify(&copy.open()).await.findings, []);
}
