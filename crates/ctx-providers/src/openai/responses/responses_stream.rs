//! What a response says, event by event.
//!
//! Words are passed on at once. A call is told at the end, when it is sure that the answer is whole, and what comes
//! behind a call waits with it: the order is what the model is shown again.

use ctx_core::turn::Usage;
use ctx_engine::provider::{Delta, Failure, Stop};
use serde_json::Value;

use super::responses_request::is_reasoning;
use crate::response_reader::{Fold, Weight};
use crate::tool_calls::{CALLS_MAX, Taken, arguments};
use crate::failure;

/// The most items of one answer.
const ITEMS_MAX: usize = 4 * CALLS_MAX;

/// What has arrived, item by item.
pub(crate) struct Items {
    items: Vec<Item>,
    taken: Taken,
    ended: Option<Ended>,
    refuses: bool,
    usage: Option<Usage>,
    weight: Weight,
}

/// How the server says that it ended.
enum Ended {
    Completed,
    Incomplete(String),
}

/// One item of an answer, while it arrives.
struct Item {
    key: String,
    call: Option<Call>,
    /// Some of its words came already.
    spoke: bool,
    is_done: bool,
    /// What waits for a call before it.
    waiting: Vec<Delta>,
}

#[derive(Default)]
struct Call {
    id: String,
    name: String,
    arguments: String,
}

impl Fold for Items {
    fn event(&mut self, json: &Value, out: &mut Vec<Delta>) -> Result<(), Failure> {
        let text = || json["delta"].as_str().unwrap_or_default().to_owned();
        match json["type"].as_str().unwrap_or_default() {
            "response.output_item.added" => self.begin(json).map(|_| ()),
            "response.output_text.delta" => self.say(json, Delta::Text(text()), out),
            "response.refusal.delta" => {
                self.refuses = true;
                self.say(json, Delta::Text(text()), out)
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.say(json, Delta::Thought { text: text(), raw: None }, out)
            }
            // The parts of a summary are paragraphs.
            "response.reasoning_summary_part.added"
                if json["summary_index"].as_u64().is_some_and(|index| index > 0) =>
            {
                self.say(json, Delta::Thought { text: "\n\n".to_owned(), raw: None }, out)
            }
            "response.function_call_arguments.delta" => {
                self.weight.add(text().len())?;
                let at = self.begin(json)?;
                self.items[at].call.get_or_insert_default().arguments.push_str(&text());
                Ok(())
            }
            "response.output_item.done" => self.finish(json, out),
            "response.completed" => self.end("completed", &json["response"]),
            "response.incomplete" => self.end("incomplete", &json["response"]),
            "response.failed" => self.end("failed", &json["response"]),
            "error" => Err(failure::in_stream(if json["error"].is_object() {
                &json["error"]
            } else {
                json
            })),
            // A server that speaks another API answers with `error` alone.
            "" if !json["error"].is_null() => Err(failure::in_stream(&json["error"])),
            _ => Ok(()),
        }
    }

    fn document(&mut self, json: &Value, out: &mut Vec<Delta>) -> Result<(), Failure> {
        if json["object"] != "response" && !json["error"].is_null() {
            return Err(failure::in_stream(&json["error"]));
        }
        let Some(output) = json["output"].as_array() else {
            return Err(failure::bad_stream("it holds no output"));
        };
        for (at, item) in output.iter().enumerate() {
            self.finish(&serde_json::json!({ "output_index": at, "item": item }), out)?;
        }
        self.end(json["status"].as_str().unwrap_or_default(), json)
    }

    fn is_done(&self) -> bool {
        self.ended.is_some()
    }

    fn stop(&mut self, out: &mut Vec<Delta>) -> Result<Stop, Failure> {
        match self.ended.take() {
            None => return Err(failure::cut()),
            // Its last call is cut off, and nobody runs the others: none is told.
            Some(Ended::Incomplete(reason)) if reason == "content_filter" => {
                return Ok(Stop::Refused);
            }
            Some(Ended::Incomplete(_)) => return Ok(Stop::MaxTokens),
            Some(Ended::Completed) if self.refuses => return Ok(Stop::Refused),
            Some(Ended::Completed) => {}
        }
        let mut stop = Stop::EndTurn;
        for item in std::mem::take(&mut self.items) {
            if let Some(call) = item.call {
                stop = Stop::ToolCalls;
                out.push(self.taken.call(call.id, call.name, call.arguments)?);
            }
            out.extend(item.waiting);
        }
        Ok(stop)
    }

    fn usage(&mut self) -> Option<Usage> {
        self.usage.take()
    }
}

impl Items {
    /// Nothing yet; `taken` are the ids of calls in the history.
    pub(crate) fn new(taken: Taken) -> Self {
        Self {
            items: Vec::new(),
            taken,
            ended: None,
            refuses: false,
            usage: None,
            weight: Weight::default(),
        }
    }

    /// The item that an event is about, begun where it is new. Its id says which, or else its place.
    fn begin(&mut self, json: &Value) -> Result<usize, Failure> {
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
                    spoke: false,
                    is_done: false,
                    waiting: Vec::new(),
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

    fn say(&mut self, json: &Value, delta: Delta, out: &mut Vec<Delta>) -> Result<(), Failure> {
        let at = self.begin(json)?;
        self.items[at].spoke = true;
        self.tell(at, delta, out)
    }

    /// Tells it now, unless a call stands before it.
    fn tell(&mut self, at: usize, delta: Delta, out: &mut Vec<Delta>) -> Result<(), Failure> {
        if let Delta::Text(text) | Delta::Thought { text, .. } = &delta {
            self.weight.add(text.len())?;
        }
        let behind_a_call = self.items[..at].iter().any(|item| item.call.is_some());
        if behind_a_call {
            self.items[at].waiting.push(delta);
        } else {
            out.push(delta);
        }
        Ok(())
    }

    /// An item is whole; what it says now counts, also where nothing of it came before.
    fn finish(&mut self, json: &Value, out: &mut Vec<Delta>) -> Result<(), Failure> {
        let (at, item) = (self.begin(json)?, &json["item"]);
        if std::mem::replace(&mut self.items[at].is_done, true) {
            return Ok(());
        }
        match item["type"].as_str().unwrap_or_default() {
            "function_call" => {
                let whole = arguments(&item["arguments"]);
                let call = self.items[at].call.get_or_insert_default();
                if !whole.is_empty() {
                    let before = call.arguments.len();
                    call.arguments = whole;
                    let more = call.arguments.len().saturating_sub(before);
                    self.weight.add(more)?;
                }
                if self.items.iter().filter(|item| item.call.is_some()).count() > CALLS_MAX {
                    return Err(failure::too_large(&format!(
                        "it calls more than {CALLS_MAX} tools"
                    )));
                }
                Ok(())
            }
            "reasoning" => {
                let spoke = self.items[at].spoke;
                let text = if spoke { String::new() } else { texts(&item["summary"], "\n\n") };
                let raw = is_reasoning(item).then(|| item.clone());
                self.weight.add(raw.as_ref().map_or(0, |raw| raw.to_string().len()))?;
                if text.is_empty() && raw.is_none() {
                    Ok(())
                } else {
                    self.tell(at, Delta::Thought { text, raw }, out)
                }
            }
            "message" => {
                self.refuses |= item["content"]
                    .as_array()
                    .is_some_and(|parts| parts.iter().any(|part| part["type"] == "refusal"));
                let text = texts(&item["content"], "");
                if self.items[at].spoke || text.is_empty() {
                    Ok(())
                } else {
                    self.tell(at, Delta::Text(text), out)
                }
            }
            _ => Ok(()),
        }
    }

    fn end(&mut self, how: &str, response: &Value) -> Result<(), Failure> {
        if response["usage"].is_object() {
            self.usage = Some(usage(&response["usage"]));
        }
        let reason = response["incomplete_details"]["reason"].as_str();
        match how {
            "failed" | "cancelled" => return Err(failure::in_stream(&response["error"])),
            "incomplete" => {
                self.ended = Some(Ended::Incomplete(reason.unwrap_or_default().to_owned()))
            }
            _ => self.ended = Some(Ended::Completed),
        }
        Ok(())
    }
}

/// The words of a list of parts.
fn texts(parts: &Value, between: &str) -> String {
    let word = |part: &Value| {
        part["text"].as_str().or_else(|| part["refusal"].as_str()).map(str::to_owned)
    };
    parts.as_array().into_iter().flatten().filter_map(word).collect::<Vec<_>>().join(between)
}

fn usage(told: &Value) -> Usage {
    Usage {
        input_tokens: told["input_tokens"].as_u64(),
        output_tokens: told["output_tokens"].as_u64(),
        cached_tokens: told["input_tokens_details"]["cached_tokens"].as_u64(),
        cost: None,
        scope: "last_call".to_owned(),
    }
}
