//! Bundles: an exported task or session with every object it reaches, in one file.
//!
//! ```text
//! ctx-bundle 1\n
//! manifest LEN\n  canonical JSON  \n
//! KIND VERSION LEN ID\n  bytes  \n      (any number)
//! end HASH\n                            (BLAKE3 of everything before this line)
//! ```
//! Import checks the closing hash, then the hash of every object, then that the steps form one
//! unbroken chain to the head. A bundle that fails a check is rejected as a whole.

mod part;
mod redacted;
mod session;

pub use part::{Excerpt, SessionPart, part_excerpt, part_import, part_manifest, part_turns};
pub use redacted::redact;
pub use session::{
    SessionBundle, SessionImport, TaskEnd, TaskImport, alternative_labels, session_import,
};

use serde::{Deserialize, Serialize};

use crate::canonical;
use crate::decide::{Import, StepRecord};
use crate::id::{CommitId, ObjectId, SessionId, StepId, TaskId, TurnId};
use crate::object::{Kind, Object, ObjectError};
use crate::step::{Entry, Step};
use crate::task::{Progress, State, Task};
use crate::time::Timestamp;

/// Maximum size of a task bundle.
pub const BUNDLE_MAX_BYTES: usize = 1 << 30;
/// Maximum size of a session bundle. An import holds it in memory and stores it in one transaction.
pub const SESSION_MAX_BYTES: usize = 256 << 20;

const MAGIC: &[u8] = b"ctx-bundle 1\n";
const MAGIC_ANY: &[u8] = b"ctx-bundle ";
/// Digits of an id.
const ID_LEN: usize = 64;
/// Size of the closing line in bytes.
pub const END_LEN: usize = "end \n".len() + ID_LEN;

/// The manifest of an exported task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct TaskBundle {
    /// The id of the task. It is the same in every store.
    pub task: TaskId,
    pub task_description: String,
    pub state: State,
    /// The newest step.
    pub staging_head: StepId,
    /// Number of steps.
    pub steps: u64,
    /// The newest commit of the project when the task was started.
    pub base: Option<CommitId>,
    /// The progress as text for the user.
    pub progress_summary: String,
    pub progress: Progress,
    pub started_at: Timestamp,
    /// When the newest step was stored.
    pub last_activity: Timestamp,
}

impl TaskBundle {
    /// The manifest of a task.
    pub fn of(task: &Task) -> Self {
        Self {
            task: task.id,
            task_description: task.description.clone(),
            state: task.state.clone(),
            staging_head: task.head,
            steps: task.steps,
            base: task.base,
            progress_summary: task.progress.summary(),
            progress: task.progress.clone(),
            started_at: task.started_at,
            last_activity: task.last_activity_at,
        }
    }

    /// The open task that an import creates in a session.
    pub fn task_in(&self, session: SessionId, base_turn: Option<TurnId>) -> Task {
        Task {
            id: self.task,
            session,
            description: self.task_description.clone(),
            state: self.state.clone(),
            progress: self.progress.clone(),
            steps: self.steps,
            head: self.staging_head,
            base: self.base,
            base_turn,
            started_at: self.started_at,
            last_activity_at: self.last_activity,
            ended_at: None,
            commit: None,
        }
    }
}

/// The content of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Manifest {
    /// A bundle of an open task.
    Task(Box<TaskBundle>),
    /// A bundle of a session with its tasks.
    Session(Box<SessionBundle>),
    /// A part of a session, for a store that has the turns before it.
    Part(Box<SessionPart>),
}

impl Manifest {
    /// The name of the content in messages.
    pub const fn kind_name(&self) -> &'static str {
        match self {
            Self::Task(_) => "task",
            Self::Session(_) => "session",
            Self::Part(_) => "part of a session",
        }
    }
}

/// Why a bundle was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub enum BadBundle {
    /// The file does not start with the magic line.
    #[error("not a ctx bundle: the first line is not `ctx-bundle 1`")]
    NotABundle,
    /// The format version is newer than this program.
    #[error("cannot read bundle: it was written by a newer ctx")]
    TooNew,
    /// Larger than the limit.
    #[error("bundle is too large: {bytes} bytes or more, the limit is {max}")]
    TooLarge {
        /// Size, or the number of bytes that were read before the limit was exceeded.
        bytes: usize,
        max: usize,
    },
    /// A bundle of a task where one of a session was expected, or the reverse.
    #[error("wrong kind of bundle: it contains a {found}, not a {wanted}")]
    OtherKind { found: &'static str, wanted: &'static str },
    /// The file is truncated or changed.
    #[error("bundle is damaged: {0}")]
    Damaged(String),
    /// The steps do not end at the head of the task.
    #[error("bundle is damaged: its steps do not end at step {0}")]
    MissingStep(StepId),
    /// An object does not match its id.
    #[error("bundle is damaged: object {id}: {fault}")]
    BadObject { id: ObjectId, fault: ObjectError },
}

/// Encodes a bundle piece by piece, so that it is never held in memory as a whole. Steps and turns
/// must be in order, oldest first.
pub struct Writer {
    /// Of everything before the closing line.
    hash: blake3::Hasher,
}

impl Writer {
    /// Appends the first lines of a bundle to `out`.
    pub fn start(manifest: &Manifest, out: &mut Vec<u8>) -> Self {
        let mut writer = Self { hash: blake3::Hasher::new() };
        let manifest = canonical::to_bytes(manifest);
        let line = format!("manifest {}\n", manifest.len());
        writer.add(&[MAGIC, line.as_bytes(), &manifest, b"\n"], out);
        writer
    }

    /// Appends an object to `out`.
    pub fn object(&mut self, object: &Object, out: &mut Vec<u8>) {
        let line = format!("{} {}\n", entry_line(object), object.id());
        self.add(&[line.as_bytes(), &object.bytes, b"\n"], out);
    }

    /// Appends the closing line to `out`.
    pub fn end(self, out: &mut Vec<u8>) {
        let hash = ObjectId::from_bytes(*self.hash.finalize().as_bytes());
        out.extend_from_slice(format!("end {hash}\n").as_bytes());
    }

    /// Size of an object in a bundle, in bytes.
    pub fn size_of(object: &Object) -> usize {
        entry_line(object).len() + 1 + ID_LEN + 1 + object.bytes.len() + 1
    }

    fn add(&mut self, pieces: &[&[u8]], out: &mut Vec<u8>) {
        for piece in pieces {
            self.hash.update(piece);
            out.extend_from_slice(piece);
        }
    }
}

/// The entry line of an object without its id.
fn entry_line(object: &Object) -> String {
    format!("{} {} {}", object.kind, object.version, object.bytes.len())
}

/// Encodes a bundle. Steps and turns must be in order, oldest first.
pub fn write(manifest: &Manifest, objects: &[Object]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = Writer::start(manifest, &mut out);
    for object in objects {
        writer.object(object, &mut out);
    }
    writer.end(&mut out);
    out
}

/// Decodes a bundle and verifies the closing hash and the id of every object.
///
/// # Errors
/// If the bytes are not a bundle, have a newer format, or are damaged.
pub fn read(bytes: &[u8]) -> Result<(Manifest, Vec<Object>), BadBundle> {
    check_magic(bytes)?;
    let (manifest, mut rest) = manifest_of(checked(bytes)?)?;
    let mut objects = Vec::new();
    while !rest.0.is_empty() {
        objects.push(object(&mut rest)?);
    }
    Ok((manifest, objects))
}

/// Decodes only the manifest, without any verification. Returns the bytes after it too.
pub(crate) fn manifest(bytes: &[u8]) -> Result<(Manifest, &[u8]), BadBundle> {
    check_magic(bytes)?;
    manifest_of(bytes).map(|(manifest, rest)| (manifest, rest.0))
}

fn check_magic(bytes: &[u8]) -> Result<(), BadBundle> {
    if bytes.starts_with(MAGIC) {
        Ok(())
    } else if bytes.starts_with(MAGIC_ANY) {
        Err(BadBundle::TooNew)
    } else {
        Err(BadBundle::NotABundle)
    }
}

fn manifest_of(bytes: &[u8]) -> Result<(Manifest, Lines<'_>), BadBundle> {
    let mut rest = Lines(&bytes[MAGIC.len()..]);
    let len = rest
        .line()?
        .strip_prefix("manifest ")
        .and_then(|n| n.parse().ok())
        .ok_or_else(|| damaged("the manifest is missing"))?;
    let manifest = serde_json::from_slice(rest.take(len)?)
        .map_err(|e| damaged(&format!("the manifest cannot be decoded: {e}")))?;
    Ok((manifest, rest))
}

/// Returns everything before the closing line if the closing hash matches.
fn checked(bytes: &[u8]) -> Result<&[u8], BadBundle> {
    let cut = bytes.len().checked_sub(END_LEN).ok_or_else(|| damaged("the file is truncated"))?;
    let (content, end) = bytes.split_at(cut);
    let expected = format!("end {}\n", ObjectId::of(&[content]));
    if end == expected.as_bytes() {
        Ok(content)
    } else {
        Err(damaged("the closing hash does not match, so the file was truncated or changed"))
    }
}

fn object(rest: &mut Lines<'_>) -> Result<Object, BadBundle> {
    let line = rest.line()?;
    let bad = || damaged("the entry line of an object is invalid");
    let [kind, version, len, id] =
        line.split(' ').collect::<Vec<_>>().try_into().map_err(|_| bad())?;
    let kind = Kind::from_name(kind).ok_or_else(bad)?;
    let version = version.parse().map_err(|_| bad())?;
    let id: ObjectId = id.parse().map_err(|_| bad())?;
    let bytes = rest.take(len.parse().map_err(|_| bad())?)?.to_vec();
    let object = Object { kind, version, bytes };
    object.check(id).map_err(|fault| BadBundle::BadObject { id, fault })?;
    Ok(object)
}

fn damaged(why: &str) -> BadBundle {
    BadBundle::Damaged(why.to_owned())
}

struct Lines<'a>(&'a [u8]);

impl<'a> Lines<'a> {
    fn line(&mut self) -> Result<&'a str, BadBundle> {
        let at = self
            .0
            .iter()
            .position(|b| *b == b'\n')
            .ok_or_else(|| damaged("the file is truncated"))?;
        let line =
            std::str::from_utf8(&self.0[..at]).map_err(|_| damaged("a line is not UTF-8"))?;
        self.0 = &self.0[at + 1..];
        Ok(line)
    }

    /// Returns `len` bytes and skips the newline after them.
    fn take(&mut self, len: usize) -> Result<&'a [u8], BadBundle> {
        if self.0.get(len) != Some(&b'\n') {
            return Err(damaged("the file is truncated"));
        }
        let bytes = &self.0[..len];
        self.0 = &self.0[len + 1..];
        Ok(bytes)
    }
}

/// Verifies the steps of a task bundle, from the first to the head. A bundle without steps is valid
/// if the importing store has the head.
///
/// # Errors
/// If a step is missing, belongs to another task or is out of order, or the manifest does not match
/// the steps.
pub fn task_import(bundle: TaskBundle, objects: &[Object]) -> Result<Import, BadBundle> {
    let mut steps = Vec::new();
    for object in objects.iter().filter(|object| object.kind == Kind::Step) {
        let id = StepId(object.id());
        let step: Step =
            object.decode().map_err(|fault| BadBundle::BadObject { id: id.0, fault })?;
        steps.push(StepRecord { id, seq: steps.len() as u64 + 1, step, object: object.clone() });
    }
    let mut parent = None;
    for record in &steps {
        if record.step.parent != parent || record.step.task != bundle.task {
            return Err(damaged("the steps are not one chain"));
        }
        parent = Some(record.id);
    }
    if steps.is_empty() {
        return Ok(Import { bundle, steps });
    }
    let starts_task = |record: &StepRecord| {
        let is_start = |entry: &Entry| match entry {
            Entry::Task { description } => *description == bundle.task_description,
            _ => false,
        };
        record.step.payload.iter().any(is_start)
    };
    let agrees = steps.first().is_some_and(starts_task)
        && steps.last().is_some_and(|last| last.step.timestamp == bundle.last_activity);
    match steps.last() {
        Some(last) if last.id == bundle.staging_head && !agrees => {
            Err(damaged("the manifest does not match the steps"))
        }
        Some(last)
            if last.id == bundle.staging_head
                && last.step.state == bundle.state
                && steps.len() as u64 == bundle.steps =>
        {
            let (base, started_at) = (steps[0].step.base, steps[0].step.timestamp);
            let mut progress = Progress::default();
            steps.iter().for_each(|record| progress.add(&record.step));
            // Values are taken from the steps, which are hashed, and not from the manifest.
            Ok(Import { bundle: TaskBundle { base, started_at, progress, ..bundle }, steps })
        }
        _ => Err(BadBundle::MissingStep(bundle.staging_head)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ulid::Ulid;

    fn sample() -> Vec<u8> {
        let step = Step {
            parent: None,
            base: None,
            session: SessionId(Ulid(1)),
            task: TaskId(Ulid(2)),
            kind: crate::step::Kind::SessionStart,
            payload: vec![Entry::Task { description: "t".into() }],
            state: State::Running,
            timestamp: Timestamp(5),
        };
        let object = step.encode();
        let bundle = TaskBundle {
            task: TaskId(Ulid(2)),
            task_description: "t".into(),
            state: State::Running,
            staging_head: StepId(object.id()),
            steps: 1,
            base: None,
            progress_summary: String::new(),
            progress: Progress::default(),
            started_at: Timestamp(5),
            last_activity: Timestamp(5),
        };
        write(&Manifest::Task(Box::new(bundle)), &[object, Object::blob(b"a\nb".to_vec())])
    }

    #[test]
    fn a_written_bundle_decodes() {
        let (Manifest::Task(bundle), objects) = read(&sample()).expect("bundle") else {
            panic!("a task")
        };
        assert_eq!(objects.len(), 2);
        let import = task_import((*bundle).clone(), &objects).expect("import");
        assert_eq!(import.steps.len(), 1);
        assert_eq!(
            task_import(*bundle, &objects[1..]).map(|import| import.steps.len()),
            Ok(0),
            "the store must have its head"
        );
    }

    #[test]
    fn the_size_of_a_bundle_is_known_before_it_is_written() {
        let (manifest, objects) = read(&sample()).expect("bundle");
        let mut out = Vec::new();
        let mut writer = Writer::start(&manifest, &mut out);
        for object in &objects {
            let before = out.len();
            writer.object(object, &mut out);
            assert_eq!(out.len() - before, Writer::size_of(object));
        }
        let before = out.len();
        writer.end(&mut out);
        assert_eq!((out.len() - before, out), (END_LEN, sample()));
    }

    #[test]
    fn any_changed_or_truncated_bundle_is_rejected() {
        let good = sample();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x20;
            assert!(read(&bad).is_err(), "byte {at}");
            assert!(read(&good[..at]).is_err(), "cut at {at}");
        }
    }
}
