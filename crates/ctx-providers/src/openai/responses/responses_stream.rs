//! Parses the responses of the Responses API.
//!
//! Text is reported at once. Calls are reported at the end, when the response is known to be
//! complete. Output after a call is deferred with it, because later requests must repeat the order.

use ctx_core::turn::Usage;
use ctx_engine::provider::{Delta, Failure, Stop};
use serde_json::Value;

use super::responses_request::is_reusable_reasoning;
use crate::failure;
use crate::response_reader::{ResponseParser, SizeLimit};
use crate::tool_calls::{CALLS_MAX, CallIds, arguments_text};
use crate::usage_cost::Cost;

/// Maximum number of output items of one response.
const ITEMS_MAX: usize = 4 * CALLS_MAX;

/// The state of a response that is being read.
pub(crate) struct ItemParser {
    items: Vec<Item>,
    call_ids: CallIds,
    final_status: Option<FinalStatus>,
    is_refusal: bool,
    usage: Option<Usage>,
    size: SizeLimit,
}

/// The final status of a response.
enum FinalStatus {
    Completed,
    Incomplete(String),
}

/// An output item that is being read.
struct Item {
    key: String,
    call: Option<Call>,
    /// Whether text of it was already reported.
    has_reported_text: bool,
    is_done: bool,
    /// Deltas that follow a call.
    deferred: Vec<Delta>,
}

#[derive(Default)]
struct Call {
    id: String,
    name: String,
    arguments: String,
}

impl ResponseParser for ItemParser {
    type Json<'a> = Value;

    fn on_event(&mut self, json: &Value, out: &mut Vec<Delta>) -> Result<(), Failure> {
        let text = || json["delta"].as_str().unwrap_or_default().to_owned();
        match json["type"].as_str().unwrap_or_default() {
            "response.output_item.added" => self.item_index(json).map(|_| ()),
            "response.output_text.delta" => self.report_text(json, Delta::Text(text()), out),
            "response.refusal.delta" => {
                self.is_refusal = true;
                self.report_text(json, Delta::Text(text()), out)
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.report_text(json, Delta::Thought { text: text(), raw: None }, out)
            }
            // Parts of a summary are separated as paragraphs.
            "response.reasoning_summary_part.added"
                if json["summary_index"].as_u64().is_some_and(|index| index > 0) =>
            {
                self.report_text(json, Delta::Thought { text: "\n\n".to_owned(), raw: None }, out)
            }
            "response.function_call_arguments.delta" => {
                self.size.add(text().len())?;
                let at = self.item_index(json)?;
                self.items[at].call.get_or_insert_default().arguments.push_str(&text());
                Ok(())
            }
            "response.output_item.done" => self.complete_item(json, out),
            "response.completed" => self.set_status("completed", &json["response"]),
            "response.incomplete" => self.set_status("incomplete", &json["response"]),
            "response.failed" => self.set_status("failed", &json["response"]),
            "error" => Err(failure::from_stream_error(if json["error"].is_object() {
                &json["error"]
            } else {
                json
            })),
            // A server with another API sends an `error` without a type.
            "" if !json["error"].is_null() => Err(failure::from_stream_error(&json["error"])),
            _ => Ok(()),
        }
    }

    fn on_document(&mut self, json: &Value, out: &mut Vec<Delta>) -> Result<(), Failure> {
        if json["object"] != "response" && !json["error"].is_null() {
            return Err(failure::from_stream_error(&json["error"]));
        }
        let Some(output) = json["output"].as_array() else {
            return Err(failure::malformed("it contains no output"));
        };
        for (at, item) in output.iter().enumerate() {
            self.complete_item(&serde_json::json!({ "output_index": at, "item": item }), out)?;
        }
        self.set_status(json["status"].as_str().unwrap_or_default(), json)
    }

    fn is_done(&self) -> bool {
        self.final_status.is_some()
    }

    fn finish(&mut self, out: &mut Vec<Delta>) -> Result<Stop, Failure> {
        match self.final_status.take() {
            None => return Err(failure::cut_off()),
            // The last call may be incomplete and none of them will run: no call is reported.
            Some(FinalStatus::Incomplete(reason)) if reason == "content_filter" => {
                return Ok(Stop::Refused);
            }
            Some(FinalStatus::Incomplete(_)) => return Ok(Stop::MaxTokens),
            Some(FinalStatus::Completed) if self.is_refusal => return Ok(Stop::Refused),
            Some(FinalStatus::Completed) => {}
        }
        let mut stop = Stop::EndTurn;
        for item in std::mem::take(&mut self.items) {
            if let Some(call) = item.call {
                stop = Stop::ToolCalls;
                out.push(self.call_ids.complete(call.id, call.name, call.arguments)?);
            }
            out.extend(item.deferred);
        }
        Ok(stop)
    }

    fn take_usage(&mut self) -> Option<Usage> {
        self.usage.take()
    }
}

impl ItemParser {
    /// `call_ids` are the ids in use in the history.
    pub(crate) fn new(call_ids: CallIds) -> Self {
        Self {
            items: Vec::new(),
            call_ids,
            final_status: None,
            is_refusal: false,
            usage: None,
            size: SizeLimit::default(),
        }
    }

    /// The index of an event's item, which is added if it is new. The item id identifies it, or
    /// else its position.
    fn item_index(&mut self, json: &Value) -> Result<usize, Failure> {
        let item = &json["item"];
        let id =
            item["id"].as_str().or_else(|| json["item_id"].as_str()).filter(|id| !id.is_empty());
        let key = id.map_or_else(|| format!("#{}", json["output_index"]), str::to_owned);
        let at = match self.items.iter().rposition(|known| known.key == key) {
            Some(at) => at,
            None if self.items.len() == ITEMS_MAX => {
                return Err(failure::too_large(&format!("it has more than {ITEMS_MAX} items")));
            }
            None => {
                self.items.push(Item {
                    key,
                    call: None,
                    has_reported_text: false,
                    is_done: false,
                    deferred: Vec::new(),
                });
                self.items.len() - 1
            }
        };
        if item["type"] == "function_call" {
            let call = self.items[at].call.get_or_insert_default();
            for (slot, given) in [(&mut call.id, &item["call_id"]), (&mut call.name, &item["name"])]
            {
                if let Some(given) = given.as_str().filter(|given| !given.is_empty()) {
                    *slot = given.to_owned();
                }
            }
        }
        Ok(at)
    }

    fn report_text(
        &mut self,
        json: &Value,
        delta: Delta,
        out: &mut Vec<Delta>,
    ) -> Result<(), Failure> {
        let at = self.item_index(json)?;
        self.items[at].has_reported_text = true;
        self.report(at, delta, out)
    }

    /// Reports a delta, or defers it if a call precedes it.
    fn report(&mut self, at: usize, delta: Delta, out: &mut Vec<Delta>) -> Result<(), Failure> {
        if let Delta::Text(text) | Delta::Thought { text, .. } = &delta {
            self.size.add(text.len())?;
        }
        let follows_a_call = self.items[..at].iter().any(|item| item.call.is_some());
        if follows_a_call {
            self.items[at].deferred.push(delta);
        } else {
            out.push(delta);
        }
        Ok(())
    }

    /// Completes an item. The final item is authoritative: a server may send no deltas before it.
    fn complete_item(&mut self, json: &Value, out: &mut Vec<Delta>) -> Result<(), Failure> {
        let (at, item) = (self.item_index(json)?, &json["item"]);
        if std::mem::replace(&mut self.items[at].is_done, true) {
            return Ok(());
        }
        match item["type"].as_str().unwrap_or_default() {
            "function_call" => {
                let complete = arguments_text(&item["arguments"]);
                let call = self.items[at].call.get_or_insert_default();
                if !complete.is_empty() {
                    let before = call.arguments.len();
                    call.arguments = complete;
                    let more = call.arguments.len().saturating_sub(before);
                    self.size.add(more)?;
                }
                if self.items.iter().filter(|item| item.call.is_some()).count() > CALLS_MAX {
                    return Err(failure::too_large(&format!(
                        "it has more than {CALLS_MAX} tool calls"
                    )));
                }
                Ok(())
            }
            "reasoning" => {
                let has_reported_text = self.items[at].has_reported_text;
                let text = if has_reported_text {
                    String::new()
                } else {
                    joined_text(&item["summary"], "\n\n")
                };
                let raw = is_reusable_reasoning(item).then(|| item.clone());
                self.size.add(raw.as_ref().map_or(0, |raw| raw.to_string().len()))?;
                if text.is_empty() && raw.is_none() {
                    Ok(())
                } else {
                    self.report(at, Delta::Thought { text, raw }, out)
                }
            }
            "message" => {
                self.is_refusal |= item["content"]
                    .as_array()
                    .is_some_and(|parts| parts.iter().any(|part| part["type"] == "refusal"));
                let text = joined_text(&item["content"], "");
                if self.items[at].has_reported_text || text.is_empty() {
                    Ok(())
                } else {
                    self.report(at, Delta::Text(text), out)
                }
            }
            _ => Ok(()),
        }
    }

    fn set_status(&mut self, status: &str, response: &Value) -> Result<(), Failure> {
        if response["usage"].is_object() {
            self.usage = Some(usage(&response["usage"]));
        }
        let reason = response["incomplete_details"]["reason"].as_str();
        match status {
            "failed" | "cancelled" => return Err(failure::from_stream_error(&response["error"])),
            "incomplete" => {
                self.final_status =
                    Some(FinalStatus::Incomplete(reason.unwrap_or_default().to_owned()));
            }
            _ => self.final_status = Some(FinalStatus::Completed),
        }
        Ok(())
    }
}

/// The joined text of a list of parts.
fn joined_text(parts: &Value, separator: &str) -> String {
    let text = |part: &Value| {
        part["text"].as_str().or_else(|| part["refusal"].as_str()).map(str::to_owned)
    };
    parts.as_array().into_iter().flatten().filter_map(text).collect::<Vec<_>>().join(separator)
}

/// Converts the usage. OpenRouter adds the cost of the call in US dollars.
fn usage(usage: &Value) -> Usage {
    Usage {
        input_tokens: usage["input_tokens"].as_u64(),
        output_tokens: usage["output_tokens"].as_u64(),
        cached_tokens: usage["input_tokens_details"]["cached_tokens"].as_u64(),
        cost: Cost::in_dollars(&usage["cost"]).map(|cost| cost.to_string()),
        scope: "last_call".to_owned(),
        ..Usage::default()
    }
}
