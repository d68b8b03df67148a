//! `ctx stage export`: write the open task to a bundle.

use std::path::Path;

use serde_json::json;

use crate::json::task_json;
use crate::problem::Problem;

use super::super::Context;
use super::super::bundle_file::BundleFile;
use super::super::output::plural;

pub(super) async fn run(context: &Context, output: Option<&Path>) -> Result<(), Problem> {
    let engine = context.engine()?;
    let mut recorder = engine.tasks().find_recorder(&context.session_in(&engine)).await?;
    let (manifest, bytes) = recorder.export().await?;
    let name = format!("task-{}.ctx-bundle", manifest.task);
    let mut file = BundleFile::create(context, output, &name)?;
    file.write(&bytes)?;
    let Some(file) = file.finish()? else { return Ok(()) };
    context.out.print(
        || {
            let mut document = task_json::task_bundle(&manifest);
            document["file"] = json!(file);
            document
        },
        || {
            format!(
                "Wrote {} ({} bytes, {}). Import it with `ctx stage import {}`.",
                file.display(),
                bytes.len(),
                plural(manifest.steps, "step"),
                file.display()
            )
        },
    )
}
