//! What every request passes: for whom it is and from which page (design, section 10), its token, what is noted of it, and that every failure is a problem document.

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

use super::access::{self, Asked};
use super::error::{Error, PROBLEM_JSON};
use super::{ServeOptions, Shared};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest request id that is taken from a client.
const REQUEST_ID_MAX_BYTES: usize = 128;

/// Notes a request, checks who asks, and finishes the answer.
pub(super) async fn pass(State(state): State<Shared>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let id = request_id(request.headers());
    let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
    let route =
        request.extensions().get::<MatchedPath>().map_or("none", |route| route.as_str()).to_owned();
    let span = tracing::info_span!("request", id = id.to_str().unwrap_or_default(), method, path);
    let answered = async {
        let response = match admitted(&request, &state.options) {
            Ok(()) => {
                let asked = Asked {
                    method: request.method(),
                    path: &path,
                    route: &route,
                    headers: request.headers(),
                };
                match access::let_in(&state, asked).await {
                    Ok(pass) => pass.watch(&state, caught(next, request).await),
                    Err(error) => error.into_response(),
                }
            }
            Err(error) => error.into_response(),
        };
        let response = explained(response, &method, &path);
        let (status, took) = (response.status(), began.elapsed());
        state.metrics.answered(&method, &route, status, took);
        tracing::info!(
            status = status.as_u16(),
            ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            "answered"
        );
        response
    };
    let mut response = answered.instrument(span).await;
    response.headers_mut().insert(REQUEST_ID, id);
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn request_id(headers: &HeaderMap) -> HeaderValue {
    let sane = |id: &&HeaderValue| {
        (1..=REQUEST_ID_MAX_BYTES).contains(&id.len())
            && id.as_bytes().iter().all(u8::is_ascii_graphic)
    };
    let made = || {
        HeaderValue::from_str(&Ulid::new().to_string()).unwrap_or(HeaderValue::from_static("none"))
    };
    headers.get(&REQUEST_ID).filter(sane).cloned().unwrap_or_else(made)
}

/// One request that panics takes no other with it.
async fn caught(next: Next, request: Request) -> Response {
    let broken = |_| {
        Error::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "the request failed in a way that was not foreseen",
        )
    };
    AssertUnwindSafe(next.run(request))
        .catch_unwind()
        .await
        .unwrap_or_else(|panic| broken(panic).into_response())
}

/// Failures of the router say what they are, too.
fn explained(response: Response, method: &str, path: &str) -> Response {
    let status = response.status();
    let is_problem = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == PROBLEM_JSON);
    if is_problem || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let allow = response.headers().get(ALLOW).cloned();
    let mut response = Error::of_status(status, method, path).into_response();
    if let Some(allow) = allow {
        response.headers_mut().insert(ALLOW, allow);
    }
    response
}

fn admitted(request: &Request, options: &ServeOptions) -> Result<(), Error> {
    let wrong = |host: &str| {
        let told = format!(
            "this server does not answer for `{}`",
            host.chars().take(100).collect::<String>()
        );
        Error::new(StatusCode::MISDIRECTED_REQUEST, "wrong_host", told)
            .hint("add the name to `[server] hosts`")
    };
    let host = host_of(request.uri(), request.headers()).ok_or_else(|| wrong(""))?;
    if !options.answers_for(bare(host.host())) {
        return Err(wrong(host.as_str()));
    }
    match request.headers().get(ORIGIN) {
        Some(origin) if !is_same(origin, &host) => Err(Error::new(
            StatusCode::FORBIDDEN,
            "foreign_origin",
            "pages of other origins may not ask this server",
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
    // Two hosts are none.
    given.next().is_none().then_some(host)
}

/// A page of this very server; the names of this machine are one host.
fn is_same(origin: &HeaderValue, host: &Authority) -> bool {
    let Some((scheme, authority)) =
        origin.to_str().ok().and_then(|origin| origin.split_once("://"))
    else {
        return false;
    };
    let Ok(authority) = authority.parse::<Authority>() else { return false };
    let default = if scheme == "https" { 443 } else { 80 };
    let port = |authority: &Authority| authority.port_u16().unwrap_or(default);
    let (ours, theirs) = (bare(host.host()), bare(authority.host()));
    port(&authority) == port(host)
        && (ours.eq_ignore_ascii_case(theirs) || (is_loopback(ours) && is_loopback(theirs)))
}

/// An address without its brackets.
fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

impl ServeOptions {
    fn answers_for(&self, host: &str) -> bool {
        let is_ours = || host.parse::<IpAddr>().is_ok_and(|ip| ip == self.listen.ip());
        let is_named = || self.hosts.iter().any(|name| name.eq_ignore_ascii_case(host));
        ["localhost", "127.0.0.1", "::1"].iter().any(|name| name.eq_ignore_ascii_case(host))
            || is_ours()
            || is_named()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_ours_only_with_host_and_port() {
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
            assert_eq!(is_same(&origin, &host), same, "{origin:?} {host}");
        }
    }

    #[test]
    fn only_named_hosts_are_answered_for() {
        let listen = "127.0.0.3:7420".parse().expect("an address");
        let options =
            ServeOptions { listen, roots: Vec::new(), hosts: vec!["ctx.example".to_owned()] };
        let table = [
            ("LOCALHOST", true),
            ("127.0.0.1", true),
            ("::1", true),
            ("127.0.0.3", true),
            ("ctx.example", true),
            ("evil.example", false),
        ];
        for (host, answers) in table {
            assert_eq!(options.answers_for(host), answers, "{host}");
        }
    }
}
