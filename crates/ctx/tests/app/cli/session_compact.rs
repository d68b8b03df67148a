//! `ctx session compact`, `pin` and `fork --before-compaction`, with the demo agent.

use crate::harness::repo::Repo;

#[test]
fn a_compaction_keeps_every_message_readable() {
    // R175, R177
    let repo = Repo::new();
    repo.ok(["session", "new", "--label", "talk"]);
    for text in ["first words", "second words", "third words"] {
        repo.ok(["session", "send", "talk", text]);
    }
    let pinned =
        repo.ok(["session", "tree", "talk"])["turns"][0]["id"].as_str().expect("an id").to_owned();
    let pins = repo.ok(["session", "pin", "talk", &pinned[..12]]);
    assert_eq!(pins["pins"][0]["turn"], pinned);
    assert_eq!(
        repo.fails(["session", "fork", "talk", "--before-compaction"]).1["code"],
        "no_compaction"
    );
    let done = repo.ok(["session", "compact", "--focus", "the second words"]);
    let summary = done["messages"][1]["content"][0].clone();
    assert_eq!(
        (&done["session"]["label"], &summary["type"]),
        (&"talk".into(), &"summary".into()),
        "the session used last: {done}"
    );
    let shown = repo.says(["session", "show", "talk", "--full"]);
    for text in ["first words", "second words", "third words", "summary:"] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    let undone = repo.ok(["session", "fork", "talk", "--before-compaction", "--label", "undone"]);
    assert_eq!(undone["session"]["turn_count"], 3);
    assert_eq!(
        repo.ok(["session", "pin", "undone"])["pins"][0]["turn"],
        pinned,
        "a fork takes the pins along"
    );
    assert_eq!(
        repo.ok(["session", "pin", "talk", &pinned, "--remove"])["pins"].as_array().map(Vec::len),
        Some(0)
    );
    assert_eq!(repo.fails(["session", "pin", "talk", &pinned, "--remove"]).1["code"], "not_pinned");
    repo.ok(["session", "new", "--label", "empty"]);
    assert_eq!(repo.fails(["session", "compact", "empty"]).1["code"], "nothing_to_compact");
}
