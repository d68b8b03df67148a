//! `ctx export SESSION`: write a session and every object it references to a bundle, or to a git
//! repository ([`super::export_git`]).

use std::path::PathBuf;

use serde_json::json;

use crate::problem::Problem;

use super::bundle_file::BundleFile;
use super::export_git::GitArgs;
use super::{Context, export_git};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Select the session by label, id or short id
    #[arg(value_name = "SESSION", required_unless_present_any = ["git", "notes", "trace"])]
    session_name: Option<String>,
    /// Write the bundle to this file [default: standard output in a pipe, else a file named after
    /// the session]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    git: GitArgs,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let session = args.session_name.as_deref();
    if args.git.is_used() {
        return export_git::run(context, session, &args.git).await;
    }
    let engine = context.engine()?;
    let mut export = engine.bundles().export(session.unwrap_or_default()).await?;
    let name = format!("session-{}.ctx-bundle", export.manifest().session);
    let mut file = BundleFile::create(context, args.output.as_deref(), &name)?;
    while let Some(part) = export.next_part().await? {
        file.write(&part)?;
    }
    let Some(file) = file.finish()? else { return Ok(()) };
    let manifest = export.manifest();
    context.out.print(
        || {
            json!({
                "session": manifest.session,
                "label": manifest.label,
                "head": manifest.head,
                "turn_count": manifest.turn_count,
                "tasks": manifest.tasks.len(),
                "bytes": export.bytes(),
                "file": file,
            })
        },
        || {
            format!(
                "Wrote {} ({} bytes, {} turns, {} tasks). Import it with `ctx import {}`.",
                file.display(),
                export.bytes(),
                manifest.turn_count,
                manifest.tasks.len(),
                file.display()
            )
        },
    )
}
