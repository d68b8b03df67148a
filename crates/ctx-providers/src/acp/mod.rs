//! Agents that implement the Agent Client Protocol (ACP), as child processes.
//!
//! | module | contents |
//! |---|---|
//! | `acp_connection` | the process, its initialization, opening a conversation |
//! | `prompt_turn` | one prompt: updates, requests, cancellation, steering |
//! | `tool_call_updates` | tool calls, merged from their updates, and their task entries |
//! | `permission_requests` | permissions and questions; decisions that outlive the process |
//! | `file_access`, `agent_terminals` | files and commands that ctx handles for the agent |
//! | `agent_info`, `agent_settings` | what the agent reported; the settings of a conversation |
//! | `session_cost` | the cost of a prompt |
//! | `attached_client` | an editor in front of ctx: its MCP servers, files and terminals |
//!
//! A process starts with the first prompt of a session and ends when the session is idle. It is
//! kept for a while during a suspension, so that an early answer reaches the request that is
//! waiting for it.

mod acp_connection;
mod agent_info;
mod agent_settings;
mod agent_terminals;
mod attached_client;
mod file_access;
mod permission_requests;
mod prompt_turn;
mod session_cost;
mod tool_call_updates;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ctx_core::id::SessionId;
use ctx_core::message::{Part, Role};
use ctx_engine::provider::{About, Delta, End, Failure, Link, Provider, Request};
use serde_json::{Value, json};

use crate::agent_process::Program;
use crate::agent_prompt::{
    ConversationState, interrupted_user_text, newest_seen_user_message, newest_sent_user_message,
    prompt_texts,
};
use crate::mcp_bridge::Bridge;
use crate::process_pool::ProcessPool;
use acp_connection::Connection;
use agent_info::AgentInfo;
pub use attached_client::AttachedClient;
use attached_client::SessionClient;
use permission_requests::decisions;
use prompt_turn::PromptTurn;

/// Default of [`Config::start_timeout`].
pub const START_TIMEOUT: Duration = Duration::from_secs(90);

/// Configuration of an ACP agent.
#[derive(Debug, Clone)]
pub struct Config {
    /// The program to start.
    pub program: Program,
    /// The model to select; `None` keeps the agent's default.
    pub model: Option<String>,
    /// Size of the context window in tokens that a handover of the history may use.
    pub context_window: u64,
    /// How the agent gets the tools of ctx. Without it the agent gets none.
    pub bridge: Option<Bridge>,
    /// How long a process that waits for the user is kept.
    pub suspension_hold: Duration,
    /// Maximum time to start, and again to open a conversation.
    pub start_timeout: Duration,
    /// The client that is attached to sessions of this process, if there is one.
    pub client: Option<Arc<dyn AttachedClient>>,
}

/// An agent over ACP.
pub struct Acp {
    config: Config,
    info: AgentInfo,
    /// Connections between two runs, by session.
    pool: ProcessPool<Connection>,
}

impl Acp {
    /// Starts no process.
    pub fn new(config: Config) -> Self {
        Self { config, info: AgentInfo::default(), pool: ProcessPool::default() }
    }

    /// Runs the request in the kept process if it fits the history, otherwise in a new one.
    async fn run_in_process(
        &self,
        request: &Request,
        link: &mut Link,
    ) -> Result<(End, Connection), End> {
        let kept = self.pool.take(request.session);
        let mut kept = match kept {
            Some(mut connection) if connection.open_prompt.is_some() => {
                let is_answered = request.resumes.iter().any(|(suspension, _)| {
                    let instance = &connection.instance_id;
                    connection.pending.iter().any(|it| it.belongs_to(suspension, instance))
                });
                if is_answered && !connection.has_ended() {
                    return Ok(self.resume_prompt(connection, request, link).await);
                }
                self.pool.end(request.session, connection.abandon());
                None
            }
            other => other,
        };
        let own = request.own.as_ref();
        let fits = |connection: &mut Connection| {
            own.is_some_and(|own| own.clean && own.id == connection.conversation_id)
                && connection.last_user_message == newest_seen_user_message(request)
                && !connection.has_ended()
        };
        if let Some(unfit) = kept.take_if(|connection| !fits(connection)) {
            self.pool.end(request.session, unfit.end());
        }
        let (mut connection, state) = match kept {
            Some(connection) => {
                let seen = own.map(|own| ConversationState::SeenUpTo(own.unseen));
                (connection, seen.unwrap_or(ConversationState::New))
            }
            None => tokio::select! {
                // The agent has received no prompt yet, so it can be dropped.
                () = link.cancel.cancelled() => return Err(End::Cancelled),
                started = self.start(request) => started.map_err(End::Failed)?,
            },
        };
        connection.process_backlog().await;
        connection.last_user_message = newest_sent_user_message(request);
        connection.decisions = decisions(&request.resumes);
        self.attach_run(&connection, link).await;
        for (id, value) in &request.options {
            connection.set_option(id, value).await;
        }
        if let Some(model) = request.model.as_ref().or(self.config.model.as_ref()) {
            connection.set_option("model", model).await;
        }
        let decisions: Vec<String> = connection.decisions.iter().map(ToString::to_string).collect();
        let texts = prompt_texts(request, state, &decisions)
            .into_iter()
            .map(|text| json!({"type": "text", "text": text}));
        let blocks = texts.chain(image_blocks(request, connection.info.can().images)).collect();
        let end = PromptTurn::new(&mut connection, link, &request.tool_rights).run(blocks).await;
        Ok((end, connection))
    }

    async fn resume_prompt(
        &self,
        mut connection: Connection,
        request: &Request,
        link: &mut Link,
    ) -> (End, Connection) {
        connection.last_user_message = newest_sent_user_message(request);
        self.attach_run(&connection, link).await;
        let end = PromptTurn::new(&mut connection, link, &request.tool_rights)
            .resume(&request.resumes)
            .await;
        (end, connection)
    }

    /// Reports the conversation and its capabilities to the run, and lets the run execute the
    /// agent's calls of ctx tools.
    async fn attach_run(&self, connection: &Connection, link: &Link) {
        link.send(Delta::AgentSession(connection.conversation_id.clone())).await;
        if connection.capabilities.steer {
            link.send(Delta::CanSteer(true)).await;
        }
        if let Some(server) = &connection.tool_server {
            server.set_run(Some(link.tools.clone()));
        }
    }

    /// Opens a conversation, with a second attempt if the process exits. No prompt was sent yet,
    /// and some agents fail if two of their processes start at the same time.
    async fn start(&self, request: &Request) -> Result<(Connection, ConversationState), Failure> {
        match self.open(request).await {
            Err(failure) if failure.code == "agent_exited" => self.open(request).await,
            other => other,
        }
    }

    /// Starts a process and opens the conversation that fits the history.
    async fn open(&self, request: &Request) -> Result<(Connection, ConversationState), Failure> {
        let bridge = self.config.bridge.as_ref();
        self.pool.wait_until_ended(request.session).await;
        let (program, info) = (&self.config.program, self.info.clone());
        let client = self.config.client.clone();
        let client = client.map(|client| SessionClient::new(client, request.session));
        let mut connection =
            Connection::start(program, request, info, client, self.config.start_timeout).await?;
        if let Some(bridge) = bridge.filter(|_| !request.tools.is_empty()) {
            connection.open_tool_server(&request.tools, bridge.protocol.clone());
        }
        let bridge = bridge.map(|bridge| bridge.program.as_path());
        if let Some(own) = &request.own {
            let is_resumed = match interrupted_user_text(request) {
                _ if own.clean => connection.resume_conversation(&own.id, bridge).await?,
                Some(text) => connection.resume_if_it_contains(&own.id, &text, bridge).await?,
                None => false,
            };
            if is_resumed {
                let state = match &own.cut {
                    _ if own.clean => ConversationState::SeenUpTo(own.unseen),
                    Some(cut) => ConversationState::SeenUpTo(cut.end),
                    None => ConversationState::OpenTurnInterrupted,
                };
                return Ok((connection, state));
            }
        }
        connection.new_conversation(bridge).await?;
        Ok((connection, ConversationState::New))
    }

    /// Keeps the process for the next run of its session, or ends it.
    fn keep_or_end(&self, session: SessionId, mut connection: Connection, end: &End) {
        if let Some(server) = &connection.tool_server {
            server.set_run(None);
        }
        match end {
            End::Done(_) => self.pool.put(session, connection),
            End::Suspended(_) => {
                connection.wait_count += 1;
                // Each wait has a timeout of its own, even if the same process waits again.
                let wait = (connection.instance_id.clone(), connection.wait_count);
                let (pool, hold) = (self.pool.clone(), self.config.suspension_hold);
                self.pool.put(session, connection);
                tokio::spawn(async move {
                    tokio::time::sleep(hold).await;
                    let is_same_wait = |connection: &Connection| {
                        connection.open_prompt.is_some()
                            && wait == (connection.instance_id.clone(), connection.wait_count)
                    };
                    pool.end_if(session, is_same_wait, Connection::abandon);
                });
            }
            // Only a restarted agent can show which part of the turn its conversation contains.
            End::Failed(_) | End::Cancelled => {
                self.pool.end(session, connection.end());
            }
        }
    }
}

/// The images of the open turn as prompt blocks, described by text if the agent accepts no images.
fn image_blocks(request: &Request, accepts_images: bool) -> impl Iterator<Item = Value> {
    let parts = request.messages[request.open..]
        .iter()
        .filter(|message| message.role == Role::User)
        .flat_map(|message| &message.content);
    parts.filter_map(move |part| match part {
        Part::Image { media_type, .. } if !accepts_images => {
            let text = format!("[an image, {media_type}, that you cannot see]");
            Some(json!({"type": "text", "text": text}))
        }
        Part::Image { media_type, blob, .. } => {
            let data = STANDARD.encode(request.images.get(blob)?.as_slice());
            Some(json!({"type": "image", "mimeType": media_type, "data": data}))
        }
        _ => None,
    })
}

/// A content block as text.
fn content_text(content: Option<&Value>) -> String {
    let text = |path: &str| content.and_then(|content| content.pointer(path)?.as_str());
    match text("/type") {
        Some("text") => text("/text").unwrap_or_default().to_owned(),
        Some("resource_link") => format!(
            "[{}]({})",
            text("/name").unwrap_or("resource"),
            text("/uri").unwrap_or_default()
        ),
        Some("resource") => text("/resource/text").unwrap_or("[a resource]").to_owned(),
        Some(kind) => format!("[{kind}]"),
        None => String::new(),
    }
}

#[async_trait]
impl Provider for Acp {
    fn about(&self) -> About {
        let (models, default_model) = self.info.models();
        About {
            kind: "acp",
            can: self.info.can(),
            models,
            model: self.config.model.clone().or(default_model),
            context_window: self.config.context_window,
            unavailable: self.config.program.missing(),
            key_variable: None,
            agent: Some(self.info.agent()),
            repeatable: false,
        }
    }

    async fn rest(&self, session: SessionId) {
        // A process that waits for the user is kept for `suspension_hold`.
        let is_idle = |connection: &Connection| connection.open_prompt.is_none();
        self.pool.end_if(session, is_idle, Connection::end).cancelled().await;
    }

    async fn release(&self, session: SessionId) {
        let is_waiting = |connection: &Connection| connection.open_prompt.is_some();
        self.pool.end_if(session, is_waiting, Connection::abandon).cancelled().await;
    }

    async fn forget(&self, session: SessionId) {
        self.config.program.forget(&session.to_string());
    }

    async fn run(&self, request: Request, mut link: Link) -> End {
        let session = request.session;
        match self.run_in_process(&request, &mut link).await {
            Ok((end, connection)) => {
                self.keep_or_end(session, connection, &end);
                end
            }
            Err(end) => end,
        }
    }
}
