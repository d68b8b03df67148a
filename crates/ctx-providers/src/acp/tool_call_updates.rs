//! An agent's tool calls, told step by step, folded into what the turn keeps and what the task observes.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use ctx_core::content::Content;
use ctx_core::message::ToolStatus;
use ctx_core::step;
use ctx_engine::provider::Delta;
use serde_json::{Value, json};
use similar::TextDiff;

use super::file_access::FileRequest;
use super::agent_terminals;
use crate::task_observations;

/// Texts of more than this are not compared line by line.
const DIFF_MAX_BYTES: usize = 256 * 1024;
/// How much output of a tool is kept.
const OUTPUT_MAX_BYTES: usize = 1024 * 1024;
/// The most calls that one turn follows; later ones are not told apart from unknown ones.
const CALLS_MAX: usize = 4096;

/// The calls of the open turn.
#[derive(Default)]
pub(super) struct Calls {
    known: HashMap<String, Call>,
    /// Files that ctx read or wrote for the agent, and whether it wrote: observed then, and not again with the call.
    served: HashSet<(PathBuf, bool)>,
}

#[derive(Default)]
struct Call {
    name: String,
    title: String,
    kind: String,
    input: Value,
    locations: Vec<String>,
    content: Vec<Value>,
    output: Option<Value>,
    /// What a terminal printed, where the agent tells that piece by piece.
    printed: String,
    exit: Option<i32>,
    status: Option<ToolStatus>,
}

impl Calls {
    /// Takes a `tool_call` or a `tool_call_update`: either may come first.
    pub(super) fn take(&mut self, update: &Value, working_dir: &Path) -> Vec<Delta> {
        self.fold(update, working_dir, false)
    }

    /// Takes the call that a permission is asked for. Some agents tell its input only here, others a shorter one.
    pub(super) fn take_asked(&mut self, call: &Value, working_dir: &Path) -> Vec<Delta> {
        self.fold(call, working_dir, true)
    }

    fn fold(&mut self, update: &Value, working_dir: &Path, asked: bool) -> Vec<Delta> {
        let Some(id) = update.get("toolCallId").and_then(Value::as_str) else { return Vec::new() };
        let is_new = !self.known.contains_key(id);
        if is_new && self.known.len() >= CALLS_MAX {
            return Vec::new();
        }
        let call = self.known.entry(id.to_owned()).or_default();
        let before = (call.name.clone(), call.params());
        let is_over = matches!(call.status, Some(ToolStatus::Completed | ToolStatus::Failed));
        let (input, content) = (call.input.clone(), call.content.clone());
        call.merge(id, update);
        if asked {
            // What is asked about a call is not what it answered; the change that it wants to make stays one.
            call.content.retain(|item| item.get("type").and_then(Value::as_str) == Some("diff"));
            if !content.is_empty() {
                call.content = content;
            }
            if !is_empty(&input) {
                call.input = input;
            }
        }
        let now = (call.name.clone(), call.params());
        let mut deltas = Vec::new();
        if is_new {
            deltas.push(Delta::ToolCall { id: id.to_owned(), name: now.0, params: now.1 });
        } else if before != now {
            deltas.push(Delta::ToolInput { id: id.to_owned(), name: now.0, params: now.1 });
        }
        let status = update.get("status").and_then(Value::as_str).and_then(status);
        if let Some(status) = status.filter(|status| !is_over && call.status != Some(*status)) {
            call.status = Some(status);
            match status {
                ToolStatus::Completed | ToolStatus::Failed => {
                    let is_error = status == ToolStatus::Failed;
                    deltas.push(Delta::ToolResult {
                        id: id.to_owned(),
                        content: call.said(),
                        is_error,
                    });
                    if !is_error {
                        deltas.extend(
                            call.observed(working_dir, &self.served)
                                .into_iter()
                                .map(Delta::Observed),
                        );
                    }
                }
                _ => deltas.push(Delta::ToolStatus { id: id.to_owned(), status }),
            }
        }
        deltas
    }

    /// A file was read or written for the agent.
    pub(super) fn served(
        &mut self,
        request: &FileRequest,
        working_dir: &Path,
    ) -> Option<step::Entry> {
        let writes = request.content.is_some();
        if self.served.len() < CALLS_MAX {
            self.served.insert((request.path.clone(), writes));
        }
        if writes {
            Some(task_observations::written(&request.path, working_dir))
        } else {
            task_observations::read(&request.path, working_dir)
        }
    }

    /// The name by which a call is known.
    pub(super) fn name(&self, id: &str) -> String {
        self.known.get(id).map_or_else(|| "tool".to_owned(), |call| call.name.clone())
    }

    /// A new turn has begun.
    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.served.clear();
    }
}

fn status(name: &str) -> Option<ToolStatus> {
    match name {
        "pending" => Some(ToolStatus::Pending),
        "in_progress" => Some(ToolStatus::Running),
        "completed" => Some(ToolStatus::Completed),
        "failed" => Some(ToolStatus::Failed),
        _ => None,
    }
}

impl Call {
    fn merge(&mut self, id: &str, update: &Value) {
        let text = |key: &str| {
            update
                .get(key)
                .and_then(Value::as_str)
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
        };
        if let Some(kind) = text("kind") {
            self.kind = kind;
        }
        let meta = ["/_meta/claudeCode/toolName", "/_meta/toolName"]
            .iter()
            .find_map(|path| update.pointer(path)?.as_str());
        let told = text("name").or_else(|| meta.map(str::to_owned));
        if let Some(title) = text("title") {
            if self.title.is_empty() && self.name.is_empty() && told.is_none() && is_word(&title) {
                // Some agents first give the tool's name as the title.
                self.name.clone_from(&title);
            }
            self.title = title;
        }
        if let Some(told) = told {
            self.name = told;
        } else if self.name.is_empty() {
            // Some put the tool's name before the call's number.
            let prefix = id.split_once("__").map(|(name, _)| name).filter(|name| is_word(name));
            self.name = prefix
                .or(Some(self.kind.as_str()))
                .filter(|name| !name.is_empty())
                .unwrap_or("tool")
                .to_owned();
        }
        if let Some(input) = update.get("rawInput").filter(|input| !is_empty(input)) {
            self.input = input.clone();
        }
        if let Some(Value::Array(content)) =
            update.get("content").filter(|content| !is_empty(content))
        {
            self.content.clone_from(content);
        }
        if let Some(Value::Array(locations)) =
            update.get("locations").filter(|locations| !is_empty(locations))
        {
            self.locations = locations
                .iter()
                .filter_map(|at| Some(at.get("path")?.as_str()?.to_owned()))
                .collect();
        }
        if let Some(output) = update.get("rawOutput").filter(|output| !output.is_null()) {
            self.output = Some(output.clone());
        }
        if let Some(more) =
            update.pointer("/_meta/terminal_output_delta/data").and_then(Value::as_str)
            && self.printed.len() + more.len() <= OUTPUT_MAX_BYTES
        {
            self.printed.push_str(more);
        }
        let exit = [
            "/_meta/terminal_exit/exit_code",
            "/rawOutput/metadata/exit",
            "/rawOutput/exit_code",
            "/rawOutput/exitCode",
        ];
        if let Some(code) = exit.iter().find_map(|path| update.pointer(path)?.as_i64()) {
            self.exit = i32::try_from(code).ok();
        }
    }

    /// What the turn shows as its input.
    fn params(&self) -> Value {
        if is_empty(&self.input) { json!({"title": self.title}) } else { self.input.clone() }
    }

    /// What the turn shows as its result.
    fn said(&self) -> String {
        let mut parts = Vec::new();
        let output = self.output.as_ref().and_then(words);
        let texts = self.content.iter().filter_map(|item| item.pointer("/content/text")?.as_str());
        match output {
            Some(output) => parts.push(output),
            None if !self.printed.is_empty() => parts.push(self.printed.clone()),
            None => parts.extend(texts.map(str::to_owned)),
        }
        parts.extend(self.content.iter().filter_map(diff));
        let mut text = parts.join("\n");
        if text.len() > OUTPUT_MAX_BYTES {
            let end =
                (0..=OUTPUT_MAX_BYTES).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            text.truncate(end);
        }
        text
    }

    /// What it did, for the task.
    fn observed(&self, working_dir: &Path, served: &HashSet<(PathBuf, bool)>) -> Vec<step::Entry> {
        let paths = |writes: bool| {
            self.paths(working_dir)
                .into_iter()
                .filter(move |path| !served.contains(&(path.clone(), writes)))
        };
        match self.kind.as_str() {
            // A command that ctx ran for it is observed by itself.
            "execute"
                if self.content.iter().any(|item| {
                    item["terminalId"].as_str().is_some_and(|id| id.starts_with(agent_terminals::NAME))
                }) =>
            {
                Vec::new()
            }
            "execute" => {
                let command = ["command", "cmd"].iter().find_map(|key| self.input.get(key));
                let argv = match command {
                    Some(Value::String(line)) => task_observations::shell(line),
                    Some(Value::Array(argv)) => {
                        argv.iter().filter_map(|part| part.as_str().map(str::to_owned)).collect()
                    }
                    _ => vec![self.title.clone()],
                };
                let output =
                    Some(self.said()).filter(|output| !output.is_empty()).map(Content::Text);
                vec![step::Entry::Command { argv, exit: self.exit, output }]
            }
            "read" => paths(false).filter_map(|path| task_observations::read(&path, working_dir)).collect(),
            "edit" | "delete" | "move" => {
                paths(true).map(|path| task_observations::written(&path, working_dir)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The files that it was about.
    fn paths(&self, working_dir: &Path) -> Vec<PathBuf> {
        let keys = ["file_path", "filePath", "filepath", "path", "absolute_path"];
        let named = keys.iter().find_map(|key| self.input.get(key)?.as_str().map(str::to_owned));
        let changed =
            self.content.iter().filter_map(|item| item.get("path")?.as_str().map(str::to_owned));
        let mut paths: Vec<PathBuf> = Vec::new();
        for path in self.locations.iter().cloned().chain(changed).chain(named) {
            let path = working_dir.join(path);
            if !paths.contains(&path) && !path.is_dir() {
                paths.push(path);
            }
        }
        paths
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 64
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// The words in a tool's raw output, wherever agents put them.
fn words(output: &Value) -> Option<String> {
    match output {
        Value::String(text) => Some(text.clone()),
        Value::Object(map) if map.is_empty() => None,
        Value::Object(map) => {
            let known = [
                "output",
                "stdout",
                "aggregated_output",
                "formatted_output",
                "content",
                "text",
                "error",
            ];
            let found = known.iter().find_map(|key| map.get(*key)?.as_str().map(str::to_owned));
            Some(found.unwrap_or_else(|| output.to_string()))
        }
        Value::Null => None,
        other => Some(other.to_string()),
    }
}

/// A change of a file, as people read it.
fn diff(item: &Value) -> Option<String> {
    if item.get("type")?.as_str()? != "diff" {
        return None;
    }
    let path = item.get("path").and_then(Value::as_str).unwrap_or("file");
    let old = item.get("oldText").and_then(Value::as_str).unwrap_or_default();
    let new = item.get("newText").and_then(Value::as_str).unwrap_or_default();
    if old.len() + new.len() > DIFF_MAX_BYTES {
        return Some(format!(
            "--- {path}\n+++ {path}\n(too large to compare: {} bytes before, {} after)",
            old.len(),
            new.len()
        ));
    }
    Some(
        TextDiff::from_lines(old, new)
            .unified_diff()
            .context_radius(3)
            .header(path, path)
            .to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(updates: &[Value]) -> Vec<Delta> {
        let mut calls = Calls::default();
        updates.iter().flat_map(|update| calls.take(update, Path::new("/nowhere"))).collect()
    }

    #[test]
    fn a_call_told_in_pieces_is_one_call() {
        let deltas = told(&[
            json!({"toolCallId": "t", "name": "Bash", "rawInput": {}, "status": "pending", "title": "Terminal", "kind": "execute"}),
            json!({"toolCallId": "t", "rawInput": {"command": "touch x"}, "title": "touch x"}),
            json!({"toolCallId": "t", "_meta": {"claudeCode": {"toolResponse": {"stdout": ""}, "toolName": "Bash"}}}),
            json!({"toolCallId": "t", "status": "completed", "rawOutput": "done"}),
            json!({"toolCallId": "t", "status": "completed", "rawOutput": "done"}),
        ]);
        let kinds: Vec<&str> = deltas
            .iter()
            .map(|delta| match delta {
                Delta::ToolCall { .. } => "call",
                Delta::ToolInput { .. } => "input",
                Delta::ToolStatus { .. } => "status",
                Delta::ToolResult { .. } => "result",
                Delta::Observed(_) => "observed",
                _ => "other",
            })
            .collect();
        assert_eq!(kinds, ["call", "status", "input", "result", "observed"]);
        assert_eq!(
            deltas[2],
            Delta::ToolInput {
                id: "t".to_owned(),
                name: "Bash".to_owned(),
                params: json!({"command": "touch x"})
            }
        );
        assert_eq!(
            deltas[3],
            Delta::ToolResult { id: "t".to_owned(), content: "done".to_owned(), is_error: false }
        );
        let argv = ["sh", "-c", "touch x"].map(str::to_owned).to_vec();
        let output = Some(Content::Text("done".to_owned()));
        assert_eq!(deltas[4], Delta::Observed(step::Entry::Command { argv, exit: None, output }));
    }

    #[test]
    fn an_update_without_its_call_is_a_call() {
        let deltas = told(&[
            json!({"toolCallId": "t", "status": "completed", "title": "touch made", "kind": "execute", "content": []}),
        ]);
        assert!(
            matches!(&deltas[0], Delta::ToolCall { name, .. } if name == "execute"),
            "{deltas:?}"
        );
        assert!(matches!(&deltas[1], Delta::ToolResult { is_error: false, .. }), "{deltas:?}");
    }

    #[test]
    fn what_was_asked_is_not_the_answer() {
        let asked = json!({"toolCallId": "run__1", "status": "pending", "title": "touch x", "kind": "execute",
            "content": [{"type": "content", "content": {"type": "text", "text": "[current working directory /w]"}}]});
        let mut calls = Calls::default();
        calls.take_asked(&asked, Path::new("/nowhere"));
        let deltas = calls.take(
            &json!({"toolCallId": "run__1", "status": "completed", "content": []}),
            Path::new("/nowhere"),
        );
        assert!(
            deltas.contains(&Delta::ToolResult {
                id: "run__1".to_owned(),
                content: String::new(),
                is_error: false
            }),
            "{deltas:?}"
        );
    }

    #[test]
    fn what_a_terminal_printed_and_how_it_ended_are_kept() {
        let deltas = told(&[
            json!({"toolCallId": "t", "name": "exec_command", "kind": "execute", "status": "in_progress", "rawInput": {"command": "echo hi"}}),
            json!({"toolCallId": "t", "status": "completed", "_meta": {"terminal_output_delta": {"data": "hi\n"}, "terminal_exit": {"exit_code": 3}}}),
        ]);
        assert!(
            deltas.contains(&Delta::ToolResult {
                id: "t".to_owned(),
                content: "hi\n".to_owned(),
                is_error: false
            }),
            "{deltas:?}"
        );
        assert!(
            matches!(
                deltas.last(),
                Some(Delta::Observed(step::Entry::Command { exit: Some(3), .. }))
            ),
            "{deltas:?}"
        );
    }

    #[test]
    fn a_change_of_a_file_is_shown_as_a_diff_and_observed() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a.txt");
        std::fs::write(&path, "one\nthree\n").expect("written");
        let update = json!({"toolCallId": "t", "kind": "edit", "status": "completed", "title": "Edit", "locations": [{"path": path}],
            "content": [{"type": "diff", "path": path, "oldText": "one\ntwo\n", "newText": "one\nthree\n"}]});
        let deltas = Calls::default().take(&update, dir.path());
        let Some(Delta::ToolResult { content, .. }) = deltas.get(1) else { panic!("{deltas:?}") };
        assert!(content.contains("-two") && content.contains("+three"), "{content}");
        let content = Some(Content::Text("one\nthree\n".to_owned()));
        assert_eq!(
            deltas[2],
            Delta::Observed(step::Entry::FileWrite { path: "a.txt".to_owned(), content })
        );
    }
}
