//! MCP over streamable HTTP at `/mcp`: the same server as `ctx mcp`. A request has the scope of its
//! token; a read token searches and reads.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use ctx_engine::Engine;
use ctx_engine::core::token::Scope;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use crate::mcp::{CallerDefaults, McpServer};

use super::extractors::{BODY_MAX_BYTES, body};
use super::problem_details::{Error, HttpResult};
use super::{ServeOptions, Shared};

pub(super) const MCP_ROUTE: &str = "/mcp";
/// The header that names a session of the protocol.
const SESSION_HEADER: &str = "mcp-session-id";
/// Sessions of the protocol that are open at the same time.
const SESSIONS_MAX: usize = 1000;
/// Time after which a session of the protocol without requests is closed. Its client opens another.
const SESSION_IDLE: Duration = Duration::from_secs(3600);

/// The MCP server and its sessions.
pub(super) struct Endpoint {
    service: StreamableHttpService<McpServer, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
}

impl Endpoint {
    /// `None` if the configuration turns it off. Without a setting it is on only on loopback.
    pub(super) fn new(
        engine: &Engine,
        options: &ServeOptions,
        shutdown: &CancellationToken,
    ) -> Option<Self> {
        if !options.mcp.unwrap_or(!options.needs_tokens()) {
            return None;
        }
        // Host and Origin are checked for every request of the server.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_max_request_body_bytes(BODY_MAX_BYTES)
            .with_cancellation_token(shutdown.clone());
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(SESSION_IDLE);
        let (engine, sessions) = (engine.clone(), Arc::new(sessions));
        // Without a session parameter there is no session: the server has no working directory that
        // the client knows.
        let defaults = CallerDefaults { scope: Scope::Read, session: None, directory: None };
        let server = move || Ok(McpServer::new(engine.clone(), defaults.clone()));
        let service = StreamableHttpService::new(server, sessions.clone(), config);
        Some(Self { service, sessions })
    }
}

pub(super) async fn handle(State(state): State<Shared>, request: Request) -> HttpResult<Response> {
    let Some(endpoint) = &state.mcp else {
        let why = "MCP over HTTP is off";
        return Err(Error::new(StatusCode::NOT_FOUND, "mcp_off", why)
            .hint("set `http = true` under [mcp] in ctx.toml"));
    };
    let opens = request.method() == Method::POST && !request.headers().contains_key(SESSION_HEADER);
    if opens && endpoint.sessions.sessions.read().await.len() >= SESSIONS_MAX {
        let why = format!("{SESSIONS_MAX} MCP sessions are open: try again later");
        return Err(Error::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_sessions", why));
    }
    let (parts, content) = request.into_parts();
    let bytes = body(content).await?;
    let response = endpoint.service.handle(Request::from_parts(parts, Body::from(bytes))).await;
    Ok(response.map(Body::new).into_response())
}
