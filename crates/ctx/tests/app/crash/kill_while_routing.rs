//! A server killed at every commit while senders become known and entities are merged: the session
//! of every message is the one that it has without a kill.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::harness::client::Client;
use crate::harness::server::{Server, configured_home, write_policies};
use crate::harness::{verify, wait_until};

const CONFIG: &str = "[defaults]\nprovider = \"demo\"\n[providers.demo]\nkind = \"demo\"\n";
const POLICIES: &str = "
- {name: known, match: {principal: {type: known}}, session: {key: 'dm:{principal.entity_id}'}}
- {name: unknown, match: {principal: {type: unknown}},
   session: {key: 'dm:{delivery.channel}:{delivery.sender_id}'}}
";

/// One request. Sent again after a kill, it has no other effect.
enum Step {
    /// A message from a sender called `mom`, and the label of the session that receives it.
    Message {
        id: &'static str,
        channel: &'static str,
        label: &'static str,
    },
    Add {
        name: &'static str,
    },
    Link {
        name: &'static str,
        channel: &'static str,
    },
    Merge {
        into: &'static str,
        from: &'static str,
    },
}

impl Step {
    /// Sends the request; an error if the server ended before it responded.
    fn send(&self, client: Client) -> std::io::Result<Value> {
        let post = |path: &str, body: Value| client.try_send("POST", path, &[], &body);
        let response = match self {
            Self::Message { id, channel, .. } => post(
                "/api/inbound",
                json!({"channel": channel, "sender_id": "mom", "text": id, "message_id": id}),
            )?,
            Self::Add { name } => {
                let known =
                    client.try_send("GET", &format!("/api/entities/{name}"), &[], &Value::Null)?;
                match known.status {
                    200 => known,
                    _ => post("/api/entities", json!({"name": name}))?,
                }
            }
            Self::Link { name, channel } => post(
                &format!("/api/entities/{name}/identities"),
                json!({"channel": channel, "sender_id": "mom"}),
            )?,
            Self::Merge { into, from } => {
                let merged = post("/api/entities/merge", json!({"into": into, "from": from}))?;
                // By name, a merged entity is not found any more.
                assert!(matches!(merged.status, 200 | 404), "{}", merged.body);
                return Ok(merged.json());
            }
        };
        assert!(matches!(response.status, 200..=202), "{}", response.body);
        Ok(response.json())
    }
}

/// Kills the server at its next sync.
fn kill_at_sync(pid: u32) {
    let mut strace = Command::new("strace")
        .args(["-f", "-p", &pid.to_string(), "-e", "trace=fsync,fdatasync"])
        .args(["-e", "inject=fsync,fdatasync:signal=KILL:when=1"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("strace is installed");
    let mut output = BufReader::new(strace.stderr.take().expect("piped"));
    let mut line = String::new();
    output.read_line(&mut line).expect("a line");
    assert!(line.contains("attached"), "{line}");
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut output, &mut std::io::sink());
        let _ = strace.wait();
    });
}

#[test]
fn promotions_and_merges_survive_a_kill_at_each_commit() {
    // R136–R140
    use Step::{Add, Link, Merge, Message};
    let steps = [
        Message { id: "m1", channel: "irc", label: "dm:irc:mom" },
        Add { name: "Mom" },
        Link { name: "Mom", channel: "irc" },
        Message { id: "m2", channel: "irc", label: "dm:irc:mom" },
        Message { id: "m3", channel: "mail", label: "dm:mail:mom" },
        Message { id: "m4", channel: "mail", label: "dm:mail:mom" },
        Add { name: "Mother" },
        Link { name: "Mother", channel: "mail" },
        Message { id: "m5", channel: "mail", label: "dm:mail:mom" },
        Merge { into: "Mom", from: "Mother" },
        Message { id: "m6", channel: "irc", label: "dm:mail:mom" },
        Message { id: "m7", channel: "mail", label: "dm:mail:mom" },
    ];
    let home = configured_home(CONFIG);
    write_policies(home.path(), POLICIES);
    let mut server = Server::in_dir(home.clone());
    let mut kills = 0;
    let mut restart = |server: Server| {
        server.kill();
        kills += 1;
        verify(home.path(), "after a kill");
        Server::in_dir(home.clone())
    };
    for step in &steps {
        kill_at_sync(server.pid());
        let cut_off = step.send(server.client());
        assert!(cut_off.is_err(), "it was killed before it responded: {cut_off:?}");
        server = restart(server);
        let done = step.send(server.client()).expect("a response");
        // Right after the acknowledgement.
        server = restart(server);
        let again = step.send(server.client()).expect("a response");
        if let Message { id, label, .. } = step {
            for received in [&done, &again] {
                assert_eq!(received["label"], *label, "{id}: {received}");
                assert_eq!(received["message_id"], done["message_id"], "{id}");
            }
            let label = done["label"].as_str().expect("a label").to_owned();
            let client = server.client();
            wait_until("the message is in a turn", || {
                let (messages, inbox) = client.everything(&label);
                let user = |message: &&Value| message["id"] == done["message_id"];
                inbox.is_empty() && messages.iter().filter(user).count() == 1
            });
        }
    }
    assert_eq!(kills, 2 * steps.len());
    let texts = |label: &str| -> Vec<String> {
        let (messages, _) = server.everything(label);
        let users = messages.iter().filter(|message| message["role"] == "user");
        users
            .map(|message| message["content"][0]["text"].as_str().expect("a text").to_owned())
            .collect()
    };
    assert_eq!(texts("dm:irc:mom~merged"), ["m1", "m2"]);
    assert_eq!(texts("dm:mail:mom"), ["m3", "m4", "m5", "m6", "m7"]);
    assert_eq!(server.labels("").len(), 2);
    let mom = server.read("/api/entities/Mom");
    let sessions = server.read("/api/entities/Mom/sessions")["sessions"].clone();
    assert_eq!(
        (mom["identities"].as_array().map(Vec::len), sessions.as_array().map(Vec::len)),
        (Some(2), Some(2))
    );
    for alias in server.read("/api/aliases")["aliases"].as_array().expect("a list") {
        assert_eq!(alias["session_label"], "dm:mail:mom", "{alias}");
    }
    verify(home.path(), "at the end");
}
