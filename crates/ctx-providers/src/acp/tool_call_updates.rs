//! Merges the updates of tool calls into deltas of the turn and entries of the task.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use ctx_core::message::ToolStatus;
use ctx_core::step;
use ctx_core::stored_content::Content;
use ctx_engine::provider::Delta;
use serde_json::{Value, json};
use similar::TextDiff;

use super::agent_terminals;
use crate::task_observations;

/// Larger texts are not compared line by line.
const DIFF_MAX_BYTES: usize = 256 * 1024;
/// Maximum output of a tool that is kept.
const OUTPUT_MAX_BYTES: usize = 1024 * 1024;
/// Maximum number of calls in one turn; updates of further calls are ignored.
const CALLS_MAX: usize = 4096;

/// The tool calls of the open prompt.
#[derive(Default)]
pub(super) struct ToolCalls {
    by_id: HashMap<String, Call>,
    /// Files that ctx read or wrote for the agent, and whether it was a write. They were reported
    /// already and are not reported again with the call.
    served_files: HashSet<(PathBuf, bool)>,
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
    /// Terminal output of agents that send it in fragments.
    terminal_output: String,
    exit: Option<i32>,
    status: Option<ToolStatus>,
}

impl ToolCalls {
    /// Applies a `tool_call` or a `tool_call_update`; either may be the first one of a call.
    pub(super) fn apply(&mut self, update: &Value, working_dir: &Path) -> Vec<Delta> {
        self.merge_update(update, working_dir, false)
    }

    /// Applies the call of a permission request. Some agents send the input only here, others send
    /// a shortened one.
    pub(super) fn apply_permission_request(
        &mut self,
        call: &Value,
        working_dir: &Path,
    ) -> Vec<Delta> {
        self.merge_update(call, working_dir, true)
    }

    fn merge_update(
        &mut self,
        update: &Value,
        working_dir: &Path,
        is_permission_request: bool,
    ) -> Vec<Delta> {
        let Some(id) = update.get("toolCallId").and_then(Value::as_str) else { return Vec::new() };
        let is_new = !self.by_id.contains_key(id);
        if is_new && self.by_id.len() >= CALLS_MAX {
            return Vec::new();
        }
        let call = self.by_id.entry(id.to_owned()).or_default();
        let before = (call.name.clone(), call.params());
        let has_ended = matches!(call.status, Some(ToolStatus::Completed | ToolStatus::Failed));
        let (input, content) = (call.input.clone(), call.content.clone());
        call.merge(id, update);
        if is_permission_request {
            // The text of a permission request is not output of the tool. Its diff is kept.
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
        if let Some(status) = status.filter(|status| !has_ended && call.status != Some(*status)) {
            call.status = Some(status);
            match status {
                ToolStatus::Completed | ToolStatus::Failed => {
                    let is_error = status == ToolStatus::Failed;
                    deltas.push(Delta::ToolResult {
                        id: id.to_owned(),
                        content: call.result_text(),
                        is_error,
                    });
                    if !is_error {
                        deltas.extend(
                            call.entries(working_dir, &self.served_files)
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

    /// Records that ctx read or wrote a file for the agent.
    pub(super) fn file_served(&mut self, path: PathBuf, is_write: bool) {
        if self.served_files.len() < CALLS_MAX {
            self.served_files.insert((path, is_write));
        }
    }

    /// The tool name of a call.
    pub(super) fn name(&self, id: &str) -> String {
        self.by_id.get(id).map_or_else(|| "tool".to_owned(), |call| call.name.clone())
    }

    /// Forgets the calls of the previous prompt.
    pub(super) fn clear(&mut self) {
        self.by_id.clear();
        self.served_files.clear();
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
        let name = text("name").or_else(|| meta.map(str::to_owned));
        if let Some(title) = text("title") {
            if self.title.is_empty()
                && self.name.is_empty()
                && name.is_none()
                && is_tool_name(&title)
            {
                // Some agents send the tool's name as the first title.
                self.name.clone_from(&title);
            }
            self.title = title;
        }
        if let Some(name) = name {
            self.name = name;
        } else if self.name.is_empty() {
            // Some agents send the tool's name as a prefix of the call id.
            let prefix =
                id.split_once("__").map(|(name, _)| name).filter(|name| is_tool_name(name));
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
            && self.terminal_output.len() + more.len() <= OUTPUT_MAX_BYTES
        {
            self.terminal_output.push_str(more);
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

    /// The input for the turn; the title if the agent sent no input.
    fn params(&self) -> Value {
        if is_empty(&self.input) { json!({"title": self.title}) } else { self.input.clone() }
    }

    /// The result for the turn: output, or content, and diffs.
    fn result_text(&self) -> String {
        let mut parts = Vec::new();
        let output = self.output.as_ref().and_then(output_text);
        let texts = self.content.iter().filter_map(|item| item.pointer("/content/text")?.as_str());
        match output {
            Some(output) => parts.push(output),
            None if !self.terminal_output.is_empty() => parts.push(self.terminal_output.clone()),
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

    /// The task entries of a completed call.
    fn entries(
        &self,
        working_dir: &Path,
        served_files: &HashSet<(PathBuf, bool)>,
    ) -> Vec<step::Entry> {
        let paths = |is_write: bool| {
            self.paths(working_dir)
                .into_iter()
                .filter(move |path| !served_files.contains(&(path.clone(), is_write)))
        };
        match self.kind.as_str() {
            // A command in a terminal of ctx is reported when the terminal ends.
            "execute"
                if self.content.iter().any(|item| {
                    item["terminalId"]
                        .as_str()
                        .is_some_and(|id| id.starts_with(agent_terminals::ID_PREFIX))
                }) =>
            {
                Vec::new()
            }
            "execute" => {
                let command = ["command", "cmd"].iter().find_map(|key| self.input.get(key));
                let argv = match command {
                    Some(Value::String(line)) => task_observations::shell_argv(line),
                    Some(Value::Array(argv)) => {
                        argv.iter().filter_map(|part| part.as_str().map(str::to_owned)).collect()
                    }
                    _ => vec![self.title.clone()],
                };
                let output =
                    Some(self.result_text()).filter(|output| !output.is_empty()).map(Content::Text);
                vec![step::Entry::Command { argv, exit: self.exit, output }]
            }
            "read" => paths(false)
                .filter_map(|path| task_observations::file_read(&path, working_dir))
                .collect(),
            "edit" | "delete" | "move" => paths(true)
                .map(|path| task_observations::file_written(&path, working_dir))
                .collect(),
            _ => Vec::new(),
        }
    }

    /// The files of the call, from its locations, diffs and input.
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

fn is_tool_name(text: &str) -> bool {
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

/// The text in a tool's raw output, under the keys that agents use.
fn output_text(output: &Value) -> Option<String> {
    match output {
        Value::String(text) => Some(text.clone()),
        Value::Object(map) if map.is_empty() => None,
        Value::Object(map) => {
            let keys = [
                "output",
                "stdout",
                "aggregated_output",
                "formatted_output",
                "content",
                "text",
                "error",
            ];
            let found = keys.iter().find_map(|key| map.get(*key)?.as_str().map(str::to_owned));
            Some(found.unwrap_or_else(|| output.to_string()))
        }
        Value::Null => None,
        other => Some(other.to_string()),
    }
}

/// A `diff` content item as a unified diff.
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

    fn deltas_of(updates: &[Value]) -> Vec<Delta> {
        let mut calls = ToolCalls::default();
        updates.iter().flat_map(|update| calls.apply(update, Path::new("/nowhere"))).collect()
    }

    #[test]
    fn updates_of_one_call_are_merged() {
        let deltas = deltas_of(&[
            json!({"toolCallId": "t", "name": "Bash", "rawInput": {}, "status": "pending",
                "title": "Terminal", "kind": "execute"}),
            json!({"toolCallId": "t", "rawInput": {"command": "touch x"}, "title": "touch x"}),
            json!({"toolCallId": "t",
                "_meta": {"claudeCode": {"toolResponse": {"stdout": ""}, "toolName": "Bash"}}}),
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
                Delta::Observed(_) => "entries",
                _ => "other",
            })
            .collect();
        assert_eq!(kinds, ["call", "status", "input", "result", "entries"]);
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
    fn update_without_a_tool_call_starts_a_call() {
        let deltas =
            deltas_of(&[json!({"toolCallId": "t", "status": "completed", "title": "touch made",
                "kind": "execute", "content": []})]);
        assert!(
            matches!(&deltas[0], Delta::ToolCall { name, .. } if name == "execute"),
            "{deltas:?}"
        );
        assert!(matches!(&deltas[1], Delta::ToolResult { is_error: false, .. }), "{deltas:?}");
    }

    #[test]
    fn text_of_a_permission_request_is_not_the_result() {
        let text = json!({"type": "text", "text": "[current working directory /w]"});
        let request = json!({"toolCallId": "run__1", "status": "pending", "title": "touch x",
            "kind": "execute", "content": [{"type": "content", "content": text}]});
        let mut calls = ToolCalls::default();
        calls.apply_permission_request(&request, Path::new("/nowhere"));
        let deltas = calls.apply(
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
    fn terminal_output_and_exit_code_are_kept() {
        let deltas = deltas_of(&[
            json!({"toolCallId": "t", "name": "exec_command", "kind": "execute",
                "status": "in_progress", "rawInput": {"command": "echo hi"}}),
            json!({"toolCallId": "t", "status": "completed", "_meta": {
                "terminal_output_delta": {"data": "hi\n"}, "terminal_exit": {"exit_code": 3}}}),
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
    fn edited_file_is_shown_as_a_diff_and_reported_to_the_task() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a.txt");
        std::fs::write(&path, "one\nthree\n").expect("written");
        let (old, new) = ("one\ntwo\n", "one\nthree\n");
        let change = json!({"type": "diff", "path": path, "oldText": old, "newText": new});
        let update = json!({"toolCallId": "t", "kind": "edit", "status": "completed",
            "title": "Edit", "locations": [{"path": path}], "content": [change]});
        let deltas = ToolCalls::default().apply(&update, dir.path());
        let Some(Delta::ToolResult { content, .. }) = deltas.get(1) else { panic!("{deltas:?}") };
        assert!(content.contains("-two") && content.contains("+three"), "{content}");
        let content = Some(Content::Text("one\nthree\n".to_owned()));
        assert_eq!(
            deltas[2],
            Delta::Observed(step::Entry::FileWrite { path: "a.txt".to_owned(), content })
        );
    }
}
