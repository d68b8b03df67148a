//! What a session waits for, with all that is needed to resume.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::SuspensionId;
use crate::refusal::Refusal;
use crate::time::Timestamp;

/// What is awaited (R225).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Results of the client's tools.
    ToolResult,
    /// A yes or no to something the agent wants to do.
    Permission,
    /// An answer from a person.
    Question,
    /// Something that happens outside.
    Event,
}

impl Kind {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ToolResult => "tool_result",
            Self::Permission => "permission",
            Self::Question => "question",
            Self::Event => "event",
        }
    }
}

/// A call that waits for its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AwaitedCall {
    /// Unique within the run.
    pub id: String,
    /// Which tool.
    pub name: String,
    /// With what.
    pub params: Value,
}

/// One of the answers that are offered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// What is sent back.
    pub id: String,
    /// What a person reads.
    pub label: String,
    /// What it means, in the agent's words: allow_once, reject_always, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// What is awaited, without when and which.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Awaited {
    /// Of which kind.
    pub kind: Kind,
    /// The calls that wait for results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<AwaitedCall>,
    /// The answers that are offered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<Offer>,
    /// What a person is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// What the provider needs to go on (R232).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_state: Option<Value>,
}

/// Something that a session waits for.
#[derive(Debug, Clone, PartialEq)]
pub struct Suspension {
    /// Which.
    pub id: SuspensionId,
    /// What is awaited.
    pub awaited: Awaited,
    /// Since when.
    pub created_at: Timestamp,
}

/// A tool's result, as a client gives it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallResult {
    /// The call it answers.
    pub tool_call_id: String,
    /// The answer.
    pub content: String,
    /// Whether the tool failed.
    #[serde(default)]
    pub is_error: bool,
}

/// What a client answers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Answer {
    /// Results of tools.
    #[serde(default)]
    pub results: Vec<CallResult>,
    /// The id of an offer, or words.
    #[serde(default)]
    pub choice: Option<String>,
}

impl Suspension {
    /// The offer that a person's words choose, if they are nothing but that.
    pub fn offer_of(&self, text: &str) -> Option<&Offer> {
        let word = text.trim().trim_end_matches(['.', '!', ')']).to_lowercase();
        let same =
            |offer: &&Offer| offer.id.to_lowercase() == word || offer.label.to_lowercase() == word;
        self.awaited.options.iter().find(same)
    }

    /// Whether a person's message answers it.
    pub fn is_answered_by(&self, text: &str) -> bool {
        match self.awaited.kind {
            Kind::Question => self.awaited.options.is_empty() || self.offer_of(text).is_some(),
            Kind::Permission => self.offer_of(text).is_some(),
            Kind::ToolResult | Kind::Event => false,
        }
    }

    /// Takes an answer only if it is whole: every call answered once, or an offer chosen.
    ///
    /// # Errors
    /// If something is missing, unknown or told twice.
    pub fn check(&self, answer: &Answer) -> Result<(), Refusal> {
        let bad = |why: String| Err(Refusal::BadAnswer { why });
        if self.awaited.kind == Kind::ToolResult {
            if answer.choice.is_some() {
                return bad("it waits for results of tools, not for a choice".to_owned());
            }
            for call in &self.awaited.tool_calls {
                match answer.results.iter().filter(|result| result.tool_call_id == call.id).count()
                {
                    1 => {}
                    0 => return bad(format!("the result of tool call `{}` is missing", call.id)),
                    _ => return bad(format!("tool call `{}` is answered twice", call.id)),
                }
            }
            let unknown = answer.results.iter().find(|result| {
                !self.awaited.tool_calls.iter().any(|call| call.id == result.tool_call_id)
            });
            return unknown.map_or(Ok(()), |result| {
                bad(format!("it waits for no tool call `{}`", result.tool_call_id))
            });
        }
        if !answer.results.is_empty() {
            return bad("it waits for a choice, not for results of tools".to_owned());
        }
        let Some(choice) = &answer.choice else { return bad("the choice is missing".to_owned()) };
        if !self.awaited.options.is_empty() && self.offer_of(choice).is_none() {
            let ids: Vec<&str> =
                self.awaited.options.iter().map(|offer| offer.id.as_str()).collect();
            return bad(format!("`{choice}` is not offered; the choices are {}", ids.join(", ")));
        }
        Ok(())
    }
}
