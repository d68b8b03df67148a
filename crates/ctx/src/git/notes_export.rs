//! Sealed tasks as notes of git commits, in `refs/notes/ctx`.
//!
//! A note that ctx did not write stays as it is.

use std::collections::BTreeMap;

use ctx_engine::core::time::Timestamp;

use crate::problem::Problem;

use super::repository::{Repository, author};
use super::sealed_tasks::{SealedTask, SealedTasks};

const NOTES_REF: &str = "refs/notes/ctx";
const TEMPORARY_REF: &str = "refs/ctx/notes-export";
/// The beginning of a note of ctx.
const BEGINNING: &str = "ctx-commit: ";

/// What was written.
#[derive(Debug, PartialEq, Eq, Default)]
pub(crate) struct ExportedNotes {
    /// Git commits whose note was added or changed.
    pub(crate) written: usize,
    /// Git commits with a note that ctx did not write.
    pub(crate) skipped: usize,
}

/// Writes the notes.
///
/// # Errors
/// If git fails. The notes are unchanged then.
pub(crate) fn export_notes(
    repository: &Repository,
    sealed: &SealedTasks,
) -> Result<ExportedNotes, Problem> {
    let mut notes: BTreeMap<&str, Vec<&SealedTask>> = BTreeMap::new();
    for task in &sealed.tasks {
        for commit in &task.git_commits {
            notes.entry(commit).or_default().push(task);
        }
    }
    let (mut exported, mut changed) = (ExportedNotes::default(), Vec::new());
    let previous = repository.resolve(NOTES_REF)?;
    for (commit, tasks) in notes {
        let text = tasks.iter().map(|task| note(task)).collect::<Vec<_>>().join("\n");
        let here = match previous {
            Some(_) => repository.query(["notes", "--ref=ctx", "show", commit])?,
            None => None,
        };
        match here {
            Some(here) if !here.starts_with(BEGINNING) => exported.skipped += 1,
            Some(here) if here.trim_end() == text.trim_end() => {}
            _ => changed.push((commit, text)),
        }
    }
    if changed.is_empty() {
        return Ok(exported);
    }
    // The time of the newest task, so that the same tasks give the same notes.
    let newest = sealed.tasks.iter().map(|task| task.commit.created_at).max();
    let seconds = newest.unwrap_or(Timestamp(0)).0.div_euclid(1000).max(0);
    repository.query(["update-ref", "-d", TEMPORARY_REF])?;
    let mut input = repository.start(&["fast-import", "--quiet", "--done"])?;
    let who = author("ctx");
    input.write(format!("commit {TEMPORARY_REF}\ncommitter {who} {seconds} +0000\n").as_bytes())?;
    input.data(b"Notes of ctx\n")?;
    if let Some(previous) = &previous {
        input.write(format!("from {previous}\n").as_bytes())?;
    }
    for (commit, text) in &changed {
        input.write(format!("N inline {commit}\n").as_bytes())?;
        input.data(text.as_bytes())?;
    }
    input.write(b"\ndone\n")?;
    input.finish()?;
    repository.take_over(NOTES_REF, previous.as_deref(), TEMPORARY_REF)?;
    exported.written = changed.len();
    Ok(exported)
}

/// The note of a task.
fn note(task: &SealedTask) -> String {
    let commit = &task.commit;
    let line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    format!(
        "{BEGINNING}{}\nctx-session: {}\nctx-task: {}\ntask: {}\nresult: {}\n",
        task.id,
        commit.session,
        commit.task,
        line(&commit.description),
        line(&commit.message),
    )
}
