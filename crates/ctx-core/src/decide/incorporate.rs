//! The agent has taken the user's words in: interrupted → running (R26, R42).

use crate::refusal::Refusal;
use crate::task::{State, StateName};

use super::work::Work;
use super::{Decided, Moment, Reply, SessionView};

/// Goes on; the reply's text is what the user had said.
///
/// # Errors
/// If nothing interrupted the task.
pub fn incorporate(view: &SessionView, moment: &Moment) -> Decided {
    let mut work = Work::new(view, moment);
    let from = work.open_task()?.state.clone();
    let State::Interrupted { user_message } = from else {
        return Err(Refusal::WrongState {
            verb: "given new words to take in",
            from: from.name(),
            wanted: StateName::Interrupted,
            to: StateName::Running,
        });
    };
    work.move_to(State::Running, vec![])?;
    Ok(work.finish(Reply { text: Some(user_message), ..Reply::default() }))
}
