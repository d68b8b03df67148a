//! `ctx import --from agent-sessions FILE`: the database of an older session server, in one
//! transaction.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use ctx_engine::core::redaction::Redactor;
use ctx_engine::core::session::Status;
use ctx_engine::{AtomicImport, AtomicSession, Engine, ImportReport};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::export::{Secrets, report};
use crate::import::{
    AGENT_SESSIONS, AgentRecord, Facts, imported_status, new_session, read_agent_sessions,
    redact_facts, redact_turn,
};
use crate::problem::Problem;

use super::output::{DIM, YELLOW, plural, visible_text};
use super::{Context, init};

/// Records that may wait to be stored.
const WAITING_MAX: usize = 64;
/// Problems that are reported one by one.
const PROBLEMS_MAX: usize = 100;

/// The status that completed sessions get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Completed {
    /// They stay in lists.
    Active,
    /// They are hidden from lists.
    Archived,
}

/// A session that was imported or known.
struct ImportedSession {
    facts: Facts,
    id: String,
    label: String,
    /// The status that it gets if it is created.
    status: Status,
    report: ImportReport,
}

/// What an import did.
pub(super) struct ImportedServer {
    path: PathBuf,
    sessions: Vec<ImportedSession>,
    problems: Vec<String>,
    problem_count: usize,
    /// The secrets that were replaced, if they are to be replaced.
    redactor: Option<Redactor>,
}

/// Imports a database and prints what happened.
pub(super) async fn run(
    context: &Context,
    path: &Path,
    completed: Completed,
    secrets: Secrets,
) -> Result<(), Problem> {
    import(context, path, completed, secrets).await?.print(context)
}

/// Imports everything in the database, or nothing.
pub(super) async fn import(
    context: &Context,
    path: &Path,
    completed: Completed,
    secrets: Secrets,
) -> Result<ImportedServer, Problem> {
    // A file that cannot be read must not create a store.
    let mut checked = |_| Err(io::Error::other("enough was read"));
    if let Err(error) = read_agent_sessions(path, &mut checked)
        && error.kind() != io::ErrorKind::Other
    {
        return Err(cannot_read(path, &error));
    }
    init::ensure_store(context).await?;
    let engine = context.engine()?;
    let (to, mut from) = mpsc::channel(WAITING_MAX);
    let read = {
        let path = path.to_path_buf();
        tokio::task::spawn_blocking(move || {
            let stopped = || io::Error::new(io::ErrorKind::BrokenPipe, "the import was stopped");
            read_agent_sessions(&path, &mut |record| {
                to.blocking_send(record).map_err(|_| stopped())
            })
        })
    };
    let completed = match completed {
        Completed::Active => Status::Active,
        Completed::Archived => Status::Archived,
    };
    let mut imported = ImportedServer {
        path: path.to_path_buf(),
        sessions: Vec::new(),
        problems: Vec::new(),
        problem_count: 0,
        redactor: (secrets == Secrets::Redact).then(Redactor::default),
    };
    let import = engine.imports().atomic();
    let stored = store(&engine, &import, &mut from, completed, &mut imported).await;
    drop(from);
    let read = read.await.map_err(|error| io::Error::other(error.to_string())).flatten();
    match (stored, read) {
        (Err(error), _) => {
            // A rule or the store ended the transaction: its error says why.
            import.failure().await?;
            Err(error.into())
        }
        (Ok(()), Err(error)) => {
            drop(import);
            Err(cannot_read(path, &error))
        }
        (Ok(()), Ok(())) => {
            import.commit().await?;
            Ok(imported)
        }
    }
}

fn cannot_read(path: &Path, error: &io::Error) -> Problem {
    let message = format!("cannot read {}: {error}; nothing was imported", path.display());
    Problem::failed("source_unreadable", message)
        .hint("name a SQLite database with the tables Repository, AgentSession and AgentMessage")
}

async fn store(
    engine: &Engine,
    import: &AtomicImport,
    from: &mut mpsc::Receiver<AgentRecord>,
    completed: Status,
    imported: &mut ImportedServer,
) -> Result<(), ctx_engine::Error> {
    let mut open: Option<AtomicSession<'_>> = None;
    while let Some(record) = from.recv().await {
        match record {
            AgentRecord::Session { mut facts, status } => {
                imported.end(open.take()).await?;
                if imported.redactor.is_some() {
                    redact_facts(&mut facts);
                }
                let status = imported_status(&status, completed);
                let new = new_session(engine, AGENT_SESSIONS, &facts, None, None);
                imported.sessions.push(ImportedSession {
                    facts: *facts,
                    id: new.id.to_string(),
                    label: new.label.clone(),
                    status,
                    report: ImportReport::default(),
                });
                open = Some(import.session(new, status).await?);
            }
            AgentRecord::Turn(mut turn) => {
                if let Some(redactor) = &mut imported.redactor {
                    redact_turn(&mut turn, redactor);
                }
                if let Some(session) = &mut open {
                    session.push(*turn).await?;
                }
            }
            AgentRecord::Problem(why) => imported.problem(why),
        }
    }
    imported.end(open).await
}

impl ImportedServer {
    async fn end(&mut self, session: Option<AtomicSession<'_>>) -> Result<(), ctx_engine::Error> {
        if let (Some(session), Some(last)) = (session, self.sessions.last_mut()) {
            last.report = session.finish().await?;
        }
        Ok(())
    }

    fn problem(&mut self, why: String) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(why);
        }
    }

    /// Prints what happened.
    pub(super) fn print(&self, context: &Context) -> Result<(), Problem> {
        context.out.print(|| self.document(), || self.lines())
    }

    fn document(&self) -> Value {
        let path = self.path.display().to_string();
        let session = |session: &ImportedSession| {
            json!({
                "tool": AGENT_SESSIONS,
                "path": path,
                "source_id": session.facts.id,
                "effect": session.effect(),
                "session": session.id,
                "label": session.label,
                "status": session.report.created.then_some(session.status),
                "turns": session.report.turns,
                "known_turns": session.report.known,
                "continued_in": session.report.continued_in,
            })
        };
        let mut document = json!({
            "imported": self.sessions.iter().map(session).collect::<Vec<_>>(),
            "problems": self.problems,
            "problem_count": self.problem_count,
        });
        if let Some(redactor) = &self.redactor {
            document["redacted"] = report::document(redactor);
        }
        document
    }

    fn lines(&self) -> String {
        let path = visible_text(&self.path.display().to_string());
        let mut lines: Vec<String> = self
            .problems
            .iter()
            .map(|why| format!("{YELLOW}{path}{YELLOW:#}: {}", visible_text(why)))
            .collect();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let mut turns = 0;
        for session in &self.sessions {
            *counts.entry(session.effect()).or_default() += 1;
            turns += session.report.turns;
            if let Some(label) = &session.report.continued_in {
                lines.push(format!(
                    "{}: the session was continued here; its new turns are in {label}",
                    visible_text(&session.label)
                ));
            }
        }
        let count = |effect: &str| counts.get(effect).copied().unwrap_or(0);
        lines.push(format!(
            "{} created, {} extended, {} unchanged {DIM}({}){DIM:#}",
            count("created"),
            count("extended"),
            count("unchanged"),
            plural(turns, "turn")
        ));
        lines.extend(self.redactor.as_ref().map(report::line));
        lines.join("\n")
    }

    /// Whether anything was stored.
    pub(super) fn is_changed(&self) -> bool {
        self.sessions.iter().any(|session| session.effect() != "unchanged")
    }
}

impl ImportedSession {
    const fn effect(&self) -> &'static str {
        match (self.report.created, self.report.turns) {
            (true, _) => "created",
            (false, 0) => "unchanged",
            _ => "extended",
        }
    }
}
