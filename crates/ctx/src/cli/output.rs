//! Input and output of the verbs: text for a person, or one JSON document with `--json`. Colours
//! and the pager are used only on a terminal.

use std::fmt::Display;
use std::io::{IsTerminal, Read, Write};

use anstyle::{AnsiColor, Style};
use ctx_engine::core::commit::Commit;
use ctx_engine::core::id::CommitId;
use ctx_engine::core::task::{State, Task};
use ctx_engine::core::text_limits::TEXT_MAX_BYTES;
use serde_json::Value;

use crate::problem::{Exit, Problem};

use super::pager::Pages;
use super::times::Times;

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const GREEN: Style = AnsiColor::Green.on_default();
pub(crate) const YELLOW: Style = AnsiColor::Yellow.on_default();
pub(crate) const CYAN: Style = AnsiColor::Cyan.on_default();
pub(crate) const RED: Style = AnsiColor::Red.on_default().bold();
/// A short id.
pub(crate) const ID: Style = AnsiColor::Magenta.on_default().bold();

/// Limit of what a verb reads from standard input.
const INPUT_MAX_BYTES: u64 = 16 << 20;

#[derive(Clone)]
pub(crate) struct Output {
    pub(crate) json: bool,
    /// Whether long output goes through a pager on a terminal.
    pub(crate) pager: bool,
    /// Whether times are printed as RFC 3339 in UTC.
    pub(crate) utc: bool,
}

impl Output {
    pub(crate) const fn is_json(&self) -> bool {
        self.json
    }

    /// Columns of the output: those of `COLUMNS` or of the terminal. `None` in a pipe: nothing is
    /// cut there.
    pub(crate) fn width(&self) -> Option<usize> {
        let columns = std::env::var("COLUMNS").ok().and_then(|text| text.parse::<usize>().ok());
        let terminal = || {
            let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
            Some(usize::from(size.ws_col)).filter(|_| std::io::stdout().is_terminal())
        };
        columns.or_else(terminal).filter(|width| *width > 0).map(|width| width.max(20))
    }

    /// Times as the options ask for them.
    pub(crate) fn times(&self, now: ctx_engine::core::time::Timestamp) -> Times {
        Times::new(now, self.utc)
    }

    /// Prints `document` with `--json`, else `lines`.
    pub(crate) fn print(
        &self,
        document: impl FnOnce() -> Value,
        lines: impl FnOnce() -> String,
    ) -> Result<(), Problem> {
        if self.json {
            return self.print_raw(format!("{}\n", document()).as_bytes());
        }
        let text = lines();
        if text.is_empty() {
            return Ok(());
        }
        self.print_text(&format!("{text}\n"))
    }

    /// As [`Output::print`]; on a terminal the lines go through the pager.
    pub(crate) fn print_paged(
        &self,
        document: impl FnOnce() -> Value,
        lines: impl FnOnce() -> Vec<String>,
    ) -> Result<(), Problem> {
        if self.json {
            return self.print(document, String::new);
        }
        let lines = lines();
        if lines.is_empty() {
            return Ok(());
        }
        self.open_pages().print(&format!("{}\n", lines.join("\n")))
    }

    /// Output in parts, through the pager on a terminal.
    pub(crate) fn open_pages(&self) -> Pages {
        Pages::open(self.json, self.pager)
    }

    /// Prints a part of the output: of the document with `--json`, else of the text.
    pub(crate) fn print_text(&self, text: &str) -> Result<(), Problem> {
        if self.json {
            return self.print_raw(text.as_bytes());
        }
        let mut stdout = anstream::stdout().lock();
        check_written(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
    }

    /// Writes the bytes unchanged, including terminal escape sequences.
    pub(crate) fn print_raw(&self, bytes: &[u8]) -> Result<(), Problem> {
        let mut stdout = std::io::stdout().lock();
        check_written(stdout.write_all(bytes).and_then(|()| stdout.flush()))
    }

    pub(crate) fn print_problem(&self, problem: &Problem) {
        if self.json {
            let _ = writeln!(std::io::stderr(), "{}", problem.json());
            return;
        }
        let mut stderr = anstream::stderr().lock();
        if problem.exit == Exit::Interrupted {
            let _ = writeln!(stderr, "{DIM}{}{DIM:#}", visible_text(&problem.message));
            return;
        }
        let _ = writeln!(
            stderr,
            "{RED}error{RED:#}: {} {DIM}[{}]{DIM:#}",
            visible_text(&problem.message),
            visible_text(&problem.code)
        );
        if let Some(hint) = &problem.hint {
            let _ = writeln!(stderr, "{YELLOW}hint{YELLOW:#}: {}", visible_text(hint));
        }
    }

    /// Shows the progress of long work, only on a terminal.
    pub(crate) fn progress(&self, what: &str, done: u64, total: u64) {
        if self.json || !std::io::stderr().is_terminal() {
            return;
        }
        let percent = (done * 100).checked_div(total).unwrap_or(100);
        let end = if done >= total { "\r\x1b[K" } else { "" };
        let _ = write!(std::io::stderr(), "\r{what} {percent} %{end}");
    }
}

/// A closed pipe (`| head`) is not an error.
pub(crate) fn check_written(written: std::io::Result<()>) -> Result<(), Problem> {
    match written {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Problem::failed("output", format!("failed to write the output: {e}")))
        }
        _ => Ok(()),
    }
}

/// A text of others with its control characters made visible. Line breaks and tabs stay.
pub(crate) fn visible_text(text: &str) -> String {
    text.split('\t').map(crate::markdown::visible).collect::<Vec<_>>().join("\t")
}

/// The first line of a text of others, cut after `max_chars` characters.
pub(crate) fn visible_line(text: &str, max_chars: usize) -> String {
    visible_text(&ctx_engine::core::text_limits::one_line(text, max_chars)).replace('\t', " ")
}

/// `1 session`, `2 sessions`.
pub(crate) fn plural<N: Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    format!("{count} {noun}{}", if count == N::from(1) { "" } else { "s" })
}

/// The last line of a list that is not complete.
pub(crate) fn more_line(more: u64, noun: &str, how: &str) -> String {
    format!("{DIM}{more} more {noun}{}; {how}{DIM:#}", if more == 1 { "" } else { "s" })
}

/// Returns a text argument; for `-`, the text from standard input.
pub(crate) fn read_text(given: &str) -> Result<String, Problem> {
    if given != "-" {
        return Ok(given.to_owned());
    }
    let mut bytes = Vec::new();
    let limit = INPUT_MAX_BYTES + 1;
    std::io::stdin()
        .take(limit)
        .read_to_end(&mut bytes)
        .map_err(|e| Problem::failed("input", format!("failed to read standard input: {e}")))?;
    if bytes.len() as u64 > INPUT_MAX_BYTES {
        return Err(Problem::wrong_use(
            "bad_text",
            format!(
                "standard input is too large: it has more than {INPUT_MAX_BYTES} bytes, \
                 a text at most {TEXT_MAX_BYTES}"
            ),
        ));
    }
    let text = String::from_utf8(bytes).map_err(|_| {
        Problem::wrong_use("bad_text", "failed to read standard input: it is not valid UTF-8")
            .hint("convert it, for example with `iconv -t utf-8`")
    })?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}

pub(crate) fn task_lines(task: &Task) -> String {
    let mut lines = format!(
        "{BOLD}{}{BOLD:#}\n{}",
        visible_line(&task.description, 100),
        state_line(&task.state)
    );
    let steps = plural(task.steps, "step");
    lines
        .push_str(&format!("\n{DIM}task {} · {steps} · since {}{DIM:#}", task.id, task.started_at));
    lines
}

pub(crate) fn state_line(state: &State) -> String {
    match state {
        State::Running => format!("{GREEN}running{GREEN:#}"),
        State::AwaitingUser { question, .. } => {
            format!("{YELLOW}awaiting_user{YELLOW:#}: {}", visible_text(question))
        }
        State::Interrupted { user_message } => {
            format!("{YELLOW}interrupted{YELLOW:#}: {}", visible_text(user_message))
        }
        State::PendingComplete { summary } => {
            format!("{YELLOW}pending_complete{YELLOW:#}: {}", visible_text(summary))
        }
        State::Complete => format!("{GREEN}complete{GREEN:#}"),
        State::Aborted { reason } => format!("{RED}aborted{RED:#}: {}", visible_text(reason)),
    }
}

pub(crate) fn commit_line(id: CommitId, commit: &Commit) -> String {
    let when = commit.created_at.to_string();
    let kind = commit.commit_type.name();
    let colour = if kind == "normal" { GREEN } else { YELLOW };
    format!(
        "{YELLOW}{}{YELLOW:#} {DIM}{}{DIM:#} {colour}{kind}{colour:#} {}",
        id.0.short(),
        &when[..16.min(when.len())],
        visible_line(&commit.message, 100)
    )
}
