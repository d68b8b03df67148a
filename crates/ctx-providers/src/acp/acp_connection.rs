//! One agent process and its open conversation.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ctx_core::id::MessageId;
use ctx_core::inbox::Tool;
use ctx_engine::provider::{Failure, FailureClass, Request};
use serde_json::{Value, json};
use ulid::Ulid;

use crate::agent_process::{Process, Program, Started, child_env, working_dir};
use crate::json_lines::WireLog;
use crate::json_rpc::{Incoming, METHOD_NOT_FOUND, Peer, RpcError};
use crate::mcp_bridge::{ToolProtocol, ToolServer};

use super::agent_info::{AgentInfo, requires_login};
use super::agent_settings::AgentSettings;
use super::agent_terminals::Terminals;
use super::attached_client::SessionClient;
use super::permission_requests::{Decision, PendingRequest};
use super::session_cost::SessionCost;
use super::tool_call_updates::ToolCalls;

/// Maximum time to change a setting.
const SETTING_TIMEOUT: Duration = Duration::from_secs(20);
/// The supported version of ACP.
const PROTOCOL_VERSION: u64 = 1;
/// Number of replayed user messages that are kept: the newest ones.
const REPLAY_MAX: usize = 64;

/// A running agent process.
pub(super) struct Connection {
    pub(super) process: Process,
    pub(super) peer: Peer,
    /// Unique among all processes, also after a restart of ctx.
    pub(super) instance_id: String,
    pub(super) working_dir: PathBuf,
    /// The agent's id of the open conversation.
    pub(super) conversation_id: String,
    pub(super) capabilities: Capabilities,
    /// The newest user message that was sent to the agent.
    pub(super) last_user_message: Option<MessageId>,
    /// Request id of the prompt that has not ended.
    pub(super) open_prompt: Option<u64>,
    /// Number of times the process has waited for the user.
    pub(super) wait_count: u64,
    /// Requests that wait for the user.
    pub(super) pending: Vec<PendingRequest>,
    /// Decisions from before the process was started; each answers one request.
    pub(super) decisions: Vec<Decision>,
    pub(super) tool_calls: ToolCalls,
    pub(super) terminals: Terminals,
    pub(super) tool_server: Option<ToolServer>,
    pub(super) client: Option<SessionClient>,
    pub(super) info: AgentInfo,
    pub(super) cost: SessionCost,
    /// Maximum time to start, and again to open a conversation.
    start_timeout: Duration,
    settings: AgentSettings,
    /// The agent's id of the message whose text is being received.
    pub(super) current_message: Option<String>,
}

/// Optional features from the `initialize` response.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Capabilities {
    pub(super) load: bool,
    pub(super) resume: bool,
    pub(super) steer: bool,
    mcp_http: bool,
    mcp_sse: bool,
    directories: bool,
}

/// Why a call failed.
pub(super) enum CallError {
    /// The agent sent an error response.
    Rejected(RpcError),
    /// The process ended, or the call timed out.
    Failed(Failure),
}

impl Connection {
    /// Starts the agent for a session; no conversation is open yet.
    pub(super) async fn start(
        program: &Program,
        request: &Request,
        info: AgentInfo,
        client: Option<SessionClient>,
        start_timeout: Duration,
    ) -> Result<Self, Failure> {
        let session = request.session.to_string();
        let working_dir = working_dir(program, request)?;
        let env = child_env(request);
        let Started { process, stdin, stdout } = program.start(&session, &working_dir, &env)?;
        let instance_id = Ulid::new().to_string();
        let log = program
            .wire_log_dir
            .as_ref()
            .map(|dir| WireLog::new(&dir.join(format!("{session}-{instance_id}.log"))));
        let mut connection = Self {
            process,
            peer: Peer::new(stdout, stdin, log),
            instance_id,
            working_dir,
            conversation_id: String::new(),
            capabilities: Capabilities::default(),
            last_user_message: None,
            open_prompt: None,
            wait_count: 0,
            pending: Vec::new(),
            decisions: Vec::new(),
            tool_calls: ToolCalls::default(),
            terminals: Terminals::new(program.guard_program.clone()),
            tool_server: None,
            client,
            info,
            cost: SessionCost::default(),
            start_timeout,
            settings: AgentSettings::default(),
            current_message: None,
        };
        connection.initialize().await?;
        Ok(connection)
    }

    async fn initialize(&mut self) -> Result<(), Failure> {
        let params = json!({
            "protocolVersion": PROTOCOL_VERSION,
            "clientCapabilities": {
                "fs": {"readTextFile": true, "writeTextFile": true},
                "terminal": true,
                "elicitation": {"form": {}},
            },
            "clientInfo": {"name": "ctx", "title": "ctx", "version": env!("CARGO_PKG_VERSION")},
        });
        let response = self.call("initialize", params, self.start_timeout, &mut Vec::new()).await;
        let response = response.map_err(|error| self.info.failure(error, "did not start"))?;
        let version = response.get("protocolVersion").and_then(Value::as_u64).unwrap_or(0);
        if version != PROTOCOL_VERSION {
            let message = format!(
                "the agent uses ACP version {version}, ctx supports version {PROTOCOL_VERSION}"
            );
            return Err(Failure::new("agent_too_new", FailureClass::Permanent, message));
        }
        let has = |path: &str| {
            response
                .pointer(path)
                .is_some_and(|value| !value.is_null() && *value != Value::Bool(false))
        };
        let steer = response.pointer("/_meta/steering/supported").and_then(Value::as_bool);
        self.capabilities = Capabilities {
            load: has("/agentCapabilities/loadSession"),
            resume: has("/agentCapabilities/sessionCapabilities/resume"),
            steer: steer == Some(true),
            mcp_http: has("/agentCapabilities/mcpCapabilities/http"),
            mcp_sse: has("/agentCapabilities/mcpCapabilities/sse"),
            directories: has("/agentCapabilities/sessionCapabilities/additionalDirectories"),
        };
        self.info.initialized(&response, self.capabilities);
        Ok(())
    }

    /// Offers the tools of ctx to this process.
    pub(super) fn open_tool_server(
        &mut self,
        tools: &[Arc<Tool>],
        protocol: Arc<dyn ToolProtocol>,
    ) {
        match ToolServer::open(tools.iter().map(|tool| tool.name.clone()), protocol) {
            Ok(server) => self.tool_server = Some(server),
            // The agent works without them.
            Err(error) => tracing::warn!(%error, "cannot offer the tools of ctx to an agent"),
        }
    }

    fn mcp_servers(&self, bridge: Option<&Path>) -> Value {
        let entry =
            self.tool_server.as_ref().zip(bridge).map(|(server, bridge)| server.mcp_entry(bridge));
        let Capabilities { mcp_http, mcp_sse, .. } = self.capabilities;
        let client = self.client.as_ref().map(|client| client.mcp_servers(mcp_http, mcp_sse));
        Value::Array(entry.into_iter().chain(client.into_iter().flatten()).collect())
    }

    /// Parameters of every request that opens a conversation.
    fn open_params(&self, bridge: Option<&Path>) -> Value {
        let mut params = json!({"cwd": self.working_dir, "mcpServers": self.mcp_servers(bridge)});
        let more = self.client.as_ref().map(SessionClient::directories).unwrap_or_default();
        if self.capabilities.directories && !more.is_empty() {
            params["additionalDirectories"] = json!(more);
        }
        params
    }

    pub(super) async fn new_conversation(&mut self, bridge: Option<&Path>) -> Result<(), Failure> {
        let params = self.open_params(bridge);
        let opened = self.call("session/new", params, self.start_timeout, &mut Vec::new()).await;
        let opened =
            opened.map_err(|error| self.info.failure(error, "did not open a conversation"))?;
        let id = opened.get("sessionId").and_then(Value::as_str).unwrap_or_default();
        if id.is_empty() {
            let message = "the agent opened a conversation without an id";
            return Err(Failure::new("bad_stream", FailureClass::Permanent, message));
        }
        self.conversation_id = id.to_owned();
        self.settings = AgentSettings::parse(&opened);
        self.cost = SessionCost::of_new_conversation();
        self.info.conversation_opened(&self.settings, true);
        Ok(())
    }

    /// Continues a conversation; `false` if the agent cannot. Replayed messages are discarded.
    pub(super) async fn resume_conversation(
        &mut self,
        id: &str,
        bridge: Option<&Path>,
    ) -> Result<bool, Failure> {
        let method = match (self.capabilities.resume, self.capabilities.load) {
            (true, _) => "session/resume",
            (false, true) => "session/load",
            (false, false) => return Ok(false),
        };
        self.open_conversation(method, id, bridge).await.map(|replayed| replayed.is_some())
    }

    /// Continues a conversation only if its replayed user messages contain `text`.
    pub(super) async fn resume_if_it_contains(
        &mut self,
        id: &str,
        text: &str,
        bridge: Option<&Path>,
    ) -> Result<bool, Failure> {
        if !self.capabilities.load {
            return Ok(false);
        }
        let replayed = self.open_conversation("session/load", id, bridge).await?;
        Ok(replayed.is_some_and(|messages| messages.iter().any(|it| it.contains(text))))
    }

    /// Opens a conversation and returns its replayed user messages; `None` if the agent rejects it.
    async fn open_conversation(
        &mut self,
        method: &str,
        id: &str,
        bridge: Option<&Path>,
    ) -> Result<Option<Vec<String>>, Failure> {
        let mut params = self.open_params(bridge);
        params["sessionId"] = id.into();
        let mut replayed = Vec::new();
        // Updates with this id arrive before the response.
        self.conversation_id = id.to_owned();
        match self.call(method, params, self.start_timeout, &mut replayed).await {
            Ok(opened) => {
                self.settings = AgentSettings::parse(&opened);
                self.info.conversation_opened(&self.settings, false);
                Ok(Some(replayed))
            }
            Err(CallError::Rejected(error)) if requires_login(&error) => {
                let error = CallError::Rejected(error);
                Err(self.info.failure(error, "did not open a conversation"))
            }
            // The agent has lost the conversation. A new one gets the history from the store.
            Err(CallError::Rejected(error)) => {
                tracing::info!(%method, %error, "an agent cannot reopen its conversation");
                Ok(None)
            }
            Err(CallError::Failed(failure)) => Err(failure),
        }
    }

    /// Changes a setting if the agent has it with another value. A rejected value is only logged.
    pub(super) async fn set_option(&mut self, id: &str, value: &str) {
        let Some(call) = self.settings.change(&self.conversation_id, id, value) else { return };
        let (method, params) = call;
        match self.call(method, params, SETTING_TIMEOUT, &mut Vec::new()).await {
            Ok(response) => self.settings.changed(id, value, &response),
            Err(CallError::Rejected(error)) => {
                tracing::warn!(setting = id, value, %error, "an agent rejected a setting");
            }
            Err(CallError::Failed(failure)) => {
                let message = failure.message;
                tracing::warn!(setting = id, message, "cannot change a setting of an agent");
            }
        }
    }

    /// Sends a request outside a prompt and waits for the response. Replayed user messages are
    /// appended to `replayed`.
    async fn call(
        &mut self,
        method: &str,
        params: Value,
        timeout: Duration,
        replayed: &mut Vec<String>,
    ) -> Result<Value, CallError> {
        let request_id = self.peer.request(method, params).await;
        let mut last: Option<Value> = None;
        let wait = async {
            loop {
                match self.peer.next().await {
                    None => return None,
                    Some(Incoming::Response { id, result }) if id == request_id => {
                        return Some(result);
                    }
                    Some(other) => {
                        if let Some(update) = self.handle_outside_prompt(other).await {
                            collect_replayed(replayed, &update, &mut last);
                        }
                    }
                }
            }
        };
        match tokio::time::timeout(timeout, wait).await {
            Ok(Some(result)) => result.map_err(CallError::Rejected),
            Ok(None) => Err(CallError::Failed(self.process.exit_failure().await)),
            Err(_) => {
                let message = format!(
                    "the agent did not answer `{method}` within {} seconds",
                    timeout.as_secs()
                );
                Err(CallError::Failed(Failure::new("timeout", FailureClass::Permanent, message)))
            }
        }
    }

    /// Handles the messages since the last prompt. They belong to no turn.
    pub(super) async fn process_backlog(&mut self) {
        while let Some(incoming) = self.peer.try_next() {
            self.handle_outside_prompt(incoming).await;
        }
    }

    /// Handles a message outside a prompt and returns it if it is a session update.
    pub(super) async fn handle_outside_prompt(&mut self, incoming: Incoming) -> Option<Value> {
        match incoming {
            Incoming::Response { .. } => None,
            Incoming::Request { id, method, .. } => {
                let message = format!("{method} is not available outside a prompt");
                self.peer.respond_error(&id, METHOD_NOT_FOUND, &message).await;
                None
            }
            Incoming::Notification { params, .. } => {
                let update = params.get("update").cloned()?;
                self.apply_update(&update);
                Some(update)
            }
        }
    }

    /// Applies an update about the agent or the conversation as a whole.
    pub(super) fn apply_update(&mut self, update: &Value) {
        if update.get("sessionUpdate").and_then(Value::as_str) == Some("usage_update") {
            self.cost.update(update);
        } else if !self.settings.apply_update(update) {
            self.info.apply_update(update);
        }
        if let Some(client) = &self.client {
            client.update(update);
        }
    }

    pub(super) fn has_ended(&mut self) -> bool {
        self.peer.is_closed() || self.process.has_ended()
    }

    /// Ends the process and its descendants.
    pub(super) async fn end(self) {
        let Self { process, peer, client, .. } = self;
        drop(peer);
        if let Some(client) = client {
            // Not awaited: the client may be gone.
            tokio::spawn(async move { client.release_terminals().await });
        }
        process.end().await;
    }
}

/// Appends a replayed user message to `replayed`; chunks of one message are joined.
fn collect_replayed(replayed: &mut Vec<String>, update: &Value, last: &mut Option<Value>) {
    let kind = update.get("sessionUpdate").and_then(Value::as_str);
    let message_id = update.get("messageId").cloned();
    if kind == Some("user_message_chunk") {
        let text = update.pointer("/content/text").and_then(Value::as_str).unwrap_or_default();
        let is_same_message = last.is_some() && *last == message_id.clone().or(Some(Value::Null));
        match replayed.last_mut().filter(|_| is_same_message) {
            Some(message) => message.push_str(text),
            None => replayed.push(text.to_owned()),
        }
        *last = message_id.or(Some(Value::Null));
        let excess = replayed.len().saturating_sub(REPLAY_MAX);
        replayed.drain(..excess);
    } else if kind.is_some() {
        *last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replayed_chunks_are_joined_by_message() {
        let chunk = |kind: &str, text: &str, id: Option<&str>| {
            let content = json!({"type": "text", "text": text});
            json!({"sessionUpdate": kind, "content": content, "messageId": id})
        };
        let user = |text: &str, id: Option<&str>| chunk("user_message_chunk", text, id);
        let (mut replayed, mut last) = (Vec::new(), None);
        for update in [
            user("a", Some("1")),
            user("b", Some("1")),
            user("c", Some("2")),
            chunk("agent_message_chunk", "x", None),
            user("d", None),
            user("e", None),
        ] {
            collect_replayed(&mut replayed, &update, &mut last);
        }
        assert_eq!(replayed, ["ab", "c", "de"]);
    }
}
