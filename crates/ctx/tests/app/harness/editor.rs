//! A `ctx acp`, and an editor in front of it that does what the test says.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::agent_server::scripted_agent;
use super::server::{Home, configured_home};
use super::{TIMEOUT, ctx};

/// A running `ctx acp`; killed when it is dropped.
pub(crate) struct Editor {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    last_id: u64,
    /// Everything that was received, in its order.
    log: Vec<Value>,
    /// Messages before this one are not searched.
    mark: usize,
}

/// A home directory whose default provider is the scripted agent.
pub(crate) fn agent_home(more: &str) -> Home {
    let program = scripted_agent();
    let home = configured_home("");
    let agent_home = home.path().join("agent");
    let config = format!(
        "{more}\n[defaults]\nprovider = \"agent\"\n[providers.agent]\nkind = \"acp\"\ncommand = \
         [{program:?}]\nenv = {{ AGENT_HOME = {agent_home:?}, AGENT_HABITS = \"\" }}\n"
    );
    super::server::configure(home.path(), &config);
    home
}

/// A working directory inside the home directory.
pub(crate) fn work(home: &Home) -> PathBuf {
    let dir = home.path().canonicalize().expect("a path").join("work");
    std::fs::create_dir_all(&dir).expect("a directory");
    dir
}

impl Editor {
    /// An editor that has sent `initialize` with these capabilities.
    pub(crate) fn start(home: &Home, capabilities: &Value) -> Self {
        Self::with_env(home, capabilities, &[])
    }

    /// As [`Editor::start`], with environment variables.
    pub(crate) fn with_env(home: &Home, capabilities: &Value, env: &[(&str, &Path)]) -> Self {
        let mut command = ctx(home.path());
        command.envs(env.iter().copied());
        let mut editor = Self::spawn(command);
        let params = json!({
            "protocolVersion": 1,
            "clientCapabilities": capabilities,
            "clientInfo": {"name": "test-editor", "version": "1"},
        });
        editor.ok("initialize", params);
        editor
    }

    /// An editor that has sent nothing.
    pub(crate) fn silent(home: &Home) -> Self {
        Self::spawn(ctx(home.path()))
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command
            .arg("acp")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("ctx starts");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line)
                    .unwrap_or_else(|_| panic!("standard output is JSON only: {line}"));
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let stdin = child.stdin.take();
        Self { child, stdin, lines, last_id: 100, log: Vec::new(), mark: 0 }
    }

    /// Sends a line as it is.
    pub(crate) fn write(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("open");
        writeln!(stdin, "{line}").and_then(|()| stdin.flush()).expect("written");
    }

    pub(crate) fn notify(&mut self, method: &str, params: &Value) {
        self.write(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    /// Sends a request; its id.
    pub(crate) fn post(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.write(&message.to_string());
        id
    }

    /// Responds to a request of ctx.
    pub(crate) fn answer(&mut self, request: &Value, result: &Value) {
        let message = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
        self.write(&message.to_string());
    }

    /// Sends a request and returns the whole response.
    #[track_caller]
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.post(method, params);
        self.response(id)
    }

    /// The result of a request that succeeds.
    #[track_caller]
    pub(crate) fn ok(&mut self, method: &str, params: Value) -> Value {
        let response = self.call(method, params);
        assert!(response.get("result").is_some(), "{method}: {response}");
        response["result"].clone()
    }

    /// The code of the error of a request that fails.
    #[track_caller]
    pub(crate) fn error_code(&mut self, method: &str, params: Value) -> i64 {
        let response = self.call(method, params);
        response["error"]["code"].as_i64().unwrap_or_else(|| panic!("{method}: {response}"))
    }

    #[track_caller]
    pub(crate) fn response(&mut self, id: u64) -> Value {
        self.find(&format!("the response to {id}"), |message| {
            message["id"] == id && message.get("method").is_none()
        })
    }

    /// The next request of ctx with this method.
    #[track_caller]
    pub(crate) fn request(&mut self, method: &str) -> Value {
        self.find(method, |message| message["method"] == method && message.get("id").is_some())
    }

    /// The first message since the mark that fits.
    #[track_caller]
    pub(crate) fn find(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + TIMEOUT;
        let mut at = self.mark;
        loop {
            while at < self.log.len() {
                if fits(&self.log[at]) {
                    return self.log[at].clone();
                }
                at += 1;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(message) => self.log.push(message),
                Err(_) => panic!("not received: {what}; since the mark: {:#?}", self.since_mark()),
            }
        }
    }

    /// Later searches start after what was received so far.
    pub(crate) fn mark(&mut self) {
        self.log.extend(self.lines.try_iter());
        self.mark = self.log.len();
    }

    /// What was received since the mark.
    pub(crate) fn since_mark(&self) -> &[Value] {
        &self.log[self.mark..]
    }

    /// The updates of a kind since the mark.
    pub(crate) fn updates(&self, kind: &str) -> Vec<Value> {
        let updates = self.since_mark().iter().map(|message| &message["params"]["update"]);
        updates.filter(|update| update["sessionUpdate"] == kind).cloned().collect()
    }

    /// The text of the chunks of a kind since the mark.
    pub(crate) fn text(&self, kind: &str) -> String {
        let chunks = self.updates(kind);
        chunks.iter().filter_map(|chunk| chunk["content"]["text"].as_str()).collect()
    }

    /// Waits for a text of the agent.
    #[track_caller]
    pub(crate) fn wait_for_text(&mut self, part: &str) {
        self.find(part, |message| {
            let update = &message["params"]["update"];
            update["sessionUpdate"] == "agent_message_chunk"
                && update["content"]["text"].as_str().is_some_and(|text| text.contains(part))
        });
    }

    /// A new session; its id.
    #[track_caller]
    pub(crate) fn new_session(&mut self, dir: &Path) -> String {
        let opened = self.ok("session/new", json!({"cwd": dir, "mcpServers": []}));
        opened["sessionId"].as_str().expect("an id").to_owned()
    }

    /// Sends a prompt; the id of the request.
    pub(crate) fn post_prompt(&mut self, session: &str, text: &str) -> u64 {
        self.post("session/prompt", prompt(session, text))
    }

    /// Sends a prompt and waits; the stop reason.
    #[track_caller]
    pub(crate) fn prompt(&mut self, session: &str, text: &str) -> String {
        let result = self.ok("session/prompt", prompt(session, text));
        result["stopReason"].as_str().expect("a reason").to_owned()
    }

    #[track_caller]
    pub(crate) fn load(&mut self, session: &str, dir: &Path) -> Value {
        let params = json!({"sessionId": session, "cwd": dir, "mcpServers": []});
        self.ok("session/load", params)
    }

    /// Kills the process.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("its end");
    }

    /// Closes standard input; the exit code, and how long the process took to end.
    pub(crate) fn close(&mut self) -> (Option<i32>, Duration) {
        let started = Instant::now();
        drop(self.stdin.take());
        super::wait_until("ctx acp ends", || self.has_ended());
        let code = self.child.wait().expect("its end").code();
        (code, started.elapsed())
    }

    fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn prompt(session: &str, text: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]})
}
