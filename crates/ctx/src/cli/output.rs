//! Input and output of the verbs: text for a person, or one JSON document with `--json`. Colours
//! and the pager are used only on a terminal.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{IsTerminal, Read, Write};

use anstyle::{AnsiColor, Style};
use ctx_engine::core::commit::Commit;
use ctx_engine::core::id::CommitId;
use ctx_engine::core::short_id::ULID_TIME_CHARS;
use ctx_engine::core::task::{State, Task};
use ctx_engine::core::text_limits::TEXT_MAX_BYTES;
use ctx_engine::core::time::Timestamp;
use serde_json::Value;

use crate::markdown::{Span, cut, plain_line, text_width, wrap_words};
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
    pub(crate) fn times(&self, now: Timestamp) -> Times {
        Times::new(now, self.utc)
    }

    /// Date and time to the minute.
    pub(crate) fn minute(&self, at: Timestamp) -> String {
        self.times(at).minute(at)
    }

    /// A line with styles, cut at the width of the output.
    pub(crate) fn fit(&self, line: &str) -> String {
        match self.width() {
            Some(width) => fitted(line, width),
            None => line.to_owned(),
        }
    }

    /// Prints `document` with `--json`, else `lines`.
    pub(crate) fn print(
        &self,
        document: impl FnOnce() -> Value,
        lines: impl FnOnce() -> String,
    ) -> Result<(), Problem> {
        if self.json {
            return self.print_text(&format!("{}\n", document()));
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
            return self.print_raw(escaped(text).as_bytes());
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
            let _ = writeln!(std::io::stderr(), "{}", escaped(&problem.json().to_string()));
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

/// A JSON document whose control characters are all escaped: JSON itself demands it only of those
/// below a space. Others control a terminal (DEL, C1) or the direction of text.
pub(crate) fn escaped(document: &str) -> Cow<'_, str> {
    let is_control = |c: char| {
        matches!(c, '\u{7f}'..='\u{9f}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(c, '\u{2066}'..='\u{2069}')
    };
    if !document.contains(is_control) {
        return Cow::Borrowed(document);
    }
    let escape = |c: char| match is_control(c) {
        true => format!("\\u{:04x}", u32::from(c)),
        false => c.to_string(),
    };
    Cow::Owned(document.chars().map(escape).collect())
}

/// The lines of a text, broken at words to fit a width.
pub(crate) fn wrapped_lines(text: &str, width: Option<usize>) -> Vec<String> {
    let Some(width) = width else { return text.split('\n').map(str::to_owned).collect() };
    let lines = wrap_words(&[Span::plain(text)], width);
    match lines.is_empty() {
        true => vec![String::new()],
        false => lines.iter().map(|line| plain_line(line)).collect(),
    }
}

/// A line with styles, cut at a width. Styles take no columns.
fn fitted(line: &str, width: usize) -> String {
    let plain = anstream::adapter::strip_str(line).to_string();
    if text_width(&plain) <= width {
        return line.to_owned();
    }
    let kept = cut(&plain, width);
    let mut left = kept.trim_end_matches('…');
    let mut fitted = if left.is_empty() { kept.clone() } else { String::new() };
    for part in line.split_inclusive('m') {
        // Either a text, or a text and the style after it.
        let (text, style) = match part.rfind("\u{1b}[").filter(|_| part.ends_with('m')) {
            Some(at) => part.split_at(at),
            None => (part, ""),
        };
        let text: String = text.chars().zip(left.chars()).map_while(same).collect();
        let is_end = !left.is_empty() && text.len() == left.len();
        left = &left[text.len()..];
        fitted.push_str(&text);
        fitted.push_str(if is_end { "…" } else { "" });
        fitted.push_str(style);
    }
    fitted
}

fn same((one, other): (char, char)) -> Option<char> {
    (one == other).then_some(one)
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

pub(crate) fn task_lines(task: &Task, out: &Output) -> String {
    let steps = plural(task.steps, "step");
    let since = out.minute(task.started_at);
    let id: String = task.id.to_string().chars().skip(ULID_TIME_CHARS).take(8).collect();
    format!(
        "{}\n{}\n{DIM}task {id} · {steps} · since {since}{DIM:#}",
        out.fit(&format!("{BOLD}{}{BOLD:#}", visible_line(&task.description, 100))),
        state_line(&task.state)
    )
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

pub(crate) fn commit_line(id: CommitId, commit: &Commit, out: &Output) -> String {
    let kind = commit.commit_type.name();
    let colour = if kind == "normal" { GREEN } else { YELLOW };
    format!(
        "{YELLOW}{}{YELLOW:#} {DIM}{}{DIM:#} {colour}{kind}{colour:#} {}",
        id.0.short(),
        out.minute(commit.created_at),
        visible_line(&commit.message, 100)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_without_its_styles() {
        let line = format!("{BOLD}a long title{BOLD:#} {DIM}in a session{DIM:#}");
        assert_eq!(fitted(&line, 80), line);
        for width in [1, 5, 12, 13, 14, 20] {
            let text = anstream::adapter::strip_str(&fitted(&line, width)).to_string();
            assert!(text_width(&text) <= width && text.ends_with('…'), "{width}: {text}");
        }
        let cut = fitted(&line, 8);
        assert_eq!(cut, format!("{BOLD}a long …{BOLD:#}{DIM}{DIM:#}"));
        let wide = format!("{BOLD}日本語 mmm{BOLD:#} m");
        assert_eq!(anstream::adapter::strip_str(&fitted(&wide, 6)).to_string(), "日本…");
    }

    #[test]
    fn control_characters_are_escaped_in_json() {
        let document = Value::String("a\u{1b}\u{7f}\u{9b}\u{202e}é".to_owned()).to_string();
        let text = escaped(&document);
        assert_eq!(text, r#""a\u001b\u007f\u009b\u202eé""#);
        assert_eq!(
            serde_json::from_str::<Value>(&text).expect("JSON"),
            "a\u{1b}\u{7f}\u{9b}\u{202e}é"
        );
    }
}
