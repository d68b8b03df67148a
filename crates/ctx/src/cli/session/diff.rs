//! `ctx session diff`: compare two branches in two columns.

use ctx_engine::core::message::{Part, Role};
use ctx_engine::core::text_limits::one_line;
use ctx_engine::{Diff, Side, StoredTurn};
use serde_json::json;

use crate::json::diff_json::Diff as DiffJson;
use crate::problem::Problem;

use super::super::Context;
use super::transcript::{message_text, strip_control_chars};

/// Width of a column: two columns and the separator fit into 80 characters.
const COLUMN_WIDTH: usize = 38;
/// Characters of a message that are shown.
const MESSAGE_MAX_CHARS: usize = 4 * COLUMN_WIDTH;

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Compare this session, given by label or id
    #[arg(value_name = "A")]
    one: String,
    /// Compare with this session
    #[arg(value_name = "B")]
    other: String,
    /// Show at most this many turns of each
    #[arg(short = 'n', long, default_value_t = 50)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let diff = context
        .engine()?
        .sessions()
        .diff(&args.one, &args.other, None, usize::from(args.limit))
        .await?;
    context.out.print(|| json!(DiffJson::of(&diff, None)), || lines(&diff).join("\n"))
}

fn lines(diff: &Diff) -> Vec<String> {
    let [a, b] = &diff.sides;
    let label = |side: &Side| strip_control_chars(&one_line(&side.session.label, 30));
    let mut lines = match &diff.ancestor {
        Some(turn) => {
            let text = messages(turn)
                .into_iter()
                .next()
                .map_or_else(String::new, |(_, text)| one_line(&text, 50));
            let turns =
                if turn.depth == 1 { "1 turn".to_owned() } else { format!("{} turns", turn.depth) };
            vec![
                format!("Common history: {turns}, up to {}", turn.id.0.short()),
                format!("  {text}"),
            ]
        }
        None => vec!["No common turns.".to_owned()],
    };
    lines.push(String::new());
    lines.extend(columns(&heading(a, &label(a)), &heading(b, &label(b))));
    lines.push(format!("{}─┼─{}", "─".repeat(COLUMN_WIDTH), "─".repeat(COLUMN_WIDTH)));
    for n in 0..a.turns.len().max(b.turns.len()) {
        let column = |side: &Side| side.turns.get(n).map(turn_lines).unwrap_or_default();
        lines.extend(columns(&column(a), &column(b)));
    }
    if diff.sides.iter().any(|side| !side.files.is_empty()) {
        lines.push(format!("{}─┼─{}", "─".repeat(COLUMN_WIDTH), "─".repeat(COLUMN_WIDTH)));
        lines.extend(columns(&file_lines(a), &file_lines(b)));
    }
    if diff.next.is_some() {
        lines.push("More turns follow; use `-n` to show more.".to_owned());
    }
    lines
}

fn heading(side: &Side, label: &str) -> Vec<String> {
    let turns = if side.own == 1 { "1 turn".to_owned() } else { format!("{} turns", side.own) };
    wrap(&format!("{label}: {turns} only here"))
}

fn turn_lines(turn: &StoredTurn) -> Vec<String> {
    let mut lines = vec![format!("• {}", turn.id.0.short())];
    for (mark, text) in messages(turn) {
        lines.extend(wrap(&format!(
            "{mark}{}",
            one_line(&text.replace('\n', " "), MESSAGE_MAX_CHARS)
        )));
    }
    lines
}

fn file_lines(side: &Side) -> Vec<String> {
    side.files
        .keys()
        .flat_map(|path| {
            wrap(&format!("wrote {}", strip_control_chars(path).replace(['\n', '\t'], " ")))
        })
        .collect()
}

/// The messages of a turn, each with its prefix, without terminal escape sequences.
fn messages(turn: &StoredTurn) -> Vec<(&'static str, String)> {
    let Ok(Some(messages)) = turn.messages() else { return vec![("", "(purged)".to_owned())] };
    let mut lines = Vec::new();
    for message in messages {
        let mark = if message.role == Role::User { "> " } else { "" };
        let text = strip_control_chars(&message_text(&message)).replace('\t', " ");
        if !text.trim().is_empty() {
            lines.push((mark, text));
        }
        let failed = message.content.iter().filter_map(|part| match part {
            Part::Error { message, .. } => Some(("error: ", strip_control_chars(message))),
            _ => None,
        });
        lines.extend(failed);
    }
    lines
}

/// Terminal columns of a character: East Asian characters and emoji take two.
const fn char_width(letter: char) -> usize {
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

fn text_width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// Wraps the text at the column width, between words where possible.
fn wrap(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is a line");
        if !line.is_empty() && text_width(line) + 1 + text_width(word) <= COLUMN_WIDTH {
            line.push(' ');
            line.push_str(word);
            continue;
        }
        if !line.is_empty() {
            lines.push(String::new());
        }
        for letter in word.chars() {
            if lines.last().is_some_and(|line| text_width(line) + char_width(letter) > COLUMN_WIDTH)
            {
                lines.push(String::new());
            }
            lines.last_mut().expect("there is a line").push(letter);
        }
    }
    lines
}

/// Puts two lists of lines next to each other.
fn columns(left: &[String], right: &[String]) -> Vec<String> {
    let row = |n: usize| {
        let (left, right) =
            (left.get(n).map_or("", String::as_str), right.get(n).map_or("", String::as_str));
        format!("{left}{} │ {right}", " ".repeat(COLUMN_WIDTH.saturating_sub(text_width(left))))
            .trim_end()
            .to_owned()
    };
    (0..left.len().max(right.len())).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapped_lines_fit_the_column_and_lose_nothing() {
        let texts =
            ["short", &"word ".repeat(40), &"x".repeat(200), &"日本語".repeat(30), "> a\u{1F600}b"];
        for text in texts {
            let lines = wrap(text);
            assert!(lines.iter().all(|line| text_width(line) <= COLUMN_WIDTH), "{lines:?}");
            assert_eq!(
                lines.concat().replace(' ', ""),
                text.split_whitespace().collect::<String>(),
                "no text is lost"
            );
            assert!(
                columns(&lines, &wrap("other"))
                    .iter()
                    .all(|line| text_width(line) <= 2 * COLUMN_WIDTH + 3)
            );
        }
    }
}
