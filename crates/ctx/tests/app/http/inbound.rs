//! Messages from channels: which session receives them, after which identity and which policy.

use std::sync::Barrier;

use serde_json::{Value, json};

use crate::harness::agent_server::AgentServer;
use crate::harness::client::{Client, Response};
use crate::harness::server::{Server, configured_home, home, log_to, write_policies};
use crate::harness::{ctx, verify, wait_until};

const CONFIG: &str = "[defaults]\nprovider = \"demo\"\n[providers.demo]\nkind = \"demo\"\n\
    [personas.atlas]\nsystem_prompt = \"You are Atlas.\"\n";

/// The example policies of R127, and one for threads (R122).
const EXAMPLES: &str = r#"
policies:
  - name: known-dm
    match:
      principal: {type: known}
      delivery: {peer_kind: dm}
    session: {key: "dm:{principal.entity_id}", persona: atlas}
    modifiers: {queue_mode: queue}
  - name: unknown-dm
    match:
      principal: {type: unknown}
      delivery: {peer_kind: dm}
    session: {key: "dm:{delivery.channel}:{delivery.sender_id}", persona: atlas}
    modifiers: {queue_mode: queue}
  - name: group-session
    match:
      delivery: {peer_kind: group}
    session: {key: "group:{delivery.channel}:{delivery.peer_id}", persona: atlas}
  - name: group-thread
    priority: 60
    match:
      delivery: {peer_kind: group, thread: true}
    session: {key: "group:{delivery.channel}:{delivery.peer_id}:thread:{delivery.thread_id}"}
"#;

fn server(policies: &str) -> Server {
    let home = configured_home(CONFIG);
    write_policies(home.path(), policies);
    Server::in_dir(home)
}

/// A direct message.
fn dm(channel: &str, sender: &str, text: &str) -> Value {
    json!({"channel": channel, "sender_id": sender, "text": text})
}

fn receive(client: &Client, body: &Value) -> Response {
    client.post("/api/inbound", body)
}

/// Sends a message and waits for its answer.
#[track_caller]
fn say(client: &Client, body: &Value) -> Value {
    let received = receive(client, body).is(202);
    client.settled(text_of(&received["session"]));
    received
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("a text: {value}"))
}

#[track_caller]
fn add_entity(client: &Client, name: &str) -> String {
    let made = client.post("/api/entities", &json!({"name": name})).is(201);
    text_of(&made["id"]).to_owned()
}

#[track_caller]
fn link(client: &Client, entity: &str, channel: &str, sender: &str) {
    let body = json!({"channel": channel, "sender_id": sender});
    client.post(&format!("/api/entities/{entity}/identities"), &body).is(201);
}

/// The texts of the messages of users in a session, oldest first.
fn user_texts(client: &Client, session: &str) -> Vec<String> {
    let (messages, waiting) = client.everything(session);
    assert_eq!(waiting, [Value::Null; 0]);
    let users = messages.iter().filter(|message| message["role"] == "user");
    users.map(|message| text_of(&message["content"][0]["text"]).to_owned()).collect()
}

fn aliases(client: &Client) -> Vec<(String, String, String)> {
    let list = client.read("/api/aliases");
    let text = |one: &Value, field: &str| text_of(&one[field]).to_owned();
    let list = list["aliases"].as_array().expect("a list");
    list.iter()
        .map(|one| (text(one, "alias"), text(one, "session_label"), text(one, "reason")))
        .collect()
}

fn owned(texts: [&str; 3]) -> (String, String, String) {
    let [one, two, three] = texts.map(str::to_owned);
    (one, two, three)
}

#[test]
fn the_example_policies_give_the_sessions_of_the_requirements() {
    // R118-R122, R125, R127, R129, R131
    let server = server(EXAMPLES);
    assert_eq!(server.announced["policies"], 4);
    let mom = add_entity(&server, "Mom");
    link(&server, &mom, "telegram", "42");
    let group = |sender: &str, peer: &str, thread: Option<&str>| {
        json!({"channel": "slack", "sender_id": sender, "peer_kind": "group", "peer_id": peer,
            "thread_id": thread, "text": "hello"})
    };
    let on_account = json!({"channel": "irc", "account_id": "libera", "sender_id": "mom",
        "text": "hello"});
    let known = format!("dm:{mom}");
    for (body, label, policy, principal) in [
        (dm("telegram", "42", "hello"), known.as_str(), "known-dm", "known"),
        (dm("irc", "mom", "hello"), "dm:irc:mom", "unknown-dm", "unknown"),
        (on_account, "dm:irc/libera:mom", "unknown-dm", "unknown"),
        (group("7", "C1", None), "group:slack:C1", "group-session", "unknown"),
        (group("7", "C1", Some("9.1")), "group:slack:C1:thread:9.1", "group-thread", "unknown"),
    ] {
        let received = say(&server, &body);
        assert_eq!(
            (&received["label"], &received["policy"], &received["principal"]["type"]),
            (&json!(label), &json!(policy), &json!(principal)),
            "{received}"
        );
        let session = server.read(&format!("/api/sessions/{}", text_of(&received["session"])));
        assert_eq!(
            (&session["label"], &session["persona"], &session["origin"]),
            (&json!(label), &json!("atlas"), &json!("inbound")),
            "{session}"
        );
        assert_eq!(session["routing"]["policy"], policy);
        assert_eq!((&session["turn_count"], &session["status"]), (&json!(1), &json!("active")));
    }
    assert_eq!(server.labels("").len(), 5);
}

#[test]
fn a_group_of_a_known_sender_stays_a_session_of_the_group() {
    // R121
    let server = server(EXAMPLES);
    let mom = add_entity(&server, "Mom");
    link(&server, &mom, "irc", "mom");
    let group = |sender: &str| {
        json!({"channel": "irc", "sender_id": sender, "peer_kind": "group", "peer_id": "#family",
            "text": "hello"})
    };
    let first = say(&server, &group("mom"));
    let second = say(&server, &group("dad"));
    assert_eq!((&first["label"], &second["label"]), (&json!("group:irc:#family"), &first["label"]));
    assert_eq!(first["principal"]["type"], "known");
    let direct = say(&server, &dm("irc", "mom", "hello"));
    assert_eq!(direct["label"], format!("dm:{mom}"));
    assert_eq!(aliases(&server), []);
}

#[test]
fn the_session_of_a_channel_goes_on_when_its_sender_becomes_known() {
    // R136, R137, R185: day 1 unknown, day 3 linked, day 5 known.
    let server = server(EXAMPLES);
    let first = say(&server, &dm("irc", "mom", "day 1"));
    assert_eq!(first["label"], "dm:irc:mom");
    let mom = add_entity(&server, "Mom");
    link(&server, &mom, "irc", "mom");
    assert_eq!(aliases(&server), [], "linking changes no session");
    let fifth = say(&server, &dm("irc", "mom", "day 5"));
    assert_eq!((&fifth["session"], &fifth["label"]), (&first["session"], &first["label"]));
    assert_eq!(
        (&fifth["policy"], &fifth["principal"]["type"]),
        (&json!("known-dm"), &json!("known"))
    );
    let key = format!("dm:{mom}");
    assert_eq!(aliases(&server), [owned([&key, "dm:irc:mom", "identity_promotion"])]);
    // Another channel of the same person, and the key itself, lead to the same session.
    link(&server, &mom, "telegram", "42");
    let sixth = say(&server, &dm("telegram", "42", "day 6"));
    assert_eq!(sixth["session"], first["session"]);
    assert_eq!(server.read(&format!("/api/sessions/{key}"))["id"], first["session"]);
    let session = text_of(&first["session"]);
    assert_eq!(user_texts(&server, session), ["day 1", "day 5", "day 6"]);
    assert_eq!(server.labels(""), ["dm:irc:mom"], "no other session was made");
    let info = server.read(&format!("/api/sessions/{session}"));
    assert_eq!((&info["routing"]["entity"], &info["turn_count"]), (&json!(mom), &json!(3)));
    let sessions = server.read(&format!("/api/entities/{mom}/sessions"));
    assert_eq!(sessions["sessions"][0]["label"], "dm:irc:mom");
    verify(server.dir.path(), "after a promotion");
}

#[test]
fn merged_entities_share_the_session_with_more_turns() {
    // R138-R141, R143
    let server = server(EXAMPLES);
    let (mom, mama) = (add_entity(&server, "Mom"), add_entity(&server, "Mama"));
    link(&server, &mom, "irc", "mom");
    link(&server, &mama, "telegram", "42");
    say(&server, &dm("irc", "mom", "irc 1"));
    let short = say(&server, &dm("irc", "mom", "irc 2"));
    for text in ["telegram 1", "telegram 2", "telegram 3"] {
        say(&server, &dm("telegram", "42", text));
    }
    let long = say(&server, &dm("telegram", "42", "telegram 4"));
    let merged = server.post("/api/entities/merge", &json!({"into": "Mom", "from": mama})).is(200);
    assert_eq!(
        (&merged["id"], merged["identities"].as_array().map(Vec::len)),
        (&json!(mom), Some(2))
    );
    server
        .post("/api/entities/merge", &json!({"into": mom, "from": mama}))
        .refuses(409, "entity_merged");
    server
        .post("/api/entities/merge", &json!({"into": mom, "from": mom}))
        .refuses(422, "same_entity");

    let from_irc = say(&server, &dm("irc", "mom", "irc 3"));
    let from_telegram = say(&server, &dm("telegram", "42", "telegram 5"));
    assert_eq!(from_irc["session"], long["session"]);
    assert_eq!(from_telegram["session"], long["session"]);
    let of = |received: &Value| user_texts(&server, text_of(&received["session"]));
    assert_eq!(
        of(&long),
        ["telegram 1", "telegram 2", "telegram 3", "telegram 4", "irc 3", "telegram 5"]
    );
    assert_eq!(of(&short), ["irc 1", "irc 2"], "trees are never merged");
    let (key, other) = (format!("dm:{mom}"), format!("dm:{mama}"));
    let info = server.read(&format!("/api/sessions/{}", text_of(&short["session"])));
    assert_eq!(info["label"], format!("{key}~merged"));
    assert_eq!(info["routing"]["merged_into"], other, "{info}");
    assert_eq!(aliases(&server), [owned([&key, &other, "identity_merge"])]);
    let sessions = server.read(&format!("/api/entities/{mom}/sessions"));
    assert_eq!(sessions["sessions"].as_array().map(Vec::len), Some(2), "{sessions}");
    verify(server.dir.path(), "after a merge");
}

#[test]
fn a_real_session_shadows_an_alias() {
    // R130, R142
    let server = server(EXAMPLES);
    server.session("notes");
    let alias = json!({"alias": "dm:irc:mom", "session": "notes"});
    let made = server.post("/api/aliases", &alias).is(201);
    assert_eq!((&made["session_label"], &made["reason"]), (&json!("notes"), &json!("manual")));
    assert_eq!(say(&server, &dm("irc", "mom", "by the alias"))["label"], "notes");
    server.post("/api/aliases", &alias).refuses(409, "label_in_use");
    server.post("/api/sessions", &json!({"label": "dm:irc:mom"})).refuses(409, "label_in_use");
    let alias = json!({"alias": "notes", "session": "notes"});
    server.post("/api/aliases", &alias).refuses(409, "label_in_use");
    // No route makes an alias of a label in use, so the row is written here.
    let real = say(&server, &dm("irc", "dad", "first"));
    server.dir.sql().execute(
        "INSERT INTO session_aliases(alias, session_label, created_at, reason)
         VALUES ('dm:irc:dad', 'notes', 0, 'manual')",
    );
    assert_eq!(say(&server, &dm("irc", "dad", "second"))["session"], real["session"]);
    assert_eq!(server.read("/api/sessions/dm:irc:dad")["id"], real["session"]);
}

#[test]
fn senders_that_no_policy_admits_are_denied_and_leave_nothing() {
    // R128
    let rules = r#"
- name: nobody
  match: {delivery: {sender_id: 'bad*'}}
  effect: deny
- name: irc
  match: {delivery: {channel: irc}}
  session: {key: 'dm:{delivery.channel}:{delivery.sender_id}'}
- name: keyless
  match: {delivery: {channel: mail}}
- name: entity
  match: {delivery: {channel: sms}}
  session: {key: 'dm:{principal.entity_id}'}
"#;
    let server = server(rules);
    let denied = receive(&server, &dm("irc", "bad-bot", "x")).refuses(403, "access_denied");
    assert!(text_of(&denied["detail"]).contains("policy `nobody` denies"), "{denied}");
    let denied = receive(&server, &dm("telegram", "mom", "x")).refuses(403, "access_denied");
    assert!(text_of(&denied["detail"]).contains("no policy matches"), "{denied}");
    receive(&server, &dm("mail", "mom", "x")).refuses(403, "no_session_key");
    receive(&server, &dm("sms", "mom", "x")).refuses(422, "missing_variable");
    assert_eq!(server.labels(""), [""; 0]);
    assert_eq!(receive(&server, &dm("irc", "good", "x")).status, 202);
}

#[test]
fn without_policies_no_message_is_admitted() {
    let server = Server::configured(CONFIG);
    assert_eq!(server.announced["policies"], Value::Null);
    receive(&server, &dm("irc", "mom", "hello")).refuses(403, "no_policy");
    assert_eq!(server.labels(""), [""; 0]);
}

#[test]
fn sender_ids_never_form_the_label_of_another_session() {
    let server = server(EXAMPLES);
    let ids = ["mom", "a:b", "a/b", "a%3Ab", "a%b", "a\nb", "a b", "a~merged", "mom:x", "..", "中"];
    let mut sessions = Vec::new();
    for id in ids {
        for channel in ["irc", "irc:mom", "irc/x"] {
            let received = receive(&server, &dm(channel, id, "hello")).is(202);
            sessions.push((text_of(&received["session"]).to_owned(), received["label"].clone()));
        }
    }
    let body = json!({"channel": "irc", "account_id": "x", "sender_id": "mom", "text": "hello"});
    let received = receive(&server, &body).is(202);
    sessions.push((text_of(&received["session"]).to_owned(), received["label"].clone()));
    let count = sessions.len();
    sessions.sort_by(|one, other| one.0.cmp(&other.0));
    sessions.dedup_by(|one, other| one.0 == other.0);
    assert_eq!(sessions.len(), count, "each has a session of its own: {sessions:?}");
}

#[test]
fn texts_of_an_envelope_have_limits() {
    let server = server(EXAMPLES);
    let long = "x".repeat(1_000_000);
    let problem = receive(&server, &dm("irc", &long, "x")).refuses(422, "bad_text");
    assert!(problem.to_string().len() < 1000, "the id is not repeated");
    receive(&server, &dm(&long, "mom", "x")).refuses(422, "bad_text");
    for field in ["sender_id", "channel", "account_id", "peer_id", "thread_id", "message_id"] {
        for bad in ["", " \n", "a\0b", &"x".repeat(256)] {
            let mut body = dm("irc", "mom", "x");
            body[field] = json!(bad);
            receive(&server, &body).refuses(422, "bad_text");
        }
    }
    // The escaped form of an id may be too long for a label. It is refused, not cut.
    receive(&server, &dm("irc", &":".repeat(255), "x")).refuses(422, "bad_label");
    assert_eq!(receive(&server, &dm("irc", &"x".repeat(255), "x")).status, 202);
    let both = json!({"channel": "irc", "sender_id": "mom", "text": "x", "choice": "1"});
    receive(&server, &both).refuses(422, "invalid_body");
    assert_eq!(server.labels("").len(), 1);
}

#[test]
fn a_claimed_identity_stays_unknown_until_it_is_verified() {
    let server = server(EXAMPLES);
    let mom = add_entity(&server, "Mom");
    let path = format!("/api/entities/{mom}/identities");
    let claim = json!({"channel": "irc", "sender_id": "mallory", "verified": false});
    assert_eq!(server.post(&path, &claim).is(201)["verified"], false);
    let mut body = dm("irc", "mallory", "I am Mom");
    body["sender_name"] = json!("Mom");
    let received = say(&server, &body);
    assert_eq!(received["label"], "dm:irc:mallory");
    assert_eq!(
        (&received["principal"]["type"], &received["principal"]["entity_id"]),
        (&json!("unknown"), &Value::Null)
    );
    // A claim does not keep the address from its real owner, and a verified link does.
    let eve = add_entity(&server, "Eve");
    link(&server, &eve, "irc", "mallory");
    server.post(&path, &claim).refuses(409, "identity_linked");
    assert_eq!(say(&server, &body)["principal"]["entity_id"], eve);
}

#[test]
fn a_message_id_that_was_received_before_has_no_other_effect() {
    let server = server(EXAMPLES);
    let mut body = dm("irc", "mom", "once");
    body["message_id"] = json!("m-1");
    let first = say(&server, &body);
    let again = receive(&server, &body).is(202);
    assert_eq!(again["message_id"], first["message_id"]);
    assert_eq!(user_texts(&server, text_of(&first["session"])), ["once"]);
    // The same id on another channel or account is another message.
    body["channel"] = json!("telegram");
    assert_ne!(say(&server, &body)["session"], first["session"]);
    body["text"] = json!("another text");
    receive(&server, &body).refuses(422, "idempotency_mismatch");
}

#[test]
fn only_a_sender_with_the_right_answers_a_permission_from_a_channel() {
    let rules = "- name: all\n  session: {key: 'group:{delivery.channel}:{delivery.peer_id}'}\n\
        - name: boss\n  match: {delivery: {sender_id: boss}}\n  permissions: {approve: true}\n";
    let stage = AgentServer::with_policies(rules, "");
    let from = |sender: &str, more: Value| {
        let mut body = json!({"channel": "irc", "sender_id": sender, "peer_kind": "group",
            "peer_id": "#ops"});
        body.as_object_mut().expect("a map").extend(more.as_object().cloned().expect("a map"));
        receive(&stage.client, &body)
    };
    let received = from("guest", json!({"text": "m1: ask touch x; say after"})).is(202);
    let session = text_of(&received["session"]);
    let asked = stage.suspensions(session);
    let answer = json!({"suspension_id": asked[0]["id"], "choice": "1"});
    let sent = stage.client.read("/api/outbox")["deliveries"][0].clone();
    assert_eq!(
        (&sent["kind"], &sent["may_answer"]),
        (&json!("permission"), &json!(false)),
        "{sent}"
    );
    from("guest", answer.clone()).refuses(403, "approval_denied");
    from("boss", json!({"suspension_id": asked[0]["id"], "choice": "no such"}))
        .refuses(422, "bad_answer");
    let unknown = json!({"suspension_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "choice": "1"});
    from("boss", unknown).refuses(404, "no_suspension");
    // Neither is a text that names an option an answer of this sender.
    let allow = &asked[0]["options"][0]["label"];
    from("guest", json!({"text": allow, "queue_mode": "queue"})).is(202);
    assert_eq!(stage.suspensions(session).len(), 1, "it still waits");
    assert_eq!(stage.words(session), "");
    from("boss", answer.clone()).is(202);
    wait_until("the permission is used", || stage.words(session).starts_with("after"));
    from("boss", answer).refuses(409, "suspension_consumed");
}

#[test]
fn policies_are_reloaded_while_the_server_runs_and_a_wrong_file_changes_nothing() {
    let home = configured_home(CONFIG);
    let log = home.path().join("log");
    let server = Server::spawn(home.clone(), "127.0.0.1:0", |command| log_to(command, &log));
    let logged = |text: &str| std::fs::read_to_string(&log).expect("a log").contains(text);
    let status = |channel: &str| receive(&server, &dm(channel, "mom", "hello")).status;
    assert_eq!(status("irc"), 403);
    let rule = |channel: &str, persona: &str| {
        format!(
            "- name: only\n  match: {{delivery: {{channel: {channel}}}}}\n  session: {{key: \
             'dm:{{delivery.channel}}:{{delivery.sender_id}}', persona: {persona}}}\n"
        )
    };
    write_policies(home.path(), &rule("irc", "atlas"));
    wait_until("the file is read", || status("irc") == 202);
    assert!(logged("policies=1"));
    write_policies(home.path(), "- name: only\n  efect: deny\n");
    wait_until("the error is logged", || logged("line 2, policy `only`"));
    assert_eq!((status("irc"), status("mail")), (202, 403), "the policies before are in force");
    write_policies(home.path(), &rule("mail", "nobody"));
    wait_until("the file is read again", || status("mail") == 202);
    assert_eq!(status("irc"), 403);
    assert!(logged("policy `only` sets the persona `nobody`"));
    server.settled("dm:mail:mom");
    std::fs::remove_file(home.path().join("data/policies.yaml")).expect("the file");
    wait_until("its removal is noticed", || status("mail") == 403);
    receive(&server, &dm("mail", "mom", "hello")).refuses(403, "no_policy");
}

#[test]
fn a_wrong_policy_file_stops_the_server_at_its_start() {
    let home = configured_home(CONFIG);
    write_policies(
        home.path(),
        "- name: ok\n- name: known-dm\n  session:\n    key: 'dm:{delivery.foo}'\n",
    );
    let output = ctx(home.path())
        .args(["serve", "--listen", "127.0.0.1:0"])
        .output()
        .expect("ctx serve ends");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    for part in ["policies.yaml, line 4, policy `known-dm`", "unknown variable `{delivery.foo}`"] {
        assert!(error.contains(part), "{part} in {error}");
    }
    assert!(!home.has_store(), "a failed start leaves no store behind");
}

#[test]
fn the_policies_are_beside_a_configuration_file_that_is_named() {
    let home = home();
    let etc = home.path().join("etc");
    std::fs::create_dir_all(&etc).expect("a directory");
    std::fs::write(etc.join("my.toml"), CONFIG).expect("a configuration");
    std::fs::write(etc.join("policies.yaml"), EXAMPLES).expect("policies");
    let server = Server::spawn(home, "127.0.0.1:0", |command| {
        command.env("CTX_LOG", "error").arg("--config").arg(etc.join("my.toml"))
    });
    assert_eq!(server.announced["policies"], 4);
    assert_eq!(receive(&server, &dm("irc", "mom", "hello")).status, 202);
}

#[test]
fn concurrent_first_messages_of_a_sender_who_is_being_linked_share_one_session() {
    // R133, R136: one session, one alias, all messages once and in order.
    const MESSAGES: usize = 100;
    let more = "[inbox]\ncap = 200\n[personas.atlas]\nsystem_prompt = \"You are Atlas.\"\n";
    let stage = AgentServer::with_policies(EXAMPLES, more);
    let client = stage.client;
    let mom = add_entity(&client, "Mom");
    // The first run stays open, so that the others wait in the order of acceptance.
    stage.next_steps("wait gate");
    let start = Barrier::new(MESSAGES + 1);
    let received: Vec<Value> = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..MESSAGES)
            .map(|n| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    let mut body = dm("irc", "mom", &format!("message {n}"));
                    body["message_id"] = json!(format!("m{n}"));
                    receive(&client, &body).is(202)
                })
            })
            .collect();
        start.wait();
        // The others are on their way. The session exists, so that its sender is promoted.
        wait_until("the first message is accepted", || !client.labels("").is_empty());
        link(&client, &mom, "irc", "mom");
        senders.into_iter().map(|sender| sender.join().expect("a response")).collect()
    });
    let session = text_of(&received[0]["session"]);
    for one in &received {
        assert_eq!(one["session"], session, "one session: {one}");
    }
    assert_eq!(client.labels("").len(), 1);
    stage.open("gate");
    client.settled(session);
    let last = say(&client, &dm("irc", "mom", "last"));
    assert_eq!(last["session"], session);
    let key = format!("dm:{mom}");
    assert_eq!(aliases(&client), [owned([&key, "dm:irc:mom", "identity_promotion"])]);
    let (messages, waiting) = client.everything(session);
    assert_eq!(waiting, [Value::Null; 0]);
    let users = messages.iter().filter(|message| message["role"] == "user");
    let stored: Vec<&str> = users.map(|message| text_of(&message["id"])).collect();
    let mut accepted: Vec<&Value> = received.iter().collect();
    accepted.sort_by_key(|one| one["position"].as_u64());
    accepted.push(&last);
    let accepted: Vec<&str> = accepted.iter().map(|one| text_of(&one["message_id"])).collect();
    assert_eq!(stored, accepted, "each once, in the order of acceptance");
    verify(stage.dir(), "after concurrent first messages");
}
