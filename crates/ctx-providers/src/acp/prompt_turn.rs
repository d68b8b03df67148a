//! One prompt of an agent: updates become deltas, requests for the user become suspensions.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use ctx_core::id::MessageId;
use ctx_core::policy::ToolRights;
use ctx_core::suspension::{Answer, Suspension};
use ctx_core::turn::Usage;
use ctx_engine::provider::{Delta, End, Link, Steer, Stop};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::acp_connection::{CallError, Connection};
use super::attached_client::SessionClient;
use super::content_text;
use super::file_access::FileRequest;
use super::permission_requests::{self, PendingRequest, RequestKind};
use crate::agent_process::wait_until;
use crate::json_rpc::{INVALID_PARAMS, Incoming, METHOD_NOT_FOUND, response};

/// Maximum time that an agent may take to stop after a cancellation.
const STOP_TIMEOUT: Duration = Duration::from_secs(9);
/// Requests within this time after the first one are put to the user together.
const COLLECT_TIME: Duration = Duration::from_millis(150);

/// A prompt that the agent is working on.
pub(super) struct PromptTurn<'a> {
    connection: &'a mut Connection,
    link: &'a mut Link,
    /// When the agent was asked to stop.
    stop_requested_at: Option<Instant>,
    /// When the pending requests are put to the user.
    suspend_at: Option<Instant>,
    /// Steering messages without a response, by request id.
    pending_steers: HashMap<u64, MessageId>,
    usage: Usage,
    /// The tools that the agent may call: those that all of them permit.
    tool_rights: &'a [ToolRights],
}

impl<'a> PromptTurn<'a> {
    pub(super) fn new(
        connection: &'a mut Connection,
        link: &'a mut Link,
        tool_rights: &'a [ToolRights],
    ) -> Self {
        let usage = Usage { scope: connection.info.usage_scope().to_owned(), ..Usage::default() };
        Self {
            connection,
            link,
            stop_requested_at: None,
            suspend_at: None,
            pending_steers: HashMap::new(),
            usage,
            tool_rights,
        }
    }

    /// Sends the prompt and processes messages until it ends or is suspended.
    pub(super) async fn run(mut self, blocks: Vec<Value>) -> End {
        self.connection.tool_calls.clear();
        self.connection.current_message = None;
        self.connection.cost.start_prompt();
        let params = json!({"sessionId": self.connection.conversation_id, "prompt": blocks});
        let request_id = self.connection.peer.request("session/prompt", params).await;
        self.connection.open_prompt = Some(request_id);
        self.process_messages().await
    }

    /// Answers the requests of a suspended prompt and continues it.
    pub(super) async fn resume(mut self, resumes: &[(Suspension, Answer)]) -> End {
        for (suspension, answer) in resumes {
            let instance = self.connection.instance_id.clone();
            let position = self
                .connection
                .pending
                .iter()
                .position(|request| request.belongs_to(suspension, &instance));
            let Some(position) = position else { continue };
            let request = self.connection.pending.remove(position);
            let choice = answer.choice.as_deref().unwrap_or_default();
            let choice =
                suspension.matching_option(choice).map_or(choice, |offer| offer.id.as_str());
            self.answer(request, choice).await;
        }
        if !self.connection.pending.is_empty() {
            // Requests that arrived during the suspension are put to the user next.
            self.suspend_at = Some(Instant::now());
        }
        self.process_messages().await
    }

    async fn answer(&mut self, request: PendingRequest, choice: &str) {
        let PendingRequest { id, kind } = request;
        let peer = &self.connection.peer;
        match kind {
            RequestKind::Permission { .. } => {
                peer.respond(&id, permission_requests::selected(choice)).await;
            }
            RequestKind::Form { schema, .. } => {
                peer.respond(&id, permission_requests::form_response(&schema, choice)).await;
            }
            RequestKind::File(file) if choice == "allow_once" => self.serve_file(&id, file).await,
            RequestKind::File(_) => {
                peer.respond_error(&id, INVALID_PARAMS, "the user did not allow this").await;
            }
        }
    }

    async fn process_messages(&mut self) -> End {
        loop {
            let is_running = self.stop_requested_at.is_none();
            let can_steer = self.connection.capabilities.steer && is_running;
            let stop_deadline = self.stop_requested_at.map(|since| since + STOP_TIMEOUT);
            tokio::select! {
                biased;
                () = self.link.cancel.cancelled(), if is_running => self.request_stop().await,
                () = wait_until(stop_deadline) => return End::Cancelled,
                incoming = self.connection.peer.next() => {
                    let end = match incoming {
                        Some(incoming) => self.handle(incoming).await,
                        None => Some(self.process_ended().await),
                    };
                    if let Some(end) = end {
                        return end;
                    }
                }
                () = wait_until(self.suspend_at), if is_running => return self.suspend(),
                Some(steer) = self.link.steers.recv(), if can_steer => self.steer(steer).await,
            }
        }
    }

    async fn process_ended(&mut self) -> End {
        self.connection.open_prompt = None;
        if self.stop_requested_at.is_some() {
            End::Cancelled
        } else {
            End::Failed(self.connection.process.exit_failure().await)
        }
    }

    /// The run was cancelled: rejects pending requests and asks the agent to stop.
    async fn request_stop(&mut self) {
        self.stop_requested_at = Some(Instant::now());
        self.connection.cancel_prompt().await;
    }

    /// Puts all pending requests to the user.
    fn suspend(&self) -> End {
        let instance = &self.connection.instance_id;
        End::Suspended(self.connection.pending.iter().map(|it| it.awaited(instance)).collect())
    }

    async fn steer(&mut self, steer: Steer) {
        let params = json!({
            "sessionId": self.connection.conversation_id,
            "prompt": [{"type": "text", "text": steer.text}],
            // Without an open prompt the agent must reject the message: ctx would not read the
            // answer.
            "_meta": {"steering": {"idleBehavior": "promptRequired"}},
        });
        let request_id = self.connection.peer.request("_session/steering", params).await;
        self.pending_steers.insert(request_id, steer.message_id);
    }

    /// Handles one message; the end of the prompt, if this message ends it.
    async fn handle(&mut self, incoming: Incoming) -> Option<End> {
        match incoming {
            Incoming::Response { id, result } if Some(id) == self.connection.open_prompt => {
                self.connection.open_prompt = None;
                return Some(match result {
                    Ok(response) => self.prompt_ended(&response).await,
                    Err(_) if self.stop_requested_at.is_some() => End::Cancelled,
                    Err(error) => {
                        let error = CallError::Rejected(error);
                        End::Failed(self.connection.info.failure(error, "failed"))
                    }
                });
            }
            Incoming::Response { id, result } => {
                let is_injected = |response: Value| {
                    response.get("outcome").and_then(Value::as_str) == Some("injected")
                };
                if let Some(message) = self.pending_steers.remove(&id)
                    && result.is_ok_and(is_injected)
                {
                    self.connection.last_user_message = Some(message);
                    self.report(Delta::Injected(message)).await;
                }
            }
            Incoming::Notification { method, params } => {
                self.handle_notification(&method, &params).await;
            }
            Incoming::Request { id, method, params } => {
                self.handle_request(id, &method, &params).await;
            }
        }
        for entry in self.connection.terminals.take_ended() {
            self.report(Delta::Observed(entry)).await;
        }
        None
    }

    async fn prompt_ended(&mut self, response: &Value) -> End {
        self.read_usage(response);
        let usage = &self.usage;
        if usage.input_tokens.is_some() || usage.output_tokens.is_some() || usage.cost.is_some() {
            self.report(Delta::Usage(usage.clone())).await;
        }
        match response.get("stopReason").and_then(Value::as_str) {
            Some("cancelled") => End::Cancelled,
            Some("max_tokens" | "max_turn_requests") => End::Done(Stop::MaxTokens),
            Some("refusal") => End::Done(Stop::Refused),
            _ => End::Done(Stop::EndTurn),
        }
    }

    fn read_usage(&mut self, response: &Value) {
        let number =
            |paths: [&str; 2]| paths.iter().find_map(|path| response.pointer(path)?.as_u64());
        self.usage.input_tokens =
            number(["/usage/inputTokens", "/_meta/quota/token_count/input_tokens"]);
        self.usage.output_tokens =
            number(["/usage/outputTokens", "/_meta/quota/token_count/output_tokens"]);
        self.usage.cached_tokens =
            number(["/usage/cachedReadTokens", "/_meta/quota/token_count/cached_tokens"]);
        self.usage.cost = self.connection.cost.of_prompt().map(|cost| cost.to_string());
    }

    async fn handle_notification(&mut self, method: &str, params: &Value) {
        match method {
            "session/update"
                if params.get("sessionId").and_then(Value::as_str)
                    == Some(self.connection.conversation_id.as_str()) =>
            {
                let update = params.get("update").cloned().unwrap_or_default();
                self.handle_update(&update).await;
            }
            "$/cancel_request" => {
                let cancelled = params.get("requestId");
                self.connection.pending.retain(|request| Some(&request.id) != cancelled);
                if self.connection.pending.is_empty() {
                    self.suspend_at = None;
                }
            }
            _ => {}
        }
    }

    async fn handle_update(&mut self, update: &Value) {
        let text = || {
            update.pointer("/content/text").and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        match update.get("sessionUpdate").and_then(Value::as_str).unwrap_or_default() {
            "agent_message_chunk" => self.report_text(update).await,
            "agent_thought_chunk" => {
                self.report(Delta::Thought { text: text(), raw: None }).await;
            }
            "tool_call" | "tool_call_update" => {
                self.connection.current_message = None;
                if let Some(client) = &self.connection.client {
                    client.update(update);
                }
                let working_dir = &self.connection.working_dir;
                for delta in self.connection.tool_calls.apply(update, working_dir) {
                    self.report(delta).await;
                }
            }
            "plan" => {
                if let Some(entries) = update.get("entries") {
                    self.report(Delta::Plan(entries.clone())).await;
                }
            }
            // Token counts of `usage_update` describe the agent's context window, not the turn.
            _ => self.connection.apply_update(update),
        }
    }

    /// Reports a chunk of text. A blank line separates two messages of the agent.
    async fn report_text(&mut self, update: &Value) {
        let message_id = update.get("messageId").and_then(Value::as_str).map(str::to_owned);
        let current = &self.connection.current_message;
        if message_id.is_some() && current.is_some() && message_id != *current {
            self.report(Delta::Text("\n\n".to_owned())).await;
        }
        if message_id.is_some() {
            self.connection.current_message = message_id;
        }
        let text = content_text(update.get("content"));
        if !text.is_empty() {
            self.report(Delta::Text(text)).await;
        }
    }

    async fn handle_request(&mut self, id: Value, method: &str, params: &Value) {
        match method {
            "session/request_permission" => self.handle_permission_request(id, params).await,
            "elicitation/create" => match PendingRequest::form(id.clone(), params) {
                Some(request) => self.ask_user(request).await,
                None => self.connection.peer.respond(&id, json!({"action": "decline"})).await,
            },
            "fs/read_text_file" | "fs/write_text_file" => {
                self.handle_file_request(id, method, params).await;
            }
            "terminal/create"
            | "terminal/output"
            | "terminal/kill"
            | "terminal/release"
            | "terminal/wait_for_exit" => self.handle_terminal_request(id, method, params).await,
            _ => {
                let message = "ctx does not support this method";
                self.connection.peer.respond_error(&id, METHOD_NOT_FOUND, message).await;
            }
        }
    }

    async fn handle_permission_request(&mut self, id: Value, params: &Value) {
        let Some(call) = params.get("toolCall") else {
            let message = "`toolCall` is missing";
            self.connection.peer.respond_error(&id, INVALID_PARAMS, message).await;
            return;
        };
        if let Some(client) = &self.connection.client {
            client.update(call);
        }
        let working_dir = &self.connection.working_dir;
        for delta in self.connection.tool_calls.apply_permission_request(call, working_dir) {
            self.report(delta).await;
        }
        let call_id = call.get("toolCallId").and_then(Value::as_str).unwrap_or_default();
        let name = self.connection.tool_calls.name(call_id);
        let permitted = self.tool_rights.iter().all(|rights| rights.permits(&name));
        let Some(request) = PendingRequest::permission(id.clone(), params, name) else {
            let message = "`options` is missing";
            self.connection.peer.respond_error(&id, INVALID_PARAMS, message).await;
            return;
        };
        match request.offer_of_kind("reject_once") {
            _ if permitted => self.ask_user(request).await,
            // The policies have decided, so the user is not asked.
            Some(reject) => {
                let reject = reject.to_owned();
                self.answer(request, &reject).await;
            }
            None => self.connection.reject(&request).await,
        }
    }

    async fn handle_file_request(&mut self, id: Value, method: &str, params: &Value) {
        match FileRequest::parse(method, params) {
            Some(file) if self.connection.may_access(&file).await => {
                self.serve_file(&id, file).await;
            }
            Some(file) => self.ask_user(PendingRequest::file(id, file)).await,
            None => {
                let message = "`path` or `content` is missing";
                self.connection.peer.respond_error(&id, INVALID_PARAMS, message).await;
            }
        }
    }

    /// Answers a request from an earlier decision, or keeps it for the next suspension.
    async fn ask_user(&mut self, request: PendingRequest) {
        if self.stop_requested_at.is_some() {
            self.connection.reject(&request).await;
            return;
        }
        let decided = request.decision_in(&self.connection.decisions).and_then(|position| {
            let kind = &self.connection.decisions[position].kind;
            Some((position, request.offer_of_kind(kind)?.to_owned()))
        });
        if let Some((position, option)) = decided {
            // The user decided this before the process was restarted. A decision is used once.
            self.connection.decisions.remove(position);
            self.answer(request, &option).await;
            return;
        }
        self.connection.pending.push(request);
        self.suspend_at.get_or_insert_with(|| Instant::now() + COLLECT_TIME);
    }

    /// Serves a file request, reports it to the task, then responds.
    async fn serve_file(&mut self, id: &Value, request: FileRequest) {
        let client = self.connection.client.clone();
        if let Some(client) = client.filter(|client| client.supports(request.method())) {
            return self.serve_file_by_client(id.clone(), request, client);
        }
        let mut served = request.serve(&self.connection.working_dir).await;
        if served.result.is_ok() {
            self.connection.tool_calls.file_served(served.path.clone(), served.is_write);
        }
        if let Some(entry) = served.observation.take() {
            self.report(Delta::Observed(entry)).await;
        }
        let empty_if_missing = self.connection.info.expects_empty_missing_files();
        let result = served.response(empty_if_missing);
        self.connection.peer.sender().send(&response(id, &result)).await;
    }

    /// The client may take long, so the answer is sent by a task of its own.
    fn serve_file_by_client(&mut self, id: Value, request: FileRequest, client: SessionClient) {
        let is_write = request.content.is_some();
        self.connection.tool_calls.file_served(request.path.clone(), is_write);
        let empty_if_missing = self.connection.info.expects_empty_missing_files();
        let (dir, responses) = (self.connection.working_dir.clone(), self.connection.peer.sender());
        // The run must be able to end while the client has not answered.
        let reports = self.link.out.downgrade();
        tokio::spawn(async move {
            let mut served = client.serve_file(request, &dir).await;
            if let Some((entry, reports)) = served.observation.take().zip(reports.upgrade()) {
                let _ = reports.send(Delta::Observed(entry)).await;
            }
            responses.send(&response(&id, &served.response(empty_if_missing))).await;
        });
    }

    async fn handle_terminal_request(&mut self, id: Value, method: &str, params: &Value) {
        let client = self.connection.client.clone();
        if let Some(client) = client.filter(|client| client.serves_terminal(method, params)) {
            let (reports, responses) = (self.link.out.downgrade(), self.connection.peer.sender());
            let dir = self.connection.working_dir.clone();
            let (method, params) = (method.to_owned(), params.clone());
            let served = client.serve_terminal(id, method, params, dir, reports, responses);
            tokio::spawn(served);
            return;
        }
        let connection = &mut *self.connection;
        let terminals = &mut connection.terminals;
        let response = match method {
            "terminal/create" => terminals.create(params, &connection.working_dir),
            "terminal/output" => terminals.output(params),
            "terminal/kill" => terminals.kill(params),
            "terminal/release" => terminals.release(params),
            _ => match terminals.wait_for_exit(params) {
                Ok(exit) => return connection.peer.respond_later(id, exit),
                Err(error) => Err(error),
            },
        };
        match response {
            Ok(result) => connection.peer.respond(&id, result).await,
            Err(error) => connection.peer.respond_error(&id, INVALID_PARAMS, &error).await,
        }
    }

    async fn report(&mut self, delta: Delta) {
        // A closed channel means that the run is over; its cancellation is handled separately.
        let _ = self.link.send(delta).await;
    }
}

impl Connection {
    /// Whether a file is in the working directory, or in another directory of the client.
    async fn may_access(&self, file: &FileRequest) -> bool {
        if file.is_inside(&self.working_dir).await {
            return true;
        }
        for dir in self.client.iter().flat_map(SessionClient::directories) {
            if file.is_inside(Path::new(&dir)).await {
                return true;
            }
        }
        false
    }

    /// Rejects pending requests and asks the agent to stop its prompt.
    pub(super) async fn cancel_prompt(&mut self) {
        for request in std::mem::take(&mut self.pending) {
            self.reject(&request).await;
        }
        self.peer.notify("session/cancel", json!({"sessionId": self.conversation_id})).await;
    }

    /// Responds to a request that the user will not see.
    async fn reject(&self, request: &PendingRequest) {
        match permission_requests::cancelled(&request.kind) {
            Some(result) => self.peer.respond(&request.id, result).await,
            None => {
                let message = "the request was cancelled";
                self.peer.respond_error(&request.id, INVALID_PARAMS, message).await;
            }
        }
    }

    /// Cancels the open prompt, then ends the process.
    pub(super) async fn abandon(mut self) {
        self.cancel_prompt().await;
        let open_prompt = self.open_prompt;
        let prompt_ended = async {
            while let Some(incoming) = self.peer.next().await {
                if matches!(incoming, Incoming::Response { id, .. } if Some(id) == open_prompt) {
                    return;
                }
                self.handle_outside_prompt(incoming).await;
            }
        };
        let _ = tokio::time::timeout(STOP_TIMEOUT, prompt_ended).await;
        self.end().await;
    }
}
