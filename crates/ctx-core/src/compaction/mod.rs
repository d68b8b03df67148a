//! Compaction: a summary replaces earlier turns in requests (R168–R178). Stored turns do not
//! change.
//!
//! | file | owns |
//! |---|---|
//! | this one | the record of a compaction, and the command `/compact` |
//! | [`boundary`] | how far back a request reaches |
//! | [`plan`] | when a compaction is due, and where the history is split |
//! | [`key_facts`] | the facts that every summary contains |
//! | [`request`] | the request to the summarising model, and the summary without a model |
//!
//! A compaction is a turn: its parent is the head, and the head moves to it. The summarised turns
//! and the kept turns stay in the tree before it.

pub mod boundary;
pub mod key_facts;
pub mod plan;
pub mod request;

use serde::{Deserialize, Serialize};

use crate::id::TurnId;
use crate::text_limits::one_line;
use key_facts::KeyFacts;

/// Maximum length of the focus in characters. Longer text is truncated.
pub const FOCUS_MAX_CHARS: usize = 2000;
/// A message that starts with this word requests a compaction.
const COMMAND: &str = "/compact";

/// Why a compaction was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// The next request would have exceeded the limit of the context window.
    ContextLimit,
    /// The provider reported that the request did not fit.
    OverflowRecovery,
    /// The user requested it.
    Manual,
    /// A schedule requested it. ctx has no such schedule yet; imported sessions may have been
    /// compacted by one.
    Periodic,
}

/// How the summary was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Type {
    /// A model wrote it.
    Summary,
    /// No model was available. The summary consists of the first lines of the newest messages that
    /// fit; older ones are dropped.
    SlidingWindow,
    /// Chosen messages were kept and the others dropped. ctx makes no such compaction yet.
    Selective,
}

/// Which context window was compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The context that ctx builds.
    #[default]
    Ctx,
    /// The context of an agent that stores its own conversation.
    Agent,
}

/// Details of a compaction, stored as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// Which context window was compacted.
    pub by: By,
    /// The topic that the summary emphasises, if the user named one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub focus: Option<String>,
    /// The earlier compaction whose summary is included in this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folds: Option<TurnId>,
    /// The facts that every later summary must contain.
    #[serde(rename = "skeleton")]
    pub key_facts: KeyFacts,
    /// Ratio of the provider's token count to ours, in thousandths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correction: Option<u64>,
    /// Why no model wrote the summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// The record of a compaction (R173).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Compaction {
    /// The text that replaces the summarised turns.
    pub summary: String,
    /// The newest summarised turn.
    pub summarized_through: Option<TurnId>,
    /// The oldest turn that requests still contain in full. `None` if all earlier turns are
    /// summarised.
    pub first_kept: Option<TurnId>,
    /// Number of summarised turns, including those of the compaction that it includes.
    pub turns_summarized: u64,
    pub kind: Type,
    /// The model that wrote the summary.
    pub model: Option<String>,
    /// The provider of that model.
    pub provider: Option<String>,
    /// Tokens of the request without this compaction.
    pub tokens_before: u64,
    /// Tokens of the request with this compaction.
    pub tokens_after: u64,
    /// Tokens of the summary, part of `tokens_after`.
    pub summary_tokens: u64,
    /// Tokens that the summarising model read.
    pub summarization_input_tokens: Option<u64>,
    /// Tokens that the summarising model wrote.
    pub summarization_output_tokens: Option<u64>,
    pub duration_ms: u64,
    pub trigger: Trigger,
    pub metadata: Metadata,
}

/// A message that requests a compaction: `/compact`, optionally followed by a focus (R177).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The topic that the summary emphasises.
    pub focus: Option<String>,
}

impl Command {
    /// Parses a message. Returns `None` if it is not a `/compact` command.
    pub fn of(text: &str) -> Option<Self> {
        let rest = text.trim().strip_prefix(COMMAND)?;
        if rest.starts_with(|c: char| !c.is_whitespace()) {
            return None;
        }
        let focus: String = rest.trim().chars().take(FOCUS_MAX_CHARS).collect();
        Some(Self { focus: (!focus.is_empty()).then_some(focus) })
    }

    /// The text of a message that requests a compaction.
    pub fn text(focus: Option<&str>) -> String {
        match focus.map(str::trim).filter(|focus| !focus.is_empty()) {
            Some(focus) => format!("{COMMAND} {focus}"),
            None => COMMAND.to_owned(),
        }
    }
}

impl Compaction {
    /// One line for a transcript.
    pub fn line(&self) -> String {
        let Self { turns_summarized: turns, tokens_before: before, tokens_after: after, .. } = self;
        let how = match self.kind {
            Type::Summary => "",
            Type::SlidingWindow | Type::Selective => ", without a model",
        };
        one_line(&format!("{turns} turns summarised{how}: {before} tokens reduced to {after}"), 200)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_word_requests_a_compaction() {
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
    fn triggers_and_types_have_the_names_of_the_requirement() {
        // R173
        let names = |values: Vec<serde_json::Value>| {
            values
                .iter()
                .map(|name| name.as_str().unwrap_or_default().to_owned())
                .collect::<Vec<_>>()
        };
        let triggers =
            [Trigger::ContextLimit, Trigger::OverflowRecovery, Trigger::Manual, Trigger::Periodic];
        let triggers = triggers.map(|trigger| serde_json::json!(trigger)).to_vec();
        assert_eq!(names(triggers), ["context_limit", "overflow_recovery", "manual", "periodic"]);
        let types = [Type::Summary, Type::SlidingWindow, Type::Selective];
        let types = types.map(|kind| serde_json::json!(kind)).to_vec();
        assert_eq!(names(types), ["summary", "sliding_window", "selective"]);
    }

    #[test]
    fn metadata_of_older_versions_is_readable() {
        let empty: Metadata = serde_json::from_str("{}").expect("readable");
        assert_eq!((empty.by, empty.focus), (By::Ctx, None));
        let full = Metadata {
            focus: Some("x".to_owned()),
            correction: Some(1100),
            by: By::Agent,
            ..Metadata::default()
        };
        let json = serde_json::to_string(&full).expect("json");
        assert_eq!(serde_json::from_str::<Metadata>(&json).expect("metadata"), full);
    }
}
