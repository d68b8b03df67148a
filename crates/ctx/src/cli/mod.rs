//! The command line, one verb per file. No verb needs a server: each opens the store, acts and
//! exits.

mod acp;
mod alias;
mod backup;
mod blame;
mod bridge;
mod bundle_file;
mod chat;
mod classify;
mod commit_text;
mod completions;
mod continue_session;
mod doctor;
mod entity;
mod exchange;
mod export;
mod export_git;
mod file_diff;
mod gc;
mod guard;
mod hook;
mod import;
mod import_agent_sessions;
mod import_tools;
mod import_watch;
mod init;
mod log;
mod man;
mod mcp;
mod narrative;
mod outbox;
mod output;
mod pack;
mod pager;
mod policy;
mod provider;
mod pull;
mod push;
mod remote;
mod run;
mod schedule;
mod search;
mod serve;
mod session;
mod show;
mod stage;
mod status;
mod store;
mod sync;
mod table;
mod times;
mod token;
mod unknown_session;
mod usage;
mod usage_error;
mod verify;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use ctx_engine::{Engine, Indexing, Location, Options, ProviderClassifier, Recorder, Status};
use ctx_providers::CommandClassifier;
use ctx_providers::acp::AttachedClient;
use serde_json::Value;

use crate::agent_hooks::spool::Spool;
use crate::config::{Config, TaskClassifier};
use crate::data_dir;
use crate::policy_file;
use crate::problem::Problem;
use crate::provider_setup;

use output::Output;
use unknown_session::GivenSessions;

/// What a verb that only reads says where no store is.
const NOTHING_RECORDED: &str =
    "Nothing recorded yet. Start a conversation with `ctx run TEXT` or `ctx chat`.";
/// Time in which a verb stores the waiting records of hooks before it does its own work.
const SPOOL_TIME: Duration = Duration::from_secs(2);

/// Keep durable conversations with AI agents, independent of provider and machine
#[derive(Parser)]
#[command(name = "ctx", version, propagate_version = true, arg_required_else_help = true)]
#[command(
    after_help = "The store is in the directory of --data, else in the nearest .ctx above the \
                  working directory, else in the data directory of the user.\nEvery command \
                  accepts --json. Exit codes: 0 success, 1 failure, 2 wrong usage."
)]
#[command(next_help_heading = "Global options")]
struct Cli {
    // One line of 80 columns each: every verb repeats them in its help.
    /// Use this data directory [env: CTX_DATA]
    #[arg(long, global = true, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Use this database or directory [env: CTX_STORE]
    #[arg(long, global = true, value_name = "URL")]
    store: Option<String>,
    /// Read this configuration [env: CTX_CONFIG]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Work in this session [env: CTX_SESSION]
    #[arg(long, global = true, value_name = "SESSION")]
    session: Option<String>,
    /// Print one JSON document
    #[arg(long, global = true)]
    json: bool,
    /// Use colours: auto, always or never
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    #[arg(hide_default_value = true, hide_possible_values = true)]
    color: ColorWhen,
    /// Print times in UTC, as RFC 3339
    #[arg(long, global = true)]
    utc: bool,
    /// Print without a pager [env: PAGER]
    #[arg(long, global = true)]
    no_pager: bool,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum ColorWhen {
    Auto,
    Always,
    Never,
}

#[derive(Subcommand)]
enum Verb {
    /// Create a store for a project
    Init(init::Args),
    /// Show the project, its open tasks and the sessions of this directory
    Status(status::Args),
    /// List commits (sealed tasks), newest first
    Log(log::Args),
    /// Show an object or a task with every id it refers to
    Show(show::Args),
    /// Search messages, notes and commits
    Search(search::Args),
    /// Show the notes of a day
    Narrative(narrative::Args),
    /// Collect what a new agent should know about a task
    Pack(pack::Args),
    /// Show which conversation wrote each line of a file
    Blame(blame::Args),
    /// Record, update and seal the open task
    #[command(subcommand)]
    Stage(stage::Verb),
    /// Converse on the whole screen; `ctx` alone on a terminal does the same
    Chat(chat::Args),
    /// Start a session in this directory, send a message and stream the answer
    Run(run::Args),
    /// List, read and continue conversations
    #[command(subcommand)]
    Session(session::Verb),
    /// List and test providers
    #[command(subcommand)]
    Provider(provider::Verb),
    /// Export a conversation: to a file, as a document, or into the home of another tool
    Export(export::Args),
    /// Import conversations: a file of `ctx export`, or the sessions of other tools
    Import(import::Args),
    /// Add and list the machines, servers and directories that sessions are exchanged with
    #[command(subcommand)]
    Remote(remote::Verb),
    /// Send to a remote what it lacks of the sessions here
    Push(exchange::Args),
    /// Fetch from a remote what this store lacks of the sessions there
    Pull(exchange::Args),
    /// Pull from a remote, then push to it
    Sync(exchange::Args),
    /// Continue a conversation of this directory, of any tool
    Continue(continue_session::Args),
    /// Show how a message would be classified, without changing anything
    Classify(classify::Args),
    /// Verify every hash and reference in the store
    Verify(verify::Args),
    /// Delete stored blobs that nothing references
    Gc(gc::Args),
    /// Write a consistent copy of the store while it is in use
    Backup(backup::Args),
    /// Copy stores between directories and PostgreSQL databases
    #[command(subcommand)]
    Store(store::Verb),
    /// Check the configuration, the providers and the store for problems
    Doctor(doctor::Args),
    /// Serve the HTTP API and the web page
    Serve(serve::Args),
    /// Serve an editor as an agent of the Agent Client Protocol, over standard input and output
    Acp(acp::Args),
    /// Serve the memory of the store to an agent, over MCP on standard input and output
    Mcp(mcp::Args),
    /// List and retry deliveries to channels
    #[command(subcommand)]
    Outbox(outbox::Verb),
    /// List the schedules that send messages
    #[command(subcommand)]
    Schedule(schedule::Verb),
    /// Show tokens, cost, messages, tool calls and time
    Usage(usage::Args),
    /// Manage API tokens
    #[command(subcommand)]
    Token(token::Verb),
    /// Manage the people, agents and services that send messages from channels
    #[command(subcommand)]
    Entity(entity::Verb),
    /// Manage further labels of sessions
    #[command(subcommand)]
    Alias(alias::Verb),
    /// Check policies.yaml, and explain its decision about a message
    #[command(subcommand)]
    Policy(policy::Verb),
    /// Record the work of agents that run outside ctx
    #[command(subcommand)]
    Hook(hook::Verb),
    /// Print a shell completion script
    Completions(completions::Args),
    /// Write the man pages of all verbs
    #[command(hide = true)]
    Man(man::Args),
    /// Run one benchmark cell
    #[command(hide = true)]
    Bench(crate::bench::Args),
    /// Run an agent and end it when the parent process ends
    #[command(hide = true)]
    Guard(guard::Args),
    /// Connect an agent to the MCP tools of its session
    #[command(hide = true)]
    Bridge(bridge::Args),
}

/// The global options, as every verb needs them.
#[derive(Clone)]
struct Context {
    data: PathBuf,
    /// Whether `--data` or `CTX_DATA` selected the directory.
    data_is_named: bool,
    /// The value of `--store` or `CTX_STORE`.
    store: Option<String>,
    config: Option<PathBuf>,
    /// The value of `--session` or `CTX_SESSION`.
    session: Option<String>,
    /// The value of `--session`, without the variable.
    named_session: Option<String>,
    out: Output,
}

impl Context {
    fn config(&self) -> Result<Config, Problem> {
        let mut config = Config::load(&self.data, self.config.as_deref())?;
        config.store.url = self.store.clone().or(config.store.url);
        Ok(config)
    }

    /// The path of the policies, beside the configuration.
    fn policy_file(&self) -> PathBuf {
        policy_file::path(&self.data, self.config.as_deref())
    }

    /// Where conversations are kept.
    fn location(&self, config: &Config) -> Result<Location, Problem> {
        match config.store.url.as_deref().map(Location::parse) {
            None => Ok(Location::from(&self.data)),
            Some(Location::Server(server)) => {
                let server = server.with_listen_url(config.store.listen_url.clone());
                Ok(Location::Server(config.with_store_password(server)?))
            }
            Some(directory) => Ok(directory),
        }
    }

    /// The store, as messages name it.
    fn store_name(&self, config: &Config) -> Result<String, Problem> {
        Ok(match self.location(config)? {
            Location::Directory(dir) => dir.canonicalize().unwrap_or(dir).display().to_string(),
            server @ Location::Server(_) => server.to_string(),
        })
    }

    /// Creates the store if it does not exist.
    fn create_store(&self) -> Result<(), Problem> {
        let location = self.location(&self.config()?)?;
        Engine::init(&location, &init::implicit_project(self, &location))?;
        Ok(())
    }

    fn engine(&self) -> Result<Engine, Problem> {
        self.engine_without_providers(Indexing::OnDemand)
    }

    /// The engine of a verb that only reads. `None` if nothing is recorded yet: no store is named,
    /// and the default place has none.
    fn engine_if_recorded(&self) -> Result<Option<Engine>, Problem> {
        let is_named = self.data_is_named || self.config()?.store.url.is_some();
        match self.engine() {
            Err(problem) if problem.code == "no_store" && !is_named => Ok(None),
            engine => engine.map(Some),
        }
    }

    /// Says that nothing is recorded yet, and how to begin. `document` is the empty list.
    fn print_nothing_recorded(&self, document: impl FnOnce() -> Value) -> Result<(), Problem> {
        self.out.print(document, || NOTHING_RECORDED.to_owned())
    }

    fn engine_without_providers(&self, indexing: Indexing) -> Result<Engine, Problem> {
        let config = self.config()?;
        let options = Options { compress: config.store.compress, indexing };
        let engine = self.open_store(&config, options)?;
        let engine = engine.with_settings(config.settings()?).with_spending(config.spending()?);
        with_classifier(engine, &config)
    }

    /// The store. If it is shared by projects, the current one is the working directory.
    fn open_store(&self, config: &Config, options: Options) -> Result<Engine, Problem> {
        let engine = Engine::open(&self.location(config)?, options)?;
        Ok(engine.in_directory(&init::current_dir()))
    }

    /// An engine with providers, for a verb that exits when its work is done.
    fn engine_for_runs(&self) -> Result<Engine, Problem> {
        self.engine_with_providers(Indexing::OnDemand)
    }

    fn engine_with_providers(&self, indexing: Indexing) -> Result<Engine, Problem> {
        self.engine_with_client(indexing, None)
    }

    /// The only place that gives providers to an engine. `client` is attached to sessions of this
    /// process.
    fn engine_with_client(
        &self,
        indexing: Indexing,
        client: Option<Arc<dyn AttachedClient>>,
    ) -> Result<Engine, Problem> {
        let config = self.config()?;
        let options = Options { compress: config.store.compress, indexing };
        let engine = self.open_store(&config, options)?;
        let engine = engine.with_settings(config.settings()?).with_spending(config.spending()?);
        let engine = engine.with_providers(
            provider_setup::assemble_for(&config, &self.data, client)?.providers,
            provider_setup::timeouts(&config)?,
        );
        with_classifier(engine, &config)
    }

    /// The records of hooks that wait for the store.
    fn spool(&self) -> Spool {
        Spool::new(&self.data)
    }

    /// Stores what hooks have recorded while the store was not available. A verb does not fail
    /// because of it: what cannot be stored now stays in the spool.
    fn take_in_spool(&self) {
        let spool = self.spool();
        if spool.is_empty() {
            return;
        }
        let (context, (sender, stored)) = (self.clone(), std::sync::mpsc::channel());
        // A thread of its own, because a write waits for the store without regard to time. The
        // thread is left behind then, and ends with the process.
        std::thread::spawn(move || sender.send(hook::store_records(&context)));
        match stored.recv_timeout(SPOOL_TIME) {
            Ok(Ok(())) => {}
            Ok(Err(why)) => spool.log(&format!("failed to store the records of hooks: {why}")),
            Err(_) => spool.log("the store was not available; the records of hooks wait"),
        }
    }

    /// The recorder of the selected session. Only the default session is created if it is missing.
    async fn recorder(&self) -> Result<Recorder, Problem> {
        let engine = self.engine()?;
        match self.session_in(&engine) {
            session if session == engine.default_session() => self.recorder_or_create().await,
            session => Ok(engine.tasks().find_recorder(&session).await?),
        }
    }

    /// The recorder of the selected session, which is created if it is missing.
    async fn recorder_or_create(&self) -> Result<Recorder, Problem> {
        let engine = self.engine()?;
        Ok(engine.tasks().recorder(&self.session_in(&engine)).await?)
    }

    /// The name of the selected session.
    fn session_in(&self, engine: &Engine) -> String {
        self.session.clone().unwrap_or_else(|| engine.default_session())
    }
}

/// Adds the classifier of the configuration, if it has one.
fn with_classifier(engine: Engine, config: &Config) -> Result<Engine, Problem> {
    if config.classifier.command.is_empty() {
        let providers = engine.providers();
        // Only a model can be asked: an agent would act on the question.
        let model = providers.all.get(&providers.default).filter(|it| it.about().repeatable);
        let model = model.filter(|_| config.tasks.classifier == TaskClassifier::Provider).cloned();
        return Ok(match model {
            Some(model) => {
                let timeout = config.classifier_timeout()?;
                engine.with_classifier(Arc::new(ProviderClassifier::new(model, timeout)))
            }
            None => engine,
        });
    }
    let classifier =
        CommandClassifier::new(config.classifier.command.clone(), config.classifier_timeout()?);
    Ok(engine.with_classifier(Arc::new(classifier)))
}

/// Parses the command line, runs the verb and prints its error.
pub(crate) fn run() -> ExitCode {
    completions::answer_script();
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    if hook::is_record_command(&arguments) {
        hook::record(&arguments);
        return ExitCode::SUCCESS;
    }
    if arguments.len() == 1 && is_terminal() {
        arguments.push("chat".into());
    }
    let wants_json = arguments
        .iter()
        .take_while(|argument| *argument != "--")
        .any(|argument| argument == "--json");
    let parsed = Cli::command()
        .try_get_matches_from(&arguments)
        .and_then(|matches| Ok((GivenSessions::of(&matches), Cli::from_arg_matches(&matches)?)));
    let (given, cli) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return usage_error::print(error, &arguments, wants_json),
    };
    match cli.color {
        ColorWhen::Auto => {}
        ColorWhen::Always => anstream::ColorChoice::Always.write_global(),
        ColorWhen::Never => anstream::ColorChoice::Never.write_global(),
    }
    let out = Output { json: cli.json, pager: !cli.no_pager, utc: cli.utc };
    let data = cli.data.or_else(|| env_var("CTX_DATA").map(PathBuf::from));
    let named_session = cli.session.clone();
    let session =
        cli.session.or_else(|| env_var("CTX_SESSION").and_then(|label| label.into_string().ok()));
    let context = Context {
        data: data_dir::find(data.as_deref()),
        data_is_named: data.is_some(),
        store: cli.store.or_else(|| env_var("CTX_STORE").and_then(|url| url.into_string().ok())),
        config: cli.config.or_else(|| env_var("CTX_CONFIG").map(PathBuf::from)),
        session,
        named_session,
        out,
    };
    match dispatch(&context, cli.verb) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            let problem = given.explain(&context, problem);
            context.out.print_problem(&problem);
            ExitCode::from(problem.exit as u8)
        }
    }
}

/// Whether a person sees the output and can type.
fn is_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// An empty variable counts as not set.
fn env_var(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The runtime of a process that stays.
fn multi_threaded_runtime() -> Result<tokio::runtime::Runtime, Problem> {
    let workers = std::thread::available_parallelism().map_or(2, usize::from).max(2);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
        .map_err(|e| Problem::failed("internal", format!("failed to start the async runtime: {e}")))
}

/// The status of the selected session; `None` if it does not exist.
async fn session_status(context: &Context, engine: &Engine) -> Result<Option<Status>, Problem> {
    let recorder = engine.tasks().find_recorder(&context.session_in(engine)).await?;
    match recorder.status().await {
        Err(error) if error.code() == "no_session" => Ok(None),
        status => Ok(Some(status?)),
    }
}

fn dispatch(context: &Context, verb: Verb) -> Result<(), Problem> {
    if let Verb::Bench(args) = verb {
        return crate::bench::run(&args);
    }
    if let Verb::Guard(args) = verb {
        return guard::run(&args);
    }
    if let Verb::Serve(args) = verb {
        return serve::run(context, &args);
    }
    if let Verb::Hook(hook::Verb::Record(args)) = verb {
        hook::run_record(context, &args);
        return Ok(());
    }
    context.take_in_spool();
    if let Verb::Acp(args) = verb {
        return acp::run(context, &args);
    }
    if let Verb::Chat(args) = verb {
        return chat::run(context, &args);
    }
    let runtime = match verb {
        // Files are read, compressed and stored at the same time.
        Verb::Import(_) => multi_threaded_runtime()?,
        _ => tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| {
            Problem::failed("internal", format!("failed to start the async runtime: {e}"))
        })?,
    };
    let result = runtime.block_on(async {
        match verb {
            Verb::Init(args) => init::run(context, &args).await,
            Verb::Status(args) => status::run(context, &args).await,
            Verb::Log(args) => log::run(context, &args).await,
            Verb::Show(args) => show::run(context, &args).await,
            Verb::Search(args) => search::run(context, &args).await,
            Verb::Narrative(args) => narrative::run(context, &args).await,
            Verb::Pack(args) => pack::run(context, &args).await,
            Verb::Blame(args) => blame::run(context, &args).await,
            Verb::Stage(verb) => stage::run(context, verb).await,
            Verb::Run(args) => run::run(context, &args).await,
            Verb::Session(verb) => session::run(context, verb).await,
            Verb::Provider(verb) => provider::run(context, verb).await,
            Verb::Export(args) => export::run(context, &args).await,
            Verb::Import(args) => import::run(context, &args).await,
            Verb::Remote(verb) => remote::run(context, verb).await,
            Verb::Push(args) => push::run(context, &args).await,
            Verb::Pull(args) => pull::run(context, &args).await,
            Verb::Sync(args) => sync::run(context, &args).await,
            Verb::Continue(args) => continue_session::run(context, &args).await,
            Verb::Classify(args) => classify::run(context, &args).await,
            Verb::Verify(args) => verify::run(context, &args).await,
            Verb::Gc(args) => gc::run(context, &args).await,
            Verb::Backup(args) => backup::run(context, &args).await,
            Verb::Store(verb) => store::run(context, verb).await,
            Verb::Doctor(args) => doctor::run(context, &args).await,
            Verb::Mcp(args) => mcp::run(context, &args).await,
            Verb::Outbox(verb) => outbox::run(context, verb).await,
            Verb::Schedule(verb) => schedule::run(context, verb).await,
            Verb::Usage(args) => usage::run(context, &args).await,
            Verb::Token(verb) => token::run(context, verb).await,
            Verb::Entity(verb) => entity::run(context, verb).await,
            Verb::Alias(verb) => alias::run(context, verb).await,
            Verb::Policy(verb) => policy::run(context, verb).await,
            Verb::Hook(verb) => hook::run(context, verb),
            Verb::Completions(args) => completions::run(context, &args),
            Verb::Man(args) => man::run(context, &args),
            Verb::Bridge(args) => bridge::run(&args).await,
            Verb::Bench(_) | Verb::Guard(_) | Verb::Serve(_) | Verb::Acp(_) | Verb::Chat(_) => {
                Ok(())
            }
        }
    });
    // The process does not wait for its threads: an idle one takes milliseconds to end on a busy
    // machine, and a classifier that timed out may still hold one.
    runtime.shutdown_background();
    result
}
