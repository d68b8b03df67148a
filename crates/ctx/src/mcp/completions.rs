//! Completion of the arguments of resource templates and prompts.

use ctx_engine::core::id::ObjectId;
use ctx_engine::core::object::Kind;
use ctx_engine::{CommitQuery, Engine, SessionQuery};
use rmcp::ErrorData;
use rmcp::model::{CompleteRequestParams, CompletionInfo, Reference};

use super::failed;
use super::prompts::CONTINUE;

/// Sessions, commits and tasks among which values are completed.
const CANDIDATES: usize = 500;
/// Most values of an answer.
const VALUES: usize = CompletionInfo::MAX_VALUES;
/// Hex digits from which on turns are looked up.
const TURN_MIN_DIGITS: usize = 2;

pub(super) async fn complete(
    engine: &Engine,
    request: &CompleteRequestParams,
) -> Result<CompletionInfo, ErrorData> {
    let (name, value) = (request.argument.name.as_str(), request.argument.value.as_str());
    let found = match &request.r#ref {
        Reference::Resource(resource) => match (resource.uri.as_str(), name) {
            ("ctx://session/{id}", "id") => sessions(engine, value).await,
            ("ctx://commit/{id}", "id") => commits(engine, value).await,
            ("ctx://turn/{id}", "id") => turns(engine, value).await,
            _ => Ok(Vec::new()),
        },
        Reference::Prompt(prompt) => match (prompt.name.as_str(), name) {
            (CONTINUE, "session") => sessions(engine, value).await,
            (CONTINUE, "task") => tasks(engine, value).await,
            _ => Ok(Vec::new()),
        },
        _ => Ok(Vec::new()),
    };
    let mut values = found.map_err(|error| failed(&error))?;
    values.dedup();
    let total = u32::try_from(values.len()).unwrap_or(u32::MAX);
    let more = values.len() > VALUES;
    values.truncate(VALUES);
    CompletionInfo::with_pagination(values, Some(total), more)
        .map_err(|why| ErrorData::internal_error(why, None))
}

/// The labels and ids of sessions that begin so; without a value the newest labels.
async fn sessions(engine: &Engine, value: &str) -> Result<Vec<String>, ctx_engine::Error> {
    let (found, _) = engine.sessions().list(&SessionQuery::newest(CANDIDATES)).await?;
    let value = value.to_lowercase();
    let names = found.iter().flat_map(|info| {
        let (label, id) = (info.session.label.clone(), info.session.id.to_string());
        let is_id = !value.is_empty() && id.to_lowercase().starts_with(&value);
        let is_label = label.to_lowercase().starts_with(&value);
        [is_label.then_some(label), is_id.then_some(id)]
    });
    Ok(names.flatten().collect())
}

async fn commits(engine: &Engine, value: &str) -> Result<Vec<String>, ctx_engine::Error> {
    let query = CommitQuery { limit: CANDIDATES, ..CommitQuery::default() };
    let ids = engine.records().commits(&query).await?.into_iter().map(|(id, _)| id.to_string());
    Ok(ids.filter(|id| id.starts_with(&value.to_lowercase())).collect())
}

async fn turns(engine: &Engine, value: &str) -> Result<Vec<String>, ctx_engine::Error> {
    let value = value.to_lowercase();
    let is_hex = value.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hex && value.len() >= TURN_MIN_DIGITS {
        let found = engine.records().resolve(&value, VALUES + 1).await?;
        let turns = found.into_iter().filter(|found| found.kind == Kind::Turn);
        return Ok(turns.map(|found| found.id.to_string()).collect());
    }
    let newest = engine.sessions().newest(VALUES).await?;
    let heads = newest.iter().filter_map(|session| session.head);
    let heads = heads.map(|turn| ObjectId::to_string(&turn.0));
    Ok(heads.filter(|id| id.starts_with(&value)).collect())
}

/// The ids of open tasks, and the descriptions that begin so.
async fn tasks(engine: &Engine, value: &str) -> Result<Vec<String>, ctx_engine::Error> {
    let (found, _) = engine.sessions().list(&SessionQuery::newest(CANDIDATES)).await?;
    let value = value.to_lowercase();
    let names = found.into_iter().filter_map(|info| info.task).flat_map(|task| {
        let id = task.id.to_string();
        let is_id = id.to_lowercase().starts_with(&value);
        let is_text = !value.is_empty() && task.description.to_lowercase().starts_with(&value);
        [is_id.then_some(id), is_text.then_some(task.description)]
    });
    Ok(names.flatten().collect())
}
