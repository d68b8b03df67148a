//! The OpenAPI document: made from the handlers, then told the bounds that rules set and what only the running program
//! knows, so that what the document allows is taken.

use ctx_engine::Providers;
use ctx_engine::core::compaction::FOCUS_MAX_CHARS;
use ctx_engine::core::decide::FIELD_MAX_CHARS;
use ctx_engine::core::inbox::Mode;
use ctx_engine::core::session::LABEL_MAX_CHARS;
use serde_json::{Map, Value, json};

use super::parts;

/// Something that is not only white space, without a NUL.
const SAYS: &str = r"^[^\x00]*[^\s\x00][^\x00]*$";
/// Printable, no white space at its ends.
const LABEL: &str = r"^[^\s\x00-\x1f\x7f-\x9f]([^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f])?$";
const ULID: &str = "^[0-7][0-9A-HJKMNP-TV-Z]{25}$";
const HASH: &str = "^[0-9a-f]{64}$";
const STATUSES: &str =
    "^(all|(active|suspended|archived|error)(,(active|suspended|archived|error))*)$";
const COMMIT_TYPES: &str = "^(normal|abandoned|stale_auto_compact|interrupted_by_new_task)(,(normal|abandoned|stale_auto_compact|interrupted_by_new_task))*$";

/// Operations that take no body for an empty one.
const MAY_BE_EMPTY: [&str; 4] = ["/cancel", "/fork", "/compact", "/retry"];

/// Adds the error that any operation may give, the bounds of what comes in, and the names that this server takes.
pub(super) fn complete(mut document: Value, providers: &Providers, needs_tokens: bool) -> Value {
    document["components"]["securitySchemes"] =
        json!({"token": {"type": "http", "scheme": "bearer"}});
    if needs_tokens {
        document["security"] = json!([{"token": []}]);
    }
    let problem = json!({
        "description": "What went wrong, why, and what to do next",
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    });
    let paths = document.get_mut("paths").and_then(Value::as_object_mut);
    for (path, operations) in paths.into_iter().flatten() {
        for operation in operations.as_object_mut().into_iter().flat_map(Map::values_mut) {
            if let Some(responses) = operation.get_mut("responses").and_then(Value::as_object_mut) {
                responses.entry("default").or_insert_with(|| problem.clone());
            }
            if MAY_BE_EMPTY.iter().any(|end| path.ends_with(end))
                && operation.get("requestBody").is_some()
            {
                operation["requestBody"]["required"] = json!(false);
            }
            for parameter in
                operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten()
            {
                bound_parameter(path, parameter);
            }
        }
    }
    let schemas = document.pointer_mut("/components/schemas").and_then(Value::as_object_mut);
    for (name, schema) in schemas.into_iter().flatten() {
        if name == "FirstMessage" {
            let plain = schema
                .get_mut("oneOf")
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten()
                .find(|one| one["type"] == "string");
            if let Some(plain) = plain {
                *plain = words();
            }
        }
        if name.ends_with("Body") {
            bound_body(name, schema, providers);
        }
    }
    document
}

fn bound_parameter(path: &str, parameter: &mut Value) {
    let bounds = match parameter["name"].as_str().unwrap_or_default() {
        "limit" => json!({"type": "integer", "minimum": 1, "maximum": 1000}),
        "order" => json!({"type": "string", "enum": ["asc", "desc"]}),
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
        "cursor" if path.ends_with("/tasks") => json!({"type": "string", "pattern": ULID}),
        "cursor" if path.ends_with("/search") => {
            json!({"type": "string", "pattern": "^f[0-9a-f]{48}$"})
        }
        "cursor" => json!({"type": "string", "pattern": HASH}),
        _ => return,
    };
    parameter["schema"] = bounds;
}

/// What a message may say.
fn words() -> Value {
    json!({"type": "string", "minLength": 1, "pattern": SAYS})
}

/// What the fields of bodies may hold.
fn bound_body(name: &str, schema: &mut Value, providers: &Providers) {
    let line = || json!({"type": ["string", "null"], "minLength": 1, "maxLength": FIELD_MAX_CHARS, "pattern": SAYS});
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
            (_, "label") => {
                json!({"type": ["string", "null"], "maxLength": LABEL_MAX_CHARS, "pattern": LABEL})
            }
            (_, "options") => options(line()),
            (_, "text") => words(),
            (_, "provider_id") => names(providers.all.keys().collect()),
            (_, "persona") => names(providers.personas.keys().collect()),
            (_, "delivery") => {
                json!({"type": ["string", "null"], "enum": ["open", "hold", "refuse", null]})
            }
            (_, "queue_mode") => {
                json!({"type": ["string", "null"], "enum": Mode::ALL.map(Mode::name)})
            }
            (_, "source") => {
                json!({"type": ["string", "null"], "enum": ["human", "agent", "trigger", "webhook", "timer", "event"]})
            }
            ("PatchBody", "track_tasks") => json!({"type": "boolean"}),
            (_, "turn_id") => json!({"type": ["string", "null"], "pattern": HASH}),
            (_, "suspension_id") => json!({"type": "string", "pattern": ULID}),
            (_, "position") => json!({"type": "integer", "minimum": 1, "maximum": u32::MAX}),
            ("CompactBody", "focus") => {
                json!({"type": ["string", "null"], "maxLength": FOCUS_MAX_CHARS, "pattern": r"^[^\x00]*$"})
            }
            ("AnswerBody", "choice") => {
                json!({"type": "string", "enum": ["continue", "start_fresh"]})
            }
            ("MessageBody", "content") => parts::described(&words()),
            ("MessageBody", "tools") => tools(),
            _ => continue,
        };
    }
    match name {
        "ForkBody" => schema["not"] = json!({"required": ["turn_id", "before_compaction"]}),
        "MessageBody" => {
            schema["oneOf"] = json!([{"required": ["text"]}, {"required": ["content"]}])
        }
        "ItemBody" => schema["oneOf"] = json!([{"required": ["text"]}, {"required": ["position"]}]),
        "RewindBody" => {
            schema["properties"]["turn_id"] = json!({"type": "string", "pattern": HASH})
        }
        _ => {}
    }
}

/// Settings of an agent; null removes one, or all.
fn options(value: Value) -> Value {
    let name = json!({"minLength": 1, "maxLength": FIELD_MAX_CHARS, "pattern": SAYS});
    json!({"type": ["object", "null"], "maxProperties": 64, "propertyNames": name, "additionalProperties": value})
}

/// Tools that the client answers.
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
