//! Import: sessions and tasks from elsewhere, with all of their turns and steps or none.

use std::collections::BTreeMap;

use ctx_core::bundle::{TaskBundle, TaskEnd, TaskImport};
use ctx_core::commit::Commit;
use ctx_core::compaction::By;
use ctx_core::decide::{self, CommitRecord, Import, Needs, SessionToImport, StepRecord};
use ctx_core::id::{TaskId, TurnId};
use ctx_core::object::{Named, Object};
use ctx_core::refusal::Refusal;
use ctx_core::session::{New, Origin};
use ctx_core::task::Task;
use ctx_core::turn::{About, Ready, Record};
use ctx_store::{CommitQuery, Error, StoredStep, Written};

use crate::Backend;
use crate::harness::{
    SessionWriter, Snapshot, StoreHandle, at, compaction, image, label, message, new_session,
    summary_turn, text_of, turn, verify,
};

/// Five turns, the fourth a compaction of the first, the fifth with a picture; and their objects.
fn five_turns() -> (Vec<Record>, Vec<Named>) {
    let (mut records, mut objects): (Vec<Record>, Vec<Named>) = (Vec::new(), Vec::new());
    let picture = Object::blob(text_of(1, 6000));
    for n in 0..5 {
        let mut shown = message("look", n);
        shown.content.push(image(&picture));
        let (ready, body) = match n {
            3 => summary_turn(n),
            4 => Ready::new(About::at(at(n)), vec![shown]),
            _ => turn(&format!("imported {n}"), n),
        };
        let mut record = ready.with_parent(records.last().map(|record| record.id));
        if n == 3 {
            let row = compaction(Some(records[0].id), Some(records[1].id), By::Ctx);
            record.compaction = Some(Box::new(row));
        }
        records.push(record);
        objects.push(body);
    }
    objects.push(Named::from(picture));
    (records, objects)
}

fn adopt(name: &str, expected: Option<TurnId>, turns: &[Record]) -> SessionToImport {
    let new =
        New { origin: Origin::Import, title: Some("A title".to_owned()), ..new_session(name, 9) };
    let options = BTreeMap::from([("mode".to_owned(), "plan \u{1F600}".to_owned())]);
    SessionToImport { new, options, expected, turns: turns.to_vec() }
}

async fn import(
    store: &StoreHandle,
    adopt: SessionToImport,
    objects: Vec<Named>,
) -> Result<Written<()>, Error> {
    let writer = SessionWriter { store: store.clone(), target: label(&adopt.new.label) };
    let rule = move |found: Option<&_>, _: &_| decide::import_session(found, &adopt);
    writer.write_with(Needs::NOTHING, 9, objects, rule).await
}

pub(crate) async fn an_imported_session_reads_back_in_full(backend: &impl Backend) {
    let store = backend.open().await;
    let (records, objects) = five_turns();
    import(&store, adopt("main", None, &records), objects.clone()).await.expect("imported");
    let writer = SessionWriter::of(&store, "main");
    let session = writer.session().await;
    assert_eq!((session.head, session.turn_count), (Some(records[4].id), 5));
    assert_eq!((session.origin, session.title.as_deref()), (Origin::Import, Some("A title")));
    assert_eq!(session.options["mode"], "plan \u{1F600}");
    let turns = store.turns(records[4].id, 9).await.expect("turns");
    for (stored, record) in turns.iter().rev().zip(&records) {
        assert_eq!(stored.id, record.id);
        assert_eq!(stored.compaction, record.compaction.as_deref().cloned());
        assert!(stored.messages().expect("readable").is_some());
    }
    let context = store.context(session.id, records[4].id, usize::MAX).await.expect("a context");
    assert_eq!(context.turns.len(), 4, "back to the first turn that the compaction keeps");
    let moves = store.head_moves(session.id, None, 9).await.expect("moves");
    assert_eq!(moves.len(), 1, "an import is one move of the head");
    let before = Snapshot::of(&store).await;
    let again = import(&store, adopt("main", None, &records), objects).await;
    assert!(matches!(again, Err(Error::Refused(Refusal::StaleWriter))), "{again:?}");
    assert_eq!(Snapshot::of(&store).await, before);
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn imported_turns_that_are_known_are_shared(backend: &impl Backend) {
    let store = backend.open().await;
    let (records, objects) = five_turns();
    import(&store, adopt("one", None, &records[..3]), objects.clone()).await.expect("imported");
    store.catch_up().await;
    import(&store, adopt("two", None, &records), objects.clone()).await.expect("imported");
    assert_eq!(store.counts().await.turns, 5);
    let two = SessionWriter::of(&store, "two").session().await;
    assert_eq!((two.head, two.turn_count), (Some(records[4].id), 5));
    import(&store, adopt("three", None, &records), vec![]).await.expect("everything is known");
    let three = SessionWriter::of(&store, "three").session().await;
    assert_eq!((three.head, three.turn_count), (Some(records[4].id), 5));
    import(&store, adopt("empty", None, &[]), vec![]).await.expect("a session without turns");
    assert_eq!(SessionWriter::of(&store, "empty").session().await.head, None);
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn a_turn_without_its_words_is_imported_as_purged(backend: &impl Backend) {
    let store = backend.open().await;
    let (records, _) = five_turns();
    import(&store, adopt("main", None, &records[..2]), vec![]).await.expect("imported");
    let turns = store.turns(records[1].id, 9).await.expect("turns");
    assert!(turns.iter().all(|turn| turn.body.is_none()));
    assert_eq!(turns[0].messages().expect("readable"), None);
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn an_import_without_its_blob_leaves_nothing(backend: &impl Backend) {
    let store = backend.open().await;
    SessionWriter::create(&store, "other", 0).await.say("hello", 1).await;
    let before = Snapshot::of(&store).await;
    let (records, mut objects) = five_turns();
    objects.pop();
    let failed = import(&store, adopt("main", None, &records), objects).await;
    assert!(matches!(failed, Err(Error::NotFound { what: "blob", .. })), "{failed:?}");
    assert_eq!(Snapshot::of(&store).await, before);
}

pub(crate) async fn a_session_is_brought_forward_from_the_head_it_has(backend: &impl Backend) {
    let store = backend.open().await;
    let (records, objects) = five_turns();
    import(&store, adopt("main", None, &records[..2]), objects.clone()).await.expect("imported");
    let writer = SessionWriter::of(&store, "main");
    let extend = async |expected, turns: &[Record]| {
        let adopt = adopt("main", expected, turns);
        let rule = move |view: &_, _: &_| decide::extend_session(view, &adopt);
        writer.decide(10, objects.clone(), rule).await
    };
    let refused = extend(None, &records[2..]).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::StaleWriter))), "{refused:?}");
    extend(Some(records[1].id), &records[2..]).await.expect("extended");
    let session = writer.session().await;
    assert_eq!((session.head, session.turn_count), (Some(records[4].id), 5));
    let opened = writer.open_run("busy", 11).await;
    let refused = extend(Some(records[4].id), &[]).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::Busy { .. }))), "{refused:?}");
    writer.end_run(&opened, "answer", 12).await;
    assert_eq!(verify(&store).await.findings, []);
}

fn records(steps: &[StoredStep]) -> Vec<StepRecord> {
    let record = |stored: &StoredStep| StepRecord {
        id: stored.id,
        seq: stored.seq,
        step: stored.step.clone(),
        object: stored.object.clone(),
    };
    steps.iter().map(record).collect()
}

/// A task of a store as a bundle carries it.
async fn carried(writer: &SessionWriter, id: TaskId) -> TaskImport {
    let task = writer.store.task(id).await.expect("a read").expect("a task");
    let steps = records(&writer.chain(id).await);
    let mut commit = None;
    if let Some(id) = task.commit {
        let object = writer.store.object(id.0).await.expect("readable").expect("stored");
        let decoded: Commit = object.decode().expect("a commit");
        commit = Some(CommitRecord { id, commit: decoded, object });
    }
    let import = Import { bundle: TaskBundle::of(&task), steps };
    TaskImport { end: TaskEnd::of(&task), import, commit }
}

async fn take_in(writer: &SessionWriter, task: TaskImport) -> Option<Task> {
    let import = Some((task.end.task.task, task.end.task.staging_head));
    let needs = Needs { import, ..Needs::WORK };
    let rule =
        move |view: Option<&_>, _: &_| decide::import_task(view.ok_or(Refusal::NoSession)?, &task);
    writer.write_with(needs, 50, vec![], rule).await.expect("an import is never refused").reply
}

pub(crate) async fn imported_tasks_bring_their_commits_in_order<B: Backend>(backend: &B) {
    let there = SessionWriter::create(&backend.open().await, "main", 0).await;
    let mut tasks = Vec::new();
    for n in 0..3 {
        let id = there.start(&format!("task {n}"), 10 * n).await;
        there.note("worked", 10 * n + 1).await;
        if n < 2 {
            there.seal("done", 10 * n + 2).await.expect("sealed");
        }
        tasks.push(id);
    }
    let target = B::fresh().await;
    let here = SessionWriter::create(&target.open().await, "main", 0).await;
    for id in &tasks {
        take_in(&here, carried(&there, *id).await).await;
        assert_eq!(here.chain(*id).await, there.chain(*id).await);
    }
    let all = CommitQuery { limit: 9, ..CommitQuery::default() };
    let commits = here.store.commits(&all).await.expect("commits");
    assert_eq!(commits, there.store.commits(&all).await.expect("commits"));
    assert_eq!(here.view().await.task.expect("open").id, tasks[2]);
    assert_eq!(here.view().await.project_head, there.view().await.project_head);
    // Importing again changes nothing; a task that went on is brought forward.
    let before = Snapshot::of(&here.store).await;
    for id in &tasks {
        take_in(&here, carried(&there, *id).await).await;
    }
    assert_eq!(Snapshot::of(&here.store).await, before);
    there.note("more", 30).await;
    take_in(&here, carried(&there, tasks[2]).await).await;
    assert_eq!(here.chain(tasks[2]).await, there.chain(tasks[2]).await);
    assert_eq!(verify(&here.store).await.findings, []);
}

pub(crate) async fn an_open_task_is_handed_over_and_verified<B: Backend>(backend: &B) {
    // R116, R117
    let there = SessionWriter::create(&backend.open().await, "main", 0).await;
    let id = there.start("a task", 1).await;
    there.note("half of it", 2).await;
    let target = B::fresh().await;
    let here = SessionWriter::create(&target.open().await, "main", 0).await;
    let hand_over = async |import: Import| {
        let needs = Some((import.bundle.task, import.bundle.staging_head));
        let needs = Needs { import: needs, ..Needs::WORK };
        let rule =
            move |view: Option<&_>, _: &_| decide::import(view.ok_or(Refusal::NoSession)?, &import);
        here.write_with(needs, 60, vec![], rule).await
    };
    let import = carried(&there, id).await.import;
    let before = Snapshot::of(&here.store).await;
    let refused = hand_over(Import { steps: vec![], ..import.clone() }).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::MissingHead { .. }))), "{refused:?}");
    assert_eq!(Snapshot::of(&here.store).await, before);

    hand_over(import.clone()).await.expect("taken over");
    assert_eq!(here.view().await.task.expect("open").id, id);
    assert_eq!(here.chain(id).await, there.chain(id).await);
    hand_over(import.clone()).await.expect("the same bundle changes nothing");
    here.note("went on here", 70).await;
    there.note("went on there", 70).await;
    let refused = hand_over(carried(&there, id).await.import).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::Diverged { .. }))), "{refused:?}");
    let other = SessionWriter::create(&here.store, "other", 80).await;
    let needs = Needs { import: Some((id, import.bundle.staging_head)), ..Needs::WORK };
    let open_elsewhere = other
        .write_with(needs, 81, vec![], move |view, _| {
            decide::import(view.ok_or(Refusal::NoSession)?, &import)
        })
        .await;
    assert!(matches!(open_elsewhere, Err(Error::Refused(Refusal::TaskOpen { .. }))));
    assert_eq!(verify(&here.store).await.findings, []);
}
