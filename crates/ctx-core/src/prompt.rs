//! Prompts: durable questions with two choices. A prompt stores the message that caused it, and the
//! message is handled after the choice.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id::PromptId;
use crate::intent::Intent;
use crate::time::Timestamp;

/// One of the two choices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// Continue the open task.
    Continue,
    /// Seal the open task and start another one.
    StartFresh,
}

impl Choice {
    /// The name in JSON and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Choice::Continue => "continue",
            Choice::StartFresh => "start_fresh",
        }
    }
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "continue" => Ok(Choice::Continue),
            "start_fresh" => Ok(Choice::StartFresh),
            _ => Err(format!("unknown choice `{text}`; the choices are continue and start_fresh")),
        }
    }
}

/// The event that the prompt postponed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub enum Pending {
    /// A message arrived after a long idle time.
    Stale {
        user_message: String,
        /// The classification of the message.
        intent: Intent,
    },
    /// A message requested a new task while another one is open.
    NewTask {
        /// The text of that message.
        new_task: String,
    },
    /// A message could be about the open task or about something new.
    Unclear { user_message: String },
    /// The user resumed the task without a message.
    Resume,
}

/// An open question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Prompt {
    pub id: PromptId,
    pub pending: Pending,
    /// The question as shown to the user, with both choices.
    pub text: String,
    pub opened_at: Timestamp,
}

impl Prompt {
    /// The kind in JSON.
    pub const fn kind(&self) -> &'static str {
        match self.pending {
            Pending::Stale { .. } => "stale",
            Pending::NewTask { .. } => "new_task",
            Pending::Unclear { .. } => "unclear",
            Pending::Resume => "resume",
        }
    }

    /// The choices in the order of the letters A and B in the text.
    pub const fn choices(&self) -> [Choice; 2] {
        match self.pending {
            Pending::Stale { .. } | Pending::Unclear { .. } | Pending::Resume => {
                [Choice::Continue, Choice::StartFresh]
            }
            Pending::NewTask { .. } => [Choice::StartFresh, Choice::Continue],
        }
    }

    /// The choice that a message makes. `None` if the message is anything else than a choice.
    pub fn choice_of(&self, text: &str) -> Option<Choice> {
        let word = text.trim().trim_end_matches(['.', ')', '!']).to_lowercase();
        let [a, b] = self.choices();
        match word.as_str() {
            "a" | "1" | "option a" => Some(a),
            "b" | "2" | "option b" => Some(b),
            "continue" | "continue that work" | "continue where we left off" => {
                Some(Choice::Continue)
            }
            "start_fresh"
            | "start fresh"
            | "save it and start fresh"
            | "save that and start on your new request" => Some(Choice::StartFresh),
            _ => None,
        }
    }
}

/// The prompt for a message after a long idle time (R92).
pub fn stale_text(task: &str) -> String {
    format!(
        "Welcome back! You were working on: {task}\n\
         A) Continue that work\nB) Save it and start fresh"
    )
}

/// The prompt for a new task while another one is open.
pub fn new_task_text(task: &str) -> String {
    format!(
        "You have unfinished work on: {task}\n\
         A) Save that and start on your new request\nB) Continue where we left off"
    )
}

/// The question for a message that cannot be classified (R82).
pub const UNCLEAR: &str = "Are you continuing the current task or starting something new?";

/// The prompt for a message that cannot be classified.
pub fn unclear_text(task: &str) -> String {
    format!(
        "{UNCLEAR}\nThe current task: {task}\nA) Continue that work\nB) Save it and start fresh"
    )
}

/// The prompt for resuming a task without a message after a long idle time.
pub fn resume_text(task: &str, since: Timestamp) -> String {
    format!(
        "You have an unfinished task from {since}: '{task}'\n\
         A) Continue that work\nB) Save it and start fresh"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_match_the_choices_of_each_prompt() {
        let prompt = |pending| Prompt {
            id: PromptId(ulid::Ulid(1)),
            pending,
            text: String::new(),
            opened_at: Timestamp(0),
        };
        let stale =
            prompt(Pending::Stale { user_message: "m".into(), intent: Intent::Modification });
        let new = prompt(Pending::NewTask { new_task: "n".into() });
        let table = [
            ("A", Choice::Continue, Choice::StartFresh),
            (" b) ", Choice::StartFresh, Choice::Continue),
            ("1", Choice::Continue, Choice::StartFresh),
            ("2.", Choice::StartFresh, Choice::Continue),
            ("Continue", Choice::Continue, Choice::Continue),
            ("start fresh", Choice::StartFresh, Choice::StartFresh),
        ];
        for (text, for_stale, for_new) in table {
            assert_eq!(
                (stale.choice_of(text), new.choice_of(text)),
                (Some(for_stale), Some(for_new)),
                "{text}"
            );
        }
        for other in ["a bit more", "", "continue with the logging", "c"] {
            assert_eq!(stale.choice_of(other), None, "{other}");
        }
    }
}
