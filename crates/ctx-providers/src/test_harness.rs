//! The test harness of this crate: messages, requests, and runs of a provider.
//!
//! The unit tests and the integration tests in `tests/providers` share this file.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ctx_core::id::{BlobId, MessageId, ObjectId, RunId, SessionId};
use ctx_core::message::{Message, Part, Role, ToolStatus};
use ctx_core::stored_content::Content;
use ctx_core::time::Timestamp;
use ctx_engine::provider::{
    DELTAS_MAX, Delta, End, Link, Pace, Provider, Request, STEERS_MAX, Steer,
};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

/// A test that waits longer than this has failed.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(2);

pub(crate) fn message(role: Role, content: Vec<Part>) -> Message {
    Message { id: MessageId(Ulid(1)), role, source: None, content, created_at: Timestamp(1) }
}

pub(crate) fn text_message(role: Role, text: &str) -> Message {
    message(role, vec![Part::Text { text: text.to_owned() }])
}

pub(crate) fn tool_call(id: &str, params: Value) -> Part {
    Part::ToolCall {
        id: id.to_owned(),
        name: "look".to_owned(),
        params,
        status: ToolStatus::Completed,
    }
}

pub(crate) fn tool_result(id: &str, text: &str, is_error: bool) -> Part {
    Part::ToolResult {
        tool_call_id: id.to_owned(),
        content: Content::Text(text.to_owned()),
        is_error,
    }
}

fn image_blob() -> BlobId {
    BlobId(ObjectId::from_bytes([1; 32]))
}

pub(crate) fn image_part() -> Part {
    Part::Image { media_type: "image/png".to_owned(), blob: image_blob(), bytes: Some(3) }
}

/// The bytes of [`image_part`].
pub(crate) fn images() -> BTreeMap<BlobId, Arc<Vec<u8>>> {
    BTreeMap::from([(image_blob(), Arc::new(vec![1, 2, 3]))])
}

pub(crate) fn request(messages: Vec<Message>) -> Request {
    Request {
        session: SessionId(Ulid(1)),
        run: RunId(Ulid(1)),
        working_dir: None,
        model: None,
        system: None,
        messages,
        images: BTreeMap::new(),
        tools: Vec::new(),
        options: BTreeMap::new(),
        resumes: Vec::new(),
        open: 0,
        own: None,
        tool_rights: Vec::new(),
    }
}

/// A run and the ends of its link.
pub(crate) struct Run {
    pub(crate) deltas: mpsc::Receiver<Delta>,
    pub(crate) steers: mpsc::Sender<Steer>,
    pub(crate) cancel: CancellationToken,
    #[allow(dead_code, reason = "only the integration tests pause a run")]
    pub(crate) pace: Arc<Pace>,
    pub(crate) end: JoinHandle<End>,
}

pub(crate) fn start<P>(provider: &Arc<P>, request: Request) -> Run
where
    P: Provider + ?Sized + 'static,
{
    let (out, deltas) = mpsc::channel(DELTAS_MAX);
    let (steers, steers_of_run) = mpsc::channel(STEERS_MAX);
    let cancel = CancellationToken::new();
    let tools = mpsc::channel(1).0;
    let pace = Arc::<Pace>::default();
    let (cancelled, paced) = (cancel.clone(), pace.clone());
    let link = Link { out, cancel: cancelled, steers: steers_of_run, tools, pace: paced };
    let provider = Arc::clone(provider);
    let end = tokio::spawn(async move { provider.run(request, link).await });
    Run { deltas, steers, cancel, pace, end }
}

/// All deltas of a run that ends within [`TEST_TIMEOUT`].
pub(crate) async fn finish(mut run: Run) -> (Vec<Delta>, End) {
    let all = async {
        let mut deltas = Vec::new();
        while let Some(delta) = run.deltas.recv().await {
            deltas.push(delta);
        }
        (deltas, run.end.await.expect("the run does not panic"))
    };
    tokio::time::timeout(TEST_TIMEOUT, all).await.expect("the run ends")
}

pub(crate) fn text_of(deltas: &[Delta]) -> String {
    let texts = deltas.iter().filter_map(|delta| match delta {
        Delta::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// Polls until a condition holds; panics after [`TEST_TIMEOUT`].
pub(crate) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !condition() {
        assert!(Instant::now() < deadline, "did not happen: {what}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
