//! Which conversation wrote a line of a file: the recorded versions of the file, from the steps of
//! tasks and from the tool calls of imported sessions, compared with the file.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use ctx_core::blame::{FILE_MAX_BYTES, FileChange, FileHistory};
use ctx_core::file_edits::{Edit, FileEdit, file_edits};
use ctx_core::id::{CommitId, SessionId, TaskId, TurnId};
use ctx_core::message::{Part, ToolStatus};
use ctx_core::session::Origin;
use ctx_core::step::{Entry, Step};
use ctx_core::stored_content::Content;
use ctx_core::task::Task;
use ctx_core::time::Timestamp;
use ctx_store::{Error as StoreError, StoredTurn, TurnQuery};

use crate::engine::{Engine, Error};
use crate::records::Records;
use crate::sessions::Info;

/// Newest steps of a file that are compared.
const STEPS_MAX: usize = 2_000;
/// Imported sessions of a directory whose tool calls are searched.
const SESSIONS_MAX: usize = 200;
/// Turns of an imported session whose tool calls are searched.
const TURNS_MAX: usize = 5_000;
/// Bytes of turns that one read returns.
const TURNS_MAX_BYTES: usize = 64 << 20;
/// Directories above a file in which sessions are searched.
const ABOVE_MAX: usize = 24;
/// How long after the end of a turn its last step may be stored, in milliseconds.
const TURN_SLACK_MS: i64 = 10_000;

/// Where a line comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct LineOrigin {
    pub session: SessionId,
    /// `None` if the session was deleted.
    pub session_label: Option<String>,
    /// The turn in which the line was written, if it is known.
    pub turn: Option<TurnId>,
    pub task: Option<TaskId>,
    /// The commit of the task, if it is sealed.
    pub commit: Option<CommitId>,
    pub at: Timestamp,
    pub provider_id: Option<String>,
    pub model: Option<String>,
}

/// The origins of the lines of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Blame {
    /// One entry per line; `None` if nothing is recorded about it.
    pub lines: Vec<Option<LineOrigin>>,
    /// Number of recorded changes that were compared.
    pub changes: usize,
}

/// A recorded change of the file, before its text is read.
struct Found {
    at: Timestamp,
    change: FoundChange,
    origin: Option<usize>,
}

enum FoundChange {
    Whole(Content),
    Edit(Edit),
    Deleted,
}

impl Records<'_> {
    /// Finds the origin of each line of a file. `file` is its absolute path, `root` the directory
    /// that recorded paths are relative to.
    ///
    /// Fails if the store fails.
    pub async fn blame(self, file: &Path, root: &Path, text: &str) -> Result<Blame, Error> {
        let mut search = Search::new(self.engine, file, root);
        search.steps().await?;
        search.tool_calls().await?;
        search.blame(text).await
    }
}

struct Search<'a> {
    engine: &'a Engine,
    file: &'a Path,
    root: &'a Path,
    found: Vec<Found>,
    origins: Vec<LineOrigin>,
    sessions: HashMap<SessionId, Option<Info>>,
    tasks: HashMap<TaskId, Option<Task>>,
}

impl<'a> Search<'a> {
    fn new(engine: &'a Engine, file: &'a Path, root: &'a Path) -> Self {
        Self {
            engine,
            file,
            root,
            found: Vec::new(),
            origins: Vec::new(),
            sessions: HashMap::new(),
            tasks: HashMap::new(),
        }
    }

    async fn session(&mut self, id: SessionId) -> Result<Option<Info>, Error> {
        if let Some(known) = self.sessions.get(&id) {
            return Ok(known.clone());
        }
        let found = self.engine.sessions().get(&id.to_string()).await.ok();
        self.sessions.insert(id, found.clone());
        Ok(found)
    }

    async fn task(&mut self, id: TaskId) -> Result<Option<Task>, Error> {
        if let Some(known) = self.tasks.get(&id) {
            return Ok(known.clone());
        }
        let found = self.engine.store().task(id).await?;
        self.tasks.insert(id, found.clone());
        Ok(found)
    }

    /// Whether a path that was recorded in a session is the file. Paths of a session that works
    /// outside the root are not relative to it.
    fn is_file(&self, path: &str, dir: Option<&str>) -> bool {
        let (path, dir) = (Path::new(path), dir.map(Path::new));
        let is = |base: &Path| normal(&base.join(path)) == self.file;
        dir.is_some_and(is) || dir.is_none_or(|dir| dir.starts_with(self.root)) && is(self.root)
    }

    /// Reads what the steps of tasks recorded.
    async fn steps(&mut self) -> Result<(), Error> {
        let Some(name) = self.file.file_name().and_then(|name| name.to_str()) else {
            return Ok(());
        };
        for stored in self.engine.store().file_steps(name, Timestamp(i64::MAX), STEPS_MAX).await? {
            let step = stored.step;
            let session = self.session(step.session).await?;
            let dir = session.as_ref().and_then(|info| info.session.working_dir.clone());
            let mut origin = None;
            // Newest first: the order is reversed below.
            for entry in step.payload.iter().rev() {
                let (path, content, is_write) = match entry {
                    Entry::FileWrite { path, content } => (path, content.clone(), true),
                    Entry::FileRead { path, content } => (path, Some(content.clone()), false),
                    _ => continue,
                };
                if !self.is_file(path, dir.as_deref()) {
                    continue;
                }
                if is_write && origin.is_none() {
                    origin = Some(self.origin_of_step(&step, session.as_ref()).await?);
                }
                let change = content.map_or(FoundChange::Deleted, FoundChange::Whole);
                let origin = origin.filter(|_| is_write);
                self.found.push(Found { at: step.timestamp, change, origin });
            }
        }
        self.found.reverse();
        Ok(())
    }

    async fn origin_of_step(&mut self, step: &Step, info: Option<&Info>) -> Result<usize, Error> {
        let task = self.task(step.task).await?;
        let turn = match info {
            Some(info) => turn_at(self.engine, info, step.timestamp).await?,
            None => None,
        };
        let header = turn.as_ref().map(|turn| &turn.header);
        self.origins.push(LineOrigin {
            session: step.session,
            session_label: info.map(|info| info.session.label.clone()),
            turn: turn.as_ref().map(|turn| turn.id),
            task: Some(step.task),
            commit: task.and_then(|task| task.commit),
            at: step.timestamp,
            provider_id: header.and_then(|header| header.provider_id.clone()),
            model: header.and_then(|header| header.model.clone()),
        });
        Ok(self.origins.len() - 1)
    }

    /// Reads what the tool calls of imported sessions wrote. Sessions that ctx runs have steps.
    async fn tool_calls(&mut self) -> Result<(), Error> {
        let mut sessions = Vec::new();
        for dir in self.file.ancestors().skip(1).take(ABOVE_MAX).filter_map(Path::to_str) {
            let left = SESSIONS_MAX.saturating_sub(sessions.len());
            for info in self.engine.sessions().in_directory(dir, left).await? {
                if matches!(info.session.origin, Origin::Import | Origin::Subagent) {
                    sessions.push(info);
                }
            }
        }
        for info in sessions {
            self.edits_of(&info).await?;
        }
        self.found.sort_by_key(|found| found.at);
        Ok(())
    }

    async fn edits_of(&mut self, info: &Info) -> Result<(), Error> {
        let session = &info.session;
        let Some(head) = session.head else { return Ok(()) };
        let query = TurnQuery {
            max_bytes: TURNS_MAX_BYTES,
            max_messages: usize::MAX,
            ..TurnQuery::newest(head, TURNS_MAX)
        };
        let turns = self.engine.store().map_turns(query, turn_edits).await?;
        for TurnEdits { turn, provider_id, model, edits } in turns.into_iter().rev() {
            for (at, edit) in edits {
                if !self.is_file(&edit.path, session.working_dir.as_deref()) {
                    continue;
                }
                self.origins.push(LineOrigin {
                    session: session.id,
                    session_label: Some(session.label.clone()),
                    turn: Some(turn),
                    task: None,
                    commit: None,
                    at,
                    provider_id: provider_id.clone(),
                    model: model.clone(),
                });
                let origin = Some(self.origins.len() - 1);
                self.found.push(Found { at, change: FoundChange::Edit(edit.edit), origin });
            }
        }
        Ok(())
    }

    async fn blame(self, text: &str) -> Result<Blame, Error> {
        // One version is in memory at a time.
        let (mut history, mut changes) = (FileHistory::default(), 0);
        for Found { change, origin, .. } in self.found {
            if let Some(change) = file_change(self.engine, change, origin).await? {
                history.apply(&change);
                changes += 1;
            }
        }
        let origin = |number: Option<usize>| number.map(|number| self.origins[number].clone());
        let lines = history.compare(text).into_iter().map(origin).collect();
        Ok(Blame { lines, changes })
    }
}

async fn file_change(
    engine: &Engine,
    change: FoundChange,
    origin: Option<usize>,
) -> Result<Option<FileChange>, Error> {
    Ok(match (change, origin) {
        (FoundChange::Whole(content), origin) => {
            let text = text_of(engine, &content).await?;
            text.map(|text| match origin {
                Some(origin) => FileChange::Written { text, origin },
                None => FileChange::Seen { text },
            })
        }
        (FoundChange::Edit(Edit::Whole { text }), Some(origin)) => {
            Some(FileChange::Written { text, origin })
        }
        (FoundChange::Edit(Edit::Part { before, after }), Some(origin)) => {
            Some(FileChange::Edited { before, after, origin })
        }
        (FoundChange::Deleted | FoundChange::Edit(Edit::Delete), _) => Some(FileChange::Deleted),
        (FoundChange::Edit(_), None) => None,
    })
}

/// The text of a recorded version; `None` if it is not stored, not text or too large.
pub(crate) async fn text_of(engine: &Engine, content: &Content) -> Result<Option<String>, Error> {
    Ok(match content {
        Content::Text(text) => Some(text.clone()),
        Content::Blob { blob, bytes } if *bytes <= FILE_MAX_BYTES as u64 => {
            let object = engine.store().object(blob.0).await?;
            object.and_then(|object| String::from_utf8(object.bytes).ok())
        }
        Content::Blob { .. } | Content::Omitted { .. } => None,
    })
}

struct TurnEdits {
    turn: TurnId,
    provider_id: Option<String>,
    model: Option<String>,
    edits: Vec<(Timestamp, FileEdit)>,
}

/// The edits of the tool calls of a turn that did not fail.
fn turn_edits(turn: StoredTurn) -> Result<TurnEdits, StoreError> {
    let mut edits = Vec::new();
    // Most turns write no file: their bodies are not decoded.
    if !turn.header.tool_calls.is_empty() {
        for message in turn.messages()?.unwrap_or_default() {
            for part in &message.content {
                if let Part::ToolCall { name, params, status, .. } = part
                    && *status != ToolStatus::Failed
                {
                    let found = file_edits(name, params).into_iter();
                    edits.extend(found.map(|edit| (message.created_at, edit)));
                }
            }
        }
    }
    let (provider_id, model) = (turn.header.provider_id, turn.header.model);
    Ok(TurnEdits { turn: turn.id, provider_id, model, edits })
}

/// The turn of a session that was open at a time, by binary search: turns follow each other.
async fn turn_at(engine: &Engine, info: &Info, at: Timestamp) -> Result<Option<StoredTurn>, Error> {
    let Some(head) = info.session.head else { return Ok(None) };
    let (mut low, mut high) = (0, info.session.turn_count);
    let mut found = None;
    while low < high {
        let depth = low + (high - low).div_ceil(2);
        let query = TurnQuery { from_depth: Some(depth), ..TurnQuery::newest(head, 1) };
        let Some(turn) = engine.store().turns(query).await?.pop() else { break };
        if turn.header.started_at <= at {
            low = depth;
            found = Some(turn);
        } else {
            high = depth - 1;
        }
    }
    Ok(found.filter(|turn| at.0 <= turn.header.ended_at.0.saturating_add(TURN_SLACK_MS)))
}

/// A path without `.` and `..`.
pub(crate) fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            part => normal.push(part),
        }
    }
    normal
}
