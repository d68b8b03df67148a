//! `ctx mcp`: ctx as memory for agents, over MCP on standard input and output.

use std::time::Duration;

use ctx_engine::DefaultSession;

use crate::data_dir;
use crate::mcp::{StdioOptions, serve_stdio};
use crate::problem::Problem;

use super::{Context, init};

/// How long runs that this process started may continue after the client has left.
const DRAIN: Duration = Duration::from_secs(5);

#[derive(clap::Args)]
pub(super) struct Args {
    /// Offer only the tools that search and read
    #[arg(long)]
    read_only: bool,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    init::ensure_store(context).await?;
    let engine = context.engine_for_runs()?;
    let root = data_dir::project_root(&context.data);
    let session = context.session_in(&engine);
    let options = StdioOptions {
        read_only: args.read_only,
        session: DefaultSession { create: session == engine.default_session(), name: session },
        directory: root.to_str().map(str::to_owned),
    };
    let served =
        serve_stdio(engine.clone(), options, tokio::io::stdin(), tokio::io::stdout()).await;
    engine.background().drain(DRAIN).await;
    engine.background().shutdown().await;
    served
}
