//! Two servers on one store, and many clients at once.

use std::sync::{Arc, Barrier};

use serde_json::json;

use crate::harness::model_server::ModelServer;
use crate::harness::server::{Server, configured_home};

#[test]
fn two_servers_on_one_store_never_run_a_session_twice() {
    // R144, R146
    let model = ModelServer::chat();
    let home = configured_home(&model.config("[inbox]\ncap = 500\n"));
    let servers = [Server::in_dir(home.clone()), Server::in_dir(home)];
    for n in 0..4 {
        let made = servers[0].client().post("/api/sessions", &json!({"label": format!("s{n}")}));
        assert_eq!(made.status, 201, "{}", made.body);
    }
    let senders: Vec<_> = (0..8)
        .map(|sender| {
            let client = servers[sender % 2].client();
            std::thread::spawn(move || {
                let mut ids = Vec::new();
                for n in 0..10 {
                    let session = format!("s{}", (sender + n) % 4);
                    // No interrupts: the model server notices a closed request late and would count
                    // two at once.
                    let mode = if n % 5 == 4 { "followup" } else { "queue" };
                    let body = json!({"text": format!("{session} {} from {sender} number {n}",
                        if n % 3 == 0 { "slow" } else { "" }), "queue_mode": mode});
                    let answer = client.post(&format!("/api/sessions/{session}/messages"), &body);
                    assert_eq!(answer.status, 202, "{}", answer.body);
                    ids.push((
                        session,
                        answer.body["message_id"]
                            .as_str()
                            .expect(
                                "an \
                        id",
                            )
                            .to_owned(),
                    ));
                }
                ids
            })
        })
        .collect();
    let sent: Vec<(String, String)> =
        senders.into_iter().flat_map(|sender| sender.join().expect("no panic")).collect();
    for n in 0..4 {
        let name = format!("s{n}");
        servers[n % 2].client().settled(&name);
        let (messages, items) = servers[(n + 1) % 2].client().everything(&name);
        assert!(items.is_empty(), "{items:?}");
        for (_, id) in sent.iter().filter(|(session, _)| *session == name) {
            let count = messages.iter().filter(|message| message["id"] == id.as_str()).count();
            assert_eq!(count, 1, "{id} is in the history of {name} once");
        }
    }
    assert_eq!(model.conversations(), 4);
    assert_eq!(model.most_at_once(), 1, "never two requests of one session at once");
}

#[test]
fn a_message_sent_twenty_times_with_one_key_runs_once() {
    // R133
    let server = Server::start();
    let client = server.client();
    assert_eq!(client.post("/api/sessions", &json!({"label": "one"})).status, 201);
    let together = Arc::new(Barrier::new(20));
    let senders: Vec<_> = (0..20)
        .map(|_| {
            let together = together.clone();
            std::thread::spawn(move || {
                together.wait();
                let headers = [("Idempotency-Key", "k1")];
                let body = json!({"text": "hello"});
                client
                    .try_send("POST", "/api/sessions/one/messages", &headers, &body)
                    .expect("a response")
            })
        })
        .collect();
    let answers: Vec<_> =
        senders.into_iter().map(|sender| sender.join().expect("no panic")).collect();
    assert!(answers.iter().all(|answer| answer.status == 202), "{answers:?}");
    assert!(
        answers.iter().all(|answer| answer.body["message_id"] == answers[0].body["message_id"]),
        "{answers:?}"
    );
    client.settled("one");
    let (messages, _) = client.everything("one");
    assert_eq!(messages.iter().filter(|message| message["role"] == "user").count(), 1);
    let other = client
        .try_send(
            "POST",
            "/api/sessions/one/messages",
            &[("Idempotency-Key", "k1")],
            &json!({"text": "other"}),
        )
        .expect("a response");
    assert_eq!((other.status, &other.body["code"]), (422, &json!("idempotency_mismatch")));
}

#[test]
fn fifty_first_messages_for_one_label_make_one_session() {
    // R133
    let server = Server::start();
    let client = server.client();
    let together = Arc::new(Barrier::new(50));
    let senders: Vec<_> = (0..50)
        .map(|n| {
            let together = together.clone();
            std::thread::spawn(move || {
                together.wait();
                client
                    .post(
                        "/api/sessions",
                        &json!({"label": "same", "message": format!("first {n}")}),
                    )
                    .status
            })
        })
        .collect();
    let statuses: Vec<u16> =
        senders.into_iter().map(|sender| sender.join().expect("no panic")).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 409).count(), 49, "{statuses:?}");
    assert_eq!(client.read("/api/sessions")["sessions"].as_array().map(Vec::len), Some(1));
}
