//! JSON-RPC over JSON lines.
//!
//! Requests, notifications and responses are delivered in the order in which they were received.
//! So a response is never processed before the notifications that precede it.

use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::json_lines::{JsonLines, LineSender, WireLog};

/// The method does not exist.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters do not fit the method.
pub const INVALID_PARAMS: i64 = -32602;
/// The request failed for a reason that the caller cannot change.
pub const INTERNAL_ERROR: i64 = -32603;

/// A message of the other side.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the fields are those of JSON-RPC")]
pub enum Incoming {
    Request { id: Value, method: String, params: Value },
    Notification { method: String, params: Value },
    Response { id: u64, result: Result<Value, RpcError> },
}

/// An error response.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the fields are those of JSON-RPC")]
pub struct RpcError {
    pub code: i64,
    pub message: String,
    pub data: Option<Value>,
}

impl RpcError {
    /// An error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }
}

impl std::fmt::Display for RpcError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.message, self.code)?;
        let detail = self
            .data
            .as_ref()
            .and_then(|data| data.as_str().or_else(|| data.get("details")?.as_str()));
        detail.map_or(Ok(()), |detail| write!(f, ": {detail}"))
    }
}

/// One end of a JSON-RPC connection.
pub(crate) struct Peer {
    lines: JsonLines,
    last_id: u64,
}

impl Peer {
    /// Uses a pair of streams. `log` records every line of both directions.
    pub(crate) fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        log: Option<WireLog>,
    ) -> Self {
        Self { lines: JsonLines::new(reader, writer, log), last_id: 0 }
    }

    /// Sends a request and returns its id. The response arrives through [`Peer::next`].
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        self.lines.send(&request(self.last_id, method, &params)).await;
        self.last_id
    }

    pub(crate) async fn notify(&self, method: &str, params: Value) {
        self.lines.send(&notification(method, &params)).await;
    }

    /// A sender for tasks that respond later.
    pub(crate) fn sender(&self) -> LineSender {
        self.lines.sender()
    }

    pub(crate) async fn respond(&self, id: &Value, result: Value) {
        self.lines.send(&response(id, &Ok(result))).await;
    }

    /// Responds after a future completes, without blocking the messages that arrive meanwhile.
    pub(crate) fn respond_later(
        &self,
        id: Value,
        result: impl Future<Output = Value> + Send + 'static,
    ) {
        let sender: LineSender = self.lines.sender();
        tokio::spawn(async move {
            let result = result.await;
            sender.send(&response(&id, &Ok(result))).await;
        });
    }

    pub(crate) async fn respond_error(&self, id: &Value, code: i64, message: &str) {
        self.lines.send(&response(id, &Err(RpcError::new(code, message)))).await;
    }

    /// The next message; `None` after the other side closed its output.
    pub(crate) async fn next(&mut self) -> Option<Incoming> {
        loop {
            if let Some(incoming) = parse(self.lines.next().await?) {
                return Some(incoming);
            }
        }
    }

    /// The next message, if one was already received.
    pub(crate) fn try_next(&mut self) -> Option<Incoming> {
        loop {
            if let Some(incoming) = parse(self.lines.try_next()?) {
                return Some(incoming);
            }
        }
    }

    /// Whether the other side closed its output. Unread messages may remain.
    pub(crate) fn is_closed(&self) -> bool {
        self.lines.is_closed()
    }
}

/// A request as a message.
pub fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// A notification as a message.
pub fn notification(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// A response as a message.
pub fn response(id: &Value, result: &Result<Value, RpcError>) -> Value {
    match result {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(RpcError { code, message, data }) => {
            let mut error = json!({"code": code, "message": message});
            if let Some(data) = data {
                error["data"] = data.clone();
            }
            json!({"jsonrpc": "2.0", "id": id, "error": error})
        }
    }
}

/// Reads a message. `None` if it is neither a request, a notification nor a response.
pub fn parse(mut message: Map<String, Value>) -> Option<Incoming> {
    let id = message.remove("id").filter(|id| !id.is_null());
    let params = message.remove("params").unwrap_or(Value::Null);
    if let Some(Value::String(method)) = message.remove("method") {
        return Some(match id {
            Some(id) => Incoming::Request { id, method, params },
            None => Incoming::Notification { method, params },
        });
    }
    let id = id?.as_u64()?;
    if let Some(error) = message.get("error").filter(|error| !error.is_null()) {
        let text =
            error.get("message").and_then(Value::as_str).unwrap_or("error without a message");
        let code = error.get("code").and_then(Value::as_i64).unwrap_or(0);
        return Some(Incoming::Response {
            id,
            result: Err(RpcError {
                code,
                message: text.to_owned(),
                data: error.get("data").cloned(),
            }),
        });
    }
    Some(Incoming::Response { id, result: Ok(message.remove("result").unwrap_or(Value::Null)) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

    #[tokio::test]
    async fn messages_arrive_in_order_and_other_lines_are_ignored() {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (reader, writer) = tokio::io::split(ours);
        let mut peer = Peer::new(reader, writer, None);
        let (reader, mut writer) = tokio::io::split(theirs);
        let id = peer.request("initialize", json!({"a": 1})).await;
        let mut line = Vec::new();
        BufReader::new(reader).read_until(b'\n', &mut line).await.expect("a line");
        assert_eq!(serde_json::from_slice::<Value>(&line).expect("json")["method"], "initialize");
        let lines = [
            "Loading…",
            "[1,2]",
            "",
            r#"{"jsonrpc":"2.0","method":"n","params":{}}"#,
            r#"{"id":0,"method":"r"}"#,
            r#"{"id":1,"result":7}"#,
            r#"{"id":1,"error":{"code":-32000,"message":"log in"}}"#,
        ];
        writer.write_all(lines.join("\n").as_bytes()).await.expect("written");
        drop(writer);
        assert_eq!(
            peer.next().await,
            Some(Incoming::Notification { method: "n".to_owned(), params: json!({}) })
        );
        assert_eq!(
            peer.next().await,
            Some(Incoming::Request { id: json!(0), method: "r".to_owned(), params: Value::Null })
        );
        assert_eq!(peer.next().await, Some(Incoming::Response { id, result: Ok(json!(7)) }));
        let Some(Incoming::Response { result: Err(error), .. }) = peer.next().await else {
            panic!("an error")
        };
        assert_eq!(error.to_string(), "log in (-32000)");
    }
}
