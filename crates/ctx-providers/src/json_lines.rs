//! JSON over lines, as agents speak it on their standard input and output. What is no JSON object is passed over:
//! agents print things.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;

/// The longest line that is taken; a longer one is passed over.
const LINE_MAX_BYTES: usize = 32 * 1024 * 1024;
/// How much may wait to be looked at before the agent has to wait.
const INCOMING_MAX: usize = 1024;
/// How much may wait to be written.
const OUTGOING_MAX: usize = 64;

/// What comes, in the order in which it came, and the way out.
pub(crate) struct Lines {
    out: Line,
    incoming: mpsc::Receiver<Map<String, Value>>,
}

impl Lines {
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
        Self { out: Line(out), incoming }
    }

    /// Sends one line.
    pub(crate) async fn send(&self, message: &Value) {
        self.out.send(message).await;
    }

    /// The way out alone, for whoever has something to say later.
    pub(crate) fn line(&self) -> Line {
        self.out.clone()
    }

    /// What comes next; nothing once the other side has closed.
    pub(crate) async fn next(&mut self) -> Option<Map<String, Value>> {
        self.incoming.recv().await
    }

    /// What has come already.
    pub(crate) fn try_next(&mut self) -> Option<Map<String, Value>> {
        self.incoming.try_recv().ok()
    }

    /// Whether the other side has closed, though something that it said may not have been heard yet.
    pub(crate) fn is_closed(&self) -> bool {
        self.incoming.is_closed()
    }
}

/// The way out.
#[derive(Clone)]
pub(crate) struct Line(mpsc::Sender<String>);

impl Line {
    /// What cannot be written any more shows as an end of what comes.
    pub(crate) async fn send(&self, message: &Value) {
        let _ = self.0.send(message.to_string()).await;
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

async fn write(
    mut writer: impl AsyncWrite + Unpin,
    mut lines: mpsc::Receiver<String>,
    log: Option<WireLog>,
) {
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

async fn read(
    reader: impl AsyncRead + Unpin,
    hand: mpsc::Sender<Map<String, Value>>,
    log: Option<WireLog>,
) {
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    while let Ok(more) = read_line(&mut reader, &mut line, LINE_MAX_BYTES).await {
        if let Some(log) = log.as_ref().filter(|_| !line.is_empty()) {
            log.line("<", &String::from_utf8_lossy(&line));
        }
        if let Ok(Value::Object(message)) = serde_json::from_slice(&line)
            && hand.send(message).await.is_err()
        {
            return;
        }
        if !more {
            return;
        }
    }
}

/// Reads a line without its end; `false` at the end of the stream. One that is too long comes out empty.
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
    async fn a_line_beyond_the_bound_is_passed_over_and_the_next_is_read() {
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
