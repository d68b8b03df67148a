//! The pager: `$PAGER`, else `less` if it is installed. Without a pager that can be run, the text
//! is printed.

use std::io::{IsTerminal, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use anstream::adapter::strip_str;
use anstream::{AutoStream, ColorChoice};

use crate::problem::Problem;

use super::output::check_written;

/// The pager without `$PAGER`.
const DEFAULT: &str = "less";
/// Characters with a meaning for the shell: only it knows which program they name.
const SHELL_CHARS: [char; 7] = ['~', '$', '\'', '"', '\\', '`', '='];
/// Exit codes of a shell that could not run a command.
const NOT_RUN: [i32; 2] = [126, 127];
/// Bytes after which the pager has read some: by default no pipe holds more.
const PIPE_MAX_BYTES: usize = 1 << 20;

/// Output that goes through the pager on a terminal, else to standard output. The pager is ended
/// by the user; dropping the pages waits for that.
pub(super) struct Pages {
    pager: Option<Child>,
    /// What was written to the pager, as long as it may have read nothing.
    unread: Option<String>,
    /// Whether the text is written unchanged, as a part of a JSON document.
    is_raw: bool,
    is_closed: bool,
}

impl Pages {
    /// Starts the pager, if there is one and the output is a terminal.
    pub(super) fn open(is_json: bool, wants_pager: bool) -> Self {
        let pager = if is_json || !wants_pager { None } else { start() };
        Self { pager, unread: Some(String::new()), is_raw: is_json, is_closed: false }
    }

    /// Whether the reader has closed the output.
    pub(super) const fn is_closed(&self) -> bool {
        self.is_closed
    }

    pub(super) fn print(&mut self, text: &str) -> Result<(), Problem> {
        if self.is_closed {
            return Ok(());
        }
        if let Some(unread) = self.unread.as_mut().filter(|_| self.pager.is_some()) {
            unread.push_str(text);
        }
        match self.pager.as_mut().and_then(|child| child.stdin.as_mut()) {
            Some(stdin) => {
                let written = write_page(stdin, text);
                self.after_page(written)
            }
            None => self.print_to_stdout(text),
        }
    }

    fn after_page(&mut self, written: std::io::Result<()>) -> Result<(), Problem> {
        if written.is_err() {
            // The user may quit before the end.
            self.is_closed = true;
            return self.close_pager();
        }
        self.unread.take_if(|unread| unread.len() > PIPE_MAX_BYTES);
        Ok(())
    }

    /// Waits for the end of the pager. If the shell could not run it, its text is printed.
    fn close_pager(&mut self) -> Result<(), Problem> {
        let Some(mut child) = self.pager.take() else { return Ok(()) };
        drop(child.stdin.take());
        let exit = child.wait().ok().and_then(|status| status.code());
        match self.unread.take() {
            Some(unread) if exit.is_some_and(|code| NOT_RUN.contains(&code)) => {
                self.is_closed = false;
                self.print_to_stdout(&unread)
            }
            _ => Ok(()),
        }
    }

    fn print_to_stdout(&mut self, text: &str) -> Result<(), Problem> {
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
        let _ = self.close_pager();
    }
}

fn write_page(stdin: &mut ChildStdin, text: &str) -> std::io::Result<()> {
    match AutoStream::choice(&std::io::stdout()) {
        ColorChoice::Never => stdin.write_all(strip_str(text).to_string().as_bytes()),
        _ => stdin.write_all(text.as_bytes()),
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

/// Whether the program of `$PAGER` can be run, as far as that is known without the shell.
fn is_installed(program: &str) -> bool {
    if program.contains(SHELL_CHARS) {
        return true;
    }
    if program.contains('/') {
        return is_executable(Path::new(program));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| is_executable(&dir.join(program)))
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_pager_only_if_it_is_an_executable_file() {
        for (program, expected) in [
            ("/bin/sh", true),
            ("sh", true),
            ("/nonexistent", false),
            ("/etc/passwd", false),
            ("/bin", false),
            ("no-such-program-of-ctx", false),
            ("$MY_PAGER", true),
            ("~/bin/pager", true),
        ] {
            assert_eq!(is_installed(program), expected, "{program}");
        }
    }
}
