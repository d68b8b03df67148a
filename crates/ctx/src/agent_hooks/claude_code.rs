//! Claude Code: command hooks in `settings.json`, with one JSON document on standard input.
//!
//! Standard output of UserPromptSubmit and SessionStart would become context of the model, so a
//! hook prints nothing.

use std::path::PathBuf;

use serde_json::Value;

use super::entries::{EntryStyle, EventHook};
use super::hook_event::{Action, HookEvent, as_text, labelled_exit, path_at, plan_lines, text_at};
use super::{Form, HookedTool, home_dir, variable};

pub(super) struct ClaudeCode;

/// In seconds.
const TIMEOUT: u64 = 5;

const EVENTS: &[EventHook] = &[
    EventHook { event: "UserPromptSubmit", matcher: None, timeout: TIMEOUT },
    EventHook { event: "PostToolUse", matcher: Some("*"), timeout: TIMEOUT },
    EventHook { event: "PostToolUseFailure", matcher: Some("*"), timeout: TIMEOUT },
    EventHook { event: "Stop", matcher: None, timeout: TIMEOUT },
    EventHook { event: "SessionEnd", matcher: None, timeout: TIMEOUT },
];

impl HookedTool for ClaudeCode {
    fn name(&self) -> &'static str {
        "claude-code"
    }

    fn title(&self) -> &'static str {
        "Claude Code"
    }

    fn file(&self) -> Option<PathBuf> {
        let dir = variable("CLAUDE_CONFIG_DIR").or_else(|| Some(home_dir()?.join(".claude")))?;
        Some(dir.join("settings.json"))
    }

    fn form(&self) -> Form {
        Form::Entries(EntryStyle { tool: "claude-code", events: EVENTS, named: false })
    }

    fn parse(&self, event: &str, payload: &Value) -> HookEvent {
        match event {
            "UserPromptSubmit" => {
                HookEvent::Prompt(text_at(payload, "/prompt").unwrap_or_default())
            }
            "PostToolUse" => HookEvent::ToolUse(tool_use(payload, false)),
            "PostToolUseFailure" => HookEvent::ToolUse(tool_use(payload, true)),
            "Stop" => HookEvent::TurnEnd { text: text_at(payload, "/last_assistant_message") },
            "SessionEnd" => HookEvent::Closed { reason: text_at(payload, "/reason") },
            _ => HookEvent::Other,
        }
    }
}

fn tool_use(payload: &Value, failed: bool) -> Vec<Action> {
    let tool = text_at(payload, "/tool_name").unwrap_or_default();
    let file = || path_at(payload, &["/tool_input/file_path", "/tool_input/notebook_path"]);
    let action = match tool.as_str() {
        "Bash" => {
            text_at(payload, "/tool_input/command").map(|line| command(payload, line, failed))
        }
        "Write" | "Edit" | "MultiEdit" | "NotebookEdit" if !failed => file().map(Action::Changed),
        "Read" if !failed => file().map(Action::Read),
        "TodoWrite" => payload
            .pointer("/tool_input/todos")
            .and_then(|todos| plan_lines(todos, "content"))
            .map(Action::Plan),
        _ => None,
    };
    let other = || {
        let result = if failed { payload.get("error") } else { payload.get("tool_response") };
        Action::Other { tool, result: as_text(result), is_error: failed }
    };
    vec![action.unwrap_or_else(other)]
}

fn command(payload: &Value, line: String, failed: bool) -> Action {
    if failed {
        let error = text_at(payload, "/error").unwrap_or_default();
        let exit = labelled_exit(&error, "exit code");
        // The first line names the exit code, the output follows.
        let output = match (exit, error.split_once('\n')) {
            (Some(_), Some((_, output))) => output.to_owned(),
            (Some(_), None) => String::new(),
            (None, _) => error,
        };
        return Action::Command { line, exit, output: Some(output) };
    }
    let part = |name: &str| text_at(payload, &format!("/tool_response/{name}")).unwrap_or_default();
    let (stdout, stderr) = (part("stdout"), part("stderr"));
    let output = if stderr.is_empty() { stdout } else { format!("{stdout}\n{stderr}") };
    let flag = |name: &str| {
        payload.pointer(&format!("/tool_response/{name}")).and_then(Value::as_bool) == Some(true)
    };
    let in_background = payload.pointer("/tool_response/backgroundTaskId").is_some();
    let exit = if flag("interrupted") || in_background { None } else { Some(0) };
    Action::Command { line, exit, output: Some(output) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn events_become_actions() {
        let bash = |event: &str, rest: Value| {
            let mut payload = json!({"tool_name": "Bash", "tool_input": {"command": "make"}});
            payload
                .as_object_mut()
                .expect("object")
                .extend(rest.as_object().expect("object").clone());
            ClaudeCode.parse(event, &payload)
        };
        let ran = |exit, output: &str| {
            let (line, output) = ("make".to_owned(), Some(output.to_owned()));
            HookEvent::ToolUse(vec![Action::Command { line, exit, output }])
        };
        for (found, expected) in [
            (
                ClaudeCode.parse("UserPromptSubmit", &json!({"prompt": "do it"})),
                HookEvent::Prompt("do it".to_owned()),
            ),
            (bash("PostToolUse", json!({"tool_response": {"stdout": "ok"}})), ran(Some(0), "ok")),
            (
                bash("PostToolUse", json!({"tool_response": {"stdout": "a", "interrupted": true}})),
                ran(None, "a"),
            ),
            (bash("PostToolUseFailure", json!({"error": "Exit code 3\nout"})), ran(Some(3), "out")),
            (bash("PostToolUseFailure", json!({"error": "denied"})), ran(None, "denied")),
            (
                ClaudeCode.parse(
                    "PostToolUse",
                    &json!({"tool_name": "Write", "tool_input": {"file_path": "/w/a"}}),
                ),
                HookEvent::ToolUse(vec![Action::Changed("/w/a".into())]),
            ),
            (
                ClaudeCode.parse(
                    "PostToolUseFailure",
                    &json!({"tool_name": "Edit", "tool_input": {"file_path": "/w/a"},
                            "error": "no match"}),
                ),
                HookEvent::ToolUse(vec![Action::Other {
                    tool: "Edit".to_owned(),
                    result: "no match".to_owned(),
                    is_error: true,
                }]),
            ),
            (
                ClaudeCode.parse("Stop", &json!({"last_assistant_message": "Done."})),
                HookEvent::TurnEnd { text: Some("Done.".to_owned()) },
            ),
            (ClaudeCode.parse("PreCompact", &json!({})), HookEvent::Other),
        ] {
            assert_eq!(found, expected);
        }
    }
}
