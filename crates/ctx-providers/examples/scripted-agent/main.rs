//! An agent without a model, for tests: it speaks ACP on its standard streams and does what the prompt says, step by step.
//!
//! A prompt reads `MARK: step; step; …`; the steps are in `steps.rs`. Its habits come from `AGENT_HABITS`, its
//! conversations lie in `AGENT_HOME`, where it also keeps a record of what it was told (`prompts.jsonl`, with everything
//! that it knows at that moment) and of what happened (`events.jsonl`).

mod memory;
mod steps;

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use memory::{Conversation, Home};
use serde_json::{Value, json};

/// "There is no such conversation."
const NOT_FOUND: i64 = -32002;

fn main() {
    let (hand, lines) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let _ = hand.send(serde_json::from_str(&line).expect("JSON"));
        }
    });
    let home = Home::open();
    home.event(json!({"what": "started", "parent": std::os::unix::process::parent_id()}));
    eprintln!("the scripted agent is here");
    let mut agent = Agent {
        home,
        lines,
        next: 0,
        answers: HashMap::new(),
        open: None,
        cancelled: false,
        servers: Value::Null,
    };
    while agent.pump(None) {}
    while agent.home.has("stays") {
        std::thread::park();
    }
}

struct Agent {
    home: Home,
    lines: Receiver<Value>,
    next: u64,
    /// What the client answered, by the number of the request.
    answers: HashMap<u64, Value>,
    open: Option<Conversation>,
    cancelled: bool,
    /// The MCP servers that it was given.
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
    /// Takes one message; `false` once nobody speaks any more.
    fn pump(&mut self, wait: Option<Duration>) -> bool {
        let message = match wait {
            None => self.lines.recv().ok(),
            Some(wait) => match self.lines.recv_timeout(wait) {
                Err(RecvTimeoutError::Timeout) => return true,
                other => other.ok(),
            },
        };
        let Some(message) = message else { return false };
        match message["method"].as_str() {
            Some(method) => self.hear(method, &message["id"], &message["params"]),
            None => {
                let id = message["id"].as_u64().expect("one of our numbers");
                self.answers.insert(id, message);
            }
        }
        true
    }

    fn hear(&mut self, method: &str, id: &Value, params: &Value) {
        let answer = |result: Value| send(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
        match method {
            "initialize" if self.home.has("silent") => {}
            "initialize" => answer(self.introduction()),
            "session/new" if self.home.has("login") => fail(id, -32000, "Authentication required"),
            "session/new" => {
                if self.home.has("slow") {
                    self.home.wait("opening");
                }
                self.open(Conversation::new(), params);
                answer(self.opened());
            }
            "session/load" | "session/resume" => {
                match self.home.conversation(params["sessionId"].as_str().unwrap_or_default()) {
                    Some(found) if !self.home.has("refuses-load") => {
                        self.home.event(json!({"what": method, "conversation": found.id, "overlap": found.is_held()}));
                        self.open(found, params);
                        if method == "session/load" {
                            self.replay();
                        }
                        answer(self.opened());
                    }
                    _ => fail(id, NOT_FOUND, "Resource not found"),
                }
            }
            "session/set_mode" | "session/set_config_option" => {
                self.home.event(json!({"what": "set", "conversation": params["sessionId"], "to": params["modeId"].as_str().or(params["value"].as_str())}));
                answer(json!({}));
            }
            "session/prompt" => {
                let (stop, late) = self.prompt(params);
                answer(json!({"stopReason": stop, "usage": {"inputTokens": 3, "outputTokens": 5}}));
                for words in late {
                    self.say(&words);
                    self.home.event(json!({"what": "late"}));
                }
            }
            "session/cancel" => {
                self.home.event(json!({"what": "cancel"}));
                self.cancelled = true;
            }
            "_session/steering" => {
                let words = params["prompt"][0]["text"].as_str().unwrap_or_default().to_owned();
                let home = self.home.clone();
                if let Some(open) = &mut self.open {
                    open.add("user", &words);
                    home.keep(open);
                }
                answer(json!({"outcome": "injected"}));
            }
            _ => fail(id, -32601, "Method not found"),
        }
    }

    fn introduction(&self) -> Value {
        let resume = if self.home.has("no-resume") { Value::Null } else { json!({"resume": {}}) };
        json!({
            "protocolVersion": 1,
            "agentInfo": {"name": "scripted-agent", "version": "1"},
            "agentCapabilities": {"loadSession": !self.home.has("no-load"), "sessionCapabilities": resume},
            "authMethods": [{"id": "own", "name": "Own login", "description": "Run `scripted-agent login`"}],
            "_meta": {"steering": {"supported": self.home.has("steers")}},
        })
    }

    fn open(&mut self, mut conversation: Conversation, params: &Value) {
        std::env::set_current_dir(params["cwd"].as_str().expect("a directory"))
            .expect("a directory");
        self.servers = params["mcpServers"].clone();
        conversation.holder = std::process::id();
        self.home.keep(&conversation);
        self.open = Some(conversation);
    }

    fn opened(&self) -> Value {
        let id = self.id();
        self.update(
            json!({"sessionUpdate": "available_commands_update", "availableCommands": [{"name": "compact", "description": "shorten"}]}),
        );
        json!({
            "sessionId": id,
            "modes": {"currentModeId": "default", "availableModes": [{"id": "default", "name": "Default"}, {"id": "plan", "name": "Plan"}]},
            "configOptions": [{"id": "model", "category": "model", "name": "Model", "currentValue": "small",
                "options": [{"value": "small", "name": "Small"}, {"value": "large", "name": "Large"}]}],
        })
    }

    fn id(&self) -> String {
        self.open.as_ref().map(|open| open.id.clone()).unwrap_or_default()
    }

    /// Tells everything that was said, as a load wants it.
    fn replay(&self) {
        for (n, (role, text)) in self.open.iter().flat_map(|open| &open.said).enumerate() {
            let kind = if role == "user" { "user_message_chunk" } else { "agent_message_chunk" };
            self.update(json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}, "messageId": n.to_string()}));
        }
    }

    fn update(&self, update: Value) {
        send(
            &json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": self.id(), "update": update}}),
        );
    }

    fn say(&self, words: &str) {
        self.update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": words}}));
    }

    /// Asks the client something; its answer comes later, under this number.
    fn request(&mut self, method: &str, mut params: Value) -> u64 {
        params["sessionId"] = self.id().into();
        let id = self.next;
        self.next += 1;
        send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Waits for an answer, and hears what else comes meanwhile. Without anybody there, the process ends.
    fn answer(&mut self, id: u64) -> Value {
        loop {
            if let Some(answer) = self.answers.remove(&id) {
                return answer;
            }
            if !self.pump(None) {
                std::process::exit(0);
            }
        }
    }
}
