//! The usage cells: a store of turns with usage, and reports over it. The sums of a report are
//! compared with a count of every turn, read one by one.

use std::time::Instant;

use ctx_engine::core::id::{MessageId, TurnId};
use ctx_engine::core::message::{Message, Part, Role, Source};
use ctx_engine::core::session::Origin;
use ctx_engine::core::time::Timestamp;
use ctx_engine::core::turn::{About, Usage};
use ctx_engine::core::usage::By;
use ctx_engine::core::usage_query::UsageQuery;
use ctx_engine::{NewTurn, Order};
use serde_json::{Value, json};
use ulid::Ulid;

use crate::problem::Problem;

use super::{CellArgs, open};

const DAY_MS: i64 = 86_400_000;
/// Days over which the turns are spread.
const DAYS: u64 = 30;
const MODELS: [&str; 4] = ["gpt-5", "claude-sonnet-4-5", "gpt-4o-mini", "of-nobody"];
/// Turns of one page of the independent count.
const PAGE: usize = 1000;

/// Fills a store with `turns` turns in `sessions` sessions.
pub(super) async fn fill(cell: &CellArgs) -> Result<Value, Problem> {
    let engine = open(&cell.dir)?;
    let fill = |session: u64| {
        let (engine, turns) = (engine.clone(), cell.turns / cell.sessions.max(1));
        tokio::spawn(async move {
            let label = format!("u{session}");
            engine.sessions().create_idle(&label, Origin::Api).await?;
            let mut head = None;
            for n in 0..turns {
                let turn = turn(session * turns + n, engine.now());
                head = Some(engine.messages().append_turn(&label, head, turn).await?);
            }
            Ok::<(), Problem>(())
        })
    };
    let began = Instant::now();
    for task in (0..cell.sessions).map(fill).collect::<Vec<_>>() {
        task.await.map_err(|e| Problem::failed("internal", e.to_string()))??;
    }
    Ok(json!({"seconds": began.elapsed().as_secs_f64()}))
}

fn turn(key: u64, now: Timestamp) -> NewTurn {
    let at = Timestamp(now.0 - (key % DAYS) as i64 * DAY_MS);
    let model = MODELS[(key / 7) as usize % MODELS.len()];
    let usage = Usage {
        input_tokens: Some(1000 + key % 500),
        output_tokens: Some(100 + key % 50),
        cached_tokens: (!key.is_multiple_of(3)).then_some(400),
        cost: key.is_multiple_of(5).then(|| "0.0125 USD".to_owned()),
        scope: "turn".to_owned(),
        ..Usage::default()
    };
    let about = About {
        provider_id: Some("bench".to_owned()),
        model: Some(model.to_owned()),
        usage: Some(usage),
        ..About::at(at)
    };
    let message = |role, source| Message {
        id: MessageId(Ulid::new()),
        role,
        source,
        content: vec![Part::Text { text: format!("{key}") }],
        created_at: at,
    };
    let messages = vec![message(Role::User, Some(Source::Human)), message(Role::Assistant, None)];
    NewTurn { about, messages, blobs: Vec::new() }
}

/// The time of a report by each key, and whether its sums are those of the stored turns.
pub(super) async fn report(cell: &CellArgs, born: Instant) -> Result<Value, Problem> {
    let engine = open(&cell.dir)?;
    let open_ms = born.elapsed().as_secs_f64() * 1e3;
    let mut times = serde_json::Map::new();
    let mut total = None;
    for by in By::ALL {
        let began = Instant::now();
        let report = engine.usage().report(&UsageQuery::by(by)).await?;
        times.insert(by.name().to_owned(), json!(began.elapsed().as_secs_f64() * 1e3));
        // A report of tools has no tokens.
        if by != By::Tool {
            total = Some(report.total);
        }
    }
    let total = total.unwrap_or_default();
    let (mut turns, mut input, mut output, mut cached) = (0, 0, 0, 0);
    for session in 0..cell.sessions {
        let (label, mut before) = (format!("u{session}"), None::<TurnId>);
        loop {
            let page = engine.messages().turns(&label, Order::Desc, before, PAGE).await?;
            for turn in &page {
                let usage = turn.header.usage.clone().unwrap_or_default();
                turns += 1;
                input += usage.input_tokens.unwrap_or(0);
                output += usage.output_tokens.unwrap_or(0);
                cached += usage.cached_tokens.unwrap_or(0);
            }
            before = page.last().and_then(|oldest| oldest.header.parent);
            if before.is_none() {
                break;
            }
        }
    }
    let tally = total.tally;
    let equal = (tally.turns, tally.input.sum, tally.output.sum, tally.cached.sum)
        == (turns, input, output, cached);
    Ok(json!({
        "open_ms": open_ms,
        "ms": times,
        "turns": tally.turns,
        "cost": total.cost.map(|cost| cost.to_string()),
        "equals_the_stored_usage": equal,
    }))
}
