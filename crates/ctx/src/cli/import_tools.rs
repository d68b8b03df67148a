//! `ctx import --from TOOL [PATH]` and `ctx import --all`: sessions of other tools.

use std::io::{IsTerminal, Write};
use std::path::Path;

use ctx_engine::Indexing;
use ctx_engine::core::redaction::Redactor;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use crate::export::{Secrets, report as redaction_report};
use crate::import::{
    Change, Entry, Environment, Ledger, ReadProblem, Source, StoredSource, TOOLS, at_home, below,
    store_source, tool,
};
use crate::problem::Problem;

use super::output::{DIM, YELLOW, plural, visible_text};
use super::store::index;
use super::{Context, init};

/// Files that are imported at the same time.
const AT_ONCE: usize = 8;

/// What happened to one file.
pub(super) struct Outcome {
    source: Source,
    effect: Effect,
}

enum Effect {
    /// With the entry for the ledger, unless the file could not be read again.
    Stored(Box<StoredSource>, Option<Entry>),
    Unchanged(Option<String>),
    Failed(Problem),
}

/// Imports the sessions of one tool.
pub(super) async fn from_tool(
    context: &Context,
    name: &str,
    path: Option<&Path>,
    secrets: Secrets,
) -> Result<(), Problem> {
    let tool = tool(name).ok_or_else(|| unknown_tool(name))?;
    let sources = match path {
        Some(path) => below(tool, path).map_err(|error| {
            let message = format!("cannot read {}: {error}", path.display());
            Problem::failed("source_unreadable", message)
                .hint("name a session file of the tool, or a directory with sessions")
        })?,
        None => at_home(tool, &Environment::of_process()),
    };
    if sources.is_empty() {
        let place =
            path.map_or_else(|| "its own directory".to_owned(), |p| p.display().to_string());
        let message = format!("no sessions of {name} found in {place}");
        return Err(Problem::failed("no_sessions", message)
            .hint(format!("give the place: `ctx import --from {name} PATH`")));
    }
    import(context, sources, secrets).await
}

pub(super) fn unknown_tool(name: &str) -> Problem {
    let names: Vec<&str> = TOOLS.iter().map(|tool| tool.name()).collect();
    Problem::wrong_use("unknown_tool", format!("unknown tool `{name}`"))
        .hint(format!("use one of {}", names.join(", ")))
}

/// Imports the sessions of all tools that are found, after a question on a terminal.
pub(super) async fn from_all(
    context: &Context,
    yes: bool,
    secrets: Secrets,
) -> Result<(), Problem> {
    let environment = Environment::of_process();
    let mut sources = Vec::new();
    let mut table = Vec::new();
    for tool in TOOLS {
        let found = at_home(tool, &environment);
        if !found.is_empty() {
            let bytes: u64 = found.iter().map(|source| source.bytes).sum();
            table.push(format!("{:<12} {:>6} {:>10}", tool.name(), found.len(), megabytes(bytes)));
            sources.extend(found);
        }
    }
    if sources.is_empty() {
        return Err(Problem::failed("no_sessions", "no sessions of other tools found")
            .hint("name a tool and a place: `ctx import --from TOOL PATH`"));
    }
    if !context.out.is_json() {
        eprintln!("{:<12} {:>6} {:>10}\n{}", "tool", "files", "size", table.join("\n"));
    }
    confirm(sources.len(), yes)?;
    import(context, sources, secrets).await
}

/// Asks before everything that was found is imported.
pub(super) fn confirm(count: usize, yes: bool) -> Result<(), Problem> {
    if yes || confirmed(count)? {
        return Ok(());
    }
    Err(Problem::failed("not_confirmed", "nothing was imported")
        .hint("confirm with `ctx import --all --yes`"))
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

fn confirmed(count: usize) -> Result<bool, Problem> {
    if !std::io::stdin().is_terminal() {
        return Ok(false);
    }
    eprint!("Import {count} file{}? [y/N] ", if count == 1 { "" } else { "s" });
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    read.map_err(|error| Problem::failed("input", format!("failed to read the answer: {error}")))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

async fn import(context: &Context, sources: Vec<Source>, secrets: Secrets) -> Result<(), Problem> {
    init::ensure_store(context).await?;
    let engine = context.engine_without_providers(Indexing::Hashes)?;
    let mut ledger = Ledger::open(&context.data);
    let outcomes = import_each(context, &engine, &mut ledger, sources, secrets).await;
    let unindexed = index::after_import(context, &engine).await?;
    report(context, &outcomes, secrets)?;
    if unindexed > 0 && !context.out.is_json() {
        eprintln!("search: {unindexed} rows are being indexed in the background");
    }
    Ok(())
}

/// Imports sessions, [`AT_ONCE`] at a time: while one waits for the disk, others are read.
pub(super) async fn import_each(
    context: &Context,
    engine: &ctx_engine::Engine,
    ledger: &mut Ledger,
    sources: Vec<Source>,
    secrets: Secrets,
) -> Vec<Outcome> {
    let total: u64 = sources.iter().map(|source| source.bytes).sum();
    let (mut done, mut outcomes) = (0, Vec::with_capacity(sources.len()));
    let known = &*ledger;
    let mut effects = stream::iter(sources)
        .map(|source| {
            let change = known.change(&source).unwrap_or(Change::Grown);
            let (engine, read, changed) = (engine.clone(), source.clone(), change.clone());
            let task = async move { import_one(&engine, &changed, &read, secrets).await };
            let task = tokio::spawn(task);
            async move { (task.await.unwrap_or_else(stopped), source, change) }
        })
        .buffered(AT_ONCE);
    let mut entries = Vec::new();
    context.out.progress("importing", done, total);
    while let Some((effect, source, change)) = effects.next().await {
        done += source.bytes;
        context.out.progress("importing", done, total);
        let effect = match effect {
            // Two files of one session were imported at the same time.
            Effect::Failed(problem) if problem.code != "source_unreadable" => {
                import_one(engine, &change, &source, secrets).await
            }
            effect => effect,
        };
        if let Effect::Stored(_, Some(entry)) = &effect {
            entries.push((outcomes.len(), entry.clone()));
        }
        outcomes.push(Outcome { source, effect });
    }
    drop(effects);
    for (at, entry) in entries {
        ledger.note(&outcomes[at].source, entry);
    }
    if let Err(error) = ledger.save() {
        tracing::warn!(%error, "the list of imported files was not written");
    }
    outcomes
}

fn stopped(error: tokio::task::JoinError) -> Effect {
    Effect::Failed(Problem::failed("internal", format!("the import was stopped: {error}")))
}

impl Outcome {
    /// Whether the session could not be imported.
    pub(super) const fn is_failed(&self) -> bool {
        matches!(self.effect, Effect::Failed(_))
    }

    /// The file of the session.
    pub(super) fn path(&self) -> &Path {
        &self.source.path
    }

    /// Whether there is something to report.
    pub(super) fn is_news(&self) -> bool {
        match &self.effect {
            Effect::Unchanged(_) => false,
            Effect::Failed(_) => true,
            Effect::Stored(stored, _) => {
                stored.problem_count > 0 || !matches!(effect_name(stored), "unchanged" | "empty")
            }
        }
    }
}

/// Prints what an import did.
pub(super) fn print(
    context: &Context,
    outcomes: &[Outcome],
    secrets: Secrets,
) -> Result<(), Problem> {
    let redactor = (secrets == Secrets::Redact).then(|| replaced_secrets(outcomes));
    context.out.print(
        || {
            let imported: Vec<Value> = outcomes.iter().map(document).collect();
            let mut document = json!({"imported": imported});
            if let Some(redactor) = &redactor {
                document["redacted"] = redaction_report::document(redactor);
            }
            document
        },
        || match &redactor {
            Some(redactor) => {
                format!("{}\n{}", lines(outcomes), redaction_report::line(redactor))
            }
            None => lines(outcomes),
        },
    )
}

async fn import_one(
    engine: &ctx_engine::Engine,
    change: &Change,
    source: &Source,
    secrets: Secrets,
) -> Effect {
    if let Change::Unchanged(entry) = change {
        let is_here = match &entry.session {
            Some(session) => engine.sessions().get(session).await.is_ok(),
            None => true,
        };
        if is_here {
            return Effect::Unchanged(entry.session.clone());
        }
    }
    match store_source(engine, source, secrets).await {
        Ok(mut stored) => {
            let why = match *change {
                Change::Edited => Some("the file was changed in a part that was imported before"),
                Change::Shortened => Some("the file is shorter than when it was imported before"),
                _ => None,
            };
            if let Some(why) = why {
                stored.problem_count += 1;
                stored.problems.insert(0, ReadProblem { line: 0, why: why.to_owned() });
            }
            let session = stored.session.map(|session| session.to_string());
            Effect::Stored(Box::new(stored), entry(source.clone(), session).await)
        }
        Err(problem) => Effect::Failed(problem),
    }
}

/// The entry of a source for the ledger. The file is read once more, on a thread that may block.
async fn entry(source: Source, session: Option<String>) -> Option<Entry> {
    let read = tokio::task::spawn_blocking(move || Entry::of(&source, session)).await;
    match read.map_err(std::io::Error::other).flatten() {
        Ok(entry) => Some(entry),
        Err(error) => {
            tracing::warn!(%error, "a file could not be read again");
            None
        }
    }
}

fn report(context: &Context, outcomes: &[Outcome], secrets: Secrets) -> Result<(), Problem> {
    let failed = outcomes.iter().filter(|one| one.is_failed()).count();
    print(context, outcomes, secrets)?;
    match failed {
        0 => Ok(()),
        n => {
            let message = format!("import incomplete: {} could not be imported", plural(n, "file"));
            Err(Problem::failed("import_incomplete", message)
                .hint("the other files were imported; run the same command again"))
        }
    }
}

/// The secrets that were replaced in all files.
fn replaced_secrets(outcomes: &[Outcome]) -> Redactor {
    let mut sum = Redactor::default();
    for outcome in outcomes {
        if let Effect::Stored(stored, _) = &outcome.effect {
            sum.add(&stored.redactor);
        }
    }
    sum
}

fn document(outcome: &Outcome) -> Value {
    let mut document = json!({
        "tool": outcome.source.tool.name(),
        "path": outcome.source.path.display().to_string(),
    });
    let more = match &outcome.effect {
        Effect::Unchanged(session) => {
            json!({"effect": "unchanged", "session": session, "turns": 0})
        }
        Effect::Failed(problem) => json!({"effect": "failed", "error": problem.json()}),
        Effect::Stored(stored, _) => json!({
            "effect": effect_name(stored),
            "session": stored.session.map(|session| session.to_string()),
            "title": stored.facts.title,
            "turns": stored.report.turns,
            "known_turns": stored.report.known,
            "branches": stored.report.branches,
            "continued_in": stored.report.continued_in,
            "workers": stored.workers,
            "problems": stored.problems.iter().map(|problem| json!({
                "line": (problem.line > 0).then_some(problem.line),
                "message": problem.why,
            })).collect::<Vec<_>>(),
            "problem_count": stored.problem_count,
        }),
    };
    if let (Value::Object(document), Value::Object(more)) = (&mut document, more) {
        document.extend(more);
    }
    document
}

fn effect_name(stored: &StoredSource) -> &'static str {
    match (&stored.report, stored.session) {
        (_, None) => "empty",
        (report, _) if report.created => "created",
        (report, _) if report.turns > 0 => "extended",
        _ => "unchanged",
    }
}

fn lines(outcomes: &[Outcome]) -> String {
    let mut lines = Vec::new();
    let (mut created, mut extended, mut unchanged, mut turns) = (0, 0, 0, 0);
    for Outcome { source, effect } in outcomes {
        let path = visible_text(&source.path.display().to_string());
        match effect {
            Effect::Unchanged(_) => unchanged += 1,
            Effect::Failed(problem) => lines.push(format!("{path}: {}", problem.message)),
            Effect::Stored(stored, _) => {
                turns += stored.report.turns;
                match effect_name(stored) {
                    "created" => created += 1,
                    "extended" => extended += 1,
                    _ => unchanged += 1,
                }
                for problem in &stored.problems {
                    let place = match problem.line {
                        0 => String::new(),
                        line => format!("line {line}: "),
                    };
                    lines.push(format!("{YELLOW}{path}{YELLOW:#}: {place}{}", problem.why));
                }
                if let Some(label) = &stored.report.continued_in {
                    lines.push(format!(
                        "{path}: the session was continued here; its new turns are in {label}"
                    ));
                }
            }
        }
    }
    lines.push(format!(
        "{created} created, {extended} extended, {unchanged} unchanged {DIM}({}){DIM:#}",
        plural(turns, "turn")
    ));
    lines.join("\n")
}
