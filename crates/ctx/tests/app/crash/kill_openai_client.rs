//! A server killed while clients of the OpenAI-compatible API wait for answers.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::chat_client::{ChatClient, assistant, seen, user};
use crate::harness::client::{Client, Response};
use crate::harness::model_server::{ModelServer, begun_completion, completion};
use crate::harness::server::{Server, configured_home};
use crate::harness::{verify, wait_until};

/// Sends a request as OpenAI's clients do: again, with a higher count, while there is no answer.
/// `next` gives the client of the next server.
fn with_retries(mut client: Client, body: &Value, mut next: impl FnMut() -> Client) -> Response {
    for count in 0..3 {
        let count = count.to_string();
        let headers = [("x-stainless-retry-count", count.as_str())];
        match client.try_send("POST", "/v1/chat/completions", &headers, body) {
            Ok(response) => return response,
            Err(_) => client = next(),
        }
    }
    panic!("no answer after three attempts");
}

#[test]
fn a_conversation_of_ten_turns_goes_on_over_kills() {
    for fields in [json!({}), json!({"metadata": {"session": "long"}})] {
        // Each answer takes a while, so that the kill hits the run.
        let model = ModelServer::responding(|_, request| {
            std::thread::sleep(Duration::from_millis(60));
            let count = seen(request).len();
            completion(&format!("answer {count}"))
        });
        let home = configured_home(&model.config(""));
        let mut server = Some(Server::in_dir(home.clone()));
        let mut chat = ChatClient::new(server.as_ref().expect("a server").client(), fields);
        for turn in 0..10 {
            chat.messages.push(user(&format!("question {turn}")));
            let body = chat.body(&chat.messages);
            let client = server.as_ref().expect("a server").client();
            let answer = if turn % 3 == 1 {
                let before = model.requests().len();
                std::thread::scope(|scope| {
                    let killed = server.take().expect("a server");
                    let (requests, server, home) = (&model, &mut server, &home);
                    let killer = scope.spawn(move || {
                        wait_until("the model is asked", || requests.requests().len() > before);
                        killed.kill();
                        Server::in_dir(home.clone())
                    });
                    let mut killer = Some(killer);
                    with_retries(client, &body, || {
                        let next = killer.take().expect("one kill").join().expect("no panic");
                        let client = next.client();
                        *server = Some(next);
                        client
                    })
                })
            } else {
                with_retries(client, &body, || panic!("no kill"))
            };
            let answer = answer.is(200)["choices"][0]["message"].clone();
            assert_eq!(answer["content"], format!("answer {}", 2 * turn + 1));
            chat.messages.push(answer);
        }
        let server = server.expect("a server");
        assert_eq!(server.labels("").len(), 1, "{:?}", server.labels(""));
        let (messages, inbox) = server.everything(&server.labels("")[0]);
        assert_eq!((messages.len(), inbox.len()), (20, 0));
        for request in model.requests() {
            let texts = seen(&request);
            for turn in 0..10 {
                let text = format!("question {turn}");
                assert!(texts.iter().filter(|one| **one == text).count() <= 1, "{texts:?}");
            }
        }
        verify(home.path(), "after the kills");
    }
}

#[test]
fn a_repeated_request_whose_answer_was_cut_off_is_run_again() {
    let model = ModelServer::hanging_once(begun_completion("half an"), |_| completion("whole"));
    let home = configured_home(&model.config(""));
    let server = Server::in_dir(home.clone());
    let body = json!({"model": "ctx", "messages": [user("hello")]});
    let client = server.client();
    let session = std::thread::scope(|scope| {
        scope.spawn(|| {
            let lost = client.try_send("POST", "/v1/chat/completions", &[], &body);
            assert!(lost.is_err(), "{lost:?}");
        });
        wait_until("a part of the answer is stored", || {
            let Some(label) = server.labels("").pop() else { return false };
            let (messages, _) = server.everything(&label);
            messages.iter().any(|message| message["content"][0]["text"] == "half an")
        });
        let label = server.labels("").pop().expect("a session");
        server.kill();
        label
    });
    let server = Server::in_dir(home);
    let headers = [("x-stainless-retry-count", "1")];
    let again = server.try_send("POST", "/v1/chat/completions", &headers, &body);
    let again = again.expect("an answer").is(200);
    assert_eq!(again["choices"][0]["message"]["content"], "whole");
    let last = server.try_send("POST", "/v1/chat/completions", &headers, &body);
    assert_eq!(last.expect("an answer").is(200)["id"], again["id"]);
    assert_eq!(seen(&model.requests()[1]), ["hello"], "the part is not in the request");
    assert_eq!(model.requests().len(), 2);
    // The conversation goes on in the same session.
    let messages = [user("hello"), assistant("whole"), user("and now?")];
    ChatClient::new(server.client(), json!({})).send(&messages).is(200);
    assert_eq!(server.labels(""), [session]);
}
