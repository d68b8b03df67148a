//! Methods that open, list, change and delete sessions.

use std::path::Path;
use std::sync::Arc;

use ctx_engine::core::id::SessionId;
use ctx_engine::core::session::{Origin, Status};
use ctx_engine::core::time::Timestamp;
use ctx_engine::{Branch, Engine, Info, NewSession, SessionQuery};
use ctx_providers::json_rpc::RpcError;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::attached_session::{AttachedSession, COMMANDS_MAX, Command};
use super::editor::{Attachment, Editor};
use super::session_options::{self, ShownOptions};
use super::{RESOURCE_NOT_FOUND, engine_error, invalid_params};

/// Sessions per page of `session/list`.
const LIST_PAGE: usize = 50;
/// Maximum number of MCP servers, or of additional directories, of a session.
const LIST_MAX: usize = 100;

/// The result of a request.
pub(super) enum Handled {
    Reply(Value),
    /// A session was opened; its task starts after the response.
    Opened {
        reply: Value,
        session: Box<AttachedSession>,
        commands: mpsc::Receiver<Command>,
    },
}

type Outcome = Result<Handled, RpcError>;

/// How much of the history the editor gets when it opens a session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum History {
    Replay,
    Nothing,
}

#[derive(Clone)]
pub(super) struct SessionRequests {
    pub(super) engine: Engine,
    pub(super) editor: Arc<Editor>,
}

impl SessionRequests {
    /// `session/new`.
    pub(super) async fn create(&self, params: &Value) -> Outcome {
        let dir = directory(params)?;
        let new = NewSession {
            working_dir: Some(dir),
            track_tasks: Some(true),
            origin: Some(Origin::Api),
            ..NewSession::default()
        };
        let servers = Servers::parse(params)?;
        let info = self.engine.sessions().create_empty(new, None).await;
        let info = info.map_err(|error| engine_error(&error))?;
        let name = info.session.id.to_string();
        let mut handled = self.attach(&name, &info, servers, History::Nothing).await?;
        if let Handled::Opened { reply, .. } = &mut handled {
            reply["sessionId"] = name.into();
        }
        Ok(handled)
    }

    /// `session/load` and `session/resume`. The working directory of a session does not change.
    pub(super) async fn open(&self, params: &Value, history: History) -> Outcome {
        directory(params)?;
        let servers = Servers::parse(params)?;
        let name = session_name(params)?;
        let info = self.info(name).await?;
        self.attach(name, &info, servers, history).await
    }

    /// `session/fork`.
    pub(super) async fn fork(&self, params: &Value) -> Outcome {
        let dir = directory(params)?;
        let servers = Servers::parse(params)?;
        let source = self.info(session_name(params)?).await?;
        let branch = Branch { working_dir: Some(dir), ..Branch::default() };
        let source = source.session.id.to_string();
        let fork = self.engine.sessions().branch(&source, branch).await;
        let name = fork.map_err(|error| engine_error(&error))?.to_string();
        let info = self.info(&name).await?;
        let mut handled = self.attach(&name, &info, servers, History::Nothing).await?;
        if let Handled::Opened { reply, .. } = &mut handled {
            reply["sessionId"] = name.into();
        }
        Ok(handled)
    }

    /// `session/list`: sessions with the newest activity first.
    pub(super) async fn list(&self, params: &Value) -> Outcome {
        let text = |key: &str| match params.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(invalid_params(format!("`{key}` is not a string"))),
        };
        let cwd = text("cwd")?;
        if cwd.as_deref().is_some_and(|cwd| !Path::new(cwd).is_absolute()) {
            return Err(invalid_params("`cwd` is not an absolute path"));
        }
        let bad_cursor = || invalid_params("the cursor does not belong to this list");
        let after = text("cursor")?.map(|it| place(&it).ok_or_else(bad_cursor)).transpose()?;
        let query = SessionQuery {
            statuses: vec![Status::Active, Status::Suspended],
            working_dir: cwd.map(|cwd| canonical(&cwd)),
            after,
            limit: LIST_PAGE + 1,
            ..SessionQuery::default()
        };
        let listed = self.engine.sessions().list(&query).await;
        let (mut found, _) = listed.map_err(|error| engine_error(&error))?;
        let has_more = found.len() > LIST_PAGE;
        found.truncate(LIST_PAGE);
        let sessions: Vec<Value> = found.iter().map(session_info).collect();
        let mut reply = json!({"sessions": sessions});
        if let Some(last) = found.last().filter(|_| has_more) {
            let last = &last.session;
            let cursor = format!("{}.{}", last.last_activity_at.0, last.id);
            reply["nextCursor"] = cursor.into();
        }
        Ok(Handled::Reply(reply))
    }

    /// `session/close`: cancels the editor's own prompts. Runs of other clients continue.
    pub(super) async fn close(&self, params: &Value) -> Outcome {
        let name = session_name(params)?;
        if !self.detach(name).await {
            let message = format!("the session `{name}` is not open");
            return Err(RpcError::new(RESOURCE_NOT_FOUND, message));
        }
        Ok(Handled::Reply(json!({})))
    }

    /// `session/delete`: for good, from any state.
    pub(super) async fn delete(&self, params: &Value) -> Outcome {
        let name = session_name(params)?;
        let id = self.info(name).await?.session.id.to_string();
        self.detach(name).await;
        self.engine.sessions().delete(&id).await.map_err(|error| engine_error(&error))?;
        Ok(Handled::Reply(json!({})))
    }

    /// `session/set_mode`.
    pub(super) async fn set_mode(&self, params: &Value) -> Outcome {
        let mode = required(params, "modeId")?;
        let row = self.info(session_name(params)?).await?.session;
        let patch = session_options::mode_patch(&self.engine, &row, mode)?;
        let updated = self.engine.sessions().update(&row.id.to_string(), patch).await;
        updated.map_err(|error| engine_error(&error))?;
        Ok(Handled::Reply(json!({})))
    }

    /// `session/set_config_option`.
    pub(super) async fn set_option(&self, params: &Value) -> Outcome {
        let (id, value) = (required(params, "configId")?, required(params, "value")?);
        let row = self.info(session_name(params)?).await?.session;
        let patch = session_options::patch(&self.engine, &row, id, value)?;
        let updated = self.engine.sessions().update(&row.id.to_string(), patch).await;
        let row = updated.map_err(|error| engine_error(&error))?.session;
        let options = ShownOptions::of(&self.engine, &row).options;
        Ok(Handled::Reply(json!({"configOptions": options})))
    }

    /// The session for a prompt. One that the editor has not opened is resumed, if it exists.
    pub(super) async fn attached(&self, name: &str) -> Result<Attachment, RpcError> {
        if let Some(attachment) = self.editor.attachment(name) {
            return Ok(attachment);
        }
        let info = self.info(name).await?;
        let handled = self.attach(name, &info, Servers::default(), History::Nothing).await?;
        handled.start();
        let gone = || RpcError::new(RESOURCE_NOT_FOUND, "the session was closed");
        self.editor.attachment(name).ok_or_else(gone)
    }

    async fn info(&self, name: &str) -> Result<Info, RpcError> {
        self.engine.sessions().get(name).await.map_err(|error| engine_error(&error))
    }

    /// Attaches the editor. A session that it has opened before is opened anew.
    async fn attach(&self, name: &str, info: &Info, servers: Servers, history: History) -> Outcome {
        self.detach(name).await;
        let (sender, commands) = mpsc::channel(COMMANDS_MAX);
        let followed =
            AttachedSession::follow(&self.engine, &self.editor, name, info, &sender).await;
        let mut session = followed.map_err(|error| engine_error(&error))?;
        if history == History::Replay {
            session.replay().await.map_err(|error| engine_error(&error))?;
        }
        let mut reply = json!({});
        session.options().add_to(&mut reply);
        let attachment = Attachment {
            session: info.session.id,
            commands: sender,
            mcp_servers: servers.mcp,
            directories: servers.directories,
        };
        self.editor.attach(name, attachment);
        Ok(Handled::Opened { reply, session: Box::new(session), commands })
    }

    /// Ends the task of a session. Returns `false` if the editor has not opened it.
    async fn detach(&self, name: &str) -> bool {
        let Some(attachment) = self.editor.detach(name) else { return false };
        let (done, closed) = oneshot::channel();
        let _ = attachment.commands.send(Command::Close { done }).await;
        drop(attachment);
        let _ = closed.await;
        true
    }
}

impl Handled {
    /// Starts the task of an opened session; the response.
    pub(super) fn start(self) -> Value {
        match self {
            Self::Reply(reply) => reply,
            Self::Opened { reply, session, commands } => {
                tokio::spawn(session.run(commands));
                reply
            }
        }
    }

    pub(super) const fn reply(&self) -> &Value {
        match self {
            Self::Reply(reply) | Self::Opened { reply, .. } => reply,
        }
    }
}

/// What the editor gives to the agent behind.
#[derive(Default)]
struct Servers {
    mcp: Vec<Value>,
    directories: Vec<String>,
}

impl Servers {
    fn parse(params: &Value) -> Result<Self, RpcError> {
        let list = |key: &str| match params.get(key) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(items)) if items.len() <= LIST_MAX => Ok(items.clone()),
            Some(Value::Array(_)) => {
                Err(invalid_params(format!("`{key}` has more than {LIST_MAX} entries")))
            }
            Some(_) => Err(invalid_params(format!("`{key}` is not a list"))),
        };
        let mcp = list("mcpServers")?;
        if mcp.iter().any(|server| !server.is_object()) {
            return Err(invalid_params("an entry of `mcpServers` is not an object"));
        }
        let path = |item: &Value| {
            let path = item.as_str().filter(|path| Path::new(path).is_absolute());
            path.map(str::to_owned)
                .ok_or_else(|| invalid_params("an additional directory is not an absolute path"))
        };
        let directories =
            list("additionalDirectories")?.iter().map(path).collect::<Result<_, _>>()?;
        Ok(Self { mcp, directories })
    }
}

pub(super) fn session_name(params: &Value) -> Result<&str, RpcError> {
    required(params, "sessionId")
}

fn required<'a>(params: &'a Value, key: &str) -> Result<&'a str, RpcError> {
    let value = params.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    value.ok_or_else(|| invalid_params(format!("`{key}` is missing or not a string")))
}

/// The place in the list that a cursor names.
fn place(cursor: &str) -> Option<(Timestamp, SessionId)> {
    let (at, id) = cursor.split_once('.')?;
    Some((Timestamp(at.parse().ok()?), id.parse().ok()?))
}

/// `cwd`, an existing directory.
fn directory(params: &Value) -> Result<String, RpcError> {
    let cwd = required(params, "cwd")?;
    let path = Path::new(cwd);
    if !path.is_absolute() {
        return Err(invalid_params(format!("`cwd` is not an absolute path: {cwd}")));
    }
    if !path.is_dir() {
        return Err(invalid_params(format!("`cwd` is not a directory: {cwd}")));
    }
    Ok(canonical(cwd))
}

/// The path as the command line stores it too.
fn canonical(path: &str) -> String {
    let real = Path::new(path).canonicalize();
    real.map_or_else(|_| path.to_owned(), |real| real.to_string_lossy().into_owned())
}

/// A session as `session/list` shows it. A session without a directory is shown in the user's home.
fn session_info(info: &Info) -> Value {
    let row = &info.session;
    let home = || std::env::var("HOME").ok().filter(|home| Path::new(home).is_absolute());
    let cwd = row.working_dir.clone().or_else(home).unwrap_or_else(|| "/".to_owned());
    let mut shown = json!({
        "sessionId": row.id.to_string(),
        "cwd": cwd,
        "updatedAt": row.last_activity_at.to_string(),
        "_meta": {"ctx": {"label": row.label, "state": row.state, "turns": row.turn_count}},
    });
    if let Some(title) = &row.title {
        shown["title"] = title.as_str().into();
    }
    shown
}
