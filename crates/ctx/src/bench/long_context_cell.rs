//! Measures context assembly early and late in a very long session with a small context window.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use ctx_engine::core::message::Part;
use ctx_engine::core::turn::Kind;
use ctx_engine::provider::{About, Delta, End, Link, Provider, Request, Stop};
use ctx_engine::{EngineTimeouts, NewMessage, NewSession, Providers};
use serde_json::{Value, json};

use crate::problem::Problem;

use super::{CellArgs, open};

/// Context window in tokens.
const WINDOW: u64 = 8192;
/// Number of turns that are measured: more than there are between two compactions.
const MEASURED_TURNS: u64 = 100;
/// Turn around which the early measurement is made.
const EARLY: u64 = 100;
const TIMEOUT: Duration = Duration::from_secs(60);
const PINNED: &str = "The secret word is xyzzy.";

/// Answers at once. The answer starts with `LACKS` if the request lacks the pinned turn.
struct InstantProvider;

#[async_trait]
impl Provider for InstantProvider {
    fn about(&self) -> About {
        About { kind: "bench", context_window: WINDOW, ..About::default() }
    }

    async fn run(&self, request: Request, link: Link) -> End {
        let has_pinned = request
            .messages
            .iter()
            .flat_map(|message| &message.content)
            .filter_map(Part::searchable_text)
            .any(|text| text == PINNED);
        let is_summary = request.tools.is_empty() && request.system.is_some();
        let lacks = if has_pinned || is_summary { "" } else { "LACKS" };
        link.send(Delta::Text(format!("{lacks} {}", "an answer of some words ".repeat(16)))).await;
        End::Done(Stop::EndTurn)
    }
}

pub(super) async fn context(cell: &CellArgs) -> Result<Value, Problem> {
    let engine = open(&cell.dir)?.with_providers(
        Providers::only("quick", Arc::new(InstantProvider)),
        EngineTimeouts::default(),
    );
    engine
        .sessions()
        .create(NewSession { label: Some("long".to_owned()), ..NewSession::default() }, None, None)
        .await?;
    let (mut early, mut late) = (Vec::new(), Vec::new());
    for n in 0..cell.turns {
        let text = if n == 0 {
            PINNED.to_owned()
        } else {
            format!("{n} {}", "a question of some words ".repeat(16))
        };
        engine.messages().submit("long", NewMessage::text(text), None).await?;
        engine.sessions().wait_until_settled("long", TIMEOUT).await?;
        if n == 0
            && let Some(turn) = engine.sessions().head("long").await?
        {
            engine.contexts().pin("long", turn).await?;
        }
        let slot = if n.abs_diff(EARLY) <= MEASURED_TURNS / 2 {
            &mut early
        } else if n + MEASURED_TURNS >= cell.turns {
            &mut late
        } else {
            continue;
        };
        let begun = Instant::now();
        let read = engine.contexts().next_request("long").await?.turns_read;
        slot.push((begun.elapsed(), read));
    }
    let (mut turns, mut compactions, mut lacking, mut at) =
        (0_u64, 0_u64, 0_u64, engine.sessions().head("long").await?);
    while at.is_some() {
        let page = engine.messages().turns("long", ctx_engine::Order::Desc, at, 500).await?;
        at = page.last().and_then(|turn| turn.header.parent);
        for turn in page {
            turns += u64::from(turn.body.is_some());
            compactions += u64::from(turn.header.kind == Kind::Compaction);
            let words = engine.messages().turn_messages(turn.id).await?.unwrap_or_default();
            lacking += words
                .iter()
                .flat_map(|message| &message.content)
                .filter_map(Part::searchable_text)
                .filter(|text| text.starts_with("LACKS"))
                .count() as u64;
        }
    }
    let p50 = |slot: &mut Vec<(Duration, usize)>| {
        slot.sort_unstable();
        slot.get(slot.len() / 2).map_or(0.0, |(took, _)| took.as_secs_f64() * 1e3)
    };
    let rows = |slot: &[(Duration, usize)]| slot.iter().map(|(_, read)| *read).max().unwrap_or(0);
    let (rows_early, rows_late, early, late) =
        (rows(&early), rows(&late), p50(&mut early), p50(&mut late));
    Ok(json!({
        "turns": turns, "compactions": compactions, "requests_without_the_pinned_turn": lacking,
        "p50_ms_early": early, "p50_ms_late": late, "ratio": late / early.max(1e-9),
        "rows_early": rows_early, "rows_late": rows_late,
    }))
}
