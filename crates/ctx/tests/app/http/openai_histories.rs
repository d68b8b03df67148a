//! `/v1`: the session of a request, by its name or by the history that it brings. The model
//! receives every message once.

use serde_json::{Value, json};

use crate::harness::chat_client::{ChatClient, assistant, seen, user};
use crate::harness::model_server::{ModelServer, completion};
use crate::harness::server::Server;

/// A model that numbers its answers, and a server.
fn served() -> (ModelServer, Server) {
    let model = ModelServer::responding(|n, _| completion(&format!("answer {n}")));
    let server = Server::configured(&model.config(""));
    (model, server)
}

fn turns(server: &Server, session: &str) -> u64 {
    server.read(&format!("/api/sessions/{session}"))["turn_count"].as_u64().expect("a number")
}

fn sessions(server: &Server) -> usize {
    server.labels("").len()
}

#[test]
fn a_chat_client_continues_the_session_that_its_history_belongs_to() {
    let (model, server) = served();
    let mut chat = ChatClient::new(server.client(), json!({}));
    for n in 0..3 {
        assert_eq!(chat.say(&format!("question {n}")), format!("answer {n}"));
    }
    assert_eq!(sessions(&server), 1);
    let labels = server.labels("");
    assert_eq!(turns(&server, &labels[0]), 3);
    assert_eq!(
        seen(&model.requests()[2]),
        ["question 0", "answer 0", "question 1", "answer 1", "question 2"]
    );
    let session = server.read(&format!("/api/sessions/{}", labels[0]));
    assert_eq!((&session["origin"], &session["title"]), (&json!("api"), &json!("question 0")));
    assert_eq!(session["task"], Value::Null, "a chat has no tasks");
    // Another conversation that begins alike is another session.
    let mut other = ChatClient::new(server.client(), json!({}));
    other.say("question 0");
    assert_eq!(sessions(&server), 2);
    assert_eq!(seen(&model.requests()[3]), ["question 0"]);
    // An earlier turn is forked, and the fork is continued from then on.
    let mut edited = ChatClient::new(server.client(), json!({}));
    edited.messages = chat.messages[..2].to_vec();
    edited.say("another question 1");
    assert_eq!(sessions(&server), 3);
    edited.say("and more");
    assert_eq!(sessions(&server), 3);
    assert_eq!(
        seen(&model.requests()[5]),
        ["question 0", "answer 0", "another question 1", "answer 4", "and more"]
    );
    assert_eq!(turns(&server, &labels[0]), 3, "the original is as it was");
    // The same request once more asks for another answer.
    let again = edited.send(&edited.messages[..3]).is(200);
    assert_eq!(again["choices"][0]["message"]["content"], "answer 6");
    assert_eq!(sessions(&server), 4);
    // The first client goes on as before.
    chat.say("question 3");
    assert_eq!((sessions(&server), turns(&server, &labels[0])), (4, 4));
}

#[test]
fn an_unknown_history_starts_a_session_with_it() {
    let (model, server) = served();
    let mut chat = ChatClient::new(server.client(), json!({}));
    chat.messages = vec![
        json!({"role": "system", "content": "Be brief."}),
        user("from elsewhere"),
        assistant("indeed"),
        user("and"),
        assistant("so on"),
    ];
    assert_eq!(chat.say("now here"), "answer 0");
    chat.say("and again");
    assert_eq!(sessions(&server), 1);
    let label = &server.labels("")[0];
    assert_eq!(turns(&server, label), 4);
    let all = ["from elsewhere", "indeed", "and", "so on", "now here", "answer 0", "and again"];
    assert_eq!(seen(&model.requests()[1]), all);
    let system = &model.requests()[1].body["messages"][0];
    assert_eq!(system["role"], "system");
    assert!(system["content"].as_str().is_some_and(|text| text.contains("Be brief.")), "{system}");
    let (messages, _) = server.everything(label);
    assert_eq!(messages.len(), 8, "what the system said is no message");
    // A history that is known in part is forked there, and the rest is taken over.
    let mut other = ChatClient::new(server.client(), json!({}));
    other.messages = chat.messages[..3].to_vec();
    other.messages.extend([user("elsewhere again"), assistant("unknown")]);
    other.say("here again");
    assert_eq!(
        seen(&model.requests()[2]),
        ["from elsewhere", "indeed", "elsewhere again", "unknown", "here again"]
    );
    assert_eq!((sessions(&server), turns(&server, label)), (2, 4));
}

#[test]
fn a_named_session_takes_only_what_follows_its_history() {
    for fields in [json!({"metadata": {"session": "plans"}}), json!({"user": "plans"})] {
        let (model, server) = served();
        let mut chat = ChatClient::new(server.client(), fields.clone());
        chat.say("one");
        chat.say("two");
        assert_eq!(server.labels(""), ["plans"]);
        // A message without a history is added.
        let alone = chat.send(&[user("three")]).is(200);
        assert_eq!(alone["choices"][0]["message"]["content"], "answer 2");
        let all = ["one", "answer 0", "two", "answer 1", "three"];
        assert_eq!(seen(&model.requests()[2]), all);
        assert_eq!((sessions(&server), turns(&server, "plans")), (1, 3));
        // What the page adds is part of the history.
        server
            .ask(
                "POST",
                "/api/sessions/plans/messages",
                &[("content-type", "application/json"), ("prefer", "wait=20")],
                br#"{"text": "from the page"}"#,
            )
            .is(200);
        let mut whole = ChatClient::new(server.client(), fields.clone());
        whole.messages = vec![
            user("one"),
            assistant("answer 0"),
            user("two"),
            assistant("answer 1 "),
            user("three"),
            assistant("answer 2"),
            user("from the page"),
            assistant("answer 3"),
        ];
        whole.say("five");
        assert_eq!((sessions(&server), turns(&server, "plans")), (1, 5));
        assert_eq!(seen(&model.requests()[4]).len(), 9);
        // Where the histories part, the session is forked. The fork is found under the same name.
        chat.messages.truncate(2);
        chat.say("another two");
        assert_eq!((sessions(&server), turns(&server, "plans")), (2, 5));
        assert_eq!(seen(&model.requests()[5]), ["one", "answer 0", "another two"]);
        chat.say("another three");
        assert_eq!((sessions(&server), turns(&server, "plans")), (2, 5));
        assert_eq!(seen(&model.requests()[6]).last().map(String::as_str), Some("another three"));
        whole.say("six");
        assert_eq!((sessions(&server), turns(&server, "plans")), (2, 6));
    }
}

#[test]
fn the_first_of_four_names_decides_and_unknown_ones_are_not_found() {
    let (_, server) = served();
    server.session("mine");
    let ask = |fields: Value| {
        let mut body = json!({"model": "ctx", "input": "hello"});
        for (key, value) in fields.as_object().expect("fields") {
            body[key] = value.clone();
        }
        server.post("/v1/responses", &body)
    };
    let response = ask(json!({"conversation": "mine"})).is(200);
    assert_eq!(turns(&server, "mine"), 1);
    let id = response["id"].clone();
    ask(json!({"metadata": {"session": "first"}, "conversation": "mine", "user": "last"})).is(200);
    assert_eq!((turns(&server, "first"), turns(&server, "mine")), (1, 1));
    ask(json!({"previous_response_id": id, "user": "last"})).is(200);
    assert_eq!(turns(&server, "mine"), 2);
    let conversation = response["conversation"]["id"].clone();
    ask(json!({"conversation": {"id": conversation}, "previous_response_id": id})).is(200);
    assert_eq!(turns(&server, "mine"), 3);
    for (fields, code, param) in [
        (json!({"conversation": "other"}), "conversation_not_found", "conversation"),
        (
            json!({"conversation": "conv_01ARZ3NDEKTSV4RRFFQ69G5FAV"}),
            "conversation_not_found",
            "conversation",
        ),
        (
            json!({"previous_response_id": "resp_nothing"}),
            "previous_response_not_found",
            "previous_response_id",
        ),
        (
            json!({"previous_response_id":
                format!("resp_{}{}", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFQ69G5FAV")}),
            "previous_response_not_found",
            "previous_response_id",
        ),
    ] {
        let error = ask(fields).is(404)["error"].clone();
        assert_eq!((error["code"].as_str(), error["param"].as_str()), (Some(code), Some(param)));
    }
    assert_eq!(sessions(&server), 2, "{:?}", server.labels(""));
    // The beginning of an id is a name of its own.
    let id = server.read("/api/sessions/mine")["id"].as_str().expect("an id").to_owned();
    ask(json!({"conversation": &id[10..20]})).is(404);
    ask(json!({"user": &id[10..20]})).is(200);
    assert_eq!((sessions(&server), turns(&server, "mine")), (3, 3));
}

#[test]
fn an_older_response_is_forked() {
    let (model, server) = served();
    let ask = |input: &str, previous: &Value| {
        let body = json!({"model": "ctx", "input": input, "previous_response_id": previous});
        server.post("/v1/responses", &body).is(200)
    };
    let first = ask("one", &Value::Null);
    let second = ask("two", &first["id"]);
    let third = ask("three", &second["id"]);
    assert_eq!((sessions(&server), third["conversation"] == first["conversation"]), (1, true));
    assert_eq!(third["previous_response_id"], second["id"]);
    let other = ask("another two", &first["id"]);
    assert_ne!(other["conversation"], first["conversation"]);
    assert_eq!(seen(&model.requests()[3]), ["one", "answer 0", "another two"]);
    assert_eq!(sessions(&server), 2);
    // Each response is still there.
    for (response, text) in [(&first, "answer 0"), (&third, "answer 2"), (&other, "answer 3")] {
        let path = format!("/v1/responses/{}", response["id"].as_str().expect("an id"));
        let read = server.read(&path);
        assert_eq!(read["output"][0]["content"][0]["text"], text);
        assert_eq!((&read["id"], &read["status"]), (&response["id"], &json!("completed")));
        let items = server.read(&format!("{path}/input_items"));
        assert_eq!(items["data"][0]["role"], "user", "{items}");
    }
    assert_eq!(server.get("/v1/responses/resp_x").is(404)["error"]["code"], "response_not_found");
    // A stateless client of responses sends its history as a chat client does.
    let body = json!({"model": "ctx", "input": [
        {"role": "user", "content": "one"},
        {"type": "message", "role": "assistant",
         "content": [{"type": "output_text", "text": "answer 0"}]},
        {"role": "user", "content": "stateless two"},
    ]});
    server.post("/v1/responses", &body).is(200);
    assert_eq!(seen(&model.requests()[4]), ["one", "answer 0", "stateless two"]);
}

#[test]
fn a_conversation_is_a_session() {
    let (model, server) = served();
    let made = server.post("/v1/conversations", &json!({"metadata": {"topic": "x"}})).is(200);
    let id = made["id"].as_str().expect("an id").to_owned();
    assert_eq!(made["object"], "conversation");
    assert_eq!(made["metadata"], json!({"topic": "x"}));
    let body = json!({"model": "ctx/model/m", "input": "hello", "conversation": id});
    server.post("/v1/responses", &body).is(200);
    let read = server.read(&format!("/v1/conversations/{id}"));
    assert_eq!(read["id"], made["id"]);
    let items = server.read(&format!("/v1/conversations/{id}/items?order=asc"));
    let texts: Vec<_> = items["data"].as_array().expect("items").iter().collect();
    assert_eq!(texts.len(), 2);
    assert_eq!(texts[0]["content"][0], json!({"type": "input_text", "text": "hello"}));
    assert_eq!(texts[1]["content"][0]["text"], "answer 0");
    let newest = server.read(&format!("/v1/conversations/{id}/items?limit=1"));
    assert_eq!(
        (&newest["data"][0]["role"], &newest["has_more"]),
        (&json!("assistant"), &json!(true))
    );
    // With a name, with a history, and as often as wanted.
    let body = json!({"metadata": {"session": "named"},
        "items": [{"role": "user", "content": "before"}, {"role": "assistant", "content": "yes"}]});
    let named = server.post("/v1/conversations", &body).is(200);
    assert_eq!(server.post("/v1/conversations", &body).is(200)["id"], named["id"]);
    assert_eq!(server.read("/v1/conversations/named")["id"], named["id"]);
    let body = json!({"model": "ctx", "input": "now", "conversation": "named"});
    server.post("/v1/responses", &body).is(200);
    assert_eq!(seen(&model.requests()[1]), ["before", "yes", "now"]);
    assert_eq!(turns(&server, "named"), 2);
    let gone = server.send("DELETE", "/v1/conversations/named", &Value::Null).is(200);
    assert_eq!(gone["deleted"], true);
    let error = server.get("/v1/conversations/named").is(404)["error"].clone();
    assert_eq!(error["code"], "conversation_not_found");
}

#[test]
fn a_request_that_failed_is_run_again_when_it_is_sent_again() {
    let model = ModelServer::responding(|n, _| match n {
        1 => crate::harness::model_server::json_response(400, r#"{"error": {"message": "no"}}"#),
        n => completion(&format!("answer {n}")),
    });
    let server = Server::configured(&model.config(""));
    let mut chat = ChatClient::new(server.client(), json!({}));
    chat.say("one");
    chat.messages.push(user("two"));
    assert_eq!(chat.send(&chat.messages).status, 400);
    let again = chat.send(&chat.messages).is(200);
    assert_eq!(again["choices"][0]["message"]["content"], "answer 2");
    assert_eq!(sessions(&server), 1);
    assert_eq!(turns(&server, &server.labels("")[0]), 2);
    assert_eq!(seen(&model.requests()[2]), ["one", "answer 0", "two"]);
    chat.messages.push(again["choices"][0]["message"].clone());
    chat.say("three");
    assert_eq!((sessions(&server), turns(&server, &server.labels("")[0])), (1, 3));
}
