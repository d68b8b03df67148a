//! Bad answers, no answers, and answers that nobody wants any more.

use ctx_engine::provider::Class;
use tokio::net::TcpListener;

use super::*;

const SHORT: Duration = Duration::from_millis(100);

fn told(failure: &Failure) -> (&str, Class) {
    (&failure.code, failure.class)
}

#[tokio::test]
async fn a_server_that_wants_rest_says_for_how_long() {
    let body = r#"{"error":{"message":"Slow down.","type":"rate_limit"}}"#;
    let limited = failure(Reply::whole(429, "retry-after: 7\r\n", body)).await;
    assert_eq!(told(&limited), ("rate_limited", Class::RetryLater));
    assert_eq!((limited.retry_after, limited.message.as_str()), (Some(Duration::from_secs(7)), "The server answered 429: Slow down."));
    let long_ago = failure(Reply::whole(429, "retry-after: Sun, 06 Nov 1994 08:49:37 GMT\r\n", body)).await;
    assert_eq!(long_ago.retry_after, Some(Duration::ZERO));
    assert_eq!(failure(Reply::whole(429, "", body)).await.retry_after, None);
}

#[tokio::test]
async fn statuses_are_sorted_by_what_helps() {
    let overflow = r#"{"error":{"message":"This model's maximum context length is 8192 tokens","code":"context_length_exceeded"}}"#;
    let table = [
        (500, "", "provider_error", Class::RetryLater),
        (503, r#"{"error":"busy"}"#, "provider_error", Class::RetryLater),
        (400, overflow, "context_overflow", Class::Overflow),
        (400, r#"{"error":{"message":"bad tool"}}"#, "bad_request", Class::GiveUp),
        (404, r#"{"error":{"message":"The model `x` does not exist"}}"#, "model_not_found", Class::GiveUp),
        (302, "", "bad_request", Class::GiveUp),
    ];
    for (status, body, code, class) in table {
        let failure = failure(Reply::whole(status, "location: http://127.0.0.1:1/\r\n", body)).await;
        assert_eq!(told(&failure), (code, class), "{status}");
    }
}

#[tokio::test]
async fn a_key_that_the_server_repeats_is_not_passed_on() {
    let body = json!({"error": {"message": format!("Wrong key sk-12345678 {}", "x".repeat(5_000_000))}}).to_string();
    let server = Server::start([Reply::whole(401, "", &body)]).await;
    let config = Config { api_key: Some("sk-12345678".to_owned()), ..config(&server.base_url) };
    let failure = failed(ask(config, hello()).await.1);
    assert_eq!(told(&failure), ("auth_required", Class::Auth));
    assert!(!failure.message.contains("sk-12345678") && failure.message.chars().count() <= 501, "{}", failure.message);
    assert!(failure.message.contains("Wrong key [key]"), "{}", failure.message);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_no_answer_and_its_words_are_kept() {
    let called = delta(json!({"tool_calls": [{"index": 0, "id": "x", "function": {"name": "a", "arguments": "{}"}}]}));
    let document = Reply::whole(200, "", r#"{"choices":[{"message":{"content":"ha"#);
    let streams = [
        Reply::stream([words("so far"), called.clone()]),
        Reply::stream([words("so far"), called]).cut(),
        Reply::stream([words("so far"), "data: {\"choi".to_owned()]).cut(),
    ];
    for reply in streams {
        let (deltas, end) = answer(reply).await;
        assert_eq!(told(&failed(end)), ("stream_cut", Class::RetryLater));
        assert_eq!(deltas, [Delta::Text("so far".to_owned())], "and half a call is no call");
    }
    assert_eq!(failure(document).await.code, "stream_cut");
    assert_eq!(failure(Reply::stream([""; 0])).await.code, "stream_cut");
}

#[tokio::test]
async fn what_cannot_be_read_is_told_and_not_tried_again() {
    let (deltas, end) = answer(Reply::stream([words("so far"), "data: {\"choices\": oops\n\n".to_owned(), words("more")])).await;
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
        assert_eq!(told(&failure(reply).await), ("bad_stream", Class::GiveUp));
    }
}

#[tokio::test]
async fn an_error_inside_an_answer_is_sorted_too() {
    let stream = [words("so far"), event(&json!({"error": {"message": "Overloaded", "code": 529}}))];
    let (deltas, end) = answer(Reply::stream(stream).held()).await;
    let failure = failed(end);
    assert_eq!(told(&failure), ("provider_error", Class::RetryLater));
    assert!(failure.message.contains("Overloaded"));
    assert_eq!(text_of(&deltas), "so far");
    let whole = Reply::whole(200, "", r#"{"error":{"type":"invalid_request_error","message":"prompt is too long"}}"#);
    assert_eq!(told(&super::failure(whole).await), ("context_overflow", Class::Overflow));
}

#[tokio::test]
async fn nobody_is_waited_for_too_long() {
    let quick = |timeouts: Timeouts, server: &Server| Config { timeouts, ..config(&server.base_url) };
    let first = Timeouts { first_byte: SHORT, ..Timeouts::default() };
    let idle = Timeouts { idle: SHORT, ..Timeouts::default() };
    let headers_only = Reply::stream([""; 0]).held();
    for (timeouts, reply) in [(first, Reply::silence()), (first, headers_only), (idle, Reply::stream([words("so far")]).held())] {
        let server = Server::start([reply]).await;
        let failure = failed(ask(quick(timeouts, &server), hello()).await.1);
        assert_eq!(told(&failure), ("timeout", Class::RetryLater));
        tokio::time::timeout(GUARD, server.client_left()).await.expect("the connection is closed");
    }
    let server = Server::start([Reply::stream([words("x"), finished("stop")]).held()]).await;
    let (_, end) = ask(quick(idle, &server), hello()).await;
    assert_eq!(end, End::Done(ctx_engine::provider::Stop::EndTurn), "a server that forgets to end has answered");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let base_url = format!("http://user:secret-word@{}/v1", listener.local_addr().expect("an address"));
    drop(listener);
    let failure = failed(ask(config(&base_url), hello()).await.1);
    assert_eq!(told(&failure), ("unreachable", Class::RetryLater));
    assert!(!failure.message.contains("secret-word") && !failure.message.contains("/v1"), "{}", failure.message);
    assert!(failure.message.to_lowercase().contains("refused"), "it says why: {}", failure.message);
    assert_eq!(told(&failed(ask(config("nowhere"), hello()).await.1)), ("bad_request", Class::GiveUp));
}

#[tokio::test]
async fn cancelling_ends_it_anywhere_and_the_server_notices() {
    for (reply, speaks) in [(Reply::silence(), false), (Reply::stream([words("so far")]).held(), true)] {
        let server = Server::start([reply]).await;
        let mut run = start(&Arc::new(OpenAi::new(config(&server.base_url))), hello());
        if speaks {
            run.heard.recv().await.expect("words");
        }
        run.cancel.cancel();
        assert_eq!(finish(run).await.1, End::Cancelled);
        if speaks {
            tokio::time::timeout(GUARD, server.client_left()).await.expect("the connection is closed");
        }
    }
}

#[tokio::test]
async fn it_ends_when_nobody_listens_any_more() {
    let server = Server::start([Reply::stream([words("so far")]).held()]).await;
    let mut run = start(&Arc::new(OpenAi::new(config(&server.base_url))), hello());
    run.heard.recv().await.expect("words");
    drop(run.heard);
    assert_eq!(tokio::time::timeout(GUARD, run.end).await.expect("in time").expect("no panic"), End::Cancelled);
}

#[tokio::test]
async fn an_answer_without_end_is_refused() {
    let mebibyte = "x".repeat(1 << 20);
    let line: Vec<String> = std::iter::once("data: ".to_owned()).chain((0..5).map(|_| mebibyte.clone())).collect();
    let answer_too_long: Vec<String> = (0..17).map(|_| words(&mebibyte)).collect();
    let document: Vec<String> = std::iter::once("{".to_owned()).chain((0..17).map(|_| mebibyte.clone())).collect();
    for pieces in [line, answer_too_long, document] {
        assert_eq!(told(&failure(Reply::stream(pieces).held()).await), ("too_large", Class::GiveUp));
    }
}
