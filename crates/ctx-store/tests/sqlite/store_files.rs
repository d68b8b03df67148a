//! The files of a store: their permissions, their creation, and files that are refused.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Barrier;

use ctx_store::Error;
use ctx_store::sqlite::{self, Options};

use crate::StoreDir;
use crate::harness::{PROJECT, SessionWriter, StoreHandle, verify};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

#[tokio::test]
async fn only_the_owner_may_read_a_store() {
    let store_dir = StoreDir::empty();
    let dir = store_dir.file("deep/er/.ctx");
    sqlite::create(&dir, PROJECT).expect("created");
    let store = StoreHandle::new(sqlite::open(&dir, Options::default()).expect("opened"));
    SessionWriter::create(&store, "main", 0).await.say("a secret", 1).await;
    store.catch_up().await;
    assert_eq!(mode(&dir), 0o700);
    let mut names = Vec::new();
    for entry in fs::read_dir(&dir).expect("listed") {
        let entry = entry.expect("an entry");
        assert_eq!(mode(&entry.path()), 0o600, "{}", entry.path().display());
        names.push(entry.file_name().into_string().expect("text"));
    }
    for name in ["ctx.db", "ctx.db-wal", "search.db", "write.lock"] {
        assert!(names.iter().any(|found| found == name), "{name} in {names:?}");
    }
}

#[test]
fn a_second_store_does_not_replace_the_first() {
    let store_dir = StoreDir::fresh();
    store_dir.checkpoint();
    let before = fs::read(store_dir.file("ctx.db")).expect("a file");
    let again = sqlite::create(store_dir.0.path(), "another");
    assert!(
        matches!(again, Err(Error::StoreExists(ref dir)) if dir == store_dir.0.path()),
        "{again:?}"
    );
    assert_eq!(fs::read(store_dir.file("ctx.db")).expect("a file"), before);
    assert_eq!(
        sqlite::open(store_dir.0.path(), Options::default()).expect("opened").project(),
        PROJECT
    );
}

#[test]
fn of_many_concurrent_creators_one_creates_the_store() {
    for _ in 0..5 {
        let store_dir = StoreDir::empty();
        let ready = Barrier::new(8);
        let created: Vec<Result<(), Error>> = std::thread::scope(|scope| {
            let create = |n| {
                let (ready, dir) = (&ready, store_dir.0.path());
                scope.spawn(move || {
                    ready.wait();
                    sqlite::create(dir, &format!("project {n}"))
                })
            };
            let creators: Vec<_> = (0..8).map(create).collect();
            creators.into_iter().map(|creator| creator.join().expect("no panic")).collect()
        });
        assert_eq!(created.iter().filter(|created| created.is_ok()).count(), 1, "{created:?}");
        assert_eq!(
            created.iter().filter(|created| matches!(created, Err(Error::StoreExists(_)))).count(),
            7,
            "{created:?}"
        );
        let winner = created.iter().position(Result::is_ok).expect("one");
        let store = sqlite::open(store_dir.0.path(), Options::default()).expect("it opens");
        assert_eq!(store.project(), format!("project {winner}"));
        let left: Vec<_> = fs::read_dir(store_dir.0.path())
            .expect("listed")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        assert!(
            !left.iter().any(|path| path.extension().is_some_and(|end| end == "new")),
            "{left:?}"
        );
    }
}

#[test]
fn opening_without_a_store_fails_and_creates_nothing() {
    let store_dir = StoreDir::empty();
    fs::write(store_dir.file("plain"), "a file").expect("written");
    for dir in [
        store_dir.0.path().to_owned(),
        store_dir.file("missing"),
        store_dir.file("missing/deeper"),
        store_dir.file("plain"),
    ] {
        let opened = sqlite::open(&dir, Options::default());
        assert!(matches!(opened, Err(Error::NoStore(named)) if named == dir));
        assert!(!sqlite::exists(&dir).expect("nothing there"));
    }
    let left: Vec<_> = fs::read_dir(store_dir.0.path())
        .expect("listed")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(left, ["plain"]);
}

/// Asserts that a file that is not a store is refused, left unchanged and not overwritten.
fn assert_damaged(content: &[u8], case: &str) {
    let store_dir = StoreDir::empty();
    fs::write(store_dir.file("ctx.db"), content).expect("written");
    match store_dir.try_open(Options::default()).map(drop) {
        Err(Error::Damaged(text)) => assert!(text.len() > 10, "{case}: {text}"),
        other => panic!("{case}: {other:?}"),
    }
    let created = sqlite::create(store_dir.0.path(), PROJECT);
    assert!(
        matches!(created, Err(Error::StoreExists(_) | Error::Damaged(_))),
        "{case}: {created:?}"
    );
    assert_eq!(fs::read(store_dir.file("ctx.db")).expect("a file"), content, "{case}");
}

#[test]
fn a_file_that_is_not_a_store_is_damaged() {
    assert_damaged(b"", "an empty file");
    assert_damaged(b"SQLite", "a few bytes");
    assert_damaged(&[b'x'; 10_000], "something else");
    assert_damaged(&[0; 8192], "zeros");
    assert_damaged(&[&b"SQLite format 3\0"[..], &[0xAB; 8176]].concat(), "a good beginning");
}

#[tokio::test]
async fn a_truncated_store_is_damaged() {
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    let writer = SessionWriter::create(&store, "main", 0).await;
    writer.start("a task", 1).await;
    writer.write("a.rs", crate::harness::text_of(1, 20_000), 2).await;
    drop((store, writer));
    store_dir.checkpoint();
    let whole = fs::read(store_dir.file("ctx.db")).expect("a file");
    for left in [10, 50, 100, 1000, 4096, whole.len() / 2, whole.len() - 4096] {
        assert_damaged(&whole[..left], &format!("{left} of {} bytes", whole.len()));
    }
    assert_eq!(verify(&store_dir.open()).await.findings, []);
}

#[test]
fn a_database_of_another_program_is_damaged() {
    let store_dir = StoreDir::empty();
    store_dir
        .sql()
        .execute_batch("CREATE TABLE notes (text TEXT); INSERT INTO notes(text) VALUES ('mine')")
        .expect("created");
    assert_damaged(&fs::read(store_dir.file("ctx.db")).expect("a file"), "another program's");
}

#[tokio::test]
async fn a_read_only_directory_is_reported() {
    if rustix::process::geteuid().is_root() {
        return; // No directory is read-only for root.
    }
    let store_dir = StoreDir::fresh();
    let store = store_dir.open();
    drop(SessionWriter::create(&store, "main", 0).await);
    drop(store);
    let set = |dir, file| {
        fs::set_permissions(store_dir.file("ctx.db"), fs::Permissions::from_mode(file))
            .expect("set");
        fs::set_permissions(store_dir.0.path(), fs::Permissions::from_mode(dir)).expect("set");
    };
    set(0o500, 0o400);
    let tried = match store_dir.try_open(Options::default()) {
        Ok(store) => {
            crate::harness::create(&StoreHandle::new(store), crate::harness::new_session("new", 1))
                .await
                .map(drop)
        }
        Err(error) => Err(error),
    };
    set(0o700, 0o600);
    assert!(matches!(tried, Err(Error::ReadOnly(_))), "{tried:?}");
    assert_eq!(
        store_dir
            .open()
            .sessions(&ctx_store::SessionQuery::newest(10))
            .await
            .expect("sessions")
            .len(),
        1
    );
}
