//! Compaction: a summary takes the place of earlier turns in the context window, and nowhere else (R168–R178).
//!
//! | file | owns |
//! |---|---|
//! | this one | the row that a compaction leaves, and the words that ask for one |
//! | [`boundary`] | how far back a request reaches |
//! | [`plan`] | when it is due, and where the history is split |
//! | [`skeleton`] | what a summary keeps whoever writes it |
//! | [`request`] | what a model is asked, and what is told where no model can be asked |
//!
//! A compaction is a turn like any other: it hangs under the head and moves it. The turns it summarises and the turns
//! it keeps lie before it in the tree, untouched.

pub mod boundary;
pub mod plan;
pub mod request;
pub mod skeleton;

use serde::{Deserialize, Serialize};

use crate::id::TurnId;
use crate::text::one_line;
use skeleton::Skeleton;

/// The longest focus, in characters; what a message has more is left out.
pub const FOCUS_MAX_CHARS: usize = 2000;
/// What a message begins with that asks for a compaction.
const COMMAND: &str = "/compact";

/// Why the context was made shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// What was to be sent filled too much of the window.
    Proactive,
    /// The provider said that it did not fit.
    Reactive,
    /// Somebody asked for it.
    Manual,
}

/// Who wrote the summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Type {
    /// A model.
    Summary,
    /// Nobody: no model could be asked, and these are the beginnings of what was said.
    Extractive,
}

/// Whose window was made shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The one that ctx fills.
    #[default]
    Ctx,
    /// An agent's own.
    Agent,
}

/// What there is to know besides.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// Whose window.
    pub by: By,
    /// What the summary was to look at above all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub focus: Option<String>,
    /// The compaction whose summary this one took in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folds: Option<TurnId>,
    /// What every later summary must keep.
    pub skeleton: Skeleton,
    /// How far the provider's counts are from ours, in thousandths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correction: Option<u64>,
    /// Why no model wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// The row of a compaction (R173).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compaction {
    /// What stands for the turns.
    pub summary: String,
    /// The newest turn that it stands for.
    pub summarized_through: Option<TurnId>,
    /// The oldest turn that is still sent as it is; none where nothing before the compaction is.
    pub first_kept: Option<TurnId>,
    /// For how many turns it stands, by itself and through what it took in.
    pub turns_summarized: u64,
    /// Who wrote it.
    pub kind: Type,
    /// The model that wrote it.
    pub model: Option<String>,
    /// Its provider.
    pub provider: Option<String>,
    /// What would have been sent.
    pub tokens_before: u64,
    /// What is sent instead.
    pub tokens_after: u64,
    /// What the summary has of that.
    pub summary_tokens: u64,
    /// What its model read.
    pub summarization_input_tokens: Option<u64>,
    /// What its model wrote.
    pub summarization_output_tokens: Option<u64>,
    /// How long it took.
    pub duration_ms: u64,
    /// Why it was made.
    pub trigger: Trigger,
    /// What there is to know besides.
    pub metadata: Metadata,
}

/// A message that asks for a compaction: `/compact`, or `/compact` and what the summary is to look at (R177).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// What to look at above all.
    pub focus: Option<String>,
}

impl Command {
    /// Reads a message; nothing where it is one like any other.
    pub fn of(text: &str) -> Option<Self> {
        let rest = text.trim().strip_prefix(COMMAND)?;
        if rest.starts_with(|c: char| !c.is_whitespace()) {
            return None;
        }
        let focus: String = rest.trim().chars().take(FOCUS_MAX_CHARS).collect();
        Some(Self { focus: (!focus.is_empty()).then_some(focus) })
    }

    /// The message that asks for it.
    pub fn text(focus: Option<&str>) -> String {
        match focus.map(str::trim).filter(|focus| !focus.is_empty()) {
            Some(focus) => format!("{COMMAND} {focus}"),
            None => COMMAND.to_owned(),
        }
    }
}

impl Compaction {
    /// A line about it, for a transcript.
    pub fn line(&self) -> String {
        let Self { turns_summarized: turns, tokens_before: before, tokens_after: after, .. } = self;
        let how = match self.kind {
            Type::Summary => "",
            Type::Extractive => ", without a model",
        };
        one_line(
            &format!("{turns} turns stand summarised{how}: {before} tokens became {after}"),
            200,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_word_asks_for_a_compaction() {
        // R177
        let focus = |text: &str| Command::of(text).map(|command| command.focus);
        assert_eq!(focus("/compact"), Some(None));
        assert_eq!(focus("  /compact \n"), Some(None));
        assert_eq!(
            focus("/compact the parser, not the tests"),
            Some(Some("the parser, not the tests".to_owned()))
        );
        assert_eq!(focus("/compact\nthe parser"), Some(Some("the parser".to_owned())));
        for other in ["/compaction", "please /compact", "/compact-now", "compact", ""] {
            assert_eq!(focus(other), None, "{other}");
        }
        assert_eq!(
            focus(&format!("/compact {}", "x".repeat(5000))).flatten().map(|focus| focus.len()),
            Some(FOCUS_MAX_CHARS)
        );
        for text in [None, Some("the parser"), Some("  ")] {
            let command = Command::of(&Command::text(text)).expect("a command");
            assert_eq!(command.focus.as_deref(), text.filter(|text| !text.trim().is_empty()));
        }
    }

    #[test]
    fn metadata_of_older_programs_stays_readable() {
        let bare: Metadata = serde_json::from_str("{}").expect("readable");
        assert_eq!((bare.by, bare.focus), (By::Ctx, None));
        let whole = Metadata {
            focus: Some("x".to_owned()),
            correction: Some(1100),
            by: By::Agent,
            ..Metadata::default()
        };
        let json = serde_json::to_string(&whole).expect("json");
        assert_eq!(serde_json::from_str::<Metadata>(&json).expect("metadata"), whole);
    }
}
