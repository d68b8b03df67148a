//! Offers the tools of ctx to agents that run their tools themselves: an MCP server on a socket.
//!
//! An agent starts `ctx bridge`, which connects the agent's pipe to the socket of the process that
//! runs the session. So a tool runs in the process that holds the lease, under its fence. A token
//! binds the socket to one agent process of one session. The socket has an abstract name, so no
//! file remains after a SIGKILL.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener as StdListener, UnixStream as StdStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ctx_core::inbox::Tool;
use ctx_engine::provider::ToolRequest;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use crate::json_rpc::{INVALID_PARAMS, Incoming, METHOD_NOT_FOUND, Peer};

/// Name of the MCP server in the agent's configuration.
const NAME: &str = "ctx";
/// Protocol version in the response if the agent's request names none.
const VERSION: &str = "2025-06-18";
/// Environment variable with the token. Command line arguments would be visible to other users.
pub const TOKEN_VARIABLE: &str = "CTX_BRIDGE_TOKEN";

type CurrentRun = Arc<Mutex<Option<mpsc::Sender<ToolRequest>>>>;

/// The MCP server of one agent process. Dropping it closes the socket.
pub(crate) struct ToolServer {
    name: String,
    token: String,
    run: CurrentRun,
    listener_task: AbortHandle,
}

impl ToolServer {
    /// Opens a socket and offers these tools on it.
    ///
    /// # Errors
    /// If the socket cannot be created.
    pub(crate) fn open(tools: Vec<Tool>) -> io::Result<Self> {
        let name = format!("ctx-{}", ulid::Ulid::new());
        let listener = StdListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        let token = format!("{}{}", ulid::Ulid::new(), ulid::Ulid::new());
        let (run, tools) = (CurrentRun::default(), Arc::new(tools));
        let (expected, current_run) = (token.clone(), run.clone());
        let listener_task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, expected.clone(), tools.clone(), current_run.clone()));
            }
        });
        Ok(Self { name, token, run, listener_task: listener_task.abort_handle() })
    }

    /// The entry for an agent's `mcpServers`.
    pub(crate) fn mcp_entry(&self, bridge: &Path) -> Value {
        let env = json!([{"name": TOKEN_VARIABLE, "value": self.token}]);
        json!({"name": NAME, "command": bridge, "args": ["bridge", self.name], "env": env})
    }

    /// Sets the run that executes the calls; `None` between two runs.
    pub(crate) fn set_run(&self, run: Option<mpsc::Sender<ToolRequest>>) {
        *self.run.lock().unwrap_or_else(PoisonError::into_inner) = run;
    }
}

impl Drop for ToolServer {
    fn drop(&mut self) {
        self.listener_task.abort();
    }
}

async fn serve(mut stream: UnixStream, token: String, tools: Arc<Vec<Tool>>, run: CurrentRun) {
    let mut received = vec![0; token.len() + 1];
    if stream.read_exact(&mut received).await.is_err()
        || received != format!("{token}\n").as_bytes()
    {
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
                let capabilities = json!({"tools": {}});
                let result = json!({
                    "protocolVersion": version,
                    "capabilities": capabilities,
                    "serverInfo": info,
                });
                peer.respond(&id, result).await;
            }
            "ping" => peer.respond(&id, json!({})).await,
            "tools/list" => {
                let entry = |tool: &Tool| {
                    let (name, description) = (&tool.name, &tool.description);
                    let schema = &tool.parameters;
                    json!({"name": name, "description": description, "inputSchema": schema})
                };
                peer.respond(&id, json!({"tools": tools.iter().map(entry).collect::<Vec<_>>()}))
                    .await;
            }
            "tools/call" => {
                let Some(name) = params.get("name").and_then(Value::as_str) else {
                    peer.respond_error(&id, INVALID_PARAMS, "`name` is missing").await;
                    continue;
                };
                let arguments = params.get("arguments").cloned().unwrap_or_else(|| json!({}));
                // A call may wait for a worker; others are answered meanwhile.
                let (run, name) = (run.clone(), name.to_owned());
                peer.respond_later(id, async move {
                    let (text, is_error) = call(&run, &name, arguments).await;
                    json!({"content": [{"type": "text", "text": text}], "isError": is_error})
                });
            }
            _ => peer.respond_error(&id, METHOD_NOT_FOUND, "this server supports only tools").await,
        }
    }
}

async fn call(run: &CurrentRun, name: &str, params: Value) -> (String, bool) {
    let run = run.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let no_run =
        || ("The session has no open run. Call the tool again in your next turn.".to_owned(), true);
    let Some(run) = run else { return no_run() };
    let (reply, answer) = oneshot::channel();
    if run.send(ToolRequest { name: name.to_owned(), params, reply }).await.is_err() {
        return no_run();
    }
    answer.await.unwrap_or_else(|_| no_run())
}

fn connect(socket: &str) -> io::Result<UnixStream> {
    let stream = StdStream::connect_addr(&SocketAddr::from_abstract_name(socket)?)?;
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

/// Implements `ctx bridge`: copies between the standard streams and the socket named `socket`.
///
/// # Errors
/// If the socket cannot be reached.
pub async fn run_bridge(socket: &str, token: &str) -> io::Result<()> {
    let mut stream = connect(socket)?;
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

    async fn connected_peer(server: &ToolServer, token: &str) -> Peer {
        let mut stream = connect(&server.name).expect("reached");
        stream.write_all(format!("{token}\n").as_bytes()).await.expect("written");
        let (reader, writer) = stream.into_split();
        Peer::new(reader, writer, None)
    }

    async fn request(peer: &mut Peer, method: &str, params: Value) -> Option<Value> {
        let request_id = peer.request(method, params).await;
        match peer.next().await? {
            Incoming::Response { id, result } if id == request_id => {
                Some(result.unwrap_or_else(|error| json!({"code": error.code})))
            }
            other => panic!("unexpected: {other:?}"),
        }
    }

    #[tokio::test]
    async fn tool_call_reaches_the_open_run_only() {
        let server = ToolServer::open(vec![tool()]).expect("a socket");
        let mut peer = connected_peer(&server, &server.token.clone()).await;
        let info = request(&mut peer, "initialize", json!({"protocolVersion": "2025-11-25"}))
            .await
            .expect("an answer");
        assert_eq!(info["protocolVersion"], "2025-11-25");
        assert_eq!(
            request(&mut peer, "server/discover", json!({})).await.expect("an answer")["code"],
            METHOD_NOT_FOUND
        );
        let listed = request(&mut peer, "tools/list", json!({})).await.expect("an answer");
        assert_eq!(listed["tools"][0]["name"], "ask_user");
        let call = json!({"name": "ask_user", "arguments": {"question": "Which?"}});
        assert_eq!(
            request(&mut peer, "tools/call", call.clone()).await.expect("an answer")["isError"],
            true,
            "no run is open"
        );
        let (run, mut calls) = mpsc::channel(1);
        server.set_run(Some(run));
        let run = tokio::spawn(async move {
            let call: ToolRequest = calls.recv().await.expect("a call");
            assert_eq!(
                (call.name.as_str(), &call.params["question"]),
                ("ask_user", &json!("Which?"))
            );
            call.reply.send(("asked".to_owned(), false)).expect("the server waits for the result");
        });
        let answer = request(&mut peer, "tools/call", call).await.expect("an answer");
        assert_eq!(
            (&answer["content"][0]["text"], &answer["isError"]),
            (&json!("asked"), &json!(false))
        );
        run.await.expect("the run");
    }

    #[tokio::test]
    async fn connection_with_a_wrong_token_is_closed() {
        let server = ToolServer::open(vec![tool()]).expect("a socket");
        let wrong = "0".repeat(server.token.len());
        let mut peer = connected_peer(&server, &wrong).await;
        assert_eq!(
            request(&mut peer, "tools/list", json!({})).await,
            None,
            "the connection is closed"
        );
    }
}
