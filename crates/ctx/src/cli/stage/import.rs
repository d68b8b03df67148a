//! `ctx stage import`: go on with a task that was handed over.

use std::path::Path;

use ctx_engine::core::bundle::BUNDLE_MAX_BYTES;

use crate::problem::Problem;

use super::super::{Context, bundle};
use super::say_task;

pub(super) async fn run(context: &Context, file: &Path) -> Result<(), Problem> {
    let bytes = bundle::read(file, BUNDLE_MAX_BYTES)?;
    say_task(context, &context.new_recorder().await?.import(&bytes).await?)
}
