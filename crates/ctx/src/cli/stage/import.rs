//! `ctx stage import`: go on with a task that was handed over.

use std::io::Read;
use std::path::Path;

use ctx_engine::core::bundle::BUNDLE_MAX_BYTES;

use crate::problem::Problem;

use super::super::Context;
use super::say_task;

pub(super) async fn run(context: &Context, file: &Path) -> Result<(), Problem> {
    let mut bytes = Vec::new();
    let limit = BUNDLE_MAX_BYTES as u64 + 1;
    let read = if file == Path::new("-") {
        std::io::stdin().take(limit).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file).and_then(|opened| opened.take(limit).read_to_end(&mut bytes))
    };
    read.map_err(|e| {
        let code = if e.kind() == std::io::ErrorKind::NotFound { "not_found" } else { "unreadable" };
        Problem::failed(code, format!("{} cannot be read: {e}", file.display()))
    })?;
    say_task(context, &context.new_recorder().await?.import(&bytes).await?)
}
