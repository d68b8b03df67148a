//! A server in a directory of its own, and a client of a hundred lines.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Nothing here takes longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running `ctx serve`.
pub(crate) struct Server {
    child: Child,
    pub(crate) dir: TempDir,
    pub(crate) address: SocketAddr,
    /// What it said when it began to listen.
    pub(crate) said: Value,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("text")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e} in {}", self.text()))
    }

    /// The body of an answer with this status.
    pub(crate) fn is(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        if self.body.is_empty() { Value::Null } else { self.json() }
    }

    /// A problem document with this status and code.
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

pub(crate) fn ctx(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ctx"));
    command.current_dir(dir).env_clear().env("HOME", dir).env("CTX_DATA", dir.join("data"));
    // What the machine of whoever tests has is nobody's business here.
    command.env("CTX_DISCOVERY_ENABLED", "false");
    command
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::configured("")
    }

    /// With a `ctx.toml`.
    pub(crate) fn configured(config: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        if !config.is_empty() {
            std::fs::create_dir(dir.path().join("data")).expect("a directory");
            std::fs::write(dir.path().join("data/ctx.toml"), config).expect("a configuration");
        }
        Self::in_dir(dir)
    }

    pub(crate) fn in_dir(dir: TempDir) -> Self {
        let mut command = ctx(dir.path());
        command.args(["serve", "--listen", "127.0.0.1:0", "--json"]).env("CTX_LOG", "warn");
        Self::spawned(dir, command)
    }

    /// A server for others, that logs all it can into a file.
    pub(crate) fn for_others(dir: TempDir, log: &Path) -> Self {
        let mut command = ctx(dir.path());
        command.args(["serve", "--listen", "0.0.0.0:0", "--json"]).env("CTX_LOG", "trace");
        command.stderr(std::fs::File::create(log).expect("a log"));
        Self::spawned(dir, command)
    }

    fn spawned(dir: TempDir, mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("ctx serve");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("stdout")).read_line(&mut line).expect("a line");
        let said: Value = serde_json::from_str(&line).expect("a document");
        let address = said["address"].as_str().expect("an address").parse().expect("an address");
        Self { child, dir, address, said }
    }

    pub(crate) fn wait_until_ready(&self) {
        let until = Instant::now() + PATIENCE;
        while self.get("/readyz").status != 200 {
            assert!(Instant::now() < until, "never ready");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Asks it to end, and says how long that took and with which exit code.
    pub(crate) fn end(mut self) -> (Option<i32>, Duration, TempDir) {
        let began = Instant::now();
        signal(&self.child, "-TERM");
        let status = self.child.wait().expect("its end");
        let dir = std::mem::replace(&mut self.dir, tempfile::tempdir().expect("a directory"));
        (status.code(), began.elapsed(), dir)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream
    }

    /// A request with all that is said in it.
    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let mut stream = self.connect();
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
        stream.write_all(head.as_bytes()).expect("the head");
        stream.write_all(body).expect("the body");
        read_answer(&mut BufReader::new(stream))
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], b"")
    }

    pub(crate) fn send(&self, method: &str, path: &str, body: &Value) -> Answer {
        self.ask(method, path, &[("content-type", "application/json")], body.to_string().as_bytes())
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, body)
    }

    /// A session with a label.
    pub(crate) fn session(&self, label: &str) -> Value {
        self.post("/api/sessions", &json!({"label": label})).is(201)
    }

    /// The labels of a list.
    pub(crate) fn labels(&self, query: &str) -> Vec<String> {
        let list = self.get(&format!("/api/sessions{query}")).is(200);
        list["sessions"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|one| one["label"].as_str().expect("a label").to_owned())
            .collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status().expect("kill");
    assert!(sent.success());
}

pub(crate) fn read_answer(stream: &mut impl BufRead) -> Answer {
    let (status, headers) = read_head(stream);
    let is =
        |name: &str| headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    let mut body = Vec::new();
    if is("transfer-encoding").as_deref() == Some("chunked") {
        while let Some(chunk) = read_chunk(stream) {
            body.extend(chunk);
        }
    } else if let Some(length) = is("content-length") {
        body.resize(length.parse().expect("a length"), 0);
        stream.read_exact(&mut body).expect("the body");
    }
    Answer { status, headers, body }
}

pub(crate) fn read_head(stream: &mut impl BufRead) -> (u16, Vec<(String, String)>) {
    let mut line = String::new();
    stream.read_line(&mut line).expect("a status line");
    let status = line
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .unwrap_or_else(|| panic!("`{line}`"));
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).expect("a header");
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    (status, headers)
}

/// The next chunk; nothing after the last.
pub(crate) fn read_chunk(stream: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut line = String::new();
    stream.read_line(&mut line).expect("a chunk's size");
    let size = usize::from_str_radix(line.trim(), 16).ok()?;
    let mut chunk = vec![0; size + 2];
    stream.read_exact(&mut chunk).expect("a chunk");
    chunk.truncate(size);
    (size > 0).then_some(chunk)
}
