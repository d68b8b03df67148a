//! JSON objects as lines over a pair of streams, such as the standard streams of a process.
//!
//! Agents also print other text, so `JsonLines::next` ignores lines that are not JSON objects. An
//! agent itself reports them with [`JsonLines::next_line`].

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot};

/// Longer lines are ignored.
const LINE_MAX_BYTES: usize = 32 * 1024 * 1024;
/// Number of unread messages after which reading pauses and the agent's pipe fills up.
const UNREAD_MAX: usize = 1024;
/// Number of unwritten lines after which a sender waits.
const UNWRITTEN_MAX: usize = 64;

/// A line that is not a JSON object: why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadLine {
    /// It is not JSON, or longer than the limit.
    NotJson(String),
    /// It is JSON, and not an object.
    NotAnObject,
}

/// Both directions; messages are received in the order in which the other side wrote them.
pub struct JsonLines {
    out: LineSender,
    incoming: mpsc::Receiver<Result<Map<String, Value>, BadLine>>,
}

impl JsonLines {
    /// Starts a task for each stream. `log` records every line of both directions.
    pub fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        log: Option<WireLog>,
    ) -> Self {
        let (out, lines) = mpsc::channel(UNWRITTEN_MAX);
        let (received, incoming) = mpsc::channel(UNREAD_MAX);
        tokio::spawn(write(writer, lines, log.clone()));
        tokio::spawn(read(reader, received, log));
        Self { out: LineSender(out), incoming }
    }

    pub(crate) async fn send(&self, message: &Value) {
        self.out.send(message).await;
    }

    /// A sender for tasks that send a line later.
    pub fn sender(&self) -> LineSender {
        self.out.clone()
    }

    /// The next message; `None` after the other side closed its output.
    pub(crate) async fn next(&mut self) -> Option<Map<String, Value>> {
        loop {
            if let Ok(message) = self.incoming.recv().await? {
                return Some(message);
            }
        }
    }

    /// The next message or bad line; `None` after the other side closed its output.
    pub async fn next_line(&mut self) -> Option<Result<Map<String, Value>, BadLine>> {
        self.incoming.recv().await
    }

    /// The next message, if one was already received.
    pub(crate) fn try_next(&mut self) -> Option<Map<String, Value>> {
        loop {
            if let Ok(message) = self.incoming.try_recv().ok()? {
                return Some(message);
            }
        }
    }

    /// Whether the agent closed its output. Unread messages may remain.
    pub(crate) fn is_closed(&self) -> bool {
        self.incoming.is_closed()
    }
}

/// Sends lines; clones send to the same stream.
#[derive(Clone, Debug)]
pub struct LineSender(mpsc::Sender<Outgoing>);

#[derive(Debug)]
enum Outgoing {
    Line(String),
    /// Answered when everything before it is written.
    Flush(oneshot::Sender<()>),
}

impl LineSender {
    /// Sends one line. A failed write is not reported here: the reader sees the closed stream.
    pub async fn send(&self, message: &Value) {
        let _ = self.0.send(Outgoing::Line(message.to_string())).await;
    }

    /// Waits until all lines sent before are written, or cannot be written any more.
    pub async fn flush(&self) {
        let (done, written) = oneshot::channel();
        let _ = self.0.send(Outgoing::Flush(done)).await;
        let _ = written.await;
    }
}

/// A file that records every line, for debugging.
#[derive(Clone)]
pub struct WireLog(Arc<PathBuf>);

impl WireLog {
    /// Appends to this file.
    pub fn new(path: &Path) -> Self {
        Self(Arc::new(path.to_owned()))
    }

    fn record(&self, direction: &str, line: &str) {
        use std::io::Write as _;
        let file = std::fs::OpenOptions::new().create(true).append(true).open(self.0.as_path());
        let _ = file.and_then(|mut file| writeln!(file, "{direction} {line}"));
    }
}

async fn write(
    mut writer: impl AsyncWrite + Unpin,
    mut lines: mpsc::Receiver<Outgoing>,
    log: Option<WireLog>,
) {
    while let Some(outgoing) = lines.recv().await {
        let mut line = match outgoing {
            Outgoing::Line(line) => line,
            Outgoing::Flush(done) => {
                let _ = done.send(());
                continue;
            }
        };
        if let Some(log) = &log {
            log.record(">", &line);
        }
        line.push('\n');
        if writer.write_all(line.as_bytes()).await.is_err() || writer.flush().await.is_err() {
            return;
        }
    }
    let _ = writer.shutdown().await;
}

async fn read(
    reader: impl AsyncRead + Unpin,
    received: mpsc::Sender<Result<Map<String, Value>, BadLine>>,
    log: Option<WireLog>,
) {
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    while let Ok(more) = read_line(&mut reader, &mut line, LINE_MAX_BYTES).await {
        if let Some(log) = log.as_ref().filter(|_| !line.is_empty()) {
            log.record("<", &String::from_utf8_lossy(&line));
        }
        let is_blank = line.iter().all(u8::is_ascii_whitespace);
        if !is_blank && received.send(parse_line(&line)).await.is_err() {
            return;
        }
        if !more {
            return;
        }
    }
}

fn parse_line(line: &[u8]) -> Result<Map<String, Value>, BadLine> {
    match serde_json::from_slice(line) {
        Ok(Value::Object(message)) => Ok(message),
        Ok(_) => Err(BadLine::NotAnObject),
        Err(error) => Err(BadLine::NotJson(error.to_string())),
    }
}

/// Reads a line without its newline. Returns `false` at the end of the stream. A line longer than
/// `max` bytes gives an empty line.
pub(crate) async fn read_line(
    reader: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
    max: usize,
) -> io::Result<bool> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn overlong_line_is_skipped_and_the_next_one_is_read() {
        let mut long = vec![b'x'; LINE_MAX_BYTES + 1];
        long.extend_from_slice(b"\nshort\n");
        let mut reader = BufReader::new(long.as_slice());
        let mut line = Vec::new();
        assert!(
            read_line(&mut reader, &mut line, LINE_MAX_BYTES).await.expect("read")
                && line.is_empty()
        );
        assert!(
            read_line(&mut reader, &mut line, LINE_MAX_BYTES).await.expect("read")
                && line == b"short"
        );
    }
}
