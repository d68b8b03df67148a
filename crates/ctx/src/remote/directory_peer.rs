//! A directory that several machines share, as a peer: a synchronised folder, a mounted disk. It
//! needs no program on the other side and no lock.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use ctx_engine::ImportEffect;
use ctx_engine::core::bundle::{Excerpt, part_excerpt, part_manifest, part_turns};
use ctx_engine::core::exchange::{
    PART_BYTES, PART_MAX_BYTES, PartRequest, PathQuery, Placement, SessionHead, TaskMark,
};
use ctx_engine::core::id::{ObjectId, SessionId, TaskId, TurnId};
use ctx_engine::core::time::Timestamp;
use ctx_engine::exchange::{PartStored, Peer, PeerError};

use crate::problem::Problem;

use super::directory_files::{Files, Kind};
use super::directory_index::{Entry, FORMAT, Index, Segment};
use super::wire::MESSAGE_MAX_BYTES;
use super::{Remote, Traffic};

/// Number of parts after which an index file is written, so that a transfer that is cut off later
/// does not send them again.
const PENDING_MAX: usize = 256;
/// Size of parts in bytes after which an index file is written.
const PENDING_MAX_BYTES: usize = 32 << 20;

pub(super) struct DirectoryPeer {
    files: Arc<Files>,
    state: Arc<Mutex<State>>,
    /// Index files that this machine wrote or decrypted, in plain text. Without an identity they
    /// are all that it knows of an encrypted directory.
    cache: Option<PathBuf>,
}

#[derive(Default)]
struct State {
    index: Index,
    /// The sessions of the index, until it changes.
    rows: Option<Vec<SessionHead>>,
    /// Index files that were read.
    known: HashSet<ObjectId>,
    /// Entries whose index file is not written yet.
    pending: Vec<Entry>,
    pending_bytes: usize,
}

impl State {
    fn add(&mut self, entries: Vec<Entry>) {
        self.index.add(entries);
        self.rows = None;
    }

    fn rows(&mut self) -> &[SessionHead] {
        self.rows.get_or_insert_with(|| self.index.heads())
    }
}

/// Opens a directory remote. The directory is created by the first push.
pub(super) fn open(
    name: &str,
    remote: &Remote,
    dir: &Path,
    data: &Path,
    traffic: Arc<Traffic>,
) -> Result<DirectoryPeer, Problem> {
    let files = Files::new(dir, remote.recipients()?, remote.identities()?, traffic);
    let cache = files.is_encrypted().then(|| {
        let place = ObjectId::of(&[dir.as_os_str().as_encoded_bytes()]).to_string();
        data.join("remotes").join(format!("{name}-{}", &place[..16]))
    });
    Ok(DirectoryPeer { files: Arc::new(files), state: Arc::default(), cache })
}

impl DirectoryPeer {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the index files that are new.
    fn refresh(&self) -> Result<(), PeerError> {
        let names = self.files.index_names()?;
        let mut state = self.state();
        for name in names {
            if state.known.contains(&name) {
                continue;
            }
            let content = match self.cached(name) {
                Some(content) => Some(content),
                None => self.files.read(Kind::Index, name, MESSAGE_MAX_BYTES)?,
            };
            // A file for other recipients only.
            let Some(content) = content else { continue };
            let segment: Segment = serde_json::from_slice(&content).map_err(|error| {
                let message = format!("an index file of the remote is invalid: {error}");
                PeerError::new("remote_damaged", message)
            })?;
            if segment.format != FORMAT {
                let message = "the directory was written by a newer ctx";
                return Err(PeerError::new("remote_version", message).hint("update ctx"));
            }
            self.store_in_cache(name, &content);
            state.known.insert(name);
            state.add(segment.entries);
        }
        Ok(())
    }

    fn cached(&self, name: ObjectId) -> Option<Vec<u8>> {
        std::fs::read(self.cache.as_ref()?.join(name.to_string())).ok()
    }

    /// The cache saves time; a failure to write it is not an error where an identity exists.
    fn store_in_cache(&self, name: ObjectId, content: &[u8]) {
        use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
        let Some(dir) = &self.cache else { return };
        let path = dir.join(name.to_string());
        if path.exists() {
            return;
        }
        let write = || {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
            let new = dir.join(format!("tmp-{}", std::process::id()));
            let mut options = std::fs::OpenOptions::new();
            let mut file =
                options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
            std::io::Write::write_all(&mut file, content)?;
            std::fs::rename(new, path)
        };
        if let Err(error) = write() {
            tracing::warn!(%error, "the index of a remote was not cached");
        }
    }

    /// The next part of a session, cut out of the file that holds it.
    fn part(&self, request: &PartRequest) -> Result<Vec<u8>, PeerError> {
        let incomplete = || PeerError::protocol("the index of the remote is incomplete");
        let mut state = self.state();
        let depth = match request.after {
            Some(after) => state.index.depth(after).ok_or_else(incomplete)? as usize,
            None => 0,
        };
        let path = request.head.map(|head| state.index.path(head)).unwrap_or_default();
        let row = state.rows().iter().find(|row| row.session == request.session).cloned();
        let row = row.ok_or_else(incomplete)?;
        let next = path.get(depth).copied();
        let entry = match (next, request.tasks.first()) {
            (Some(turn), _) => state.index.entry_of_turn(turn),
            (None, Some(task)) => state.index.entry_of_task(*task),
            (None, None) => state
                .index
                .entry_of_session(request.session)
                .or_else(|| request.head.and_then(|head| state.index.entry_of_turn(head))),
        };
        let entry = entry.ok_or_else(incomplete)?;
        // The file may continue with turns of another branch.
        let of_entry: HashSet<TurnId> = entry.turns.iter().copied().collect();
        let turns: Vec<TurnId> =
            path[depth..].iter().copied().take_while(|turn| of_entry.contains(turn)).collect();
        let is_last = depth + turns.len() == path.len();
        let newest = |task: &&TaskId| {
            entry.tasks.iter().find(|mark| mark.task == **task) == state.index.task(**task)
        };
        let tasks = request.tasks.iter().filter(newest).copied();
        let excerpt = Excerpt {
            session: request.session,
            label: row.label,
            origin: row.origin,
            base: request.after,
            base_turns: depth as u64,
            turns,
            tasks: if is_last { tasks.collect() } else { Vec::new() },
        };
        let name = entry.part;
        drop(state);
        let bytes = self.files.read(Kind::Part, name, PART_MAX_BYTES)?.ok_or_else(|| {
            PeerError::new("remote_encrypted", "the remote is encrypted for other recipients")
                .hint("name the identity that reads it: `ctx remote add … --identity FILE`")
        })?;
        part_excerpt(&bytes, excerpt)
            .map_err(|bad| PeerError::new("remote_damaged", format!("a file of the remote: {bad}")))
    }

    fn store(&self, placement: &Placement, part: &[u8]) -> Result<PartStored, PeerError> {
        let bad = |bad: ctx_engine::core::bundle::BadBundle| {
            PeerError::new("bundle_damaged", bad.to_string())
        };
        let manifest = part_manifest(part).map_err(bad)?;
        let turns = part_turns(part).map_err(bad)?;
        let name = self.files.write(Kind::Part, part)?;
        let mark = |end: &ctx_engine::core::bundle::TaskEnd| TaskMark {
            task: end.task.task,
            head: end.task.staging_head,
            steps: end.task.steps,
            ended: end.ended_at.is_some(),
        };
        let label = placement.labels.first().cloned().unwrap_or_default();
        let entry = Entry {
            session: placement.session,
            label: label.clone(),
            origin: manifest.new_origin(),
            at: now(),
            base: manifest.base,
            base_turns: manifest.base_turns,
            turns,
            tasks: manifest.session.tasks.iter().map(mark).collect(),
            part: name,
        };
        let mut state = self.state();
        let is_new = state.index.entry_of_session(placement.session).is_none();
        let stored = PartStored {
            session: placement.session,
            label,
            effect: if is_new { ImportEffect::Created } else { ImportEffect::Extended },
            turns: entry.turns.len() as u64,
            tasks: entry.tasks.len(),
            tasks_left: 0,
        };
        state.add(vec![entry.clone()]);
        state.pending.push(entry);
        state.pending_bytes += part.len();
        let is_due = state.pending.len() >= PENDING_MAX || state.pending_bytes >= PENDING_MAX_BYTES;
        drop(state);
        if is_due {
            self.write_index()?;
        }
        Ok(stored)
    }

    /// Writes an index file for the parts that have none yet.
    fn write_index(&self) -> Result<(), PeerError> {
        let mut state = self.state();
        if state.pending.is_empty() {
            return Ok(());
        }
        let segment = Segment { format: FORMAT, entries: std::mem::take(&mut state.pending) };
        state.pending_bytes = 0;
        let content = serde_json::to_vec(&segment).map_err(PeerError::protocol)?;
        let name = self.files.write(Kind::Index, &content)?;
        self.store_in_cache(name, &content);
        state.known.insert(name);
        Ok(())
    }
}

fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Timestamp(since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX)))
}

#[async_trait]
impl Peer for DirectoryPeer {
    async fn heads(&self) -> Result<Vec<SessionHead>, PeerError> {
        self.refresh()?;
        Ok(self.state().rows().to_vec())
    }

    async fn paths(&self, queries: &[PathQuery]) -> Result<Vec<Vec<Option<TurnId>>>, PeerError> {
        let state = self.state();
        let answer = |query: &PathQuery| {
            let path = state.index.path(query.head);
            let turn = |depth: &u64| {
                let at = usize::try_from(*depth).ok()?.checked_sub(1)?;
                path.get(at).copied()
            };
            query.depths.iter().map(turn).collect()
        };
        Ok(queries.iter().map(answer).collect())
    }

    async fn have(&self, turns: &[TurnId]) -> Result<Vec<bool>, PeerError> {
        let state = self.state();
        Ok(turns.iter().map(|turn| state.index.has(*turn)).collect())
    }

    async fn tasks(&self, sessions: &[SessionId]) -> Result<Vec<Vec<TaskMark>>, PeerError> {
        let state = self.state();
        Ok(sessions.iter().map(|session| state.index.tasks_of(*session)).collect())
    }

    async fn task_marks(&self, tasks: &[TaskId]) -> Result<Vec<Option<TaskMark>>, PeerError> {
        let state = self.state();
        Ok(tasks.iter().map(|task| state.index.task(*task).cloned()).collect())
    }

    async fn read(&self, requests: &[PartRequest]) -> Result<Vec<Vec<u8>>, PeerError> {
        let (mut parts, mut bytes) = (Vec::new(), 0);
        for request in requests {
            let part = self.part(request)?;
            bytes += part.len();
            parts.push(part);
            if bytes > PART_BYTES {
                break;
            }
        }
        Ok(parts)
    }

    async fn write(
        &self,
        parts: &[(Placement, Vec<u8>)],
    ) -> Result<Vec<Result<PartStored, PeerError>>, PeerError> {
        Ok(parts.iter().map(|(placement, part)| self.store(placement, part)).collect())
    }

    async fn finish(&self) -> Result<(), PeerError> {
        self.files.delete_old_temporaries();
        self.write_index()
    }
}
