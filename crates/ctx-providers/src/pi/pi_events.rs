//! Parses the events of pi during a prompt.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ctx_core::compaction::Trigger;
use ctx_core::step;
use ctx_core::stored_content::Content;
use ctx_core::turn::Usage;
use ctx_engine::provider::{Delta, End, Failure, FailureClass, Stop};
use serde_json::{Map, Value};

use crate::failure::reports_overflow;
use crate::task_observations;
use crate::usage_cost::Cost;

/// The meaning of an event for the run.
pub(super) enum EventOutcome {
    Deltas(Vec<Delta>),
    /// An extension opened a dialog with this id and waits for a response.
    Dialog(Value),
    Ended(End),
}

/// The state of a prompt.
pub(super) struct EventParser {
    working_dir: PathBuf,
    /// Call arguments by call id.
    calls: HashMap<String, Value>,
    usage: Usage,
    /// Sum of the reported costs.
    cost: Option<Cost>,
    /// `stopReason` and `errorMessage` of the newest model response.
    stop: String,
    error: Option<String>,
}

impl EventParser {
    pub(super) fn new(working_dir: PathBuf) -> Self {
        let usage = Usage { scope: "turn".to_owned(), ..Usage::default() };
        Self {
            working_dir,
            calls: HashMap::new(),
            usage,
            cost: None,
            stop: String::new(),
            error: None,
        }
    }

    pub(super) fn parse(&mut self, event: &Map<String, Value>) -> EventOutcome {
        let text =
            |key: &str| event.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        EventOutcome::Deltas(match event.get("type").and_then(Value::as_str).unwrap_or_default() {
            "message_update" => event
                .get("assistantMessageEvent")
                .map(|update| self.message_update(update))
                .unwrap_or_default(),
            "message_end" => {
                event.get("message").map(|message| self.message_end(message)).unwrap_or_default()
            }
            "tool_execution_start" => {
                let params = event.get("args").cloned().unwrap_or_default();
                self.report_call(text("toolCallId"), text("toolName"), params).into_iter().collect()
            }
            "tool_execution_end" => self.tool_end(event, text("toolCallId"), &text("toolName")),
            "compaction_end" => {
                let trigger = match text("reason").as_str() {
                    "manual" => Trigger::Manual,
                    "overflow" => Trigger::OverflowRecovery,
                    _ => Trigger::ContextLimit,
                };
                let result = event.get("result");
                result.and_then(|result| compacted(result, trigger)).into_iter().collect()
            }
            "extension_ui_request" => {
                return EventOutcome::Dialog(event.get("id").cloned().unwrap_or_default());
            }
            "agent_settled" => return EventOutcome::Ended(self.end()),
            _ => Vec::new(),
        })
    }

    fn message_update(&mut self, update: &Value) -> Vec<Delta> {
        let delta = || update.get("delta").and_then(Value::as_str).unwrap_or_default().to_owned();
        match update.get("type").and_then(Value::as_str) {
            Some("text_delta") => vec![Delta::Text(delta())],
            Some("thinking_delta") => vec![Delta::Thought { text: delta(), raw: None }],
            Some("toolcall_end") => {
                let call = &update["toolCall"];
                let text = |key: &str| {
                    call.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
                };
                self.report_call(
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

    /// pi reports a call when the model has written it and again when it starts.
    fn report_call(&mut self, id: String, name: String, params: Value) -> Option<Delta> {
        let before = self.calls.insert(id.clone(), params.clone());
        before.is_none().then_some(Delta::ToolCall { id, name, params })
    }

    /// A model response is complete: its usage and cost are added to those of the turn.
    fn message_end(&mut self, message: &Value) -> Vec<Delta> {
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
        if let Some(cost) = Cost::in_dollars(&usage["cost"]["total"]) {
            self.cost = match &self.cost {
                Some(before) => before.plus(&cost),
                None => Some(cost),
            };
            self.usage.cost = self.cost.as_ref().map(ToString::to_string);
        }
        vec![Delta::Usage(self.usage.clone())]
    }

    fn tool_end(&mut self, event: &Map<String, Value>, id: String, name: &str) -> Vec<Delta> {
        let is_error = event.get("isError").and_then(Value::as_bool).unwrap_or(false);
        let parts =
            event.get("result").and_then(|result| result.get("content")).and_then(Value::as_array);
        let texts: Vec<&str> =
            parts.into_iter().flatten().filter_map(|part| part.get("text")?.as_str()).collect();
        let content = texts.join("\n");
        let params = self.calls.get(&id).cloned().unwrap_or_default();
        let mut deltas: Vec<Delta> =
            self.report_call(id.clone(), name.to_owned(), params.clone()).into_iter().collect();
        if !is_error {
            deltas.extend(
                task_entry(name, &params, &content, &self.working_dir).map(Delta::Observed),
            );
        }
        deltas.push(Delta::ToolResult { id, content, is_error });
        deltas
    }

    fn end(&self) -> End {
        match self.stop.as_str() {
            "error" => {
                let message = self
                    .error
                    .clone()
                    .unwrap_or_else(|| "pi reported an error of its model".to_owned());
                let (code, class) = if reports_overflow(&message) {
                    ("context_overflow", FailureClass::Overflow)
                } else {
                    ("provider_error", FailureClass::Permanent)
                };
                End::Failed(Failure::new(code, class, message))
            }
            "aborted" => End::Cancelled,
            "length" => End::Done(Stop::MaxTokens),
            _ => End::Done(Stop::EndTurn),
        }
    }
}

/// Parses the result of a compaction of pi's context window.
pub(super) fn compacted(result: &Value, trigger: Trigger) -> Option<Delta> {
    let summary = result.get("summary")?.as_str()?.to_owned();
    let tokens = |key: &str| result.get(key).and_then(Value::as_u64);
    Some(Delta::Compacted {
        summary,
        trigger,
        tokens_before: tokens("tokensBefore"),
        tokens_after: tokens("estimatedTokensAfter"),
    })
}

/// The task entry of a tool that ended without an error.
fn task_entry(name: &str, params: &Value, output: &str, working_dir: &Path) -> Option<step::Entry> {
    let path = || Some(working_dir.join(params.get("path")?.as_str()?));
    match name {
        "bash" => {
            let argv = task_observations::shell_argv(params.get("command")?.as_str()?);
            Some(step::Entry::Command {
                argv,
                exit: Some(0),
                output: Some(Content::Text(output.to_owned())),
            })
        }
        "read" => task_observations::file_read(&path()?, working_dir),
        "write" | "edit" => Some(task_observations::file_written(&path()?, working_dir)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn message_end(usage: Value) -> Value {
        json!({"type": "message_end", "message": {
            "role": "assistant", "usage": usage, "stopReason": "toolUse",
        }})
    }

    fn deltas_of(parser: &mut EventParser, event: Value) -> Vec<Delta> {
        let Value::Object(event) = event else { panic!("an object") };
        match parser.parse(&event) {
            EventOutcome::Deltas(deltas) => deltas,
            _ => panic!("not deltas"),
        }
    }

    #[test]
    fn call_is_reported_once_and_token_counts_are_added() {
        let mut parser = EventParser::new("/nowhere".into());
        let arguments = json!({"command": "ls"});
        let call = json!({"type": "message_update", "assistantMessageEvent": {
            "type": "toolcall_end",
            "toolCall": {"id": "t", "name": "bash", "arguments": arguments},
        }});
        let ended = message_end(json!({"input": 11, "output": 8}));
        assert_eq!(deltas_of(&mut parser, call).len(), 1);
        let started = json!({"type": "tool_execution_start", "toolCallId": "t",
            "toolName": "bash", "args": arguments});
        assert!(deltas_of(&mut parser, started).is_empty());
        let answer = json!({"type": "tool_execution_end", "toolCallId": "t", "toolName": "bash",
            "result": {"content": [{"type": "text", "text": "a"}]}, "isError": false});
        let deltas = deltas_of(&mut parser, answer);
        assert!(
            matches!(&deltas[0], Delta::Observed(step::Entry::Command { argv, .. })
                if argv[2] == "ls"),
            "{deltas:?}"
        );
        assert_eq!(
            deltas[1],
            Delta::ToolResult { id: "t".to_owned(), content: "a".to_owned(), is_error: false }
        );
        deltas_of(&mut parser, ended.clone());
        let Some(Delta::Usage(usage)) = deltas_of(&mut parser, ended).pop() else {
            panic!("usage")
        };
        assert_eq!((usage.input_tokens, usage.output_tokens), (Some(22), Some(16)));
        assert_eq!(usage.cost, None, "pi reported no cost");
    }

    #[test]
    fn costs_of_all_model_responses_are_added() {
        let mut parser = EventParser::new("/nowhere".into());
        let usage = |total: Value| {
            let cost =
                json!({"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": total});
            json!({"input": 11, "output": 8, "cacheRead": 0, "cacheWrite": 0, "cost": cost})
        };
        let mut cost_after = |total: Value| {
            let deltas = deltas_of(&mut parser, message_end(usage(total)));
            let [Delta::Usage(usage)] = deltas.as_slice() else { panic!("{deltas:?}") };
            usage.cost.clone()
        };
        assert_eq!(cost_after(json!(0.0015)).as_deref(), Some("0.0015 USD"));
        assert_eq!(cost_after(json!(0.002)).as_deref(), Some("0.0035 USD"));
        assert_eq!(cost_after(json!(0)).as_deref(), Some("0.0035 USD"));
    }

    #[test]
    fn compaction_is_reported() {
        let mut parser = EventParser::new("/nowhere".into());
        let result = json!({"summary": "so far", "tokensBefore": 9});
        for (reason, trigger) in [
            ("threshold", Trigger::ContextLimit),
            ("overflow", Trigger::OverflowRecovery),
            ("manual", Trigger::Manual),
        ] {
            let done = json!({"type": "compaction_end", "reason": reason, "result": result,
                "aborted": false});
            assert_eq!(
                deltas_of(&mut parser, done),
                [Delta::Compacted {
                    summary: "so far".to_owned(),
                    trigger,
                    tokens_before: Some(9),
                    tokens_after: None
                }]
            );
        }
        assert!(
            deltas_of(&mut parser, json!({"type": "compaction_end", "aborted": true})).is_empty()
        );
    }

    #[test]
    fn turn_ends_with_the_stop_reason_of_the_newest_response() {
        let table =
            [("stop", "done"), ("error", "failed"), ("aborted", "cancelled"), ("length", "done")];
        for (reason, expected) in table {
            let mut parser = EventParser::new("/nowhere".into());
            deltas_of(
                &mut parser,
                json!({"type": "message_end", "message": {
                    "role": "assistant", "stopReason": reason, "errorMessage": "no",
                }}),
            );
            let Value::Object(settled) = json!({"type": "agent_settled"}) else {
                panic!("an object")
            };
            let EventOutcome::Ended(end) = parser.parse(&settled) else { panic!("not ended") };
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
