//! What the agent keeps: its conversations, one file each, and its records.

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Its directory and its habits.
#[derive(Clone)]
pub(crate) struct Home {
    dir: PathBuf,
    habits: Vec<String>,
}

/// A conversation of its own.
#[derive(Serialize, Deserialize)]
pub(crate) struct Conversation {
    pub(crate) id: String,
    /// Who said what.
    pub(crate) said: Vec<(String, String)>,
    /// The steps of the open prompt that are not done.
    pub(crate) doing: Vec<String>,
    /// The process that has it open.
    pub(crate) holder: u32,
}

impl Conversation {
    pub(crate) fn new() -> Self {
        let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos());
        Self {
            id: format!("conversation-{now}-{}", std::process::id()),
            said: Vec::new(),
            doing: Vec::new(),
            holder: 0,
        }
    }

    pub(crate) fn add(&mut self, role: &str, words: &str) {
        self.said.push((role.to_owned(), words.to_owned()));
    }

    /// Whether another process that still lives has it open.
    pub(crate) fn is_held(&self) -> bool {
        let stat =
            std::fs::read_to_string(format!("/proc/{}/stat", self.holder)).unwrap_or_default();
        self.holder != std::process::id()
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

    /// Whether it has a habit.
    pub(crate) fn has(&self, habit: &str) -> bool {
        self.habits.iter().any(|known| known == habit)
    }

    pub(crate) fn conversation(&self, id: &str) -> Option<Conversation> {
        serde_json::from_slice(&std::fs::read(self.dir.join(format!("{id}.json"))).ok()?).ok()
    }

    pub(crate) fn keep(&self, conversation: &Conversation) {
        let bytes = serde_json::to_vec(conversation).expect("JSON");
        let (new, path) = (
            self.dir.join(format!("{}.new", conversation.id)),
            self.dir.join(format!("{}.json", conversation.id)),
        );
        std::fs::write(&new, bytes).and_then(|()| std::fs::rename(&new, path)).expect("kept");
    }

    /// Records a prompt, and everything that it knows of what the user said.
    pub(crate) fn prompted(&self, conversation: &Conversation, blocks: &[String]) {
        let known: Vec<&str> = conversation
            .said
            .iter()
            .filter(|(role, _)| role == "user")
            .map(|(_, text)| text.as_str())
            .collect();
        let record = json!({"conversation": conversation.id, "pid": std::process::id(), "prompt": blocks, "known": known});
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

    /// Says that it waits at a gate, and waits until a test opens it.
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
