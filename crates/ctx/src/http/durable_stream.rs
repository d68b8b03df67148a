//! The read side of the Durable Streams protocol over the stored events of a session
//! (docs/durable-streams.md). A stream is a JSON stream: each event is one message, the same
//! object as in the session's event stream.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use ctx_engine::core::id::SessionId;
use ctx_engine::core::refusal::Refusal;
use ctx_engine::{FeedEvent, FeedItem, Follow};
use futures_util::Stream;
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep_until};

use super::Shared;
use super::events::{GREETING, NO_BUFFERING, client_permit, event_json, is_last};
use super::extractors::{Path, Query};
use super::problem_details::{Error, HttpResult, ProblemDetails};
use super::stream_position::{Mode, ReadQuery, Start, bad_request, cursor, offset};

/// Most events of one response.
const PAGE_MAX_EVENTS: usize = 1000;
/// Size after which no further event is added to a response.
const PAGE_MAX_BYTES: usize = 1 << 20;
/// Life of an SSE response. The client reconnects at its offset.
const SSE_MAX: Duration = Duration::from_secs(60);
/// Time without an event after which an SSE response repeats its position.
const SSE_KEEP_ALIVE: Duration = Duration::from_secs(15);

const NEXT_OFFSET: HeaderName = HeaderName::from_static("stream-next-offset");
const UP_TO_DATE: HeaderName = HeaderName::from_static("stream-up-to-date");
const CURSOR: HeaderName = HeaderName::from_static("stream-cursor");
const CLOSED: HeaderName = HeaderName::from_static("stream-closed");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TRUE: HeaderValue = HeaderValue::from_static("true");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
/// A page that is not the last one does not change.
const CACHE_PAGE: HeaderValue =
    HeaderValue::from_static("private, max-age=60, stale-while-revalidate=300");
/// The last page grows, so a cache asks again, with the ETag.
const CACHE_LAST_PAGE: HeaderValue =
    HeaderValue::from_static("private, max-age=0, must-revalidate");

/// Read the stored events of a session as a Durable Stream
///
/// The response is a JSON array of events, or with `live=sse` an event stream. Continue at
/// `Stream-Next-Offset`. Unknown query parameters are ignored, as the protocol demands.
#[utoipa::path(
    get, path = "/api/sessions/{id}/stream", tag = "events",
    params(
        ("id" = String, Path, description = "Id, label or alias"),
        ("offset" = Option<String>, Query,
            description = "-1: the beginning (default), now: the end, or a Stream-Next-Offset"),
        ("live" = Option<String>, Query, description = "Wait for new events; needs `offset`"),
        ("cursor" = Option<String>, Query, description = "The Stream-Cursor of the last response"),
        ("timeout" = Option<u64>, Query, description = "Seconds of a long-poll; default 20"),
        ("If-None-Match" = Option<String>, Header, description = "ETag of an earlier response"),
    ),
    responses(
        (status = 200, description = "Events after the offset", body = [Object]),
        (status = 204, description = "No event arrived during a long-poll"),
        (status = 304, description = "The page has not changed"),
        (status = 400, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 503, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn read(
    State(state): State<Shared>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Query(pairs): Query<Vec<(String, String)>>,
) -> HttpResult<Response> {
    let query = ReadQuery::parse(&pairs)?;
    let session = state.engine.sessions().get(&id).await?.session;
    let reader = Reader { state, session: session.id, client_cursor: query.cursor };
    let after = match query.start {
        Start::Now => session.seq,
        Start::After(seq) if seq > session.seq => {
            let why = "the offset is beyond the end of the stream; read it again from -1";
            return Err(bad_request("invalid_offset", why));
        }
        Start::After(seq) => seq,
    };
    match query.mode {
        Mode::CatchUp if query.start == Start::Now => {
            let end = Page::empty(session.seq);
            Ok((end.headers(NO_STORE), "[]").into_response())
        }
        Mode::CatchUp => {
            let page = reader.page(after, session.seq).await?;
            Ok(page_response(&page, after, session.id, &headers))
        }
        Mode::LongPoll { timeout } => reader.long_poll(after, session.seq, timeout, &headers).await,
        Mode::Sse => {
            let permit = client_permit(&reader.state)?;
            Ok(sse_response(reader.frames(after, session.seq, permit)))
        }
    }
}

/// Read the end of a session's Durable Stream
#[utoipa::path(
    head, path = "/api/sessions/{id}/stream", tag = "events",
    params(("id" = String, Path, description = "Id, label or alias")),
    responses(
        (status = 200, description = "`Stream-Next-Offset` is the end of the stream"),
        (status = 404, description = "There is no such session"),
    )
)]
pub(super) async fn head(
    State(state): State<Shared>,
    Path(id): Path<String>,
) -> HttpResult<Response> {
    let session = state.engine.sessions().get(&id).await?.session;
    let headers = [
        (CONTENT_TYPE, JSON),
        (NEXT_OFFSET, header(&offset(session.seq))),
        (CACHE_CONTROL, NO_STORE),
    ];
    // Without a length: the body of a GET has another one.
    Ok((headers, Body::from_stream(futures_util::stream::empty::<Result<Bytes, Infallible>>()))
        .into_response())
}

/// Answers every method that writes.
pub(super) async fn read_only(method: Method) -> Response {
    let detail = format!("the stream of a session is read only: {method} is not supported");
    let error = Error::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
        .hint("send messages with POST /api/sessions/{id}/messages");
    let mut response = error.into_response();
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    response
}

/// Events as a JSON array, and the position after them.
struct Page {
    events: Vec<u8>,
    count: usize,
    end: u64,
    /// Whether these are all events that are stored.
    up_to_date: bool,
    /// Whether no event can follow: the session was deleted.
    closed: bool,
}

impl Page {
    const fn empty(end: u64) -> Self {
        Self { events: Vec::new(), count: 0, end, up_to_date: true, closed: false }
    }

    fn is_full(&self) -> bool {
        self.count >= PAGE_MAX_EVENTS || self.events.len() >= PAGE_MAX_BYTES
    }

    fn push(&mut self, event: &FeedEvent) {
        self.events.push(if self.count == 0 { b'[' } else { b',' });
        self.events.extend_from_slice(event_json(event).to_string().as_bytes());
        (self.count, self.end, self.closed) = (self.count + 1, event.seq, is_last(event));
    }

    /// The JSON array.
    fn body(&self) -> Vec<u8> {
        if self.count == 0 { b"[]".to_vec() } else { [&self.events[..], b"]"].concat() }
    }

    fn headers(&self, cache: HeaderValue) -> HeaderMap {
        let mut headers = HeaderMap::from_iter([
            (CONTENT_TYPE, JSON),
            (NEXT_OFFSET, header(&offset(self.end))),
            (CACHE_CONTROL, cache),
        ]);
        if self.up_to_date {
            headers.insert(UP_TO_DATE, TRUE);
        }
        if self.closed {
            headers.insert(CLOSED, TRUE);
        }
        headers
    }

    /// The frame of an SSE response: the events and, always after them, the position.
    fn frame(&self, cursor: u64) -> Bytes {
        let mut frame = Vec::new();
        if self.count > 0 {
            frame.extend_from_slice(b"event: data\ndata:");
            frame.extend_from_slice(&self.events);
            frame.extend_from_slice(b"]\n\n");
        }
        let mut control = json!({"streamNextOffset": offset(self.end)});
        if self.closed {
            control["streamClosed"] = Value::Bool(true);
        } else {
            control["streamCursor"] = Value::String(cursor.to_string());
        }
        if self.up_to_date {
            control["upToDate"] = Value::Bool(true);
        }
        frame.extend_from_slice(format!("event: control\ndata:{control}\n\n").as_bytes());
        frame.into()
    }
}

/// A read of one session's stream.
struct Reader {
    state: Shared,
    session: SessionId,
    client_cursor: Option<u64>,
}

impl Reader {
    fn cursor(&self) -> u64 {
        cursor(self.state.engine.now(), self.client_cursor)
    }

    /// The stored events after an event. `newest` is the number of an event that was stored before.
    async fn page(&self, after: u64, newest: u64) -> HttpResult<Page> {
        let mut page = Page::empty(after);
        if after >= newest {
            return Ok(page);
        }
        let events =
            self.state.engine.events().stored(self.session, after, PAGE_MAX_EVENTS).await?;
        for event in &events {
            if page.is_full() {
                break;
            }
            page.push(event);
        }
        if page.count == 0 {
            // Its events are deleted with a session.
            return Err(ctx_engine::Error::from(Refusal::NoSession).into());
        }
        let all = page.count == events.len();
        page.up_to_date = all && (page.count < PAGE_MAX_EVENTS || page.end >= newest);
        Ok(page)
    }

    async fn follow(&self, after: u64) -> HttpResult<Follow> {
        Ok(self.state.engine.events().follow(&self.session.to_string(), Some(after)).await?)
    }

    async fn long_poll(
        &self,
        after: u64,
        newest: u64,
        timeout: Duration,
        headers: &HeaderMap,
    ) -> HttpResult<Response> {
        let mut page = self.page(after, newest).await?;
        if page.count == 0 {
            let _permit = client_permit(&self.state)?;
            let mut follow = self.follow(after).await?;
            tokio::select! {
                waited = next_page(&mut follow, after) => page = waited?,
                () = tokio::time::sleep(timeout) => {}
                () = self.state.shutdown.cancelled() => {}
            }
        }
        let mut response = if page.count == 0 {
            (StatusCode::NO_CONTENT, page.headers(NO_STORE)).into_response()
        } else {
            page_response(&page, after, self.session, headers)
        };
        if !page.closed {
            response.headers_mut().insert(CURSOR, header(&self.cursor().to_string()));
        }
        Ok(response)
    }

    /// The body of an SSE response: what is stored, then what arrives.
    fn frames(
        self,
        after: u64,
        newest: u64,
        permit: OwnedSemaphorePermit,
    ) -> impl Stream<Item = Result<Bytes, Infallible>> {
        async_stream::stream! {
            let _permit = permit;
            let deadline = Instant::now() + SSE_MAX;
            yield Ok(GREETING);
            let mut page = Page::empty(after);
            loop {
                match self.page(page.end, newest).await {
                    Ok(next) => page = next,
                    // The client reconnects and gets the error as a response.
                    Err(_) => return,
                }
                yield Ok(page.frame(self.cursor()));
                if page.up_to_date {
                    break;
                }
            }
            let Ok(mut follow) = self.follow(page.end).await else { return };
            while !page.closed {
                let keep_alive = (Instant::now() + SSE_KEEP_ALIVE).min(deadline);
                tokio::select! {
                    next = next_page(&mut follow, page.end) => match next {
                        Ok(next) => page = next,
                        Err(_) => return,
                    },
                    () = sleep_until(keep_alive) => page = Page::empty(page.end),
                    () = self.state.shutdown.cancelled() => return,
                }
                yield Ok(page.frame(self.cursor()));
                if Instant::now() >= deadline {
                    return;
                }
            }
        }
    }
}

/// Waits for the next event and adds those that are ready. The future can be dropped.
async fn next_page(follow: &mut Follow, after: u64) -> HttpResult<Page> {
    let mut page = Page::empty(after);
    loop {
        match follow.next().await? {
            Some(FeedItem::Event(event)) => {
                page.push(&event);
                break;
            }
            Some(FeedItem::Delta(_)) => {}
            // Another process deleted the session.
            None => {
                page.closed = true;
                return Ok(page);
            }
        }
    }
    while !page.closed {
        if page.is_full() {
            page.up_to_date = false;
            break;
        }
        match follow.next_ready() {
            Some(FeedItem::Event(event)) => page.push(&event),
            Some(FeedItem::Delta(_)) => {}
            None => break,
        }
    }
    Ok(page)
}

fn page_response(page: &Page, after: u64, session: SessionId, request: &HeaderMap) -> Response {
    // The last page has another tag than a full page with the same events.
    let kind = match (page.closed, page.up_to_date) {
        (true, _) => ":c",
        (false, true) => ":t",
        (false, false) => "",
    };
    let tag = format!("\"{session}:{}:{}{kind}\"", offset(after), offset(page.end));
    let mut headers = page.headers(if page.up_to_date { CACHE_LAST_PAGE } else { CACHE_PAGE });
    headers.insert(ETAG, header(&tag));
    if matches_etag(request, &tag) {
        headers.remove(CONTENT_TYPE);
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    (headers, page.body()).into_response()
}

fn matches_etag(request: &HeaderMap, tag: &str) -> bool {
    let given = request.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    given
        .flat_map(|list| list.split(','))
        .map(str::trim)
        .any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one) == tag)
}

fn sse_response(
    frames: impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static,
) -> Response {
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        NO_BUFFERING,
    ];
    (headers, Body::from_stream(frames)).into_response()
}

/// A header value of digits, letters and punctuation.
fn header(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""))
}
