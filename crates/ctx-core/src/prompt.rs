//! Durable questions with two choices. The message that caused one is kept in it and handled after the choice.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id::PromptId;
use crate::intent::Intent;
use crate::time::Timestamp;

/// One of the two answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// Go on with the open task.
    Continue,
    /// Save it and start on something else.
    StartFresh,
}

impl Choice {
    /// As it is written.
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
            _ => Err(format!("`{text}` is not a choice; the choices are continue and start_fresh")),
        }
    }
}

/// What was put off until the choice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Pending {
    /// A message came after a long pause.
    Stale {
        /// The message.
        user_message: String,
        /// What it was taken for.
        intent: Intent,
    },
    /// A new task came while one is open.
    NewTask {
        /// The message.
        new_task: String,
    },
    /// The user came back without a message.
    Resume,
}

/// An open question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompt {
    /// Its id.
    pub id: PromptId,
    /// What was put off.
    pub pending: Pending,
    /// What the user reads.
    pub text: String,
    /// When it was opened.
    pub opened_at: Timestamp,
}

impl Prompt {
    /// Which kind of question it is.
    pub const fn kind(&self) -> &'static str {
        match self.pending {
            Pending::Stale { .. } => "stale",
            Pending::NewTask { .. } => "new_task",
            Pending::Resume => "resume",
        }
    }

    /// The answers in the order of the letters A and B in the text.
    pub const fn choices(&self) -> [Choice; 2] {
        match self.pending {
            Pending::Stale { .. } | Pending::Resume => [Choice::Continue, Choice::StartFresh],
            Pending::NewTask { .. } => [Choice::StartFresh, Choice::Continue],
        }
    }

    /// The choice that a message makes, if it is nothing but a choice.
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

/// What a user reads who comes back with a message after a long pause.
pub fn stale_text(task: &str) -> String {
    format!(
        "Welcome back! You were working on: {task}\nA) Continue that work\nB) Save it and start fresh"
    )
}

/// What a user reads who asks for something new while a task is open.
pub fn new_task_text(task: &str) -> String {
    format!(
        "You have unfinished work on: {task}\nA) Save that and start on your new request\nB) Continue where we left off"
    )
}

/// What a user reads who comes back without a message after a long pause.
pub fn resume_text(task: &str, since: Timestamp) -> String {
    format!(
        "You have an unfinished task from {since}: '{task}'\nA) Continue that work\nB) Save it and start fresh"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_means_what_the_text_says() {
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
