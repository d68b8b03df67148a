//! `search_conversations`: search in all conversations with the person of the session (R141).

use ctx_core::decide::AgentTool;
use ctx_core::inbox::Tool;
use serde_json::{Value, json};

use super::ParameterKind::Text;
use super::{Answer, Caller, own_session, parameter, required};
use crate::engine::{Engine, Error};

/// Most results of one call.
const HITS_MAX: usize = 20;

pub(super) fn tool() -> Tool {
    let what = "Search all conversations with the person that you talk to, on whatever channel \
        they were.";
    let words = "Words that must all occur; `word*` matches any word with this prefix";
    super::tool(AgentTool::SearchConversations, what, &[parameter("query", words, Text)])
}

pub(super) async fn call(
    engine: &Engine,
    caller: &Caller,
    params: &Value,
) -> Result<Answer, Error> {
    let own = own_session(engine, caller).await?;
    let Some(entity) = own.routing.entity else {
        return Ok(Answer::error("the person of this conversation is not known"));
    };
    let words = required(params, "query");
    let page = engine.records().search_entity(entity, words, None, HITS_MAX).await?;
    let hits: Vec<Value> = page
        .hits
        .iter()
        .map(|hit| json!({"session": hit.session, "at": hit.at.to_string(), "text": hit.snippet}))
        .collect();
    Ok(Answer::ok(json!({"hits": hits}).to_string()))
}
