//! Clients that come and go while an answer is being made.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::lab::{Client, Lab, PATIENCE, Server};

/// One event as it comes over the wire.
#[derive(Debug, Clone)]
struct Event {
    id: Option<u64>,
    name: String,
    data: Value,
}

struct Stream {
    reader: BufReader<TcpStream>,
}

impl Stream {
    fn open(client: &Client, path: &str, last: Option<u64>) -> Self {
        let mut stream = TcpStream::connect(&client.address).expect("connected");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        let last = last.map(|last| format!("Last-Event-ID: {last}\r\n")).unwrap_or_default();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nAccept: text/event-stream\r\n{last}\r\n",
            client.address
        );
        stream.write_all(request.as_bytes()).expect("sent");
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).expect("a status");
        assert!(line.contains(" 200 "), "{line}");
        Self { reader }
    }

    /// The next event; comments and the lines of chunks are passed over.
    fn next(&mut self) -> Option<Event> {
        let mut event = Event { id: None, name: String::new(), data: Value::Null };
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end_matches(['\r', '\n']);
            if let Some(id) = line.strip_prefix("id:") {
                event.id = id.trim().parse().ok();
            } else if let Some(name) = line.strip_prefix("event:") {
                event.name = name.trim().to_owned();
            } else if let Some(data) = line.strip_prefix("data:") {
                event.data = serde_json::from_str(data.trim()).expect("JSON");
            } else if line.is_empty() && !event.name.is_empty() {
                return Some(event);
            }
        }
    }
}

fn text_of(client: &Client, session: &str) -> String {
    let (messages, _) = client.everything(session);
    let said = messages.iter().filter(|message| message["role"] == "assistant");
    said.flat_map(|message| message["content"].as_array().cloned().unwrap_or_default())
        .filter_map(|part| part["text"].as_str().map(str::to_owned))
        .collect()
}

/// Puts words where their offset says.
fn write_at(text: &mut Vec<char>, data: &Value) {
    let offset = data["offset"].as_u64().expect("an offset") as usize;
    assert!(offset <= text.len(), "a gap: {offset} after {}", text.len());
    text.truncate(offset);
    text.extend(data["text"].as_str().expect("words").chars());
}

#[test]
fn a_client_that_reconnects_fifty_times_sees_every_event_once_and_the_whole_text() {
    // R247
    let lab = Lab::new();
    let client = lab.server.client();
    client.post("/api/sessions", &json!({"label": "one"}));
    let mut seqs: Vec<u64> = Vec::new();
    let (mut text, mut drafts) = (Vec::new(), 0);
    assert_eq!(
        client.post("/api/sessions/one/messages", &json!({"text": "one slow please"})).status,
        202
    );
    let mut over = false;
    for _ in 0..50 {
        let mut stream = Stream::open(
            &client,
            "/api/sessions/one/events",
            Some(seqs.last().copied().unwrap_or(0)),
        );
        // A few events, then it goes away without a word.
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
        let mut stream = Stream::open(&client, "/api/sessions/one/events", seqs.last().copied());
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
    assert!(drafts > 0, "somebody came in the middle");
}

#[test]
fn everything_can_be_replayed_and_an_open_stream_goes_on_from_there() {
    // R247
    let dir = TempDir::new().expect("a directory");
    let server = Server::start(&dir.path().join("data"));
    let client = server.client();
    client.post("/api/sessions", &json!({"label": "one", "message": "hello"}));
    client.settled("one");
    let mut stream = Stream::open(&client, "/api/sessions/one/events?after=0", None);
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
    let mut all = Stream::open(&client, "/api/events?after=0", None);
    assert_eq!(all.next().expect("an event").name, "session.created");
    let before = client.get("/api/sessions/one")["seq"].as_u64().expect("a number");
    let mut now = Stream::open(&client, "/api/sessions/one/events", None);
    client.settled("one");
    client.ask("PATCH", "/api/sessions/one", Some(&json!({"title": "new"})));
    let updated = std::iter::from_fn(|| now.next())
        .find(|event| event.name == "session.updated")
        .expect("told");
    assert!(updated.id.is_some_and(|id| id > before), "with neither it starts now");
}

#[test]
fn a_stopped_server_ends_its_streams_and_leaves_runs_that_can_be_recovered() {
    // R197, R200, R238
    let Lab { server, data, _dir, model: _model } = Lab::new();
    let client = server.client();
    client.post("/api/sessions", &json!({"label": "one"}));
    let mut stream = Stream::open(&client, "/api/sessions/one/events", None);
    client.post("/api/sessions/one/messages", &json!({"text": "one slow please"}));
    while stream.next().is_some_and(|event| event.name != "message.delta") {}
    let drained = std::thread::spawn(move || while stream.next().is_some() {});
    assert!(server.stop(), "it ends by itself, and well");
    drained.join().expect("the stream has ended");
    let server = Server::start(&data);
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
