//! `ctx stage export`: hand the open task over as one file.

use std::io::{IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::problem::Problem;
use crate::shape;

use super::super::Context;

pub(super) async fn run(context: &Context, output: Option<&Path>) -> Result<(), Problem> {
    let mut recorder = context.engine()?.existing(&context.session);
    let (manifest, bytes) = recorder.export().await?;
    let piped = !context.out.is_json() && !std::io::stdout().is_terminal();
    let file = match output {
        None if piped => {
            return context.out.raw(&bytes);
        }
        Some(path) => path.to_owned(),
        None => PathBuf::from(format!("task-{}.ctx-bundle", manifest.task)),
    };
    write_whole(&file, &bytes).map_err(|e| {
        let code = if e.kind() == std::io::ErrorKind::StorageFull { "disk_full" } else { "output" };
        Problem::failed(code, format!("{} cannot be written: {e}", file.display()))
    })?;
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

/// All of it under that name, on disk, or nothing.
fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = Path::new(&name);
    // It holds the contents of files: nobody else's business.
    let made = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(part);
    let written = made.and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()));
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let placed = written.and_then(|()| std::fs::rename(part, path)).and_then(|()| std::fs::File::open(dir)?.sync_all());
    if placed.is_err() {
        let _ = std::fs::remove_file(part);
    }
    placed
}
