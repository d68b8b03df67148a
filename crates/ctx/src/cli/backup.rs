//! `ctx backup FILE`: a consistent copy while the store is in use.

use std::path::PathBuf;

use serde_json::json;

use crate::problem::Problem;

use super::Context;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Where to; it must not exist. Put back as ctx.db into an empty directory, it is a store.
    file: PathBuf,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    if args.file.exists() {
        return Err(Problem::failed(
            "file_exists",
            format!("{} exists already", args.file.display()),
        )
        .hint("choose another name; nothing is overwritten"));
    }
    let engine = context.engine()?;
    engine.maintenance().backup(&args.file).await?;
    let bytes = std::fs::metadata(&args.file).map_or(0, |meta| meta.len());
    context.out.say(
        || json!({"file": args.file, "bytes": bytes}),
        || format!("Wrote {} ({bytes} bytes).", args.file.display()),
    )
}
