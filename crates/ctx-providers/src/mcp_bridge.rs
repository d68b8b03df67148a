//! ctx's own tools for agents that run their tools themselves: a small MCP server behind a socket.
//!
//! Agents start `ctx bridge`, which joins their pipe to the socket of the process that runs the session. So a tool is
//! carried out where the run is, under its fence; a token ties the socket to one agent process of one session. The socket is a
//! name and no file, so a killed ctx leaves nothing behind.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener as StdListener, UnixStream as StdStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ctx_core::inbox::Tool;
use ctx_engine::provider::ToolUse;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use crate::json_rpc::{INVALID_PARAMS, Incoming, METHOD_NOT_FOUND, Peer};

/// The name under which agents know the server.
const NAME: &str = "ctx";
/// The version of MCP that is spoken where the agent names none.
const VERSION: &str = "2025-06-18";
/// The variable that brings the token to the bridge: arguments can be seen by everybody on the machine.
pub const TOKEN_VARIABLE: &str = "CTX_BRIDGE_TOKEN";

type Port = Arc<Mutex<Option<mpsc::Sender<ToolUse>>>>;

/// The server of one agent process; closed when dropped.
pub(crate) struct Desk {
    name: String,
    token: String,
    port: Port,
    listening: AbortHandle,
}

impl Desk {
    /// Opens one that offers these tools.
    ///
    /// # Errors
    /// If no socket can be made.
    pub(crate) fn open(tools: Vec<Tool>) -> io::Result<Self> {
        let name = format!("ctx-{}", ulid::Ulid::new());
        let listener = StdListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        let token = format!("{}{}", ulid::Ulid::new(), ulid::Ulid::new());
        let (port, tools) = (Port::default(), Arc::new(tools));
        let (expected, answers) = (token.clone(), port.clone());
        let listening = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, expected.clone(), tools.clone(), answers.clone()));
            }
        });
        Ok(Self { name, token, port, listening: listening.abort_handle() })
    }

    /// The entry for an agent's `mcpServers`.
    pub(crate) fn server(&self, bridge: &Path) -> Value {
        json!({"name": NAME, "command": bridge, "args": ["bridge", self.name], "env": [{"name": TOKEN_VARIABLE, "value": self.token}]})
    }

    /// Whose run the calls belong to from now on; nobody's between two runs.
    pub(crate) fn attend(&self, port: Option<mpsc::Sender<ToolUse>>) {
        *self.port.lock().unwrap_or_else(PoisonError::into_inner) = port;
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn serve(mut stream: UnixStream, token: String, tools: Arc<Vec<Tool>>, port: Port) {
    let mut said = vec![0; token.len() + 1];
    if stream.read_exact(&mut said).await.is_err() || said != format!("{token}\n").as_bytes() {
        return;
    }
    let (reader, writer) = stream.into_split();
    let mut peer = Peer::new(reader, writer, None);
    while let Some(incoming) = peer.next().await {
        let Incoming::Request { id, method, params } = incoming else { continue };
        match method.as_str() {
            "initialize" => {
                let version =
                    params.get("protocolVersion").cloned().unwrap_or_else(|| VERSION.into());
                let info = json!({"name": NAME, "version": env!("CARGO_PKG_VERSION")});
                peer.answer(&id, json!({"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info})).await;
            }
            "ping" => peer.answer(&id, json!({})).await,
            "tools/list" => {
                let shape = |tool: &Tool| json!({"name": tool.name, "description": tool.description, "inputSchema": tool.parameters});
                peer.answer(&id, json!({"tools": tools.iter().map(shape).collect::<Vec<_>>()}))
                    .await;
            }
            "tools/call" => {
                let Some(name) = params.get("name").and_then(Value::as_str) else {
                    peer.refuse(&id, INVALID_PARAMS, "`name` is missing").await;
                    continue;
                };
                let arguments = params.get("arguments").cloned().unwrap_or_else(|| json!({}));
                let (text, is_error) = call(&port, name, arguments).await;
                peer.answer(
                    &id,
                    json!({"content": [{"type": "text", "text": text}], "isError": is_error}),
                )
                .await;
            }
            _ => peer.refuse(&id, METHOD_NOT_FOUND, "this server has tools and nothing else").await,
        }
    }
}

async fn call(port: &Port, name: &str, params: Value) -> (String, bool) {
    let run = port.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let nobody = || {
        (
            "Nobody listens: the session has no open run. Try again in your next turn.".to_owned(),
            true,
        )
    };
    let Some(run) = run else { return nobody() };
    let (reply, answer) = oneshot::channel();
    if run.send(ToolUse { name: name.to_owned(), params, reply }).await.is_err() {
        return nobody();
    }
    answer.await.unwrap_or_else(|_| nobody())
}

fn reach(desk: &str) -> io::Result<UnixStream> {
    let stream = StdStream::connect_addr(&SocketAddr::from_abstract_name(desk)?)?;
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

/// What `ctx bridge` does: joins this process's standard streams to a desk.
///
/// # Errors
/// If the desk cannot be reached.
pub async fn bridge(desk: &str, token: &str) -> io::Result<()> {
    let mut stream = reach(desk)?;
    stream.write_all(format!("{token}\n").as_bytes()).await?;
    let (mut reader, mut writer) = stream.into_split();
    let (mut stdin, mut stdout) = (tokio::io::stdin(), tokio::io::stdout());
    tokio::select! {
        done = tokio::io::copy(&mut stdin, &mut writer) => done.map(|_| ()),
        done = tokio::io::copy(&mut reader, &mut stdout) => done.map(|_| ()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool() -> Tool {
        Tool {
            name: "ask_user".to_owned(),
            description: "Ask.".to_owned(),
            parameters: json!({"type": "object"}),
        }
    }

    async fn joined(desk: &Desk, token: &str) -> Peer {
        let mut stream = reach(&desk.name).expect("reached");
        stream.write_all(format!("{token}\n").as_bytes()).await.expect("written");
        let (reader, writer) = stream.into_split();
        Peer::new(reader, writer, None)
    }

    async fn ask(peer: &mut Peer, method: &str, params: Value) -> Option<Value> {
        let asked = peer.ask(method, params).await;
        match peer.next().await? {
            Incoming::Answer { id, result } if id == asked => {
                Some(result.unwrap_or_else(|refused| json!({"code": refused.code})))
            }
            other => panic!("unexpected: {other:?}"),
        }
    }

    #[tokio::test]
    async fn a_tool_is_called_in_the_run_that_is_open_and_in_no_other() {
        let desk = Desk::open(vec![tool()]).expect("open");
        let mut peer = joined(&desk, &desk.token.clone()).await;
        let info = ask(&mut peer, "initialize", json!({"protocolVersion": "2025-11-25"}))
            .await
            .expect("an answer");
        assert_eq!(info["protocolVersion"], "2025-11-25");
        assert_eq!(
            ask(&mut peer, "server/discover", json!({})).await.expect("an answer")["code"],
            METHOD_NOT_FOUND
        );
        assert_eq!(
            ask(&mut peer, "tools/list", json!({})).await.expect("an answer")["tools"][0]["name"],
            "ask_user"
        );
        let call = json!({"name": "ask_user", "arguments": {"question": "Which?"}});
        assert_eq!(
            ask(&mut peer, "tools/call", call.clone()).await.expect("an answer")["isError"],
            true,
            "no run is open"
        );
        let (port, mut uses) = mpsc::channel(1);
        desk.attend(Some(port));
        let run = tokio::spawn(async move {
            let used: ToolUse = uses.recv().await.expect("a call");
            assert_eq!(
                (used.name.as_str(), &used.params["question"]),
                ("ask_user", &json!("Which?"))
            );
            used.reply.send(("asked".to_owned(), false)).expect("heard");
        });
        let answer = ask(&mut peer, "tools/call", call).await.expect("an answer");
        assert_eq!(
            (&answer["content"][0]["text"], &answer["isError"]),
            (&json!("asked"), &json!(false))
        );
        run.await.expect("the run");
    }

    #[tokio::test]
    async fn without_the_token_nobody_is_heard() {
        let desk = Desk::open(vec![tool()]).expect("open");
        let wrong = "0".repeat(desk.token.len());
        let mut peer = joined(&desk, &wrong).await;
        assert_eq!(ask(&mut peer, "tools/list", json!({})).await, None, "the line is closed");
    }
}
