//! The user says something while the agent works: running → interrupted (R22, R41). Further messages are
//! collected until the agent takes them in.

use crate::refusal::Refusal;
use crate::step::Kind;
use crate::task::{State, Task};

use super::work::{Work, text};
use super::{Decided, Moment, SessionView};

/// Notes the intervention and leaves it for the agent.
///
/// # Errors
/// If no task is running or interrupted, or the message is no text.
pub fn interrupt(view: &SessionView, message: &str, moment: &Moment) -> Decided<Task> {
    let message = text("message", message)?;
    let mut work = Work::new(view, moment);
    intervene(&mut work, &message)?;
    work.finish_open()
}

pub(super) fn intervene(work: &mut Work<'_>, message: &str) -> Result<(), Refusal> {
    let note = work.note(format!("User intervention: {message}"));
    match work.open_task()?.state.clone() {
        State::Interrupted { user_message } => {
            let user_message = format!("{user_message}\n{message}");
            text("collected interruption", &user_message)?;
            work.append_with_state(Kind::State, vec![note], State::Interrupted { user_message })
        }
        _ => work.move_to(State::Interrupted { user_message: message.to_owned() }, vec![note]),
    }
}
