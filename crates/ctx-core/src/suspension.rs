//! Suspensions: what a session waits for, with the data that is needed to resume.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::SuspensionId;
use crate::refusal::Refusal;
use crate::time::Timestamp;

/// What a suspension waits for (R225).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Results of tools of the client.
    ToolResult,
    /// A permission for an action of the agent.
    Permission,
    /// An answer of the user.
    Question,
    /// An external event.
    Event,
}

impl Kind {
    /// The name in JSON and in the database.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ToolResult => "tool_result",
            Self::Permission => "permission",
            Self::Question => "question",
            Self::Event => "event",
        }
    }
}

/// A tool call that waits for its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct AwaitedCall {
    /// Unique within the run.
    pub id: String,
    pub name: String,
    pub params: Value,
}

/// One of the offered answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// The value that is sent back.
    pub id: String,
    /// The text for the user.
    pub label: String,
    /// The meaning in the protocol of the agent, for example `allow_once` or `reject_always`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// The content of a suspension, without id and time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Awaited {
    pub kind: Kind,
    /// The calls that wait for results. Empty unless the kind is `ToolResult`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<AwaitedCall>,
    /// The offered answers. If empty, any text is an answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<Offer>,
    /// The question to the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// Data that the provider needs to continue (R232).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_state: Option<Value>,
}

/// An open suspension of a session.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Suspension {
    pub id: SuspensionId,
    pub awaited: Awaited,
    pub created_at: Timestamp,
}

/// The result of a tool call, sent by a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct CallResult {
    pub tool_call_id: String,
    pub content: String,
    #[serde(default)]
    pub is_error: bool,
}

/// The answer of a client to a suspension.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Answer {
    /// Tool results. Empty unless the kind is `ToolResult`.
    #[serde(default)]
    pub results: Vec<CallResult>,
    /// The id of an offered answer, or free text.
    #[serde(default)]
    pub choice: Option<String>,
    /// The client that answered, as it is shown in the transcript.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl Suspension {
    /// The offered answer that a text names by its id or label. Case and final punctuation are
    /// ignored.
    pub fn matching_option(&self, text: &str) -> Option<&Offer> {
        let word = text.trim().trim_end_matches(['.', '!', ')']).to_lowercase();
        let same =
            |offer: &&Offer| offer.id.to_lowercase() == word || offer.label.to_lowercase() == word;
        self.awaited.options.iter().find(same)
    }

    /// The question to the user, or else the names of the tool calls that wait.
    pub fn question(&self) -> String {
        let calls = || {
            let names = self.awaited.tool_calls.iter().map(|call| call.name.as_str());
            names.collect::<Vec<_>>().join(", ")
        };
        self.awaited.question.clone().unwrap_or_else(calls)
    }

    /// Whether a message of the user answers the suspension.
    pub fn is_answered_by(&self, text: &str) -> bool {
        match self.awaited.kind {
            Kind::Question => {
                self.awaited.options.is_empty() || self.matching_option(text).is_some()
            }
            Kind::Permission => self.matching_option(text).is_some(),
            Kind::ToolResult | Kind::Event => false,
        }
    }

    /// Checks that an answer is complete: one result per call, or a valid choice.
    ///
    /// # Errors
    /// If a result is missing, unknown or given twice, or the choice is not offered.
    pub fn check(&self, answer: &Answer) -> Result<(), Refusal> {
        let bad = |why: String| Err(Refusal::BadAnswer { why });
        if self.awaited.kind == Kind::ToolResult {
            if answer.choice.is_some() {
                return bad("tool results are expected, not a choice".to_owned());
            }
            for call in &self.awaited.tool_calls {
                match answer.results.iter().filter(|result| result.tool_call_id == call.id).count()
                {
                    1 => {}
                    0 => return bad(format!("the result of tool call `{}` is missing", call.id)),
                    _ => return bad(format!("tool call `{}` has two results", call.id)),
                }
            }
            let unknown = answer.results.iter().find(|result| {
                !self.awaited.tool_calls.iter().any(|call| call.id == result.tool_call_id)
            });
            return unknown.map_or(Ok(()), |result| {
                bad(format!("tool call `{}` is not awaited", result.tool_call_id))
            });
        }
        if !answer.results.is_empty() {
            return bad("a choice is expected, not tool results".to_owned());
        }
        let Some(choice) = &answer.choice else { return bad("the choice is missing".to_owned()) };
        if !self.awaited.options.is_empty() && self.matching_option(choice).is_none() {
            let ids: Vec<&str> =
                self.awaited.options.iter().map(|offer| offer.id.as_str()).collect();
            return bad(format!("`{choice}` is not offered; the choices are {}", ids.join(", ")));
        }
        Ok(())
    }
}

const PERMISSION_ASKED: &str = "Permission asked: ";
const PERMISSION_DECISION: &str = "\nDecision: ";

/// The message of the transcript that records a decision on a permission.
pub fn permission_text(asked: &str, decision: &str, by: &str) -> String {
    format!("{PERMISSION_ASKED}{asked}{PERMISSION_DECISION}{decision}, by {by}.")
}

/// What was asked and what was decided, if the text is one of [`permission_text`].
pub fn read_permission_text(text: &str) -> Option<(&str, &str)> {
    let (asked, decision) = text.strip_prefix(PERMISSION_ASKED)?.split_once(PERMISSION_DECISION)?;
    Some((asked, decision.strip_suffix('.')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_of_a_permission_is_read_again() {
        let text = permission_text("write a.txt", "Allow once (allow_once)", "the terminal");
        assert_eq!(
            read_permission_text(&text),
            Some(("write a.txt", "Allow once (allow_once), by the terminal"))
        );
        assert_eq!(read_permission_text("No task is open in this session."), None);
    }
}
