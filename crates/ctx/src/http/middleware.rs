//! The middleware of every request: it checks Host and Origin (design, section 10) and the token,
//! sets the request id, writes the log line and the metrics, and turns every failure into problem
//! details.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{ALLOW, CONTENT_TYPE, HOST, ORIGIN, X_CONTENT_TYPE_OPTIONS};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use tracing::Instrument;
use ulid::Ulid;

use crate::mcp::RequestScope;

use super::authorization::{self, RequestHead};
use super::mcp::MCP_ROUTE;
use super::openai;
use super::problem_details::{Error, PROBLEM_JSON};
use super::web_page::DIAGRAM_SCRIPT_PATH;
use super::{ServeOptions, Shared};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Pages of other origins cannot embed a response.
pub(super) const RESOURCE_POLICY: HeaderName =
    HeaderName::from_static("cross-origin-resource-policy");
/// A longer `x-request-id` of a client is replaced.
const REQUEST_ID_MAX_BYTES: usize = 128;

pub(super) async fn handle(
    State(state): State<Shared>,
    mut request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    let id = request_id(request.headers());
    let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
    let route =
        request.extensions().get::<MatchedPath>().map_or("none", |route| route.as_str()).to_owned();
    let span = tracing::debug_span!("request", id = id.to_str().unwrap_or_default(), method, path);
    let handled = async {
        let checked = check_host_and_origin(&request, &state.options)
            .and_then(|()| check_draining(&path, &state.options));
        let response = match checked {
            Ok(()) => {
                let head = RequestHead {
                    method: request.method(),
                    path: &path,
                    route: &route,
                    headers: request.headers(),
                };
                match authorization::authorize(&state, head).await {
                    Ok(authorized) => {
                        request.extensions_mut().insert(authorized.caller.clone());
                        request.extensions_mut().insert(RequestScope(authorized.scope));
                        let response = catch_panic(next, request).await;
                        authorized.end_stream_on_revocation(&state, response)
                    }
                    Err(error) => error_response(error, &path),
                }
            }
            Err(error) => error_response(error, &path),
        };
        let response = with_problem_details(response, &method, &path);
        let (status, elapsed) = (response.status(), began.elapsed());
        state.metrics.record_request(&method, &route, status, elapsed);
        tracing::debug!(
            status = status.as_u16(),
            ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            "request finished"
        );
        response
    };
    let mut response = handled.instrument(span).await;
    response.headers_mut().insert(REQUEST_ID, id);
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // Only the script of a sandboxed frame sets another policy.
    let policy = response.headers_mut().entry(RESOURCE_POLICY);
    policy.or_insert(HeaderValue::from_static("same-origin"));
    response
}

fn request_id(headers: &HeaderMap) -> HeaderValue {
    let is_valid = |id: &&HeaderValue| {
        (1..=REQUEST_ID_MAX_BYTES).contains(&id.len())
            && id.as_bytes().iter().all(u8::is_ascii_graphic)
    };
    let generated = || {
        HeaderValue::from_str(&Ulid::new().to_string()).unwrap_or(HeaderValue::from_static("none"))
    };
    headers.get(&REQUEST_ID).filter(is_valid).cloned().unwrap_or_else(generated)
}

/// Answers a panic with 500; other requests continue.
async fn catch_panic(next: Next, request: Request) -> Response {
    let internal = |_| {
        Error::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "the request failed: internal error",
        )
    };
    AssertUnwindSafe(next.run(request))
        .catch_unwind()
        .await
        .unwrap_or_else(|panic| internal(panic).into_response())
}

/// An error in the form of the API that the path belongs to.
fn error_response(error: Error, path: &str) -> Response {
    if openai::is_openai(path) {
        openai::ApiError::from(error).into_response()
    } else {
        error.into_response()
    }
}

/// Adds problem details to error responses of the router, which have none.
fn with_problem_details(response: Response, method: &str, path: &str) -> Response {
    let status = response.status();
    let is_problem = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == PROBLEM_JSON);
    // Errors of MCP are JSON-RPC documents.
    let is_json_rpc = path == MCP_ROUTE
        && response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    let is_complete =
        is_problem || is_json_rpc || response.extensions().get::<openai::Complete>().is_some();
    if is_complete || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let allow = response.headers().get(ALLOW).cloned();
    let mut response = error_response(Error::of_status(status, method, path), path);
    if let Some(allow) = allow {
        response.headers_mut().insert(ALLOW, allow);
    }
    response
}

/// Refuses a request while the server drains. The paths of monitoring are answered.
fn check_draining(path: &str, options: &ServeOptions) -> Result<(), Error> {
    if !options.draining.is_cancelled() || ["/healthz", "/readyz", "/metrics"].contains(&path) {
        return Ok(());
    }
    let why = "the server is shutting down; send the request to another server, or again later";
    Err(Error::new(StatusCode::SERVICE_UNAVAILABLE, "shutting_down", why))
}

fn check_host_and_origin(request: &Request, options: &ServeOptions) -> Result<(), Error> {
    let wrong_host = |host: &str| {
        let host: String = host.chars().take(100).collect();
        let detail = format!("the server does not serve the host `{host}`");
        Error::new(StatusCode::MISDIRECTED_REQUEST, "wrong_host", detail)
            .hint("add the host to `hosts` under [server] in ctx.toml")
    };
    let host = host_of(request.uri(), request.headers()).ok_or_else(|| wrong_host(""))?;
    if !options.serves_host(without_brackets(host.host())) {
        return Err(wrong_host(host.as_str()));
    }
    match request.headers().get(ORIGIN) {
        // The frame that draws diagrams has no origin. Its script is public.
        Some(origin) if origin == "null" && request.uri().path() == DIAGRAM_SCRIPT_PATH => Ok(()),
        Some(origin) if !is_same_origin(origin, &host) => Err(Error::new(
            StatusCode::FORBIDDEN,
            "foreign_origin",
            "requests from pages of other origins are not allowed",
        )),
        _ => Ok(()),
    }
}

fn host_of(uri: &Uri, headers: &HeaderMap) -> Option<Authority> {
    if let Some(authority) = uri.authority() {
        return Some(authority.clone());
    }
    let mut given = headers.get_all(HOST).iter();
    let host = given.next()?.to_str().ok()?.parse().ok()?;
    // A request with two Host headers is rejected.
    given.next().is_none().then_some(host)
}

/// Whether the origin is this server. All loopback names count as one host.
fn is_same_origin(origin: &HeaderValue, host: &Authority) -> bool {
    let Some((scheme, authority)) =
        origin.to_str().ok().and_then(|origin| origin.split_once("://"))
    else {
        return false;
    };
    let Ok(authority) = authority.parse::<Authority>() else { return false };
    let default = if scheme == "https" { 443 } else { 80 };
    let port = |authority: &Authority| authority.port_u16().unwrap_or(default);
    let (ours, theirs) = (without_brackets(host.host()), without_brackets(authority.host()));
    port(&authority) == port(host)
        && (ours.eq_ignore_ascii_case(theirs) || (is_loopback(ours) && is_loopback(theirs)))
}

/// Strips the brackets of an IPv6 address.
fn without_brackets(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

impl ServeOptions {
    fn serves_host(&self, host: &str) -> bool {
        let is_listen_address = || host.parse::<IpAddr>().is_ok_and(|ip| ip == self.listen.ip());
        let is_configured = || self.hosts.iter().any(|name| name.eq_ignore_ascii_case(host));
        ["localhost", "127.0.0.1", "::1"].iter().any(|name| name.eq_ignore_ascii_case(host))
            || is_listen_address()
            || is_configured()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use tokio_util::sync::CancellationToken;

    #[test]
    fn origin_must_match_host_and_port() {
        let table = [
            ("http://127.0.0.1:7420", "127.0.0.1:7420", true),
            ("http://localhost:7420", "127.0.0.1:7420", true),
            ("http://[::1]:7420", "localhost:7420", true),
            ("https://ctx.example", "ctx.example", true),
            ("http://localhost:3000", "localhost:7420", false),
            ("http://evil.example", "127.0.0.1:7420", false),
            ("http://evil.example:7420", "127.0.0.1:7420", false),
            ("null", "127.0.0.1:7420", false),
            ("", "127.0.0.1:7420", false),
        ];
        for (origin, host, same) in table {
            let (origin, host) = (HeaderValue::from_static(origin), host.parse().expect("a host"));
            assert_eq!(is_same_origin(&origin, &host), same, "{origin:?} {host}");
        }
    }

    #[test]
    fn only_configured_hosts_are_served() {
        let listen = "127.0.0.3:7420".parse().expect("an address");
        let options = ServeOptions {
            listen,
            roots: Vec::new(),
            hosts: vec!["ctx.example".to_owned()],
            hooks: BTreeMap::new(),
            mcp: None,
            config: super::super::setup::ConfigSource::default(),
            draining: CancellationToken::new(),
        };
        let table = [
            ("LOCALHOST", true),
            ("127.0.0.1", true),
            ("::1", true),
            ("127.0.0.3", true),
            ("ctx.example", true),
            ("evil.example", false),
        ];
        for (host, served) in table {
            assert_eq!(options.serves_host(host), served, "{host}");
        }
    }
}
