//! One session of another tool into the store.
//!
//! A thread reads and assembles turns; this task stores them. The channel between them is bounded,
//! so a file of any size needs little memory.

use std::collections::BTreeMap;
use std::io;

use ctx_engine::core::decide::Patch;
use ctx_engine::core::id::{SessionId, derived_ulid};
use ctx_engine::core::redaction::Redactor;
use ctx_engine::core::session::{self, Origin, Parent};
use ctx_engine::core::text_limits::one_line;
use ctx_engine::core::time::Timestamp;
use ctx_engine::{Engine, ImportReport, ImportWriter, ImportedTurn};
use tokio::sync::mpsc;

use crate::export::Secrets;
use crate::problem::Problem as Failure;

use super::reading::{Facts, Problem, ReadEnd, ReadTurn, Reading};
use super::sources::Source;

/// Turns that may wait to be stored.
const WAITING_MAX: usize = 64;
/// Characters of a title that is taken from the first message.
const TITLE_MAX_CHARS: usize = 80;

/// The result of importing one session.
pub(crate) struct StoredSource {
    /// `None` if the source has no turns.
    pub(crate) session: Option<SessionId>,
    pub(crate) report: ImportReport,
    /// Sessions of workers that were stored or known.
    pub(crate) workers: u64,
    pub(crate) problems: Vec<Problem>,
    pub(crate) problem_count: u64,
    pub(crate) facts: Facts,
    /// The secrets that were replaced.
    pub(crate) redactor: Redactor,
}

/// Imports one session. What was stored before is recognised.
///
/// # Errors
/// If the source cannot be read, or the store fails.
pub(crate) async fn store_source(
    engine: &Engine,
    source: &Source,
    secrets: Secrets,
) -> Result<StoredSource, Failure> {
    let mut redactor = Redactor::default();
    let (to, mut from) = mpsc::channel(WAITING_MAX);
    let read = {
        let source = source.clone();
        tokio::task::spawn_blocking(move || read_all(&source, &to))
    };
    let tool = source.tool.name();
    let mut writers: BTreeMap<Option<String>, ImportWriter> = BTreeMap::new();
    let mut failure = None;
    while let Some(read) = from.recv().await {
        let ReadTurn { worker, mut facts, tool_call, mut turn } = read;
        if secrets == Secrets::Redact {
            redact_turn(&mut turn, &mut redactor);
            redact_facts(&mut facts);
        }
        let stored = async {
            if !writers.contains_key(&worker) {
                let new = new_session(engine, tool, &facts, worker.as_deref(), tool_call);
                writers.insert(worker.clone(), engine.imports().writer(new).await?);
            }
            let Some(writer) = writers.get_mut(&worker) else { return Ok(()) };
            writer.push(turn).await.map(|_| ())
        };
        if let Err(error) = stored.await {
            failure = Some(error);
            break;
        }
    }
    drop(from);
    let read = read.await.map_err(|error| io::Error::other(error.to_string()));
    if let Some(error) = failure {
        return Err(error.into());
    }
    let mut end = read.flatten().map_err(|error| cannot_read(source, &error))?;
    if secrets == Secrets::Redact {
        redact_facts(&mut end.facts);
    }
    finish(engine, writers, end, redactor).await
}

/// Replaces the secrets of a turn before it is stored.
pub(crate) fn redact_turn(imported: &mut ImportedTurn, redactor: &mut Redactor) {
    let (blobs, changed) = redactor.blobs(std::mem::take(&mut imported.turn.blobs));
    imported.turn.blobs = blobs;
    for message in &mut imported.turn.messages {
        redactor.message(message, &changed);
    }
    if let Some(compaction) = &mut imported.compaction {
        // The turn contains the same text, so it is not counted again.
        Redactor::default().text_mut(&mut compaction.summary);
    }
}

/// Replaces the secrets of the facts. They repeat texts of turns, so they are not counted.
pub(crate) fn redact_facts(facts: &mut Facts) {
    for text in [&mut facts.title, &mut facts.first_prompt].into_iter().flatten() {
        Redactor::default().text_mut(text);
    }
}

fn cannot_read(source: &Source, error: &io::Error) -> Failure {
    Failure::failed("source_unreadable", format!("cannot read {}: {error}", source.path.display()))
        .hint("check that the file exists and that you may read it")
}

async fn finish(
    engine: &Engine,
    writers: BTreeMap<Option<String>, ImportWriter>,
    end: ReadEnd,
    redactor: Redactor,
) -> Result<StoredSource, Failure> {
    let mut stored = StoredSource {
        session: None,
        report: ImportReport::default(),
        workers: 0,
        problem_count: end.problem_count,
        problems: end.problems,
        facts: end.facts,
        redactor,
    };
    for (count, what) in [
        (end.duplicates, "records with an id that was used before were skipped"),
        (end.orphans, "records name a parent that is missing; they follow the record before them"),
    ] {
        if count > 0 {
            stored.problem_count += 1;
            stored.problems.push(Problem { line: 0, why: format!("{count} {what}") });
        }
    }
    for (worker, writer) in writers {
        let session = writer.session();
        let report = writer.finish().await?;
        if worker.is_some() {
            stored.workers += 1;
            stored.report.turns += report.turns;
        } else {
            stored.session = Some(session);
            let workers = stored.report.turns;
            stored.report = ImportReport { turns: report.turns + workers, ..report };
            set_title(engine, session, &stored.facts).await?;
        }
    }
    Ok(stored)
}

/// A title can follow the turns in the file.
async fn set_title(engine: &Engine, session: SessionId, facts: &Facts) -> Result<(), Failure> {
    let Some(title) = &facts.title else { return Ok(()) };
    let name = session.to_string();
    let info = engine.sessions().get(&name).await?;
    if info.session.title.as_ref() != Some(title) {
        let patch = Patch { title: Some(Some(title.clone())), ..Patch::default() };
        engine.sessions().update(&name, patch).await?;
    }
    Ok(())
}

fn read_all(source: &Source, to: &mpsc::Sender<ReadTurn>) -> io::Result<ReadEnd> {
    let stopped = || io::Error::new(io::ErrorKind::BrokenPipe, "the import was stopped");
    let mut emit = |turn| to.blocking_send(turn).map_err(|_| stopped());
    let name = source.name();
    let mut reading = Reading::new(source.tool.name(), &name, &mut emit);
    source.tool.read(source, &mut reading)?;
    reading.finish()
}

/// The id of the session that a source becomes.
pub(crate) fn session_id(tool: &str, facts: &Facts) -> SessionId {
    let created_at = facts.created_at.unwrap_or(Timestamp(0));
    SessionId(derived_ulid(&["session", tool, &facts.id], created_at.0))
}

pub(crate) fn new_session(
    engine: &Engine,
    tool: &str,
    facts: &Facts,
    worker: Option<&str>,
    tool_call: Option<String>,
) -> session::New {
    let created_at = facts.created_at.unwrap_or(Timestamp(0));
    let id = session_id(tool, facts);
    let label = format!("{tool}:{}", facts.id);
    let label: String = label.chars().take(session::LABEL_MAX_CHARS).collect();
    let project = engine.project_in(facts.working_dir.as_deref());
    let first = facts.first_prompt.as_deref().map(|text| one_line(text, TITLE_MAX_CHARS));
    let (origin, parent) = match worker {
        Some(worker) => {
            let main = facts.id.strip_suffix(&format!("/{worker}")).unwrap_or(&facts.id);
            let session = format!("{tool}:{main}");
            (Origin::Subagent, Some(Parent { session, turn: None, tool_call }))
        }
        None => (Origin::Import, None),
    };
    session::New {
        last_activity_at: facts.updated_at.filter(|at| *at >= created_at),
        title: facts.title.clone().or(first),
        working_dir: facts.working_dir.clone(),
        parent,
        ..session::New::idle(id, label, project, origin, created_at)
    }
}
