//! The HTTP API and the web page. Handlers only translate between HTTP and the engine; each
//! resource has its own file.
//!
//! | file | owns |
//! |---|---|
//! | this file | state of the server, all routes |
//! | `connections` | accepting and closing connections |
//! | `middleware` | checks of every request, log line, metrics, panics |
//! | `authorization` | API tokens and scopes |
//! | `problem_details` | error responses: status, code, hint |
//! | `extractors` | parsing of bodies, queries, paths and headers |
//! | `message_content` | the parts of a sent message |
//! | `working_dir` | directories in which agents may work |
//! | `cursor` | page cursors |
//! | `openapi` | the OpenAPI document |
//! | `sessions`, `messages`, `turns`, `pins`, `inbox`, `runs` | conversations |
//! | `answers` | answers to prompts and suspensions |
//! | `compact` | manual compaction |
//! | `tasks`, `steps`, `commits`, `search` | work and its record |
//! | `usage` | tokens and cost |
//! | `blobs`, `bundles` | stored bytes, export and import |
//! | `sync` | exchange of sessions with other machines |
//! | `providers`, `provider_models` | agents and models |
//! | `setup`, `directories` | changes of `ctx.toml`; directories to choose from |
//! | `files` | files of a working directory, for mentions in a message |
//! | `inbound`, `entities`, `aliases` | messages from channels, who sends them, labels |
//! | `outbox` | deliveries to channels |
//! | `hooks`, `schedules` | outside events and timers as sources of messages |
//! | `openai` | the OpenAI-compatible API under `/v1` |
//! | `events` | server-sent events |
//! | `durable_stream`, `stream_position` | a session's events in the Durable Streams protocol |
//! | `mcp` | the MCP server at `/mcp` |
//! | `health`, `metrics`, `web_page` | probes, counters, the page at `/` |

mod aliases;
mod answers;
mod authorization;
mod blobs;
mod bundles;
mod commits;
mod compact;
mod connections;
mod cursor;
mod directories;
mod durable_stream;
mod entities;
mod events;
mod extractors;
mod files;
mod health;
mod hooks;
mod inbound;
mod inbox;
mod mcp;
mod message_content;
mod messages;
mod metrics;
mod middleware;
mod openai;
mod openapi;
mod outbox;
mod pins;
mod problem_details;
mod provider_models;
mod providers;
mod runs;
mod schedules;
mod search;
mod sessions;
pub(crate) mod setup;
mod steps;
mod stream_position;
mod sync;
mod tasks;
#[cfg(test)]
mod tests;
mod turns;
mod usage;
mod web_page;
pub(crate) mod working_dir;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::{any, get};
use ctx_engine::core::id::ObjectId;
use ctx_engine::{Engine, StoreError};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use utoipa::OpenApi;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouterExt};
use utoipa_axum::routes;

use crate::message_sources::Hook;
use crate::problem::Problem;

/// Concurrent clients of event streams.
const EVENT_CLIENTS_MAX: usize = 1000;
/// Bundles that are imported at the same time. Each is held in memory.
const IMPORTS_MAX: usize = 2;
/// Bundles that are exported at the same time. A few megabytes of each are held in memory.
const EXPORTS_MAX: usize = 16;
/// Pause between two attempts of crash recovery.
const RECOVERY_RETRY: Duration = Duration::from_secs(1);

#[derive(Debug, Clone)]
pub(crate) struct ServeOptions {
    pub(crate) listen: SocketAddr,
    /// Canonical paths; a working directory must be under one of them.
    pub(crate) roots: Vec<PathBuf>,
    /// Host names that are accepted besides loopback and the listen address.
    pub(crate) hosts: Vec<String>,
    pub(crate) hooks: BTreeMap<String, Hook>,
    /// Whether MCP is served; by default on loopback.
    pub(crate) mcp: Option<bool>,
    pub(crate) config: setup::ConfigSource,
    /// Cancelled when no more requests are accepted.
    pub(crate) draining: CancellationToken,
}

pub(crate) struct State {
    engine: Engine,
    started: Instant,
    /// Set when crash recovery is complete.
    ready: AtomicBool,
    /// One permit per client of an event stream.
    event_clients: Arc<Semaphore>,
    /// One permit per import.
    imports: Semaphore,
    /// One permit per export.
    exports: Arc<Semaphore>,
    shutdown: CancellationToken,
    metrics: metrics::Metrics,
    openapi_document: String,
    mcp: Option<mcp::Endpoint>,
    setup: setup::Setup,
    options: ServeOptions,
}

type Shared = Arc<State>;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "ctx",
        description = "Durable conversations with AI agents. \
            Errors are RFC 9457 problem details with a stable `code`."
    ),
    components(schemas(problem_details::ProblemDetails))
)]
struct Api;

/// Serves until `shutdown` is cancelled, then closes all connections.
///
/// # Errors
/// If the OpenAPI document cannot be generated.
pub(crate) async fn serve(
    engine: Engine,
    listener: TcpListener,
    options: ServeOptions,
    shutdown: CancellationToken,
) -> Result<(), Problem> {
    let state = new_state(engine, options, shutdown)?;
    // No response shows a run of a dead process.
    if !recover(&state).await {
        tokio::spawn(retry_recovery(state.clone()));
    }
    let shutdown = state.shutdown.clone();
    connections::accept(listener, router(state), shutdown).await;
    Ok(())
}

fn new_state(
    engine: Engine,
    options: ServeOptions,
    shutdown: CancellationToken,
) -> Result<Shared, Problem> {
    let openapi_document = openapi_document(&engine, &options)?;
    let mcp = mcp::Endpoint::new(&engine, &options, &shutdown);
    Ok(Arc::new(State {
        engine,
        started: Instant::now(),
        ready: AtomicBool::new(false),
        event_clients: Arc::new(Semaphore::new(EVENT_CLIENTS_MAX)),
        imports: Semaphore::new(IMPORTS_MAX),
        exports: Arc::new(Semaphore::new(EXPORTS_MAX)),
        shutdown,
        metrics: metrics::Metrics::new(),
        openapi_document,
        mcp,
        setup: setup::Setup::new(options.config.clone()),
        options,
    }))
}

/// Recovers the runs that a crash interrupted. Returns `false` if that failed.
async fn recover(state: &Shared) -> bool {
    match state.engine.background().start().await {
        Ok(()) => {
            state.ready.store(true, Ordering::Release);
            tracing::info!("ready");
            true
        }
        Err(error) => {
            tracing::error!(code = error.code(), %error, "crash recovery failed; retrying");
            false
        }
    }
}

/// Repeats a recovery that failed, while the server answers requests and is not ready.
async fn retry_recovery(state: Shared) {
    loop {
        tokio::select! {
            () = state.shutdown.cancelled() => return,
            () = tokio::time::sleep(RECOVERY_RETRY) => {}
        }
        if recover(&state).await {
            return;
        }
    }
}

fn api() -> OpenApiRouter<Shared> {
    OpenApiRouter::with_openapi(Api::openapi())
        .routes(routes!(sessions::create, sessions::list))
        .routes(routes!(sessions::read, sessions::update, sessions::delete))
        .routes(routes!(sessions::archive))
        .routes(routes!(sessions::unarchive))
        .routes(routes!(sessions::cancel))
        .routes(routes!(sessions::fork))
        .routes(routes!(compact::compact))
        .routes(routes!(pins::pins))
        .routes(routes!(pins::pin, pins::unpin))
        .routes(routes!(bundles::export))
        .routes(routes!(bundles::import))
        .routes(routes!(sync::heads))
        .routes(routes!(sync::have))
        .routes(routes!(sync::objects_out))
        .routes(routes!(sync::objects_in))
        .routes(routes!(messages::send, messages::list))
        .routes(routes!(events::of_session))
        .routes(routes!(events::of_all))
        .routes(
            routes!(durable_stream::read, durable_stream::head)
                .map(|router| router.fallback(durable_stream::read_only)),
        )
        .routes(routes!(inbox::list))
        .routes(routes!(inbox::update, inbox::withdraw))
        .routes(routes!(turns::list))
        .routes(routes!(turns::tree))
        .routes(routes!(turns::diff))
        .routes(routes!(turns::history))
        .routes(routes!(turns::retry))
        .routes(routes!(turns::rewind))
        .routes(routes!(turns::read))
        .routes(routes!(tasks::open))
        .routes(routes!(tasks::list))
        .routes(routes!(tasks::confirm))
        .routes(routes!(tasks::abandon))
        .routes(routes!(tasks::reopen))
        .routes(routes!(steps::read))
        .routes(routes!(steps::list))
        .routes(routes!(steps::files))
        .routes(routes!(answers::answer))
        .routes(routes!(answers::resume))
        .routes(routes!(commits::list))
        .routes(routes!(commits::read))
        .routes(routes!(search::search))
        .routes(routes!(usage::read))
        .routes(routes!(runs::read))
        .routes(routes!(blobs::read))
        .routes(routes!(outbox::list))
        .routes(routes!(outbox::read))
        .routes(routes!(outbox::retry))
        .routes(routes!(providers::list))
        .routes(routes!(setup::read))
        .routes(routes!(setup::put, setup::remove))
        .routes(routes!(setup::settings))
        .routes(routes!(setup::models))
        .routes(routes!(setup::test))
        .routes(routes!(directories::list))
        .routes(routes!(provider_models::list))
        .routes(routes!(files::find))
        .routes(routes!(inbound::receive))
        .routes(routes!(entities::create, entities::list))
        .routes(routes!(entities::merge))
        .routes(routes!(entities::read, entities::update))
        .routes(routes!(entities::identities, entities::link, entities::unlink))
        .routes(routes!(entities::sessions))
        .routes(routes!(aliases::add, aliases::list))
        .routes(routes!(aliases::remove))
        .routes(routes!(schedules::list))
        .routes(routes!(hooks::receive))
        .routes(routes!(health::alive))
        .routes(routes!(health::ready))
        .routes(routes!(metrics::metrics))
        .routes(routes!(openapi::openapi))
}

fn openapi_document(engine: &Engine, options: &ServeOptions) -> Result<String, Problem> {
    let document = serde_json::to_value(api().into_openapi());
    let document = document.map_err(|e| {
        Problem::failed("internal", format!("failed to generate the OpenAPI document: {e}"))
    })?;
    Ok(openapi::complete(document, &engine.providers(), options.needs_tokens()).to_string())
}

fn router(state: Shared) -> Router {
    let (routes, _) = api().split_for_parts();
    routes
        .route("/", get(web_page::index))
        .route("/assets/{file}", get(web_page::asset))
        .merge(openai::routes())
        .route(mcp::MCP_ROUTE, any(mcp::handle))
        .layer(axum::middleware::from_fn_with_state(state.clone(), middleware::handle))
        .with_state(state)
}

fn damaged_object(id: ObjectId, why: &dyn std::fmt::Display) -> problem_details::Error {
    ctx_engine::Error::from(StoreError::DamagedObject { id, why: why.to_string() }).into()
}
