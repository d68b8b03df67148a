//! The content blocks of a prompt as a message: text, links and embedded resources become text,
//! images stay images.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ctx_engine::NewMessage;
use ctx_engine::core::image::{self, Format};
use ctx_engine::core::message::Part;
use ctx_providers::json_rpc::RpcError;
use serde_json::Value;

use super::invalid_params;

/// Maximum number of content blocks of a prompt.
const BLOCKS_MAX: usize = 1000;

/// Reads `prompt` of `session/prompt`.
pub(super) fn message(prompt: &Value) -> Result<NewMessage, RpcError> {
    let blocks = prompt.as_array().ok_or_else(|| invalid_params("`prompt` is not a list"))?;
    if blocks.len() > BLOCKS_MAX {
        return Err(invalid_params(format!("a prompt has at most {BLOCKS_MAX} blocks")));
    }
    let mut text = Text::default();
    let mut images = Vec::new();
    for (at, block) in blocks.iter().enumerate() {
        let bad = |why: String| invalid_params(format!("invalid `prompt[{at}]`: {why}"));
        let field = |path: &str| block.pointer(path).and_then(Value::as_str);
        let required = |path: &str| field(path).ok_or_else(|| bad(format!("`{path}` is missing")));
        match required("/type")? {
            "text" => text.add_block(required("/text")?),
            "resource_link" => {
                let uri = required("/uri")?;
                text.inline.push_str(&format!("[@{}]({uri})", field("/name").unwrap_or(uri)));
                text.after_text_block = false;
            }
            "image" => images.push(
                decoded(required("/mimeType")?, required("/data")?)
                    .map_err(|why| bad(format!("{why} (an image)")))?,
            ),
            "resource" => match (field("/resource/text"), field("/resource/blob")) {
                (Some(content), _) => text.attach(required("/resource/uri")?, content),
                (None, Some(data)) => {
                    let media_type = field("/resource/mimeType").unwrap_or_default();
                    match decoded(media_type, data) {
                        Ok(image) => images.push(image),
                        Err(_) => text.attach(required("/resource/uri")?, "[binary content]"),
                    }
                }
                (None, None) => return Err(bad("the resource has neither text nor blob".into())),
            },
            other => return Err(bad(format!("content of type `{other}` is not supported"))),
        }
    }
    let mut message = NewMessage::default();
    let text = text.joined();
    if !text.is_empty() {
        message.content.push(Part::Text { text });
    }
    for (format, bytes) in images {
        message.show(format, bytes);
    }
    if message.content.is_empty() {
        return Err(invalid_params("the prompt is empty"));
    }
    Ok(message)
}

#[derive(Default)]
struct Text {
    /// Text and links, in their order.
    inline: String,
    /// Embedded resources, which follow the text.
    attached: String,
    after_text_block: bool,
}

impl Text {
    /// Two text blocks in a row are separate paragraphs.
    fn add_block(&mut self, block: &str) {
        let is_joined = self.inline.ends_with(char::is_whitespace)
            || block.starts_with(char::is_whitespace)
            || block.is_empty();
        if self.after_text_block && !is_joined {
            self.inline.push_str("\n\n");
        }
        self.inline.push_str(block);
        self.after_text_block = !block.is_empty();
    }

    fn attach(&mut self, uri: &str, content: &str) {
        self.attached.push_str(&format!("\n\n<resource uri=\"{uri}\">\n{content}\n</resource>"));
        self.after_text_block = false;
    }

    fn joined(self) -> String {
        (self.inline + &self.attached).trim().to_owned()
    }
}

fn decoded(media_type: &str, data: &str) -> Result<(Format, Vec<u8>), String> {
    let bytes = STANDARD.decode(data).map_err(|fault| format!("`data` is not base64: {fault}"))?;
    let format = image::check(media_type, &bytes).map_err(|why| why.to_string())?;
    Ok((format, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn text_of(prompt: Value) -> String {
        let message = message(&prompt).expect("a message");
        let Some(Part::Text { text }) = message.content.first() else { panic!("{message:?}") };
        text.clone()
    }

    #[test]
    fn links_are_inline_and_resources_follow_the_text() {
        let resource = json!({"uri": "file:///b.rs", "text": "fn b() {}"});
        let prompt = json!([
            {"type": "text", "text": "Compare "},
            {"type": "resource_link", "name": "a.rs", "uri": "file:///a.rs"},
            {"type": "resource", "resource": resource},
            {"type": "text", "text": " and b"},
        ]);
        let expected = "Compare [@a.rs](file:///a.rs) and b\n\n\
                        <resource uri=\"file:///b.rs\">\nfn b() {}\n</resource>";
        assert_eq!(text_of(prompt), expected);
        let two = json!([{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}]);
        assert_eq!(text_of(two), "One.\n\nTwo.");
    }

    #[test]
    fn image_is_a_part_of_its_own() {
        let png = json!({"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgrA"});
        let message = message(&json!([{"type": "text", "text": "Look"}, png])).expect("a message");
        assert!(
            matches!(message.content.as_slice(), [Part::Text { .. }, Part::Image { .. }])
                && message.blobs.len() == 1
        );
    }

    #[test]
    fn bad_block_names_its_place() {
        for (prompt, part) in [
            (json!("hello"), "not a list"),
            (json!([]), "empty"),
            (json!([{"type": "text", "text": "a"}, {"type": "text"}]), "prompt[1]"),
            (json!([{"type": "audio", "data": "", "mimeType": "audio/wav"}]), "audio"),
            (json!([{"type": "image", "mimeType": "image/png", "data": "!"}]), "base64"),
        ] {
            let error = message(&prompt).expect_err("refused");
            assert!(error.message.contains(part), "{}", error.message);
        }
    }
}
