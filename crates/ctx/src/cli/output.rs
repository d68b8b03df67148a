//! What a verb prints: lines for a person, or one JSON document. Colours only on a terminal.

use std::io::{IsTerminal, Read, Write};

use anstyle::{AnsiColor, Style};
use ctx_engine::core::commit::Commit;
use ctx_engine::core::id::CommitId;
use ctx_engine::core::task::{State, Task};
use ctx_engine::core::text::{TEXT_MAX_BYTES, one_line};
use serde_json::Value;

use crate::problem::Problem;

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const GREEN: Style = AnsiColor::Green.on_default();
pub(crate) const YELLOW: Style = AnsiColor::Yellow.on_default();
pub(crate) const RED: Style = AnsiColor::Red.on_default().bold();

/// More is not read from standard input, whatever it is for.
const INPUT_MAX_BYTES: u64 = 16 << 20;

/// Where a verb's words go.
pub(crate) struct Output {
    json: bool,
}

impl Output {
    pub(crate) const fn new(json: bool) -> Self {
        Self { json }
    }

    pub(crate) const fn is_json(&self) -> bool {
        self.json
    }

    /// The document for a program, or the lines for a person.
    pub(crate) fn say(
        &self,
        document: impl FnOnce() -> Value,
        lines: impl FnOnce() -> String,
    ) -> Result<(), Problem> {
        if self.json {
            return self.raw(format!("{}\n", document()).as_bytes());
        }
        let text = lines();
        if text.is_empty() {
            return Ok(());
        }
        let mut stdout = anstream::stdout().lock();
        printed(writeln!(stdout, "{text}").and_then(|()| stdout.flush()))
    }

    /// Bytes as they are: nothing is taken out for a terminal's sake.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Result<(), Problem> {
        let mut stdout = std::io::stdout().lock();
        printed(stdout.write_all(bytes).and_then(|()| stdout.flush()))
    }

    pub(crate) fn problem(&self, problem: &Problem) {
        if self.json {
            let _ = writeln!(std::io::stderr(), "{}", problem.json());
            return;
        }
        let mut stderr = anstream::stderr().lock();
        let _ = writeln!(
            stderr,
            "{RED}error{RED:#}: {} {DIM}[{}]{DIM:#}",
            problem.message, problem.code
        );
        if let Some(hint) = &problem.hint {
            let _ = writeln!(stderr, "{YELLOW}hint{YELLOW:#}: {hint}");
        }
    }

    /// Tells a person at a terminal how far long work has come; silent in a pipe.
    pub(crate) fn progress(&self, what: &str, done: u64, total: u64) {
        if self.json || !std::io::stderr().is_terminal() {
            return;
        }
        let percent = (done * 100).checked_div(total).unwrap_or(100);
        let end = if done >= total { "\r\x1b[K" } else { "" };
        let _ = write!(std::io::stderr(), "\r{what} {percent} %{end}");
    }
}

/// A reader that went away (`| head`) has all it wanted.
pub(crate) fn printed(written: std::io::Result<()>) -> Result<(), Problem> {
    match written {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Problem::failed("output", format!("the answer could not be printed: {e}")))
        }
        _ => Ok(()),
    }
}

/// A text from the command line; `-` reads standard input.
pub(crate) fn text(given: &str) -> Result<String, Problem> {
    if given != "-" {
        return Ok(given.to_owned());
    }
    let mut bytes = Vec::new();
    let limit = INPUT_MAX_BYTES + 1;
    std::io::stdin()
        .take(limit)
        .read_to_end(&mut bytes)
        .map_err(|e| Problem::failed("input", format!("standard input: {e}")))?;
    if bytes.len() as u64 > INPUT_MAX_BYTES {
        return Err(Problem::wrong_use(
            "bad_text",
            format!(
                "standard input has more than {INPUT_MAX_BYTES} bytes, and a text has at most {TEXT_MAX_BYTES}"
            ),
        ));
    }
    let text = String::from_utf8(bytes).map_err(|_| {
        Problem::wrong_use("bad_text", "standard input is not valid UTF-8")
            .hint("convert it first, for example with iconv")
    })?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}

/// A task in a line or three.
pub(crate) fn task_lines(task: &Task) -> String {
    let mut lines =
        format!("{BOLD}{}{BOLD:#}\n{}", one_line(&task.description, 100), state_line(&task.state));
    lines.push_str(&format!(
        "\n{DIM}task {} · {} step{} · since {}{DIM:#}",
        task.id,
        task.steps,
        if task.steps == 1 { "" } else { "s" },
        task.started_at
    ));
    lines
}

/// A state in words.
pub(crate) fn state_line(state: &State) -> String {
    match state {
        State::Running => format!("{GREEN}running{GREEN:#}"),
        State::AwaitingUser { question, .. } => {
            format!("{YELLOW}awaiting_user{YELLOW:#}: {question}")
        }
        State::Interrupted { user_message } => {
            format!("{YELLOW}interrupted{YELLOW:#}: {user_message}")
        }
        State::PendingComplete { summary } => {
            format!("{YELLOW}pending_complete{YELLOW:#}: {summary}")
        }
        State::Complete => format!("{GREEN}complete{GREEN:#}"),
        State::Aborted { reason } => format!("{RED}aborted{RED:#}: {reason}"),
    }
}

/// A commit in a line.
pub(crate) fn commit_line(id: CommitId, commit: &Commit) -> String {
    let when = commit.created_at.to_string();
    let kind = commit.commit_type.name();
    let colour = if kind == "normal" { GREEN } else { YELLOW };
    format!(
        "{YELLOW}{}{YELLOW:#} {DIM}{}{DIM:#} {colour}{kind}{colour:#} {}",
        id.0.short(),
        &when[..16.min(when.len())],
        one_line(&commit.message, 100)
    )
}
