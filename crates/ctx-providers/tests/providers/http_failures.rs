//! Failures and cancellation, which are the same for every API.

use std::time::Duration;

use ctx_engine::provider::{FailureClass, Stop};
use serde_json::json;
use tokio::net::TcpListener;

use super::*;
use crate::test_harness::{TEST_TIMEOUT, text_of};

const SHORT: Duration = Duration::from_millis(100);
const KEY: &str = "sk-12345678";

fn code_and_class(failure: &Failure) -> (&str, FailureClass) {
    (&failure.code, failure.class)
}

#[tokio::test]
async fn rate_limit_keeps_the_requested_pause() {
    // R229
    for api in ModelApi::ALL {
        let body = api.error_body("rate_limit_error", "Slow down.");
        let limited = failure_of_reply(api, Reply::whole(429, "retry-after: 7\r\n", &body)).await;
        assert_eq!(code_and_class(&limited), ("rate_limited", FailureClass::RetryLater), "{api:?}");
        assert_eq!(
            (limited.retry_after, limited.message.as_str()),
            (Some(Duration::from_secs(7)), "The server answered 429: Slow down.")
        );
        let long_ago = failure_of_reply(
            api,
            Reply::whole(429, "retry-after: Sun, 06 Nov 1994 08:49:37 GMT\r\n", &body),
        )
        .await;
        assert_eq!(long_ago.retry_after, Some(Duration::ZERO));
        assert_eq!(failure_of_reply(api, Reply::whole(429, "", &body)).await.retry_after, None);
    }
}

#[tokio::test]
async fn statuses_are_classified() {
    for api in ModelApi::ALL {
        let body = |kind: &str, message: &str| api.error_body(kind, message);
        let table = [
            (
                500,
                body("api_error", "Internal server error"),
                "provider_error",
                FailureClass::RetryLater,
            ),
            (503, "<html>busy</html>".to_owned(), "provider_error", FailureClass::RetryLater),
            (
                529,
                body("overloaded_error", "Overloaded"),
                "provider_error",
                FailureClass::RetryLater,
            ),
            (400, api.overflow(), "context_overflow", FailureClass::Overflow),
            (
                413,
                body("request_too_large", "Request exceeds the maximum size"),
                "context_overflow",
                FailureClass::Overflow,
            ),
            (
                400,
                body("invalid_request_error", "bad tool"),
                "bad_request",
                FailureClass::Permanent,
            ),
            (404, body("not_found_error", "model: x"), "model_not_found", FailureClass::Permanent),
            (
                401,
                body("authentication_error", "invalid x-api-key"),
                "auth_required",
                FailureClass::Auth,
            ),
            (403, body("permission_error", "no"), "auth_required", FailureClass::Auth),
            (
                429,
                body("insufficient_quota", "You exceeded your current quota"),
                "quota_exceeded",
                FailureClass::Permanent,
            ),
            (302, String::new(), "bad_request", FailureClass::Permanent),
        ];
        for (status, body, code, class) in table {
            let failure = failure_of_reply(
                api,
                Reply::whole(status, "location: http://127.0.0.1:1/\r\n", &body),
            )
            .await;
            assert_eq!(code_and_class(&failure), (code, class), "{api:?} {status} {body}");
        }
    }
}

#[tokio::test]
async fn key_that_the_server_repeats_is_redacted() {
    for api in ModelApi::ALL {
        let body =
            json!({"error": {"message": format!("Wrong key {KEY} {}", "x".repeat(5_000_000))}})
                .to_string();
        let echo = [api.text("your key is "), api.text(KEY), api.end()].concat();
        let replies = [
            Reply::whole(401, "", &body),
            Reply::stream([api.error("authentication_error", &format!("Wrong key {KEY}"))]),
            Reply::stream([format!("data: oops {KEY}\n\n")]),
            Reply::stream(echo.as_bytes().chunks(3)),
            // No single event contains the whole key.
            Reply::stream([
                api.text("your key is sk-1"),
                api.text("2345"),
                api.text("678"),
                api.end(),
            ]),
        ];
        let server = FakeServer::start(replies).await;
        let config =
            ServerConfig { api_key: Some(KEY.to_owned()), ..config(&api.base_url(&server)) };
        let provider = api.provider(config);
        for code in ["auth_required", "auth_required", "bad_stream"] {
            let failure = expect_failure(finish(start(&provider, hello())).await.1);
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
async fn incomplete_response_is_a_failure_and_its_text_is_kept() {
    for api in ModelApi::ALL {
        let (text, call) = (api.text("so far"), api.call("x"));
        let streams = [
            Reply::stream([text.clone(), call.clone()]),
            Reply::stream([text.clone(), call.clone()]).cut(),
            Reply::stream([text, call, "data: {\"choi".to_owned()]).cut(),
        ];
        for reply in streams {
            let (deltas, end) = run_with_reply(api, reply).await;
            assert_eq!(
                code_and_class(&expect_failure(end)),
                ("stream_cut", FailureClass::RetryLater)
            );
            assert_eq!(
                deltas,
                [Delta::Text("so far".to_owned())],
                "{api:?}: calls of an incomplete response are not reported"
            );
        }
        assert_eq!(
            failure_of_reply(
                api,
                Reply::whole(200, "", r#"{"choices":[{"message":{"content":"ha"#)
            )
            .await
            .code,
            "stream_cut"
        );
        assert_eq!(failure_of_reply(api, Reply::stream([""; 0])).await.code, "stream_cut");
    }
}

#[tokio::test]
async fn malformed_response_is_a_failure_without_retry() {
    for api in ModelApi::ALL {
        let stream =
            [api.text("so far"), "data: {\"choices\": oops\n\n".to_owned(), api.text("more")];
        let (deltas, end) = run_with_reply(api, Reply::stream(stream)).await;
        let garbage = expect_failure(end);
        assert_eq!(code_and_class(&garbage), ("bad_stream", FailureClass::Permanent));
        assert!(garbage.message.contains("oops"), "{}", garbage.message);
        assert_eq!(text_of(&deltas), "so far");
        let others = [
            Reply::whole(200, "content-type: text/html\r\n", "<!DOCTYPE html><html></html>"),
            Reply::whole(200, "", r#"{"choices":[]}"#),
            Reply::stream([b"data: {\"a\":\"\xff\"}\n\n".to_vec()]),
            Reply::stream(["data: 7\n\n"]),
        ];
        for reply in others {
            assert_eq!(
                code_and_class(&failure_of_reply(api, reply).await),
                ("bad_stream", FailureClass::Permanent),
                "{api:?}"
            );
        }
    }
}

#[tokio::test]
async fn error_inside_a_response_is_classified() {
    for api in ModelApi::ALL {
        let table = [
            ("overloaded_error", "Overloaded", "provider_error", FailureClass::RetryLater),
            ("server_error", "Oops", "provider_error", FailureClass::RetryLater),
            ("rate_limit_exceeded", "Slow down", "rate_limited", FailureClass::RetryLater),
            ("context_length_exceeded", "Too long", "context_overflow", FailureClass::Overflow),
            (
                "invalid_request_error",
                "prompt is too long: 9 tokens > 8 maximum",
                "context_overflow",
                FailureClass::Overflow,
            ),
            ("authentication_error", "Who?", "auth_required", FailureClass::Auth),
        ];
        for (kind, message, code, class) in table {
            let (deltas, end) = run_with_reply(
                api,
                Reply::stream([api.text("so far"), api.error(kind, message)]).held(),
            )
            .await;
            let failure = expect_failure(end);
            assert_eq!(code_and_class(&failure), (code, class), "{api:?} {kind}");
            assert!(failure.message.contains(message), "{}", failure.message);
            assert_eq!(text_of(&deltas), "so far");
        }
        let whole = Reply::whole(
            200,
            "",
            r#"{"error":{"type":"invalid_request_error","message":"prompt is too long"}}"#,
        );
        assert_eq!(
            code_and_class(&failure_of_reply(api, whole).await),
            ("context_overflow", FailureClass::Overflow),
            "{api:?}"
        );
    }
}

#[tokio::test]
async fn silent_server_is_a_timeout() {
    for api in ModelApi::ALL {
        let quick = |timeouts: Timeouts, server: &FakeServer| ServerConfig {
            timeouts,
            ..config(&api.base_url(server))
        };
        let first = Timeouts { first_byte: SHORT, ..Timeouts::default() };
        let idle = Timeouts { idle: SHORT, ..Timeouts::default() };
        let headers_only = Reply::stream([""; 0]).held();
        for (timeouts, reply) in [
            (first, Reply::silence()),
            (first, headers_only),
            (idle, Reply::stream([api.text("so far")]).held()),
        ] {
            let server = FakeServer::start([reply]).await;
            let failure = expect_failure(run(api, quick(timeouts, &server), hello()).await.1);
            assert_eq!(code_and_class(&failure), ("timeout", FailureClass::RetryLater));
            tokio::time::timeout(TEST_TIMEOUT, server.client_closed())
                .await
                .expect("the connection is closed");
        }
        let server = FakeServer::start([Reply::stream([api.text("x"), api.end()]).held()]).await;
        let (_, end) = run(api, quick(idle, &server), hello()).await;
        assert_eq!(
            end,
            End::Done(Stop::EndTurn),
            "{api:?}: a complete response does not need the end of the stream"
        );
    }
}

#[tokio::test]
async fn missing_server_is_unreachable() {
    for api in ModelApi::ALL {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let base_url =
            format!("http://user:secret-word@{}/v1", listener.local_addr().expect("an address"));
        drop(listener);
        let failure = expect_failure(run(api, config(&base_url), hello()).await.1);
        assert_eq!(code_and_class(&failure), ("unreachable", FailureClass::RetryLater));
        assert!(
            !failure.message.contains("secret-word") && !failure.message.contains("/v1"),
            "{}",
            failure.message
        );
        assert!(
            failure.message.to_lowercase().contains("refused"),
            "no reason: {}",
            failure.message
        );
        assert_eq!(
            code_and_class(&expect_failure(run(api, config("nowhere"), hello()).await.1)),
            ("bad_request", FailureClass::Permanent)
        );
    }
}

#[tokio::test]
async fn cancellation_ends_the_run_and_closes_the_connection() {
    for api in ModelApi::ALL {
        for (reply, has_text) in
            [(Reply::silence(), false), (Reply::stream([api.text("so far")]).held(), true)]
        {
            let server = FakeServer::start([reply]).await;
            let mut started = start(&api.provider(config(&api.base_url(&server))), hello());
            if has_text {
                started.deltas.recv().await.expect("text");
            }
            started.cancel.cancel();
            assert_eq!(finish(started).await.1, End::Cancelled);
            if has_text {
                tokio::time::timeout(TEST_TIMEOUT, server.client_closed())
                    .await
                    .expect("the connection is closed");
            }
        }
    }
}

#[tokio::test]
async fn run_ends_when_its_reader_is_gone() {
    for api in ModelApi::ALL {
        let server = FakeServer::start([Reply::stream([api.text("so far")]).held()]).await;
        let mut started = start(&api.provider(config(&api.base_url(&server))), hello());
        started.deltas.recv().await.expect("text");
        drop(started.deltas);
        assert_eq!(
            tokio::time::timeout(TEST_TIMEOUT, started.end)
                .await
                .expect("in time")
                .expect("no panic"),
            End::Cancelled
        );
    }
}

#[tokio::test]
async fn endless_response_is_too_large() {
    let mebibyte = "x".repeat(1 << 20);
    for api in ModelApi::ALL {
        let line: Vec<String> =
            std::iter::once("data: ".to_owned()).chain((0..5).map(|_| mebibyte.clone())).collect();
        let answer_too_long: Vec<String> = (0..17).map(|_| api.text(&mebibyte)).collect();
        let document: Vec<String> =
            std::iter::once("{".to_owned()).chain((0..17).map(|_| mebibyte.clone())).collect();
        for pieces in [line, answer_too_long, document] {
            assert_eq!(
                code_and_class(&failure_of_reply(api, Reply::stream(pieces).held()).await),
                ("too_large", FailureClass::Permanent),
                "{api:?}"
            );
        }
    }
}

#[tokio::test]
async fn missing_key_is_reported_without_a_request() {
    for api in ModelApi::ALL {
        let server = FakeServer::start([]).await;
        let config = ServerConfig {
            key_variable: Some("CTX_TEST_NO_SUCH_KEY".to_owned()),
            ..config(&api.base_url(&server))
        };
        let failure = expect_failure(run(api, config, hello()).await.1);
        assert_eq!(code_and_class(&failure), ("auth_required", FailureClass::Auth));
        assert!(failure.message.contains("CTX_TEST_NO_SUCH_KEY"), "{}", failure.message);
        assert_eq!(server.connections(), 0);
    }
}
