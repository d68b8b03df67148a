//! No provider's key reaches the store, the log, the events or the exports, whatever its server repeats.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use serde_json::{Value, json};

use crate::lab::{Client, ctx};
use crate::models::{Models, completion, whole};

const OPENAI_KEY: &str = "sk-proj-openaiOPENAI0123456789";
const ANTHROPIC_KEY: &str = "sk-ant-anthropicANTHROPIC0123456789";

/// A server whose log is kept.
struct Logged {
    child: Child,
    client: Client,
    log: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

fn serve(data: &Path) -> Logged {
    let mut child = ctx(data)
        .args(["serve", "--listen", "127.0.0.1:0", "--json"])
        .envs([
            ("OPENAI_TEST_KEY", OPENAI_KEY),
            ("ANTHROPIC_TEST_KEY", ANTHROPIC_KEY),
            ("CTX_LOG", "trace"),
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("ctx starts");
    let log = Arc::<Mutex<Vec<u8>>>::default();
    let (kept, mut stderr) = (log.clone(), child.stderr.take().expect("piped"));
    let reader = std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(read @ 1..) = stderr.read(&mut bytes) {
            kept.lock().expect("no panic").extend_from_slice(&bytes[..read]);
        }
    });
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    let told: Value = serde_json::from_str(&line).expect("a document");
    let address =
        told["address"].as_str().expect("an address").trim_start_matches("http://").to_owned();
    Logged { child, client: Client { address }, log, reader }
}

/// Every file below a directory.
fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let entries =
        std::fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path());
    let read = |path: std::path::PathBuf| {
        if path.is_dir() {
            files(&path)
        } else {
            vec![(path.display().to_string(), std::fs::read(&path).unwrap_or_default())]
        }
    };
    entries.flat_map(read).collect()
}

fn assert_silent(what: &str, bytes: &[u8]) {
    for key in [OPENAI_KEY, ANTHROPIC_KEY] {
        let found = bytes.windows(key.len()).position(|window| window == key.as_bytes());
        let near =
            found.map(|at| String::from_utf8_lossy(&bytes[at.saturating_sub(80)..at]).into_owned());
        assert_eq!(near, None, "a key is in {what}");
    }
}

/// Repeats the key that came, in every way that a server has.
fn echo(number: usize, key: &str) -> String {
    let error = json!({"type": "error", "error": {"type": "authentication_error", "message": format!("Wrong key: {key}")}}).to_string();
    match number % 4 {
        0 => whole(401, &error),
        1 => completion(&format!("Your key is {key}")),
        2 => format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\ndata: {error}\n\n"
        ),
        _ => format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\ndata: garbage {key}\n\n"
        ),
    }
}

#[test]
fn no_key_is_stored_logged_or_told() {
    let models = Models::start(|number, asked| echo(number, &asked.key));
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    std::fs::create_dir(&data).expect("a directory");
    let provider = |name: &str, kind: &str, api: &str, base: &str, key: &str| {
        format!(
            "[providers.{name}]\nkind = \"{kind}\"\nbase_url = \"{base}\"\n{api}api_key_env = \"{key}\"\nmodel = \"m\"\ncontext_window = 100000\n"
        )
    };
    let v1 = format!("{}/v1", models.url);
    let config = [
        // Packed words would hide a key from who looks for it.
        "[store]\ncompress = false\n".to_owned(),
        provider("chat", "openai", "", &v1, "OPENAI_TEST_KEY"),
        provider("responses", "openai", "api = \"responses\"\n", &v1, "OPENAI_TEST_KEY"),
        provider("claude", "anthropic", "", &models.url, "ANTHROPIC_TEST_KEY"),
    ];
    std::fs::write(data.join("ctx.toml"), config.concat()).expect("a configuration");
    let Logged { mut child, client, log, reader } = serve(&data);

    // Each provider meets each way.
    for name in ["chat", "responses", "claude"] {
        client.post("/api/sessions", &json!({"label": name, "provider_id": name}));
        for _ in 0..4 {
            let wait = [("prefer", "wait=30")];
            let said = client.try_ask(
                "POST",
                &format!("/api/sessions/{name}/messages"),
                &wait,
                Some(&json!({"text": "hello"})),
            );
            assert!(said.as_ref().is_some_and(|said| matches!(said.status, 200 | 202)), "{said:?}");
        }
        for path in ["messages", "turns", "tree", "history", "inbox", "task"] {
            let answer = client.ask("GET", &format!("/api/sessions/{name}/{path}"), None);
            assert_silent(path, answer.body.to_string().as_bytes());
        }
        let messages = client.get(&format!("/api/sessions/{name}/messages")).to_string();
        assert!(
            messages.contains("[key]"),
            "the server's words are told without the key: {messages}"
        );
    }
    let came: std::collections::BTreeSet<String> =
        models.asked().into_iter().map(|asked| asked.key).collect();
    assert_eq!(
        came,
        [ANTHROPIC_KEY, OPENAI_KEY].map(str::to_owned).into(),
        "the servers were given the keys"
    );
    for path in [
        "/api/sessions",
        "/api/providers",
        "/api/openapi.json",
        "/api/search?q=key",
        "/api/commits",
        "/metrics",
        "/healthz",
    ] {
        assert_silent(path, client.ask("GET", path, None).body.to_string().as_bytes());
    }
    let asked = Command::new("kill").arg(child.id().to_string()).status();
    assert!(
        asked.is_ok_and(|status| status.success())
            && child.wait().is_ok_and(|status| status.success())
    );
    reader.join().expect("the log is read");
    let log = log.lock().expect("no panic").clone();
    assert!(
        String::from_utf8_lossy(&log).contains("TRACE")
            || String::from_utf8_lossy(&log).contains("DEBUG"),
        "it logs all there is"
    );
    assert_silent("the log", &log);
    let mut seen = 0;
    for (name, bytes) in files(&data) {
        assert_silent(&name, &bytes);
        seen += bytes.windows(5).filter(|window| window == b"[key]").count();
    }
    assert!(seen >= 12, "what the servers said is there, without the key: {seen}");
}
