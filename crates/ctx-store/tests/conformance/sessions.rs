//! Sessions: created by a rule, one per label, listed by activity.

use ctx_core::decide::{self, Needs, SessionView};
use ctx_core::id::SessionId;
use ctx_core::refusal::Refusal;
use ctx_core::session::{Activity, Origin, Status};
use ctx_store::{Error, SessionQuery, Target};
use tokio::task::JoinSet;
use ulid::Ulid;

use crate::Backend;
use crate::harness::{PROJECT, SessionWriter, Snapshot, at, create, label, new_session};

pub(crate) async fn a_created_session_reads_back_in_full(backend: &impl Backend) {
    let store = backend.open().await;
    let mut new = new_session("über/main", 5);
    (new.title, new.working_dir, new.origin) =
        (Some("A title".to_owned()), Some("/src".to_owned()), Origin::Import);
    (new.persona, new.provider_id, new.model) =
        (Some("p".to_owned()), Some("demo".to_owned()), Some("m".to_owned()));
    create(&store, new.clone()).await.expect("the label is free");

    let by_label = store
        .view(&label("über/main"), Needs::default())
        .await
        .expect("a view")
        .expect("a session");
    let by_id = store
        .view(&Target::Id(new.id), Needs::default())
        .await
        .expect("a view")
        .expect("a session");
    assert_eq!(by_label, by_id);
    let session = by_label.session;
    assert_eq!(
        (session.id, session.label.as_str(), session.project.as_str()),
        (new.id, "über/main", PROJECT)
    );
    assert_eq!(
        (session.status, session.state, session.origin),
        (Status::Active, Activity::Idle, Origin::Import)
    );
    assert_eq!((session.title, session.working_dir), (new.title, new.working_dir));
    assert_eq!(
        (session.persona, session.provider_id, session.model),
        (new.persona, new.provider_id, new.model)
    );
    assert_eq!((session.head, session.turn_count, session.seq), (None, 0, 1));
    assert_eq!(
        (session.created_at, session.updated_at, session.last_activity_at),
        (at(5), at(5), at(5))
    );
    assert_eq!((by_label.task, by_label.prompt, by_label.project_head), (None, None, None));
}

pub(crate) async fn an_unknown_label_or_id_finds_no_session(backend: &impl Backend) {
    let store = backend.open().await;
    SessionWriter::create(&store, "known", 0).await;
    for target in [label("unknown"), label("KNOWN"), label(""), Target::Id(SessionId(Ulid::new()))]
    {
        assert_eq!(
            store.view(&target, Needs::default()).await.expect("a view"),
            None,
            "{target:?}"
        );
    }
}

pub(crate) async fn a_label_in_use_is_refused_and_its_session_is_unchanged(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "taken", 0).await;
    let before = writer.view().await;
    let refused = create(&store, new_session("taken", 9)).await;
    assert!(
        matches!(refused, Err(Error::Refused(Refusal::LabelInUse { label })) if label == "taken")
    );
    assert_eq!(writer.view().await, before);
    assert_eq!(store.counts().await.sessions, 1);
}

pub(crate) async fn of_fifty_concurrent_creations_one_gets_the_label(backend: &impl Backend) {
    let store = backend.open().await;
    let mut tries = JoinSet::new();
    for n in 0..50 {
        let store = store.clone();
        tries.spawn(async move {
            let new = new_session("wanted", n);
            let id = new.id;
            (id, create(&store, new).await)
        });
    }
    let (made, refused): (Vec<_>, Vec<_>) =
        tries.join_all().await.into_iter().partition(|(_, tried)| tried.is_ok());
    assert_eq!((made.len(), refused.len()), (1, 49));
    assert!(
        refused
            .iter()
            .all(|(_, tried)| matches!(tried, Err(Error::Refused(Refusal::LabelInUse { .. }))))
    );
    let session = store
        .view(&label("wanted"), Needs::default())
        .await
        .expect("a view")
        .expect("a session")
        .session;
    assert_eq!(session.id, made[0].0);
    assert_eq!(
        store.sessions(&ctx_store::SessionQuery::newest(100)).await.expect("sessions"),
        [session]
    );
}

pub(crate) async fn a_refused_rule_changes_no_session(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    writer.start("a task", 1).await;
    writer.note("something was done", 2).await;
    writer.say("something was said", 3).await;
    let before = Snapshot::of(&store).await;

    let refused = writer
        .decide(50, vec![], |view, invocation| decide::start(view, "another task", invocation))
        .await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::TaskOpen { .. }))));
    let refused = writer.append(None, "to a head that is not", 51).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::StaleWriter))));
    let refused = create(&store, new_session(" no label ", 52)).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::BadLabel { .. }))));
    let refused = writer.decide(53, vec![], decide::confirm).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::InvalidTransition(_)))));

    assert_eq!(Snapshot::of(&store).await, before);
    assert_eq!(Snapshot::of(&backend.open().await).await, before, "nor does another handle differ");
}

pub(crate) async fn an_empty_decision_changes_nothing(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    writer.start("a task", 1).await;
    let before = writer.view().await;
    writer.observe(vec![], vec![], 99).await.expect("an empty list is accepted");
    assert_eq!(writer.view().await, before);
}

pub(crate) async fn sessions_are_listed_by_their_newest_activity(backend: &impl Backend) {
    let store = backend.open().await;
    let first = SessionWriter::create(&store, "first", 1).await;
    SessionWriter::create(&store, "second", 2).await;
    SessionWriter::create(&store, "third", 3).await;
    let listed = async |limit| {
        let sessions =
            store.sessions(&ctx_store::SessionQuery::newest(limit)).await.expect("sessions");
        sessions.into_iter().map(|session| session.label).collect::<Vec<_>>()
    };
    assert_eq!(listed(10).await, ["third", "second", "first"]);
    first.say("hello", 4).await;
    assert_eq!(listed(10).await, ["first", "third", "second"]);
    assert_eq!(listed(2).await, ["first", "third"]);
    assert!(listed(0).await.is_empty());
    let all = ctx_store::SessionQuery::newest(1);
    assert_eq!(store.count_sessions(&all).await.expect("a count"), 3);
    let some = ctx_store::SessionQuery { words: Some("IR".to_owned()), ..all };
    assert_eq!(store.count_sessions(&some).await.expect("a count"), 2, "first and third");
}

pub(crate) async fn writes_are_visible_to_other_handles_and_after_reopening(
    backend: &impl Backend,
) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let task = writer.start("a task", 1).await;
    writer.write("a.rs", b"fn main() {}".to_vec(), 2).await;
    writer.say("hello", 3).await;
    let (view, chain) = (writer.view().await, writer.chain(task).await);
    let other = writer.through(&backend.open().await);
    assert_eq!((other.view().await, other.chain(task).await), (view.clone(), chain.clone()));
    drop((store, writer, other));
    let again = SessionWriter { store: backend.open().await, target: label("main") };
    assert_eq!((again.view().await, again.chain(task).await), (view, chain));
}

pub(crate) async fn a_list_shows_the_same_views_as_single_reads(backend: &impl Backend) {
    let store = backend.open().await;
    for n in 0..5 {
        let writer = SessionWriter::create(&store, &format!("s{n}"), n).await;
        if n % 2 == 0 {
            writer.start(&format!("task {n}"), 10 + n).await;
            writer.say("words", 20 + n).await;
        }
    }
    let listed = store.session_views(&SessionQuery::newest(10)).await.expect("listed");
    assert_eq!(listed.len(), 5);
    for view in listed {
        let looked = store
            .view(&Target::Id(view.session.id), Needs::RUN)
            .await
            .expect("a look")
            .expect("a session");
        assert_eq!(view, SessionView { project_head: None, ..looked });
    }
}
