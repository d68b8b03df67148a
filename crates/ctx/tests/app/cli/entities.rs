//! `ctx entity` and `ctx alias`: every verb, its document and its errors.

use serde_json::{Value, json};

use crate::harness::repo::Repo;

fn add(repo: &Repo, arguments: &[&str]) -> String {
    let made = repo.ok([&["entity", "add"], arguments].concat());
    made["id"].as_str().expect("an id").to_owned()
}

fn names(list: &Value) -> Vec<&str> {
    let list = list["entities"].as_array().expect("a list");
    list.iter().map(|one| one["name"].as_str().expect("a name")).collect()
}

#[test]
fn entities_are_added_changed_and_listed() {
    let repo = Repo::bare();
    // The store is created, as `ctx token create` does.
    let mom = repo.ok(["entity", "add", "Mom", "--relationship", "family"]);
    assert_eq!(
        (&mom["name"], &mom["kind"], &mom["relationship"], &mom["owner"], &mom["identities"]),
        (&json!("Mom"), &json!("person"), &json!("family"), &json!(false), &json!([]))
    );
    add(&repo, &["Bot", "--kind", "agent"]);
    add(&repo, &["Me", "--owner"]);
    let list = repo.ok(["entity", "list"]);
    assert_eq!((names(&list), &list["next_cursor"]), (vec!["Mom", "Bot", "Me"], &Value::Null));
    let page = repo.ok(["entity", "list", "-n", "1"]);
    assert_eq!((names(&page), &page["next_cursor"]), (vec!["Mom"], &mom["id"]));
    let after = page["next_cursor"].as_str().expect("a cursor");
    assert_eq!(names(&repo.ok(["entity", "list", "--after", after])), ["Bot", "Me"]);
    assert_eq!(repo.fails(["entity", "list", "--after", "x"]).1["code"], "bad_id");

    let id = mom["id"].as_str().expect("an id");
    let changed = repo.ok(["entity", "edit", id, "--name", "Mama", "--owner", "true"]);
    assert_eq!(
        (&changed["id"], &changed["name"], &changed["relationship"], &changed["owner"]),
        (&mom["id"], &json!("Mama"), &json!("family"), &json!(true))
    );
    let changed = repo.ok(["entity", "edit", "Mama", "--relationship", "", "--kind", "service"]);
    assert_eq!((&changed["relationship"], &changed["kind"]), (&Value::Null, &json!("service")));
    assert_eq!(repo.ok(["entity", "show", "Mama"]), changed);
    assert_eq!(repo.fails(["entity", "edit", "Mama"]).0, 2, "nothing to change");
    let text = repo.says(["entity", "list"]);
    for words in [["Bot", "agent", ""], ["Me", "person", "owner"]] {
        let row = text.lines().find(|line| line.contains(words[0])).unwrap_or_default();
        assert!(words.iter().all(|word| row.contains(word)), "{text}");
    }
}

#[test]
fn addresses_are_linked_and_unlinked() {
    let repo = Repo::new();
    let mom = add(&repo, &["Mom"]);
    let linked = repo.ok(["entity", "link", "Mom", "--channel", "irc", "--sender", "a:b"]);
    assert_eq!(
        (&linked["entity"], &linked["sender_id"], &linked["verified"], &linked["account_id"]),
        (&json!(mom), &json!("a:b"), &json!(true), &Value::Null)
    );
    let address = ["--channel", "irc", "--sender", "x", "--account", "libera"];
    let claim = [&["entity", "link", &mom], &address[..], &["--claimed"]].concat();
    assert_eq!(repo.ok(claim)["verified"], false);
    let shown = repo.ok(["entity", "show", "Mom"]);
    assert_eq!(shown["identities"].as_array().map(Vec::len), Some(2), "{shown}");
    let text = repo.says(["entity", "show", "Mom"]);
    assert!(text.contains("irc:a%3Ab\n"), "{text}");
    assert!(text.contains("irc/libera:x claimed, not verified"), "{text}");

    add(&repo, &["Eve"]);
    let taken = ["entity", "link", "Eve", "--channel", "irc", "--sender", "a:b"];
    let (exit, error) = repo.fails(taken);
    assert_eq!((exit, &error["code"]), (1, &json!("identity_linked")));
    let unlink = [&["entity", "unlink", "Mom"], &address[..]].concat();
    assert_eq!(repo.ok(unlink.clone())["sender_id"], "x");
    assert_eq!(repo.fails(unlink).1["code"], "no_identity");
    let long = "x".repeat(256);
    for sender in ["", " ", &long] {
        let (exit, error) =
            repo.fails(["entity", "link", "Mom", "--channel", "irc", "--sender", sender]);
        assert_eq!((exit, &error["code"]), (2, &json!("bad_text")), "{error}");
        assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("255")), "{error}");
    }
}

#[test]
fn unknown_and_ambiguous_names_are_errors_with_a_hint() {
    let repo = Repo::new();
    add(&repo, &["Mom"]);
    add(&repo, &["Mom"]);
    for (name, code) in [
        ("Mom", "ambiguous_name"),
        ("Nobody", "no_entity"),
        ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "no_entity"),
    ] {
        let address = ["--channel", "irc", "--sender", "x"];
        for verb in [
            vec!["entity", "show", name],
            vec!["entity", "edit", name, "--name", "X"],
            vec!["entity", "sessions", name],
            vec!["entity", "merge", "--into", name, "--from", name],
            [&["entity", "link", name], &address[..]].concat(),
            [&["entity", "unlink", name], &address[..]].concat(),
        ] {
            let (exit, error) = repo.fails(&verb);
            assert_eq!((exit, &error["code"]), (1, &json!(code)), "{verb:?}: {error}");
            let hint = error["hint"].as_str().unwrap_or_default();
            assert!(hint.contains("ctx entity list"), "{verb:?}: {error}");
            assert!(error["message"].as_str().is_some_and(|text| text.contains(name)), "{error}");
        }
    }
}

#[test]
fn entities_are_merged() {
    let repo = Repo::new();
    let (mom, mama) = (add(&repo, &["Mom"]), add(&repo, &["Mama"]));
    repo.ok(["entity", "link", "Mama", "--channel", "irc", "--sender", "mama"]);
    let merged = repo.ok(["entity", "merge", "--into", "Mom", "--from", "Mama"]);
    assert_eq!((&merged["id"], &merged["identities"][0]["entity"]), (&json!(mom), &json!(mom)));
    assert_eq!(names(&repo.ok(["entity", "list"])), ["Mom"]);
    assert_eq!(repo.ok(["entity", "show", &mama])["merged_into"], mom);
    assert_eq!(
        repo.fails(["entity", "merge", "--into", "Mom", "--from", &mama]).1["code"],
        "entity_merged"
    );
    assert_eq!(
        repo.fails(["entity", "merge", "--into", "Mom", "--from", "Mom"]).1["code"],
        "same_entity"
    );
    assert_eq!(repo.ok(["entity", "sessions", "Mom"]), json!({"sessions": []}));
    repo.assert_whole();
}

#[test]
fn aliases_are_added_listed_and_removed() {
    // R134, R135, R143
    let repo = Repo::new();
    repo.ok(["session", "new", "--label", "notes"]);
    let made = repo.ok(["alias", "add", "n", "notes"]);
    assert_eq!(
        (&made["alias"], &made["session_label"], &made["reason"]),
        (&json!("n"), &json!("notes"), &json!("manual"))
    );
    let second = repo.ok(["alias", "add", "m", "n"]);
    assert_eq!(second["session_label"], "notes", "an alias names a session, not an alias");
    assert_eq!(repo.ok(["alias", "list"]), json!({"aliases": [second, made], "next_cursor": null}));
    let page = repo.ok(["alias", "list", "notes", "-n", "1"]);
    assert_eq!((&page["aliases"], &page["next_cursor"]), (&json!([second]), &json!("m")));
    assert_eq!(repo.ok(["alias", "list", "--after", "m"])["aliases"], json!([made]));
    let listed = repo.says(["alias", "list"]);
    let row: Vec<&str> = listed.lines().nth(1).expect("a row").split_whitespace().collect();
    assert_eq!(row, ["m", "notes", "manual"], "{listed}");
    assert_eq!(repo.fails(["alias", "add", "n", "notes"]).1["code"], "label_in_use");
    assert_eq!(repo.fails(["alias", "add", "x", "nothing"]).1["code"], "no_session");
    assert_eq!(repo.fails(["alias", "list", "nothing"]).1["code"], "no_session");
    for bad in ["", " x", "a\nb"] {
        let (exit, error) = repo.fails(["alias", "add", bad, "notes"]);
        assert_eq!((exit, &error["code"]), (2, &json!("bad_label")), "{error}");
    }
    assert_eq!(repo.ok(["alias", "remove", "n"]), made);
    let (exit, error) = repo.fails(["alias", "remove", "n"]);
    assert_eq!((exit, &error["code"]), (1, &json!("no_alias")));
    assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("ctx alias list")), "{error}");
    repo.assert_whole();
}
