//! The content of a message that a client sends: a text, or a list of parts.

use ctx_engine::core::id::BlobId;
use ctx_engine::core::message::Part;
use ctx_engine::core::object::{Named, Object};
use serde_json::Value;

use super::super::message_content::decode_image;
use super::api_error::{ApiError, ApiResult};

/// Most parts of one message.
const PARTS_MAX: usize = 1000;

/// Reads the texts and images of a message. The bytes of the images are added to `blobs`.
pub(super) fn parts(
    content: &Value,
    field: &'static str,
    blobs: &mut Vec<Named>,
) -> ApiResult<Vec<Part>> {
    match content {
        Value::Null => Ok(Vec::new()),
        Value::String(text) => Ok(vec![Part::Text { text: text.clone() }]),
        Value::Array(parts) if parts.len() > PARTS_MAX => {
            Err(ApiError::invalid(field, format!("a message has more than {PARTS_MAX} parts")))
        }
        Value::Array(parts) => parts.iter().map(|part| one(part, field, blobs)).collect(),
        _ => Err(ApiError::invalid(field, "`content` must be a string or a list of parts")),
    }
}

/// The texts of a message, without its other parts.
pub(super) fn text(content: &Value, field: &'static str) -> ApiResult<String> {
    let parts = parts(content, field, &mut Vec::new())?;
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(text.as_str()),
        _ => None,
    });
    Ok(texts.collect::<Vec<_>>().join("\n"))
}

fn one(part: &Value, field: &'static str, blobs: &mut Vec<Named>) -> ApiResult<Part> {
    let missing = |name: &str| ApiError::invalid(field, format!("a part has no `{name}`"));
    match part["type"].as_str() {
        Some("text" | "input_text" | "output_text") => {
            let text = part["text"].as_str().ok_or_else(|| missing("text"))?;
            Ok(Part::Text { text: text.to_owned() })
        }
        Some("refusal") => {
            let text = part["refusal"].as_str().ok_or_else(|| missing("refusal"))?;
            Ok(Part::Text { text: text.to_owned() })
        }
        Some("image_url" | "input_image") => {
            let url = part["image_url"]["url"].as_str().or_else(|| part["image_url"].as_str());
            image(url.ok_or_else(|| missing("image_url"))?, field, blobs)
        }
        Some(other) => {
            let other: String = other.chars().take(50).collect();
            Err(ApiError::invalid(field, format!("parts of type `{other}` are not supported")))
        }
        None => Err(missing("type")),
    }
}

fn image(url: &str, field: &'static str, blobs: &mut Vec<Named>) -> ApiResult<Part> {
    let data = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    let Some((media_type, data)) = data else {
        return Err(ApiError::invalid(
            field,
            "an image must be a data: URL with base64; ctx fetches no images from other servers",
        ));
    };
    let (format, bytes) = decode_image(media_type, data)
        .map_err(|why| ApiError::invalid(field, format!("invalid image: {why}")))?;
    let size = bytes.len() as u64;
    let object = Named::from(Object::blob(bytes));
    let blob = BlobId(object.id());
    blobs.push(object);
    Ok(Part::Image { media_type: format.media_type().to_owned(), blob, bytes: Some(size) })
}
