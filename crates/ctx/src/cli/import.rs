//! `ctx import FILE`: a conversation from elsewhere, verified by its hashes.

use std::path::{Path, PathBuf};

use ctx_engine::core::bundle::SESSION_MAX_BYTES;
use serde_json::json;

use crate::problem::Problem;
use crate::shape::talk::{Imported, Session};

use super::session::transcript::{plain, session_line};
use super::{Context, bundle};

#[derive(clap::Args)]
pub(super) struct Args {
    /// A file that `ctx export` wrote; `-` reads standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let bytes = bundle::read(&args.file, SESSION_MAX_BYTES)?;
    let engine = context.engine()?;
    // Where the agent worked there says nothing about this machine, unless the same directory is here.
    let here = |dir: &str| Path::new(dir).is_dir().then(|| dir.to_owned());
    let imported = engine.bundles().import(&bytes, here).await?;
    let info = engine.sessions().get(&imported.session.to_string()).await?;
    context.out.say(
        || json!(Imported::of(&imported, Session::from(&info))),
        || {
            let what = match Imported::name(imported.arrival) {
                "created" => "Made",
                "extended" => "Brought forward",
                _ => "Nothing new in",
            };
            let mut lines = format!("{what} {}", session_line(&info));
            if let Some(label) = &imported.renamed_from {
                lines.push_str(&format!(
                    "\nIt was called `{}`, and another session has that label here.",
                    plain(label)
                ));
            }
            if imported.tasks_left > 0 {
                lines.push_str(&format!(
                    "\n{} of its tasks were left: another one is open here.",
                    imported.tasks_left
                ));
            }
            lines
        },
    )
}
