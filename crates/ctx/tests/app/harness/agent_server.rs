//! A `ctx serve` with scripted ACP agents, and what the agents recorded.
//!
//! The agent is the example `scripted-agent` of ctx-providers. It does what a prompt says, keeps
//! its own conversations, and records with each prompt everything that it knows.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::client::{Client, Response};
use super::server::{Home, Server, configure, home, is_alive, signal, write_policies};
use super::{PROGRAM, wait_until};

/// A server whose agents are called `agent` and `other`.
pub(crate) struct AgentServer {
    server: Option<Server>,
    pub(crate) client: Client,
    dir: Home,
}

/// The scripted agent, which cargo builds with the tests of the workspace.
pub(crate) fn scripted_agent() -> PathBuf {
    let program = Path::new(PROGRAM).with_file_name("examples").join("scripted-agent");
    assert!(program.exists(), "build it first: cargo build --workspace --example scripted-agent");
    program
}

impl AgentServer {
    pub(crate) fn new(habits: &str) -> Self {
        Self::configured(habits, "")
    }

    /// With more settings in `ctx.toml`.
    pub(crate) fn configured(habits: &str, more: &str) -> Self {
        Self::in_home(home(), habits, more)
    }

    /// With a `policies.yaml` and more settings in `ctx.toml`.
    pub(crate) fn with_policies(policies: &str, more: &str) -> Self {
        let dir = home();
        write_policies(dir.path(), policies);
        Self::in_home(dir, "", more)
    }

    fn in_home(dir: Home, habits: &str, more: &str) -> Self {
        let provider = |name: &str| {
            let home = dir.path().join("homes").join(name);
            let env = format!("env = {{ AGENT_HOME = {home:?}, AGENT_HABITS = {habits:?} }}");
            let program = scripted_agent();
            format!("[providers.{name}]\nkind = \"acp\"\ncommand = [{program:?}]\n{env}\n")
        };
        let missing = "[providers.missing]\nkind = \"acp\"\ncommand = [\"no-such-agent-here\"]\n";
        let (agent, other) = (provider("agent"), provider("other"));
        let config = format!("{more}\n[defaults]\nprovider = \"agent\"\n{agent}{other}{missing}");
        configure(dir.path(), &config);
        let server = Server::in_dir(dir.clone());
        Self { client: server.client(), server: Some(server), dir }
    }

    /// Ends the server with SIGKILL.
    pub(crate) fn kill_server(&mut self) {
        self.server.take().expect("it runs").kill();
    }

    /// Ends the server with SIGINT; its exit code.
    pub(crate) fn end_server(&mut self) -> Option<i32> {
        self.server.take().expect("it runs").end().0
    }

    pub(crate) fn start_server(&mut self) {
        let server = Server::in_dir(self.dir.clone());
        self.client = server.client();
        self.server = Some(server);
    }

    /// The home directory of the server, for another one on the same store.
    pub(crate) fn home_dir(&self) -> Home {
        self.dir.clone()
    }

    /// The home directory of the server.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn work(&self, label: &str) -> PathBuf {
        self.dir().join("data/work").join(label)
    }

    /// A session with a working directory of its own.
    pub(crate) fn session(&self, label: &str, tracks: bool) -> Value {
        std::fs::create_dir_all(self.work(label)).expect("a directory");
        let body = json!({"label": label, "working_dir": self.work(label), "track_tasks": tracks});
        let made = self.client.post("/api/sessions", &body);
        assert_eq!(made.status, 201, "{}", made.body);
        made.body
    }

    pub(crate) fn post(&self, label: &str, what: &str, body: &Value) -> Response {
        self.client.post(&format!("/api/sessions/{label}/{what}"), body)
    }

    /// Sends a message.
    pub(crate) fn send(&self, label: &str, text: &str) {
        self.send_with(label, &json!({"text": text}));
    }

    pub(crate) fn send_with(&self, label: &str, body: &Value) {
        let sent = self.post(label, "messages", body);
        assert_eq!(sent.status, 202, "{}", sent.body);
    }

    /// Sends a message and waits until the session has settled.
    pub(crate) fn say(&self, label: &str, text: &str) -> Value {
        self.send(label, text);
        self.client.settled(label)
    }

    pub(crate) fn cancel(&self, label: &str) {
        let cancelled = self.post(label, "cancel", &json!({}));
        assert_eq!(
            (cancelled.status, &cancelled.body["state"]),
            (200, &json!("idle")),
            "{}",
            cancelled.body
        );
    }

    pub(crate) fn info(&self, label: &str) -> Value {
        self.client.read(&format!("/api/sessions/{label}"))
    }

    /// The suspensions of a session, once it is suspended.
    pub(crate) fn suspensions(&self, label: &str) -> Vec<Value> {
        let info = self.client.settled(label);
        assert_eq!(info["state"], "suspended", "{info}");
        info["suspensions"].as_array().expect("a list").clone()
    }

    /// Answers a suspension with its option of this kind.
    pub(crate) fn answer(&self, label: &str, suspension: &Value, kind: &str) {
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

    /// All parts of a type in the messages of agents.
    pub(crate) fn parts(&self, label: &str, kind: &str) -> Vec<Value> {
        let (messages, _) = self.client.everything(label);
        let made = messages
            .iter()
            .filter(|message| message["role"] != "user" && message["role"] != "system");
        made.flat_map(|message| message["content"].as_array().cloned().unwrap_or_default())
            .filter(|part| part["type"] == kind)
            .collect()
    }

    /// The text of the agents, with `|` between parts.
    pub(crate) fn words(&self, label: &str) -> String {
        self.parts(label, "text")
            .iter()
            .filter_map(|part| part["text"].as_str())
            .collect::<Vec<_>>()
            .join("|")
    }

    // ---- records of the agent ----

    pub(crate) fn home(&self, provider: &str) -> PathBuf {
        self.dir.path().join("homes").join(provider)
    }

    pub(crate) fn records(&self, provider: &str, file: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.home(provider).join(file)).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    pub(crate) fn prompts(&self) -> Vec<Value> {
        self.records("agent", "prompts.jsonl")
    }

    /// Events of a kind that the agent recorded.
    pub(crate) fn events(&self, what: &str) -> Vec<Value> {
        self.records("agent", "events.jsonl")
            .into_iter()
            .filter(|event| event["what"] == what)
            .collect()
    }

    /// How often the agent was started.
    pub(crate) fn starts(&self) -> usize {
        self.events("started").len()
    }

    /// Process id of the agent's newest process.
    pub(crate) fn pid(&self) -> u64 {
        self.events("started")
            .last()
            .and_then(|event| event["pid"].as_u64())
            .expect("it was started")
    }

    /// Kills the agent's newest process and waits until its guard has ended, too.
    pub(crate) fn kill_agent(&self) {
        let guard = self
            .events("started")
            .last()
            .and_then(|event| event["parent"].as_u64())
            .expect("it was started");
        signal("-9", self.pid() as u32);
        wait_until("it is gone", || !is_alive(self.pid()) && !is_alive(guard));
    }

    /// Waits until the agent has reached a gate.
    pub(crate) fn waits_at(&self, gate: &str) {
        wait_until(gate, || self.events("waits").iter().any(|event| event["at"] == gate));
    }

    pub(crate) fn open(&self, gate: &str) {
        std::fs::write(self.home("agent").join(gate), "").expect("a gate");
    }

    /// Sets the steps that the agent executes at its next prompt, whatever the prompt says.
    pub(crate) fn next_steps(&self, steps: &str) {
        std::fs::create_dir_all(self.home("agent")).expect("a directory");
        std::fs::write(self.home("agent").join("next-steps"), steps).expect("steps");
    }

    /// Asserts that each mark is exactly once in the agent's context at its newest prompt.
    #[track_caller]
    pub(crate) fn knows_once(&self, provider: &str, marks: &[&str]) {
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

    /// Lines that the agent's tools wrote in a session's directory.
    pub(crate) fn effects(&self, label: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.work(label).join("effects")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}
