//! `get_task`: the open task of a session, and the newest answer of the user.

use ctx_core::decide::{AgentTool, Needs};
use ctx_core::prompt::Choice;
use ctx_core::refusal::Refusal;
use ctx_core::task::{State, Task};
use ctx_core::time::Timestamp;
use ctx_store::Target;
use serde_json::{Value, json};

use super::definition::{Effect, ToolDefinition, define, session_parameter};
use super::{Caller, ToolAnswer};
use crate::engine::{Engine, Error};

/// The newest steps among which an answer of the user is found.
const STEPS_MAX: u64 = 200;
/// Prefix of the note that records an answer.
const ANSWER: &str = "User response: ";

pub(super) fn definition() -> ToolDefinition {
    let what = "Get the open task of a session: its state, its progress, a question that the user \
        has not answered, and the newest answer of the user.";
    define(AgentTool::GetTask, Effect::Reads, "Open task", what, vec![session_parameter()]).output(
        json!({
            "task": {"type": ["object", "null"]},
            "answer": {"type": ["string", "null"]},
            "prompt": {"type": ["object", "null"]},
        }),
        &["task"],
    )
}

pub(super) async fn call(engine: &Engine, caller: &Caller) -> Result<ToolAnswer, Error> {
    let view = engine.store().view(&Target::Id(caller.session), Needs::WORK).await?;
    let view = view.ok_or(Refusal::NoSession)?;
    let Some(task) = view.task else {
        let none = json!({"task": null, "answer": null, "prompt": null});
        return Ok(ToolAnswer::with("No task is open.", none));
    };
    let answer = match task.state {
        State::AwaitingUser { .. } => None,
        _ => newest_answer(engine, &task).await?,
    };
    let prompt = view
        .prompt
        .map(|prompt| json!({"text": prompt.text, "choices": prompt.choices().map(Choice::name)}));
    let document = json!({"task": task_document(&task), "answer": answer, "prompt": prompt});
    let mut text = format!(
        "Task {}: {}\nState: {}\n{}",
        task.id,
        task.description,
        state_text(&task.state),
        task.progress.summary()
    );
    if let Some(answer) = &answer {
        text.push_str(&format!("\nThe user answered: {answer}"));
    }
    Ok(ToolAnswer::with(text, document))
}

async fn newest_answer(engine: &Engine, task: &Task) -> Result<Option<String>, Error> {
    let after = task.steps.saturating_sub(STEPS_MAX);
    let steps = engine.store().steps(task.id, after, STEPS_MAX as usize).await?;
    let notes = steps.iter().flat_map(|stored| stored.step.notes());
    let answers = notes.filter_map(|note| note.strip_prefix(ANSWER));
    Ok(answers.last().map(str::to_owned))
}

fn state_text(state: &State) -> String {
    match state {
        State::AwaitingUser { question, .. } => format!("awaits the user: {question}"),
        State::Interrupted { user_message } => format!("interrupted by the user: {user_message}"),
        State::PendingComplete { summary } => format!("declared done: {summary}"),
        State::Aborted { reason } => format!("aborted: {reason}"),
        state => state.name().to_string(),
    }
}

/// The document of a task, in the shape of the HTTP API.
pub fn task_document(task: &Task) -> Value {
    let mut state = json!(task.state);
    if let State::AwaitingUser { asked_at, .. } = &task.state {
        state["asked_at"] = json!(Timestamp(asked_at.saturating_mul(1000)).to_string());
    }
    json!({
        "id": task.id,
        "session": task.session,
        "description": task.description,
        "state": state,
        "steps": task.steps,
        "head": task.head,
        "started_at": task.started_at.to_string(),
        "last_activity_at": task.last_activity_at.to_string(),
        "progress": task.progress.summary(),
        "commit": task.commit,
    })
}
