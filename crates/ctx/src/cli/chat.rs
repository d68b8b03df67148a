//! `ctx chat`: a full-screen conversation, a new one or one to continue. `ctx` alone on a terminal
//! does the same.

use std::path::Path;

use ctx_engine::core::id::SessionId;
use ctx_engine::core::session::Status;
use ctx_engine::{Engine, SessionQuery};

use crate::chat::{self, KEYS, Start};
use crate::problem::Problem;

use super::output::DIM;
use super::session::terminal_prompts::is_interactive;
use super::session::transcript::session_argument;
use super::session::working_dir;
use super::{Context, init};

/// Sessions per read when the newest one of a directory is looked for.
const PAGE: usize = 200;

#[derive(clap::Args, Default)]
#[command(after_help = keys_help())]
pub(super) struct Args {
    /// Continue this session, given by label or id [default: begin a new conversation, which is
    /// stored with its first message]
    #[arg(value_name = "SESSION")]
    session_name: Option<String>,
    /// Continue the newest conversation of this directory
    #[arg(short, long = "continue", conflicts_with = "session_name")]
    continues: bool,
    /// Use this provider for a new conversation
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// Use this model for a new conversation
    #[arg(long)]
    model: Option<String>,
}

fn keys_help() -> String {
    let key = |(key, about): &(&str, &str)| format!("  {key:<24}{about}\n");
    let keys: String = KEYS.iter().map(key).collect();
    format!("Keys:\n{keys}\nCommands: /help shows them. Every word is stored as it arrives.")
}

/// Uses a multi-threaded runtime: the main thread draws.
pub(super) fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    if !is_interactive(context) {
        return Err(Problem::wrong_use(
            "no_terminal",
            "cannot open the chat: standard input or output is not a terminal, or `--json` is set",
        )
        .hint("send one message with `ctx run TEXT` or `ctx session send SESSION TEXT`"));
    }
    return_memory_at_once();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| {
            Problem::failed("internal", format!("failed to start the async runtime: {e}"))
        })?;
    let dir = working_dir(Path::new("."))?;
    let engine = runtime.block_on(async {
        init::ensure_store(context).await?;
        context.engine_for_runs()
    })?;
    let start = runtime.block_on(start(context, args, &engine, dir))?;
    let left = chat::run(&engine, &runtime, start);
    runtime.block_on(engine.background().shutdown());
    let named = left.map(|session| runtime.block_on(name(&engine, session)));
    runtime.shutdown_background();
    if let Some(name) = named? {
        // The terminal may be gone.
        let line = format!("{DIM}Continue with `ctx chat {name}`{DIM:#}\n");
        let _ = context.out.print_text(&line);
    }
    Ok(())
}

/// Executes this program again with a setting of its allocator, which is read when a program
/// starts: memory that is not used is returned to the system at once. A conversation stays open
/// for hours.
fn return_memory_at_once() {
    use std::os::unix::process::CommandExt;
    const SETTING: &str = "MIMALLOC_PURGE_DELAY";
    if std::env::var_os(SETTING).is_some() {
        return;
    }
    if let Ok(program) = std::env::current_exe() {
        let mut again = std::process::Command::new(program);
        // Returns only if it failed. The conversation then needs more memory.
        let _ = again.args(std::env::args_os().skip(1)).env(SETTING, "0").exec();
    }
}

async fn start(
    context: &Context,
    args: &Args,
    engine: &Engine,
    dir: String,
) -> Result<Start, Problem> {
    let mut notice = None;
    let session = match (&args.session_name, args.continues) {
        (Some(name), _) => Some(engine.sessions().get(name).await?.session.id),
        (None, true) => {
            let newest = newest_of(engine, &dir).await?;
            if newest.is_none() {
                notice = Some("This directory has no conversation yet. This is a new one.".into());
            }
            newest
        }
        (None, false) => None,
    };
    if let Some(provider) = &args.provider
        && !engine.providers().all.contains_key(provider)
    {
        return Err(Problem::failed(
            "unknown_provider",
            format!("no provider is called `{provider}`"),
        )
        .hint("list them with `ctx provider list`"));
    }
    let preferred = (args.provider.clone(), args.model.clone());
    Ok(Start { data: context.data.clone(), dir, session, preferred, notice })
}

/// The session of a directory with the newest activity. Workers and archived sessions do not count.
async fn newest_of(engine: &Engine, dir: &str) -> Result<Option<SessionId>, Problem> {
    let statuses = vec![Status::Active, Status::Suspended];
    let mut query = SessionQuery { statuses, ..SessionQuery::newest(PAGE) };
    loop {
        let (infos, _) = engine.sessions().list(&query).await?;
        let here = infos.iter().find(|info| {
            info.session.working_dir.as_deref() == Some(dir) && !info.session.is_worker()
        });
        if let Some(info) = here {
            return Ok(Some(info.session.id));
        }
        match infos.last() {
            Some(last) if infos.len() == PAGE => {
                query.after = Some((last.session.last_activity_at, last.session.id));
            }
            _ => return Ok(None),
        }
    }
}

async fn name(engine: &Engine, session: Option<SessionId>) -> Option<String> {
    let info = engine.sessions().get(&session?.to_string()).await.ok()?;
    Some(session_argument(&info))
}
