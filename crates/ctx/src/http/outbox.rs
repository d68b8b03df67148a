//! Deliveries to channels.

use axum::extract::State;
use ctx_engine::OutboxQuery;
use ctx_engine::core::id::OutgoingId;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::json::outbox_json::Outgoing;

use super::extractors::{Json, Path, Query, page_limit};
use super::problem_details::{Error, HttpResult, ProblemDetails};
use super::{Shared, cursor};

/// The type of cursors of this list.
const CURSOR: char = 'o';

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct DeliveriesQuery {
    /// Only deliveries with this status
    status: Option<String>,
    /// Only deliveries to this channel
    channel: Option<String>,
    /// Only deliveries of this session, given by id or label
    session: Option<String>,
    cursor: Option<String>,
    limit: Option<usize>,
}

/// A page of deliveries
#[derive(Serialize, ToSchema)]
pub(super) struct Deliveries {
    deliveries: Vec<Outgoing>,
    next_cursor: Option<String>,
}

/// List deliveries to channels, newest first
#[utoipa::path(
    get, path = "/api/outbox", tag = "channels",
    params(DeliveriesQuery),
    responses(
        (status = 200, body = Deliveries),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(
    State(state): State<Shared>,
    Query(query): Query<DeliveriesQuery>,
) -> HttpResult<Json<Deliveries>> {
    let limit = page_limit(query.limit)?;
    let status = query.status.as_deref().map(str::parse).transpose();
    let status = status.map_err(|why| Error::invalid("invalid_query", why))?;
    let before =
        query.cursor.as_deref().map(|cursor| cursor::to_row(CURSOR, cursor)).transpose()?;
    let session = match &query.session {
        Some(name) => Some(state.engine.sessions().get(name).await?.session.id),
        None => None,
    };
    let query = OutboxQuery { status, channel: query.channel, session, before, limit: limit + 1 };
    let mut found = state.engine.outbox().list(&query).await?;
    let more = found.len() > limit;
    found.truncate(limit);
    let next_cursor = found.last().filter(|_| more).map(|last| cursor::of_row(CURSOR, last.row));
    let deliveries = found.iter().map(|stored| Outgoing::of(&stored.outgoing)).collect();
    Ok(Json(Deliveries { deliveries, next_cursor }))
}

/// Read a delivery
#[utoipa::path(
    get, path = "/api/outbox/{delivery}", tag = "channels",
    params(("delivery" = String, Path, description = "The delivery's id")),
    responses(
        (status = 200, body = Outgoing),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn read(
    State(state): State<Shared>,
    Path(delivery): Path<String>,
) -> HttpResult<Json<Outgoing>> {
    let found = state.engine.outbox().get(id(&state, &delivery).await?).await?;
    Ok(Json(Outgoing::of(&found)))
}

/// Deliver a dead one again
///
/// Its attempts are counted anew.
#[utoipa::path(
    post, path = "/api/outbox/{delivery}/retry", tag = "channels",
    params(("delivery" = String, Path, description = "The delivery's id")),
    responses(
        (status = 200, body = Outgoing),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 409, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn retry(
    State(state): State<Shared>,
    Path(delivery): Path<String>,
) -> HttpResult<Json<Outgoing>> {
    let retried = state.engine.outbox().retry(id(&state, &delivery).await?).await?;
    Ok(Json(Outgoing::of(&retried)))
}

async fn id(state: &Shared, delivery: &str) -> HttpResult<OutgoingId> {
    let found = state.engine.ids().delivery(delivery).await?;
    found.ok_or_else(|| Error::not_found("delivery", delivery))
}
