//! `ctx import FILE`: import a session from a bundle. All hashes are verified first.

use std::path::{Path, PathBuf};

use ctx_engine::ImportEffect;
use ctx_engine::core::bundle::SESSION_MAX_BYTES;
use serde_json::json;

use crate::json::import_json::Imported;
use crate::json::session_json::Session;
use crate::problem::Problem;

use super::session::transcript::{session_line, strip_control_chars};
use super::{Context, bundle_file};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Import this file, which `ctx export` wrote; `-` reads standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let bytes = bundle_file::read(&args.file, SESSION_MAX_BYTES)?;
    let engine = context.engine()?;
    // The working directory is kept only if it exists on this machine too.
    let local_dir = |dir: &str| Path::new(dir).is_dir().then(|| dir.to_owned());
    let imported = engine.bundles().import(&bytes, local_dir).await?;
    let info = engine.sessions().get(&imported.session.to_string()).await?;
    context.out.print(
        || json!(Imported::of(&imported, Session::from(&info))),
        || {
            let what = match imported.arrival {
                ImportEffect::Created => "Created",
                ImportEffect::Extended => "Extended",
                ImportEffect::Unchanged => "No new turns in",
            };
            let mut lines = format!("{what} {}", session_line(&info));
            if let Some(label) = &imported.renamed_from {
                lines.push_str(&format!(
                    "\nThe label `{}` is in use here, so the session has a new label.",
                    strip_control_chars(label)
                ));
            }
            if imported.tasks_left > 0 {
                lines.push_str(&format!(
                    "\n{} tasks were skipped: another task is open here.",
                    imported.tasks_left
                ));
            }
            lines
        },
    )
}
