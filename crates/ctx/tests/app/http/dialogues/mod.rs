//! Dialogues in a session that tracks tasks: the agent receives every message of the user exactly
//! once and in order, and the task moves as design section 7 says (R60–R84).
//!
//! `table.json` has ten dialogues, and the state of the task and the commits after each message.
//! The tests with real agents (`tests/agents`) use the same table.

mod records;
mod task_routes;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::harness::agent_server::AgentServer;
use crate::harness::client::Client;
use crate::harness::model_server::{ModelServer, completion, json_response, tool_call};
use crate::harness::server::Server;

/// A message of the user, by what ctx does with it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Message {
    /// It is delivered.
    To(String),
    /// ctx answers it.
    Command(String),
    /// It opens a question with two choices and is delivered after the choice.
    Held(String),
    /// It chooses; the message before it is delivered.
    Choice(String),
}

/// What the agent does with a message.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Reply {
    Says(String),
    /// It uses a tool before it says this.
    Works(String),
    Fails,
    /// It receives nothing.
    Nothing,
}

#[derive(Debug, Deserialize)]
struct Row {
    message: Message,
    reply: Reply,
    /// The state of the task after the run; none if no task is open.
    state: Option<String>,
    /// The types of the commits that the row adds.
    commits: Vec<String>,
}

#[derive(Deserialize)]
struct Dialogue {
    name: String,
    rows: Vec<Row>,
}

fn dialogues() -> Vec<Dialogue> {
    serde_json::from_str(include_str!("table.json")).expect("a table")
}

impl Message {
    fn text(&self) -> &str {
        match self {
            Self::To(text) | Self::Command(text) | Self::Held(text) | Self::Choice(text) => text,
        }
    }
}

impl Dialogue {
    /// The messages that the agent receives, in order.
    fn delivered(&self) -> Vec<&str> {
        let reaches = |row: &&Row| matches!(row.message, Message::To(_) | Message::Held(_));
        self.rows.iter().filter(reaches).map(|row| row.message.text()).collect()
    }
}

/// The side that the user talks to.
trait Agent {
    fn client(&self) -> Client;
    /// Tools that are offered with each message.
    fn tools(&self) -> Option<Value>;
    /// Sets what it does with the next message.
    fn prepare(&self, reply: &Reply);
    /// How many requests it has received.
    fn received(&self) -> usize;
}

/// The commits of a session, oldest first: id and type.
fn commits(client: &Client, session: &Value) -> Vec<(String, String)> {
    let all = client.read("/api/commits?limit=1000")["commits"].clone();
    let all = all.as_array().expect("a list");
    let here = all.iter().rev().filter(|commit| commit["session"] == *session);
    here.map(|commit| {
        let name = commit["commit_type"]["name"].as_str().expect("a type");
        (commit["id"].as_str().expect("an id").to_owned(), name.to_owned())
    })
    .collect()
}

fn task_state(client: &Client, label: &str) -> Option<String> {
    let task = client.read(&format!("/api/sessions/{label}/task"))["task"].clone();
    task["state"]["name"].as_str().map(str::to_owned)
}

fn text_of(message: &Value) -> String {
    let parts = message["content"].as_array().expect("parts").iter();
    parts.filter_map(|part| part["text"].as_str()).collect()
}

/// Says each row and compares the task and the commits; then compares the transcript.
fn play(agent: &impl Agent, label: &str, dialogue: &Dialogue) {
    let client = agent.client();
    let session = client.read(&format!("/api/sessions/{label}"))["id"].clone();
    let mut expected: Vec<String> = Vec::new();
    for row in &dialogue.rows {
        let here = format!("{}: {row:?}", dialogue.name);
        let before = agent.received();
        agent.prepare(&row.reply);
        let mut body = json!({"text": row.message.text()});
        if let Some(tools) = agent.tools() {
            body["tools"] = tools;
        }
        let sent = client.post(&format!("/api/sessions/{label}/messages"), &body);
        assert_eq!(sent.status, 202, "{here}: {}", sent.body);
        expected.extend(row.commits.iter().cloned());
        if row.commits == ["abandoned"] {
            // At once, and not when the run ends.
            let now: Vec<_> = commits(&client, &session).into_iter().map(|it| it.1).collect();
            assert_eq!(now, expected, "{here}");
            assert_eq!(task_state(&client, label), None, "{here}");
        }
        settle(&client, label, matches!(row.message, Message::Held(_)), &here);
        assert_eq!(task_state(&client, label), row.state, "{here}");
        let now: Vec<_> = commits(&client, &session).into_iter().map(|it| it.1).collect();
        assert_eq!(now, expected, "{here}");
        if row.reply == Reply::Nothing {
            assert_eq!(agent.received(), before, "{here}");
        } else {
            assert!(agent.received() > before, "{here}");
        }
    }
    assert_transcript(&client, label, &session, dialogue);
}

/// Waits for the end of the run, and gives the results of tools on the way. `asks`: whether ctx
/// asks about the message.
fn settle(client: &Client, label: &str, asks: bool, here: &str) {
    let mut info = client.settled(label);
    while info["state"] == "suspended" {
        let asked = &info["suspensions"][0];
        let results = asked["tool_calls"].as_array().expect("calls").iter().map(
            |call| json!({"tool_call_id": call["id"], "content": "written", "is_error": false}),
        );
        let results: Vec<Value> = results.collect();
        let body = json!({"suspension_id": asked["id"], "results": results});
        client.post(&format!("/api/sessions/{label}/resume"), &body).is(202);
        info = client.settled(label);
    }
    assert_eq!(info["pending_prompt"].is_null(), !asks, "{here}: {info}");
    assert_eq!(info["state"], "idle", "{here}: {info}");
}

/// Each message of the user is in the transcript once, in order; each commit has one notice.
fn assert_transcript(client: &Client, label: &str, session: &Value, dialogue: &Dialogue) {
    let (messages, inbox) = client.everything(label);
    assert_eq!(inbox, Vec::<Value>::new(), "{}", dialogue.name);
    let users = messages.iter().filter(|message| message["role"] == "user");
    let users: Vec<String> = users.map(text_of).collect();
    // A message that was held is in the transcript where it was delivered.
    let is_delivered = |text: &&String| {
        dialogue.rows.iter().all(|row| match &row.message {
            Message::Command(other) | Message::Choice(other) => other != *text,
            Message::To(_) | Message::Held(_) => true,
        })
    };
    let delivered: Vec<&String> = users.iter().filter(is_delivered).collect();
    assert_eq!(delivered, dialogue.delivered(), "{}", dialogue.name);
    for row in &dialogue.rows {
        let said = |other: &&Row| other.message.text() == row.message.text();
        let times = dialogue.rows.iter().filter(said).count();
        let shown = users.iter().filter(|text| *text == row.message.text()).count();
        assert_eq!(shown, times, "{}: {row:?} in {users:#?}", dialogue.name);
    }
    let notices = messages.iter().filter(|message| message["role"] == "system");
    let notices: Vec<String> = notices.map(text_of).collect();
    for (id, name) in commits(client, session) {
        let of_commit = notices.iter().filter(|notice| notice.contains(&id));
        let of_commit: Vec<&String> = of_commit.collect();
        assert_eq!(of_commit.len(), 1, "{}: {id} in {notices:#?}", dialogue.name);
        assert!(of_commit[0].contains("ctx session reopen "), "{of_commit:?}");
        assert!(of_commit[0].contains(&name), "{of_commit:?}");
    }
}

// ---- a model ----

struct Model {
    server: Server,
    models: ModelServer,
    responses: Arc<Mutex<VecDeque<String>>>,
}

impl Model {
    fn start() -> Self {
        Self::configured("")
    }

    fn configured(more: &str) -> Self {
        let responses = Arc::<Mutex<VecDeque<String>>>::default();
        let next = responses.clone();
        let models = ModelServer::responding(move |_, _| {
            let next = next.lock().expect("no panic").pop_front();
            next.unwrap_or_else(|| json_response(400, "{\"error\":{\"message\":\"not expected\"}}"))
        });
        let server = Server::configured(&models.config(more));
        Self { server, models, responses }
    }

    fn session(&self, label: &str) {
        let dir = self.server.dir.path().join(label);
        std::fs::create_dir_all(&dir).expect("a directory");
        let made =
            self.server.post("/api/sessions", &json!({"label": label, "working_dir": dir})).is(201);
        assert_eq!(made["track_tasks"], true, "{made}");
    }

    /// The messages of the user in the newest request.
    fn newest_request(&self) -> Vec<String> {
        let newest = self.models.requests().last().expect("a request").body.clone();
        let messages = newest["messages"].as_array().expect("messages").iter();
        messages
            .filter(|message| message["role"] == "user")
            .map(|message| match &message["content"] {
                Value::String(text) => text.clone(),
                parts => {
                    let parts = parts.as_array().into_iter().flatten();
                    parts.filter_map(|part| part["text"].as_str()).collect()
                }
            })
            .collect()
    }
}

impl Agent for Model {
    fn client(&self) -> Client {
        self.server.client()
    }

    fn tools(&self) -> Option<Value> {
        Some(json!([{"name": "write_file", "description": "writes a file",
            "parameters": {"type": "object"}}]))
    }

    fn prepare(&self, reply: &Reply) {
        let mut responses = self.responses.lock().expect("no panic");
        assert!(responses.is_empty(), "a response was not requested: {responses:?}");
        responses.extend(match reply {
            Reply::Says(text) => vec![completion(text)],
            Reply::Works(text) => {
                vec![tool_call("write_file", &json!({"path": "a"})), completion(text)]
            }
            Reply::Fails => vec![json_response(400, "{\"error\":{\"message\":\"no\"}}")],
            Reply::Nothing => vec![],
        });
    }

    fn received(&self) -> usize {
        self.models.requests().len()
    }
}

#[test]
fn a_model_receives_every_message_once_and_the_task_moves_as_designed() {
    let model = Model::start();
    for (n, dialogue) in dialogues().iter().enumerate() {
        let label = format!("d{n}");
        model.session(&label);
        play(&model, &label, dialogue);
        // The mark of a request that failed stands between it and the next message.
        let request = model.newest_request();
        let texts = request.iter().flat_map(|text| text.split("\n\n"));
        let received: Vec<&str> = texts.filter(|text| !text.starts_with('[')).collect();
        assert_eq!(received, dialogue.delivered(), "{}", dialogue.name);
    }
}

// ---- an ACP agent ----

impl Agent for AgentServer {
    fn client(&self) -> Client {
        self.client
    }

    fn tools(&self) -> Option<Value> {
        None
    }

    fn prepare(&self, reply: &Reply) {
        match reply {
            Reply::Says(text) => self.next_steps(&format!("say {text}")),
            Reply::Works(text) => self.next_steps(&format!("run make; say {text}")),
            Reply::Fails => self.next_steps("die"),
            Reply::Nothing => {}
        }
    }

    fn received(&self) -> usize {
        self.prompts().len()
    }
}

#[test]
fn an_agent_receives_every_message_once_and_the_task_moves_as_designed() {
    let agent = AgentServer::new("");
    for (n, dialogue) in dialogues().iter().enumerate() {
        let label = format!("d{n}");
        agent.session(&label, true);
        let before = agent.received();
        play(&agent, &label, dialogue);
        let prompts = &agent.prompts()[before..];
        let last = |prompt: &Value| {
            let blocks = prompt["prompt"].as_array().expect("blocks");
            blocks.last().and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let received: Vec<String> = prompts.iter().map(last).collect();
        assert_eq!(received, dialogue.delivered(), "{}", dialogue.name);
        // The whole conversation has no message a second time, as a part of another one.
        let known = prompts.last().expect("a prompt")["known"].clone();
        let known: Vec<&str> =
            known.as_array().expect("a list").iter().filter_map(Value::as_str).collect();
        for message in dialogue.delivered().iter().filter(|message| message.len() > 12) {
            let times = dialogue.delivered().iter().filter(|other| *other == message).count();
            assert_eq!(known.join("\n\n").matches(message).count(), times, "{message}: {known:#?}");
        }
    }
}
