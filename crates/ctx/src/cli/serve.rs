//! `ctx serve`: the HTTP surface, until a signal ends it.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use ctx_engine::{Engine, Indexing};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use crate::config::Server;
use crate::http::{self, ServeOptions};
use crate::problem::Problem;

use super::Context;
use super::init::name_of;

const LISTEN: &str = "127.0.0.1:7420";

#[derive(clap::Args)]
pub(super) struct Args {
    /// Where to listen; port 0 takes any that is free [env: CTX_SERVER_LISTEN] [default: 127.0.0.1:7420]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// How log lines on standard error look; CTX_LOG says which are written
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

/// Runs on threads of its own: many clients are served at a time.
pub(super) fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    log(args.log_format)?;
    let workers = std::thread::available_parallelism().map_or(2, usize::from).max(2);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
        .map_err(|e| Problem::failed("internal", format!("no runtime: {e}")))?;
    let result = runtime.block_on(serve(context, args));
    runtime.shutdown_timeout(Duration::from_millis(100));
    result
}

async fn serve(context: &Context, args: &Args) -> Result<(), Problem> {
    let config = context.config()?;
    let wanted = args.listen.as_deref().or(config.server.listen.as_deref()).unwrap_or(LISTEN);
    let address = address_of(wanted)?;
    if !address.ip().is_loopback() {
        for_others(context, &config.server, address).await?;
    }
    // The port first: whoever finds it taken has made no store.
    let listener = listen(address).await?;
    let address = listener
        .local_addr()
        .map_err(|e| Problem::failed("internal", format!("no address: {e}")))?;
    let (interrupt, terminate) = (on(SignalKind::interrupt())?, on(SignalKind::terminate())?);
    let engine = engine_for_serving(context)?;
    say(context, &engine, address)?;
    let shutdown = CancellationToken::new();
    tokio::spawn(wait_for_signals(interrupt, terminate, shutdown.clone()));
    let options =
        ServeOptions { listen: address, roots: roots(&config.server), hosts: config.server.hosts };
    let served = http::serve(engine.clone(), listener, options, shutdown).await;
    tracing::info!("ending");
    engine.background().shutdown().await;
    served
}

/// The engine with everybody who can answer; the store is made where there is none.
fn engine_for_serving(context: &Context) -> Result<Engine, Problem> {
    Engine::init(&context.data, &name_of(std::path::Path::new(".")))?;
    context.engine_with_providers(Indexing::Background)
}

fn say(context: &Context, engine: &Engine, address: SocketAddr) -> Result<(), Problem> {
    let data = context.data.canonicalize().unwrap_or_else(|_| context.data.clone());
    let providers = engine.providers();
    let provider =
        providers.all.contains_key(&providers.default).then(|| providers.default.clone());
    let url = format!("http://{address}");
    context.out.say(
        || json!({"address": address.to_string(), "url": url, "data": data, "provider": provider, "version": env!("CARGO_PKG_VERSION")}),
        || {
            let who = provider.as_ref().map_or_else(|| "no provider answers".to_owned(), |name| format!("{name} answers"));
            format!("ctx listens on {url}\ndata in {}\n{who}", data.display())
        },
    )
}

fn address_of(wanted: &str) -> Result<SocketAddr, Problem> {
    let bad = |why: String| {
        Problem::wrong_use("bad_address", format!("`{wanted}` is no address to listen on: {why}"))
            .hint("an address is a host and a port, like 127.0.0.1:7420")
    };
    let mut found = wanted.to_socket_addrs().map_err(|e| bad(e.to_string()))?;
    found.next().ok_or_else(|| bad("it names no host".to_owned()))
}

/// Others can ask there: somebody must have a token, and where agents may work must have been thought about.
async fn for_others(
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
        return Err(Problem::failed("tokens_needed", format!("{address} can be reached by others, and there is no token to know them by"))
            .hint("make one with `ctx token create --scope admin` (or read, or write), or listen on 127.0.0.1"));
    }
    if server.roots.is_empty() {
        return Err(Problem::failed(
            "roots_needed",
            format!("{address} can be reached by others, and nothing says in which directories they may have agents work"),
        )
        .hint("set `roots = [\"/some/directory\"]` under [server] in ctx.toml; working directories must lie under one of them"));
    }
    Ok(())
}

async fn listen(address: SocketAddr) -> Result<TcpListener, Problem> {
    TcpListener::bind(address).await.map_err(|e| match e.kind() {
        std::io::ErrorKind::AddrInUse => Problem::failed(
            "address_in_use",
            format!("somebody listens on {address} already"),
        )
        .hint("another `ctx serve` may be running; end it, or choose another port with --listen"),
        _ => Problem::failed("cannot_listen", format!("{address} cannot be listened on: {e}")),
    })
}

/// Where agents may work: as configured, else in the user's home and here.
fn roots(server: &Server) -> Vec<PathBuf> {
    if !server.roots.is_empty() {
        return http::roots::canonical(server.roots.iter().cloned());
    }
    let home = super::set("HOME").map(PathBuf::from);
    http::roots::canonical(home.into_iter().chain(std::env::current_dir().ok()))
}

fn on(kind: SignalKind) -> Result<Signal, Problem> {
    signal(kind)
        .map_err(|e| Problem::failed("internal", format!("signals cannot be waited for: {e}")))
}

/// The first signal ends gracefully, the second at once.
async fn wait_for_signals(
    mut interrupt: Signal,
    mut terminate: Signal,
    shutdown: CancellationToken,
) {
    for first in [true, false] {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        if first {
            shutdown.cancel();
        }
    }
    std::process::exit(130);
}

fn log(format: LogFormat) -> Result<(), Problem> {
    let wanted = std::env::var("CTX_LOG")
        .ok()
        .filter(|value| !value.is_empty())
        .unwrap_or_else(|| "info".to_owned());
    let filter = EnvFilter::try_new(&wanted)
        .map_err(|e| Problem::wrong_use("bad_config", format!("CTX_LOG: {e}")))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => builder.with_ansi(false).init(),
        LogFormat::Json => builder.json().init(),
    }
    Ok(())
}
