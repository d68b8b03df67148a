//! `/v1/conversations`: a conversation is a session, under the id `conv_` and the session's id, or
//! under a name of the session.

use axum::extract::State;
use ctx_engine::core::session::Session;
use ctx_engine::{NewSession, Order};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::Shared;
use super::super::extractors::{Json, Path, Query};
use super::api_error::{ApiError, ApiResult};
use super::client_request::{ClientBody, conversation_not_found};
use super::responses::{item_list, items as message_items};
use super::{conversation_id, parse_conversation_id, response_items};

/// Most items that a list returns.
const ITEMS_MAX: usize = 100;
const ITEMS_DEFAULT: usize = 20;
/// Most messages that a list reads.
const MESSAGES_MAX: usize = 1000;

fn document(session: &Session, metadata: Value) -> Value {
    json!({
        "id": conversation_id(session.id),
        "object": "conversation",
        "created_at": session.created_at.unix_seconds(),
        "metadata": metadata,
    })
}

/// The conversation of an id, a label or an alias.
async fn find(state: &Shared, id: &str) -> ApiResult<Session> {
    let name = parse_conversation_id(id).map_or_else(|| id.to_owned(), |id| id.to_string());
    let found = state.engine.client_histories().find(&name).await?;
    Ok(found.ok_or_else(conversation_not_found)?.session)
}

/// Creates a conversation. `metadata.session` is its label; a session that has it is returned.
pub(super) async fn create(
    State(state): State<Shared>,
    request: ClientBody,
) -> ApiResult<Json<Value>> {
    let body = &request.body;
    let label = body["metadata"]["session"].as_str().filter(|label| !label.is_empty());
    let items = body["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let history = response_items::history(items)?;
    if let Some(label) = label
        && let Ok(session) = find(&state, label).await
    {
        return Ok(Json(document(&session, body["metadata"].clone())));
    }
    let new = NewSession {
        label: label.map(str::to_owned),
        title: body["metadata"]["title"].as_str().map(str::to_owned),
        track_tasks: Some(false),
        ..NewSession::default()
    };
    let histories = state.engine.client_histories();
    let id = histories.create(new, history.turns, history.blobs, &request.caller.0).await?;
    let session = find(&state, &id.to_string()).await?;
    let metadata = if body["metadata"].is_object() { body["metadata"].clone() } else { json!({}) };
    Ok(Json(document(&session, metadata)))
}

pub(super) async fn read(
    State(state): State<Shared>,
    Path(id): Path<String>,
) -> ApiResult<Json<Value>> {
    let session = find(&state, &id).await?;
    let metadata = json!({"session": session.label, "title": session.title});
    Ok(Json(document(&session, without_null(metadata))))
}

fn without_null(mut metadata: Value) -> Value {
    if let Some(fields) = metadata.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    metadata
}

/// Deletes the session for good.
pub(super) async fn delete(
    State(state): State<Shared>,
    Path(id): Path<String>,
) -> ApiResult<Json<Value>> {
    let session = find(&state, &id).await?;
    state.engine.sessions().delete(&session.id.to_string()).await?;
    let id = conversation_id(session.id);
    Ok(Json(json!({"id": id, "object": "conversation.deleted", "deleted": true})))
}

#[derive(Deserialize)]
pub(super) struct ItemsQuery {
    limit: Option<usize>,
    order: Option<String>,
    after: Option<String>,
}

/// Lists the items of a conversation, newest first unless `order` is `asc`.
pub(super) async fn items(
    State(state): State<Shared>,
    Path(id): Path<String>,
    Query(query): Query<ItemsQuery>,
) -> ApiResult<Json<Value>> {
    let limit = query.limit.unwrap_or(ITEMS_DEFAULT);
    if !(1..=ITEMS_MAX).contains(&limit) {
        return Err(ApiError::invalid("limit", format!("`limit` must be from 1 to {ITEMS_MAX}")));
    }
    let session = find(&state, &id).await?;
    let ascending = query.order.as_deref() == Some("asc");
    let order = if ascending { Order::Asc } else { Order::Desc };
    let messages = state.engine.messages();
    let page = messages.page(&session.id.to_string(), order, None, MESSAGES_MAX).await?;
    let mut items: Vec<Value> = Vec::new();
    for listed in &page.messages {
        let mut of_message = message_items(&listed.message);
        if !ascending {
            of_message.reverse();
        }
        items.extend(of_message);
    }
    if let Some(after) = &query.after {
        let at = items.iter().position(|item| item["id"] == after.as_str());
        let at = at.ok_or_else(|| ApiError::invalid("after", "there is no item with this id"))?;
        items.drain(..=at);
    }
    let more = items.len() > limit;
    items.truncate(limit);
    let mut list = item_list(items);
    list["has_more"] = json!(more);
    Ok(Json(list))
}
