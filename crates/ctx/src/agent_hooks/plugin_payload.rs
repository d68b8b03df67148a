//! The payloads that the plugin of OpenCode and the extension of pi send. Both are part of ctx, so
//! both use the same form: `prompt`, `tool`, `turn_end` and `closed`.

use serde_json::Value;

use super::hook_event::{
    Action, HookEvent, as_text, exit_at, labelled_exit, patched_files, path_at, plan_lines, text_at,
};

/// What pi writes at the end of the output of a command that failed.
const EXIT_LABEL: &str = "command exited with code";

pub(super) fn parse(event: &str, payload: &Value) -> HookEvent {
    match event {
        "prompt" => HookEvent::Prompt(text_at(payload, "/prompt").unwrap_or_default()),
        "tool" => HookEvent::ToolUse(tool_use(payload)),
        "turn_end" => HookEvent::TurnEnd { text: text_at(payload, "/text") },
        "closed" => HookEvent::Closed { reason: text_at(payload, "/reason") },
        _ => HookEvent::Other,
    }
}

fn tool_use(payload: &Value) -> Vec<Action> {
    let tool = text_at(payload, "/tool").unwrap_or_default();
    let result = as_text(payload.get("output"));
    let is_error = payload.get("is_error").and_then(Value::as_bool) == Some(true);
    let file = || path_at(payload, &["/input/filePath", "/input/path", "/input/file_path"]);
    let action = match tool.as_str() {
        "bash" => text_at(payload, "/input/command").map(|line| {
            let exit = exit_at(payload, "/exit")
                .or_else(|| labelled_exit(&result, EXIT_LABEL))
                .or((!is_error).then_some(0));
            Action::Command { line, exit, output: Some(result.clone()) }
        }),
        "write" | "edit" | "multiedit" if !is_error => file().map(Action::Changed),
        "read" if !is_error => file().map(Action::Read),
        "patch" | "apply_patch" if !is_error => {
            let patch = text_at(payload, "/input/patchText").unwrap_or_default();
            let changed: Vec<Action> =
                patched_files(&patch).into_iter().map(Action::Changed).collect();
            if !changed.is_empty() {
                return changed;
            }
            None
        }
        "todowrite" => payload
            .pointer("/input/todos")
            .and_then(|todos| plan_lines(todos, "content"))
            .map(Action::Plan),
        _ => None,
    };
    vec![action.unwrap_or(Action::Other { tool, result, is_error })]
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
        let make = json!({"command": "make"});
        let patch = json!({"patchText": "*** Begin Patch\n*** Delete File: a\n*** End Patch"});
        for (payload, expected) in [
            (json!({"tool": "bash", "input": make, "output": "x", "exit": 2}), ran(Some(2), "x")),
            (json!({"tool": "bash", "input": make, "output": "x"}), ran(Some(0), "x")),
            (
                json!({"tool": "bash", "input": make, "is_error": true,
                       "output": "x\n\nCommand exited with code 3"}),
                ran(Some(3), "x\n\nCommand exited with code 3"),
            ),
            (
                json!({"tool": "bash", "input": make, "is_error": true, "output": "aborted"}),
                ran(None, "aborted"),
            ),
            (json!({"tool": "write", "input": {"path": "a"}}), Action::Changed("a".into())),
            (
                json!({"tool": "edit", "input": {"filePath": "/w/a"}}),
                Action::Changed("/w/a".into()),
            ),
            (json!({"tool": "read", "input": {"path": "a"}}), Action::Read("a".into())),
            (json!({"tool": "apply_patch", "input": patch}), Action::Changed("a".into())),
            (
                json!({"tool": "grep", "output": "3 matches"}),
                Action::Other {
                    tool: "grep".to_owned(),
                    result: "3 matches".to_owned(),
                    is_error: false,
                },
            ),
        ] {
            assert_eq!(parse("tool", &payload), HookEvent::ToolUse(vec![expected]), "{payload}");
        }
        assert_eq!(parse("unknown", &json!({})), HookEvent::Other);
    }
}
