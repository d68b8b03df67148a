//! What a person means by a message to a task: an answer, a change, an approval, a stop, something new, a question.
//!
//! [`classify`] is pure and bounded: the same text in the same situation always gets the same verdict, and of a very
//! long text only its ends are read. The task's state is looked at first, then explicit markers, then meaning. A
//! wrong `Abandon` or `Confirmation` ends work that somebody wanted, so both are given only when *every* word of the
//! message is accounted for; whatever is left over asks for a change. A host may ask a model instead, with
//! [`llm_prompt`] and [`read_llm_answer`].

use serde::{Deserialize, Serialize};

use crate::task::StateName;

mod lexicon;
mod prompt;
mod rules;
mod sentences;
#[cfg(test)]
mod tests;
mod topic;
mod typos;
mod words;

pub use prompt::{llm_prompt, read_llm_answer};

/// What a message is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Intent {
    /// Answers the question that the task waits on.
    Response,
    /// Changes or continues the current task.
    Modification,
    /// Approves what was done.
    Confirmation,
    /// Gives the current task up.
    Abandon,
    /// Asks for something that the current task is not about.
    NewTask,
    /// Asks to be told or shown something, and changes nothing.
    Clarification,
    /// Could be anything: the person has to be asked.
    Unclear,
}

impl Intent {
    /// Every intent.
    pub const ALL: [Intent; 7] = [
        Self::Response,
        Self::Modification,
        Self::Confirmation,
        Self::Abandon,
        Self::NewTask,
        Self::Clarification,
        Self::Unclear,
    ];

    /// As it is written.
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

/// What is known when a message arrives.
#[derive(Debug, Clone, Copy, Default)]
pub struct Situation<'a> {
    /// The current task's state; `None` if there is no task.
    pub state: Option<StateName>,
    /// The question that the task waits on.
    pub question: Option<&'a str>,
    /// What the current task is about.
    pub task: Option<&'a str>,
}

/// An intent and why it was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// What the message is for.
    pub intent: Intent,
    /// Why, in a short sentence for people.
    pub reason: &'static str,
}

/// Says what a message is for, by rules alone.
pub fn classify(text: &str, situation: &Situation<'_>) -> Verdict {
    rules::judge(text, situation)
}
