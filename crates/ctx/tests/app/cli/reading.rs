//! Verbs that read: `session show`, `session diff`, `show`, `log` and `narrative` for a person.

use serde_json::Value;

use crate::harness::repo::Repo;

fn id(turn: &Value) -> &str {
    turn["id"].as_str().expect("an id")
}

#[test]
fn a_session_shows_turn_ids_and_marks() {
    let repo = Repo::new();
    repo.ok(["session", "new", "--label", "s"]);
    for text in ["one", "two", "three", "four"] {
        repo.ok(["session", "send", "s", text]);
    }
    assert_eq!(repo.fails(["session", "send", "s", "fail"]).0, 1);
    let turns = repo.ok(["session", "tree", "s"])["turns"].as_array().expect("turns").clone();
    repo.ok(["session", "pin", "s", id(&turns[1])]);
    repo.ok(["session", "compact", "s"]);
    let shown = repo.says(["session", "show", "s", "--full"]);
    let heading = |turn: &Value| {
        let short = &id(turn)[..4];
        let line = shown.lines().find(|line| line.starts_with(&format!("turn {short}")));
        line.unwrap_or_else(|| panic!("no turn {short}: {shown}")).to_owned()
    };
    assert!(heading(&turns[0]).ends_with("compacted"), "{shown}");
    assert!(heading(&turns[1]).ends_with("pinned"), "{shown}");
    assert!(heading(&turns[4]).contains("failed"), "{shown}");
    assert!(shown.contains(" · compaction"), "{shown}");
    let newest = repo.says(["session", "show", "s", "-n", "2"]);
    assert!(newest.contains("earlier messages are not shown; show all with `--full`"), "{newest}");
    // Markdown stays as it is in a pipe.
    repo.ok(["session", "send", "s", "# A *title*"]);
    assert!(repo.says(["session", "show", "s"]).contains("\n# A *title*\n"));
}

#[test]
fn a_commit_reads_like_a_change() {
    let repo = Repo::working_on("Add retry logic");
    repo.write("client.rs", "fn a() {}\nfn b() {}\n");
    repo.ok(["stage", "observe", "file-read", "client.rs"]);
    repo.write("client.rs", "fn a() {}\nfn retry() {}\nfn b() {}\n");
    repo.ok(["stage", "observe", "file-write", "client.rs"]);
    repo.write("new.txt", "日本\n");
    repo.ok(["stage", "observe", "file-write", "new.txt"]);
    repo.ok(["stage", "observe", "command", "--exit", "0", "--", "cargo", "test"]);
    repo.ok(["stage", "observe", "command", "--exit", "101", "--", "cargo", "clippy"]);
    repo.ok(["stage", "ask", "How many attempts?"]);
    repo.ok(["stage", "answer", "Five"]);
    repo.ok(["stage", "seal", "-m", "Retries five times"]);
    let commit = repo.commits()[0].clone();
    let shown = repo.says(["show", &id(&commit)[..4]]);
    assert_eq!(shown, repo.says(["show", "HEAD"]));
    let stable: Vec<&str> = shown
        .lines()
        .filter(|line| !["Sealed:", "Duration:", "refers to"].iter().any(|it| line.starts_with(it)))
        .collect();
    let expected = format!(
        "commit {}\nTask:     Add retry logic\nOutcome:  normal\nSession:  main\n\n    Retries \
         five times\n\n? How many attempts?\n→ Five\n\n$ cargo test  exit 0\n$ cargo clippy  exit \
         101\n\nwrote   client.rs\nwrote   new.txt\n\ndiff client.rs\n@@ -1,2 +1,3 @@\n fn a() \
         {{}}\n+fn retry() {{}}\n fn b() {{}}\n\ndiff new.txt\n(no earlier version was recorded)\n\
         @@ -0,0 +1 @@\n+日本\n",
        id(&commit)
    );
    assert_eq!(stable.join("\n"), expected);
    assert!(shown.contains("\nDuration: ") && shown.contains("refers to "), "{shown}");
    let log = repo.says(["log"]);
    assert!(log.contains("Add retry logic") && log.contains("Retries five times"), "{log}");
    let told = repo.says(["narrative"]);
    let told: Vec<&str> = told.lines().collect();
    assert_eq!(told[2], "Add retry logic in main");
    assert!(told[3].ends_with("Retries five times"), "{told:?}");
    for line in ["  wrote   client.rs", "  $ cargo clippy  exit 101"] {
        assert!(told.contains(&line), "{line}: {told:?}");
    }
    assert_eq!(Repo::new().fails(["show", "HEAD"]).1["code"], "not_found");
}

#[test]
fn a_commit_is_compared_with_the_version_of_an_earlier_task() {
    let repo = Repo::working_on("Write a list");
    repo.write("list.txt", "milk\n");
    repo.ok(["stage", "observe", "file-write", "list.txt"]);
    repo.ok(["stage", "seal"]);
    repo.ok(["stage", "start", "Add tea"]);
    repo.write("list.txt", "milk\ntea\n");
    repo.ok(["stage", "observe", "file-write", "list.txt"]);
    repo.ok(["stage", "seal"]);
    let shown = repo.says(["show", "HEAD"]);
    assert!(shown.contains("diff list.txt\n@@ -1 +1,2 @@\n milk\n+tea\n"), "{shown}");
    let first = repo.says(["show", "HEAD~1"]);
    assert!(first.contains("(no earlier version was recorded)\n"), "{first}");
}

#[test]
fn a_commit_lists_requested_changes_and_permissions() {
    let repo = Repo::new();
    repo.ok(["run", "Add retry logic to the client", "--label", "s"]);
    repo.ok(["stage", "message", "Also add a log line to it", "--session", "s"]);
    repo.ok(["session", "send", "s", "permission please"]);
    repo.ok(["session", "answer", "s", "allow_once"]);
    repo.ok(["stage", "seal", "--session", "s"]);
    let shown = repo.says(["show", "HEAD"]);
    assert!(shown.contains("\n» Also add a log line to it\n"), "{shown}");
    let permission = shown.find("\n? permission: ").expect("the question");
    let decision = shown.find("(allow_once), by ").expect("the decision");
    assert!(permission < decision, "{shown}");
}

#[test]
fn branches_are_compared_in_the_width_of_the_terminal() {
    let repo = Repo::new();
    repo.ok(["session", "new", "--label", "a"]);
    repo.ok(["session", "send", "a", "shared"]);
    repo.ok(["session", "fork", "a", "--label", "b"]);
    repo.ok(["session", "send", "a", "日本語 ".repeat(30).as_str()]);
    repo.ok(["session", "send", "b", "short"]);
    for width in [60, 100, 160] {
        let mut command = repo.command(["session", "diff", "a", "b"]);
        let output = command.env("COLUMNS", width.to_string()).output().expect("it runs");
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(text.starts_with("Common history: 1 turn, up to "), "{text}");
        let rule = text.lines().find(|line| line.contains('┼')).expect("a rule");
        assert_eq!(rule.chars().count(), (width - 3) / 2 * 2 + 3);
        assert!(text.contains("> short") && text.contains("a: 1 turn only here"), "{text}");
    }
}

#[test]
fn a_turn_that_a_search_finds_opens() {
    let repo = Repo::new();
    repo.ok(["session", "new", "--label", "s"]);
    repo.ok(["session", "send", "s", "the needle in the haystack"]);
    let turn = repo.ok(["session", "tree", "s"])["turns"][0].clone();
    let shown = repo.says(["show", &id(&turn)[..5]]);
    assert!(shown.starts_with(&format!("turn {}", &id(&turn)[..4])), "{shown}");
    assert!(shown.contains("the needle in the haystack"), "{shown}");
}
