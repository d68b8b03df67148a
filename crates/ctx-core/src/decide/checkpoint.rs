//! What a run has made so far becomes durable: a crash loses at most what came after (R233).

use crate::agent_session::AgentSession;
use crate::draft;
use crate::id::{MessageId, RunId};
use crate::refusal::Refusal;
use crate::run::{Cancel, Phase, Run};
use crate::step;
use crate::task::{State, StateName};

use super::talk::Talk;
use super::{Change, Decided, Event, Moment, SessionView, interrupt, observe};

/// What is new since the last one.
#[derive(Debug, Clone, Default)]
pub struct Checkpoint {
    /// More of the turn.
    pub entries: Vec<draft::Entry>,
    /// The phase that the run is in now.
    pub phase: Option<Phase>,
    /// What the feed is told.
    pub events: Vec<Event>,
    /// Messages that are in the turn now.
    pub injected: Vec<MessageId>,
    /// What the agent did, for the task.
    pub observed: Vec<step::Entry>,
    /// The agent's own conversation that the turn goes to.
    pub agent: Option<AgentSession>,
    /// Whether messages can go into the run, where that is known only now.
    pub can_steer: Option<bool>,
}

/// Stores it. The reply says whether the run is to end early.
///
/// # Errors
/// If somebody else has taken the session over.
pub fn checkpoint(
    view: &SessionView,
    run: RunId,
    fence: u64,
    new: &Checkpoint,
    moment: &Moment,
) -> Decided<Option<Cancel>> {
    let mut talk = Talk::new(view, moment);
    let run = talk.own_run(run, fence)?;
    let next = new.phase.filter(|phase| run.phase.may_become(*phase));
    let can_steer = new.can_steer.unwrap_or(run.can_steer);
    if next.is_some() || can_steer != run.can_steer {
        talk.work.change(Change::PutRun(Box::new(Run {
            phase: next.unwrap_or(run.phase),
            can_steer,
            ..run.clone()
        })));
    }
    if let Some(phase) = next {
        talk.work.event(Event::RunPhase { run_id: run.id, phase });
    }
    if let Some(agent) = &new.agent {
        talk.work.change(Change::PutAgentSession(Box::new(agent.clone())));
    }
    if !new.entries.is_empty() {
        talk.work.change(Change::AppendDrafts(new.entries.clone()));
    }
    new.events.iter().for_each(|event| talk.work.event(event.clone()));
    for id in &new.injected {
        inject(&mut talk, *id)?;
    }
    observe_work(&mut talk, &new.observed)?;
    Ok(talk.finish(run.cancel))
}

/// What the agent did is recorded with the task that it works on.
pub(super) fn observe_work(talk: &mut Talk<'_>, observed: &[step::Entry]) -> Result<(), Refusal> {
    let working = talk.session.track_tasks
        && talk.work.task().is_some_and(|task| task.state.name() == StateName::Running);
    if working && !observed.is_empty() {
        observe::add(&mut talk.work, observed)?;
    }
    Ok(())
}

/// A message has gone into the turn; the task hears of it as an interruption that was taken in at once.
pub(super) fn inject(talk: &mut Talk<'_>, id: MessageId) -> Result<(), Refusal> {
    let Some(item) = talk.inbox.iter().find(|item| item.message_id == id).cloned() else {
        return Ok(());
    };
    talk.remove_item(id);
    if talk.session.track_tasks && talk.work.task().is_some_and(|task| task.state == State::Running)
    {
        interrupt::intervene(&mut talk.work, &item.text())?;
        talk.work.move_to(State::Running, vec![])?;
    }
    Ok(())
}
