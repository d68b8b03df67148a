//! A user's message, already classified: what it does to the task (R73–R84, R88–R97).
//!
//! Order: a task past its time is sealed first; then an open question takes its answer; then a long
//! pause asks; then the table. What asks for something is never lost: it is noted, kept in a question, or
//! becomes a task.

use serde::Serialize;

use crate::commit::CommitType;
use crate::id::TaskId;
use crate::intent::{ClassifierInput, Intent, classify};
use crate::prompt::{Pending, Prompt, new_task_text, stale_text};
use crate::refusal::Refusal;
use crate::stale::{self, Staleness};
use crate::task::{State, StateName, Task};
use crate::text_limits::one_line;

use super::task_changes::{TaskChanges, task_from_message, text};
use super::{
    CommitRecord, Decided, Decision, Invocation, OnNewTask, SessionView, Settings, abort, answer,
    choose, confirm, interrupt,
};

/// What was done with the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It answered the agent's question.
    Respond,
    /// It changes the work, which goes on.
    Modify,
    /// It confirmed the work, which is sealed.
    Complete,
    /// It was heard; nothing changed.
    Acknowledge,
    /// It gave the work up, which is sealed.
    Abandon,
    /// It started a task.
    Start,
    /// It asked something; answering changes nothing.
    Answer,
    /// It could not be told what it means.
    Ask,
    /// A question with two choices was opened.
    Prompt,
    /// The user chose to go on.
    Continue,
    /// The user chose to save the work.
    Save,
}

/// What an unclear message is answered with (R82).
pub(super) const UNCLEAR: &str = "Are you continuing the current task or starting something new?";

/// What a message or a choice led to.
#[derive(Debug, Clone, PartialEq)]
pub struct Handled {
    /// What was done.
    pub action: Action,
    /// What to say to the user, where the message was unclear.
    pub text: Option<String>,
    /// The task that is open now.
    pub task: Option<Task>,
    /// The commit that was made.
    pub commit: Option<CommitRecord>,
    /// The question that is open now.
    pub prompt: Option<Prompt>,
}

/// Handles a message that the classifier took for `intent`.
///
/// # Errors
/// If the message is no text, or a question is open and the message is no choice.
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

/// What a message was classified as, and the state of the task at that time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classified {
    /// What the classifier said.
    pub intent: Intent,
    /// The task that was open then, and its state.
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
/// # Errors
/// As [`message`], and `StaleWriter` if the task has moved since: the message may mean something else now.
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

/// The decision with what the user is told of it.
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
    match settings.stale.judge(idle) {
        Staleness::ShouldSeal => {
            let answers =
                changes.prompt().is_some_and(|prompt| prompt.choice_of(message).is_some());
            let saved = settings.stale.late_message(idle, &task);
            changes
                .seal(CommitType::StaleAutoCompact { idle_duration_secs: idle.seconds() }, saved)?;
            // An answer that came too late chooses nothing, and is no task either.
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

/// The task that the message was judged against is gone, so it is judged anew; a new task is one anyway.
fn reclassify_without_task(
    changes: &mut TaskChanges<'_>,
    message: &str,
    intent: Intent,
) -> Result<Action, Refusal> {
    let intent = if intent == Intent::NewTask {
        intent
    } else {
        classify(message, &ClassifierInput::default()).intent
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
        (Intent::Unclear, _) => Ok(Action::Ask),
    }
}

/// A change: while the agent works it waits to be taken in, otherwise the work goes on with it (R75).
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

/// Starts a task from a message; a very long one is named by its first line and noted whole.
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
            let told = classified_message(&now.view, "why?", &classified, &settings, &invocation);
            let moved = then.state() != now.state();
            assert_eq!(told.err(), moved.then_some(Refusal::StaleWriter));
        }
    }
}
