//! `ctx export SESSION --to markdown|html|jsonl`, and secrets in every form of export and import.

use serde_json::{Value, json};

use crate::harness::repo::Repo;

use super::export_tools::{continued, history, records};

/// Assembled here, so that no scanner reports this file.
fn secrets() -> Vec<(String, &'static str)> {
    let letters = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6";
    vec![
        (format!("ghp_{letters}"), "github_token"),
        (format!("AKIA{}", "IOSFODNN7EXAMPLE"), "aws_access_key"),
        ("hunter2-correct-horse".to_owned(), "password"),
    ]
}

/// The records with secrets in a prompt, a call, a result that is a blob, and an answer.
fn with_secrets() -> Vec<Value> {
    let [token, key, password] = &secrets()[..] else { panic!("three secrets") };
    let mut records = records("/project");
    let long = format!("{}\n{}", "x".repeat(6000), key.0);
    records.extend([
        json!({"role": "user", "content": format!("Use {}", token.0)}),
        json!({"role": "assistant", "content": "", "tool_calls": [
            {"id": "d1", "name": "shell", "arguments": {"env": {"DB_PASSWORD": password.0}}}]}),
        json!({"role": "tool", "tool_call_id": "d1", "content": long}),
        json!({"role": "assistant", "content": format!("The token is {}", token.0)}),
    ]);
    records
}

fn counts() -> Value {
    json!({"github_token": 2, "aws_access_key": 1, "password": 1})
}

fn assert_clean(bytes: &[u8], what: &str) {
    for (secret, kind) in secrets() {
        let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
        assert!(!found, "{what} contains the {kind}");
    }
}

#[test]
fn json_lines_are_imported_as_the_same_history() {
    let (repo, session) = continued(&records("/project"));
    let file = repo.beside("out.jsonl");
    let path = file.to_str().expect("a path");
    let exported = repo.ok(["export", &session, "--to", "jsonl", "-o", path]);
    assert_eq!((&exported["turn_count"], &exported["to"]), (&json!(4), &json!("jsonl")));
    let other = Repo::new();
    let imported = other.ok(["import", "--from", "jsonl", path])["imported"][0].clone();
    assert_eq!(imported["problems"], json!([]));
    let name = imported["session"].as_str().expect("a session");
    assert_eq!(history(&other, name), history(&repo, &session));
    // In a pipe the document is the output.
    assert_eq!(repo.says(["export", &session, "--to", "jsonl"]).lines().count(), 13);
}

#[test]
fn the_page_is_one_file_without_requests_and_all_text_is_escaped() {
    let mut records = records("/project");
    let attack =
        "<script>alert(1)</script>\n\n```rust\nlet x = \"</script>\";\n```\n\n[a](javascript:x)";
    records.push(json!({"role": "user", "content": attack}));
    records.push(json!({"role": "assistant", "content": attack, "tool_calls": [
        {"id": "x", "name": "<b>tool</b>", "arguments": {"a": "<img src=x onerror=y>"}}]}));
    records.push(json!({"role": "tool", "tool_call_id": "x", "content": "<iframe src=//e>"}));
    let (repo, session) = continued(&records);
    let page = repo.says(["export", &session, "--to", "html"]);
    for part in [
        "<!doctype html>",
        "Content-Security-Policy",
        "default-src 'none'",
        "<details",
        "id=\"search\"",
    ] {
        assert!(page.contains(part), "{part} is missing");
    }
    assert_eq!(page.matches("<script>").count(), 1, "the script of the page only");
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    for forbidden in
        ["<iframe", "<img src=x", "<b>tool", "href=\"javascript", "src=\"http", "<link", "@import"]
    {
        assert!(!page.contains(forbidden), "the page contains {forbidden}");
    }
    assert!(page.contains("k-keyword"), "code has colours");
    assert!(page.contains("<img alt=\"Image of the user\" src=\"data:image/png;base64,"));
    let text = repo.says(["export", &session, "--to", "markdown"]);
    for part in ["# Two files", "## User", "## Assistant", "<summary>Tool call shell", "a.rs"] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
}

#[test]
fn every_form_of_export_is_redacted_and_counts_what_it_replaced() {
    let (repo, session) = continued(&with_secrets());
    for to in ["markdown", "html", "jsonl", "claude-code", "codex", "opencode", "pi"] {
        let place = repo.beside(&format!("redacted {to}"));
        let path = place.to_str().expect("a path");
        let exported = repo.ok(["export", &session, "--to", to, "--redact", "-o", path]);
        assert_eq!(exported["redacted"], counts(), "{to}");
        let file = exported["file"].as_str().expect("a file");
        let bytes = std::fs::read(file).expect("the export");
        assert_clean(&bytes, to);
        let marked = bytes.windows(23).any(|part| part == b"[redacted:github_token]");
        assert!(marked, "{to} has no mark");
        assert_clean(exported.to_string().as_bytes(), "the report");
    }
    let output = repo.run(["export", &session, "--to", "markdown", "--redact"]);
    let report = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(report.contains("Replaced 4 secrets") && report.contains("2 github_token"), "{report}");
    assert_clean(report.as_bytes(), "the report");
    // The store keeps what was said.
    assert!(history(&repo, &session).iter().any(|line| line.contains(&secrets()[0].0)));
}

#[test]
fn a_redacted_bundle_verifies_and_is_another_history() {
    let (repo, session) = continued(&with_secrets());
    repo.ok(["stage", "start", &format!("Use {}", secrets()[0].0)]);
    let file = repo.beside("clean.ctx-bundle");
    let path = file.to_str().expect("a path");
    let exported = repo.ok(["export", &session, "--redact", "-o", path]);
    assert_eq!(exported["redacted"], counts());
    assert_clean(&std::fs::read(&file).expect("the bundle"), "the bundle");
    let other = Repo::new();
    let imported = other.ok(["import", path]);
    assert_eq!((&imported["arrival"], &imported["turns_added"]), (&json!("created"), &json!(5)));
    other.ok(["verify"]);
    // Beside the original it is a session of its own.
    let beside = repo.ok(["import", path]);
    assert_eq!(beside["arrival"], "created");
    assert_ne!(beside["session"]["id"], json!(session));
    repo.ok(["verify"]);
}

#[test]
fn secrets_are_replaced_before_they_are_stored() {
    let (from, session) = continued(&with_secrets());
    let bundle = from.beside("whole.ctx-bundle");
    from.ok(["export", &session, "-o", bundle.to_str().expect("a path")]);
    for (arguments, field) in [
        (vec!["import", "--redact", "--from", "jsonl"], "s.jsonl"),
        (vec!["import", "--redact"], "whole.ctx-bundle"),
    ] {
        let repo = Repo::new();
        let path = from.beside(field);
        let mut arguments = arguments;
        arguments.push(path.to_str().expect("a path"));
        let imported = repo.ok(arguments);
        assert_eq!(imported["redacted"], counts(), "{field}: {imported}");
        let id =
            imported.pointer("/imported/0/session").or_else(|| imported.pointer("/session/id"));
        let shown = history(&repo, id.and_then(Value::as_str).expect("a session"));
        assert_clean(shown.join("\n").as_bytes(), field);
        assert!(shown.iter().any(|line| line == "user: Use [redacted:github_token]"), "{shown:?}");
        repo.ok(["verify"]);
    }
}
