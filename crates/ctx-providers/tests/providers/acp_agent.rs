//! An ACP agent without an engine: timeouts that the tests of the program cannot observe.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ctx_core::id::SuspensionId;
use ctx_core::message::Role;
use ctx_core::suspension::{Answer, Awaited, Suspension};
use ctx_core::time::Timestamp;
use ctx_engine::provider::{Delta, End, Request};
use ctx_providers::Program;
use ctx_providers::acp::{Acp, Config};
use tempfile::TempDir;
use ulid::Ulid;

use crate::test_harness::{TEST_TIMEOUT, finish, request, start, text_message};

/// The scripted agent in a directory of its own.
struct ScriptedAgent {
    agent: Arc<Acp>,
    dir: TempDir,
}

fn program_path() -> PathBuf {
    let test = std::env::current_exe().expect("path of this test");
    let target = test.parent().and_then(Path::parent).expect("the target directory");
    let program = target.join("examples/scripted-agent");
    assert!(program.exists(), "build it first: cargo build --workspace --example scripted-agent");
    program
}

impl ScriptedAgent {
    fn new(habits: &str, start_timeout: Duration, suspension_hold: Duration) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let home = dir.path().join("home").to_string_lossy().into_owned();
        let env = BTreeMap::from([
            ("AGENT_HOME".to_owned(), home),
            ("AGENT_HABITS".to_owned(), habits.to_owned()),
        ]);
        let command = vec![program_path().to_string_lossy().into_owned()];
        let scratch_dir = dir.path().join("work");
        let config = Config {
            program: Program { command, env, scratch_dir, ..Program::default() },
            model: None,
            context_window: 10_000,
            bridge: None,
            client: None,
            suspension_hold,
            start_timeout,
        };
        Self { agent: Arc::new(Acp::new(config)), dir }
    }

    async fn run(&self, request: Request) -> (Vec<Delta>, End) {
        finish(start(&self.agent, request)).await
    }

    async fn suspend(&self, request: Request) -> Awaited {
        match self.run(request).await.1 {
            End::Suspended(mut awaited) => awaited.remove(0),
            other => panic!("not suspended: {other:?}"),
        }
    }

    /// Number of records of one kind in the agent's event log.
    fn event_count(&self, kind: &str) -> usize {
        let log = self.dir.path().join("home/events.jsonl");
        let text = std::fs::read_to_string(log).unwrap_or_default();
        text.lines().filter(|line| line.contains(&format!("\"what\":\"{kind}\""))).count()
    }
}

fn prompt(text: &str, resumes: Vec<(Suspension, Answer)>) -> Request {
    Request { resumes, ..request(vec![text_message(Role::User, text)]) }
}

fn allowed(awaited: &Awaited) -> (Suspension, Answer) {
    let suspension = Suspension {
        id: SuspensionId(Ulid(1)),
        awaited: awaited.clone(),
        created_at: Timestamp(1),
    };
    (suspension, Answer { choice: Some("Yes".to_owned()), ..Answer::default() })
}

/// Moves the clock of the runtime forward, which fires the timers in between.
async fn advance_clock(duration: Duration) {
    tokio::time::pause();
    tokio::time::advance(duration).await;
    tokio::time::resume();
}

#[tokio::test]
async fn agent_that_never_answers_is_a_timeout() {
    let agent = ScriptedAgent::new("silent", Duration::from_millis(300), TEST_TIMEOUT);
    let (_, end) = agent.run(prompt("m1: say one", vec![])).await;
    let End::Failed(failure) = end else { panic!("not a failure: {end:?}") };
    assert_eq!(failure.code, "timeout");
    assert!(failure.message.contains("`initialize`"), "{}", failure.message);
}

#[tokio::test]
async fn each_suspension_holds_the_process_for_the_full_time() {
    let hold = Duration::from_secs(1000);
    let agent = ScriptedAgent::new("", TEST_TIMEOUT, hold);
    let text = "m1: ask one; ask two";
    let first = agent.suspend(prompt(text, vec![])).await;
    advance_clock(hold / 2).await;
    let second = agent.suspend(prompt(text, vec![allowed(&first)])).await;
    // The hold of the first suspension is over, that of the second one is not.
    advance_clock(hold / 2 + hold / 8).await;
    assert_eq!(agent.event_count("permission"), 1, "the second request is not cancelled");
    let (_, end) = agent.run(prompt(text, vec![allowed(&second)])).await;
    assert!(matches!(end, End::Done(_)), "{end:?}");
    assert_eq!(agent.event_count("started"), 1, "it is the same process");
}

#[tokio::test]
async fn cost_of_a_prompt_is_taken_from_the_session_total() {
    let agent = ScriptedAgent::new("", TEST_TIMEOUT, TEST_TIMEOUT);
    let usage = |deltas: Vec<Delta>| match deltas.last() {
        Some(Delta::Usage(usage)) => usage.clone(),
        other => panic!("the last delta is not the usage: {other:?}"),
    };
    let (deltas, _) = agent.run(prompt("m1: say one", vec![])).await;
    assert_eq!(usage(deltas).cost, None, "the agent reported no cost");
    let agent = ScriptedAgent::new("", TEST_TIMEOUT, TEST_TIMEOUT);
    let (deltas, _) = agent.run(prompt("m1: say one; cost 0.25", vec![])).await;
    let usage = usage(deltas);
    assert_eq!((usage.cost.as_deref(), usage.input_tokens), (Some("0.25 USD"), Some(3)));
}
