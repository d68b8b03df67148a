//! Ids that a user abbreviates on the command line.

use serde_json::{Value, json};

use crate::harness::repo::Repo;

fn text<'a>(document: &'a Value, field: &str) -> &'a str {
    document[field].as_str().unwrap_or_else(|| panic!("no {field}: {document}"))
}

#[test]
fn a_session_is_named_by_the_beginning_of_either_half_of_its_id() {
    let repo = Repo::new();
    let made: Vec<Value> = ["one", "two"]
        .map(|title| repo.ok(["session", "new", "--title", title])["session"].clone())
        .into();
    let id = text(&made[0], "id").to_owned();
    for name in [&id[10..14], &id[10..20].to_lowercase(), &id, &id[..20], &id.to_lowercase()] {
        let shown = repo.ok(["session", "show", name]);
        assert_eq!(shown["session"]["id"], json!(id), "{name}");
    }
    repo.ok(["session", "send", &id[10..14], "help"]);
    repo.ok(["--session", &id[10..14], "stage", "start", "A task"]);
    assert_eq!(repo.ok(["session", "show", &id])["session"]["task"]["description"], "A task");
    assert_eq!(repo.ok(["session", "list"])["sessions"].as_array().map(Vec::len), Some(2));
    // All ids of one day begin alike.
    let (exit, error) = repo.fails(["session", "show", &id[..4]]);
    assert_eq!((exit, &error["code"]), (1, &json!("ambiguous_id")));
    let candidates = error["candidates"].as_array().expect("candidates");
    for session in &made {
        assert!(candidates.contains(&session["id"]), "{error}");
    }
    assert_eq!(repo.fails(["session", "show", "zzzz"]).1["code"], "no_session");
    // A label goes before a short id.
    repo.ok(["session", "new", "--label", &id[10..14]]);
    assert_ne!(repo.ok(["session", "show", &id[10..14]])["session"]["id"], json!(id));
}

#[test]
fn every_verb_that_takes_an_id_takes_its_beginning() {
    let repo = Repo::new();
    let session = repo.ok(["session", "new", "--label", "s"])["session"].clone();
    for message in ["one", "two"] {
        repo.ok(["session", "send", "s", message]);
    }
    let turns = repo.ok(["session", "tree", "s"])["turns"].as_array().expect("turns").clone();
    let turn = text(&turns[0], "id");
    repo.ok(["session", "pin", "s", &turn[..8]]);
    repo.ok([
        "session",
        "fork",
        &text(&session, "id")[10..16],
        "--turn",
        &turn[..8].to_uppercase(),
    ]);
    repo.ok(["session", "rewind", "s", &turn[..8]]);
    assert_eq!(repo.ok(["show", &turn[..8]])["id"], json!(turn));
    let token = repo.ok(["token", "create", "--scope", "read"]);
    let revoked = repo.ok(["token", "revoke", &text(&token, "id")[10..15].to_lowercase()]);
    assert_eq!(revoked["id"], token["id"]);
    let mom = repo.ok(["entity", "add", "Mom"]);
    let mom = text(&mom, "id").to_owned();
    assert_eq!(repo.ok(["entity", "show", &mom[10..15]])["id"], json!(mom));
    let task = repo.ok(["stage", "start", "Work"])["task"].clone();
    let shown = repo.ok(["show", &text(&task, "id")[10..18]]);
    assert_eq!(shown["task"]["id"], task["id"]);
    repo.ok(["session", "send", "s", "later", "--no-wait"]);
}
