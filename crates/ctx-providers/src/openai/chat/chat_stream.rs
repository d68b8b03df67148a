//! Parses the responses of the chat completions API.
//!
//! Text is reported at once, calls and usage at the end of the response.

use ctx_core::turn::Usage;
use ctx_engine::provider::{Delta, Failure, Stop};
use serde_json::Value;

use super::call_fragments::CallAssembler;
use crate::borrowed_json::Json;
use crate::failure;
use crate::response_reader::{ResponseParser, SizeLimit};
use crate::tool_calls::CallIds;
use crate::usage_cost::Cost;

/// The state of a response that is being read.
pub(crate) struct ChatParser {
    calls: CallAssembler,
    call_ids: CallIds,
    /// The `finish_reason`, once received.
    reason: Option<String>,
    /// Whether `[DONE]` or a whole document was received.
    is_done: bool,
    is_refusal: bool,
    usage: Option<Usage>,
    size: SizeLimit,
}

impl ResponseParser for ChatParser {
    type Json<'a> = Json<'a>;

    fn on_event(&mut self, json: &Json<'_>, out: &mut Vec<Delta>) -> Result<(), Failure> {
        self.parse(json, "delta", out)
    }

    fn on_document(&mut self, json: &Json<'_>, out: &mut Vec<Delta>) -> Result<(), Failure> {
        self.parse(json, "message", out)?;
        if !json["choices"][0]["message"].is_object() {
            return Err(failure::malformed("it contains no message"));
        }
        // A document is complete even without a `finish_reason`.
        self.is_done = true;
        Ok(())
    }

    fn on_done_marker(&mut self) {
        self.is_done = true;
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
            "length" | "max_tokens" => Ok(Stop::MaxTokens),
            "content_filter" => Ok(Stop::Refused),
            _ if self.is_refusal => Ok(Stop::Refused),
            // Some servers send `stop` after calls, or `tool_calls` without any call.
            _ if self.calls.is_empty() => Ok(Stop::EndTurn),
            _ => {
                out.extend(std::mem::take(&mut self.calls).finish(&mut self.call_ids)?);
                Ok(Stop::ToolCalls)
            }
        }
    }

    fn take_usage(&mut self) -> Option<Usage> {
        self.usage.take()
    }
}

impl ChatParser {
    /// `call_ids` are the ids in use in the history.
    pub(crate) fn new(call_ids: CallIds) -> Self {
        Self {
            calls: CallAssembler::default(),
            call_ids,
            reason: None,
            is_done: false,
            is_refusal: false,
            usage: None,
            size: SizeLimit::default(),
        }
    }

    /// Parses a chunk of a stream, where the content is in `delta`, or a document, where it is in
    /// `message`.
    fn parse(
        &mut self,
        json: &Json<'_>,
        content_key: &str,
        out: &mut Vec<Delta>,
    ) -> Result<(), Failure> {
        let error = &json["error"];
        if !error.is_null() {
            return Err(failure::from_stream_error(&error.to_value()));
        }
        if json["object"].as_str() == Some("error") {
            return Err(failure::from_stream_error(&json.to_value()));
        }
        if json["usage"].is_object() {
            self.usage = Some(usage(&json["usage"].to_value()));
        }
        let choice = &json["choices"][0];
        self.parse_text(&choice[content_key], out)?;
        self.parse_calls(&choice[content_key])?;
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.reason = Some(reason.to_owned());
        }
        Ok(())
    }

    fn parse_text(&mut self, content: &Json<'_>, out: &mut Vec<Delta>) -> Result<(), Failure> {
        // Some servers send the same reasoning under both names.
        let thought = [&content["reasoning_content"], &content["reasoning"]]
            .map(text_of)
            .into_iter()
            .find(|text| !text.is_empty());
        if let Some(text) = thought {
            self.size.add(text.len())?;
            out.push(Delta::Thought { text, raw: None });
        }
        let refusal = text_of(&content["refusal"]);
        self.is_refusal |= !refusal.is_empty();
        for text in [text_of(&content["content"]), refusal] {
            if !text.is_empty() {
                self.size.add(text.len())?;
                out.push(Delta::Text(text));
            }
        }
        Ok(())
    }

    fn parse_calls(&mut self, content: &Json<'_>) -> Result<(), Failure> {
        for piece in content["tool_calls"].elements() {
            let bytes = self.calls.add(&piece.to_value())?;
            self.size.add(bytes)?;
        }
        // The older form has a single call without an id.
        if content["function_call"].is_object() {
            let call = content["function_call"].to_value();
            let bytes = self.calls.add(&serde_json::json!({ "index": 0, "function": call }))?;
            self.size.add(bytes)?;
        }
        Ok(())
    }
}

/// Text, given as a string or as a list of parts.
fn text_of(json: &Json<'_>) -> String {
    match json {
        Json::Text(text) => text.clone().into_owned(),
        Json::List(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}

/// Converts the usage. OpenRouter adds the cost of the call in US dollars.
fn usage(usage: &Value) -> Usage {
    Usage {
        input_tokens: usage["prompt_tokens"].as_u64(),
        output_tokens: usage["completion_tokens"].as_u64(),
        cached_tokens: usage["prompt_tokens_details"]["cached_tokens"].as_u64(),
        cost: Cost::in_dollars(&usage["cost"]).map(|cost| cost.to_string()),
        scope: "last_call".to_owned(),
        ..Usage::default()
    }
}
