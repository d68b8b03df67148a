//! A session's events in the Durable Streams protocol: read side.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::client::{Client, Response};
use crate::harness::server::{Server, configured_home};
use crate::harness::wait_until;

const STREAM: &str = "/api/sessions/s/stream";

/// A session `s` with this number of events.
fn server_with(events: u64) -> Server {
    let server = Server::start();
    server.session("s");
    add_events(&server, events - 1);
    server
}

/// Each new title is one event.
fn add_events(client: &Client, count: u64) {
    static TITLES: AtomicU64 = AtomicU64::new(0);
    for _ in 0..count {
        let title = TITLES.fetch_add(1, Ordering::Relaxed).to_string();
        client.send("PATCH", "/api/sessions/s", &json!({"title": title})).is(200);
    }
}

fn offset(seq: u64) -> String {
    format!("{seq:016}")
}

fn seqs(events: &Value) -> Vec<u64> {
    let events = events.as_array().expect("an array");
    events.iter().map(|event| event["seq"].as_u64().expect("a number")).collect()
}

/// The next offset of a response and whether it was all.
fn position(response: &Response) -> (Option<&str>, Option<&str>) {
    (response.header("stream-next-offset"), response.header("stream-up-to-date"))
}

#[test]
fn a_stream_is_read_from_any_offset() {
    let server = server_with(5);
    let mut feed = server.follow("/api/sessions/s/events", Some(0));
    let expected: Vec<Value> = (0..5).map(|_| feed.next().expect("an event").data).collect();
    for query in ["", "?offset=-1", &format!("?offset={}", offset(0))] {
        let all = server.get(&format!("{STREAM}{query}"));
        assert_eq!(all.header("content-type"), Some("application/json"));
        assert_eq!(position(&all), (Some(&*offset(5)), Some("true")), "{query}");
        assert_eq!(all.is(200), json!(expected), "the objects of the event stream");
    }
    for seq in 1..5 {
        let rest = server.get(&format!("{STREAM}?offset={}&unknown=1", offset(seq))).is(200);
        assert_eq!(rest, json!(expected[seq as usize..]));
    }
    let end = server.get(&format!("{STREAM}?offset={}", offset(5)));
    assert_eq!(position(&end), (Some(&*offset(5)), Some("true")));
    assert_eq!(end.is(200), json!([]));
    let now = server.get(&format!("{STREAM}?offset=now"));
    assert_eq!((now.header("cache-control"), now.header("etag")), (Some("no-store"), None));
    assert_eq!(position(&now), (Some(&*offset(5)), Some("true")));
    assert_eq!(now.is(200), json!([]));
}

#[test]
fn head_tells_the_end_without_a_body() {
    let server = server_with(3);
    let head = server.ask("HEAD", STREAM, &[], b"");
    assert_eq!((head.status, head.bytes.len()), (200, 0));
    assert_eq!(head.header("stream-next-offset"), Some(&*offset(3)));
    assert_eq!(head.header("content-type"), Some("application/json"));
    assert_eq!(head.header("cache-control"), Some("no-store"));
    assert_eq!(head.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(head.header("cross-origin-resource-policy"), Some("same-origin"));
    assert_eq!(server.ask("HEAD", "/api/sessions/none/stream", &[], b"").status, 404);
}

#[test]
fn an_etag_spares_a_page_that_has_not_changed() {
    let server = server_with(3);
    let first = server.get(STREAM);
    let tag = first.header("etag").expect("a tag").to_owned();
    let cache = first.header("cache-control").expect("a policy");
    assert!(cache.starts_with("private") && cache.contains("must-revalidate"), "{cache}");
    let listed = format!("\"x\", W/{tag}");
    for given in [&tag, &listed, "*"] {
        let again = server.ask("GET", STREAM, &[("if-none-match", given)], b"");
        assert_eq!((again.status, again.bytes.len()), (304, 0), "{given}");
        assert_eq!(again.header("etag"), Some(&*tag));
        assert_eq!(position(&again), (Some(&*offset(3)), Some("true")));
    }
    assert_eq!(server.ask("GET", STREAM, &[("if-none-match", "\"x\"")], b"").status, 200);
    add_events(&server, 1);
    let grown = server.ask("GET", STREAM, &[("if-none-match", &tag)], b"");
    assert_ne!(grown.header("etag"), Some(&*tag));
    assert_eq!(seqs(&grown.is(200)), [1, 2, 3, 4]);
}

#[test]
fn a_long_stream_is_read_in_pages_that_a_cache_may_keep() {
    let server = server_with(1);
    let mut jobs = Vec::new();
    for _ in 0..8 {
        let client = server.client();
        jobs.push(thread::spawn(move || add_events(&client, 140)));
    }
    jobs.into_iter().for_each(|job| job.join().expect("events"));
    let (mut found, mut next, mut pages) = (Vec::new(), "-1".to_owned(), 0);
    loop {
        let page = server.get(&format!("{STREAM}?offset={next}"));
        pages += 1;
        let last = page.header("stream-up-to-date").is_some();
        let cache = page.header("cache-control").expect("a policy").to_owned();
        assert_eq!(cache.contains("max-age=60"), !last, "{cache}");
        assert_eq!(page.header("stream-closed"), None);
        next = page.header("stream-next-offset").expect("an offset").to_owned();
        let events = seqs(&page.is(200));
        assert!(events.len() <= 1000);
        found.extend(events);
        if last {
            break;
        }
    }
    assert_eq!(found, (1..=8 * 140 + 1).collect::<Vec<u64>>(), "each event once, in order");
    assert_eq!(pages, 2);
}

#[test]
fn a_long_poll_waits_for_an_event_or_its_timeout() {
    let server = server_with(2);
    let at_end = format!("{STREAM}?live=long-poll&offset={}", offset(2));
    let client = server.client();
    let waiting = thread::spawn(move || client.get(&at_end));
    add_events(&server, 1);
    let woken = waiting.join().expect("a response");
    assert_eq!(position(&woken), (Some(&*offset(3)), Some("true")));
    let cursor: u64 = woken.header("stream-cursor").expect("a cursor").parse().expect("a number");
    assert_eq!(seqs(&woken.is(200)), [3]);

    let old = server.get(&format!("{STREAM}?live=long-poll&offset=-1&cursor={cursor}"));
    let next: u64 = old.header("stream-cursor").expect("a cursor").parse().expect("a number");
    assert!(next > cursor, "{next} after {cursor}");
    assert_eq!(seqs(&old.is(200)), [1, 2, 3], "what is stored is returned at once");

    let began = Instant::now();
    let none = server.get(&format!("{STREAM}?live=long-poll&offset=now&timeout=1"));
    assert!(began.elapsed() >= Duration::from_secs(1));
    assert_eq!((none.status, none.bytes.len()), (204, 0));
    assert_eq!(position(&none), (Some(&*offset(3)), Some("true")));
    assert!(none.header("stream-cursor").is_some());
    assert_eq!(none.header("cache-control"), Some("no-store"));
}

#[test]
fn an_event_stream_pairs_events_with_their_position() {
    let server = server_with(2);
    let mut stream = server.follow_with(&format!("{STREAM}?live=sse&offset=-1"), &[]);
    assert_eq!(stream.header("content-type"), Some("text/event-stream"));
    assert_eq!(stream.header("cache-control"), Some("no-cache"));
    let data = stream.next().expect("data");
    assert_eq!((data.name.as_str(), seqs(&data.data)), ("data", vec![1, 2]));
    let control = stream.next().expect("a position");
    assert_eq!(control.name, "control");
    assert_eq!(control.data["streamNextOffset"], offset(2));
    assert_eq!(control.data["upToDate"], true);
    assert!(control.data["streamCursor"].as_str().is_some_and(|text| text.parse::<u64>().is_ok()));
    add_events(&server, 1);
    assert_eq!(seqs(&stream.next().expect("data").data), [3]);
    assert_eq!(stream.next().expect("a position").data["streamNextOffset"], offset(3));

    let mut end = server.follow_with(&format!("{STREAM}?live=sse&offset=now"), &[]);
    let first = end.next().expect("a position");
    assert_eq!((first.name.as_str(), &first.data["upToDate"]), ("control", &json!(true)));
    assert_eq!(first.data["streamNextOffset"], offset(3));
}

#[test]
fn text_is_not_in_the_stream_and_a_run_is() {
    let server = Server::start();
    server.session("s");
    let mut stream = server.follow_with(&format!("{STREAM}?live=sse&offset=-1"), &[]);
    server.post("/api/sessions/s/messages", &json!({"text": "hello", "provider_id": "demo"}));
    let mut found: Vec<Value> = Vec::new();
    while !found.iter().any(|event| event["type"] == "turn.committed") {
        let next = stream.next().expect("an event");
        if next.name == "data" {
            found.extend(next.data.as_array().expect("an array").iter().cloned());
        }
    }
    let stored = server.get(STREAM).is(200);
    assert_eq!(json!(found), json!(stored.as_array().expect("an array")[..found.len()]));
    assert!(found.iter().all(|event| event["type"] != "message.delta"));
}

#[test]
fn a_deleted_session_closes_its_stream() {
    let server = server_with(2);
    let mut stream = server.follow_with(&format!("{STREAM}?live=sse&offset=now"), &[]);
    stream.next().expect("a position");
    let client = server.client();
    let poll = format!("{STREAM}?live=long-poll&offset=now");
    let waiting = thread::spawn(move || client.get(&poll));
    // The stream and the request.
    wait_until("both clients wait", || server.get("/metrics").text().contains("event_clients 2\n"));
    assert_eq!(server.ask("DELETE", "/api/sessions/s", &[], b"").status, 204);
    let last = stream.next().expect("data");
    assert_eq!(last.data[0]["type"], "session.deleted");
    let control = stream.next().expect("a position");
    assert_eq!(control.data["streamClosed"], true);
    assert_eq!(control.data.get("streamCursor"), None);
    assert_eq!(stream.next(), None, "the response ends");
    let polled = waiting.join().expect("a response");
    assert_eq!(polled.header("stream-closed"), Some("true"));
    assert_eq!(polled.is(200)[0]["type"], "session.deleted");
    for path in [STREAM.to_owned(), format!("{STREAM}?offset=now&live=sse")] {
        server.get(&path).refuses(404, "no_session");
    }
}

#[test]
fn writing_is_refused_with_a_pointer_to_messages() {
    let server = server_with(1);
    for method in ["PUT", "POST", "PATCH", "DELETE"] {
        let refused = server.ask(method, STREAM, &[("content-type", "application/json")], b"[1]");
        assert_eq!(refused.header("allow"), Some("GET, HEAD"), "{method}");
        let problem = refused.refuses(405, "method_not_allowed");
        let hint = problem["hint"].as_str().expect("a hint");
        assert!(hint.contains("POST /api/sessions/{id}/messages"), "{hint}");
    }
    assert_eq!(server.read("/api/sessions/s")["seq"], 1, "nothing was written");
}

#[test]
fn invalid_parameters_are_bad_requests() {
    let server = server_with(1);
    for (query, code) in [
        ("offset=", "invalid_offset"),
        ("offset=1", "invalid_offset"),
        ("offset=0,0", "invalid_offset"),
        ("offset=%20", "invalid_offset"),
        ("offset=..%2F..%2Fetc", "invalid_offset"),
        ("offset=0000000000000002", "invalid_offset"),
        ("offset=-1&offset=-1", "invalid_query"),
        ("live=sse", "invalid_offset"),
        ("live=long-poll", "invalid_offset"),
        ("offset=-1&live=x", "invalid_live"),
        ("offset=-1&live=long-poll&timeout=x", "invalid_timeout"),
    ] {
        server.get(&format!("{STREAM}?{query}")).refuses(400, code);
    }
    server.get("/api/sessions/none/stream?offset=now").refuses(404, "no_session");
}

#[test]
fn a_stream_needs_a_read_token_beyond_loopback_and_a_known_host() {
    let home = configured_home("[server]\nroots = [\"/tmp\"]\n");
    let log = home.path().join("log");
    let token = |scope: &str| {
        let made = crate::harness::ctx(home.path())
            .args(["token", "create", "--scope", scope, "--json"])
            .output()
            .expect("a token");
        let made: Value = serde_json::from_slice(&made.stdout).expect("JSON");
        format!("Bearer {}", made["token"].as_str().expect("a token"))
    };
    let (write, read) = (token("write"), token("read"));
    let server = Server::on_all_interfaces(home.clone(), &log);
    let created = server.try_send(
        "POST",
        "/api/sessions",
        &[("authorization", &write)],
        &json!({"label": "s"}),
    );
    assert_eq!(created.expect("a response").status, 201);
    server.get(STREAM).refuses(401, "unauthorized");
    server.ask("POST", STREAM, &[("authorization", &read)], b"").refuses(403, "forbidden_scope");
    server
        .ask("POST", STREAM, &[("authorization", &write)], b"")
        .refuses(405, "method_not_allowed");
    let allowed = server.ask("GET", STREAM, &[("authorization", &read)], b"");
    assert_eq!(seqs(&allowed.is(200)), [1]);
    let local = server_with(1);
    local.ask("GET", STREAM, &[("host", "evil.example")], b"").refuses(421, "wrong_host");
    let origin = [("origin", "http://evil.example")];
    local.ask("GET", STREAM, &origin, b"").refuses(403, "foreign_origin");
}

#[test]
fn a_second_server_on_the_store_reads_the_same_stream() {
    let first = server_with(2);
    let second = Server::in_dir(first.dir.clone());
    let offset = offset(2);
    let client = second.client();
    let waiting =
        thread::spawn(move || client.get(&format!("{STREAM}?live=long-poll&offset={offset}")));
    add_events(&first, 1);
    let woken = waiting.join().expect("a response");
    assert_eq!(seqs(&woken.is(200)), [3]);
    assert_eq!(first.get(STREAM).is(200), second.get(STREAM).is(200));
}
