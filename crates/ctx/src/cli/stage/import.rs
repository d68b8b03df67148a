//! `ctx stage import`: import a task from a bundle.

use std::path::Path;

use ctx_engine::core::bundle::BUNDLE_MAX_BYTES;

use crate::problem::Problem;

use super::super::{Context, bundle_file};
use super::print_task;

pub(super) async fn run(context: &Context, file: &Path) -> Result<(), Problem> {
    let bytes = bundle_file::read(file, BUNDLE_MAX_BYTES)?;
    print_task(context, &context.recorder_or_create().await?.import(&bytes).await?)
}
