//! The files that a tool call of an agent writes, read from its parameters.
//!
//! Agents name their tools and fields differently; what cannot be recognised is not an edit.

use serde_json::Value;

/// Names of the field with the path of a file.
const PATH: [&str; 5] = ["file_path", "filePath", "path", "filename", "target_file"];
/// Names of the field with the whole content of a file.
const CONTENT: [&str; 4] = ["content", "contents", "file_text", "text"];
/// Names of the fields with a part before and after an edit.
const PARTS: [(&str, &str); 5] = [
    ("old_string", "new_string"),
    ("oldString", "newString"),
    ("old_str", "new_str"),
    ("oldText", "newText"),
    ("old_text", "new_text"),
];
/// Most edits of one call.
const EDITS_MAX: usize = 1000;

/// An edit of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct FileEdit {
    /// The path as the agent gave it.
    pub path: String,
    pub edit: Edit,
}

/// What an edit does to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub enum Edit {
    /// Writes the whole content.
    Whole { text: String },
    /// Replaces a part.
    Part { before: String, after: String },
    /// Deletes the file.
    Delete,
}

/// The edits of a tool call.
pub fn file_edits(tool: &str, params: &Value) -> Vec<FileEdit> {
    if let Some(patch) = patch_text(params) {
        return patch_edits(patch);
    }
    let Some(path) = PATH.iter().find_map(|name| params.get(*name)?.as_str()) else {
        return Vec::new();
    };
    let of = |edit| FileEdit { path: path.to_owned(), edit };
    if let Some(edits) = params.get("edits").and_then(Value::as_array) {
        return edits.iter().take(EDITS_MAX).filter_map(part).map(of).collect();
    }
    if let Some(edit) = part(params) {
        return vec![of(edit)];
    }
    let name = tool.to_ascii_lowercase();
    let writes = ["write", "create", "save"].iter().any(|word| name.contains(word));
    let text = CONTENT.iter().find_map(|name| params.get(*name)?.as_str());
    let whole = text.filter(|_| writes).map(|text| of(Edit::Whole { text: text.to_owned() }));
    whole.into_iter().collect()
}

fn part(params: &Value) -> Option<Edit> {
    PARTS.iter().find_map(|(before, after)| {
        let (before, after) = (params.get(*before)?.as_str()?, params.get(*after)?.as_str()?);
        Some(Edit::Part { before: before.to_owned(), after: after.to_owned() })
    })
}

const PATCH_BEGIN: &str = "*** Begin Patch";

/// The text of a patch, in a field or in an argument of a command.
fn patch_text(params: &Value) -> Option<&str> {
    let is_patch = |text: &&str| text.trim_start().starts_with(PATCH_BEGIN);
    match params {
        Value::String(text) => Some(text.as_str()).filter(is_patch),
        Value::Object(fields) => fields.values().find_map(|field| match field {
            Value::Array(arguments) => {
                arguments.iter().find_map(|argument| argument.as_str().filter(is_patch))
            }
            field => field.as_str().filter(is_patch),
        }),
        _ => None,
    }
}

fn patch_edits(patch: &str) -> Vec<FileEdit> {
    let mut edits: Vec<FileEdit> = Vec::new();
    let mut path = String::new();
    for line in patch.lines() {
        if edits.len() >= EDITS_MAX {
            break;
        }
        if let Some(name) = line.strip_prefix("*** Add File: ") {
            path = name.trim().to_owned();
            edits.push(FileEdit { path: path.clone(), edit: Edit::Whole { text: String::new() } });
        } else if let Some(name) = line.strip_prefix("*** Delete File: ") {
            edits.push(FileEdit { path: name.trim().to_owned(), edit: Edit::Delete });
        } else if let Some(name) = line.strip_prefix("*** Update File: ") {
            path = name.trim().to_owned();
            edits.push(empty_part(&path));
        } else if line.starts_with("@@") && !path.is_empty() {
            edits.push(empty_part(&path));
        } else if let Some(last) = edits.last_mut().filter(|_| !line.starts_with("***")) {
            last.edit.add_patch_line(line);
        }
    }
    edits.retain(|edit| !matches!(&edit.edit, Edit::Part { before, after } if before == after));
    edits
}

fn empty_part(path: &str) -> FileEdit {
    let edit = Edit::Part { before: String::new(), after: String::new() };
    FileEdit { path: path.to_owned(), edit }
}

impl Edit {
    fn add_patch_line(&mut self, line: &str) {
        let rest = line.get(1..).unwrap_or_default();
        let push = |text: &mut String| {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(rest);
        };
        match (self, line.as_bytes().first()) {
            (Edit::Whole { text }, Some(b'+')) => {
                text.push_str(rest);
                text.push('\n');
            }
            (Edit::Part { before, .. }, Some(b'-')) => push(before),
            (Edit::Part { after, .. }, Some(b'+')) => push(after),
            (Edit::Part { before, after }, _) => {
                push(before);
                push(after);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn part_of(path: &str, before: &str, after: &str) -> FileEdit {
        let edit = Edit::Part { before: before.to_owned(), after: after.to_owned() };
        FileEdit { path: path.to_owned(), edit }
    }

    fn whole(path: &str, text: &str) -> FileEdit {
        FileEdit { path: path.to_owned(), edit: Edit::Whole { text: text.to_owned() } }
    }

    #[test]
    fn edits_of_known_tools_are_recognised() {
        let patch = "*** Begin Patch\n*** Add File: new.rs\n+one\n+two\n*** Update File: a.rs\n\
                     @@ fn a\n keep\n-old\n+new\n*** Delete File: b.rs\n*** End Patch\n";
        let patched = vec![
            whole("new.rs", "one\ntwo\n"),
            part_of("a.rs", "keep\nold", "keep\nnew"),
            FileEdit { path: "b.rs".to_owned(), edit: Edit::Delete },
        ];
        for (tool, params, expected) in [
            ("Write", json!({"file_path": "/w/a", "content": "x"}), vec![whole("/w/a", "x")]),
            ("write_file", json!({"path": "a", "content": "x"}), vec![whole("a", "x")]),
            (
                "Edit",
                json!({"file_path": "a", "old_string": "o", "new_string": "n"}),
                vec![part_of("a", "o", "n")],
            ),
            (
                "MultiEdit",
                json!({"file_path": "a", "edits": [{"old_string": "o", "new_string": "n"},
                                                   {"old_string": "p", "new_string": "q"}]}),
                vec![part_of("a", "o", "n"), part_of("a", "p", "q")],
            ),
            ("apply_patch", json!({"input": patch}), patched.clone()),
            ("shell", json!({"command": ["apply_patch", patch]}), patched),
            ("Read", json!({"file_path": "a"}), vec![]),
            ("search", json!({"path": "a", "text": "words"}), vec![]),
            ("Bash", json!({"command": "ls"}), vec![]),
        ] {
            assert_eq!(file_edits(tool, &params), expected, "{tool}");
        }
    }
}
