//! A small MCP client: JSON-RPC on the standard streams of `ctx mcp`, or over streamable HTTP.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use super::TIMEOUT;
use super::client::Client;
use super::repo::Repo;

/// The version that the client asks for.
pub(crate) const VERSION: &str = "2025-11-25";

/// A connection to an MCP server.
pub(crate) trait Mcp {
    /// Sends a request and returns the response, with `result` or `error`.
    fn request(&mut self, method: &str, params: Value) -> Value;

    /// The result of a request that must succeed.
    #[track_caller]
    fn result(&mut self, method: &str, params: Value) -> Value {
        let response = self.request(method, params);
        assert!(response["error"].is_null(), "{method}: {response}");
        response["result"].clone()
    }

    /// The result of a tool call that must succeed.
    #[track_caller]
    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.result("tools/call", json!({"name": tool, "arguments": arguments}));
        assert_ne!(result["isError"], true, "{tool}: {result}");
        result
    }

    /// The text of a tool call that must succeed.
    #[track_caller]
    fn says(&mut self, tool: &str, arguments: Value) -> String {
        self.call(tool, arguments)["content"][0]["text"].as_str().expect("a text").to_owned()
    }

    /// The structured result of a tool call that must succeed.
    #[track_caller]
    fn data(&mut self, tool: &str, arguments: Value) -> Value {
        self.call(tool, arguments)["structuredContent"].clone()
    }

    /// The text of a tool call that must fail.
    #[track_caller]
    fn fails(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.result("tools/call", json!({"name": tool, "arguments": arguments}));
        assert_eq!(result["isError"], true, "{tool}: {result}");
        result["content"][0]["text"].as_str().expect("a text").to_owned()
    }

    /// The names of the offered tools.
    fn tools(&mut self) -> Vec<String> {
        let listed = self.result("tools/list", json!({}));
        let tools = listed["tools"].as_array().expect("tools").iter();
        tools.map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
    }
}

pub(crate) fn initialize_params(version: &str) -> Value {
    let client = json!({"name": "test", "version": "1"});
    json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client})
}

/// A `ctx mcp` process, killed when it is dropped.
pub(crate) struct StdioMcp {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    last_id: u64,
    /// Notifications that arrived before responses.
    pub(crate) notifications: Vec<Value>,
}

impl StdioMcp {
    /// Starts `ctx mcp` in a project and opens the connection.
    pub(crate) fn start(repo: &Repo, arguments: &[&str]) -> Self {
        let mut mcp = Self::unopened(repo, arguments);
        mcp.result("initialize", initialize_params(VERSION));
        mcp.notify("notifications/initialized", Value::Null);
        mcp
    }

    pub(crate) fn unopened(repo: &Repo, arguments: &[&str]) -> Self {
        let mut command = repo.command(["mcp"]);
        command.args(arguments).stdin(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("ctx mcp");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line)
                    .unwrap_or_else(|e| panic!("{e}: only messages are on stdout: {line}"));
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let stdin = child.stdin.take();
        Self { child, stdin, lines, last_id: 0, notifications: Vec::new() }
    }

    fn write(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().expect("open");
        writeln!(stdin, "{message}").and_then(|()| stdin.flush()).expect("written");
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        let mut message = json!({"jsonrpc": "2.0", "method": method});
        if !params.is_null() {
            message["params"] = params;
        }
        self.write(&message);
    }

    /// Sends a request and returns its id at once.
    pub(crate) fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// The next message of the server.
    pub(crate) fn next(&mut self) -> Value {
        self.lines.recv_timeout(TIMEOUT).expect("a message in time")
    }

    /// Closes the input and waits for the end of the process; whether it succeeded.
    pub(crate) fn close(&mut self) -> bool {
        self.stdin = None;
        self.child.wait().expect("it ends").success()
    }
}

impl Mcp for StdioMcp {
    fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        loop {
            let message = self.next();
            if message["id"] == id {
                return message;
            }
            self.notifications.push(message);
        }
    }
}

impl Drop for StdioMcp {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection to `/mcp`.
pub(crate) struct HttpMcp {
    client: Client,
    headers: Vec<(String, String)>,
    last_id: u64,
    pub(crate) notifications: Vec<Value>,
}

impl HttpMcp {
    /// Opens a session of the protocol, with a token if one is given.
    pub(crate) fn open(client: Client, token: Option<&str>) -> Self {
        let mut mcp = Self::unopened(client, token);
        let response = mcp.post(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": initialize_params(VERSION)}));
        assert_eq!(response.status, 200, "{}", response.text());
        let session = response.header("mcp-session-id").expect("a session").to_owned();
        mcp.headers.push(("mcp-session-id".to_owned(), session));
        mcp.headers.push(("mcp-protocol-version".to_owned(), VERSION.to_owned()));
        let done = mcp.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        assert_eq!(done.status, 202, "{}", done.text());
        mcp
    }

    pub(crate) fn unopened(client: Client, token: Option<&str>) -> Self {
        let mut headers =
            vec![("accept".to_owned(), "application/json, text/event-stream".to_owned())];
        headers.extend(token.map(|token| ("authorization".to_owned(), format!("Bearer {token}"))));
        Self { client, headers, last_id: 0, notifications: Vec::new() }
    }

    pub(crate) fn header(&mut self, name: &str, value: &str) {
        self.headers.push((name.to_owned(), value.to_owned()));
    }

    pub(crate) fn post(&self, message: &Value) -> super::client::Response {
        let headers: Vec<(&str, &str)> =
            self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.client.try_send("POST", "/mcp", &headers, message).expect("a response")
    }
}

impl Mcp for HttpMcp {
    fn request(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        let response =
            self.post(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let text = response.text();
        if response.header("content-type").is_some_and(|kind| kind.starts_with("text/event")) {
            let messages: Vec<Value> = text
                .lines()
                .filter_map(|line| line.strip_prefix("data:"))
                .filter_map(|data| serde_json::from_str(data.trim()).ok())
                .collect();
            let found = messages.iter().find(|message| message["id"] == id).cloned();
            self.notifications.extend(messages.into_iter().filter(|it| it["id"] != id));
            return found.unwrap_or_else(|| panic!("no response in {text}"));
        }
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {} {text}", response.status))
    }
}
