//! `ctx session tree`: the turns, their branches, and which sessions stand where.

use std::collections::{HashMap, HashSet};

use ctx_engine::core::id::TurnId;
use ctx_engine::core::text::one_line;
use ctx_engine::{Engine, TreeTurn as Branch};
use serde_json::json;

use crate::problem::Problem;
use crate::shape::talk::TreeTurn;

use super::super::Context;
use super::super::output::{BOLD, YELLOW};
use super::transcript::{plain, words_of};

/// A tree with more turns is not drawn whole.
const TURNS_MAX: usize = 1000;

#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// The session, by label or id
    #[arg(value_name = "SESSION")]
    which: String,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Problem> {
    let engine = context.engine()?;
    let turns = engine.sessions().tree(&args.which, TURNS_MAX).await?;
    if context.out.is_json() {
        return context.out.say(
            || json!({"turns": turns.iter().map(TreeTurn::from).collect::<Vec<_>>()}),
            String::new,
        );
    }
    let mut words = HashMap::new();
    for turn in &turns {
        words.insert(turn.id, first_words(&engine, turn.id).await?);
    }
    context.out.say(
        || json!(null),
        || match turns.as_slice() {
            [] => "Nothing was said in this session yet.".to_owned(),
            turns => draw(turns, &words).join("\n"),
        },
    )
}

async fn first_words(engine: &Engine, turn: TurnId) -> Result<String, Problem> {
    let said = engine.messages().turn_messages(turn).await?.unwrap_or_default();
    Ok(said
        .first()
        .map_or_else(|| "(purged)".to_owned(), |message| plain(&one_line(&words_of(message), 60))))
}

/// A line of descent goes straight down; only where it parts are the branches set in.
fn draw(turns: &[Branch], words: &HashMap<TurnId, String>) -> Vec<String> {
    let known: HashSet<TurnId> = turns.iter().map(|turn| turn.id).collect();
    let mut children: HashMap<Option<TurnId>, Vec<&Branch>> = HashMap::new();
    for turn in turns {
        children.entry(turn.parent.filter(|parent| known.contains(parent))).or_default().push(turn);
    }
    let mut lines = Vec::new();
    let roots = children.get(&None).cloned().unwrap_or_default();
    let mut stack = branches(&roots, "");
    while let Some((turn, first, rest)) = stack.pop() {
        lines.push(format!("{first}{}", line(turn, words)));
        let below = children.get(&Some(turn.id)).cloned().unwrap_or_default();
        stack.extend(branches(&below, &rest));
    }
    lines
}

/// What is still to be drawn, the first last: a turn, what stands before it, and what stands before those under it.
fn branches<'a>(below: &[&'a Branch], rest: &str) -> Vec<(&'a Branch, String, String)> {
    let marked = |(n, child): (usize, &&'a Branch)| match (below.len(), n + 1 == below.len()) {
        (1, _) => (*child, rest.to_owned(), rest.to_owned()),
        (_, true) => (*child, format!("{rest}└─ "), format!("{rest}   ")),
        (_, false) => (*child, format!("{rest}├─ "), format!("{rest}│  ")),
    };
    below.iter().enumerate().rev().map(marked).collect()
}

fn line(turn: &Branch, words: &HashMap<TurnId, String>) -> String {
    let said = words.get(&turn.id).map_or("", String::as_str);
    let heads: String = turn
        .heads
        .iter()
        .map(|label| format!(" {BOLD}← {}{BOLD:#}", plain(&one_line(label, 60))))
        .collect();
    format!("{YELLOW}{}{YELLOW:#} {said}{heads}", turn.id.0.short())
}
