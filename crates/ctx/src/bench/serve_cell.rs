//! The cell `serve`: a real `ctx serve` process, a model server without delay, and HTTP clients.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime};

use ctx_engine::NewEntity;
use ctx_engine::core::identity::Address;
use ctx_engine::core::session::Origin;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

use crate::problem::Problem;

use super::{CellArgs, open};

/// Numbers of concurrent clients.
const CLIENTS: [u64; 3] = [1, 16, 64];
/// A client starts a new session after this many messages, as in the append cells.
const MESSAGES_PER_SESSION: u64 = 100;
/// A client pauses when this many of its messages are waiting.
const BACKLOG: u64 = 16;
/// Linked senders of the cell `inbound`, and how many of them one client uses in a round.
const SENDERS: u64 = 10_000;
const SENDERS_PER_CLIENT: u64 = 100;
/// Policies of the cell `inbound`.
const POLICIES: u64 = 100;
/// Number of deltas whose delay is measured.
const DELTAS: usize = 400;

fn failed(error: impl std::fmt::Display) -> Problem {
    Problem::failed("bench", error.to_string())
}

/// Answers every request with one word. If the request contains `stamps`, it sends [`DELTAS`]
/// deltas that contain the time in microseconds.
async fn serve_model(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            let _ = answer_requests(stream).await;
        });
    }
}

async fn answer_requests(stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    loop {
        let Some(body) = read_message(&mut stream).await? else { return Ok(()) };
        let stamps = body.windows(6).rposition(|window| window == b"stamps").is_some();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
            Transfer-Encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).await?;
        for _ in 0..if stamps { DELTAS } else { 1 } {
            if stamps {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            let delta = json!({"content": format!("{} ", micros())});
            let chunk = json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
            write_chunk(&mut stream, &format!("data: {chunk}\n\n")).await?;
        }
        let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
        write_chunk(&mut stream, &format!("data: {end}\n\ndata: [DONE]\n\n")).await?;
        stream.write_all(b"0\r\n\r\n").await?;
    }
}

async fn write_chunk(stream: &mut BufReader<TcpStream>, text: &str) -> std::io::Result<()> {
    stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).await
}

fn micros() -> u128 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_micros()
}

/// Reads a head and its body. `None` at the end of the connection.
async fn read_message(stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<Vec<u8>>> {
    let mut length = 0;
    let mut lines = 0;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        lines += 1;
        if line.trim().is_empty() && lines > 1 {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(Some(body))
}

struct Server {
    child: Child,
    address: String,
    /// Time from the start of the process to the first response of `/healthz`.
    startup: Duration,
}

impl Server {
    /// Starts a server on the store in the directory, or on another one.
    async fn start(dir: &Path, store: Option<&str>) -> Result<Self, Problem> {
        let began = Instant::now();
        let program = std::env::current_exe().map_err(failed)?;
        let mut child = Command::new(program)
            .arg("--data")
            .arg(dir)
            .args(store.iter().flat_map(|url| ["--store", url]))
            .args(["serve", "--listen", "127.0.0.1:0", "--json"])
            .env("CTX_LOG", "error")
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let mut line = String::new();
        let stdout =
            child.stdout.take().ok_or_else(|| failed("the server has no standard output"))?;
        BufReader::new(stdout).read_line(&mut line).await.map_err(failed)?;
        let started: Value = serde_json::from_str(&line).map_err(failed)?;
        let address = started["address"]
            .as_str()
            .unwrap_or_default()
            .trim_start_matches("http://")
            .to_owned();
        let mut client = Client::connect(&address).await?;
        client.ask("GET", "/healthz", None).await?;
        Ok(Self { child, address, startup: began.elapsed() })
    }

    /// Processor time so far, in clock ticks.
    fn cpu_ticks(&self) -> u64 {
        let path = format!("/proc/{}/stat", self.child.id().unwrap_or(0));
        let stat = std::fs::read_to_string(path).unwrap_or_default();
        // The fields after the name of the process, which may contain spaces.
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
    }

    fn rss_mb(&self) -> f64 {
        let path = format!("/proc/{}/statm", self.child.id().unwrap_or(0));
        let statm = std::fs::read_to_string(path).unwrap_or_default();
        statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<f64>().ok()).unwrap_or(0.0)
            * 4096.0
            / 1_048_576.0
    }
}

struct Client {
    stream: BufReader<TcpStream>,
    /// A further header line, or nothing.
    header: &'static str,
}

impl Client {
    async fn connect(address: &str) -> Result<Self, Problem> {
        let stream = TcpStream::connect(address).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        Ok(Self { stream: BufReader::new(stream), header: "" })
    }

    async fn ask(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Problem> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        let (header, length) = (self.header, body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{kind}{header}\
             Content-Length: {length}\r\n\r\n{body}"
        );
        self.stream.write_all(head.as_bytes()).await.map_err(failed)?;
        let answer = read_message(&mut self.stream).await.map_err(failed)?.unwrap_or_default();
        Ok(serde_json::from_slice(&answer).unwrap_or(Value::Null))
    }
}

impl Client {
    /// Polls until at most `left` messages are waiting.
    async fn wait_for_inbox(&mut self, label: &str, left: u64) -> Result<(), Problem> {
        while self.ask("GET", &format!("/api/sessions/{label}"), None).await?["waiting"]
            .as_u64()
            .is_some_and(|waiting| waiting > left)
        {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }
}

/// Starts a model server and writes a configuration that uses it.
async fn configure(dir: &Path) -> Result<(), Problem> {
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
    let url = format!("http://{}/v1", listener.local_addr().map_err(failed)?);
    tokio::spawn(serve_model(listener));
    std::fs::create_dir_all(dir).map_err(failed)?;
    let config = format!(
        "[defaults]\nprovider = \"m\"\n[providers.m]\nkind = \"openai\"\nbase_url = \"{url}\"\n\
         model = \"m\"\n[inbox]\ncap = 100000\n"
    );
    std::fs::write(dir.join("ctx.toml"), config).map_err(failed)
}

/// Messages from a channel beside plain messages: 10,000 linked senders and 100 policies. The two
/// are measured in turns.
pub(super) async fn inbound(cell: &CellArgs) -> Result<Value, Problem> {
    configure(&cell.dir).await?;
    let others: String = (0..POLICIES - 1)
        .map(|n| {
            let channel = format!("{{delivery: {{channel: other-{n}}}}}");
            format!("- {{name: p{n}, priority: 90, match: {channel}, session: {{key: 'x:{n}'}}}}\n")
        })
        .collect();
    let known = "- {name: known, match: {principal: {type: known}}, \
        session: {key: 'dm:{principal.entity_id}'}}\n";
    std::fs::write(cell.dir.join("policies.yaml"), format!("{others}{known}")).map_err(failed)?;
    let engine = open(&cell.dir)?;
    for n in 0..SENDERS {
        let new = NewEntity { name: format!("Person {n}"), ..NewEntity::default() };
        let entity = engine.entities().create(new).await?;
        let (channel, sender_id) = ("bench".to_owned(), format!("sender-{n}"));
        let address = Address { channel, account_id: None, sender_id };
        engine.entities().link(entity.id, address, true).await?;
    }
    drop(engine);
    let server = Server::start(&cell.dir, None).await?;
    let mut rounds = Vec::new();
    for round in 0..cell.rounds {
        let plain = format!("plain{round}");
        let plain = measure_messages(&[&server], &plain, Way::Label, 16, cell.seconds).await?;
        let channel = round.to_string();
        let inbound = measure_messages(&[&server], &channel, Way::Sender, 16, cell.seconds).await?;
        let rate = |value: &Value| value["answered"].as_f64().unwrap_or(0.0);
        let ratio = rate(&inbound) / rate(&plain).max(1.0);
        rounds.push(json!({"plain": plain, "inbound": inbound, "ratio": ratio}));
    }
    Ok(json!({"entities": SENDERS, "policies": POLICIES, "rounds": rounds}))
}

pub(super) async fn serve(cell: &CellArgs) -> Result<Value, Problem> {
    configure(&cell.dir).await?;
    let server = Server::start(&cell.dir, None).await?;
    let mut rates = serde_json::Map::new();
    for clients in CLIENTS {
        let name = format!("c{clients}");
        let rate = measure_messages(&[&server], &name, Way::Label, clients, cell.seconds).await?;
        rates.insert(clients.to_string(), rate);
    }
    let deltas = measure_deltas(&server).await?;
    drop(server);
    let idle = measure_idle(cell).await?;
    Ok(json!({"messages_per_s": rates, "delta_ms": deltas, "idle": idle}))
}

/// Answered messages through one and through several servers on one store, in turns, and the
/// processor time that the servers take of it. All share the cores of this machine with the
/// database and the clients.
pub(super) async fn nodes(cell: &CellArgs) -> Result<Value, Problem> {
    let store = std::env::var("BENCH_STORE").ok();
    configure(&cell.dir).await?;
    drop(open(&cell.dir)?);
    let mut rounds = Vec::new();
    for round in 0..cell.rounds {
        for count in [1, cell.count.max(1)] {
            let mut servers = Vec::new();
            for _ in 0..count {
                servers.push(Server::start(&cell.dir, store.as_deref()).await?);
            }
            let servers: Vec<&Server> = servers.iter().collect();
            for clients in CLIENTS {
                let name = format!("r{round}-{count}-{clients}");
                let cpu = || servers.iter().map(|server| server.cpu_ticks()).sum::<u64>();
                let (began, before) = (Instant::now(), (processor_ticks(), cpu()));
                let rate =
                    measure_messages(&servers, &name, Way::Answered, clients, cell.seconds).await?;
                let (idle, ticks) = (processor_ticks(), cpu() - before.1);
                let total = (idle.1 - before.0.1).max(1) as f64;
                rounds.push(json!({
                    "nodes": count, "clients": clients, "answered": rate["answered"],
                    "p50_ms": rate["p50_ms"], "p99_ms": rate["p99_ms"],
                    "idle": (idle.0 - before.0.0) as f64 / total,
                    "nodes_cpu": ticks as f64 / total, "seconds": began.elapsed().as_secs_f64(),
                }));
            }
        }
    }
    Ok(json!({"rounds": rounds}))
}

/// The ticks that the processors were idle, and all ticks.
fn processor_ticks() -> (u64, u64) {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let first = stat.lines().next().unwrap_or_default();
    let ticks: Vec<u64> =
        first.split_whitespace().skip(1).take(8).filter_map(|it| it.parse().ok()).collect();
    (ticks.iter().skip(3).take(2).sum(), ticks.iter().sum())
}

/// How a client addresses its session.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// By its label.
    Label,
    /// By its label. The response waits for the answer.
    Answered,
    /// As a sender on a channel.
    Sender,
}

/// Rates of acknowledged and answered messages. Each client uses its own sessions.
async fn measure_messages(
    servers: &[&Server],
    name: &str,
    way: Way,
    clients: u64,
    seconds: f64,
) -> Result<Value, Problem> {
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    let drive = |n: u64| {
        let server = servers[n as usize % servers.len()];
        let (address, name) = (server.address.clone(), name.to_owned());
        tokio::spawn(async move {
            let mut client = Client::connect(&address).await?;
            if way == Way::Answered {
                client.header = "Prefer: wait=30\r\n";
            }
            let mut took = Vec::new();
            for part in 0.. {
                let mut label = format!("{name}-{n}-{part}");
                let mut path = "/api/inbound".to_owned();
                let mut body = json!({"text": "hello", "queue_mode": "queue"});
                if way != Way::Sender {
                    client.ask("POST", "/api/sessions", Some(&json!({"label": label}))).await?;
                    path = format!("/api/sessions/{label}/messages");
                } else {
                    let round: u64 = name.parse().map_err(failed)?;
                    let sender = ((round * clients + n) * SENDERS_PER_CLIENT + part) % SENDERS;
                    body["channel"] = json!("bench");
                    body["sender_id"] = json!(format!("sender-{sender}"));
                }
                for _ in 0..MESSAGES_PER_SESSION {
                    if Instant::now() >= until {
                        client.wait_for_inbox(&label, 0).await?;
                        return Ok(took);
                    }
                    let began = Instant::now();
                    let answer = client.ask("POST", &path, Some(&body)).await?;
                    if answer["message_id"].is_null() {
                        return Err(failed(answer));
                    }
                    if let (Way::Sender, Some(found)) = (way, answer["label"].as_str()) {
                        found.clone_into(&mut label);
                    }
                    took.push(began.elapsed());
                    if answer["position"].as_u64().is_some_and(|position| position >= BACKLOG) {
                        client.wait_for_inbox(&label, BACKLOG / 2).await?;
                    }
                }
                // The measurement includes answering the acknowledged messages.
                client.wait_for_inbox(&label, 0).await?;
            }
            Ok::<_, Problem>(took)
        })
    };
    let began = Instant::now();
    let mut took = Vec::new();
    for task in (0..clients).map(drive).collect::<Vec<_>>() {
        took.extend(task.await.map_err(failed)??);
    }
    let answered = took.len() as f64 / began.elapsed().as_secs_f64();
    took.sort_unstable();
    let at = |p: f64| {
        took.get(((took.len().max(1) - 1) as f64 * p) as usize)
            .map_or(0.0, |took| took.as_secs_f64() * 1e3)
    };
    Ok(json!({
        "acknowledged": took.len() as f64 / seconds,
        "answered": answered,
        "p50_ms": at(0.5),
        "p99_ms": at(0.99),
    }))
}

/// Delay of deltas from the model to a client, in milliseconds.
async fn measure_deltas(server: &Server) -> Result<Value, Problem> {
    let mut client = Client::connect(&server.address).await?;
    client.ask("POST", "/api/sessions", Some(&json!({"label": "stamps"}))).await?;
    let mut stream = BufReader::new(TcpStream::connect(&server.address).await.map_err(failed)?);
    stream
        .write_all(b"GET /api/sessions/stamps/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await
        .map_err(failed)?;
    client.ask("POST", "/api/sessions/stamps/messages", Some(&json!({"text": "stamps"}))).await?;
    let mut delays = Vec::new();
    let mut line = String::new();
    while delays.len() < DELTAS {
        line.clear();
        if stream.read_line(&mut line).await.map_err(failed)? == 0 {
            break;
        }
        let Some(data) = line.strip_prefix("data:") else { continue };
        let now = micros();
        let event: Value = serde_json::from_str(data.trim()).map_err(failed)?;
        let sent = event["text"]
            .as_str()
            .into_iter()
            .flat_map(str::split_whitespace)
            .filter_map(|word| word.parse::<u128>().ok());
        delays.extend(sent.map(|at| now.saturating_sub(at) as f64 / 1e3));
    }
    delays.sort_unstable_by(f64::total_cmp);
    let at = |p: f64| {
        delays.get(((delays.len().max(1) - 1) as f64 * p) as usize).copied().unwrap_or(0.0)
    };
    Ok(json!({"p50": at(0.5), "p99": at(0.99), "count": delays.len()}))
}

/// Memory and startup time of a server with many idle sessions.
async fn measure_idle(cell: &CellArgs) -> Result<Value, Problem> {
    const SESSIONS: u64 = 10_000;
    let dir = cell.dir.join("idle");
    std::fs::create_dir_all(&dir).map_err(failed)?;
    let engine = open(&dir)?;
    for n in 0..SESSIONS {
        engine.sessions().create_idle(&format!("s{n}"), Origin::Api).await?;
    }
    drop(engine);
    // Without this, the server would first replay the log, as after a crash.
    super::store_cells::checkpoint(&dir);
    let server = Server::start(&dir, None).await?;
    let mut client = Client::connect(&server.address).await?;
    client.ask("GET", "/api/sessions?limit=1000", None).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    Ok(json!({
        "sessions": SESSIONS,
        "rss_mb": server.rss_mb(),
        "healthz_after_start_ms": server.startup.as_secs_f64() * 1e3,
    }))
}
