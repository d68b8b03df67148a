//! Agents over ACP behind a real server: what they are told, what they do, and what is left of them when somebody dies.
//!
//! The agent is the example `scripted-agent` of ctx-providers: it does what a prompt says, keeps its own conversations,
//! and records everything that it knows with each prompt.

mod asks;
mod endings;
mod memory;
mod offers;
mod permissions;

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::lab::{Answer, Client, PATIENCE, Server};

/// A store, a server, and agents that are called `agent` and `other`.
struct Stage {
    server: Option<Server>,
    client: Client,
    data: PathBuf,
    dir: TempDir,
}

/// The scripted agent, which cargo builds with the tests of the workspace.
fn program() -> PathBuf {
    let program =
        Path::new(env!("CARGO_BIN_EXE_ctx")).with_file_name("examples").join("scripted-agent");
    assert!(program.exists(), "build it first: cargo build --workspace --example scripted-agent");
    program
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

fn is_alive(pid: u64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

fn kill(pid: u64) {
    assert!(
        std::process::Command::new("kill")
            .args(["-9", &pid.to_string()])
            .status()
            .expect("kill")
            .success()
    );
}

impl Stage {
    fn new(habits: &str) -> Self {
        Self::configured(habits, "")
    }

    /// With more of a `ctx.toml`.
    fn configured(habits: &str, more: &str) -> Self {
        let dir = TempDir::new().expect("a directory");
        let data = dir.path().join("data");
        std::fs::create_dir_all(&data).expect("a directory");
        let provider = |name: &str| {
            let home = dir.path().join("homes").join(name);
            let env = format!("env = {{ AGENT_HOME = {home:?}, AGENT_HABITS = {habits:?} }}");
            format!("[providers.{name}]\nkind = \"acp\"\ncommand = [{:?}]\n{env}\n", program())
        };
        let missing = "[providers.missing]\nkind = \"acp\"\ncommand = [\"no-such-agent-here\"]\n";
        let config = format!(
            "{more}\n[defaults]\nprovider = \"agent\"\n{}{}{missing}",
            provider("agent"),
            provider("other")
        );
        std::fs::write(data.join("ctx.toml"), config).expect("a configuration");
        let server = Server::start(&data);
        Self { client: server.client(), server: Some(server), data, dir }
    }

    /// Ends the server with SIGKILL.
    fn kill_server(&mut self) {
        self.server.take().expect("it runs").kill();
    }

    fn start_server(&mut self) {
        let server = Server::start(&self.data);
        self.client = server.client();
        self.server = Some(server);
    }

    fn work(&self, label: &str) -> PathBuf {
        self.data.join("work").join(label)
    }

    /// A session with a working directory of its own.
    fn session(&self, label: &str, tracks: bool) -> Value {
        std::fs::create_dir_all(self.work(label)).expect("a directory");
        let body = json!({"label": label, "working_dir": self.work(label), "track_tasks": tracks});
        let made = self.client.post("/api/sessions", &body);
        assert_eq!(made.status, 201, "{}", made.body);
        made.body
    }

    fn post(&self, label: &str, what: &str, body: &Value) -> Answer {
        self.client.post(&format!("/api/sessions/{label}/{what}"), body)
    }

    /// Sends a message.
    fn send(&self, label: &str, text: &str) {
        self.send_with(label, &json!({"text": text}));
    }

    fn send_with(&self, label: &str, body: &Value) {
        let sent = self.post(label, "messages", body);
        assert_eq!(sent.status, 202, "{}", sent.body);
    }

    /// Sends a message and waits until the session rests.
    fn say(&self, label: &str, text: &str) -> Value {
        self.send(label, text);
        self.client.settled(label)
    }

    fn cancel(&self, label: &str) {
        let cancelled = self.post(label, "cancel", &json!({}));
        assert_eq!(
            (cancelled.status, &cancelled.body["state"]),
            (200, &json!("idle")),
            "{}",
            cancelled.body
        );
    }

    fn info(&self, label: &str) -> Value {
        self.client.get(&format!("/api/sessions/{label}"))
    }

    /// What the session waits for, once it waits.
    fn suspensions(&self, label: &str) -> Vec<Value> {
        let info = self.client.settled(label);
        assert_eq!(info["state"], "suspended", "{info}");
        info["suspensions"].as_array().expect("a list").clone()
    }

    /// Answers a suspension with the offer that means this.
    fn answer(&self, label: &str, suspension: &Value, kind: &str) {
        let offers = suspension["options"].as_array().expect("offers");
        let offer = offers
            .iter()
            .find(|offer| offer["kind"] == kind)
            .unwrap_or_else(|| panic!("{kind} in {suspension}"));
        let answered = self.post(
            label,
            "resume",
            &json!({"suspension_id": suspension["id"], "choice": offer["id"]}),
        );
        assert_eq!(answered.status, 202, "{}", answered.body);
    }

    /// All parts of all messages that an agent made, of a type.
    fn parts(&self, label: &str, kind: &str) -> Vec<Value> {
        let (messages, _) = self.client.everything(label);
        let made = messages.iter().filter(|message| message["role"] != "user");
        made.flat_map(|message| message["content"].as_array().cloned().unwrap_or_default())
            .filter(|part| part["type"] == kind)
            .collect()
    }

    /// Everything that the agent said.
    fn words(&self, label: &str) -> String {
        self.parts(label, "text")
            .iter()
            .filter_map(|part| part["text"].as_str())
            .collect::<Vec<_>>()
            .join("|")
    }

    // ---- what the agent itself knows --------------------------------------------------------------------

    fn home(&self, provider: &str) -> PathBuf {
        self.dir.path().join("homes").join(provider)
    }

    fn records(&self, provider: &str, file: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.home(provider).join(file)).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn prompts(&self) -> Vec<Value> {
        self.records("agent", "prompts.jsonl")
    }

    /// What happened to the agent of a kind.
    fn events(&self, what: &str) -> Vec<Value> {
        self.records("agent", "events.jsonl")
            .into_iter()
            .filter(|event| event["what"] == what)
            .collect()
    }

    /// How often it was started.
    fn starts(&self) -> usize {
        self.events("started").len()
    }

    /// The newest process of it.
    fn pid(&self) -> u64 {
        self.events("started")
            .last()
            .and_then(|event| event["pid"].as_u64())
            .expect("it was started")
    }

    /// Kills the newest process of it, and waits until that has been noticed.
    fn kill_agent(&self) {
        let guard = self
            .events("started")
            .last()
            .and_then(|event| event["parent"].as_u64())
            .expect("it was started");
        kill(self.pid());
        until("it is gone", || !is_alive(self.pid()) && !is_alive(guard));
    }

    /// Waits until the agent waits at a gate.
    fn waits_at(&self, gate: &str) {
        until(gate, || self.events("waits").iter().any(|event| event["at"] == gate));
    }

    fn open(&self, gate: &str) {
        std::fs::write(self.home("agent").join(gate), "").expect("a gate");
    }

    /// With its newest prompt, an agent knows each of these exactly once.
    #[track_caller]
    fn knows_once(&self, provider: &str, marks: &[&str]) {
        let prompts = self.records(provider, "prompts.jsonl");
        let known = prompts.last().expect("a prompt")["known"].clone();
        let known: Vec<&str> =
            known.as_array().expect("a list").iter().filter_map(Value::as_str).collect();
        for mark in marks {
            assert_eq!(
                known.join("\n\n").matches(&format!("{mark}: ")).count(),
                1,
                "`{mark}` in {known:#?}"
            );
        }
    }

    /// What the agent's tools did in a session's directory.
    fn effects(&self, label: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.work(label).join("effects")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}
