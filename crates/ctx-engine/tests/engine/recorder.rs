//! The recorder, as an embedding program uses it: a real store, a manual clock, and a restart in
//! every test.

use std::sync::Arc;

use async_trait::async_trait;
use ctx_engine::core::decide::{Action, OnNewTask, Settings};
use ctx_engine::core::intent::{ClassifierInput, Intent};
use ctx_engine::core::prompt::Choice;
use ctx_engine::core::refusal::Refusal;
use ctx_engine::core::stale::Staleness;
use ctx_engine::core::task::{State, StateName};
use ctx_engine::core::time::Span;
use ctx_engine::{Classifier, CommitQuery, Engine, Indexing, Options, SearchRequest};

use crate::harness::{Harness, NOON};

async fn commits(engine: &Engine) -> Vec<(String, String)> {
    let found = engine
        .records()
        .commits(&CommitQuery { limit: 100, ..CommitQuery::default() })
        .await
        .expect("commits");
    found
        .into_iter()
        .map(|(_, commit)| (commit.commit_type.name().to_owned(), commit.message))
        .collect()
}

#[tokio::test]
async fn flushed_work_survives_the_process_and_other_work_may_be_lost() {
    // R55, R56, R58, R59
    let desk = Harness::at_noon();
    let mut work = desk.recorder().await;
    work.start("Add retry logic").await.expect("started");
    work.observe_note("flushed");
    work.flush().await.expect("flushed");
    work.observe_note("never flushed");
    drop(work);
    let work = desk.recorder().await;
    let steps = work.steps(0, 100).await.expect("steps");
    let notes: Vec<&str> = steps.iter().flat_map(|step| step.step.notes()).collect();
    assert_eq!(notes, ["flushed"]);
    assert_eq!(work.task().await.expect("task").map(|task| task.state), Some(State::Running));
    assert!(
        desk.engine()
            .maintenance()
            .verify(false, &|_, _| ())
            .await
            .expect("verified")
            .findings
            .is_empty()
    );
}

#[tokio::test]
async fn a_question_survives_a_crash_directly_after_it() {
    // R36, R37, R38, R101
    let desk = Harness::at_noon();
    let mut work = desk.recorder().await;
    work.start("Add retry logic").await.expect("started");
    work.observe_plan("look, then leap");
    work.ask("How many attempts?").await.expect("asked");
    drop(work);
    let mut work = desk.recorder().await;
    let task = work.task().await.expect("task").expect("open");
    assert_eq!(
        task.state,
        State::AwaitingUser {
            question: "How many attempts?".into(),
            asked_at: NOON.unix_seconds()
        }
    );
    assert_eq!(task.progress.plans, 1, "the plan was flushed before the question");
    let text = work.recover().await.expect("recovered").text.expect("a text");
    assert!(
        text.contains("Continuing from where we left off. I had asked:\nHow many attempts?"),
        "{text}"
    );
}

#[tokio::test]
async fn idle_time_counts_while_no_process_runs() {
    // R85, R90, R92, R93, R96, R108
    let desk = Harness::at_noon();
    desk.recorder().await.start("Add retry logic").await.expect("started");
    desk.clock.advance(Span::hours(25));
    let mut work = desk.recorder().await;
    let status = work.status().await.expect("status");
    assert_eq!((status.stale, status.idle), (Some(Staleness::ShouldAsk), Some(Span::hours(25))));
    let asked = work.message("use exponential backoff").await.expect("heard");
    assert_eq!(asked.reply.action, Action::Prompt);
    drop(work);
    let mut work = desk.recorder().await;
    let prompt = work.status().await.expect("status").prompt.expect("the question is durable");
    assert_eq!(
        prompt.text,
        "Welcome back! You were working on: Add retry logic\nA) Continue that work\nB) Save it \
         and start fresh"
    );
    let reply = work.choose(Choice::Continue).await.expect("chosen");
    let state = reply.task.expect("open").state;
    assert_eq!(
        state,
        State::Interrupted { user_message: "use exponential backoff".into() },
        "the kept message was handled"
    );
    let notes: Vec<String> = work
        .steps(0, 100)
        .await
        .expect("steps")
        .iter()
        .flat_map(|s| s.step.notes().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    assert!(notes.contains(&"User chose to continue after idle period".to_owned()), "{notes:?}");
}

#[tokio::test]
async fn a_stale_task_is_sealed_before_the_message_is_handled() {
    // R91, R95, R110, R112
    let desk = Harness::at_noon();
    desk.recorder().await.start("Add retry logic").await.expect("started");
    desk.clock.advance(Span::days(8));
    let outcome = desk.recorder().await.message("Fix the login page").await.expect("heard");
    let sealed = outcome.reply.commit.expect("a commit").commit;
    assert_eq!(sealed.message, "Auto-saved: session idle for 8 days: Add retry logic");
    assert_eq!(
        sealed.commit_type,
        ctx_engine::core::commit::CommitType::StaleAutoCompact { idle_duration_secs: 8 * 86_400 }
    );
    assert_eq!(outcome.reply.task.expect("a new task").description, "Fix the login page");
}

#[tokio::test]
async fn a_cleanup_seals_only_tasks_that_were_idle_too_long() {
    // R106, R107, R109
    let desk = Harness::at_noon();
    let engine = desk.engine();
    engine
        .tasks()
        .recorder("old")
        .await
        .expect("a recorder")
        .start("Old work")
        .await
        .expect("started");
    desk.clock.advance(Span::days(6));
    engine
        .tasks()
        .recorder("young")
        .await
        .expect("a recorder")
        .start("Young work")
        .await
        .expect("started");
    desk.clock.advance(Span::days(2));
    let report = desk.engine().tasks().cleanup_stale(Span::days(7)).await.expect("cleaned");
    assert_eq!((report.sealed, report.tasks), (1, vec!["Old work".to_owned()]));
    assert_eq!(
        commits(&engine).await,
        [("stale_auto_compact".into(), "Auto-saved stale session (idle 8 days): Old work".into())]
    );
    assert_eq!(
        desk.engine().tasks().cleanup_stale(Span::days(7)).await.expect("cleaned").sealed,
        0
    );
}

#[tokio::test]
async fn a_session_can_have_several_tasks_in_turn_and_old_work_is_found() {
    // R9, R10, R12, R83, R113, R114
    let desk = Harness::at_noon();
    let settings = Settings { on_new_task: OnNewTask::Auto, ..Settings::default() };
    let engine = desk.engine().with_settings(settings);
    let mut work = engine.tasks().recorder("main").await.expect("a recorder");
    work.start("Add retry logic").await.expect("started");
    work.observe_note("exponential backoff with jitter");
    work.message("New task: paint the bikeshed").await.expect("heard");
    work.seal(Some("Painted")).await.expect("sealed");
    let expected = [
        ("normal".into(), "Painted".into()),
        ("interrupted_by_new_task".into(), "Interrupted by new task".into()),
    ];
    assert_eq!(commits(&engine).await, expected);
    let normal = CommitQuery { types: vec!["normal".into()], limit: 10, ..CommitQuery::default() };
    assert_eq!(engine.records().commits(&normal).await.expect("commits").len(), 1);
    let request = SearchRequest::new("jitter backoff", 10);
    assert_eq!(engine.records().search(&request).await.expect("hits").hits.len(), 1);
}

struct Always(Option<Intent>);

#[async_trait]
impl Classifier for Always {
    async fn classify(&self, _: &str, _: ClassifierInput<'_>) -> Option<Intent> {
        self.0
    }
}

#[tokio::test]
async fn the_host_classifies_messages_and_the_rules_are_the_fallback() {
    // R61
    let desk = Harness::at_noon();
    let judged = |judge| desk.engine().with_classifier(Arc::new(Always(judge)));
    desk.recorder().await.start("Add retry logic").await.expect("started");
    let outcome = judged(Some(Intent::Abandon))
        .tasks()
        .existing_recorder("main")
        .message("looks good")
        .await
        .expect("heard");
    assert_eq!((outcome.intent, outcome.reply.action), (Intent::Abandon, Action::Abandon));
    desk.recorder().await.start("Add logging").await.expect("started");
    let outcome = judged(None)
        .tasks()
        .existing_recorder("main")
        .message("also add a test")
        .await
        .expect("heard");
    assert_eq!(outcome.intent, Intent::Modification);
}

#[tokio::test]
async fn work_continues_in_another_store_under_another_agent() {
    // R115, R116, R117
    let (here, there) = (Harness::at_noon(), Harness::at_noon());
    let mut work = here.recorder().await;
    assert!(matches!(work.export().await.expect_err("no task").refusal(), Some(Refusal::NoTask)));
    work.start("Add retry logic").await.expect("started");
    work.observe_file_write("big.rs", vec![b'x'; 10_000]);
    work.ask("How many?").await.expect("asked");
    let (manifest, bundle) = work.export().await.expect("exported");
    assert_eq!(
        (manifest.task_description.as_str(), manifest.state.name()),
        ("Add retry logic", StateName::AwaitingUser)
    );
    assert_eq!(manifest.last_activity, NOON);

    let mut elsewhere = there.recorder().await;
    elsewhere.import(&bundle).await.expect("imported");
    assert_eq!(elsewhere.task().await.expect("task").expect("open").head, manifest.staging_head);
    elsewhere.answer("5").await.expect("answered");
    elsewhere.import(&bundle).await.expect("an older bundle changes nothing");
    assert_eq!(elsewhere.task().await.expect("task").expect("open").state, State::Running);

    let (_, newer) = elsewhere.export().await.expect("exported");
    work.import(&newer).await.expect("the work comes back");
    assert_eq!(work.task().await.expect("task").expect("open").state, State::Running);
    work.answer("again").await.expect_err("it was answered elsewhere");
    work.observe_note("on its own way");
    work.flush().await.expect("flushed");
    elsewhere.observe_note("on another way");
    let (_, other) = elsewhere.export().await.expect("exported");
    assert!(matches!(
        work.import(&other).await.expect_err("two ways").refusal(),
        Some(Refusal::Diverged { .. })
    ));
    for desk in [&here, &there] {
        assert!(
            desk.engine()
                .maintenance()
                .verify(false, &|_, _| ())
                .await
                .expect("verified")
                .findings
                .is_empty()
        );
    }
}

#[tokio::test]
async fn messages_from_many_writers_at_once_all_arrive() {
    let desk = Harness::at_noon();
    desk.recorder().await.start("Add retry logic").await.expect("started");
    let engine = Engine::open(
        desk.store.location(),
        Options { indexing: Indexing::Background, ..Options::default() },
    )
    .expect("an engine");
    let engine = engine.with_clock(desk.clock.clone());
    let tasks: Vec<_> = (0..40)
        .map(|n| {
            let engine = engine.clone();
            tokio::spawn(async move {
                engine
                    .tasks()
                    .existing_recorder("main")
                    .message(&format!("also add rule {n}"))
                    .await
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("joined").expect("heard");
    }
    let State::Interrupted { user_message } =
        desk.recorder().await.task().await.expect("task").expect("open").state
    else {
        panic!("messages wait for the agent")
    };
    let mut lines: Vec<&str> = user_message.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), 40);
}
