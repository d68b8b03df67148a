//! Providers that do not read during the pauses of their run.

use ctx_engine::provider::{End, Stop};

use crate::fake_server::{FakeServer, Reply};
use crate::model_apis::ModelApi;
use crate::test_harness::{TEST_TIMEOUT, finish, start, text_of};
use crate::{config, hello};

#[tokio::test]
async fn a_response_with_pauses_arrives_complete_and_in_order() {
    for api in ModelApi::ALL {
        let words: Vec<String> = (0..40).map(|n| format!("word {n} ")).collect();
        let mut pieces: Vec<String> = words.iter().map(|word| api.text(word)).collect();
        pieces.push(api.end());
        let server = FakeServer::start([Reply::stream(pieces)]).await;
        let mut run = start(&api.provider(config(&api.base_url(&server))), hello());
        run.pace.received(true);
        let mut deltas = Vec::new();
        let all = async {
            while let Some(delta) = run.deltas.recv().await {
                deltas.push(delta);
                // The run receives a delta, and its pause ends.
                run.pace.received(true);
                run.pace.resume();
            }
        };
        tokio::time::timeout(TEST_TIMEOUT, all).await.expect("the response ends");
        assert_eq!(text_of(&deltas), words.concat());
        assert_eq!(run.end.await.expect("no panic"), End::Done(Stop::EndTurn));
    }
}

#[tokio::test]
async fn a_provider_continues_when_the_pauses_end_for_good() {
    for api in ModelApi::ALL {
        let pieces = [api.text("one "), api.text("two"), api.end()];
        let server = FakeServer::start([Reply::stream(pieces)]).await;
        let mut run = start(&api.provider(config(&api.base_url(&server))), hello());
        run.pace.received(true);
        let first = run.deltas.recv().await.expect("text");
        run.pace.received(false);
        let (rest, end) = finish(run).await;
        assert_eq!(text_of(&[vec![first], rest].concat()), "one two");
        assert_eq!(end, End::Done(Stop::EndTurn));
    }
}

#[tokio::test]
async fn cancellation_ends_a_provider_that_waits_for_the_end_of_a_pause() {
    for api in ModelApi::ALL {
        let server = FakeServer::start([Reply::stream([api.text("so far")]).held()]).await;
        let mut run = start(&api.provider(config(&api.base_url(&server))), hello());
        run.pace.received(true);
        run.deltas.recv().await.expect("text");
        run.cancel.cancel();
        assert_eq!(finish(run).await.1, End::Cancelled);
    }
}
