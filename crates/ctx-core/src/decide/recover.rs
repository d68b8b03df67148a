//! Come back to the open task: say where it stands, ask if that was long ago, seal if too long (R98–R105).

use crate::commit::CommitType;
use crate::prompt::{Pending, resume_text};
use crate::stale::{self, Staleness};
use crate::task::State;

use super::abort::abandon;
use super::work::Work;
use super::{Decided, Moment, Reply, SessionView, Settings};

/// The reply's text is what the user should read; after a seal there is none.
///
/// # Errors
/// If no task is open.
pub fn recover(view: &SessionView, settings: &Settings, moment: &Moment) -> Decided {
    let mut work = Work::new(view, moment);
    let task = work.open_task()?.clone();
    if let State::Aborted { .. } = task.state {
        abandon(&mut work, None)?;
        return Ok(work.done());
    }
    let idle = stale::idle(&task, work.now());
    let text = match settings.stale.judge(idle) {
        Staleness::ShouldSeal => {
            work.seal(
                CommitType::StaleAutoCompact { idle_duration_secs: idle.seconds() },
                "Session expired".to_owned(),
            )?;
            None
        }
        _ if work.prompt().is_some() => work.prompt().map(|prompt| prompt.text.clone()),
        Staleness::ShouldAsk => {
            let text = resume_text(&task.description, task.last_activity_at);
            work.ask_choice(Pending::Resume, text.clone());
            Some(text)
        }
        Staleness::Fresh => Some(stale::welcome(&task)),
    };
    Ok(work.finish(Reply { text, ..Reply::default() }))
}
