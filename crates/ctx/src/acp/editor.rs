//! The connection to the editor: what it supports, requests to it, and the sessions that it is
//! attached to.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use async_trait::async_trait;
use ctx_engine::core::id::SessionId;
use ctx_engine::core::text_limits::one_line;
use ctx_providers::acp::AttachedClient;
use ctx_providers::json_lines::LineSender;
use ctx_providers::json_rpc::{self, INTERNAL_ERROR, METHOD_NOT_FOUND, RpcError};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::attached_session::Command;

/// Longest name of an editor, in characters.
const NAME_MAX_CHARS: usize = 60;

type Reply = Result<Value, RpcError>;

/// Everything that is sent to the editor goes through this handle.
#[derive(Debug)]
pub(crate) struct Editor {
    out: LineSender,
    last_id: AtomicU64,
    /// Requests without a response; `None` after the editor is gone.
    waiting: Mutex<Option<HashMap<u64, oneshot::Sender<Reply>>>>,
    /// The parameters of `initialize`.
    initialized: OnceLock<Value>,
    sessions: Mutex<HashMap<String, Attachment>>,
}

/// A session that the editor is attached to, under the id that the editor uses.
#[derive(Debug, Clone)]
pub(super) struct Attachment {
    pub(super) session: SessionId,
    pub(super) commands: mpsc::Sender<Command>,
    pub(super) mcp_servers: Vec<Value>,
    pub(super) directories: Vec<String>,
}

impl Editor {
    pub(crate) fn new(out: LineSender) -> Self {
        Self {
            out,
            last_id: AtomicU64::new(0),
            waiting: Mutex::new(Some(HashMap::new())),
            initialized: OnceLock::new(),
            sessions: Mutex::default(),
        }
    }

    /// Stores the parameters of `initialize`. Returns `false` if there are some already.
    pub(super) fn initialize(&self, params: Value) -> bool {
        self.initialized.set(params).is_ok()
    }

    pub(super) fn is_initialized(&self) -> bool {
        self.initialized.get().is_some()
    }

    /// The name under which the editor's decisions are recorded.
    pub(super) fn name(&self) -> String {
        let info = self.initialized.get().and_then(|params| params.get("clientInfo"));
        let name = info.and_then(|info| info["title"].as_str().or(info["name"].as_str()));
        name.map_or_else(|| "an editor".to_owned(), |name| one_line(name, NAME_MAX_CHARS))
    }

    /// Whether the editor declared a capability, given as a JSON pointer.
    pub(super) fn has(&self, capability: &str) -> bool {
        let params = self.initialized.get();
        let value = params.and_then(|it| it.get("clientCapabilities")?.pointer(capability));
        value.is_some_and(|value| !value.is_null() && *value != Value::Bool(false))
    }

    pub(super) async fn notify(&self, method: &str, params: Value) {
        self.out.send(&json_rpc::notification(method, &params)).await;
    }

    /// Sends a `session/update`.
    pub(super) async fn update(&self, session: &str, update: Value) {
        self.notify("session/update", json!({"sessionId": session, "update": update})).await;
    }

    pub(super) async fn respond(&self, id: &Value, result: &Reply) {
        self.out.send(&json_rpc::response(id, result)).await;
    }

    /// Sends a request. The response arrives through the receiver, which fails if the editor is
    /// gone.
    pub(super) async fn request(
        &self,
        method: &str,
        params: Value,
    ) -> (u64, oneshot::Receiver<Reply>) {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, receiver) = oneshot::channel();
        if let Some(waiting) = self.waiting().as_mut() {
            waiting.insert(id, sender);
        }
        self.out.send(&json_rpc::request(id, method, &params)).await;
        (id, receiver)
    }

    /// Withdraws a request. A response that comes later is ignored.
    pub(super) async fn withdraw(&self, id: u64) {
        if let Some(waiting) = self.waiting().as_mut() {
            waiting.remove(&id);
        }
        self.notify("$/cancel_request", json!({"requestId": id})).await;
    }

    /// Passes a response on. One that nobody waits for is ignored.
    pub(super) fn responded(&self, id: u64, result: Reply) {
        if let Some(sender) = self.waiting().as_mut().and_then(|waiting| waiting.remove(&id)) {
            let _ = sender.send(result);
        }
    }

    /// The editor is gone: every request to it fails.
    pub(super) fn close(&self) {
        drop(self.waiting().take());
        self.sessions().clear();
    }

    /// Waits until everything is written.
    pub(super) async fn flush(&self) {
        self.out.flush().await;
    }

    pub(super) fn attach(&self, name: &str, attachment: Attachment) {
        self.sessions().insert(name.to_owned(), attachment);
    }

    pub(super) fn detach(&self, name: &str) -> Option<Attachment> {
        self.sessions().remove(name)
    }

    pub(super) fn attachment(&self, name: &str) -> Option<Attachment> {
        self.sessions().get(name).cloned()
    }

    pub(super) fn attachments(&self) -> Vec<Attachment> {
        self.sessions().values().cloned().collect()
    }

    fn attachment_of(&self, session: SessionId) -> Option<(String, Attachment)> {
        let sessions = self.sessions();
        let found = sessions.iter().find(|(_, attachment)| attachment.session == session);
        found.map(|(name, attachment)| (name.clone(), attachment.clone()))
    }

    fn waiting(&self) -> MutexGuard<'_, Option<HashMap<u64, oneshot::Sender<Reply>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, Attachment>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl AttachedClient for Editor {
    fn mcp_servers(&self, session: SessionId) -> Vec<Value> {
        self.attachment_of(session).map(|(_, it)| it.mcp_servers).unwrap_or_default()
    }

    fn directories(&self, session: SessionId) -> Vec<String> {
        self.attachment_of(session).map(|(_, it)| it.directories).unwrap_or_default()
    }

    fn supports(&self, session: SessionId, method: &str) -> bool {
        let capability = match method {
            "fs/read_text_file" => "/fs/readTextFile",
            "fs/write_text_file" => "/fs/writeTextFile",
            _ if method.starts_with("terminal/") => "/terminal",
            _ => return false,
        };
        self.has(capability) && self.attachment_of(session).is_some()
    }

    async fn request(&self, session: SessionId, method: &str, mut params: Value) -> Reply {
        let gone = || RpcError::new(INTERNAL_ERROR, "the editor is gone");
        let Some((name, _)) = self.attachment_of(session) else {
            return Err(RpcError::new(METHOD_NOT_FOUND, "the editor has closed the session"));
        };
        params["sessionId"] = name.into();
        let (_, receiver) = Editor::request(self, method, params).await;
        receiver.await.unwrap_or_else(|_| Err(gone()))
    }

    fn update(&self, session: SessionId, update: &Value) {
        if let Some((_, attachment)) = self.attachment_of(session) {
            // It is only shown: if the session is far behind, it can be left out.
            let _ = attachment.commands.try_send(Command::AgentUpdate(update.clone()));
        }
    }
}
