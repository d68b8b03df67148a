//! Commits: a task is sealed once, the project head moves with it, and commits are listed.

use ctx_core::commit::CommitType;
use ctx_core::decide;
use ctx_core::id::CommitId;
use ctx_core::object::Object;
use ctx_core::refusal::Refusal;
use ctx_core::session::New;
use ctx_core::task::State;
use ctx_store::{CommitQuery, Error};
use tokio::task::JoinSet;

use crate::Backend;
use crate::harness::{SessionWriter, StoreHandle, at, create, new_session, text_of, verify};

pub(crate) async fn sealing_moves_the_project_head_and_closes_the_task(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let task = writer.start("fix the retry logic", 1).await;
    writer.write("a.rs", text_of(1, 5000), 2).await;
    assert_eq!(
        (writer.view().await.project_head, writer.view().await.task.map(|task| task.id)),
        (None, Some(task))
    );
    let sealed = writer.seal("fixed it", 3).await.expect("sealed").reply;

    let view = writer.view().await;
    assert_eq!((view.project_head, view.task), (Some(sealed.id), None));
    let ended = store.task(task).await.expect("a look").expect("a task");
    assert_eq!(
        (ended.commit, ended.head, ended.steps),
        (Some(sealed.id), sealed.commit.steps.last, sealed.commit.steps.count)
    );
    assert_eq!(writer.chain(task).await.last().map(|stored| stored.id), Some(ended.head));
    assert_eq!(
        sealed
            .commit
            .files
            .iter()
            .map(|file| (file.path.as_str(), file.written))
            .collect::<Vec<_>>(),
        [("a.rs", true)]
    );
    let stored: ctx_core::commit::Commit = store
        .object(sealed.id.0)
        .await
        .expect("readable")
        .expect("stored")
        .decode()
        .expect("a commit");
    assert_eq!(stored, sealed.commit);

    writer.start("the next task", 4).await;
    let next = writer.seal("done too", 5).await.expect("sealed").reply;
    assert_eq!(next.commit.parents, [sealed.id]);
    assert_eq!(writer.view().await.project_head, Some(next.id));
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn a_task_is_sealed_once(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    writer.start("a task", 1).await;
    let mut seals = JoinSet::new();
    for n in 0..20 {
        let writer = writer.clone();
        seals.spawn(async move { writer.seal("done", 2 + n).await });
    }
    let (sealed, refused): (Vec<_>, Vec<_>) =
        seals.join_all().await.into_iter().partition(Result::is_ok);
    assert_eq!((sealed.len(), refused.len()), (1, 19));
    assert!(refused.iter().all(|seal| matches!(seal, Err(Error::Refused(Refusal::NoTask)))));
    assert_eq!(store.counts().await.commits, 1);
    assert!(matches!(writer.seal("again", 50).await, Err(Error::Refused(Refusal::NoTask))));
}

pub(crate) async fn concurrent_seals_of_a_project_form_one_chain(backend: &impl Backend) {
    let store = backend.open().await;
    let mut sealers = JoinSet::new();
    for n in 0..12 {
        let store = store.clone();
        sealers.spawn(async move {
            let writer = SessionWriter::create(&store, &format!("session {n}"), n).await;
            writer.start("a task", 20 + n).await;
            writer.seal("done", 40).await.expect("sealed");
        });
    }
    sealers.join_all().await;
    let commits = store
        .commits(&CommitQuery { limit: 100, ..CommitQuery::default() })
        .await
        .expect("commits");
    assert_eq!(commits.len(), 12);
    for (newer, older) in commits.iter().zip(&commits[1..]) {
        assert_eq!(newer.1.parents, [older.0]);
    }
    assert!(commits[11].1.parents.is_empty());
}

/// Four commits in two projects, the oldest first.
async fn four_commits(store: &StoreHandle) -> Vec<CommitId> {
    SessionWriter::create(store, "one", 0).await;
    create(store, New { project: "other".to_owned(), ..new_session("two", 0) })
        .await
        .expect("free");
    let mut ids = Vec::new();
    for (n, (session, give_up)) in
        [("one", false), ("two", false), ("one", true), ("one", false)].into_iter().enumerate()
    {
        let writer = SessionWriter::of(store, session);
        writer.start("a task", 10 * n as i64).await;
        let ended = if give_up {
            writer
                .decide(10 * n as i64 + 1, vec![], |view, invocation| {
                    decide::abort(view, None, invocation)
                })
                .await
        } else {
            writer.seal("done", 10 * n as i64 + 1).await
        };
        ids.push(ended.expect("ended").reply.id);
    }
    ids
}

pub(crate) async fn commits_are_filtered_by_project_type_and_position(backend: &impl Backend) {
    let store = backend.open().await;
    let ids = four_commits(&store).await;
    let all = CommitQuery { limit: 100, ..CommitQuery::default() };
    let found = async |query: &CommitQuery| -> Vec<CommitId> {
        store.commits(query).await.expect("commits").into_iter().map(|(id, _)| id).collect()
    };
    let types = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(found(&all).await, [ids[3], ids[2], ids[1], ids[0]], "newest first");
    let of = |project: &str| CommitQuery { project: Some(project.to_owned()), ..all.clone() };
    assert_eq!(found(&of("other")).await, [ids[1]]);
    assert_eq!(found(&of("demo")).await, [ids[3], ids[2], ids[0]]);
    let one = CommitQuery { limit: 1, ..of("demo") };
    assert_eq!(store.count_commits(&one).await.expect("a count"), 3);
    let tasks = store.tasks_between(at(10), at(25), 9).await.expect("tasks");
    assert_eq!(tasks.iter().map(|task| task.started_at).collect::<Vec<_>>(), [at(10), at(20)]);
    let older = CommitQuery { before: Some(ids[2]), ..all.clone() };
    assert_eq!(store.count_commits(&older).await.expect("a count"), 2);
    assert!(found(&of("unknown")).await.is_empty());
    assert_eq!(found(&CommitQuery { types: types(&["abandoned"]), ..all.clone() }).await, [ids[2]]);
    assert_eq!(
        found(&CommitQuery { types: types(&["abandoned", "normal"]), ..of("demo") }).await,
        [ids[3], ids[2], ids[0]]
    );
    assert!(
        found(&CommitQuery { types: types(&["stale_auto_compact"]), ..all.clone() })
            .await
            .is_empty()
    );
    assert_eq!(found(&CommitQuery { before: Some(ids[2]), ..all.clone() }).await, [ids[1], ids[0]]);
    assert_eq!(
        found(&CommitQuery { before: Some(ids[3]), limit: 1, ..of("demo") }).await,
        [ids[2]]
    );
    assert!(found(&CommitQuery { limit: 0, ..all.clone() }).await.is_empty());
    store.catch_up().await;
    assert_eq!(found(&CommitQuery { before: Some(ids[1]), ..all.clone() }).await, [ids[0]]);
    let unknown = CommitId(Object::blob(b"no commit".to_vec()).id());
    assert!(matches!(
        store.commits(&CommitQuery { before: Some(unknown), ..all }).await,
        Err(Error::NotFound { what: "commit", .. })
    ));
}

pub(crate) async fn an_abandoned_task_is_sealed_as_abandoned(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    writer.start("a task", 1).await;
    writer.note("half of it", 2).await;
    writer
        .decide(3, vec![], |view, invocation| decide::abort(view, Some("too hard"), invocation))
        .await
        .expect("given up");
    let commits =
        store.commits(&CommitQuery { limit: 10, ..CommitQuery::default() }).await.expect("commits");
    assert_eq!(commits[0].1.commit_type, CommitType::Abandoned);
    assert!(matches!(&commits[0].1.state, State::Aborted { reason } if reason == "too hard"));
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn idle_tasks_are_found(backend: &impl Backend) {
    let store = backend.open().await;
    let (old, new) = (
        SessionWriter::create(&store, "old", 0).await,
        SessionWriter::create(&store, "new", 0).await,
    );
    SessionWriter::create(&store, "without a task", 0).await;
    old.start("an old task", 10).await;
    new.start("a new task", 11).await;
    new.note("worked on", 20).await;
    let ids = (old.view().await.session.id, new.view().await.session.id);
    let idle = async |since, limit| store.idle_tasks(at(since), limit).await.expect("a look");
    assert_eq!(idle(10, 10).await, [], "active at that moment is active since then");
    assert_eq!(idle(11, 10).await, [ids.0]);
    assert_eq!(idle(20, 10).await, [ids.0]);
    assert_eq!(idle(21, 10).await.len(), 2);
    assert_eq!(idle(21, 1).await.len(), 1);
    old.seal("done", 30).await.expect("sealed");
    assert_eq!(idle(100, 10).await, [ids.1], "a sealed task is not idle");
}
