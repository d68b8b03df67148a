//! Server-sent events. Stored events are replayed and then followed without gap or overlap; text
//! deltas are sent live.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use ctx_engine::core::decide;
use ctx_engine::core::id::{MessageId, RunId, SessionId};
use ctx_engine::{FeedEvent, FeedItem, Follow, TextDelta};
use futures_util::Stream;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use utoipa::IntoParams;

use super::Shared;
use super::extractors::{Path, Query};
use super::problem_details::{Error, HttpResult, ProblemDetails};

/// A comment is sent after this time without an event, to keep the connection open.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(15);
/// An id in the global feed is a feed row and, in this many low bits, the index of the event in it.
const INDEX_BITS: u32 = 12;
/// Size from which on the events that are ready are sent in a further frame.
const FRAME_MAX_BYTES: usize = 64 << 10;
/// The first bytes of every stream.
pub(super) const GREETING: Bytes = Bytes::from_static(b": ctx\n\n");
pub(super) const PING: Bytes = Bytes::from_static(b": ping\n\n");
/// Makes a proxy pass each event on at once.
pub(super) const NO_BUFFERING: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EventsQuery {
    /// Replay the events after this id; 0 replays all. Without it, only new events are sent
    after: Option<u64>,
}

/// Follow the events of a session
///
/// The stream ends after `session.deleted`. Text that is sent as `message.delta` or `thought.delta`
/// is already stored. A `run.started` event with `recovered: true` repeats a run of the same
/// `message_ids` that a crash ended before any output was stored; `run.failed` with the code
/// `interrupted` precedes it.
#[utoipa::path(
    get, path = "/api/sessions/{id}/events", tag = "events",
    params(
        ("id" = String, Path, description = "Id, short id, label or alias"),
        EventsQuery,
        ("Last-Event-ID" = Option<u64>, Header, description = "Same as `after`; takes precedence"),
    ),
    responses(
        (status = 200, content_type = "text/event-stream", body = String),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 503, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn of_session(
    State(state): State<Shared>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Query(query): Query<EventsQuery>,
) -> HttpResult<Response> {
    let after = last_seen(&headers, &query)?;
    let permit = client_permit(&state)?;
    let session = state.engine.sessions().get(&id).await?.session.id;
    let follow = state.engine.events().follow(&session.to_string(), after).await?;
    Ok(sse_response(session_frames(session, follow, permit, state.shutdown.clone())))
}

/// The body of a session's event stream. A frame contains everything that is ready.
fn session_frames(
    session: SessionId,
    mut follow: Follow,
    permit: OwnedSemaphorePermit,
    shutdown: CancellationToken,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    async_stream::stream! {
        let _permit = permit;
        let shutdown = shutdown.cancelled_owned();
        let heartbeat = sleep_until(Instant::now() + HEARTBEAT);
        tokio::pin!(shutdown, heartbeat);
        yield Ok(GREETING);
        let mut sent_at = Instant::now();
        loop {
            let next = tokio::select! {
                biased;
                next = follow.next() => next,
                () = &mut shutdown => return,
                () = &mut heartbeat => {
                    // The timer is not reset for each event.
                    if sent_at.elapsed() >= HEARTBEAT {
                        sent_at = Instant::now();
                        yield Ok(PING);
                    }
                    heartbeat.as_mut().reset(sent_at + HEARTBEAT);
                    continue;
                }
            };
            // On an error, the client reconnects with the last id it received.
            let Ok(Some(item)) =
                next.inspect_err(|error| tracing::warn!(%error, "event stream ended early"))
            else {
                return;
            };
            let (mut frame, mut ended, mut next) = (Frame::Empty, false, Some(item));
            while let Some(item) = next {
                frame.push(item_bytes(session, &item));
                ended = matches!(&item, FeedItem::Event(event) if is_last(event));
                let full = ended || frame.len() >= FRAME_MAX_BYTES;
                next = if full { None } else { follow.next_ready() };
            }
            sent_at = Instant::now();
            yield Ok(frame.into_bytes());
            if ended {
                return;
            }
        }
    }
}

/// The bytes of a frame. A single event is sent without a copy.
enum Frame {
    Empty,
    One(Bytes),
    Several(Vec<u8>),
}

impl Frame {
    fn len(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::One(bytes) => bytes.len(),
            Self::Several(bytes) => bytes.len(),
        }
    }

    fn push(&mut self, more: Bytes) {
        match self {
            Self::Empty => *self = Self::One(more),
            Self::One(first) => *self = Self::Several([&first[..], &more[..]].concat()),
            Self::Several(bytes) => bytes.extend_from_slice(&more),
        }
    }

    fn into_bytes(self) -> Bytes {
        match self {
            Self::Empty => Bytes::new(),
            Self::One(bytes) => bytes,
            Self::Several(bytes) => bytes.into(),
        }
    }
}

/// Follow the events of all sessions
///
/// Only stored events are sent, no text deltas.
#[utoipa::path(
    get, path = "/api/events", tag = "events",
    params(
        EventsQuery,
        ("Last-Event-ID" = Option<u64>, Header, description = "Same as `after`; takes precedence"),
    ),
    responses(
        (status = 200, content_type = "text/event-stream", body = String),
        (status = 503, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn of_all(
    State(state): State<Shared>,
    headers: HeaderMap,
    Query(query): Query<EventsQuery>,
) -> HttpResult<Response> {
    let after = last_seen(&headers, &query)?.map(FeedPosition::from_id);
    let permit = client_permit(&state)?;
    let mut follow = state.engine.events().follow_all(after.map(FeedPosition::row_before)).await?;
    let shutdown = state.shutdown.clone();
    let stream = async_stream::stream! {
        let _permit = permit;
        yield Ok(GREETING);
        let mut at = FeedPosition { row: 0, index: 0 };
        let mut sent_at = Instant::now();
        loop {
            let next = tokio::select! {
                () = shutdown.cancelled() => return,
                next = follow.next() => next,
                () = sleep_until(sent_at + HEARTBEAT) => {
                    sent_at = Instant::now();
                    yield Ok(PING);
                    continue;
                }
            };
            let Ok(event) =
                next.inspect_err(|error| tracing::warn!(%error, "event stream ended early"))
            else {
                return;
            };
            at = at.next(event.row);
            if after.is_none_or(|after| at > after) {
                sent_at = Instant::now();
                yield Ok(event_bytes(&event, at.id()));
            }
        }
    };
    Ok(sse_response(stream))
}

/// A position in the global feed. One feed row may hold several events. Each has its own id, so
/// that a client that disconnects between two of them misses none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FeedPosition {
    row: i64,
    index: u64,
}

impl FeedPosition {
    fn from_id(id: u64) -> Self {
        Self {
            row: i64::try_from(id >> INDEX_BITS).unwrap_or(i64::MAX),
            index: id & ((1 << INDEX_BITS) - 1),
        }
    }

    fn id(self) -> u64 {
        (self.row.unsigned_abs() << INDEX_BITS) | self.index
    }

    const fn row_before(self) -> i64 {
        self.row.saturating_sub(1)
    }

    /// The position of the next event, which is in `row`.
    fn next(self, row: i64) -> Self {
        let index = if row == self.row { (self.index + 1).min((1 << INDEX_BITS) - 1) } else { 0 };
        Self { row, index }
    }
}

fn last_seen(headers: &HeaderMap, query: &EventsQuery) -> HttpResult<Option<u64>> {
    let Some(given) = headers.get("last-event-id") else { return Ok(query.after) };
    let text = given.to_str().unwrap_or_default().trim();
    if text.is_empty() {
        return Ok(query.after);
    }
    text.parse()
        .map(Some)
        .map_err(|_| Error::invalid("invalid_header", "the header Last-Event-ID is not a number"))
}

pub(super) fn client_permit(state: &Shared) -> HttpResult<OwnedSemaphorePermit> {
    state.event_clients.clone().try_acquire_owned().map_err(|_| {
        Error::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "too_many_clients",
            "the limit of event stream clients is reached",
        )
        .hint("close another event stream and retry")
    })
}

pub(super) fn is_last(event: &FeedEvent) -> bool {
    matches!(event.event, decide::Event::SessionDeleted { .. })
}

/// An item of a session's stream. All followers share the bytes.
fn item_bytes(session: SessionId, item: &FeedItem) -> Bytes {
    match item {
        FeedItem::Event(event) => event.bytes(|event| event_bytes(event, event.seq)),
        FeedItem::Delta(words) => words.bytes(|words| delta_bytes(session, words)),
    }
}

fn event_bytes(event: &FeedEvent, id: u64) -> Bytes {
    format!("event: {}\nid: {id}\ndata: {}\n\n", event.event.name(), event_json(event)).into()
}

/// An event as clients receive it.
pub(super) fn event_json(event: &FeedEvent) -> Value {
    let mut data = json!({"seq": event.seq, "session": event.session, "at": event.at.to_string()});
    if let Value::Object(fields) = event.event.json() {
        for (key, value) in fields {
            data[key] = value;
        }
    }
    data
}

/// The data of a text delta, as [`TextDelta::json`] and with the session.
#[derive(Serialize)]
struct DeltaData<'a> {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    draft: bool,
    message_id: MessageId,
    offset: usize,
    run_id: RunId,
    session: SessionId,
    text: &'a str,
}

fn delta_bytes(session: SessionId, words: &TextDelta) -> Bytes {
    let data = DeltaData {
        draft: words.draft,
        message_id: words.message_id,
        offset: words.offset,
        run_id: words.run_id,
        session,
        text: &words.text,
    };
    let data = serde_json::to_string(&data).unwrap_or_default();
    format!("event: {}\ndata: {data}\n\n", words.name()).into()
}

pub(super) fn sse_response(
    stream: impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static,
) -> Response {
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        NO_BUFFERING,
    ];
    (headers, Body::from_stream(stream)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delta_has_the_fields_of_the_api_and_the_session() {
        let session = SessionId(ulid::Ulid(3));
        for draft in [false, true] {
            let words = TextDelta {
                run_id: RunId(ulid::Ulid(1)),
                message_id: MessageId(ulid::Ulid(2)),
                thought: draft,
                offset: 7,
                text: "a \"line\"\nand é".to_owned(),
                draft,
            };
            let mut data = words.json();
            data["session"] = json!(session);
            let expected = format!("event: {}\ndata: {data}\n\n", words.name());
            assert_eq!(delta_bytes(session, &words), expected);
        }
    }

    #[test]
    fn a_frame_is_the_events_in_order_and_one_event_is_not_copied() {
        let mut frame = Frame::Empty;
        assert_eq!(frame.len(), 0);
        let one = Bytes::from_static(b"one;");
        frame.push(one.clone());
        let Frame::One(kept) = &frame else { panic!("one event") };
        assert_eq!(kept.as_ptr(), one.as_ptr());
        frame.push(Bytes::from_static(b"two;"));
        frame.push(Bytes::from_static(b"three;"));
        assert_eq!((frame.len(), frame.into_bytes()), (14, Bytes::from_static(b"one;two;three;")));
    }

    #[test]
    fn global_feed_ids_increase_within_a_row_and_across_rows() {
        let mut at = FeedPosition { row: 0, index: 0 };
        let mut ids = Vec::new();
        for row in [1, 1, 1, 2, 5, 5] {
            at = at.next(row);
            assert_eq!(FeedPosition::from_id(at.id()), at);
            ids.push(at.id());
        }
        assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
        assert!(FeedPosition::from_id(0).row_before() < 1, "0 replays all");
    }
}
