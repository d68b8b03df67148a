//! The OpenAPI document. utoipa generates it from the handlers; this file adds the limits that the
//! rules enforce and the names that only the running server knows (providers, personas). The server
//! accepts every request that the document allows.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use ctx_engine::Providers;
use ctx_engine::core::compaction::FOCUS_MAX_CHARS;
use ctx_engine::core::decide::FIELD_MAX_CHARS;
use ctx_engine::core::identity::FIELD_MAX_BYTES;
use ctx_engine::core::inbox::Mode;
use ctx_engine::core::outbox::Status;
use ctx_engine::core::session::LABEL_MAX_CHARS;
use ctx_engine::core::usage::By;
use serde_json::{Map, Value, json};

use super::hooks::HOOK_ROUTE;
use super::stream_position::LONG_POLL_MAX_SECONDS;
use super::{Shared, message_content};

/// At least one character that is not white space, and no NUL.
const NOT_BLANK: &str = r"^[^\x00]*[^\s\x00][^\x00]*$";
const EMPTY_OR_NOT_BLANK: &str = r"^([^\x00]*[^\s\x00][^\x00]*)?$";
/// Printable characters without leading or trailing white space.
const LABEL: &str = r"^[^\s\x00-\x1f\x7f-\x9f]([^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f])?$";
const ULID: &str = "^[0-7][0-9A-HJKMNP-TV-Z]{25}$";
const HASH: &str = "^[0-9a-f]{64}$";
const STATUSES: &str =
    "^(all|(active|suspended|archived|error)(,(active|suspended|archived|error))*)$";
const COMMIT_TYPES: &str = "^(normal|abandoned|stale_auto_compact|interrupted_by_new_task)\
    (,(normal|abandoned|stale_auto_compact|interrupted_by_new_task))*$";

/// Path suffixes of the operations whose body is optional.
const BODY_OPTIONAL: [&str; 7] =
    ["/cancel", "/fork", "/compact", "/retry", "/task/confirm", "/task/abandon", HOOK_ROUTE];

/// Read the OpenAPI document of this API
#[utoipa::path(
    get, path = "/api/openapi.json", tag = "operation",
    responses((status = 200, body = Object))
)]
pub(super) async fn openapi(State(state): State<Shared>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], state.openapi_document.clone())
}

/// Adds to the generated document the default error response, the limits of parameters and bodies,
/// and the names of providers and personas.
pub(super) fn complete(mut document: Value, providers: &Providers, needs_tokens: bool) -> Value {
    document["components"]["securitySchemes"] = json!({
        "token": {"type": "http", "scheme": "bearer"},
        "hook_secret": {"type": "http", "scheme": "bearer"},
        "hook_signature": {"type": "apiKey", "in": "header", "name": "X-Hub-Signature-256"},
    });
    document["paths"][HOOK_ROUTE]["post"]["security"] =
        json!([{"hook_secret": []}, {"hook_signature": []}]);
    if needs_tokens {
        document["security"] = json!([{"token": []}]);
    }
    let problem = json!({
        "description": "The request failed; `code` is stable, `detail` and `hint` are for people",
        "content": {
            "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}},
        },
    });
    let paths = document.get_mut("paths").and_then(Value::as_object_mut);
    for (path, operations) in paths.into_iter().flatten() {
        for operation in operations.as_object_mut().into_iter().flat_map(Map::values_mut) {
            if let Some(responses) = operation.get_mut("responses").and_then(Value::as_object_mut) {
                responses.entry("default").or_insert_with(|| problem.clone());
            }
            if BODY_OPTIONAL.iter().any(|end| path.ends_with(end))
                && operation.get("requestBody").is_some()
            {
                operation["requestBody"]["required"] = json!(false);
            }
            for parameter in
                operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten()
            {
                limit_parameter(path, parameter);
            }
        }
    }
    let schemas = document.pointer_mut("/components/schemas").and_then(Value::as_object_mut);
    for (name, schema) in schemas.into_iter().flatten() {
        if name == "FirstMessage" {
            let text = schema
                .get_mut("oneOf")
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten()
                .find(|one| one["type"] == "string");
            if let Some(text) = text {
                *text = message_text();
            }
        }
        if name.ends_with("Body") {
            limit_body(name, schema, providers);
        }
    }
    document
}

fn limit_parameter(path: &str, parameter: &mut Value) {
    let schema = match parameter["name"].as_str().unwrap_or_default() {
        "limit" => json!({"type": "integer", "minimum": 1, "maximum": 1000}),
        "order" => json!({"type": "string", "enum": ["asc", "desc"]}),
        "status" if path == "/api/outbox" => {
            json!({"type": "string", "enum": Status::ALL.map(Status::name)})
        }
        "status" => json!({"type": "string", "pattern": STATUSES}),
        "type" => json!({"type": "string", "pattern": COMMIT_TYPES}),
        "cursor" if path == "/api/sessions" => {
            json!({"type": "string", "pattern": "^s[0-9a-f]{48}$"})
        }
        "cursor" if path.ends_with("/messages") => {
            json!({"type": "string", "pattern": "^[ad][0-9a-f]{96}$"})
        }
        "cursor" if path.ends_with("/history") => {
            json!({"type": "string", "pattern": "^h[0-9a-f]{16}$"})
        }
        "cursor" if path.ends_with("/diff/{other}") => {
            json!({"type": "string", "pattern": "^t[0-9a-f]{16}$"})
        }
        "cursor" if path == "/api/aliases" => json!({"type": "string"}),
        "cursor" if path == "/api/entities" => json!({"type": "string", "pattern": ULID}),
        "cursor" if path.ends_with("/tasks") => json!({"type": "string", "pattern": ULID}),
        "cursor" if path == "/api/outbox" => {
            json!({"type": "string", "pattern": "^o[0-9a-f]{16}$"})
        }
        "cursor" if path.ends_with("/search") => {
            json!({"type": "string", "pattern": "^f[0-9a-f]{80}$"})
        }
        "cursor" if path.ends_with("/stream") => json!({"type": "string"}),
        "by" => json!({"type": "string", "enum": By::ALL.map(By::name)}),
        "since" => json!({"type": "string", "pattern": "^([0-9]{1,6}d|20[0-9]{2}-0[1-9]-0[1-9])$"}),
        "offset" => json!({"type": "string", "pattern": "^(-1|now|[0-9]{16})$"}),
        "live" => json!({"type": "string", "enum": ["long-poll", "sse"]}),
        "timeout" => json!({"type": "integer", "minimum": 1, "maximum": LONG_POLL_MAX_SECONDS}),
        "cursor" => json!({"type": "string", "pattern": HASH}),
        _ => return,
    };
    parameter["schema"] = schema;
}

fn message_text() -> Value {
    json!({"type": "string", "minLength": 1, "pattern": NOT_BLANK})
}

fn limit_body(name: &str, schema: &mut Value, providers: &Providers) {
    let line = || {
        json!({
            "type": ["string", "null"],
            "minLength": 1,
            "maxLength": FIELD_MAX_CHARS,
            "pattern": NOT_BLANK,
        })
    };
    let names = |names: Vec<&String>| {
        let all: Vec<Value> =
            names.into_iter().map(|name| json!(name)).chain([Value::Null]).collect();
        json!({"type": ["string", "null"], "enum": all})
    };
    schema["additionalProperties"] = json!(false);
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    for (field, property) in properties.iter_mut() {
        *property = match (name, field.as_str()) {
            (_, "title" | "model" | "project") => line(),
            ("ConfirmBody", "message") | ("AbandonBody", "reason") => line(),
            (_, "label") => {
                json!({"type": ["string", "null"], "maxLength": LABEL_MAX_CHARS, "pattern": LABEL})
            }
            (_, "options") => options(line()),
            (_, "text") => message_text(),
            (_, "provider_id") => names(providers.all.keys().collect()),
            (_, "persona") => names(providers.personas.keys().collect()),
            (_, "delivery") => {
                json!({"type": ["string", "null"], "enum": ["open", "hold", "refuse", null]})
            }
            (_, "queue_mode") => {
                json!({"type": ["string", "null"], "enum": Mode::ALL.map(Mode::name)})
            }
            (_, "source") => {
                let sources = ["human", "agent", "trigger", "webhook", "timer", "event"];
                json!({"type": ["string", "null"], "enum": sources})
            }
            ("PatchBody", "track_tasks") => json!({"type": "boolean"}),
            (_, "turn_id") => json!({"type": ["string", "null"], "pattern": HASH}),
            (_, "suspension_id") => json!({"type": "string", "pattern": ULID}),
            (_, "position") => json!({"type": "integer", "minimum": 1, "maximum": u32::MAX}),
            ("CompactBody", "focus") => {
                let pattern = r"^[^\x00]*$";
                let types = ["string", "null"];
                json!({"type": types, "maxLength": FOCUS_MAX_CHARS, "pattern": pattern})
            }
            ("AnswerBody", "choice") => {
                json!({"type": "string", "enum": ["continue", "start_fresh"]})
            }
            // An empty text removes the relationship.
            ("EntityPatchBody", "relationship") => {
                let mut text = channel_text(json!(["string", "null"]));
                text["minLength"] = json!(0);
                text["pattern"] = json!(EMPTY_OR_NOT_BLANK);
                text
            }
            ("InboundBody", "channel" | "sender_id")
            | ("IdentityBody", "channel" | "sender_id")
            | ("EntityBody", "name") => channel_text(json!("string")),
            ("InboundBody", "sender_name" | "peer_id" | "thread_id" | "reply_to_id")
            | ("InboundBody" | "IdentityBody", "account_id")
            | ("InboundBody", "message_id")
            | ("EntityPatchBody", "name")
            | (_, "relationship") => channel_text(json!(["string", "null"])),
            ("InboundBody", "peer_kind") => {
                json!({"type": ["string", "null"], "enum": ["dm", "group", "channel", null]})
            }
            ("InboundBody", "choice") => json!({"type": "string"}),
            ("EntityBody" | "EntityPatchBody", "kind") => {
                json!({"type": ["string", "null"], "enum": ["person", "agent", "service", null]})
            }
            ("AliasBody", "alias") => {
                json!({"type": "string", "maxLength": LABEL_MAX_CHARS, "pattern": LABEL})
            }
            ("MessageBody", "content") => message_content::content_schema(&message_text()),
            ("MessageBody", "tools") => tools(),
            _ => continue,
        };
    }
    match name {
        "ForkBody" => schema["not"] = json!({"required": ["turn_id", "before_compaction"]}),
        "MessageBody" => {
            schema["oneOf"] = json!([{"required": ["text"]}, {"required": ["content"]}]);
        }
        "InboundBody" => {
            schema["oneOf"] = json!([
                {"required": ["text"], "properties": {"suspension_id": false, "choice": false}},
                {"required": ["suspension_id", "choice"], "properties": {"text": false}},
            ]);
        }
        "ItemBody" => schema["oneOf"] = json!([{"required": ["text"]}, {"required": ["position"]}]),
        "RewindBody" => {
            schema["properties"]["turn_id"] = json!({"type": "string", "pattern": HASH});
        }
        _ => {}
    }
}

/// A text of an entity or an envelope. The limit is in bytes; a schema can only count characters.
fn channel_text(types: Value) -> Value {
    json!({
        "type": types,
        "description": format!("At most {FIELD_MAX_BYTES} bytes of UTF-8"),
        "minLength": 1,
        "maxLength": FIELD_MAX_BYTES,
        "pattern": NOT_BLANK,
    })
}

/// Options of an agent. A null value removes one option, null instead of the object removes all.
fn options(value: Value) -> Value {
    let name = json!({"minLength": 1, "maxLength": FIELD_MAX_CHARS, "pattern": NOT_BLANK});
    json!({
        "type": ["object", "null"],
        "maxProperties": 64,
        "propertyNames": name,
        "additionalProperties": value,
    })
}

/// Tools that the client executes.
fn tools() -> Value {
    let tool = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,64}$"},
            "description": {"type": "string"},
            "parameters": {"description": "A JSON Schema"},
        },
        "required": ["name"],
        "additionalProperties": false,
    });
    json!({"type": ["array", "null"], "maxItems": 128, "items": tool})
}
