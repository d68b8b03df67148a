//! What the model receives after a request that was cancelled, failed or was interrupted by a
//! crash: the request once, with a mark directly after it, and never joined with the next message.

use serde_json::{Value, json};

use crate::harness::model_server::{
    ModelServer, begun_completion, completion, event_response, json_response,
};
use crate::harness::server::{Server, configured_home};
use crate::harness::wait_until;

const REQUEST: &str = "delete everything in the build directory";
const NEXT: &str = "what is the time?";
const APIS: [&str; 3] = ["chat", "responses", "messages"];

fn config(models: &ModelServer, api: &str) -> String {
    let url = &models.url;
    let provider = match api {
        "messages" => format!("kind = \"anthropic\"\nbase_url = \"{url}\"\napi_key_env = \"\""),
        api => format!("kind = \"openai\"\napi = \"{api}\"\nbase_url = \"{url}/v1\""),
    };
    format!("[defaults]\nprovider = \"m\"\n[providers.m]\n{provider}\nmodel = \"m\"\n")
}

fn send(server: &Server, text: &str, mode: &str) {
    let body = json!({"text": text, "queue_mode": mode});
    server.post("/api/sessions/s/messages", &body).is(202);
}

/// The texts of a request in order, each with its role.
fn texts(body: &Value) -> Vec<(String, String)> {
    let messages = body["messages"].as_array().or(body["input"].as_array()).expect("messages");
    let mut found = Vec::new();
    for message in messages {
        let role = message["role"].as_str().unwrap_or_default();
        match &message["content"] {
            Value::String(text) => found.push((role.to_owned(), text.clone())),
            parts => {
                let texts = parts.as_array().into_iter().flatten();
                let texts = texts.filter_map(|part| part["text"].as_str());
                found.extend(texts.map(|text| (role.to_owned(), text.to_owned())));
            }
        }
    }
    found
}

/// Everything that the model reads, as one text.
fn whole(body: &Value) -> String {
    texts(body).into_iter().map(|(_, text)| text).collect::<Vec<_>>().join("\n\n")
}

/// The request is there once, the mark follows it directly, and the next message follows the mark.
#[track_caller]
fn assert_marked(body: &Value, request: &str, mark: &str, next: &str) {
    let text = whole(body);
    assert_eq!((text.matches(request).count(), text.matches(next).count()), (1, 1), "{text}");
    let after = text.split_once(request).expect("it is there").1.trim_start();
    assert!(after.starts_with('[') && after.contains(mark), "no mark after the request: {text}");
    let (mark_text, rest) = after.split_once(']').expect("the mark ends");
    assert!(mark_text.contains(mark), "another mark: {text}");
    assert!(rest.trim_start().starts_with(next), "something else before the next message: {text}");
    assert!(text.ends_with(next), "the newest message has no mark: {text}");
}

#[track_caller]
fn second_request(models: &ModelServer) -> Value {
    wait_until("the second request", || models.requests().len() >= 2);
    models.requests()[1].body.clone()
}

fn cancel(server: &Server) {
    server.post("/api/sessions/s/cancel", &json!({})).is(200);
    server.settled("s");
}

#[test]
fn a_request_that_was_cancelled_before_the_first_token_is_marked() {
    // R237
    for api in APIS {
        let models = ModelServer::hanging_once(String::new(), |_| json_response(400, "{}"));
        let server = Server::configured(&config(&models, api));
        server.session("s");
        send(&server, REQUEST, "queue");
        wait_until("the first request", || models.requests().len() == 1);
        cancel(&server);
        send(&server, NEXT, "queue");
        assert_marked(
            &second_request(&models),
            REQUEST,
            "cancelled by the user before it was answered. Do not act on it unless asked again.",
            NEXT,
        );
    }
}

#[test]
fn a_request_that_failed_is_marked() {
    // R228, R237
    for api in APIS {
        let models = ModelServer::responding(|_, _| json_response(400, "{}"));
        let server = Server::configured(&config(&models, api));
        server.session("s");
        send(&server, REQUEST, "queue");
        server.settled("s");
        send(&server, NEXT, "queue");
        let mark = "failed before it was answered";
        assert_marked(&second_request(&models), REQUEST, mark, NEXT);
    }
}

#[test]
fn a_request_that_a_newer_message_interrupted_is_marked() {
    // R237
    let models = ModelServer::hanging_once(String::new(), |_| completion("noon"));
    let server = Server::configured(&config(&models, "chat"));
    server.session("s");
    send(&server, REQUEST, "queue");
    wait_until("the first request", || models.requests().len() == 1);
    send(&server, NEXT, "interrupt");
    let mark = "interrupted by a newer message";
    assert_marked(&second_request(&models), REQUEST, mark, NEXT);
}

#[test]
fn a_partial_answer_is_marked_as_partial() {
    // R237
    let error = event_response("{\"error\": {\"message\": \"out of luck\"}}");
    for (begun, cancels, mark) in [
        (begun_completion("I begin to"), true, "incomplete: it was cancelled by the user"),
        (begun_completion("I begin to"), false, "incomplete: a restart interrupted it"),
        (
            begun_completion("I begin to") + error.split("\r\n\r\n").nth(1).expect("a body"),
            false,
            "incomplete: the provider failed",
        ),
    ] {
        let fails = begun.contains("luck");
        let models = ModelServer::hanging_once(begun, |_| completion("noon"));
        let home = configured_home(&config(&models, "chat"));
        let mut server = Server::in_dir(home.clone());
        server.session("s");
        send(&server, REQUEST, "queue");
        if fails {
            server.settled("s");
        } else {
            wait_until("the first words are stored", || {
                let messages = server.read("/api/sessions/s/messages");
                messages["messages"].to_string().contains("I begin to")
            });
        }
        if cancels {
            cancel(&server);
        } else if !fails {
            send(&server, NEXT, "queue");
            server.kill();
            server = Server::in_dir(home);
        }
        if cancels || fails {
            send(&server, NEXT, "queue");
        }
        let body = second_request(&models);
        let seen = texts(&body);
        assert_eq!(seen[0], ("user".to_owned(), REQUEST.to_owned()));
        assert_eq!(seen[1], ("assistant".to_owned(), "I begin to".to_owned()));
        let (role, last) = &seen[2];
        assert!(role == "user" && last.contains(mark) && last.ends_with(NEXT), "{last}");
        assert_eq!(seen.len(), 3);
        drop(server);
    }
}

#[test]
fn after_a_kill_the_backlog_is_not_joined_with_the_request_that_ran() {
    // R237, R238: the request is marked, or it was answered after the restart.
    let models = ModelServer::hanging_once(String::new(), |_| completion("noon"));
    let home = configured_home(&config(&models, "chat"));
    let server = Server::in_dir(home.clone());
    server.session("s");
    send(&server, REQUEST, "queue");
    wait_until("the first request", || models.requests().len() == 1);
    send(&server, NEXT, "queue");
    server.kill();
    let server = Server::in_dir(home);
    wait_until("the backlog runs", || {
        models.requests().iter().any(|request| whole(&request.body).contains(NEXT))
    });
    let body = models.requests().last().expect("requests").body.clone();
    let seen = texts(&body);
    if seen.iter().any(|(role, text)| role == "assistant" && text == "noon") {
        assert_eq!(seen.first(), Some(&("user".to_owned(), REQUEST.to_owned())));
        assert_eq!(seen.last(), Some(&("user".to_owned(), NEXT.to_owned())));
    } else {
        assert_marked(&body, REQUEST, "interrupted by a restart before it was answered", NEXT);
    }
    drop(server);
}

#[test]
fn messages_that_are_collected_into_one_turn_have_a_mark_between_them() {
    // R159, R237
    let models = ModelServer::hanging_once(String::new(), |_| completion("noon"));
    let config = format!("{}[inbox]\ndebounce = \"0ms\"\n", config(&models, "chat"));
    let server = Server::configured(&config);
    server.session("s");
    send(&server, REQUEST, "queue");
    wait_until("the first request", || models.requests().len() == 1);
    send(&server, "first", "collect");
    send(&server, "second", "collect");
    cancel(&server);
    let text = whole(&second_request(&models));
    assert!(text.ends_with("asked again.]\n\nfirst\n\n[Next message:]\n\nsecond"), "{text}");
}

#[test]
fn a_retried_request_is_not_marked() {
    // R237
    let models = ModelServer::hanging_once(String::new(), |_| completion("noon"));
    let server = Server::configured(&config(&models, "chat"));
    server.session("s");
    send(&server, REQUEST, "queue");
    wait_until("the first request", || models.requests().len() == 1);
    cancel(&server);
    server.post("/api/sessions/s/retry", &json!({})).is(202);
    assert_eq!(texts(&second_request(&models)), [("user".to_owned(), REQUEST.to_owned())]);
}
