//! A second agent that is given only `ctx mcp` answers what an earlier session decided.

use std::io::{Read, Write};

use serde_json::{Value, json};

use crate::harness::client::Client;
use crate::harness::mcp_client::{Mcp, StdioMcp};
use crate::harness::model_server::{ModelServer, completion, tool_call};
use crate::harness::repo::Repo;

/// An agent whose model decides by itself which tools of its MCP server it calls.
fn ask(mcp: &mut StdioMcp, model: &ModelServer, question: &str) -> String {
    let listed = mcp.result("tools/list", json!({}));
    let tools: Vec<Value> = listed["tools"]
        .as_array()
        .expect("tools")
        .iter()
        .map(|tool| {
            let function = json!({"name": tool["name"], "description": tool["description"],
                "parameters": tool["inputSchema"]});
            json!({"type": "function", "function": function})
        })
        .collect();
    let mut messages = vec![json!({"role": "user", "content": question})];
    for _ in 0..8 {
        let answer = respond_over_http(
            model,
            &json!({"model": "m", "stream": true, "messages": messages, "tools": tools}),
        );
        messages.push(answer.clone());
        let Some(calls) = answer["tool_calls"].as_array().filter(|calls| !calls.is_empty()) else {
            return answer["content"].as_str().expect("an answer").to_owned();
        };
        for call in calls {
            let arguments = call["function"]["arguments"].as_str().expect("arguments");
            let arguments: Value = serde_json::from_str(arguments).expect("JSON");
            let name = call["function"]["name"].as_str().expect("a name");
            let result = mcp.says(name, arguments);
            messages.push(json!({"role": "tool", "tool_call_id": call["id"], "content": result}));
        }
    }
    panic!("the agent does not come to an end: {messages:?}");
}

/// The message of a chat completion, put together from its chunks.
fn respond_over_http(model: &ModelServer, request: &Value) -> Value {
    let address = model.url.trim_start_matches("http://").parse().expect("an address");
    let mut stream = Client { address }.connect();
    let (body, mut text) = (request.to_string(), String::new());
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: model\r\ncontent-length";
    write!(stream, "{head}: {}\r\n\r\n{body}", body.len()).expect("written");
    // The model server closes the connection after its response.
    stream.read_to_string(&mut text).expect("a response");
    let chunks = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let mut message = json!({"role": "assistant"});
    for chunk in chunks.filter_map(|data| serde_json::from_str::<Value>(data).ok()) {
        let delta = &chunk["choices"][0]["delta"];
        for field in ["content", "tool_calls"] {
            if !delta[field].is_null() {
                message[field] = delta[field].clone();
            }
        }
    }
    message
}

/// The scripted model: it searches, reads the turn that the search names, and repeats the sentence
/// of that turn which states a decision. It knows nothing else.
fn respond(messages: &[Value]) -> String {
    let results: Vec<&str> = messages
        .iter()
        .filter(|message| message["role"] == "tool")
        .filter_map(|message| message["content"].as_str())
        .collect();
    match results.as_slice() {
        [] => tool_call("search", &json!({"query": "queue orders"})),
        [found] => {
            let turn = found.split(" turn ").nth(1).and_then(|rest| rest.split(' ').next());
            let turn = turn.unwrap_or_else(|| panic!("no turn in {found}"));
            tool_call("read_turn", &json!({"turn": turn.trim_end_matches(':'), "budget": 1000}))
        }
        [.., read] => {
            let decided = read.lines().find(|line| line.contains("decided"));
            completion(decided.unwrap_or("I do not know."))
        }
    }
}

#[test]
fn a_second_agent_answers_what_an_earlier_session_decided() {
    let repo = Repo::new();
    let first = ModelServer::responding(|_, _| {
        completion("We decided to keep the orders in a queue of PostgreSQL, not in Redis.")
    });
    repo.configure(first.config(""));
    repo.ok(["session", "new", "--label", "planning"]);
    repo.ok(["session", "send", "planning", "Where do we queue the orders?"]);
    // Much else is said afterwards.
    let other = ModelServer::responding(|_, _| completion("The weather is fine."));
    repo.configure(other.config(""));
    repo.ok(["session", "new", "--label", "chatter"]);
    repo.ok(["session", "send", "chatter", "How is the weather?"]);
    let requests = (first.requests().len(), other.requests().len());

    let model = ModelServer::responding(|_, request| {
        respond(request.body["messages"].as_array().expect("messages"))
    });
    let mut mcp = StdioMcp::start(&repo, &["--read-only"]);
    let answer = ask(&mut mcp, &model, "What did we decide about the queue of orders?");
    assert!(answer.contains("a queue of PostgreSQL, not in Redis"), "{answer}");
    assert_eq!(model.requests().len(), 3, "search, read, answer");
    let now = (first.requests().len(), other.requests().len());
    assert_eq!(now, requests, "no earlier agent was asked again");
}
