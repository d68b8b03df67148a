//! Errors about a session, turn, commit, suspension or verb that does not exist: the text that was
//! given, what may be meant, and where such names are listed.

use serde_json::{Value, json};

use crate::harness::repo::Repo;

fn text<'a>(error: &'a Value, field: &str) -> &'a str {
    error[field].as_str().unwrap_or_else(|| panic!("no {field}: {error}"))
}

#[test]
fn an_unknown_session_is_named_with_similar_ones() {
    let repo = Repo::new();
    let made = repo.ok(["session", "new", "--label", "milk", "--title", "Fix the parser"]);
    let id = text(&made["session"], "id").to_owned();
    repo.ok(["session", "send", "milk", "hello"]);
    let mut typo = id[10..18].to_owned();
    typo.replace_range(7..8, if typo.ends_with('Z') { "Y" } else { "Z" });
    for given in ["mlik", "parser", typo.as_str()] {
        for verb in [&["session", "show"][..], &["session", "resume"], &["session", "tree"]] {
            let (exit, error) = repo.fails([verb, &[given]].concat());
            assert_eq!((exit, &error["code"]), (1, &json!("no_session")));
            assert_eq!(text(&error, "message"), format!("session `{given}` not found"));
            let hint = text(&error, "hint");
            assert!(hint.contains("did you mean `milk` (Fix the parser)?"), "{hint}");
            assert_eq!(error["candidates"], json!(["milk"]));
        }
    }
    // The one of two that is missing, and one that nothing is similar to.
    let (_, error) = repo.fails(["session", "diff", "milk", "zzzz"]);
    assert_eq!(text(&error, "message"), "session `zzzz` not found");
    assert!(text(&error, "hint").contains("`ctx session list --all`"), "{error}");
    let (_, error) = repo.fails(["--session", "mlik", "stage", "note", "x"]);
    assert!(text(&error, "hint").contains("did you mean `milk`"), "{error}");
    assert!(text(&error, "hint").contains("ctx stage start TASK"), "{error}");
    let (_, error) = repo.fails(["session", "show", "\u{1b}[31mx"]);
    assert!(text(&error, "message").contains("␛[31mx"), "{error}");
    let (_, error) = Repo::new().fails(["session", "show", "anything"]);
    assert!(text(&error, "hint").contains("`ctx run TEXT`"), "{error}");
}

#[test]
fn unknown_turns_commits_tasks_suspensions_and_messages_are_named() {
    let repo = Repo::new();
    repo.ok(["session", "new", "--label", "s"]);
    repo.ok(["session", "send", "s", "permission please"]);
    let open = repo.ok(["session", "show", "s"])["session"]["suspensions"][0]["id"].clone();
    let ulid = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    let cases: [(&[&str], i32, &str, &str, &str); 9] = [
        (&["session", "rewind", "s", "abcd"], 1, "not_found", "turn `abcd`", "ctx session tree"),
        (&["session", "fork", "s", "--turn", "xyz"], 2, "bad_id", "`xyz`", "ctx session tree"),
        (&["log", "--before", "abcd"], 1, "not_found", "commit `abcd`", "ctx log"),
        (&["log", "--before", "zzz"], 2, "bad_id", "`zzz`", "ctx log"),
        (&["show", ulid], 1, "not_found", ulid, "ctx log"),
        (&["show", "abcd"], 1, "not_found", "`abcd`", "ctx session tree"),
        (&["session", "inbox", "s", "--withdraw", ulid], 1, "no_item", ulid, "ctx session inbox"),
        (
            &["session", "answer", "s", "x", "--suspension", "7777"],
            1,
            "no_suspension",
            "suspension `7777`",
            "(permission)",
        ),
        (
            &["session", "answer", "s", "x", "--suspension", ulid],
            1,
            "no_suspension",
            ulid,
            "ctx session show s",
        ),
    ];
    for (arguments, exit, code, named, listed) in cases {
        let (got, error) = repo.fails(arguments);
        assert_eq!((got, &error["code"]), (exit, &json!(code)), "{arguments:?}: {error}");
        assert!(text(&error, "message").contains(named), "{arguments:?}: {error}");
        assert!(text(&error, "hint").contains(listed), "{arguments:?}: {error}");
    }
    let (_, error) = repo.fails(["session", "answer", "s", "x", "--suspension", "7777"]);
    let open = open.as_str().expect("an id");
    assert!(text(&error, "hint").contains(&open[10..14]), "the open one is named: {error}");
    repo.ok(["session", "cancel", "s"]);
    let (_, error) = repo.fails(["session", "answer", "s", "x"]);
    assert!(text(&error, "message").contains("nothing to answer"), "{error}");
}

#[test]
fn a_session_is_no_record_and_the_verb_that_shows_it_is_named() {
    let repo = Repo::new();
    let made = repo.ok(["session", "new", "--label", "milk"]);
    let id = text(&made["session"], "id").to_owned();
    for name in ["milk", &id, &id[10..16]] {
        let (exit, error) = repo.fails(["show", name]);
        assert_eq!((exit, &error["code"]), (2, &json!("bad_id")), "{error}");
        let hint = text(&error, "hint");
        assert!(hint.contains(&format!("ctx session show {name}")), "{hint}");
    }
}

#[test]
fn commits_before_head_are_shown() {
    let repo = Repo::new();
    for task in ["first", "second", "third"] {
        repo.ok(["stage", "start", task]);
        repo.ok(["stage", "seal"]);
    }
    let commits = repo.commits();
    for (name, at) in [("HEAD", 0), ("HEAD~0", 0), ("HEAD^", 1), ("HEAD~1", 1), ("HEAD~2", 2)] {
        assert_eq!(repo.ok(["show", name])["id"], commits[at]["id"], "{name}");
    }
    assert_eq!(repo.ok(["show", "HEAD^^"])["id"], commits[2]["id"]);
    let (exit, error) = repo.fails(["show", "HEAD~3"]);
    assert_eq!((exit, &error["code"]), (1, &json!("not_found")));
    assert_eq!(text(&error, "message"), "there is no HEAD~3: the project has 3 commits");
    assert_eq!(repo.fails(["show", "HEAD~x"]).1["code"], "bad_id");
    let older = repo.ok(["log", "--before", "HEAD~1"]);
    assert_eq!(older["commits"][0]["id"], commits[2]["id"]);
}

#[test]
fn a_wrong_verb_gets_the_command_that_is_meant() {
    let repo = Repo::bare();
    let tips = [
        (&["resume"][..], "use `ctx session resume`"),
        (&["list"], "use `ctx session list`"),
        (&["ls"], "use `ctx session list`"),
        (&["sessions"], "use `ctx session list`"),
        (&["diff", "a", "b"], "use `ctx session diff`"),
        (&["new"], "use `ctx chat`"),
        (&["fork"], "use `ctx session fork`"),
        (&["stauts"], "'status'"),
        (&["session", "lst"], "'list'"),
    ];
    for (words, tip) in tips {
        let output = repo.run(words);
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("'{}'", words.last().expect("a word"))) || words.len() > 1);
        assert!(said.contains(tip), "{words:?}: {said}");
    }
    for word in ["bech", "benhc", "guar", "bridg", "mann"] {
        let said = String::from_utf8(repo.run([word]).stderr).expect("text");
        for hidden in ["bench", "guard", "bridge", "'man'"] {
            assert!(!said.contains(hidden), "{word}: {said}");
        }
    }
    let (exit, error) = repo.fails(["resume"]);
    assert_eq!((exit, text(&error, "hint")), (2, "use `ctx session resume`"));
    assert_eq!(text(&error, "message"), "unrecognized subcommand 'resume'");
}

#[test]
fn a_message_without_a_task_says_how_to_start_one() {
    let repo = Repo::new();
    for message in ["hello there", "abort that"] {
        let said = repo.says(["stage", "message", message]);
        assert!(
            said.ends_with("No task is open. Start one with `ctx stage start TASK`.\n"),
            "{said}"
        );
    }
}
