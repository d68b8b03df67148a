//! The command line: one verb per file. No verb needs a server; each opens the store, acts and exits.

mod backup;
mod bundle;
mod classify;
mod completions;
mod doctor;
mod export;
mod gc;
mod import;
mod init;
mod inner;
mod log;
mod narrative;
mod output;
mod provider;
mod run;
mod search;
mod serve;
mod session;
mod show;
mod stage;
mod status;
mod token;
mod verify;

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use ctx_engine::{Engine, Indexing, Options, Recorder, Status};
use ctx_providers::CommandClassifier;
use serde_json::json;

use crate::config::Config;
use crate::location;
use crate::problem::{Exit, Problem};
use crate::providers;

use output::Output;

/// The session that a repository's command line works in unless told otherwise.
const DEFAULT_SESSION: &str = "main";

/// ctx keeps conversations with AI agents: durable, owned by no provider, resumable anywhere.
#[derive(Parser)]
#[command(name = "ctx", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = "Every verb takes --json. Exit codes: 0 done, 1 failed, 2 wrong use.")]
struct Cli {
    /// The store's directory [env: CTX_DATA] [default: the nearest .ctx, else the user's data directory]
    #[arg(long, global = true, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The configuration [env: CTX_CONFIG] [default: ctx.toml in the store's directory]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The session to work in, by label or id [env: CTX_SESSION] [default: main]
    #[arg(long, global = true, value_name = "SESSION")]
    session: Option<String>,
    /// One JSON document on standard output; errors as JSON on standard error
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Make a store here
    Init(init::Args),
    /// What is here, and where the open task stands
    Status(status::Args),
    /// Sealed work, newest first
    Log(log::Args),
    /// One object or task, with every id it refers to
    Show(show::Args),
    /// Find what was said: all words must be there; `word*` finds beginnings
    Search(search::Args),
    /// The notes of a day
    Narrative(narrative::Args),
    /// The open task: record it, move it, seal it
    #[command(subcommand)]
    Stage(stage::Verb),
    /// Talk to the default agent here: opens a session, sends, and streams the answer
    Run(run::Args),
    /// Conversations: list them, read them, go on with them
    #[command(subcommand)]
    Session(session::Verb),
    /// Who can answer here: list them, try one
    #[command(subcommand)]
    Provider(provider::Verb),
    /// Write a conversation to a file, with everything it reaches
    Export(export::Args),
    /// Take in a conversation that was exported, here or elsewhere
    Import(import::Args),
    /// Say what a message would be taken for, and change nothing
    Classify(classify::Args),
    /// Re-hash everything and follow every pointer
    Verify(verify::Args),
    /// Remove stored contents that nothing refers to
    Gc(gc::Args),
    /// Write a consistent copy of the store while it is in use
    Backup(backup::Args),
    /// Look for what could go wrong here
    Doctor(doctor::Args),
    /// Serve conversations over HTTP, with live events
    Serve(serve::Args),
    /// Who may ask a server over the network: make, list and revoke tokens
    #[command(subcommand)]
    Token(token::Verb),
    /// Print a completion script for a shell
    Completions(completions::Args),
    /// Run one cell of the comparison with other stores
    #[command(hide = true)]
    Bench(crate::bench::Args),
    /// Run an agent and end it with the process that wants it
    #[command(hide = true)]
    Guard(inner::GuardArgs),
    /// Bring the tools of a session to an agent
    #[command(hide = true)]
    Bridge(inner::BridgeArgs),
}

/// What a verb works with.
struct Context {
    data: PathBuf,
    data_is_named: bool,
    config: Option<PathBuf>,
    session: String,
    out: Output,
}

impl Context {
    fn config(&self) -> Result<Config, Problem> {
        Config::load(&self.data, self.config.as_deref())
    }

    fn engine(&self) -> Result<Engine, Problem> {
        let config = self.config()?;
        let options = Options { compress: config.store.compress, ..Options::default() };
        let engine = Engine::sqlite(&self.data, options)?.with_settings(config.settings()?);
        judged(engine, &config)
    }

    /// An engine that can run sessions, for a verb that ends.
    fn talking_engine(&self) -> Result<Engine, Problem> {
        self.engine_with_providers(Indexing::OnDemand)
    }

    /// An engine that can run sessions; whoever answers is named here and nowhere else.
    fn engine_with_providers(&self, indexing: Indexing) -> Result<Engine, Problem> {
        let config = self.config()?;
        let options = Options { compress: config.store.compress, indexing };
        let engine = Engine::sqlite(&self.data, options)?.with_settings(config.settings()?);
        let engine = engine.with_providers(
            providers::assemble(&config, &self.data)?.providers,
            providers::patience(&config)?,
        );
        judged(engine, &config)
    }

    /// The recorder of the chosen session, which must be there; only the default one is made when it is missing.
    async fn recorder(&self) -> Result<Recorder, Problem> {
        if self.session == DEFAULT_SESSION {
            self.new_recorder().await
        } else {
            Ok(self.engine()?.tasks().existing_recorder(&self.session))
        }
    }

    /// The recorder of the chosen session, made when it is missing: for verbs that begin something.
    async fn new_recorder(&self) -> Result<Recorder, Problem> {
        Ok(self.engine()?.tasks().recorder(&self.session).await?)
    }
}

/// With the judge of messages that the configuration names.
fn judged(engine: Engine, config: &Config) -> Result<Engine, Problem> {
    if config.classifier.command.is_empty() {
        return Ok(engine);
    }
    let judge =
        CommandClassifier::new(config.classifier.command.clone(), config.classifier_timeout()?);
    Ok(engine.with_classifier(Arc::new(judge)))
}

/// Reads the command line, runs the verb, says what went wrong.
pub(crate) fn run() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let wants_json = arguments
        .iter()
        .take_while(|argument| *argument != "--")
        .any(|argument| argument == "--json");
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => return refused(&error, wants_json),
    };
    let out = Output::new(cli.json);
    let data = cli.data.or_else(|| set("CTX_DATA").map(PathBuf::from));
    let session =
        cli.session.or_else(|| set("CTX_SESSION").and_then(|label| label.into_string().ok()));
    let context = Context {
        data: location::find(data.as_deref()),
        data_is_named: data.is_some(),
        config: cli.config.or_else(|| set("CTX_CONFIG").map(PathBuf::from)),
        session: session.unwrap_or_else(|| DEFAULT_SESSION.to_owned()),
        out,
    };
    match dispatch(&context, cli.verb) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            context.out.problem(&problem);
            ExitCode::from(problem.exit as u8)
        }
    }
}

/// A variable that is set to something; an empty one is none.
fn set(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Where the work of the chosen session stands, if there is such a session.
async fn status_here(context: &Context, engine: &Engine) -> Result<Option<Status>, Problem> {
    match engine.tasks().existing_recorder(&context.session).status().await {
        Err(error) if error.code() == "no_session" => Ok(None),
        status => Ok(Some(status?)),
    }
}

fn refused(error: &clap::Error, wants_json: bool) -> ExitCode {
    let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if asked || !wants_json {
        let _ = error.print();
        return if asked { ExitCode::SUCCESS } else { ExitCode::from(Exit::WrongUse as u8) };
    }
    let text = error.to_string();
    let told = text.lines().take_while(|line| {
        !line.starts_with("Usage:") && !line.starts_with("For more information")
    });
    let message = told.map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    let document = json!({"code": "wrong_use", "message": message.trim_start_matches("error: "), "hint": "`ctx help` lists the verbs"});
    let _ = writeln!(std::io::stderr(), "{document}");
    ExitCode::from(Exit::WrongUse as u8)
}

fn dispatch(context: &Context, verb: Verb) -> Result<(), Problem> {
    if let Verb::Bench(args) = verb {
        return crate::bench::run(&args);
    }
    if let Verb::Guard(args) = verb {
        return inner::guard(&args);
    }
    if let Verb::Serve(args) = verb {
        return serve::run(context, &args);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Problem::failed("internal", format!("no runtime: {e}")))?;
    let result = runtime.block_on(async {
        match verb {
            Verb::Init(args) => init::run(context, &args).await,
            Verb::Status(args) => status::run(context, &args).await,
            Verb::Log(args) => log::run(context, &args).await,
            Verb::Show(args) => show::run(context, &args).await,
            Verb::Search(args) => search::run(context, &args).await,
            Verb::Narrative(args) => narrative::run(context, &args).await,
            Verb::Stage(verb) => stage::run(context, verb).await,
            Verb::Run(args) => run::run(context, &args).await,
            Verb::Session(verb) => session::run(context, verb).await,
            Verb::Provider(verb) => provider::run(context, verb).await,
            Verb::Export(args) => export::run(context, &args).await,
            Verb::Import(args) => import::run(context, &args).await,
            Verb::Classify(args) => classify::run(context, &args).await,
            Verb::Verify(args) => verify::run(context, &args).await,
            Verb::Gc(args) => gc::run(context, &args).await,
            Verb::Backup(args) => backup::run(context, &args).await,
            Verb::Doctor(args) => doctor::run(context, &args).await,
            Verb::Token(verb) => token::run(context, verb).await,
            Verb::Completions(args) => completions::run(context, &args),
            Verb::Bridge(args) => inner::bridge(&args).await,
            Verb::Bench(_) | Verb::Guard(_) | Verb::Serve(_) => Ok(()),
        }
    });
    // A judge that was given up on may still hold a thread; nobody waits for it.
    runtime.shutdown_timeout(Duration::from_millis(100));
    result
}
