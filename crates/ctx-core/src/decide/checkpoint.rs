//! Store the progress of a run. A crash loses at most what came after the last checkpoint (R233).

use crate::agent_session::AgentSession;
use crate::draft;
use crate::id::{MessageId, RunId, SessionId, TurnId};
use crate::refusal::Refusal;
use crate::run::{Cancel, Phase, Run, TaskEffect};
use crate::step;
use crate::task::{State, StateName};

use super::session_changes::SessionChanges;
use super::{Change, Decided, Event, Invocation, SessionView, interrupt, observe, outgoing};

/// Progress of a run since its last checkpoint.
#[derive(Debug, Clone, Default)]
pub struct Checkpoint {
    /// Draft entries to append to the open turn.
    pub entries: Vec<draft::Entry>,
    /// The phase to change to, if it changed.
    pub phase: Option<Phase>,
    /// Events to append to the feed.
    pub events: Vec<Event>,
    /// Steering messages that the provider has added to the turn.
    pub injected: Vec<MessageId>,
    /// Actions of the agent, to be recorded as steps of the task.
    pub observed: Vec<step::Entry>,
    /// The agent's own session that this turn is sent to.
    pub agent: Option<AgentSession>,
    /// Workers whose end the agent has received as the result of a tool, with the heads that were
    /// reported.
    pub reported: Vec<(SessionId, TurnId)>,
    /// Whether the run can be steered, for agents that report it only after they were started.
    pub can_steer: Option<bool>,
}

/// Stores the progress. The reply is set if the run is to end early.
///
/// Fails if another process has taken over the session.
pub fn checkpoint(
    view: &SessionView,
    run: RunId,
    fence: u64,
    new: &Checkpoint,
    invocation: &Invocation,
) -> Decided<Option<Cancel>> {
    let mut changes = SessionChanges::new(view, invocation);
    let run = changes.own_run(run, fence)?;
    let next = new.phase.filter(|phase| run.phase.can_become(*phase));
    let can_steer = new.can_steer.unwrap_or(run.can_steer);
    if next.is_some() || can_steer != run.can_steer {
        let run = Run { phase: next.unwrap_or(run.phase), can_steer, ..run.clone() };
        changes.push(Change::PutRun(Box::new(run.clone())));
        changes.run = Some(run);
    }
    if let Some(phase) = next {
        changes.emit(Event::RunPhase { run_id: run.id, phase });
    }
    if let Some(agent) = &new.agent {
        changes.push(Change::PutAgentSession(Box::new(agent.clone())));
    }
    if !new.entries.is_empty() {
        changes.push(Change::AppendDrafts(new.entries.clone()));
    }
    for &(worker, head) in &new.reported {
        changes.push(Change::MarkReported { worker, head });
    }
    new.events.iter().for_each(|event| changes.emit(event.clone()));
    for id in &new.injected {
        inject(&mut changes, *id)?;
    }
    observe_work(&mut changes, &new.observed)?;
    Ok(changes.finish(run.cancel))
}

/// Records the agent's actions as steps of the open task. A task that the user confirmed is running
/// again, because the agent works on it.
pub(super) fn observe_work(
    changes: &mut SessionChanges<'_>,
    observed: &[step::Entry],
) -> Result<(), Refusal> {
    if !changes.session.track_tasks || observed.is_empty() {
        return Ok(());
    }
    let Some(state) = changes.tasks.task().map(|task| task.state.name()) else { return Ok(()) };
    // The view has the run also while it is suspended for a tool of the client.
    let run = changes.view().run.as_ref();
    let confirmed = run.is_some_and(|run| run.task_effect == TaskEffect::Confirm);
    if confirmed && state == StateName::PendingComplete {
        let note = changes.tasks.note("The agent continued to work after the confirmation".into());
        changes.tasks.move_to(State::Running, vec![note])?;
    }
    observe::add(&mut changes.tasks, observed)
}

/// A steering message is in the turn now. The task records it as an interruption that was
/// incorporated at once.
pub(super) fn inject(changes: &mut SessionChanges<'_>, id: MessageId) -> Result<(), Refusal> {
    let Some(item) = changes.inbox.iter().find(|item| item.message_id == id).cloned() else {
        return Ok(());
    };
    changes.remove_item(id);
    if let Some(run) = changes.run.as_mut().filter(|_| item.overrides.envelope.is_some()) {
        outgoing::add_message(run, &item);
        let run = run.clone();
        changes.push(Change::PutRun(Box::new(run)));
    }
    if changes.session.track_tasks
        && changes.tasks.task().is_some_and(|task| task.state == State::Running)
    {
        interrupt::intervene(&mut changes.tasks, &item.text())?;
        changes.tasks.move_to(State::Running, vec![])?;
    }
    Ok(())
}
