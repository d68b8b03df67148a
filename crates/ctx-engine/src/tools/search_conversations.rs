//! `search_conversations`: search in all conversations with the person of the session (R141).

use ctx_core::decide::AgentTool;
use serde_json::{Value, json};

use super::definition::ParameterKind::Text;
use super::definition::{Effect, ToolDefinition, define, parameter};
use super::parameters::required;
use super::{Caller, ToolAnswer, own_session};
use crate::engine::{Engine, Error};
use crate::records::SearchRequest;

/// Most results of one call.
const HITS_MAX: usize = 20;

pub(super) fn definition() -> ToolDefinition {
    let what = "Search all conversations with the person that you talk to, on whatever channel \
        they were.";
    let words = "Words that must all occur; `word*` matches any word with this prefix";
    define(
        AgentTool::SearchConversations,
        Effect::Reads,
        "Search conversations",
        what,
        vec![parameter("query", words, Text)],
    )
}

pub(super) async fn call(
    engine: &Engine,
    caller: &Caller,
    params: &Value,
) -> Result<ToolAnswer, Error> {
    let own = own_session(engine, caller).await?;
    let Some(entity) = own.routing.entity else {
        return Ok(ToolAnswer::error("the person of this conversation is not known"));
    };
    let words = required(params, "query");
    let request = SearchRequest { entity: Some(entity), ..SearchRequest::new(words, HITS_MAX) };
    let page = engine.records().search(&request).await?;
    let hits: Vec<Value> = page
        .hits
        .iter()
        .map(|hit| json!({"session": hit.session, "at": hit.at.to_string(), "text": hit.text()}))
        .collect();
    Ok(ToolAnswer::json(json!({"hits": hits})))
}
