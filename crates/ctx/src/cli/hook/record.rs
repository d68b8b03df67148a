//! `ctx hook record`, hidden: one event of a tool, from the JSON document on standard input.
//!
//! Whatever happens, the exit code is 0 and nothing is printed. A thread does the work, and the
//! process ends when the time is over, even if that thread waits for the store.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use ctx_engine::DEFAULT_SESSION;

use super::super::output::Output;
use super::super::{Context, env_var};
use crate::agent_hooks::report::{PAYLOAD_MAX_BYTES, Report};
use crate::agent_hooks::spool::Spool;
use crate::agent_hooks::tool;
use crate::config::Config;

/// Time for reading the payload and the files.
const READ_TIME: Duration = Duration::from_millis(1500);
/// Time from the start of the process in which the store must have taken the records in.
const STORE_TIME: Duration = Duration::from_millis(40);

#[derive(clap::Args)]
pub(in super::super) struct Args {
    /// Read the payload of this tool
    tool: String,
    /// Record this event, if the payload does not name one
    event: Option<String>,
}

/// Whether the command line is `ctx hook record …`. It is not parsed further, because a hook must
/// not fail or print.
pub(in super::super) fn is_record_command(arguments: &[OsString]) -> bool {
    arguments.get(1).is_some_and(|it| it == "hook")
        && arguments.get(2).is_some_and(|it| it == "record")
}

/// Records an event, given the command line.
pub(in super::super) fn record(arguments: &[OsString]) {
    let word = |index: usize| arguments.get(index).and_then(|it| it.to_str()).map(str::to_owned);
    if let Some(tool) = word(3) {
        within_time(tool, word(4), None);
    }
}

pub(in super::super) fn run(context: &Context, args: &Args) {
    let data = context.data_is_named.then(|| context.data.clone());
    within_time(args.tool.clone(), args.event.clone(), data);
}

/// What the thread reports: first the spool and the records that it wrote, then that it is done.
enum Progress {
    Spooled(Spool, Vec<PathBuf>),
    Done,
}

fn within_time(tool: String, event: Option<String>, data: Option<PathBuf>) {
    // The runs of ctx observe their agents themselves.
    if env_var("CTX_RUN").is_some() {
        return;
    }
    let began = Instant::now();
    let (sender, receiver) = channel();
    let thread = std::thread::Builder::new().name("record".to_owned());
    let started = thread.spawn(move || {
        work(&tool, event.as_deref(), data, &sender);
        let _ = sender.send(Progress::Done);
    });
    if started.is_err() {
        return;
    }
    let Ok(Progress::Spooled(spool, paths)) = receiver.recv_timeout(READ_TIME) else { return };
    let left = STORE_TIME.saturating_sub(began.elapsed());
    // Without an answer in time the records wait in the spool. Those that the store has do not
    // exist any more.
    let _ = receiver.recv_timeout(left);
    spool.sync(&paths);
}

fn work(tool_name: &str, event: Option<&str>, data: Option<PathBuf>, progress: &Sender<Progress>) {
    let mut payload = Vec::new();
    let read = std::io::stdin().take(PAYLOAD_MAX_BYTES + 1).read_to_end(&mut payload);
    let named = data.or_else(|| env_var("CTX_DATA").map(PathBuf::from));
    let report = match (tool(tool_name), read) {
        (None, _) => Err(format!("there is no tool `{tool_name}`")),
        (_, Err(e)) => Err(format!("the payload cannot be read: {e}")),
        (_, Ok(size)) if size as u64 > PAYLOAD_MAX_BYTES => {
            Err(format!("the payload has more than {PAYLOAD_MAX_BYTES} bytes"))
        }
        (Some(tool), Ok(_)) => Report::parse(tool, event, &payload),
    };
    let here = || std::env::current_dir().ok().and_then(|dir| crate::data_dir::nearest(&dir));
    let data = named.or_else(|| report.as_ref().map_or_else(|_| here(), Report::data_dir));
    let Some(context) = data.and_then(store_context) else { return };
    let spool = context.spool();
    let report = match report {
        Ok(report) => report,
        Err(why) => return spool.log(&format!("{tool_name}: {why}")),
    };
    let session = context.session.as_deref().unwrap_or(DEFAULT_SESSION);
    let mut paths = Vec::new();
    for record in report.records(&context.data, session, &spool) {
        match spool.add(&record) {
            Ok(path) => paths.push(path),
            Err(e) => return spool.log(&format!("failed to write a record: {e}")),
        }
    }
    if paths.is_empty() && spool.is_empty() {
        return;
    }
    if progress.send(Progress::Spooled(spool.clone(), paths)).is_err() {
        return;
    }
    let stored = store_records(&context);
    if let Err(why) = stored {
        spool.log(&format!("failed to store a record, which waits in the spool: {why}"));
    }
}

/// Stores the records of the spool. It may wait for the store for a long time.
pub(in super::super) fn store_records(context: &Context) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| format!("failed to start the async runtime: {e}"))?;
    let stored = runtime.block_on(async {
        let engine = context.engine().map_err(|problem| problem.message)?;
        context.spool().take_in(&engine).await.map_err(|error| error.to_string())
    });
    runtime.shutdown_background();
    stored
}

/// The context of a data directory that has a store. Without a store nothing is made.
fn store_context(data: PathBuf) -> Option<Context> {
    let text = |name: &str| env_var(name).and_then(|value| value.into_string().ok());
    let context = Context {
        data_is_named: true,
        store: text("CTX_STORE"),
        config: env_var("CTX_CONFIG").map(PathBuf::from),
        session: text("CTX_SESSION"),
        named_session: None,
        out: Output { json: false, pager: false, utc: false },
        data,
    };
    let has_store = context.data.join("ctx.db").exists() || names_a_store(&context);
    has_store.then_some(context)
}

fn names_a_store(context: &Context) -> bool {
    let config = |path: Option<&Path>| Config::load(&context.data, path).ok();
    context.store.is_some()
        || config(context.config.as_deref()).is_some_and(|config| config.store.url.is_some())
}
