//! An HTTP client of one request per connection, its responses, and event streams.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use super::{TIMEOUT, wait_for};

/// A response that has been read to its end.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) bytes: Vec<u8>,
    /// The bytes as JSON; null where they are not JSON.
    pub(crate) body: Value,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.bytes.clone()).expect("text")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|e| panic!("{e} in {}", self.text()))
    }

    /// The body of a response that must have this status.
    #[track_caller]
    pub(crate) fn is(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        if self.bytes.is_empty() { Value::Null } else { self.json() }
    }

    /// The problem document of a response that must have this status and code.
    #[track_caller]
    pub(crate) fn refuses(self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let problem = self.json();
        assert_eq!(
            (&problem["code"], &problem["status"]),
            (&json!(code), &json!(status)),
            "{problem}"
        );
        for field in ["type", "title", "detail"] {
            assert!(
                problem[field].as_str().is_some_and(|text| !text.is_empty()),
                "{field} in {problem}"
            );
        }
        problem
    }
}

fn find<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

/// Opens a connection for each request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
}

/// Requests.
impl Client {
    pub(crate) fn connect(&self) -> TcpStream {
        self.try_connect().expect("a connection")
    }

    fn try_connect(&self) -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(stream)
    }

    /// An error where the server went away before it responded.
    pub(crate) fn try_ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> std::io::Result<Response> {
        let mut stream = self.try_connect()?;
        let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head.push_str(&format!("host: {}\r\n", self.address));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            head.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)?;
        let mut stream = BufReader::new(stream);
        if method == "HEAD" {
            // Its headers describe the body that a GET has.
            let (status, headers) = read_head(&mut stream)?;
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes)?;
            return Ok(Response { status, headers, bytes, body: Value::Null });
        }
        read_response(&mut stream)
    }

    /// As [`Client::try_ask`] with a JSON body, for a server that may not answer.
    pub(crate) fn send_within(
        &self,
        timeout: Duration,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> std::io::Result<Response> {
        let stream = self.begin_within(timeout, path, headers, body)?;
        read_response(&mut BufReader::new(stream))
    }

    /// Sends a request with a JSON body, and leaves the answer to the caller.
    pub(crate) fn begin(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> std::io::Result<TcpStream> {
        self.begin_within(TIMEOUT, path, headers, body)
    }

    fn begin_within(
        &self,
        timeout: Duration,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> std::io::Result<TcpStream> {
        let mut stream = self.connect_within(timeout)?;
        let text = body.to_string();
        let method = if body.is_null() { "GET" } else { "POST" };
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n", self.address);
        head.push_str("connection: close\r\n");
        headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
        if !body.is_null() {
            let length = text.len();
            head.push_str(&format!(
                "content-type: application/json\r\ncontent-length: {length}\r\n\r\n{text}"
            ));
        } else {
            head.push_str("\r\n");
        }
        stream.write_all(head.as_bytes())?;
        Ok(stream)
    }

    fn connect_within(&self, timeout: Duration) -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&self.address, timeout)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        Ok(stream)
    }

    /// As [`Client::try_ask`], with a JSON body and more headers; no body where it is null.
    pub(crate) fn try_send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> std::io::Result<Response> {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let mut headers = headers.to_vec();
        if !text.is_empty() {
            headers.push(("content-type", "application/json"));
        }
        self.try_ask(method, path, &headers, text.as_bytes())
    }

    #[track_caller]
    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Response {
        self.try_ask(method, path, headers, body)
            .unwrap_or_else(|e| panic!("{method} {path} got no response: {e}"))
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Response {
        self.ask("GET", path, &[], b"")
    }

    #[track_caller]
    pub(crate) fn send(&self, method: &str, path: &str, body: &Value) -> Response {
        self.try_send(method, path, &[], body)
            .unwrap_or_else(|e| panic!("{method} {path} got no response: {e}"))
    }

    #[track_caller]
    pub(crate) fn post(&self, path: &str, body: &Value) -> Response {
        self.send("POST", path, body)
    }

    /// The document of a GET request that must succeed.
    #[track_caller]
    pub(crate) fn read(&self, path: &str) -> Value {
        self.get(path).is(200)
    }
}

/// Sessions.
impl Client {
    /// Creates a session with a label.
    #[track_caller]
    pub(crate) fn session(&self, label: &str) -> Value {
        self.post("/api/sessions", &json!({"label": label})).is(201)
    }

    /// The labels of a list of sessions.
    pub(crate) fn labels(&self, query: &str) -> Vec<String> {
        let list = self.read(&format!("/api/sessions{query}"));
        list["sessions"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|one| one["label"].as_str().expect("a label").to_owned())
            .collect()
    }

    /// All messages at the head and all messages in the inbox, of one moment.
    pub(crate) fn everything(&self, session: &str) -> (Vec<Value>, Vec<Value>) {
        wait_for("two reads without a change between them", || {
            let seq = || self.read(&format!("/api/sessions/{session}"))["seq"].clone();
            let before = seq();
            let found = self.read_all(session);
            // A message that moved between two reads would be seen twice or not at all.
            (seq() == before).then_some(found)
        })
    }

    fn read_all(&self, session: &str) -> (Vec<Value>, Vec<Value>) {
        let mut messages = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = self.read(&format!("/api/sessions/{session}/messages?limit=1000{cursor}"));
            messages.extend(page["messages"].as_array().cloned().unwrap_or_default());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        let inbox = self.read(&format!("/api/sessions/{session}/inbox"));
        let items = inbox["items"]
            .as_array()
            .or_else(|| inbox["inbox"].as_array())
            .cloned()
            .expect("a list of items");
        (messages, items)
    }

    /// Waits until a session is idle with an empty inbox, is suspended, or has a pending prompt.
    #[track_caller]
    pub(crate) fn settled(&self, session: &str) -> Value {
        wait_for(&format!("{session} settles"), || {
            let info = self.read(&format!("/api/sessions/{session}"));
            let settled = info["state"] != "running" && info["waiting"] == 0
                || info["state"] == "suspended"
                || !info["pending_prompt"].is_null();
            settled.then_some(info)
        })
    }

    /// Follows events, after an id where one is given.
    #[track_caller]
    pub(crate) fn follow(&self, path: &str, last: Option<u64>) -> EventStream {
        let last = last.map(|id| id.to_string());
        let headers: Vec<(&str, &str)> =
            last.iter().map(|id| ("last-event-id", id.as_str())).collect();
        self.follow_with(path, &headers)
    }

    #[track_caller]
    pub(crate) fn follow_with(&self, path: &str, headers: &[(&str, &str)]) -> EventStream {
        self.try_follow(TIMEOUT, path, headers).unwrap_or_else(|e| panic!("GET {path}: {e}"))
    }

    /// As [`Client::follow_with`], for a server that may not answer. The stream ends as well where
    /// nothing arrives for this time.
    pub(crate) fn try_follow(
        &self,
        timeout: Duration,
        path: &str,
        headers: &[(&str, &str)],
    ) -> std::io::Result<EventStream> {
        let mut stream = self.connect_within(timeout)?;
        let mut head = format!("GET {path} HTTP/1.1\r\nhost: {}\r\n", self.address);
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        write!(stream, "{head}\r\n")?;
        let mut stream = BufReader::new(stream);
        let (status, headers) = read_head(&mut stream)?;
        let mut stream = EventStream { stream, headers, rest: String::new() };
        match (status, stream.block()) {
            (200, Some(first)) if first.starts_with(':') => Ok(stream),
            (status, first) => Err(std::io::Error::other(format!("status {status}: {first:?}"))),
        }
    }
}

/// A stream of server-sent events.
pub(crate) struct EventStream {
    stream: BufReader<TcpStream>,
    headers: Vec<(String, String)>,
    rest: String,
}

/// One server-sent event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) name: String,
    /// Live deltas have no id.
    pub(crate) id: Option<u64>,
    pub(crate) data: Value,
}

impl EventStream {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    /// The next event; `None` when the stream has ended.
    pub(crate) fn next(&mut self) -> Option<Event> {
        loop {
            let block = self.block()?;
            if !block.starts_with(':') {
                return Some(parse_event(&block));
            }
        }
    }

    /// The lines up to the next empty line.
    fn block(&mut self) -> Option<String> {
        loop {
            if let Some((block, rest)) = self.rest.split_once("\n\n") {
                let block = block.to_owned();
                self.rest = rest.to_owned();
                return Some(block);
            }
            let chunk = read_chunk(&mut self.stream).ok()??;
            self.rest.push_str(&String::from_utf8(chunk).expect("text"));
        }
    }
}

fn parse_event(block: &str) -> Event {
    let field = |name: &str| {
        block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    };
    Event {
        name: field("event").expect("a name").to_owned(),
        id: field("id").map(|id| id.parse().expect("a number")),
        data: serde_json::from_str(field("data").expect("data")).expect("JSON"),
    }
}

/// Reads one response from a connection.
pub(crate) fn read_response(stream: &mut impl BufRead) -> std::io::Result<Response> {
    let (status, headers) = read_head(stream)?;
    let mut bytes = Vec::new();
    if find(&headers, "transfer-encoding") == Some("chunked") {
        while let Some(chunk) = read_chunk(stream)? {
            bytes.extend(chunk);
        }
    } else if let Some(length) = find(&headers, "content-length") {
        bytes.resize(length.parse().expect("a length"), 0);
        stream.read_exact(&mut bytes)?;
    }
    let body = serde_json::from_slice(&bytes).unwrap_or_default();
    Ok(Response { status, headers, bytes, body })
}

fn read_head(stream: &mut impl BufRead) -> std::io::Result<(u16, Vec<(String, String)>)> {
    let line = read_line(stream)?;
    let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.ok_or_else(|| cut_off(&line))?;
    let mut headers = Vec::new();
    loop {
        let line = read_line(stream)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    Ok((status, headers))
}

/// The next chunk of a chunked body; `None` after the last.
fn read_chunk(stream: &mut impl BufRead) -> std::io::Result<Option<Vec<u8>>> {
    let line = read_line(stream)?;
    let size = usize::from_str_radix(line.trim(), 16).map_err(|_| cut_off(&line))?;
    let mut chunk = vec![0; size + 2];
    stream.read_exact(&mut chunk)?;
    chunk.truncate(size);
    Ok((size > 0).then_some(chunk))
}

fn read_line(stream: &mut impl BufRead) -> std::io::Result<String> {
    let mut line = String::new();
    match stream.read_line(&mut line)? {
        0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(line),
    }
}

/// A killed server may leave half a line.
fn cut_off(line: &str) -> std::io::Error {
    std::io::Error::other(format!("not a response: `{line}`"))
}
