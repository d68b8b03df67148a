//! Bad answers, no answers, and answers that nobody wants any more: the same for every API.

use ctx_engine::provider::{Class, Stop};
use serde_json::json;
use tokio::net::TcpListener;

use super::*;

const SHORT: Duration = Duration::from_millis(100);
const KEY: &str = "sk-12345678";

fn told(failure: &Failure) -> (&str, Class) {
    (&failure.code, failure.class)
}

#[tokio::test]
async fn a_server_that_wants_rest_says_for_how_long() {
    // R229
    for api in Api::ALL {
        let body = api.error_body("rate_limit_error", "Slow down.");
        let limited = failure(api, Reply::whole(429, "retry-after: 7\r\n", &body)).await;
        assert_eq!(told(&limited), ("rate_limited", Class::RetryLater), "{api:?}");
        assert_eq!(
            (limited.retry_after, limited.message.as_str()),
            (Some(Duration::from_secs(7)), "The server answered 429: Slow down.")
        );
        let long_ago = failure(
            api,
            Reply::whole(429, "retry-after: Sun, 06 Nov 1994 08:49:37 GMT\r\n", &body),
        )
        .await;
        assert_eq!(long_ago.retry_after, Some(Duration::ZERO));
        assert_eq!(failure(api, Reply::whole(429, "", &body)).await.retry_after, None);
    }
}

#[tokio::test]
async fn statuses_are_sorted_by_what_helps() {
    for api in Api::ALL {
        let body = |kind: &str, message: &str| api.error_body(kind, message);
        let table = [
            (500, body("api_error", "Internal server error"), "provider_error", Class::RetryLater),
            (503, "<html>busy</html>".to_owned(), "provider_error", Class::RetryLater),
            (529, body("overloaded_error", "Overloaded"), "provider_error", Class::RetryLater),
            (400, api.overflow(), "context_overflow", Class::Overflow),
            (
                413,
                body("request_too_large", "Request exceeds the maximum size"),
                "context_overflow",
                Class::Overflow,
            ),
            (400, body("invalid_request_error", "bad tool"), "bad_request", Class::GiveUp),
            (404, body("not_found_error", "model: x"), "model_not_found", Class::GiveUp),
            (401, body("authentication_error", "invalid x-api-key"), "auth_required", Class::Auth),
            (403, body("permission_error", "no"), "auth_required", Class::Auth),
            (
                429,
                body("insufficient_quota", "You exceeded your current quota"),
                "quota_exceeded",
                Class::GiveUp,
            ),
            (302, String::new(), "bad_request", Class::GiveUp),
        ];
        for (status, body, code, class) in table {
            let failure =
                failure(api, Reply::whole(status, "location: http://127.0.0.1:1/\r\n", &body))
                    .await;
            assert_eq!(told(&failure), (code, class), "{api:?} {status} {body}");
        }
    }
}

#[tokio::test]
async fn a_key_that_the_server_repeats_is_not_passed_on() {
    for api in Api::ALL {
        let body =
            json!({"error": {"message": format!("Wrong key {KEY} {}", "x".repeat(5_000_000))}})
                .to_string();
        let echo = [api.words("your key is "), api.words(KEY), api.end()].concat();
        let replies = [
            Reply::whole(401, "", &body),
            Reply::stream([api.error("authentication_error", &format!("Wrong key {KEY}"))]),
            Reply::stream([format!("data: oops {KEY}\n\n")]),
            Reply::stream(echo.as_bytes().chunks(3)),
            // Word by word, no event holds it whole.
            Reply::stream([
                api.words("your key is sk-1"),
                api.words("2345"),
                api.words("678"),
                api.end(),
            ]),
        ];
        let server = Server::start(replies).await;
        let config = Config { api_key: Some(KEY.to_owned()), ..config(&api.base_url(&server)) };
        let provider = api.provider(config);
        for code in ["auth_required", "auth_required", "bad_stream"] {
            let failure = failed(finish(start(&provider, hello())).await.1);
            assert_eq!(failure.code, code, "{api:?} {}", failure.message);
            assert!(
                !failure.message.contains(KEY) && failure.message.chars().count() <= 501,
                "{}",
                failure.message
            );
            assert!(failure.message.contains("[key]"), "{}", failure.message);
        }
        for _ in 0..2 {
            let (deltas, end) = finish(start(&provider, hello())).await;
            assert_eq!(
                (text_of(&deltas).as_str(), end),
                ("your key is [key]", End::Done(Stop::EndTurn)),
                "{api:?}"
            );
        }
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_no_answer_and_its_words_are_kept() {
    for api in Api::ALL {
        let (words, call) = (api.words("so far"), api.call("x"));
        let streams = [
            Reply::stream([words.clone(), call.clone()]),
            Reply::stream([words.clone(), call.clone()]).cut(),
            Reply::stream([words, call, "data: {\"choi".to_owned()]).cut(),
        ];
        for reply in streams {
            let (deltas, end) = answer(api, reply).await;
            assert_eq!(told(&failed(end)), ("stream_cut", Class::RetryLater));
            assert_eq!(
                deltas,
                [Delta::Text("so far".to_owned())],
                "{api:?}: a call of an answer that broke off is no call"
            );
        }
        assert_eq!(
            failure(api, Reply::whole(200, "", r#"{"choices":[{"message":{"content":"ha"#))
                .await
                .code,
            "stream_cut"
        );
        assert_eq!(failure(api, Reply::stream([""; 0])).await.code, "stream_cut");
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_told_and_not_tried_again() {
    for api in Api::ALL {
        let stream =
            [api.words("so far"), "data: {\"choices\": oops\n\n".to_owned(), api.words("more")];
        let (deltas, end) = answer(api, Reply::stream(stream)).await;
        let garbage = failed(end);
        assert_eq!(told(&garbage), ("bad_stream", Class::GiveUp));
        assert!(garbage.message.contains("oops"), "{}", garbage.message);
        assert_eq!(text_of(&deltas), "so far");
        let others = [
            Reply::whole(200, "content-type: text/html\r\n", "<!DOCTYPE html><html></html>"),
            Reply::whole(200, "", r#"{"choices":[]}"#),
            Reply::stream([b"data: {\"a\":\"\xff\"}\n\n".to_vec()]),
            Reply::stream(["data: 7\n\n"]),
        ];
        for reply in others {
            assert_eq!(told(&failure(api, reply).await), ("bad_stream", Class::GiveUp), "{api:?}");
        }
    }
}

#[tokio::test]
async fn an_error_inside_an_answer_is_sorted_too() {
    for api in Api::ALL {
        let table = [
            ("overloaded_error", "Overloaded", "provider_error", Class::RetryLater),
            ("server_error", "Oops", "provider_error", Class::RetryLater),
            ("rate_limit_exceeded", "Slow down", "rate_limited", Class::RetryLater),
            ("context_length_exceeded", "Too long", "context_overflow", Class::Overflow),
            (
                "invalid_request_error",
                "prompt is too long: 9 tokens > 8 maximum",
                "context_overflow",
                Class::Overflow,
            ),
            ("authentication_error", "Who?", "auth_required", Class::Auth),
        ];
        for (kind, message, code, class) in table {
            let (deltas, end) =
                answer(api, Reply::stream([api.words("so far"), api.error(kind, message)]).held())
                    .await;
            let failure = failed(end);
            assert_eq!(told(&failure), (code, class), "{api:?} {kind}");
            assert!(failure.message.contains(message), "{}", failure.message);
            assert_eq!(text_of(&deltas), "so far");
        }
        let whole = Reply::whole(
            200,
            "",
            r#"{"error":{"type":"invalid_request_error","message":"prompt is too long"}}"#,
        );
        assert_eq!(
            told(&failure(api, whole).await),
            ("context_overflow", Class::Overflow),
            "{api:?}"
        );
    }
}

#[tokio::test]
async fn nobody_is_waited_for_too_long() {
    for api in Api::ALL {
        let quick = |timeouts: Timeouts, server: &Server| Config {
            timeouts,
            ..config(&api.base_url(server))
        };
        let first = Timeouts { first_byte: SHORT, ..Timeouts::default() };
        let idle = Timeouts { idle: SHORT, ..Timeouts::default() };
        let headers_only = Reply::stream([""; 0]).held();
        for (timeouts, reply) in [
            (first, Reply::silence()),
            (first, headers_only),
            (idle, Reply::stream([api.words("so far")]).held()),
        ] {
            let server = Server::start([reply]).await;
            let failure = failed(ask(api, quick(timeouts, &server), hello()).await.1);
            assert_eq!(told(&failure), ("timeout", Class::RetryLater));
            tokio::time::timeout(GUARD, server.client_left())
                .await
                .expect("the connection is closed");
        }
        let server = Server::start([Reply::stream([api.words("x"), api.end()]).held()]).await;
        let (_, end) = ask(api, quick(idle, &server), hello()).await;
        assert_eq!(
            end,
            End::Done(Stop::EndTurn),
            "{api:?}: a server that forgets to end has answered"
        );
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable() {
    for api in Api::ALL {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let base_url =
            format!("http://user:secret-word@{}/v1", listener.local_addr().expect("an address"));
        drop(listener);
        let failure = failed(ask(api, config(&base_url), hello()).await.1);
        assert_eq!(told(&failure), ("unreachable", Class::RetryLater));
        assert!(
            !failure.message.contains("secret-word") && !failure.message.contains("/v1"),
            "{}",
            failure.message
        );
        assert!(
            failure.message.to_lowercase().contains("refused"),
            "it says why: {}",
            failure.message
        );
        assert_eq!(
            told(&failed(ask(api, config("nowhere"), hello()).await.1)),
            ("bad_request", Class::GiveUp)
        );
    }
}

#[tokio::test]
async fn cancelling_ends_it_anywhere_and_the_server_notices() {
    for api in Api::ALL {
        for (reply, speaks) in
            [(Reply::silence(), false), (Reply::stream([api.words("so far")]).held(), true)]
        {
            let server = Server::start([reply]).await;
            let mut run = start(&api.provider(config(&api.base_url(&server))), hello());
            if speaks {
                run.heard.recv().await.expect("words");
            }
            run.cancel.cancel();
            assert_eq!(finish(run).await.1, End::Cancelled);
            if speaks {
                tokio::time::timeout(GUARD, server.client_left())
                    .await
                    .expect("the connection is closed");
            }
        }
    }
}

#[tokio::test]
async fn it_ends_when_nobody_listens_any_more() {
    for api in Api::ALL {
        let server = Server::start([Reply::stream([api.words("so far")]).held()]).await;
        let mut run = start(&api.provider(config(&api.base_url(&server))), hello());
        run.heard.recv().await.expect("words");
        drop(run.heard);
        assert_eq!(
            tokio::time::timeout(GUARD, run.end).await.expect("in time").expect("no panic"),
            End::Cancelled
        );
    }
}

#[tokio::test]
async fn an_answer_without_end_is_refused() {
    let mebibyte = "x".repeat(1 << 20);
    for api in Api::ALL {
        let line: Vec<String> =
            std::iter::once("data: ".to_owned()).chain((0..5).map(|_| mebibyte.clone())).collect();
        let answer_too_long: Vec<String> = (0..17).map(|_| api.words(&mebibyte)).collect();
        let document: Vec<String> =
            std::iter::once("{".to_owned()).chain((0..17).map(|_| mebibyte.clone())).collect();
        for pieces in [line, answer_too_long, document] {
            assert_eq!(
                told(&failure(api, Reply::stream(pieces).held()).await),
                ("too_large", Class::GiveUp),
                "{api:?}"
            );
        }
    }
}

#[tokio::test]
async fn without_its_key_nobody_is_asked() {
    for api in Api::ALL {
        let server = Server::start([]).await;
        let config = Config {
            key_variable: Some("CTX_TEST_NO_SUCH_KEY".to_owned()),
            ..config(&api.base_url(&server))
        };
        let failure = failed(ask(api, config, hello()).await.1);
        assert_eq!(told(&failure), ("auth_required", Class::Auth));
        assert!(failure.message.contains("CTX_TEST_NO_SUCH_KEY"), "{}", failure.message);
        assert_eq!(server.connections(), 0);
    }
}
