//! The parts of a message that is sent: words, and pictures coded as base64.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use ctx_engine::Outgoing;
use ctx_engine::core::image::{self, Format, IMAGE_MAX_BYTES, IMAGES_MAX};
use ctx_engine::core::message::Part;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::error::{Answer, Error};
use super::extract::given;

/// The most parts of one message.
const PARTS_MAX: usize = 100;

/// Clients differ in whether they pad; what they mean is the same.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A part of a message that is sent: `text`, or `media_type` and `data`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GivenPart {
    #[serde(rename = "type")]
    kind: GivenKind,
    /// The words of a text.
    #[serde(default, deserialize_with = "given")]
    text: Option<String>,
    /// What a picture is: image/png, image/jpeg, image/gif or image/webp
    #[serde(default, deserialize_with = "given")]
    media_type: Option<String>,
    /// Its bytes, as base64
    #[serde(default, deserialize_with = "given")]
    data: Option<String>,
}

/// What a part is. A struct beside it and not a tagged enum, which would take a number for the name.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum GivenKind {
    Text,
    Image,
}

/// Puts parts into a message; the bytes of pictures go beside it.
pub(super) fn put(parts: Vec<GivenPart>, into: &mut Outgoing) -> Answer<()> {
    if parts.is_empty() {
        return Err(Error::invalid("invalid_body", "`content` is empty"));
    }
    if parts.len() > PARTS_MAX {
        return Err(Error::invalid(
            "invalid_body",
            format!("`content` has {} parts, and at most {PARTS_MAX} are taken", parts.len()),
        ));
    }
    for (at, part) in parts.into_iter().enumerate() {
        match (part.kind, part.text, part.media_type, part.data) {
            (GivenKind::Text, Some(text), None, None) => into.content.push(Part::Text { text }),
            (GivenKind::Text, ..) => {
                return Err(Error::invalid(
                    "invalid_body",
                    format!("`content[{at}]`: a text has `text` and nothing else"),
                ));
            }
            (GivenKind::Image, None, Some(media_type), Some(data)) => {
                let (format, bytes) = picture(&media_type, &data).map_err(|why| bad(at, &why))?;
                into.show(format, bytes);
            }
            (GivenKind::Image, ..) => {
                return Err(bad(at, "it has `media_type` and `data` and nothing else"));
            }
        }
    }
    Ok(())
}

fn bad(at: usize, why: &str) -> Error {
    Error::invalid("bad_image", format!("`content[{at}]`: the picture was not taken: {why}"))
}

fn picture(media_type: &str, data: &str) -> Result<(Format, Vec<u8>), String> {
    // What is too large is not decoded first.
    if data.len() / 4 * 3 > IMAGE_MAX_BYTES + 3 {
        return Err(image::BadImage::TooLarge { bytes: data.len() / 4 * 3 }.to_string());
    }
    let bytes = BASE64.decode(data).map_err(|fault| format!("its `data` is no base64: {fault}"))?;
    let format = image::check(media_type, &bytes).map_err(|why| why.to_string())?;
    Ok((format, bytes))
}

/// What `content` may hold, for the description of the API; `words` is what a text may say.
pub(super) fn described(words: &Value) -> Value {
    let object = |properties: Value, required: Value| json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
    let text = object(json!({"type": {"const": "text"}, "text": words}), json!(["type", "text"]));
    let image = |format: &Format| {
        let data = json!({"type": "string", "contentEncoding": "base64", "pattern": beginning(*format), "maxLength": IMAGE_MAX_BYTES / 3 * 4});
        let properties = json!({"type": {"const": "image"}, "media_type": {"const": format.media_type()}, "data": data});
        object(properties, json!(["type", "media_type", "data"]))
    };
    let parts: Vec<Value> = std::iter::once(text).chain(Format::ALL.iter().map(image)).collect();
    // Fewer parts than are taken, but never too many pictures among them.
    json!({"type": "array", "minItems": 1, "maxItems": IMAGES_MAX, "items": {"oneOf": parts}})
}

/// How the base64 of a picture looks: its first bytes say what it is.
const fn beginning(format: Format) -> &'static str {
    match format {
        Format::Png => "^iVBORw0KGg[o-r][A-Za-z0-9+/]([A-Za-z0-9+/]{4})*$",
        Format::Jpeg => "^/9j/([A-Za-z0-9+/]{4})*$",
        Format::Gif => "^R0lGOD[dl]h([A-Za-z0-9+/]{4})*$",
        Format::Webp => "^UklGR[g-v][A-Za-z0-9+/]{4}[BFJNRVZdhlptx159]XRUJQ([A-Za-z0-9+/]{4})*$",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_description_allows_is_a_picture() {
        let samples = [
            ("image/png", "iVBORw0KGgrA"),
            ("image/jpeg", "/9j/"),
            ("image/gif", "R0lGODdhAAAA"),
            ("image/webp", "UklGRlQ4BwBXRUJQ"),
        ];
        for (media_type, data) in samples {
            assert!(picture(media_type, data).is_ok(), "{media_type}");
        }
        assert!(
            picture("image/jpeg", "/9j/4A").is_ok() && picture("image/jpeg", "/9j/4A==").is_ok(),
            "padded or not"
        );
        assert!(
            picture("image/jpeg", "data:image/jpeg;base64,/9j/")
                .is_err_and(|why| why.contains("base64"))
        );
        assert!(picture("image/gif", "/9j/").is_err_and(|why| why.contains("image/gif")));
        let large = "/9j/".repeat((IMAGE_MAX_BYTES / 3) + 2);
        assert!(picture("image/jpeg", &large).is_err_and(|why| why.contains("at most")));
    }
}
