//! Parses the responses of the Messages API.
//!
//! Text is reported at once. Calls are reported at the end, when the response is known to be
//! complete. Output after a call is deferred with it, because later requests must repeat the order.

use ctx_core::turn::Usage;
use ctx_engine::provider::{Delta, Failure, Stop};
use serde_json::{Value, json};

use super::messages_request::is_reusable_thinking;
use crate::failure;
use crate::response_reader::{ResponseParser, SizeLimit};
use crate::tool_calls::{CALLS_MAX, CallIds};

/// The state of a response that is being read.
pub(crate) struct BlockParser {
    /// The block that is being read.
    open: Option<OpenBlock>,
    /// The completed blocks in the form in which they are sent back after a pause.
    completed: Vec<Value>,
    calls: usize,
    /// The first call and everything after it.
    deferred: Vec<Delta>,
    call_ids: CallIds,
    reason: Option<String>,
    is_done: bool,
    paused: bool,
    tokens: TokenCounts,
    size: SizeLimit,
}

struct OpenBlock {
    block: Value,
    /// JSON text of the call arguments received so far.
    arguments: String,
}

/// Token counts. The server reports them at the start and, more accurately, at the end.
#[derive(Default)]
struct TokenCounts {
    input: Option<u64>,
    cache_written: Option<u64>,
    cache_read: Option<u64>,
    output: Option<u64>,
}

impl ResponseParser for BlockParser {
    type Json<'a> = Value;

    fn on_event(&mut self, json: &Value, out: &mut Vec<Delta>) -> Result<(), Failure> {
        match json["type"].as_str().unwrap_or_default() {
            "message_start" => self.tokens.update(&json["message"]["usage"]),
            "content_block_start" => {
                self.close_block(out)?;
                self.open_block(&json["content_block"], out)?;
            }
            "content_block_delta" => self.append_delta(&json["delta"], out)?,
            "content_block_stop" => self.close_block(out)?,
            "message_delta" => {
                self.tokens.update(&json["usage"]);
                if let Some(reason) = json["delta"]["stop_reason"].as_str() {
                    self.reason = Some(reason.to_owned());
                }
            }
            "message_stop" => self.is_done = true,
            // A server with another API sends an `error` without a type.
            "error" | "" if !json["error"].is_null() => {
                return Err(failure::from_stream_error(&json["error"]));
            }
            "error" => return Err(failure::from_stream_error(json)),
            _ => {}
        }
        Ok(())
    }

    fn on_document(&mut self, json: &Value, out: &mut Vec<Delta>) -> Result<(), Failure> {
        if json["type"] == "error" || !json["error"].is_null() {
            return Err(failure::from_stream_error(&json["error"]));
        }
        let Some(content) = json["content"].as_array() else {
            return Err(failure::malformed("it contains no message"));
        };
        for block in content {
            self.open_block(block, out)?;
            self.close_block(out)?;
        }
        self.tokens.update(&json["usage"]);
        self.reason = json["stop_reason"].as_str().map(str::to_owned);
        self.is_done = true;
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn is_complete(&self) -> bool {
        self.is_done || self.reason.is_some()
    }

    fn finish(&mut self, out: &mut Vec<Delta>) -> Result<Stop, Failure> {
        let reason = match (self.reason.take(), self.is_done) {
            (Some(reason), _) => reason,
            (None, true) => String::new(),
            (None, false) => return Err(failure::cut_off()),
        };
        match reason.as_str() {
            // The last call may be incomplete and none of them will run: no call is reported.
            "max_tokens" | "model_context_window_exceeded" => Ok(Stop::MaxTokens),
            "refusal" => Ok(Stop::Refused),
            reason => {
                self.paused = reason == "pause_turn";
                out.append(&mut self.deferred);
                Ok(if self.calls == 0 { Stop::EndTurn } else { Stop::ToolCalls })
            }
        }
    }

    fn take_usage(&mut self) -> Option<Usage> {
        self.tokens.usage()
    }
}

impl BlockParser {
    /// `call_ids` are the ids in use in the history.
    pub(crate) fn new(call_ids: CallIds) -> Self {
        Self {
            open: None,
            completed: Vec::new(),
            calls: 0,
            deferred: Vec::new(),
            call_ids,
            reason: None,
            is_done: false,
            paused: false,
            tokens: TokenCounts::default(),
            size: SizeLimit::default(),
        }
    }

    /// The content so far and the ids in use, if the model only paused. A response with calls is
    /// not continued: the calls must be answered first.
    pub(super) fn paused(self) -> Option<(Vec<Value>, CallIds)> {
        (self.paused && self.calls == 0 && !self.completed.is_empty())
            .then_some((self.completed, self.call_ids))
    }

    fn open_block(&mut self, block: &Value, out: &mut Vec<Delta>) -> Result<(), Failure> {
        self.open = Some(OpenBlock { block: block.clone(), arguments: String::new() });
        let text = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
        match block["type"].as_str() {
            Some("text") => self.report(Delta::Text(text("text")), out),
            Some("thinking") => {
                self.report(Delta::Thought { text: text("thinking"), raw: None }, out)
            }
            _ => Ok(()),
        }
    }

    fn append_delta(&mut self, delta: &Value, out: &mut Vec<Delta>) -> Result<(), Failure> {
        let (key, fragment) = match delta["type"].as_str().unwrap_or_default() {
            "text_delta" => ("text", delta["text"].as_str()),
            "thinking_delta" => ("thinking", delta["thinking"].as_str()),
            "signature_delta" => ("signature", delta["signature"].as_str()),
            "input_json_delta" => ("input", delta["partial_json"].as_str()),
            _ => return Ok(()),
        };
        let (Some(open), Some(fragment)) = (self.open.as_mut(), fragment) else { return Ok(()) };
        match (key, &mut open.block[key]) {
            ("input", _) => open.arguments.push_str(fragment),
            (_, Value::String(text)) => text.push_str(fragment),
            (_, slot) => *slot = json!(fragment),
        }
        match key {
            "text" => self.report(Delta::Text(fragment.to_owned()), out),
            "thinking" => self.report(Delta::Thought { text: fragment.to_owned(), raw: None }, out),
            _ => self.size.add(fragment.len()),
        }
    }

    fn close_block(&mut self, out: &mut Vec<Delta>) -> Result<(), Failure> {
        let Some(OpenBlock { block, arguments }) = self.open.take() else { return Ok(()) };
        match block["type"].as_str() {
            Some("tool_use") => {
                self.calls += 1;
                if self.calls > CALLS_MAX {
                    return Err(failure::too_large(&format!(
                        "it has more than {CALLS_MAX} tool calls"
                    )));
                }
                let text = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
                let given = if arguments.is_empty() && block["input"].is_object() {
                    block["input"].to_string()
                } else {
                    arguments
                };
                self.deferred.push(self.call_ids.complete(text("id"), text("name"), given)?);
                Ok(())
            }
            Some("thinking" | "redacted_thinking") if is_reusable_thinking(&block) => {
                self.completed.push(block.clone());
                self.report(Delta::Thought { text: String::new(), raw: Some(block) }, out)
            }
            Some("text") if block["text"].as_str().is_some_and(|text| !text.trim().is_empty()) => {
                self.completed.push(json!({ "type": "text", "text": block["text"] }));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Reports a delta, or defers it if a call precedes it.
    fn report(&mut self, delta: Delta, out: &mut Vec<Delta>) -> Result<(), Failure> {
        match &delta {
            Delta::Text(text) | Delta::Thought { text, raw: None } if text.is_empty() => {
                return Ok(());
            }
            Delta::Text(text) | Delta::Thought { text, .. } => self.size.add(text.len())?,
            _ => {}
        }
        if self.deferred.is_empty() {
            out.push(delta);
        } else {
            self.deferred.push(delta);
        }
        Ok(())
    }
}

impl TokenCounts {
    fn update(&mut self, usage: &Value) {
        let slots = [
            ("input_tokens", &mut self.input),
            ("cache_creation_input_tokens", &mut self.cache_written),
            ("cache_read_input_tokens", &mut self.cache_read),
            ("output_tokens", &mut self.output),
        ];
        for (key, slot) in slots {
            *slot = usage[key].as_u64().or(*slot);
        }
    }

    /// Input includes the cached tokens, as in the other APIs.
    fn usage(&self) -> Option<Usage> {
        let is_reported = self.input.is_some() || self.output.is_some();
        let input = self.input.map(|input| {
            input
                .saturating_add(self.cache_written.unwrap_or(0))
                .saturating_add(self.cache_read.unwrap_or(0))
        });
        is_reported.then(|| Usage {
            input_tokens: input,
            output_tokens: self.output,
            cached_tokens: self.cache_read,
            cost: None,
            scope: "last_call".to_owned(),
            ..Usage::default()
        })
    }
}
