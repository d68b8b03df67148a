//! `ctx continue`: the newest sessions of this directory from all tools, and going on with one.

use std::io::{IsTerminal, Write};
use std::path::Path;

use ctx_engine::core::decide::Patch;
use ctx_engine::core::inbox::Overrides;
use ctx_engine::core::session::{Session, Status};
use ctx_engine::core::short_id::{random_half, ulid_begins_with};
use ctx_engine::core::time::Timestamp;
use ctx_engine::{Engine, NewMessage, SessionQuery};
use serde_json::{Value, json};

use crate::export::Secrets;
use crate::import::{Environment, Facts, Ledger, Source, TOOLS, at_home, session_id, store_source};
use crate::problem::Problem;

use super::output::{DIM, ID, more_line, read_text, visible_line};
use super::session::send_and_follow::{Asking, Exchange};
use super::session::{resume, terminal_prompts, working_dir};
use super::table::{Cell, Column, Table};
use super::times::system_time;
use super::{Context, NOTHING_RECORDED, init};

/// Columns of an id in the list.
const ID_COLUMNS: u16 = 12;
/// Columns of the output from which the list of all directories shows them.
const DIRECTORY_FROM_WIDTH: usize = 90;
/// The shortest beginning of an id that selects a session.
const ID_MIN_CHARS: usize = 4;
/// Sessions of the store that are searched for those of this directory.
const OWN_MAX: usize = 1000;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Continue this session: an id of the list, or a label
    #[arg(value_name = "ID")]
    id: Option<String>,
    /// Send this text; `-` reads standard input
    text: Option<String>,
    /// Only sessions of this tool
    #[arg(long, value_name = "TOOL", value_parser = super::import::tool_names())]
    from: Option<String>,
    /// Continue with this provider [default: see `ctx provider list`]
    #[arg(long = "with", value_name = "PROVIDER")]
    provider: Option<String>,
    /// Sessions of this directory, and where one continues whose own directory does not exist
    /// [default: the working directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<std::path::PathBuf>,
    /// Sessions of all directories
    #[arg(long, conflicts_with = "dir")]
    all: bool,
    /// Show at most this many
    #[arg(long, short = 'n', default_value_t = 20)]
    limit: usize,
}

/// A session that can be continued.
struct Candidate {
    /// The session in the store, if it is there.
    stored: Option<Box<Session>>,
    /// Its file, if another tool has it.
    source: Option<Source>,
    tool: &'static str,
    id: String,
    title: Option<String>,
    working_dir: Option<String>,
    updated_at: Timestamp,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    init::ensure_store(context).await?;
    let engine = context.engine()?;
    let dir = working_dir(args.dir.as_deref().unwrap_or(Path::new(".")))?;
    let mut found = candidates(context, &engine, args.from.as_deref()).await?;
    if let Some(id) = &args.id {
        let chosen = select(&engine, found, id).await?;
        return go_on(context, args, chosen).await;
    }
    if !args.all {
        found.retain(|one| one.working_dir.as_deref() == Some(dir.as_str()));
    }
    let count = found.len();
    found.truncate(args.limit);
    if !terminal_prompts::is_interactive(context) || found.is_empty() {
        return print_list(context, args, &found, count);
    }
    print_list(context, args, &found, count)?;
    match choose(found.len())? {
        Some(n) => go_on(context, args, found.swap_remove(n)).await,
        None => Ok(()),
    }
}

/// All sessions, those with the newest activity first.
async fn candidates(
    context: &Context,
    engine: &Engine,
    from: Option<&str>,
) -> Result<Vec<Candidate>, Problem> {
    let environment = Environment::of_process();
    let mut ledger = Ledger::open(&context.data);
    let mut found = Vec::new();
    let own = engine.sessions().list(&SessionQuery::newest(OWN_MAX)).await?.0;
    let mut own: Vec<Session> = own.into_iter().map(|info| info.session).collect();
    for tool in TOOLS.iter().filter(|tool| from.is_none_or(|name| name == tool.name())) {
        for source in at_home(*tool, &environment) {
            // A file that cannot be read is not listed; importing it says why.
            let Ok(facts) = ledger.facts(&source) else { continue };
            if facts.first_prompt.is_none() {
                continue;
            }
            let id = session_id(tool.name(), &facts);
            let stored = own.iter().position(|session| session.id == id);
            let stored = stored.map(|at| Box::new(own.swap_remove(at)));
            found.push(candidate(tool.name(), source, &facts, stored));
        }
    }
    ledger.save_facts();
    if from.is_none() {
        let shown =
            |session: &Session| session.turn_count > 0 && session.status != Status::Archived;
        found.extend(own.into_iter().filter(shown).map(|session| Candidate {
            tool: "ctx",
            id: session.id.to_string(),
            title: session.title.clone(),
            working_dir: session.working_dir.clone(),
            updated_at: session.last_activity_at,
            source: None,
            stored: Some(Box::new(session)),
        }));
    }
    found.sort_by(|a, b| (b.updated_at, &b.id).cmp(&(a.updated_at, &a.id)));
    Ok(found)
}

fn candidate(
    tool: &'static str,
    source: Source,
    facts: &Facts,
    stored: Option<Box<Session>>,
) -> Candidate {
    let modified = source.modified_at();
    let activity = stored.as_ref().map_or(modified, |session| session.last_activity_at);
    Candidate {
        tool,
        id: facts.id.clone(),
        title: facts.title.clone().or_else(|| facts.first_prompt.clone()),
        working_dir: facts.working_dir.clone(),
        updated_at: activity.max(modified),
        source: Some(source),
        stored,
    }
}

/// The session with an id of the list, or else with a label or id of the store.
async fn select(engine: &Engine, found: Vec<Candidate>, id: &str) -> Result<Candidate, Problem> {
    let matches = |one: &Candidate| {
        one.id == id
            || one.stored.as_ref().is_some_and(|session| session.label == id)
            || (id.len() >= ID_MIN_CHARS && begins_with(one, id))
    };
    let exact = found.iter().filter(|one| one.id == id).count();
    let mut chosen: Vec<Candidate> = found
        .into_iter()
        .filter(|one| if exact > 0 { one.id == id } else { matches(one) })
        .collect();
    match chosen.len() {
        1 => Ok(chosen.swap_remove(0)),
        0 => {
            let session = engine.sessions().get(id).await.map_err(|_| unknown(id))?.session;
            Ok(Candidate {
                tool: "ctx",
                id: session.id.to_string(),
                title: session.title.clone(),
                working_dir: session.working_dir.clone(),
                updated_at: session.last_activity_at,
                source: None,
                stored: Some(Box::new(session)),
            })
        }
        _ => {
            let candidates: Vec<&str> = chosen.iter().map(|one| one.id.as_str()).collect();
            let message = format!("`{id}` is ambiguous: {}", candidates.join(", "));
            Err(Problem::wrong_use("ambiguous_id", message)
                .hint("give more characters of the id")
                .with("candidates", json!(candidates)))
        }
    }
}

/// Whether the id of a session begins with a text; that of a session of ctx in either half.
fn begins_with(one: &Candidate, text: &str) -> bool {
    let is_own = one.source.is_none();
    one.id.starts_with(text) || (is_own && ulid_begins_with(&one.id, &text.to_ascii_uppercase()))
}

fn unknown(id: &str) -> Problem {
    Problem::failed("not_found", format!("session `{}` not found", visible_line(id, 60)))
        .hint("list the sessions with `ctx continue --all`")
}

/// Imports the newest state of the session and continues it.
async fn go_on(context: &Context, args: &Args, chosen: Candidate) -> Result<(), Problem> {
    let engine = context.engine_for_runs()?;
    let session = match &chosen.source {
        Some(source) => {
            let stored = store_source(&engine, source, Secrets::Keep).await?;
            let label = stored.report.continued_in.clone();
            let id = stored.session.map(|session| session.to_string());
            label.or(id).ok_or_else(|| unknown(&chosen.id))?
        }
        None => chosen.id.clone(),
    };
    prepare(context, args, &engine, &session).await?;
    let Some(text) = &args.text else {
        drop(engine);
        return resume::run_for(context, &session).await;
    };
    let mut message = NewMessage::text(read_text(text)?);
    message.overrides = Overrides { provider_id: args.provider.clone(), ..Overrides::default() };
    let exchange = Exchange::start(context, &engine, &session, Asking::OnTerminal).await?;
    let sent = engine.messages().submit(&session, message, None).await;
    exchange.finish(sent.map(Some)).await
}

/// Sets the provider, and another directory if that of the session is not on this machine.
async fn prepare(
    context: &Context,
    args: &Args,
    engine: &Engine,
    session: &str,
) -> Result<(), Problem> {
    let recorded = engine.sessions().get(session).await?.session.working_dir;
    let mut patch = Patch::default();
    if let Some(missing) = recorded.filter(|dir| !Path::new(dir).is_dir()) {
        let here = working_dir(args.dir.as_deref().unwrap_or(Path::new(".")))?;
        if !context.out.is_json() {
            let missing = super::output::visible_text(&missing);
            eprintln!("The working directory {missing} does not exist: continuing in {here}");
        }
        patch.working_dir = Some(here);
    }
    if let Some(provider) = &args.provider {
        patch.provider_id = Some(Some(provider.clone()));
        patch.model = Some(None);
    }
    if patch != Patch::default() {
        engine.sessions().update(session, patch).await?;
    }
    Ok(())
}

fn choose(count: usize) -> Result<Option<usize>, Problem> {
    let mut stderr = std::io::stderr();
    let _ = write!(stderr, "Continue which? [1–{count}, Enter for 1, q to quit] ");
    let _ = stderr.flush();
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line);
    read.map_err(|error| Problem::failed("input", format!("failed to read the choice: {error}")))?;
    match line.trim() {
        "" if line.is_empty() || !std::io::stdin().is_terminal() => Ok(None),
        "" => Ok(Some(0)),
        "q" => Ok(None),
        text => match text.parse::<usize>() {
            Ok(n) if (1..=count).contains(&n) => Ok(Some(n - 1)),
            _ => Err(Problem::wrong_use("bad_choice", format!("`{text}` is not in the list"))),
        },
    }
}

fn print_list(
    context: &Context,
    args: &Args,
    found: &[Candidate],
    count: usize,
) -> Result<(), Problem> {
    let times = context.out.times(system_time());
    context.out.print(
        || json!({"sessions": found.iter().map(document).collect::<Vec<_>>(), "total": count}),
        || {
            if found.is_empty() {
                return match args.all {
                    true => NOTHING_RECORDED.to_owned(),
                    false => "No sessions of this directory. Start one with `ctx run TEXT` or \
                              `ctx chat`; `ctx continue --all` lists those of all directories."
                        .to_owned(),
                };
            }
            let mut table = Table::new([
                Column::number("#"),
                Column::new("ID").at_most(ID_COLUMNS),
                Column::new("TOOL"),
                Column::text("TITLE"),
                Column::new("DIRECTORY").at_most(40).if_width(DIRECTORY_FROM_WIDTH),
                Column::new("ACTIVE"),
            ]);
            for (n, one) in found.iter().enumerate() {
                // Without `--all` the directory is the same in every row.
                let dir = one.working_dir.as_deref().filter(|_| args.all);
                table.row([
                    Cell::new((n + 1).to_string()),
                    Cell::styled(shown_id(one), ID),
                    Cell::new(one.tool),
                    Cell::new(one.title.as_deref().unwrap_or_default()),
                    Cell::new(dir.unwrap_or_default()),
                    Cell::styled(times.relative(one.updated_at), DIM),
                ]);
            }
            let mut lines = table.lines(context.out.width());
            if count > found.len() {
                let more = (count - found.len()) as u64;
                lines.push(more_line(more, "session", "show more with `--limit N`"));
            }
            lines.join("\n")
        },
    )
}

fn document(one: &Candidate) -> Value {
    json!({
        "id": one.id,
        "tool": one.tool,
        "title": one.title,
        "working_dir": one.working_dir,
        "updated_at": one.updated_at.to_string(),
        "imported": one.stored.is_some() && one.source.is_some(),
        "session": one.stored.as_ref().map(|session| session.id.to_string()),
        "path": one.source.as_ref().map(|source| source.path.display().to_string()),
    })
}

/// The beginning of an id that selects the session: of the random half, if ctx made the id.
fn shown_id(one: &Candidate) -> String {
    let id = if one.source.is_none() { random_half(&one.id) } else { &one.id };
    id.chars().take(usize::from(ID_COLUMNS)).collect()
}
