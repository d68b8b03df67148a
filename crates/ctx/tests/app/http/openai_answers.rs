//! `/v1`: the form of answers and errors, streams, tools, images, repeated requests, tokens.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::chat_client::{ChatClient, assistant, events, seen, user};
use crate::harness::ctx;
use crate::harness::model_server::{ModelServer, completion, json_response, tool_call};
use crate::harness::server::{Server, configure, configured_home, home};
use crate::harness::wait_until;

const LOOK: &str = r#"{"type": "function", "function":
    {"name": "look", "description": "looks", "parameters": {"type": "object"}}}"#;

fn look() -> Value {
    serde_json::from_str(LOOK).expect("a tool")
}

#[test]
fn a_chat_completion_has_the_fields_that_clients_read() {
    let end = r#"data: {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}"#;
    let end = format!("{end}\n\ndata: [DONE]");
    let model =
        ModelServer::responding(move |_, _| completion("héllo").replace("data: [DONE]", &end));
    let server = Server::configured(&model.config(""));
    let body = json!({
        "model": "ctx/model/other", "messages": [user("hi")], "temperature": 0.3, "n": 1,
        "max_completion_tokens": 9, "an_unknown_field": {"a": 1},
    });
    let answer = server.post("/v1/chat/completions", &body).is(200);
    assert_eq!(answer["object"], "chat.completion");
    assert!(answer["id"].as_str().is_some_and(|id| id.starts_with("chatcmpl-")), "{answer}");
    assert_eq!(answer["model"], "ctx/model/other");
    assert_eq!(answer["choices"][0]["message"]["content"], "héllo");
    assert_eq!(answer["choices"][0]["message"]["role"], "assistant");
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    assert_eq!(answer["usage"]["prompt_tokens"], 7);
    assert_eq!(answer["usage"]["total_tokens"], 10);
    assert_eq!(model.requests()[0].body["model"], "other");
    let mut body = body;
    body["stream"] = json!(true);
    body["stream_options"] = json!({"include_usage": true});
    let chunks = events(&server.post("/v1/chat/completions", &body));
    assert_eq!(chunks.last(), Some(&json!("[DONE]")));
    let usage = &chunks[chunks.len() - 2];
    assert_eq!((&usage["choices"], &usage["usage"]["completion_tokens"]), (&json!([]), &json!(3)));
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    let text: String = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(text, "héllo");
    assert_eq!(chunks[chunks.len() - 3]["choices"][0]["finish_reason"], "stop");
    for chunk in &chunks[..chunks.len() - 1] {
        assert_eq!(chunk["object"], "chat.completion.chunk");
        assert_eq!(chunk["id"], chunks[0]["id"]);
    }
}

#[test]
fn a_response_is_streamed_in_the_order_that_clients_expect() {
    let model = ModelServer::in_pieces(Duration::from_millis(30), |_| {
        ["one ", "two ", "three"].map(str::to_owned).to_vec()
    });
    let server = Server::configured(&model.config(""));
    let body = json!({"model": "ctx", "input": "hi", "stream": true, "instructions": "Be brief."});
    let events = events(&server.post("/v1/responses", &body));
    let kinds: Vec<&str> =
        events.iter().map(|event| event["type"].as_str().expect("a type")).collect();
    let begin = [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
    ];
    assert_eq!(kinds[..5], begin);
    let end = [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ];
    assert_eq!(kinds[kinds.len() - 4..], end);
    let deltas: Vec<&str> = events.iter().filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(deltas.concat(), "one two three");
    assert!(deltas.len() > 1, "the text came at once: {deltas:?}");
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number);
    }
    let completed = &events[events.len() - 1]["response"];
    assert_eq!(completed["output"][0]["content"][0]["text"], "one two three");
    assert_eq!(
        (&completed["status"], &completed["instructions"]),
        (&json!("completed"), &json!("Be brief."))
    );
    assert_eq!(completed["id"], events[0]["response"]["id"]);
    assert_eq!(events[0]["response"]["status"], "in_progress");
}

#[test]
fn the_clients_tools_are_called_and_their_results_continue_the_turn() {
    let model = ModelServer::responding(|_, request| {
        let last = request.body["messages"].as_array().and_then(|all| all.last().cloned());
        let last = last.expect("a message");
        let offered = request.body["tools"].to_string().contains("\"look\"");
        match last["role"].as_str() {
            Some("tool") => completion("It is sunny."),
            _ if offered || last["content"] == "imagine" => {
                tool_call("look", &json!({"at": "the sky"}))
            }
            _ => completion("Good."),
        }
    });
    let server = Server::configured(&model.config(""));
    let ask = |body: Value| server.post("/v1/chat/completions", &body);
    for fields in [json!({}), json!({"metadata": {"session": "weather"}})] {
        let mut chat = ChatClient::new(server.client(), fields);
        chat.fields["tools"] = json!([look()]);
        chat.messages.push(user("How is the weather?"));
        let called = ask(chat.body(&chat.messages)).is(200)["choices"][0].clone();
        assert_eq!(called["finish_reason"], "tool_calls");
        let call = &called["message"]["tool_calls"][0];
        assert_eq!(
            (&call["type"], &call["function"]["name"]),
            (&json!("function"), &json!("look"))
        );
        assert_eq!(call["function"]["arguments"], r#"{"at":"the sky"}"#);
        assert_eq!(called["message"]["content"], Value::Null);
        chat.messages.push(called["message"].clone());
        // A call without its result is an error.
        let error = ask(chat.body(&chat.messages)).is(400);
        assert!(error["error"]["message"].as_str().is_some_and(|text| text.contains("c1")));
        chat.messages.push(json!({"role": "tool", "tool_call_id": "c1", "content": "blue"}));
        let mut body = chat.body(&chat.messages);
        body["stream"] = json!(true);
        let chunks = events(&ask(body));
        let text =
            chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str());
        assert_eq!(text.collect::<String>(), "It is sunny.");
        chat.messages.push(assistant("It is sunny."));
        let last = model.requests().pop().expect("a request");
        assert_eq!(seen(&last).len(), 3, "{last:?}");
        chat.fields["tools"] = Value::Null;
        chat.messages.push(user("And now?"));
        ask(chat.body(&chat.messages)).is(200);
        let last = seen(&model.requests().pop().expect("a request"));
        assert_eq!(
            last.iter().filter(|text| *text == "How is the weather?").count(),
            1,
            "{last:?}"
        );
        assert_eq!(last.len(), 5, "{last:?}");
    }
    assert_eq!(server.labels("").len(), 2);
    // A tool that was not offered is answered by ctx.
    let mut chat = ChatClient::new(server.client(), json!({"user": "dreamer"}));
    assert_eq!(chat.say("imagine"), "It is sunny.");
    // In responses: items instead of messages.
    let mut tool = look()["function"].clone();
    tool["type"] = json!("function");
    let body = json!({"model": "ctx", "input": "How is it?", "tools": [tool]});
    let called = server.post("/v1/responses", &body).is(200);
    let item = &called["output"][0];
    assert_eq!((&item["type"], &item["name"]), (&json!("function_call"), &json!("look")));
    assert_eq!(item["call_id"], "c1");
    let wrong =
        json!({"model": "ctx", "input": "never mind", "previous_response_id": called["id"]});
    server.post("/v1/responses", &wrong).is(400);
    let output = json!([{"type": "function_call_output", "call_id": "c1", "output": "blue"}]);
    let body = json!({"model": "ctx", "input": output, "previous_response_id": called["id"]});
    let done = server.post("/v1/responses", &body).is(200);
    assert_eq!(done["output"][0]["content"][0]["text"], "It is sunny.");
    assert_ne!(done["id"], called["id"]);
    let read = server.read(&format!("/v1/responses/{}", called["id"].as_str().expect("an id")));
    assert_eq!(read["output"][0]["type"], "function_call", "{read}");
    let next = json!({"model": "ctx", "input": "thanks", "previous_response_id": done["id"]});
    assert_eq!(server.post("/v1/responses", &next).is(200)["conversation"], called["conversation"]);
    // Results of calls that ctx does not know.
    let chat = ChatClient::new(server.client(), json!({"tools": [look()]}));
    let call = json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "x9", "type": "function", "function": {"name": "look", "arguments": "{}"}}]});
    let result = json!({"role": "tool", "tool_call_id": "x9", "content": "grey"});
    let answer = chat.send(&[user("from elsewhere"), call, result]).is(200);
    assert_eq!(answer["choices"][0]["message"]["content"], "It is sunny.");
    let last = model.requests().pop().expect("a request").body["messages"].clone();
    assert_eq!(last[last.as_array().expect("messages").len() - 1]["content"], "grey");
    let output = json!([{"type": "function_call_output", "call_id": "x", "output": "blue"}]);
    server.post("/v1/responses", &json!({"model": "ctx", "input": output})).is(400);
}

#[test]
fn an_image_reaches_the_model() {
    let model = ModelServer::responding(|n, _| completion(&format!("answer {n}")));
    let server = Server::configured(&model.config(""));
    let url = "data:image/gif;base64,R0lGODdhAAAA";
    let content = json!([{"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": url}}]);
    let mut chat = ChatClient::new(server.client(), json!({}));
    chat.messages.push(json!({"role": "user", "content": content}));
    let answer = chat.send(&chat.messages).is(200)["choices"][0]["message"].clone();
    chat.messages.push(answer);
    chat.say("And?");
    assert_eq!(server.labels("").len(), 1);
    for request in model.requests() {
        let sent = request.body["messages"].to_string();
        assert_eq!(sent.matches("R0lGODdhAAAA").count(), 1, "{sent}");
    }
    let input = json!([{"role": "user", "content": [
        {"type": "input_text", "text": "This?"}, {"type": "input_image", "image_url": url}]}]);
    server.post("/v1/responses", &json!({"model": "ctx", "input": input})).is(200);
    for wrong in ["https://example.com/x.png", "data:image/png;base64,R0lGODdhAAAA"] {
        let part = json!({"type": "image_url", "image_url": {"url": wrong}});
        let error = chat.send(&[json!({"role": "user", "content": [part]})]).is(400);
        assert_eq!(error["error"]["type"], "invalid_request_error");
    }
}

#[test]
fn models_are_named_after_providers() {
    let model = ModelServer::responding(|_, _| completion("yes"));
    let server = Server::configured(&model.config(""));
    let list = server.read("/v1/models");
    let names: Vec<&str> = list["data"]
        .as_array()
        .expect("models")
        .iter()
        .map(|model| model["id"].as_str().expect("an id"))
        .collect();
    for name in ["ctx", "ctx/model", "ctx/model/m"] {
        assert!(names.contains(&name), "{names:?}");
        assert_eq!(server.read(&format!("/v1/models/{name}"))["id"], name);
    }
    for name in ["gpt-4o", "ctx/nobody", "ctx/nobody/m", "ctxmodel", ""] {
        let body = json!({"model": name, "messages": [user("hi")]});
        let error = server.post("/v1/chat/completions", &body).is(404)["error"].clone();
        assert_eq!((&error["code"], &error["param"]), (&json!("model_not_found"), &json!("model")));
    }
    assert_eq!(server.get("/v1/models/ctx/nobody").is(404)["error"]["code"], "model_not_found");
    assert!(server.labels("").is_empty());
}

#[test]
fn errors_have_the_form_of_openai() {
    let model = ModelServer::responding(|_, request| {
        match seen(request).last().map(String::as_str).unwrap_or_default() {
            "auth" => json_response(401, r#"{"error": {"message": "wrong key"}}"#),
            "long" => json_response(
                400,
                r#"{"error": {"message": "too long", "code": "context_length_exceeded"}}"#,
            ),
            "quota" => {
                json_response(429, r#"{"error": {"message": "pay", "code": "insufficient_quota"}}"#)
            }
            "length" => completion("cut").replace("\"stop\"", "\"length\""),
            _ => completion("fine"),
        }
    });
    let server = Server::configured(&model.config(""));
    let ask = |text: &str| {
        let body = json!({"model": "ctx", "messages": [user(text)]});
        server.post("/v1/chat/completions", &body)
    };
    for (text, status, code) in [
        ("auth", 502, "auth_required"),
        ("long", 400, "context_length_exceeded"),
        ("quota", 429, "insufficient_quota"),
    ] {
        let response = ask(text);
        assert_eq!(response.header("x-should-retry"), Some("false"), "{text}");
        let error = response.is(status)["error"].clone();
        assert_eq!(error["code"], code, "{error}");
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()));
    }
    let stream = json!({"model": "ctx", "messages": [user("long")], "stream": true});
    let error = server.post("/v1/chat/completions", &stream).is(400)["error"].clone();
    assert_eq!(error["code"], "context_length_exceeded");
    assert_eq!(ask("length").is(200)["choices"][0]["finish_reason"], "length");
    let bad = |body: &[u8], kind: &str| {
        server.ask("POST", "/v1/chat/completions", &[("content-type", kind)], body)
    };
    for (body, kind) in [
        ("{", "application/json"),
        ("[]", "application/json"),
        ("{}", "application/json"),
        (r#"{"model": "ctx"}"#, "application/json"),
        (r#"{"messages": [{"role": "user", "content": "x"}]}"#, "application/json"),
        (r#"{"model": "ctx", "messages": [{"role": "user", "content": 7}]}"#, "application/json"),
        ("{}", "text/plain"),
    ] {
        let error = bad(body.as_bytes(), kind).is(400)["error"].clone();
        assert_eq!(error["type"], "invalid_request_error", "{body}");
        for field in ["message", "code", "param"] {
            assert!(error.get(field).is_some(), "{field} in {error}");
        }
    }
    for (method, path, status) in
        [("GET", "/v1/nothing", 404), ("GET", "/v1/chat/completions", 405), ("GET", "/v1", 404)]
    {
        let error = server.send(method, path, &Value::Null).is(status)["error"].clone();
        assert_eq!(error["type"], "invalid_request_error", "{path}");
    }
}

#[test]
fn a_repeated_request_gets_the_first_answer_and_waits_for_it() {
    let model = ModelServer::in_pieces(Duration::from_millis(60), |request| {
        let count = request.body["messages"].to_string().matches("again").count();
        (0..4).map(|n| format!("{count}.{n} ")).collect()
    });
    let server = Server::configured(&model.config(""));
    let body = json!({"model": "ctx", "messages": [user("again")]});
    let send = |count: &str| {
        let headers = [("x-stainless-retry-count", count)];
        server.try_send("POST", "/v1/chat/completions", &headers, &body).expect("an answer").is(200)
    };
    let first = std::thread::scope(|scope| {
        let first = scope.spawn(|| send("0"));
        wait_until("the run has started", || model.chunks() > 0);
        // The client gave up and sends it again, while the first run goes on.
        let second = scope.spawn(|| send("1"));
        let (first, second) = (first.join().expect("no panic"), second.join().expect("no panic"));
        assert_eq!((&first["id"], &first["choices"]), (&second["id"], &second["choices"]));
        first
    });
    assert_eq!(send("2")["id"], first["id"], "also after its end");
    assert_eq!((server.labels("").len(), model.chunks()), (1, 4));
    assert_ne!(send("0")["id"], first["id"], "a first attempt is a request of its own");
    assert_eq!(server.labels("").len(), 2);
    let with_key = |key: &str, body: &Value| {
        let headers = [("idempotency-key", key)];
        server.try_send("POST", "/v1/responses", &headers, body).expect("an answer")
    };
    let body = json!({"model": "ctx", "input": "keyed"});
    let first = with_key("k", &body).is(200);
    assert_eq!(with_key("k", &body).is(200)["id"], first["id"]);
    let other = with_key("k", &json!({"model": "ctx", "input": "other"})).is(400);
    assert_eq!(other["error"]["code"], "idempotency_mismatch");
    // A stream is repeated as a stream.
    let body = json!({"model": "ctx", "input": "streamed", "stream": true});
    let stream = |count: &str| {
        let headers = [("x-stainless-retry-count", count)];
        let response = server.try_send("POST", "/v1/responses", &headers, &body);
        events(&response.expect("an answer")).pop().expect("an event")["response"].clone()
    };
    let (first, again) = (stream("0"), stream("1"));
    assert_eq!((&first["id"], &first["output"]), (&again["id"], &again["output"]));
}

#[test]
fn a_run_goes_on_without_its_client_and_a_second_request_waits_its_turn() {
    let model = ModelServer::in_pieces(Duration::from_millis(100), |_| {
        (0..8).map(|n| format!("w{n} ")).collect()
    });
    let server = Server::configured(&model.config(""));
    let body = json!({"model": "ctx", "messages": [user("first")], "metadata": {"session": "s"}});
    let client = server.begin("/v1/chat/completions", &[], &body).expect("a request");
    wait_until("the run has started", || server.get("/api/sessions/s").status == 200);
    drop(client);
    let body = json!({"model": "ctx", "messages": [user("second")], "user": "s"});
    let second = server.post("/v1/chat/completions", &body).is(200);
    assert_eq!(second["choices"][0]["message"]["content"].as_str().map(str::len), Some(24));
    let (messages, _) = server.everything("s");
    let texts: Vec<&str> =
        messages.iter().map(|one| one["content"][0]["text"].as_str().expect("a text")).collect();
    assert_eq!((texts[0], texts[2]), ("first", "second"));
    assert_eq!(texts[1].len(), 24, "the first answer is complete: {texts:?}");
    // In the background: the response is there at once, and read later.
    let body = json!({"model": "ctx", "input": "third", "conversation": "s", "background": true});
    let begun = server.post("/v1/responses", &body).is(200);
    assert!(["queued", "in_progress"].contains(&begun["status"].as_str().expect("a status")));
    let path = format!("/v1/responses/{}", begun["id"].as_str().expect("an id"));
    wait_until("the response is complete", || server.read(&path)["status"] == "completed");
    let begun = server.post("/v1/responses", &body).is(200);
    let path = format!("/v1/responses/{}", begun["id"].as_str().expect("an id"));
    let cancelled = server.post(&format!("{path}/cancel"), &json!({})).is(200);
    assert_eq!(cancelled["status"], "cancelled");
}

#[test]
fn off_loopback_the_key_is_a_token_and_histories_of_others_are_not_found() {
    let (model, dir) = (ModelServer::responding(|n, _| completion(&format!("{n}"))), home());
    let token = |scope: &str| {
        let output = ctx(dir.path()).args(["token", "create", "--scope", scope, "--json"]).output();
        let made: Value =
            serde_json::from_slice(&output.expect("ctx token").stdout).expect("a document");
        made["token"].as_str().expect("a token").to_owned()
    };
    let [read, write, other] = ["read", "write", "write"].map(token);
    configure(dir.path(), &model.config(&format!("[server]\nroots = [{:?}]\n", dir.path())));
    let log = dir.path().join("log");
    let server = Server::on_all_interfaces(dir, &log);
    let ask = |key: &str, messages: Value| {
        let bearer = format!("Bearer {key}");
        let body = json!({"model": "ctx", "messages": messages});
        let headers = [("authorization", bearer.as_str())];
        server.try_send("POST", "/v1/chat/completions", &headers, &body).expect("an answer")
    };
    let hello = || json!([user("hello")]);
    let error = ask("sk-anything", hello()).is(401)["error"].clone();
    assert_eq!(error["code"], "invalid_api_key");
    let none = json!({"model": "ctx", "messages": hello()});
    assert_eq!(
        server.post("/v1/chat/completions", &none).is(401)["error"]["code"],
        "invalid_api_key"
    );
    let error = ask(&read, hello()).is(403)["error"].clone();
    assert_eq!(error["code"], "insufficient_permissions");
    let first = ask(&write, hello());
    let session = first.header("x-ctx-session").expect("a session").to_owned();
    first.is(200);
    let history = || json!([user("hello"), assistant("0"), user("again")]);
    let same = ask(&write, history());
    assert_eq!(same.header("x-ctx-session"), Some(session.as_str()));
    let foreign = ask(&other, history());
    assert_ne!(foreign.header("x-ctx-session"), Some(session.as_str()));
    assert_eq!(seen(&model.requests()[2]), ["hello", "0", "again"]);
}

#[test]
fn every_server_of_a_store_continues_a_conversation_and_answers_a_repeated_request() {
    let model = ModelServer::in_pieces(Duration::from_millis(80), |request| {
        let count = seen(request).len();
        (0..5).map(|n| format!("{count}.{n} ")).collect()
    });
    let home = configured_home(&model.config(""));
    let servers = [Server::in_dir(home.clone()), Server::in_dir(home)];
    let mut chat = ChatClient::new(servers[0].client(), json!({}));
    chat.say("one");
    let mut other = ChatClient::new(servers[1].client(), json!({}));
    other.messages.clone_from(&chat.messages);
    assert_eq!(other.say("two"), "3.0 3.1 3.2 3.3 3.4 ");
    assert_eq!(servers[0].labels("").len(), 1);
    other.messages.push(user("three"));
    let body = other.body(&other.messages);
    std::thread::scope(|scope| {
        let before = model.chunks();
        let first = scope.spawn(|| servers[1].post("/v1/chat/completions", &body).is(200));
        wait_until("the run has started", || model.chunks() > before);
        let headers = [("x-stainless-retry-count", "1")];
        let again = servers[0].try_send("POST", "/v1/chat/completions", &headers, &body);
        let again = again.expect("an answer").is(200);
        assert_eq!(first.join().expect("no panic")["choices"], again["choices"]);
    });
    assert_eq!(servers[0].labels("").len(), 1);
}

#[test]
fn on_loopback_every_key_is_accepted() {
    let model = ModelServer::responding(|_, _| completion("yes"));
    let server = Server::configured(&model.config(""));
    let body = json!({"model": "ctx", "messages": [user("hi")]});
    for key in ["Bearer sk-anything", "Bearer ", "Basic eA=="] {
        let headers = [("authorization", key)];
        let response = server.try_send("POST", "/v1/chat/completions", &headers, &body);
        response.expect("an answer").is(200);
    }
    let wrong = [("authorization", "Bearer sk-anything")];
    server.ask("GET", "/api/sessions", &wrong, b"").refuses(401, "unauthorized");
}
