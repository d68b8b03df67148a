//! Clients that disconnect and reconnect during an answer.

use serde_json::{Value, json};

use crate::harness::client::Client;
use crate::harness::model_server::ModelServer;
use crate::harness::server::Server;

fn text_of(client: &Client, session: &str) -> String {
    let (messages, _) = client.everything(session);
    let said = messages.iter().filter(|message| message["role"] == "assistant");
    said.flat_map(|message| message["content"].as_array().cloned().unwrap_or_default())
        .filter_map(|part| part["text"].as_str().map(str::to_owned))
        .collect()
}

/// Writes the text of a delta at its offset.
fn write_at(text: &mut Vec<char>, data: &Value) {
    let offset = data["offset"].as_u64().expect("an offset") as usize;
    assert!(offset <= text.len(), "a gap: {offset} after {}", text.len());
    text.truncate(offset);
    text.extend(data["text"].as_str().expect("words").chars());
}

#[test]
fn a_client_that_reconnects_fifty_times_sees_every_event_once_and_the_whole_text() {
    // R247
    let model = ModelServer::chat();
    let server = Server::configured(&model.config(""));
    let client = server.client();
    client.post("/api/sessions", &json!({"label": "one"}));
    let mut seqs: Vec<u64> = Vec::new();
    let (mut text, mut drafts) = (Vec::new(), 0);
    assert_eq!(
        client.post("/api/sessions/one/messages", &json!({"text": "one slow please"})).status,
        202
    );
    let mut over = false;
    for _ in 0..50 {
        let mut stream =
            client.follow("/api/sessions/one/events", Some(seqs.last().copied().unwrap_or(0)));
        // A few events, then the client disconnects.
        for _ in 0..3 {
            if over {
                break;
            }
            let event = stream.next().expect("the stream stays open");
            match event.id {
                Some(seq) => seqs.push(seq),
                None => {
                    drafts += usize::from(event.data["draft"] == true);
                    write_at(&mut text, &event.data);
                }
            }
            over = event.name == "turn.committed";
        }
    }
    if !over {
        let mut stream = client.follow("/api/sessions/one/events", seqs.last().copied());
        while let Some(event) = stream.next() {
            match event.id {
                Some(seq) => seqs.push(seq),
                None => write_at(&mut text, &event.data),
            }
            if event.name == "turn.committed" {
                break;
            }
        }
    }
    client.settled("one");
    let expected: Vec<u64> = (1..=seqs.len() as u64).collect();
    assert_eq!(seqs, expected, "each durable event once, in order");
    let whole = text_of(&client, "one");
    assert_eq!(text.into_iter().collect::<String>(), whole);
    assert!(drafts > 0, "a client connected during the answer");
}

#[test]
fn a_stream_replays_all_events_and_then_follows() {
    // R247
    let server = Server::start();
    let client = server.client();
    client.post("/api/sessions", &json!({"label": "one", "message": "hello"}));
    client.settled("one");
    let mut stream = client.follow("/api/sessions/one/events?after=0", None);
    let mut names = Vec::new();
    while names.last().is_none_or(|name| name != "run.completed") {
        let event = stream.next().expect("an event");
        assert!(
            event.id.is_some() && event.data["session"].is_string() && event.data["at"].is_string(),
            "{event:?}"
        );
        names.push(event.name);
    }
    for wanted in
        ["session.created", "run.started", "run.phase", "message.completed", "turn.committed"]
    {
        assert!(names.iter().any(|name| name == wanted), "{wanted} is in {names:?}");
    }
    client.post("/api/sessions/one/messages", &json!({"text": "again"}));
    let started = stream.next().expect("an event");
    assert_eq!(started.name, "run.started");
    let mut all = client.follow("/api/events?after=0", None);
    assert_eq!(all.next().expect("an event").name, "session.created");
    let before = client.read("/api/sessions/one")["seq"].as_u64().expect("a number");
    let mut now = client.follow("/api/sessions/one/events", None);
    client.settled("one");
    client.send("PATCH", "/api/sessions/one", &json!({"title": "new"}));
    let updated = std::iter::from_fn(|| now.next())
        .find(|event| event.name == "session.updated")
        .expect("told");
    assert!(updated.id.is_some_and(|id| id > before), "with neither it starts now");
}

#[test]
fn a_stopped_server_ends_its_streams_and_leaves_runs_that_can_be_recovered() {
    // R197, R200, R238
    let model = ModelServer::chat();
    let server = Server::configured(&model.config(""));
    let client = server.client();
    client.post("/api/sessions", &json!({"label": "one"}));
    let mut stream = client.follow("/api/sessions/one/events", None);
    client.post("/api/sessions/one/messages", &json!({"text": "one slow please"}));
    while stream.next().is_some_and(|event| event.name != "message.delta") {}
    let drained = std::thread::spawn(move || while stream.next().is_some() {});
    let (exit, _, home) = server.end();
    assert_eq!(exit, Some(0));
    drained.join().expect("the stream has ended");
    let server = Server::in_dir(home);
    let client = server.client();
    let info = client.settled("one");
    assert_eq!(
        (info["status"].as_str(), info["state"].as_str()),
        (Some("suspended"), Some("idle"))
    );
    let (messages, _) = client.everything("one");
    assert_eq!(messages[0]["content"][0]["text"], "one slow please");
    assert!(
        messages[1]["content"][0]["text"].as_str().is_some_and(|text| text.starts_with("w0 ")),
        "{messages:?}"
    );
    client.post("/api/sessions/one/messages", &json!({"text": "one on"}));
    assert_eq!(client.settled("one")["status"], "active");
}
