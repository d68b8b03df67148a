//! Comparing two branches: their common ancestor, and the messages and file changes after it.

use serde_json::{Value, json};

use crate::harness::ctx;
use crate::harness::server::Server;

fn say(server: &Server, session: &str, text: &str) {
    let answer = server.ask(
        "POST",
        &format!("/api/sessions/{session}/messages"),
        &[("content-type", "application/json"), ("prefer", "wait=20")],
        json!({"text": text}).to_string().as_bytes(),
    );
    assert_eq!(answer.is(200)["state"], "idle");
}

/// The user messages of one side.
fn asked(side: &Value) -> Vec<&str> {
    let turns = side["turns"].as_array().expect("turns").iter();
    turns.map(|turn| turn["messages"][0]["content"][0]["text"].as_str().expect("words")).collect()
}

/// A session of three turns, and a fork from its second turn with turns of its own.
fn parted() -> (Server, Value) {
    let server = Server::start();
    server.session("main");
    say(&server, "main", "first");
    say(&server, "main", "second");
    let shared = server.get("/api/sessions/main").is(200)["head"].clone();
    server.post("/api/sessions/main/fork", &json!({"label": "idea"})).is(201);
    say(&server, "main", "third here");
    for text in ["third there", "fourth there", "fifth there"] {
        say(&server, "idea", text);
    }
    (server, shared)
}

#[test]
fn branches_are_compared_from_their_common_ancestor() {
    // R180, R182
    let (server, shared) = parted();
    let diff = server.get("/api/sessions/main/diff/idea").is(200);
    assert_eq!((&diff["ancestor"]["id"], &diff["ancestor"]["depth"]), (&shared, &json!(2)));
    assert_eq!(
        (asked(&diff["a"]), asked(&diff["b"])),
        (vec!["third here"], vec!["third there", "fourth there", "fifth there"])
    );
    assert_eq!(
        (&diff["a"]["own_turns"], &diff["b"]["own_turns"], &diff["next_cursor"]),
        (&json!(1), &json!(3), &Value::Null)
    );
    let page = server.get("/api/sessions/main/diff/idea?limit=2").is(200);
    assert_eq!(
        (asked(&page["a"]), asked(&page["b"])),
        (vec!["third here"], vec!["third there", "fourth there"])
    );
    let next = page["next_cursor"].as_str().expect("another page");
    let page = server.get(&format!("/api/sessions/main/diff/idea?limit=2&cursor={next}")).is(200);
    assert_eq!(
        (asked(&page["a"]), asked(&page["b"]), &page["next_cursor"]),
        (vec![], vec!["fifth there"], &Value::Null)
    );
    let same = server.get("/api/sessions/main/diff/main").is(200);
    assert_eq!((&same["a"]["own_turns"], &same["ancestor"]["depth"]), (&json!(0), &json!(3)));
    server.session("empty");
    let apart = server.get("/api/sessions/empty/diff/main").is(200);
    assert_eq!(
        (&apart["ancestor"], &apart["a"]["own_turns"], &apart["b"]["own_turns"]),
        (&Value::Null, &json!(0), &json!(3))
    );
    server.get("/api/sessions/main/diff/nobody").refuses(404, "no_session");
    server.get("/api/sessions/main/diff/idea?cursor=x").refuses(422, "invalid_cursor");
}

#[test]
fn files_that_the_tasks_of_a_branch_wrote_are_listed() {
    let (server, _) = parted();
    let verb = |arguments: &[&str]| {
        let output = ctx(server.dir.path())
            .args(["--session", "idea"])
            .args(arguments)
            .output()
            .expect("ctx");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    std::fs::write(server.dir.path().join("idea.rs"), "fn idea() {}").expect("a file");
    verb(&["stage", "start", "Try the idea"]);
    verb(&["stage", "observe", "file-write", "idea.rs"]);
    verb(&["stage", "observe", "file-read", "idea.rs"]);
    let diff = server.get("/api/sessions/main/diff/idea").is(200);
    assert_eq!(diff["a"]["files"], json!([]));
    let files = diff["b"]["files"].as_array().expect("files");
    assert!(
        files.len() == 1
            && files[0]["by"] == "task"
            && files[0]["path"].as_str().is_some_and(|path| path.ends_with("idea.rs")),
        "{files:?}"
    );
}

#[test]
fn the_command_line_shows_branches_side_by_side() {
    let (server, shared) = parted();
    let output =
        ctx(server.dir.path()).args(["session", "diff", "main", "idea"]).output().expect("ctx");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(
        output.status.success() && text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    let line = |words: &str| {
        text.lines()
            .find(|line| line.contains(words))
            .unwrap_or_else(|| panic!("`{words}` in {text}"))
    };
    assert!(line("Common history: 2 turns").contains(&shared.as_str().expect("an id")[..8]));
    assert!(line("main: 1 turn only here").contains("│ idea: 3 turns only here"));
    assert!(line("> third here").contains("│ > third there"), "{text}");
    let output = ctx(server.dir.path())
        .args(["session", "diff", "main", "idea", "--json"])
        .output()
        .expect("ctx");
    let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
    assert_eq!(
        document["a"]["turns"],
        server.get("/api/sessions/main/diff/idea").is(200)["a"]["turns"]
    );
}

#[test]
fn a_fork_names_its_origin_and_a_rewind_is_undone() {
    // R179, R181
    let (server, shared) = parted();
    let fork = server.get("/api/sessions/idea").is(200);
    assert_eq!(fork["origin"], "fork");
    assert_eq!(fork["parent"], json!({"session": "main", "turn": shared, "tool_call": null}));
    let head = server.get("/api/sessions/main").is(200)["head"].clone();
    let rewind = |body: Value| server.post("/api/sessions/main/rewind", &body);
    rewind(json!({"turn_id": shared})).is(200);
    rewind(json!({"turn_id": head})).refuses(409, "not_an_ancestor");
    let back = rewind(json!({"turn_id": head, "forward": true})).is(200);
    assert_eq!((&back["head"], &back["turn_count"]), (&head, &json!(3)));
    let other = fork["head"].clone();
    rewind(json!({"turn_id": other, "forward": true})).refuses(409, "not_an_ancestor");
    rewind(json!({"turn_id": shared, "forward": true})).refuses(409, "not_an_ancestor");
}
