//! `/v1/responses`: create, read, cancel.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use ctx_engine::core::id::{MessageId, SessionId};
use ctx_engine::core::message::{Message, Part, Role};
use ctx_engine::{Located, Submitted};
use serde_json::{Value, json};

use super::super::Shared;
use super::super::extractors::{Json, Path};
use super::answer::{AnswerState, answer};
use super::answer_watch::AnswerWatch;
use super::api_error::{ApiError, ApiResult};
use super::chat::with_session;
use super::client_request::{AcceptedRequest, ClientBody};
use super::response_object::ResponseObject;
use super::{parse_answer_id, response_items, response_stream};

pub(super) async fn create(
    State(state): State<Shared>,
    request: ClientBody,
) -> ApiResult<Response> {
    let body = &request.body;
    let conversation = response_items::conversation(&body["input"], &body["instructions"])?;
    let streams = request.streams();
    let background = body["background"] == true;
    let AcceptedRequest { submitted, model, body } = request.accept(&state, conversation).await?;
    let object = ResponseObject::new(&submitted, state.engine.now().unix_seconds(), model, body);
    let response = if streams {
        let watch = AnswerWatch::new(&state, &submitted).await?;
        response_stream::response(watch, object).await?
    } else if background {
        current(&state, &submitted, &object).await?.into_response()
    } else {
        let answer = AnswerWatch::new(&state, &submitted).await?.whole().await?;
        if let Some(failure) = answer.failure {
            return Err(failure);
        }
        Json(object.finished(&answer)).into_response()
    };
    Ok(with_session(response, &submitted))
}

/// What there is of a response now.
async fn current(
    state: &Shared,
    submitted: &Submitted,
    object: &ResponseObject,
) -> ApiResult<Json<Value>> {
    let (session, message) = (submitted.session, submitted.message_id);
    let located = state.engine.messages().locate(session, message).await?;
    show(state, &located, message, object)
}

fn show(
    state: &Shared,
    located: &Located,
    message: MessageId,
    object: &ResponseObject,
) -> ApiResult<Json<Value>> {
    Ok(Json(match answer(located, message, &state.engine.providers()) {
        AnswerState::Queued => object.unfinished("queued"),
        AnswerState::Running => object.unfinished("in_progress"),
        AnswerState::Done(answer) => object.finished(&answer),
        AnswerState::Missing => return Err(not_found()),
    }))
}

fn not_found() -> ApiError {
    ApiError::not_found("response_not_found", "response_id", "there is no response with this id")
}

/// The message of a response's id, where it is, and its object.
async fn find(state: &Shared, id: &str) -> ApiResult<(SessionId, MessageId, Located)> {
    let (session, message) = parse_answer_id(id).ok_or_else(not_found)?;
    match state.engine.messages().locate(session, message).await {
        Ok(Located::Missing) => Err(not_found()),
        Ok(located) => Ok((session, message, located)),
        Err(error) if error.code() == "no_session" => Err(not_found()),
        Err(error) => Err(error.into()),
    }
}

fn object_of(session: SessionId, message: MessageId, located: &Located) -> ResponseObject {
    let (provider, model) = match located {
        Located::Stored(stored) => {
            (stored.turn.header.provider_id.clone(), stored.turn.header.model.clone())
        }
        Located::Open(open) => {
            let run = open.run.as_ref();
            (run.map(|run| run.provider_id.clone()), run.and_then(|run| run.model.clone()))
        }
        Located::Waiting(_) | Located::Missing => (None, None),
    };
    let names = [Some("ctx".to_owned()), provider, model];
    let model = names.into_iter().flatten().collect::<Vec<_>>().join("/");
    let created = i64::try_from(message.0.timestamp_ms() / 1000).unwrap_or(0);
    ResponseObject::of_message(session, message, created, model)
}

pub(super) async fn read(
    State(state): State<Shared>,
    Path(id): Path<String>,
) -> ApiResult<Json<Value>> {
    let (session, message, located) = find(&state, &id).await?;
    show(&state, &located, message, &object_of(session, message, &located))
}

/// Cancels the run of a response. One that has ended is returned unchanged.
pub(super) async fn cancel(
    State(state): State<Shared>,
    Path(id): Path<String>,
) -> ApiResult<Json<Value>> {
    let (session, message, located) = find(&state, &id).await?;
    let name = session.to_string();
    match located {
        Located::Open(_) => {
            state.engine.runs().cancel(&name).await?;
        }
        Located::Waiting(_) => {
            let object = object_of(session, message, &located);
            state.engine.messages().withdraw(&name, message).await?;
            return Ok(Json(object.unfinished("cancelled")));
        }
        Located::Stored(_) | Located::Missing => {}
    }
    let (session, message, located) = find(&state, &id).await?;
    show(&state, &located, message, &object_of(session, message, &located))
}

/// Lists the items that a response answers.
pub(super) async fn input_items(
    State(state): State<Shared>,
    Path(id): Path<String>,
) -> ApiResult<Json<Value>> {
    let (_, message, located) = find(&state, &id).await?;
    let messages = match &located {
        Located::Stored(stored) => &stored.messages[..],
        Located::Open(open) => &open.messages,
        Located::Waiting(_) | Located::Missing => &[],
    };
    let items = messages.iter().filter(|one| one.id == message).flat_map(items).collect();
    Ok(Json(item_list(items)))
}

/// A list of items.
pub(super) fn item_list(items: Vec<Value>) -> Value {
    let id = |item: Option<&Value>| item.map(|item| item["id"].clone()).unwrap_or_default();
    json!({
        "object": "list", "first_id": id(items.first()), "last_id": id(items.last()),
        "has_more": false, "data": items,
    })
}

/// A stored message as items.
pub(super) fn items(message: &Message) -> Vec<Value> {
    let mut content = Vec::new();
    let mut items = Vec::new();
    for (at, part) in message.content.iter().enumerate() {
        match part {
            Part::Text { text } | Part::Summary { text } => {
                let kind = if message.role == Role::User { "input_text" } else { "output_text" };
                let mut part = json!({"type": kind, "text": text});
                if message.role != Role::User {
                    part["annotations"] = json!([]);
                }
                content.push(part);
            }
            Part::Image { blob, .. } => content.push(json!({
                "type": "input_image", "detail": "auto", "image_url": null,
                "file_id": blob.to_string(),
            })),
            Part::ToolCall { id, name, params, .. } => items.push(json!({
                "id": format!("fc_{}_{at}", message.id), "type": "function_call",
                "status": "completed", "call_id": id, "name": name,
                "arguments": params.to_string(),
            })),
            Part::ToolResult { tool_call_id, content, .. } => items.push(json!({
                "id": format!("fco_{}_{at}", message.id), "type": "function_call_output",
                "status": "completed", "call_id": tool_call_id,
                "output": content.text().unwrap_or_default(),
            })),
            Part::Thought { .. } | Part::Error { .. } | Part::Plan { .. } | Part::Record { .. } => {
            }
        }
    }
    if !content.is_empty() {
        let role = match message.role {
            Role::User => "user",
            Role::System => "system",
            Role::Assistant | Role::Tool => "assistant",
        };
        items.insert(
            0,
            json!({
                "id": format!("msg_{}", message.id), "type": "message", "status": "completed",
                "role": role, "content": content,
            }),
        );
    }
    items
}
