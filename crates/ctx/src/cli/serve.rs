//! `ctx serve`: serve the HTTP API and the web page until a signal arrives.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ctx_engine::{Engine, Indexing, Location};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use crate::agent_hooks::spool::Spool;
use crate::channel_setup;
use crate::config::{Config, Server};
use crate::http::setup::ConfigSource;
use crate::http::{self, ServeOptions};
use crate::policy_file::PolicyFile;
use crate::problem::Problem;

use super::{Context, multi_threaded_runtime};

const DEFAULT_LISTEN: &str = "127.0.0.1:7420";
/// Pause between two looks at the records of hooks.
const SPOOL_INTERVAL: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
pub(super) struct Args {
    /// Listen on this address; port 0 selects a free port [env: CTX_SERVER_LISTEN] [default:
    /// 127.0.0.1:7420]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Write the log to standard error in this format; CTX_LOG sets the level
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,
}

#[derive(Clone, Copy, clap::ValueEnum)]
pub(super) enum LogFormat {
    Text,
    Json,
}

/// Unlike the other verbs, it uses a multi-threaded runtime.
pub(super) fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    init_logging(args.log_format, "info")?;
    let runtime = multi_threaded_runtime()?;
    let result = runtime.block_on(serve(context, args));
    runtime.shutdown_timeout(Duration::from_millis(100));
    result
}

async fn serve(context: &Context, args: &Args) -> Result<(), Problem> {
    let config = context.config()?;
    let listen =
        args.listen.as_deref().or(config.server.listen.as_deref()).unwrap_or(DEFAULT_LISTEN);
    let address = parse_address(listen)?;
    let hooks = config.hooks()?;
    if !address.ip().is_loopback() {
        check_remote_access(context, &config.server, address).await?;
    }
    let mut policies = PolicyFile::open(context.policy_file())?;
    // Bind before the store is created, so that a failed start leaves no store behind.
    let listener = bind(address).await?;
    let address = listener.local_addr().map_err(|e| {
        Problem::failed("internal", format!("failed to read the listen address: {e}"))
    })?;
    let (interrupt, terminate) =
        (signal_stream(SignalKind::interrupt())?, signal_stream(SignalKind::terminate())?);
    let engine = engine_for_serving(context)?.with_schedules(config.schedules());
    config.check_source_sessions(&hooks, &engine.providers())?;
    policies.apply(&engine);
    print_address(context, &config, &engine, address)?;
    let (draining, shutdown) = (CancellationToken::new(), CancellationToken::new());
    tokio::spawn(policies.watch(engine.clone(), shutdown.clone()));
    tokio::spawn(wait_for_signals(interrupt, terminate, draining.clone(), shutdown.clone()));
    tokio::spawn(drain(engine.clone(), config.drain()?, draining.clone(), shutdown.clone()));
    tokio::spawn(take_in_hook_records(context.spool(), engine.clone(), shutdown.clone()));
    let roots = roots(&config.server);
    let (hosts, mcp) = (config.server.hosts, config.mcp.http);
    let source = ConfigSource {
        data: context.data.clone(),
        named: context.config.clone(),
        store: context.store.clone(),
    };
    let options =
        ServeOptions { listen: address, roots, hosts, hooks, mcp, config: source, draining };
    let served = http::serve(engine.clone(), listener, options, shutdown).await;
    tracing::info!("shutting down");
    engine.background().shutdown().await;
    served
}

/// Stores the records that hooks left in the spool because the store was not available.
async fn take_in_hook_records(spool: Spool, engine: Engine, shutdown: CancellationToken) {
    while shutdown.run_until_cancelled(tokio::time::sleep(SPOOL_INTERVAL)).await.is_some() {
        if !spool.is_empty()
            && let Err(error) = spool.take_in(&engine).await
        {
            tracing::warn!(%error, "failed to store the records of hooks");
        }
    }
}

/// An engine with providers. Creates the store if it does not exist.
fn engine_for_serving(context: &Context) -> Result<Engine, Problem> {
    let config = context.config()?;
    channel_setup::check_secrets(&config)?;
    let courier = channel_setup::courier(&config)?;
    context.create_store()?;
    Ok(context.engine_with_providers(Indexing::Background)?.with_courier(Arc::new(courier)))
}

fn print_address(
    context: &Context,
    config: &Config,
    engine: &Engine,
    address: SocketAddr,
) -> Result<(), Problem> {
    let data = context.data.canonicalize().unwrap_or_else(|_| context.data.clone());
    let store = context.store_name(config)?;
    let location = context.location(config)?;
    let named = matches!(&location, Location::Directory(dir) if *dir == context.data);
    let shown = if named { String::new() } else { format!("\nStore: {store}") };
    let providers = engine.providers();
    let provider =
        providers.all.contains_key(&providers.default).then(|| providers.default.clone());
    let policies = engine.inbound().policies().map(|policies| policies.len());
    let url = format!("http://{address}");
    context.out.print(
        || {
            json!({
                "address": address.to_string(),
                "url": url,
                "data": data,
                "store": store,
                "provider": provider,
                "policies": policies,
                "version": env!("CARGO_PKG_VERSION"),
            })
        },
        || {
            let provider = provider.as_deref().unwrap_or("none");
            let policies = policies.map_or_else(|| "none".to_owned(), |count| count.to_string());
            format!(
                "Listening on {url}\nData directory: {}{shown}\nDefault provider: {provider}\n\
                 Policies: {policies}",
                data.display()
            )
        },
    )
}

fn parse_address(text: &str) -> Result<SocketAddr, Problem> {
    let bad = |why: String| {
        Problem::wrong_use("bad_address", format!("invalid listen address `{text}`: {why}"))
            .hint("use a host and a port, such as 127.0.0.1:7420")
    };
    let mut found = text.to_socket_addrs().map_err(|e| bad(e.to_string()))?;
    found.next().ok_or_else(|| bad("it has no host".to_owned()))
}

/// Refuses an address that other machines can reach, unless there is a token and `roots` is set.
async fn check_remote_access(
    context: &Context,
    server: &Server,
    address: SocketAddr,
) -> Result<(), Problem> {
    let tokens = match context.engine() {
        Ok(engine) => engine.tokens().list().await?,
        Err(problem) if problem.code == "no_store" => Vec::new(),
        Err(problem) => return Err(problem),
    };
    if tokens.is_empty() {
        return Err(Problem::failed(
            "tokens_needed",
            format!("cannot serve on {address}: other machines can reach it and no token exists"),
        )
        .hint("create a token with `ctx token create --scope admin`, or listen on 127.0.0.1"));
    }
    if server.roots.is_empty() {
        return Err(Problem::failed(
            "roots_needed",
            format!(
                "cannot serve on {address}: other machines can reach it and `server.roots` is empty"
            ),
        )
        .hint("set `roots = [\"/some/directory\"]` under [server] in ctx.toml"));
    }
    Ok(())
}

async fn bind(address: SocketAddr) -> Result<TcpListener, Problem> {
    TcpListener::bind(address).await.map_err(|e| match e.kind() {
        std::io::ErrorKind::AddrInUse => Problem::failed(
            "address_in_use",
            format!("cannot listen on {address}: the address is in use"),
        )
        .hint("stop the other `ctx serve`, or choose another port with `--listen`"),
        _ => Problem::failed("cannot_listen", format!("cannot listen on {address}: {e}")),
    })
}

/// `server.roots`, else the user's home and the working directory.
fn roots(server: &Server) -> Vec<PathBuf> {
    if !server.roots.is_empty() {
        return http::working_dir::canonical_roots(server.roots.iter().cloned());
    }
    let home = super::env_var("HOME").map(PathBuf::from);
    http::working_dir::canonical_roots(home.into_iter().chain(std::env::current_dir().ok()))
}

pub(super) fn signal_stream(kind: SignalKind) -> Result<Signal, Problem> {
    signal(kind).map_err(|e| {
        Problem::failed("internal", format!("failed to install a signal handler: {e}"))
    })
}

/// SIGTERM starts to drain. SIGINT, or a second SIGTERM, starts the shutdown. A signal during the
/// shutdown ends the process at once.
async fn wait_for_signals(
    mut interrupt: Signal,
    mut terminate: Signal,
    draining: CancellationToken,
    shutdown: CancellationToken,
) {
    loop {
        let drains = tokio::select! {
            _ = interrupt.recv() => false,
            _ = terminate.recv() => true,
        };
        if shutdown.is_cancelled() {
            std::process::exit(130);
        } else if drains && !draining.is_cancelled() {
            draining.cancel();
        } else {
            shutdown.cancel();
        }
    }
}

/// Lets open runs end, at most for the given time, and then starts the shutdown.
async fn drain(
    engine: Engine,
    longest: Duration,
    draining: CancellationToken,
    shutdown: CancellationToken,
) {
    draining.cancelled().await;
    tracing::info!(seconds = longest.as_secs(), "draining: new requests are refused");
    tokio::select! {
        () = engine.background().drain(longest) => {}
        () = shutdown.cancelled() => {}
    }
    shutdown.cancel();
}

/// Logs to standard error. `CTX_LOG` replaces the level.
pub(super) fn init_logging(format: LogFormat, level: &str) -> Result<(), Problem> {
    let level = std::env::var("CTX_LOG")
        .ok()
        .filter(|value| !value.is_empty())
        .unwrap_or_else(|| level.to_owned());
    let filter = EnvFilter::try_new(&level)
        .map_err(|e| Problem::wrong_use("bad_config", format!("CTX_LOG: {e}")))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => builder.with_ansi(false).init(),
        LogFormat::Json => builder.json().init(),
    }
    Ok(())
}
