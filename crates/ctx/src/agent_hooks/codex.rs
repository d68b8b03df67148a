//! Codex: command hooks in `hooks.json`, in the format of Claude Code.
//!
//! The payload of a command has no exit code, but Codex writes it to the transcript before the hook
//! runs. A patch that a shell command applies is not reported; the search for changed files finds
//! its files.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::entries::{EntryStyle, EventHook};
use super::hook_event::{Action, HookEvent, as_text, patched_files, plan_lines, text_at};
use super::{Form, HookedTool, home_dir, variable};

pub(super) struct Codex;

/// In seconds. Codex allows 3 at most for SessionEnd.
const TIMEOUT: u64 = 3;
/// Length of the end of a transcript that is searched for an exit code.
const TRANSCRIPT_TAIL_BYTES: u64 = 256 * 1024;

const EVENTS: &[EventHook] = &[
    EventHook { event: "UserPromptSubmit", matcher: None, timeout: TIMEOUT },
    EventHook { event: "PostToolUse", matcher: None, timeout: TIMEOUT },
    EventHook { event: "Stop", matcher: None, timeout: TIMEOUT },
    EventHook { event: "SessionEnd", matcher: None, timeout: TIMEOUT },
];

impl HookedTool for Codex {
    fn name(&self) -> &'static str {
        "codex"
    }

    fn title(&self) -> &'static str {
        "Codex"
    }

    fn file(&self) -> Option<PathBuf> {
        let dir = variable("CODEX_HOME").or_else(|| Some(home_dir()?.join(".codex")))?;
        Some(dir.join("hooks.json"))
    }

    fn form(&self) -> Form {
        Form::Entries(EntryStyle { tool: "codex", events: EVENTS, named: false })
    }

    fn next_step(&self) -> Option<&'static str> {
        Some("Codex runs new hooks only after you have reviewed them: start `codex`, open `/hooks`")
    }

    fn parse(&self, event: &str, payload: &Value) -> HookEvent {
        match event {
            "UserPromptSubmit" => {
                HookEvent::Prompt(text_at(payload, "/prompt").unwrap_or_default())
            }
            "PostToolUse" => HookEvent::ToolUse(tool_use(payload)),
            "Stop" => HookEvent::TurnEnd { text: text_at(payload, "/last_assistant_message") },
            "SessionEnd" => HookEvent::Closed { reason: text_at(payload, "/reason") },
            _ => HookEvent::Other,
        }
    }

    fn searches_at_turn_end(&self) -> bool {
        true
    }
}

fn tool_use(payload: &Value) -> Vec<Action> {
    let tool = text_at(payload, "/tool_name").unwrap_or_default();
    let input = text_at(payload, "/tool_input/command");
    let result = as_text(payload.get("tool_response"));
    match (tool.as_str(), input) {
        ("Bash", Some(line)) => {
            vec![Action::Command { line, exit: exit_code(payload), output: Some(result) }]
        }
        ("apply_patch", Some(patch)) => {
            patched_files(&patch).into_iter().map(Action::Changed).collect()
        }
        _ => {
            let plan = payload.pointer("/tool_input/plan").and_then(|it| plan_lines(it, "step"));
            vec![plan.map(Action::Plan).unwrap_or(Action::Other { tool, result, is_error: false })]
        }
    }
}

/// The exit code of a command, from the end of the transcript.
fn exit_code(payload: &Value) -> Option<i32> {
    let transcript = text_at(payload, "/transcript_path")?;
    let call = text_at(payload, "/tool_use_id")?;
    exit_in_transcript(&tail(Path::new(&transcript))?, &call)
}

fn exit_in_transcript(lines: &str, call: &str) -> Option<i32> {
    lines.lines().rev().find_map(|line| {
        if !line.contains(call) || !line.contains("\"exit_code\"") {
            return None;
        }
        let line: Value = serde_json::from_str(line).ok()?;
        let item = line.pointer("/payload/item").or_else(|| line.pointer("/payload"))?;
        let id = item.get("id").or_else(|| item.get("call_id"))?;
        let exit = item.get("exit_code").and_then(Value::as_i64)?;
        (id == call).then(|| i32::try_from(exit).ok())?
    })
}

fn tail(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TRANSCRIPT_TAIL_BYTES))).ok()?;
    let mut bytes = Vec::new();
    file.take(TRANSCRIPT_TAIL_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tool_uses_become_actions() {
        let patch = "*** Begin Patch\n*** Add File: a.txt\n+x\n*** End Patch";
        let other = |tool: &str, result: &str| Action::Other {
            tool: tool.to_owned(),
            result: result.to_owned(),
            is_error: false,
        };
        for (tool, input, expected) in [
            (
                "Bash",
                json!({"command": "make"}),
                Action::Command {
                    line: "make".to_owned(),
                    exit: None,
                    output: Some("out".to_owned()),
                },
            ),
            ("apply_patch", json!({"command": patch}), Action::Changed("a.txt".into())),
            (
                "update_plan",
                json!({"plan": [{"step": "read", "status": "pending"}]}),
                Action::Plan("[pending] read".to_owned()),
            ),
            ("mcp__x__y", json!({"a": 1}), other("mcp__x__y", "out")),
        ] {
            let payload = json!({"tool_name": tool, "tool_input": input, "tool_response": "out"});
            assert_eq!(Codex.parse("PostToolUse", &payload), HookEvent::ToolUse(vec![expected]));
        }
    }

    #[test]
    fn the_exit_code_is_that_of_the_call() {
        let line = |id: &str, exit: i32| {
            json!({"type": "event_msg", "payload": {"item": {"id": id, "exit_code": exit}}})
                .to_string()
        };
        let lines = format!("cut off\n{}\n{}\n{{}}", line("call_1", 3), line("call_2", 0));
        assert_eq!(exit_in_transcript(&lines, "call_1"), Some(3));
        assert_eq!(exit_in_transcript(&lines, "call_2"), Some(0));
        assert_eq!(exit_in_transcript(&lines, "call_3"), None);
    }
}
