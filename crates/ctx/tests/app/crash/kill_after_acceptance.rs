//! A server killed right after it accepted messages, or while it shows an answer: every message is
//! answered after the restart or stands as interrupted, and no shown word is lost.
//!
//! `CTX_CRASH_KILLS=100` runs the full number of kills.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::agent_server::AgentServer;
use crate::harness::client::Client;
use crate::harness::model_server::{ModelServer, completion};
use crate::harness::seed::{Random, report};
use crate::harness::server::{Server, configured_home};
use crate::harness::{ctx, random_delay, verify, wait_until};

/// Time from the last acknowledgement to the kill.
const DELAY_MAX: Duration = Duration::from_millis(50);
const SESSIONS: usize = 10;

/// The number of kills: `CTX_CRASH_KILLS`, else the given number.
fn kills(otherwise: usize) -> usize {
    let given = std::env::var("CTX_CRASH_KILLS").ok();
    given.map_or(otherwise, |text| text.parse().expect("CTX_CRASH_KILLS is a number"))
}

fn labels(kill: usize, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("k{kill}s{n}")).collect()
}

/// Sends one message to each session at the same time; returns when all are acknowledged.
fn send_to_all(client: Client, labels: &[String], text: &str) {
    let send = |label: &String| {
        let (path, body) = (format!("/api/sessions/{label}/messages"), json!({"text": text}));
        std::thread::spawn(move || client.post(&path, &body).is(202))
    };
    let sending: Vec<_> = labels.iter().map(send).collect();
    sending.into_iter().for_each(|thread| drop(thread.join().expect("acknowledged")));
}

fn create_all(client: Client, labels: &[String]) {
    labels.iter().for_each(|label| drop(client.session(label)));
}

/// The parts of the messages that a person did not write.
fn answer(client: Client, label: &str) -> Vec<Value> {
    let (messages, inbox) = client.everything(label);
    assert_eq!(inbox.len(), 0, "{label}: {inbox:?}");
    assert_eq!(messages[0]["role"], "user", "{label}");
    let users = messages.iter().filter(|message| message["role"] == "user").count();
    assert_eq!(users, 1, "{label}: {messages:?}");
    let parts = messages[1..].iter().map(|message| message["content"].clone());
    parts.flat_map(|parts| parts.as_array().cloned().expect("parts")).collect()
}

/// How many runs of a session were started, and how many of them after a crash.
fn started(client: Client, label: &str) -> (usize, usize) {
    let newest = client.read(&format!("/api/sessions/{label}"))["seq"].as_u64();
    let mut events = client.follow(&format!("/api/sessions/{label}/events"), Some(0));
    let (mut all, mut recovered) = (0, 0);
    while let Some(event) = events.next() {
        if event.name == "run.started" {
            all += 1;
            recovered += usize::from(event.data["recovered"] == true);
        }
        if event.id == newest {
            break;
        }
    }
    (all, recovered)
}

#[test]
fn every_acknowledged_message_is_answered_after_a_kill_without_a_further_message() {
    // R166, R238
    let model = ModelServer::responding(|_, _| {
        std::thread::sleep(Duration::from_millis(20));
        completion("the answer")
    });
    let home = configured_home(&model.config(""));
    let (mut random, kills) = (Random::new(920), kills(10));
    let (mut accepted, mut repeated): (Vec<String>, usize) = (Vec::new(), 0);
    for kill in 0..=kills {
        let server = Server::in_dir(home.clone());
        let client = server.client();
        for label in &accepted {
            client.settled(label);
            let expected = [json!({"type": "text", "text": "the answer"})];
            assert_eq!(answer(client, label), expected, "{label}");
            let (all, recovered) = started(client, label);
            assert_eq!(all, 1 + recovered, "{label}");
            assert!(recovered <= 1, "{label}: one run for one crash");
            repeated += recovered;
        }
        if kill == kills {
            break;
        }
        accepted = labels(kill, SESSIONS);
        create_all(client, &accepted);
        send_to_all(client, &accepted, "question");
        random_delay(&mut random, Duration::ZERO, DELAY_MAX);
        server.kill();
        verify(home.path(), &format!("kill {kill}"));
    }
    let messages = kills * SESSIONS;
    assert!(repeated > 0, "no kill fell before an answer");
    assert!(model.requests().len() <= messages + repeated, "nothing was sent more often");
    report("messages after acceptance", kills, &format!(": {messages}, {repeated} run again"));
}

#[test]
fn a_message_to_an_agent_is_answered_or_interrupted_after_a_kill_and_a_retry_works() {
    // R197, R238
    let mut stage = AgentServer::new("");
    let (mut random, kills, sessions) = (Random::new(921), kills(4), 5);
    let (mut answered, mut interrupted) = (0, 0);
    for kill in 0..kills {
        let labels = labels(kill, sessions);
        labels.iter().for_each(|label| drop(stage.session(label, false)));
        send_to_all(stage.client, &labels, "m: say answer");
        random_delay(&mut random, Duration::ZERO, DELAY_MAX);
        stage.kill_server();
        verify(stage.dir(), &format!("kill {kill}"));
        stage.start_server();
        stage.client.get("/healthz").is(200);
        for label in &labels {
            assert_eq!(stage.info(label)["state"], "idle", "no session shows a dead run");
            let said = answer(stage.client, label);
            if said.iter().any(|part| part["type"] == "error") {
                assert_eq!(said.last().expect("a part")["code"], "interrupted", "{said:?}");
                assert_eq!(stage.info(label)["status"], "suspended");
                stage.post(label, "retry", &json!({})).is(202);
                interrupted += 1;
            } else {
                answered += 1;
            }
        }
        for label in &labels {
            stage.client.settled(label);
            assert_eq!(stage.words(label), "answer", "{label}");
        }
    }
    report(
        "messages to agents after acceptance",
        kills,
        &format!(": {answered} answered, {interrupted} interrupted and tried again"),
    );
}

#[test]
fn a_message_of_a_killed_command_is_answered_by_the_next_server() {
    // R238
    let hang = Arc::new(AtomicBool::new(true));
    let hanging = hang.clone();
    let model = ModelServer::responding(move |_, _| {
        wait_until("the first process is killed", || !hanging.load(Ordering::Relaxed));
        completion("the answer")
    });
    let home = configured_home(&model.config(""));
    let verb = |arguments: &[&str]| {
        let mut command = ctx(home.path());
        command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    assert!(verb(&["init"]).status().expect("ctx runs").success());
    assert!(verb(&["session", "new", "--label", "one"]).status().expect("ctx runs").success());
    let mut sending = verb(&["session", "send", "one", "question"]).spawn().expect("ctx runs");
    wait_until("the model was asked", || model.requests().len() == 1);
    sending.kill().expect("it runs");
    sending.wait().expect("its end");
    hang.store(false, Ordering::Relaxed);
    let server = Server::in_dir(home);
    let client = server.client();
    client.settled("one");
    assert_eq!(answer(client, "one"), [json!({"type": "text", "text": "the answer"})]);
    assert_eq!(started(client, "one"), (2, 1));
}

/// Collects the text that a follower receives until the server is gone.
fn follow(client: Client, label: &str) -> std::thread::JoinHandle<String> {
    let mut events = client.follow(&format!("/api/sessions/{label}/events"), None);
    std::thread::spawn(move || {
        let mut shown = String::new();
        while let Some(event) = events.next() {
            if event.name == "message.delta" {
                shown.push_str(event.data["text"].as_str().expect("a text"));
            }
        }
        shown
    })
}

#[test]
fn no_word_that_a_follower_received_is_lost_by_a_kill() {
    // R233, R247
    let model = ModelServer::chat();
    let home = configured_home(&model.config(""));
    let (mut random, kills, sessions) = (Random::new(922), kills(10), 4);
    let mut shown: Vec<(String, String)> = Vec::new();
    let (mut characters, mut partial) = (0, 0);
    for kill in 0..=kills {
        let server = Server::in_dir(home.clone());
        let client = server.client();
        for (label, shown) in &shown {
            client.settled(label);
            let parts = answer(client, label);
            let texts = parts.iter().filter_map(|part| part["text"].as_str());
            let stored: String = texts.collect();
            assert!(
                stored.starts_with(shown),
                "{label}: `{shown}` was shown, `{stored}` is stored"
            );
            characters += shown.len();
            partial += usize::from(parts.iter().any(|part| part["type"] == "error"));
        }
        if kill == kills {
            break;
        }
        let labels = labels(kill, sessions);
        create_all(client, &labels);
        let followers: Vec<_> = labels.iter().map(|label| follow(client, label)).collect();
        let chunks = model.chunks();
        send_to_all(client, &labels, "slow answer");
        let target = chunks + 1 + random.below(25 * sessions as u64) as usize;
        wait_until("the answers have come so far", || model.chunks() >= target);
        server.kill();
        let texts = followers.into_iter().map(|follower| follower.join().expect("a text"));
        shown = labels.iter().cloned().zip(texts).collect();
    }
    assert!(characters > 0 && partial > 0, "no kill fell into an answer");
    let more = format!(": {characters} characters shown, 0 lost, {partial} answers interrupted");
    report("words that were shown", kills, &more);
}
