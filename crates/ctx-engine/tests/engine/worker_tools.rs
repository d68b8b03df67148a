//! The tools for work of other agents: their parameters, their errors, and waiting for a worker.

use std::time::{Duration, Instant};

use ctx_core::session::Activity;
use ctx_core::task::StateName;
use ctx_core::turn::Status;
use ctx_engine::provider::Request;
use ctx_engine::{EngineTimeouts, Providers};
use ctx_providers::Scripted;
use ctx_providers::scripted::{Gate, Script};
use serde_json::{Value, json};

use crate::harness::{Harness, short_timeouts, until};
use crate::workers::{answered, obedient, quiet, tools, words};

/// The answer of a tool that the session calls once.
async fn call(bench: &Harness, session: &str, tool: &str, params: Value) -> String {
    bench.provider.push(Script::new().call("c1", tool, params));
    bench.say(session, "go").await;
    let told = bench.transcript(session).await;
    let found = told.iter().rev().find(|line| line.starts_with("tool: "));
    found.expect("an answer").clone()
}

/// The name of the first tool that a request offers, with its parameters.
fn parameters(request: &Request, tool: &str) -> Vec<String> {
    let found = request.tools.iter().find(|offered| offered.name == tool).expect("offered");
    found.parameters["properties"].as_object().expect("an object").keys().cloned().collect()
}

#[tokio::test]
async fn an_unknown_parameter_or_worker_is_an_error_that_names_it() {
    // R189, R192
    let bench = Harness::new(Scripted::new().can(tools()).otherwise(obedient));
    bench.chat("boss").await;
    bench.chat("stranger").await;
    let answer = call(&bench, "boss", "get_agent_status", json!({"label": "worker:x"})).await;
    assert!(answer.contains("`worker:x` is no worker of yours; you have none"), "{answer}");
    bench.say("boss", "dispatch: sand the hull").await;
    let label = quiet(&bench, "boss").await.session.label;
    for (tool, params, expected) in [
        ("get_agent_status", json!({"label": "stranger"}), label.as_str()),
        ("get_agent_status", json!({"agent": label}), "unknown parameter `agent`"),
        ("send_message_to_agent", json!({"to": label, "text": "x"}), "unknown parameter `text`"),
        ("send_message_to_agent", json!({"to": label}), "parameter `content` is missing"),
        ("send_message_to_agent", json!({"to": "worker:x", "content": "x"}), label.as_str()),
        ("send_message_to_agent", json!({"to": "manager", "content": "x"}), "no manager"),
        ("dispatch_to_agent", json!({"to": "main"}), "parameter `task` is missing"),
        ("dispatch_to_agent", json!({"task": "x", "to": "nobody"}), "`nobody` is no agent"),
        ("dispatch_to_agent", json!({"task": "x", "provider": "main"}), "`provider`"),
        ("dispatch_to_agent", json!({"task": "x", "wait": 1}), "`wait`"),
    ] {
        let answer = call(&bench, "boss", tool, params.clone()).await;
        assert!(answer.contains(expected), "{tool} {params}: {answer}");
        let turns = bench
            .engine
            .messages()
            .turns("boss", ctx_engine::Order::Desc, None, 1)
            .await
            .expect("there");
        let made = &turns[0].header.tool_calls[0];
        assert_eq!(made.status, ctx_core::message::ToolStatus::Failed, "{tool} {params}");
    }
    assert_eq!(bench.engine.sessions().workers("boss").await.expect("there").len(), 1);
    let answer = call(&bench, "boss", "get_agent_status", json!({"label": label})).await;
    assert!(answer.contains(&label) && answer.contains("did sand the hull"), "{answer}");
    let requests = bench.provider.requests();
    let request = requests.first().expect("a request");
    let dispatch = parameters(request, "dispatch_to_agent");
    assert_eq!(dispatch, ["model", "task", "to", "wait", "working_dir"]);
    assert_eq!(parameters(request, "send_message_to_agent"), ["content", "to"]);
    assert_eq!(parameters(request, "get_agent_status"), ["label"]);
}

#[tokio::test]
async fn a_worker_runs_on_the_provider_or_with_the_persona_that_it_is_given_to() {
    let bench = Harness::new(Scripted::new().can(tools()).otherwise(obedient));
    for (label, to, provider, persona) in
        [("a", "other", Some("other"), None), ("b", "atlas", None, Some("atlas"))]
    {
        bench.chat(label).await;
        call(&bench, label, "dispatch_to_agent", json!({"to": to, "task": "sand it"})).await;
        let worker = quiet(&bench, label).await.session;
        assert_eq!(
            (worker.provider_id.as_deref(), worker.persona.as_deref()),
            (provider, persona),
            "{to}"
        );
        let requests = bench.provider.requests();
        let seen = requests.iter().find(|request| request.session == worker.id).expect("asked");
        let system = seen.system.clone().unwrap_or_default();
        assert_eq!(system.contains("You are Atlas."), persona.is_some(), "{system}");
        assert!(system.contains("You are a worker"), "{system}");
    }
}

/// A manager that dispatches `task` and waits for it.
fn waiting(task: &'static str, hold: &Gate) -> impl Fn(&Request) -> Script + Send + Sync + use<> {
    let hold = hold.clone();
    move |request: &Request| match (words(request).as_str(), answered(request)) {
        ("go", None) => {
            let params = json!({"task": task, "wait": true});
            Script::new().call("d1", "dispatch_to_agent", params)
        }
        ("slow", _) => Script::new().gate(&hold).say("slow is done"),
        _ => obedient(request),
    }
}

#[tokio::test]
async fn a_call_that_waits_returns_the_last_words_of_the_worker_and_no_report_follows() {
    for task in ["sand the hull", "dispatch: sand the hull", "fail", "ask"] {
        let bench =
            Harness::new(Scripted::new().can(tools()).otherwise(waiting(task, &Gate::new())));
        bench.chat("boss").await;
        bench.say("boss", "go").await;
        let worker = quiet(&bench, "boss").await;
        let told = bench.transcript("boss").await;
        let result = told.iter().find(|line| line.starts_with("tool: ")).expect("a result");
        let (status, words) = match task {
            "fail" => ("failed", "it broke"),
            "ask" => ("asks", "Oak or pine?"),
            _ => ("completed", "sand the hull"),
        };
        assert!(
            result.contains(&worker.session.label)
                && result.contains(&format!(r#""status":"{status}""#))
                && result.contains(words),
            "{task}: {result}"
        );
        if task.starts_with("dispatch") {
            assert_eq!(
                worker.task.as_ref().map(|task| task.state.name()),
                Some(StateName::Complete),
                "it waited for the worker of its worker as well"
            );
            assert_eq!(worker.session.turn_count, 3, "two runs and a notice");
        }
        bench.engine.background().recover().await.expect("looked after");
        bench.settled("boss").await;
        assert_eq!(bench.endings("boss").await.len(), 1, "{task}: no report follows");
        let turns = bench
            .engine
            .messages()
            .turns("boss", ctx_engine::Order::Desc, None, 1)
            .await
            .expect("there");
        let label = turns[0].header.tool_calls[0].spawned_session_label.as_deref();
        assert_eq!(label, Some(worker.session.label.as_str()), "R191");
    }
}

#[tokio::test]
async fn a_call_that_waits_too_long_returns_the_status_and_a_report_follows() {
    let gate = Gate::new();
    let bench = Harness::new(Scripted::new().can(tools()).otherwise(waiting("slow", &gate)));
    let timeouts = EngineTimeouts { worker_wait: Duration::from_millis(50), ..short_timeouts() };
    let providers = Providers::only("main", bench.provider.clone());
    let engine = bench.engine.clone().with_providers(providers, timeouts);
    let bench = Harness { engine, ..bench };
    bench.chat("boss").await;
    bench.say("boss", "go").await;
    let told = bench.transcript("boss").await;
    let result = told.iter().find(|line| line.starts_with("tool: ")).expect("a result");
    assert!(result.contains(r#""status":"running""#), "{result}");
    gate.open();
    quiet(&bench, "boss").await;
    let told = bench.transcript("boss").await;
    assert!(told.iter().any(|line| line.contains("has completed its task")), "{told:?}");
}

#[tokio::test]
async fn a_run_that_waits_for_a_worker_can_be_cancelled() {
    let gate = Gate::new();
    let bench = Harness::new(Scripted::new().can(tools()).otherwise(waiting("slow", &gate)));
    bench.chat("boss").await;
    bench.send("boss", "go").await;
    gate.reached().await;
    let started = Instant::now();
    let info = bench.engine.runs().cancel("boss").await.expect("cancelled");
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert_eq!(info.session.state, Activity::Idle);
    assert_eq!(bench.endings("boss").await, [Status::Cancelled]);
    gate.open();
    until("the worker is reported", async || {
        bench.transcript("boss").await.iter().any(|line| line.contains("has completed its task"))
    })
    .await;
    bench.settled("boss").await;
}
