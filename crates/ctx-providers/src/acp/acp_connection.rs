//! One agent process and the conversation in it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ctx_core::id::MessageId;
use ctx_core::inbox::Tool;
use ctx_engine::provider::{Class, Failure, Request};
use serde_json::{Value, json};
use ulid::Ulid;

use crate::mcp_bridge::Desk;
use crate::json_lines::WireLog;
use crate::agent_process::{Process, Program, Started, working_dir};
use crate::json_rpc::{Incoming, METHOD_NOT_FOUND, Peer, Refused};

use super::permission_requests::{Ask, Decided};
use super::tool_call_updates::Calls;
use super::agent_info::{Known, wants_login};
use super::agent_settings::Settings;
use super::agent_terminals::Terminals;

/// How long it may take to answer about a setting.
const SETTING: Duration = Duration::from_secs(20);
/// The version of ACP that is spoken.
const VERSION: u64 = 1;
/// How much of what an agent replays is looked at: the newest.
const REPLAY_MAX: usize = 64;

/// An agent that runs.
pub(super) struct Live {
    pub(super) process: Process,
    pub(super) peer: Peer,
    /// Tells this process from every other one, also after a restart of ctx.
    pub(super) serial: String,
    pub(super) dir: PathBuf,
    /// The agent's name for the conversation.
    pub(super) conversation: String,
    pub(super) can: Abilities,
    /// The newest message of the user that it was told.
    pub(super) told: Option<MessageId>,
    /// The prompt that it has not answered yet.
    pub(super) prompt: Option<u64>,
    /// How often it has waited for a person.
    pub(super) waits: u64,
    pub(super) asks: Vec<Ask>,
    pub(super) decided: Vec<Decided>,
    pub(super) calls: Calls,
    pub(super) terminals: Terminals,
    pub(super) desk: Option<Desk>,
    pub(super) known: Known,
    /// How long it may take to start, and again to open a conversation.
    patience: Duration,
    /// How this conversation is set.
    settings: Settings,
    /// The message that its words belong to, in its own numbering.
    pub(super) speaking: Option<String>,
}

/// What it said that it can do.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Abilities {
    pub(super) load: bool,
    pub(super) resume: bool,
    pub(super) steer: bool,
}

/// Why a call of the agent failed.
pub(super) enum Trouble {
    /// It said no.
    Refused(Refused),
    /// It is gone, or silent.
    Failed(Failure),
}

impl Live {
    /// Starts the agent for a session; it has no conversation yet.
    pub(super) async fn start(
        program: &Program,
        request: &Request,
        known: Known,
        patience: Duration,
    ) -> Result<Self, Failure> {
        let session = request.session.to_string();
        let dir = working_dir(program, request)?;
        let env = [("CTX_SESSION", session.clone())];
        let Started { process, stdin, stdout } = program.start(&session, &dir, &env)?;
        let serial = Ulid::new().to_string();
        let log = program
            .wire_logs
            .as_ref()
            .map(|dir| WireLog::new(&dir.join(format!("{session}-{serial}.log"))));
        let mut live = Self {
            process,
            peer: Peer::new(stdout, stdin, log),
            serial,
            dir,
            conversation: String::new(),
            can: Abilities::default(),
            told: None,
            prompt: None,
            waits: 0,
            asks: Vec::new(),
            decided: Vec::new(),
            calls: Calls::default(),
            terminals: Terminals::guarded(program.guard.clone()),
            desk: None,
            known,
            patience,
            settings: Settings::default(),
            speaking: None,
        };
        live.introduce().await?;
        Ok(live)
    }

    async fn introduce(&mut self) -> Result<(), Failure> {
        let params = json!({
            "protocolVersion": VERSION,
            "clientCapabilities": {"fs": {"readTextFile": true, "writeTextFile": true}, "terminal": true, "elicitation": {"form": {}}},
            "clientInfo": {"name": "ctx", "title": "ctx", "version": env!("CARGO_PKG_VERSION")},
        });
        let told = self.call("initialize", params, self.patience, &mut Vec::new()).await;
        let told = told.map_err(|trouble| self.known.failure(trouble, "it would not start"))?;
        let version = told.get("protocolVersion").and_then(Value::as_u64).unwrap_or(0);
        if version != VERSION {
            let message =
                format!("the agent speaks version {version} of ACP, ctx speaks {VERSION}");
            return Err(Failure::new("agent_too_new", Class::GiveUp, message));
        }
        let has = |path: &str| {
            told.pointer(path).is_some_and(|value| !value.is_null() && *value != Value::Bool(false))
        };
        self.can = Abilities {
            load: has("/agentCapabilities/loadSession"),
            resume: has("/agentCapabilities/sessionCapabilities/resume"),
            steer: told.pointer("/_meta/steering/supported").and_then(Value::as_bool) == Some(true),
        };
        self.known.introduced(&told, self.can);
        Ok(())
    }

    /// Opens the tools of ctx for this process.
    pub(super) fn open_desk(&mut self, tools: &[Tool]) {
        match Desk::open(tools.to_vec()) {
            Ok(desk) => self.desk = Some(desk),
            // The agent works without them.
            Err(error) => tracing::warn!(%error, "ctx's own tools cannot be offered"),
        }
    }

    fn servers(&self, bridge: Option<&Path>) -> Value {
        let server = self.desk.as_ref().zip(bridge).map(|(desk, bridge)| desk.server(bridge));
        Value::Array(server.into_iter().collect())
    }

    /// A conversation of its own, new.
    pub(super) async fn begin(&mut self, bridge: Option<&Path>) -> Result<(), Failure> {
        let params = json!({"cwd": self.dir, "mcpServers": self.servers(bridge)});
        let made = self.call("session/new", params, self.patience, &mut Vec::new()).await;
        let made = made
            .map_err(|trouble| self.known.failure(trouble, "it would not open a conversation"))?;
        let id = made.get("sessionId").and_then(Value::as_str).unwrap_or_default();
        if id.is_empty() {
            return Err(Failure::new(
                "bad_stream",
                Class::GiveUp,
                "the agent opened a conversation without a name",
            ));
        }
        self.conversation = id.to_owned();
        self.settings = Settings::of(&made);
        self.known.opened(&self.settings, true);
        Ok(())
    }

    /// Goes on with a conversation. Whatever it replays is thrown away.
    pub(super) async fn go_on(&mut self, id: &str, bridge: Option<&Path>) -> Result<bool, Failure> {
        match (self.can.resume, self.can.load) {
            (true, _) => {
                self.reopen("session/resume", id, bridge).await.map(|replayed| replayed.is_some())
            }
            (false, true) => {
                self.reopen("session/load", id, bridge).await.map(|replayed| replayed.is_some())
            }
            (false, false) => Ok(false),
        }
    }

    /// Goes on with a conversation only if it shows that it has kept these words of the user.
    pub(super) async fn go_on_if_it_has(
        &mut self,
        id: &str,
        words: &str,
        bridge: Option<&Path>,
    ) -> Result<bool, Failure> {
        if !self.can.load {
            return Ok(false);
        }
        let replayed = self.reopen("session/load", id, bridge).await?;
        Ok(replayed.is_some_and(|said| said.iter().any(|text| text.contains(words))))
    }

    /// What the user said in it, if it could be opened.
    async fn reopen(
        &mut self,
        method: &str,
        id: &str,
        bridge: Option<&Path>,
    ) -> Result<Option<Vec<String>>, Failure> {
        let params = json!({"sessionId": id, "cwd": self.dir, "mcpServers": self.servers(bridge)});
        let mut said = Vec::new();
        // Its updates come under this name before it is known that it can be opened.
        self.conversation = id.to_owned();
        match self.call(method, params, self.patience, &mut said).await {
            Ok(opened) => {
                self.settings = Settings::of(&opened);
                self.known.opened(&self.settings, false);
                Ok(Some(said))
            }
            Err(Trouble::Refused(refused)) if wants_login(&refused) => Err(self
                .known
                .failure(Trouble::Refused(refused), "it would not open a conversation")),
            // It has forgotten it. Ours is the history that counts.
            Err(Trouble::Refused(refused)) => {
                tracing::info!(%method, %refused, "an agent's own conversation could not be opened again");
                Ok(None)
            }
            Err(Trouble::Failed(failure)) => Err(failure),
        }
    }

    /// Sets a setting, where the agent has it and it is not so already. An agent that refuses keeps its own.
    pub(super) async fn set(&mut self, id: &str, value: &str) {
        let Some(call) = self.settings.call(&self.conversation, id, value) else { return };
        let (method, params) = call;
        match self.call(method, params, SETTING, &mut Vec::new()).await {
            Ok(answer) => self.settings.set(id, value, &answer),
            Err(Trouble::Refused(refused)) => {
                tracing::warn!(setting = id, value, %refused, "an agent refused a setting")
            }
            Err(Trouble::Failed(failure)) => tracing::warn!(
                setting = id,
                message = failure.message,
                "an agent did not take a setting"
            ),
        }
    }

    /// Asks something outside a turn and waits for the answer. What the user said, where it is replayed, goes to `said`.
    async fn call(
        &mut self,
        method: &str,
        params: Value,
        patience: Duration,
        said: &mut Vec<String>,
    ) -> Result<Value, Trouble> {
        let asked = self.peer.ask(method, params).await;
        let mut last: Option<Value> = None;
        let wait = async {
            loop {
                match self.peer.next().await {
                    None => return None,
                    Some(Incoming::Answer { id, result }) if id == asked => return Some(result),
                    Some(other) => {
                        if let Some(update) = self.overhear(other).await {
                            replayed(said, &update, &mut last);
                        }
                    }
                }
            }
        };
        match tokio::time::timeout(patience, wait).await {
            Ok(Some(answer)) => answer.map_err(Trouble::Refused),
            Ok(None) => Err(Trouble::Failed(self.process.gone().await)),
            Err(_) => {
                let message = format!(
                    "the agent did not answer `{method}` within {} seconds",
                    patience.as_secs()
                );
                Err(Trouble::Failed(Failure::new("timeout", Class::GiveUp, message)))
            }
        }
    }

    /// Hears what was said since the last turn: it may change what is known of the agent, and is part of no turn.
    pub(super) async fn catch_up(&mut self) {
        while let Some(incoming) = self.peer.try_next() {
            self.overhear(incoming).await;
        }
    }

    /// Takes what comes outside a turn; the update, if it is one.
    pub(super) async fn overhear(&mut self, incoming: Incoming) -> Option<Value> {
        match incoming {
            Incoming::Answer { .. } => None,
            Incoming::Request { id, method, .. } => {
                self.peer
                    .refuse(&id, METHOD_NOT_FOUND, &format!("{method} is not served now"))
                    .await;
                None
            }
            Incoming::Note { params, .. } => {
                let update = params.get("update").cloned()?;
                self.learn(&update);
                Some(update)
            }
        }
    }

    /// An update about the agent itself.
    pub(super) fn learn(&mut self, update: &Value) {
        if !self.settings.heard(update) {
            self.known.heard(update);
        }
    }

    /// Whether nobody is there any more.
    pub(super) fn is_gone(&mut self) -> bool {
        self.peer.is_closed() || self.process.has_ended()
    }

    /// Ends the process and everything that it started.
    pub(super) async fn end(self) {
        let Self { process, peer, .. } = self;
        drop(peer);
        process.end().await;
    }
}

/// Collects what the user said of what an agent replays: pieces of one message together.
fn replayed(said: &mut Vec<String>, update: &Value, last: &mut Option<Value>) {
    let kind = update.get("sessionUpdate").and_then(Value::as_str);
    let message = update.get("messageId").cloned();
    if kind == Some("user_message_chunk") {
        let text = update.pointer("/content/text").and_then(Value::as_str).unwrap_or_default();
        let same = last.is_some() && *last == message.clone().or(Some(Value::Null));
        match said.last_mut().filter(|_| same) {
            Some(before) => before.push_str(text),
            None => said.push(text.to_owned()),
        }
        *last = message.or(Some(Value::Null));
        let over = said.len().saturating_sub(REPLAY_MAX);
        said.drain(..over);
    } else if kind.is_some() {
        *last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_replayed_is_put_together_by_message() {
        let user = |text: &str, id: Option<&str>| json!({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": text}, "messageId": id});
        let agent = json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}});
        let (mut said, mut last) = (Vec::new(), None);
        for update in [
            user("a", Some("1")),
            user("b", Some("1")),
            user("c", Some("2")),
            agent,
            user("d", None),
            user("e", None),
        ] {
            replayed(&mut said, &update, &mut last);
        }
        assert_eq!(said, ["ab", "c", "de"]);
    }
}
