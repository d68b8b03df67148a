//! Tool calls as the editor shows them. ctx stores name, parameters and result of a call; kind,
//! title, files and diffs are derived from them.

use std::path::Path;

use ctx_engine::core::message::ToolStatus;
use serde_json::{Value, json};

/// Longest title, in characters.
const TITLE_MAX_CHARS: usize = 200;
/// Parameters that name a file, as agents use them.
const PATH_KEYS: [&str; 6] =
    ["file_path", "filePath", "filepath", "path", "absolute_path", "notebook_path"];
/// Parameters that describe a call best, after a title and a command.
const SUBJECT_KEYS: [&str; 5] = ["pattern", "query", "url", "description", "question"];

/// Kinds of ACP and the words in a tool's name that indicate them.
const KINDS: [(&str, &[&str]); 8] = [
    ("edit", &["write", "edit", "patch", "replace", "create_file"]),
    ("delete", &["delete", "remove"]),
    ("move", &["move", "rename"]),
    ("execute", &["bash", "shell", "exec", "terminal", "command"]),
    ("search", &["grep", "search", "glob", "find", "list"]),
    ("fetch", &["fetch", "http", "browse"]),
    ("think", &["think", "todo"]),
    ("read", &["read", "view", "open_file"]),
];

/// The fields of a call that are known when it starts.
pub(super) fn call_fields(name: &str, params: &Value, dir: Option<&Path>) -> Value {
    let mut fields = json!({
        "title": title(name, params),
        "kind": kind(name, params),
        "rawInput": params,
    });
    if !name.is_empty() {
        fields["name"] = name.into();
    }
    let path = PATH_KEYS.iter().find_map(|key| params.get(key)?.as_str());
    if let Some(path) = path {
        fields["locations"] = json!([{"path": absolute(path, dir)}]);
    }
    fields
}

pub(super) const fn status(status: ToolStatus) -> &'static str {
    match status {
        ToolStatus::Pending => "pending",
        ToolStatus::Running => "in_progress",
        ToolStatus::Completed => "completed",
        // ACP has no word for an outcome that is not known.
        ToolStatus::Failed | ToolStatus::Unknown => "failed",
    }
}

/// The result of a call as content: its diffs, and the rest as text.
pub(super) fn result_content(result: &str, dir: Option<&Path>) -> Vec<Value> {
    let (mut rest, mut diffs) = (Vec::new(), Vec::new());
    let lines: Vec<&str> = result.split('\n').collect();
    let mut at = 0;
    while at < lines.len() {
        let is_header = lines[at].starts_with("--- ")
            && lines.get(at + 1).is_some_and(|line| line.starts_with("+++ "))
            && lines.get(at + 2).is_some_and(|line| line.starts_with("@@"));
        if is_header {
            let path = absolute(lines[at + 1]["+++ ".len()..].trim(), dir);
            at += 2;
            while lines.get(at).is_some_and(|line| line.starts_with("@@")) {
                let (diff, next) = hunk(&lines, at, &path);
                diffs.push(diff);
                at = next;
            }
        } else {
            rest.push(lines[at]);
            at += 1;
        }
    }
    let text = rest.join("\n");
    let text = text.trim_end();
    if !text.is_empty() {
        diffs.push(text_content(text));
    }
    diffs
}

pub(super) fn text_content(text: &str) -> Value {
    json!({"type": "content", "content": {"type": "text", "text": text}})
}

/// A hunk of a unified diff as a diff of ACP, and the index of the line after it.
fn hunk(lines: &[&str], header: usize, path: &str) -> (Value, usize) {
    let (mut old, mut new) = (Vec::new(), Vec::new());
    let mut at = header + 1;
    while let Some(line) = lines.get(at) {
        match line.chars().next() {
            Some(' ') => {
                old.push(&line[1..]);
                new.push(&line[1..]);
            }
            Some('-') if !line.starts_with("--- ") => old.push(&line[1..]),
            Some('+') => new.push(&line[1..]),
            Some('\\') => {}
            _ => break,
        }
        at += 1;
    }
    let is_new_file = lines[header].starts_with("@@ -0,0");
    let old = if is_new_file { Value::Null } else { joined(&old).into() };
    (json!({"type": "diff", "path": path, "oldText": old, "newText": joined(&new)}), at)
}

fn joined(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn title(name: &str, params: &Value) -> String {
    let text = |key: &&str| params.get(*key).and_then(Value::as_str).filter(|it| !it.is_empty());
    let whole = ["title", "command", "cmd"].iter().find_map(text).map(str::to_owned);
    let title =
        whole.unwrap_or_else(|| match PATH_KEYS.iter().chain(&SUBJECT_KEYS).find_map(text) {
            Some(subject) => format!("{name} {subject}"),
            None => name.to_owned(),
        });
    let line = title.lines().next().unwrap_or_default();
    line.chars().take(TITLE_MAX_CHARS).collect()
}

fn kind(name: &str, params: &Value) -> &'static str {
    let name = name.to_lowercase();
    if let Some((kind, _)) = KINDS.iter().find(|(kind, _)| *kind == name) {
        return kind;
    }
    let matching = KINDS.iter().find(|(_, words)| words.iter().any(|word| name.contains(word)));
    match matching {
        Some((kind, _)) => kind,
        None if params.get("command").is_some() => "execute",
        None => "other",
    }
}

fn absolute(path: &str, dir: Option<&Path>) -> String {
    dir.map_or_else(|| path.to_owned(), |dir| dir.join(path).to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_title_and_file_are_derived() {
        let dir = Some(Path::new("/w"));
        for (name, params, kind, title) in [
            ("Bash", json!({"command": "ls -l"}), "execute", "ls -l"),
            ("Edit", json!({"file_path": "a.rs"}), "edit", "Edit a.rs"),
            ("execute", json!({"title": "Run it"}), "execute", "Run it"),
            ("Grep", json!({"pattern": "fn"}), "search", "Grep fn"),
            ("ask_user", json!({"question": "Why?"}), "other", "ask_user Why?"),
            ("strange", json!({}), "other", "strange"),
        ] {
            let fields = call_fields(name, &params, dir);
            assert_eq!((&fields["kind"], &fields["title"]), (&json!(kind), &json!(title)));
        }
        let read = call_fields("read_file", &json!({"path": "src/a.rs"}), dir);
        assert_eq!(read["locations"], json!([{"path": "/w/src/a.rs"}]));
    }

    #[test]
    fn unified_diffs_in_a_result_become_diffs() {
        let result = "Edited.\n--- a.rs\n+++ a.rs\n@@ -1,3 +1,3 @@\n one\n-two\n+three\n\
                      @@ -9 +9,2 @@\n-x\n+y\n+z\n";
        let content = result_content(result, Some(Path::new("/w")));
        let path = "/w/a.rs";
        let diff = |old: &str, new: &str| {
            let kind = "diff";
            json!({"type": kind, "path": path, "oldText": old, "newText": new})
        };
        assert_eq!(
            content,
            [diff("one\ntwo\n", "one\nthree\n"), diff("x\n", "y\nz\n"), text_content("Edited.")]
        );
        let new = result_content("--- b\n+++ b\n@@ -0,0 +1 @@\n+hi\n", None);
        assert_eq!((&new[0]["oldText"], &new[0]["newText"]), (&Value::Null, &json!("hi\n")));
        assert_eq!(result_content("--- no diff\n+++ here", None).len(), 1);
        assert!(result_content("", None).is_empty());
    }
}
