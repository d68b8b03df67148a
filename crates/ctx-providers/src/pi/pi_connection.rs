//! One pi process.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ctx_core::id::MessageId;
use ctx_engine::provider::{Class, Delta, End, Failure, Link, Request, Stop};
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use ulid::Ulid;

use super::pi_events::{Fold, Heard, compacted};
use crate::json_lines::{Lines, WireLog};
use crate::agent_process::{Process, Program, Started, until, working_dir};

/// How long pi may take to answer a command.
const ANSWER: Duration = Duration::from_secs(60);
/// How long its model may take to summarise.
const COMPACTING: Duration = Duration::from_secs(600);
/// How long it may take to stop.
const STOPPING: Duration = Duration::from_secs(9);

/// A pi that runs.
pub(super) struct Live {
    process: Process,
    lines: Lines,
    dir: PathBuf,
    /// The file that holds its conversation.
    pub(super) file: String,
    /// The newest message of the user that it was told.
    pub(super) told: Option<MessageId>,
    model: Option<String>,
    next: u64,
}

impl Live {
    /// Starts pi for a session, with a conversation of its own or one that it has.
    pub(super) async fn start(
        program: &Program,
        request: &Request,
        file: Option<&str>,
    ) -> Result<Self, Failure> {
        let session = request.session.to_string();
        let dir = working_dir(program, request)?;
        let mut program = program.clone();
        if let Some(file) = file {
            program.command.extend(["--session".to_owned(), file.to_owned()]);
        }
        let Started { process, stdin, stdout } =
            program.start(&session, &dir, &[("CTX_SESSION", session.clone())])?;
        let log = program
            .wire_logs
            .as_ref()
            .map(|dir| WireLog::new(&dir.join(format!("{session}-{}.log", Ulid::new()))));
        let lines = Lines::new(stdout, stdin, log);
        let mut live =
            Self { process, lines, dir, file: String::new(), told: None, model: None, next: 0 };
        let state = live.call(json!({"type": "get_state"})).await?;
        let file = state.get("sessionFile").and_then(Value::as_str).unwrap_or_default();
        if file.is_empty() {
            return Err(Failure::new(
                "bad_stream",
                Class::GiveUp,
                "pi does not say where it keeps its conversation",
            ));
        }
        live.file = file.to_owned();
        live.model = named(state.get("model"));
        Ok(live)
    }

    /// Whether nobody is there any more.
    pub(super) fn is_gone(&mut self) -> bool {
        self.lines.is_closed() || self.process.has_ended()
    }

    /// The models that it can ask.
    pub(super) async fn models(&mut self) -> Result<Vec<String>, Failure> {
        let told = self.call(json!({"type": "get_available_models"})).await?;
        let models = told.get("models").and_then(Value::as_array).cloned().unwrap_or_default();
        Ok(models.iter().filter_map(|model| named(Some(model))).collect())
    }

    /// Chooses a model, given as `provider/model`.
    pub(super) async fn choose(&mut self, model: &str) -> Result<(), Failure> {
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
        self.next += 1;
        let id = format!("c{}", self.next);
        command["id"] = id.as_str().into();
        self.lines.send(&command).await;
        id
    }

    /// Sends a command outside a prompt and waits for its answer.
    async fn call(&mut self, command: Value) -> Result<Value, Failure> {
        self.call_within(command, ANSWER).await
    }

    async fn call_within(&mut self, command: Value, patience: Duration) -> Result<Value, Failure> {
        let what = command["type"].as_str().unwrap_or_default().to_owned();
        let id = self.send(command).await;
        let wait = async {
            loop {
                let heard = self.lines.next().await?;
                if is_answer(&heard, &id) {
                    return Some(heard);
                }
            }
        };
        match tokio::time::timeout(patience, wait).await {
            Ok(Some(answer)) if answer.get("success") == Some(&Value::Bool(true)) => {
                Ok(answer.get("data").cloned().unwrap_or_default())
            }
            Ok(Some(answer)) => Err(Failure::new(
                "provider_error",
                Class::GiveUp,
                format!("pi refused `{what}`: {}", error_of(&answer)),
            )),
            Ok(None) => Err(self.process.gone().await),
            Err(_) => Err(Failure::new(
                "timeout",
                Class::GiveUp,
                format!("pi did not answer `{what}` in {} seconds", patience.as_secs()),
            )),
        }
    }

    /// Has it make its own window shorter.
    pub(super) async fn compact(&mut self, focus: Option<&str>, link: &Link) -> End {
        let mut command = json!({"type": "compact"});
        if let Some(focus) = focus {
            command["customInstructions"] = focus.into();
        }
        match self.call_within(command, COMPACTING).await {
            Ok(result) => {
                if let Some(delta) = compacted(&result) {
                    link.say(delta).await;
                }
                End::Done(Stop::EndTurn)
            }
            Err(failure) => End::Failed(failure),
        }
    }

    /// Prompts it and hears it out.
    pub(super) async fn prompt(&mut self, text: &str, link: &mut Link) -> End {
        let prompt = self.send(json!({"type": "prompt", "message": text})).await;
        let mut fold = Fold::new(self.dir.clone());
        let mut stopping: Option<Instant> = None;
        let mut steers: Vec<(String, MessageId)> = Vec::new();
        loop {
            tokio::select! {
                biased;
                () = link.cancel.cancelled(), if stopping.is_none() => {
                    stopping = Some(Instant::now() + STOPPING);
                    self.send(json!({"type": "abort"})).await;
                }
                () = until(stopping) => return End::Cancelled,
                heard = self.lines.next() => {
                    let Some(heard) = heard else {
                        return if stopping.is_some() { End::Cancelled } else { End::Failed(self.process.gone().await) };
                    };
                    if is_answer(&heard, &prompt) && heard.get("success") != Some(&Value::Bool(true)) {
                        return End::Failed(Failure::new("provider_error", Class::GiveUp, format!("pi refused the prompt: {}", error_of(&heard))));
                    }
                    if let Some(at) = steers.iter().position(|(id, _)| is_answer(&heard, id)) {
                        let (_, message) = steers.remove(at);
                        if heard.get("success") == Some(&Value::Bool(true)) {
                            self.told = Some(message);
                            link.say(Delta::Injected(message)).await;
                        }
                        continue;
                    }
                    match fold.take(&heard) {
                        Heard::Said(deltas) => {
                            for delta in deltas {
                                link.say(delta).await;
                            }
                        }
                        // Nobody is there to answer an extension's dialogue.
                        Heard::Asked(id) => self.lines.send(&json!({"type": "extension_ui_response", "id": id, "cancelled": true})).await,
                        Heard::Over(end) => return if stopping.is_some() { End::Cancelled } else { end },
                    }
                }
                Some(steer) = link.steers.recv(), if stopping.is_none() => {
                    let id = self.send(json!({"type": "steer", "message": steer.text})).await;
                    steers.push((id, steer.message_id));
                }
            }
        }
    }

    /// Ends the process and everything that it started.
    pub(super) async fn end(self) {
        let Self { process, lines, .. } = self;
        drop(lines);
        process.end().await;
    }
}

fn is_answer(heard: &Map<String, Value>, id: &str) -> bool {
    heard.get("type").and_then(Value::as_str) == Some("response")
        && heard.get("id").and_then(Value::as_str) == Some(id)
}

fn error_of(answer: &Map<String, Value>) -> &str {
    answer.get("error").and_then(Value::as_str).unwrap_or("without a reason")
}

fn named(model: Option<&Value>) -> Option<String> {
    let model = model?;
    Some(format!("{}/{}", model.get("provider")?.as_str()?, model.get("id")?.as_str()?))
}

/// Whether a conversation's file is there and holds these words of the user. pi would begin an empty one without a word.
pub(super) fn has(file: &str, words: &str) -> bool {
    let Ok(file) = std::fs::File::open(Path::new(file)) else { return false };
    if words.is_empty() {
        return true;
    }
    let said = |line: String| {
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
        .filter_map(said)
        .any(|text| text.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_shows_what_it_has_kept() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("s.jsonl");
        let line = json!({"type": "message", "message": {"role": "user", "content": [{"type": "text", "text": "say \"hi\""}]}});
        let other = json!({"type": "message", "message": {"role": "assistant", "content": [{"type": "text", "text": "bye"}]}});
        std::fs::write(&file, format!("{{\"type\":\"session\"}}\n{line}\n{other}\nhalf a li"))
            .expect("written");
        let path = file.to_string_lossy();
        assert!(has(&path, "say \"hi\"") && has(&path, ""));
        assert!(!has(&path, "bye"), "the agent's own words prove nothing");
        assert!(!has("/no/such/file", ""), "pi would begin an empty one");
    }
}
