//! Sessions: made by a rule, one for each label, listed by activity.

use ctx_core::decide::{self, Needs, SessionView};
use ctx_core::id::SessionId;
use ctx_core::refusal::Refusal;
use ctx_core::session::{Activity, Origin, Status};
use ctx_store::{Error, SessionQuery, Target};
use tokio::task::JoinSet;
use ulid::Ulid;

use crate::Place;
use crate::hand::{Hand, PROJECT, at, label, make, new_session};

pub(crate) async fn a_session_is_made_by_the_rule(place: &impl Place) {
    let store = place.open().await;
    let mut new = new_session("über/main", 5);
    (new.title, new.working_dir, new.origin) =
        (Some("A title".to_owned()), Some("/src".to_owned()), Origin::Import);
    (new.persona, new.provider_id, new.model) =
        (Some("p".to_owned()), Some("demo".to_owned()), Some("m".to_owned()));
    make(&store, new.clone()).await.expect("the label is free");

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

pub(crate) async fn nobody_has_an_unknown_label_or_id(place: &impl Place) {
    let store = place.open().await;
    Hand::create(&store, "known", 0).await;
    for target in [label("unknown"), label("KNOWN"), label(""), Target::Id(SessionId(Ulid::new()))]
    {
        assert_eq!(
            store.view(&target, Needs::default()).await.expect("a view"),
            None,
            "{target:?}"
        );
    }
}

pub(crate) async fn a_label_in_use_is_refused_and_its_session_stays(place: &impl Place) {
    let store = place.open().await;
    let hand = Hand::create(&store, "taken", 0).await;
    let before = hand.view().await;
    let refused = make(&store, new_session("taken", 9)).await;
    assert!(
        matches!(refused, Err(Error::Refused(Refusal::LabelInUse { label })) if label == "taken")
    );
    assert_eq!(hand.view().await, before);
    assert_eq!(store.health().await.expect("health").sessions, 1);
}

pub(crate) async fn of_fifty_at_once_one_gets_the_label(place: &impl Place) {
    let store = place.open().await;
    let mut tries = JoinSet::new();
    for n in 0..50 {
        let store = store.clone();
        tries.spawn(async move {
            let new = new_session("wanted", n);
            let id = new.id;
            (id, make(&store, new).await)
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

pub(crate) async fn a_refusal_changes_nothing(place: &impl Place) {
    let store = place.open().await;
    let hand = Hand::create(&store, "main", 0).await;
    hand.start("a task", 1).await;
    hand.note("something was done", 2).await;
    hand.say("something was said", 3).await;
    let before = (
        hand.view().await,
        store.sessions(&ctx_store::SessionQuery::newest(10)).await.expect("sessions"),
        counts(place).await,
    );

    let refused = hand
        .decide(50, vec![], |view, invocation| decide::start(view, "another task", invocation))
        .await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::TaskOpen { .. }))));
    let refused = hand.append(None, "to a head that is not", 51).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::StaleWriter))));
    let refused = make(&store, new_session(" no label ", 52)).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::BadLabel { .. }))));
    let refused = hand.decide(53, vec![], decide::confirm).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::InvalidTransition(_)))));

    assert_eq!(
        (
            hand.view().await,
            store.sessions(&ctx_store::SessionQuery::newest(10)).await.expect("sessions"),
            counts(place).await
        ),
        before
    );
}

/// How many there are of everything, as another process sees it.
async fn counts(place: &impl Place) -> (u64, u64, u64, u64, u64) {
    let health = place.open().await.health().await.expect("health");
    (health.sessions, health.turns, health.steps, health.commits, health.blobs)
}

pub(crate) async fn a_rule_that_decides_nothing_changes_nothing(place: &impl Place) {
    let store = place.open().await;
    let hand = Hand::create(&store, "main", 0).await;
    hand.start("a task", 1).await;
    let before = hand.view().await;
    hand.observe(vec![], vec![], 99).await.expect("nothing is no fault");
    assert_eq!(hand.view().await, before);
}

pub(crate) async fn sessions_are_listed_by_their_newest_activity(place: &impl Place) {
    let store = place.open().await;
    let first = Hand::create(&store, "first", 1).await;
    Hand::create(&store, "second", 2).await;
    Hand::create(&store, "third", 3).await;
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
}

pub(crate) async fn what_was_written_is_there_for_the_next_process(place: &impl Place) {
    let store = place.open().await;
    let hand = Hand::create(&store, "main", 0).await;
    let task = hand.start("a task", 1).await;
    hand.write("a.rs", b"fn main() {}".to_vec(), 2).await;
    hand.say("hello", 3).await;
    let (view, chain) = (hand.view().await, hand.chain(task).await);
    let other = hand.through(&place.open().await);
    assert_eq!((other.view().await, other.chain(task).await), (view.clone(), chain.clone()));
    drop((store, hand, other));
    let again = Hand { store: place.open().await, target: label("main") };
    assert_eq!((again.view().await, again.chain(task).await), (view, chain));
}

pub(crate) async fn a_list_shows_of_each_session_what_a_look_at_it_shows(place: &impl Place) {
    let store = place.open().await;
    for n in 0..5 {
        let hand = Hand::create(&store, &format!("s{n}"), n).await;
        if n % 2 == 0 {
            hand.start(&format!("task {n}"), 10 + n).await;
            hand.say("words", 20 + n).await;
        }
    }
    let listed = store.session_views(&SessionQuery::newest(10)).await.expect("listed");
    let sessions = store.sessions(&SessionQuery::newest(10)).await.expect("listed");
    assert_eq!(
        listed.iter().map(|view| &view.session).collect::<Vec<_>>(),
        sessions.iter().collect::<Vec<_>>()
    );
    for view in listed {
        let looked = store
            .view(&Target::Id(view.session.id), Needs::RUN)
            .await
            .expect("a look")
            .expect("a session");
        assert_eq!(view, SessionView { project_head: None, ..looked });
    }
}
