//! People, agents and services that send messages, and their addresses on channels.

use axum::extract::State;
use axum::http::StatusCode;
use ctx_engine::NewEntity;
use ctx_engine::core::identity::{Address, Entity as CoreEntity, EntityKind};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::json::entity_json::{Entity, Identity};
use crate::json::session_json::Session;

use super::extractors::{Json, Path, Query, page_limit};
use super::problem_details::{HttpResult, ProblemDetails};
use super::{Shared, cursor};

/// An entity to create
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EntityBody {
    name: String,
    /// `person` (default), `agent` or `service`
    #[schema(value_type = Option<String>)]
    kind: Option<EntityKind>,
    /// What the entity is to the owner; policies can match it
    relationship: Option<String>,
    /// Whether the entity owns this store
    owner: Option<bool>,
}

/// What to change of an entity. Absent fields stay as they are
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EntityPatchBody {
    name: Option<String>,
    /// `person`, `agent` or `service`
    #[schema(value_type = Option<String>)]
    kind: Option<EntityKind>,
    /// An empty text removes it
    relationship: Option<String>,
    owner: Option<bool>,
}

/// An address to link
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct IdentityBody {
    channel: String,
    /// The account of ctx on the channel, where it has several
    account_id: Option<String>,
    sender_id: String,
    /// Default true. A sender whose identity is not verified stays unknown
    verified: Option<bool>,
}

/// Two entities to merge
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MergeBody {
    /// The id or name of the entity that stays
    into: String,
    /// The id or name of the entity that is merged into it
    from: String,
}

/// A page of entities
#[derive(Serialize, ToSchema)]
pub(super) struct Entities {
    entities: Vec<Entity>,
    next_cursor: Option<String>,
}

/// The identities of an entity
#[derive(Serialize, ToSchema)]
pub(super) struct Identities {
    identities: Vec<Identity>,
}

/// The sessions of an entity
#[derive(Serialize, ToSchema)]
pub(super) struct EntitySessions {
    sessions: Vec<Session>,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct EntityQuery {
    /// From `next_cursor` of the previous page
    cursor: Option<String>,
    limit: Option<usize>,
}

/// An address, as query parameters
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct AddressQuery {
    channel: String,
    account_id: Option<String>,
    sender_id: String,
}

async fn document(state: &Shared, entity: &CoreEntity) -> HttpResult<Entity> {
    let identities = state.engine.entities().identities(entity.id).await?;
    Ok(Entity::new(entity, &identities))
}

/// Create an entity
#[utoipa::path(
    post, path = "/api/entities", tag = "channels", request_body = EntityBody,
    responses(
        (status = 201, body = Entity),
        (status = 422, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn create(
    State(state): State<Shared>,
    Json(body): Json<EntityBody>,
) -> HttpResult<(StatusCode, Json<Entity>)> {
    let new = NewEntity {
        name: body.name,
        kind: body.kind.unwrap_or_default(),
        relationship: body.relationship,
        owner: body.owner.unwrap_or_default(),
    };
    let entity = state.engine.entities().create(new).await?;
    Ok((StatusCode::CREATED, Json(Entity::new(&entity, &[]))))
}

/// List the entities, oldest first, without those that were merged
#[utoipa::path(
    get, path = "/api/entities", tag = "channels", params(EntityQuery),
    responses((status = 200, body = Entities))
)]
pub(super) async fn list(
    State(state): State<Shared>,
    Query(query): Query<EntityQuery>,
) -> HttpResult<Json<Entities>> {
    let limit = page_limit(query.limit)?;
    let after = query
        .cursor
        .as_deref()
        .map(|cursor| cursor.parse().map_err(|_| cursor::invalid()))
        .transpose()?;
    let mut found = state.engine.entities().list(after, limit + 1).await?;
    let more = found.len() > limit;
    found.truncate(limit);
    let next_cursor = found.last().filter(|_| more).map(|last| last.id.to_string());
    let mut entities = Vec::with_capacity(found.len());
    for entity in &found {
        entities.push(document(&state, entity).await?);
    }
    Ok(Json(Entities { entities, next_cursor }))
}

/// Read an entity with its identities
#[utoipa::path(
    get, path = "/api/entities/{id}", tag = "channels",
    params(("id" = String, Path, description = "Id, short id or name")),
    responses(
        (status = 200, body = Entity),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 409, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn read(
    State(state): State<Shared>,
    Path(id): Path<String>,
) -> HttpResult<Json<Entity>> {
    let entity = state.engine.entities().find(&id).await?;
    Ok(Json(document(&state, &entity).await?))
}

/// Change an entity
#[utoipa::path(
    patch, path = "/api/entities/{id}", tag = "channels", request_body = EntityPatchBody,
    params(("id" = String, Path, description = "Id, short id or name")),
    responses(
        (status = 200, body = Entity),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 409, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 422, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn update(
    State(state): State<Shared>,
    Path(id): Path<String>,
    Json(body): Json<EntityPatchBody>,
) -> HttpResult<Json<Entity>> {
    let entity = state.engine.entities().find(&id).await?;
    let new = NewEntity {
        name: body.name.unwrap_or(entity.name),
        kind: body.kind.unwrap_or(entity.kind),
        relationship: body
            .relationship
            .map_or(entity.relationship, |text| Some(text).filter(|text| !text.is_empty())),
        owner: body.owner.unwrap_or(entity.owner),
    };
    let entity = state.engine.entities().update(entity.id, new).await?;
    Ok(Json(document(&state, &entity).await?))
}

/// List the identities of an entity, oldest first
#[utoipa::path(
    get, path = "/api/entities/{id}/identities", tag = "channels",
    params(("id" = String, Path, description = "Id, short id or name")),
    responses(
        (status = 200, body = Identities),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 409, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn identities(
    State(state): State<Shared>,
    Path(id): Path<String>,
) -> HttpResult<Json<Identities>> {
    let entity = state.engine.entities().find(&id).await?;
    let found = state.engine.entities().identities(entity.id).await?;
    Ok(Json(Identities { identities: found.iter().map(Identity::from).collect() }))
}

/// Link an address on a channel to an entity
#[utoipa::path(
    post, path = "/api/entities/{id}/identities", tag = "channels", request_body = IdentityBody,
    params(("id" = String, Path, description = "Id, short id or name")),
    responses(
        (status = 201, body = Identity),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 409, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 422, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn link(
    State(state): State<Shared>,
    Path(id): Path<String>,
    Json(body): Json<IdentityBody>,
) -> HttpResult<(StatusCode, Json<Identity>)> {
    let entity = state.engine.entities().find(&id).await?;
    let verified = body.verified.unwrap_or(true);
    let address =
        Address { channel: body.channel, account_id: body.account_id, sender_id: body.sender_id };
    let identity = state.engine.entities().link(entity.id, address, verified).await?;
    Ok((StatusCode::CREATED, Json(Identity::from(&identity))))
}

/// Remove the link of an address to an entity
#[utoipa::path(
    delete, path = "/api/entities/{id}/identities", tag = "channels",
    params(("id" = String, Path, description = "Id, short id or name"), AddressQuery),
    responses(
        (status = 204),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 409, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn unlink(
    State(state): State<Shared>,
    Path(id): Path<String>,
    Query(query): Query<AddressQuery>,
) -> HttpResult<StatusCode> {
    let entity = state.engine.entities().find(&id).await?;
    let AddressQuery { channel, account_id, sender_id } = query;
    let address = Address { channel, account_id, sender_id };
    state.engine.entities().unlink(entity.id, &address).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List the sessions with direct messages of an entity, those with the newest activity first
#[utoipa::path(
    get, path = "/api/entities/{id}/sessions", tag = "channels",
    params(("id" = String, Path, description = "Id, short id or name")),
    responses(
        (status = 200, body = EntitySessions),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 409, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn sessions(
    State(state): State<Shared>,
    Path(id): Path<String>,
) -> HttpResult<Json<EntitySessions>> {
    let entity = state.engine.entities().find(&id).await?;
    let found = state.engine.entities().sessions(entity.id).await?;
    Ok(Json(EntitySessions { sessions: found.iter().map(Session::from).collect() }))
}

/// Merge an entity into another one
///
/// The session with more turns receives the messages of both. The other session keeps its history
/// under a label that ends in `~merged`.
#[utoipa::path(
    post, path = "/api/entities/merge", tag = "channels", request_body = MergeBody,
    responses(
        (status = 200, body = Entity),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 409, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 422, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn merge(
    State(state): State<Shared>,
    Json(body): Json<MergeBody>,
) -> HttpResult<Json<Entity>> {
    let entities = state.engine.entities();
    let (into, from) = (entities.find(&body.into).await?, entities.find(&body.from).await?);
    let entity = entities.merge(into.id, from.id).await?;
    Ok(Json(document(&state, &entity).await?))
}
