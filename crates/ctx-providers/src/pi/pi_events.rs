//! What pi tells of its work, folded into deltas.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ctx_core::content::Content;
use ctx_core::step;
use ctx_core::turn::Usage;
use ctx_engine::provider::{Class, Delta, End, Failure, Stop};
use serde_json::{Map, Value};

use crate::failure::says_overflow;
use crate::task_observations;

/// What an event means for the run.
pub(super) enum Heard {
    /// More of the turn.
    Said(Vec<Delta>),
    /// An extension wants an answer, under this name.
    Asked(Value),
    /// The turn is over.
    Over(End),
}

/// The turn so far.
pub(super) struct Fold {
    dir: PathBuf,
    /// What was called, with what.
    calls: HashMap<String, Value>,
    usage: Usage,
    /// Why the newest answer of the model ended, and what went wrong.
    stop: String,
    error: Option<String>,
}

impl Fold {
    pub(super) fn new(dir: PathBuf) -> Self {
        let usage = Usage { scope: "turn".to_owned(), ..Usage::default() };
        Self { dir, calls: HashMap::new(), usage, stop: String::new(), error: None }
    }

    pub(super) fn take(&mut self, event: &Map<String, Value>) -> Heard {
        let text =
            |key: &str| event.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        Heard::Said(match event.get("type").and_then(Value::as_str).unwrap_or_default() {
            "message_update" => event
                .get("assistantMessageEvent")
                .map(|update| self.update(update))
                .unwrap_or_default(),
            "message_end" => {
                event.get("message").map(|message| self.ended(message)).unwrap_or_default()
            }
            "tool_execution_start" => {
                let params = event.get("args").cloned().unwrap_or_default();
                self.call(text("toolCallId"), text("toolName"), params).into_iter().collect()
            }
            "tool_execution_end" => self.answered(event, text("toolCallId"), &text("toolName")),
            "compaction_end" => event.get("result").and_then(compacted).into_iter().collect(),
            "extension_ui_request" => {
                return Heard::Asked(event.get("id").cloned().unwrap_or_default());
            }
            "agent_settled" => return Heard::Over(self.over()),
            _ => Vec::new(),
        })
    }

    fn update(&mut self, update: &Value) -> Vec<Delta> {
        let delta = || update.get("delta").and_then(Value::as_str).unwrap_or_default().to_owned();
        match update.get("type").and_then(Value::as_str) {
            Some("text_delta") => vec![Delta::Text(delta())],
            Some("thinking_delta") => vec![Delta::Thought { text: delta(), raw: None }],
            Some("toolcall_end") => {
                let call = &update["toolCall"];
                let text = |key: &str| {
                    call.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
                };
                self.call(
                    text("id"),
                    text("name"),
                    call.get("arguments").cloned().unwrap_or_default(),
                )
                .into_iter()
                .collect()
            }
            _ => Vec::new(),
        }
    }

    /// A call is told when the model has made it and again when it begins.
    fn call(&mut self, id: String, name: String, params: Value) -> Option<Delta> {
        let before = self.calls.insert(id.clone(), params.clone());
        before.is_none().then_some(Delta::ToolCall { id, name, params })
    }

    /// An answer of the model is whole: what it cost is added up.
    fn ended(&mut self, message: &Value) -> Vec<Delta> {
        if message["role"] != "assistant" {
            return Vec::new();
        }
        self.stop = message["stopReason"].as_str().unwrap_or_default().to_owned();
        self.error = message["errorMessage"].as_str().map(str::to_owned);
        let Some(usage) = message.get("usage") else { return Vec::new() };
        let add = |sum: &mut Option<u64>, key: &str| {
            if let Some(more) = usage.get(key).and_then(Value::as_u64) {
                *sum = Some(sum.unwrap_or(0) + more);
            }
        };
        add(&mut self.usage.input_tokens, "input");
        add(&mut self.usage.output_tokens, "output");
        add(&mut self.usage.cached_tokens, "cacheRead");
        vec![Delta::Usage(self.usage.clone())]
    }

    fn answered(&mut self, event: &Map<String, Value>, id: String, name: &str) -> Vec<Delta> {
        let is_error = event.get("isError").and_then(Value::as_bool).unwrap_or(false);
        let parts =
            event.get("result").and_then(|result| result.get("content")).and_then(Value::as_array);
        let texts: Vec<&str> =
            parts.into_iter().flatten().filter_map(|part| part.get("text")?.as_str()).collect();
        let content = texts.join("\n");
        let params = self.calls.get(&id).cloned().unwrap_or_default();
        let mut deltas: Vec<Delta> =
            self.call(id.clone(), name.to_owned(), params.clone()).into_iter().collect();
        if !is_error {
            deltas.extend(observed(name, &params, &content, &self.dir).map(Delta::Observed));
        }
        deltas.push(Delta::ToolResult { id, content, is_error });
        deltas
    }

    fn over(&self) -> End {
        match self.stop.as_str() {
            "error" => {
                let message = self
                    .error
                    .clone()
                    .unwrap_or_else(|| "pi says that its model failed".to_owned());
                let (code, class) = if says_overflow(&message) {
                    ("context_overflow", Class::Overflow)
                } else {
                    ("provider_error", Class::GiveUp)
                };
                End::Failed(Failure::new(code, class, message))
            }
            "aborted" => End::Cancelled,
            "length" => End::Done(Stop::MaxTokens),
            _ => End::Done(Stop::EndTurn),
        }
    }
}

/// pi has made its own window shorter.
pub(super) fn compacted(result: &Value) -> Option<Delta> {
    let summary = result.get("summary")?.as_str()?.to_owned();
    let tokens = |key: &str| result.get(key).and_then(Value::as_u64);
    Some(Delta::Compacted {
        summary,
        tokens_before: tokens("tokensBefore"),
        tokens_after: tokens("estimatedTokensAfter"),
    })
}

/// What a tool of pi did.
fn observed(name: &str, params: &Value, output: &str, dir: &Path) -> Option<step::Entry> {
    let path = || Some(dir.join(params.get("path")?.as_str()?));
    match name {
        "bash" => {
            let argv = task_observations::shell(params.get("command")?.as_str()?);
            Some(step::Entry::Command {
                argv,
                exit: Some(0),
                output: Some(Content::Text(output.to_owned())),
            })
        }
        "read" => task_observations::read(&path()?, dir),
        "write" | "edit" => Some(task_observations::written(&path()?, dir)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn heard(fold: &mut Fold, event: Value) -> Vec<Delta> {
        let Value::Object(event) = event else { panic!("an object") };
        match fold.take(&event) {
            Heard::Said(deltas) => deltas,
            _ => panic!("not said"),
        }
    }

    #[test]
    fn a_call_is_told_once_and_costs_add_up() {
        let mut fold = Fold::new("/nowhere".into());
        let call = json!({"type": "message_update", "assistantMessageEvent": {"type": "toolcall_end", "toolCall": {"id": "t", "name": "bash", "arguments": {"command": "ls"}}}});
        let ended = json!({"type": "message_end", "message": {"role": "assistant", "usage": {"input": 11, "output": 8}, "stopReason": "toolUse"}});
        assert_eq!(heard(&mut fold, call).len(), 1);
        assert!(
            heard(&mut fold, json!({"type": "tool_execution_start", "toolCallId": "t", "toolName": "bash", "args": {"command": "ls"}}))
                .is_empty()
        );
        let answer = json!({"type": "tool_execution_end", "toolCallId": "t", "toolName": "bash", "result": {"content": [{"type": "text", "text": "a"}]}, "isError": false});
        let deltas = heard(&mut fold, answer);
        assert!(
            matches!(&deltas[0], Delta::Observed(step::Entry::Command { argv, .. }) if argv[2] == "ls"),
            "{deltas:?}"
        );
        assert_eq!(
            deltas[1],
            Delta::ToolResult { id: "t".to_owned(), content: "a".to_owned(), is_error: false }
        );
        heard(&mut fold, ended.clone());
        let Some(Delta::Usage(usage)) = heard(&mut fold, ended).pop() else { panic!("usage") };
        assert_eq!((usage.input_tokens, usage.output_tokens), (Some(22), Some(16)));
    }

    #[test]
    fn its_own_compaction_is_told() {
        let mut fold = Fold::new("/nowhere".into());
        let done = json!({"type": "compaction_end", "reason": "threshold", "result": {"summary": "so far", "tokensBefore": 9}, "aborted": false});
        assert_eq!(
            heard(&mut fold, done),
            [Delta::Compacted {
                summary: "so far".to_owned(),
                tokens_before: Some(9),
                tokens_after: None
            }]
        );
        assert!(heard(&mut fold, json!({"type": "compaction_end", "aborted": true})).is_empty());
    }

    #[test]
    fn how_a_turn_ended_is_the_newest_answers_word() {
        let table =
            [("stop", "done"), ("error", "failed"), ("aborted", "cancelled"), ("length", "done")];
        for (reason, expected) in table {
            let mut fold = Fold::new("/nowhere".into());
            heard(
                &mut fold,
                json!({"type": "message_end", "message": {"role": "assistant", "stopReason": reason, "errorMessage": "no"}}),
            );
            let Value::Object(settled) = json!({"type": "agent_settled"}) else {
                panic!("an object")
            };
            let Heard::Over(end) = fold.take(&settled) else { panic!("not over") };
            let name = match end {
                End::Done(_) => "done",
                End::Failed(_) => "failed",
                End::Cancelled => "cancelled",
                End::Suspended(_) => "suspended",
            };
            assert_eq!(name, expected, "{reason}");
        }
    }
}
