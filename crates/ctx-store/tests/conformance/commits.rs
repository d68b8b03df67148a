//! Commits: a task is sealed once, HEAD and STAGE move with it, and commits are found again.

use ctx_core::commit::CommitType;
use ctx_core::decide;
use ctx_core::id::CommitId;
use ctx_core::object::Object;
use ctx_core::refusal::Refusal;
use ctx_core::session::New;
use ctx_core::task::State;
use ctx_store::{CommitQuery, Error, Store};
use tokio::task::JoinSet;

use crate::Place;
use crate::hand::{Hand, at, label, make, new_session, text_of, verify};

pub(crate) async fn head_and_stage_move_together(place: &impl Place) {
    let store = place.open().await;
    let hand = Hand::create(&store, "main", 0).await;
    let task = hand.start("fix the retry logic", 1).await;
    hand.write("a.rs", text_of(1, 5000), 2).await;
    assert_eq!(
        (hand.view().await.project_head, hand.view().await.task.map(|task| task.id)),
        (None, Some(task))
    );
    let sealed = hand.seal("fixed it", 3).await.expect("sealed").reply;

    let view = hand.view().await;
    assert_eq!((view.project_head, view.task), (Some(sealed.id), None));
    let ended = store.task(task).await.expect("a look").expect("a task");
    assert_eq!(
        (ended.commit, ended.head, ended.steps),
        (Some(sealed.id), sealed.commit.steps.last, sealed.commit.steps.count)
    );
    assert_eq!(hand.chain(task).await.last().map(|stored| stored.id), Some(ended.head));
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

    hand.start("the next task", 4).await;
    let next = hand.seal("done too", 5).await.expect("sealed").reply;
    assert_eq!(next.commit.parents, [sealed.id]);
    assert_eq!(hand.view().await.project_head, Some(next.id));
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn a_task_is_sealed_once(place: &impl Place) {
    let store = place.open().await;
    let hand = Hand::create(&store, "main", 0).await;
    hand.start("a task", 1).await;
    let mut seals = JoinSet::new();
    for n in 0..20 {
        let hand = hand.clone();
        seals.spawn(async move { hand.seal("done", 2 + n).await });
    }
    let (sealed, refused): (Vec<_>, Vec<_>) =
        seals.join_all().await.into_iter().partition(Result::is_ok);
    assert_eq!((sealed.len(), refused.len()), (1, 19));
    assert!(refused.iter().all(|seal| matches!(seal, Err(Error::Refused(Refusal::NoTask)))));
    assert_eq!(store.health().await.expect("health").commits, 1);
    assert!(matches!(hand.seal("again", 50).await, Err(Error::Refused(Refusal::NoTask))));
}

pub(crate) async fn sealers_of_one_project_make_one_line_of_commits(place: &impl Place) {
    let store = place.open().await;
    let mut sealers = JoinSet::new();
    for n in 0..12 {
        let store = store.clone();
        sealers.spawn(async move {
            let hand = Hand::create(&store, &format!("session {n}"), n).await;
            hand.start("a task", 20 + n).await;
            hand.seal("done", 40).await.expect("sealed");
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
async fn four_commits(store: &std::sync::Arc<dyn Store>) -> Vec<CommitId> {
    Hand::create(store, "one", 0).await;
    make(store, New { project: "other".to_owned(), ..new_session("two", 0) }).await.expect("free");
    let mut ids = Vec::new();
    for (n, (session, give_up)) in
        [("one", false), ("two", false), ("one", true), ("one", false)].into_iter().enumerate()
    {
        let hand = Hand { store: store.clone(), target: label(session) };
        hand.start("a task", 10 * n as i64).await;
        let ended = if give_up {
            hand.decide(10 * n as i64 + 1, vec![], |view, invocation| {
                decide::abort(view, None, invocation)
            })
            .await
        } else {
            hand.seal("done", 10 * n as i64 + 1).await
        };
        ids.push(ended.expect("ended").reply.id);
    }
    ids
}

pub(crate) async fn commits_are_found_by_project_type_and_place(place: &impl Place) {
    let store = place.open().await;
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
    assert!(found(&of("nobody's")).await.is_empty());
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
    store.settle().await.expect("settled");
    assert_eq!(found(&CommitQuery { before: Some(ids[1]), ..all.clone() }).await, [ids[0]]);
    let unknown = CommitId(Object::blob(b"no commit".to_vec()).id());
    assert!(matches!(
        store.commits(&CommitQuery { before: Some(unknown), ..all }).await,
        Err(Error::NotFound { what: "commit", .. })
    ));
}

pub(crate) async fn work_that_was_given_up_is_kept_as_such(place: &impl Place) {
    let store = place.open().await;
    let hand = Hand::create(&store, "main", 0).await;
    hand.start("a task", 1).await;
    hand.note("half of it", 2).await;
    hand.decide(3, vec![], |view, invocation| decide::abort(view, Some("too hard"), invocation))
        .await
        .expect("given up");
    let commits =
        store.commits(&CommitQuery { limit: 10, ..CommitQuery::default() }).await.expect("commits");
    assert_eq!(commits[0].1.commit_type, CommitType::Abandoned);
    assert!(matches!(&commits[0].1.state, State::Aborted { reason } if reason == "too hard"));
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn tasks_that_lie_idle_are_found(place: &impl Place) {
    let store = place.open().await;
    let (old, new) = (Hand::create(&store, "old", 0).await, Hand::create(&store, "new", 0).await);
    Hand::create(&store, "without a task", 0).await;
    old.start("an old task", 10).await;
    new.start("a new task", 11).await;
    new.note("worked on", 20).await;
    let ids = (old.view().await.session.id, new.view().await.session.id);
    let idle = async |since, limit| store.idle_tasks(at(since), limit).await.expect("a look");
    assert_eq!(idle(10, 10).await, [], "active at that very moment is active since");
    assert_eq!(idle(11, 10).await, [ids.0]);
    assert_eq!(idle(20, 10).await, [ids.0]);
    assert_eq!(idle(21, 10).await.len(), 2);
    assert_eq!(idle(21, 1).await.len(), 1);
    old.seal("done", 30).await.expect("sealed");
    assert_eq!(idle(100, 10).await, [ids.1], "a sealed task is not idle");
}
