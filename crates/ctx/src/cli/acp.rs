//! `ctx acp`: serve an editor over standard input and output, or print its configuration.

use std::sync::Arc;
use std::time::Duration;

use ctx_engine::Indexing;
use ctx_providers::json_lines::{JsonLines, WireLog};
use serde_json::json;
use tokio::signal::unix::SignalKind;
use tokio_util::sync::CancellationToken;

use crate::acp::setup::{EditorKind, setup};
use crate::acp::{self, Editor};
use crate::problem::Problem;

use super::serve::{LogFormat, init_logging, signal_stream};
use super::{Context, multi_threaded_runtime};

/// How long the process waits for its threads at the end.
const END_TIMEOUT: Duration = Duration::from_millis(100);

#[derive(clap::Args)]
pub(super) struct Args {
    /// Print the configuration to paste into this editor, and exit
    #[arg(long, value_name = "EDITOR")]
    setup: Option<EditorKind>,
    /// Write the log to standard error in this format; CTX_LOG sets the level
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,
}

/// Unlike the verbs that exit, it uses a multi-threaded runtime.
pub(super) fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    if let Some(editor) = args.setup {
        return print_setup(context, editor);
    }
    init_logging(args.log_format, "warn")?;
    let runtime = multi_threaded_runtime()?;
    let result = runtime.block_on(serve(context));
    // The thread that reads standard input may be blocked.
    runtime.shutdown_timeout(END_TIMEOUT);
    result
}

async fn serve(context: &Context) -> Result<(), Problem> {
    context.create_store()?;
    let log = super::env_var("CTX_WIRE_LOGS").map(|dir| {
        let name = format!("editor-{}.log", std::process::id());
        WireLog::new(&std::path::Path::new(&dir).join(name))
    });
    let stop = CancellationToken::new();
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        let (mut signals, stop) = (signal_stream(kind)?, stop.clone());
        tokio::spawn(async move {
            signals.recv().await;
            stop.cancel();
        });
    }
    let lines = JsonLines::new(tokio::io::stdin(), tokio::io::stdout(), log);
    let editor = Arc::new(Editor::new(lines.sender()));
    let engine = context.engine_with_client(Indexing::Background, Some(editor.clone()))?;
    engine.background().start().await?;
    acp::serve(&engine, editor, lines, stop).await;
    Ok(())
}

/// The options that select the store are part of the command.
fn print_setup(context: &Context, editor: EditorKind) -> Result<(), Problem> {
    let program = std::env::current_exe()
        .ok()
        .map_or_else(|| "ctx".to_owned(), |path| path.to_string_lossy().into_owned());
    let mut args = vec!["acp".to_owned()];
    if context.data_is_named {
        let data = context.data.canonicalize().unwrap_or_else(|_| context.data.clone());
        args.extend(["--data".to_owned(), data.to_string_lossy().into_owned()]);
    }
    if let Some(store) = &context.store {
        args.extend(["--store".to_owned(), store.clone()]);
    }
    if let Some(config) = &context.config {
        let config = config.canonicalize().unwrap_or_else(|_| config.clone());
        args.extend(["--config".to_owned(), config.to_string_lossy().into_owned()]);
    }
    let setup = setup(editor, &program, &args);
    context.out.print(
        || json!({"editor": setup.name, "file": setup.file, "config": setup.config}),
        // Comments are not part of JSON, so the place of the text is printed to standard error.
        || {
            eprintln!("Add this to {}:", setup.file);
            setup.config.clone()
        },
    )
}
