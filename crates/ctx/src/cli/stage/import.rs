//! `ctx stage import`: go on with a task that was handed over.

use std::io::Read;
use std::path::Path;

use crate::problem::Problem;

use super::super::Context;
use super::say_task;

pub(super) async fn run(context: &Context, file: &Path) -> Result<(), Problem> {
    let mut bytes = Vec::new();
    let read = if file == Path::new("-") {
        std::io::stdin().read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file).and_then(|mut opened| opened.read_to_end(&mut bytes))
    };
    read.map_err(|e| Problem::failed("not_found", format!("{} cannot be read: {e}", file.display())))?;
    say_task(context, &context.recorder().await?.import(&bytes).await?)
}
