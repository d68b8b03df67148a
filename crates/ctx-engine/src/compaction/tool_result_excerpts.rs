//! Shortens tool results in one request, where a summary does not suffice. The stored results are
//! not changed.

use ctx_core::message::Part;
use ctx_core::stored_content::Content;

use super::token_count::{self, corrected};
use crate::context::Assembled;

/// Number of characters that are kept at each end of a result.
const END_CHARS: usize = 800;

impl Assembled {
    /// Shortens tool results, the oldest first, until the request has at most `tokens_max` tokens.
    /// Returns whether a result was shortened.
    pub(crate) fn shorten_tool_results(&mut self, tokens_max: u64) -> bool {
        let size = self.measure();
        let (mut total, mut shortened_any) = (size.total(), false);
        let counter = token_count::counter(self.request.model.as_deref());
        let from = self.request.own.as_ref().map_or(0, |own| own.unseen);
        for part in
            self.request.messages[from..].iter_mut().flat_map(|message| &mut message.content)
        {
            if total <= tokens_max {
                break;
            }
            let Part::ToolResult { content: Content::Text(text), .. } = part else { continue };
            let Some(short) = shortened(text) else { continue };
            let gained = counter.count(text).saturating_sub(counter.count(&short));
            total = total.saturating_sub(corrected(gained, size.correction));
            *text = short;
            shortened_any = true;
        }
        shortened_any
    }
}

/// Both ends of a long text; none where that would not be shorter.
fn shortened(text: &str) -> Option<String> {
    let chars = text.chars().count();
    if chars <= 3 * END_CHARS {
        return None;
    }
    let head: String = text.chars().take(END_CHARS).collect();
    let tail: String = text.chars().skip(chars - END_CHARS).collect();
    Some(format!("{head}\n[shortened to fit the context: {} bytes in all]\n{tail}", text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_texts_are_cut_to_their_ends() {
        assert_eq!(shortened(&"x".repeat(3 * END_CHARS)), None);
        let long = format!("begin{}end", "é".repeat(10_000));
        let short = shortened(&long).expect("long");
        assert!(
            short.starts_with("begin")
                && short.ends_with("end")
                && short.contains("20008 bytes in all"),
            "{short}"
        );
        assert!(short.chars().count() < 2 * END_CHARS + 100);
    }
}
