//! What a hook reported, independent of the tool, and how the payloads of the tools are read.

use std::path::PathBuf;

use serde_json::Value;

/// One event of an agent outside ctx.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HookEvent {
    /// The user sent a prompt.
    Prompt(String),
    /// The agent used a tool.
    ToolUse(Vec<Action>),
    /// The agent ended its answer.
    TurnEnd {
        /// Its final text.
        text: Option<String>,
    },
    /// The conversation was closed.
    Closed {
        /// Why, in the words of the tool.
        reason: Option<String>,
    },
    /// Nothing that is recorded.
    Other,
}

/// A part of a tool use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    Read(PathBuf),
    /// The file was written, or removed if it does not exist now.
    Changed(PathBuf),
    Command {
        line: String,
        exit: Option<i32>,
        output: Option<String>,
    },
    Plan(String),
    /// A tool without a record of its own.
    Other {
        tool: String,
        result: String,
        is_error: bool,
    },
}

/// A text at a JSON pointer.
pub(super) fn text_at(payload: &Value, pointer: &str) -> Option<String> {
    payload.pointer(pointer).and_then(Value::as_str).map(str::to_owned)
}

/// The path at the first pointer that has one.
pub(super) fn path_at(payload: &Value, pointers: &[&str]) -> Option<PathBuf> {
    let texts = pointers.iter().filter_map(|pointer| text_at(payload, pointer));
    texts.map(PathBuf::from).find(|path| !path.as_os_str().is_empty())
}

pub(super) fn exit_at(payload: &Value, pointer: &str) -> Option<i32> {
    payload.pointer(pointer).and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok())
}

/// The number after a label at the start of a line, such as `Exit code: 3`, in any case.
pub(super) fn labelled_exit(text: &str, label: &str) -> Option<i32> {
    text.lines().find_map(|line| {
        let rest = line.trim_start().get(label.len()..)?;
        let has_label = line.trim_start()[..label.len()].eq_ignore_ascii_case(label);
        has_label.then(|| rest.trim_start_matches([':', ' ']).trim_end().parse().ok())?
    })
}

/// The steps of a plan, one per line, with their states.
pub(super) fn plan_lines(steps: &Value, text: &str) -> Option<String> {
    let line = |step: &Value| {
        let status = step.get("status").and_then(Value::as_str).unwrap_or("pending");
        Some(format!("[{status}] {}", step.get(text)?.as_str()?))
    };
    let lines: Vec<String> = steps.as_array()?.iter().filter_map(line).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Any JSON value as one text.
pub(super) fn as_text(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// The files that a patch in the format of `apply_patch` changes.
pub(super) fn patched_files(patch: &str) -> Vec<PathBuf> {
    const HEADERS: [&str; 4] =
        ["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];
    let paths = patch
        .lines()
        .filter_map(|line| HEADERS.iter().find_map(|header| line.strip_prefix(header)));
    paths.map(|path| PathBuf::from(path.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn exit_codes_are_read_from_labelled_lines() {
        for (text, exit) in [
            ("Exit code 3\nout", Some(3)),
            ("Output: x\nExit Code: 127\n", Some(127)),
            ("exit code: -1", Some(-1)),
            ("Exit code x", None),
            ("no label", None),
            ("Ü", None),
        ] {
            assert_eq!(labelled_exit(text, "exit code"), exit, "{text}");
        }
    }

    #[test]
    fn a_patch_names_its_files() {
        let patch = "*** Begin Patch\n*** Add File: a b.txt\n+x\n*** Update File: c.rs\n\
                     *** Move to: d.rs\n@@\n-*** Add File: no\n*** Delete File: e\n*** End Patch";
        assert_eq!(patched_files(patch), ["a b.txt", "c.rs", "d.rs", "e"].map(PathBuf::from));
    }

    #[test]
    fn a_plan_is_one_line_per_step() {
        let steps = json!([{"content": "read", "status": "completed"}, {"content": "write"}, {}]);
        let lines = plan_lines(&steps, "content");
        assert_eq!(lines.as_deref(), Some("[completed] read\n[pending] write"));
        assert_eq!(plan_lines(&json!([]), "content"), None);
    }
}
