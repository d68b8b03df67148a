//! Who may ask (design, section 10): on loopback anybody, elsewhere whoever sends a token whose scope reaches.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use ctx_engine::core::token::Scope;
use futures_util::StreamExt;

use super::error::Error;
use super::{ServeOptions, Shared};

/// Where tokens are asked for; everything else is the page and whether the server lives.
const GUARDED: [&str; 3] = ["/api", "/metrics", "/mcp"];
/// Deleting a session is for good.
const DELETES_A_SESSION: &str = "/api/sessions/{id}";
/// A longer token is none, and is not hashed.
const TOKEN_MAX_BYTES: usize = 256;
/// How often an open stream asks whether its token still holds.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// As much of a request as says whether it may be.
pub(super) struct Asked<'a> {
    pub(super) method: &'a Method,
    pub(super) path: &'a str,
    pub(super) route: &'a str,
    pub(super) headers: &'a HeaderMap,
}

/// A request that was let in, with the token that let it in.
pub(super) struct Pass(Option<String>);

impl ServeOptions {
    /// Whether others than this machine can ask.
    pub(crate) fn needs_tokens(&self) -> bool {
        !self.listen.ip().is_loopback()
    }
}

/// Lets a request in, or says why not. A token that is sent counts on loopback, too: who sends a wrong one should hear of it.
pub(super) async fn let_in(state: &Shared, asked: Asked<'_>) -> Result<Pass, Error> {
    if !is_guarded(asked.route) && !is_guarded(asked.path) {
        return Ok(Pass(None));
    }
    let Some(sent) = bearer(asked.headers)? else {
        return if state.options.needs_tokens() {
            Err(unauthorized("this needs a token, and none was sent"))
        } else {
            Ok(Pass(None))
        };
    };
    let found =
        if sent.len() <= TOKEN_MAX_BYTES { state.engine.tokens().find(sent).await? } else { None };
    let token = found
        .ok_or_else(|| unauthorized("this token is none of this server, or it was revoked"))?;
    let needed = needed(asked.method, asked.route);
    if !token.scope.reaches(needed) {
        let told = format!(
            "this needs a token with the scope `{}`, and this one has `{}`",
            needed.name(),
            token.scope.name()
        );
        return Err(Error::new(StatusCode::FORBIDDEN, "forbidden_scope", told)
            .hint(format!("make one with `ctx token create --scope {}`", needed.name())));
    }
    Ok(Pass(Some(sent.to_owned())))
}

impl Pass {
    /// Ends a stream of events soon after its token was revoked; other answers are short.
    pub(super) fn watch(self, state: &Shared, response: Response) -> Response {
        let is_stream = response
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        let Some(token) = self.0.filter(|_| is_stream) else { return response };
        let engine = state.engine.clone();
        let (parts, body) = response.into_parts();
        let mut events = body.into_data_stream();
        let stream = async_stream::stream! {
            let mut look = tokio::time::interval(LOOK_AGAIN);
            look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    _ = look.tick() => {
                        // A store that cannot be asked now is asked again; the events come from it, too.
                        if let Ok(None) = engine.tokens().find(&token).await {
                            return;
                        }
                    }
                    event = events.next() => match event {
                        Some(event) => yield event,
                        None => return,
                    },
                }
            }
        };
        Response::from_parts(parts, Body::from_stream(stream))
    }
}

fn is_guarded(path: &str) -> bool {
    GUARDED.iter().any(|guarded| {
        path.strip_prefix(guarded).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// The token of a request; another way to authorise is nobody's business here.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Error> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = given.next() else { return Ok(None) };
    let bad = || unauthorized("the header Authorization cannot be read");
    if given.next().is_some() {
        return Err(bad());
    }
    let (scheme, token) = value.to_str().map_err(|_| bad())?.split_once(' ').unwrap_or_default();
    Ok(scheme.eq_ignore_ascii_case("bearer").then_some(token.trim()))
}

fn needed(method: &Method, route: &str) -> Scope {
    match *method {
        Method::GET | Method::HEAD | Method::OPTIONS => Scope::Read,
        Method::DELETE if route == DELETES_A_SESSION => Scope::Admin,
        _ => Scope::Write,
    }
}

fn unauthorized(detail: &str) -> Error {
    Error::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
        .hint("send `Authorization: Bearer TOKEN`; `ctx token create --scope read` makes a token")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_says_something_is_guarded() {
        let table = [
            ("/api", true),
            ("/api/sessions", true),
            ("/metrics", true),
            ("/mcp", true),
            ("/", false),
            ("/healthz", false),
        ];
        for (path, guarded) in table.into_iter().chain([
            ("/readyz", false),
            ("/apitizer.js", false),
            ("/assets/api", false),
        ]) {
            assert_eq!(is_guarded(path), guarded, "{path}");
        }
    }

    #[test]
    fn looking_changing_and_deleting_need_more_and_more() {
        let table = [
            (Method::GET, DELETES_A_SESSION, Scope::Read),
            (Method::PATCH, DELETES_A_SESSION, Scope::Write),
            (Method::POST, "/api/sessions", Scope::Write),
            (Method::DELETE, "/api/sessions/{id}/inbox/{item}", Scope::Write),
            (Method::DELETE, DELETES_A_SESSION, Scope::Admin),
        ];
        for (method, route, scope) in table {
            assert_eq!(needed(&method, route), scope, "{method} {route}");
        }
    }

    #[test]
    fn only_a_bearer_is_read() {
        let read = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, value.parse().expect("a header"));
            bearer(&headers).expect("readable").map(str::to_owned)
        };
        assert_eq!(read("Bearer abc"), Some("abc".to_owned()));
        assert_eq!(read("bearer  abc "), Some("abc".to_owned()));
        assert_eq!(read("Bearer "), Some(String::new()), "an empty token is sent, and wrong");
        assert_eq!((read("Basic abc"), read("Bearerabc")), (None, None));
    }
}
