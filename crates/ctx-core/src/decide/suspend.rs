//! A run must wait for something from outside: the turn stays open, the provider goes (R219, R232).

use crate::draft;
use crate::id::{RunId, SuspensionId};
use crate::run::{Cancel, Outcome};
use crate::suspension::{Awaited, Suspension};

use super::talk::Talk;
use super::{Change, Decided, Event, Moment, SessionView};

/// Ends the run, keeps the turn and waits. A run that is to end early does not: its reply says so.
///
/// # Errors
/// If somebody else has taken the session over.
pub fn suspend(
    view: &SessionView,
    run: RunId,
    fence: u64,
    entries: &[draft::Entry],
    awaited: &[Awaited],
    moment: &Moment,
) -> Decided<Option<Cancel>> {
    let mut talk = Talk::new(view, moment);
    let run = talk.own_run(run, fence)?;
    if run.cancel.is_some() {
        return Ok(talk.finish(run.cancel));
    }
    if !entries.is_empty() {
        talk.work.change(Change::AppendDrafts(entries.to_vec()));
    }
    for awaited in awaited {
        let suspension = Suspension {
            id: SuspensionId(talk.work.next_id()),
            awaited: awaited.clone(),
            created_at: talk.now(),
        };
        talk.work.event(Event::RunSuspended {
            run_id: run.id,
            suspension_id: suspension.id,
            kind: awaited.kind,
        });
        talk.work.change(Change::PutSuspension(Box::new(suspension)));
    }
    talk.return_steers();
    talk.end(Outcome::Suspended);
    Ok(talk.finish(None))
}
