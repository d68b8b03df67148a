//! `ctx stage observe …`: what the agent did, with the contents as they are now.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use ctx_engine::core::Refusal;

use crate::location;
use crate::problem::Problem;

use super::super::Context;
use super::super::output::text;
use super::say_task;

/// Larger files are refused: reading one would stall the agent.
const FILE_MAX_BYTES: u64 = 1 << 30;

#[derive(Subcommand)]
pub(in super::super) enum Verb {
    /// A file was read; its content now is recorded
    FileRead {
        /// Which
        path: PathBuf,
    },
    /// A file was written; its content now is recorded
    FileWrite {
        /// Which
        path: PathBuf,
        /// It was removed
        #[arg(long)]
        deleted: bool,
    },
    /// A command ran; it is recorded, not run
    Command {
        /// How it exited
        #[arg(long, value_name = "N", allow_negative_numbers = true)]
        exit: Option<i32>,
        /// A file with what it printed; `-` reads standard input
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// The command, after `--`
        #[arg(last = true, required = true, value_name = "CMD")]
        command: Vec<String>,
    },
    /// What the agent means to do
    Plan {
        /// The plan; `-` reads it from standard input
        text: String,
    },
}

pub(super) async fn run(context: &Context, verb: Verb) -> Result<(), Problem> {
    let root = location::root(&context.data);
    let mut recorder = context.recorder().await?;
    match verb {
        Verb::FileRead { path } => {
            recorder.observe_file_read(location::recorded(&root, &path), read(&path)?)
        }
        Verb::FileWrite { path, deleted: true } => {
            recorder.observe_file_removed(location::recorded(&root, &path))
        }
        Verb::FileWrite { path, deleted: false } => {
            let bytes = read(&path)
                .map_err(|problem| problem.hint("to record that it was removed, add --deleted"))?;
            recorder.observe_file_write(location::recorded(&root, &path), bytes);
        }
        Verb::Command { exit, output, command } => {
            let output = output.map(|path| read(&path)).transpose()?;
            recorder.observe_command(command, exit, output);
        }
        Verb::Plan { text: plan } => recorder.observe_plan(text(&plan)?),
    }
    say_task(context, &recorder.flush().await?.ok_or(Refusal::NoTask)?)
}

fn read(path: &Path) -> Result<Vec<u8>, Problem> {
    let failed = |e: std::io::Error| {
        let code =
            if e.kind() == std::io::ErrorKind::NotFound { "not_found" } else { "unreadable" };
        Problem::failed(code, format!("{} cannot be read: {e}", path.display()))
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
            format!("{} is larger than {FILE_MAX_BYTES} bytes", path.display()),
        ));
    }
    Ok(bytes)
}
