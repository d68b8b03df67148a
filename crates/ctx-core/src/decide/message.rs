//! Handle a user's message that was already classified: its effect on the task (R73–R84, R88–R97).
//!
//! Order: a task that is past its limit is sealed first; then an open question is answered; then a
//! long pause opens a question; then the table applies. No request is lost: it becomes a note, a
//! question or a task.

use serde::Serialize;

use crate::commit::CommitType;
use crate::id::TaskId;
use crate::intent::{ClassifierInput, Intent, classify};
use crate::prompt::{Pending, Prompt, UNCLEAR, new_task_text, stale_text, unclear_text};
use crate::refusal::Refusal;
use crate::stale::{self, Staleness};
use crate::task::{State, StateName, Task};
use crate::text_limits::one_line;

use super::task_changes::{TaskChanges, task_from_message, text};
use super::{
    CommitRecord, Decided, Decision, Invocation, OnNewTask, OnUnclear, SessionView, Settings,
    abort, answer, choose, confirm, interrupt,
};

/// The effect of a message on the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It answered the agent's question.
    Respond,
    /// It changed the task, which continues.
    Modify,
    /// It confirmed the task, which was sealed.
    Complete,
    /// It confirmed the task, which is sealed when the run of the message ends without work.
    Confirm,
    /// Nothing changed.
    Acknowledge,
    /// It aborted the task, which was sealed.
    Abandon,
    /// It started a new task.
    Start,
    /// It was a question of the user; answering it changes nothing.
    Answer,
    /// It was unclear; the user is asked what it means.
    Ask,
    /// A question with two choices was opened.
    Prompt,
    /// The user chose to continue the task.
    Continue,
    /// The user chose to seal the task.
    Save,
}

/// The result of a message or a choice.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct Handled {
    pub action: Action,
    /// Text for the user, if the message was unclear.
    pub text: Option<String>,
    /// The task that is open now.
    pub task: Option<Task>,
    /// The commit, if a task was sealed.
    pub commit: Option<CommitRecord>,
    /// The question that is open now.
    pub prompt: Option<Prompt>,
}

/// Handles a message that was classified as `intent`.
///
/// Fails if the message is empty or too long, or a question is open and the message does not answer
/// it.
pub fn message(
    view: &SessionView,
    message: &str,
    intent: Intent,
    settings: &Settings,
    invocation: &Invocation,
) -> Decided<Handled> {
    let message = text("message", message)?;
    let mut changes = TaskChanges::new(view, invocation);
    let action = handle(&mut changes, &message, intent, settings)?;
    Ok(handled(changes, action))
}

/// A classification, and the task that it was made against.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct Classified {
    pub intent: Intent,
    /// The task that was open at that time, and its state.
    pub task: Option<(TaskId, StateName)>,
}

impl Classified {
    /// A classification against the open task.
    pub fn against(intent: Intent, task: Option<&Task>) -> Self {
        Self { intent, task: task.map(|task| (task.id, task.state.name())) }
    }
}

/// Handles a message that was classified before the transaction.
///
/// Fails as [`message`], and `StaleWriter` if the task has changed since: the classification may be
/// wrong now.
pub fn classified_message(
    view: &SessionView,
    text: &str,
    classified: &Classified,
    settings: &Settings,
    invocation: &Invocation,
) -> Decided<Handled> {
    let now = Classified::against(classified.intent, view.task.as_ref());
    if now != *classified {
        return Err(Refusal::StaleWriter);
    }
    message(view, text, classified.intent, settings, invocation)
}

/// The decision, with a reply for the user.
pub(super) fn handled(changes: TaskChanges<'_>, action: Action) -> Decision<Handled> {
    let text = (action == Action::Ask).then(|| UNCLEAR.to_owned());
    changes.finish_with(|task, commit, prompt| Handled { action, text, task, commit, prompt })
}

pub(super) fn handle(
    changes: &mut TaskChanges<'_>,
    message: &str,
    intent: Intent,
    settings: &Settings,
) -> Result<Action, Refusal> {
    let Some(task) = changes.task().cloned() else { return without_task(changes, message, intent) };
    if let State::Aborted { .. } = task.state {
        abort::abandon(changes, None)?;
        return reclassify_without_task(changes, message, intent);
    }
    let idle = stale::idle(&task, changes.now());
    match settings.stale.staleness(idle) {
        Staleness::ShouldSeal => {
            let answers =
                changes.prompt().is_some_and(|prompt| prompt.choice_of(message).is_some());
            let saved = settings.stale.late_message(idle, &task);
            changes
                .seal(CommitType::StaleAutoCompact { idle_duration_secs: idle.seconds() }, saved)?;
            // A late answer neither chooses nor starts a task.
            if answers {
                Ok(Action::Save)
            } else {
                reclassify_without_task(changes, message, intent)
            }
        }
        _ if changes.prompt().is_some() => answer_prompt(changes, message, settings),
        Staleness::ShouldAsk => {
            let pending = Pending::Stale { user_message: message.to_owned(), intent };
            changes.ask_choice(pending, stale_text(&task.description));
            Ok(Action::Prompt)
        }
        Staleness::Fresh => act(changes, message, intent, settings),
    }
}

fn answer_prompt(
    changes: &mut TaskChanges<'_>,
    message: &str,
    settings: &Settings,
) -> Result<Action, Refusal> {
    let Some(prompt) = changes.prompt() else { return Err(Refusal::NoPrompt) };
    match prompt.choice_of(message) {
        Some(choice) => choose::answer(changes, choice, settings),
        None => Err(Refusal::PromptOpen { text: prompt.text.clone() }),
    }
}

/// Classifies a message again, since the task that it was classified against was sealed. A new task
/// stays one.
fn reclassify_without_task(
    changes: &mut TaskChanges<'_>,
    message: &str,
    intent: Intent,
) -> Result<Action, Refusal> {
    let again = classify(message, &ClassifierInput::default()).intent;
    let intent = match (intent, again) {
        (Intent::NewTask, _) => intent,
        // It was clear in the context of the task, so it is not asked about now.
        (Intent::Response | Intent::Modification, Intent::Unclear) => intent,
        _ => again,
    };
    without_task(changes, message, intent)
}

fn without_task(
    changes: &mut TaskChanges<'_>,
    message: &str,
    intent: Intent,
) -> Result<Action, Refusal> {
    match intent {
        Intent::NewTask | Intent::Modification | Intent::Response => start_from(changes, message),
        Intent::Confirmation | Intent::Abandon => Ok(Action::Acknowledge),
        Intent::Clarification => Ok(Action::Answer),
        Intent::Unclear if changes.delivers() => Ok(Action::Acknowledge),
        Intent::Unclear => Ok(Action::Ask),
    }
}

/// The table for an open task that is fresh.
pub(super) fn act(
    changes: &mut TaskChanges<'_>,
    message: &str,
    intent: Intent,
    settings: &Settings,
) -> Result<Action, Refusal> {
    let state = changes.open_task()?.state.name();
    match (intent, state) {
        (Intent::Response, StateName::AwaitingUser) => {
            answer::respond(changes, message)?;
            Ok(Action::Respond)
        }
        (Intent::Response | Intent::Modification, _) => modify(changes, message, state),
        (Intent::Confirmation, StateName::PendingComplete) if changes.delivers() => {
            Ok(Action::Confirm)
        }
        (Intent::Confirmation, StateName::PendingComplete) => {
            confirm::complete(changes, None)?;
            Ok(Action::Complete)
        }
        (Intent::Confirmation, _) => Ok(Action::Acknowledge),
        (Intent::Abandon, _) => {
            abort::abandon(changes, None)?;
            Ok(Action::Abandon)
        }
        (Intent::NewTask, _) => new_task(changes, message, settings),
        (Intent::Clarification, _) => Ok(Action::Answer),
        (Intent::Unclear, _) if changes.delivers() => unclear(changes, message, settings),
        (Intent::Unclear, _) => Ok(Action::Ask),
    }
}

/// An unclear message is delivered, or the user is asked first what it is about.
fn unclear(
    changes: &mut TaskChanges<'_>,
    message: &str,
    settings: &Settings,
) -> Result<Action, Refusal> {
    if settings.on_unclear == OnUnclear::Deliver {
        return Ok(Action::Acknowledge);
    }
    let text = unclear_text(&one_line(&changes.open_task()?.description, 200));
    changes.ask_choice(Pending::Unclear { user_message: message.to_owned() }, text);
    Ok(Action::Prompt)
}

/// A change request: while the agent works it interrupts, otherwise it continues the task (R75).
fn modify(
    changes: &mut TaskChanges<'_>,
    message: &str,
    state: StateName,
) -> Result<Action, Refusal> {
    match state {
        StateName::Running | StateName::Interrupted => interrupt::intervene(changes, message)?,
        StateName::AwaitingUser => answer::respond(changes, message)?,
        StateName::PendingComplete => {
            let note = changes.note(format!("User requested continuation: {message}"));
            changes.move_to(State::Running, vec![note])?;
        }
        StateName::Complete | StateName::Aborted => {
            let note = changes.note(format!("User intervention: {message}"));
            changes.move_to(State::Running, vec![note])?;
        }
    }
    Ok(Action::Modify)
}

fn new_task(
    changes: &mut TaskChanges<'_>,
    message: &str,
    settings: &Settings,
) -> Result<Action, Refusal> {
    let task = changes.open_task()?.clone();
    if settings.on_new_task == OnNewTask::Ask {
        let pending = Pending::NewTask { new_task: message.to_owned() };
        changes.ask_choice(pending, new_task_text(&task.description));
        return Ok(Action::Prompt);
    }
    if task.has_meaningful_work() {
        let new_task_summary = one_line(message, 200);
        changes.seal(
            CommitType::InterruptedByNewTask { new_task_summary },
            "Interrupted by new task".to_owned(),
        )?;
    } else {
        changes.drop_task("replaced before any work was recorded")?;
    }
    start_from(changes, message)
}

/// Starts a task from a message. A long message is described by its first line and kept in full as
/// a note.
pub(super) fn start_from(changes: &mut TaskChanges<'_>, message: &str) -> Result<Action, Refusal> {
    let (description, whole) = task_from_message(message);
    changes.start(&description)?;
    if let Some(whole) = whole {
        changes.append_note(whole)?;
    }
    Ok(Action::Start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::tests::model::Model;

    #[test]
    fn a_message_is_classified_again_when_the_task_has_moved() {
        let states = [None, Some(StateName::Running), Some(StateName::AwaitingUser)];
        for (then, now) in states.iter().flat_map(|then| states.iter().map(move |now| (then, now)))
        {
            let (then, now) = (Model::at(*then), Model::at(*now));
            let classified = Classified::against(Intent::Clarification, then.view.task.as_ref());
            let (settings, invocation) = (Settings::default(), now.invocation());
            let result = classified_message(&now.view, "why?", &classified, &settings, &invocation);
            let moved = then.state() != now.state();
            assert_eq!(result.err(), moved.then_some(Refusal::StaleWriter));
        }
    }
}
