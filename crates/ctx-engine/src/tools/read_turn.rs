//! `read_turn`: one turn with everything in it, within a token budget.

use ctx_core::decide::AgentTool;
use serde_json::{Value, json};

use super::ToolAnswer;
use super::definition::ParameterKind::Text;
use super::definition::{
    Effect, ToolDefinition, budget_parameter, define, offset_parameter, parameter,
};
use super::parameters::{budget, offset, required};
use super::transcript::{Detail, piece, turn_text};
use crate::compaction::count_tokens;
use crate::engine::{Engine, Error};

/// Tokens that are kept for the text about what was left out.
const REMARK_TOKENS: u64 = 60;

pub(super) fn definition() -> ToolDefinition {
    let what = "Read one turn of a session in full: messages, tool calls and their results, within \
        a token budget.";
    define(
        AgentTool::ReadTurn,
        Effect::Reads,
        "Read a turn",
        what,
        vec![
            parameter("turn", "The id of the turn; a unique beginning is enough", Text),
            budget_parameter(),
            offset_parameter(),
        ],
    )
    .output(text_properties("turn"), &["turn", "text", "tokens", "next_offset"])
}

/// The properties of a result that is a part of a text.
pub(super) fn text_properties(id: &str) -> Value {
    json!({
        id: {"type": "string"},
        "text": {"type": "string"},
        "tokens": {"type": "integer"},
        "total_bytes": {"type": "integer"},
        "next_offset": {"type": ["integer", "null"]},
        "outcome": {"type": "string"},
    })
}

pub(super) async fn call(engine: &Engine, params: &Value) -> Result<ToolAnswer, Error> {
    let name = required(params, "turn");
    let Some(id) = engine.ids().turn(name).await? else {
        return Ok(ToolAnswer::error(format!("no turn has the id `{name}`")));
    };
    let turn = engine.messages().turn(id).await?;
    let text = turn_text(engine, &turn, Detail::Full).await?;
    let document = json!({"turn": id.to_string()});
    Ok(part(document, "read_turn", ("turn", &id.to_string()), &text, params))
}

/// The part of a text that a call asks for, with the call that returns the next part.
pub(super) fn part(
    mut document: Value,
    tool: &str,
    (name, id): (&str, &str),
    text: &str,
    params: &Value,
) -> ToolAnswer {
    let (budget, from) = (budget(params), offset(params));
    let whole =
        if from == 0 && count_tokens(text) <= budget { budget } else { budget - REMARK_TOKENS };
    let part = piece(text, from, whole);
    let mut shown = part.text;
    if let Some(next) = part.next {
        let left = text.len() - next;
        shown.push_str(&format!(
            "\n[{left} of {} bytes left out: call {tool} with {name} {} and offset {next}]\n",
            text.len(),
            &id[..id.len().min(12)],
        ));
    }
    document["tokens"] = json!(count_tokens(&shown));
    document["total_bytes"] = json!(text.len());
    document["next_offset"] = json!(part.next);
    document["text"] = json!(shown);
    ToolAnswer::with(shown, document)
}
