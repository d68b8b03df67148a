//! JSON-RPC over lines, as agents speak it on their standard input and output.
//!
//! Everything that comes is handed on in the order in which it came, answers included, so that an answer is never seen
//! before the notifications that were sent ahead of it. What is no JSON-RPC is passed over: agents print things.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;

/// The longest line that is taken; a longer one is passed over.
const LINE_MAX_BYTES: usize = 32 * 1024 * 1024;
/// How much may wait to be looked at before the agent has to wait.
const INCOMING_MAX: usize = 1024;
/// How much may wait to be written.
const OUTGOING_MAX: usize = 64;

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
        let detail = self.data.as_ref().and_then(|data| data.as_str().or_else(|| data.get("details")?.as_str()));
        detail.map_or(Ok(()), |detail| write!(f, ": {detail}"))
    }
}

/// Our end of the line.
pub(crate) struct Peer {
    line: Line,
    incoming: mpsc::Receiver<Incoming>,
    next: u64,
}

impl Peer {
    /// Speaks over a pair of streams; `log` gets every line that goes by.
    pub(crate) fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        log: Option<WireLog>,
    ) -> Self {
        let (out, lines) = mpsc::channel(OUTGOING_MAX);
        let (hand, incoming) = mpsc::channel(INCOMING_MAX);
        tokio::spawn(write(writer, lines, log.clone()));
        tokio::spawn(read(reader, hand, log));
        Self { line: Line { out }, incoming, next: 0 }
    }

    /// Asks something; the answer comes among what is incoming, under this number.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        self.line.send(&json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params})).await;
        self.next
    }

    /// Tells something.
    pub(crate) async fn tell(&self, method: &str, params: Value) {
        self.line.send(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    /// Answers a request.
    pub(crate) async fn answer(&self, id: &Value, result: Value) {
        self.line.answer(id, result).await;
    }

    /// Refuses a request.
    pub(crate) async fn refuse(&self, id: &Value, code: i64, message: &str) {
        self.line.send(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})).await;
    }

    /// The way out alone, for whoever answers later.
    pub(crate) fn line(&self) -> Line {
        self.line.clone()
    }

    /// What comes next; nothing once the other side has closed.
    pub(crate) async fn next(&mut self) -> Option<Incoming> {
        self.incoming.recv().await
    }

    /// Whether the other side has closed and everything it said was heard.
    pub(crate) fn is_closed(&self) -> bool {
        self.incoming.is_closed() && self.incoming.is_empty()
    }
}

/// The way out.
#[derive(Clone)]
pub(crate) struct Line {
    out: mpsc::Sender<String>,
}

impl Line {
    /// Answers a request.
    pub(crate) async fn answer(&self, id: &Value, result: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "result": result})).await;
    }

    /// What cannot be written any more shows as an end of what comes.
    async fn send(&self, message: &Value) {
        let _ = self.out.send(message.to_string()).await;
    }
}

/// A file that keeps every line, for whoever wants to know what was really said.
#[derive(Clone)]
pub(crate) struct WireLog(Arc<PathBuf>);

impl WireLog {
    pub(crate) fn new(path: &Path) -> Self {
        Self(Arc::new(path.to_owned()))
    }

    fn line(&self, direction: &str, line: &str) {
        use std::io::Write as _;
        let file = std::fs::OpenOptions::new().create(true).append(true).open(self.0.as_path());
        let _ = file.and_then(|mut file| writeln!(file, "{direction} {line}"));
    }
}

async fn write(mut writer: impl AsyncWrite + Unpin, mut lines: mpsc::Receiver<String>, log: Option<WireLog>) {
    while let Some(mut line) = lines.recv().await {
        if let Some(log) = &log {
            log.line(">", &line);
        }
        line.push('\n');
        if writer.write_all(line.as_bytes()).await.is_err() || writer.flush().await.is_err() {
            return;
        }
    }
    let _ = writer.shutdown().await;
}

async fn read(reader: impl AsyncRead + Unpin, hand: mpsc::Sender<Incoming>, log: Option<WireLog>) {
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    while let Ok(more) = read_line(&mut reader, &mut line, LINE_MAX_BYTES).await {
        if let Some(log) = log.as_ref().filter(|_| !line.is_empty()) {
            log.line("<", &String::from_utf8_lossy(&line));
        }
        if let Some(incoming) = parse(&line)
            && hand.send(incoming).await.is_err()
        {
            return;
        }
        if !more {
            return;
        }
    }
}

/// Reads a line without its end; `false` at the end of the stream. One that is too long comes out empty.
pub(crate) async fn read_line(reader: &mut (impl AsyncBufRead + Unpin), line: &mut Vec<u8>, max: usize) -> io::Result<bool> {
    line.clear();
    let mut too_long = false;
    loop {
        let chunk = reader.fill_buf().await?;
        if chunk.is_empty() {
            return Ok(false);
        }
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let taken = end.unwrap_or(chunk.len());
        if line.len() + taken > max {
            too_long = true;
        } else if !too_long {
            line.extend_from_slice(&chunk[..taken]);
        }
        reader.consume(taken + usize::from(end.is_some()));
        if end.is_some() {
            if too_long {
                line.clear();
            }
            return Ok(true);
        }
    }
}

fn parse(line: &[u8]) -> Option<Incoming> {
    let Ok(Value::Object(mut message)) = serde_json::from_slice(line) else { return None };
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
        return Some(Incoming::Answer { id, result: Err(Refused { code, message: text.to_owned(), data: error.get("data").cloned() }) });
    }
    Some(Incoming::Answer { id, result: Ok(message.remove("result").unwrap_or(Value::Null)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_said_is_heard_in_order_and_noise_is_passed_over() {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (reader, writer) = tokio::io::split(ours);
        let mut peer = Peer::new(reader, writer, None);
        let (reader, mut writer) = tokio::io::split(theirs);
        let asked = peer.ask("initialize", json!({"a": 1})).await;
        let mut line = Vec::new();
        assert!(read_line(&mut BufReader::new(reader), &mut line, LINE_MAX_BYTES).await.expect("a line"));
        assert_eq!(serde_json::from_slice::<Value>(&line).expect("json")["method"], "initialize");
        let said = "Loading…\n[1,2]\n\n{\"jsonrpc\":\"2.0\",\"method\":\"n\",\"params\":{}}\n{\"id\":0,\"method\":\"r\"}\n{\"id\":1,\"result\":7}\n{\"id\":1,\"error\":{\"code\":-32000,\"message\":\"log in\"}}";
        writer.write_all(said.as_bytes()).await.expect("written");
        drop(writer);
        assert_eq!(peer.next().await, Some(Incoming::Note { method: "n".to_owned(), params: json!({}) }));
        assert_eq!(peer.next().await, Some(Incoming::Request { id: json!(0), method: "r".to_owned(), params: Value::Null }));
        assert_eq!(peer.next().await, Some(Incoming::Answer { id: asked, result: Ok(json!(7)) }));
        let Some(Incoming::Answer { result: Err(refused), .. }) = peer.next().await else { panic!("an error") };
        assert_eq!(refused.to_string(), "log in (-32000)");
    }

    #[tokio::test]
    async fn a_line_beyond_the_bound_is_passed_over_and_the_next_is_read() {
        let mut long = vec![b'x'; LINE_MAX_BYTES + 1];
        long.extend_from_slice(b"\nshort\n");
        let mut reader = BufReader::new(long.as_slice());
        let mut line = Vec::new();
        assert!(read_line(&mut reader, &mut line, LINE_MAX_BYTES).await.expect("read") && line.is_empty());
        assert!(read_line(&mut reader, &mut line, LINE_MAX_BYTES).await.expect("read") && line == b"short");
    }
}
