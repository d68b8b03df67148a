//! Token counts: exact if the model's vocabulary is known, estimated otherwise, and corrected by
//! the provider's counts of earlier turns.

use ctx_core::inbox::Tool;
use ctx_core::message::{Message, Part};
use ctx_core::stored_content::Content;
use tiktoken::CoreBpe;

/// Tokens of a message without its content.
pub(crate) const MESSAGE_TOKENS: u64 = 4;
/// Tokens of a tool call, a result or a tool definition without its content.
const CALL_TOKENS: u64 = 8;
/// Tokens of an image, independent of its size.
const IMAGE_TOKENS: u64 = 1100;
/// The vocabulary for models whose own is not known. It takes half the memory of `o200k_base`.
const USUAL: &str = "cl100k_base";
/// Smallest correction that is accepted, in thousandths.
const CORRECTION_MIN: u64 = 700;
/// Largest correction that is accepted, in thousandths.
pub(crate) const CORRECTION_MAX: u64 = 3000;
/// The correction of an exact count.
pub(crate) const EXACT: u64 = 1000;

/// Counts the tokens of a text.
pub(crate) trait Counter: Send + Sync {
    fn count(&self, text: &str) -> u64;
}

impl Counter for &'static CoreBpe {
    fn count(&self, text: &str) -> u64 {
        CoreBpe::count(self, text) as u64
    }
}

/// Estimates from bytes, if no vocabulary is available.
struct Bytes;

impl Counter for Bytes {
    fn count(&self, text: &str) -> u64 {
        text.len().div_ceil(4) as u64
    }
}

/// The counter for a model. A vocabulary is loaded at its first use.
pub(crate) fn counter(model: Option<&str>) -> Box<dyn Counter> {
    let own = model.and_then(tiktoken::encoding_for_model);
    match own.or_else(|| tiktoken::get_encoding(USUAL)) {
        Some(vocabulary) => Box::new(vocabulary),
        None => Box::new(Bytes),
    }
}

/// The tokens of a text, for a model whose vocabulary is not known.
pub(crate) fn count_tokens(text: &str) -> u64 {
    counter(None).count(text)
}

/// The tokens of a message.
pub(crate) fn message(counter: &dyn Counter, message: &Message) -> u64 {
    let parts = message.content.iter().map(|part| match part {
        Part::Text { text } | Part::Summary { text } | Part::Thought { text, .. } => {
            counter.count(text)
        }
        Part::ToolCall { id, name, params, .. } => {
            CALL_TOKENS
                + counter.count(id)
                + counter.count(name)
                + counter.count(&params.to_string())
        }
        Part::ToolResult { tool_call_id, content, .. } => {
            CALL_TOKENS + counter.count(tool_call_id) + counter.count(text_of(content))
        }
        Part::Image { .. } => IMAGE_TOKENS,
        Part::Error { .. } | Part::Plan { .. } | Part::Record { .. } => 0,
    });
    MESSAGE_TOKENS + parts.sum::<u64>()
}

pub(crate) fn messages(counter: &dyn Counter, all: &[Message]) -> u64 {
    all.iter().map(|one| message(counter, one)).sum()
}

/// The tokens of a tool definition.
pub(crate) fn tool(counter: &dyn Counter, tool: &Tool) -> u64 {
    CALL_TOKENS
        + counter.count(&tool.name)
        + counter.count(&tool.description)
        + counter.count(&tool.parameters.to_string())
}

/// An upper bound for the tokens of a tool definition.
pub(crate) fn tool_at_most(tool: &Tool) -> u64 {
    let parameters = tool.parameters.to_string().len();
    CALL_TOKENS + (tool.name.len() + tool.description.len() + parameters) as u64
}

/// An upper bound for the tokens of a message: a token has at least one byte.
pub(crate) fn at_most(message: &Message) -> u64 {
    let parts = message.content.iter().map(|part| match part {
        Part::Text { text } | Part::Summary { text } | Part::Thought { text, .. } => {
            text.len() as u64
        }
        Part::ToolCall { id, name, params, .. } => {
            CALL_TOKENS + (id.len() + name.len() + params.to_string().len()) as u64
        }
        Part::ToolResult { tool_call_id, content, .. } => {
            CALL_TOKENS + (tool_call_id.len() + text_of(content).len()) as u64
        }
        Part::Image { .. } => IMAGE_TOKENS,
        Part::Error { .. } | Part::Plan { .. } | Part::Record { .. } => 0,
    });
    MESSAGE_TOKENS + parts.sum::<u64>()
}

fn text_of(content: &Content) -> &str {
    content.text().unwrap_or_default()
}

/// The provider's count relative to ours, in thousandths, within the accepted range.
pub(crate) const fn correction(reported: u64, ours: u64) -> u64 {
    if ours == 0 {
        return EXACT;
    }
    let ratio = reported.saturating_mul(EXACT) / ours;
    match ratio {
        0..CORRECTION_MIN => CORRECTION_MIN,
        CORRECTION_MIN..=CORRECTION_MAX => ratio,
        _ => CORRECTION_MAX,
    }
}

/// Our count with the correction applied.
pub(crate) const fn corrected(ours: u64, correction: u64) -> u64 {
    ours.saturating_mul(correction).div_ceil(EXACT)
}

/// The largest count of ours that is within a limit after the correction.
pub(crate) const fn uncorrected(limit: u64, correction: u64) -> u64 {
    match limit.saturating_mul(EXACT).checked_div(correction) {
        Some(ours) => ours,
        None => limit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctx_core::id::MessageId;
    use ctx_core::message::Role;
    use ctx_core::time::Timestamp;
    use ulid::Ulid;

    #[test]
    fn known_models_are_counted_with_their_own_vocabulary() {
        let text = "The quick brown fox jumps over the lazy dog. Größe 東京";
        let (new, old) = (counter(Some("gpt-4o")).count(text), counter(Some("gpt-4")).count(text));
        assert_eq!(
            new,
            tiktoken::get_encoding("o200k_base").expect("there").encode(text).len() as u64
        );
        assert_eq!(
            old,
            tiktoken::get_encoding("cl100k_base").expect("there").encode(text).len() as u64
        );
        assert_eq!(counter(Some("some-model")).count(text), old, "others are estimated");
        assert_eq!(counter(None).count(""), 0);
    }

    #[test]
    fn a_text_never_has_more_tokens_than_the_bound() {
        let counter = counter(None);
        for text in
            ["", "a", "\u{1F600}\u{1F680}", "\0\u{1}", &"xyz ".repeat(500), &"é".repeat(999)]
        {
            let content = vec![Part::Text { text: text.to_owned() }];
            let one = Message {
                id: MessageId(Ulid(1)),
                role: Role::User,
                source: None,
                content,
                created_at: Timestamp(1),
            };
            assert!(message(counter.as_ref(), &one) <= at_most(&one), "{text:?}");
        }
    }

    #[test]
    fn a_long_text_without_spaces_is_counted_quickly() {
        let started = std::time::Instant::now();
        assert!(counter(None).count(&"x".repeat(1_000_000)) > 0);
        assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
    }

    #[test]
    fn the_correction_by_the_providers_count_is_bounded() {
        assert_eq!(correction(120, 100), 1200);
        assert_eq!(corrected(100, 1200), 120);
        assert_eq!(corrected(100, EXACT), 100);
        for (limit, correction) in [(1000, 1300), (999, 701), (7, 3000), (0, 1000)] {
            let largest = uncorrected(limit, correction);
            assert!(corrected(largest, correction) <= limit, "{limit} {correction}");
            assert!(corrected(largest + 1, correction) > limit, "{limit} {correction}");
        }
        assert_eq!(
            (correction(1, 100), correction(100_000, 100), correction(5, 0)),
            (CORRECTION_MIN, CORRECTION_MAX, EXACT)
        );
    }
}
