//! What a provider is given: the persona, as much of the history as fits, the open turn.

use std::collections::BTreeMap;
use std::sync::Arc;

use ctx_core::agent_session::Ancestor;
use ctx_core::content::Content;
use ctx_core::decide::{Opened, said};
use ctx_core::draft::Draft;
use ctx_core::id::{BlobId, TurnId};
use ctx_core::message::{Message, Part};
use ctx_core::object::Kind;
use ctx_core::project::{Past, Pictures, described, project};
use ctx_core::session::Session;
use ctx_core::turn::{Body, messages};
use ctx_store::{Error as StoreError, StoredTurn};

use crate::engine::{Engine, Error};
use crate::provider::{About, Own, Request};
use crate::tools;

/// How many turns one read takes.
const PAGE: usize = 64;
/// How much of a large tool result a model is shown.
const RESULT_MAX_BYTES: usize = 64 * 1024;
/// The most bytes of pictures in one request: the newest are shown, the others described. Coded as text they still fit into
/// what every API takes.
const IMAGES_MAX_BYTES: usize = 20 * 1024 * 1024;
/// A rough count: text has about so many bytes a token.
const BYTES_PER_TOKEN: usize = 4;
/// How much of the window the history may fill, in percent.
const HISTORY_PERCENT: usize = 85;

/// Puts a request together. Its cost follows what is sent, not the length of the history.
pub(crate) async fn assemble(engine: &Engine, session: &Session, opened: &Opened, draft: &Draft, about: &About) -> Result<Request, Error> {
    let provider_id = &opened.run.provider_id;
    let window = usize::try_from(about.context_window).unwrap_or(usize::MAX);
    let budget = window.saturating_mul(BYTES_PER_TOKEN) / 100 * HISTORY_PERCENT;
    let history = past(engine, opened.head, budget).await?;
    let pictures = if about.can.images { Pictures::Shown } else { Pictures::Described };
    let mut messages = Vec::new();
    // Where each turn begins among the messages.
    let mut starts = Vec::with_capacity(history.turns.len());
    for (_, past) in &history.turns {
        starts.push(messages.len());
        messages.extend(project(std::slice::from_ref(past), provider_id, pictures));
    }
    let open = messages.len();
    let now = opened.items.iter().map(said).chain(draft.messages.iter().cloned()).collect();
    messages.extend(project(&[Past { provider_id: Some(provider_id.clone()), messages: now }], provider_id, pictures));
    for message in &mut messages {
        show_results(engine, message).await?;
    }
    let images = show_images(engine, &mut messages).await?;
    let own = match about.agent {
        Some(_) => own(engine, session, provider_id, &history, &starts, open).await?,
        None => None,
    };
    let mut offered = opened.run.tools.clone();
    if session.track_tasks && (about.can.tools || about.can.mcp) {
        offered.extend(tools::own());
    }
    let persona = session.persona.as_ref().and_then(|name| engine.hub().providers.personas.get(name));
    Ok(Request {
        session: session.id,
        run: opened.run.id,
        working_dir: session.working_dir.clone(),
        model: opened.run.model.clone().or_else(|| about.model.clone()),
        system: persona.map(|persona| persona.system_prompt.clone()),
        messages,
        images,
        tools: offered,
        options: session.options.clone(),
        resumes: opened.resumes.clone(),
        open,
        own,
    })
}

/// The agent's own conversation, if it leads to this history.
async fn own(
    engine: &Engine,
    session: &Session,
    provider_id: &str,
    history: &History,
    starts: &[usize],
    open: usize,
) -> Result<Option<Own>, Error> {
    let host = &engine.hub().host;
    let Some(row) = engine.store().agent_session(session.id, provider_id, host).await? else { return Ok(None) };
    let ancestor = |(id, past): &(TurnId, Past)| Ancestor { id: *id, provider_id: past.provider_id.clone() };
    let newest_first: Vec<Ancestor> = history.turns.iter().rev().map(ancestor).collect();
    let unseen = row.unseen(host, session.working_dir.as_deref(), &newest_first, history.whole);
    Ok(unseen.map(|unseen| {
        let count = starts.len();
        let begin = |turn: usize| starts.get(turn).copied().unwrap_or(open);
        let cut = unseen.cut.map(|from_newest| begin(count - 1 - from_newest)..begin(count - from_newest));
        Own { id: row.id, unseen: begin(count - unseen.turns), clean: row.clean, cut }
    }))
}

/// What was read of the history, oldest first.
struct History {
    turns: Vec<(TurnId, Past)>,
    /// Whether it reaches back to the first turn.
    whole: bool,
}

/// The newest turns that fit.
async fn past(engine: &Engine, head: Option<TurnId>, budget: usize) -> Result<History, Error> {
    let (mut at, mut left, mut history) = (head, budget, History { turns: Vec::new(), whole: true });
    'pages: while let Some(head) = at {
        let turns = engine.store().turns(head, PAGE).await?;
        at = None;
        for turn in turns {
            let size = turn.body.as_ref().map_or(0, |body| body.bytes.len());
            if size > left {
                history.whole = false;
                break 'pages;
            }
            left -= size;
            at = turn.header.parent;
            let provider_id = turn.header.provider_id.clone();
            history.turns.push((turn.id, Past { provider_id, messages: words_of(turn)? }));
        }
    }
    history.turns.reverse();
    Ok(history)
}

/// The messages of a stored turn; none where its words were purged.
pub(crate) fn words_of(turn: StoredTurn) -> Result<Vec<Message>, Error> {
    let Some(body) = turn.body else { return Ok(Vec::new()) };
    let words: Body = body.decode().map_err(|fault| StoreError::DamagedObject { id: body.id(), why: fault.to_string() })?;
    Ok(messages(&turn.header, words))
}

/// Results that are kept as blobs become text again, clipped.
async fn show_results(engine: &Engine, message: &mut Message) -> Result<(), Error> {
    for part in &mut message.content {
        let Part::ToolResult { content, .. } = part else { continue };
        let text = match content {
            Content::Text(_) => continue,
            Content::Blob { blob, .. } => {
                let object = engine.store().object(blob.0).await?;
                object.map(|object| String::from_utf8_lossy(&object.bytes).into_owned())
            }
            Content::Omitted { .. } => None,
        };
        *content = Content::Text(clip(text.unwrap_or_else(|| "[this result is not kept]".to_owned())));
    }
    Ok(())
}

/// Reads the pictures, newest first; what is not kept or does not fit any more is described.
async fn show_images(engine: &Engine, messages: &mut [Message]) -> Result<BTreeMap<BlobId, Arc<Vec<u8>>>, Error> {
    let (mut images, mut left) = (BTreeMap::new(), IMAGES_MAX_BYTES);
    for part in messages.iter_mut().rev().flat_map(|message| message.content.iter_mut().rev()) {
        let Part::Image { media_type, blob, .. } = part else { continue };
        if images.contains_key(blob) {
            continue;
        }
        let object = engine.store().object(blob.0).await?.filter(|object| object.kind == Kind::Blob && object.bytes.len() <= left);
        match object {
            Some(object) => {
                left -= object.bytes.len();
                images.insert(*blob, Arc::new(object.bytes));
            }
            None => *part = Part::Text { text: described(media_type) },
        }
    }
    Ok(images)
}

fn clip(mut text: String) -> String {
    if text.len() > RESULT_MAX_BYTES {
        let whole = text.len();
        let mut end = RESULT_MAX_BYTES;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str(&format!("\n[clipped: {whole} bytes in all]"));
    }
    text
}
