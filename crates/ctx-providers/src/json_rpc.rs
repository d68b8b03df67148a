//! JSON-RPC over lines.
//!
//! Everything that comes is handed on in the order in which it came, answers included, so that an answer is never seen
//! before the notifications that were sent ahead of it.

use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::json_lines::{Line, Lines, WireLog};

/// "There is no such method."
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
/// "The parameters are wrong."
pub(crate) const INVALID_PARAMS: i64 = -32602;
/// "It went wrong here."
pub(crate) const INTERNAL_ERROR: i64 = -32603;

/// What the other side said.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Incoming {
    /// It wants an answer.
    Request { id: Value, method: String, params: Value },
    /// It wants none.
    Note { method: String, params: Value },
    /// It answers.
    Answer { id: u64, result: Result<Value, Refused> },
}

/// An error that the other side gave for an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Refused {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Option<Value>,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.message, self.code)?;
        let detail = self
            .data
            .as_ref()
            .and_then(|data| data.as_str().or_else(|| data.get("details")?.as_str()));
        detail.map_or(Ok(()), |detail| write!(f, ": {detail}"))
    }
}

/// Our end of the line.
pub(crate) struct Peer {
    lines: Lines,
    next: u64,
}

impl Peer {
    /// Speaks over a pair of streams; `log` gets every line that goes by.
    pub(crate) fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        log: Option<WireLog>,
    ) -> Self {
        Self { lines: Lines::new(reader, writer, log), next: 0 }
    }

    /// Asks something; the answer comes among what is incoming, under this number.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        self.lines
            .send(&json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}))
            .await;
        self.next
    }

    /// Tells something.
    pub(crate) async fn tell(&self, method: &str, params: Value) {
        self.lines.send(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    /// Answers a request.
    pub(crate) async fn answer(&self, id: &Value, result: Value) {
        self.lines.send(&answer(id, result)).await;
    }

    /// Answers a request later: what gives the answer must not hold up what comes.
    pub(crate) fn answer_later(
        &self,
        id: Value,
        result: impl Future<Output = Value> + Send + 'static,
    ) {
        let line: Line = self.lines.line();
        tokio::spawn(async move {
            let result = result.await;
            line.send(&answer(&id, result)).await;
        });
    }

    /// Refuses a request.
    pub(crate) async fn refuse(&self, id: &Value, code: i64, message: &str) {
        self.lines
            .send(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}))
            .await;
    }

    /// What comes next; nothing once the other side has closed.
    pub(crate) async fn next(&mut self) -> Option<Incoming> {
        loop {
            if let Some(incoming) = parse(self.lines.next().await?) {
                return Some(incoming);
            }
        }
    }

    /// What has come already.
    pub(crate) fn try_next(&mut self) -> Option<Incoming> {
        loop {
            if let Some(incoming) = parse(self.lines.try_next()?) {
                return Some(incoming);
            }
        }
    }

    /// Whether the other side has closed, though something that it said may not have been heard yet.
    pub(crate) fn is_closed(&self) -> bool {
        self.lines.is_closed()
    }
}

fn answer(id: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn parse(mut message: Map<String, Value>) -> Option<Incoming> {
    let id = message.remove("id").filter(|id| !id.is_null());
    let params = message.remove("params").unwrap_or(Value::Null);
    if let Some(Value::String(method)) = message.remove("method") {
        return Some(match id {
            Some(id) => Incoming::Request { id, method, params },
            None => Incoming::Note { method, params },
        });
    }
    let id = id?.as_u64()?;
    if let Some(error) = message.get("error").filter(|error| !error.is_null()) {
        let text = error.get("message").and_then(Value::as_str).unwrap_or("an error without words");
        let code = error.get("code").and_then(Value::as_i64).unwrap_or(0);
        return Some(Incoming::Answer {
            id,
            result: Err(Refused {
                code,
                message: text.to_owned(),
                data: error.get("data").cloned(),
            }),
        });
    }
    Some(Incoming::Answer { id, result: Ok(message.remove("result").unwrap_or(Value::Null)) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

    #[tokio::test]
    async fn what_is_said_is_heard_in_order_and_noise_is_passed_over() {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (reader, writer) = tokio::io::split(ours);
        let mut peer = Peer::new(reader, writer, None);
        let (reader, mut writer) = tokio::io::split(theirs);
        let asked = peer.ask("initialize", json!({"a": 1})).await;
        let mut line = Vec::new();
        BufReader::new(reader).read_until(b'\n', &mut line).await.expect("a line");
        assert_eq!(serde_json::from_slice::<Value>(&line).expect("json")["method"], "initialize");
        let said = "Loading…\n[1,2]\n\n{\"jsonrpc\":\"2.0\",\"method\":\"n\",\"params\":{}}\n{\"id\":0,\"method\":\"r\"}\n{\"id\":1,\"result\":7}\n{\"id\":1,\"error\":{\"code\":-32000,\"message\":\"log in\"}}";
        writer.write_all(said.as_bytes()).await.expect("written");
        drop(writer);
        assert_eq!(
            peer.next().await,
            Some(Incoming::Note { method: "n".to_owned(), params: json!({}) })
        );
        assert_eq!(
            peer.next().await,
            Some(Incoming::Request { id: json!(0), method: "r".to_owned(), params: Value::Null })
        );
        assert_eq!(peer.next().await, Some(Incoming::Answer { id: asked, result: Ok(json!(7)) }));
        let Some(Incoming::Answer { result: Err(refused), .. }) = peer.next().await else {
            panic!("an error")
        };
        assert_eq!(refused.to_string(), "log in (-32000)");
    }
}
