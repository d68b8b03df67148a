//! pi-coding-agent as a child process in its RPC mode: commands and events as JSON lines.
//!
//! pi stores a conversation in a file; the path is the conversation's id. pi requests no
//! permissions and supports no MCP servers, but it supports steering.

mod pi_connection;
mod pi_events;

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use ctx_core::compaction::Command;
use ctx_core::id::SessionId;
use ctx_engine::provider::{
    About, Agent, Delta, End, Failure, Link, Provider, ProviderFeatures, Request,
};

use crate::agent_process::Program;
use crate::agent_prompt::{
    ConversationState, interrupted_user_text, newest_seen_user_message, newest_sent_user_message,
    prompt_texts,
};
use crate::process_pool::ProcessPool;
use pi_connection::Connection;

/// Configuration of pi.
#[derive(Debug, Clone)]
pub struct Config {
    /// The program to start. `--mode rpc` is added to its arguments if it is missing.
    pub program: Program,
    /// The model to select, as `provider/model`; `None` keeps pi's default.
    pub model: Option<String>,
    /// Size of the context window in tokens that a handover of the history may use.
    pub context_window: u64,
}

/// The pi agent.
pub struct Pi {
    config: Config,
    /// The models that pi listed.
    models: Mutex<Vec<String>>,
    /// Connections between two runs, by session.
    pool: ProcessPool<Connection>,
}

impl Pi {
    /// Starts no process.
    pub fn new(mut config: Config) -> Self {
        if !config.program.command.iter().any(|part| part == "--mode") {
            config.program.command.extend(["--mode", "rpc"].map(str::to_owned));
        }
        Self { config, models: Mutex::default(), pool: ProcessPool::default() }
    }

    async fn run_in_process(
        &self,
        request: &Request,
        link: &mut Link,
    ) -> Result<(End, Connection), Failure> {
        let mut kept = self.pool.take(request.session);
        let own = request.own.as_ref();
        let fits = |connection: &mut Connection| {
            own.is_some_and(|own| own.clean && own.id == connection.file)
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
            None => self.start(request).await?,
        };
        link.send(Delta::AgentSession(connection.file.clone())).await;
        if let Some(model) = request.model.as_ref().or(self.config.model.as_ref()) {
            connection.set_model(model).await?;
        }
        connection.last_user_message = newest_sent_user_message(request);
        let texts = prompt_texts(request, state, &[]);
        let end = match texts.as_slice() {
            [text] if let Some(command) = Command::of(text) => {
                connection.compact(command.focus.as_deref(), link).await
            }
            _ => connection.prompt(&texts.join("\n\n"), link).await,
        };
        Ok((end, connection))
    }

    /// Starts a process and opens the conversation that fits the history.
    async fn start(&self, request: &Request) -> Result<(Connection, ConversationState), Failure> {
        self.pool.wait_until_ended(request.session).await;
        let resumed = request.own.as_ref().filter(|own| {
            let text = if own.clean { Some(String::new()) } else { interrupted_user_text(request) };
            text.is_some_and(|text| pi_connection::conversation_contains(&own.id, &text))
        });
        let file = resumed.map(|own| own.id.as_str());
        let mut connection = Connection::start(&self.config.program, request, file).await?;
        *self.models.lock().unwrap_or_else(PoisonError::into_inner) = connection.models().await?;
        let state = match resumed.map(|own| (own, &own.cut)) {
            None => ConversationState::New,
            Some((own, _)) if own.clean => ConversationState::SeenUpTo(own.unseen),
            Some((_, Some(cut))) => ConversationState::SeenUpTo(cut.end),
            Some((_, None)) => ConversationState::OpenTurnInterrupted,
        };
        Ok((connection, state))
    }
}

#[async_trait]
impl Provider for Pi {
    fn about(&self) -> About {
        About {
            kind: "pi",
            can: ProviderFeatures {
                steer: true,
                resume: true,
                load: true,
                compact: true,
                ..ProviderFeatures::default()
            },
            models: self.models.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            model: self.config.model.clone(),
            context_window: self.config.context_window,
            unavailable: self.config.program.missing(),
            key_variable: None,
            agent: Some(Agent::default()),
            repeatable: false,
        }
    }

    async fn rest(&self, session: SessionId) {
        self.pool.end_if(session, |_| true, Connection::end).cancelled().await;
    }

    async fn forget(&self, session: SessionId) {
        self.config.program.forget(&session.to_string());
    }

    async fn run(&self, request: Request, mut link: Link) -> End {
        match self.run_in_process(&request, &mut link).await {
            Ok((end @ End::Done(_), connection)) => {
                self.pool.put(request.session, connection);
                end
            }
            Ok((end, connection)) => {
                // Only a restarted pi can show which part of the turn its conversation contains.
                self.pool.end(request.session, connection.end());
                end
            }
            Err(failure) => End::Failed(failure),
        }
    }
}
