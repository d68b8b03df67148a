//! The question put to a model instead of the rules, and how its answer is read.

use super::{Intent, Situation};

/// The prompt.
pub fn llm_prompt(text: &str, situation: &Situation<'_>) -> String {
    let state = situation.state.map_or("none", |state| state.name());
    format!("Task: {}\nState: {state}\nMessage: {text}\n", situation.task.unwrap_or("none"))
}

/// The intent that an answer names.
pub fn read_llm_answer(answer: &str) -> Intent {
    match answer.trim() {
        "A" => Intent::Response,
        "B" => Intent::Modification,
        "C" => Intent::Confirmation,
        "D" => Intent::NewTask,
        "E" => Intent::Abandon,
        _ => Intent::Unclear,
    }
}
