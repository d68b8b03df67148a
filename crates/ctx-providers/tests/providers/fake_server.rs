//! A fake model server on a socket: sends prepared replies and records requests.
//!
//! It writes HTTP itself, so that a test can split, hold or cut a response anywhere. Each piece is
//! one HTTP chunk, which the client receives separately even if TCP joins them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// What happens after the last piece of a response.
#[derive(Clone, Copy, PartialEq)]
enum After {
    /// The response ends, and the connection accepts the next request.
    Next,
    /// The connection is closed before the end of the response.
    Cut,
    /// The connection stays open without further data.
    Hold,
}

pub(crate) struct Reply {
    head: String,
    pieces: Vec<Vec<u8>>,
    is_chunked: bool,
    after: After,
}

impl Reply {
    /// A chunked response of these pieces.
    pub(crate) fn stream<P: Into<Vec<u8>>>(pieces: impl IntoIterator<Item = P>) -> Self {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                    transfer-encoding: chunked\r\n\r\n"
            .to_owned();
        Self {
            head,
            pieces: pieces.into_iter().map(Into::into).collect(),
            is_chunked: true,
            after: After::Next,
        }
    }

    /// A response with a content length.
    pub(crate) fn whole(status: u16, headers: &str, body: &str) -> Self {
        let head =
            format!("HTTP/1.1 {status} x\r\n{headers}content-length: {}\r\n\r\n", body.len());
        Self { head, pieces: vec![body.into()], is_chunked: false, after: After::Next }
    }

    /// No response; the connection stays open.
    pub(crate) fn silence() -> Self {
        Self { head: String::new(), pieces: Vec::new(), is_chunked: false, after: After::Hold }
    }

    pub(crate) fn cut(self) -> Self {
        Self { after: After::Cut, ..self }
    }

    pub(crate) fn held(self) -> Self {
        Self { after: After::Hold, ..self }
    }

    /// All bytes for one write, so that a busy system does not delay a part of them.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head.clone().into_bytes();
        for piece in self.pieces.iter().filter(|piece| !piece.is_empty()) {
            if self.is_chunked {
                bytes.extend(format!("{:x}\r\n", piece.len()).into_bytes());
            }
            bytes.extend(piece);
            if self.is_chunked {
                bytes.extend(b"\r\n");
            }
        }
        if self.is_chunked && self.after == After::Next {
            bytes.extend(b"0\r\n\r\n");
        }
        bytes
    }
}

/// A request that the server received.
#[derive(Clone, Debug)]
pub(crate) struct RecordedRequest {
    /// Method and path, for example `POST /v1/messages`.
    pub(crate) target: String,
    /// All headers, in lower case.
    pub(crate) headers: String,
    pub(crate) body: Value,
}

struct State {
    replies: Mutex<VecDeque<Reply>>,
    requests: Mutex<Vec<RecordedRequest>>,
    closed: Semaphore,
    connections: Semaphore,
}

pub(crate) struct FakeServer {
    pub(crate) url: String,
    state: Arc<State>,
    task: JoinHandle<()>,
}

impl FakeServer {
    /// Sends these replies in order.
    pub(crate) async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let state = Arc::new(State {
            replies: Mutex::new(replies.into_iter().collect()),
            requests: Mutex::default(),
            closed: Semaphore::new(0),
            connections: Semaphore::new(0),
        });
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                shared.connections.add_permits(1);
                tokio::spawn(serve(socket, Arc::clone(&shared)));
            }
        });
        Self { url, state, task }
    }

    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.state.requests.lock().expect("not poisoned").clone()
    }

    /// Number of accepted connections.
    pub(crate) fn connections(&self) -> usize {
        self.state.connections.available_permits()
    }

    /// Waits until a client has closed a connection.
    pub(crate) async fn client_closed(&self) {
        self.state.closed.acquire().await.expect("open").forget();
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut socket: TcpStream, state: Arc<State>) {
    while let Some(request) = read(&mut socket).await {
        state.requests.lock().expect("not poisoned").push(request);
        let reply = state
            .replies
            .lock()
            .expect("not poisoned")
            .pop_front()
            .expect("a reply for every request");
        // A client may close the connection while it receives a response that is too large.
        let written = socket.write_all(&reply.bytes()).await;
        if written.is_err() || reply.after == After::Cut {
            break;
        }
        if reply.after == After::Hold {
            // The end of the stream shows that the client closed the connection.
            while socket.read(&mut [0; 1024]).await.is_ok_and(|bytes| bytes > 0) {}
            break;
        }
    }
    state.closed.add_permits(1);
}

async fn read(socket: &mut TcpStream) -> Option<RecordedRequest> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).expect("a head in UTF-8");
    let (target, headers) = head.split_once("\r\n").expect("a first line");
    let headers = headers.to_lowercase();
    let length = headers
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |n| n.parse().expect("a number"));
    while bytes.len() < end + length {
        assert!(socket.read_buf(&mut bytes).await.expect("a body") > 0, "the body is complete");
    }
    let body = serde_json::from_slice(&bytes[end..]).unwrap_or_default();
    let target = target.trim_end_matches(" HTTP/1.1").to_owned();
    Some(RecordedRequest { target, headers, body })
}
