//! The inbox of a session: list, edit, move and withdraw waiting messages.

use axum::extract::State;
use axum::http::StatusCode;
use ctx_engine::core::id::MessageId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::json::inbox_json::InboxItem;

use super::Shared;
use super::extractors::{Json, Path, present};
use super::problem_details::{Error, HttpResult, ProblemDetails};

/// The inbox of a session, in queue order
#[derive(Serialize, ToSchema)]
pub(super) struct Inbox {
    inbox: Vec<InboxItem>,
    next_cursor: Option<String>,
}

async fn items(state: &Shared, id: &str) -> HttpResult<Vec<InboxItem>> {
    let session = state.engine.sessions().get(id).await?.session.id.to_string();
    Ok(InboxItem::all(&session, &state.engine.messages().inbox(&session).await?))
}

/// List the inbox
///
/// Includes messages that were dropped because the inbox was full.
#[utoipa::path(
    get, path = "/api/sessions/{id}/inbox", tag = "inbox",
    params(("id" = String, Path, description = "Id, short id, label or alias")),
    responses(
        (status = 200, body = Inbox),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(
    State(state): State<Shared>,
    Path(id): Path<String>,
) -> HttpResult<Json<Inbox>> {
    Ok(Json(Inbox { inbox: items(&state, &id).await?, next_cursor: None }))
}

/// A change of a waiting message: either `text` or `position`
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ItemBody {
    #[serde(default, deserialize_with = "present")]
    text: Option<String>,
    /// The new position, from 1
    #[serde(default, deserialize_with = "whole_number")]
    #[schema(value_type = Option<usize>)]
    position: Option<usize>,
}

/// Accepts `2` and `2.0`: JSON does not distinguish them.
fn whole_number<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<usize>, D::Error> {
    let number = f64::deserialize(from)?;
    if number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number) {
        return Ok(Some(number as usize));
    }
    Err(serde::de::Error::custom(format!("{number} is not a position")))
}

/// Edit or move a waiting message
#[utoipa::path(
    patch, path = "/api/sessions/{id}/inbox/{item}", tag = "inbox", request_body = ItemBody,
    params(
        ("id" = String, Path, description = "Id, short id, label or alias"),
        ("item" = String, Path, description = "The message's id"),
    ),
    responses(
        (status = 200, body = InboxItem),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 409, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn update(
    State(state): State<Shared>,
    Path((id, item)): Path<(String, String)>,
    Json(body): Json<ItemBody>,
) -> HttpResult<Json<InboxItem>> {
    let item = item_id(&state, &id, &item).await?;
    match (body.text, body.position) {
        (Some(text), None) => state.engine.messages().edit(&id, item, &text).await?,
        (None, Some(position)) if position > 0 => {
            state.engine.messages().reorder(&id, item, position).await?;
        }
        (None, Some(_)) => {
            return Err(Error::invalid(
                "invalid_body",
                "invalid position 0: the first position is 1",
            ));
        }
        _ => {
            return Err(Error::invalid(
                "invalid_body",
                "the body must have either `text` or `position`",
            ));
        }
    }
    let found = items(&state, &id).await?.into_iter().find(|found| found.has_id(item));
    Ok(Json(found.ok_or_else(no_item)?))
}

/// Withdraw a waiting message
#[utoipa::path(
    delete, path = "/api/sessions/{id}/inbox/{item}", tag = "inbox",
    params(
        ("id" = String, Path, description = "Id, short id, label or alias"),
        ("item" = String, Path, description = "The message's id"),
    ),
    responses(
        (status = 204),
        (status = 404, body = ProblemDetails, content_type = "application/problem+json"),
        (status = 409, body = ProblemDetails, content_type = "application/problem+json"),
    )
)]
pub(super) async fn withdraw(
    State(state): State<Shared>,
    Path((id, item)): Path<(String, String)>,
) -> HttpResult<StatusCode> {
    let item = item_id(&state, &id, &item).await?;
    state.engine.messages().withdraw(&id, item).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn item_id(state: &Shared, session: &str, text: &str) -> HttpResult<MessageId> {
    state.engine.ids().inbox_item(session, text).await?.ok_or_else(no_item)
}

fn no_item() -> Error {
    Error::new(StatusCode::NOT_FOUND, "no_item", "there is no such message in the inbox")
}
