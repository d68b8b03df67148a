//! `read_session`: the newest turns of a session within a token budget, and where the rest is.

use ctx_core::decide::AgentTool;
use ctx_core::id::TurnId;
use ctx_core::session::Activity;
use ctx_core::text_limits::one_line;
use ctx_store::{StoredTurn, TurnQuery};
use serde_json::{Value, json};

use super::ToolAnswer;
use super::definition::ParameterKind::{OptionalText, Text};
use super::definition::{Effect, ToolDefinition, budget_parameter, define, parameter};
use super::parameters::{budget, required, text};
use super::transcript::{Detail, piece, turn_text};
use crate::compaction::count_tokens;
use crate::engine::{Engine, Error};
use crate::sessions::Info;

/// Tokens that are kept for the text about what was left out.
const REMARK_TOKENS: u64 = 50;
/// Turns per read.
const PAGE: usize = 20;
/// Size of the bodies of one read, in bytes.
const PAGE_MAX_BYTES: usize = 4 << 20;
/// Longest title, label or task in the heading, in characters.
const HEADING_MAX_CHARS: usize = 120;
/// Below this budget the heading is only the label.
const SMALL_BUDGET: u64 = 400;

pub(super) fn definition() -> ToolDefinition {
    let what = "Read a session: the newest turns that fit a token budget, in the order in which \
        they happened. Results of tools are shortened; read_turn returns them in full.";
    let before = "Read the turns before this turn, by its id";
    define(
        AgentTool::ReadSession,
        Effect::Reads,
        "Read a session",
        what,
        vec![
            parameter("session", "The session, by id or label", Text),
            budget_parameter(),
            parameter("before", before, OptionalText),
        ],
    )
    .output(
        json!({
            "session": {"type": "string"},
            "label": {"type": "string"},
            "text": {"type": "string"},
            "tokens": {"type": "integer"},
            "turns": {"type": "array", "items": {"type": "string"}},
            "left_out": {"type": "integer"},
            "before": {"type": ["string", "null"]},
        }),
        &["session", "text", "tokens", "turns", "left_out", "before"],
    )
}

pub(super) async fn call(engine: &Engine, params: &Value) -> Result<ToolAnswer, Error> {
    let info = engine.sessions().get(required(params, "session")).await?;
    let start = match text(params, "before") {
        None => info.session.head,
        Some(before) => match engine.ids().turn(before).await? {
            Some(id) => engine.messages().turn(id).await?.header.parent,
            None => {
                let why = format!("invalid parameter `before`: no turn has the id `{before}`");
                return Ok(ToolAnswer::error(why));
            }
        },
    };
    let heading = match budget(params) {
        0..SMALL_BUDGET => format!("# {}\n", one_line(&info.session.label, 40)),
        _ => heading(&info),
    };
    let room = budget(params).saturating_sub(count_tokens(&heading) + REMARK_TOKENS);
    let read = newest_that_fit(engine, start, room).await?;
    let mut shown = heading;
    read.texts.iter().rev().for_each(|turn| shown.push_str(turn));
    shown.push_str(&read.remark());
    let turns: Vec<String> = read.turns.iter().rev().map(TurnId::to_string).collect();
    let document = json!({
        "session": info.session.id,
        "label": info.session.label,
        "tokens": count_tokens(&shown),
        "turns": turns,
        "left_out": read.left_out,
        "before": read.turns.last().filter(|_| read.left_out > 0).map(TurnId::to_string),
        "text": shown,
    });
    Ok(ToolAnswer::with(shown, document))
}

/// The turns that fit, newest first.
#[derive(Default)]
struct Read {
    turns: Vec<TurnId>,
    texts: Vec<String>,
    /// Number of earlier turns.
    left_out: u64,
    /// The turn of which only the beginning is shown, and where it continues.
    cut: Option<(TurnId, usize)>,
}

impl Read {
    fn remark(&self) -> String {
        let mut remarks = Vec::new();
        if let Some((turn, _)) = &self.cut {
            remarks.push(format!("turn {} is shortened: use read_turn", turn.0.short()));
        }
        if let Some(oldest) = self.turns.last().filter(|_| self.left_out > 0) {
            remarks.push(format!(
                "{} earlier turns left out: call again with before {}",
                self.left_out,
                oldest.0.short()
            ));
        }
        match remarks.as_slice() {
            [] => String::new(),
            remarks => format!("[{}]\n", remarks.join("; ")),
        }
    }
}

async fn newest_that_fit(engine: &Engine, start: Option<TurnId>, room: u64) -> Result<Read, Error> {
    let (mut read, mut next, mut left) = (Read::default(), start, room);
    while let Some(from) = next {
        let newest = TurnQuery::newest(from, PAGE);
        let query = TurnQuery { max_bytes: PAGE_MAX_BYTES, ..newest };
        let page: Vec<StoredTurn> = engine.store().turns(query).await?;
        next = page.last().and_then(|turn| turn.header.parent);
        for turn in page {
            let text = turn_text(engine, &turn, Detail::Brief).await?;
            let tokens = count_tokens(&text);
            if tokens <= left {
                left -= tokens;
                read.texts.push(text);
                read.turns.push(turn.id);
                continue;
            }
            read.left_out = turn.depth;
            if read.turns.is_empty() {
                // A single turn that is too long is shown up to the budget.
                let part = piece(&text, 0, left);
                read.cut = part.next.map(|next| (turn.id, next));
                read.texts.push(format!("{}\n", part.text));
                read.turns.push(turn.id);
                read.left_out = turn.depth - 1;
            }
            return Ok(read);
        }
    }
    Ok(read)
}

fn heading(info: &Info) -> String {
    let session = &info.session;
    let line = |text: &str| one_line(text, HEADING_MAX_CHARS);
    let mut text = format!("# {}\n", line(session.title.as_deref().unwrap_or(&session.label)));
    text.push_str(&format!(
        "Session {} ({}), project {}, {} turns",
        line(&session.label),
        session.id,
        line(&session.project),
        session.turn_count
    ));
    if let Some(task) = &info.task {
        text.push_str(&format!("; task ({}): {}", task.state.name(), line(&task.description)));
    }
    if session.state == Activity::Running {
        text.push_str("; a run is open, whose turn is not shown");
    }
    text.push('\n');
    text
}
