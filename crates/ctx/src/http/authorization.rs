//! API tokens and their scopes (design, section 10). On a loopback address a token is optional; on
//! any other address every API request needs a token with a sufficient scope.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use ctx_engine::core::id::ObjectId;
use ctx_engine::core::token::Scope;
use futures_util::StreamExt;

use super::files::FILES_ROUTE;
use super::hooks::HOOK_ROUTE;
use super::mcp::MCP_ROUTE;
use super::openai::is_openai;
use super::problem_details::Error;
use super::setup::SETUP_ROUTES;
use super::{ServeOptions, Shared, sync};

/// Path prefixes that need a token. The web page and the health probes do not.
const PROTECTED: [&str; 4] = ["/api", "/metrics", "/mcp", "/v1"];
/// A DELETE on this route needs the scope `admin`: it cannot be undone.
const SESSION_ROUTE: &str = "/api/sessions/{id}";
/// A conversation of the OpenAI-compatible API is a session.
const CONVERSATION_ROUTE: &str = "/v1/conversations/{id}";
/// Prefixes of routes on which every change needs the scope `admin`: it decides who a sender is and
/// which session receives the messages. The token of an adapter must not do that.
const IDENTITY_ROUTES: [&str; 2] = ["/api/entities", "/api/aliases"];
/// Shows the names of directories on this machine to clients that may use them.
const DIRECTORIES_ROUTE: &str = "/api/directories";
/// Longer tokens are rejected without hashing them.
const TOKEN_MAX_BYTES: usize = 256;
/// Interval at which an event stream checks that its token was not revoked.
const TOKEN_RECHECK: Duration = Duration::from_secs(2);

/// The parts of a request that authorization needs.
pub(super) struct RequestHead<'a> {
    pub(super) method: &'a Method,
    pub(super) path: &'a str,
    pub(super) route: &'a str,
    pub(super) headers: &'a HeaderMap,
}

/// An authorized request.
pub(super) struct Authorized {
    /// Its token, if it has one.
    token: Option<String>,
    pub(super) caller: Caller,
    /// What it may do.
    pub(super) scope: Scope,
}

/// Who sends a request: requests with the same token have the same caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Caller(pub(super) String);

impl Authorized {
    fn without_token() -> Self {
        Self { token: None, caller: Caller("local".to_owned()), scope: Scope::Admin }
    }
}

impl ServeOptions {
    /// Whether other machines can reach the server.
    pub(crate) fn needs_tokens(&self) -> bool {
        !self.listen.ip().is_loopback()
    }
}

/// Checks the token of a request. A token that is sent on loopback is checked too, so that a client
/// with a wrong token gets an error instead of full access.
pub(super) async fn authorize(
    state: &Shared,
    request: RequestHead<'_>,
) -> Result<Authorized, Error> {
    // A request to a hook has the hook's own secret instead of a token.
    let is_hook = request.route == HOOK_ROUTE && request.method == Method::POST;
    if is_hook || (!is_protected(request.route) && !is_protected(request.path)) {
        return Ok(Authorized::without_token());
    }
    let Some(sent) = bearer_token(request.headers)? else {
        return if state.options.needs_tokens() {
            Err(unauthorized("the request has no token"))
        } else {
            Ok(Authorized::without_token())
        };
    };
    let found =
        if sent.len() <= TOKEN_MAX_BYTES { state.engine.tokens().find(sent).await? } else { None };
    // OpenAI's clients always send a key. On loopback every key is accepted there.
    if found.is_none() && is_openai(request.path) && !state.options.needs_tokens() {
        let digest = ObjectId::of(&[b"key", sent.as_bytes()]);
        let caller = Caller(format!("key {digest}"));
        return Ok(Authorized { caller, ..Authorized::without_token() });
    }
    let token = found.ok_or_else(|| unauthorized("the token is unknown or was revoked"))?;
    let needed = needed_scope(request.method, request.route);
    if !token.scope.permits(needed) {
        let detail = format!(
            "the request needs the scope `{}`, but the token has `{}`",
            needed.name(),
            token.scope.name()
        );
        return Err(Error::new(StatusCode::FORBIDDEN, "forbidden_scope", detail)
            .hint(format!("create a token with `ctx token create --scope {}`", needed.name())));
    }
    let caller = Caller(format!("token {}", token.id));
    Ok(Authorized { token: Some(sent.to_owned()), caller, scope: token.scope })
}

impl Authorized {
    /// Makes an event stream end when its token is revoked. Other responses are returned unchanged.
    pub(super) fn end_stream_on_revocation(self, state: &Shared, response: Response) -> Response {
        let is_stream = response
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        let Some(token) = self.token.filter(|_| is_stream) else { return response };
        let engine = state.engine.clone();
        let (parts, body) = response.into_parts();
        let mut events = body.into_data_stream();
        let stream = async_stream::stream! {
            let mut recheck = tokio::time::interval(TOKEN_RECHECK);
            recheck.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    _ = recheck.tick() => {
                        // A read error does not end the stream; the next tick checks again.
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

fn is_protected(path: &str) -> bool {
    PROTECTED.iter().any(|prefix| {
        path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// Schemes other than `Bearer` are ignored.
pub(super) fn bearer_token(headers: &HeaderMap) -> Result<Option<&str>, Error> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = given.next() else { return Ok(None) };
    let bad = || unauthorized("the Authorization header is malformed");
    if given.next().is_some() {
        return Err(bad());
    }
    let (scheme, token) = value.to_str().map_err(|_| bad())?.split_once(' ').unwrap_or_default();
    Ok(scheme.eq_ignore_ascii_case("bearer").then_some(token.trim()))
}

fn needed_scope(method: &Method, route: &str) -> Scope {
    match *method {
        // It shows and changes commands that are started on this machine.
        _ if route.starts_with(SETUP_ROUTES) => Scope::Admin,
        _ if route == DIRECTORIES_ROUTE => Scope::Write,
        // Who may not send messages to an agent may not read files of the working directory.
        Method::GET if route == FILES_ROUTE => Scope::Write,
        Method::GET | Method::HEAD | Method::OPTIONS => Scope::Read,
        // Each tool has its own scope.
        _ if route == MCP_ROUTE => Scope::Read,
        _ if sync::only_reads(route) => Scope::Read,
        Method::DELETE if [SESSION_ROUTE, CONVERSATION_ROUTE].contains(&route) => Scope::Admin,
        _ if IDENTITY_ROUTES.iter().any(|prefix| route.starts_with(prefix)) => Scope::Admin,
        _ => Scope::Write,
    }
}

fn unauthorized(detail: &str) -> Error {
    Error::new(StatusCode::UNAUTHORIZED, "unauthorized", detail).hint(
        "send `Authorization: Bearer TOKEN`; create a token with `ctx token create --scope read`",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_and_metrics_need_a_token_and_the_page_does_not() {
        let table = [
            ("/api", true),
            ("/api/sessions", true),
            ("/metrics", true),
            ("/mcp", true),
            ("/v1/models", true),
            ("/", false),
            ("/healthz", false),
        ];
        for (path, protected) in table.into_iter().chain([
            ("/readyz", false),
            ("/apitizer.js", false),
            ("/assets/api", false),
        ]) {
            assert_eq!(is_protected(path), protected, "{path}");
        }
    }

    #[test]
    fn reads_writes_and_deletion_need_increasing_scopes() {
        let table = [
            (Method::GET, SESSION_ROUTE, Scope::Read),
            (Method::PATCH, SESSION_ROUTE, Scope::Write),
            (Method::POST, "/api/sessions", Scope::Write),
            (Method::DELETE, "/api/sessions/{id}/inbox/{item}", Scope::Write),
            (Method::DELETE, SESSION_ROUTE, Scope::Admin),
            (Method::POST, "/v1/responses", Scope::Write),
            (Method::GET, "/v1/models", Scope::Read),
            (Method::DELETE, CONVERSATION_ROUTE, Scope::Admin),
            (Method::POST, "/api/inbound", Scope::Write),
            (Method::POST, MCP_ROUTE, Scope::Read),
            (Method::GET, "/api/entities/{id}", Scope::Read),
            (Method::POST, "/api/entities/{id}/identities", Scope::Admin),
            (Method::POST, "/api/entities/merge", Scope::Admin),
            (Method::DELETE, "/api/aliases/{alias}", Scope::Admin),
            (Method::GET, SETUP_ROUTES, Scope::Admin),
            (Method::PUT, "/api/setup/providers/{name}", Scope::Admin),
            (Method::GET, DIRECTORIES_ROUTE, Scope::Write),
        ];
        for (method, route, scope) in table {
            assert_eq!(needed_scope(&method, route), scope, "{method} {route}");
        }
    }

    #[test]
    fn only_the_bearer_scheme_is_read() {
        let read = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, value.parse().expect("a header"));
            bearer_token(&headers).expect("readable").map(str::to_owned)
        };
        assert_eq!(read("Bearer abc"), Some("abc".to_owned()));
        assert_eq!(read("bearer  abc "), Some("abc".to_owned()));
        assert_eq!(read("Bearer "), Some(String::new()), "an empty token counts as a wrong token");
        assert_eq!((read("Basic abc"), read("Bearerabc")), (None, None));
    }
}
