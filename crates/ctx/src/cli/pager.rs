//! The pager: `$PAGER`, else `less` if it is installed.

use std::io::{IsTerminal, Write};
use std::process::{Child, Command, Stdio};

use anstream::adapter::strip_str;
use anstream::{AutoStream, ColorChoice};

use crate::problem::Problem;

use super::output::check_written;

/// The pager without `$PAGER`.
const DEFAULT: &str = "less";

/// Output that goes through the pager on a terminal, else to standard output. The pager is ended
/// by the user; dropping the pages waits for that.
pub(super) struct Pages {
    pager: Option<Child>,
    /// Whether the text is written unchanged, as a part of a JSON document.
    is_raw: bool,
    is_closed: bool,
}

impl Pages {
    /// Starts the pager, if there is one and the output is a terminal.
    pub(super) fn open(is_json: bool, wants_pager: bool) -> Self {
        let pager = if is_json || !wants_pager { None } else { start() };
        Self { pager, is_raw: is_json, is_closed: false }
    }

    /// Whether the reader has closed the output.
    pub(super) const fn is_closed(&self) -> bool {
        self.is_closed
    }

    pub(super) fn print(&mut self, text: &str) -> Result<(), Problem> {
        if let Some(stdin) = self.pager.as_mut().and_then(|child| child.stdin.as_mut()) {
            let written = match AutoStream::choice(&std::io::stdout()) {
                ColorChoice::Never => stdin.write_all(strip_str(text).to_string().as_bytes()),
                _ => stdin.write_all(text.as_bytes()),
            };
            // The user may quit before the end.
            self.is_closed |= written.is_err();
            return Ok(());
        }
        let written = if self.is_raw {
            let mut stdout = std::io::stdout().lock();
            stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())
        } else {
            let mut stdout = anstream::stdout().lock();
            stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())
        };
        self.is_closed |= written.is_err();
        check_written(written)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if let Some(mut child) = self.pager.take() {
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}

fn start() -> Option<Child> {
    let is_dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
    if is_dumb || !std::io::stdout().is_terminal() {
        return None;
    }
    let pager = std::env::var("PAGER").unwrap_or_else(|_| DEFAULT.to_owned());
    let program = pager.split_whitespace().next()?;
    if program == "cat" || !is_installed(program) {
        return None;
    }
    // The shell splits the options of `$PAGER`.
    let mut command = Command::new("sh");
    command.arg("-c").arg(&pager).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        // Quit if the text fits one screen, show colours, leave the text on the screen.
        command.env("LESS", "FRX");
    }
    command.spawn().ok()
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    program.contains('/') || std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}
