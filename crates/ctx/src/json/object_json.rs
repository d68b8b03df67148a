//! A stored object, a search hit and a note of the narrative.

use ctx_engine::NarrativeNote;
use ctx_engine::core::object::Object;
use ctx_engine::core::search::{Hit, Page, Segment};
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

/// A page of search results. `segments` are the pieces of `snippet`, with the matching ones marked.
pub(crate) fn search_page(page: &Page) -> Value {
    json!({
        "hits": page.hits.iter().map(search_hit).collect::<Vec<_>>(),
        "next_cursor": page.next,
        "suggestions": page.suggestions,
        "lag": page.lag,
    })
}

fn search_hit(hit: &Hit) -> Value {
    let segment = |segment: &Segment| json!({"text": segment.text, "match": segment.is_match});
    json!({
        "kind": hit.kind.name(),
        "id": hit.id(),
        "session": hit.session,
        "session_label": hit.session_label,
        "session_title": hit.session_title,
        "project": hit.project,
        "turn": hit.turn,
        "message": hit.message,
        "role": hit.role,
        "task": hit.task,
        "commit": hit.commit,
        "outcome": hit.outcome,
        "at": time(hit.at),
        // Recency changes with each millisecond.
        "score": (hit.score * 1000.0).round() / 1000.0,
        "snippet": hit.text(),
        "segments": hit.snippet.iter().map(segment).collect::<Vec<_>>(),
    })
}

pub(crate) fn narrative_note(sentence: &NarrativeNote) -> Value {
    let mut value = json!(sentence);
    value["at"] = time(sentence.at);
    value
}
