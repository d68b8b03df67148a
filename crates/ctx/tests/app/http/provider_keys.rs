//! API keys of providers reach neither the store nor the log, the events or the exports, even if a
//! server repeats them.

use std::path::Path;

use serde_json::json;

use crate::harness::model_server::{ModelServer, completion, event_response, json_response};
use crate::harness::server::{Server, configured_home, log_to};

const OPENAI_KEY: &str = "sk-proj-openaiOPENAI0123456789";
const ANTHROPIC_KEY: &str = "sk-ant-anthropicANTHROPIC0123456789";

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

/// Repeats the API key of the request in each kind of response.
fn echo(number: usize, key: &str) -> String {
    let error = json!({"type": "error", "error": {"type": "authentication_error",
        "message": format!("Wrong key: {key}")}})
    .to_string();
    match number % 4 {
        0 => json_response(401, &error),
        1 => completion(&format!("Your key is {key}")),
        2 => event_response(&error),
        _ => event_response(&format!("garbage {key}")),
    }
}

#[test]
fn no_key_is_stored_logged_or_returned() {
    let models = ModelServer::responding(|number, asked| echo(number, &asked.key));
    let provider = |name: &str, kind: &str, api: &str, base: &str, key: &str| {
        format!(
            "[providers.{name}]\nkind = \"{kind}\"\nbase_url = \"{base}\"\n{api}api_key_env = \
             \"{key}\"\nmodel = \"m\"\ncontext_window = 100000\n"
        )
    };
    let v1 = format!("{}/v1", models.url);
    let config = [
        // Compression would hide a key from this test.
        "[store]\ncompress = false\n".to_owned(),
        provider("chat", "openai", "", &v1, "OPENAI_TEST_KEY"),
        provider("responses", "openai", "api = \"responses\"\n", &v1, "OPENAI_TEST_KEY"),
        provider("claude", "anthropic", "", &models.url, "ANTHROPIC_TEST_KEY"),
    ];
    let home = configured_home(&config.concat());
    let log = home.path().join("log");
    let server = Server::spawn(home.clone(), "127.0.0.1:0", |command| {
        let keys = [("OPENAI_TEST_KEY", OPENAI_KEY), ("ANTHROPIC_TEST_KEY", ANTHROPIC_KEY)];
        log_to(command, &log).envs(keys)
    });
    let client = server.client();

    // Each provider gets each kind of response.
    for name in ["chat", "responses", "claude"] {
        client.post("/api/sessions", &json!({"label": name, "provider_id": name}));
        for _ in 0..4 {
            let wait = [("prefer", "wait=30")];
            let path = format!("/api/sessions/{name}/messages");
            let said = client.try_send("POST", &path, &wait, &json!({"text": "hello"}));
            assert!(said.as_ref().is_ok_and(|said| matches!(said.status, 200 | 202)), "{said:?}");
        }
        for path in ["messages", "turns", "tree", "history", "inbox", "task"] {
            assert_silent(path, &client.get(&format!("/api/sessions/{name}/{path}")).bytes);
        }
        let messages = client.read(&format!("/api/sessions/{name}/messages")).to_string();
        assert!(
            messages.contains("[key]"),
            "the text of the server is stored without the key: {messages}"
        );
    }
    let came: std::collections::BTreeSet<String> =
        models.requests().into_iter().map(|asked| asked.key).collect();
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
        assert_silent(path, &client.get(path).bytes);
    }
    assert_eq!(server.end().0, Some(0));
    let log = std::fs::read(&log).expect("the log");
    assert!(
        String::from_utf8_lossy(&log).contains("TRACE")
            || String::from_utf8_lossy(&log).contains("DEBUG"),
        "it logs all there is"
    );
    assert_silent("the log", &log);
    let mut seen = 0;
    let database = home.sql().content();
    for (name, bytes) in files(&home.path().join("data")).into_iter().chain(database) {
        assert_silent(&name, &bytes);
        seen += bytes.windows(5).filter(|window| window == b"[key]").count();
    }
    assert!(seen >= 12, "the texts of the servers are stored without the key: {seen}");
}
