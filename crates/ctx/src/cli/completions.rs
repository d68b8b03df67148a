//! `ctx completions SHELL`: print a completion script. The script calls this program, which looks
//! up sessions, turns, providers, models and files of the right kind.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Arg, Command, CommandFactory};
use clap_complete::Shell;
use clap_complete::engine::{
    ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter,
};
use clap_complete::env::{CompleteEnv, Shells};
use ctx_engine::{Engine, Order, SessionQuery};
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
    command.mut_args(annotate_arg).mut_subcommands(annotate)
}

fn annotate_arg(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "session_name" | "session" | "one" | "other" => arg.add(ArgValueCandidates::new(sessions)),
        "turn" => arg.add(ArgValueCandidates::new(turns)),
        "id" | "before" => arg.add(ArgValueCandidates::new(commits)),
        "provider" | "with" => arg.add(ArgValueCandidates::new(providers)),
        "model" => arg.add(ArgValueCandidates::new(models)),
        "data" | "dir" => arg.add(ArgValueCompleter::new(PathCompleter::dir())),
        "config" => arg.add(ArgValueCompleter::new(files_with("toml"))),
        "file" => arg.add(ArgValueCompleter::new(files_with("bundle"))),
        "path" | "output" => arg.add(ArgValueCompleter::new(PathCompleter::any())),
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

fn sessions() -> Vec<CompletionCandidate> {
    look_up(async |engine| {
        let (infos, _) = engine.sessions().list(&SessionQuery::newest(CANDIDATES_MAX)).await?;
        let ids: Vec<_> = infos.iter().map(|info| info.session.id).collect();
        let short = engine.ids().short_sessions(&ids).await?;
        let mut found = Vec::new();
        for (info, short) in infos.iter().zip(&short) {
            let (row, id) = (&info.session, info.session.id.to_string());
            let title = row.title.as_deref().unwrap_or_default();
            if !row.label.to_ascii_uppercase().ends_with(&id) {
                found.push(candidate(&row.label, title));
            }
            found.push(candidate(short, if title.is_empty() { &row.label } else { title }));
        }
        Ok(found)
    })
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
