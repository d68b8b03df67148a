//! `ctx backup FILE`: write a consistent copy of the store while it is in use.

use std::path::PathBuf;

use serde_json::json;

use crate::problem::Problem;

use super::Context;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Write the copy to this new file; to restore it, copy it as ctx.db into an empty directory
    file: PathBuf,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    if args.file.exists() {
        return Err(Problem::failed(
            "file_exists",
            format!("failed to write {}: the file already exists", args.file.display()),
        )
        .hint("choose another file name"));
    }
    let engine = context.engine()?;
    engine.maintenance().backup(&args.file).await?;
    let bytes = std::fs::metadata(&args.file).map_or(0, |meta| meta.len());
    context.out.print(
        || json!({"file": args.file, "bytes": bytes}),
        || format!("Wrote {} ({bytes} bytes).", args.file.display()),
    )
}
