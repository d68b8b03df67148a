//! One pi process and its open conversation.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ctx_core::compaction::Trigger;
use ctx_core::id::MessageId;
use ctx_engine::provider::{Delta, End, Failure, FailureClass, Link, Request, Stop};
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use ulid::Ulid;

use super::pi_events::{EventOutcome, EventParser, compacted};
use crate::agent_process::{Process, Program, Started, child_env, wait_until, working_dir};
use crate::json_lines::{JsonLines, WireLog};

/// Maximum time for the response to a command.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum time for a compaction, in which the model writes a summary.
const COMPACTION_TIMEOUT: Duration = Duration::from_secs(600);
/// Maximum time that pi may take to stop after a cancellation.
const STOP_TIMEOUT: Duration = Duration::from_secs(9);

/// A running pi process.
pub(super) struct Connection {
    process: Process,
    lines: JsonLines,
    working_dir: PathBuf,
    /// Path of the file with the conversation.
    pub(super) file: String,
    /// The newest user message that was sent to pi.
    pub(super) last_user_message: Option<MessageId>,
    model: Option<String>,
    last_command_id: u64,
}

impl Connection {
    /// Starts pi for a session, with a new conversation or the one in `file`.
    pub(super) async fn start(
        program: &Program,
        request: &Request,
        file: Option<&str>,
    ) -> Result<Self, Failure> {
        let session = request.session.to_string();
        let working_dir = working_dir(program, request)?;
        let mut program = program.clone();
        if let Some(file) = file {
            program.command.extend(["--session".to_owned(), file.to_owned()]);
        }
        let env = child_env(request);
        let Started { process, stdin, stdout } = program.start(&session, &working_dir, &env)?;
        let log = program
            .wire_log_dir
            .as_ref()
            .map(|dir| WireLog::new(&dir.join(format!("{session}-{}.log", Ulid::new()))));
        let lines = JsonLines::new(stdout, stdin, log);
        let mut connection = Self {
            process,
            lines,
            working_dir,
            file: String::new(),
            last_user_message: None,
            model: None,
            last_command_id: 0,
        };
        let state = connection.call(json!({"type": "get_state"})).await?;
        let file = state.get("sessionFile").and_then(Value::as_str).unwrap_or_default();
        if file.is_empty() {
            return Err(Failure::new(
                "bad_stream",
                FailureClass::Permanent,
                "pi reported no conversation file",
            ));
        }
        connection.file = file.to_owned();
        connection.model = model_name(state.get("model"));
        Ok(connection)
    }

    pub(super) fn has_ended(&mut self) -> bool {
        self.lines.is_closed() || self.process.has_ended()
    }

    /// The available models, as `provider/model`.
    pub(super) async fn models(&mut self) -> Result<Vec<String>, Failure> {
        let last_user_message = self.call(json!({"type": "get_available_models"})).await?;
        let models =
            last_user_message.get("models").and_then(Value::as_array).cloned().unwrap_or_default();
        Ok(models.iter().filter_map(|model| model_name(Some(model))).collect())
    }

    /// Selects a model. Without a provider in its name, the current provider is kept.
    pub(super) async fn set_model(&mut self, model: &str) -> Result<(), Failure> {
        if self.model.as_deref() == Some(model) {
            return Ok(());
        }
        let (provider, id) = model.split_once('/').unwrap_or(("", model));
        let provider = if provider.is_empty() {
            self.model.as_deref().and_then(|own| own.split_once('/')).map_or("", |own| own.0)
        } else {
            provider
        };
        self.call(json!({"type": "set_model", "provider": provider, "modelId": id})).await?;
        self.model = Some(model.to_owned());
        Ok(())
    }

    async fn send(&mut self, mut command: Value) -> String {
        self.last_command_id += 1;
        let id = format!("c{}", self.last_command_id);
        command["id"] = id.as_str().into();
        self.lines.send(&command).await;
        id
    }

    /// Sends a command outside a prompt and waits for its response.
    async fn call(&mut self, command: Value) -> Result<Value, Failure> {
        self.call_within(command, RESPONSE_TIMEOUT).await
    }

    async fn call_within(&mut self, command: Value, timeout: Duration) -> Result<Value, Failure> {
        let name = command["type"].as_str().unwrap_or_default().to_owned();
        let id = self.send(command).await;
        let wait = async {
            loop {
                let event = self.lines.next().await?;
                if is_response_to(&event, &id) {
                    return Some(event);
                }
            }
        };
        match tokio::time::timeout(timeout, wait).await {
            Ok(Some(response)) if is_success(&response) => {
                Ok(response.get("data").cloned().unwrap_or_default())
            }
            Ok(Some(response)) => Err(Failure::new(
                "provider_error",
                FailureClass::Permanent,
                format!("pi rejected `{name}`: {}", error_of(&response)),
            )),
            Ok(None) => Err(self.process.exit_failure().await),
            Err(_) => Err(Failure::new(
                "timeout",
                FailureClass::Permanent,
                format!("pi did not answer `{name}` within {} seconds", timeout.as_secs()),
            )),
        }
    }

    /// Compacts pi's context window.
    pub(super) async fn compact(&mut self, focus: Option<&str>, link: &Link) -> End {
        let mut command = json!({"type": "compact"});
        if let Some(focus) = focus {
            command["customInstructions"] = focus.into();
        }
        match self.call_within(command, COMPACTION_TIMEOUT).await {
            Ok(result) => {
                if let Some(delta) = compacted(&result, Trigger::Manual) {
                    link.send(delta).await;
                }
                End::Done(Stop::EndTurn)
            }
            Err(failure) => End::Failed(failure),
        }
    }

    /// Sends a prompt and processes events until it ends.
    pub(super) async fn prompt(&mut self, text: &str, link: &mut Link) -> End {
        let prompt = self.send(json!({"type": "prompt", "message": text})).await;
        let mut parser = EventParser::new(self.working_dir.clone());
        let mut stop_deadline: Option<Instant> = None;
        let mut pending_steers: Vec<(String, MessageId)> = Vec::new();
        loop {
            tokio::select! {
                biased;
                () = link.cancel.cancelled(), if stop_deadline.is_none() => {
                    stop_deadline = Some(Instant::now() + STOP_TIMEOUT);
                    self.send(json!({"type": "abort"})).await;
                }
                () = wait_until(stop_deadline) => return End::Cancelled,
                event = self.lines.next() => {
                    let Some(event) = event else {
                        return if stop_deadline.is_some() {
                            End::Cancelled
                        } else {
                            End::Failed(self.process.exit_failure().await)
                        };
                    };
                    if is_response_to(&event, &prompt) && !is_success(&event) {
                        let message = format!("pi rejected the prompt: {}", error_of(&event));
                        let class = FailureClass::Permanent;
                        return End::Failed(Failure::new("provider_error", class, message));
                    }
                    let is_answered = |(id, _): &(String, MessageId)| is_response_to(&event, id);
                    if let Some(at) = pending_steers.iter().position(is_answered) {
                        let (_, message) = pending_steers.remove(at);
                        if is_success(&event) {
                            self.last_user_message = Some(message);
                            link.send(Delta::Injected(message)).await;
                        }
                        continue;
                    }
                    match parser.parse(&event) {
                        EventOutcome::Deltas(deltas) => {
                            for delta in deltas {
                                link.send(delta).await;
                            }
                        }
                        // ctx does not show the dialogs of extensions.
                        EventOutcome::Dialog(id) => {
                            let kind = "extension_ui_response";
                            let response = json!({"type": kind, "id": id, "cancelled": true});
                            self.lines.send(&response).await;
                        }
                        EventOutcome::Ended(end) => {
                            return if stop_deadline.is_some() { End::Cancelled } else { end };
                        }
                    }
                }
                Some(steer) = link.steers.recv(), if stop_deadline.is_none() => {
                    let id = self.send(json!({"type": "steer", "message": steer.text})).await;
                    pending_steers.push((id, steer.message_id));
                }
            }
        }
    }

    /// Ends the process and its descendants.
    pub(super) async fn end(self) {
        let Self { process, lines, .. } = self;
        drop(lines);
        process.end().await;
    }
}

fn is_response_to(event: &Map<String, Value>, id: &str) -> bool {
    event.get("type").and_then(Value::as_str) == Some("response")
        && event.get("id").and_then(Value::as_str) == Some(id)
}

fn is_success(response: &Map<String, Value>) -> bool {
    response.get("success") == Some(&Value::Bool(true))
}

fn error_of(response: &Map<String, Value>) -> &str {
    response.get("error").and_then(Value::as_str).unwrap_or("no reason given")
}

fn model_name(model: Option<&Value>) -> Option<String> {
    let model = model?;
    Some(format!("{}/{}", model.get("provider")?.as_str()?, model.get("id")?.as_str()?))
}

/// Whether the conversation file exists and its user messages contain `text`. pi would start an
/// empty conversation if the file is missing, without an error.
pub(super) fn conversation_contains(file: &str, text: &str) -> bool {
    let Ok(file) = std::fs::File::open(Path::new(file)) else { return false };
    if text.is_empty() {
        return true;
    }
    let user_text = |line: String| {
        let entry: Value = serde_json::from_str(&line).ok()?;
        let message = entry.get("message").filter(|message| message["role"] == "user")?;
        let parts = message
            .get("content")?
            .as_array()?
            .iter()
            .filter_map(|part| part.get("text")?.as_str());
        Some(parts.collect::<String>())
    };
    BufReader::new(file)
        .lines()
        .map_while(Result::ok)
        .filter_map(user_text)
        .any(|message| message.contains(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_user_messages_in_the_file_count() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("s.jsonl");
        let message = |role: &str, text: &str| {
            let content = json!([{"type": "text", "text": text}]);
            json!({"type": "message", "message": {"role": role, "content": content}})
        };
        let (line, other) = (message("user", "say \"hi\""), message("assistant", "bye"));
        std::fs::write(&file, format!("{{\"type\":\"session\"}}\n{line}\n{other}\nhalf a li"))
            .expect("written");
        let path = file.to_string_lossy();
        assert!(conversation_contains(&path, "say \"hi\"") && conversation_contains(&path, ""));
        assert!(!conversation_contains(&path, "bye"), "messages of the agent do not count");
        assert!(
            !conversation_contains("/no/such/file", ""),
            "pi would start an empty conversation"
        );
    }
}
