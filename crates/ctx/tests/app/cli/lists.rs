//! Lists for a person: columns fitted to the width, short ids, states, and texts of others that
//! cannot change the terminal. The golden files are in `tests/golden`; `CTX_GOLDEN=write` writes
//! them.

use std::path::Path;

use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use crate::harness::repo::{AGENTLESS, Repo};

/// A title with a clipboard sequence, wide characters, combined emoji and a second line.
const STRANGE: &str =
    "日本語 \u{1b}]52;c;aGk=\u{7} 👩‍👩‍👧 title\twith a tab that is long enough to be cut\nx";
const WIDTHS: [&str; 3] = ["60", "100", "160"];

/// Compares a text with a golden file.
#[track_caller]
fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("CTX_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        std::fs::write(&path, text).expect("a golden file");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{name} differs; CTX_GOLDEN=write writes it");
}

/// What a verb prints in a width, with the ids and the directory of this run replaced.
fn printed(repo: &Repo, width: &str, arguments: &[&str], ids: &[String]) -> String {
    let output = repo.command(arguments).env("COLUMNS", width).output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut text = String::from_utf8(output.stdout).expect("text");
    for line in text.lines() {
        let is_plain = !line.chars().any(char::is_control);
        assert!(is_plain, "a control character: {line:?}");
    }
    for (n, id) in ids.iter().enumerate() {
        text = text.replace(id.as_str(), &format!("{n:#<width$}", width = id.len()));
    }
    text
}

/// The first four characters of the random half of a session's id, which are its short id.
fn short(session: &Value) -> String {
    session["short_id"].as_str().expect("a short id").to_owned()
}

fn listed() -> (Repo, Vec<String>) {
    let repo = Repo::new();
    repo.configure(AGENTLESS);
    repo.ok(["session", "new", "--title", STRANGE]);
    repo.ok(["session", "new", "--label", "plain", "--title", "A plain title", "--model", "m1"]);
    assert_eq!(repo.fails(["session", "send", "plain", "hello"]).0, 1);
    let list = repo.ok(["session", "list"]);
    let ids = list["sessions"].as_array().expect("sessions").iter().map(short).collect();
    (repo, ids)
}

#[test]
fn sessions_fit_sixty_a_hundred_and_a_hundred_and_sixty_columns() {
    let (repo, ids) = listed();
    for width in WIDTHS {
        golden(
            &format!("session-list-{width}"),
            &printed(&repo, width, &["session", "list"], &ids),
        );
    }
    let whole = printed(&repo, "", &["session", "list"], &ids);
    assert!(
        whole.contains("long enough to be cut"),
        "a pipe without a width cuts nothing: {whole}"
    );
}

#[test]
fn commits_and_other_records_fit_the_width() {
    let repo = Repo::new();
    for (task, result) in [("Add retry logic to the client", "Retries five times"), (STRANGE, "x")]
    {
        repo.ok(["stage", "start", task]);
        repo.ok(["stage", "seal", "-m", result]);
    }
    repo.ok(["stage", "start", "Something else that was not needed in the end"]);
    repo.ok(["stage", "abort", "--reason", "not needed"]);
    let ids: Vec<String> = repo
        .commits()
        .iter()
        .map(|commit| commit["id"].as_str().expect("an id")[..4].to_owned())
        .collect();
    for width in WIDTHS {
        golden(&format!("log-{width}"), &printed(&repo, width, &["log"], &ids));
        golden(
            &format!("provider-list-{width}"),
            &printed(&repo, width, &["provider", "list"], &[]),
        );
    }
    let page = printed(&repo, "80", &["log", "--limit", "1"], &ids);
    assert!(
        page.ends_with("2 more commits; show them with `--before 0###` or `--limit N`\n"),
        "{page}"
    );
}

#[test]
fn search_results_fit_the_width_and_name_session_author_and_time() {
    let repo = Repo::new();
    repo.ok(["session", "new", "--label", "s", "--title", STRANGE]);
    let question = "Where is the needle \u{1b}[31m in this long sentence, which does not fit into \
                    sixty columns?";
    repo.ok(["session", "send", "s", question]);
    repo.ok(["stage", "start", "Look for the needle"]);
    repo.ok(["stage", "note", "The needle was in the haystack"]);
    repo.ok(["stage", "seal"]);
    let hits = repo.ok(["search", "needle"])["hits"].as_array().expect("hits").clone();
    let mut ids: Vec<String> = hits
        .iter()
        .map(|hit| hit["session"].as_str().expect("a session")[10..14].to_owned())
        .collect();
    let opened = |hit: &Value| {
        let id = hit["turn"].as_str().or(hit["commit"].as_str()).expect("an id");
        format!("ctx show {}", &id[..4])
    };
    ids.extend(hits.iter().map(opened));
    for width in WIDTHS {
        let text = printed(&repo, width, &["search", "needle"], &ids);
        let width_max: usize = width.parse().expect("a number");
        let is_wide = |line: &&str| UnicodeWidthStr::width(*line) > width_max;
        assert_eq!(text.lines().find(is_wide), None, "{text}");
        golden(&format!("search-{width}"), &text);
    }
    let utc = repo.says(["search", "needle", "--utc"]);
    for hit in &hits {
        assert!(utc.contains(hit["at"].as_str().expect("a time")), "{utc}");
    }
    let shown = repo.says(["search", "role:user", "needle"]);
    assert!(shown.contains(" You · "), "{shown}");
    let shown = repo.says(["search", "role:assistant", "needle"]);
    assert!(shown.contains(" demo · "), "the agent: {shown}");
}

#[test]
fn sessions_to_continue_and_usage_fit_the_width() {
    let repo = Repo::new();
    repo.ok([
        "run",
        "A question with a long text that is the title of its session",
        "--label",
        "s",
    ]);
    let listed = repo.ok(["continue"]);
    let id = listed["sessions"][0]["id"].as_str().expect("an id")[10..22].to_owned();
    for width in WIDTHS {
        let text = printed(&repo, width, &["continue"], std::slice::from_ref(&id));
        golden(&format!("continue-{width}"), &text);
        let text = printed(&repo, width, &["usage", "--by", "session"], &[]);
        let mut table = text.lines().take_while(|line| !line.contains("no known cost"));
        let width_max: usize = width.parse().expect("a number");
        assert!(table.all(|line| line.chars().count() <= width_max), "{text}");
        assert!(text.contains("\ntotal"), "{text}");
    }
    repo.ok(["continue", &id, "and more"]);
    assert_eq!(repo.ok(["session", "show", "s"])["session"]["turn_count"], 2);
}

#[test]
fn a_list_says_how_many_more_there_are() {
    let (repo, _) = listed();
    let one = repo.says(["session", "list", "--limit", "1"]);
    assert!(one.ends_with("1 more session; show more with `--limit N`\n"), "{one}");
    repo.ok(["session", "new"]);
    let one = repo.says(["session", "list", "-n", "1"]);
    assert!(one.ends_with("2 more sessions; show more with `--limit N`\n"), "{one}");
    assert!(!repo.says(["session", "list"]).contains("more"));
}

#[test]
fn times_are_relative_or_utc() {
    let (repo, _) = listed();
    assert!(repo.says(["session", "list"]).contains("just now"));
    let utc = repo.says(["session", "list", "--utc"]);
    let at = repo.ok(["session", "list"])["sessions"][0]["last_activity_at"].clone();
    assert!(utc.contains(at.as_str().expect("a time")), "{utc}");
    let tokyo = repo.command(["session", "show", "plain"]).env("TZ", "Asia/Tokyo").output();
    let tokyo = String::from_utf8(tokyo.expect("it runs").stdout).expect("text");
    let hour: u32 = at.as_str().expect("a time")[11..13].parse().expect("an hour");
    let minute = &at.as_str().expect("a time")[13..16];
    assert!(tokyo.contains(&format!("{:02}{minute}", (hour + 9) % 24)), "{tokyo}");
}

#[test]
fn colours_follow_the_option_and_the_environment() {
    let (repo, ids) = listed();
    let list = |arguments: &[&str], variable: (&str, &str)| {
        let mut command = repo.command(["session", "list"]);
        let output = command.args(arguments).env(variable.0, variable.1).output();
        String::from_utf8(output.expect("it runs").stdout).expect("text")
    };
    assert!(!list(&[], ("X", "")).contains('\u{1b}'), "a pipe has no colours");
    let coloured = list(&["--color", "always"], ("X", ""));
    assert!(coloured.contains(&format!("\u{1b}[1m{}", ids[0])) || coloured.contains("\u{1b}["));
    assert!(!list(&["--color", "never"], ("CLICOLOR_FORCE", "1")).contains('\u{1b}'));
    assert!(!list(&[], ("NO_COLOR", "1")).contains('\u{1b}'));
    // Styles are the only escape sequences.
    let rest = coloured.split('\u{1b}').skip(1);
    for sequence in rest {
        let end = sequence.find('m').unwrap_or(0);
        assert!(
            sequence.starts_with('[')
                && sequence[1..end].chars().all(|c| c.is_ascii_digit() || c == ';'),
            "{sequence:?}"
        );
    }
}

#[test]
fn no_verb_passes_control_characters_of_others_on() {
    let repo = Repo::new();
    let text = "red \u{1b}[31m clip \u{1b}]52;c;aGk=\u{7} back\u{8} bidi \u{202e} end";
    repo.ok(["session", "new", "--label", "s", "--title", text]);
    repo.ok(["session", "send", "s", text]);
    repo.ok(["session", "fork", "s", "--label", "t"]);
    repo.ok(["session", "send", "t", text]);
    repo.ok(["entity", "add", text]);
    repo.ok(["token", "create", "--scope", "read", "--name", text]);
    repo.ok(["stage", "start", text]);
    repo.ok(["stage", "note", text]);
    repo.write("a\u{1b}[31mb.txt", text);
    repo.ok(["stage", "observe", "file-write", "a\u{1b}[31mb.txt"]);
    repo.ok(["stage", "observe", "command", "--exit", "1", "--", "echo", text]);
    repo.ok(["stage", "ask", text]);
    repo.ok(["stage", "answer", text]);
    repo.ok(["stage", "seal", "-m", text]);
    repo.ok(["stage", "start", text]);
    let verbs: &[&[&str]] = &[
        &["session", "list"],
        &["session", "show", "s"],
        &["session", "show", "s", "--full"],
        &["session", "tree", "s"],
        &["session", "diff", "s", "t"],
        &["session", "archive", "s"],
        &["log"],
        &["show", "HEAD"],
        &["narrative"],
        &["search", "clip"],
        &["entity", "list"],
        &["token", "list"],
        &["status"],
        &["stage", "status"],
        &["stage", "recover"],
    ];
    for verb in verbs {
        let said = repo.says(*verb);
        let is_control = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
        let found =
            said.lines().find(|line| line.chars().any(|c| is_control(c) || c == '\u{202e}'));
        assert_eq!(found, None, "{verb:?}");
        assert!(said.contains("clip ␛]52"), "{verb:?} shows them: {said}");
    }
    // JSON keeps them, escaped.
    let output = repo.json_command(["session", "list", "--all"]).output().expect("it runs");
    let document = String::from_utf8(output.stdout).expect("text");
    assert!(document.contains("\\u001b]52;c;aGk=\\u0007"), "{document}");
}
