//! `ctx import … --watch`: imports sessions again whenever their files change, until Ctrl-C.
//!
//! Files are found by their size and time of change; a file that did not change is not read. The
//! pause between two passes is at least [`PAUSE_MIN`] and [`PAUSE_FACTOR`] times as long as the
//! pass took, so that watching uses a small part of one processor.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ctx_engine::Indexing;

use crate::export::Secrets;
use crate::import::{
    Environment, FileStamp, FoundFile, Ledger, Source, TOOLS, files_at_home, files_below, tool,
};
use crate::problem::Problem;

use super::import_agent_sessions::{self, Completed};
use super::import_tools::{Outcome, confirm, import_each, print, unknown_tool};
use super::{Context, init};

/// Shortest pause between two passes.
const PAUSE_MIN: Duration = Duration::from_millis(800);
/// Longest pause between two passes.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Length of a pause as a multiple of the pass before it.
const PAUSE_FACTOR: u32 = 15;
/// A file that could not be imported is tried again after this time, or when it changes.
const RETRY_AFTER: Duration = Duration::from_secs(30);

/// What is watched.
pub(super) enum Watched<'a> {
    /// One tool, in its own directories or at a path.
    Tool { name: &'a str, path: Option<&'a Path> },
    /// All tools in their own directories.
    All { yes: bool },
    /// The database of an older session server.
    Server { path: &'a Path, completed: Completed },
}

/// Follows until Ctrl-C.
pub(super) async fn run(
    context: &Context,
    watched: Watched<'_>,
    secrets: Secrets,
) -> Result<(), Problem> {
    let follow = follow(context, &watched, secrets);
    tokio::select! {
        failed = follow => failed,
        // What was stored until now is complete; the next import continues there.
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

async fn follow(context: &Context, watched: &Watched<'_>, secrets: Secrets) -> Result<(), Problem> {
    match watched {
        Watched::Server { path, completed } => {
            follow_server(context, path, *completed, secrets).await
        }
        Watched::All { yes } => {
            let first = files(watched)?;
            if !first.is_empty() {
                confirm(first.len(), *yes)?;
            }
            follow_files(context, watched, secrets).await
        }
        Watched::Tool { .. } => {
            files(watched)?;
            follow_files(context, watched, secrets).await
        }
    }
}

/// The files that are there now.
fn files(watched: &Watched<'_>) -> Result<Vec<FoundFile>, Problem> {
    let environment = Environment::of_process();
    match watched {
        Watched::Tool { name, path } => {
            let tool = tool(name).ok_or_else(|| unknown_tool(name))?;
            let Some(path) = path else { return Ok(files_at_home(tool, &environment)) };
            files_below(tool, path).map_err(|error| {
                let message = format!("cannot read {}: {error}", path.display());
                Problem::failed("source_unreadable", message)
                    .hint("name a session file of the tool, or a directory with sessions")
            })
        }
        _ => Ok(TOOLS.into_iter().flat_map(|tool| files_at_home(tool, &environment)).collect()),
    }
}

/// How a file was when it was read last.
struct SeenFile {
    stamp: FileStamp,
    /// When it is read again although it did not change.
    retry_at: Option<Instant>,
}

#[derive(Default)]
struct SeenFiles(HashMap<(&'static str, PathBuf), SeenFile>);

impl SeenFiles {
    /// The sessions of files that changed since the last call, with the files.
    fn changed(&mut self, files: Vec<FoundFile>, now: Instant) -> Vec<(FoundFile, Vec<Source>)> {
        let mut changed = Vec::new();
        let here: HashMap<_, _> = files.into_iter().map(|file| (file.key(), file)).collect();
        // A file that vanished and comes back is read again.
        self.0.retain(|key, _| here.contains_key(key));
        for (key, file) in here {
            let stamp = file.stamp();
            let is_due = self.0.get(&key).is_none_or(|seen| {
                seen.stamp != stamp || seen.retry_at.is_some_and(|at| now >= at)
            });
            if !is_due {
                continue;
            }
            let sources = file.sources();
            let retry_at = sources.is_err().then(|| now + RETRY_AFTER);
            self.0.insert(key, SeenFile { stamp, retry_at });
            changed.extend(sources.ok().map(|sources| (file, sources)));
        }
        changed
    }

    fn retry(&mut self, path: &Path, now: Instant) {
        let of_path = self.0.iter_mut().filter(|((_, seen), _)| seen == path);
        of_path.for_each(|(_, seen)| seen.retry_at = Some(now + RETRY_AFTER));
    }
}

async fn follow_files(
    context: &Context,
    watched: &Watched<'_>,
    secrets: Secrets,
) -> Result<(), Problem> {
    init::ensure_store(context).await?;
    let engine = context.engine_without_providers(Indexing::Background)?;
    let mut ledger = Ledger::open(&context.data);
    let (mut seen, mut is_first) = (SeenFiles::default(), true);
    loop {
        let started = Instant::now();
        // A path that is gone may come back.
        let found = files(watched).unwrap_or_default();
        let changed = seen.changed(found, started);
        let sources: Vec<Source> = changed.into_iter().flat_map(|(_, sources)| sources).collect();
        if is_first || !sources.is_empty() {
            let outcomes = import_each(context, &engine, &mut ledger, sources, secrets).await;
            report_pass(context, outcomes, &mut seen, is_first, secrets)?;
        }
        is_first = false;
        tokio::time::sleep(pause_after(started.elapsed())).await;
    }
}

/// Prints what a pass did; after the first one, only news. Files that failed are read again later.
fn report_pass(
    context: &Context,
    mut outcomes: Vec<Outcome>,
    seen: &mut SeenFiles,
    is_first: bool,
    secrets: Secrets,
) -> Result<(), Problem> {
    for failed in outcomes.iter().filter(|outcome| outcome.is_failed()) {
        seen.retry(failed.path(), Instant::now());
    }
    if !is_first {
        outcomes.retain(Outcome::is_news);
        if outcomes.is_empty() {
            return Ok(());
        }
    }
    print(context, &outcomes, secrets)
}

async fn follow_server(
    context: &Context,
    path: &Path,
    completed: Completed,
    secrets: Secrets,
) -> Result<(), Problem> {
    let (mut last, mut is_first) = (None, true);
    loop {
        let started = Instant::now();
        let stamp = FileStamp::of(path);
        if is_first || (stamp.is_some() && stamp != last) {
            match import_agent_sessions::import(context, path, completed, secrets).await {
                Ok(imported) if is_first || imported.is_changed() => imported.print(context)?,
                Ok(_) => {}
                Err(problem) if is_first => return Err(problem),
                // The server is writing; the next pass tries again.
                Err(problem) => context.out.print_problem(&problem),
            }
            last = stamp;
        }
        is_first = false;
        tokio::time::sleep(pause_after(started.elapsed())).await;
    }
}

fn pause_after(pass: Duration) -> Duration {
    (pass * PAUSE_FACTOR).clamp(PAUSE_MIN, PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_a_multiple_of_the_pass_within_bounds() {
        assert_eq!(pause_after(Duration::from_millis(1)), PAUSE_MIN);
        assert_eq!(pause_after(Duration::from_millis(100)), Duration::from_millis(1500));
        assert_eq!(pause_after(Duration::from_secs(60)), PAUSE_MAX);
        const { assert!(PAUSE_FACTOR >= 10, "watching uses at most a tenth of a processor") };
    }
}
