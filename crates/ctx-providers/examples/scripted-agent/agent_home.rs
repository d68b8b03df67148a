//! The agent's directory: conversations, one file each, and logs.

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The directory and the habits of the agent.
#[derive(Clone)]
pub(crate) struct Home {
    dir: PathBuf,
    habits: Vec<String>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Conversation {
    pub(crate) id: String,
    /// Role and text of each message.
    pub(crate) messages: Vec<(String, String)>,
    /// Steps of the open prompt that are not completed.
    pub(crate) open_steps: Vec<String>,
    /// Id of the process that opened it last.
    pub(crate) process: u32,
}

impl Conversation {
    pub(crate) fn new() -> Self {
        let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos());
        Self {
            id: format!("conversation-{now}-{}", std::process::id()),
            messages: Vec::new(),
            open_steps: Vec::new(),
            process: 0,
        }
    }

    pub(crate) fn add(&mut self, role: &str, text: &str) {
        self.messages.push((role.to_owned(), text.to_owned()));
    }

    /// Whether another running process has opened it.
    pub(crate) fn is_open_elsewhere(&self) -> bool {
        let stat =
            std::fs::read_to_string(format!("/proc/{}/stat", self.process)).unwrap_or_default();
        self.process != std::process::id()
            && stat.contains("(scripted-agent)")
            && !stat.contains(") Z ")
    }
}

impl Home {
    pub(crate) fn open() -> Self {
        let dir = PathBuf::from(std::env::var_os("AGENT_HOME").expect("AGENT_HOME is set"));
        std::fs::create_dir_all(&dir).expect("a directory");
        let habits = std::env::var("AGENT_HABITS")
            .unwrap_or_default()
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        Self { dir, habits }
    }

    pub(crate) fn has_habit(&self, habit: &str) -> bool {
        self.habits.iter().any(|known| known == habit)
    }

    pub(crate) fn conversation(&self, id: &str) -> Option<Conversation> {
        serde_json::from_slice(&std::fs::read(self.dir.join(format!("{id}.json"))).ok()?).ok()
    }

    pub(crate) fn store(&self, conversation: &Conversation) {
        let bytes = serde_json::to_vec(conversation).expect("JSON");
        let (new, path) = (
            self.dir.join(format!("{}.new", conversation.id)),
            self.dir.join(format!("{}.json", conversation.id)),
        );
        std::fs::write(&new, bytes).and_then(|()| std::fs::rename(&new, path)).expect("stored");
    }

    /// Logs a prompt and all user messages of the conversation.
    pub(crate) fn log_prompt(&self, conversation: &Conversation, blocks: &[String]) {
        let known: Vec<&str> = conversation
            .messages
            .iter()
            .filter(|(role, _)| role == "user")
            .map(|(_, text)| text.as_str())
            .collect();
        let record = json!({"conversation": conversation.id, "pid": std::process::id(),
            "prompt": blocks, "known": known});
        self.append("prompts.jsonl", &record);
    }

    pub(crate) fn event(&self, mut event: Value) {
        event["pid"] = std::process::id().into();
        self.append("events.jsonl", &event);
    }

    fn append(&self, name: &str, record: &Value) {
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.dir.join(name))
            .expect("a file");
        file.write_all(format!("{record}\n").as_bytes()).expect("written");
    }

    /// The steps that a test gave for the next prompt, whatever its text is. They are used once.
    pub(crate) fn take_next_steps(&self) -> Option<String> {
        let path = self.dir.join("next-steps");
        let steps = std::fs::read_to_string(&path).ok()?;
        std::fs::remove_file(path).ok()?;
        Some(steps)
    }

    /// Logs that the agent waits at a gate, and waits until a test creates the gate's file.
    pub(crate) fn wait(&self, gate: &str) {
        self.event(json!({"what": "waits", "at": gate}));
        while !self.is_open(gate) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn open_gate(&self, gate: &str) {
        std::fs::write(self.dir.join(gate), "").expect("a gate");
    }

    pub(crate) fn is_open(&self, gate: &str) -> bool {
        self.dir.join(gate).exists()
    }
}
