//! A server of models as bytes on a socket: it answers what the test wrote, and keeps what it was asked.
//!
//! Written by hand so that a test can cut, hold and break an answer anywhere. Each piece is one chunk of HTTP, which
//! the client reads as a piece of its own, however the network joins them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// What becomes of the connection after the answer's last piece.
#[derive(Clone, Copy, PartialEq)]
enum After {
    /// The answer ends as it should; the next request may come.
    Next,
    /// It breaks off.
    Cut,
    /// Nothing more comes, and nothing ends.
    Hold,
}

pub(crate) struct Reply {
    head: String,
    pieces: Vec<Vec<u8>>,
    is_chunked: bool,
    after: After,
}

impl Reply {
    /// A stream of events, cut into pieces as given.
    pub(crate) fn stream<P: Into<Vec<u8>>>(pieces: impl IntoIterator<Item = P>) -> Self {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_owned();
        Self {
            head,
            pieces: pieces.into_iter().map(Into::into).collect(),
            is_chunked: true,
            after: After::Next,
        }
    }

    /// A whole body.
    pub(crate) fn whole(status: u16, headers: &str, body: &str) -> Self {
        let head =
            format!("HTTP/1.1 {status} x\r\n{headers}content-length: {}\r\n\r\n", body.len());
        Self { head, pieces: vec![body.into()], is_chunked: false, after: After::Next }
    }

    /// Nothing at all.
    pub(crate) fn silence() -> Self {
        Self { head: String::new(), pieces: Vec::new(), is_chunked: false, after: After::Hold }
    }

    pub(crate) fn cut(self) -> Self {
        Self { after: After::Cut, ..self }
    }

    pub(crate) fn held(self) -> Self {
        Self { after: After::Hold, ..self }
    }

    /// The bytes, in one write: what belongs together must not be torn apart by a busy machine.
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

/// What the server was asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Method and path.
    pub(crate) what: String,
    /// In lower case.
    pub(crate) headers: String,
    pub(crate) body: Value,
}

struct State {
    replies: Mutex<VecDeque<Reply>>,
    asked: Mutex<Vec<Asked>>,
    left: Semaphore,
    connections: Semaphore,
}

pub(crate) struct Server {
    pub(crate) url: String,
    state: Arc<State>,
    task: JoinHandle<()>,
}

impl Server {
    /// Gives these answers, in order.
    pub(crate) async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let state = Arc::new(State {
            replies: Mutex::new(replies.into_iter().collect()),
            asked: Mutex::default(),
            left: Semaphore::new(0),
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

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.state.asked.lock().expect("asked").clone()
    }

    /// How many connections were made.
    pub(crate) fn connections(&self) -> usize {
        self.state.connections.available_permits()
    }

    /// Waits until a client that was held has gone away.
    pub(crate) async fn client_left(&self) {
        self.state.left.acquire().await.expect("open").forget();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut socket: TcpStream, state: Arc<State>) {
    while let Some(asked) = read(&mut socket).await {
        state.asked.lock().expect("asked").push(asked);
        let reply = state
            .replies
            .lock()
            .expect("replies")
            .pop_front()
            .expect("an answer for every request");
        // A client may leave in the middle of an answer that is too large for it.
        let written = socket.write_all(&reply.bytes()).await;
        if written.is_err() || reply.after == After::Cut {
            break;
        }
        if reply.after == After::Hold {
            // A read that ends says that the client closed.
            while socket.read(&mut [0; 1024]).await.is_ok_and(|bytes| bytes > 0) {}
            break;
        }
    }
    state.left.add_permits(1);
}

async fn read(socket: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).expect("a head of text");
    let (what, headers) = head.split_once("\r\n").expect("a first line");
    let headers = headers.to_lowercase();
    let length = headers
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |n| n.parse().expect("a number"));
    while bytes.len() < end + length {
        assert!(socket.read_buf(&mut bytes).await.expect("a body") > 0, "the body broke off");
    }
    let body = serde_json::from_slice(&bytes[end..]).unwrap_or_default();
    let what = what.trim_end_matches(" HTTP/1.1").to_owned();
    Some(Asked { what, headers, body })
}
