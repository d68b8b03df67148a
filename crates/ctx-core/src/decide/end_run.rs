//! End a run: turn, head, task and feed change in one decision (R147).

use crate::agent_session::AgentSession;
use crate::agent_text::{Conclusion, conclusion};
use crate::commit::CommitType;
use crate::compaction::Compaction;
use crate::id::{MessageId, RunId, TurnId};
use crate::inbox::ItemState;
use crate::outbox::Spoken;
use crate::refusal::Refusal;
use crate::run::{Outcome, Run, TaskEffect};
use crate::session::Activity;
use crate::step;
use crate::task::{State, StateName};
use crate::text_limits::one_line;
use crate::turn::{self, Ready};
use crate::worker::WorkerState;

use super::session_changes::SessionChanges;
use super::task_changes::TaskChanges;
use super::{Change, Decided, Event, Invocation, SessionView, checkpoint, confirm};

/// Longest task summary that is taken from an agent's final text, in characters.
const SUMMARY_MAX_CHARS: usize = 2000;

/// The answer to a command that compacted the conversation.
const COMPACTED: &str = "The conversation was compacted.";

/// Longest paragraph that counts as a question alone, in characters.
const QUESTION_MAX_CHARS: usize = 200;

/// A run that has ended, as its process reports it.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct EndedRun {
    pub run: RunId,
    /// The fence that the run holds.
    pub fence: u64,
    /// The finished turn.
    pub ready: Ready,
    pub outcome: Outcome,
    /// Code of the failure, for a failed run.
    pub code: Option<String>,
    /// Assistant messages that are complete now.
    pub messages: Vec<MessageId>,
    /// The agent's final text, from which the state of the task is derived.
    pub last_text: Option<String>,
    /// Events that were not stored with a checkpoint.
    pub events: Vec<Event>,
    /// Steering messages that were added to the turn since the last checkpoint.
    pub injected: Vec<MessageId>,
    /// Actions of the agent since the last checkpoint.
    pub observed: Vec<step::Entry>,
    /// The agent's own session, if it has seen the whole turn.
    pub agent: Option<AgentSession>,
    /// What the agent said in the turn, for the channels that wait for the answer.
    pub spoken: Spoken,
    /// Set if the turn is a compaction that a user asked for.
    pub compaction: Option<Compaction>,
    /// Whether the process keeps a live agent for the session, and stays its owner.
    pub keeps_agent: bool,
}

/// What the transaction that ended a run left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEnd {
    /// The turn of the run.
    pub turn: Option<TurnId>,
    /// The head of the session: the turn, or a notice after it.
    pub head: Option<TurnId>,
    /// The pinned turns, which may have changed during the run.
    pub pins: Vec<TurnId>,
    /// Whether nothing is left to do: the inbox is empty, and no worker has a report to send.
    pub is_settled: bool,
}

impl Outcome {
    /// The status of the turn that a run with this outcome leaves.
    pub const fn turn_status(self) -> turn::Status {
        match self {
            Self::Completed | Self::Suspended => turn::Status::Completed,
            Self::Failed => turn::Status::Failed,
            Self::Cancelled => turn::Status::Cancelled,
            Self::Interrupted => turn::Status::Interrupted,
        }
    }
}

/// Appends the turn and makes the session idle.
///
/// Fails if the run was ended by another process.
pub fn end_run(view: &SessionView, ended: &EndedRun, invocation: &Invocation) -> Decided<RunEnd> {
    let mut changes = SessionChanges::new(view, invocation);
    let run = changes.own_run(ended.run, ended.fence)?;
    ended.events.iter().for_each(|event| changes.emit(event.clone()));
    for id in &ended.injected {
        checkpoint::inject(&mut changes, *id)?;
    }
    checkpoint::observe_work(&mut changes, &ended.observed)?;
    for message_id in &ended.messages {
        changes.emit(Event::MessageCompleted { run_id: run.id, message_id: *message_id });
    }
    changes.append_ready(&ended.ready);
    let turn = changes.session.head;
    if let Some(compaction) = &ended.compaction {
        changes.record_compaction(compaction);
    }
    if let Some(agent) = &ended.agent {
        let seen = AgentSession { synced_turn: changes.session.head, clean: true, ..agent.clone() };
        changes.push(Change::PutAgentSession(Box::new(seen)));
    }
    let answered = changes.run.clone();
    changes.send_reply(answered.as_ref(), &spoken(ended), ended.outcome.turn_status());
    for item in changes.items_in(ItemState::Taken) {
        changes.remove_item(item.message_id);
    }
    changes.push(Change::ClearDrafts);
    changes.requeue_steering();
    changes.end(ended.outcome);
    if ended.keeps_agent {
        changes.session.owner = view.session.owner;
    }
    changes.append_deferred(Some(run.clone()));
    debug_assert_eq!(changes.session.state, Activity::Idle);
    changes.emit(match ended.outcome {
        Outcome::Completed | Outcome::Suspended => Event::RunCompleted { run_id: run.id },
        Outcome::Failed => Event::RunFailed {
            run_id: run.id,
            code: ended.code.clone().unwrap_or_else(|| "failed".to_owned()),
        },
        Outcome::Cancelled => Event::RunCancelled { run_id: run.id, reason: Outcome::Cancelled },
        Outcome::Interrupted => {
            Event::RunCancelled { run_id: run.id, reason: Outcome::Interrupted }
        }
    });
    if ended.outcome == Outcome::Completed {
        note_answer_beside_question(&mut changes, &run, ended.last_text.as_deref())?;
    }
    let alone = changes.waiting().next().is_none();
    if changes.session.is_worker() {
        if ended.outcome == Outcome::Completed && alone {
            finish_worker(&mut changes, ended.last_text.as_deref())?;
        }
    } else if ended.outcome == Outcome::Completed && alone {
        match run.task_effect {
            TaskEffect::Keep => {}
            TaskEffect::Infer => move_task(&mut changes, ended.last_text.as_deref())?,
            TaskEffect::Confirm => seal_confirmed(&mut changes)?,
        }
    }
    let reports_are_due = view.workers.iter().any(|worker| worker.unreported);
    let is_settled = changes.inbox.is_empty() && !reports_are_due;
    let head = changes.session.head;
    let pins = view.pins.iter().map(|pin| pin.turn).collect();
    Ok(changes.finish(RunEnd { turn, head, pins, is_settled }))
}

/// What goes to the channels. A compaction has no text of an agent.
fn spoken(ended: &EndedRun) -> Spoken {
    let mut spoken = ended.spoken.clone();
    if ended.compaction.is_some() && ended.outcome == Outcome::Completed {
        COMPACTED.clone_into(&mut spoken.text);
    }
    spoken
}

/// A worker that ends without a question has completed its task; its manager's confirmation is not
/// needed (R190). It is not finished before its own workers are: while they work, the task stays
/// running, and the reports of the workers start the next run.
fn finish_worker(changes: &mut SessionChanges<'_>, last_text: Option<&str>) -> Result<(), Refusal> {
    let text = last_text.unwrap_or("done");
    let Some(state) = changes.tasks.task().map(|task| task.state.name()) else { return Ok(()) };
    let workers = &changes.view().workers;
    let question = asked(text).filter(|_| !workers.iter().any(WorkerState::is_working));
    match (state, question) {
        (StateName::Running, Some(question)) => ask_at_end(&mut changes.tasks, text, question),
        (StateName::Running | StateName::PendingComplete, _) if is_delegated(workers) => {
            wait_for_workers(changes)
        }
        (StateName::Running, None) => {
            changes.tasks.move_to(State::PendingComplete { summary: summary(text) }, vec![])?;
            complete_worker(changes)
        }
        (StateName::PendingComplete, _) => complete_worker(changes),
        _ => Ok(()),
    }
}

/// Whether a part of the task is with workers that are not finished.
fn is_delegated(workers: &[WorkerState]) -> bool {
    workers.iter().any(|worker| worker.is_working() || worker.is_asking())
}

/// The worker has declared its task done too early: its own workers are not finished.
fn wait_for_workers(changes: &mut SessionChanges<'_>) -> Result<(), Refusal> {
    if changes.tasks.open_task()?.state.name() == StateName::Running {
        return Ok(());
    }
    let labels: Vec<&str> =
        changes.view().workers.iter().map(|worker| worker.label.as_str()).collect();
    let note =
        changes.tasks.note(format!("Not finished before its workers: {}", labels.join(", ")));
    changes.tasks.move_to(State::Running, vec![note])
}

fn complete_worker(changes: &mut SessionChanges<'_>) -> Result<(), Refusal> {
    let message = changes.tasks.open_task()?.summary().to_owned();
    let note = changes.tasks.note("The worker has ended; a report goes to its manager".to_owned());
    changes.tasks.move_to(State::Complete, vec![note])?;
    changes.tasks.seal(CommitType::Normal, message)
}

/// Seals the task that the user confirmed. If the agent worked in this run, the task is running and
/// is not sealed.
fn seal_confirmed(changes: &mut SessionChanges<'_>) -> Result<(), Refusal> {
    match changes.tasks.task().map(|task| task.state.name()) {
        Some(StateName::PendingComplete) => confirm::complete(&mut changes.tasks, None),
        _ => Ok(()),
    }
}

/// Moves the task by the agent's final text, if the agent did not use `ask_user` or
/// `finish_task` (design section 7).
fn move_task(changes: &mut SessionChanges<'_>, last_text: Option<&str>) -> Result<(), Refusal> {
    match last_text {
        Some(text) => conclude(&mut changes.tasks, text).map(drop),
        None => Ok(()),
    }
}

/// Moves a running task by the agent's final text. Returns whether the task was moved.
pub(super) fn conclude(tasks: &mut TaskChanges<'_>, text: &str) -> Result<bool, Refusal> {
    if tasks.task().is_none_or(|task| task.state.name() != StateName::Running) {
        return Ok(false);
    }
    match conclusion(text) {
        Conclusion::Asks(question) => ask_at_end(tasks, text, question)?,
        Conclusion::Completed => {
            tasks.move_to(State::PendingComplete { summary: summary(text) }, vec![])?;
        }
        Conclusion::Open => return Ok(false),
    }
    Ok(true)
}

pub(super) fn summary(text: &str) -> String {
    text.trim().chars().take(SUMMARY_MAX_CHARS).collect()
}

/// The agent's final text asks something. The rest of it is recorded as work.
fn ask_at_end(tasks: &mut TaskChanges<'_>, text: &str, question: &str) -> Result<(), Refusal> {
    if let Some(answer) = answer_before(text, question) {
        let note = tasks.note(format!("Answer: {}", summary(answer)));
        tasks.append(step::Kind::Note, vec![note])?;
    }
    let question = one_line(question, SUMMARY_MAX_CHARS);
    let note = tasks.note(format!("Question for user: {question}"));
    let asked_at = tasks.now().unix_seconds();
    tasks.move_to(State::AwaitingUser { question, asked_at }, vec![note])
}

/// The agent has asked with `ask_user` in this run. A long final text is more than a remark on the
/// question and is recorded as work.
fn note_answer_beside_question(
    changes: &mut SessionChanges<'_>,
    run: &Run,
    last_text: Option<&str>,
) -> Result<(), Refusal> {
    let asked = match changes.tasks.task().map(|task| &task.state) {
        Some(State::AwaitingUser { asked_at, .. }) => *asked_at >= run.started_at.unix_seconds(),
        _ => false,
    };
    match last_text.filter(|text| asked && text.trim().chars().count() > QUESTION_MAX_CHARS) {
        Some(answer) => {
            let note = changes.tasks.note(format!("Answer: {}", summary(answer)));
            changes.tasks.append(step::Kind::Note, vec![note])
        }
        None => Ok(()),
    }
}

/// The part of a final text that is more than a question: the paragraphs before the one that asks,
/// or that paragraph itself if it is too long for a question alone.
fn answer_before<'a>(text: &'a str, question: &'a str) -> Option<&'a str> {
    let text = text.trim();
    let before = text.strip_suffix(question).unwrap_or_default().trim();
    if !before.is_empty() {
        return Some(before);
    }
    (question.chars().count() > QUESTION_MAX_CHARS).then_some(question)
}

/// The question of a final text.
fn asked(text: &str) -> Option<&str> {
    match conclusion(text) {
        Conclusion::Asks(question) => Some(question),
        Conclusion::Completed | Conclusion::Open => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outcome_of_a_run_is_the_status_of_its_turn() {
        for (outcome, status) in [
            (Outcome::Completed, turn::Status::Completed),
            (Outcome::Failed, turn::Status::Failed),
            (Outcome::Cancelled, turn::Status::Cancelled),
            (Outcome::Interrupted, turn::Status::Interrupted),
        ] {
            assert_eq!(outcome.turn_status(), status);
        }
    }

    #[test]
    fn a_text_with_more_than_a_question_has_an_answer() {
        let long = format!("{} Shall I go on?", "The cache is the cause. ".repeat(10));
        for (text, answer) in [
            ("Shall I go on?", None),
            ("  Shall I go on?\n", None),
            ("The cache is the cause.\n\nShall I go on?", Some("The cache is the cause.")),
            (long.as_str(), Some(long.as_str())),
        ] {
            let question = asked(text).expect("a question");
            assert_eq!(answer_before(text, question), answer, "{text}");
        }
    }
}
