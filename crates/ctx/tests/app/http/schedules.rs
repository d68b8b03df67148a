//! `[[schedule]]`: a running server sends the messages; a wrong schedule stops it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::harness::server::{Home, Server, configured_home};
use crate::harness::{ctx, verify, wait_until};

const EVERY_SECOND: &str = r#"
[[schedule]]
name = "beat"
every = "1s"
text = "tick"

[[schedule]]
name = "report"
cron = "0 9 * * 1-5"
text = "Write the report"
session = "reports"
"#;

/// The ticks of `beat` for which a message was stored, and the messages themselves.
fn ticks(server: &Server) -> (BTreeSet<String>, usize) {
    let (messages, inbox) = server.everything("system:beat");
    let is_tick = |message: &&Value| message["source"] == "timer";
    let count = messages.iter().filter(is_tick).count() + inbox.len();
    let sql = "SELECT key FROM idempotency WHERE key LIKE 'schedule beat %'";
    (server.dir.sql().rows(sql).concat().into_iter().collect(), count)
}

fn wait_for_ticks(server: &Server, count: usize) {
    wait_until("the schedule fires", || {
        server.get("/api/sessions/system:beat").status == 200 && ticks(server).1 >= count
    });
}

/// Stops the schedules without a message in flight, then compares ticks and messages.
fn check(home: Home) -> usize {
    let config = home.path().join("data/ctx.toml");
    let kept = std::fs::read_to_string(&config).expect("a configuration");
    std::fs::write(&config, "").expect("no schedules");
    let server = Server::in_dir(home);
    server.settled("system:beat");
    let (keys, count) = ticks(&server);
    assert_eq!(keys.len(), count, "each tick has one message: {keys:?}");
    let (_, _, home) = server.end();
    std::fs::write(config, kept).expect("the schedules");
    verify(home.path(), "after the ticks");
    count
}

#[test]
fn a_schedule_fires_again_after_kill_9_and_repeats_no_tick() {
    // R124
    let home = configured_home(EVERY_SECOND);
    let mut sent = 0;
    for round in 1..=3 {
        let server = Server::in_dir(home.clone());
        wait_for_ticks(&server, sent + 1);
        server.kill();
        let count = check(home.clone());
        assert!(count > sent, "round {round}: {count} messages, {sent} before");
        sent = count;
    }
    let server = Server::in_dir(home);
    let session = server.read("/api/sessions/system:beat");
    assert_eq!(session["label"], "system:beat");
    let (messages, _) = server.everything("system:beat");
    assert_eq!(messages[0]["content"], json!([{"type": "text", "text": "tick"}]));
}

#[test]
fn two_servers_on_one_store_send_one_message_for_each_tick() {
    let home = configured_home(EVERY_SECOND);
    let servers = [Server::in_dir(home.clone()), Server::in_dir(home.clone())];
    wait_for_ticks(&servers[0], 3);
    servers.into_iter().for_each(Server::kill);
    assert!(check(home) >= 3);
}

#[test]
fn the_list_shows_the_ticks_and_the_session() {
    let home = configured_home(EVERY_SECOND);
    let list = |home: &Home| {
        let output =
            ctx(home.path()).args(["schedule", "list", "--json"]).output().expect("ctx schedule");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).expect("a document")
    };
    let init = ctx(home.path()).arg("init").output().expect("ctx init");
    assert!(init.status.success());
    let before = list(&home)["schedules"].clone();
    assert_eq!((&before[0]["name"], &before[0]["last_tick"]), (&json!("beat"), &Value::Null));
    assert_eq!((&before[0]["every"], &before[0]["cron"]), (&json!("1s"), &Value::Null));
    assert_eq!((&before[1]["every"], &before[1]["cron"]), (&Value::Null, &json!("0 9 * * 1-5")));
    assert_eq!(before[1]["session"], "reports");
    let next = before[1]["next_tick"].as_str().expect("a time");
    assert!(next.ends_with("T09:00:00.000Z") || next.ends_with("T09:00:00Z"), "{next}");
    let server = Server::in_dir(home);
    wait_until("the first tick is over", || {
        server.read("/api/schedules")["schedules"][0]["last_tick"].is_string()
    });
    let (_, _, home) = server.end();
    let after = list(&home)["schedules"].clone();
    assert!(after[0]["last_tick"].is_string(), "{after}");
    assert_eq!(after[1], before[1], "its first tick is in the future");
    let text = ctx(home.path()).args(["schedule", "list"]).output().expect("ctx schedule");
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    for part in ["beat", "every 1s", "system:beat", "0 9 * * 1-5", "never", "reports"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[test]
fn a_wrong_schedule_stops_the_server_and_names_itself() {
    let table = [
        ("name = \"a\"\ntext = \"x\"\n", "neither `cron` nor `every`"),
        ("name = \"a\"\ntext = \"x\"\nevery = \"1m\"\ncron = \"* * * * *\"\n", "both"),
        ("name = \"a\"\ntext = \"x\"\ncron = \"0 9 * *\"\n", "4 fields"),
        ("name = \"a\"\ntext = \"x\"\ncron = \"0 25 * * *\"\n", "hour `25`"),
        ("name = \"a\"\ntext = \"x\"\ncron = \"0 0 31 2 *\"\n", "no date"),
        ("name = \"a\"\ntext = \"x\"\nevery = \"10\"\n", "invalid duration"),
        ("name = \"a\"\ntext = \"x\"\nevery = \"0s\"\n", "use 1s to 366d"),
        ("name = \"a\"\ntext = \"x\"\nevery = \"400d\"\n", "use 1s to 366d"),
        ("name = \"a\"\nevery = \"1m\"\n", "text"),
        ("name = \"a\"\ntext = \" \"\nevery = \"1m\"\n", "the text is empty"),
        ("text = \"x\"\nevery = \"1m\"\n", "name"),
        ("name = \"A b\"\ntext = \"x\"\nevery = \"1m\"\n", "invalid name"),
        ("name = \"a\"\ntext = \"x\"\nevery = \"1m\"\nsession = \"\"\n", "invalid label"),
        ("name = \"a\"\ntext = \"x\"\nevery = \"1m\"\nmode = \"x\"\n", "mode"),
        ("name = \"a\"\ntext = \"x\"\nevery = \"1m\"\nprovider = \"nope\"\n", "unknown provider"),
        ("name = \"a\"\ntext = \"x\"\nevery = \"1m\"\npersona = \"nope\"\n", "unknown persona"),
        ("name = \"a\"\ntext = \"x\"\nevery = \"1m\"\nworking_dir = \"/no/such\"\n", "working_dir"),
        (
            "name = \"a\"\ntext = \"x\"\nevery = \"1m\"\n[[schedule]]\nname = \"a\"\ntext = \"x\"\n\
             every = \"2m\"\n",
            "used twice",
        ),
    ];
    for (config, named) in table {
        let home = configured_home(&format!("[[schedule]]\n{config}"));
        let output = ctx(home.path())
            .args(["serve", "--listen", "127.0.0.1:0", "--json"])
            .output()
            .expect("ctx serve");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{config}: {error}");
        for part in ["bad_config", "ctx.toml", named] {
            assert!(error.contains(part), "{part} is not in {error}");
        }
    }
}
