//! The loop that reads the editor's messages. A prompt or a cancellation goes to the task of its
//! session in the order of the messages; every other request has a task of its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ctx_engine::Engine;
use ctx_providers::json_lines::{BadLine, JsonLines};
use ctx_providers::json_rpc::{self, Incoming, METHOD_NOT_FOUND, RpcError};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::attached_session::Command;
use super::editor::Editor;
use super::session_requests::{Handled, History, SessionRequests, session_name};
use super::{
    INVALID_REQUEST, PARSE_ERROR, PROTOCOL_VERSION, REQUEST_CANCELLED, invalid_params,
    prompt_content,
};

/// Requests that are handled at the same time. Reading pauses at this number.
const REQUESTS_MAX: usize = 256;
/// How long requests may take after the editor has closed the connection.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves the editor until it closes the connection, or until `stop`.
pub(crate) async fn serve(
    engine: &Engine,
    editor: Arc<Editor>,
    mut lines: JsonLines,
    stop: CancellationToken,
) {
    let mut requests = Requests {
        sessions: SessionRequests { engine: engine.clone(), editor },
        cancels: Arc::default(),
        tasks: JoinSet::new(),
    };
    loop {
        let line = tokio::select! {
            line = lines.next_line() => line,
            () = stop.cancelled() => None,
        };
        let Some(line) = line else { break };
        requests.handle_line(line).await;
    }
    // Requests that were received are answered; prompts end with their runs.
    let answered = async { while requests.tasks.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(ANSWER_TIMEOUT, answered).await;
    engine.background().shutdown().await;
    let editor = &requests.sessions.editor;
    editor.close();
    editor.flush().await;
}

struct Requests {
    sessions: SessionRequests,
    /// Requests that the editor may cancel, by id. Prompts are cancelled by their session.
    cancels: Arc<Mutex<HashMap<String, CancellationToken>>>,
    tasks: JoinSet<()>,
}

impl Requests {
    fn cancels(&self) -> MutexGuard<'_, HashMap<String, CancellationToken>> {
        self.cancels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn handle_line(&mut self, line: Result<serde_json::Map<String, Value>, BadLine>) {
        while self.tasks.try_join_next().is_some() {}
        let parsed = match line {
            Ok(message) => {
                let id = message.get("id").cloned().unwrap_or_default();
                let not_a_request = "the message is neither a request nor a response";
                json_rpc::parse(message)
                    .ok_or_else(|| (id, RpcError::new(INVALID_REQUEST, not_a_request)))
            }
            Err(BadLine::NotJson(why)) => {
                Err((Value::Null, RpcError::new(PARSE_ERROR, format!("not JSON: {why}"))))
            }
            Err(BadLine::NotAnObject) => {
                Err((Value::Null, RpcError::new(INVALID_REQUEST, "the message is not an object")))
            }
        };
        match parsed {
            Ok(Incoming::Request { id, method, params }) => self.request(id, method, params).await,
            Ok(Incoming::Notification { method, params }) => {
                self.notification(&method, &params).await;
            }
            Ok(Incoming::Response { id, result }) => self.editor().responded(id, result),
            Err((id, error)) => self.editor().respond(&id, &Err(error)).await,
        }
    }

    fn editor(&self) -> &Arc<Editor> {
        &self.sessions.editor
    }

    async fn notification(&self, method: &str, params: &Value) {
        match method {
            "session/cancel" => {
                let name = params["sessionId"].as_str().unwrap_or_default();
                if let Some(attachment) = self.editor().attachment(name) {
                    let _ = attachment.commands.send(Command::Cancel { request: None }).await;
                }
            }
            "$/cancel_request" => {
                let id = &params["requestId"];
                let found = self.cancels().get(&id.to_string()).cloned();
                if let Some(token) = found {
                    return token.cancel();
                }
                for attachment in self.editor().attachments() {
                    let request = Some(id.clone());
                    let _ = attachment.commands.send(Command::Cancel { request }).await;
                }
            }
            _ => {}
        }
    }

    async fn request(&mut self, id: Value, method: String, params: Value) {
        let early = match method.as_str() {
            "initialize" => Some(self.initialize(&params)),
            _ if !self.editor().is_initialized() => {
                Some(Err(RpcError::new(INVALID_REQUEST, "`initialize` has to come first")))
            }
            "session/prompt" => self.prompt(&id, &params).await.err().map(Err),
            _ => None,
        };
        match early {
            Some(result) => self.editor().respond(&id, &result).await,
            None if method == "session/prompt" => {}
            None => self.spawn(id, method, params).await,
        }
    }

    /// Version and capabilities. `session/fork` is not stable in the protocol and is marked so.
    fn initialize(&self, params: &Value) -> Result<Value, RpcError> {
        if params["protocolVersion"].as_u64().is_none() {
            return Err(invalid_params("`protocolVersion` is missing or not a number"));
        }
        if !self.editor().initialize(params.clone()) {
            return Err(RpcError::new(INVALID_REQUEST, "the connection is already initialized"));
        }
        let providers = self.sessions.engine.providers();
        let has_agent = providers.all.values().any(|provider| provider.about().kind == "acp");
        Ok(json!({
            "protocolVersion": PROTOCOL_VERSION,
            "agentCapabilities": {
                "loadSession": true,
                "promptCapabilities": {"image": true, "audio": false, "embeddedContext": true},
                "mcpCapabilities": {"http": has_agent, "sse": has_agent},
                "sessionCapabilities": {
                    "list": {},
                    "resume": {},
                    "close": {},
                    "delete": {},
                    "additionalDirectories": {},
                    "fork": {"_meta": {"unstable": true}},
                },
            },
            "authMethods": [],
            "agentInfo": {"name": "ctx", "title": "ctx", "version": env!("CARGO_PKG_VERSION")},
        }))
    }

    /// Hands a prompt to the task of its session, which responds.
    async fn prompt(&self, id: &Value, params: &Value) -> Result<(), RpcError> {
        let name = session_name(params)?;
        let message = Box::new(prompt_content::message(&params["prompt"])?);
        let attachment = self.sessions.attached(name).await?;
        let _ = attachment.commands.send(Command::Prompt { request: id.clone(), message }).await;
        Ok(())
    }

    async fn spawn(&mut self, id: Value, method: String, params: Value) {
        if self.tasks.len() >= REQUESTS_MAX {
            self.tasks.join_next().await;
        }
        let (sessions, token, cancels) =
            (self.sessions.clone(), CancellationToken::new(), self.cancels.clone());
        self.cancels().insert(id.to_string(), token.clone());
        self.tasks.spawn(async move {
            let handled = tokio::select! {
                handled = handle(&sessions, &method, &params) => handled,
                () = token.cancelled() => {
                    Err(RpcError::new(REQUEST_CANCELLED, "the request was cancelled"))
                }
            };
            cancels.lock().unwrap_or_else(PoisonError::into_inner).remove(&id.to_string());
            match handled {
                Ok(handled) => {
                    sessions.editor.respond(&id, &Ok(handled.reply().clone())).await;
                    handled.start();
                }
                Err(error) => sessions.editor.respond(&id, &Err(error)).await,
            }
        });
    }
}

async fn handle(
    sessions: &SessionRequests,
    method: &str,
    params: &Value,
) -> Result<Handled, RpcError> {
    match method {
        "session/new" => sessions.create(params).await,
        "session/load" => sessions.open(params, History::Replay).await,
        "session/resume" => sessions.open(params, History::Nothing).await,
        "session/fork" => sessions.fork(params).await,
        "session/list" => sessions.list(params).await,
        "session/close" => sessions.close(params).await,
        "session/delete" => sessions.delete(params).await,
        "session/set_mode" => sessions.set_mode(params).await,
        "session/set_config_option" => sessions.set_option(params).await,
        "authenticate" => Err(invalid_params("no authentication is needed")),
        _ => Err(RpcError::new(METHOD_NOT_FOUND, format!("unknown method `{method}`"))),
    }
}
