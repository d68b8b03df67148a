//! Builds the request for a provider: persona, project instructions, the summary of the newest
//! compaction, pinned turns, kept turns, and the open turn. The cost depends on what is sent, not
//! on the length of the history.

use std::collections::HashSet;

use std::collections::BTreeMap;
use std::sync::Arc;

use ctx_core::agent_session::{AgentSession, Ancestor};
use ctx_core::compaction::{Command, Compaction};
use ctx_core::decide::{Needs, OpenedRun, item_message};
use ctx_core::draft::Draft;
use ctx_core::id::{BlobId, SessionId, TurnId};
use ctx_core::inbox::Tool;
use ctx_core::message::{Message, Part, Role};
use ctx_core::object::Kind as ObjectKind;
use ctx_core::projection::{ImageHandling, PastTurn, Projection, described, project};
use ctx_core::routing::OTHER_SESSIONS_MAX;
use ctx_core::session::Session;
use ctx_core::stored_content::Content;
#[cfg(test)]
use ctx_core::time::Timestamp;
use ctx_core::turn::{self, Kind, Status, Usage, is_with_ctx_only};
use ctx_core::worker;
use ctx_store::{StoredTurn, Target};

use crate::engine::{Engine, Error};
use crate::instructions;
use crate::provider::{About, AgentSessionState, Request};
use crate::tools;

/// Most bytes of one tool result that are sent.
const RESULT_MAX_BYTES: usize = 64 * 1024;
/// Most bytes of tool results that are read from blobs for one request. The newest are sent, the
/// others are described.
pub(crate) const RESULTS_MAX_BYTES: usize = 16 << 20;
/// Most bytes of images in one request. The newest are sent, the others are described. Encoded as
/// base64 they stay below the limits of all supported APIs.
const IMAGES_MAX_BYTES: usize = 20 * 1024 * 1024;
/// Most bytes of history that are read for one request. Older turns exceed what a model with a
/// window of a million tokens reads for a summary.
pub(crate) const HISTORY_MAX_BYTES: usize = 32 << 20;

/// Memory of a turn besides its messages.
const TURN_OVERHEAD_BYTES: usize = 1024;

/// A request, and what it was built from.
pub(crate) struct Assembled {
    /// The provider that the request is for.
    pub(crate) provider_id: String,
    pub(crate) request: Request,
    pub(crate) history: Arc<History>,
    /// The index in the messages at which each turn of the history starts.
    pub(crate) starts: Vec<usize>,
}

/// The part of the history that was read, oldest first.
#[derive(Clone)]
pub(crate) struct History {
    /// From the first turn that the newest compaction keeps, including that compaction.
    pub(crate) turns: Vec<Arc<Turn>>,
    /// The index of that compaction in `turns`.
    pub(crate) compaction: Option<usize>,
    /// Pinned turns that are older than `turns`.
    pub(crate) pinned: Vec<Arc<Turn>>,
    /// All pinned turns.
    pub(crate) pins: HashSet<TurnId>,
    /// Whether `turns` starts with the first turn of the session.
    pub(crate) whole: bool,
}

/// A turn of the history.
pub(crate) struct Turn {
    pub(crate) id: TurnId,
    pub(crate) kind: Kind,
    pub(crate) provider_id: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) usage: Option<Usage>,
    pub(crate) compaction: Option<Compaction>,
    /// The part of the turn that is sent to a provider; none for a compaction.
    past: Option<PastTurn>,
    /// The summary, for a compaction.
    summary: Option<Message>,
    /// Size of its messages in bytes.
    bytes: usize,
}

impl Turn {
    fn of(turn: StoredTurn) -> Result<Self, Error> {
        let about = turn::About {
            kind: turn.header.kind,
            status: turn.header.status,
            provider_id: turn.header.provider_id.clone(),
            model: turn.header.model.clone(),
            usage: turn.header.usage.clone(),
            started_at: turn.header.started_at,
            ended_at: turn.header.ended_at,
        };
        let (id, compaction) = (turn.id, turn.compaction.clone());
        let bytes = turn.body.as_ref().map_or(0, |body| body.bytes.len());
        Ok(Self::new(id, about, compaction, messages_of(turn)?, bytes))
    }

    /// A turn whose messages are encoded in `bytes` bytes.
    pub(crate) fn new(
        id: TurnId,
        about: turn::About,
        compaction: Option<Compaction>,
        mut messages: Vec<Message>,
        bytes: usize,
    ) -> Self {
        let turn::About { kind, status, provider_id, model, usage, .. } = about;
        let (mut past, mut summary) = (None, None);
        if kind == Kind::Compaction {
            let is_summary = |part: &Part| matches!(part, Part::Summary { .. });
            summary = messages.into_iter().find(|message| message.content.iter().any(is_summary));
            if let Some(summary) = &mut summary {
                summary.content.retain(is_summary);
            }
        } else if !is_with_ctx_only(provider_id.as_deref(), &messages) {
            messages.retain(|message| !is_command(message));
            past = Some(PastTurn { provider_id: provider_id.clone(), status, messages });
        }
        Self { id, kind, provider_id, model, usage, compaction, past, summary, bytes }
    }

    /// The turn as it is sent to a provider, without its neighbours.
    pub(crate) fn projected(&self, provider_id: &str) -> Vec<Message> {
        let past = self.past.as_ref();
        past.map(|past| project(std::slice::from_ref(past), provider_id, ImageHandling::Describe))
            .unwrap_or_default()
    }
}

/// A `/compact` command is not part of the conversation.
fn is_command(message: &Message) -> bool {
    message.role == Role::User
        && message
            .content
            .iter()
            .find_map(Part::searchable_text)
            .is_some_and(|text| Command::of(text).is_some())
}

impl History {
    fn empty() -> Self {
        Self {
            turns: Vec::new(),
            compaction: None,
            pinned: Vec::new(),
            pins: HashSet::new(),
            whole: true,
        }
    }

    /// Reads the history that a request needs.
    pub(crate) async fn read(
        engine: &Engine,
        session: SessionId,
        head: Option<TurnId>,
    ) -> Result<Self, Error> {
        let Some(head) = head else { return Ok(Self::empty()) };
        let found = engine.store().context(session, head, HISTORY_MAX_BYTES).await?;
        let whole = found.turns.last().is_some_and(|turn| turn.header.parent.is_none());
        // The store counts from the head, a request from the oldest turn.
        let compaction = found.compaction.map(|from_head| found.turns.len() - 1 - from_head);
        let turn = |turn| Turn::of(turn).map(Arc::new);
        let turns = found.turns.into_iter().rev().map(turn).collect::<Result<_, _>>()?;
        let pinned = found.pinned.into_iter().map(turn).collect::<Result<_, _>>()?;
        let pins = found.pins.iter().map(|pin| pin.turn).collect();
        Ok(Self { turns, compaction, pinned, pins, whole })
    }

    /// The summary of the newest compaction, as the first message of a request.
    pub(crate) fn summary(&self) -> Option<Message> {
        self.turns[self.compaction?].summary.clone()
    }

    /// Size in memory in bytes, approximately.
    pub(crate) fn bytes(&self) -> usize {
        let turns = self.turns.iter().chain(&self.pinned);
        turns.map(|turn| turn.bytes + TURN_OVERHEAD_BYTES).sum()
    }

    #[cfg(test)]
    pub(crate) fn of_bytes(bytes: usize) -> Self {
        let about = turn::About {
            kind: Kind::Normal,
            status: Status::Completed,
            provider_id: None,
            model: None,
            usage: None,
            started_at: Timestamp(0),
            ended_at: Timestamp(0),
        };
        let id = TurnId(ctx_core::id::ObjectId::from_bytes([0; 32]));
        let bytes = bytes.saturating_sub(TURN_OVERHEAD_BYTES);
        let turn = Turn::new(id, about, None, Vec::new(), bytes);
        Self { turns: vec![Arc::new(turn)], ..Self::empty() }
    }
}

/// Builds a request.
pub(crate) async fn assemble(
    engine: &Engine,
    session: &Session,
    opened_run: &OpenedRun,
    history: Arc<History>,
    draft: &Draft,
    about: &About,
) -> Result<Assembled, Error> {
    let provider_id = &opened_run.run.provider_id;
    let pictures = if about.can.images { ImageHandling::Include } else { ImageHandling::Describe };
    let mut projection = Projection::new(provider_id, pictures);
    if let Some(summary) = history.summary() {
        let (status, messages) = (Status::Completed, vec![summary]);
        projection.turn(&PastTurn { provider_id: None, status, messages });
    }
    let past = |turn: &Arc<Turn>, projection: &mut Projection| {
        if let Some(past) = &turn.past {
            projection.turn(past);
        }
    };
    history.pinned.iter().for_each(|turn| past(turn, &mut projection));
    let mut starts = Vec::with_capacity(history.turns.len());
    for turn in &history.turns {
        starts.push(projection.len());
        past(turn, &mut projection);
    }
    let open = projection.len();
    let now: Vec<Message> =
        opened_run.items.iter().map(item_message).chain(draft.messages.iter().cloned()).collect();
    projection.open_turn(&now);
    let mut messages = projection.finish();
    let mut room = RESULTS_MAX_BYTES;
    for message in messages.iter_mut().rev() {
        show_results(engine, message, &mut room).await?;
    }
    let images = show_images(engine, &mut messages).await?;
    let own = match about.agent {
        Some(_) => own(engine, session, provider_id, &history, &starts, open).await?,
        None => None,
    };
    let mut offered: Vec<Arc<Tool>> = opened_run.run.tools.iter().cloned().map(Arc::new).collect();
    if about.can.tools || about.can.mcp {
        let own = tools::offered(engine, session, about.can.mcp).await?;
        offered.extend(
            own.into_iter()
                .filter(|tool| opened_run.run.tools.iter().all(|client| client.name != tool.name)),
        );
    }
    offered.retain(|tool| opened_run.run.permits(&tool.name));
    let request = Request {
        session: session.id,
        run: opened_run.run.id,
        working_dir: session.working_dir.clone(),
        model: opened_run.run.model.clone().or_else(|| about.model.clone()),
        system: system(engine, session, opened_run, about).await?,
        messages,
        images,
        tools: offered,
        options: session.options.clone(),
        resumes: opened_run.resumes.clone(),
        open,
        own,
        tool_rights: opened_run.run.tool_rights.clone(),
    };
    Ok(Assembled { provider_id: provider_id.clone(), request, history, starts })
}

/// The system prompt: the client's instructions, the persona, or the task of a worker, and the
/// project's instructions.
async fn system(
    engine: &Engine,
    session: &Session,
    opened_run: &OpenedRun,
    about: &About,
) -> Result<Option<String>, Error> {
    let persona = session
        .persona
        .as_ref()
        .and_then(|name| engine.shared().providers().personas.get(name).cloned());
    let persona = persona.map(|persona| persona.system_prompt);
    let worker = if session.is_worker() {
        // A worker gets its task, and not its manager's persona (R187).
        let view = engine.store().view(&Target::Id(session.id), Needs::WORK).await?;
        let task = view.and_then(|view| view.task).map(|task| task.description);
        Some(worker::prompt(task.as_deref()))
    } else {
        None
    };
    let project = match &session.working_dir {
        Some(dir) if about.agent.is_none() => instructions::read(dir).await,
        _ => None,
    };
    let others = other_sessions(engine, session, opened_run.entity_sessions.as_ref()).await?;
    let client = opened_run.items.last().and_then(|item| item.overrides.instructions.clone());
    let parts = client.into_iter().chain(persona).chain(worker).chain(project).chain(others);
    let parts: Vec<String> = parts.collect();
    Ok((!parts.is_empty()).then(|| parts.join("\n\n")))
}

/// The other conversations with the person of this session (R141).
async fn other_sessions(
    engine: &Engine,
    session: &Session,
    known: Option<&Vec<String>>,
) -> Result<Option<String>, Error> {
    let Some(entity) = session.routing.entity else { return Ok(None) };
    let read;
    let labels = match known {
        Some(known) => known,
        None => {
            read = engine.store().entity_sessions(entity, OTHER_SESSIONS_MAX + 1).await?;
            &read
        }
    };
    let others = labels.iter().filter(|label| **label != session.label);
    let names: String = others.map(|label| format!("\n- {label}")).collect();
    if names.is_empty() {
        return Ok(None);
    }
    Ok(Some(format!("There are other conversations with this person, which ctx keeps:{names}")))
}

/// The agent's own session, if it is known which part of this history it has seen.
async fn own(
    engine: &Engine,
    session: &Session,
    provider_id: &str,
    history: &History,
    starts: &[usize],
    open: usize,
) -> Result<Option<AgentSessionState>, Error> {
    let host = &engine.shared().host;
    let Some(row) = agent_session(engine, session.id, provider_id).await? else {
        return Ok(None);
    };
    let ancestor = |turn: &Arc<Turn>| Ancestor {
        id: turn.id,
        provider_id: turn.provider_id.clone().filter(|_| turn.kind == Kind::Normal),
    };
    let newest_first: Vec<Ancestor> = history.turns.iter().rev().map(ancestor).collect();
    let unseen =
        row.unseen_turns(host, session.working_dir.as_deref(), &newest_first, history.whole);
    Ok(unseen.map(|unseen| {
        let count = starts.len();
        let begin = |turn: usize| starts.get(turn).copied().unwrap_or(open);
        let cut = unseen
            .cut
            .map(|from_newest| begin(count - 1 - from_newest)..begin(count - from_newest));
        AgentSessionState { id: row.id, unseen: begin(count - unseen.turns), clean: row.clean, cut }
    }))
}

/// The messages of a stored turn; empty where the body was purged.
pub(crate) fn messages_of(turn: StoredTurn) -> Result<Vec<Message>, Error> {
    Ok(turn.messages()?.unwrap_or_default())
}

/// Replaces tool results that are stored as blobs by their text, up to the limit of each and to
/// `room` bytes in all. Callers start with the newest message.
pub(crate) async fn show_results(
    engine: &Engine,
    message: &mut Message,
    room: &mut usize,
) -> Result<(), Error> {
    for part in message.content.iter_mut().rev() {
        let Part::ToolResult { content, .. } = part else { continue };
        let text = match content {
            Content::Text(_) => continue,
            Content::Blob { bytes, .. } if sent_bytes(*bytes) > *room => {
                *room = 0;
                Some(format!("[this old result is not sent: {bytes} bytes]"))
            }
            Content::Blob { blob, bytes } => {
                *room -= sent_bytes(*bytes);
                let object = engine.store().object(blob.0).await?;
                object.map(|object| String::from_utf8_lossy(&object.bytes).into_owned())
            }
            Content::Omitted { .. } => None,
        };
        *content =
            Content::Text(clip(text.unwrap_or_else(|| "[this result is not stored]".to_owned())));
    }
    Ok(())
}

/// The part of a result's size that is sent.
fn sent_bytes(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX).min(RESULT_MAX_BYTES)
}

/// Reads the images, newest first. An image that is missing or exceeds the limit is described
/// instead.
async fn show_images(
    engine: &Engine,
    messages: &mut [Message],
) -> Result<BTreeMap<BlobId, Arc<Vec<u8>>>, Error> {
    let (mut images, mut left) = (BTreeMap::new(), IMAGES_MAX_BYTES);
    for part in messages.iter_mut().rev().flat_map(|message| message.content.iter_mut().rev()) {
        let Part::Image { media_type, blob, .. } = part else { continue };
        if images.contains_key(blob) {
            continue;
        }
        let object = engine
            .store()
            .object(blob.0)
            .await?
            .filter(|object| object.kind == ObjectKind::Blob && object.bytes.len() <= left);
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

/// The session that a provider's agent keeps on this host for a ctx session.
pub(crate) async fn agent_session(
    engine: &Engine,
    session: SessionId,
    provider_id: &str,
) -> Result<Option<AgentSession>, Error> {
    let key = (provider_id.to_owned(), engine.shared().host.clone());
    let needs = Needs { agent_session: Some(key), ..Needs::NOTHING };
    let view = engine.store().view(&Target::Id(session), needs).await?;
    Ok(view.and_then(|view| view.agent_session))
}
