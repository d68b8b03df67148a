//! `GET /api/usage`, and budgets in `ctx.toml`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::harness::model_server::ModelServer;
use crate::harness::server::{Server, configure, configured_home};

const BY: [&str; 5] = ["day", "model", "project", "session", "provider"];

/// A model that reports 1,000 input tokens, 400 of them cached, and 10 output tokens; the cost too
/// where the request contains `cost`.
fn model() -> ModelServer {
    ModelServer::responding(|_, asked| {
        let mut usage = json!({
            "prompt_tokens": 1000,
            "completion_tokens": 10,
            "prompt_tokens_details": {"cached_tokens": 400},
        });
        let messages = asked.body["messages"].as_array().cloned().unwrap_or_default();
        if messages.last().is_some_and(|last| last.to_string().contains("cost")) {
            usage["cost"] = json!(0.1);
        }
        let text = json!({"choices": [{"index": 0, "delta": {"content": "ok"}}]});
        let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
        let last = json!({"choices": [], "usage": usage});
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n\
             data: {text}\n\ndata: {end}\n\ndata: {last}\n\ndata: [DONE]\n\n"
        )
    })
}

fn config(model: &ModelServer, more: &str) -> String {
    let url = &model.url;
    format!(
        "[providers.a]\nkind = \"openai\"\nbase_url = \"{url}/v1\"\nmodel = \"priced\"\n\
         [providers.b]\nkind = \"openai\"\nbase_url = \"{url}/v1\"\nmodel = \"obscure\"\n\
         [defaults]\nprovider = \"a\"\n\
         [prices.priced]\ninput = 2.0\ncached = 0.5\noutput = 10.0\n{more}"
    )
}

#[track_caller]
fn say(server: &Server, session: &str, text: &str, provider: &str) {
    let body = json!({"text": text, "provider_id": provider}).to_string();
    let headers = [("content-type", "application/json"), ("prefer", "wait=20")];
    let path = format!("/api/sessions/{session}/messages");
    server.ask("POST", &path, &headers, body.as_bytes()).is(200);
}

/// Adds up the usage of every turn that a session reaches, each once.
fn counted(server: &Server, sessions: &[&str]) -> BTreeMap<&'static str, u64> {
    let mut turns: BTreeMap<String, Value> = BTreeMap::new();
    for session in sessions {
        let page = server.read(&format!("/api/sessions/{session}/turns?limit=1000"));
        for turn in page["turns"].as_array().expect("turns") {
            turns.insert(turn["id"].as_str().expect("an id").to_owned(), turn.clone());
        }
    }
    let sum = |field: &str| turns.values().filter_map(|turn| turn["usage"][field].as_u64()).sum();
    let messages = turns.values().map(|turn| turn["messages"].as_array().expect("a list").len());
    BTreeMap::from([
        ("turns", turns.len() as u64),
        ("messages", messages.sum::<usize>() as u64),
        ("input_tokens", sum("input_tokens")),
        ("cached_tokens", sum("cached_tokens")),
        ("output_tokens", sum("output_tokens")),
    ])
}

#[test]
fn usage_by_every_key_is_the_sum_of_the_stored_turns() {
    let model = model();
    let server = Server::configured(&config(&model, ""));
    server.session("one");
    server.session("two");
    say(&server, "one", "hello", "a");
    say(&server, "one", "with a cost", "a");
    say(&server, "two", "hello", "b");
    server.post("/api/sessions/one/fork", &json!({"label": "fork"})).is(201);
    say(&server, "fork", "hello", "a");
    let expected = counted(&server, &["one", "two", "fork"]);
    assert_eq!((expected["turns"], expected["input_tokens"]), (4, 4000), "forks share turns");
    for by in BY {
        let found = server.read(&format!("/api/usage?by={by}"));
        for (field, sum) in &expected {
            assert_eq!(found["total"][field], json!(sum), "{field} by {by}");
            let rows = found["usage"].as_array().expect("rows").iter();
            let rows: u64 = rows.filter_map(|row| row[field].as_u64()).sum();
            assert_eq!(rows, *sum, "rows of {field} by {by}");
        }
        let total = &found["total"];
        assert_eq!((&total["fresh_tokens"], &total["tool_calls"]), (&json!(2400), &json!(0)));
        // 600 at 2, 400 at 0.5 and 10 at 10 dollars a million, twice, and 0.1 as reported.
        assert_eq!(total["cost"], json!(0.103), "{by}: 2 × 0.0015 + 0.1");
        assert_eq!(total["unpriced_turns"], 1, "the obscure model has no price");
    }
    let row = |by: &str, key: &str| {
        let found = server.read(&format!("/api/usage?by={by}"));
        let rows = found["usage"].as_array().expect("rows").clone();
        rows.into_iter().find(|row| row["key"] == key || row["label"] == key).expect("a row")
    };
    let obscure = row("model", "obscure");
    assert_eq!((&obscure["cost"], &obscure["input_tokens"]), (&Value::Null, &json!(1000)));
    assert_eq!(row("provider", "a")["turns"], 3);
    assert_eq!(row("session", "fork")["turns"], 1, "a turn counts for the session that made it");
    assert_eq!(row("session", "one")["cost"], json!(0.1015));
    let day = server.read("/api/usage")["usage"][0]["key"].clone();
    let day = day.as_str().expect("a day");
    assert_eq!(server.read(&format!("/api/usage?since={day}"))["total"]["turns"], 4);
    assert_eq!(server.read("/api/usage?since=1d&by=model")["total"]["turns"], 4);
    let none = server.read("/api/usage?since=2099-01-01");
    assert_eq!((&none["usage"], &none["total"]["turns"]), (&json!([]), &json!(0)));
    assert_eq!(none["total"]["cost"], Value::Null);
    for query in ["by=hour", "since=yesterday", "since=2026-13-01", "until=now"] {
        server.get(&format!("/api/usage?{query}")).refuses(422, "invalid_query");
    }
}

#[test]
fn reports_have_two_keys_filters_tools_and_an_order() {
    let model = model();
    let server = Server::configured(&config(&model, ""));
    for (label, project) in [("one", "alpha"), ("two", "beta")] {
        let body = json!({"label": label, "project": project});
        server.post("/api/sessions", &body).is(201);
    }
    say(&server, "one", "hello", "a");
    say(&server, "one", "hello", "b");
    say(&server, "two", "hello", "a");
    for text in ["use a tool", "use a tool"] {
        say(&server, "two", text, "demo");
    }
    let rows = |query: &str| -> Vec<Value> {
        let found = server.read(&format!("/api/usage?{query}"));
        found["usage"].as_array().expect("rows").clone()
    };
    let by_both = rows("by=day,model");
    assert_eq!(by_both.len(), 3, "one day, three models: {by_both:?}");
    let day = by_both[0]["key"].as_str().expect("a day").to_owned();
    assert!(by_both.iter().all(|row| row["key"] == day.as_str()), "{by_both:?}");
    let priced = by_both.iter().find(|row| row["second_key"] == "priced").expect("a row");
    assert_eq!((&priced["turns"], &priced["input_tokens"]), (&json!(2), &json!(2000)));
    assert_eq!(server.read("/api/usage?by=day,model")["by"], "day,model");
    assert!(rows("by=day")[0].get("second_key").is_none(), "one key is as before");

    let labels = |query: &str| -> Vec<String> {
        let row = |row: &Value| row["label"].as_str().expect("a label").to_owned();
        rows(query).iter().map(row).collect()
    };
    assert_eq!(labels("by=session&model=obscure"), ["one"]);
    assert_eq!(labels("by=session&project=beta"), ["two"]);
    assert_eq!(labels("by=session&provider=demo"), ["two"]);
    assert_eq!(labels("by=session&sort=turns"), ["two", "one"]);
    assert_eq!(labels(&format!("by=session&since={day}&until={day}")).len(), 2);
    assert!(rows("by=day&until=2001-01-01").is_empty());

    let tools = server.read("/api/usage?by=tool");
    let clock = &tools["usage"][0];
    assert_eq!((&clock["key"], &clock["tool_calls"]), (&json!("demo_clock"), &json!(2)));
    assert_eq!((&clock["failed_tool_calls"], &clock["turns"]), (&json!(0), &json!(2)));
    let unknown = [&clock["cost"], &clock["messages"], &clock["input_tokens"]];
    assert!(unknown.iter().all(|value| value.is_null()), "a tool has no tokens: {clock}");
    assert_eq!(labels("by=session&tool=demo_clock"), ["two"]);
    assert_eq!(rows("by=day,tool")[0]["second_key"], "demo_clock");
    assert!(rows("by=tool&project=alpha").is_empty());
    for query in ["by=tool,model", "by=day,day", "by=session&tool=x&model=y", "sort=size", "by="] {
        server.get(&format!("/api/usage?{query}")).refuses(422, "invalid_query");
    }
    let reversed = format!("since={day}&until=2001-01-01");
    server.get(&format!("/api/usage?{reversed}")).refuses(422, "invalid_query");

    server.send("DELETE", "/api/sessions/two", &Value::Null).is(204);
    crate::harness::wait_until("the turns are purged", || rows("by=tool").is_empty());
    crate::harness::verify(server.dir.path(), "after a deletion");
}

#[test]
fn a_budget_stops_requests_over_restarts_and_leaves_the_session_usable() {
    let model = model();
    let stop = "[budget.stop]\nday = \"0.15 USD\"\n[budget.warn]\nsession = \"1500 tokens\"\n";
    let home = configured_home(&config(&model, stop));
    let server = Server::in_dir(home.clone());
    server.session("s");
    say(&server, "s", "with a cost", "a");
    say(&server, "s", "with a cost", "a");
    let parts = |server: &Server| -> Vec<Value> {
        let page = server.read("/api/sessions/s/messages?order=desc&limit=3");
        let messages = page["messages"].as_array().expect("messages").iter();
        messages.flat_map(|one| one["content"].as_array().cloned().unwrap_or_default()).collect()
    };
    let notice = |part: &Value| part["text"].as_str().is_some_and(|text| text.contains("Budget"));
    assert!(parts(&server).iter().any(notice), "the second turn reached 1,500 tokens");
    say(&server, "s", "one more", "a");
    let refused = |server: &Server| {
        parts(server)
            .iter()
            .any(|part| part["code"] == "budget_exceeded" && part["type"] == "error")
    };
    assert!(refused(&server), "{:?}", parts(&server));
    assert_eq!(model.requests().len(), 2, "no request was sent");
    assert_eq!(server.read("/api/sessions/s")["state"], "idle");
    assert_eq!(server.read("/api/sessions/s")["status"], "active");

    drop(server);
    let server = Server::in_dir(home.clone());
    say(&server, "s", "after a kill", "a");
    assert!(refused(&server), "the sums are in the store");
    assert_eq!(model.requests().len(), 2);

    drop(server);
    configure(home.path(), &config(&model, "[budget.stop]\nday = \"9 USD\"\n"));
    let server = Server::in_dir(home);
    say(&server, "s", "with a higher limit", "a");
    assert_eq!(model.requests().len(), 3);
    assert!(!refused(&server) || parts(&server)[0]["text"] == "ok");
}
