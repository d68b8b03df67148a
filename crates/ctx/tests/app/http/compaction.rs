//! Compaction and pins over HTTP, and a fork from before a compaction.

use serde_json::{Value, json};

use crate::harness::model_server::ModelServer;
use crate::harness::seed::Random;
use crate::harness::server::{Server, configured_home};
use crate::harness::{verify, wait_for, wait_until};

fn say(server: &Server, text: &str) {
    let body = json!({"text": text}).to_string();
    let headers = [("Content-Type", "application/json"), ("Prefer", "wait=20")];
    server.ask("POST", "/api/sessions/s/messages", &headers, body.as_bytes()).is(200);
}

fn turns(server: &Server, session: &str) -> Vec<Value> {
    server.get(&format!("/api/sessions/{session}/turns")).is(200)["turns"]
        .as_array()
        .expect("turns")
        .clone()
}

fn compacted(server: &Server) -> Value {
    wait_for("the compaction is the newest turn", || {
        let newest = turns(server, "s")[0].clone();
        (newest["type"] == "compaction").then_some(newest)
    })
}

#[test]
fn a_manual_compaction_shows_its_row_and_is_undone_by_a_fork() {
    // R173, R175, R177
    let server = Server::start();
    server.session("s");
    for n in 0..4 {
        say(&server, &format!("hello {n}"));
    }
    let taken = server.post("/api/sessions/s/compact", &json!({"focus": "greetings"})).is(202);
    assert!(taken["message_id"].is_string());
    let turn = compacted(&server);
    let row = &turn["compaction"];
    assert_eq!(
        (&row["trigger"], &row["by"], &row["turn_id"]),
        (&json!("manual"), &json!("ctx"), &turn["id"])
    );
    assert_eq!(row["metadata_json"]["focus"], "greetings");
    for field in [
        "summary",
        "summarized_through_turn_id",
        "first_kept_turn_id",
        "turns_summarized",
        "compaction_type",
        "model",
        "provider",
        "tokens_before",
        "tokens_after",
        "summary_tokens",
        "summarization_input_tokens",
        "summarization_output_tokens",
        "duration_ms",
    ] {
        assert!(row.get(field).is_some(), "{field}: {row}");
    }
    let events = server.get("/api/sessions/s").is(200)["seq"].as_u64().expect("a number");
    assert!(events > 0);
    let forked = server
        .post("/api/sessions/s/fork", &json!({"before_compaction": true, "label": "undone"}))
        .is(201);
    assert_eq!(forked["head"], turn["parent"]);
    assert!(turns(&server, "undone").iter().all(|turn| turn["compaction"].is_null()));
    server
        .post("/api/sessions/undone/fork", &json!({"before_compaction": true}))
        .refuses(409, "no_compaction");
    let both = json!({"before_compaction": true, "turn_id": turn["id"]});
    server.post("/api/sessions/s/fork", &both).refuses(422, "invalid_body");
    server
        .post("/api/sessions/s/compact", &json!({"focus": "x".repeat(3000)}))
        .refuses(422, "bad_text");
}

#[test]
fn turns_are_pinned_listed_and_unpinned() {
    let server = Server::start();
    server.session("s");
    say(&server, "hello");
    say(&server, "again");
    let first = turns(&server, "s")[1]["id"].as_str().expect("an id").to_owned();
    let pins = server.post(&format!("/api/sessions/s/pins/{first}"), &json!({})).is(200);
    assert_eq!(pins["pins"][0]["turn"], json!(first));
    assert_eq!(server.get("/api/sessions/s/pins").is(200), pins);
    let pinned: Vec<bool> =
        turns(&server, "s").iter().map(|turn| turn["pinned"].as_bool().expect("a bool")).collect();
    assert_eq!(pinned, [false, true]);
    server.send("DELETE", &format!("/api/sessions/s/pins/{first}"), &json!({})).is(204);
    server
        .send("DELETE", &format!("/api/sessions/s/pins/{first}"), &json!({}))
        .refuses(404, "not_pinned");
    server.post("/api/sessions/s/pins/nonsense", &json!({})).refuses(404, "not_found");
    server
        .post(&format!("/api/sessions/s/pins/{}", "0".repeat(64)), &json!({}))
        .refuses(404, "not_found");
}

#[test]
fn a_server_killed_during_a_summary_leaves_no_partial_compaction() {
    // R174, R175, R238: a compaction is stored completely or not at all, and waiting messages run.
    let model = ModelServer::chat();
    let home = configured_home(&model.config(""));
    let mut random = Random::new(912);
    let mut sent = Vec::new();
    for kill in 0..12 {
        let server = Server::in_dir(home.clone());
        let client = server.client();
        if kill == 0 {
            client.post("/api/sessions", &json!({"label": "s"}));
        }
        for text in [format!("m{kill} a"), format!("m{kill} b")] {
            let taken = client
                .post("/api/sessions/s/messages", &json!({"text": text, "queue_mode": "queue"}));
            assert_eq!(taken.status, 202, "{}", taken.body);
            sent.push(taken.body["message_id"].clone());
        }
        client.settled("s");
        // The summary is streamed in 31 chunks, the waiting message is answered in 3.
        let begun = model.chunks();
        assert_eq!(client.post("/api/sessions/s/compact", &json!({"focus": "slow"})).status, 202);
        let waits = client.post(
            "/api/sessions/s/messages",
            &json!({"text": format!("m{kill} waits"), "queue_mode": "queue"}),
        );
        sent.push(waits.body["message_id"].clone());
        // Every third server finishes first.
        if kill % 3 == 2 {
            client.settled("s");
        } else {
            let target = begun + random.below(34) as usize;
            wait_until("the summary has come so far", || model.chunks() >= target);
        }
        server.kill();
        verify(home.path(), &format!("kill {kill}"));
    }
    let server = Server::in_dir(home);
    let client = server.client();
    let info = client.settled("s");
    assert_eq!((&info["state"], &info["waiting"]), (&json!("idle"), &json!(0)));
    let (messages, _) = client.everything("s");
    for id in &sent {
        assert_eq!(
            messages.iter().filter(|message| message["id"] == *id).count(),
            1,
            "{id} is in the history once"
        );
    }
    let turns =
        client.read("/api/sessions/s/turns?limit=1000")["turns"].as_array().expect("turns").clone();
    let compactions = turns.iter().filter(|turn| turn["type"] == "compaction").count();
    assert!(
        turns.iter().all(|turn| (turn["type"] == "compaction") == turn["compaction"].is_object()),
        "whole or not at all"
    );
    assert!(compactions > 0, "some had the time");
    println!("12 kills, {compactions} compactions in {} turns", turns.len());
    // A later compaction works.
    assert_eq!(client.post("/api/sessions/s/compact", &json!({})).status, 202);
    client.settled("s");
    assert_eq!(client.read("/api/sessions/s/turns?limit=1")["turns"][0]["type"], "compaction");
}
