//! Whether the server lives, whether it is ready, and what it counts.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use serde::Serialize;
use utoipa::ToSchema;

use super::error::{Answer, Document, Error};
use super::extract::Json;
use super::{CLIENTS_MAX, Shared};

/// Of which kind a request was. The path is the route's, so that there are few.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Route {
    method: String,
    route: String,
    status: u16,
}

/// What is counted.
pub(super) struct Metrics {
    registry: Registry,
    requests: Family<Route, Counter>,
    seconds: Histogram,
    clients: Gauge,
    awake: Gauge,
    channels: Gauge,
    uptime: Gauge<f64, AtomicU64>,
    sessions: Gauge<i64, AtomicI64>,
    turns: Gauge<i64, AtomicI64>,
    commits: Gauge<i64, AtomicI64>,
    bytes: Gauge<i64, AtomicI64>,
}

impl Metrics {
    pub(super) fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("ctx"),
            requests: Family::default(),
            seconds: Histogram::new(exponential_buckets(0.001, 2.0, 14)),
            clients: Gauge::default(),
            awake: Gauge::default(),
            channels: Gauge::default(),
            uptime: Gauge::default(),
            sessions: Gauge::default(),
            turns: Gauge::default(),
            commits: Gauge::default(),
            bytes: Gauge::default(),
        };
        let registry = &mut metrics.registry;
        registry.register("http_requests", "Requests answered", metrics.requests.clone());
        registry.register(
            "http_request_seconds",
            "Time until an answer began",
            metrics.seconds.clone(),
        );
        registry.register("event_clients", "Clients that follow events", metrics.clients.clone());
        registry.register(
            "sessions_awake",
            "Sessions that run in this process",
            metrics.awake.clone(),
        );
        registry.register(
            "feed_channels",
            "Sessions followed or run in this process",
            metrics.channels.clone(),
        );
        registry.register("uptime_seconds", "Time since the start", metrics.uptime.clone());
        registry.register("sessions", "Sessions in the store", metrics.sessions.clone());
        registry.register("turns", "Turns in the store", metrics.turns.clone());
        registry.register("commits", "Commits in the store", metrics.commits.clone());
        registry.register("store_bytes", "Size of the store's files", metrics.bytes.clone());
        metrics
    }

    pub(super) fn answered(&self, method: &str, route: &str, status: StatusCode, took: Duration) {
        let route = Route {
            method: known_method(method).to_owned(),
            route: route.to_owned(),
            status: status.as_u16(),
        };
        self.requests.get_or_create(&route).inc();
        self.seconds.observe(took.as_secs_f64());
    }
}

/// Methods are made up by clients; a counter for each would be theirs to grow.
fn known_method(method: &str) -> &str {
    match method {
        "GET" | "POST" | "PATCH" | "PUT" | "DELETE" | "HEAD" | "OPTIONS" => method,
        _ => "other",
    }
}

/// How the server is.
#[derive(Serialize, ToSchema)]
pub(super) struct Alive {
    status: &'static str,
    version: &'static str,
}

const ALIVE: Alive = Alive { status: "ok", version: env!("CARGO_PKG_VERSION") };

/// The process lives.
#[utoipa::path(get, path = "/healthz", tag = "operation", responses((status = 200, body = Alive)))]
pub(super) async fn alive() -> Json<Alive> {
    Json(ALIVE)
}

/// What a crash left has been looked after, the store answers, and no shutdown has begun.
#[utoipa::path(get, path = "/readyz", tag = "operation",
    responses((status = 200, body = Alive), (status = 503, body = Document, content_type = "application/problem+json")))]
pub(super) async fn ready(State(state): State<Shared>) -> Answer<Json<Alive>> {
    let not = |code, why: String| Error::new(StatusCode::SERVICE_UNAVAILABLE, code, why);
    if state.shutdown.is_cancelled() {
        return Err(not("shutting_down", "the server is going away".to_owned()));
    }
    if !state.ready.load(Ordering::Acquire) {
        return Err(not("starting", "the server is looking after what was cut off".to_owned()));
    }
    state
        .engine
        .sessions()
        .newest(1)
        .await
        .map_err(|error| not(error.code(), error.to_string()))?;
    Ok(Json(ALIVE))
}

/// Counters for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "operation", responses((status = 200, content_type = "application/openmetrics-text", body = String)))]
pub(super) async fn metrics(State(state): State<Shared>) -> Answer<impl IntoResponse> {
    let metrics = &state.metrics;
    let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    metrics
        .clients
        .set(count(CLIENTS_MAX.saturating_sub(state.clients.available_permits()) as u64));
    metrics.awake.set(count(state.engine.background().awake_sessions() as u64));
    metrics.channels.set(count(state.engine.background().open_channels() as u64));
    metrics.uptime.set(state.started.elapsed().as_secs_f64());
    let health = state.engine.maintenance().health().await?;
    metrics.sessions.set(count(health.sessions));
    metrics.turns.set(count(health.turns));
    metrics.commits.set(count(health.commits));
    metrics.bytes.set(count(
        health.database_bytes + health.wal_bytes + health.segment_bytes + health.search_bytes,
    ));
    let mut text = String::new();
    encode(&mut text, &metrics.registry).map_err(|e| {
        Error::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            format!("the counters could not be written: {e}"),
        )
    })?;
    Ok(([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text))
}
