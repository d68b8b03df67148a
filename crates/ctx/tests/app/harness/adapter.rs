//! The channel adapters of `examples/`, as processes, and a `ctx serve` that they can find again.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use super::command;
use super::server::{Home, Server, configure};

/// The secret of every channel.
pub(crate) const SECRET: &str = "a secret of the tests";
/// The policies of `docs/channels.md`. Each message gets a reply of its own: by default, a newer
/// message interrupts the run of an older one, which then gets none.
const POLICIES: &str = r#"policies:
  - name: known-dm
    match: {principal: {type: known}, delivery: {peer_kind: dm}}
    session: {key: "dm:{principal.entity_id}"}
    modifiers: {queue_mode: followup}
  - name: unknown-dm
    match: {principal: {type: unknown}, delivery: {peer_kind: dm}}
    session: {key: "dm:{delivery.channel}:{delivery.sender_id}"}
    modifiers: {queue_mode: followup}
  - name: group
    match: {delivery: {peer_kind: group}}
    session: {key: "group:{delivery.channel}:{delivery.peer_id}"}
    modifiers: {queue_mode: followup}
"#;

/// A port that a process can bind again after it was killed. It is below the ports that the system
/// gives to connections, and differs between processes that run tests.
pub(crate) fn fixed_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let offset = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 20_000 + (std::process::id() % 1_000) as u16 * 12 + offset;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// The configuration and the policies of a server with adapters. `more` comes before them.
pub(crate) fn configure_channels(home: &Path, more: &str, channels: &[(&str, u16)]) {
    let mut config = more.to_owned();
    for (name, port) in channels {
        config.push_str(&format!(
            "[channels.{name}]\nurl = \"http://127.0.0.1:{port}/\"\nsecret_env = \"{}\"\n",
            secret_variable(name)
        ));
    }
    configure(home, &config);
    std::fs::write(home.join("data/policies.yaml"), POLICIES).expect("policies");
}

fn secret_variable(channel: &str) -> String {
    format!("CTX_{}_SECRET", channel.to_uppercase())
}

/// A server at a fixed port that knows the secrets.
pub(crate) fn serve(home: &Home, port: u16) -> Server {
    Server::spawn(home.clone(), &format!("127.0.0.1:{port}"), |command| {
        let command = command.env("CTX_LOG", "error");
        command.env(secret_variable("line"), SECRET).env(secret_variable("irc"), SECRET)
    })
}

/// What adapters printed, of this one and those before it.
pub(crate) type Printed = Arc<Mutex<Vec<String>>>;

/// A running adapter; killed when it is dropped.
pub(crate) struct Adapter {
    child: Child,
    input: ChildStdin,
    readers: Vec<JoinHandle<()>>,
}

/// How an adapter is started.
#[derive(Clone)]
pub(crate) struct AdapterCommand {
    /// `line` or `irc`.
    pub(crate) channel: &'static str,
    pub(crate) ctx_port: u16,
    pub(crate) port: u16,
    pub(crate) home: PathBuf,
    pub(crate) options: Vec<String>,
    pub(crate) printed: Printed,
}

impl AdapterCommand {
    pub(crate) fn journal(&self) -> PathBuf {
        self.home.join(format!("{}.journal", self.channel))
    }

    /// Starts an adapter, which may not accept anything yet.
    pub(crate) fn spawn(&self) -> Adapter {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
        let name = self.channel;
        let script = root.join(format!("{name}-adapter/{name}_adapter.py"));
        let mut command = command("python3", &self.home, &self.home);
        command.env(secret_variable(name), SECRET).env("PYTHONDONTWRITEBYTECODE", "1");
        command.arg(script).args(["--ctx", &format!("http://127.0.0.1:{}", self.ctx_port)]);
        command.args(["--listen", &format!("127.0.0.1:{}", self.port)]).args(&self.options);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("python3 starts");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let printed = self.printed.clone();
        let reader = std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                printed.lock().expect("no panic").push(line);
            }
        });
        Adapter { child, input, readers: vec![reader] }
    }

    /// Starts an adapter and waits until it accepts messages and deliveries.
    pub(crate) fn start(&self) -> Adapter {
        let mut adapter = self.spawn();
        let mut errors = BufReader::new(adapter.child.stderr.take().expect("piped"));
        let mut line = String::new();
        errors.read_line(&mut line).expect("a line");
        assert!(line.starts_with("deliveries: "), "the adapter starts: {line}");
        adapter.readers.push(std::thread::spawn(move || {
            for line in errors.lines().map_while(Result::ok) {
                println!("{line}");
            }
        }));
        adapter
    }
}

impl Adapter {
    /// Writes a line to its input.
    pub(crate) fn say(&mut self, text: &str) {
        self.input.write_all(format!("{text}\n").as_bytes()).expect("it reads");
    }

    /// Ends it with SIGKILL, and waits until everything that it printed is collected.
    pub(crate) fn kill(self) {
        drop(self);
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
    }
}
