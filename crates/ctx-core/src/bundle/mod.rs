//! Bundles: a task or session with every object it reaches, in one file that verifies itself.
//!
//! ```text
//! ctx-bundle 1\n
//! manifest LEN\n  canonical JSON  \n
//! KIND VERSION LEN ID\n  bytes  \n      (any number)
//! end HASH\n                            (BLAKE3 of everything before this line)
//! ```
//! Reading checks the closing hash first, then every object under its own name, then that the steps form
//! one unbroken chain to the head. A bundle that fails any of it is refused whole.

mod session;

pub use session::{SessionBundle, SessionImport, TaskEnd, TaskImport, session_import};

use serde::{Deserialize, Serialize};

use crate::canonical;
use crate::decide::{Import, StepRecord};
use crate::id::{CommitId, ObjectId, SessionId, StepId, TaskId, TurnId};
use crate::object::{Fault, Kind, Object};
use crate::step::{Entry, Step};
use crate::task::{Progress, State, Task};
use crate::time::Timestamp;

/// The largest bundle of a task.
pub const BUNDLE_MAX_BYTES: usize = 1 << 30;
/// The largest bundle of a session: it is held in memory, and stored in one transaction.
pub const SESSION_MAX_BYTES: usize = 256 << 20;

const MAGIC: &[u8] = b"ctx-bundle 1\n";
const MAGIC_ANY: &[u8] = b"ctx-bundle ";

/// A task that is handed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskBundle {
    /// The task's id, the same everywhere.
    pub task: TaskId,
    /// What is to be done.
    pub task_description: String,
    /// Where the work stands.
    pub state: State,
    /// The newest step.
    pub staging_head: StepId,
    /// How many steps lead to it.
    pub steps: u64,
    /// The commit it started from, where that is known.
    pub base: Option<CommitId>,
    /// What has been done, for a person.
    pub progress_summary: String,
    /// What has been done, counted.
    pub progress: Progress,
    /// When it started.
    pub started_at: Timestamp,
    /// When the newest step was written.
    pub last_activity: Timestamp,
}

impl TaskBundle {
    /// What is handed over of an open task.
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

    /// The task as it goes on in another session.
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

/// What a bundle is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Manifest {
    /// An open task.
    Task(Box<TaskBundle>),
    /// A session.
    Session(Box<SessionBundle>),
}

/// Why a bundle was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadBundle {
    /// Something else.
    #[error("this is not a ctx bundle")]
    NotABundle,
    /// A newer program wrote it.
    #[error("this bundle was written by a newer ctx")]
    TooNew,
    /// More than is ever read.
    #[error("the bundle has {bytes} bytes or more, and at most {max} are taken")]
    TooLarge {
        /// How many.
        bytes: usize,
        /// The bound.
        max: usize,
    },
    /// Of something else than was asked for.
    #[error("this is the bundle of a {found}, not of a {wanted}")]
    OtherKind {
        /// What it is of.
        found: &'static str,
        /// What was asked for.
        wanted: &'static str,
    },
    /// Cut off or changed.
    #[error("the bundle is damaged: {0}")]
    Damaged(String),
    /// Its steps stop before its head.
    #[error("the bundle's steps do not lead to step {0}")]
    MissingStep(StepId),
    /// An object in it is not what it is called.
    #[error("the bundle is damaged: object {id}: {fault}")]
    BadObject {
        /// Which.
        id: ObjectId,
        /// Its fault.
        fault: Fault,
    },
}

/// Writes a bundle.
pub fn write(manifest: &Manifest, objects: &[Object]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    let manifest = canonical::to_bytes(manifest);
    out.extend_from_slice(format!("manifest {}\n", manifest.len()).as_bytes());
    out.extend_from_slice(&manifest);
    out.push(b'\n');
    for object in objects {
        let line =
            format!("{} {} {} {}\n", object.kind, object.version, object.bytes.len(), object.id());
        out.extend_from_slice(line.as_bytes());
        out.extend_from_slice(&object.bytes);
        out.push(b'\n');
    }
    let end = ObjectId::of(&[&out]);
    out.extend_from_slice(format!("end {end}\n").as_bytes());
    out
}

/// Reads a bundle and verifies every byte of it.
///
/// # Errors
/// If it is none, a newer one, or anything in it is damaged.
pub fn read(bytes: &[u8]) -> Result<(Manifest, Vec<Object>), BadBundle> {
    if !bytes.starts_with(MAGIC) {
        return Err(if bytes.starts_with(MAGIC_ANY) {
            BadBundle::TooNew
        } else {
            BadBundle::NotABundle
        });
    }
    let mut rest = Lines(&checked(bytes)?[MAGIC.len()..]);
    let len = rest
        .line()?
        .strip_prefix("manifest ")
        .and_then(|n| n.parse().ok())
        .ok_or_else(|| damaged("no manifest"))?;
    let manifest = serde_json::from_slice(rest.take(len)?)
        .map_err(|e| damaged(&format!("its manifest: {e}")))?;
    let mut objects = Vec::new();
    while !rest.0.is_empty() {
        objects.push(object(&mut rest)?);
    }
    Ok((manifest, objects))
}

/// Everything before the closing line, if that line is true.
fn checked(bytes: &[u8]) -> Result<&[u8], BadBundle> {
    const END_LEN: usize = "end \n".len() + 64;
    let cut = bytes.len().checked_sub(END_LEN).ok_or_else(|| damaged("it is cut off"))?;
    let (content, end) = bytes.split_at(cut);
    let expected = format!("end {}\n", ObjectId::of(&[content]));
    if end == expected.as_bytes() {
        Ok(content)
    } else {
        Err(damaged("its closing hash does not match: it was cut off or changed"))
    }
}

fn object(rest: &mut Lines<'_>) -> Result<Object, BadBundle> {
    let line = rest.line()?;
    let bad = || damaged("an object's line cannot be read");
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
        let at = self.0.iter().position(|b| *b == b'\n').ok_or_else(|| damaged("it is cut off"))?;
        let line = std::str::from_utf8(&self.0[..at]).map_err(|_| damaged("a line is not text"))?;
        self.0 = &self.0[at + 1..];
        Ok(line)
    }

    /// So many bytes and the newline after them.
    fn take(&mut self, len: usize) -> Result<&'a [u8], BadBundle> {
        if self.0.get(len) != Some(&b'\n') {
            return Err(damaged("it is cut off"));
        }
        let bytes = &self.0[..len];
        self.0 = &self.0[len + 1..];
        Ok(bytes)
    }
}

/// The import of a task bundle: its steps in order, from the first to the head. A bundle without steps is
/// one whose head must be known where it is taken in.
///
/// # Errors
/// If a step is missing, foreign or out of order, or the head's state is not the manifest's.
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
            return Err(damaged("its steps are not one chain"));
        }
        parent = Some(record.id);
    }
    if steps.is_empty() {
        return Ok(Import { bundle, steps });
    }
    let says = |record: &StepRecord| {
        record.step.payload.iter().any(|entry| matches!(entry, Entry::Task { description } if *description == bundle.task_description))
    };
    let agrees = steps.first().is_some_and(says)
        && steps.last().is_some_and(|last| last.step.timestamp == bundle.last_activity);
    match steps.last() {
        Some(last) if last.id == bundle.staging_head && !agrees => {
            Err(damaged("its manifest does not say what its steps say"))
        }
        Some(last)
            if last.id == bundle.staging_head
                && last.step.state == bundle.state
                && steps.len() as u64 == bundle.steps =>
        {
            let (base, started_at) = (steps[0].step.base, steps[0].step.timestamp);
            let mut progress = Progress::default();
            steps.iter().for_each(|record| progress.add(&record.step));
            // What the steps say is hashed; what the manifest says of them is only said.
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
    fn a_bundle_reads_back() {
        let (Manifest::Task(bundle), objects) = read(&sample()).expect("bundle") else {
            panic!("a task")
        };
        assert_eq!(objects.len(), 2);
        let import = task_import((*bundle).clone(), &objects).expect("import");
        assert_eq!(import.steps.len(), 1);
        assert_eq!(
            task_import(*bundle, &objects[1..]).map(|import| import.steps.len()),
            Ok(0),
            "its head must be known"
        );
    }

    #[test]
    fn any_flipped_bit_and_any_cut_is_refused() {
        let good = sample();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x20;
            assert!(read(&bad).is_err(), "byte {at}");
            assert!(read(&good[..at]).is_err(), "cut at {at}");
        }
    }
}
