//! The `content[]` of a sent message: text parts, and image parts in base64.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use ctx_engine::NewMessage;
use ctx_engine::core::image::{self, Format, IMAGE_MAX_BYTES, IMAGES_MAX};
use ctx_engine::core::message::Part;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::extractors::present;
use super::problem_details::{Error, HttpResult};

const PARTS_MAX: usize = 100;

/// Padding is optional because clients differ in it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A part of a sent message: `text`, or `media_type` and `data`
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PartBody {
    #[serde(rename = "type")]
    kind: PartKind,
    /// Only for `type: "text"`
    #[serde(default, deserialize_with = "present")]
    text: Option<String>,
    /// Only for `type: "image"`: image/png, image/jpeg, image/gif or image/webp
    #[serde(default, deserialize_with = "present")]
    media_type: Option<String>,
    /// Only for `type: "image"`: the bytes in base64
    #[serde(default, deserialize_with = "present")]
    data: Option<String>,
}

/// The type of a part. `PartBody` is not a tagged enum because serde would accept a number as tag.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum PartKind {
    Text,
    Image,
}

/// Adds the parts to the message. The image bytes are attached separately as blobs.
pub(super) fn add_parts(parts: Vec<PartBody>, into: &mut NewMessage) -> HttpResult<()> {
    if parts.is_empty() {
        return Err(Error::invalid("invalid_body", "`content` has no parts"));
    }
    if parts.len() > PARTS_MAX {
        return Err(Error::invalid(
            "invalid_body",
            format!("`content` has {} parts: the limit is {PARTS_MAX}", parts.len()),
        ));
    }
    for (at, part) in parts.into_iter().enumerate() {
        match (part.kind, part.text, part.media_type, part.data) {
            (PartKind::Text, Some(text), None, None) => into.content.push(Part::Text { text }),
            (PartKind::Text, ..) => {
                return Err(Error::invalid(
                    "invalid_body",
                    format!("invalid `content[{at}]`: a text part has only `text`"),
                ));
            }
            (PartKind::Image, None, Some(media_type), Some(data)) => {
                let (format, bytes) =
                    decode_image(&media_type, &data).map_err(|why| bad_image(at, &why))?;
                into.show(format, bytes);
            }
            (PartKind::Image, ..) => {
                return Err(bad_image(at, "an image part has only `media_type` and `data`"));
            }
        }
    }
    Ok(())
}

fn bad_image(at: usize, why: &str) -> Error {
    Error::invalid("bad_image", format!("invalid image in `content[{at}]`: {why}"))
}

pub(super) fn decode_image(media_type: &str, data: &str) -> Result<(Format, Vec<u8>), String> {
    // A too large image is rejected before it is decoded.
    if data.len() / 4 * 3 > IMAGE_MAX_BYTES + 3 {
        return Err(image::BadImage::TooLarge { bytes: data.len() / 4 * 3 }.to_string());
    }
    let bytes = BASE64.decode(data).map_err(|fault| format!("`data` is not base64: {fault}"))?;
    let format = image::check(media_type, &bytes).map_err(|why| why.to_string())?;
    Ok((format, bytes))
}

/// The JSON Schema of `content` for the OpenAPI document; `text_schema` is that of a text.
pub(super) fn content_schema(text_schema: &Value) -> Value {
    let object = |properties: Value, required: Value| {
        json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    };
    let text =
        object(json!({"type": {"const": "text"}, "text": text_schema}), json!(["type", "text"]));
    let image = |format: &Format| {
        let data = json!({
            "type": "string",
            "contentEncoding": "base64",
            "pattern": base64_pattern(*format),
            "maxLength": IMAGE_MAX_BYTES / 3 * 4,
        });
        let media_type = json!({"const": format.media_type()});
        let properties =
            json!({"type": {"const": "image"}, "media_type": media_type, "data": data});
        object(properties, json!(["type", "media_type", "data"]))
    };
    let parts: Vec<Value> = std::iter::once(text).chain(Format::ALL.iter().map(image)).collect();
    // The limit of images, which is lower than that of parts: all parts may be images.
    json!({"type": "array", "minItems": 1, "maxItems": IMAGES_MAX, "items": {"oneOf": parts}})
}

/// Matches base64 whose first bytes are the signature of the format.
const fn base64_pattern(format: Format) -> &'static str {
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
    fn data_that_matches_the_schema_is_an_image() {
        let samples = [
            ("image/png", "iVBORw0KGgrA"),
            ("image/jpeg", "/9j/"),
            ("image/gif", "R0lGODdhAAAA"),
            ("image/webp", "UklGRlQ4BwBXRUJQ"),
        ];
        for (media_type, data) in samples {
            assert!(decode_image(media_type, data).is_ok(), "{media_type}");
        }
        assert!(
            decode_image("image/jpeg", "/9j/4A").is_ok()
                && decode_image("image/jpeg", "/9j/4A==").is_ok(),
            "padding is optional"
        );
        assert!(
            decode_image("image/jpeg", "data:image/jpeg;base64,/9j/")
                .is_err_and(|why| why.contains("base64"))
        );
        assert!(decode_image("image/gif", "/9j/").is_err_and(|why| why.contains("image/gif")));
        let large = "/9j/".repeat((IMAGE_MAX_BYTES / 3) + 2);
        assert!(
            decode_image("image/jpeg", &large).is_err_and(|why| why.contains("exceed the limit"))
        );
    }
}
