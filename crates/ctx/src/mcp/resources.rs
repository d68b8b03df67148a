//! Sessions, turns and commits as resources: `ctx://session/ID`, `ctx://turn/ID` and
//! `ctx://commit/ID`. The list has the sessions first, those with the newest activity first, and
//! then the commits.

use ctx_engine::core::id::{CommitId, SessionId};
use ctx_engine::core::text_limits::one_line;
use ctx_engine::core::time::Timestamp;
use ctx_engine::{CommitQuery, Engine, OutsideCaller, SessionQuery};
use rmcp::ErrorData;
use rmcp::model::{
    Annotations, ListResourcesResult, ReadResourceResult, Resource, ResourceContents,
    ResourceTemplate,
};
use serde_json::{Value, json};

use super::failed;

/// Resources per page.
const PAGE: usize = 50;
/// Most tokens of a resource. The tools read further.
const RESOURCE_TOKENS: u64 = 20_000;
/// Longest description of a resource, in characters.
const DESCRIPTION_MAX_CHARS: usize = 200;
const TEXT: &str = "text/markdown";

/// The kinds of resources: name in the URI, title, description, tool that reads it.
pub(super) const KINDS: [(&str, &str, &str, &str); 3] = [
    ("session", "Session", "A conversation with an agent, by id or label", "read_session"),
    ("turn", "Turn", "One exchange of a conversation, by id", "read_turn"),
    ("commit", "Commit", "A sealed task with its record, by id", "read_commit"),
];

pub(super) fn templates() -> Vec<ResourceTemplate> {
    let template = |(kind, title, description, _): (&str, &str, &str, &str)| {
        ResourceTemplate::new(format!("ctx://{kind}/{{id}}"), kind)
            .with_title(title)
            .with_description(description)
            .with_mime_type(TEXT)
    };
    KINDS.into_iter().map(template).collect()
}

/// A position in the list.
enum Place {
    Sessions(Option<(Timestamp, SessionId)>),
    Commits(Option<CommitId>),
}

impl Place {
    fn parse(cursor: &str) -> Option<Self> {
        match cursor.split('.').collect::<Vec<_>>().as_slice() {
            ["s", at, id] => {
                Some(Self::Sessions(Some((Timestamp(at.parse().ok()?), id.parse().ok()?))))
            }
            ["c"] => Some(Self::Commits(None)),
            ["c", id] => Some(Self::Commits(Some(id.parse().ok()?))),
            _ => None,
        }
    }
}

pub(super) async fn list(
    engine: &Engine,
    cursor: Option<String>,
) -> Result<ListResourcesResult, ErrorData> {
    let invalid = || ErrorData::invalid_params("invalid cursor: use the one of a page", None);
    let place = match cursor {
        None => Place::Sessions(None),
        Some(cursor) => Place::parse(&cursor).ok_or_else(invalid)?,
    };
    let (resources, next) = match place {
        Place::Sessions(after) => sessions(engine, after).await?,
        Place::Commits(before) => commits(engine, before).await?,
    };
    let mut page = ListResourcesResult::with_all_items(resources);
    page.next_cursor = next;
    Ok(page)
}

type Page = (Vec<Resource>, Option<String>);

async fn sessions(
    engine: &Engine,
    after: Option<(Timestamp, SessionId)>,
) -> Result<Page, ErrorData> {
    let query = SessionQuery { after, ..SessionQuery::newest(PAGE + 1) };
    let (mut found, _) = engine.sessions().list(&query).await.map_err(|error| failed(&error))?;
    let more = found.len() > PAGE;
    found.truncate(PAGE);
    let next = found
        .last()
        .filter(|_| more)
        .map(|info| format!("s.{}.{}", info.session.last_activity_at.0, info.session.id));
    let resource = |info: &ctx_engine::Info| {
        let session = &info.session;
        let task = info.task.as_ref().map_or_else(
            || session.project.clone(),
            |task| one_line(&task.description, DESCRIPTION_MAX_CHARS),
        );
        Resource::new(format!("ctx://session/{}", session.id), session.label.clone())
            .with_title(session.title.clone().unwrap_or_else(|| session.label.clone()))
            .with_description(format!("{} turns; {task}", session.turn_count))
            .with_mime_type(TEXT)
            .with_annotations(modified(session.last_activity_at))
    };
    Ok((found.iter().map(resource).collect(), next.or_else(|| Some("c".to_owned()))))
}

async fn commits(engine: &Engine, before: Option<CommitId>) -> Result<Page, ErrorData> {
    let query = CommitQuery { before, limit: PAGE + 1, ..CommitQuery::default() };
    let mut found = engine.records().commits(&query).await.map_err(|error| failed(&error))?;
    let more = found.len() > PAGE;
    found.truncate(PAGE);
    let next = found.last().filter(|_| more).map(|(id, _)| format!("c.{id}"));
    let resource = |(id, commit): &(CommitId, ctx_engine::core::commit::Commit)| {
        let message = one_line(&commit.message, DESCRIPTION_MAX_CHARS);
        Resource::new(format!("ctx://commit/{id}"), id.0.short())
            .with_title(message)
            .with_description(format!(
                "{}: {}",
                commit.commit_type.name(),
                one_line(&commit.description, DESCRIPTION_MAX_CHARS)
            ))
            .with_mime_type(TEXT)
            .with_annotations(modified(commit.created_at))
    };
    Ok((found.iter().map(resource).collect(), next))
}

fn modified(at: Timestamp) -> Annotations {
    let mut annotations = Annotations::default();
    annotations.last_modified = Some(at.to_string());
    annotations
}

pub(super) async fn read(
    engine: &Engine,
    caller: &OutsideCaller,
    uri: &str,
) -> Result<ReadResourceResult, ErrorData> {
    let missing = |why: &str| {
        ErrorData::resource_not_found(
            format!("cannot read {uri}: {why}"),
            Some(json!({"uri": uri})),
        )
    };
    let named = uri.strip_prefix("ctx://").and_then(|rest| rest.split_once('/'));
    let (kind, id) = named.ok_or_else(|| missing("its form is not ctx://KIND/ID"))?;
    let (_, _, _, tool) = KINDS
        .into_iter()
        .find(|(name, ..)| *name == kind)
        .ok_or_else(|| missing("the kinds are session, turn and commit"))?;
    let params = json!({kind: decoded(id), "budget": RESOURCE_TOKENS});
    let answer = engine.tools().call(caller, tool, &params).await;
    if answer.is_error {
        return Err(missing(&answer.text));
    }
    let contents = ResourceContents::text(answer.text, uri).with_mime_type(TEXT);
    Ok(ReadResourceResult::new(vec![contents]))
}

/// A part of a URI with its percent-encoded bytes, as labels may contain `:` and `/`.
fn decoded(part: &str) -> Value {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match (first, hex.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    Value::String(String::from_utf8_lossy(&bytes).into_owned())
}
