//! Conversations in a git repository: a branch, notes and Agent Trace records.
//!
//! | file | owns |
//! |---|---|
//! | `repository` | the `git` program in a repository |
//! | `branch_export` | turns and commits of ctx as commits of a branch |
//! | `turn_files` | the files of a turn in that branch |
//! | `sealed_tasks` | what sealed tasks wrote, and the git commits that contain it |
//! | `notes_export` | sealed tasks as notes of git commits |
//! | `trace_export` | sealed tasks as Agent Trace records |
//!
//! The work tree, the index and HEAD are never changed.

mod branch_export;
mod notes_export;
mod repository;
mod sealed_tasks;
mod trace_export;
mod turn_files;

pub(crate) use branch_export::{ExportedBranch, export_branch};
pub(crate) use notes_export::export_notes;
pub(crate) use repository::Repository;
pub(crate) use sealed_tasks::SealedTasks;
pub(crate) use trace_export::export_traces;

use ctx_engine::Engine;
use ctx_engine::core::commit::Commit;
use ctx_engine::core::id::{CommitId, SessionId};
use ctx_engine::{CommitQuery, PAGE_MAX};

use crate::problem::Problem;

/// The commits of a project, or those of one session, oldest first.
async fn commits(
    engine: &Engine,
    session: Option<SessionId>,
) -> Result<Vec<(CommitId, Commit)>, Problem> {
    let mut all = Vec::new();
    let project = session.is_none().then(|| engine.project().to_owned());
    let mut query = CommitQuery { project, limit: PAGE_MAX, ..CommitQuery::default() };
    loop {
        let page = engine.records().commits(&query).await?;
        let Some((last, _)) = page.last() else { break };
        query.before = Some(*last);
        let of_session = |commit: &Commit| session.is_none_or(|id| commit.session == id);
        all.extend(page.into_iter().filter(|(_, commit)| of_session(commit)));
    }
    all.reverse();
    Ok(all)
}
