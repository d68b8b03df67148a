//! `ctx provider`: which providers are found, which one is used and why, and whether it works.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::repo::Repo;

/// A local model server that lists two models and answers one request at a time.
fn models(list: &'static str, answer: impl Fn() -> String + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    // The thread ends with the process of the tests.
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
            let text = loop {
                let read = stream.read(&mut buffer).unwrap_or(0);
                bytes.extend_from_slice(&buffer[..read]);
                let text = String::from_utf8_lossy(&bytes).to_lowercase();
                let Some((head, body)) = text.split_once("\r\n\r\n") else {
                    if read == 0 {
                        break text;
                    }
                    continue;
                };
                let length = head
                    .lines()
                    .find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok())
                    .unwrap_or(0);
                if body.len() >= length || read == 0 {
                    break text;
                }
            };
            let reply = if text.starts_with("get /v1/models") {
                format!(
                    "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
                     \r\n{list}",
                    list.len()
                )
            } else {
                answer()
            };
            let _ = stream.write_all(reply.as_bytes());
        }
    });
    port
}

fn ready() -> String {
    let chunk = |delta: Value, reason: Value| {
        json!({"choices": [{"index": 0, "delta": delta,
        "finish_reason": reason}]})
    };
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 1}});
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\ndata: {}\n\
         \ndata: {}\n\ndata: {usage}\n\ndata: [DONE]\n\n",
        chunk(json!({"content": "ready"}), Value::Null),
        chunk(json!({}), json!("stop")),
    )
}

fn refused() -> String {
    let body =
        r#"{"error":{"message":"Incorrect API key provided","type":"invalid_request_error"}}"#;
    format!("HTTP/1.1 401 x\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

const LIST: &str =
    r#"{"object":"list","data":[{"id":"nomic-embed-text"},{"id":"llama3","max_model_len":4096}]}"#;

/// A project on a machine that has only what the test installs.
fn alone() -> Repo {
    let mut repo = Repo::new().with("CTX_DISCOVERY_ENABLED", "true");
    repo.configure("[discovery]\nservers = {}\n");
    for kind in ["OPENAI", "ANTHROPIC"] {
        for what in ["API_KEY", "BASE_URL", "MODEL"] {
            repo.set(&format!("{kind}_{what}"), "");
        }
    }
    let path = repo.beside("bin");
    std::fs::create_dir(&path).expect("a directory");
    repo.set("PATH", path.to_str().expect("a plain path"));
    repo
}

fn program(dir: &Path, name: &str, mode: u32) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, "#!/bin/sh\nexit 1\n").expect("a program");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("rights");
    path
}

fn ids(list: &Value) -> Vec<&str> {
    list["providers"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| one["id"].as_str().expect("an id"))
        .collect()
}

fn one<'a>(list: &'a Value, id: &str) -> &'a Value {
    list["providers"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|one| one["id"] == id)
        .unwrap_or_else(|| panic!("{id} in {list}"))
}

#[test]
fn without_any_provider_the_demo_agent_answers() {
    let repo = alone();
    let list = repo.ok(["provider", "list"]);
    assert_eq!((ids(&list), &list["default"]), (vec!["demo"], &json!("demo")));
    assert!(
        list["default_reason"].as_str().is_some_and(|why| why.contains("no other provider")),
        "{list}"
    );
    let said = repo.says(["provider", "list"]);
    assert!(said.contains("* demo") && said.contains("Default provider: demo"), "{said}");
}

#[test]
fn keys_agents_and_servers_are_found_in_order_of_preference() {
    let mut repo = alone();
    let bin = repo.beside("bin");
    let port = models(LIST, ready);
    repo.configure(format!("[discovery.servers]\nollama = {port}\nnobody = 1\n"));
    program(&bin, "opencode", 0o755);
    program(&bin, "codex-acp", 0o644);
    program(&bin, "pi", 0o755);

    // Only a server: its models are listed, and the chat model is used.
    let list = repo.ok(["provider", "list"]);
    assert_eq!(
        ids(&list),
        ["demo", "ollama", "opencode", "pi"],
        "what cannot be run is no agent, and nobody is at port 1"
    );
    let found = one(&list, "ollama");
    assert_eq!(
        (&found["kind"], &found["model"], &found["context_window"]),
        (&json!("openai"), &json!("llama3"), &json!(4096))
    );
    assert_eq!(found["auth"]["required"], false);
    assert_eq!(
        (&one(&list, "opencode")["kind"], &one(&list, "pi")["kind"]),
        (&json!("acp"), &json!("pi"))
    );
    assert!(
        one(&list, "opencode")["origin"]
            .as_str()
            .is_some_and(|origin| origin.contains("bin/opencode is on PATH")),
        "{list}"
    );
    let usable = |id: &str| one(&list, id)["available"] == true;
    let expected = if usable("opencode") { "opencode" } else { "ollama" };
    assert_eq!(list["default"], expected, "agents go before servers, where they can be run");

    // A key is preferred to both, and its value is printed nowhere.
    repo.set("ANTHROPIC_API_KEY", "sk-ant-secret-value");
    let list = repo.ok(["provider", "list"]);
    assert_eq!(
        (&list["default"], &list["default_reason"]),
        (&json!("anthropic"), &json!("ANTHROPIC_API_KEY is set"))
    );
    repo.set("OPENAI_API_KEY", "sk-secret-value");
    repo.set("OPENAI_BASE_URL", &format!("http://127.0.0.1:{port}/v1"));
    let list = repo.ok(["provider", "list"]);
    assert_eq!(list["default"], "openai");
    assert!(!list.to_string().contains("secret-value"));
    assert_eq!(one(&list, "openai")["auth"]["how"], "set the environment variable OPENAI_API_KEY");

    repo.set("OPENAI_BASE_URL", "nowhere");
    let (exit, error) = repo.fails(["provider", "list"]);
    assert_eq!((exit, &error["code"]), (2, &json!("bad_config")));
    assert!(
        error["message"]
            .as_str()
            .is_some_and(|text| text.contains("OPENAI_API_KEY and OPENAI_BASE_URL are set")),
        "{error}"
    );

    // A configured provider is preferred to all that are found.
    repo.configure("[providers.mine]\nkind = \"demo\"\n");
    let list = repo.ok(["provider", "list"]);
    assert_eq!((ids(&list), &list["default"]), (vec!["demo", "mine"], &json!("mine")));
}

#[test]
fn a_conversation_runs_with_the_provider_that_was_found() {
    let repo = alone();
    let port = models(LIST, ready);
    repo.configure(format!("[discovery.servers]\nvllm = {port}\n"));
    let said = repo.says(["run", "hello"]);
    assert!(said.contains("ready"), "{said}");
    let doctor = repo.ok(["doctor"]);
    let checks = doctor["checks"].as_array().expect("checks");
    let finding = checks.iter().find(|check| check["check"] == "providers").expect("a finding");
    assert_eq!(finding["ok"], true);
    assert!(
        finding["detail"]
            .as_str()
            .is_some_and(|detail| detail.starts_with("default provider vllm")),
        "{finding}"
    );
}

#[test]
fn a_silent_or_foreign_server_does_not_delay_discovery() {
    let repo = alone();
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let page = models("<html></html>", ready);
    let empty = models(r#"{"data":[]}"#, ready);
    let silent_port = silent.local_addr().expect("an address").port();
    repo.configure(format!(
        "[discovery.servers]\nsilent = {silent_port}\npage = {page}\nempty = {empty}\n"
    ));
    assert_eq!(ids(&repo.ok(["provider", "list"])), ["demo"]);
}

#[test]
fn provider_test_prints_the_checks_and_their_times() {
    let repo = Repo::new();
    let port = models(LIST, ready);
    repo.configure(format!(
        "[providers.local]\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:{port}/v1\"\n"
    ));
    let before = repo.ok(["session", "list"]);
    let told = repo.ok(["provider", "test", "local"]);
    assert_eq!(
        (&told["ok"], &told["answer"], &told["provider"]),
        (&json!(true), &json!("ready"), &json!("local"))
    );
    for time in ["start_ms", "first_word_ms", "whole_ms"] {
        assert!(told[time].is_u64(), "{time} in {told}");
    }
    assert_eq!(
        (&told["usage"]["input_tokens"], &told["usage"]["output_tokens"]),
        (&json!(12), &json!(1))
    );
    let said = repo.says(["provider", "test", "local"]);
    assert!(
        said.contains("local answered: ready")
            && said.contains("first text")
            && said.contains("12 input tokens, 1 output tokens"),
        "{said}"
    );
    assert!(repo.says(["provider", "test", "demo"]).contains("demo answered"));
    assert_eq!(repo.ok(["session", "list"]), before, "nothing is stored");
}

#[test]
fn a_failing_provider_test_prints_a_hint() {
    let repo = Repo::new();
    let port = models(LIST, refused);
    let gone =
        TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
    repo.configure(format!(
        "[providers.local]\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:{port}/v1\"\n\
         [providers.gone]\nkind = \"anthropic\"\nbase_url = \"http://127.0.0.1:{gone}\"\n\
         api_key_env = \"\"\nmodel = \"m\"\n\
         [providers.keyless]\nkind = \"anthropic\"\napi_key_env = \"CTX_TEST_NO_SUCH_KEY\"\n"
    ));
    let table = [
        ("local", 1, "auth_required", "key"),
        ("gone", 1, "unreachable", "base_url"),
        ("keyless", 1, "provider_unavailable", "ctx.toml"),
        ("nobody", 2, "unknown_provider", "ctx provider list"),
    ];
    for (name, exit, code, hint) in table {
        let (left, error) = repo.fails(["provider", "test", name]);
        assert_eq!((left, &error["code"]), (exit, &json!(code)), "{error}");
        assert!(error["hint"].as_str().is_some_and(|text| text.contains(hint)), "{error}");
    }
    let (_, error) = repo.fails(["provider", "test", "keyless"]);
    assert!(
        error["message"].as_str().is_some_and(|text| text.contains("set CTX_TEST_NO_SUCH_KEY")),
        "{error}"
    );
}

#[test]
fn a_wrong_configuration_is_named() {
    let repo = Repo::new();
    let table = [
        (
            "[providers.x]\nkind = \"openai\"\napi = \"soap\"\n",
            "providers.x: invalid api `soap`: use `chat` or `responses`",
        ),
        (
            "[providers.x]\nkind = \"anthropic\"\nbase_url = \"nowhere\"\n",
            "providers.x: invalid base_url `nowhere`",
        ),
        ("[providers.x]\nkind = \"oracle\"\n", "providers.x: unknown kind `oracle`"),
        ("[discovery]\nservers = { a = 70000 }\n", "ctx.toml, line 2"),
    ];
    for (config, message) in table {
        repo.configure(config);
        let (exit, error) = repo.fails(["provider", "list"]);
        assert_eq!(exit, 2, "{error}");
        assert!(error["message"].as_str().is_some_and(|text| text.contains(message)), "{error}");
    }
}
