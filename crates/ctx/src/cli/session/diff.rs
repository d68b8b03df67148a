//! `ctx session diff`: two branches side by side.

use ctx_engine::core::message::{Part, Role};
use ctx_engine::core::text::one_line;
use ctx_engine::{Diff, Side, StoredTurn};
use serde_json::json;

use crate::problem::Problem;
use crate::shape::diff::Diff as Shape;

use super::super::Context;
use super::transcript::{plain, words_of};

/// Two columns and what stands between them fill a terminal of 80.
const COLUMN: usize = 38;
/// So much of what one message says is shown.
const SHOWN_MAX_CHARS: usize = 4 * COLUMN;

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// One session, by label or id
    #[arg(value_name = "A")]
    one: String,
    /// The other
    #[arg(value_name = "B")]
    other: String,
    /// At most so many turns of each
    #[arg(short = 'n', long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let diff = context
        .engine()?
        .sessions()
        .diff(&args.one, &args.other, None, usize::from(args.limit))
        .await?;
    context.out.say(|| json!(Shape::of(&diff, None)), || lines(&diff).join("\n"))
}

fn lines(diff: &Diff) -> Vec<String> {
    let [a, b] = &diff.sides;
    let label = |side: &Side| plain(&one_line(&side.session.label, 30));
    let mut lines = match &diff.ancestor {
        Some(turn) => {
            let words = said(turn)
                .into_iter()
                .next()
                .map_or_else(String::new, |(_, words)| one_line(&words, 50));
            let turns =
                if turn.depth == 1 { "1 turn".to_owned() } else { format!("{} turns", turn.depth) };
            vec![format!("They share {turns}, up to {}", turn.id.0.short()), format!("  {words}")]
        }
        None => vec!["They have no turn in common.".to_owned()],
    };
    lines.push(String::new());
    lines.extend(beside(&heading(a, &label(a)), &heading(b, &label(b))));
    lines.push(format!("{}─┼─{}", "─".repeat(COLUMN), "─".repeat(COLUMN)));
    for n in 0..a.turns.len().max(b.turns.len()) {
        let column = |side: &Side| side.turns.get(n).map(turn_lines).unwrap_or_default();
        lines.extend(beside(&column(a), &column(b)));
    }
    if diff.sides.iter().any(|side| !side.files.is_empty()) {
        lines.push(format!("{}─┼─{}", "─".repeat(COLUMN), "─".repeat(COLUMN)));
        lines.extend(beside(&file_lines(a), &file_lines(b)));
    }
    if diff.next.is_some() {
        lines.push("There is more: `-n` shows more turns of each.".to_owned());
    }
    lines
}

fn heading(side: &Side, label: &str) -> Vec<String> {
    let turns = if side.own == 1 { "1 turn".to_owned() } else { format!("{} turns", side.own) };
    wrapped(&format!("{label}: {turns} of its own"))
}

fn turn_lines(turn: &StoredTurn) -> Vec<String> {
    let mut lines = vec![format!("• {}", turn.id.0.short())];
    for (mark, words) in said(turn) {
        lines.extend(wrapped(&format!(
            "{mark}{}",
            one_line(&words.replace('\n', " "), SHOWN_MAX_CHARS)
        )));
    }
    lines
}

fn file_lines(side: &Side) -> Vec<String> {
    side.files
        .keys()
        .flat_map(|path| wrapped(&format!("wrote {}", plain(path).replace(['\n', '\t'], " "))))
        .collect()
}

/// Who said what in a turn, without what could drive a terminal.
fn said(turn: &StoredTurn) -> Vec<(&'static str, String)> {
    let Ok(Some(messages)) = turn.messages() else { return vec![("", "(purged)".to_owned())] };
    let mut lines = Vec::new();
    for message in messages {
        let mark = if message.role == Role::User { "> " } else { "" };
        let words = plain(&words_of(&message)).replace('\t', " ");
        if !words.trim().is_empty() {
            lines.push((mark, words));
        }
        let failed = message.content.iter().filter_map(|part| match part {
            Part::Error { message, .. } => Some(("error: ", plain(message))),
            _ => None,
        });
        lines.extend(failed);
    }
    lines
}

/// How many columns a letter takes: those of East Asian scripts, and pictures, take two.
const fn width(letter: char) -> usize {
    match letter as u32 {
        0x1100..=0x115F
        | 0x2E80..=0xA4CF
        | 0xAC00..=0xD7A3
        | 0xF900..=0xFAFF
        | 0xFE30..=0xFE6F
        | 0xFF00..=0xFF60
        | 0x1F300.. => 2,
        _ => 1,
    }
}

fn wide(text: &str) -> usize {
    text.chars().map(width).sum()
}

/// Lines of at most a column, broken between words where that can be.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is a line");
        if !line.is_empty() && wide(line) + 1 + wide(word) <= COLUMN {
            line.push(' ');
            line.push_str(word);
            continue;
        }
        if !line.is_empty() {
            lines.push(String::new());
        }
        for letter in word.chars() {
            if lines.last().is_some_and(|line| wide(line) + width(letter) > COLUMN) {
                lines.push(String::new());
            }
            lines.last_mut().expect("there is a line").push(letter);
        }
    }
    lines
}

fn beside(left: &[String], right: &[String]) -> Vec<String> {
    let row = |n: usize| {
        let (left, right) =
            (left.get(n).map_or("", String::as_str), right.get(n).map_or("", String::as_str));
        format!("{left}{} │ {right}", " ".repeat(COLUMN.saturating_sub(wide(left))))
            .trim_end()
            .to_owned()
    };
    (0..left.len().max(right.len())).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_wider_than_a_terminal() {
        let texts =
            ["short", &"word ".repeat(40), &"x".repeat(200), &"日本語".repeat(30), "> a\u{1F600}b"];
        for text in texts {
            let lines = wrapped(text);
            assert!(lines.iter().all(|line| wide(line) <= COLUMN), "{lines:?}");
            assert_eq!(
                lines.concat().replace(' ', ""),
                text.split_whitespace().collect::<String>(),
                "nothing is lost"
            );
            assert!(
                beside(&lines, &wrapped("other")).iter().all(|line| wide(line) <= 2 * COLUMN + 3)
            );
        }
    }
}
