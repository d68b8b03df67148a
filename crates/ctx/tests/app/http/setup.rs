//! Setup over HTTP: `ctx.toml` is changed safely and takes effect, providers are tested, and
//! directories are listed under the roots only.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::ctx;
use crate::harness::model_server::ModelServer;
use crate::harness::server::{Server, configure, home};

const CONFIG: &str = "# kept\n[defaults]\non_new_task = \"auto\" # kept too\n";

fn model() -> ModelServer {
    ModelServer::responding(|_, _| {
        let text = json!({"choices": [{"index": 0, "delta": {"content": "ready"}}]});
        let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n\
             data: {text}\n\ndata: {end}\n\ndata: [DONE]\n\n"
        )
    })
}

fn local(model: &ModelServer) -> Value {
    json!({"kind": "openai", "base_url": format!("{}/v1", model.url), "model": "m"})
}

fn config_of(server: &Server) -> String {
    fs::read_to_string(server.dir.path().join("data/ctx.toml")).expect("a file")
}

#[test]
fn a_provider_is_tested_written_and_used_without_a_restart() {
    let (model, server) = (model(), Server::configured(CONFIG));
    let file = server.dir.path().join("data/ctx.toml");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("a mode");
    let setup = server.read("/api/setup");
    assert_eq!((&setup["default"], &setup["providers"]), (&json!("demo"), &json!([])));
    assert_eq!(setup["settings"]["defaults.on_new_task"], "auto");

    let draft = json!({"provider": "local", "draft": local(&model)});
    let tested = server.post("/api/setup/test", &draft).is(200);
    assert_eq!((&tested["ok"], &tested["answer"]), (&json!(true), &json!("ready")), "{tested}");
    assert_eq!(config_of(&server), CONFIG, "a test writes nothing");

    let mut body = local(&model);
    body["default"] = json!(true);
    let written = server.send("PUT", "/api/setup/providers/local", &body).is(200);
    assert_eq!(written["restart"], false, "{written}");
    let text = config_of(&server);
    assert!(text.starts_with("# kept\n[defaults]\non_new_task = \"auto\" # kept too\n"), "{text}");
    let backup = written["backup"].as_str().expect("a backup");
    assert_eq!(fs::read_to_string(backup).expect("the backup"), CONFIG);
    let mode = fs::metadata(&file).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o640, "the mode is kept");

    // The running server uses it, and so does the next process.
    assert_eq!(server.read("/api/providers")["default"], "local");
    let session = json!({"label": "s", "message": "hello"});
    let headers = [("content-type", "application/json"), ("prefer", "wait=20")];
    server.ask("POST", "/api/sessions", &headers, session.to_string().as_bytes()).is(201);
    let turn = server.read("/api/sessions/s/turns")["turns"][0].clone();
    assert_eq!((&turn["provider_id"], &turn["status"]), (&json!("local"), &json!("completed")));
    let list = ctx(server.dir.path()).args(["provider", "list", "--json"]).output().expect("ctx");
    let list: Value = serde_json::from_slice(&list.stdout).expect("a document");
    assert_eq!(list["default"], "local");

    let removed = server.send("DELETE", "/api/setup/providers/local", &Value::Null).is(200);
    assert_eq!(removed["restart"], false);
    assert_eq!(server.read("/api/providers")["default"], "demo");
    assert!(!config_of(&server).contains("local"), "{}", config_of(&server));
    server.send("DELETE", "/api/setup/providers/local", &Value::Null).refuses(404, "not_found");
}

#[test]
fn a_change_that_the_program_would_not_accept_changes_nothing() {
    let server = Server::configured(CONFIG);
    let put = |body: Value| server.send("PUT", "/api/setup/providers/local", &body);
    let key = json!({"kind": "openai", "api_key_env": "sk-secret-of-the-user"});
    let refused = put(key).refuses(422, "bad_provider");
    assert!(!refused.to_string().contains("sk-secret"), "the key is not repeated: {refused}");
    put(json!({"kind": "openai", "api_key": "sk-1"})).refuses(422, "invalid_body");
    put(json!({"kind": "magic"})).refuses(422, "bad_config");
    put(json!({"kind": "acp"})).refuses(422, "bad_config");
    put(json!({"kind": "openai", "base_url": "ftp://x"})).refuses(422, "bad_config");
    let name = |name: &str| format!("/api/setup/providers/{name}");
    server.send("PUT", &name("Bad%20Name"), &json!({"kind": "demo"})).refuses(422, "bad_provider");
    let settings = |body: Value| server.send("PATCH", "/api/setup/settings", &body);
    settings(json!({"clocks.task_ask": "soon"})).refuses(422, "bad_config");
    settings(json!({"defaults.provider": "nobody"})).refuses(422, "bad_config");
    settings(json!({"server.listen": "0.0.0.0:1"})).refuses(422, "invalid_body");
    assert_eq!(config_of(&server), CONFIG);
    assert!(!server.dir.path().join("data/ctx.toml.bak").exists(), "no backup without a change");

    let changed = settings(json!({"clocks.task_ask": "12h"})).is(200);
    assert_eq!(changed["restart"], true);
    assert_eq!(server.read("/api/setup")["settings"]["clocks.task_ask"], "12h");
    let test = json!({"provider": "nobody"});
    server.post("/api/setup/test", &test).refuses(422, "unknown_provider");
    let failing = json!({"provider": "x", "draft": {"kind": "acp", "command": ["/no/such/agent"]}});
    let failed = server.post("/api/setup/test", &failing).is(200);
    assert_eq!(failed["ok"], false, "{failed}");
    assert!(failed["message"].is_string() && failed["hint"].is_string(), "{failed}");
}

#[test]
fn a_link_stays_a_link_and_a_file_that_is_not_toml_is_not_replaced() {
    let dir = home();
    let elsewhere = dir.path().join("dotfiles.toml");
    fs::create_dir_all(dir.path().join("data")).expect("a directory");
    fs::write(&elsewhere, CONFIG).expect("a file");
    let link = dir.path().join("data/ctx.toml");
    symlink(&elsewhere, &link).expect("a link");
    let server = Server::in_dir(dir);
    let body = json!({"kind": "acp", "command": ["some agent", "--acp"]});
    server.send("PUT", "/api/setup/providers/agent", &body).is(200);
    assert!(fs::symlink_metadata(&link).expect("a link").file_type().is_symlink());
    let text = fs::read_to_string(&elsewhere).expect("a file");
    assert!(text.contains("command = [\"some agent\", \"--acp\"]"), "{text}");
    fs::write(&elsewhere, "not toml at all [").expect("a file");
    server.send("PUT", "/api/setup/providers/agent", &body).refuses(422, "bad_config");
    assert_eq!(fs::read_to_string(&elsewhere).expect("a file"), "not toml at all [");
}

#[test]
fn the_models_of_a_server_on_this_machine_are_listed() {
    let model = ModelServer::responding(|_, _| {
        let body =
            json!({"data": [{"id": "small"}, {"id": "embed-1"}, {"id": "large"}]}).to_string();
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    });
    let server = Server::configured(CONFIG);
    let models =
        |url: &str| server.read(&format!("/api/setup/models?base_url={url}"))["models"].clone();
    assert_eq!(models(&format!("{}/v1", model.url)), json!(["small", "large"]));
    assert_eq!(models("http://127.0.0.1:1/v1"), Value::Null, "nothing responds");
    assert_eq!(models("http://192.0.2.1:80/v1"), Value::Null, "other machines are not asked");
}

fn names(listing: &Value) -> Vec<&str> {
    let list = listing["directories"].as_array().expect("directories");
    list.iter().map(|one| one["name"].as_str().expect("a name")).collect()
}

#[test]
fn directories_are_listed_under_the_roots_only() {
    let dir = home();
    let (root, outside) = (dir.path().join("root"), dir.path().join("outside"));
    for path in ["root/b/.git", "root/a", "root/.hidden", "outside/secret"] {
        fs::create_dir_all(dir.path().join(path)).expect("a directory");
    }
    fs::write(root.join("file"), "").expect("a file");
    symlink(&outside, root.join("escape")).expect("a link");
    symlink(root.join("a"), root.join("inside")).expect("a link");
    configure(dir.path(), &format!("[server]\nroots = [{root:?}]\n"));
    let server = Server::in_dir(dir);
    let root = root.canonicalize().expect("a path");
    let under = |path: &Path| format!("/api/directories?under={}", path.display());
    let roots = server.read("/api/directories");
    assert_eq!((&roots["path"], names(&roots).len()), (&Value::Null, 1));
    let listing = server.read(&under(&root));
    assert_eq!(names(&listing), ["a", "b", "inside"], "no file, no dot, no way out");
    assert_eq!(listing["directories"][1]["repository"], true);
    assert_eq!(listing["parent"], Value::Null, "a root has nothing above it");
    assert_eq!(names(&server.read(&format!("{}&hidden=true", under(&root)))).len(), 4);
    let outside_root = "working_dir_outside_roots";
    for path in [root.join(".."), root.join("escape"), outside, Path::new("/").to_owned()] {
        server.get(&under(&path)).refuses(403, outside_root);
    }
    server.get("/api/directories?under=a").refuses(403, outside_root);
    server.get(&under(&root.join("none"))).refuses(409, "working_dir_missing");
}

#[test]
fn setup_needs_the_scope_admin() {
    let dir = home();
    configure(dir.path(), &format!("[server]\nroots = [{:?}]\n", dir.path()));
    let token = |scope: &str| {
        let arguments = ["token", "create", "--scope", scope, "--json"];
        let output = ctx(dir.path()).args(arguments).output().expect("ctx");
        let token: Value = serde_json::from_slice(&output.stdout).expect("a document");
        format!("Bearer {}", token["token"].as_str().expect("a token"))
    };
    let [read, write, admin] = ["read", "write", "admin"].map(token);
    let logs = tempfile::tempdir().expect("a directory");
    let server = Server::on_all_interfaces(dir.clone(), &logs.path().join("log"));
    let ask = |method: &str, path: &str, token: &str| {
        let headers = [("authorization", token), ("content-type", "application/json")];
        server.ask(method, path, &headers, b"{\"kind\": \"demo\"}")
    };
    for token in [&read, &write] {
        for (method, path) in [
            ("GET", "/api/setup"),
            ("PUT", "/api/setup/providers/x"),
            ("DELETE", "/api/setup/providers/x"),
            ("PATCH", "/api/setup/settings"),
            ("POST", "/api/setup/test"),
        ] {
            ask(method, path, token).refuses(403, "forbidden_scope");
        }
    }
    server.get("/api/setup").refuses(401, "unauthorized");
    ask("GET", "/api/setup", &admin).is(200);
    ask("GET", "/api/directories", &read).refuses(403, "forbidden_scope");
    ask("GET", "/api/directories", &write).is(200);
}
