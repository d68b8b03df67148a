//! A session of Codex: `sessions/YEAR/MONTH/DAY/rollout-TIME-ID.jsonl` in its home.
//!
//! The model receives the items of type `response_item`. The items of type `event_msg` are what the
//! user sees; reasoning of other providers is written only there, because the API refuses it.

use std::path::PathBuf;

use ctx_engine::core::time::Timestamp;
use ctx_engine::core::turn::Status;
use serde_json::{Value, json};

use super::native_ids::NativeIds;
use super::native_lines::{data_url, push_line};
use super::transcript::{Call, Entry, PromptPart, Response, ResponsePart, Turn};
use super::{Format, Native, NativeSession};

/// The version whose form is written.
const VERSION: &str = "0.169.0";

pub(super) struct CodexRollout {
    ids: NativeIds,
    session: String,
    title: Option<String>,
    working_dir: String,
    created_at: Timestamp,
    /// The provider of the user's configuration: Codex lists the sessions of that provider.
    model_provider: String,
    ordinal: u64,
}

impl CodexRollout {
    pub(super) fn new(native: &NativeSession, model_provider: String) -> Self {
        Self {
            session: native.ids.timed_uuid("session", native.created_at),
            ids: native.ids.clone(),
            title: native.title.clone(),
            working_dir: native.working_dir.clone(),
            created_at: native.created_at,
            model_provider,
            ordinal: 0,
        }
    }

    fn item(&mut self, at: Timestamp, kind: &str, payload: &Value, out: &mut Vec<u8>) {
        let item = json!({
            "timestamp": at.to_string(),
            "ordinal": self.ordinal,
            "type": kind,
            "payload": payload,
        });
        self.ordinal += 1;
        push_line(out, &item);
    }

    fn event(&mut self, at: Timestamp, payload: &Value, out: &mut Vec<u8>) {
        self.item(at, "event_msg", payload, out);
    }

    fn turn_id(&self, turn: &Turn) -> String {
        self.ids.timed_uuid(&format!("turn {}", turn.id), turn.started_at)
    }

    fn turn_context(&mut self, turn: &Turn, out: &mut Vec<u8>) {
        let Some(model) = &turn.model else { return };
        let context = json!({
            "turn_id": self.turn_id(turn),
            "cwd": self.working_dir,
            "approval_policy": "on-request",
            "sandbox_policy": {
                "type": "workspace-write",
                "network_access": false,
                "exclude_tmpdir_env_var": false,
                "exclude_slash_tmp": false,
            },
            "model": model,
            "summary": "auto",
        });
        self.item(turn.started_at, "turn_context", &context, out);
    }

    fn prompt(&mut self, at: Timestamp, parts: &[PromptPart], out: &mut Vec<u8>) {
        let content: Vec<Value> = parts.iter().map(prompt_part).collect();
        let message = json!({"type": "message", "role": "user", "content": content});
        self.item(at, "response_item", &message, out);
        let text = |part: &PromptPart| match part {
            PromptPart::Text(text) => Some(text.clone()),
            PromptPart::Image { .. } => None,
        };
        let text: Vec<String> = parts.iter().filter_map(text).collect();
        let shown = json!({"type": "user_message", "message": text.join("\n"), "images": []});
        self.event(at, &shown, out);
    }

    fn response(&mut self, response: &Response, out: &mut Vec<u8>) {
        let at = response.at;
        for part in &response.parts {
            match part {
                ResponsePart::Text(text) => {
                    let content = [json!({"type": "output_text", "text": text})];
                    let message =
                        json!({"type": "message", "role": "assistant", "content": content});
                    self.item(at, "response_item", &message, out);
                    self.event(at, &json!({"type": "agent_message", "message": text}), out);
                }
                ResponsePart::Thought { raw: Some(raw), .. } if is_own_reasoning(raw) => {
                    self.item(at, "response_item", raw, out);
                }
                ResponsePart::Thought { text, .. } if !text.is_empty() => {
                    self.event(at, &json!({"type": "agent_reasoning", "text": text}), out);
                }
                ResponsePart::Error { message, .. } => {
                    self.event(at, &json!({"type": "error", "message": message}), out);
                }
                ResponsePart::Thought { .. }
                | ResponsePart::Plan(_)
                | ResponsePart::Image { .. } => {}
            }
        }
        for call in &response.calls {
            self.call(at, call, out);
        }
        for call in &response.calls {
            let output = output(call);
            self.item(call.ended_at, "response_item", &output, out);
        }
    }

    fn call(&mut self, at: Timestamp, call: &Call, out: &mut Vec<u8>) {
        let arguments = match &call.params {
            Value::String(text) => text.clone(),
            Value::Null => "{}".to_owned(),
            params => params.to_string(),
        };
        let item = json!({
            "type": "function_call",
            "name": call.name,
            "arguments": arguments,
            "call_id": call.id,
        });
        self.item(at, "response_item", &item, out);
    }

    fn usage(&mut self, turn: &Turn, out: &mut Vec<u8>) {
        let Some(usage) = &turn.usage else { return };
        let input = usage.input_tokens.unwrap_or(0);
        let output = usage.output_tokens.unwrap_or(0);
        let counts = json!({
            "input_tokens": input,
            "cached_input_tokens": usage.cached_tokens.unwrap_or(0),
            "output_tokens": output,
            "reasoning_output_tokens": 0,
            "total_tokens": input.saturating_add(output),
        });
        let event = json!({
            "type": "token_count",
            "info": {
                "total_token_usage": counts,
                "last_token_usage": counts,
                "model_context_window": null,
            },
            "rate_limits": null,
        });
        self.event(turn.ended_at, &event, out);
    }
}

impl Format for CodexRollout {
    fn start(&mut self, out: &mut Vec<u8>) {
        let meta = json!({
            "session_id": self.session,
            "id": self.session,
            "timestamp": self.created_at.to_string(),
            "cwd": self.working_dir,
            "originator": "codex_cli_rs",
            "cli_version": VERSION,
            "source": "cli",
            "model_provider": self.model_provider,
        });
        self.item(self.created_at, "session_meta", &meta, out);
    }

    fn turn(&mut self, turn: &Turn, out: &mut Vec<u8>) {
        if turn.is_with_ctx_only {
            return;
        }
        self.turn_context(turn, out);
        for entry in &turn.entries {
            match entry {
                Entry::Prompt { at, parts } => self.prompt(*at, parts, out),
                Entry::Response(response) => self.response(response, out),
                Entry::Compaction { at, summary, .. } => {
                    let content = [json!({"type": "input_text", "text": summary})];
                    let history = [json!({"type": "message", "role": "user", "content": content})];
                    let item = json!({"message": summary, "replacement_history": history});
                    self.item(*at, "compacted", &item, out);
                }
                Entry::Notice { .. } | Entry::Record { .. } => {}
            }
        }
        self.usage(turn, out);
        if turn.status == Status::Cancelled {
            let turn_id = self.turn_id(turn);
            let event =
                json!({"type": "turn_aborted", "turn_id": turn_id, "reason": "interrupted"});
            self.event(turn.ended_at, &event, out);
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if let Some(title) = self.title.clone() {
            let event = json!({
                "type": "thread_name_updated",
                "thread_id": self.session,
                "thread_name": title,
            });
            self.event(self.created_at, &event, out);
        }
    }
}

impl Native for CodexRollout {
    fn id(&self) -> &str {
        &self.session
    }

    fn path(&self) -> PathBuf {
        let time = self.created_at.to_string();
        let (day, clock) = time.split_once('T').unwrap_or((&time, "00:00:00"));
        let clock = clock.get(..8).unwrap_or(clock).replace(':', "-");
        let name = format!("rollout-{day}T{clock}-{}.jsonl", self.session);
        day.split('-').fold(PathBuf::from("sessions"), |path, part| path.join(part)).join(name)
    }
}

fn is_own_reasoning(raw: &Value) -> bool {
    raw["type"] == "reasoning" && raw["summary"].is_array()
}

fn prompt_part(part: &PromptPart) -> Value {
    match part {
        PromptPart::Text(text) => json!({"type": "input_text", "text": text}),
        PromptPart::Image { media_type, bytes } => {
            json!({"type": "input_image", "image_url": data_url(media_type, bytes)})
        }
    }
}

fn output(call: &Call) -> Value {
    json!({"type": "function_call_output", "call_id": call.id, "output": call.output})
}
