//! An answer while it arrives: bytes in, deltas out, one end.
//!
//! Words are passed on at once; calls and the usage are told at the end. A server that sends one JSON document although
//! it was asked for a stream is understood as well. No answer grows past its bounds, and none that broke off passes for
//! a whole one.

use std::collections::BTreeSet;

use ctx_core::turn::Usage;
use ctx_engine::provider::{Delta, End, Failure, Stop};
use serde_json::Value;

use super::calls::Calls;
use super::failure;
use crate::sse::{Events, TooLong};

/// The most words and arguments that an answer may hold.
const ANSWER_MAX_BYTES: usize = 16 * 1024 * 1024;
/// The most bytes that may carry them: a stream wraps each word in hundreds, and a server may send nothing but comments.
const WIRE_MAX_BYTES: usize = 16 * ANSWER_MAX_BYTES;
/// How much of what cannot be read is repeated.
const SAMPLE_MAX_CHARS: usize = 80;

/// What has arrived.
pub(super) struct Answer {
    shape: Shape,
    calls: Calls,
    /// Ids of calls that are in use.
    taken: BTreeSet<String>,
    /// Why the server stopped, once it says so.
    reason: Option<String>,
    /// It said that nothing follows.
    is_done: bool,
    refuses: bool,
    usage: Option<Usage>,
    answer_bytes: usize,
    wire_bytes: usize,
}

/// How the server answers; its first byte tells.
enum Shape {
    Unknown,
    Stream(Events),
    Document(Vec<u8>),
}

impl Answer {
    /// Nothing yet; `taken` are the ids of calls in the history.
    pub(super) fn new(taken: BTreeSet<String>) -> Self {
        Self {
            shape: Shape::Unknown,
            calls: Calls::default(),
            taken,
            reason: None,
            is_done: false,
            refuses: false,
            usage: None,
            answer_bytes: 0,
            wire_bytes: 0,
        }
    }

    /// Whether the server said that nothing follows.
    pub(super) const fn is_done(&self) -> bool {
        self.is_done
    }

    /// Whether nothing that matters is missing; the usage may still come.
    pub(super) const fn is_whole(&self) -> bool {
        self.is_done || self.reason.is_some()
    }

    /// Takes bytes, and adds what they say to `out`, also what they say before they fail.
    pub(super) fn feed(&mut self, bytes: &[u8], out: &mut Vec<Delta>) -> Result<(), Failure> {
        self.wire_bytes += bytes.len();
        if self.wire_bytes > WIRE_MAX_BYTES {
            return Err(failure::too_large("it does not end"));
        }
        if matches!(self.shape, Shape::Unknown) {
            self.shape = match bytes.trim_ascii_start().first() {
                None => return Ok(()),
                Some(b'{') => Shape::Document(Vec::new()),
                Some(b'<') => return Err(failure::bad_stream("it is a page. Is base_url right?")),
                Some(_) => Shape::Stream(Events::default()),
            };
        }
        match &mut self.shape {
            Shape::Document(document) if document.len() + bytes.len() > ANSWER_MAX_BYTES => Err(past_bound()),
            Shape::Document(document) => {
                document.extend_from_slice(bytes);
                Ok(())
            }
            Shape::Stream(events) => {
                let mut told = Vec::new();
                let fed = events.feed(bytes, &mut told);
                self.take_events(told, fed, out)
            }
            Shape::Unknown => Ok(()),
        }
    }

    /// The bytes have ended, or failed: adds what is left to `out` and says how it ends.
    pub(super) fn end(mut self, outcome: Result<(), Failure>, out: &mut Vec<Delta>) -> End {
        let closed = outcome.and_then(|()| self.close(out));
        let usage = self.usage.take();
        let stop = closed.and_then(|()| self.stop(out));
        out.extend(usage.map(Delta::Usage));
        stop.map_or_else(End::Failed, End::Done)
    }

    fn close(&mut self, out: &mut Vec<Delta>) -> Result<(), Failure> {
        match std::mem::replace(&mut self.shape, Shape::Unknown) {
            Shape::Unknown => Ok(()),
            Shape::Stream(events) => {
                let mut told = Vec::new();
                let fed = events.finish(&mut told);
                self.take_events(told, fed, out)
            }
            Shape::Document(document) => match serde_json::from_slice::<Value>(&document) {
                Ok(json) => self.take_document(&json, out),
                Err(error) if error.is_eof() => Err(failure::cut()),
                Err(error) => Err(failure::bad_stream(&error.to_string())),
            },
        }
    }

    fn take_events(&mut self, told: Vec<Vec<u8>>, fed: Result<(), TooLong>, out: &mut Vec<Delta>) -> Result<(), Failure> {
        for data in told {
            match data.trim_ascii() {
                _ if self.is_done => break,
                b"" => {}
                b"[DONE]" => self.is_done = true,
                data => {
                    let json = serde_json::from_slice(data).map_err(|error| unreadable(data, &error.to_string()))?;
                    self.take(&json, "delta", out)?;
                }
            }
        }
        fed.map_err(|TooLong| failure::too_large("one event of it has no end"))
    }

    fn take_document(&mut self, json: &Value, out: &mut Vec<Delta>) -> Result<(), Failure> {
        self.take(json, "message", out)?;
        if !json["choices"][0]["message"].is_object() {
            return Err(failure::bad_stream("it holds no message"));
        }
        // It came whole, so it ended, even where it does not say why.
        self.is_done = true;
        Ok(())
    }

    /// Takes a chunk of a stream or a whole document; they differ in where the words are.
    fn take(&mut self, json: &Value, place: &str, out: &mut Vec<Delta>) -> Result<(), Failure> {
        if !json.is_object() {
            return Err(unreadable(json.to_string().as_bytes(), "not an object"));
        }
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
        let thought = [&said["reasoning_content"], &said["reasoning"]].map(words).into_iter().find(|text| !text.is_empty());
        if let Some(text) = thought {
            self.grow(text.len())?;
            out.push(Delta::Thought { text, raw: None });
        }
        let refusal = words(&said["refusal"]);
        self.refuses |= !refusal.is_empty();
        for text in [words(&said["content"]), refusal] {
            if !text.is_empty() {
                self.grow(text.len())?;
                out.push(Delta::Text(text));
            }
        }
        Ok(())
    }

    fn take_calls(&mut self, said: &Value) -> Result<(), Failure> {
        for piece in said["tool_calls"].as_array().into_iter().flatten() {
            let bytes = self.calls.add(piece)?;
            self.grow(bytes)?;
        }
        // The older form knows one call, without an id.
        if said["function_call"].is_object() {
            let bytes = self.calls.add(&serde_json::json!({ "index": 0, "function": said["function_call"] }))?;
            self.grow(bytes)?;
        }
        Ok(())
    }

    fn grow(&mut self, bytes: usize) -> Result<(), Failure> {
        self.answer_bytes += bytes;
        if self.answer_bytes > ANSWER_MAX_BYTES { Err(past_bound()) } else { Ok(()) }
    }

    fn stop(self, out: &mut Vec<Delta>) -> Result<Stop, Failure> {
        let reason = match (self.reason, self.is_done) {
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
                out.extend(self.calls.finish(self.taken)?);
                Ok(Stop::ToolCalls)
            }
        }
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

fn past_bound() -> Failure {
    failure::too_large(&format!("it has more than {} MiB", ANSWER_MAX_BYTES >> 20))
}

fn unreadable(data: &[u8], why: &str) -> Failure {
    let sample: String = String::from_utf8_lossy(&data[..data.len().min(4 * SAMPLE_MAX_CHARS)]).chars().take(SAMPLE_MAX_CHARS).collect();
    failure::bad_stream(&format!("{why} in `{sample}`"))
}
