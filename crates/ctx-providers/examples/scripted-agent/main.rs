//! An ACP agent without a model, for tests. It executes the steps that a prompt lists.
//!
//! A prompt has the form `MARK: step; step; …`; `prompt_steps` defines the steps. The steps in the
//! file `next-steps` are executed instead, once. `AGENT_HABITS` selects variations of its
//! behaviour. `AGENT_HOME` is the directory of that file, of the agent's conversations and of two
//! logs: `prompts.jsonl` (each prompt, and all user messages of the conversation at that time) and
//! `events.jsonl`.

mod agent_home;
mod prompt_steps;

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use agent_home::{Conversation, Home};
use serde_json::{Value, json};

/// Error code for an unknown conversation.
const NOT_FOUND: i64 = -32002;

fn main() {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let _ = sender.send(serde_json::from_str(&line).expect("JSON"));
        }
    });
    let home = Home::open();
    home.event(json!({"what": "started", "parent": std::os::unix::process::parent_id()}));
    eprintln!("the scripted agent is here");
    let mut agent = Agent {
        home,
        lines,
        next_id: 0,
        responses: HashMap::new(),
        open: None,
        cancelled: false,
        servers: Value::Null,
    };
    while agent.handle_next(None) {}
    while agent.home.has_habit("stays") {
        std::thread::park();
    }
}

struct Agent {
    home: Home,
    lines: Receiver<Value>,
    next_id: u64,
    /// Responses of the client, by request id.
    responses: HashMap<u64, Value>,
    open: Option<Conversation>,
    cancelled: bool,
    /// The MCP servers of the open conversation.
    servers: Value,
}

fn send(message: &Value) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{message}").and_then(|()| out.flush());
}

fn fail(id: &Value, code: i64, message: &str) {
    send(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}));
}

impl Agent {
    /// Handles one message; `false` after the client closed the stream.
    fn handle_next(&mut self, wait: Option<Duration>) -> bool {
        let message = match wait {
            None => self.lines.recv().ok(),
            Some(wait) => match self.lines.recv_timeout(wait) {
                Err(RecvTimeoutError::Timeout) => return true,
                other => other.ok(),
            },
        };
        let Some(message) = message else { return false };
        match message["method"].as_str() {
            Some(method) => self.handle_request(method, &message["id"], &message["params"]),
            None => {
                let id = message["id"].as_u64().expect("a request id");
                self.responses.insert(id, message);
            }
        }
        true
    }

    fn handle_request(&mut self, method: &str, id: &Value, params: &Value) {
        let answer = |result: Value| send(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
        match method {
            "initialize" if self.home.has_habit("silent") => {}
            "initialize" => answer(self.initialize_response()),
            "session/new" if self.home.has_habit("login") => {
                fail(id, -32000, "Authentication required");
            }
            "session/new" => {
                if self.home.has_habit("slow") {
                    self.home.wait("opening");
                }
                self.open_conversation(Conversation::new(), params);
                answer(self.open_response());
            }
            "session/load" | "session/resume" => {
                match self.home.conversation(params["sessionId"].as_str().unwrap_or_default()) {
                    Some(found) if !self.home.has_habit("refuses-load") => {
                        let overlap = found.is_open_elsewhere();
                        self.home.event(
                            json!({"what": method, "conversation": found.id, "overlap": overlap}),
                        );
                        self.open_conversation(found, params);
                        if method == "session/load" {
                            self.replay();
                        }
                        answer(self.open_response());
                    }
                    _ => fail(id, NOT_FOUND, "Resource not found"),
                }
            }
            "session/set_mode" | "session/set_config_option" => {
                let value = params["modeId"].as_str().or(params["value"].as_str());
                let conversation = &params["sessionId"];
                self.home.event(json!({"what": "set", "conversation": conversation, "to": value}));
                answer(json!({}));
            }
            "session/prompt" => {
                let (stop, late) = self.prompt(params);
                answer(json!({"stopReason": stop, "usage": {"inputTokens": 3, "outputTokens": 5}}));
                for text in late {
                    self.send_text(&text);
                    self.home.event(json!({"what": "late"}));
                }
            }
            "session/cancel" => {
                self.home.event(json!({"what": "cancel"}));
                self.cancelled = true;
            }
            "_session/steering" => {
                let text = params["prompt"][0]["text"].as_str().unwrap_or_default().to_owned();
                let home = self.home.clone();
                if let Some(open) = &mut self.open {
                    open.add("user", &text);
                    home.store(open);
                }
                answer(json!({"outcome": "injected"}));
            }
            _ => fail(id, -32601, "Method not found"),
        }
    }

    fn initialize_response(&self) -> Value {
        let resume =
            if self.home.has_habit("no-resume") { Value::Null } else { json!({"resume": {}}) };
        let login = "Run `scripted-agent login`";
        let load = !self.home.has_habit("no-load");
        json!({
            "protocolVersion": 1,
            "agentInfo": {"name": "scripted-agent", "version": "1"},
            "agentCapabilities": {"loadSession": load, "sessionCapabilities": resume},
            "authMethods": [{"id": "own", "name": "Own login", "description": login}],
            "_meta": {"steering": {"supported": self.home.has_habit("steers")}},
        })
    }

    fn open_conversation(&mut self, mut conversation: Conversation, params: &Value) {
        std::env::set_current_dir(params["cwd"].as_str().expect("a directory"))
            .expect("a directory");
        self.servers = params["mcpServers"].clone();
        conversation.process = std::process::id();
        self.home.store(&conversation);
        self.open = Some(conversation);
    }

    fn open_response(&self) -> Value {
        let id = self.id();
        let commands = json!([{"name": "compact", "description": "shorten"}]);
        self.update(
            json!({"sessionUpdate": "available_commands_update", "availableCommands": commands}),
        );
        let modes = json!([{"id": "default", "name": "Default"}, {"id": "plan", "name": "Plan"}]);
        let models =
            json!([{"value": "small", "name": "Small"}, {"value": "large", "name": "Large"}]);
        json!({
            "sessionId": id,
            "modes": {"currentModeId": "default", "availableModes": modes},
            "configOptions": [{"id": "model", "category": "model", "name": "Model",
                "currentValue": "small", "options": models}],
        })
    }

    fn id(&self) -> String {
        self.open.as_ref().map(|open| open.id.clone()).unwrap_or_default()
    }

    /// Sends all messages of the conversation, as `session/load` requires.
    fn replay(&self) {
        for (n, (role, text)) in self.open.iter().flat_map(|open| &open.messages).enumerate() {
            let kind = if role == "user" { "user_message_chunk" } else { "agent_message_chunk" };
            let content = json!({"type": "text", "text": text});
            self.update(
                json!({"sessionUpdate": kind, "content": content, "messageId": n.to_string()}),
            );
        }
    }

    fn update(&self, update: Value) {
        let params = json!({"sessionId": self.id(), "update": update});
        send(&json!({"jsonrpc": "2.0", "method": "session/update", "params": params}));
    }

    fn send_text(&self, text: &str) {
        let content = json!({"type": "text", "text": text});
        self.update(json!({"sessionUpdate": "agent_message_chunk", "content": content}));
    }

    /// Sends a request to the client and returns its id.
    fn request(&mut self, method: &str, mut params: Value) -> u64 {
        params["sessionId"] = self.id().into();
        let id = self.next_id;
        self.next_id += 1;
        send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Waits for a response and handles other messages meanwhile. Exits if the client is gone.
    fn wait_for_response(&mut self, id: u64) -> Value {
        loop {
            if let Some(answer) = self.responses.remove(&id) {
                return answer;
            }
            if !self.handle_next(None) {
                std::process::exit(0);
            }
        }
    }
}
