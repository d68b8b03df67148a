//! Search and reading within a budget.

use ctx_engine::{Engine, Options};
use serde_json::{Value, json};

use crate::harness::mcp_client::{Mcp, StdioMcp};
use crate::harness::repo::Repo;

/// Tokens of a text, counted as for the context window.
fn tokens(repo: &Repo, text: &str) -> u64 {
    let engine = Engine::open(repo.location(), Options::default()).expect("a store");
    engine.count_tokens(text)
}

fn text_of(result: &Value) -> String {
    result["content"][0]["text"].as_str().expect("a text").to_owned()
}

#[test]
fn abandoned_work_is_told_apart() {
    let repo = Repo::working_on("Cache the catalogue with memcached");
    repo.ok(["stage", "abort", "--reason", "memcached has no persistence"]);
    repo.ok(["stage", "start", "Cache the catalogue in process"]);
    repo.ok(["stage", "note", "Decision: the catalogue is cached in process"]);
    repo.ok(["stage", "compact", "-m", "The catalogue is cached in process"]);
    repo.ok(["stage", "start", "Measure the catalogue"]);
    let mut mcp = StdioMcp::start(&repo, &[]);
    for (outcome, expected) in [
        ("abandoned", "with memcached"),
        ("normal", "catalogue in process"),
        ("open", "Measure the catalogue"),
    ] {
        let found = mcp.data("search", json!({"query": "catalogue", "outcome": outcome}));
        let hits = found["hits"].as_array().expect("hits");
        assert!(!hits.is_empty(), "{outcome}");
        for hit in hits {
            assert_eq!(hit["outcome"], outcome, "{hit}");
            assert!(hit["task"].is_string(), "{hit}");
        }
        let all = found.to_string();
        assert!(all.contains(expected), "{outcome}: {all}");
    }
    let found = mcp.data("search", json!({"query": "memcached"}));
    assert_eq!(found["hits"][0]["outcome"], "abandoned", "{found}");
    let commit = found["hits"][0]["commit"].as_str().expect("a commit").to_owned();
    let text = mcp.says("read_commit", json!({"commit": &commit[..12]}));
    assert!(text.contains("Outcome: abandoned") && text.contains("no persistence"), "{text}");
    assert_eq!(mcp.data("search", json!({"query": "zeppelin"}))["hits"], json!([]));
}

#[test]
fn a_session_is_read_within_the_budget_that_the_caller_gives() {
    let repo = Repo::new();
    repo.ok(["session", "new", "--label", "talk"]);
    for n in 0..12 {
        let words = format!("message {n}: {}", "a few more words to fill the turn ".repeat(12));
        repo.ok(["session", "send", "talk", &words]);
    }
    let mut mcp = StdioMcp::start(&repo, &[]);
    for budget in [100, 400, 1500] {
        let (mut before, mut seen, mut calls) = (Value::Null, Vec::new(), 0);
        loop {
            let mut arguments = json!({"session": "talk", "budget": budget});
            if !before.is_null() {
                arguments["before"] = before.clone();
            }
            let result = mcp.call("read_session", arguments);
            let (text, data) = (text_of(&result), &result["structuredContent"]);
            assert!(tokens(&repo, &text) <= budget, "{budget}: {text}");
            assert_eq!(data["tokens"], tokens(&repo, &text));
            let turns: Vec<String> = data["turns"]
                .as_array()
                .expect("turns")
                .iter()
                .map(|turn| turn.as_str().expect("an id").to_owned())
                .collect();
            assert!(!turns.is_empty(), "{text}");
            seen.splice(0..0, turns);
            calls += 1;
            before = data["before"].clone();
            let left = data["left_out"].as_u64().expect("a number");
            assert_eq!(left as usize, 12 - seen.len());
            if left == 0 {
                break;
            }
            assert!(text.contains(&format!("{left} earlier turns left out")), "{text}");
        }
        assert_eq!(seen.len(), 12, "every turn is read once, in {calls} calls");
        let mut once = seen.clone();
        once.dedup();
        assert_eq!(once.len(), 12);
    }
}

#[test]
fn a_long_turn_is_read_in_parts_without_a_loss() {
    let repo = Repo::new();
    repo.ok(["session", "new", "--label", "talk"]);
    let long: String = (0..3000).map(|n| format!("line {n}\n")).collect();
    let sent = repo.piped(["session", "send", "talk", "-"], long.as_bytes());
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    let mut mcp = StdioMcp::start(&repo, &[]);
    let turns = mcp.data("read_session", json!({"session": "talk", "budget": 500}));
    assert!(turns["text"].as_str().is_some_and(|it| it.contains("is shortened")), "{turns}");
    let turn = turns["turns"][0].clone();
    let (mut whole, mut offset) = (String::new(), json!(0));
    while !offset.is_null() {
        let arguments = json!({"turn": turn, "budget": 2000, "offset": offset});
        let part = mcp.data("read_turn", arguments);
        let text = part["text"].as_str().expect("a text");
        assert!(tokens(&repo, text) <= 2000);
        offset = part["next_offset"].clone();
        let end = if offset.is_null() { text.len() } else { text.rfind("\n[").expect("a remark") };
        whole.push_str(&text[..end]);
    }
    for n in [0, 1, 1499, 2998, 2999] {
        assert_eq!(whole.matches(&format!("line {n}\n")).count(), 1, "line {n}");
    }
}

#[test]
fn sessions_are_listed_in_pages() {
    let repo = Repo::new();
    for n in 0..5 {
        repo.ok(["session", "new", "--label", &format!("talk-{n}")]);
    }
    let mut mcp = StdioMcp::start(&repo, &[]);
    let (mut labels, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let mut arguments = json!({"limit": 2, "query": "talk"});
        if !cursor.is_null() {
            arguments["cursor"] = cursor;
        }
        let page = mcp.data("list_sessions", arguments);
        for session in page["sessions"].as_array().expect("sessions") {
            labels.push(session["label"].as_str().expect("a label").to_owned());
        }
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(labels, ["talk-4", "talk-3", "talk-2", "talk-1", "talk-0"]);
    let wrong = mcp.fails("list_sessions", json!({"cursor": "zz"}));
    assert!(wrong.contains("invalid parameter `cursor`"), "{wrong}");
}
