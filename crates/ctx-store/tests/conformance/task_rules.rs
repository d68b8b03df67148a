//! Every rule that moves a task, and what is left of each move.

use ctx_core::commit::CommitType;
use ctx_core::decide::{self, Settings};
use ctx_core::intent::Intent;
use ctx_core::prompt::Choice;
use ctx_core::relation::Label;
use ctx_core::step::Entry;
use ctx_core::task::{State, StateName};
use ctx_core::time::Span;
use ctx_store::{CommitQuery, Error, SessionQuery};

use crate::Backend;
use crate::harness::{SessionWriter, at, note, verify};

const DAY_MS: i64 = Span::days(1).0 as i64;

/// The reply of a rule that does not refuse.
async fn rule<R: Send + std::fmt::Debug + 'static>(
    writer: &SessionWriter,
    ms: i64,
    rule: impl Fn(&decide::SessionView, &decide::Invocation) -> decide::Decided<R> + Send + 'static,
) -> R {
    writer.decide(ms, vec![], rule).await.expect("the rule decides").reply
}

pub(crate) async fn every_state_of_a_task_reads_back(backend: &impl Backend) {
    // R38, R40, R48
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let task = writer.start("a task", 1).await;
    let state = async || store.task(task).await.expect("a read").expect("a task").state;
    rule(&writer, 2, |view, invocation| decide::ask(view, "Which \u{1F600}?", invocation)).await;
    let asked_at = at(2).unix_seconds();
    assert_eq!(
        state().await,
        State::AwaitingUser { question: "Which \u{1F600}?".to_owned(), asked_at }
    );
    let waiting = SessionQuery { waiting: true, ..SessionQuery::newest(9) };
    assert_eq!(store.sessions(&waiting).await.expect("sessions").len(), 1);
    rule(&writer, 3, |view, invocation| decide::answer(view, "this one", invocation)).await;
    assert_eq!(state().await, State::Running);
    rule(&writer, 4, |view, invocation| decide::interrupt(view, "wait", invocation)).await;
    rule(&writer, 5, |view, invocation| decide::interrupt(view, "and this", invocation)).await;
    assert_eq!(state().await, State::Interrupted { user_message: "wait\nand this".to_owned() });
    rule(&writer, 6, decide::incorporate).await;
    rule(&writer, 7, |view, invocation| decide::done(view, "all of it", invocation)).await;
    assert_eq!(state().await, State::PendingComplete { summary: "all of it".to_owned() });
    rule(&writer, 8, |view, invocation| decide::more(view, "one thing", invocation)).await;
    let done = State::PendingComplete { summary: "now all".to_owned() };
    rule(&writer, 9, move |view, invocation| decide::set_state(view, &done, invocation)).await;
    let sealed = rule(&writer, 10, decide::confirm).await;
    assert_eq!((state().await, sealed.commit.message.as_str()), (State::Complete, "now all"));
    let chain = writer.chain(task).await;
    let names: Vec<StateName> = chain.iter().map(|stored| stored.step.state.name()).collect();
    use StateName::{AwaitingUser, Complete, Interrupted, PendingComplete, Running};
    let expected = [
        Running,
        AwaitingUser,
        Running,
        Interrupted,
        Interrupted,
        Running,
        PendingComplete,
        Running,
        PendingComplete,
        Complete,
        Complete,
    ];
    assert_eq!(names, expected);
    let mentions = chain
        .iter()
        .flat_map(|stored| &stored.step.payload)
        .any(|entry| matches!(entry, Entry::Relation(edge) if edge.label == Label::Mentions));
    assert!(mentions, "the answer is linked to the task");
    assert!(store.sessions(&waiting).await.expect("sessions").is_empty());
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn every_type_of_commit_is_stored_and_found(backend: &impl Backend) {
    // R111, R112, R113
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let settings = Settings { on_new_task: decide::OnNewTask::Auto, ..Settings::default() };
    writer.start("one", 1).await;
    writer.seal("done", 2).await.expect("sealed");
    writer.start("two", 3).await;
    rule(&writer, 4, |view, invocation| decide::abort(view, Some("too hard"), invocation)).await;
    writer.start("three", 5).await;
    rule(&writer, 5 + 8 * DAY_MS, |view, invocation| {
        decide::cleanup(view, Span::days(7), invocation)
    })
    .await;
    writer.start("four", 9 * DAY_MS).await;
    writer.observe(vec![note("worked")], vec![], 9 * DAY_MS).await.expect("observed");
    writer.write("a.rs", b"x".to_vec(), 9 * DAY_MS).await;
    rule(&writer, 9 * DAY_MS, move |view, invocation| {
        decide::message(view, "now add pooling", Intent::NewTask, &settings, invocation)
    })
    .await;
    let all = CommitQuery { limit: 9, ..CommitQuery::default() };
    let types: Vec<CommitType> = store
        .commits(&all)
        .await
        .expect("commits")
        .into_iter()
        .map(|(_, commit)| commit.commit_type)
        .collect();
    let idle_duration_secs = Span::days(8).seconds();
    let expected = [
        CommitType::InterruptedByNewTask { new_task_summary: "now add pooling".to_owned() },
        CommitType::StaleAutoCompact { idle_duration_secs },
        CommitType::Abandoned,
        CommitType::Normal,
    ];
    assert_eq!(types, expected);
    for commit_type in &expected {
        let one = CommitQuery { types: vec![commit_type.name().to_owned()], ..all.clone() };
        let found = store.commits(&one).await.expect("commits");
        assert_eq!(found.len(), 1, "{commit_type:?}");
        assert_eq!(&found[0].1.commit_type, commit_type);
    }
    assert_eq!(writer.view().await.task.expect("a new task").description, "now add pooling");
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn questions_after_a_pause_are_stored_and_answered(backend: &impl Backend) {
    // R90, R93, R96, R99
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let task = writer.start("a task", 1).await;
    let settings = Settings::default();
    let message = {
        let settings = settings.clone();
        move |view: &_, invocation: &_| {
            decide::message(view, "go on", Intent::Modification, &settings, invocation)
        }
    };
    let asked = rule(&writer, 2 * DAY_MS, message).await.prompt.expect("a question");
    assert_eq!((asked.kind(), writer.view().await.prompt), ("stale", Some(asked.clone())));
    let listed = store.session_views(&SessionQuery::newest(9)).await.expect("views");
    assert_eq!(listed[0].prompt, Some(asked));
    let choose = {
        let settings = settings.clone();
        move |view: &_, invocation: &_| {
            decide::choose(view, Choice::Continue, &settings, invocation)
        }
    };
    rule(&writer, 2 * DAY_MS + 1, choose).await;
    assert_eq!(writer.view().await.prompt, None);
    let recover = {
        let settings = settings.clone();
        move |view: &_, invocation: &_| decide::recover(view, &settings, invocation)
    };
    let asked = rule(&writer, 4 * DAY_MS, recover.clone()).await.prompt.expect("a question");
    assert_eq!(asked.kind(), "resume");
    rule(&writer, 20 * DAY_MS, recover).await;
    let view = writer.view().await;
    assert_eq!((view.prompt, view.task), (None, None), "the seal closes the question");
    let ended = store.task(task).await.expect("a read").expect("a task");
    let sealed = Some(ended.clone());
    rule(&writer, 20 * DAY_MS, move |view, invocation| {
        decide::reopen(view, sealed.as_ref(), invocation)
    })
    .await;
    let reopened = writer.view().await.task.expect("open");
    assert_eq!(reopened.description, "a task");
    assert_ne!(reopened.id, ended.id);
    assert_eq!(reopened.base, ended.commit, "it starts from the commit");
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn a_task_without_work_is_dropped_without_a_commit(backend: &impl Backend) {
    // R83
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let task = writer.start("nothing yet", 1).await;
    let settings = Settings { on_new_task: decide::OnNewTask::Auto, ..Settings::default() };
    rule(&writer, 2, move |view, invocation| {
        decide::message(view, "something else", Intent::NewTask, &settings, invocation)
    })
    .await;
    let dropped = store.task(task).await.expect("a read").expect("a task");
    assert_eq!((dropped.commit, dropped.ended_at), (None, Some(at(2))));
    assert!(matches!(dropped.state, State::Aborted { .. }));
    assert_eq!(store.counts().await.commits, 0);
    let refused = writer
        .decide(3, vec![], |view, invocation| decide::start(view, "a third", invocation))
        .await;
    assert!(matches!(refused, Err(Error::Refused(_))));
    let tasks = store.tasks(writer.id().await, true, None, 9).await.expect("tasks");
    assert_eq!(tasks.len(), 2);
    assert_eq!(verify(&store).await.findings, []);
}

pub(crate) async fn archived_sessions_are_readable_and_return_with_a_message(
    backend: &impl Backend,
) {
    // R198, R210
    let store = backend.open().await;
    let writer = SessionWriter::create(&store, "main", 0).await;
    let opened = writer.open_run("hello", 1).await;
    writer.archive(2).await.expect("archived");
    assert!(writer.view().await.run.expect("open").cancel.is_some(), "the run is to end");
    writer.end_run(&opened, "half", 3).await;
    assert_eq!(writer.session().await.status, ctx_core::session::Status::Archived);
    assert_eq!(store.turns(writer.head().await, 9).await.expect("turns").len(), 1);
    rule(&writer, 4, decide::unarchive).await;
    writer.archive(5).await.expect("archived");
    assert_eq!(store.hidden().await.expect("hidden").archived, 1);
    writer.exchange("again", "answer", 6).await;
    assert_eq!(writer.session().await.status, ctx_core::session::Status::Active);
    assert_eq!(store.hidden().await.expect("hidden").archived, 0);
}
