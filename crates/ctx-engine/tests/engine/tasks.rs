//! Tasks in sessions that ctx runs: how messages and answers change them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ctx_core::commit::CommitType;
use ctx_core::decide::{OnUnclear, Settings};
use ctx_core::inbox::{Mode, Overrides};
use ctx_core::intent::{ClassifierInput, Intent};
use ctx_core::message::{Role, Source};
use ctx_core::prompt::Choice;
use ctx_core::session::Activity;
use ctx_core::step;
use ctx_core::task::{State, StateName};
use ctx_core::time::{Span, Timestamp};
use ctx_core::turn;
use ctx_engine::provider::{End, Failure, FailureClass, Stop};
use ctx_engine::{
    Classifier, CommitQuery, FeedItem, Info, ManualClock, NewMessage, ProviderClassifier,
};
use ctx_providers::scripted::{Action, Gate, Script, Scripted};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::harness::{Harness, seen, tool, until};

const TASK: &str = "Add retry logic to the HTTP client";
const OTHER: &str = "new task: write a parser for dates";

fn wrote() -> Action {
    Action::Observe(step::Entry::Command {
        argv: vec!["cargo".to_owned(), "test".to_owned()],
        exit: Some(0),
        output: None,
    })
}

fn worked(words: &str) -> Script {
    Script::new().and(wrote()).say(words)
}

fn state(info: &Info) -> Option<StateName> {
    info.task.as_ref().map(|task| task.state.name())
}

async fn commits(bench: &Harness) -> Vec<CommitType> {
    let query = CommitQuery { limit: 10, ..CommitQuery::default() };
    bench
        .engine
        .records()
        .commits(&query)
        .await
        .expect("commits")
        .into_iter()
        .map(|(_, commit)| commit.commit_type)
        .collect()
}

/// A session with a task whose agent did some work and answered with this text.
async fn after(words: &str) -> Harness {
    let bench = Harness::able();
    bench.provider.push(worked(words));
    bench.tracked("one").await;
    bench.say("one", TASK).await;
    bench
}

#[tokio::test]
async fn a_message_starts_a_task_and_the_last_paragraph_of_the_answer_sets_its_state() {
    for (words, wanted) in [
        ("Done, three tries.", StateName::PendingComplete),
        ("I looked.\n\nFixed or exponential?", StateName::AwaitingUser),
        ("Fixed or exponential?\n\nI took fixed. Done.", StateName::PendingComplete),
        ("Fixed or exponential?\n\nI took fixed.", StateName::Running),
        ("Say the word and I will go ahead.", StateName::AwaitingUser),
    ] {
        let bench = after(words).await;
        let info = bench.engine.sessions().get("one").await.expect("there");
        assert_eq!((state(&info), info.session.state), (Some(wanted), Activity::Idle), "{words}");
        let task = info.task.expect("a task");
        // What the agent did, and what it said before it asked.
        let work = if words.starts_with("I looked") { 2 } else { 1 };
        assert_eq!((task.description.as_str(), task.progress.work()), (TASK, work));
        if let State::AwaitingUser { question, .. } = task.state {
            assert!(words.ends_with(&question), "{question}");
        }
    }
}

#[tokio::test]
async fn an_answer_and_a_change_continue_the_task() {
    let bench = after("Fixed or exponential?").await;
    bench.provider.push(Script::new().say("Done, exponential."));
    bench.provider.push(Script::new().say("I have added logging."));
    let sent = bench.send("one", "exponential").await;
    assert_eq!(sent.intent, Some(Intent::Response));
    let info = bench.settled("one").await;
    assert_eq!(state(&info), Some(StateName::PendingComplete));
    let sent = bench.send("one", "also add logging to the client").await;
    assert_eq!(sent.intent, Some(Intent::Modification));
    let info = bench.settled("one").await;
    assert_eq!(state(&info), Some(StateName::PendingComplete));
    assert_eq!(info.task.expect("a task").description, TASK);
    assert_eq!(bench.provider.requests().len(), 3);
    assert!(commits(&bench).await.is_empty());
}

#[tokio::test]
async fn a_confirmation_is_delivered_and_seals_when_its_run_ends_without_work() {
    // R27, R43, R64, R76
    let bench = after("Done.").await;
    bench.provider.push(Script::new().say("You are welcome."));
    let sent = bench.send("one", "looks good").await;
    assert_eq!((sent.intent, sent.state), (Some(Intent::Confirmation), Activity::Running));
    let info = bench.settled("one").await;
    assert_eq!((state(&info), info.session.turn_count), (None, 3));
    assert_eq!(commits(&bench).await, [CommitType::Normal]);
    let told = bench.told("one").await;
    assert_eq!(told[told.len() - 3].message.id, sent.message_id);
    assert_eq!(told[told.len() - 1].message.role, Role::System);
    let notice = bench.transcript("one").await.pop().expect("a notice");
    assert!(
        notice.contains("sealed as normal") && notice.contains("ctx session reopen "),
        "{notice}"
    );
    let requests = bench.provider.requests();
    assert_eq!(requests.len(), 2, "the agent received the confirmation");
    bench.say("one", "what did you change?").await;
    let texts = seen(&bench.provider.requests().last().expect("a request").messages);
    assert!(!texts.iter().any(|text| text.contains("sealed as")), "{texts:?}");
    bench.verify().await;
}

#[tokio::test]
async fn stating_again_that_the_task_is_finished_is_no_work() {
    let bench = after("Done.").await;
    let summary = json!({"summary": "Three tries."});
    bench.provider.push(Script::new().call("c1", "finish_task", summary));
    bench.provider.push(Script::new().say("You are welcome."));
    bench.say("one", "looks good").await;
    assert_eq!(state(&bench.settled("one").await), None);
    assert_eq!(commits(&bench).await, [CommitType::Normal]);
}

#[tokio::test]
async fn a_confirmed_task_is_running_again_if_the_agent_worked_on() {
    let bench = after("Done.").await;
    bench.provider.push(worked("I also ran the tests once more."));
    bench.say("one", "looks good").await;
    let info = bench.settled("one").await;
    assert_eq!(state(&info), Some(StateName::Running));
    assert_eq!(info.task.map(|task| task.progress.work()), Some(2), "its work is recorded");
    assert!(commits(&bench).await.is_empty());
}

#[tokio::test]
async fn a_confirmation_that_fails_leaves_the_task_and_a_retry_confirms_it() {
    let bench = after("Done.").await;
    bench.provider.push(Script::new().end(End::Failed(Failure::new(
        "boom",
        FailureClass::Permanent,
        "no",
    ))));
    bench.say("one", "looks good").await;
    assert_eq!(state(&bench.settled("one").await), Some(StateName::PendingComplete));
    bench.provider.push(Script::new().say("You are welcome."));
    bench.engine.runs().retry("one", Overrides::default()).await.expect("retried");
    assert_eq!(state(&bench.settled("one").await), None);
    assert_eq!(commits(&bench).await, [CommitType::Normal]);
}

#[tokio::test]
async fn a_confirmation_with_a_message_behind_it_does_not_seal() {
    let gate = Gate::new();
    let bench = after("Done.").await;
    bench.provider.push(Script::new().say("Thanks.").gate(&gate));
    bench.provider.push(Script::new().say("I have added the limit."));
    bench.send("one", "looks good").await;
    gate.reached().await;
    let more = NewMessage { mode: Some(Mode::Queue), ..NewMessage::text("also add a limit") };
    bench.engine.messages().submit("one", more, None).await.expect("taken");
    gate.open();
    let info = bench.settled("one").await;
    assert_eq!(info.task.as_ref().map(|task| task.description.as_str()), Some(TASK));
    assert_eq!(state(&info), Some(StateName::PendingComplete));
    assert!(commits(&bench).await.is_empty());
}

#[tokio::test]
async fn an_abandoned_task_is_sealed_at_once_and_the_message_is_delivered() {
    // R25, R78, R84
    let bench = after("Fixed or exponential?").await;
    bench.provider.push(Script::new().say("All right, I stop."));
    let sent = bench.send("one", "never mind").await;
    assert_eq!(sent.intent, Some(Intent::Abandon));
    assert!(sent.run_id.is_some());
    assert!(matches!(commits(&bench).await[..], [CommitType::Abandoned]), "before its run ends");
    assert_eq!(state(&bench.settled("one").await), None);
    let lines = bench.transcript("one").await;
    assert!(lines.iter().any(|line| line.contains("sealed as abandoned")), "{lines:?}");
    assert_eq!(bench.provider.requests().len(), 2);
}

#[tokio::test]
async fn an_abort_during_a_run_ends_the_run_and_is_delivered() {
    let gate = Gate::new();
    let bench = Harness::able();
    bench.provider.push(worked("half").gate(&gate));
    bench.provider.push(Script::new().say("Stopped."));
    bench.tracked("one").await;
    bench.send("one", TASK).await;
    gate.reached().await;
    bench.send("one", "stop").await;
    let info = bench.settled("one").await;
    assert_eq!((info.session.state, state(&info)), (Activity::Idle, None));
    let (cut, done) = (turn::Status::Interrupted, turn::Status::Completed);
    assert_eq!(bench.endings("one").await, [cut, done, done], "the second is the notice");
    assert!(matches!(commits(&bench).await[..], [CommitType::Abandoned]));
    assert_eq!(bench.provider.requests().len(), 2);
}

#[tokio::test]
async fn abandoning_a_task_releases_what_its_session_waits_for() {
    for by_message in [false, true] {
        let bench = Harness::able();
        bench.provider.push(Script::new().and(wrote()).call("c1", "client_tool", json!({})));
        bench.tracked("one").await;
        let overrides = Overrides { tools: vec![tool("client_tool")], ..Overrides::default() };
        let message = NewMessage { overrides, ..NewMessage::text(TASK) };
        bench.engine.messages().submit("one", message, None).await.expect("taken");
        assert_eq!(bench.settled("one").await.session.state, Activity::Suspended);
        if by_message {
            bench.send("one", "/abandon").await;
        } else {
            bench.engine.tasks().abandon("one", None).await.expect("sealed");
        }
        let info = bench.settled("one").await;
        assert_eq!((info.session.state, state(&info)), (Activity::Idle, None));
        assert!(info.suspensions.is_empty());
        let (cancelled, done) = (turn::Status::Cancelled, turn::Status::Completed);
        assert_eq!(bench.endings("one").await, [cancelled, done], "the second is the notice");
        bench.verify().await;
    }
}

#[tokio::test]
async fn unclear_messages_are_delivered_and_change_nothing() {
    for text in ["hmm", "}", "🤔"] {
        let bench = after("Done.").await;
        bench.provider.push(Script::new().say("What do you mean?"));
        let sent = bench.send("one", text).await;
        assert_eq!((sent.intent, sent.prompt), (Some(Intent::Unclear), None), "{text}");
        assert_eq!(state(&bench.settled("one").await), Some(StateName::PendingComplete));
        assert_eq!(bench.provider.requests().len(), 2, "{text}");
    }
}

#[tokio::test]
async fn an_unclear_message_waits_for_the_choice_where_the_setting_says_so() {
    // R82
    for (choice, task, sealed) in [(Choice::Continue, TASK, 0), (Choice::StartFresh, "}", 1)] {
        let settings = Settings { on_unclear: OnUnclear::Ask, ..Settings::default() };
        let bench = after("Done.").await.with_settings(settings);
        let sent = bench.send("one", "}").await;
        let prompt = sent.prompt.expect("asked");
        assert_eq!((prompt.kind(), sent.run_id), ("unclear", None));
        assert!(prompt.text.starts_with("Are you continuing the current task"), "{}", prompt.text);
        bench.engine.runs().answer_prompt("one", choice).await.expect("answered");
        let info = bench.settled("one").await;
        assert_eq!(info.task.map(|task| task.description).as_deref(), Some(task));
        assert_eq!(commits(&bench).await.len(), sealed);
        assert_eq!(bench.provider.requests().len(), 2, "the message was delivered");
    }
}

#[tokio::test]
async fn commands_to_ctx_are_answered_without_a_run() {
    for (text, commit) in
        [("/done shipped", CommitType::Normal), ("/abandon too slow", CommitType::Abandoned)]
    {
        let bench = after("Fixed or exponential?").await;
        let sent = bench.send("one", text).await;
        assert_eq!((sent.run_id, sent.intent, sent.state), (None, None, Activity::Idle), "{text}");
        assert_eq!(commits(&bench).await, [commit]);
        assert_eq!(state(&bench.settled("one").await), None);
        let lines = bench.transcript("one").await;
        assert_eq!(lines[lines.len() - 2], format!("user: {text}"));
        let notice = &lines[lines.len() - 1];
        assert!(notice.contains(&format!(": {TASK}\nCommit ")), "{notice}");
        assert!(notice.ends_with("with `ctx session reopen one`."), "{notice}");
        bench.say("one", "hello").await;
        let requests = bench.provider.requests();
        assert_eq!(requests.len(), 2);
        let texts = seen(&requests[1].messages);
        assert!(!texts.iter().any(|seen| seen.contains(text)), "not for the agent: {texts:?}");
        bench.verify().await;
    }
    let bench = Harness::able();
    bench.tracked("one").await;
    for (text, answer) in [("/help", "/abandon [REASON]"), ("/done", "No task is open")] {
        bench.send("one", text).await;
        let line = bench.transcript("one").await.pop().expect("an answer");
        assert!(line.contains(answer), "{line}");
    }
    assert!(bench.provider.requests().is_empty());
    bench.say("one", "/review the parser").await;
    assert_eq!(bench.provider.requests().len(), 1, "another command is the agent's");
}

#[tokio::test]
async fn a_command_during_a_run_is_answered_after_the_turn() {
    let gate = Gate::new();
    let bench = Harness::able();
    bench.provider.push(worked("half").gate(&gate).say(" and the rest"));
    bench.tracked("one").await;
    bench.send("one", TASK).await;
    gate.reached().await;
    let sent = bench.send("one", "/done").await;
    assert_eq!((sent.run_id, sent.state), (None, Activity::Running));
    assert_eq!(commits(&bench).await, [CommitType::Normal], "sealed at once");
    gate.open();
    let info = bench.settled("one").await;
    assert_eq!((state(&info), info.session.turn_count), (None, 2));
    assert_eq!(bench.turns("one").await, [[TASK], ["/done"]]);
    bench.verify().await;
}

#[tokio::test]
async fn the_user_confirms_abandons_and_reopens_a_task_explicitly() {
    let bench = after("Fixed or exponential?").await;
    let sealed = bench.engine.tasks().confirm("one", None).await.expect("sealed");
    assert_eq!(sealed.commit.commit.commit_type, CommitType::Normal);
    assert_eq!(sealed.task.commit, Some(sealed.commit.id));
    assert_eq!(
        bench.engine.tasks().confirm("one", None).await.expect_err("none").code(),
        "no_task"
    );
    let (again, commit) = bench.engine.tasks().reopen("one").await.expect("reopened");
    assert_eq!((again.description.as_str(), commit), (TASK, sealed.commit.id));
    let reason = Some("too slow".to_owned());
    let dropped = bench.engine.tasks().abandon("one", reason).await.expect("sealed");
    assert_eq!(dropped.commit.commit.message, "Abandoned by user: too slow");
    let notices = bench.transcript("one").await.split_off(2);
    let parts = ["sealed as normal", "was reopened", "sealed as abandoned"];
    assert!(notices.iter().zip(parts).all(|(line, part)| line.contains(part)), "{notices:?}");
    assert_eq!(bench.provider.requests().len(), 1, "without a run");
    bench.verify().await;
}

#[tokio::test]
async fn abandoning_a_task_explicitly_cancels_its_run() {
    let gate = Gate::new();
    let bench = Harness::able();
    bench.provider.push(worked("half").gate(&gate));
    bench.tracked("one").await;
    bench.send("one", TASK).await;
    gate.reached().await;
    bench.engine.tasks().abandon("one", None).await.expect("sealed");
    let info = bench.settled("one").await;
    assert_eq!((info.session.state, state(&info)), (Activity::Idle, None));
    let (cancelled, done) = (turn::Status::Cancelled, turn::Status::Completed);
    assert_eq!(bench.endings("one").await, [cancelled, done], "the second is the notice");
}

#[tokio::test]
async fn a_new_task_after_a_finished_one_seals_it_without_asking() {
    let bench = after("Done.").await;
    bench.say("one", OTHER).await;
    let info = bench.engine.sessions().get("one").await.expect("there");
    assert!(info.prompt.is_none());
    assert!(info.task.expect("a task").description.contains("parser"));
    assert!(matches!(commits(&bench).await[..], [CommitType::InterruptedByNewTask { .. }]));
}

#[tokio::test]
async fn a_new_task_during_work_opens_a_prompt_and_messages_wait() {
    for by_message in [false, true] {
        let bench = after("Fixed or exponential?").await;
        let sent = bench.send("one", OTHER).await;
        assert_eq!(
            (sent.intent, sent.run_id, sent.state),
            (Some(Intent::NewTask), None, Activity::Idle)
        );
        assert!(sent.prompt.is_some());
        let more = bench.send("one", "and mind the time zones").await;
        assert_eq!((more.state, more.run_id), (Activity::Idle, None), "further messages wait");
        let timer = NewMessage { source: Source::Timer, ..NewMessage::text("tick") };
        assert_eq!(
            bench.engine.messages().submit("one", timer, None).await.expect("taken").run_id,
            None
        );
        assert_eq!(bench.provider.requests().len(), 1);
        if by_message {
            assert!(bench.send("one", "A").await.run_id.is_some());
        } else {
            assert!(
                bench
                    .engine
                    .runs()
                    .answer_prompt("one", Choice::StartFresh)
                    .await
                    .expect("answered")
                    .is_some()
            );
        }
        let info = bench.settled("one").await;
        assert!(info.prompt.is_none() && info.inbox.is_empty());
        assert!(info.task.expect("a task").description.contains("parser"));
        assert!(matches!(commits(&bench).await[..], [CommitType::InterruptedByNewTask { .. }]));
        let mut turns = bench.turns("one").await;
        // The choice is for ctx, so it has a turn of its own.
        turns.retain(|turn| *turn != ["A"]);
        assert_eq!(turns, [[TASK], [OTHER], ["and mind the time zones"], ["tick"]]);
        let requests = bench.provider.requests();
        assert!(
            requests.iter().all(|request| !seen(&request.messages).contains(&"user: A".to_owned()))
        );
        assert_eq!(
            bench
                .engine
                .runs()
                .answer_prompt("one", Choice::Continue)
                .await
                .expect_err("none")
                .code(),
            "no_prompt"
        );
    }
}

#[tokio::test]
async fn choosing_the_open_task_delivers_the_message_to_it() {
    let bench = after("Fixed or exponential?").await;
    bench.send("one", OTHER).await;
    bench.send("one", "B").await;
    let info = bench.settled("one").await;
    assert!(info.prompt.is_none());
    assert_eq!(info.task.as_ref().map(|task| task.description.as_str()), Some(TASK));
    assert_eq!(state(&info), Some(StateName::AwaitingUser));
    assert_eq!(bench.turns("one").await, [[TASK], ["B"], [OTHER]]);
    assert_eq!(bench.provider.requests().len(), 2);
    assert!(commits(&bench).await.is_empty());
}

#[tokio::test]
async fn a_prompt_survives_the_process() {
    let bench = after("Fixed or exponential?").await;
    bench.send("one", OTHER).await;
    bench.engine.background().shutdown().await;
    let next = bench.another();
    next.background().start().await.expect("recovered");
    assert!(next.sessions().get("one").await.expect("there").prompt.is_some());
    assert_eq!(bench.provider.requests().len(), 1, "a kept message does not run without an answer");
    next.runs().answer_prompt("one", Choice::StartFresh).await.expect("answered");
    next.sessions().wait_until_settled("one", crate::harness::PATIENCE).await.expect("there");
    assert_eq!(bench.turns("one").await, [[TASK], [OTHER]]);
    next.background().shutdown().await;
}

#[tokio::test]
async fn questions_and_messages_of_other_sources_do_not_change_the_task() {
    let bench = after("Fixed or exponential?").await;
    let still = async |text: NewMessage| {
        let sent = bench.engine.messages().submit("one", text, None).await.expect("taken");
        let info = bench.settled("one").await;
        assert_eq!(state(&info), Some(StateName::AwaitingUser));
        sent.intent
    };
    assert_eq!(still(NewMessage::text("what do you mean?")).await, Some(Intent::Clarification));
    for source in [Source::Agent, Source::Timer, Source::Webhook] {
        assert_eq!(
            still(NewMessage { source, ..NewMessage::text("exponential") }).await,
            None,
            "only people are judged"
        );
    }
    assert_eq!(bench.provider.requests().len(), 5, "they run all the same");
}

#[tokio::test]
async fn runs_that_fail_leave_the_task_running() {
    let ends = [
        End::Failed(Failure::new("boom", FailureClass::Permanent, "no")),
        End::Done(Stop::Refused),
        End::Done(Stop::MaxTokens),
        End::Cancelled,
    ];
    for end in ends {
        let bench = Harness::able();
        bench.provider.push(worked("Done.").end(end.clone()));
        bench.tracked("one").await;
        bench.say("one", TASK).await;
        let info = bench.engine.sessions().get("one").await.expect("there");
        assert_eq!(state(&info), Some(StateName::Running), "{end:?}");
    }
}

#[tokio::test]
async fn the_agent_can_set_the_task_state_with_a_tool() {
    let bench = Harness::able();
    bench.provider.push(Script::new().call("c1", "ask_user", json!({"question": "Which port?"})));
    bench.provider.push(Script::new().say("I have asked."));
    bench.provider.push(Script::new().call(
        "c1",
        "finish_task",
        json!({"summary": "Port 80 it is"}),
    ));
    bench.provider.push(Script::new().say("All right?"));
    bench.tracked("one").await;
    let info = bench.say("one", TASK).await;
    let names: Vec<_> =
        bench.provider.requests()[0].tools.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(names[..2], ["ask_user", "finish_task"]);
    assert!(matches!(info.task.expect("a task").state, State::AwaitingUser { question, .. }
            if question == "Which port?"));
    assert!(seen(&bench.provider.requests()[1].messages)[2].contains("put to the user"));
    let info = bench.say("one", "80").await;
    assert!(matches!(info.task.expect("a task").state, State::PendingComplete { summary }
            if summary == "Port 80 it is"));
    bench.say("one", "perfect").await;
    assert_eq!(commits(&bench).await, [CommitType::Normal]);
    bench.say("one", "thanks").await;
}

#[tokio::test]
async fn chat_sessions_make_no_tasks_and_offer_no_task_tools() {
    let bench = Harness::able();
    bench.chat("one").await;
    let sent = bench.send("one", TASK).await;
    assert_eq!(sent.intent, None);
    assert!(bench.settled("one").await.task.is_none());
    let offered = bench.provider.requests()[0].tools.clone();
    assert!(
        offered.iter().all(|tool| !matches!(tool.name.as_str(), "ask_user" | "finish_task")),
        "{offered:?}"
    );
    assert!(
        bench
            .engine
            .tasks()
            .list("one", ctx_engine::Order::Desc, None, 10)
            .await
            .expect("tasks")
            .is_empty()
    );
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(Timestamp(1_763_243_045_000)))
}

#[tokio::test]
async fn a_message_after_a_day_opens_a_prompt_and_is_handled_after_the_choice() {
    let clock = clock();
    let bench = after("Fixed or exponential?").await.with_clock(&clock);
    let now = bench
        .engine
        .sessions()
        .get("one")
        .await
        .expect("there")
        .task
        .expect("a task")
        .last_activity_at;
    let late = Arc::new(ManualClock::at(now));
    let bench = bench.with_clock(&late);
    late.advance(Span::hours(25));
    let sent = bench.send("one", "exponential").await;
    assert_eq!(sent.prompt.expect("asked").kind(), "stale");
    assert_eq!(bench.provider.requests().len(), 1);
    bench.provider.push(Script::new().say("Done, exponential."));
    bench.send("one", "A").await;
    let info = bench.settled("one").await;
    assert_eq!(state(&info), Some(StateName::PendingComplete));
    assert_eq!(bench.turns("one").await, [[TASK], ["A"], ["exponential"]]);
}

#[tokio::test]
async fn a_task_idle_for_a_week_is_sealed_by_the_cleanup_and_can_be_reopened() {
    let clock = clock();
    let bench = Harness::able().with_clock(&clock);
    bench.provider.push(worked("Fixed or exponential?"));
    bench.tracked("one").await;
    bench.say("one", TASK).await;
    assert_eq!(
        bench.engine.tasks().reopen("one").await.expect_err("open").code(),
        "nothing_to_reopen"
    );
    clock.advance(Span::days(8));
    assert_eq!(bench.engine.tasks().cleanup_stale(Span::days(7)).await.expect("cleaned").sealed, 1);
    assert!(matches!(commits(&bench).await[..], [CommitType::StaleAutoCompact { .. }]));
    let (again, _) = bench.engine.tasks().reopen("one").await.expect("reopened");
    assert_eq!((again.description.as_str(), again.state.name()), (TASK, StateName::Running));
    bench.verify().await;
}

#[tokio::test]
async fn a_message_kept_by_a_prompt_does_not_run_when_its_stale_task_is_sealed() {
    let clock = clock();
    let bench = Harness::able().with_clock(&clock);
    bench.provider.push(worked("Fixed or exponential?"));
    bench.tracked("one").await;
    bench.say("one", TASK).await;
    bench.send("one", OTHER).await;
    clock.advance(Span::days(8));
    bench.engine.tasks().cleanup_stale(Span::days(7)).await.expect("cleaned");
    bench.engine.background().recover().await.expect("looked around");
    until("all sleep", async || bench.engine.background().awake_sessions() == 0).await;
    let info = bench.settled("one").await;
    assert!(info.prompt.is_none());
    // It may run or wait; if it runs, it is a normal task.
    if bench.provider.requests().len() > 1 {
        assert!(
            info.task.is_some_and(|task| task.description.contains("parser")),
            "it ran without a task"
        );
    }
}

/// A classifier that waits for a gate and returns a given intent.
struct Slow {
    open: Semaphore,
    says: Option<Intent>,
}

#[async_trait]
impl Classifier for Slow {
    async fn classify(&self, _: &str, _: ClassifierInput<'_>) -> Option<Intent> {
        self.open.acquire().await.expect("open").forget();
        self.says
    }
}

#[tokio::test]
async fn a_slow_classifier_is_awaited() {
    for says in [Some(Intent::Clarification), None] {
        let slow = Arc::new(Slow { open: Semaphore::new(0), says });
        let bench = Harness::able();
        let engine = bench.engine.clone().with_classifier(slow.clone());
        let bench = Harness { engine, ..bench };
        bench.tracked("one").await;
        let mut feed = bench.engine.events().follow("one", None).await.expect("a feed");
        let sent = bench.send("one", TASK).await;
        assert_eq!(
            (sent.intent, sent.run_id, sent.state),
            (None, None, Activity::Idle),
            "admitted, not judged"
        );
        assert!(bench.provider.requests().is_empty());
        slow.open.add_permits(1);
        let info = bench.settled("one").await;
        assert_eq!(
            info.task.is_some(),
            says.is_none(),
            "for the rules it is a task, for the classifier a question"
        );
        let mut names = Vec::new();
        while names.last().is_none_or(|name| name != "run.completed") {
            let item = tokio::time::timeout(crate::harness::PATIENCE, feed.next())
                .await
                .expect("more")
                .expect("works")
                .expect("there");
            if let FeedItem::Event(event) = item {
                names.push(event.event.name().to_owned());
            }
        }
        let place = |wanted: &str| {
            names
                .iter()
                .position(|name| name == wanted)
                .unwrap_or_else(|| panic!("no {wanted} in {names:?}"))
        };
        assert!(
            place("message.queued") < place("message.classified")
                && place("message.classified") < place("run.started")
        );
    }
}

#[tokio::test]
async fn a_message_that_overtakes_a_classification_is_classified_too() {
    let slow = Arc::new(Slow { open: Semaphore::new(0), says: Some(Intent::Clarification) });
    let bench = Harness::able();
    let engine = bench.engine.clone().with_classifier(slow.clone());
    let bench = Harness { engine, ..bench };
    bench.tracked("one").await;
    bench.send("one", "first").await;
    let second = bench.send("one", "why?").await;
    bench.engine.messages().reorder("one", second.message_id, 1).await.expect("moved");
    slow.open.add_permits(5);
    bench.settled("one").await;
    let mut feed = bench.engine.events().follow("one", Some(0)).await.expect("a feed");
    let (mut judged, mut runs) = (Vec::new(), 0);
    while runs < 2 {
        let item = tokio::time::timeout(crate::harness::PATIENCE, feed.next())
            .await
            .expect("more")
            .expect("works")
            .expect("there");
        let FeedItem::Event(event) = item else { continue };
        runs += usize::from(event.event.name() == "run.completed");
        if event.event.name() == "message.classified" {
            judged.push(event.event.json()["message_id"].as_str().unwrap_or_default().to_owned());
        }
    }
    assert!(judged.contains(&second.message_id.to_string()), "{judged:?}");
    assert_eq!(judged.len(), 2);
}

#[tokio::test]
async fn a_process_with_background_tasks_applies_the_time_limits() {
    // R209
    let clock = clock();
    let bench = Harness::able().with_clock(&clock);
    bench.provider.push(worked("Done."));
    bench.tracked("one").await;
    bench.say("one", TASK).await;
    bench.engine.background().start().await.expect("attends");
    clock.advance(Span::days(8));
    until("the task is sealed", async || commits(&bench).await.len() == 1).await;
    clock.advance(Span::days(31));
    let status = async || bench.engine.sessions().get("one").await.expect("there").session.status;
    until("the session is put away", async || {
        status().await == ctx_core::session::Status::Archived
    })
    .await;
    bench.engine.background().shutdown().await;
}

#[tokio::test]
async fn a_model_classifies_where_it_is_configured() {
    // R61, R62
    let model = Arc::new(Scripted::new());
    let classifier = ProviderClassifier::new(model.clone(), Duration::from_secs(30));
    let input = ClassifierInput::default();
    model.push(Script::new().say("E"));
    assert_eq!(classifier.classify("bin the lot", input).await, Some(Intent::Abandon));
    let asked = seen(&model.requests()[0].messages).join("\n");
    assert!(asked.contains("bin the lot"), "{asked}");
    let failure = Failure::new("boom", FailureClass::Permanent, "no");
    model.push(Script::new().say("D").end(End::Failed(failure)));
    assert_eq!(classifier.classify("bin the lot", input).await, None, "the built-in one decides");
    let gate = Gate::new();
    model.push(Script::new().gate(&gate).say("D"));
    let impatient = ProviderClassifier::new(model, Duration::from_millis(20));
    assert_eq!(impatient.classify("bin the lot", input).await, None, "the time is bounded");
}
