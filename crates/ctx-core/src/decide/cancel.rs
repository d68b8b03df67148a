//! Cancel: what runs is to end, what waits is released; either way the session becomes idle (R223, R248).

use crate::run::{Cancel, Outcome};
use crate::session::Activity;
use crate::turn;

use super::talk::Talk;
use super::{Change, Decided, Event, Moment, SessionView};

/// Asks the run to end, or releases the suspension. On an idle session it does nothing.
///
/// # Errors
/// Never; the signature is that of every rule.
pub fn cancel(view: &SessionView, moment: &Moment) -> Decided<()> {
    let mut talk = Talk::new(view, moment);
    match view.session.state {
        Activity::Idle => {}
        Activity::Running => cancel_run(&mut talk),
        Activity::Suspended => release(&mut talk),
    }
    Ok(talk.finish(()))
}

/// Asks the open run to end.
pub(super) fn cancel_run(talk: &mut Talk<'_>) {
    if let Some(run) = talk.run.as_mut().filter(|run| run.cancel != Some(Cancel::User)) {
        run.cancel = Some(Cancel::User);
        let run = run.clone();
        talk.work.change(Change::PutRun(Box::new(run)));
        talk.work.event(Event::SessionUpdated);
    }
}

/// Closes the turn of a session that waits for something, and says so.
pub(super) fn release(talk: &mut Talk<'_>) {
    let run_id = talk.view().run.as_ref().map(|run| run.id);
    talk.close_turn(turn::Status::Cancelled, Outcome::Cancelled, None);
    if let Some(run_id) = run_id {
        talk.work.event(Event::RunCancelled { run_id, reason: Outcome::Cancelled });
    }
}
