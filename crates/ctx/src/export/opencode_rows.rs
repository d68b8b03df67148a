//! A session of OpenCode: rows of its database, written in one transaction.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use ctx_engine::core::time::Timestamp;
use serde_json::{Value, json};

use super::NativeSession;
use super::native_ids::NativeIds;
use super::native_lines::data_url;
use super::opencode_database::{Model, OpenCodeDatabase};
use super::transcript::{Call, Entry, PromptPart, Response, ResponsePart, Turn};

/// The version whose form is written.
const VERSION: &str = "1.18.33";
/// The agent of OpenCode that continues the session.
const AGENT: &str = "build";

/// Writes the turns of one session.
pub(super) struct OpenCodeRows {
    database: OpenCodeDatabase,
    ids: NativeIds,
    session: String,
    working_dir: String,
    /// The model with which OpenCode continues, if it does not know that of a turn.
    default_model: Option<Model>,
    /// The providers of models that OpenCode used before.
    providers: HashMap<String, Option<String>>,
    /// The message of the user that responses answer.
    prompt: Option<String>,
    totals: (u64, u64, u64, f64),
    last_model: Option<Model>,
}

impl OpenCodeRows {
    /// Opens the database, or creates it at a path without one, and adds the session.
    pub(super) fn create(
        path: &Path,
        native: &NativeSession,
        configured: Option<(String, String)>,
    ) -> io::Result<Self> {
        let database = OpenCodeDatabase::open(path)?;
        let session = native.ids.open_code_session(native.created_at);
        let configured = configured.map(|(provider, model)| Model { provider, model });
        database.check_absent(&session)?;
        let default_model = configured.or(database.newest_model()?);
        let mut rows = Self {
            database,
            ids: native.ids.clone(),
            session,
            working_dir: native.working_dir.clone(),
            default_model,
            providers: HashMap::new(),
            prompt: None,
            totals: (0, 0, 0, 0.0),
            last_model: None,
        };
        rows.add_session(native)?;
        Ok(rows)
    }

    fn add_session(&mut self, native: &NativeSession) -> io::Result<()> {
        let project = self.database.project(&self.working_dir, native.created_at)?;
        let slug = format!("ctx-{}", self.ids.short("slug"));
        let title = native.title.clone().unwrap_or_else(|| "Session of ctx".to_owned());
        let times = (native.created_at.0, native.updated_at.0);
        self.database.insert(
            "session",
            &[
                ("id", self.session.clone().into()),
                ("project_id", project.into()),
                ("slug", slug.into()),
                ("directory", self.working_dir.clone().into()),
                ("path", String::new().into()),
                ("title", title.into()),
                ("version", VERSION.to_owned().into()),
                ("agent", AGENT.to_owned().into()),
                ("time_created", times.0.into()),
                ("time_updated", times.1.into()),
            ],
        )
    }

    fn message(&mut self, at: Timestamp, data: &Value) -> io::Result<String> {
        let id = self.ids.open_code("msg", at);
        let row = [
            ("id", id.clone().into()),
            ("session_id", self.session.clone().into()),
            ("time_created", at.0.into()),
            ("time_updated", at.0.into()),
            ("data", data.to_string().into()),
        ];
        self.database.insert("message", &row)?;
        Ok(id)
    }

    fn part(&mut self, message: &str, at: Timestamp, data: &Value) -> io::Result<()> {
        let row = [
            ("id", self.ids.open_code("prt", at).into()),
            ("message_id", message.to_owned().into()),
            ("session_id", self.session.clone().into()),
            ("time_created", at.0.into()),
            ("time_updated", at.0.into()),
            ("data", data.to_string().into()),
        ];
        self.database.insert("part", &row)
    }

    /// The model of a turn, with the provider under which OpenCode used it before.
    fn known_model(&mut self, name: Option<&str>) -> io::Result<Option<Model>> {
        let Some(name) = name else { return Ok(None) };
        if !self.providers.contains_key(name) {
            let found = self.database.provider_of(name, &self.session)?;
            self.providers.insert(name.to_owned(), found);
        }
        let provider = self.providers.get(name).cloned().flatten();
        Ok(provider.map(|provider| Model { provider, model: name.to_owned() }))
    }

    /// The model with which OpenCode goes on after a message of the user.
    fn model_to_continue(&mut self, turn: &Turn) -> io::Result<Model> {
        let known = self.known_model(turn.model.as_deref())?;
        let model = known.or_else(|| self.default_model.clone());
        Ok(model.unwrap_or_else(|| response_model(turn, None)))
    }

    /// Adds a turn.
    pub(super) fn turn(&mut self, turn: &Turn) -> io::Result<()> {
        if turn.is_with_ctx_only {
            return Ok(());
        }
        for entry in &turn.entries {
            match entry {
                Entry::Prompt { at, parts } => self.prompt(turn, *at, parts)?,
                Entry::Response(response) => self.response(turn, response)?,
                Entry::Compaction { at, summary, .. } => self.compaction(turn, *at, summary)?,
                Entry::Notice { .. } | Entry::Record { .. } => {}
            }
        }
        Ok(())
    }

    fn user_message(&mut self, turn: &Turn, at: Timestamp) -> io::Result<String> {
        let model = self.model_to_continue(turn)?;
        let data = json!({
            "role": "user",
            "time": {"created": at.0},
            "agent": AGENT,
            "model": {"providerID": model.provider, "modelID": model.model},
        });
        self.last_model = Some(model);
        let id = self.message(at, &data)?;
        self.prompt = Some(id.clone());
        Ok(id)
    }

    fn prompt(&mut self, turn: &Turn, at: Timestamp, parts: &[PromptPart]) -> io::Result<()> {
        let id = self.user_message(turn, at)?;
        for part in parts {
            let data = match part {
                PromptPart::Text(text) => json!({"type": "text", "text": text}),
                PromptPart::Image { media_type, bytes } => json!({
                    "type": "file",
                    "mime": media_type,
                    "filename": "image",
                    "url": data_url(media_type, bytes),
                }),
            };
            self.part(&id, at, &data)?;
        }
        Ok(())
    }

    fn answer(&mut self, turn: &Turn, at: Timestamp, more: Value) -> io::Result<String> {
        if self.prompt.is_none() {
            // Each response of OpenCode answers a message.
            self.user_message(turn, at)?;
        }
        let known = self.known_model(turn.model.as_deref())?;
        let model = response_model(turn, known);
        let mut data = json!({
            "parentID": self.prompt,
            "role": "assistant",
            "mode": AGENT,
            "agent": AGENT,
            "path": {"cwd": self.working_dir, "root": self.working_dir},
            "cost": 0,
            "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}},
            "modelID": model.model,
            "providerID": model.provider,
            "time": {"created": at.0, "completed": at.0},
        });
        if let (Value::Object(data), Value::Object(more)) = (&mut data, more) {
            data.extend(more);
        }
        self.message(at, &data)
    }

    fn response(&mut self, turn: &Turn, response: &Response) -> io::Result<()> {
        let at = response.at;
        let parts: Vec<Value> =
            response.parts.iter().filter_map(|part| response_part(part, at)).collect();
        if !parts.is_empty() || !response.calls.is_empty() {
            let finish = if response.calls.is_empty() { "stop" } else { "tool-calls" };
            let ended = response.calls.iter().map(|call| call.ended_at).max().unwrap_or(at);
            let (cost, tokens) = self.counts(turn, response.is_last);
            let more = json!({
                "finish": finish,
                "cost": cost,
                "tokens": tokens,
                "time": {"created": at.0, "completed": ended.0},
            });
            let id = self.answer(turn, at, more)?;
            self.part(&id, at, &json!({"type": "step-start"}))?;
            for part in &parts {
                self.part(&id, at, part)?;
            }
            for call in &response.calls {
                self.part(&id, at, &tool_part(call, at))?;
            }
            let end =
                json!({"type": "step-finish", "reason": finish, "cost": cost, "tokens": tokens});
            self.part(&id, ended, &end)?;
        }
        for part in &response.parts {
            if let ResponsePart::Error { message, .. } = part {
                let error = json!({"name": "UnknownError", "data": {"message": message}});
                self.answer(turn, at, json!({"error": error}))?;
            }
        }
        Ok(())
    }

    fn counts(&mut self, turn: &Turn, is_last: bool) -> (f64, Value) {
        let usage = turn.usage.as_ref().filter(|_| is_last);
        let count = |value: Option<u64>| value.unwrap_or(0);
        let cached = count(usage.and_then(|usage| usage.cached_tokens));
        let input = count(usage.and_then(|usage| usage.input_tokens)).saturating_sub(cached);
        let output = count(usage.and_then(|usage| usage.output_tokens));
        let cost = super::cost_of(usage);
        let totals = &mut self.totals;
        *totals = (totals.0 + input, totals.1 + output, totals.2 + cached, totals.3 + cost);
        let cache = json!({"read": cached, "write": 0});
        (cost, json!({"input": input, "output": output, "reasoning": 0, "cache": cache}))
    }

    fn compaction(&mut self, turn: &Turn, at: Timestamp, summary: &str) -> io::Result<()> {
        let request = self.user_message(turn, at)?;
        self.part(&request, at, &json!({"type": "compaction", "auto": false}))?;
        let more = json!({
            "summary": true,
            "mode": "compaction",
            "agent": "compaction",
            "finish": "stop",
        });
        let id = self.answer(turn, at, more)?;
        self.part(&id, at, &json!({"type": "text", "text": summary}))
    }

    /// Commits the session. Nothing was visible before.
    pub(super) fn finish(self) -> io::Result<String> {
        let (input, output, cached, cost) = self.totals;
        let model = self.last_model.as_ref().or(self.default_model.as_ref());
        let model =
            model.map(|one| json!({"id": one.model, "providerID": one.provider}).to_string());
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let columns = [
            ("model", model.into()),
            ("tokens_input", number(input).into()),
            ("tokens_output", number(output).into()),
            ("tokens_cache_read", number(cached).into()),
            ("cost", cost.into()),
        ];
        self.database.update_session(&self.session, &columns)?;
        self.database.commit()?;
        Ok(self.session)
    }
}

/// The model of a response. OpenCode shows it and does not call it.
fn response_model(turn: &Turn, known: Option<Model>) -> Model {
    known.unwrap_or_else(|| Model {
        provider: turn.provider_id.clone().unwrap_or_else(|| "unknown".to_owned()),
        model: turn.model.clone().unwrap_or_else(|| "unknown".to_owned()),
    })
}

fn response_part(part: &ResponsePart, at: Timestamp) -> Option<Value> {
    let time = json!({"start": at.0, "end": at.0});
    match part {
        ResponsePart::Text(text) => Some(json!({"type": "text", "text": text, "time": time})),
        ResponsePart::Thought { raw: Some(raw), .. }
            if raw["type"] == "reasoning" && raw["text"].is_string() =>
        {
            Some(raw.clone())
        }
        ResponsePart::Thought { text, .. } if !text.is_empty() => {
            Some(json!({"type": "reasoning", "text": text, "time": time}))
        }
        _ => None,
    }
}

fn tool_part(call: &Call, at: Timestamp) -> Value {
    let input = if call.params.is_object() { call.params.clone() } else { json!({}) };
    let time = json!({"start": at.0, "end": call.ended_at.0});
    let state = if call.is_error {
        json!({"status": "error", "input": input, "error": call.output, "time": time})
    } else {
        json!({
            "status": "completed",
            "input": input,
            "output": call.output,
            "title": call.name,
            "metadata": {},
            "time": time,
        })
    };
    json!({"type": "tool", "tool": call.name, "callID": call.id, "state": state})
}
