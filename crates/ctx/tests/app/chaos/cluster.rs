//! Three nodes, a proxy and a PostgreSQL server, and the faults that happen to them.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::client::Client;
use crate::harness::ctx;
use crate::harness::server::{Home, configured_home, signal};
use crate::harness::test_store::postgres_server::Server as Postgres;

use super::proxy::{Cut, Proxy};

/// Longest time that a node may take to start while the database restarts.
const START_MAX: Duration = Duration::from_secs(60);
/// How long an armed cut waits for a connection that sends its bytes.
const CUT_MAX: Duration = Duration::from_secs(3);

/// Where the nodes are. A node that has ended keeps its address until it runs again.
pub(super) type Addresses = Arc<Mutex<Vec<Client>>>;

pub(super) struct Cluster {
    pub(super) postgres: Postgres,
    pub(super) database: String,
    proxy: Proxy,
    homes: Vec<Home>,
    nodes: Vec<Option<Child>>,
    /// When a stopped node continues.
    stopped: Vec<Option<Instant>>,
    pub(super) addresses: Addresses,
}

impl Cluster {
    /// Starts everything. What was acknowledged must survive, so the server syncs.
    pub(super) fn start(nodes: usize, config: &str) -> Self {
        let postgres = Postgres::start("-c fsync=on -c full_page_writes=on", false);
        let database = postgres.create_database();
        let proxy = Proxy::to(postgres.port);
        let mut cluster = Self {
            postgres,
            database,
            proxy,
            homes: (0..nodes).map(|_| configured_home(config)).collect(),
            nodes: (0..nodes).map(|_| None).collect(),
            stopped: vec![None; nodes],
            addresses: Arc::default(),
        };
        for node in 0..nodes {
            let client = cluster.spawn(node);
            cluster.addresses.lock().expect("no panic").push(client);
        }
        cluster
    }

    /// The URL of the database without the proxy.
    pub(super) fn url(&self) -> String {
        self.postgres.url(&self.database)
    }

    /// Rows of a query.
    pub(super) fn rows(&self, sql: &str) -> Vec<Vec<String>> {
        let text = self.postgres.execute(&self.database, sql);
        text.lines().map(|line| line.split('|').map(str::to_owned).collect()).collect()
    }

    /// Starts a node, again while the database cannot be reached.
    fn spawn(&mut self, node: usize) -> Client {
        let url = self
            .url()
            .replace(&format!(":{}/", self.postgres.port), &format!(":{}/", self.proxy.port));
        let deadline = Instant::now() + START_MAX;
        loop {
            let mut child = ctx(self.homes[node].path())
                .args(["serve", "--listen", "127.0.0.1:0", "--json"])
                .env("CTX_STORE", &url)
                .env("CTX_LOG", std::env::var("CTX_CHAOS_LOG").as_deref().unwrap_or("off"))
                .stdout(Stdio::piped())
                .spawn()
                .expect("ctx serve");
            let mut line = String::new();
            let output = child.stdout.take().expect("its output");
            BufReader::new(output).read_line(&mut line).expect("text");
            if let Ok(announced) = serde_json::from_str::<Value>(&line) {
                let address = announced["address"].as_str().expect("an address");
                self.nodes[node] = Some(child);
                return Client { address: address.parse().expect("an address") };
            }
            let ended = child.wait().expect("its end");
            assert!(Instant::now() < deadline, "node {node} does not start: {ended}");
        }
    }

    pub(super) fn kill(&mut self, node: usize) {
        let mut child = self.nodes[node].take().expect("it runs");
        child.kill().expect("a child");
        child.wait().expect("its end");
        self.stopped[node] = None;
    }

    pub(super) fn restart(&mut self, node: usize) {
        let client = self.spawn(node);
        self.addresses.lock().expect("no panic")[node] = client;
    }

    /// Stops a node with SIGSTOP. [`Cluster::resume_due`] continues it.
    pub(super) fn stop(&mut self, node: usize, time: Duration) {
        signal("-STOP", self.nodes[node].as_ref().expect("it runs").id());
        self.stopped[node] = Some(Instant::now() + time);
    }

    /// Continues stopped nodes whose time has passed.
    pub(super) fn resume_due(&mut self) {
        for node in 0..self.nodes.len() {
            if self.stopped[node].is_some_and(|until| until <= Instant::now()) {
                self.stopped[node] = None;
                signal("-CONT", self.nodes[node].as_ref().expect("it runs").id());
            }
        }
    }

    /// Waits until every stopped node has continued.
    pub(super) fn resume_all(&mut self) {
        while let Some(until) = self.stopped.iter().flatten().max() {
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
            self.resume_due();
        }
    }

    /// Nodes that run and are not stopped.
    pub(super) fn running(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|node| self.stopped[*node].is_none()).collect()
    }

    /// Cuts the next connection that sends these bytes; whether one did.
    pub(super) fn cut_at(&self, bytes: &str, cut: Cut) -> bool {
        self.proxy.cut_at(bytes, cut);
        let deadline = Instant::now() + CUT_MAX;
        while !self.proxy.has_cut() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.proxy.forget_cut()
    }

    pub(super) fn cut_all(&self) {
        self.proxy.cut_all();
    }

    /// Passes nothing between the nodes and the database for a time.
    pub(super) fn pause(&self, time: Duration) {
        self.proxy.pause(true);
        std::thread::sleep(time);
        self.proxy.pause(false);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.proxy.pause(false);
        for child in self.nodes.iter_mut().flatten() {
            let _ = (child.kill(), child.wait());
        }
    }
}
