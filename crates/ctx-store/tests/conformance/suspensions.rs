//! Suspensions: what a session waits for survives a restart, and is answered once.

use ctx_core::decide::{OfferedRun, OpenedRun};
use ctx_core::id::NodeId;
use ctx_core::inbox::Mode;
use ctx_core::message::Part;
use ctx_core::refusal::Refusal;
use ctx_core::run::Outcome;
use ctx_core::session::Activity;
use ctx_core::suspension::{Kind, Suspension};
use ctx_core::turn;
use ctx_store::{Error, SessionQuery};
use tokio::task::JoinSet;
use ulid::Ulid;

use crate::Backend;
use crate::harness::{
    NODE, SessionWriter, Snapshot, StoreHandle, assistant_text, at, awaited_calls, awaited_choice,
    choice, results, submission, submission_in, verify,
};

/// A session that waits for a tool's result and for a permission.
async fn waiting_for_two(store: &StoreHandle) -> (SessionWriter, Box<OpenedRun>, Vec<Suspension>) {
    let writer = SessionWriter::create(store, "main", 0).await;
    let opened = writer.open_run("hello", 1).await;
    let awaited = vec![awaited_calls(&["a", "b"]), awaited_choice(Kind::Permission, "Really?")];
    let entries = assistant_text("half", 2);
    writer.suspend(&opened.run, entries, awaited.clone(), 2).await.expect("suspended");
    let suspensions = writer.view().await.suspensions;
    let found: Vec<_> = suspensions.iter().map(|waiting| waiting.awaited.clone()).collect();
    assert_eq!(found, awaited, "oldest first");
    (writer, opened, suspensions)
}

pub(crate) async fn a_suspension_survives_reopening_and_resumes_the_turn(backend: &impl Backend) {
    // R219, R220, R231, R232, R249
    let store = backend.open().await;
    let (writer, before, suspensions) = waiting_for_two(&store).await;
    let view = writer.view().await;
    assert_eq!((view.session.state, view.session.owner), (Activity::Suspended, None));
    assert_eq!(view.run.as_ref().and_then(|run| run.outcome), Some(Outcome::Suspended));
    drop((store, writer));
    let store = backend.open().await;
    let writer = SessionWriter::of(&store, "main");
    assert_eq!(writer.view().await, view);

    let first = results(&[("a", "one"), ("b", "zwei \u{1F600}")]);
    let decision = writer.resume(suspensions[0].id, first.clone(), 10).await.expect("answered");
    assert!(decision.reply.is_none(), "something else is still awaited");
    let view = writer.view().await;
    assert_eq!(view.suspensions, suspensions[1..]);
    assert_eq!(view.answered, [(suspensions[0].clone(), first.clone())]);
    assert_eq!(view.drafts.len(), 2 + 3, "the answers are part of the open turn");
    let decision = writer.resume(suspensions[1].id, choice("yes"), 11).await.expect("answered");
    let opened = decision.reply.expect("a run");
    let answers = [(suspensions[0].clone(), first), (suspensions[1].clone(), choice("yes"))];
    assert_eq!(opened.resumes, answers);
    assert_eq!(opened.items[0].message_id, before.items[0].message_id);
    assert_eq!(opened.run.turn_started_at, at(1), "it is still the same turn");
    assert!(opened.run.fence > before.run.fence && opened.run.id != before.run.id);
    let view = writer.view().await;
    assert_eq!((view.session.state, view.suspensions.len()), (Activity::Running, 0));
    // The process that keeps the agent, or else the one that took the answer, adopts the run once.
    let offer = |owner, fence| OfferedRun { run: opened.run.id, owner, fence };
    let other = NodeId(Ulid(78));
    assert_eq!(writer.adopt(offer(other, None), other).await, None, "it is not theirs");
    let adopted = writer.adopt(offer(NODE, None), NODE).await.expect("its run");
    assert_eq!((adopted.run.id, &adopted.drafts), (opened.run.id, &opened.drafts));
    assert_eq!((&adopted.items, &adopted.resumes), (&opened.items, &opened.resumes));
    let late = offer(NODE, Some(opened.run.fence));
    assert_eq!(writer.adopt(late, other).await, None, "it was adopted");
    let known = offer(NODE, Some(adopted.run.fence));
    assert_eq!(writer.adopt(known, other).await.expect("taken").session.owner, Some(other));
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn a_suspension_is_answered_once(backend: &impl Backend) {
    let (one, two) = (backend.open().await, backend.open().await);
    let (writer, _, suspensions) = waiting_for_two(&one).await;
    let mut answers = JoinSet::new();
    for n in 0..12 {
        let writer = writer.through(if n % 2 == 0 { &one } else { &two });
        let (id, answer) = (suspensions[1].id, choice(if n % 2 == 0 { "yes" } else { "no" }));
        answers.spawn(async move { writer.resume(id, answer, 5).await });
    }
    let (taken, late): (Vec<_>, Vec<_>) =
        answers.join_all().await.into_iter().partition(Result::is_ok);
    assert_eq!(taken.len(), 1);
    for refused in late {
        assert!(matches!(refused, Err(Error::Refused(Refusal::SuspensionConsumed))), "{refused:?}");
    }
    let before = Snapshot::of(&one).await;
    let unknown = ctx_core::id::SuspensionId(Ulid::new());
    let refused = writer.resume(unknown, choice("yes"), 6).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::NoSuspension))), "{refused:?}");
    let refused = writer.resume(suspensions[0].id, choice("yes"), 6).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::BadAnswer { .. }))), "{refused:?}");
    assert_eq!(Snapshot::of(&one).await, before);
}

pub(crate) async fn cancelling_releases_every_suspension(backend: &impl Backend) {
    // R223, R240
    let store = backend.open().await;
    let (writer, opened, suspensions) = waiting_for_two(&store).await;
    writer.send(submission_in(Mode::Queue, "next"), 3).await;
    writer.cancel(4).await;
    let view = writer.view().await;
    assert_eq!(
        (view.session.state, view.suspensions, view.answered),
        (Activity::Idle, vec![], vec![])
    );
    let turns = store.turns(writer.head().await, 1).await.expect("turns");
    assert_eq!(turns[0].header.status, turn::Status::Cancelled);
    let (run, _) = store.run(opened.run.id).await.expect("a read").expect("a run");
    assert_eq!(run.outcome, Some(Outcome::Suspended), "its run ended when it was suspended");
    for waiting in &suspensions {
        let refused = writer.resume(waiting.id, choice("yes"), 5).await;
        assert!(matches!(refused, Err(Error::Refused(Refusal::SuspensionConsumed))));
    }
    writer.deliver_run(6).await;
}

pub(crate) async fn a_message_can_answer_or_release_a_suspension(backend: &impl Backend) {
    // R240
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let opened = writer.open_run("hello", 1).await;
    let question = awaited_choice(Kind::Question, "Which?");
    writer.suspend(&opened.run, vec![], vec![question], 2).await.expect("suspended");
    assert_eq!(writer.send(submission("something else"), 3).await.position, Some(1));
    let answered = writer.submit(submission("yes"), 4).await.expect("an answer");
    let opened = answered.reply.opened_run.expect("a run");
    assert_eq!(opened.resumes[0].1.choice.as_deref(), Some("yes"));
    let words = opened
        .drafts
        .iter()
        .any(|entry| matches!(entry, ctx_core::draft::Entry::Text { text } if text == "yes"));
    assert!(words, "the words of the answer are in the turn");

    let event = awaited_choice(Kind::Event, "When?");
    writer.suspend(&opened.run, vec![], vec![event], 5).await.expect("suspended");
    let released = writer.submit(submission_in(Mode::Interrupt, "never mind"), 6).await;
    let opened = released.expect("accepted").reply.opened_run.expect("a run");
    assert_eq!(opened.items[0].content, [Part::Text { text: "never mind".to_owned() }]);
    let turns = store.turns(writer.head().await, 1).await.expect("turns");
    assert_eq!(turns[0].header.status, turn::Status::Interrupted);
}

pub(crate) async fn waiting_sessions_are_listed_as_waiting(backend: &impl Backend) {
    let store = backend.open().await;
    let (writer, _, suspensions) = waiting_for_two(&store).await;
    SessionWriter::create(&store, "idle", 9).await;
    let query = SessionQuery { waiting: true, ..SessionQuery::newest(9) };
    let listed = store.session_views(&query).await.expect("views");
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].session.id, &listed[0].suspensions), (writer.id().await, &suspensions));
    writer.cancel(10).await;
    assert!(store.session_views(&query).await.expect("views").is_empty());
}

pub(crate) async fn answers_of_an_earlier_run_are_not_given_to_a_later_one(backend: &impl Backend) {
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let mut opened = writer.open_run("hello", 1).await;
    for (ms, call) in [(2, "a"), (4, "b"), (6, "c")] {
        let awaited = vec![awaited_calls(&[call]), awaited_choice(Kind::Permission, call)];
        writer.suspend(&opened.run, vec![], awaited, ms).await.expect("suspended");
        let open = writer.view().await.suspensions;
        let one = results(&[(call, "done")]);
        writer.resume(open[0].id, one.clone(), ms + 1).await.expect("answered");
        assert_eq!(writer.view().await.answered, [(open[0].clone(), one)], "{call}");
        let decision = writer.resume(open[1].id, choice("yes"), ms + 1).await.expect("answered");
        opened = decision.reply.expect("a run");
        assert_eq!(opened.resumes.len(), 2, "{call}: what an earlier run asked is used up");
    }
}

pub(crate) async fn answers_are_told_apart_by_run_and_not_by_time(backend: &impl Backend) {
    // A client that answers within the millisecond in which the run was suspended.
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let mut opened = writer.open_run("hello", 1).await;
    for call in ["a", "b"] {
        let awaited = vec![awaited_calls(&[call]), awaited_choice(Kind::Permission, call)];
        writer.suspend(&opened.run, vec![], awaited, 1).await.expect("suspended");
        let open = writer.view().await.suspensions;
        writer.resume(open[0].id, results(&[(call, "done")]), 1).await.expect("answered");
        let decision = writer.resume(open[1].id, choice("yes"), 1).await.expect("answered");
        opened = decision.reply.expect("a run");
        assert_eq!(opened.resumes.len(), 2, "{call}");
    }
}
