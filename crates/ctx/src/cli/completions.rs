//! `ctx completions SHELL`: print a completion script. The script calls this program, which looks
//! up sessions, turns, providers, models and files of the right kind.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::{Arg, Command, CommandFactory};
use clap_complete::Shell;
use clap_complete::engine::{
    ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter,
};
use clap_complete::env::{CompleteEnv, Shells};
use ctx_engine::core::inbox::Mode;
use ctx_engine::core::session::Session;
use ctx_engine::core::usage::By;
use ctx_engine::core::usage_query::UsageQuery;
use ctx_engine::{DEFAULT_SESSION, Engine, Order, SessionQuery};
use serde_json::json;

use crate::data_dir;
use crate::problem::Problem;
use crate::provider_setup;

use super::output::{Output, visible_line};
use super::session::transcript::message_text;
use super::{Cli, Context, env_var};

/// Candidates of each kind.
const CANDIDATES_MAX: usize = 100;
/// The variable with which the script calls this program.
const VARIABLE: &str = "COMPLETE";

#[derive(clap::Args)]
pub(super) struct Args {
    /// Print the script for this shell
    shell: Shell,
}

pub(super) fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let failed = |e: std::io::Error| {
        Problem::failed("internal", format!("failed to generate the script: {e}"))
    };
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "ctx", &mut script);
    if args.shell == Shell::Fish {
        // Later rules of fish add to the earlier ones.
        script.extend_from_slice(b"complete --erase --command ctx\n");
    }
    let shells = Shells::builtins();
    if let Some(shell) = shells.completer(&args.shell.to_string()) {
        shell.write_registration(VARIABLE, "ctx", "ctx", "ctx", &mut script).map_err(failed)?;
    }
    let script = String::from_utf8_lossy(&script);
    context.out.print(
        || json!({"shell": args.shell.to_string(), "script": script}),
        || script.trim_end().to_owned(),
    )
}

/// Answers a request of a completion script, and exits.
pub(super) fn answer_script() {
    CompleteEnv::with_factory(|| annotate(Cli::command())).var(VARIABLE).complete();
}

/// Adds what the arguments of all verbs can be.
fn annotate(command: Command) -> Command {
    command.mut_args(|arg| annotate_arg("", arg)).mut_subcommands(|verb| annotate_verb("", verb))
}

/// Adds what the arguments of a verb can be; `group` holds the words before it.
fn annotate_verb(group: &str, command: Command) -> Command {
    let path = format!("{group} {}", command.get_name()).trim_start().to_owned();
    command
        .mut_args(|arg| annotate_arg(&path, arg))
        .mut_subcommands(|verb| annotate_verb(&path, verb))
}

/// Adds what an argument can be, by the words of its verb and its name.
fn annotate_arg(verb: &str, arg: Arg) -> Arg {
    match (verb, arg.get_id().as_str()) {
        (_, "session_name" | "session" | "one" | "other") | ("continue", "id") => {
            arg.add(ArgValueCompleter::new(sessions))
        }
        (_, "turn") => arg.add(ArgValueCandidates::new(turns)),
        ("show", "id") | ("log", "before") => arg.add(ArgValueCandidates::new(commits)),
        (_, "provider" | "with") | ("provider test", "name") => {
            arg.add(ArgValueCandidates::new(providers))
        }
        (_, "model") => arg.add(ArgValueCandidates::new(models)),
        ("usage", "by") => arg.add(ArgValueCompleter::new(usage_keys)),
        ("session send", "mode") => arg.add(ArgValueCandidates::new(queue_modes)),
        (_, "data" | "dir") => arg.add(ArgValueCompleter::new(PathCompleter::dir())),
        (_, "config") => arg.add(ArgValueCompleter::new(files_with("toml"))),
        (_, "file") => arg.add(ArgValueCompleter::new(files_with("bundle"))),
        (_, "path" | "output") => arg.add(ArgValueCompleter::new(PathCompleter::any())),
        _ => arg,
    }
}

fn files_with(extension: &'static str) -> PathCompleter {
    let fits =
        move |path: &Path| path.is_dir() || path.extension().is_some_and(|it| it == extension);
    PathCompleter::any().filter(fits)
}

/// The words of the command line that is completed.
fn words() -> Vec<OsString> {
    std::env::args_os().skip_while(|word| word != "--").skip(1).collect()
}

fn option(words: &[OsString], name: &str) -> Option<OsString> {
    let at = words.iter().position(|word| word == name)?;
    words.get(at + 1).cloned()
}

/// The store that the command line names, like `run` in `mod.rs`.
fn context() -> Context {
    let words = words();
    let text = |name| option(&words, name).and_then(|value| value.into_string().ok());
    let data = option(&words, "--data").or_else(|| env_var("CTX_DATA")).map(PathBuf::from);
    let variable = |name| env_var(name).and_then(|value| value.into_string().ok());
    Context {
        data: data_dir::find(data.as_deref()),
        data_is_named: data.is_some(),
        store: text("--store").or_else(|| variable("CTX_STORE")),
        config: text("--config").or_else(|| variable("CTX_CONFIG")).map(PathBuf::from),
        session: None,
        named_session: None,
        out: Output { json: false, pager: false, utc: false },
    }
}

/// Runs a lookup. A store that cannot be opened gives no candidates.
fn look_up(
    read: impl AsyncFnOnce(&Engine) -> Result<Vec<CompletionCandidate>, Problem>,
) -> Vec<CompletionCandidate> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let (Ok(runtime), Ok(engine)) = (runtime, context().engine()) else { return Vec::new() };
    runtime.block_on(read(&engine)).unwrap_or_default()
}

fn candidate(value: &str, help: &str) -> CompletionCandidate {
    let help = visible_line(help, 60);
    CompletionCandidate::new(value).help((!help.is_empty()).then(|| help.into()))
}

/// Labels and short ids that begin with the text. Ids are accepted in lower case too.
fn sessions(current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(current) = current.to_str() else { return Vec::new() };
    let beginning = current.to_ascii_uppercase();
    look_up(async |engine| {
        let (mut infos, _) = engine.sessions().list(&SessionQuery::newest(CANDIDATES_MAX)).await?;
        infos.retain(|info| !is_unused_default(&info.session));
        let ids: Vec<_> = infos.iter().map(|info| info.session.id).collect();
        let short = engine.ids().short_sessions(&ids).await?;
        let mut found = Vec::new();
        for (info, short) in infos.iter().zip(&short) {
            let (row, id) = (&info.session, info.session.id.to_string());
            let title = row.title.as_deref().unwrap_or_default();
            let is_named = !row.label.to_ascii_uppercase().ends_with(&id);
            if is_named && row.label.starts_with(current) {
                found.push(candidate(&row.label, title));
            }
            if short.starts_with(&beginning) {
                found.push(candidate(short, if title.is_empty() { &row.label } else { title }));
            }
        }
        Ok(found)
    })
}

/// Whether a session only records work that names no session: `main`, or `main:DIR` in a store
/// that is shared by projects.
fn is_unused_default(session: &Session) -> bool {
    let rest = session.label.strip_prefix(DEFAULT_SESSION);
    session.turn_count == 0 && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
}

/// The turns of the session that the command line names.
fn turns() -> Vec<CompletionCandidate> {
    look_up(async |engine| {
        for word in words().iter().filter_map(|word| word.to_str()).rev() {
            let Ok(info) = engine.sessions().get(word).await else { continue };
            let session = info.session.id.to_string();
            let turns =
                engine.messages().turns(&session, Order::Desc, None, CANDIDATES_MAX).await?;
            let ids = turns.iter().map(|turn| turn.id.0).collect();
            let short = engine.ids().short_objects(ids).await?;
            let first = |turn: &ctx_engine::StoredTurn| {
                let messages = turn.messages().ok().flatten().unwrap_or_default();
                messages.first().map(message_text).unwrap_or_default()
            };
            let found = turns.iter().zip(&short);
            return Ok(found.map(|(turn, short)| candidate(short, &first(turn))).collect());
        }
        Ok(Vec::new())
    })
}

fn commits() -> Vec<CompletionCandidate> {
    look_up(async |engine| {
        let query = ctx_engine::CommitQuery { limit: CANDIDATES_MAX, ..Default::default() };
        let commits = engine.records().commits(&query).await?;
        let ids = commits.iter().map(|(id, _)| id.0).collect();
        let short = engine.ids().short_objects(ids).await?;
        let mut found = vec![candidate("HEAD", "the newest commit")];
        let named = commits.iter().zip(&short);
        found.extend(named.map(|((_, commit), short)| candidate(short, &commit.description)));
        Ok(found)
    })
}

fn providers() -> Vec<CompletionCandidate> {
    let context = context();
    let Ok(config) = context.config() else { return Vec::new() };
    let Ok(assembled) = provider_setup::assemble(&config, &context.data) else { return Vec::new() };
    let all = assembled.providers.all.iter();
    all.map(|(name, provider)| candidate(name, provider.about().kind)).collect()
}

fn models() -> Vec<CompletionCandidate> {
    let context = context();
    let Ok(config) = context.config() else { return Vec::new() };
    let Ok(assembled) = provider_setup::assemble(&config, &context.data) else { return Vec::new() };
    let mut found: Vec<CompletionCandidate> = Vec::new();
    for (name, provider) in &assembled.providers.all {
        let about = provider.about();
        let models = about.models.iter().chain(about.model.iter());
        let mut models: Vec<&String> = models.collect();
        models.sort();
        models.dedup();
        found.extend(models.into_iter().map(|model| candidate(model, name)));
    }
    found
}

fn queue_modes() -> Vec<CompletionCandidate> {
    Mode::ALL.into_iter().map(|mode| candidate(mode.name(), "")).collect()
}

/// The keys of a report that begin with the text: one key, or a second one after a comma.
fn usage_keys(current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(current) = current.to_str() else { return Vec::new() };
    let first = current.rsplit_once(',').map(|(first, _)| first);
    let keys = By::ALL.map(|by| match first {
        Some(first) => format!("{first},{}", by.name()),
        None => by.name().to_owned(),
    });
    let is_valid = |keys: &str| {
        let query = UsageQuery::default().with_keys(keys);
        keys.starts_with(current) && query.is_ok_and(|query| query.check().is_ok())
    };
    keys.iter().filter(|keys| is_valid(keys)).map(|keys| candidate(keys, "")).collect()
}
