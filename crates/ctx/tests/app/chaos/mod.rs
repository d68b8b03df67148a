//! Chaos: three nodes on one PostgreSQL server, clients that retry, and random faults. At the end a
//! checker compares what the clients were told with what is stored.
//!
//! | module | content |
//! |---|---|
//! | `cluster` | the nodes, the proxy and the server, and what happens to them |
//! | `clients` | clients that send messages, and clients that follow sessions |
//! | `checker` | the invariants, with histories that violate them |
//! | `single_faults` | one fault each: passwords, connections, schemas, clocks |
//! | `unreachable` | a database that does not answer |
//!
//! `CTX_CHAOS_SEED` repeats the draws of a run, `CTX_CHAOS_FAULTS` is the number of faults (12
//! without it), `CTX_CHAOS_LEASE` the lease of a node in seconds, `CTX_CHAOS_LOG` the log level of
//! the nodes.

mod checker;
mod clients;
mod cluster;
mod single_faults;
mod unreachable;

#[path = "../../../../ctx-store/tests/postgres/proxy.rs"]
#[allow(dead_code, reason = "the tests of the store use the rest of it")]
mod proxy;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::ctx;
use crate::harness::model_server::{ModelServer, Request};
use crate::harness::seed::Random;

use checker::{Call, Outcome, Stored, Turn, TurnRow, answer_to, check};
use cluster::{Addresses, Cluster};
use proxy::Cut;

const NODES: usize = 3;
const SESSIONS: usize = 64;
const CLIENTS: usize = 24;
/// Sessions that are followed, each by one client.
const FOLLOWED: usize = 8;
/// The faults of the short form.
const FAULTS: usize = 12;
/// Pause between two pieces of an answer. An answer has six.
const PIECE_PAUSE: Duration = Duration::from_millis(60);
/// Longest time from one fault to the next, beside what the fault itself takes.
const CALM_MAX: Duration = Duration::from_millis(2500);
/// How long the sessions may take to become idle after the last fault.
const SETTLE_MAX: Duration = Duration::from_secs(120);

/// A number in the environment.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Kill,
    Stop,
    RestartFast,
    RestartImmediate,
    CutBetweenTrips,
    CutAtCommit,
    CutAll,
    Pause,
}

/// Every kind occurs once before any occurs again.
const KINDS: [Fault; 8] = [
    Fault::Kill,
    Fault::Stop,
    Fault::RestartFast,
    Fault::RestartImmediate,
    Fault::CutBetweenTrips,
    Fault::CutAtCommit,
    Fault::CutAll,
    Fault::Pause,
];

/// An answer that quotes the newest message of the user, in pieces.
fn quoting(request: &Request) -> Vec<String> {
    let messages = request.body["messages"].as_array().cloned().unwrap_or_default();
    let words = |message: &Value| match &message["content"] {
        Value::String(text) => text.clone(),
        parts => parts
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|part| part["text"].as_str())
            .collect(),
    };
    let newest = messages.iter().rfind(|message| message["role"] == "user");
    let text = newest.map(words).unwrap_or_default();
    // A mark about an earlier turn may stand beside the message.
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_number = |word: &str, letter: char| {
        word.strip_prefix(letter).is_some_and(|rest| rest.parse::<u64>().is_ok())
    };
    let message = words.windows(3).rfind(|words| {
        is_number(words[0], 'c') && is_number(words[1], 's') && is_number(words[2], 'n')
    });
    let text = message.map(|words| words.join(" ")).unwrap_or_default();
    let answer: Vec<char> = answer_to(&text).chars().collect();
    answer.chunks(answer.len().div_ceil(6)).map(|piece| piece.iter().collect()).collect()
}

#[test]
fn nothing_is_lost_or_repeated_while_nodes_and_the_database_fail() {
    // R133, R144, R145, R238
    let seed = number("CTX_CHAOS_SEED").unwrap_or_else(|| Random::new(1717).below(1 << 32));
    let faults = number("CTX_CHAOS_FAULTS").map_or(FAULTS, |count| count as usize);
    println!("chaos: seed {seed} (CTX_CHAOS_SEED={seed} repeats the draws), {faults} faults");
    let mut random = Random::from_seed(seed);
    let model = ModelServer::in_pieces(PIECE_PAUSE, quoting);
    let lease = Duration::from_secs(number("CTX_CHAOS_LEASE").unwrap_or(10));
    let server = match number("CTX_CHAOS_LEASE") {
        Some(seconds) => format!("[server]\nlease = \"{seconds}s\"\n"),
        None => String::new(),
    };
    let mut cluster =
        Cluster::start(NODES, &model.config(&format!("{server}[inbox]\ncap = 1000\n")));
    let addresses = cluster.addresses.clone();
    for n in 0..SESSIONS {
        clients::any_node(&addresses, &mut random).session(&format!("s{n}"));
    }

    let (began, stop) = (Instant::now(), Arc::new(AtomicBool::new(false)));
    let ends: Vec<Arc<AtomicU64>> = (0..FOLLOWED).map(|_| Arc::default()).collect();
    let senders: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (addresses, stop, random) = (addresses.clone(), stop.clone(), random.fork());
            std::thread::spawn(move || {
                clients::send_messages(client, SESSIONS, &addresses, &stop, random)
            })
        })
        .collect();
    let followers: Vec<_> = ends
        .iter()
        .enumerate()
        .map(|(n, end)| {
            let (addresses, end, mut random) = (addresses.clone(), end.clone(), random.fork());
            std::thread::spawn(move || {
                clients::follow(&format!("s{n}"), &addresses, &end, &mut random)
            })
        })
        .collect();

    let done = inject(&mut cluster, faults, lease, &mut random);
    stop.store(true, Ordering::Relaxed);
    let calls: Vec<Call> =
        senders.into_iter().flat_map(|sender| sender.join().expect("no panic")).collect();
    let sent_in = began.elapsed();
    settle(&addresses, seed, &mut random);
    let settled_in = began.elapsed() - sent_in;

    let rows = cluster.rows("SELECT label, seq FROM sessions");
    for row in rows {
        let followed = row[0].strip_prefix('s').and_then(|n| n.parse::<usize>().ok());
        if let Some(end) = followed.and_then(|n| ends.get(n)) {
            end.store(row[1].parse().expect("a number"), Ordering::Relaxed);
        }
    }
    let followed: Vec<Vec<u64>> =
        followers.into_iter().map(|follower| follower.join().expect("no panic")).collect();
    let mut stored = stored_sessions(&cluster, &addresses, &mut random);
    for (n, events) in followed.into_iter().enumerate() {
        stored.get_mut(&format!("s{n}")).expect("a session").followed = Some(events);
    }
    let mut found = Vec::new();
    for session in stored.values() {
        let own: Vec<Call> =
            calls.iter().filter(|call| call.session == session.label).cloned().collect();
        found.extend(check(session, &own));
    }
    report(&done, &calls, &stored, sent_in, settled_in);
    assert!(found.is_empty(), "seed {seed}: {} findings\n{}", found.len(), found.join("\n"));
    let verified = ctx(std::path::Path::new("/"))
        .args(["--store", &cluster.url(), "verify"])
        .output()
        .expect("ctx runs");
    let text = String::from_utf8_lossy(&verified.stderr);
    assert!(verified.status.success(), "seed {seed}: {text}");
    let accepted = calls.iter().filter(|call| matches!(call.outcome, Outcome::Accepted { .. }));
    assert!(accepted.count() > faults, "seed {seed}: hardly anything was accepted");
}

/// Lets faults happen; how often each kind did. A cut happens only if a connection sends its bytes.
fn inject(
    cluster: &mut Cluster,
    faults: usize,
    lease: Duration,
    random: &mut Random,
) -> BTreeMap<Fault, usize> {
    let mut done: BTreeMap<Fault, usize> = BTreeMap::new();
    let mut deck: Vec<Fault> = Vec::new();
    let began = Instant::now();
    for _ in 0..faults {
        std::thread::sleep(random.duration(Duration::ZERO, CALM_MAX));
        cluster.resume_due();
        if deck.is_empty() {
            deck = KINDS.to_vec();
        }
        let fault = deck.swap_remove(random.below(deck.len() as u64) as usize);
        let running = cluster.running();
        let node = running.get(random.below(running.len().max(1) as u64) as usize).copied();
        let pause = random.duration(Duration::from_millis(200), Duration::from_secs(4));
        println!("chaos: {:.1?} {fault:?} {node:?} {pause:.1?}", began.elapsed());
        let happened = match (fault, node) {
            (Fault::Kill, Some(node)) => {
                cluster.kill(node);
                std::thread::sleep(pause / 2);
                cluster.restart(node);
                true
            }
            (Fault::Stop, Some(node)) => {
                cluster.stop(node, lease + pause);
                true
            }
            (Fault::Kill | Fault::Stop, None) => false,
            (Fault::RestartFast, _) => {
                cluster.postgres.restart("fast");
                true
            }
            (Fault::RestartImmediate, _) => {
                cluster.postgres.restart("immediate");
                true
            }
            (Fault::CutBetweenTrips, _) => match random.below(2) {
                0 => cluster.cut_at("BEGIN", Cut::Answer),
                _ => cluster.cut_at("COMMIT", Cut::Before),
            },
            (Fault::CutAtCommit, _) => match random.below(2) {
                0 => cluster.cut_at("COMMIT", Cut::After),
                _ => cluster.cut_at("COMMIT", Cut::Answer),
            },
            (Fault::CutAll, _) => {
                cluster.cut_all();
                true
            }
            (Fault::Pause, _) => {
                cluster.pause(pause);
                true
            }
        };
        *done.entry(fault).or_default() += usize::from(happened);
    }
    cluster.resume_all();
    done
}

/// Waits until every session is idle with an empty inbox.
fn settle(addresses: &Addresses, seed: u64, random: &mut Random) {
    let deadline = Instant::now() + SETTLE_MAX;
    for n in 0..SESSIONS {
        loop {
            let info = clients::read(addresses, &format!("/api/sessions/s{n}"), random);
            if info["state"] == "idle" && info["waiting"] == 0 {
                break;
            }
            assert!(
                Instant::now() < deadline,
                "seed {seed}: s{n} does not settle within {SETTLE_MAX:?}: {info}"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Everything that is stored, read from the tables and through the nodes.
fn stored_sessions(
    cluster: &Cluster,
    addresses: &Addresses,
    random: &mut Random,
) -> BTreeMap<String, Stored> {
    let int = |text: &str| text.parse::<i64>().ok();
    let mut rows: BTreeMap<String, Stored> = BTreeMap::new();
    for row in cluster.rows("SELECT row, label, head, turn_count, seq FROM sessions") {
        let stored = Stored {
            label: row[1].clone(),
            head: int(&row[2]),
            turn_count: row[3].parse().expect("a count"),
            last_event: row[4].parse().expect("a number"),
            ..Stored::default()
        };
        rows.insert(row[0].clone(), stored);
    }
    for row in cluster.rows("SELECT session, id, parent FROM turns") {
        let turn = TurnRow { row: int(&row[1]).expect("a row"), parent: int(&row[2]) };
        rows.get_mut(&row[0]).expect("a session").turns.push(turn);
    }
    for row in cluster.rows("SELECT session, fence, ended_at FROM runs") {
        let session = rows.get_mut(&row[0]).expect("a session");
        session.fences.push(int(&row[1]).expect("a fence"));
        session.open_runs += usize::from(row[2].is_empty());
    }
    for stored in rows.values_mut() {
        stored.history = history(addresses, &stored.label, random);
        let end = Arc::new(AtomicU64::new(stored.last_event));
        stored.events = clients::follow(&stored.label, addresses, &end, random);
    }
    rows.into_values().map(|stored| (stored.label.clone(), stored)).collect()
}

fn history(addresses: &Addresses, label: &str, random: &mut Random) -> Vec<Turn> {
    let mut turns = Vec::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/api/sessions/{label}/turns?limit=200{cursor}");
        let page = clients::read(addresses, &path, random);
        turns.extend(page["turns"].as_array().expect("turns").iter().map(turn));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    turns.reverse();
    turns
}

fn turn(document: &Value) -> Turn {
    let mut turn = Turn { is_completed: document["status"] == "completed", ..Turn::default() };
    for message in document["messages"].as_array().expect("messages") {
        let parts = message["content"].as_array().into_iter().flatten();
        let text: String = parts.filter_map(|part| part["text"].as_str()).collect();
        if message["role"] == json!("user") {
            let id = message["id"].as_str().expect("an id").to_owned();
            turn.messages.push((id, text));
        } else if message["role"] == json!("assistant") {
            turn.answer.push_str(&text);
        }
    }
    turn
}

/// Prints the numbers of a run.
fn report(
    done: &BTreeMap<Fault, usize>,
    calls: &[Call],
    stored: &BTreeMap<String, Stored>,
    sent_in: Duration,
    settled_in: Duration,
) {
    let count = |is: fn(&Outcome) -> bool| calls.iter().filter(|call| is(&call.outcome)).count();
    let accepted = count(|outcome| matches!(outcome, Outcome::Accepted { .. }));
    let refused = count(|outcome| matches!(outcome, Outcome::Refused(_)));
    let unknown = count(|outcome| *outcome == Outcome::Unknown);
    let turns = stored.values().flat_map(|session| &session.history);
    let cut = turns.filter(|turn| !turn.is_completed).count();
    let runs: usize = stored.values().map(|session| session.fences.len()).sum();
    let turns: usize = stored.values().map(|session| session.turn_count).sum();
    let events: u64 = stored.values().map(|session| session.last_event).sum();
    println!(
        "chaos: {} faults in {sent_in:.1?}: {done:?}\nchaos: {accepted} messages accepted, \
         {refused} refused, {unknown} without a response; {turns} turns, {cut} of them cut off; \
         {runs} runs, {} of them repetitions; {events} events; settled in {settled_in:.1?}",
        done.values().sum::<usize>(),
        runs.saturating_sub(turns)
    );
}
