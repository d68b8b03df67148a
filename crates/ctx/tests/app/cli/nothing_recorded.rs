//! Verbs that only read, before anything is recorded: they say how to begin and create nothing.

use serde_json::json;

use crate::harness::repo::Repo;
use crate::harness::test_store::skipped_on_postgres;

const READING: [&[&str]; 6] = [
    &["session", "list"],
    &["log"],
    &["search", "anything"],
    &["usage"],
    &["narrative"],
    &["status"],
];

#[test]
fn a_list_in_an_empty_home_says_how_to_begin() {
    if skipped_on_postgres("CTX_STORE names a store") {
        return;
    }
    let repo = Repo::bare();
    for verb in READING {
        let said = repo.says(verb);
        assert_eq!(
            said, "Nothing recorded yet. Start a conversation with `ctx run TEXT` or `ctx chat`.\n",
            "{verb:?}"
        );
    }
    let list = json!({"sessions": [], "hidden": {"archived": 0, "error": 0}, "total": 0});
    assert_eq!(repo.ok(["session", "list"]), list);
    assert_eq!(repo.ok(["log"]), json!({"commits": [], "next_cursor": null}));
    assert_eq!(repo.ok(["search", "x"])["hits"], json!([]));
    assert_eq!(repo.ok(["usage"])["usage"], json!([]));
    assert_eq!(repo.ok(["narrative"])["notes"], json!([]));
    let status = repo.ok(["status"]);
    assert_eq!(
        (&status["sessions"], &status["task"], &status["project"]),
        (&json!([]), &json!(null), &json!("project"))
    );
    // The documents have the same fields as those of a store.
    let store = Repo::new();
    for verb in READING {
        let fields = |repo: &Repo| {
            let document = repo.ok(verb);
            document.as_object().expect("an object").keys().cloned().collect::<Vec<_>>()
        };
        assert_eq!(fields(&repo), fields(&store), "{verb:?}");
    }
    assert_eq!(repo.fails(["narrative", "--day", "yesterday"]).1["code"], "bad_day");
    assert_eq!(repo.fails(["usage", "--by", "hour"]).0, 2);
    let (exit, error) = repo.fails(["session", "tree", "s"]);
    assert_eq!((exit, &error["code"]), (1, &json!("no_store")));
    let hint = error["hint"].as_str().expect("a hint");
    assert!(hint.contains("nothing is recorded here yet") && hint.contains("`ctx chat`"), "{hint}");
    assert!(!repo.data().exists() && !repo.home().exists(), "nothing was created");
}

#[test]
fn a_store_that_is_named_must_exist() {
    if skipped_on_postgres("CTX_STORE goes before the given directory") {
        return;
    }
    let repo = Repo::bare();
    let nowhere = repo.beside("nowhere");
    for verb in READING {
        let named = [&["--data", nowhere.to_str().expect("a path")], verb].concat();
        let (exit, error) = repo.fails(named);
        assert_eq!((exit, &error["code"]), (1, &json!("no_store")), "{verb:?}");
        assert!(error["message"].as_str().is_some_and(|it| it.contains("nowhere")), "{error}");
    }
    assert!(!nowhere.exists());
}
