//! `ctx export SESSION`: a conversation as one file, with everything it reaches.

use std::path::PathBuf;

use serde_json::json;

use crate::problem::Problem;

use super::{Context, bundle};

#[derive(clap::Args)]
pub(super) struct Args {
    /// The session, by label or id
    #[arg(value_name = "SESSION")]
    which: String,
    /// Where to write it [default: standard output in a pipe, else a file named after the session]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let (manifest, bytes) = context.engine()?.bundles().export(&args.which).await?;
    let name = format!("session-{}.ctx-bundle", manifest.session);
    let Some(file) = bundle::write(context, args.output.as_deref(), &name, &bytes)? else {
        return Ok(());
    };
    context.out.say(
        || {
            json!({
                "session": manifest.session,
                "label": manifest.label,
                "head": manifest.head,
                "turn_count": manifest.turn_count,
                "tasks": manifest.tasks.len(),
                "bytes": bytes.len(),
                "file": file,
            })
        },
        || {
            format!(
                "Wrote {} ({} bytes, {} turns, {} tasks). Take it in elsewhere with `ctx import {}`.",
                file.display(),
                bytes.len(),
                manifest.turn_count,
                manifest.tasks.len(),
                file.display()
            )
        },
    )
}
