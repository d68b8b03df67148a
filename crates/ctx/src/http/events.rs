//! Live events over SSE: what is stored is replayed, then followed without gap or overlap; words come as they are said.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::sse::{Event, KeepAlive};
use axum::response::{IntoResponse, Response, Sse};
use ctx_engine::core::decide;
use ctx_engine::core::id::SessionId;
use ctx_engine::{FeedEvent, FeedItem, Words};
use futures_util::Stream;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;
use utoipa::IntoParams;

use super::Shared;
use super::error::{Answer, Document, Error};
use super::extract::{Path, Query};

/// A client that hears nothing for so long hears that there is nothing.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The id of the global feed is the row of a commit and a number within it, in so many bits.
const WITHIN_BITS: u32 = 12;

/// From where.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EventsQuery {
    /// After this event; 0 replays all, without it the feed starts now.
    after: Option<u64>,
}

/// Follows a session.
#[utoipa::path(get, path = "/api/sessions/{id}/events", tag = "events",
    params(("id" = String, Path, description = "Id, label or alias"), EventsQuery,
           ("Last-Event-ID" = Option<u64>, Header, description = "As `after`, and before it")),
    responses((status = 200, content_type = "text/event-stream", body = String),
              (status = 404, body = Document, content_type = "application/problem+json"),
              (status = 503, body = Document, content_type = "application/problem+json")))]
pub(super) async fn of_session(
    State(state): State<Shared>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Query(query): Query<EventsQuery>,
) -> Answer<Response> {
    let after = last_seen(&headers, &query)?;
    let client = client(&state)?;
    let session = state.engine.sessions().get(&id).await?.session.id;
    let mut follow = state.engine.events().follow(&session.to_string(), after).await?;
    let shutdown = state.shutdown.clone();
    let stream = async_stream::stream! {
        let _client = client;
        yield Ok(Event::default().comment("ctx"));
        loop {
            let next = tokio::select! {
                () = shutdown.cancelled() => return,
                next = follow.next() => next,
            };
            match next {
                Ok(Some(FeedItem::Event(event))) => {
                    let last = is_last(&event);
                    yield Ok(durable(&event, event.seq));
                    if last {
                        return;
                    }
                }
                Ok(Some(FeedItem::Words(words))) => yield Ok(spoken(session, &words)),
                Ok(None) => return,
                Err(error) => {
                    // The client comes back with the last id it saw.
                    tracing::warn!(%error, "a feed ended early");
                    return;
                }
            }
        }
    };
    Ok(answer(stream))
}

/// Follows all sessions: stored events only.
#[utoipa::path(get, path = "/api/events", tag = "events",
    params(EventsQuery, ("Last-Event-ID" = Option<u64>, Header, description = "As `after`, and before it")),
    responses((status = 200, content_type = "text/event-stream", body = String),
              (status = 503, body = Document, content_type = "application/problem+json")))]
pub(super) async fn of_all(
    State(state): State<Shared>,
    headers: HeaderMap,
    Query(query): Query<EventsQuery>,
) -> Answer<Response> {
    let after = last_seen(&headers, &query)?.map(Seen::of);
    let client = client(&state)?;
    let mut follow = state.engine.events().follow_all(after.map(Seen::row_before)).await?;
    let shutdown = state.shutdown.clone();
    let stream = async_stream::stream! {
        let _client = client;
        yield Ok(Event::default().comment("ctx"));
        let mut at = Seen { row: 0, within: 0 };
        loop {
            let next = tokio::select! {
                () = shutdown.cancelled() => return,
                next = follow.next() => next,
            };
            let Ok(event) = next.inspect_err(|error| tracing::warn!(%error, "a feed ended early")) else { return };
            at = at.next(event.row);
            if after.is_none_or(|after| at > after) {
                yield Ok(durable(&event, at.id()));
            }
        }
    };
    Ok(answer(stream))
}

/// A place in the global feed. A commit may tell several events; each has an id of its own, so that a client that was cut off
/// between two of them misses none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Seen {
    row: i64,
    within: u64,
}

impl Seen {
    fn of(id: u64) -> Self {
        Self {
            row: i64::try_from(id >> WITHIN_BITS).unwrap_or(i64::MAX),
            within: id & ((1 << WITHIN_BITS) - 1),
        }
    }

    fn id(self) -> u64 {
        (self.row.unsigned_abs() << WITHIN_BITS) | self.within
    }

    const fn row_before(self) -> i64 {
        self.row.saturating_sub(1)
    }

    /// The place of an event that follows this one.
    fn next(self, row: i64) -> Self {
        let within =
            if row == self.row { (self.within + 1).min((1 << WITHIN_BITS) - 1) } else { 0 };
        Self { row, within }
    }
}

fn last_seen(headers: &HeaderMap, query: &EventsQuery) -> Answer<Option<u64>> {
    let Some(given) = headers.get("last-event-id") else { return Ok(query.after) };
    let text = given.to_str().unwrap_or_default().trim();
    if text.is_empty() {
        return Ok(query.after);
    }
    text.parse()
        .map(Some)
        .map_err(|_| Error::invalid("invalid_header", "Last-Event-ID is not the id of an event"))
}

fn client(state: &Shared) -> Answer<OwnedSemaphorePermit> {
    state.clients.clone().try_acquire_owned().map_err(|_| {
        Error::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "too_many_clients",
            "as many clients follow events as may",
        )
        .hint("close one, or try again later")
    })
}

/// After this one there is nothing more.
fn is_last(event: &FeedEvent) -> bool {
    matches!(event.event, decide::Event::SessionDeleted { .. })
}

fn durable(event: &FeedEvent, id: u64) -> Event {
    let mut data = json!({"seq": event.seq, "session": event.session, "at": event.at.to_string()});
    if let Value::Object(fields) = event.event.json() {
        for (key, value) in fields {
            data[key] = value;
        }
    }
    Event::default().event(event.event.name()).id(id.to_string()).data(data.to_string())
}

fn spoken(session: SessionId, words: &Words) -> Event {
    let mut data = words.json();
    data["session"] = json!(session);
    Event::default().event(words.name()).data(data.to_string())
}

fn answer(stream: impl Stream<Item = Result<Event, Infallible>> + Send + 'static) -> Response {
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
    fn ids_of_the_global_feed_rise_within_a_commit_and_over_commits() {
        let mut at = Seen { row: 0, within: 0 };
        let mut ids = Vec::new();
        for row in [1, 1, 1, 2, 5, 5] {
            at = at.next(row);
            assert_eq!(Seen::of(at.id()), at);
            ids.push(at.id());
        }
        assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
        assert!(Seen::of(0).row_before() < 1, "0 replays all");
    }
}
