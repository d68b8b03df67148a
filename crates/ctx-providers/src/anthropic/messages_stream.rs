//! What a message says, block by block.
//!
//! Words are passed on at once. A call is told at the end, when it is sure that the answer is whole, and what comes
//! behind a call waits with it: the order is what the model is shown again.

use ctx_core::turn::Usage;
use ctx_engine::provider::{Delta, Failure, Stop};
use serde_json::{Value, json};

use super::messages_request::is_thinking;
use crate::response_reader::{Fold, Weight};
use crate::tool_calls::{CALLS_MAX, Taken};
use crate::failure;

/// What has arrived.
pub(crate) struct Blocks {
    /// The block that is open, and its input or signature so far.
    open: Option<Open>,
    /// The blocks so far, as the server would want them back.
    whole: Vec<Value>,
    calls: usize,
    /// A call, and what came behind it.
    waiting: Vec<Delta>,
    taken: Taken,
    reason: Option<String>,
    is_done: bool,
    paused: bool,
    tokens: Tokens,
    weight: Weight,
}

struct Open {
    block: Value,
    /// The arguments of a call, still in pieces.
    arguments: String,
}

/// Tokens, as they are told: at the beginning and, more precisely, at the end.
#[derive(Default)]
struct Tokens {
    input: Option<u64>,
    written: Option<u64>,
    read: Option<u64>,
    output: Option<u64>,
}

impl Fold for Blocks {
    fn event(&mut self, json: &Value, out: &mut Vec<Delta>) -> Result<(), Failure> {
        match json["type"].as_str().unwrap_or_default() {
            "message_start" => self.tokens.take(&json["message"]["usage"]),
            "content_block_start" => {
                self.close_block(out)?;
                self.open_block(&json["content_block"], out)?;
            }
            "content_block_delta" => self.grow(&json["delta"], out)?,
            "content_block_stop" => self.close_block(out)?,
            "message_delta" => {
                self.tokens.take(&json["usage"]);
                if let Some(reason) = json["delta"]["stop_reason"].as_str() {
                    self.reason = Some(reason.to_owned());
                }
            }
            "message_stop" => self.is_done = true,
            // A server that speaks another API answers with `error` alone.
            "error" | "" if !json["error"].is_null() => {
                return Err(failure::in_stream(&json["error"]));
            }
            "error" => return Err(failure::in_stream(json)),
            _ => {}
        }
        Ok(())
    }

    fn document(&mut self, json: &Value, out: &mut Vec<Delta>) -> Result<(), Failure> {
        if json["type"] == "error" || !json["error"].is_null() {
            return Err(failure::in_stream(&json["error"]));
        }
        let Some(content) = json["content"].as_array() else {
            return Err(failure::bad_stream("it holds no message"));
        };
        for block in content {
            self.open_block(block, out)?;
            self.close_block(out)?;
        }
        self.tokens.take(&json["usage"]);
        self.reason = json["stop_reason"].as_str().map(str::to_owned);
        self.is_done = true;
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn is_whole(&self) -> bool {
        self.is_done || self.reason.is_some()
    }

    fn stop(&mut self, out: &mut Vec<Delta>) -> Result<Stop, Failure> {
        let reason = match (self.reason.take(), self.is_done) {
            (Some(reason), _) => reason,
            (None, true) => String::new(),
            (None, false) => return Err(failure::cut()),
        };
        match reason.as_str() {
            // Its last call is cut off, and nobody runs the others: none is told.
            "max_tokens" | "model_context_window_exceeded" => Ok(Stop::MaxTokens),
            "refusal" => Ok(Stop::Refused),
            reason => {
                self.paused = reason == "pause_turn";
                out.append(&mut self.waiting);
                Ok(if self.calls == 0 { Stop::EndTurn } else { Stop::ToolCalls })
            }
        }
    }

    fn usage(&mut self) -> Option<Usage> {
        self.tokens.usage()
    }
}

impl Blocks {
    /// Nothing yet; `taken` are the ids of calls in the history.
    pub(crate) fn new(taken: Taken) -> Self {
        Self {
            open: None,
            whole: Vec::new(),
            calls: 0,
            waiting: Vec::new(),
            taken,
            reason: None,
            is_done: false,
            paused: false,
            tokens: Tokens::default(),
            weight: Weight::default(),
        }
    }

    /// Where the model only paused: what it said, and the ids that are in use. A call is answered first.
    pub(super) fn paused(self) -> Option<(Vec<Value>, Taken)> {
        (self.paused && self.calls == 0 && !self.whole.is_empty())
            .then_some((self.whole, self.taken))
    }

    fn open_block(&mut self, block: &Value, out: &mut Vec<Delta>) -> Result<(), Failure> {
        self.open = Some(Open { block: block.clone(), arguments: String::new() });
        let text = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
        match block["type"].as_str() {
            Some("text") => self.tell(Delta::Text(text("text")), out),
            Some("thinking") => {
                self.tell(Delta::Thought { text: text("thinking"), raw: None }, out)
            }
            _ => Ok(()),
        }
    }

    fn grow(&mut self, delta: &Value, out: &mut Vec<Delta>) -> Result<(), Failure> {
        let (key, piece) = match delta["type"].as_str().unwrap_or_default() {
            "text_delta" => ("text", delta["text"].as_str()),
            "thinking_delta" => ("thinking", delta["thinking"].as_str()),
            "signature_delta" => ("signature", delta["signature"].as_str()),
            "input_json_delta" => ("input", delta["partial_json"].as_str()),
            _ => return Ok(()),
        };
        let (Some(open), Some(piece)) = (self.open.as_mut(), piece) else { return Ok(()) };
        match (key, &mut open.block[key]) {
            ("input", _) => open.arguments.push_str(piece),
            (_, Value::String(text)) => text.push_str(piece),
            (_, slot) => *slot = json!(piece),
        }
        match key {
            "text" => self.tell(Delta::Text(piece.to_owned()), out),
            "thinking" => self.tell(Delta::Thought { text: piece.to_owned(), raw: None }, out),
            _ => self.weight.add(piece.len()),
        }
    }

    fn close_block(&mut self, out: &mut Vec<Delta>) -> Result<(), Failure> {
        let Some(Open { block, arguments }) = self.open.take() else { return Ok(()) };
        match block["type"].as_str() {
            Some("tool_use") => {
                self.calls += 1;
                if self.calls > CALLS_MAX {
                    return Err(failure::too_large(&format!(
                        "it calls more than {CALLS_MAX} tools"
                    )));
                }
                let text = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
                let given = if arguments.is_empty() && block["input"].is_object() {
                    block["input"].to_string()
                } else {
                    arguments
                };
                self.waiting.push(self.taken.call(text("id"), text("name"), given)?);
                Ok(())
            }
            Some("thinking" | "redacted_thinking") if is_thinking(&block) => {
                self.whole.push(block.clone());
                self.tell(Delta::Thought { text: String::new(), raw: Some(block) }, out)
            }
            Some("text") if block["text"].as_str().is_some_and(|text| !text.trim().is_empty()) => {
                self.whole.push(json!({ "type": "text", "text": block["text"] }));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Tells it now, unless a call stands before it.
    fn tell(&mut self, delta: Delta, out: &mut Vec<Delta>) -> Result<(), Failure> {
        match &delta {
            Delta::Text(text) | Delta::Thought { text, raw: None } if text.is_empty() => {
                return Ok(());
            }
            Delta::Text(text) | Delta::Thought { text, .. } => self.weight.add(text.len())?,
            _ => {}
        }
        if self.waiting.is_empty() {
            out.push(delta);
        } else {
            self.waiting.push(delta);
        }
        Ok(())
    }
}

impl Tokens {
    fn take(&mut self, told: &Value) {
        let slots = [
            ("input_tokens", &mut self.input),
            ("cache_creation_input_tokens", &mut self.written),
            ("cache_read_input_tokens", &mut self.read),
            ("output_tokens", &mut self.output),
        ];
        for (key, slot) in slots {
            *slot = told[key].as_u64().or(*slot);
        }
    }

    /// All that was read counts as input, whether the server had it at hand or not: elsewhere the word means that too.
    fn usage(&self) -> Option<Usage> {
        let told = self.input.is_some() || self.output.is_some();
        let input = self.input.map(|input| {
            input.saturating_add(self.written.unwrap_or(0)).saturating_add(self.read.unwrap_or(0))
        });
        told.then(|| Usage {
            input_tokens: input,
            output_tokens: self.output,
            cached_tokens: self.read,
            cost: None,
            scope: "last_call".to_owned(),
        })
    }
}
