//! `ctx session diff`: compare two branches in two columns.

use std::collections::HashMap;

use anstyle::Style;
use ctx_engine::core::id::TurnId;
use ctx_engine::core::message::{Part, Role};
use ctx_engine::core::text_limits::one_line;
use ctx_engine::{Diff, Side, StoredTurn};
use serde_json::json;

use crate::json::diff_json::Diff as DiffJson;
use crate::markdown::{Line, Span, cut, print_line, text_width, wrap_words};
use crate::problem::Problem;

use super::super::Context;
use super::super::output::{BOLD, CYAN, DIM, GREEN, ID, RED, plural, visible_line, visible_text};
use super::transcript::message_text;

/// Columns of the output where the terminal does not tell its width.
const WIDTH_DEFAULT: usize = 80;
/// Lines of a message that are shown.
const MESSAGE_LINES_MAX: usize = 6;
/// What separates the two columns.
const SEPARATOR: &str = " │ ";

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Compare this session, given by label, id or short id
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
    let engine = context.engine()?;
    let limit = usize::from(args.limit);
    let diff = engine.sessions().diff(&args.one, &args.other, None, limit).await?;
    if context.out.is_json() {
        return context.out.print(|| json!(DiffJson::of(&diff, None)), String::new);
    }
    let turns = diff.ancestor.iter().chain(diff.sides.iter().flat_map(|side| &side.turns));
    let ids: Vec<TurnId> = turns.map(|turn| turn.id).collect();
    let short = engine.ids().short_objects(ids.iter().map(|id| id.0).collect()).await?;
    let width = context.out.width().unwrap_or(WIDTH_DEFAULT);
    let drawing = Drawing {
        column: width.saturating_sub(text_width(SEPARATOR)) / 2,
        short: ids.into_iter().zip(short).collect(),
    };
    context.out.print_paged(|| json!(null), || drawing.lines(&diff))
}

struct Drawing {
    /// Width of a column.
    column: usize,
    short: HashMap<TurnId, String>,
}

impl Drawing {
    fn lines(&self, diff: &Diff) -> Vec<String> {
        let [a, b] = &diff.sides;
        let mut lines = match &diff.ancestor {
            Some(turn) => {
                let text = messages(turn).into_iter().next();
                let text = text.map_or_else(String::new, |(_, text)| one_line(&text, 200));
                let turns = plural(turn.depth, "turn");
                vec![
                    format!(
                        "Common history: {turns}, up to {} {DIM}(folded){DIM:#}",
                        self.id(turn)
                    ),
                    format!("{DIM}{}{DIM:#}", cut(&format!("  {text}"), 2 * self.column + 3)),
                ]
            }
            None => vec!["No common turns.".to_owned()],
        };
        lines.push(String::new());
        lines.extend(self.columns(&self.heading(a), &self.heading(b)));
        lines.push(self.rule());
        for n in 0..a.turns.len().max(b.turns.len()) {
            let column =
                |side: &Side| side.turns.get(n).map(|turn| self.turn(turn)).unwrap_or_default();
            lines.extend(self.columns(&column(a), &column(b)));
        }
        if diff.sides.iter().any(|side| !side.files.is_empty()) {
            lines.push(self.rule());
            lines.extend(self.columns(&self.files(a), &self.files(b)));
        }
        if diff.next.is_some() {
            lines.push(format!("{DIM}More turns follow; use `--limit N` to show more.{DIM:#}"));
        }
        lines
    }

    fn id(&self, turn: &StoredTurn) -> String {
        let short = self.short.get(&turn.id).map_or("", String::as_str);
        let longer = turn.id.0.short();
        let rest = longer.strip_prefix(short).unwrap_or_default();
        format!("{ID}{short}{ID:#}{DIM}{rest}{DIM:#}")
    }

    fn rule(&self) -> String {
        format!("{DIM}{0}─┼─{0}{DIM:#}", "─".repeat(self.column))
    }

    fn heading(&self, side: &Side) -> Vec<Line> {
        let label = visible_line(&side.session.label, 60);
        let text = format!("{label}: {} only here", plural(side.own, "turn"));
        wrap_words(&[Span::new(text, BOLD)], self.column)
    }

    fn turn(&self, turn: &StoredTurn) -> Vec<Line> {
        let short = self.short.get(&turn.id).map_or("", String::as_str);
        let mut lines = vec![vec![Span::plain("• "), Span::new(short, ID)]];
        for (mark, text) in messages(turn) {
            let style = match mark {
                "> " => CYAN,
                "error: " => RED,
                _ => Style::new(),
            };
            let spans = [Span::new(mark, style), Span::new(text.replace('\n', " "), style)];
            let mut wrapped = wrap_words(&spans, self.column);
            if wrapped.len() > MESSAGE_LINES_MAX {
                wrapped.truncate(MESSAGE_LINES_MAX);
                wrapped.push(vec![Span::new("…", DIM)]);
            }
            lines.extend(wrapped);
        }
        lines
    }

    fn files(&self, side: &Side) -> Vec<Line> {
        let file = |path: &String| {
            let path = visible_text(path).replace(['\n', '\t'], " ");
            wrap_words(&[Span::new(format!("wrote {path}"), GREEN)], self.column)
        };
        side.files.keys().flat_map(file).collect()
    }

    /// Puts two lists of lines next to each other.
    fn columns(&self, left: &[Line], right: &[Line]) -> Vec<String> {
        let row = |n: usize| {
            let empty = Vec::new();
            let (left, right) = (left.get(n).unwrap_or(&empty), right.get(n).unwrap_or(&empty));
            let used: usize = left.iter().map(|span| text_width(&span.text)).sum();
            let gap = " ".repeat(self.column.saturating_sub(used));
            let line = format!("{}{gap}{SEPARATOR}{}", print_line(left), print_line(right));
            line.trim_end().to_owned()
        };
        (0..left.len().max(right.len())).map(row).collect()
    }
}

/// The messages of a turn, each with its prefix.
fn messages(turn: &StoredTurn) -> Vec<(&'static str, String)> {
    let Ok(Some(messages)) = turn.messages() else { return vec![("", "(purged)".to_owned())] };
    let mut lines = Vec::new();
    for message in messages {
        let mark = if message.role == Role::User { "> " } else { "" };
        let text = visible_text(&message_text(&message)).replace('\t', " ");
        if !text.trim().is_empty() {
            lines.push((mark, text));
        }
        let failed = message.content.iter().filter_map(|part| match part {
            Part::Error { message, .. } => Some(("error: ", visible_text(message))),
            _ => None,
        });
        lines.extend(failed);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_columns_fit_the_width_and_lose_nothing() {
        let texts =
            ["short", &"word ".repeat(40), &"x".repeat(200), &"日本語".repeat(30), "> a\u{1F600}b"];
        for (text, column) in texts.iter().flat_map(|text| [(text, 38), (text, 78)]) {
            let drawing = Drawing { column, short: HashMap::new() };
            let lines = wrap_words(&[Span::plain(*text)], column);
            let shown: String = lines.iter().flatten().map(|span| span.text.as_str()).collect();
            let whole: String = text.split_whitespace().collect();
            assert_eq!(shown.replace(' ', ""), whole, "no text is lost");
            let other = wrap_words(&[Span::plain("other")], column);
            for line in drawing.columns(&lines, &other) {
                let line = anstream::adapter::strip_str(&line).to_string();
                assert!(text_width(&line) <= 2 * column + 3, "{line}");
            }
        }
    }
}
