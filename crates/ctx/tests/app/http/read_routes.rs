//! Read routes on an almost empty store, and on work that the command line recorded.

use serde_json::{Value, json};

use crate::harness::ctx;
use crate::harness::server::Server;

#[test]
fn an_empty_session_has_empty_lists() {
    let server = Server::start();
    server.session("s");
    for (path, key) in [
        ("messages", "messages"),
        ("turns", "turns"),
        ("tree", "turns"),
        ("history", "history"),
        ("inbox", "inbox"),
        ("tasks", "tasks"),
    ] {
        let list = server.get(&format!("/api/sessions/s/{path}")).is(200);
        assert_eq!((&list[key], &list["next_cursor"]), (&json!([]), &Value::Null), "{path}");
    }
    assert_eq!(server.get("/api/sessions/s/task").is(200), json!({"task": null}));
    assert_eq!(server.get("/api/commits").is(200), json!({"commits": [], "next_cursor": null}));
    assert_eq!(server.get("/api/search?q=nothing").is(200)["hits"], json!([]));
    let providers = server.get("/api/providers").is(200);
    assert_eq!(
        (&providers["providers"][0]["id"], &providers["providers"][0]["available"]),
        (&json!("demo"), &json!(true))
    );
}

#[test]
fn work_recorded_by_the_command_line_is_readable_over_http() {
    let server = Server::start();
    let verb = |arguments: &[&str]| {
        let output = ctx(server.dir.path()).args(arguments).output().expect("ctx");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    verb(&["stage", "start", "Plant the apple trees"]);
    let content = "x".repeat(5000);
    std::fs::write(server.dir.path().join("plan.txt"), &content).expect("a file");
    verb(&["stage", "observe", "file-write", "plan.txt"]);
    let task = server.get("/api/sessions/main/task").is(200);
    assert_eq!(
        (&task["task"]["description"], &task["task"]["state"]["name"]),
        (&json!("Plant the apple trees"), &json!("running"))
    );
    verb(&["stage", "compact", "-m", "Planted three"]);
    assert_eq!(server.get("/api/sessions/main/task").is(200)["task"], Value::Null);
    assert_eq!(
        server.get("/api/sessions/main/tasks").is(200)["tasks"][0]["id"],
        task["task"]["id"]
    );
    let commits = server.get("/api/commits?limit=1").is(200);
    let commit = &commits["commits"][0];
    assert_eq!(
        (&commit["message"], &commit["task"]),
        (&json!("Planted three"), &task["task"]["id"])
    );
    let id = commit["id"].as_str().expect("an id");
    assert_eq!(server.get(&format!("/api/commits/{id}")).is(200), *commit);
    let hits = server.get("/api/search?q=planted").is(200);
    let main = server.get("/api/sessions/main").is(200);
    assert_eq!(
        (&hits["hits"][0]["kind"], &hits["hits"][0]["session"]),
        (&json!("task"), &main["id"])
    );
    let blob = commit["files"].to_string();
    let hash = blob.split('"').find(|word| word.len() == 64).expect("a blob").to_owned();
    let answer = server.get(&format!("/api/blobs/{hash}"));
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, Some("text/plain; charset=utf-8"))
    );
    assert_eq!(answer.text(), content);
    assert_eq!(
        server.post("/api/sessions/main/task/reopen", &json!({})).is(200)["task"]["state"]["name"],
        "running"
    );
}

/// Every page of a list, one row at a time.
fn paged(server: &Server, path: &str, key: &str) -> Vec<Value> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let mark = if path.contains('?') { '&' } else { '?' };
        let page = server.get(&format!("{path}{mark}limit=1{cursor}")).is(200);
        let rows = page[key].as_array().expect("a list");
        assert!(rows.len() <= 1, "{page}");
        all.extend(rows.iter().cloned());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return all,
        }
        assert!(all.len() < 100, "it never ends");
    }
}

#[test]
fn history_tasks_and_hits_come_in_pages() {
    let server = Server::start();
    let verb = |arguments: &[&str]| {
        let output = ctx(server.dir.path()).args(arguments).output().expect("ctx");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    for n in 0..4 {
        verb(&["stage", "start", &format!("needle number{n}")]);
        verb(&["stage", "compact", "-m", &format!("found needle number{n}")]);
        verb(&["session", "send", "main", &format!("needle said{n}")]);
    }
    for (path, key, at_least) in [
        ("/api/sessions/main/history", "history", 4),
        ("/api/sessions/main/tasks", "tasks", 4),
        ("/api/search?q=needle", "hits", 4),
    ] {
        let whole = server.get(path).is(200);
        assert_eq!(whole["next_cursor"], Value::Null, "{path}");
        let whole = whole[key].as_array().expect("a list").clone();
        assert!(whole.len() >= at_least, "{path}: {whole:?}");
        assert_eq!(paged(&server, path, key), whole, "{path}");
    }
    for path in
        ["/api/sessions/main/history?", "/api/sessions/main/tasks?", "/api/search?q=needle&"]
    {
        server.get(&format!("{path}cursor=nonsense")).refuses(422, "invalid_cursor");
    }
    server
        .get("/api/sessions/main/tasks?cursor=01ARZ3NDEKTSV4RRFFQ69G5FAV")
        .refuses(404, "no_cursor");
}

#[test]
fn a_label_that_looks_like_an_id_is_refused() {
    let server = Server::start();
    let id = server.session("s")["id"].as_str().expect("an id").to_owned();
    for label in ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "01arz3ndektsv4rrffq69g5fav"] {
        for body in [json!({"label": label}), json!({"label": label, "message": "help"})] {
            let problem = server.post("/api/sessions", &body).refuses(422, "bad_label");
            assert!(
                problem["detail"]
                    .as_str()
                    .is_some_and(|told| told.contains("has the form of a session id")),
                "{problem}"
            );
        }
    }
    server
        .post(&format!("/api/sessions/{id}/fork"), &json!({"label": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}))
        .refuses(422, "bad_label");
    assert_eq!(server.labels("?status=all"), ["s"]);
}
