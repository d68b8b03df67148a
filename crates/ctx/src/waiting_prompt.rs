//! A pending prompt as a person reads it: the question, the message or the question of the agent
//! that waits for the choice, and the choices.

use ctx_engine::core::prompt::{Pending, Prompt};
use ctx_engine::core::task::{State, Task};
use ctx_engine::core::text_limits::one_line;

/// Characters of the message and of the question.
const TEXT_MAX_CHARS: usize = 300;

/// The whole prompt.
pub(crate) fn prompt_text(prompt: &Prompt, task: Option<&Task>) -> String {
    let choices = prompt.text.lines().skip_while(|line| !is_choice(line)).map(str::to_owned);
    let lines: Vec<String> = question_lines(prompt, task).into_iter().chain(choices).collect();
    lines.join("\n")
}

/// The question without the choices, and what waits for the choice.
pub(crate) fn question_lines(prompt: &Prompt, task: Option<&Task>) -> Vec<String> {
    let question = prompt.text.lines().take_while(|line| !is_choice(line));
    let mut lines: Vec<String> =
        question.filter(|line| !line.trim().is_empty()).map(str::to_owned).collect();
    if let Some(State::AwaitingUser { question, .. }) = task.map(|task| &task.state) {
        lines.push(format!("The agent asked: {}", one_line(question, TEXT_MAX_CHARS)));
    }
    match &prompt.pending {
        Pending::Stale { user_message: text, .. }
        | Pending::Unclear { user_message: text }
        | Pending::NewTask { new_task: text } => {
            lines.push(format!("Your message waits: {}", one_line(text, TEXT_MAX_CHARS)));
        }
        Pending::Resume => {}
    }
    lines
}

/// Whether a line of a prompt names one of its choices.
fn is_choice(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("A)")
        || line.starts_with("B)")
        || line.starts_with("A.")
        || line.starts_with("(A)")
}
