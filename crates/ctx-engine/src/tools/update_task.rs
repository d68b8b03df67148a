//! `update_task`: records what an agent did that ctx does not run, and the user's words to it.

use std::path::Path;

use ctx_core::decide::{self, AgentTool, Invocation, SessionView};
use ctx_core::object::Named;
use ctx_core::relation::{BadRelation, Confidence, Edge, Evidence, Label, Node, Tool};
use ctx_core::step::Entry;
use ctx_core::task::Task;
use ctx_core::worker::{is_inside, resolve_dir};
use serde_json::{Value, json};

use super::definition::ParameterKind::{OptionalFlag, OptionalList, OptionalText};
use super::definition::{Effect, ToolDefinition, define, parameter, session_parameter};
use super::get_task::task_document;
use super::parameters::{flag, list, text};
use super::{Caller, ToolAnswer, own_session};
use crate::engine::{Engine, Error};

/// Largest file whose content is recorded, in bytes.
const FILE_MAX_BYTES: u64 = 64 << 20;

pub(super) fn definition() -> ToolDefinition {
    let what = "Record progress of the open task: the plan, files that were read or written, \
        commands that ran, relations between things, and what the user said. Call it as you work, \
        so that another agent can continue.";
    let answer = "The user's answer to the question that was asked with ask_user";
    let incorporate = "Whether the message with which the user interrupted was taken into account; \
        the task is running again";
    define(
        AgentTool::UpdateTask,
        Effect::Records,
        "Update the task",
        what,
        vec![
            parameter("plan", "The plan, replacing the one before", OptionalText),
            parameter("files_read", "Files that were read", OptionalList(file_schema)),
            parameter("files_written", "Files that were written", OptionalList(written_schema)),
            parameter("commands", "Commands that ran", OptionalList(command_schema)),
            parameter("relations", "Relations between nodes", OptionalList(relation_schema)),
            parameter("answer", answer, OptionalText),
            parameter("incorporate", incorporate, OptionalFlag),
            session_parameter(),
        ],
    )
    .output(json!({"task": {"type": "object"}}), &["task"])
}

fn file_schema() -> Value {
    let content = "The content; without it the file is read from the session's working directory";
    json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "The path of the file"},
            "content": {"type": "string", "description": content},
        },
        "required": ["path"],
        "additionalProperties": false,
    })
}

fn written_schema() -> Value {
    let mut schema = file_schema();
    schema["properties"]["deleted"] =
        json!({"type": "boolean", "description": "Whether the file was deleted"});
    schema
}

fn command_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "The command line"},
            "exit": {"type": "integer", "description": "The exit code"},
            "output": {"type": "string", "description": "The output"},
        },
        "required": ["command"],
        "additionalProperties": false,
    })
}

fn relation_schema() -> Value {
    let labels: Vec<&str> = Label::ALL.iter().map(|label| label.name()).collect();
    let node = "A node as kind:id, such as file:src/main.rs, task:ID or decision:TEXT";
    json!({
        "type": "object",
        "properties": {
            "from": {"type": "string", "description": node},
            "label": {"type": "string", "enum": labels, "description": "How they are related"},
            "to": {"type": "string", "description": node},
        },
        "required": ["from", "label", "to"],
        "additionalProperties": false,
    })
}

pub(super) async fn call(
    engine: &Engine,
    caller: &Caller,
    params: &Value,
) -> Result<ToolAnswer, Error> {
    let (entries, objects) = match observations(engine, caller, params).await? {
        Ok(observed) => observed,
        Err(why) => return Ok(ToolAnswer::error(why)),
    };
    let (answer, incorporate) = (text(params, "answer"), flag(params, "incorporate"));
    if entries.is_empty() && answer.is_none() && !incorporate {
        return Ok(ToolAnswer::error("the call records nothing: give at least one parameter"));
    }
    let mut task: Option<Task> = None;
    // The user's words come first: an interrupted task is running again before it is worked on.
    if let Some(answer) = answer.map(str::to_owned) {
        let rule = move |view: &SessionView, invocation: &Invocation| {
            decide::answer(view, &answer, invocation)
        };
        task = Some(super::decide(engine, caller, Vec::new(), rule).await?);
    }
    if incorporate {
        let rule =
            |view: &SessionView, invocation: &Invocation| decide::incorporate(view, invocation);
        task = Some(super::decide(engine, caller, Vec::new(), rule).await?.task);
    }
    if !entries.is_empty() {
        let rule = move |view: &SessionView, invocation: &Invocation| {
            decide::observe(view, &entries, invocation)
        };
        task = Some(super::decide(engine, caller, objects, rule).await?);
    }
    let task = task.map(|task| task_document(&task));
    Ok(ToolAnswer::with("Recorded.", json!({"task": task})))
}

type Observed = (Vec<Entry>, Vec<Named>);

async fn observations(
    engine: &Engine,
    caller: &Caller,
    params: &Value,
) -> Result<Result<Observed, String>, Error> {
    let (mut entries, mut objects) = (Vec::new(), Vec::new());
    if let Some(plan) = text(params, "plan") {
        entries.push(Entry::Plan { text: plan.to_owned() });
    }
    let root = own_session(engine, caller).await?.working_dir.or_else(|| caller.directory.clone());
    for (field, written) in [("files_read", false), ("files_written", true)] {
        for file in list(params, field) {
            let path = text(file, "path").unwrap_or_default().to_owned();
            if written && flag(file, "deleted") {
                entries.push(Entry::FileWrite { path, content: None });
                continue;
            }
            let bytes = match file.get("content").and_then(Value::as_str) {
                Some(content) => content.as_bytes().to_vec(),
                None => match read(root.as_deref(), &path) {
                    Ok(bytes) => bytes,
                    Err(why) => return Ok(Err(format!("invalid parameter `{field}`: {why}"))),
                },
            };
            let (content, blob) = decide::observed_content(bytes);
            objects.extend(blob);
            entries.push(match written {
                true => Entry::FileWrite { path, content: Some(content) },
                false => Entry::FileRead { path, content },
            });
        }
    }
    for command in list(params, "commands") {
        let output = command.get("output").and_then(Value::as_str).map(|output| {
            let (content, blob) = decide::observed_content(output.as_bytes().to_vec());
            objects.extend(blob);
            content
        });
        let exit = command.get("exit").and_then(Value::as_i64);
        entries.push(Entry::Command {
            argv: vec![text(command, "command").unwrap_or_default().to_owned()],
            exit: exit.and_then(|exit| i32::try_from(exit).ok()),
            output,
        });
    }
    for relation in list(params, "relations") {
        match edge(relation) {
            Ok(edge) => entries.push(Entry::Relation(edge)),
            Err(why) => return Ok(Err(why.to_string())),
        }
    }
    Ok(Ok((entries, objects)))
}

fn edge(relation: &Value) -> Result<Edge, BadRelation> {
    let field = |name| text(relation, name).unwrap_or_default();
    Ok(Edge {
        from: field("from").parse::<Node>()?,
        to: field("to").parse::<Node>()?,
        label: field("label").parse::<Label>()?,
        weight: None,
        evidence: Evidence::from_tool(Tool::Llm, Confidence::Medium),
    })
}

/// The content of a file inside the session's working directory, links followed.
fn read(root: Option<&str>, path: &str) -> Result<Vec<u8>, String> {
    let hint = "give its `content`";
    let Some(root) = root else {
        return Err(format!("cannot read {path}: the session has no working directory; {hint}"));
    };
    let failed = |error: std::io::Error| format!("cannot read {path}: {error}; {hint}");
    let real = resolve_dir(root, path).canonicalize().map_err(failed)?;
    let outer = Path::new(root).canonicalize().map_err(failed)?;
    if !is_inside(&real, &outer) {
        return Err(format!("cannot read {path}: it is outside {root}; {hint}"));
    }
    if real.metadata().map_err(failed)?.len() > FILE_MAX_BYTES {
        return Err(format!("cannot read {path}: it is larger than {FILE_MAX_BYTES} bytes"));
    }
    std::fs::read(&real).map_err(failed)
}
