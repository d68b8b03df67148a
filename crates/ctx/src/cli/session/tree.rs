//! `ctx session tree`: show the tree of turns and the heads of the sessions in it.

use std::collections::{HashMap, HashSet};

use ctx_engine::core::id::TurnId;
use ctx_engine::{Engine, TreeTurn as EngineTreeTurn};
use serde_json::json;

use crate::json::turn_json::TreeTurn;
use crate::markdown::{cut, text_width};
use crate::problem::Problem;

use super::super::Context;
use super::super::output::{BOLD, DIM, ID, plural, visible_line};
use super::transcript::message_text;

const TITLE_MAX_CHARS: usize = 200;

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Select the session by label, id or short id
    #[arg(value_name = "SESSION")]
    session_name: String,
    /// Show at most this many turns
    #[arg(short = 'n', long, default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = context.engine()?;
    let limit = usize::from(args.limit);
    let turns = engine.sessions().tree(&args.session_name, limit).await?;
    if context.out.is_json() {
        return context.out.print(
            || json!({"turns": turns.iter().map(TreeTurn::from).collect::<Vec<_>>()}),
            String::new,
        );
    }
    let short = engine.ids().short_objects(turns.iter().map(|turn| turn.id.0).collect()).await?;
    let mut titles = HashMap::new();
    for (turn, short) in turns.iter().zip(short) {
        titles.insert(turn.id, (short, first_message(&engine, turn.id).await?));
    }
    let width = context.out.width();
    context.out.print_paged(
        || json!(null),
        || match turns.as_slice() {
            [] => vec!["The session has no turns yet.".to_owned()],
            turns => {
                let mut lines = draw(turns, &titles, width);
                if turns.len() == limit {
                    let turns = plural(limit as u64, "turn");
                    lines.push(format!("{DIM}At most {turns} shown; see `--limit`{DIM:#}"));
                }
                lines
            }
        },
    )
}

/// The short id and the first message of each turn.
type Titles = HashMap<TurnId, (String, String)>;

async fn first_message(engine: &Engine, turn: TurnId) -> Result<String, Problem> {
    let messages = engine.messages().turn_messages(turn).await?.unwrap_or_default();
    Ok(messages.first().map_or_else(
        || "(purged)".to_owned(),
        |message| visible_line(&message_text(message), TITLE_MAX_CHARS),
    ))
}

/// Only a turn with several children indents them, so that a long chain does not drift right.
fn draw(turns: &[EngineTreeTurn], titles: &Titles, width: Option<usize>) -> Vec<String> {
    let known: HashSet<TurnId> = turns.iter().map(|turn| turn.id).collect();
    let mut children: HashMap<Option<TurnId>, Vec<&EngineTreeTurn>> = HashMap::new();
    for turn in turns {
        children.entry(turn.parent.filter(|parent| known.contains(parent))).or_default().push(turn);
    }
    let mut lines = Vec::new();
    let roots = children.get(&None).cloned().unwrap_or_default();
    let mut stack = branches(&roots, "");
    while let Some((turn, prefix, rest)) = stack.pop() {
        let left = width.map(|width| width.saturating_sub(text_width(&prefix)));
        lines.push(format!("{prefix}{}", line(turn, titles, left)));
        let below = children.get(&Some(turn.id)).cloned().unwrap_or_default();
        stack.extend(branches(&below, &rest));
    }
    lines
}

/// The turns still to draw, as a stack with the first one on top. Each has the prefix of its own
/// line and that of the lines below it.
fn branches<'a>(
    below: &[&'a EngineTreeTurn],
    rest: &str,
) -> Vec<(&'a EngineTreeTurn, String, String)> {
    let with_prefix =
        |(n, child): (usize, &&'a EngineTreeTurn)| match (below.len(), n + 1 == below.len()) {
            (1, _) => (*child, rest.to_owned(), rest.to_owned()),
            (_, true) => (*child, format!("{rest}└─ "), format!("{rest}   ")),
            (_, false) => (*child, format!("{rest}├─ "), format!("{rest}│  ")),
        };
    below.iter().enumerate().rev().map(with_prefix).collect()
}

fn line(turn: &EngineTreeTurn, titles: &Titles, width: Option<usize>) -> String {
    let (short, title) = titles.get(&turn.id).map_or(("", ""), |(id, title)| (id, title));
    let heads: Vec<String> =
        turn.heads.iter().map(|label| format!(" ← {}", visible_line(label, 60))).collect();
    let heads = heads.concat();
    let used = short.len() + 1 + text_width(&heads);
    let title = match width {
        Some(width) => cut(title, width.saturating_sub(used)),
        None => title.to_owned(),
    };
    format!("{ID}{short}{ID:#} {title}{BOLD}{heads}{BOLD:#}")
}
