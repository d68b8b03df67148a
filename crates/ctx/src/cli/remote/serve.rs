//! `ctx remote serve`, hidden: the other end of a push or pull over ssh.

use std::path::{Path, PathBuf};
use std::process::exit;

use ctx_engine::exchange::LocalPeer;

use crate::cli::{Context, init};
use crate::data_dir::DIR_NAME;
use crate::problem::Problem;
use crate::remote::{local_dir, serve, store_in};

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Serve the store of this data directory or project; it is created if it does not exist
    #[arg(long, value_name = "PATH")]
    at: Option<PathBuf>,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let mut context = context.clone();
    if let Some(path) = &args.at {
        context.data = data_dir(path);
        context.data_is_named = true;
    }
    init::ensure_store(&context).await?;
    let peer = LocalPeer::new(context.engine()?, local_dir);
    serve(&peer).await?;
    // A thread may still block on standard input, so returning from main would hang.
    exit(0);
}

/// The data directory of a path: a store, the `.ctx` of a project, or a new directory.
fn data_dir(path: &Path) -> PathBuf {
    if let Some(store) = store_in(path) {
        return store;
    }
    let is_project = std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
    let has_settings = path.join("ctx.toml").exists();
    if is_project && !has_settings { path.join(DIR_NAME) } else { path.to_owned() }
}
