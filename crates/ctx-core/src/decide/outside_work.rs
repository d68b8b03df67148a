//! Record the work of an agent that runs outside ctx, as its hooks report it.
//!
//! The agent does not wait for ctx, so no report opens a question: a prompt that begins another
//! task seals the open one, as with `on_new_task = "auto"`. A prompt that changes nothing is kept
//! as a note. The task stays open when the conversation ends (R3, R11).

use crate::commit::CommitType;
use crate::intent::{Intent, classify};
use crate::refusal::Refusal;
use crate::stale::{self, Staleness};
use crate::step::{Entry, Kind};
use crate::task::{State, StateName, Task};
use crate::text_limits::{TASK_TEXT_MAX_BYTES, one_line};

use super::delivery::classifier_input;
use super::message::{Action, act, start_from};
use super::task_changes::{TaskChanges, text};
use super::{Decided, Invocation, OnNewTask, SessionView, Settings, abort, end_run, observe};

/// What a hook reports.
#[derive(Debug, Clone, PartialEq)]
pub enum OutsideReport {
    /// The user sent a prompt to the agent.
    Prompt {
        /// Its text.
        text: String,
    },
    /// The agent used a tool.
    Work {
        /// The observations.
        entries: Vec<Entry>,
        /// Description of the task that is opened if none is open.
        task: String,
    },
    /// The agent ended its answer to a prompt.
    TurnEnd {
        /// Its final text, if known.
        text: Option<String>,
        /// The prompt that it answered, if known.
        prompt: Option<String>,
    },
    /// The conversation was closed.
    Closed {
        /// The note about it.
        note: String,
    },
}

/// Records a report. Returns the task that is open afterwards.
///
/// Fails if a text is empty, too long or contains NUL.
pub fn report_outside_work(
    view: &SessionView,
    report: &OutsideReport,
    settings: &Settings,
    invocation: &Invocation,
) -> Decided<Option<Task>> {
    let mut changes = TaskChanges::new(view, invocation);
    match report {
        OutsideReport::Prompt { text: prompt } => {
            prompted(&mut changes, &text("prompt", prompt)?, settings)?;
        }
        OutsideReport::Work { entries, task } => worked(&mut changes, entries, task)?,
        OutsideReport::TurnEnd { text, prompt } => {
            if let Some(text) = text.as_deref().filter(|text| !text.trim().is_empty()) {
                ended(&mut changes, text, prompt.as_deref())?;
            }
        }
        OutsideReport::Closed { note } if changes.task().is_some() => {
            changes.append_note(text("note", note)?)?;
        }
        OutsideReport::Closed { .. } => {}
    }
    Ok(changes.finish_with(|task, _, _| task))
}

/// The table of R73–R97, without questions to the user.
fn prompted(
    changes: &mut TaskChanges<'_>,
    prompt: &str,
    settings: &Settings,
) -> Result<(), Refusal> {
    end_stale_task(changes, settings)?;
    let Some(task) = changes.task() else { return start(changes, prompt) };
    let intent = classify(prompt, &classifier_input(Some(task))).intent;
    // A question that `ctx stage message` opened is left to the command line.
    let action = if changes.prompt().is_some() {
        Action::Acknowledge
    } else {
        let settings = Settings { on_new_task: OnNewTask::Auto, ..settings.clone() };
        act(changes, prompt, intent, &settings)?
    };
    match action {
        Action::Acknowledge | Action::Answer | Action::Ask => {
            changes.append_note(format!("User prompt: {prompt}"))
        }
        // The agent has the prompt already: nothing is left to incorporate.
        Action::Modify if is_in(changes, StateName::Interrupted) => {
            changes.move_to(State::Running, vec![])
        }
        _ => Ok(()),
    }
}

/// Seals a task that was aborted or left for too long, before a prompt is handled (R91).
fn end_stale_task(changes: &mut TaskChanges<'_>, settings: &Settings) -> Result<(), Refusal> {
    let Some(task) = changes.task().cloned() else { return Ok(()) };
    if let State::Aborted { .. } = task.state {
        return abort::abandon(changes, None);
    }
    let idle = stale::idle(&task, changes.now());
    if settings.stale.staleness(idle) == Staleness::ShouldSeal {
        let saved = settings.stale.late_message(idle, &task);
        let kind = CommitType::StaleAutoCompact { idle_duration_secs: idle.seconds() };
        return changes.seal(kind, saved);
    }
    Ok(())
}

/// Opens a task for a prompt, except for one that only confirms or cancels.
fn start(changes: &mut TaskChanges<'_>, prompt: &str) -> Result<(), Refusal> {
    match classify(prompt, &classifier_input(None)).intent {
        Intent::Confirmation | Intent::Abandon => Ok(()),
        _ => start_from(changes, prompt).map(drop),
    }
}

/// Records observations. Without a task, only work with effects opens one: the user may have sealed
/// the task while the agent was at work.
fn worked(changes: &mut TaskChanges<'_>, entries: &[Entry], task: &str) -> Result<(), Refusal> {
    observe::check_observations(entries)?;
    let has_effect =
        |entry: &Entry| matches!(entry, Entry::FileWrite { .. } | Entry::Command { .. });
    let has_effects = entries.iter().any(has_effect);
    if changes.task().is_none() {
        if !has_effects {
            return Ok(());
        }
        changes.start(&task_description(task))?;
    } else if has_effects && is_in(changes, StateName::PendingComplete) {
        let note = changes.note("The agent continued to work".to_owned());
        changes.move_to(State::Running, vec![note])?;
    }
    observe::add(changes, entries)
}

fn task_description(task: &str) -> String {
    if task.len() > TASK_TEXT_MAX_BYTES { one_line(task, 200) } else { task.to_owned() }
}

/// The final text moves a running task. The answer to a question of the user does not.
fn ended(changes: &mut TaskChanges<'_>, answer: &str, prompt: Option<&str>) -> Result<(), Refusal> {
    let Some(task) = changes.task() else { return Ok(()) };
    let intent = prompt.map(|prompt| classify(prompt, &classifier_input(Some(task))).intent);
    let answer = answer.replace('\0', " ");
    if intent != Some(Intent::Clarification) && end_run::conclude(changes, &answer)? {
        return Ok(());
    }
    let note = changes.note(format!("Answer: {}", end_run::summary(&answer)));
    changes.append(Kind::Note, vec![note])
}

fn is_in(changes: &TaskChanges<'_>, state: StateName) -> bool {
    changes.task().is_some_and(|task| task.state.name() == state)
}
