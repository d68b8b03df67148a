//! `search` and `narrative`: finding messages, notes and work.

use serde_json::json;

use crate::harness::repo::Repo;
use crate::harness::test_store::skipped_on_postgres;

fn found(repo: &Repo, words: &[&str]) -> usize {
    repo.ok([&["search"], words].concat())["hits"].as_array().expect("hits").len()
}

/// A store with a sealed task for each note.
fn noted(notes: &[&str]) -> Repo {
    let repo = Repo::new();
    for note in notes {
        repo.ok(["stage", "start", "A chore"]);
        repo.ok(["stage", "note", note]);
        repo.ok(["stage", "seal"]);
    }
    repo
}

#[test]
fn all_words_must_match_in_any_case_and_order() {
    let repo = noted(&["The backoff doubles", "The backoff is fixed", "Doubles as a doorstop"]);
    assert_eq!(found(&repo, &["BACKOFF"]), 2);
    assert_eq!(found(&repo, &["doubles", "backoff"]), 1);
    assert_eq!(found(&repo, &["doubles backoff"]), 1, "one argument or two, the words count");
    assert_eq!(found(&repo, &["backoff", "doorstop"]), 0);
    let hit = repo.ok(["search", "doorstop"])["hits"][0].clone();
    assert_eq!((&hit["kind"], &hit["outcome"]), (&json!("task"), &json!("normal")));
    assert_eq!(hit["session_label"], "main");
    let marked: Vec<&serde_json::Value> = hit["segments"]
        .as_array()
        .expect("segments")
        .iter()
        .filter(|segment| segment["match"] == true)
        .map(|segment| &segment["text"])
        .collect();
    assert_eq!(marked, ["doorstop"]);
    assert!(hit["snippet"].as_str().is_some_and(|text| text.contains("doorstop")), "{hit}");
    assert!(hit["at"].as_str().is_some_and(|at| at.ends_with('Z')), "{hit}");
}

#[test]
fn a_word_matches_whole_words_unless_it_ends_in_a_star() {
    let repo = noted(&["Retrying is retried"]);
    assert_eq!(found(&repo, &["retr"]), 0);
    assert_eq!(found(&repo, &["retr*"]), 1);
    assert_eq!(found(&repo, &["trying*"]), 0);
}

#[test]
fn text_in_every_script_is_found() {
    let repo = noted(&[
        "Größe geändert",
        "日志记录已添加",
        "Повтор запроса",
        "emoji 🚀 launch",
        "naïve café",
    ]);
    for word in [
        "größe",
        "GRÖßE",
        "日志",
        "记录",
        "日志记录",
        "повтор",
        "ЗАПРОСА",
        "launch",
        "café",
        "NAÏVE",
    ] {
        assert_eq!(found(&repo, &[word]), 1, "{word}");
    }
    assert_eq!(found(&repo, &["geänd*"]), 1);
}

#[test]
fn tasks_commits_commands_files_and_plans_are_found() {
    let repo = Repo::working_on("Tame the walrus");
    repo.write("walrus.rs", "");
    repo.ok(["stage", "observe", "file-write", "walrus.rs"]);
    repo.ok(["stage", "observe", "plan", "Feed the penguin"]);
    repo.ok(["stage", "observe", "command", "--exit", "0", "--", "cargo", "penguin"]);
    repo.ok(["stage", "done", "The otter sleeps"]);
    let commit = repo.ok(["stage", "confirm"])["commit"]["id"].clone();
    assert_eq!(found(&repo, &["penguin"]), 1, "one hit for a task");
    assert!(found(&repo, &["walrus.rs"]) >= 1);
    let hits = repo.ok(["search", "otter"]);
    assert!(
        hits["hits"].as_array().is_some_and(|hits| hits
            .iter()
            .any(|hit| hit["kind"] == "task" && hit["commit"] == commit)),
        "{hits}"
    );
}

#[test]
fn a_search_without_hits_succeeds() {
    let repo = noted(&["The backoff doubles"]);
    assert_eq!(repo.ok(["search", "zeppelin"])["hits"], json!([]));
    assert!(
        repo.says(["search", "zeppelin"]).contains("zeppelin"),
        "the message repeats the query"
    );
    for odd in ["*", "\"", "(", "a AND b", "-- DROP TABLE", "NEAR(", "'", "%"] {
        repo.ok(["search", "--", odd]);
    }
}

#[test]
fn hits_are_newest_first_and_limited() {
    let repo = noted(&["apple one", "apple two", "apple three"]);
    let hits = repo.ok(["search", "apple", "-n", "2"])["hits"].clone();
    let snippets: Vec<&str> =
        hits.as_array().expect("hits").iter().filter_map(|hit| hit["snippet"].as_str()).collect();
    assert_eq!(snippets, ["apple three", "apple two"]);
}

#[test]
fn a_hit_names_its_session_and_how_to_open_it() {
    let repo = noted(&["The \u{1b}[31m backoff\u{7} doubles"]);
    let commit = repo.ok(["search", "backoff"])["hits"][0]["commit"].clone();
    let shown = repo.says(["search", "backoff"]);
    let short = &commit.as_str().expect("a commit")[..4];
    for part in [
        "main",
        "task normal",
        "just now",
        &format!("ctx show {short}"),
        "\u{241b}[31m backoff\u{2407}",
    ] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    assert!(!shown.contains('\u{7}'));
    assert_eq!(repo.ok(["show", short])["id"], commit);
    let shown = repo.says(["search", "bakcoff"]);
    assert!(shown.contains("Did you mean: ctx search backoff"), "{shown}");
    let repo = noted(&["apple one", "apple two", "apple three"]);
    let page = repo.ok(["search", "apple", "-n", "2"]);
    let next = page["next_cursor"].as_str().expect("a cursor");
    let shown = repo.says(["search", "apple", "-n", "2"]);
    assert!(shown.contains("1 more result; show more with `--limit N`"), "{shown}");
    let rest = repo.ok(["search", "apple", "-n", "2", "--cursor", next]);
    assert_eq!(rest["hits"].as_array().map(Vec::len), Some(1));
    assert_eq!(rest["hits"][0]["snippet"], "apple one");
}

#[test]
fn outcomes_tell_abandoned_work_apart() {
    // R113
    let repo = noted(&["walrus kept"]);
    repo.ok(["stage", "start", "walrus dropped"]);
    repo.ok(["stage", "note", "walrus half done"]);
    assert_eq!(found(&repo, &["walrus", "outcome:open"]), 1);
    repo.ok(["stage", "abort"]);
    assert_eq!(found(&repo, &["walrus"]), 2);
    assert_eq!(found(&repo, &["walrus", "outcome:abandoned"]), 1);
    assert_eq!(found(&repo, &["walrus", "outcome:normal"]), 1);
    assert_eq!(found(&repo, &["walrus", "outcome:open"]), 0);
}

#[test]
fn malformed_queries_are_refused_as_wrong_use() {
    let repo = noted(&["walrus"]);
    for (query, code) in [
        ("/a(/", "invalid_regex"),
        ("sesion:main walrus", "unknown_filter"),
        ("outcome:done", "invalid_filter"),
        ("since:soon", "invalid_filter"),
    ] {
        let (exit, error) = repo.refuses(["search", query]);
        assert_eq!((exit, &error["code"]), (2, &json!(code)), "{query}");
        assert!(error["hint"].is_string() && error["message"].is_string(), "{error}");
    }
    assert_eq!(found(&repo, &["\"walrus"]), 1, "an open quote ends with the query");
}

#[test]
fn a_lost_search_index_is_rebuilt() {
    if skipped_on_postgres("the index is in the database") {
        return;
    }
    let repo = noted(&["The backoff doubles"]);
    assert_eq!(found(&repo, &["backoff"]), 1);
    for name in ["search.db", "search.db-wal", "search.db-shm"] {
        let _ = std::fs::remove_file(repo.data().join(name));
    }
    assert_eq!(found(&repo, &["backoff"]), 1);
    std::fs::write(
        repo.data().join("search.db"),
        b"this is no database at all, but long enough to be one",
    )
    .expect("a file");
    assert_eq!(found(&repo, &["backoff"]), 1, "a damaged index is only an index");
    repo.assert_whole();
}

#[test]
fn the_narrative_is_of_one_day() {
    let repo = Repo::working_on("Quarterly chores");
    repo.ok(["stage", "note", "today's note"]);
    let today = repo.ok(["narrative"])["day"].as_str().expect("a day").to_owned();
    assert_eq!(repo.ok(["narrative", "--day", &today]), repo.ok(["narrative"]));
    let note = repo.ok(["narrative"])["notes"][0].clone();
    assert!(note["at"].as_str().is_some_and(|at| at.starts_with(&today)), "{note}");
    assert_eq!((&note["task"], &note["step"]), (&repo.task()["id"], &repo.task()["head"]));
    assert_eq!(
        repo.ok(["narrative", "--day", "1999-12-31"]),
        json!({"day": "1999-12-31", "notes": []})
    );
    assert!(repo.says(["narrative"]).contains("today's note"));
    for day in ["yesterday", "2025-13-01", "2025-02-30", ""] {
        let (exit, error) = repo.refuses(["narrative", "--day", day]);
        assert_eq!((exit, &error["code"]), (2, &json!("bad_day")), "{day}");
    }
}
