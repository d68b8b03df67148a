//! Messages over HTTP: which provider answers, pages in both orders, statuses, a failing
//! transaction.

use serde_json::{Value, json};

use crate::harness::server::{Server, home, log_to};
use crate::harness::wait_until;

/// Sends a message and waits until it is answered.
fn say(server: &Server, session: &str, body: &Value) -> Value {
    let headers = [("content-type", "application/json"), ("prefer", "wait=20")];
    let told = server
        .ask(
            "POST",
            &format!("/api/sessions/{session}/messages"),
            &headers,
            body.to_string().as_bytes(),
        )
        .is(200);
    assert_eq!(told["state"], "idle", "{told}");
    told
}

fn read(server: &Server, query: &str) -> (Vec<Value>, Option<String>) {
    let page = server.get(&format!("/api/sessions/s/messages?{query}")).is(200);
    let messages = page["messages"].as_array().expect("messages").clone();
    (messages, page["next_cursor"].as_str().map(str::to_owned))
}

/// All pages of this size, from a cursor on.
fn pages(server: &Server, order: &str, limit: usize, from: Option<String>) -> Vec<Value> {
    let (mut all, mut cursor) = (Vec::new(), from);
    for _ in 0..1000 {
        let at = cursor.as_deref().map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        let (messages, next) = read(server, &format!("order={order}&limit={limit}{at}"));
        assert!(messages.len() <= limit, "{} of {limit}", messages.len());
        assert!(next.is_none() || !messages.is_empty(), "a page that leads on holds something");
        all.extend(messages);
        cursor = next;
        if cursor.is_none() {
            return all;
        }
    }
    panic!("the pages never end");
}

fn ids(messages: &[Value]) -> Vec<String> {
    messages.iter().map(|message| message["id"].as_str().expect("an id").to_owned()).collect()
}

fn words(message: &Value) -> &str {
    message["content"][0]["text"].as_str().unwrap_or_default()
}

#[test]
fn a_message_can_choose_its_provider_and_the_session_keeps_its_own() {
    // R245
    let server = Server::configured(
        "[defaults]\nprovider = \"first\"\n[providers.first]\nkind = \"demo\"\n\
         [providers.second]\nkind = \"demo\"\n",
    );
    server.session("s");
    let sent = say(&server, "s", &json!({"text": "hello"}));
    say(
        &server,
        "s",
        &json!({"content": [{"type": "text", "text": "and you?"}], "provider_id": "second",
            "model": "large"}),
    );
    say(&server, "s", &json!({"text": "back", "model": "small"}));
    let (messages, next) = read(&server, "");
    assert_eq!((messages.len(), next), (6, None));
    assert_eq!(messages[0]["id"], sent["message_id"]);
    let who = |at: usize| (messages[at]["provider_id"].as_str(), messages[at]["model"].as_str());
    for (at, model) in [(0, Some("demo")), (2, Some("large")), (4, Some("small"))] {
        assert_eq!(who(at).1, model, "{}", messages[at]);
        assert_eq!(who(at), who(at + 1), "question and answer are of one turn");
        assert_eq!(
            (&messages[at]["role"], &messages[at + 1]["role"]),
            (&json!("user"), &json!("assistant"))
        );
    }
    assert_eq!([who(0).0, who(2).0, who(4).0], [Some("first"), Some("second"), Some("first")]);
    assert!(words(&messages[3]).contains("I see 2 earlier messages"), "{}", messages[3]);
    let session = server.get("/api/sessions/s").is(200);
    assert_eq!((&session["provider_id"], &session["model"]), (&Value::Null, &Value::Null));
    server
        .post("/api/sessions/s/messages", &json!({"text": "x", "provider_id": "nobody"}))
        .refuses(422, "unknown_provider");
    server
        .post("/api/sessions/s/messages", &json!({"text": "x", "provider": "first"}))
        .refuses(422, "invalid_body");
    assert_eq!(read(&server, "").0, messages, "what was refused left nothing");
}

#[test]
fn the_whole_history_is_read_in_pages_of_any_size_while_it_grows() {
    // R246
    let server = Server::start();
    server.session("s");
    for n in 0..4 {
        say(&server, "s", &json!({"text": format!("long 1 number {n}")}));
    }
    let whole = read(&server, "").0;
    assert_eq!(whole.len(), 8);
    assert_eq!(words(&whole[6]), "long 1 number 3");
    let mut newest_first = ids(&whole);
    newest_first.reverse();
    for limit in 1..=9 {
        assert_eq!(ids(&pages(&server, "asc", limit, None)), ids(&whole), "asc {limit}");
        assert_eq!(ids(&pages(&server, "desc", limit, None)), newest_first, "desc {limit}");
    }
    for (at, limit) in [(1, 1), (2, 2), (3, 3), (7, 7), (3, 1)] {
        let (first, up) = read(&server, &format!("limit={at}"));
        let (last, down) = read(&server, &format!("order=desc&limit={at}"));
        say(&server, "s", &json!({"text": "long 1 and more"}));
        let grown = ids(&read(&server, "limit=1000").0);
        let up = [ids(&first), ids(&pages(&server, "asc", limit, up))].concat();
        assert_eq!(up, grown, "what came meanwhile is at the end, nothing is missed or done twice");
        let down = [ids(&last), ids(&pages(&server, "desc", limit, down))].concat();
        let mut before = grown[..grown.len() - 2].to_vec();
        before.reverse();
        assert_eq!(down, before, "what came meanwhile is no part of the way down");
    }
    for query in ["limit=0", "limit=1001", "order=up", "cursor=x"] {
        assert_eq!(server.get(&format!("/api/sessions/s/messages?{query}")).status, 422, "{query}");
    }
}

#[test]
fn an_open_turn_is_read_in_pages_of_any_size() {
    // R246: the open turn has no id yet. It is the first of a session, then a later one.
    for before in [0, 2] {
        let server = Server::start();
        server.session("s");
        for _ in 0..before {
            say(&server, "s", &json!({"text": "long 1"}));
        }
        server.post("/api/sessions/s/messages", &json!({"text": "slow 150"})).is(202);
        wait_until("it speaks", || read(&server, "").0.len() == 2 * before + 2);
        let whole = ids(&read(&server, "").0);
        assert_eq!(
            read(&server, "order=desc&limit=2").0[0]["turn"],
            Value::Null,
            "its turn is open"
        );
        let mut newest_first = whole.clone();
        newest_first.reverse();
        for limit in 1..=whole.len() + 1 {
            assert_eq!(
                ids(&pages(&server, "asc", limit, None)),
                whole,
                "asc {limit} after {before}"
            );
            assert_eq!(
                ids(&pages(&server, "desc", limit, None)),
                newest_first,
                "desc {limit} after {before}"
            );
        }
        // Cursors in the open turn stay valid when it is stored and has a child.
        let cut = whole.len() - 1;
        let (first, up) = read(&server, &format!("limit={cut}"));
        let (last, down) = read(&server, "order=desc&limit=1");
        server.post("/api/sessions/s/cancel", &json!({})).is(200);
        say(&server, "s", &json!({"text": "long 1"}));
        let grown = ids(&read(&server, "").0);
        assert_eq!(
            (&grown[..whole.len()], grown.len()),
            (&whole[..], whole.len() + 2),
            "its messages keep their ids"
        );
        assert_eq!(
            [ids(&first), ids(&pages(&server, "asc", 1, up))].concat(),
            grown,
            "after {before}"
        );
        assert_eq!(
            [ids(&last), ids(&pages(&server, "desc", 1, down))].concat(),
            newest_first,
            "after {before}"
        );
    }
}

#[test]
fn archived_and_damaged_sessions_are_hidden_readable_and_have_a_status() {
    // R201, R214, R216
    let server = Server::start();
    for label in ["a", "s", "e"] {
        server.session(label);
        say(&server, label, &json!({"text": "long 1"}));
    }
    let database = server.dir.sql();
    for (label, status) in [("s", "archived"), ("e", "error")] {
        assert_eq!(
            database.execute(&format!(
                "UPDATE sessions SET status = '{status}' WHERE label = '{label}'"
            )),
            1
        );
    }
    assert_eq!(server.labels(""), ["a"]);
    assert_eq!(server.get("/api/sessions").is(200)["hidden"], json!({"archived": 1, "error": 1}));
    for (status, labels) in [
        ("error", vec!["e"]),
        ("archived", vec!["s"]),
        ("archived,error", vec!["e", "s"]),
        ("all", vec!["a", "e", "s"]),
    ] {
        let mut found = server.labels(&format!("?status={status}"));
        found.sort();
        assert_eq!(found, labels, "{status}");
    }
    let list = server.get("/api/sessions?status=all").is(200);
    for (label, status) in [("a", "active"), ("s", "archived"), ("e", "error")] {
        assert_eq!(server.get(&format!("/api/sessions/{label}")).is(200)["status"], status);
        let listed = list["sessions"]
            .as_array()
            .expect("sessions")
            .iter()
            .find(|one| one["label"] == label)
            .expect("listed");
        assert_eq!((&listed["status"], &listed["state"]), (&json!(status), &json!("idle")));
        assert_eq!(
            server.get(&format!("/api/sessions/{label}/messages")).is(200)["messages"]
                .as_array()
                .map(Vec::len),
            Some(2),
            "{label}"
        );
    }
    server.post("/api/sessions/e/messages", &json!({"text": "x"})).refuses(409, "session_error");
    server.post("/api/sessions/e/archive", &json!({})).refuses(409, "session_error");
    assert_eq!(server.get("/api/sessions/e").is(200)["status"], "error", "only a repair clears it");
    say(&server, "s", &json!({"text": "long 1"}));
    assert_eq!(server.get("/api/sessions/s").is(200)["status"], "active");
}

#[test]
fn a_turn_that_cannot_be_stored_changes_nothing_until_it_can() {
    // R152: the last row of the transaction is refused, after the turn and its text were written.
    let dir = home();
    let log = dir.path().join("log");
    let server = Server::spawn(dir, "127.0.0.1:0", |command| log_to(command, &log));
    server.session("s");
    say(&server, "s", &json!({"text": "long 1"}));
    let database = server.dir.sql();
    let number = |sql: &str| database.number(sql);
    let count = |table: &str| number(&format!("SELECT count(*) FROM {table}"));
    let body_bytes = || number("SELECT sum(length(data)) FROM bodies");
    let look = || {
        let session = server.get("/api/sessions/s").is(200);
        let history = server.get("/api/sessions/s/history").is(200);
        (
            session["head"].clone(),
            session["turn_count"].clone(),
            history,
            count("turns"),
            count("session_history"),
            body_bytes(),
        )
    };
    let before = look();
    database.refuse_inserts("session_history", "the trigger says no");
    let sent = server.post("/api/sessions/s/messages", &json!({"text": "slow 5"})).is(202);
    wait_until("it speaks", || {
        let (messages, _) = read(&server, "order=desc&limit=1");
        messages[0]["role"] == "assistant" && messages[0]["turn"].is_null()
    });
    wait_until("the end of the run was refused by the store", || {
        std::fs::read_to_string(&log).expect("the log").contains("the trigger says no")
    });
    let (head, turns, history, ..) = look();
    assert_eq!((head, turns, history), (before.0.clone(), before.1.clone(), before.2.clone()));
    assert_eq!(
        (count("turns"), count("session_history"), body_bytes()),
        (before.3, before.4, before.5),
        "nothing of it is there"
    );
    assert_eq!(server.get("/api/sessions/s").is(200)["state"], "running", "it is not over");
    database.accept_inserts("session_history");
    wait_until("it is committed", || server.get("/api/sessions/s").is(200)["state"] == "idle");
    let after = look();
    assert_eq!((after.1, after.3, after.4), (json!(2), before.3 + 1, before.4 + 1), "once");
    let whole = read(&server, "").0;
    assert_eq!((whole.len(), &whole[2]["id"]), (4, &sent["message_id"]));
    assert_eq!(words(&whole[3]), "the demo agent of ctx");
}
