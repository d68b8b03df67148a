//! The generic format that `ctx import --from jsonl` reads: one message per line.

use ctx_engine::core::time::Timestamp;
use serde_json::{Value, json};

use super::native_lines::{data_url, push_line};
use super::transcript::{Call, Entry, PromptPart, Response, ResponsePart, Turn};
use super::{Format, SessionFacts};

pub(super) struct JsonlLines {
    session: Value,
    turn: usize,
    line: usize,
}

impl JsonlLines {
    pub(super) fn new(facts: &SessionFacts) -> Self {
        let session = json!({
            "type": "session",
            "id": facts.id,
            "title": facts.title,
            "working_dir": facts.working_dir,
            "timestamp": facts.created_at.to_string(),
        });
        Self { session, turn: 0, line: 0 }
    }

    /// Appends a line. Ids number the lines of each turn, so that a longer history begins with the
    /// same lines.
    fn push(&mut self, at: Timestamp, mut line: Value, out: &mut Vec<u8>) {
        self.line += 1;
        line["id"] = json!(format!("{}.{}", self.turn, self.line));
        line["timestamp"] = json!(at.to_string());
        push_line(out, &line);
    }

    fn response(&mut self, turn: &Turn, response: &Response, out: &mut Vec<u8>) {
        let mut lines = Lines::default();
        for part in &response.parts {
            lines.part(part);
        }
        lines.calls(&response.calls);
        let mut lines = lines.finish();
        if response.is_last
            && let (Some(last), Some(usage)) = (lines.last_mut(), &turn.usage)
        {
            last["usage"] = json!({
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "cached_tokens": usage.cached_tokens,
                "cost": usage.cost,
            });
        }
        for mut line in lines {
            line["model"] = json!(turn.model);
            self.push(response.at, line, out);
        }
        for call in response.calls.iter().filter(|call| call.has_result) {
            let line = json!({
                "role": "tool",
                "tool_call_id": call.id,
                "content": call.output,
                "is_error": call.is_error,
            });
            self.push(call.ended_at, line, out);
        }
    }
}

impl Format for JsonlLines {
    fn start(&mut self, out: &mut Vec<u8>) {
        push_line(out, &self.session);
    }

    fn turn(&mut self, turn: &Turn, out: &mut Vec<u8>) {
        self.turn += 1;
        self.line = 0;
        for entry in &turn.entries {
            match entry {
                Entry::Prompt { at, parts } => {
                    let line = json!({"role": "user", "content": content(parts)});
                    self.push(*at, line, out);
                }
                Entry::Response(response) => self.response(turn, response, out),
                Entry::Compaction { at, summary, .. } => {
                    self.push(*at, json!({"role": "summary", "content": summary}), out);
                }
                Entry::Notice { at, text } => {
                    self.push(*at, json!({"role": "system", "content": text}), out);
                }
                Entry::Record { at, kind, content } => {
                    let line = json!({"type": "record", "kind": kind, "content": content});
                    self.push(*at, line, out);
                }
            }
        }
    }
}

/// A line has reasoning, then text, then calls. Other orders need several lines.
#[derive(Default)]
struct Lines {
    done: Vec<Value>,
    open: Option<Value>,
}

impl Lines {
    fn open(&mut self) -> &mut Value {
        self.open.get_or_insert_with(|| json!({"role": "assistant", "content": ""}))
    }

    fn close(&mut self) {
        self.done.extend(self.open.take());
    }

    fn part(&mut self, part: &ResponsePart) {
        match part {
            ResponsePart::Text(text) => {
                if self.open.as_ref().is_some_and(|open| open["content"] != "") {
                    self.close();
                }
                self.open()["content"] = json!(text);
            }
            ResponsePart::Thought { text, raw } => {
                self.close();
                let line = self.open();
                line["reasoning"] = json!(text);
                if let Some(raw) = raw {
                    line["reasoning_raw"] = raw.clone();
                }
            }
            ResponsePart::Error { code, message } => {
                self.close();
                self.open()["error"] = json!({"code": code, "message": message});
                self.close();
            }
            ResponsePart::Plan(_) | ResponsePart::Image { .. } => {}
        }
    }

    fn calls(&mut self, calls: &[Call]) {
        if calls.is_empty() {
            return;
        }
        let call = |call: &Call| {
            let arguments = call.params.to_string();
            let function = json!({"name": call.name, "arguments": arguments});
            json!({"id": call.id, "type": "function", "function": function})
        };
        let calls: Vec<Value> = calls.iter().map(call).collect();
        self.open()["tool_calls"] = json!(calls);
    }

    fn finish(mut self) -> Vec<Value> {
        self.close();
        self.done
    }
}

fn content(parts: &[PromptPart]) -> Value {
    match parts {
        [PromptPart::Text(text)] => json!(text),
        parts => parts
            .iter()
            .map(|part| match part {
                PromptPart::Text(text) => json!({"type": "text", "text": text}),
                PromptPart::Image { media_type, bytes } => {
                    let url = data_url(media_type, bytes);
                    json!({"type": "image_url", "image_url": {"url": url}})
                }
            })
            .collect(),
    }
}
