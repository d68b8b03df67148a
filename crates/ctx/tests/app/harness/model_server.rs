//! A real `ctx serve` in a process of its own, a client that speaks plain HTTP, a model server that counts.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

/// Longer than anything takes that works.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A command of the program under test, on a data directory.
pub(crate) fn ctx(data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ctx"));
    command
        .arg("--data")
        .arg(data)
        .env_remove("CTX_DATA")
        .env_remove("CTX_CONFIG")
        .env_remove("CTX_SESSION")
        .env("CTX_DISCOVERY_ENABLED", "false");
    command
}

/// A server that is killed when it goes.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
}

impl Server {
    pub(crate) fn start(data: &Path) -> Self {
        Self::start_with(data, &[])
    }

    pub(crate) fn start_with(data: &Path, more: &[&str]) -> Self {
        std::fs::create_dir_all(data).expect("a directory");
        let mut command = ctx(data);
        command.args(["serve", "--listen", "127.0.0.1:0", "--json"]).args(more).current_dir(data);
        let mut child = command
            .env("CTX_LOG", "error")
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("ctx starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let told: Value = serde_json::from_str(&line)
            .unwrap_or_else(|e| panic!("the first line is JSON: {e}: {line}"));
        let address = told["address"]
            .as_str()
            .expect("an address")
            .trim_start_matches("http://")
            .trim_end_matches('/')
            .to_owned();
        Self { child, address }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end, and waits until it has; whether it ended well.
    pub(crate) fn stop(mut self) -> bool {
        let asked = Command::new("kill").arg(self.child.id().to_string()).status();
        asked.is_ok_and(|status| status.success())
            && self.child.wait().is_ok_and(|status| status.success())
    }

    /// SIGKILL.
    pub(crate) fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(crate) fn client(&self) -> Client {
        Client { address: self.address.clone() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A store of its own, a model server, and a server that talks to it.
pub(crate) struct Lab {
    pub(crate) model: Model,
    pub(crate) server: Server,
    pub(crate) data: PathBuf,
    pub(crate) _dir: TempDir,
}

impl Lab {
    pub(crate) fn new() -> Self {
        let dir = TempDir::new().expect("a directory");
        let data = dir.path().join("data");
        let model = Model::start();
        model.configure(&data, "");
        Self { server: Server::start(&data), model, data, _dir: dir }
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

/// Asks one question a connection.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) address: String,
}

impl Client {
    /// `None` when the server went away before it answered.
    pub(crate) fn try_ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Option<Answer> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let body = body.map(Value::to_string).unwrap_or_default();
        let mut request =
            format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.address);
        if !body.is_empty() {
            request.push_str(&format!(
                "Content-Type: application/json\r\nContent-Length: {}\r\n",
                body.len()
            ));
        }
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{request}\r\n{body}").as_bytes()).ok()?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let (head, rest) = text.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        let rest = if head.to_lowercase().contains("transfer-encoding: chunked") {
            unchunked(rest)?
        } else {
            rest.to_owned()
        };
        Some(Answer { status, body: serde_json::from_str(&rest).unwrap_or(Value::Null) })
    }

    pub(crate) fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        self.try_ask(method, path, &[], body)
            .unwrap_or_else(|| panic!("{method} {path} was answered"))
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let answer = self.ask("GET", path, None);
        assert_eq!(answer.status, 200, "GET {path}: {}", answer.body);
        answer.body
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask("POST", path, Some(body))
    }

    /// Every message at the head, and every one that waits, of one moment.
    pub(crate) fn everything(&self, session: &str) -> (Vec<Value>, Vec<Value>) {
        loop {
            let seq = || self.get(&format!("/api/sessions/{session}"))["seq"].clone();
            let before = seq();
            let read = self.read_all(session);
            // What moved between two reads would be seen twice or not at all.
            if seq() == before {
                return read;
            }
        }
    }

    fn read_all(&self, session: &str) -> (Vec<Value>, Vec<Value>) {
        let mut messages = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = self.get(&format!("/api/sessions/{session}/messages?limit=1000{cursor}"));
            messages.extend(page["messages"].as_array().cloned().unwrap_or_default());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        let inbox = self.get(&format!("/api/sessions/{session}/inbox"));
        let items = inbox["items"]
            .as_array()
            .or_else(|| inbox["inbox"].as_array())
            .cloned()
            .expect("a list of items");
        (messages, items)
    }

    /// Waits until a session does not run any more.
    pub(crate) fn settled(&self, session: &str) -> Value {
        let until = std::time::Instant::now() + PATIENCE;
        loop {
            let info = self.get(&format!("/api/sessions/{session}"));
            if info["state"] != "running" && info["waiting"] == 0
                || info["state"] == "suspended"
                || !info["pending_prompt"].is_null()
            {
                return info;
            }
            assert!(std::time::Instant::now() < until, "stuck: {info}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn unchunked(body: &str) -> Option<String> {
    let (mut rest, mut whole) = (body, String::new());
    loop {
        let (size, after) = rest.split_once("\r\n")?;
        let size = usize::from_str_radix(size.trim(), 16).ok()?;
        if size == 0 {
            return Some(whole);
        }
        whole.push_str(after.get(..size)?);
        rest = after.get(size + 2..)?;
    }
}

/// A model server that speaks chat completions and counts what runs at once.
///
/// The words of the last user message decide: `slow` streams with pauses, `tool` calls the client's first tool, `dispatch: TASK`
/// starts a worker, anything else is answered at once. Conversations are told apart by the first user message.
pub(crate) struct Model {
    pub(crate) url: String,
    counts: Arc<Mutex<HashMap<String, (usize, usize)>>>,
    stop: Arc<AtomicBool>,
}

impl Model {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
        let (counts, stop) = (
            Arc::<Mutex<HashMap<String, (usize, usize)>>>::default(),
            Arc::new(AtomicBool::new(false)),
        );
        let (shared, stopped) = (counts.clone(), stop.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let shared = shared.clone();
                std::thread::spawn(move || {
                    let _ = answer(stream, &shared);
                });
            }
        });
        Self { url, counts, stop }
    }

    /// A configuration that uses it.
    pub(crate) fn configure(&self, data: &Path, more: &str) {
        let config = format!(
            "{more}\n[defaults]\nprovider = \"model\"\n[providers.model]\nkind = \"openai\"\nbase_url = \"{}\"\nmodel = \"m\"\n",
            self.url
        );
        std::fs::create_dir_all(data).expect("a directory");
        std::fs::write(data.join("ctx.toml"), config).expect("a configuration");
    }

    /// The most requests of one conversation that ever were at once.
    pub(crate) fn most_at_once(&self) -> usize {
        self.counts.lock().expect("no panic").values().map(|(_, most)| *most).max().unwrap_or(0)
    }

    pub(crate) fn conversations(&self) -> usize {
        self.counts.lock().expect("no panic").len()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.url.trim_start_matches("http://").trim_end_matches("/v1"));
    }
}

fn answer(
    mut stream: TcpStream,
    counts: &Mutex<HashMap<String, (usize, usize)>>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let messages = request["messages"].as_array().cloned().unwrap_or_default();
    let words = |message: &Value| message["content"].as_str().unwrap_or_default().to_owned();
    let first =
        messages.iter().find(|message| message["role"] == "user").map(words).unwrap_or_default();
    let tag = first.split(' ').next().unwrap_or_default().to_owned();
    let _counted = Counted::begin(counts, &tag);
    stream.write_all(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n",
    )?;
    let mut say = |delta: Value, finish: Value| {
        let chunk = json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
        stream.write_all(format!("data: {chunk}\n\n").as_bytes())
    };
    let last = messages.last().cloned().unwrap_or_default();
    let said = words(&last);
    if let Some(task) = said.strip_prefix("dispatch: ").filter(|_| last["role"] == "user") {
        let arguments = json!({"task": task}).to_string();
        let function = json!({"name": "dispatch_to_agent", "arguments": arguments});
        say(
            json!({"tool_calls": [{"index": 0, "id": "d1", "type": "function", "function": function}]}),
            Value::Null,
        )?;
        say(json!({}), json!("tool_calls"))?;
    } else if last["role"] == "user" && said.contains("tool") && request["tools"].is_array() {
        let call = json!({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]});
        say(call, Value::Null)?;
        say(json!({}), json!("tool_calls"))?;
    } else {
        let count = if said.contains("slow") { 30 } else { 2 };
        for n in 0..count {
            say(json!({"content": format!("w{n} ")}), Value::Null)?;
            if count > 2 {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        say(json!({}), json!("stop"))?;
    }
    stream.write_all(b"data: [DONE]\n\n")
}

struct Counted<'a> {
    counts: &'a Mutex<HashMap<String, (usize, usize)>>,
    tag: String,
}

impl<'a> Counted<'a> {
    fn begin(counts: &'a Mutex<HashMap<String, (usize, usize)>>, tag: &str) -> Self {
        let mut all = counts.lock().expect("no panic");
        let (now, most) = all.entry(tag.to_owned()).or_default();
        *now += 1;
        *most = (*most).max(*now);
        Self { counts, tag: tag.to_owned() }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        if let Some((now, _)) = self.counts.lock().expect("no panic").get_mut(&self.tag) {
            *now -= 1;
        }
    }
}

/// Numbers from a seed.
pub(crate) struct Dice(u64);

impl Dice {
    /// From `CTX_CRASH_SEED`, or from the clock; printed, so that a run can be repeated.
    pub(crate) fn cast(what: &str) -> Self {
        let given = std::env::var("CTX_CRASH_SEED").ok().and_then(|text| text.parse().ok());
        let seed = given.unwrap_or_else(|| {
            u64::from(std::process::id()) * 2_654_435_761
                + std::time::UNIX_EPOCH.elapsed().map_or(1, |at| at.as_millis() as u64 % 1_000_000)
        });
        println!("{what}: CTX_CRASH_SEED={seed}");
        Self::seeded(seed)
    }

    pub(crate) const fn seeded(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % n
    }
}
