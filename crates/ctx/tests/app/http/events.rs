//! Event streams: stored events are replayed, then new ones are sent.

use serde_json::json;

use crate::harness::server::Server;

#[test]
fn a_session_is_replayed_from_its_start_and_then_followed() {
    let server = Server::start();
    let session = server.session("s");
    server.send("PATCH", "/api/sessions/s", &json!({"title": "T"})).is(200);
    let mut follower = server.follow("/api/sessions/s/events", Some(0));
    assert_eq!(follower.header("content-type"), Some("text/event-stream"));
    assert_eq!(
        (follower.header("cache-control"), follower.header("x-accel-buffering")),
        (Some("no-store"), Some("no"))
    );
    let first = follower.next().expect("an event");
    assert_eq!((first.name.as_str(), first.id), ("session.created", Some(1)));
    assert_eq!((&first.data["seq"], &first.data["session"]), (&json!(1), &session["id"]));
    assert!(first.data["at"].as_str().is_some_and(|at| at.ends_with('Z')), "{first:?}");
    let second = follower.next().expect("an event");
    assert_eq!((second.name.as_str(), second.id), ("session.updated", Some(2)));
    server.send("PATCH", "/api/sessions/s", &json!({"options": {"mode": "plan"}})).is(200);
    let names: Vec<_> = (0..2)
        .map(|_| follower.next().expect("an event"))
        .map(|event| (event.name, event.id))
        .collect();
    assert_eq!(
        names,
        [("session.updated".to_owned(), Some(3)), ("options.updated".to_owned(), Some(4))]
    );
    assert_eq!(server.get("/api/sessions/s").is(200)["seq"], 4, "fetch, then follow: no race");
}

#[test]
fn a_client_that_reconnects_continues_at_its_last_event() {
    let server = Server::start();
    server.session("s");
    for n in 0..5 {
        server.send("PATCH", "/api/sessions/s", &json!({"title": format!("{n}")})).is(200);
    }
    for (path, last) in [
        ("/api/sessions/s/events", Some(4)),
        ("/api/sessions/s/events?after=4", None),
        ("/api/sessions/s/events?after=1", Some(4)),
    ] {
        let mut follower = server.follow(path, last);
        let ids: Vec<_> = (0..2).map(|_| follower.next().expect("an event").id).collect();
        assert_eq!(ids, [Some(5), Some(6)], "{path}");
    }
    let mut now = server.follow("/api/sessions/s/events", None);
    server.send("PATCH", "/api/sessions/s", &json!({"title": "new"})).is(200);
    assert_eq!(now.next().expect("an event").id, Some(7), "with neither it starts now");
    for (path, header) in [
        ("/api/sessions/s/events?after=x", "1"),
        ("/api/sessions/s/events", "x"),
        ("/api/events", "x"),
    ] {
        assert_eq!(
            server.ask("GET", path, &[("last-event-id", header)], b"").status,
            422,
            "{path}"
        );
    }
}

#[test]
fn a_deleted_session_sends_an_event_and_ends_its_stream() {
    let server = Server::start();
    let session = server.session("s");
    let mut follower = server.follow("/api/sessions/s/events", None);
    assert_eq!(server.ask("DELETE", "/api/sessions/s", &[], b"").status, 204);
    let last = follower.next().expect("an event");
    assert_eq!((last.name.as_str(), &last.data["session_id"]), ("session.deleted", &session["id"]));
    assert_eq!(follower.next(), None);
}

#[test]
fn the_feed_of_all_sessions_can_be_resumed_at_any_event() {
    let server = Server::start();
    for label in ["a", "b"] {
        server.session(label);
        // Two events in one transaction.
        server
            .send("PATCH", &format!("/api/sessions/{label}"), &json!({"options": {"mode": "plan"}}))
            .is(200);
    }
    server.ask("DELETE", "/api/sessions/a", &[], b"");
    let read = |last: u64, count: usize| -> Vec<(String, u64)> {
        let mut follower = server.follow("/api/events", Some(last));
        (0..count)
            .map(|_| follower.next().expect("an event"))
            .map(|event| (event.name, event.id.expect("an id")))
            .collect()
    };
    let all = read(0, 7);
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    let each = ["session.created", "session.updated", "options.updated"];
    assert_eq!(names, [&each[..], &each[..], &["session.deleted"]].concat());
    assert!(all.is_sorted_by(|a, b| a.1 < b.1), "{all:?}");
    for (n, (_, id)) in all.iter().enumerate().take(6) {
        assert_eq!(read(*id, 6 - n), all[n + 1..], "after the {n}th");
    }
    let mut now = server.follow("/api/events", None);
    server.session("c");
    assert_eq!(now.next().expect("an event").name, "session.created");
}

#[test]
fn streams_end_when_the_server_does() {
    let server = Server::start();
    server.session("s");
    let mut one = server.follow("/api/sessions/s/events", None);
    let mut all = server.follow("/api/events", None);
    let (exit, took, _dir) = server.end();
    assert_eq!((one.next(), all.next()), (None, None));
    assert_eq!(exit, Some(0));
    assert!(took.as_secs() < 6, "{took:?}");
}
