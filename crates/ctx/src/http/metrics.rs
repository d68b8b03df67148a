//! Counters and gauges in the OpenMetrics format.

use std::sync::atomic::{AtomicI64, AtomicU64};
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

use super::problem_details::{Error, HttpResult};
use super::{EVENT_CLIENTS_MAX, Shared};

/// Labels of the request counter. The route is the pattern, not the path, to bound their number.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: String,
    route: String,
    status: u16,
}

pub(super) struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    seconds: Histogram,
    clients: Gauge,
    awake: Gauge,
    channels: Gauge,
    uptime: Gauge<f64, AtomicU64>,
    sessions: Gauge<i64, AtomicI64>,
    turns: Gauge<i64, AtomicI64>,
    commits: Gauge<i64, AtomicI64>,
    bytes: Gauge<i64, AtomicI64>,
    search_lag: Gauge<i64, AtomicI64>,
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
            search_lag: Gauge::default(),
        };
        let registry = &mut metrics.registry;
        let lag = "Rows that the search index has not read yet";
        registry.register("search_lag_rows", lag, metrics.search_lag.clone());
        registry.register("http_requests", "Requests with a response", metrics.requests.clone());
        registry.register(
            "http_request_seconds",
            "Time until the response started",
            metrics.seconds.clone(),
        );
        registry.register("event_clients", "Clients of event streams", metrics.clients.clone());
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
        registry.register(
            "uptime_seconds",
            "Time since the server started",
            metrics.uptime.clone(),
        );
        registry.register("sessions", "Sessions in the store", metrics.sessions.clone());
        registry.register("turns", "Turns in the store", metrics.turns.clone());
        registry.register("commits", "Commits in the store", metrics.commits.clone());
        registry.register("store_bytes", "Size of the store's files", metrics.bytes.clone());
        metrics
    }

    pub(super) fn record_request(
        &self,
        method: &str,
        route: &str,
        status: StatusCode,
        elapsed: Duration,
    ) {
        let labels = RequestLabels {
            method: known_method(method).to_owned(),
            route: route.to_owned(),
            status: status.as_u16(),
        };
        self.requests.get_or_create(&labels).inc();
        self.seconds.observe(elapsed.as_secs_f64());
    }
}

/// Replaces methods that a client invented, so that clients cannot add labels without bound.
fn known_method(method: &str) -> &str {
    match method {
        "GET" | "POST" | "PATCH" | "PUT" | "DELETE" | "HEAD" | "OPTIONS" => method,
        _ => "other",
    }
}

/// Read the counters in the OpenMetrics format
#[utoipa::path(
    get, path = "/metrics", tag = "operation",
    responses((status = 200, content_type = "application/openmetrics-text", body = String))
)]
pub(super) async fn metrics(State(state): State<Shared>) -> HttpResult<impl IntoResponse> {
    let metrics = &state.metrics;
    let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    metrics.clients.set(count(
        EVENT_CLIENTS_MAX.saturating_sub(state.event_clients.available_permits()) as u64,
    ));
    metrics.awake.set(count(state.engine.background().awake_sessions() as u64));
    metrics.channels.set(count(state.engine.background().open_channels() as u64));
    metrics.uptime.set(state.started.elapsed().as_secs_f64());
    let health = state.engine.maintenance().health().await?;
    metrics.sessions.set(count(health.sessions));
    metrics.turns.set(count(health.turns));
    metrics.commits.set(count(health.commits));
    metrics.search_lag.set(count(health.unindexed));
    metrics.bytes.set(count(health.bytes.values().sum()));
    let mut text = String::new();
    encode(&mut text, &metrics.registry).map_err(|e| {
        Error::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            format!("failed to encode the metrics: {e}"),
        )
    })?;
    Ok(([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text))
}
