//! Gemini CLI: command hooks in `settings.json`. Standard output of a hook must be JSON or empty.

use std::path::PathBuf;

use serde_json::Value;

use super::entries::{EntryStyle, EventHook};
use super::hook_event::{Action, HookEvent, as_text, labelled_exit, path_at, plan_lines, text_at};
use super::{Form, HookedTool, home_dir, variable};

pub(super) struct GeminiCli;

/// In milliseconds.
const TIMEOUT: u64 = 5000;

const EVENTS: &[EventHook] = &[
    EventHook { event: "BeforeAgent", matcher: None, timeout: TIMEOUT },
    EventHook { event: "AfterTool", matcher: Some("*"), timeout: TIMEOUT },
    EventHook { event: "AfterAgent", matcher: None, timeout: TIMEOUT },
    EventHook { event: "SessionEnd", matcher: None, timeout: TIMEOUT },
];

impl HookedTool for GeminiCli {
    fn name(&self) -> &'static str {
        "gemini-cli"
    }

    fn title(&self) -> &'static str {
        "Gemini CLI"
    }

    fn file(&self) -> Option<PathBuf> {
        let home = variable("GEMINI_CLI_HOME").or_else(home_dir)?;
        Some(home.join(".gemini/settings.json"))
    }

    fn form(&self) -> Form {
        Form::Entries(EntryStyle { tool: "gemini-cli", events: EVENTS, named: true })
    }

    fn parse(&self, event: &str, payload: &Value) -> HookEvent {
        match event {
            "BeforeAgent" => HookEvent::Prompt(text_at(payload, "/prompt").unwrap_or_default()),
            "AfterTool" => HookEvent::ToolUse(vec![tool_use(payload)]),
            "AfterAgent" => HookEvent::TurnEnd { text: text_at(payload, "/prompt_response") },
            "SessionEnd" => HookEvent::Closed { reason: text_at(payload, "/reason") },
            _ => HookEvent::Other,
        }
    }
}

fn tool_use(payload: &Value) -> Action {
    let tool = text_at(payload, "/tool_name").unwrap_or_default();
    let result = as_text(payload.pointer("/tool_response/llmContent"));
    let is_error = payload.pointer("/tool_response/error").is_some_and(|error| !error.is_null());
    let file = || path_at(payload, &["/tool_input/file_path", "/tool_input/absolute_path"]);
    let action = match tool.as_str() {
        "run_shell_command" => text_at(payload, "/tool_input/command").map(|line| {
            let exit = labelled_exit(&result, "exit code").or((!is_error).then_some(0));
            let shown = text_at(payload, "/tool_response/returnDisplay");
            Action::Command { line, exit, output: Some(shown.unwrap_or_else(|| result.clone())) }
        }),
        "write_file" | "replace" if !is_error => file().map(Action::Changed),
        "read_file" if !is_error => file().map(Action::Read),
        "write_todos" => payload
            .pointer("/tool_input/todos")
            .and_then(|todos| plan_lines(todos, "description"))
            .map(Action::Plan),
        _ => None,
    };
    action.unwrap_or(Action::Other { tool, result, is_error })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tool_uses_become_actions() {
        let ran = |exit, output: &str| Action::Command {
            line: "make".to_owned(),
            exit,
            output: Some(output.to_owned()),
        };
        let shell = json!({"command": "make"});
        let (path, todos) =
            (json!({"file_path": "/w/a"}), json!({"todos": [{"description": "x"}]}));
        for (tool, input, response, expected) in [
            (
                "run_shell_command",
                &shell,
                json!({"llmContent": "Output: a\nExit Code: 3", "returnDisplay": "a"}),
                ran(Some(3), "a"),
            ),
            (
                "run_shell_command",
                &shell,
                json!({"llmContent": "Output: a"}),
                ran(Some(0), "Output: a"),
            ),
            ("write_file", &path, json!({}), Action::Changed("/w/a".into())),
            ("read_file", &path, json!({}), Action::Read("/w/a".into())),
            ("write_todos", &todos, json!({}), Action::Plan("[pending] x".to_owned())),
            (
                "replace",
                &path,
                json!({"llmContent": "no match", "error": {"message": "no match"}}),
                Action::Other {
                    tool: "replace".to_owned(),
                    result: "no match".to_owned(),
                    is_error: true,
                },
            ),
        ] {
            let payload =
                json!({"tool_name": tool, "tool_input": input, "tool_response": response});
            assert_eq!(GeminiCli.parse("AfterTool", &payload), HookEvent::ToolUse(vec![expected]));
        }
    }
}
