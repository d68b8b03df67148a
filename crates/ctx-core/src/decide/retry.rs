//! Run the last message again: the head goes back before its turn, which stays in the tree.

use crate::id::TurnId;
use crate::inbox::Item;
use crate::refusal::Refusal;
use crate::session::Status;
use crate::task::{State, StateName};

use super::rewind::must_be_idle;
use super::talk::{Opener, Talk};
use super::update_session::field;
use super::{Change, Decided, Moment, Opened, SessionView};

/// Opens a run with the messages of the head's turn, under its parent.
///
/// # Errors
/// If the session is busy, the head has moved, or there is nothing to run.
pub fn retry(
    view: &SessionView,
    head: TurnId,
    parent: Option<TurnId>,
    items: &[Item],
    opener: &Opener,
    moment: &Moment,
) -> Decided<Opened> {
    must_be_idle(view)?;
    if view.session.status == Status::Error {
        return Err(Refusal::SessionBroken);
    }
    if view.session.head != Some(head) {
        return Err(Refusal::StaleWriter);
    }
    if items.is_empty() {
        return Err(Refusal::NothingToRetry);
    }
    for model in items.iter().filter_map(|item| item.overrides.model.as_deref()) {
        field("model", model)?;
    }
    let mut talk = Talk::new(view, moment);
    talk.session.head = parent;
    talk.session.turn_count -= 1;
    talk.work.change(Change::MoveHead { turn: parent, depth: talk.session.turn_count });
    let tracked = talk.session.track_tasks;
    let state = talk.work.task().map(|task| task.state.name());
    if tracked
        && matches!(
            state,
            Some(StateName::AwaitingUser | StateName::Interrupted | StateName::PendingComplete)
        )
    {
        let note = talk.work.note("User asked to try again".to_owned());
        talk.work.move_to(State::Running, vec![note])?;
    }
    talk.open_run(items.to_vec(), tracked && state.is_some(), opener);
    let opened = talk.opened.take().ok_or(Refusal::NothingToRetry)?;
    Ok(talk.finish(opened))
}
