//! Classification of user messages: an answer, a change, an approval, a stop, a new task or a
//! question.
//!
//! [`classify`] is pure and has a cost limit: of a very long text only both ends are read. Rules
//! decide what is certain: a message in which every word is a known marker, or one that names a new
//! subject. A linear model decides the rest (`docs/intent-classifier.md`). A wrong `Abandon` or
//! `Confirmation` would end a task by mistake, so the model needs more certainty for both. A host
//! may ask a large model instead, with [`classification_prompt`] and [`parse_classification`].

use serde::{Deserialize, Serialize};

use crate::task::StateName;

mod concepts;
mod features;
mod lexicon;
mod model;
mod prompt;
mod rules;
mod sentences;
#[cfg(test)]
mod tests;
mod topic;
mod typos;
mod words;

#[doc(hidden)]
pub use features::{BUCKETS, Feature, Features, VERSION, features};
#[doc(hidden)]
pub use model::{CLASSES, Weights, data_hash, decide, softmax};
pub use prompt::{classification_prompt, parse_classification};

/// The purpose of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Intent {
    /// Answers the question of the task.
    Response,
    /// Changes or continues the current task.
    Modification,
    /// Approves what was done.
    Confirmation,
    /// Abandons the current task.
    Abandon,
    /// Requests work that does not belong to the current task.
    NewTask,
    /// Asks for information and changes nothing.
    Clarification,
    /// Cannot be classified: the user has to be asked.
    Unclear,
}

impl Intent {
    #[allow(missing_docs, reason = "the name is self-explanatory")]
    pub const ALL: [Intent; 7] = [
        Self::Response,
        Self::Modification,
        Self::Confirmation,
        Self::Abandon,
        Self::NewTask,
        Self::Clarification,
        Self::Unclear,
    ];

    /// The name in JSON and in the database.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Response => "response",
            Self::Modification => "modification",
            Self::Confirmation => "confirmation",
            Self::Abandon => "abandon",
            Self::NewTask => "new_task",
            Self::Clarification => "clarification",
            Self::Unclear => "unclear",
        }
    }
}

/// The task to which a message is sent.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClassifierInput<'a> {
    /// The state of the task. `None` if there is no task.
    pub state: Option<StateName>,
    /// The question that the task waits for an answer to.
    pub question: Option<&'a str>,
    /// The description of the task.
    pub task: Option<&'a str>,
}

/// The result of a classification.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Verdict {
    pub intent: Intent,
    /// Why this intent was chosen, as a short sentence for the user.
    pub reason: String,
}

/// Classifies a message: by a rule that has no known exception, else by the linear model.
pub fn classify(text: &str, situation: &ClassifierInput<'_>) -> Verdict {
    let ruling = rules::apply(text, situation);
    if ruling.certain {
        return Verdict { intent: ruling.intent, reason: ruling.reason.to_owned() };
    }
    model::classify(&features(text, situation), situation.state)
}
