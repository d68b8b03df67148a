//! The adapters of `examples/` with a real server of their protocol.

use std::io::Write;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::harness::adapter::{
    AdapterCommand, Printed, SECRET, configure_channels, fixed_port, serve,
};
use crate::harness::client::Client;
use crate::harness::irc_server::{IrcPerson, IrcServer, ngircd};
use crate::harness::model_server::{ModelServer, completion};
use crate::harness::server::{Home, home};
use crate::harness::{wait_for, wait_until};

/// More than one line of IRC, in characters of two bytes.
const LONG: usize = 500;

/// Answers `long` with many words, and anything else with the same text.
fn model() -> ModelServer {
    ModelServer::responding(|_, request| {
        let messages = request.body["messages"].as_array().cloned().unwrap_or_default();
        let last = messages.last().and_then(|last| last["content"].as_str()).unwrap_or_default();
        match last {
            "long" => completion(&format!("{} end\nsecond line", "éé ".repeat(LONG / 2))),
            _ => completion(&format!("echo: {last}")),
        }
    })
}

fn command(
    channel: &'static str,
    home: &Home,
    ports: (u16, u16),
    options: &[&str],
) -> AdapterCommand {
    AdapterCommand {
        channel,
        ctx_port: ports.0,
        port: ports.1,
        home: home.path().to_owned(),
        options: options.iter().map(|option| (*option).to_owned()).collect(),
        printed: Printed::default(),
    }
}

fn user_texts(client: &Client, session: &Value) -> Vec<String> {
    let (messages, _) = client.everything(session.as_str().expect("an id"));
    let of_users = messages.iter().filter(|message| message["role"] == "user");
    of_users.map(|one| one["content"][0]["text"].as_str().expect("a text").to_owned()).collect()
}

#[test]
fn a_person_on_irc_and_on_another_channel_has_one_conversation_after_linking() {
    // R119, R120, R121, R136, R139
    if ngircd().is_none() {
        let note = b"SKIPPED: ngircd is not installed; the IRC adapter was not tested\n";
        return std::io::stderr().write_all(note).expect("a note");
    }
    let (model, home, mut irc) = (model(), home(), IrcServer::start());
    let (ctx_port, line_port, irc_port) = (fixed_port(), fixed_port(), fixed_port());
    let channels = [("line", line_port), ("irc", irc_port)];
    configure_channels(home.path(), &model.config(""), &channels);
    let server = serve(&home, ctx_port);
    let line = command("line", &home, (ctx_port, line_port), &["--sender", "alice@home", "--json"]);
    let address = format!("127.0.0.1:{}", irc.port);
    let options = ["--server", &address, "--nick", "ctxbot", "--join", "#family"];
    let bot = command("irc", &home, (ctx_port, irc_port), &options);
    let mut line_adapter = line.start();
    let _irc_adapter = bot.start();
    let printed = |count: usize| {
        wait_for("a printed reply", || {
            let lines = line.printed.lock().expect("no panic").clone();
            let last = lines.get(count - 1)?;
            Some(serde_json::from_str::<Value>(last).expect("JSON"))
        })
    };

    // Before linking, each channel has a conversation of its own.
    let mut alice = IrcPerson::connect(&irc, "Alice");
    alice.write("JOIN #family");
    wait_until("the bot is in the room", || {
        alice.write("NAMES #family");
        alice.line_with(" 353 ").contains("ctxbot")
    });
    alice.say("ctxbot", "hello from irc");
    assert_eq!(alice.next_from("ctxbot", "Alice"), "echo: hello from irc");
    alice.say("ctxbot", "second from irc");
    assert_eq!(alice.next_from("ctxbot", "Alice"), "echo: second from irc");
    line_adapter.say("hello from the line");
    let first = printed(1);
    assert_eq!(
        (&first["text"], &first["label"]),
        (&json!("echo: hello from the line"), &json!("dm:line:alice@home"))
    );
    let on_irc = server.read("/api/sessions/dm%3Airc%3Aalice");
    assert_eq!(user_texts(&server, &on_irc["id"]), ["hello from irc", "second from irc"]);
    assert_eq!(user_texts(&server, &first["session"]), ["hello from the line"]);

    // After linking, both channels continue the longer one, and each gets its own replies.
    let entity = server.post("/api/entities", &json!({"name": "Alice"})).is(201);
    let identities = format!("/api/entities/{}/identities", entity["id"].as_str().expect("an id"));
    for (channel, sender) in [("irc", "alice"), ("line", "alice@home")] {
        server.post(&identities, &json!({"channel": channel, "sender_id": sender})).is(201);
    }
    line_adapter.say("linked, from the line");
    let linked = printed(2);
    assert_eq!(linked["text"], "echo: linked, from the line");
    alice.say("ctxbot", "linked, from irc");
    assert_eq!(alice.next_from("ctxbot", "Alice"), "echo: linked, from irc");
    assert_eq!(linked["session"], on_irc["id"], "{linked}");
    let all = ["hello from irc", "second from irc", "linked, from the line", "linked, from irc"];
    assert_eq!(user_texts(&server, &on_irc["id"]), all);
    assert_eq!(user_texts(&server, &first["session"]), ["hello from the line"]);
    let last = model.requests().pop().expect("a request").body.to_string();
    assert!(all.iter().all(|text| last.contains(text)), "{last}");

    // A room is a conversation of its own, also for a known person (R121).
    alice.say("#family", "nobody asked the bot");
    alice.say("#family", "CTXBOT: and now?");
    assert_eq!(alice.next_from("ctxbot", "#family"), "echo: and now?");
    let room = server.read("/api/sessions/group%3Airc%3A%23family");
    assert_eq!(user_texts(&server, &room["id"]), ["and now?"]);

    // A long reply is divided into lines.
    alice.say("ctxbot", "long");
    let mut words = 0;
    loop {
        let part = alice.next_from("ctxbot", "Alice");
        assert!(part.len() <= 400, "{} bytes", part.len());
        words += part.matches("éé").count();
        if part == "second line" {
            break;
        }
    }
    assert_eq!(words, LONG / 2);

    // A reply to a person who has left is delivered after the person is back.
    let from_bob = json!({"channel": "irc", "sender_id": "bob", "text": "I go now"});
    server.post("/api/inbound", &from_bob).is(202);
    wait_until("the reply is refused", || {
        let waiting = server.read("/api/outbox?status=pending")["deliveries"].clone();
        waiting[0]["last_error"].as_str().is_some_and(|error| error.contains("401 No such nick"))
    });
    let mut bob = IrcPerson::connect(&irc, "bob");
    assert_eq!(bob.next_from("ctxbot", "bob"), "echo: I go now");
    let all_delivered = || server.read("/api/outbox?status=pending")["deliveries"] == json!([]);
    wait_until("the reply is confirmed", all_delivered);

    // The bot connects again by itself.
    irc.restart();
    line_adapter.say("the server was restarted");
    printed(3);
    let mut alice = IrcPerson::connect(&irc, "Alice");
    alice.write("JOIN #family");
    wait_until("the bot is back", || {
        alice.write("NAMES #family");
        alice.line_with(" 353 ").contains("ctxbot")
    });
    alice.say("ctxbot", "after the restart");
    assert_eq!(alice.next_from("ctxbot", "Alice"), "echo: after the restart");
    wait_until("everything is delivered", all_delivered);
}

/// The signature of a text, made without the code of ctx and of the adapter.
fn signature(secret: &str, text: &str) -> String {
    let script = "import hashlib, hmac, sys; key, text = (a.encode() for a in sys.argv[1:]); \
                  print('v1=' + hmac.new(key, text, hashlib.sha256).hexdigest())";
    let output = Command::new("python3").args(["-c", script, secret, text]).output();
    let output = output.expect("python3 runs");
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

/// Posts a delivery that was signed `age` seconds ago; the status of the response.
fn post_delivery(client: &Client, secret: &str, age: u64, body: &Value) -> u16 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs();
    let (timestamp, body) = ((now - age).to_string(), body.to_string());
    let signature = signature(secret, &format!("{timestamp}.{body}"));
    let headers = [("x-ctx-timestamp", timestamp.as_str()), ("x-ctx-signature", &signature)];
    client.ask("POST", "/", &headers, body.as_bytes()).status
}

#[test]
fn the_line_adapter_prints_signed_deliveries_once_and_gives_up_refused_messages() {
    let (home, ctx_port, port) = (home(), fixed_port(), fixed_port());
    // No message is admitted without policies.
    configure_channels(home.path(), "", &[("line", port)]);
    std::fs::remove_file(home.path().join("data/policies.yaml")).expect("policies");
    let server = serve(&home, ctx_port);
    let line = command("line", &home, (ctx_port, port), &["--sender", "mom"]);
    let mut adapter = line.start();
    let journal = || std::fs::read_to_string(line.journal()).expect("a journal");
    adapter.say("hello");
    wait_until("ctx has refused it", || journal().contains("posted"));
    assert!(server.labels("").is_empty());

    let client = Client { address: ([127, 0, 0, 1], port).into() };
    let delivery = |id: &str, text: &str| json!({"id": id, "text": text, "to": {}});
    let table = [
        ("another secret", 0, delivery("1", "forged"), 401),
        (SECRET, 301, delivery("2", "replayed"), 401),
        (SECRET, 0, delivery("3", "first"), 200),
        (SECRET, 0, delivery("3", "first"), 200),
        (SECRET, 0, json!({"id": "4"}), 503),
        (SECRET, 280, delivery("4", "second"), 200),
    ];
    for (secret, age, body, status) in table {
        assert_eq!(post_delivery(&client, secret, age, &body), status, "{body}");
    }
    let unsigned = delivery("5", "unsigned").to_string();
    assert_eq!(client.ask("POST", "/", &[], unsigned.as_bytes()).status, 401);
    // Delivered ids are known after a restart, and the refused message is not posted again.
    adapter.kill();
    let adapter = line.start();
    assert_eq!(post_delivery(&client, SECRET, 0, &delivery("3", "first")), 200);
    adapter.kill();
    assert!(!journal().contains("hello"), "{}", journal());
    assert_eq!(*line.printed.lock().expect("no panic"), ["first", "second"]);
}
