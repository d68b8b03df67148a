//! An agent over ACP, asked without an engine: what only a caller with little patience can see.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ctx_core::id::SuspensionId;
use ctx_core::message::Role;
use ctx_core::suspension::{Answer, Awaited, Suspension};
use ctx_core::time::Timestamp;
use ctx_engine::provider::{Delta, End, Link, Provider, Request};
use ctx_providers::Program;
use ctx_providers::acp::{Acp, Config};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

use crate::{request, said};

/// An agent in a directory of its own.
struct Room {
    agent: Acp,
    dir: TempDir,
}

fn program() -> PathBuf {
    let own = std::env::current_exe().expect("this test");
    let target = own.parent().and_then(Path::parent).expect("the target directory");
    let program = target.join("examples/scripted-agent");
    assert!(program.exists(), "build it first: cargo build --workspace --example scripted-agent");
    program
}

impl Room {
    fn new(habits: &str, start: Duration, hold: Duration) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let home = dir.path().join("home").to_string_lossy().into_owned();
        let env = BTreeMap::from([
            ("AGENT_HOME".to_owned(), home),
            ("AGENT_HABITS".to_owned(), habits.to_owned()),
        ]);
        let command = vec![program().to_string_lossy().into_owned()];
        let program =
            Program { command, env, scratch: dir.path().join("work"), ..Program::default() };
        let config =
            Config { program, model: None, context_window: 10_000, bridge: None, hold, start };
        Self { agent: Acp::new(config), dir }
    }

    async fn run(&self, request: Request) -> End {
        let (out, mut deltas) = mpsc::channel::<Delta>(64);
        let (_steer, steers) = mpsc::channel(1);
        let (tools, _uses) = mpsc::channel(1);
        tokio::spawn(async move { while deltas.recv().await.is_some() {} });
        self.agent.run(request, Link { out, cancel: CancellationToken::new(), steers, tools }).await
    }

    fn events(&self, what: &str) -> usize {
        let text =
            std::fs::read_to_string(self.dir.path().join("home/events.jsonl")).unwrap_or_default();
        text.lines().filter(|line| line.contains(&format!("\"what\":\"{what}\""))).count()
    }
}

fn prompt(text: &str, resumes: Vec<(Suspension, Answer)>) -> Request {
    Request { resumes, ..request(vec![said(Role::User, text)]) }
}

const LONG: Duration = Duration::from_secs(60);

fn answered(awaited: &Awaited) -> (Suspension, Answer) {
    let suspension = Suspension {
        id: SuspensionId(Ulid(1)),
        awaited: awaited.clone(),
        created_at: Timestamp(1),
    };
    (suspension, Answer { choice: Some("Yes".to_owned()), results: vec![] })
}

#[tokio::test]
async fn an_agent_that_never_answers_is_given_up() {
    let room = Room::new("silent", Duration::from_millis(300), LONG);
    let End::Failed(failure) = room.run(prompt("m1: say one", vec![])).await else {
        panic!("a failure")
    };
    assert_eq!(failure.code, "timeout");
    assert!(failure.message.contains("`initialize`"), "{}", failure.message);
}

#[tokio::test]
async fn a_process_that_waits_again_is_held_for_the_whole_time_again() {
    let hold = Duration::from_secs(2);
    let room = Room::new("", LONG, hold);
    let text = "m1: ask one; ask two";
    let End::Suspended(first) = room.run(prompt(text, vec![])).await else { panic!("it asks") };
    let began = tokio::time::Instant::now();
    tokio::time::sleep(hold / 2).await;
    let End::Suspended(second) = room.run(prompt(text, vec![answered(&first[0])])).await else {
        panic!("it asks again")
    };
    // The time of the first wait is over, that of the second is not.
    tokio::time::sleep_until(began + hold + hold / 8).await;
    assert_eq!(room.events("permission"), 1, "nobody has told it that nobody answers");
    assert!(matches!(room.run(prompt(text, vec![answered(&second[0])])).await, End::Done(_)));
    assert_eq!(room.events("started"), 1, "it is the same process");
}
