//! Export and import of sessions: verified, never duplicated, never over the label of another
//! session.

use serde_json::{Value, json};

use crate::harness::client::Response;
use crate::harness::ctx;
use crate::harness::server::Server;

const BUNDLE: &str = "application/vnd.ctx.bundle";

fn say(server: &Server, session: &str, text: &str) {
    let headers = [("content-type", "application/json"), ("prefer", "wait=20")];
    let answer = server.ask(
        "POST",
        &format!("/api/sessions/{session}/messages"),
        &headers,
        json!({"text": text}).to_string().as_bytes(),
    );
    assert_eq!(answer.is(200)["state"], "idle");
}

fn verb(server: &Server, arguments: &[&str]) -> Value {
    let output = ctx(server.dir.path()).args(arguments).arg("--json").output().expect("ctx");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("a document")
}

fn export(server: &Server, session: &str) -> Vec<u8> {
    let answer = server.get(&format!("/api/sessions/{session}/export"));
    assert_eq!((answer.status, answer.header("content-type")), (200, Some(BUNDLE)));
    answer.bytes
}

fn import(server: &Server, bytes: &[u8]) -> Response {
    server.ask("POST", "/api/sessions/import", &[("content-type", BUNDLE)], bytes)
}

fn history(server: &Server, session: &str) -> (Value, Value) {
    let messages =
        server.get(&format!("/api/sessions/{session}/messages?limit=1000")).is(200)["messages"]
            .clone();
    let mut turns =
        server.get(&format!("/api/sessions/{session}/turns?limit=1000")).is(200)["turns"].clone();
    turns.as_array_mut().expect("turns").iter_mut().for_each(|turn| turn["session"] = Value::Null);
    (messages, turns)
}

/// A session with turns, a sealed task with a blob, and an open task.
fn full() -> Server {
    let server = Server::start();
    server
        .post("/api/sessions", &json!({"label": "main", "title": "A title", "model": "m"}))
        .is(201);
    server.send("PATCH", "/api/sessions/main", &json!({"options": {"mode": "careful"}})).is(200);
    for text in ["first", "second", "third"] {
        say(&server, "main", text);
    }
    std::fs::write(server.dir.path().join("plan.txt"), "x".repeat(5000)).expect("a file");
    verb(&server, &["stage", "start", "Plant the apple trees"]);
    verb(&server, &["stage", "observe", "file-write", "plan.txt"]);
    verb(&server, &["stage", "compact", "-m", "Planted three"]);
    verb(&server, &["stage", "start", "Water them"]);
    verb(&server, &["stage", "ask", "How often?"]);
    server
}

#[test]
fn an_imported_session_equals_the_exported_one() {
    let (from, to) = (full(), Server::start());
    let bytes = export(&from, "main");
    assert_eq!(bytes, export(&from, "main"), "the same each time");
    let arrived = import(&to, &bytes).is(201);
    assert_eq!(
        (&arrived["arrival"], &arrived["turns_added"], &arrived["tasks_added"]),
        (&json!("created"), &json!(3), &json!(2))
    );
    let (here, there) =
        (from.get("/api/sessions/main").is(200), to.get("/api/sessions/main").is(200));
    for field in
        ["id", "label", "title", "project", "model", "options", "head", "turn_count", "created_at"]
    {
        assert_eq!(there[field], here[field], "{field}");
    }
    assert_eq!(there["origin"], "import");
    assert_eq!(history(&to, "main"), history(&from, "main"));
    for list in ["/api/sessions/main/tasks", "/api/commits"] {
        assert_eq!(to.get(list).is(200), from.get(list).is(200), "{list}");
    }
    assert_eq!(there["task"]["state"]["name"], "awaiting_user");
    let blob = to
        .get("/api/commits")
        .is(200)
        .to_string()
        .split('"')
        .find(|word| word.len() == 64 && to.get(&format!("/api/blobs/{word}")).status == 200)
        .map(str::to_owned);
    assert_eq!(to.get(&format!("/api/blobs/{}", blob.expect("a blob"))).text(), "x".repeat(5000));
    assert_eq!(verb(&to, &["verify"])["findings"], json!([]));
    say(&to, "main", "and the session continues here");
}

#[test]
fn importing_a_bundle_twice_gives_one_session() {
    let (from, to) = (full(), Server::start());
    let bytes = export(&from, "main");
    let first = import(&to, &bytes).is(201);
    let second = import(&to, &bytes).is(200);
    assert_eq!(second["session"]["id"], first["session"]["id"]);
    assert_eq!(
        (&second["arrival"], &second["turns_added"], &second["tasks_added"], &second["tasks_left"]),
        (&json!("unchanged"), &json!(0), &json!(0), &json!(0))
    );
    assert_eq!(import(&from, &bytes).is(200)["arrival"], "unchanged", "where it comes from, too");
    // Newer turns are added; an older bundle changes nothing.
    say(&from, "main", "fourth");
    let newer = export(&from, "main");
    let third = import(&to, &newer).is(200);
    assert_eq!((&third["arrival"], &third["turns_added"]), (&json!("extended"), &json!(1)));
    assert_eq!(import(&to, &bytes).is(200)["arrival"], "unchanged");
    assert_eq!(history(&to, "main"), history(&from, "main"));
    assert_eq!(to.labels("?status=all"), ["main"]);
    assert_eq!(verb(&to, &["verify"])["findings"], json!([]));
}

#[test]
fn an_import_does_not_take_the_label_of_another_session() {
    let (from, to) = (full(), Server::start());
    to.session("main");
    say(&to, "main", "something else");
    let before = history(&to, "main");
    let bytes = export(&from, "main");
    let first = import(&to, &bytes).is(201);
    assert_eq!(
        (&first["renamed_from"], &first["session"]["id"]),
        (&json!("main"), &from.get("/api/sessions/main").is(200)["id"])
    );
    let label = first["session"]["label"].as_str().expect("a label").to_owned();
    assert!(label.starts_with("main~"), "{label}");
    assert_eq!(import(&to, &bytes).is(200)["session"]["label"], json!(label));
    assert_eq!(history(&to, "main"), before);
    // Two branches from the same turn are two sessions, and each import finds its own session
    // again.
    say(&from, "main", "this way");
    say(&to, &label, "that way");
    let parted = export(&from, "main");
    let third = import(&to, &parted).is(201);
    assert!(
        third["session"]["id"] != first["session"]["id"]
            && third["session"]["label"] != first["session"]["label"],
        "{third}"
    );
    assert_eq!(import(&to, &parted).is(200)["session"]["id"], third["session"]["id"]);
    assert_eq!(to.labels("?status=all").len(), 3);
    let diff = to
        .get(&format!(
            "/api/sessions/{label}/diff/{}",
            third["session"]["label"].as_str().expect("a label")
        ))
        .is(200);
    assert_eq!(diff["ancestor"]["depth"], 3, "what they share is stored once");
    assert_eq!(verb(&to, &["verify"])["findings"], json!([]));
}

#[test]
fn an_imported_fork_shares_its_turns_with_its_origin() {
    let (from, to) = (full(), Server::start());
    from.post("/api/sessions/main/fork", &json!({"label": "idea"})).is(201);
    say(&from, "idea", "another way");
    import(&to, &export(&from, "main")).is(201);
    let arrived = import(&to, &export(&from, "idea")).is(201);
    assert_eq!(arrived["turns_added"], 4);
    assert!(
        to.get("/metrics").text().lines().any(|line| line == "ctx_turns 4"),
        "each is stored once"
    );
    assert_eq!(history(&to, "idea"), history(&from, "idea"));
}

#[test]
fn a_damaged_or_foreign_bundle_is_refused_completely() {
    let (from, to) = (full(), Server::start());
    let bytes = export(&from, "main");
    for at in (0..bytes.len()).step_by(bytes.len() / 40) {
        let mut bad = bytes.clone();
        bad[at] ^= 0x20;
        let answer = import(&to, &bad);
        assert_eq!(answer.status, 422, "byte {at}: {}", answer.text());
    }
    import(&to, &bytes[..bytes.len() - 1]).refuses(422, "bundle_damaged");
    import(&to, b"hello").refuses(422, "not_a_bundle");
    to.ask("POST", "/api/sessions/import", &[("content-type", "application/json")], b"{}")
        .refuses(415, "not_a_bundle_type");
    let task = from.dir.path().join("task.bundle");
    verb(&from, &["stage", "export", "-o", task.to_str().expect("a path")]);
    import(&to, &std::fs::read(task).expect("a bundle")).refuses(422, "other_bundle");
    assert_eq!(to.labels("?status=all"), Vec::<String>::new(), "nothing was made");
    from.get("/api/sessions/nobody/export").refuses(404, "no_session");
}

#[test]
fn the_command_line_exports_and_imports_sessions() {
    let (from, to) = (full(), Server::start());
    let file = from.dir.path().join("main.bundle");
    let path = file.to_str().expect("a path");
    let told = verb(&from, &["export", "main", "-o", path]);
    assert_eq!(
        (&told["label"], &told["turn_count"], &told["tasks"]),
        (&json!("main"), &json!(3), &json!(2))
    );
    assert_eq!(
        std::fs::read(&file).expect("a file"),
        export(&from, "main"),
        "the same bytes as over HTTP"
    );
    let arrived = verb(&to, &["import", path]);
    assert_eq!(
        (&arrived["arrival"], &arrived["session"]["label"]),
        (&json!("created"), &json!("main"))
    );
    assert_eq!(history(&to, "main"), history(&from, "main"));
    let wrong = ctx(to.dir.path()).args(["stage", "import", path, "--json"]).output().expect("ctx");
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("other_bundle"));
}

#[test]
fn an_import_drops_a_working_directory_outside_the_local_roots() {
    let (from, to) = (Server::start(), Server::start());
    let dir = from.dir.path().join("work");
    std::fs::create_dir(&dir).expect("a directory");
    from.post("/api/sessions", &json!({"label": "main", "working_dir": dir})).is(201);
    let arrived = import(&to, &export(&from, "main")).is(201);
    assert_eq!(
        (&arrived["session"]["working_dir"], &arrived["session"]["track_tasks"]),
        (&Value::Null, &json!(true))
    );
}
