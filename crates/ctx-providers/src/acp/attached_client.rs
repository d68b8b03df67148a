//! A client of ctx, such as an editor, that is attached to sessions of this process and speaks ACP
//! itself. It gives the agent its MCP servers, files and terminals, and it receives the updates
//! that ctx does not store.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use ctx_core::id::SessionId;
use ctx_core::step;
use ctx_core::stored_content::Content;
use ctx_engine::provider::Delta;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::agent_terminals::{self, ID_PREFIX};
use super::file_access::{FileRequest, ServedFile};
use crate::json_lines::LineSender;
use crate::json_rpc::{INVALID_PARAMS, RpcError, response};
use crate::task_observations;

/// Prefix of the ids under which an agent knows terminals of the client.
const CLIENT_TERMINAL_PREFIX: &str = "ctx-terminal-client-";
/// Maximum number of terminals of one agent process.
const TERMINALS_MAX: usize = 64;

/// A client that is attached to sessions.
#[async_trait]
pub trait AttachedClient: Send + Sync + std::fmt::Debug {
    /// The MCP servers for the agent of a session, in the form of ACP.
    fn mcp_servers(&self, session: SessionId) -> Vec<Value>;

    /// Directories besides the working directory of a session.
    fn directories(&self, session: SessionId) -> Vec<String>;

    /// Whether the client is attached to the session and supports a method of ACP.
    fn supports(&self, session: SessionId, method: &str) -> bool;

    /// Sends a request to the client. `params` needs no `sessionId`.
    ///
    /// Fails if the client rejects the request or is gone.
    async fn request(
        &self,
        session: SessionId,
        method: &str,
        params: Value,
    ) -> Result<Value, RpcError>;

    /// An update of the agent, in the form of ACP. Messages and plans are not passed on.
    fn update(&self, session: SessionId, update: &Value);
}

/// The client of one agent process.
#[derive(Clone)]
pub(super) struct SessionClient {
    client: Arc<dyn AttachedClient>,
    session: SessionId,
    /// Argument vectors of the terminals whose end was not reported yet, by the client's id.
    terminals: Arc<Mutex<HashMap<String, Vec<String>>>>,
}

impl SessionClient {
    pub(super) fn new(client: Arc<dyn AttachedClient>, session: SessionId) -> Self {
        Self { client, session, terminals: Arc::default() }
    }

    /// The MCP servers whose transport the agent supports.
    pub(super) fn mcp_servers(&self, http: bool, sse: bool) -> Vec<Value> {
        let is_supported = |server: &Value| match server["type"].as_str() {
            Some("http") => http,
            Some("sse") => sse,
            Some("stdio") | None => true,
            Some(_) => false,
        };
        let (servers, other): (Vec<Value>, Vec<Value>) =
            self.client.mcp_servers(self.session).into_iter().partition(is_supported);
        for server in other {
            let name = server["name"].as_str().unwrap_or_default();
            tracing::warn!(name, "the agent does not support the transport of an MCP server");
        }
        servers
    }

    pub(super) fn directories(&self) -> Vec<String> {
        self.client.directories(self.session)
    }

    /// Passes an update on. Terminals of the client get their own ids again.
    pub(super) fn update(&self, update: &Value) {
        let mut update = update.clone();
        if let Some(Value::Array(content)) = update.get_mut("content") {
            let is_of_ctx = |item: &Value| {
                item["terminalId"].as_str().is_some_and(|id| {
                    id.starts_with(ID_PREFIX) && !id.starts_with(CLIENT_TERMINAL_PREFIX)
                })
            };
            content.retain(|item| !is_of_ctx(item));
            for item in content {
                let own = item["terminalId"].as_str().and_then(client_terminal).map(str::to_owned);
                if let Some(id) = own {
                    item["terminalId"] = id.into();
                }
            }
        }
        self.client.update(self.session, &update);
    }

    pub(super) fn supports(&self, method: &str) -> bool {
        self.client.supports(self.session, method)
    }

    /// Whether a terminal request goes to the client.
    pub(super) fn serves_terminal(&self, method: &str, params: &Value) -> bool {
        match params["terminalId"].as_str() {
            Some(id) => client_terminal(id).is_some(),
            None => method == "terminal/create" && self.supports(method),
        }
    }

    /// Reads or writes a file through the client, so that unsaved changes are seen. A read that the
    /// client rejects is served from the disk.
    pub(super) async fn serve_file(self, file: FileRequest, working_dir: &Path) -> ServedFile {
        let (path, is_write) = (file.path.clone(), file.content.is_some());
        match self.client.request(self.session, file.method(), file.params()).await {
            Ok(result) => {
                let observation = match &file.content {
                    Some(text) => Some(task_observations::text_written(&path, working_dir, text)),
                    None if file.is_partial() => task_observations::file_read(&path, working_dir),
                    None => result["content"]
                        .as_str()
                        .map(|text| task_observations::text_read(&path, working_dir, text)),
                };
                let result = if is_write { json!({}) } else { result };
                ServedFile { path, is_write, result: Ok(result), observation }
            }
            Err(error) if is_write => {
                let result = Err(std::io::Error::other(error.to_string()));
                ServedFile { path, is_write, result, observation: None }
            }
            Err(_) => file.serve(working_dir).await,
        }
    }

    /// Serves a terminal request by the client and reports the command when it has ended.
    pub(super) async fn serve_terminal(
        self,
        id: Value,
        method: String,
        params: Value,
        dir: std::path::PathBuf,
        reports: mpsc::WeakSender<Delta>,
        responses: LineSender,
    ) {
        let result = if method == "terminal/create" {
            self.create_terminal(params, &dir).await
        } else {
            self.use_terminal(&method, params, &reports).await
        };
        responses.send(&response(&id, &result)).await;
    }

    async fn create_terminal(&self, mut params: Value, dir: &Path) -> Result<Value, RpcError> {
        let invalid = |why: String| RpcError::new(INVALID_PARAMS, why);
        let command = params["command"].as_str().ok_or_else(|| invalid("no `command`".into()))?;
        if self.terminals().len() >= TERMINALS_MAX {
            return Err(invalid(format!("limit of {TERMINALS_MAX} terminals reached")));
        }
        let arguments = params["args"].as_array().into_iter().flatten();
        let argv = std::iter::once(command)
            .chain(arguments.filter_map(Value::as_str))
            .map(str::to_owned)
            .collect();
        params["cwd"] = json!(agent_terminals::directory(&params, dir).map_err(invalid)?);
        let made = self.client.request(self.session, "terminal/create", params).await?;
        let id = made["terminalId"].as_str().unwrap_or_default().to_owned();
        let shown = format!("{CLIENT_TERMINAL_PREFIX}{id}");
        self.terminals().insert(id, argv);
        Ok(json!({"terminalId": shown}))
    }

    async fn use_terminal(
        &self,
        method: &str,
        mut params: Value,
        reports: &mpsc::WeakSender<Delta>,
    ) -> Result<Value, RpcError> {
        let id = params["terminalId"].as_str().and_then(client_terminal).unwrap_or_default();
        let id = id.to_owned();
        params["terminalId"] = json!(id);
        if method == "terminal/release" {
            self.report_command(&id, true, reports).await;
        }
        let result = self.client.request(self.session, method, params).await?;
        if matches!(method, "terminal/wait_for_exit" | "terminal/output") {
            self.report_command(&id, false, reports).await;
        }
        Ok(result)
    }

    /// Records the command in the task once it has ended, or when its terminal is released.
    async fn report_command(&self, id: &str, is_last: bool, reports: &mpsc::WeakSender<Delta>) {
        if !self.terminals().contains_key(id) {
            return;
        }
        let params = json!({"terminalId": id});
        let output = self.client.request(self.session, "terminal/output", params).await;
        let output = output.unwrap_or_default();
        let exit = &output["exitStatus"];
        if exit.is_null() && !is_last {
            return;
        }
        let Some(argv) = self.terminals().remove(id) else { return };
        let exit = exit["exitCode"].as_i64().and_then(|code| i32::try_from(code).ok());
        let text = output["output"].as_str().unwrap_or_default().to_owned();
        let entry = step::Entry::Command { argv, exit, output: Some(Content::Text(text)) };
        if let Some(reports) = reports.upgrade() {
            let _ = reports.send(Delta::Observed(entry)).await;
        }
    }

    /// Releases the terminals that the agent has left open.
    pub(super) async fn release_terminals(&self) {
        let left: Vec<String> = self.terminals().drain().map(|(id, _)| id).collect();
        for id in left {
            let params = json!({"terminalId": id});
            let _ = self.client.request(self.session, "terminal/release", params).await;
        }
    }

    fn terminals(&self) -> std::sync::MutexGuard<'_, HashMap<String, Vec<String>>> {
        self.terminals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The client's id of a terminal, if it is one of the client.
fn client_terminal(id: &str) -> Option<&str> {
    id.strip_prefix(CLIENT_TERMINAL_PREFIX)
}
