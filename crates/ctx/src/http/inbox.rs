//! The messages that wait for a session: seen, edited, moved, withdrawn.

use axum::extract::State;
use axum::http::StatusCode;
use ctx_engine::core::id::MessageId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::shape::talk::InboxItem;

use super::Shared;
use super::error::{Answer, Document, Error};
use super::extract::{Json, Path, given};

/// The messages that wait, in their order.
#[derive(Serialize, ToSchema)]
pub(super) struct Inbox {
    inbox: Vec<InboxItem>,
    next_cursor: Option<String>,
}

async fn items(state: &Shared, id: &str) -> Answer<Vec<InboxItem>> {
    let session = state.engine.sessions().get(id).await?.session.id.to_string();
    Ok(InboxItem::all(&session, &state.engine.messages().inbox(&session).await?))
}

/// Lists the messages that wait, and those that the cap dropped.
#[utoipa::path(get, path = "/api/sessions/{id}/inbox", tag = "inbox", params(("id" = String, Path, description = "Id, label or alias")),
    responses((status = 200, body = Inbox), (status = 404, body = Document, content_type = "application/problem+json")))]
pub(super) async fn list(
    State(state): State<Shared>,
    Path(id): Path<String>,
) -> Answer<Json<Inbox>> {
    Ok(Json(Inbox { inbox: items(&state, &id).await?, next_cursor: None }))
}

/// What is to change: one of the two.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ItemBody {
    #[serde(default, deserialize_with = "given")]
    text: Option<String>,
    /// From 1.
    #[serde(default, deserialize_with = "whole")]
    #[schema(value_type = Option<usize>)]
    position: Option<usize>,
}

/// A whole number, however it is written: to JSON, 2 and 2.0 are the same.
fn whole<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<usize>, D::Error> {
    let number = f64::deserialize(from)?;
    if number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number) {
        return Ok(Some(number as usize));
    }
    Err(serde::de::Error::custom(format!("{number} is no place in a list")))
}

/// Edits or moves a message that waits.
#[utoipa::path(patch, path = "/api/sessions/{id}/inbox/{item}", tag = "inbox", request_body = ItemBody,
    params(("id" = String, Path, description = "Id, label or alias"), ("item" = String, Path, description = "The message's id")),
    responses((status = 200, body = InboxItem), (status = 404, body = Document, content_type = "application/problem+json"),
              (status = 409, body = Document, content_type = "application/problem+json")))]
pub(super) async fn update(
    State(state): State<Shared>,
    Path((id, item)): Path<(String, String)>,
    Json(body): Json<ItemBody>,
) -> Answer<Json<InboxItem>> {
    let item = item_id(&item)?;
    match (body.text, body.position) {
        (Some(text), None) => state.engine.messages().edit(&id, item, &text).await?,
        (None, Some(place)) if place > 0 => {
            state.engine.messages().reorder(&id, item, place).await?
        }
        (None, Some(_)) => return Err(Error::invalid("invalid_body", "the first position is 1")),
        _ => return Err(Error::invalid("invalid_body", "give `text` or `position`")),
    }
    let found = items(&state, &id).await?.into_iter().find(|found| found.is(item));
    Ok(Json(found.ok_or_else(|| gone(&item.to_string()))?))
}

/// Takes a message back that waits.
#[utoipa::path(delete, path = "/api/sessions/{id}/inbox/{item}", tag = "inbox",
    params(("id" = String, Path, description = "Id, label or alias"), ("item" = String, Path, description = "The message's id")),
    responses((status = 204), (status = 404, body = Document, content_type = "application/problem+json"),
              (status = 409, body = Document, content_type = "application/problem+json")))]
pub(super) async fn withdraw(
    State(state): State<Shared>,
    Path((id, item)): Path<(String, String)>,
) -> Answer<StatusCode> {
    state.engine.messages().withdraw(&id, item_id(&item)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn item_id(text: &str) -> Answer<MessageId> {
    text.parse().map_err(|_| gone(text))
}

fn gone(_: &str) -> Error {
    Error::new(StatusCode::NOT_FOUND, "no_item", "there is no such message in the inbox")
}
