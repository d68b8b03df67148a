//! Record what the agent did, in whatever state the task is. Entries of one kind in a row make one step.

use crate::refusal::Refusal;
use crate::step::Entry;
use crate::task::Task;

use super::work::Work;
use super::{Decided, Moment, SessionView};

/// How many entries one flush may carry.
pub const OBSERVATIONS_MAX: usize = 10_000;

/// Appends the observations; none is no change.
///
/// # Errors
/// If no task is open, there are too many, or one is a move of the task, which only a rule makes.
pub fn observe(view: &SessionView, entries: &[Entry], moment: &Moment) -> Decided<Task> {
    if entries.len() > OBSERVATIONS_MAX {
        return Err(Refusal::TooMany {
            what: "observations",
            count: entries.len(),
            max: OBSERVATIONS_MAX,
        });
    }
    if entries.iter().any(|entry| matches!(entry, Entry::Task { .. } | Entry::Moved { .. })) {
        return Err(Refusal::NotObservable);
    }
    let mut work = Work::new(view, moment);
    work.open_task()?;
    add(&mut work, entries)?;
    work.finish_open()
}

pub(super) fn add(work: &mut Work<'_>, entries: &[Entry]) -> Result<(), Refusal> {
    for run in entries.chunk_by(|a, b| a.kind() == b.kind()) {
        work.append(run[0].kind(), run.to_vec())?;
    }
    Ok(())
}
