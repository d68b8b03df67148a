//! Steps: one unbroken chain per task with any number of writers, and the notes in them.

use ctx_core::commit::FileTouch;
use ctx_core::decide::Needs;
use ctx_core::id::TaskId;
use ctx_core::step::{Entry, Kind};
use ctx_core::stored_content::Content;
use ctx_core::task::State;
use ctx_store::PAGE_MAX;
use tokio::task::JoinSet;
use ulid::Ulid;

use crate::Backend;
use crate::harness::{SessionWriter, at, file, note, text_of, verify};

pub(crate) async fn two_hundred_concurrent_steps_form_one_chain(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let task = writer.start("a task", 1).await;
    let mut observers = JoinSet::new();
    for n in 0..199 {
        let writer = writer.clone();
        observers.spawn(async move { writer.note(&format!("note {n}"), 2 + n).await });
    }
    observers.join_all().await;

    let chain = writer.chain(task).await;
    assert_eq!(chain.len(), 200);
    let mut told: Vec<String> =
        chain.iter().flat_map(|stored| stored.step.notes()).map(str::to_owned).collect();
    let mut expected: Vec<String> = (0..199).map(|n| format!("note {n}")).collect();
    told.sort();
    expected.sort();
    assert_eq!(told, expected, "every note occurs once");
    let stored = writer.view().await.task.expect("open");
    assert_eq!((stored.steps, stored.head, stored.progress.notes), (200, chain[199].id, 199));
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn steps_read_back_as_they_were_observed(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let task = writer.start("a task", 1).await;
    let (big, objects) = file("big.txt", text_of(7, 6000));
    let entries = vec![
        big,
        Entry::FileWrite { path: "gone.rs".to_owned(), content: None },
        Entry::FileRead {
            path: "ä b.rs".to_owned(),
            content: Content::Text("\u{1F600}\n".to_owned()),
        },
        Entry::Command {
            argv: vec!["make".to_owned(), "all".to_owned()],
            exit: Some(-1),
            output: Some(Content::Text(String::new())),
        },
        note("a sentence"),
    ];
    writer.observe(entries.clone(), objects, 2).await.expect("observed");
    let chain = writer.chain(task).await;
    let kinds: Vec<Kind> = chain.iter().map(|stored| stored.step.kind).collect();
    assert_eq!(
        kinds,
        [Kind::SessionStart, Kind::FileWrite, Kind::FileRead, Kind::CommandRun, Kind::Note]
    );
    let payload: Vec<Entry> =
        chain[1..].iter().flat_map(|stored| stored.step.payload.clone()).collect();
    assert_eq!(payload, entries);
    assert!(
        chain.iter().all(|stored| stored.step.task == task && stored.step.state == State::Running)
    );
    assert_eq!(chain[4].step.timestamp, at(2));
}

pub(crate) async fn steps_are_paged_from_any_position(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let task = writer.start("a task", 1).await;
    for n in 0..9 {
        writer.note("a note", 2 + n).await;
    }
    let seqs = async |after, limit| -> Vec<u64> {
        store
            .steps(task, after, limit)
            .await
            .expect("steps")
            .iter()
            .map(|stored| stored.seq)
            .collect()
    };
    assert_eq!(seqs(0, 3).await, [1, 2, 3]);
    assert_eq!(seqs(7, 100).await, [8, 9, 10]);
    assert_eq!(seqs(0, PAGE_MAX * 10).await.len(), 10);
    assert!(seqs(10, 5).await.is_empty() && seqs(0, 0).await.is_empty());
    assert!(store.steps(TaskId(Ulid::new()), 0, 5).await.expect("no such task").is_empty());
}

pub(crate) async fn a_task_is_found_by_its_id_open_or_ended(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let id = writer.start("a task", 1).await;
    let open = store.task(id).await.expect("a look").expect("a task");
    assert_eq!(Some(&open), writer.view().await.task.as_ref());
    assert_eq!(
        (open.description.as_str(), open.started_at, open.ended_at),
        ("a task", at(1), None)
    );
    writer.seal("done", 5).await.expect("sealed");
    let ended = store.task(id).await.expect("a look").expect("a task");
    assert_eq!((ended.state.clone(), ended.ended_at), (State::Complete, Some(at(5))));
    assert!(ended.commit.is_some() && ended.steps > open.steps);
    assert_eq!(store.task(TaskId(Ulid::new())).await.expect("a look"), None);
}

pub(crate) async fn files_of_a_task_are_in_the_view_for_sealing(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    writer.start("a task", 1).await;
    let (first, second) = (text_of(11, 5000), text_of(12, 5000));
    let read = |path: &str| Entry::FileRead {
        path: path.to_owned(),
        content: Content::Text("x".to_owned()),
    };
    writer.write("b.rs", first, 2).await;
    writer.write("b.rs", second.clone(), 3).await;
    writer.observe(vec![read("a.rs")], vec![], 4).await.expect("read");
    let blob = Content::split(second).0.blob();
    let files = [
        FileTouch { path: "a.rs".to_owned(), written: false, blob: None },
        FileTouch { path: "b.rs".to_owned(), written: true, blob },
    ];
    assert_eq!(writer.view().await.files, files);
    writer.observe(vec![read("b.rs")], vec![], 5).await.expect("read");
    assert!(
        writer.view().await.files.iter().any(|file| file.path == "b.rs" && file.written),
        "a later read does not hide the write"
    );
    let plain = store
        .view(&writer.target, Needs { open_task: true, ..Needs::default() })
        .await
        .expect("a view")
        .expect("a session");
    assert!(plain.files.is_empty());
}

pub(crate) async fn the_narrative_lists_the_notes_of_a_time_range(backend: &impl Backend) {
    let store = backend.open().await;
    let (one, two) = (
        SessionWriter::create(&store, "one", 0).await,
        SessionWriter::create(&store, "two", 0).await,
    );
    let task = one.start("a task", 1).await;
    two.start("another task", 1).await;
    two.note("at twenty", 20).await;
    one.note("at ten", 10).await;
    one.write("a.rs", b"no sentence".to_vec(), 15).await;
    one.note("at thirty", 30).await;
    let told = async |from, to, limit| {
        let sentences = store.narrative(at(from), at(to), limit).await.expect("a narrative");
        sentences.into_iter().map(|sentence| sentence.text).collect::<Vec<_>>()
    };
    assert_eq!(told(0, 100, 100).await, ["at ten", "at twenty", "at thirty"]);
    assert_eq!(told(10, 30, 100).await, ["at ten", "at twenty"], "from is inside, to is not");
    assert_eq!(told(0, 100, 2).await, ["at ten", "at twenty"]);
    assert!(told(31, 100, 100).await.is_empty() && told(30, 10, 100).await.is_empty());
    let first = &store.narrative(at(0), at(100), 1).await.expect("a narrative")[0];
    assert_eq!((first.at, first.task), (at(10), task));
    assert_eq!(first.step, one.chain(task).await[1].id);
}

pub(crate) async fn the_narrative_limit_counts_notes_and_not_steps(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    writer.start("a task", 1).await;
    writer
        .observe(vec![note("one"), note("two"), note("three")], vec![], 2)
        .await
        .expect("a step of three notes");
    let told = store.narrative(at(0), at(100), 2).await.expect("a narrative");
    assert_eq!(
        told.iter().map(|sentence| sentence.text.as_str()).collect::<Vec<_>>(),
        ["one", "two"]
    );
}
