//! HTTP: one resource per file, each translating to and from the engine and nothing else.
//!
//! | file | owns |
//! |---|---|
//! | this one | what handlers share, and every route |
//! | `connections` | sockets: accepted, bounded, ended in time |
//! | `guard` | what every request passes: Host, Origin, its log line, failures as problem documents |
//! | `access` | tokens, and how far their scopes reach |
//! | `describe` | the OpenAPI document |
//! | `error`, `extract`, `cursor`, `roots` | problem documents; what comes in; pages; where agents may work |
//! | `sessions`, `context`, `messages`, `events`, `inbox`, `turns`, `tasks`, `commits`, `runs`, `blobs`, `bundles`, `providers` | the API |
//! | `health`, `page` | whether it lives; the page at the root |
//!
//! The OpenAPI document is made from the handlers, so that it cannot lag behind them.

mod access;
mod blobs;
mod bundles;
mod commits;
mod connections;
mod context;
mod cursor;
mod describe;
mod error;
mod events;
mod extract;
mod guard;
mod health;
mod inbox;
mod messages;
mod page;
mod parts;
mod providers;
pub(crate) mod roots;
mod runs;
mod sessions;
mod tasks;
#[cfg(test)]
mod tests;
mod turns;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use ctx_engine::core::id::ObjectId;
use ctx_engine::{Engine, StoreError};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::problem::Problem;

/// The most clients that follow events.
const CLIENTS_MAX: usize = 1000;
/// The most bundles that are read or written at a time.
const BUNDLES_MAX: usize = 2;
/// The pause before what a crash left is looked for again, where the store could not be read.
const ATTEND_AGAIN: Duration = Duration::from_secs(1);

/// For whom and where.
#[derive(Debug, Clone)]
pub(crate) struct ServeOptions {
    /// Where it listens.
    pub(crate) listen: SocketAddr,
    /// Working directories lie under one of these; as they are on disk.
    pub(crate) roots: Vec<PathBuf>,
    /// Names besides those of this machine.
    pub(crate) hosts: Vec<String>,
}

/// What handlers share.
pub(crate) struct State {
    engine: Engine,
    started: Instant,
    /// Set when what a crash left has been looked after.
    ready: AtomicBool,
    /// One permit for each client that may follow events.
    clients: Arc<Semaphore>,
    /// One permit for each bundle that may be in memory.
    bundles: Semaphore,
    shutdown: CancellationToken,
    metrics: health::Metrics,
    /// The OpenAPI document.
    document: String,
    options: ServeOptions,
}

type Shared = Arc<State>;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "ctx",
        description = "Keeps conversations with AI agents. Errors are RFC 9457 problem documents with a stable `code`."
    ),
    components(schemas(error::Document))
)]
struct Api;

/// Serves until the token is cancelled, then lets go of every client.
///
/// # Errors
/// If the API cannot be described.
pub(crate) async fn serve(
    engine: Engine,
    listener: TcpListener,
    options: ServeOptions,
    shutdown: CancellationToken,
) -> Result<(), Problem> {
    let state = shared(engine, options, shutdown)?;
    tokio::spawn(attend(state.clone()));
    let shutdown = state.shutdown.clone();
    connections::accept(listener, router(state), shutdown).await;
    Ok(())
}

fn shared(
    engine: Engine,
    options: ServeOptions,
    shutdown: CancellationToken,
) -> Result<Shared, Problem> {
    let document = document(&engine, &options)?;
    Ok(Arc::new(State {
        engine,
        started: Instant::now(),
        ready: AtomicBool::new(false),
        clients: Arc::new(Semaphore::new(CLIENTS_MAX)),
        bundles: Semaphore::new(BUNDLES_MAX),
        shutdown,
        metrics: health::Metrics::new(),
        document,
        options,
    }))
}

/// Looks after what a crash left, beside the first requests rather than before them.
async fn attend(state: Shared) {
    while let Err(error) = state.engine.background().start().await {
        tracing::error!(code = error.code(), %error, "what was cut off could not be looked after");
        tokio::select! {
            () = state.shutdown.cancelled() => return,
            () = tokio::time::sleep(ATTEND_AGAIN) => {}
        }
    }
    state.ready.store(true, Ordering::Release);
    tracing::info!("ready");
}

fn api() -> OpenApiRouter<Shared> {
    OpenApiRouter::with_openapi(Api::openapi())
        .routes(routes!(sessions::create, sessions::list))
        .routes(routes!(sessions::read, sessions::update, sessions::delete))
        .routes(routes!(sessions::archive))
        .routes(routes!(sessions::unarchive))
        .routes(routes!(sessions::cancel))
        .routes(routes!(sessions::fork))
        .routes(routes!(context::compact))
        .routes(routes!(context::pins))
        .routes(routes!(context::pin, context::unpin))
        .routes(routes!(bundles::export))
        .routes(routes!(bundles::import))
        .routes(routes!(messages::send, messages::list))
        .routes(routes!(events::of_session))
        .routes(routes!(events::of_all))
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
        .routes(routes!(tasks::reopen))
        .routes(routes!(tasks::answer))
        .routes(routes!(tasks::resume))
        .routes(routes!(commits::list))
        .routes(routes!(commits::read))
        .routes(routes!(commits::search))
        .routes(routes!(runs::read))
        .routes(routes!(blobs::read))
        .routes(routes!(providers::list))
        .routes(routes!(health::alive))
        .routes(routes!(health::ready))
        .routes(routes!(health::metrics))
        .routes(routes!(page::openapi))
}

fn document(engine: &Engine, options: &ServeOptions) -> Result<String, Problem> {
    let document = serde_json::to_value(api().into_openapi());
    let document = document.map_err(|e| {
        Problem::failed("internal", format!("the description of the API could not be written: {e}"))
    })?;
    Ok(describe::complete(document, engine.providers(), options.needs_tokens()).to_string())
}

fn router(state: Shared) -> Router {
    let (routes, _) = api().split_for_parts();
    routes
        .route("/", get(page::read))
        .route("/assets/{file}", get(page::asset))
        .layer(axum::middleware::from_fn_with_state(state.clone(), guard::pass))
        .with_state(state)
}

/// What is stored cannot be read.
fn damaged(id: ObjectId, why: &dyn std::fmt::Display) -> error::Error {
    ctx_engine::Error::from(StoreError::DamagedObject { id, why: why.to_string() }).into()
}
