//! Server-sent events. Stored events are replayed and then followed without gap or overlap; text
//! deltas are sent live.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::sse::{Event, KeepAlive};
use axum::response::{IntoResponse, Response, Sse};
use ctx_engine::core::decide;
use ctx_engine::core::id::SessionId;
use ctx_engine::{FeedEvent, FeedItem, TextDelta};
use futures_util::Stream;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;
use utoipa::IntoParams;

use super::Shared;
use super::extractors::{Path, Query};
use super::problem_details::{Error, HttpResult, ProblemDetails};

/// A comment is sent after this time without an event, to keep the connection open.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// An id in the global feed is a feed row and, in this many low bits, the index of the event in it.
const INDEX_BITS: u32 = 12;

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
        ("id" = String, Path, description = "Id, label or alias"),
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
    let mut follow = state.engine.events().follow(&session.to_string(), after).await?;
    let shutdown = state.shutdown.clone();
    let stream = async_stream::stream! {
        let _permit = permit;
        yield Ok(Event::default().comment("ctx"));
        loop {
            let next = tokio::select! {
                () = shutdown.cancelled() => return,
                next = follow.next() => next,
            };
            match next {
                Ok(Some(FeedItem::Event(event))) => {
                    let last = is_last(&event);
                    yield Ok(stored_event(&event, event.seq));
                    if last {
                        return;
                    }
                }
                Ok(Some(FeedItem::Delta(words))) => yield Ok(delta_event(session, &words)),
                Ok(None) => return,
                Err(error) => {
                    // The client reconnects with the last id it received.
                    tracing::warn!(%error, "event stream ended early");
                    return;
                }
            }
        }
    };
    Ok(sse_response(stream))
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
        yield Ok(Event::default().comment("ctx"));
        let mut at = FeedPosition { row: 0, index: 0 };
        loop {
            let next = tokio::select! {
                () = shutdown.cancelled() => return,
                next = follow.next() => next,
            };
            let Ok(event) =
                next.inspect_err(|error| tracing::warn!(%error, "event stream ended early"))
            else {
                return;
            };
            at = at.next(event.row);
            if after.is_none_or(|after| at > after) {
                yield Ok(stored_event(&event, at.id()));
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

fn client_permit(state: &Shared) -> HttpResult<OwnedSemaphorePermit> {
    state.event_clients.clone().try_acquire_owned().map_err(|_| {
        Error::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "too_many_clients",
            "the limit of event stream clients is reached",
        )
        .hint("close another event stream and retry")
    })
}

fn is_last(event: &FeedEvent) -> bool {
    matches!(event.event, decide::Event::SessionDeleted { .. })
}

fn stored_event(event: &FeedEvent, id: u64) -> Event {
    let mut data = json!({"seq": event.seq, "session": event.session, "at": event.at.to_string()});
    if let Value::Object(fields) = event.event.json() {
        for (key, value) in fields {
            data[key] = value;
        }
    }
    Event::default().event(event.event.name()).id(id.to_string()).data(data.to_string())
}

fn delta_event(session: SessionId, words: &TextDelta) -> Event {
    let mut data = words.json();
    data["session"] = json!(session);
    Event::default().event(words.name()).data(data.to_string())
}

fn sse_response(
    stream: impl Stream<Item = Result<Event, Infallible>> + Send + 'static,
) -> Response {
    let mut response = Sse::new(stream)
        .keep_alive(KeepAlive::new().interval(HEARTBEAT).text("ping"))
        .into_response();
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

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
