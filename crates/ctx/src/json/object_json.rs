//! A stored object, a search hit and a note of the narrative.

use ctx_engine::core::object::Object;
use ctx_engine::{Hit, NarrativeNote};
use serde_json::{Value, json};

use super::time;

/// `content` is the parsed JSON of the object. For a blob it is the text, or `{hex}` if the bytes
/// are not UTF-8.
pub(crate) fn object(object: &Object) -> Value {
    let content = match serde_json::from_slice::<Value>(&object.bytes) {
        Ok(value) if object.kind.name() != "blob" => value,
        _ => match std::str::from_utf8(&object.bytes) {
            Ok(text) => json!(text),
            Err(_) => {
                let hex: String = object.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                json!({"hex": hex})
            }
        },
    };
    json!({
        "id": object.id(),
        "kind": object.kind.name(),
        "version": object.version,
        "size": object.bytes.len(),
        "content": content,
    })
}

pub(crate) fn search_hit(hit: &Hit) -> Value {
    let mut value = json!(hit);
    value["at"] = time(hit.at);
    value
}

pub(crate) fn narrative_note(sentence: &NarrativeNote) -> Value {
    let mut value = json!(sentence);
    value["at"] = time(sentence.at);
    value
}
