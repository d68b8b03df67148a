//! What is searched: the text of a turn, or of a part of a task's record.

use std::collections::HashSet;

use serde_json::Value;

use crate::commit::Commit;
use crate::id::{BlobId, MessageId};
use crate::message::{Message, Part, Role};
use crate::step::{Entry, Step};
use crate::stored_content::Content;
use crate::time::Timestamp;

use super::tokens;

/// Most bytes of one output that are searched: its beginning and its end.
pub const OUTPUT_BYTES_MAX: usize = 256 << 10;
/// Bytes of them that are taken from the end.
const OUTPUT_END_BYTES: usize = 64 << 10;
/// Most bytes of a document that are searched.
pub const DOCUMENT_BYTES_MAX: usize = 2 << 20;
/// Most bytes of all words of a document in the index. PostgreSQL accepts one megabyte.
const WORDS_BYTES_MAX: usize = 900_000;
/// Deepest level of a tool's parameters that is searched.
const PARAMS_DEPTH_MAX: usize = 16;
/// Most parts of a path that a filter compares.
const PATH_PARTS_MAX: usize = 12;
/// Begins the words that stand for what a filter compares. No text contains such a word.
const MARK: char = '\u{E000}';

/// How much a match in a passage counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// The description of a task or the message of a commit.
    Summary,
    /// Text of a user or an agent.
    Text,
    /// A tool call, a command or a file.
    Call,
    /// What a tool returned.
    Output,
}

/// A text of a document.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Passage {
    pub text: String,
    pub weight: Weight,
    pub role: Option<Role>,
    pub message: Option<MessageId>,
    pub at: Timestamp,
}

/// A document of the index.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Document {
    /// Its texts in order.
    pub passages: Vec<Passage>,
    /// Names of the tools that were called, in lower case.
    pub tools: Vec<String>,
    /// Paths that were read or written, in lower case.
    pub files: Vec<String>,
    /// Sum of the lengths of the texts.
    pub(super) bytes: usize,
}

impl Document {
    /// The document of a turn. `blob` reads the beginning and the end of a stored output.
    pub fn of_turn(messages: &[Message], blob: &dyn Fn(BlobId) -> Option<String>) -> Self {
        let mut document = Self::default();
        for message in messages {
            for part in &message.content {
                document.add_part(message, part, blob);
            }
        }
        document
    }

    /// The document of some steps of a task.
    pub fn of_steps(
        description: &str,
        steps: &[Step],
        commit: Option<&Commit>,
        blob: &dyn Fn(BlobId) -> Option<String>,
    ) -> Self {
        let mut document = Self::default();
        let started = steps.first().map_or(Timestamp(0), |step| step.timestamp);
        document.record(Weight::Summary, started, description.to_owned());
        if let Some(commit) = commit {
            document.record(Weight::Summary, commit.created_at, commit.message.clone());
        }
        for step in steps {
            let (files, at) = (step.files(), step.timestamp);
            document.files.extend(files.iter().map(|touch| touch.path.to_lowercase()));
            for entry in &step.payload {
                let weight = match entry {
                    // Every document of the task has it.
                    Entry::Task { .. } => continue,
                    Entry::Note { .. } | Entry::Plan { .. } => Weight::Text,
                    _ => Weight::Call,
                };
                if let Some(text) = entry.searchable_text() {
                    document.record(weight, at, text);
                }
                if let Entry::Command { output: Some(output), .. } = entry {
                    document.record(Weight::Output, at, output_text(output, blob));
                }
            }
        }
        document
    }

    fn add_part(
        &mut self,
        message: &Message,
        part: &Part,
        blob: &dyn Fn(BlobId) -> Option<String>,
    ) {
        let (weight, text) = match part {
            Part::ToolCall { name, params, .. } => {
                self.tools.push(name.to_lowercase());
                let mut text = name.clone();
                self.add_params(None, params, &mut text, 0);
                (Weight::Call, text)
            }
            Part::ToolResult { content, .. } => (Weight::Output, output_text(content, blob)),
            Part::Plan { entries } => {
                let mut text = String::new();
                self.add_params(None, entries, &mut text, 0);
                (Weight::Text, text)
            }
            other => (Weight::Text, other.searchable_text().unwrap_or_default().to_owned()),
        };
        let (role, id, at) = (Some(message.role), Some(message.id), message.created_at);
        self.add(Passage { text, weight, role, message: id, at });
    }

    /// Adds the values of parameters to the text of a call, and the paths among them to the files.
    fn add_params(&mut self, key: Option<&str>, value: &Value, text: &mut String, depth: usize) {
        const PATHS: [&str; 4] = ["path", "file", "filename", "uri"];
        if depth > PARAMS_DEPTH_MAX {
            return;
        }
        match value {
            Value::String(value) => {
                let key = key.unwrap_or_default().to_lowercase();
                if PATHS.iter().any(|name| key.ends_with(name)) && !value.contains('\n') {
                    let path = value.strip_prefix("file://").unwrap_or(value);
                    self.files.push(path.to_lowercase());
                }
                push_line(text, value);
            }
            Value::Number(value) => push_line(text, &value.to_string()),
            Value::Array(values) => {
                values.iter().for_each(|value| self.add_params(key, value, text, depth + 1));
            }
            Value::Object(values) => {
                for (key, value) in values {
                    self.add_params(Some(key), value, text, depth + 1);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn record(&mut self, weight: Weight, at: Timestamp, text: String) {
        self.add(Passage { text, weight, role: None, message: None, at });
    }

    fn add(&mut self, mut passage: Passage) {
        let left = DOCUMENT_BYTES_MAX.saturating_sub(self.bytes);
        if passage.text.len() > left {
            passage.text.truncate(passage.text.floor_char_boundary(left));
        }
        if !passage.text.is_empty() {
            self.bytes += passage.text.len();
            self.passages.push(passage);
        }
    }

    /// Sum of the lengths of the texts in bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The words under which the index has the document, each once, separated by spaces. `marks`
    /// are those of its session and project.
    pub fn index_words(&self, marks: &[String]) -> String {
        let mut words = Words::default();
        marks.iter().for_each(|mark| words.add(mark));
        for role in self.passages.iter().filter_map(|passage| passage.role) {
            words.add(&role_mark(role_name(role)));
        }
        for tool in &self.tools {
            words.add(&mark('t', tool));
            tokens::for_each(tool, |token| words.add(&mark('t', token.text)));
        }
        for file in &self.files {
            path_values(file, |value| words.add(&mark('f', value)));
        }
        for passage in &self.passages {
            tokens::for_each(&passage.text, |token| words.add(token.text));
        }
        words.list
    }

    /// Whether a tool was called: by its name or by a word of its name.
    pub fn has_tool(&self, value: &str) -> bool {
        self.tools.iter().any(|tool| {
            let mut found = tool == value;
            tokens::for_each(tool, |token| found |= token.text == value);
            found
        })
    }

    /// Whether a file was read or written: by its path, the end of its path, or a part of it.
    pub fn has_file(&self, value: &str) -> bool {
        let value = path_filter(value);
        self.files.iter().any(|file| {
            let mut found = false;
            path_values(file, |known| found |= known == value);
            found
        })
    }
}

/// Distinct words.
#[derive(Default)]
struct Words {
    list: String,
    hashes: HashSet<u64>,
}

impl Words {
    fn add(&mut self, word: &str) {
        if self.list.len() + word.len() < WORDS_BYTES_MAX && self.hashes.insert(hash(word)) {
            if !self.list.is_empty() {
                self.list.push(' ');
            }
            self.list.push_str(word);
        }
    }
}

/// FNV-1a.
fn hash(word: &str) -> u64 {
    word.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    })
}

/// A path as a filter compares it.
pub(super) fn path_filter(value: &str) -> &str {
    value.trim_start_matches("./").trim_matches('/')
}

/// The values of a filter that a path satisfies: its ends, and each of its parts.
fn path_values(path: &str, mut emit: impl FnMut(&str)) {
    let path = path_filter(path);
    let slashes: Vec<usize> = path.match_indices(['/', '\\']).map(|(at, _)| at).collect();
    let from = slashes.len().saturating_sub(PATH_PARTS_MAX);
    emit(path);
    for (n, at) in slashes.iter().enumerate().skip(from) {
        emit(&path[at + 1..]);
        let start = n.checked_sub(1).map_or(0, |n| slashes[n] + 1);
        emit(&path[start..*at]);
    }
}

/// The word of the index for a value of a filter.
pub(super) fn mark(kind: char, value: &str) -> String {
    // A collision selects a document that does not match in the end.
    format!("{MARK}{kind}{:016x}", hash(value))
}

/// The word of the index for a role.
pub(super) fn role_mark(role: &str) -> String {
    format!("{MARK}r{role}")
}

/// The word of the index for the session that a document belongs to, by its row.
pub fn session_mark(row: i64) -> String {
    format!("{MARK}s{row}")
}

/// The word of the index for a project.
pub fn project_mark(project: &str) -> String {
    mark('p', &project.to_lowercase())
}

/// Whether a word of the index stands for a filter.
pub fn is_mark(word: &str) -> bool {
    word.starts_with(MARK)
}

/// The name of a role in a query.
pub(super) const fn role_name(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::System => "system",
        Role::Tool => "tool",
    }
}

fn push_line(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

fn output_text(content: &Content, blob: &dyn Fn(BlobId) -> Option<String>) -> String {
    match content {
        Content::Text(text) => text.clone(),
        Content::Blob { blob: id, .. } => blob(*id).unwrap_or_default(),
        Content::Omitted { .. } => String::new(),
    }
}

/// What is searched of a stored output: its beginning and its end. Binary data is not searched.
pub fn clip_output(bytes: &[u8]) -> Option<String> {
    let clipped = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        (!text.contains('\0')).then_some(text)
    };
    // The cut may be inside of a character.
    let is_text = |text: &str| {
        let wrong = text.chars().filter(|c| *c == char::REPLACEMENT_CHARACTER).count();
        wrong * 20 <= text.chars().count().max(20)
    };
    let text = if bytes.len() <= OUTPUT_BYTES_MAX {
        clipped(bytes)?
    } else {
        let begin = clipped(&bytes[..OUTPUT_BYTES_MAX - OUTPUT_END_BYTES])?;
        let end = clipped(&bytes[bytes.len() - OUTPUT_END_BYTES..])?;
        format!("{begin}\n…\n{end}")
    };
    is_text(&text).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_large_output_are_searched() {
        let output = format!("first {} last", "x ".repeat(OUTPUT_BYTES_MAX));
        let text = clip_output(output.as_bytes()).expect("text");
        assert!(text.starts_with("first") && text.ends_with("last"));
        assert!(text.len() <= OUTPUT_BYTES_MAX + 10);
        assert_eq!(clip_output(b"\0\x01binary"), None);
        assert_eq!(clip_output(&[0xFF; 100]), None);
    }

    #[test]
    fn a_path_is_found_by_its_end_and_by_each_part() {
        let document =
            Document { files: vec!["/home/me/src/client.rs".to_owned()], ..Document::default() };
        for value in
            ["client.rs", "src/client.rs", "./src/client.rs", "src", "/home/me/src/client.rs"]
        {
            assert!(document.has_file(value), "{value}");
        }
        for value in ["client", "rs", "me/src", "lient.rs", ""] {
            assert!(!document.has_file(value), "{value}");
        }
    }
}
