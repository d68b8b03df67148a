//! Workers: sessions that a session starts. Their links, their prompt, and their reports to the
//! manager.

use std::sync::Arc;

use ctx_core::decide::Settings;
use ctx_core::inbox::Mode;
use ctx_core::message::{Part, Role, Source};
use ctx_core::session::{Activity, Origin, Status};
use ctx_core::task::StateName;
use ctx_engine::provider::{End, Failure, FailureClass, ProviderFeatures, Request};
use ctx_engine::{Info, NewSession};
use ctx_providers::Scripted;
use ctx_providers::scripted::{Gate, Script};
use serde_json::{Value, json};

use crate::harness::{Harness, PATIENCE, TestStore, open, seen, until};

pub(crate) fn tools() -> ProviderFeatures {
    ProviderFeatures { tools: true, ..ProviderFeatures::default() }
}

pub(crate) fn words(request: &Request) -> String {
    let last = request.messages.iter().rev().find(|message| message.role == Role::User);
    last.map(|message| {
        message.content.iter().filter_map(Part::searchable_text).collect::<Vec<_>>().join("\n")
    })
    .unwrap_or_default()
}

/// Whether the last message is a tool result.
pub(crate) fn answered(request: &Request) -> Option<String> {
    let last = request.messages.last().filter(|message| message.role == Role::Tool)?;
    last.content.iter().find_map(|part| match part {
        Part::ToolResult { content, .. } => content.text().map(str::to_owned),
        _ => None,
    })
}

/// A provider that follows commands: `dispatch: TASK` starts a worker, `tell TO: TEXT` sends a
/// message to one, `status` lists all.
pub(crate) fn obedient(request: &Request) -> Script {
    if let Some(answer) = answered(request) {
        return Script::new().say(&format!("the tool said {answer}"));
    }
    let said = words(request);
    if let Some(task) = said.strip_prefix("dispatch: ") {
        return Script::new().call("d1", "dispatch_to_agent", json!({"task": task}));
    }
    if let Some((to, text)) = said.strip_prefix("tell ").and_then(|rest| rest.split_once(": ")) {
        return Script::new().call(
            "t1",
            "send_message_to_agent",
            json!({"to": to, "content": text}),
        );
    }
    match said.as_str() {
        "status" => Script::new().call("s1", "get_agent_status", json!({})),
        "finish" => Script::new().call("f1", "finish_task", json!({"summary": "finished as told"})),
        "fail" => Script::new().end(End::Failed(Failure::new(
            "broken",
            FailureClass::Permanent,
            "it broke",
        ))),
        "ask" => Script::new().say("I looked.\n\nOak or pine?"),
        other => Script::new().say(&format!("did {other}")),
    }
}

pub(crate) fn bench() -> Harness {
    Harness::new(Scripted::new().can(tools()).otherwise(obedient))
}

/// The only worker of a session, once both are idle and no report is pending.
pub(crate) async fn quiet(bench: &Harness, manager: &str) -> Info {
    until("quiet", async || {
        // In this order: a report that was delivered in between is still in the inbox or its run.
        let workers = bench.engine.sessions().workers(manager).await.expect("there");
        let manager = bench.engine.sessions().get(manager).await.expect("there");
        let idle = |state: Activity| state == Activity::Idle;
        idle(manager.session.state)
            && manager.inbox.is_empty()
            && !workers.is_empty()
            && workers.iter().all(|worker| idle(worker.state) && !worker.unreported)
    })
    .await;
    let worker = bench.engine.sessions().workers(manager).await.expect("there").remove(0);
    bench.engine.sessions().get(&worker.label).await.expect("there")
}

#[tokio::test]
async fn a_worker_has_all_its_links_a_task_and_a_prompt_of_its_own() {
    // R123, R160, R186, R187, R190, R191, R192, R193
    let bench = bench();
    let new = NewSession {
        label: Some("boss".to_owned()),
        persona: Some("atlas".to_owned()),
        ..NewSession::default()
    };
    bench.make(new).await;
    bench.say("boss", "dispatch: sand the hull").await;
    let worker = quiet(&bench, "boss").await;
    let row = &worker.session;
    assert!(
        row.label.starts_with("worker:") && row.label.len() == "worker:".len() + 26,
        "{}",
        row.label
    );
    assert_eq!((row.origin, row.status), (Origin::Subagent, Status::Active));
    let parent = row.parent.clone().expect("a parent");
    assert_eq!(
        (parent.session.as_str(), parent.tool_call.as_deref()),
        ("boss", Some("d1")),
        "the way back"
    );
    let task = worker.task.clone().expect("its task");
    assert_eq!(
        (task.description.as_str(), task.state.name()),
        ("sand the hull", StateName::Complete)
    );
    assert!(task.commit.is_some(), "what it did is sealed");
    // The links: the call names the worker, and the worker names the turn of the call.
    let turns = bench
        .engine
        .messages()
        .turns("boss", ctx_engine::Order::Desc, None, 10)
        .await
        .expect("there");
    let spawning =
        turns.iter().find(|turn| !turn.header.tool_calls.is_empty()).expect("the turn that called");
    let call = &spawning.header.tool_calls[0];
    assert_eq!(
        (call.name.as_str(), call.spawned_session_label.as_deref()),
        ("dispatch_to_agent", Some(row.label.as_str()))
    );
    assert_eq!(parent.turn, Some(spawning.id));
    // The worker's model got its task, and nothing of its manager's persona or history.
    let requests = bench.provider.requests();
    let seen_by_worker = requests.iter().find(|request| request.session == row.id).expect("asked");
    let system = seen_by_worker.system.clone().expect("a prompt");
    assert!(
        system.contains("You are a worker")
            && system.ends_with("sand the hull")
            && !system.contains("Atlas"),
        "{system}"
    );
    assert_eq!(seen(&seen_by_worker.messages), ["user: sand the hull"]);
    // The report is a turn of the manager.
    let told = bench.told("boss").await;
    let report = told.iter().find(|told| told.message.source == Some(Source::Agent)).expect("told");
    let text = report.message.content[0].searchable_text().unwrap_or_default();
    assert!(
        text.contains(&row.label)
            && text.contains("completed")
            && text.contains("did sand the hull"),
        "{text}"
    );
    assert_eq!(bench.endings("boss").await.len(), 2);
    assert_eq!(Mode::default_for(Source::Agent, true), Mode::Followup);
    bench.verify().await;
}

#[tokio::test]
async fn a_worker_takes_many_turns_and_exchanges_messages_with_its_manager() {
    // R188, R189
    let bench = bench();
    bench.chat("boss").await;
    bench.say("boss", "dispatch: ask").await;
    let worker = quiet(&bench, "boss").await;
    let task = worker.task.clone().expect("a task");
    assert_eq!(task.state.name(), StateName::AwaitingUser, "a question is no end");
    let label = worker.session.label.clone();
    let told = bench.transcript("boss").await;
    assert!(
        told.iter().any(|line| line.contains("has a question") && line.contains("Oak or pine?")),
        "{told:?}"
    );
    bench.say("boss", &format!("tell {label}: tell manager: oak it is")).await;
    until("the worker has spoken", async || {
        bench.transcript("boss").await.iter().any(|line| {
            line.contains(&format!("Message from {label}")) && line.contains("oak it is")
        })
    })
    .await;
    let worker = quiet(&bench, "boss").await;
    assert!(worker.session.turn_count >= 2);
    let after = worker.task.clone().expect("a task");
    assert_eq!(
        (after.id, after.state.name()),
        (task.id, StateName::Complete),
        "the answer moved it on"
    );
    let from_worker = bench
        .told("boss")
        .await
        .into_iter()
        .filter(|told| told.message.source == Some(Source::Agent))
        .count();
    assert!(from_worker >= 3, "a question, a message, an end: {from_worker}");
    // A further order is a new task, and its state can be queried.
    bench.say("boss", &format!("tell {label}: finish")).await;
    let worker = quiet(&bench, "boss").await;
    assert_eq!(
        bench
            .engine
            .tasks()
            .list(&label, ctx_engine::Order::Desc, None, 10)
            .await
            .expect("there")
            .len(),
        2
    );
    assert_eq!(
        worker.task.as_ref().map(|task| task.summary().to_owned()).as_deref(),
        Some("finished as told")
    );
    bench.say("boss", "status").await;
    let told = bench.transcript("boss").await;
    let status = told.iter().rev().find(|line| line.contains("the tool said")).expect("an answer");
    assert!(status.contains(&label) && status.contains("complete"), "{status}");
    bench.say("boss", "tell nobody: hello").await;
    assert!(
        bench
            .transcript("boss")
            .await
            .last()
            .is_some_and(|line| line.contains("no worker of yours"))
    );
    bench.verify().await;
}

#[tokio::test]
async fn a_failed_worker_is_reported_and_no_worker_is_reported_twice() {
    // R190
    let bench = bench();
    bench.chat("boss").await;
    bench.say("boss", "dispatch: fail").await;
    let worker = quiet(&bench, "boss").await;
    assert_eq!(
        worker.task.as_ref().map(|task| task.state.name()),
        Some(StateName::Running),
        "it has not done its task"
    );
    let told = bench.transcript("boss").await;
    assert!(
        told.iter().any(|line| line.contains("has failed") && line.contains("it broke")),
        "{told:?}"
    );
    bench.engine.background().recover().await.expect("looked after");
    bench.settled("boss").await;
    assert_eq!(bench.transcript("boss").await.len(), told.len(), "once");
}

#[tokio::test]
async fn workers_are_at_most_three_levels_deep() {
    let bench = bench();
    bench.chat("boss").await;
    bench.say("boss", "dispatch: dispatch: dispatch: dispatch: too deep").await;
    let mut at = "boss".to_owned();
    for _ in 1..=3 {
        until("a worker", async || {
            !bench.engine.sessions().workers(&at).await.expect("there").is_empty()
        })
        .await;
        at = bench.engine.sessions().workers(&at).await.expect("there")[0].label.clone();
    }
    until("the deepest has ended", async || {
        bench.engine.sessions().get(&at).await.expect("there").session.state == Activity::Idle
    })
    .await;
    assert!(bench.engine.sessions().workers(&at).await.expect("there").is_empty());
    let id = bench.engine.sessions().get(&at).await.expect("there").session.id;
    let requests = bench.provider.requests();
    let deepest = requests.iter().find(|request| request.session == id).expect("asked");
    assert!(
        deepest.tools.iter().all(|tool| tool.name != "dispatch_to_agent"),
        "it is not even offered"
    );
    let told = bench.transcript(&at).await;
    assert!(told.iter().any(|line| line.contains("3 deep")), "{told:?}");
    quiet(&bench, "boss").await;
}

#[tokio::test]
async fn a_worker_has_no_working_directory_that_its_manager_may_not_use() {
    let call = |params: Value| Script::new().call("d1", "dispatch_to_agent", params);
    let bench = bench();
    let dir = bench.store.dir().join("project");
    std::fs::create_dir_all(dir.join("inner")).expect("made");
    std::os::unix::fs::symlink(bench.store.dir(), dir.join("way out")).expect("linked");
    let dir = dir.canonicalize().expect("there").to_string_lossy().into_owned();
    let new = |label: &str, dir: Option<String>| NewSession {
        label: Some(label.to_owned()),
        working_dir: dir,
        track_tasks: Some(false),
        ..NewSession::default()
    };
    bench.make(new("boss", Some(dir.clone()))).await;
    bench.make(new("nowhere", None)).await;
    for outside in ["..", "/", "way out", "missing"] {
        bench.provider.push(call(json!({"task": "x", "working_dir": outside})));
        bench.say("boss", "go").await;
        let told = bench.transcript("boss").await;
        assert!(
            told.last().is_some_and(|line| line.contains("working_dir")),
            "{outside}: {told:?}"
        );
    }
    bench.provider.push(call(json!({"task": "x", "working_dir": "/"})));
    bench.say("nowhere", "go").await;
    bench.provider.push(call(json!({"task": "x", "to": "nobody"})));
    bench.say("boss", "go").await;
    let told = bench.transcript("boss").await;
    assert!(
        told.last().is_some_and(|line| line.contains("`to`")
            && line.contains("`nobody` is no agent")
            && line.contains("main, other, atlas")),
        "{told:?}"
    );
    assert!(
        bench.engine.sessions().workers("boss").await.expect("there").is_empty()
            && bench.engine.sessions().workers("nowhere").await.expect("there").is_empty()
    );
    bench.provider.push(call(json!({"task": "x", "working_dir": "inner", "to": "other"})));
    bench.say("boss", "go").await;
    let worker = quiet(&bench, "boss").await.session;
    assert_eq!(
        (worker.working_dir, worker.provider_id.as_deref()),
        (Some(format!("{dir}/inner")), Some("other"))
    );
}

#[tokio::test]
async fn workers_are_cancelled_with_their_manager_on_request() {
    let gate = Gate::new();
    let hold = gate.clone();
    let slow = move |request: &Request| match words(request).as_str() {
        "slow" => Script::new().say("on it").gate(&hold),
        _ => obedient(request),
    };
    let bench = Harness::new(Scripted::new().can(tools()).otherwise(slow));
    bench.chat("boss").await;
    bench.say("boss", "dispatch: slow").await;
    gate.reached().await;
    let worker = bench.engine.sessions().workers("boss").await.expect("there").remove(0);
    bench.engine.runs().cancel("boss").await.expect("cancelled");
    let still = bench.engine.sessions().get(&worker.label).await.expect("there").session;
    assert_eq!(still.state, Activity::Running, "only if it is asked");
    bench.engine.runs().cancel_with_workers("boss").await.expect("cancelled");
    assert_eq!(
        bench.engine.sessions().get(&worker.label).await.expect("there").session.state,
        Activity::Idle
    );
    bench.settled("boss").await;
    assert_eq!(bench.endings("boss").await.len(), 1, "a cancel is not reported and starts no run");
}

#[tokio::test]
async fn a_session_can_have_a_fork_workers_and_an_alias_at_the_same_time() {
    // R194
    let bench = bench();
    bench.chat("boss").await;
    bench.say("boss", "dispatch: sand the hull").await;
    quiet(&bench, "boss").await;
    let head = bench.engine.sessions().head("boss").await.expect("there").expect("a turn");
    bench.engine.sessions().fork("boss", head, Some("fork")).await.expect("forked");
    bench.say("fork", "hello").await;
    bench.say("boss", "dispatch: paint it").await;
    until("two workers", async || {
        bench.engine.sessions().workers("boss").await.expect("there").len() == 2
    })
    .await;
    assert!(
        bench.engine.sessions().workers("fork").await.expect("there").is_empty(),
        "a fork has none of them"
    );
    quiet(&bench, "boss").await;
    assert_eq!(
        bench.engine.sessions().get("boss").await.expect("there").session.status,
        Status::Active
    );
}

#[tokio::test]
async fn a_worker_that_died_with_its_process_is_found_and_reported() {
    let gate = Gate::new();
    let hold = gate.clone();
    let slow = move |request: &Request| match words(request).as_str() {
        "slow" => Script::new().say("half of it").gate(&hold),
        _ => obedient(request),
    };
    let provider = Arc::new(Scripted::new().can(tools()).otherwise(slow));
    let store = TestStore::new();
    let engine = open(&store, &provider, Settings::default());
    let bench = Harness::on(store, engine, provider);
    bench.chat("boss").await;
    bench.say("boss", "dispatch: slow").await;
    gate.reached().await;
    let label = bench.engine.sessions().workers("boss").await.expect("there").remove(0).label;
    bench.engine.background().shutdown().await;
    let bench = Harness { engine: bench.another(), ..bench };
    bench.engine.background().start().await.expect("attends");
    let told = async || {
        bench
            .transcript("boss")
            .await
            .iter()
            .filter(|line| {
                line.starts_with("user: Worker")
                    && line.contains("was interrupted")
                    && line.contains(&label)
            })
            .count()
    };
    until("the manager has the report", async || told().await > 0).await;
    let worker = quiet(&bench, "boss").await;
    assert_eq!(worker.session.status, Status::Suspended);
    assert!(
        bench.transcript(&label).await.iter().any(|line| line.contains("half of it")),
        "what it made is kept"
    );
    assert_eq!(told().await, 1);
    bench.engine.sessions().wait_until_settled("boss", PATIENCE).await.expect("there");
    bench.verify().await;
}
