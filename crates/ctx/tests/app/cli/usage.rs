//! `ctx usage` and `[prices]`, `[budget]` in `ctx.toml`.

use serde_json::{Value, json};

use crate::harness::repo::Repo;

fn text(repo: &Repo, verb: &[&str]) -> String {
    let output = repo.run(verb);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn usage_is_a_table_with_totals() {
    let repo = Repo::new();
    assert_eq!(text(&repo, &["usage"]), "No usage. Send a message with `ctx run`.\n");
    assert_eq!(text(&repo, &["usage", "statusline"]), "today - · 0 tokens · 0 turns\n");
    for (label, message) in [("first", "hello"), ("second", "use a tool"), ("third", "fail")] {
        repo.run(["run", message, "--label", label]);
    }
    for by in ["day", "model", "project", "session", "provider"] {
        let found = repo.ok(["usage", "--by", by]);
        let total = &found["total"];
        assert_eq!((&found["by"], &total["turns"]), (&json!(by), &json!(3)));
        assert_eq!(total["cost"], Value::Null, "the demo agent has no price, which is not 0");
        assert!(total["output_tokens"].as_u64().is_some_and(|count| count > 0), "{total}");
        assert_eq!(total["cached_tokens"], Value::Null, "never 0");
        assert_eq!(total["tool_calls"], 1);
        let table = text(&repo, &["usage", "--by", by]);
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].starts_with(by) && lines[0].ends_with("time"), "{table}");
        assert!(lines.iter().any(|line| line.starts_with("total")), "{table}");
        assert!(table.contains("unknown") && !table.contains("$0"), "{table}");
        let end = |line: &str| line.chars().count();
        assert_eq!(end(lines[0]), end(lines[1]), "the columns are aligned: {table}");
        assert!(!table.contains('\u{1b}'), "no colours in a pipe");
    }
    assert!(text(&repo, &["usage", "--by", "session"]).contains("hello"), "titles of sessions");
    let line = text(&repo, &["usage", "statusline"]);
    assert!(line.starts_with("today unknown · ") && line.ends_with("3 turns\n"), "{line}");
    assert_eq!(repo.ok(["usage", "statusline"])["today"]["turns"], 3);
    assert_eq!(repo.ok(["usage", "--since", "2099-01-01"])["total"]["turns"], 0);
    assert_eq!(repo.ok(["usage", "--since", "7d"])["total"]["turns"], 3);
    let (exit, error) = repo.fails(["usage", "--since", "yesterday"]);
    assert_eq!((exit, &error["code"]), (2, &json!("bad_since")));
    assert_eq!(repo.fails(["usage", "--by", "hour"]).0, 2);
    assert_eq!(repo.fails(["usage", "--by", "tool,model"]).0, 2);
    let tools = text(&repo, &["usage", "--by", "tool"]);
    assert!(tools.lines().nth(1).is_some_and(|line| line.starts_with("demo_clock")), "{tools}");
    assert_eq!(
        repo.ok(["usage", "--by", "session", "--tool", "demo_clock"])["usage"][0]["tool_calls"],
        1
    );
    assert!(text(&repo, &["usage", "--by", "day,model"]).starts_with("day"), "two keys");
    assert_eq!(repo.ok(["usage", "--until", "2001-01-01"])["total"]["turns"], 0);
}

#[test]
fn prices_and_limits_of_the_configuration_are_checked() {
    let repo = Repo::new();
    for (config, line, named) in [
        ("[prices.m]\ninput = -1\noutput = 2\n", 2, "prices.\"m\".input"),
        ("# mine\n[prices.m]\ninput = 1\noutput = 2e9\n", 4, "prices.\"m\".output"),
        ("[prices.m]\ninput = 1\n", 1, "output"),
        ("[budget.stop]\nday = \"5 EUR\"\n", 2, "budget.stop.day"),
        ("\n\n[budget.warn]\nsession = \"much\"\n", 4, "budget.warn.session"),
        ("[budget.stop.providers]\nopenai = \"5\"\n", 2, "budget.stop.providers.openai"),
        ("[budget]\nday = \"5 USD\"\n", 2, "day"),
    ] {
        repo.configure(config);
        let (exit, error) = repo.fails(["usage"]);
        assert_eq!((exit, &error["code"]), (2, &json!("bad_config")), "{error}");
        let message = error["message"].as_str().expect("a message");
        let place = format!("ctx.toml, line {line}: ");
        assert!(message.contains(&place) && message.contains(named), "{place}{named}: {message}");
    }
}

#[test]
fn a_limit_of_tokens_stops_the_demo_agent() {
    let repo = Repo::new();
    repo.run(["run", "hello", "--label", "s"]);
    let prices = "[prices.demo]\ninput = 1\noutput = 1\n";
    repo.configure(format!("{prices}[budget.stop]\nsession = \"1 tokens\"\n"));
    repo.run(["session", "send", "s", "more"]);
    let shown = repo.ok(["session", "show", "s"]);
    let messages = shown["messages"].as_array().expect("messages");
    let last = messages.last().expect("a message");
    assert_eq!(last["content"][0]["code"], "budget_exceeded", "{last}");
    let advice = last["content"][0]["message"].as_str().expect("a message");
    assert!(advice.ends_with("or continue in a new session"), "{advice}");
    assert_eq!(shown["session"]["state"], "idle");
    let total = repo.ok(["usage"])["total"].clone();
    assert_eq!((&total["turns"], &total["unpriced_turns"]), (&json!(2), &json!(0)), "{total}");
    assert!(!text(&repo, &["usage"]).contains('≥'), "no request was sent, so the total is exact");
    repo.configure("");
    repo.run(["session", "send", "s", "again"]);
    assert_eq!(repo.ok(["session", "show", "s"])["session"]["turn_count"], 3);
}
