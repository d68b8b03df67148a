//! Offers the tools of ctx to agents that run their tools themselves: a socket for an MCP server.
//!
//! An agent starts `ctx bridge`, which connects the agent's pipe to the socket of the process that
//! runs the session. So a tool runs in the process that holds the lease, under its fence. A token
//! binds the socket to one agent process of one session. The socket has an abstract name, so no
//! file remains after a SIGKILL. The protocol on the socket is that of [`ToolProtocol`].

use std::fmt;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener as StdListener, UnixStream as StdStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use ctx_engine::provider::ToolRequest;
use ctx_engine::{Progress, ToolAnswer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

/// Name of the MCP server in the agent's configuration.
const NAME: &str = "ctx";
/// Environment variable with the token. Command line arguments would be visible to other users.
pub const TOKEN_VARIABLE: &str = "CTX_BRIDGE_TOKEN";

type CurrentRun = Arc<Mutex<Option<mpsc::Sender<ToolRequest>>>>;

/// How an agent gets the tools of ctx.
#[derive(Debug, Clone)]
pub struct Bridge {
    /// The `ctx` program whose `bridge` command the agent starts.
    pub program: PathBuf,
    /// The protocol that the agent speaks on its pipe.
    pub protocol: Arc<dyn ToolProtocol>,
}

/// The server side of a protocol over which an agent calls tools.
#[async_trait]
pub trait ToolProtocol: Send + Sync + fmt::Debug {
    /// Serves one connection of an agent until the agent closes it.
    async fn serve(&self, stream: UnixStream, tools: RunTools);
}

/// The tools of a session, whose current run executes the calls.
#[derive(Debug, Clone)]
pub struct RunTools {
    names: Arc<[String]>,
    run: CurrentRun,
}

impl RunTools {
    /// The names of the offered tools.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Calls a tool. If the future is dropped, a call that waits ends.
    pub async fn call(&self, name: &str, params: Value, progress: Progress) -> ToolAnswer {
        let no_run = || {
            ToolAnswer::error("The session has no open run. Call the tool again in your next turn.")
        };
        let run = self.run.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(run) = run else { return no_run() };
        let (reply, answer) = oneshot::channel();
        let request = ToolRequest { name: name.to_owned(), params, progress, reply };
        if run.send(request).await.is_err() {
            return no_run();
        }
        answer.await.unwrap_or_else(|_| no_run())
    }
}

/// The socket of one agent process. Dropping it closes the socket.
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
    pub(crate) fn open(
        names: impl Iterator<Item = String>,
        protocol: Arc<dyn ToolProtocol>,
    ) -> io::Result<Self> {
        let name = format!("ctx-{}", ulid::Ulid::new());
        let listener = StdListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        let token = format!("{}{}", ulid::Ulid::new(), ulid::Ulid::new());
        let run = CurrentRun::default();
        let tools = RunTools { names: names.collect(), run: run.clone() };
        let expected = token.clone();
        let listener_task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (expected, tools, protocol) =
                    (expected.clone(), tools.clone(), protocol.clone());
                tokio::spawn(async move {
                    if let Some(stream) = authenticated(stream, &expected).await {
                        protocol.serve(stream, tools).await;
                    }
                });
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

/// The connection, if its first line is the token.
async fn authenticated(mut stream: UnixStream, token: &str) -> Option<UnixStream> {
    let mut received = vec![0; token.len() + 1];
    stream.read_exact(&mut received).await.ok()?;
    (received == format!("{token}\n").as_bytes()).then_some(stream)
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
    use tokio::io::{AsyncBufReadExt, BufReader};

    /// Calls the tool that each line names and answers with the text.
    #[derive(Debug)]
    struct Lines;

    #[async_trait]
    impl ToolProtocol for Lines {
        async fn serve(&self, stream: UnixStream, tools: RunTools) {
            let (reader, mut writer) = stream.into_split();
            let mut lines = BufReader::new(reader).lines();
            while let Ok(Some(name)) = lines.next_line().await {
                let answer =
                    tools.call(&name, json!({"names": tools.names()}), Progress::default());
                let line = format!("{}\n", answer.await.text);
                writer.write_all(line.as_bytes()).await.expect("written");
            }
        }
    }

    fn server() -> ToolServer {
        ToolServer::open(["ask_user".to_owned()].into_iter(), Arc::new(Lines)).expect("a socket")
    }

    async fn connected(server: &ToolServer, token: &str) -> BufReader<UnixStream> {
        let mut stream = connect(&server.name).expect("reached");
        stream.write_all(format!("{token}\n").as_bytes()).await.expect("written");
        BufReader::new(stream)
    }

    async fn request(stream: &mut BufReader<UnixStream>, name: &str) -> String {
        let _ = stream.get_mut().write_all(format!("{name}\n").as_bytes()).await;
        let mut line = String::new();
        let _ = stream.read_line(&mut line).await;
        line
    }

    #[tokio::test]
    async fn tool_call_reaches_the_open_run_only() {
        let server = server();
        let mut stream = connected(&server, &server.token.clone()).await;
        assert!(request(&mut stream, "ask_user").await.contains("no open run"));
        let (run, mut calls) = mpsc::channel(1);
        server.set_run(Some(run));
        let run = tokio::spawn(async move {
            let call: ToolRequest = calls.recv().await.expect("a call");
            assert_eq!(
                (call.name.as_str(), &call.params["names"]),
                ("ask_user", &json!(["ask_user"]))
            );
            call.reply.send(ToolAnswer::ok("asked")).expect("the server waits for the result");
        });
        assert_eq!(request(&mut stream, "ask_user").await, "asked\n");
        run.await.expect("the run");
    }

    #[tokio::test]
    async fn connection_with_a_wrong_token_is_closed() {
        let server = server();
        let wrong = "0".repeat(server.token.len());
        let mut stream = connected(&server, &wrong).await;
        assert_eq!(request(&mut stream, "ask_user").await, "", "the connection is closed");
    }
}
