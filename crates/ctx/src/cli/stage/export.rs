//! `ctx stage export`: hand the open task over as one file.

use std::path::Path;

use serde_json::json;

use crate::problem::Problem;
use crate::shape;

use super::super::{Context, bundle};

pub(super) async fn run(context: &Context, output: Option<&Path>) -> Result<(), Problem> {
    let mut recorder = context.engine()?.tasks().existing_recorder(&context.session);
    let (manifest, bytes) = recorder.export().await?;
    let Some(file) =
        bundle::write(context, output, &format!("task-{}.ctx-bundle", manifest.task), &bytes)?
    else {
        return Ok(());
    };
    context.out.say(
        || {
            let mut document = shape::bundle(&manifest);
            document["file"] = json!(file);
            document
        },
        || {
            format!(
                "Wrote {} ({} bytes, {} steps). Go on elsewhere with `ctx stage import {}`.",
                file.display(),
                bytes.len(),
                manifest.steps,
                file.display()
            )
        },
    )
}
