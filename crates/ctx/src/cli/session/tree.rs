//! `ctx session tree`: show the tree of turns and the heads of the sessions in it.

use std::collections::{HashMap, HashSet};

use ctx_engine::core::id::TurnId;
use ctx_engine::core::text_limits::one_line;
use ctx_engine::{Engine, TreeTurn as EngineTreeTurn};
use serde_json::json;

use crate::json::turn_json::TreeTurn;
use crate::problem::Problem;

use super::super::Context;
use super::super::output::{BOLD, YELLOW};
use super::transcript::{message_text, strip_control_chars};

/// Turns of a larger tree are left out.
const TURNS_MAX: usize = 1000;

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Select the session by label or id
    #[arg(value_name = "SESSION")]
    session_name: String,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = context.engine()?;
    let turns = engine.sessions().tree(&args.session_name, TURNS_MAX).await?;
    if context.out.is_json() {
        return context.out.print(
            || json!({"turns": turns.iter().map(TreeTurn::from).collect::<Vec<_>>()}),
            String::new,
        );
    }
    let mut titles = HashMap::new();
    for turn in &turns {
        titles.insert(turn.id, first_message(&engine, turn.id).await?);
    }
    context.out.print(
        || json!(null),
        || match turns.as_slice() {
            [] => "The session has no turns yet.".to_owned(),
            turns => draw(turns, &titles).join("\n"),
        },
    )
}

async fn first_message(engine: &Engine, turn: TurnId) -> Result<String, Problem> {
    let messages = engine.messages().turn_messages(turn).await?.unwrap_or_default();
    Ok(messages.first().map_or_else(
        || "(purged)".to_owned(),
        |message| strip_control_chars(&one_line(&message_text(message), 60)),
    ))
}

/// Only a turn with several children indents them, so that a long chain does not drift right.
fn draw(turns: &[EngineTreeTurn], titles: &HashMap<TurnId, String>) -> Vec<String> {
    let known: HashSet<TurnId> = turns.iter().map(|turn| turn.id).collect();
    let mut children: HashMap<Option<TurnId>, Vec<&EngineTreeTurn>> = HashMap::new();
    for turn in turns {
        children.entry(turn.parent.filter(|parent| known.contains(parent))).or_default().push(turn);
    }
    let mut lines = Vec::new();
    let roots = children.get(&None).cloned().unwrap_or_default();
    let mut stack = branches(&roots, "");
    while let Some((turn, prefix, rest)) = stack.pop() {
        lines.push(format!("{prefix}{}", line(turn, titles)));
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

fn line(turn: &EngineTreeTurn, titles: &HashMap<TurnId, String>) -> String {
    let title = titles.get(&turn.id).map_or("", String::as_str);
    let heads: String = turn
        .heads
        .iter()
        .map(|label| format!(" {BOLD}← {}{BOLD:#}", strip_control_chars(&one_line(label, 60))))
        .collect();
    format!("{YELLOW}{}{YELLOW:#} {title}{heads}", turn.id.0.short())
}
