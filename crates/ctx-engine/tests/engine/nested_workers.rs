//! Workers that start workers: when they are finished, what their managers are told, and how many
//! calls of a model that takes.

use ctx_core::message::Role;
use ctx_core::session::Activity;
use ctx_core::task::StateName;
use ctx_engine::provider::Request;
use ctx_engine::{CommitQuery, Info};
use ctx_providers::Scripted;
use ctx_providers::scripted::{Gate, Script};
use serde_json::json;

use crate::harness::{Harness, until};
use crate::workers::{answered, obedient, quiet, tools, words};

/// A provider that obeys; the task `slow` waits for the gate.
fn gated(gate: &Gate) -> Harness {
    let hold = gate.clone();
    let slow = move |request: &Request| match words(request).as_str() {
        "slow" => Script::new().gate(&hold).say("slow is done"),
        "slow fail" => Script::new().gate(&hold).end(obedient_failure()),
        _ => obedient(request),
    };
    Harness::new(Scripted::new().can(tools()).otherwise(slow))
}

fn obedient_failure() -> ctx_engine::provider::End {
    use ctx_engine::provider::{End, Failure, FailureClass};
    End::Failed(Failure::new("broken", FailureClass::Permanent, "it broke"))
}

/// The only worker of a session.
async fn worker(bench: &Harness, manager: &str) -> Info {
    until("a worker", async || {
        !bench.engine.sessions().workers(manager).await.expect("there").is_empty()
    })
    .await;
    let label = bench.engine.sessions().workers(manager).await.expect("there").remove(0).label;
    bench.engine.sessions().get(&label).await.expect("there")
}

/// The texts that agents sent to a session.
async fn received(bench: &Harness, session: &str) -> Vec<String> {
    let lines = bench.transcript(session).await;
    lines.into_iter().filter(|line| line.starts_with("user: Worker ")).collect()
}

/// Starts a worker that delegates to a slow one, and waits until the first has nothing to do.
async fn delegated(bench: &Harness, gate: &Gate, task: &str) -> (String, String) {
    bench.chat("boss").await;
    bench.say("boss", &format!("dispatch: dispatch: {task}")).await;
    gate.reached().await;
    let middle = worker(bench, "boss").await.session.label;
    let below = worker(bench, &middle).await.session.label;
    until("the worker has delegated", async || {
        bench.engine.sessions().get(&middle).await.expect("there").session.state == Activity::Idle
    })
    .await;
    (middle, below)
}

async fn state(bench: &Harness, session: &str) -> Option<StateName> {
    let info = bench.engine.sessions().get(session).await.expect("there");
    info.task.map(|task| task.state.name())
}

#[tokio::test]
async fn a_worker_is_finished_when_the_worker_that_it_started_is() {
    // R186, R190
    let gate = Gate::new();
    let bench = gated(&gate);
    let (middle, below) = delegated(&bench, &gate, "slow").await;
    // What reports would do now, they do on request.
    bench.engine.background().recover().await.expect("looked after");
    assert_eq!(state(&bench, &middle).await, Some(StateName::Running));
    assert_eq!(received(&bench, "boss").await, [""; 0], "nothing is completed yet");
    gate.open();
    quiet(&bench, "boss").await;
    for label in [&middle, &below] {
        assert_eq!(state(&bench, label).await, Some(StateName::Complete), "{label}");
        let tasks = bench
            .engine
            .tasks()
            .list(label, ctx_engine::Order::Desc, None, 10)
            .await
            .expect("there");
        assert_eq!(tasks.len(), 1, "a report is no task");
    }
    let to_middle = received(&bench, &middle).await;
    assert_eq!(to_middle.len(), 1);
    assert!(to_middle[0].contains("has completed its task") && to_middle[0].contains(&below));
    let to_boss = received(&bench, "boss").await;
    assert_eq!(to_boss.len(), 1, "{to_boss:?}");
    assert!(to_boss[0].contains("has completed its task") && to_boss[0].contains(&middle));
    let query = CommitQuery { limit: 10, ..CommitQuery::default() };
    let commits = bench.engine.records().commits(&query).await.expect("there");
    assert_eq!(commits.len(), 2, "one commit a worker");
    bench.verify().await;
}

#[tokio::test]
async fn a_report_opens_no_task_in_a_manager_that_tracks_tasks() {
    let gate = Gate::new();
    let bench = gated(&gate);
    bench.tracked("boss").await;
    bench.say("boss", "dispatch: slow").await;
    gate.reached().await;
    let before = bench.engine.sessions().get("boss").await.expect("there").task.expect("a task");
    gate.open();
    quiet(&bench, "boss").await;
    assert_eq!(received(&bench, "boss").await.len(), 1);
    let after = bench.engine.sessions().get("boss").await.expect("there").task.expect("a task");
    assert_eq!(
        (after.id, after.description, after.state),
        (before.id, before.description, before.state)
    );
    assert_eq!(
        bench
            .engine
            .tasks()
            .list("boss", ctx_engine::Order::Desc, None, 10)
            .await
            .expect("there")
            .len(),
        1
    );
}

#[tokio::test]
async fn a_worker_may_finish_after_its_worker_has_failed() {
    let gate = Gate::new();
    let bench = gated(&gate);
    let (middle, below) = delegated(&bench, &gate, "slow fail").await;
    gate.open();
    quiet(&bench, "boss").await;
    let told = received(&bench, &middle).await;
    assert!(told.len() == 1 && told[0].contains("has failed"), "{told:?}");
    assert_eq!(state(&bench, &below).await, Some(StateName::Running));
    assert_eq!(state(&bench, &middle).await, Some(StateName::Complete));
}

#[tokio::test]
async fn a_worker_whose_worker_was_cancelled_or_deleted_is_told_and_finishes() {
    for delete in [false, true] {
        let gate = Gate::new();
        let bench = gated(&gate);
        let (middle, below) = delegated(&bench, &gate, "slow").await;
        let verb = if delete {
            bench.engine.sessions().delete(&below).await.expect("deleted");
            "was deleted"
        } else {
            bench.engine.runs().cancel(&below).await.expect("cancelled");
            "was cancelled"
        };
        quiet(&bench, "boss").await;
        let told = received(&bench, &middle).await;
        assert!(told.len() == 1 && told[0].contains(verb), "{told:?}");
        assert_eq!(state(&bench, &middle).await, Some(StateName::Complete));
        let told = received(&bench, "boss").await;
        assert!(told.len() == 1 && told[0].contains("has completed its task"), "{told:?}");
    }
}

#[tokio::test]
async fn a_question_of_a_nested_worker_is_reported_at_once_and_keeps_the_task_open() {
    let bench = Harness::new(Scripted::new().can(tools()).otherwise(obedient));
    bench.chat("boss").await;
    bench.say("boss", "dispatch: dispatch: ask").await;
    quiet(&bench, "boss").await;
    let middle = worker(&bench, "boss").await.session.label;
    let below = worker(&bench, &middle).await.session.label;
    assert_eq!(state(&bench, &below).await, Some(StateName::AwaitingUser));
    assert!(received(&bench, &middle).await[0].contains("has a question"));
    // The model of the worker ends its turn with the words of the report, which ask.
    assert_ne!(state(&bench, &middle).await, Some(StateName::Complete));
    bench.say("boss", &format!("tell {middle}: tell {below}: oak")).await;
    until("both are finished", async || {
        state(&bench, &below).await == Some(StateName::Complete)
            && state(&bench, &middle).await == Some(StateName::Complete)
    })
    .await;
    quiet(&bench, "boss").await;
    let told = received(&bench, "boss").await;
    assert!(told.last().is_some_and(|text| text.contains("has completed its task")), "{told:?}");
}

#[tokio::test]
async fn cancelling_a_manager_with_its_workers_starts_no_run_of_those_that_wait() {
    let gate = Gate::new();
    let bench = gated(&gate);
    let (middle, below) = delegated(&bench, &gate, "slow").await;
    bench.engine.runs().cancel_with_workers("boss").await.expect("cancelled");
    bench.engine.background().recover().await.expect("looked after");
    bench.settled("boss").await;
    for (label, turns) in [("boss", 1), (middle.as_str(), 1), (below.as_str(), 1)] {
        assert_eq!(bench.endings(label).await.len(), turns, "{label}");
    }
}

#[tokio::test]
async fn a_report_that_was_not_sent_before_a_crash_is_sent_by_the_next_process() {
    // The task of the worker is sealed and its report is not stored: the flag is.
    let gate = Gate::new();
    let hold = gate.clone();
    let busy = move |request: &Request| match (words(request).as_str(), answered(request)) {
        ("go", None) => Script::new().call("d1", "dispatch_to_agent", json!({"task": "quick"})),
        ("go", Some(_)) => Script::new().gate(&hold).say("waited"),
        _ => obedient(request),
    };
    let bench = Harness::new(Scripted::new().can(tools()).otherwise(busy));
    bench.chat("boss").await;
    bench.send("boss", "go").await;
    gate.reached().await;
    let label = worker(&bench, "boss").await.session.label;
    until("the worker is done", async || state(&bench, &label).await == Some(StateName::Complete))
        .await;
    bench.engine.background().shutdown().await;
    let bench = Harness { engine: bench.another(), ..bench };
    assert_eq!(received(&bench, "boss").await, [""; 0], "the manager was busy");
    bench.engine.background().start().await.expect("started");
    quiet(&bench, "boss").await;
    let told = received(&bench, "boss").await;
    assert!(told.len() == 1 && told[0].contains("has completed its task"), "{told:?}");
    bench.verify().await;
}

#[tokio::test]
async fn reports_to_a_busy_manager_become_one_turn_after_its_run() {
    let gate = Gate::new();
    let hold = gate.clone();
    let busy = move |request: &Request| match (words(request).as_str(), answered(request)) {
        ("go", None) => ["d1", "d2", "d3"].into_iter().fold(Script::new(), |script, id| {
            script.call(id, "dispatch_to_agent", json!({"task": format!("part {id}")}))
        }),
        ("go", Some(_)) => Script::new().gate(&hold).say("waited"),
        _ => obedient(request),
    };
    let bench = Harness::new(Scripted::new().can(tools()).otherwise(busy));
    bench.chat("boss").await;
    bench.send("boss", "go").await;
    gate.reached().await;
    until("all workers are done", async || {
        let workers = bench.engine.sessions().workers("boss").await.expect("there");
        workers.len() == 3 && workers.iter().all(|worker| worker.turn_count == 2)
    })
    .await;
    gate.open();
    quiet(&bench, "boss").await;
    let turns = bench.turns("boss").await;
    assert_eq!(turns.len(), 2, "{turns:?}");
    assert_eq!(turns[1].len(), 1, "one message");
    assert_eq!(turns[1][0].matches("has completed its task").count(), 3);
    assert_eq!(bench.provider.requests().len(), 2 + 3 + 1);
}

/// What a manager of the tree is told to do: start this many workers with this task.
fn start(count: usize, task: &str) -> Script {
    (0..count).fold(Script::new(), |script, n| {
        let params = json!({"task": format!("{task} {n}")});
        script.call(&format!("d{n}"), "dispatch_to_agent", params)
    })
}

#[tokio::test]
async fn a_tree_of_ten_agents_makes_at_most_twenty_calls() {
    // A manager with 3 workers that have 2 workers each. Each of the 6 leaves makes 1 call. Each of
    // the 3 workers makes 3: it delegates, ends, and reads both reports at once. The manager makes
    // 2 and at most 1 for each report that does not come with another.
    const CALLS_MIN: usize = 6 + 3 * 3 + 2 + 1;
    const CALLS_MAX: usize = 6 + 3 * 3 + 2 + 3;
    let tree = |request: &Request| {
        if answered(request).is_some() {
            return Script::new().say("I wait for the reports.");
        }
        let first = request.messages.iter().find(|message| message.role == Role::User);
        let task = first.map(|message| ctx_core::inbox::text_of(&message.content));
        match task.as_deref().unwrap_or_default() {
            _ if words(request).starts_with("Worker ") => Script::new().say("All parts are done."),
            "build" => start(3, "branch"),
            task if task.starts_with("branch") => start(2, "leaf"),
            task => Script::new().say(&format!("did {task}")),
        }
    };
    let bench = Harness::new(Scripted::new().can(tools()).otherwise(tree));
    bench.chat("boss").await;
    bench.say("boss", "build").await;
    quiet(&bench, "boss").await;
    let calls = bench.provider.requests().len();
    assert!((CALLS_MIN..=CALLS_MAX).contains(&calls), "{calls} calls");
    for branch in bench.engine.sessions().workers("boss").await.expect("there") {
        assert_eq!(state(&bench, &branch.label).await, Some(StateName::Complete));
        assert_eq!(branch.turn_count, 3, "it ran once more, with all reports; then a notice");
        let told = received(&bench, &branch.label).await;
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].matches("has completed its task").count(), 2);
    }
    let told = received(&bench, "boss").await.join("\n");
    assert_eq!(told.matches("has completed its task").count(), 3, "each once");
    bench.verify().await;
}
