//! One fault at a time: wrong passwords, too many connections, other schemas, a wrong clock.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

use crate::harness::server::{Home, Server, configured_home, home};
use crate::harness::test_store::postgres_server::Server as Postgres;
use crate::harness::{ctx, wait_until};

const DEMO: &str = "[defaults]\nprovider = \"demo\"\n[providers.demo]\nkind = \"demo\"\n";
/// Longest difference between a stored time and the database's clock, in milliseconds.
const SKEW_MAX_MS: i64 = 120_000;

/// Runs `ctx serve` on a database where it cannot start.
fn serve(url: &str, log: &str) -> Output {
    let home = home();
    let mut command = ctx(home.path());
    command.args(["serve", "--listen", "127.0.0.1:0", "--json", "--store", url]);
    command.env("CTX_LOG", log).output().expect("ctx runs")
}

/// The error of a start that failed.
#[track_caller]
fn problem(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(output.stdout.is_empty(), "it did not listen");
    let last = text.lines().last().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|e| panic!("{e} in {text}"))
}

/// A node on a database.
fn node(home: &Home, url: &str, set: impl FnOnce(&mut Command) -> &mut Command) -> Server {
    Server::spawn(home.clone(), "127.0.0.1:0", |command| {
        set(command.env("CTX_STORE", url).env("CTX_LOG", "off"))
    })
}

#[test]
fn a_wrong_password_ends_the_start_and_is_printed_nowhere() {
    let postgres = Postgres::start("", false);
    let database = postgres.create_database();
    let url = postgres.url(&database).replace("p%25ss", "wr0ng");
    let output = serve(&url, "trace");
    let problem = problem(&output);
    let message = problem["message"].as_str().expect("a message");
    let place = format!("127.0.0.1:{}/{database}", postgres.port);
    assert!(message.contains(&place), "{message}");
    assert!(message.contains("password authentication failed"), "{message}");
    let text = String::from_utf8_lossy(&output.stderr);
    for part in ["wr0ng", "p%ss", "p%25ss"] {
        assert!(!text.contains(part), "{text}");
    }
}

/// Connections that do nothing.
struct Idle(Vec<Child>);

impl Idle {
    fn open(postgres: &Postgres, database: &str, count: usize) -> Self {
        let connect = |_| {
            // It waits for its input.
            let mut command = postgres.psql(database);
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().expect("psql")
        };
        Self((0..count).map(connect).collect())
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = (child.kill(), child.wait());
        }
    }
}

#[test]
fn a_server_without_free_connections_is_reported_and_survived() {
    let postgres = Postgres::start("-c max_connections=30", false);
    let database = postgres.create_database();
    let url = postgres.url(&database);
    let node = node(&configured_home(DEMO), &url, |command| command);
    node.session("one");
    let say = |text: &str| {
        let path = "/api/sessions/one/messages";
        node.try_send("POST", path, &[("idempotency-key", text)], &json!({"text": text}))
    };
    let status = || ctx(home().path()).args(["--json", "status"]).env("CTX_STORE", &url).output();
    let mut idle = vec![Idle::open(&postgres, &database, 30)];
    wait_until("a verb finds no free connection", || {
        // The node may have closed some of its own meanwhile.
        idle.push(Idle::open(&postgres, &database, 5));
        let output = status().expect("ctx runs");
        let text = String::from_utf8_lossy(&output.stderr);
        output.status.code() == Some(1) && text.contains("too many clients")
    });
    // The node has connections. It answers, or says that it cannot.
    let sent: Vec<_> = (0..20).map(|n| say(&format!("m{n}")).expect("a response")).collect();
    for response in &sent {
        assert!(matches!(response.status, 202 | 503), "{}", response.text());
    }
    drop(idle);
    wait_until("a verb finds a connection", || status().is_ok_and(|done| done.status.success()));
    for (n, before) in sent.iter().enumerate() {
        let again = say(&format!("m{n}")).expect("a response").is(202);
        if before.status == 202 {
            assert_eq!(again["message_id"], before.body["message_id"]);
        }
    }
    node.settled("one");
    let (messages, _) = node.everything("one");
    let count = messages.iter().filter(|message| message["role"] == "user").count();
    assert_eq!(count, 20, "each message once");
}

#[test]
fn a_node_serves_a_newer_schema_until_it_needs_a_newer_writer() {
    let postgres = Postgres::start("", false);
    let database = postgres.create_database();
    let url = postgres.url(&database);
    let home = configured_home(DEMO);
    let first = node(&home, &url, |command| command);
    first.session("one");
    let set = |key: &str, value: &str| {
        let sql = format!("UPDATE meta SET value = '{value}' WHERE key = '{key}'");
        postgres.execute(&database, &sql);
    };
    // Two versions serve at the same time.
    let known = postgres.execute(&database, "SELECT value FROM meta WHERE key = 'schema'");
    let newer = (known.trim().parse::<u32>().expect("a number") + 1).to_string();
    set("schema", &newer);
    let second = node(&configured_home(DEMO), &url, |command| command);
    for server in [&first, &second] {
        server.post("/api/sessions/one/messages", &json!({"text": "hello"})).is(202);
        server.settled("one");
    }
    set("min_writer", &newer);
    let refused = first.post("/api/sessions/one/messages", &json!({"text": "hello"}));
    assert_eq!(refused.json()["code"], "store_too_new", "{}", refused.text());
    first.get("/readyz").is(503);
    assert_eq!(problem(&serve(&url, "off"))["code"], "store_too_new");
    set("min_writer", known.trim());
    first.get("/readyz").is(200);
    first.post("/api/sessions/one/messages", &json!({"text": "again"})).is(202);
    first.settled("one");
    assert_eq!(first.read("/api/sessions/one")["turn_count"], 3);
}

#[test]
fn a_migration_that_fails_changes_nothing() {
    let postgres = Postgres::start("", false);
    let database = postgres.create_database();
    let url = postgres.url(&database);
    let home = configured_home(DEMO);
    let server = node(&home, &url, |command| command);
    server.session("one");
    drop(server);
    // No older schema was released: the first migration meets the tables of a newer one.
    let known = postgres.execute(&database, "SELECT value FROM meta WHERE key = 'schema'");
    postgres.execute(&database, "UPDATE meta SET value = '0' WHERE key = 'schema'");
    let content = || {
        let dump = postgres.dump(&database);
        // Two dumps differ in a random word.
        dump.lines().filter(|line| !line.contains("restrict ")).collect::<Vec<_>>().join("\n")
    };
    let before = content();
    let problem = problem(&serve(&url, "off"));
    assert!(problem["message"].as_str().is_some_and(|text| text.contains("exists")), "{problem}");
    assert!(content() == before, "nothing was changed");
    let known = known.trim();
    let sql = format!("UPDATE meta SET value = '{known}' WHERE key = 'schema'");
    postgres.execute(&database, &sql);
    let server = node(&home, &url, |command| command);
    server.read("/api/sessions/one");
}

/// The library that gives a process another clock; from the package libfaketime.
fn faketime() -> Option<PathBuf> {
    let libraries = std::fs::read_dir("/usr/lib").ok()?.flatten();
    libraries
        .map(|entry| entry.path().join("faketime/libfaketime.so.1"))
        .find(|library| library.exists())
}

#[test]
fn a_node_whose_clock_is_an_hour_off_stores_the_times_of_the_database() {
    let Some(library) = faketime() else {
        println!("SKIPPED: libfaketime is not installed; wrong clocks were not tested");
        return;
    };
    let postgres = Postgres::start("", false);
    let database = postgres.create_database();
    let url = postgres.url(&database);
    let off = |by: &'static str| {
        let library = library.clone();
        node(&configured_home(DEMO), &url, move |command| {
            command.env("LD_PRELOAD", library).env("FAKETIME", by);
            command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        })
    };
    let nodes = [off("+1h"), off("-1h"), node(&configured_home(DEMO), &url, |command| command)];
    for (n, server) in nodes.iter().enumerate() {
        let label = format!("s{n}");
        server.session(&label);
        // The runs overlap: no node may take the others for dead.
        let body = json!({"text": "slow 20"});
        server.post(&format!("/api/sessions/{label}/messages"), &body).is(202);
        let queued = json!({"text": "hello", "queue_mode": "queue"});
        server.post(&format!("/api/sessions/{label}/messages"), &queued).is(202);
    }
    for n in 0..nodes.len() {
        let reader = &nodes[(n + 1) % nodes.len()];
        let info = reader.settled(&format!("s{n}"));
        assert_eq!((&info["turn_count"], &info["state"]), (&json!(2), &json!("idle")), "{info}");
    }
    let recovered = "SELECT count(*) FROM runs WHERE recoveries > 0 OR outcome <> 'completed'";
    assert_eq!(postgres.execute(&database, recovered).trim(), "0");
    for (table, column) in [
        ("sessions", "created_at"),
        ("sessions", "last_activity_at"),
        ("runs", "started_at"),
        ("runs", "ended_at"),
        ("events", "at"),
        ("session_history", "changed_at"),
    ] {
        let sql = format!(
            "SELECT max(abs({column} - extract(epoch FROM now()) * 1000))::bigint FROM {table}"
        );
        let skew: i64 = postgres.execute(&database, &sql).trim().parse().expect("a number");
        assert!(skew < SKEW_MAX_MS, "{table}.{column} is off by {skew} ms");
    }
}
