//! `ctx stage observe …`: record what the agent did, with the current file contents.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use ctx_engine::core::Refusal;

use crate::data_dir;
use crate::problem::Problem;

use super::super::Context;
use super::super::output::read_text;
use super::print_task;

/// Larger files are refused, because reading one would block the agent too long.
const FILE_MAX_BYTES: u64 = 1 << 30;

#[derive(Subcommand)]
pub(in super::super) enum Verb {
    /// Record that a file was read, with its current content
    FileRead {
        /// Record this file
        path: PathBuf,
    },
    /// Record that a file was written, with its current content
    FileWrite {
        /// Record this file
        path: PathBuf,
        /// Record that the file was deleted
        #[arg(long)]
        deleted: bool,
    },
    /// Record a command that ran, without running it
    Command {
        /// Record this exit code
        #[arg(long, value_name = "N", allow_negative_numbers = true)]
        exit: Option<i32>,
        /// Record the output from this file; `-` reads standard input
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Record this command line, given after `--`
        #[arg(last = true, required = true, value_name = "CMD")]
        command: Vec<String>,
    },
    /// Record the agent's plan
    Plan {
        /// Record this plan; `-` reads standard input
        text: String,
    },
}

pub(super) async fn run(context: &Context, verb: Verb) -> Result<(), Problem> {
    let root = data_dir::project_root(&context.data);
    let mut recorder = context.recorder().await?;
    match verb {
        Verb::FileRead { path } => {
            recorder.observe_file_read(data_dir::recorded_path(&root, &path), read(&path)?);
        }
        Verb::FileWrite { path, deleted: true } => {
            recorder.observe_file_removed(data_dir::recorded_path(&root, &path));
        }
        Verb::FileWrite { path, deleted: false } => {
            let bytes = read(&path).map_err(|problem| {
                problem.hint("use `--deleted` to record that the file was deleted")
            })?;
            recorder.observe_file_write(data_dir::recorded_path(&root, &path), bytes);
        }
        Verb::Command { exit, output, command } => {
            let output = output.map(|path| read(&path)).transpose()?;
            recorder.observe_command(command, exit, output);
        }
        Verb::Plan { text: plan } => recorder.observe_plan(read_text(&plan)?),
    }
    print_task(context, &recorder.flush().await?.ok_or(Refusal::NoTask)?)
}

fn read(path: &Path) -> Result<Vec<u8>, Problem> {
    let failed = |e: std::io::Error| {
        let code =
            if e.kind() == std::io::ErrorKind::NotFound { "not_found" } else { "unreadable" };
        Problem::failed(code, format!("failed to read {}: {e}", path.display()))
    };
    let mut bytes = Vec::new();
    let limit = FILE_MAX_BYTES + 1;
    if path == Path::new("-") {
        std::io::stdin().take(limit).read_to_end(&mut bytes).map_err(failed)?;
    } else {
        std::fs::File::open(path)
            .map_err(failed)?
            .take(limit)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
    }
    if bytes.len() as u64 > FILE_MAX_BYTES {
        return Err(Problem::failed(
            "too_large",
            format!("{} is too large: the limit is {FILE_MAX_BYTES} bytes", path.display()),
        ));
    }
    Ok(bytes)
}
