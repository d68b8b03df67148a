//! Clients that send numbered messages to random nodes, and clients that follow sessions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::client::Client;
use crate::harness::random_delay;
use crate::harness::seed::Random;

use super::checker::{Call, Outcome};
use super::cluster::Addresses;

/// How long a client waits for a response before it asks another node.
const RESPONSE_MAX: Duration = Duration::from_secs(4);
/// How long a message is retried. Longer than any fault lasts.
const RETRY_MAX: Duration = Duration::from_secs(120);
/// Pause between two messages of a client.
const PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_millis(1200));
/// Pause before a retry.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(200));
/// One of so many responses is lost on its way to the client.
const LOST: u64 = 6;
/// One of so many failed calls is not retried.
const GIVE_UP: u64 = 12;
/// Events after which a follower goes to another node.
const FOLLOWED_MAX: u64 = 40;

pub(super) fn any_node(addresses: &Addresses, random: &mut Random) -> Client {
    let all = addresses.lock().expect("no panic");
    all[random.below(all.len() as u64) as usize]
}

/// Sends messages until `stop`; what it was told about each.
pub(super) fn send_messages(
    client: usize,
    sessions: usize,
    addresses: &Addresses,
    stop: &AtomicBool,
    mut random: Random,
) -> Vec<Call> {
    let mut numbers: BTreeMap<usize, u64> = BTreeMap::new();
    let mut calls = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let session = random.below(sessions as u64) as usize;
        let number = numbers.entry(session).or_default();
        *number += 1;
        let text = format!("c{client} s{session} n{number}");
        let outcome = send(&format!("s{session}"), &text, addresses, &mut random);
        calls.push(Call { client, session: format!("s{session}"), number: *number, text, outcome });
        random_delay(&mut random, PAUSE.0, PAUSE.1);
    }
    calls
}

/// Sends one message with a key of its own, until there is a response that is final.
fn send(session: &str, text: &str, addresses: &Addresses, random: &mut Random) -> Outcome {
    let path = format!("/api/sessions/{session}/messages");
    let headers = [("idempotency-key", text)];
    let body = json!({"text": text, "queue_mode": "queue"});
    let deadline = Instant::now() + RETRY_MAX;
    loop {
        let node = any_node(addresses, random);
        let response = node.send_within(RESPONSE_MAX, &path, &headers, &body);
        match response.and_then(|response| match random.below(LOST) {
            0 => Err(std::io::ErrorKind::ConnectionReset.into()),
            _ => Ok(response),
        }) {
            Ok(response) if response.status == 202 || response.status == 200 => {
                let id = response.body["message_id"].as_str().expect("an id").to_owned();
                return Outcome::Accepted { message_id: id };
            }
            Ok(response) if (400..500).contains(&response.status) => {
                return Outcome::Refused(response.text());
            }
            _ if random.below(GIVE_UP) == 0 || Instant::now() > deadline => {
                return Outcome::Unknown;
            }
            _ => random_delay(random, BACKOFF.0, BACKOFF.1),
        }
    }
}

/// Follows a session from its first event to the one with number `end`, which is set later, and
/// goes to another node from time to time. Returns the numbers of the events in the order of their
/// arrival.
pub(super) fn follow(
    session: &str,
    addresses: &Addresses,
    end: &Arc<AtomicU64>,
    random: &mut Random,
) -> Vec<u64> {
    let path = format!("/api/sessions/{session}/events");
    let mut seen: Vec<u64> = Vec::new();
    let mut deadline = None;
    loop {
        let end = match end.load(Ordering::Relaxed) {
            0 => u64::MAX,
            end => end,
        };
        let last = seen.last().copied().unwrap_or(0);
        if end != u64::MAX {
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + RETRY_MAX);
            if last >= end || Instant::now() > deadline {
                return seen;
            }
        }
        let header = last.to_string();
        let headers = [("last-event-id", header.as_str())];
        let node = any_node(addresses, random);
        let Ok(mut stream) = node.try_follow(RESPONSE_MAX, &path, &headers) else {
            random_delay(random, BACKOFF.0, BACKOFF.1);
            continue;
        };
        let mut left = 1 + random.below(FOLLOWED_MAX);
        while left > 0 && seen.last().is_none_or(|last| *last < end) {
            let Some(event) = stream.next() else { break };
            if let Some(id) = event.id {
                seen.push(id);
                left -= 1;
            }
        }
    }
}

/// A document that any node may answer, within a time.
pub(super) fn read(addresses: &Addresses, path: &str, random: &mut Random) -> Value {
    let deadline = Instant::now() + RETRY_MAX;
    loop {
        let node = any_node(addresses, random);
        match node.send_within(RESPONSE_MAX, path, &[], &Value::Null) {
            Ok(response) if response.status == 200 => return response.json(),
            other => assert!(Instant::now() < deadline, "GET {path}: {other:?}"),
        }
        random_delay(random, BACKOFF.0, BACKOFF.1);
    }
}
