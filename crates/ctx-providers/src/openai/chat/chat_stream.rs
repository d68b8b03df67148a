//! What a chat completion says, chunk by chunk.
//!
//! Words are passed on at once; calls and the usage are told at the end.

use ctx_core::turn::Usage;
use ctx_engine::provider::{Delta, Failure, Stop};
use serde_json::Value;

use super::call_fragments::Calls;
use crate::response_reader::{Fold, Weight};
use crate::tool_calls::Taken;
use crate::failure;

/// What has arrived.
pub(crate) struct Completion {
    calls: Calls,
    taken: Taken,
    /// Why the server stopped, once it says so.
    reason: Option<String>,
    /// It said that nothing follows.
    is_done: bool,
    refuses: bool,
    usage: Option<Usage>,
    weight: Weight,
}

impl Fold for Completion {
    fn event(&mut self, json: &Value, out: &mut Vec<Delta>) -> Result<(), Failure> {
        self.take(json, "delta", out)
    }

    fn document(&mut self, json: &Value, out: &mut Vec<Delta>) -> Result<(), Failure> {
        self.take(json, "message", out)?;
        if !json["choices"][0]["message"].is_object() {
            return Err(failure::bad_stream("it holds no message"));
        }
        // It came whole, so it ended, even where it does not say why.
        self.is_done = true;
        Ok(())
    }

    fn close(&mut self) {
        self.is_done = true;
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
            "length" | "max_tokens" => Ok(Stop::MaxTokens),
            "content_filter" => Ok(Stop::Refused),
            _ if self.refuses => Ok(Stop::Refused),
            // There are servers that say `stop` after calls, and `tool_calls` without any.
            _ if self.calls.is_empty() => Ok(Stop::EndTurn),
            _ => {
                out.extend(std::mem::take(&mut self.calls).finish(&mut self.taken)?);
                Ok(Stop::ToolCalls)
            }
        }
    }

    fn usage(&mut self) -> Option<Usage> {
        self.usage.take()
    }
}

impl Completion {
    /// Nothing yet; `taken` are the ids of calls in the history.
    pub(crate) fn new(taken: Taken) -> Self {
        Self {
            calls: Calls::default(),
            taken,
            reason: None,
            is_done: false,
            refuses: false,
            usage: None,
            weight: Weight::default(),
        }
    }

    /// Takes a chunk of a stream or a whole document; they differ in where the words are.
    fn take(&mut self, json: &Value, place: &str, out: &mut Vec<Delta>) -> Result<(), Failure> {
        match json.get("error") {
            Some(error) if !error.is_null() => return Err(failure::in_stream(error)),
            _ if json["object"] == "error" => return Err(failure::in_stream(json)),
            _ => {}
        }
        if json["usage"].is_object() {
            self.usage = Some(usage(&json["usage"]));
        }
        let choice = &json["choices"][0];
        self.take_words(&choice[place], out)?;
        self.take_calls(&choice[place])?;
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.reason = Some(reason.to_owned());
        }
        Ok(())
    }

    fn take_words(&mut self, said: &Value, out: &mut Vec<Delta>) -> Result<(), Failure> {
        // Some servers give the same reasoning under both names.
        let thought = [&said["reasoning_content"], &said["reasoning"]]
            .map(words)
            .into_iter()
            .find(|text| !text.is_empty());
        if let Some(text) = thought {
            self.weight.add(text.len())?;
            out.push(Delta::Thought { text, raw: None });
        }
        let refusal = words(&said["refusal"]);
        self.refuses |= !refusal.is_empty();
        for text in [words(&said["content"]), refusal] {
            if !text.is_empty() {
                self.weight.add(text.len())?;
                out.push(Delta::Text(text));
            }
        }
        Ok(())
    }

    fn take_calls(&mut self, said: &Value) -> Result<(), Failure> {
        for piece in said["tool_calls"].as_array().into_iter().flatten() {
            let bytes = self.calls.add(piece)?;
            self.weight.add(bytes)?;
        }
        // The older form knows one call, without an id.
        if said["function_call"].is_object() {
            let bytes = self
                .calls
                .add(&serde_json::json!({ "index": 0, "function": said["function_call"] }))?;
            self.weight.add(bytes)?;
        }
        Ok(())
    }
}

/// Words, as a text or as a list of parts.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}

fn usage(told: &Value) -> Usage {
    Usage {
        input_tokens: told["prompt_tokens"].as_u64(),
        output_tokens: told["completion_tokens"].as_u64(),
        cached_tokens: told["prompt_tokens_details"]["cached_tokens"].as_u64(),
        cost: None,
        scope: "last_call".to_owned(),
    }
}
