//! Session bundles: the session row, its turns from the root to the head, and its tasks.
//!
//! Turns, steps and commits are verified by their hashes and by the chains that they form. Only the
//! label, the preferences and the end times of tasks are taken from the manifest unverified.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use crate::commit::Commit;
use crate::compaction::Compaction;
use crate::decide::{CommitRecord, Import};
use crate::id::{BlobId, CommitId, ObjectId, SessionId, TaskId, TurnId};
use crate::object::{Kind, Object};
use crate::session::{self, Origin, Session};
use crate::step::Step;
use crate::task::Task;
use crate::time::Timestamp;
use crate::turn::{self, Header, Record};

use super::{BadBundle, TaskBundle, damaged, task_import};

/// The manifest of an exported session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields of `Session` under the same names")]
pub struct SessionBundle {
    pub session: SessionId,
    pub label: String,
    pub title: Option<String>,
    pub project: String,
    pub working_dir: Option<String>,
    pub persona: Option<String>,
    pub provider_id: Option<String>,
    pub model: Option<String>,
    pub options: BTreeMap<String, String>,
    pub track_tasks: bool,
    pub head: Option<TurnId>,
    pub turn_count: u64,
    pub created_at: Timestamp,
    /// All tasks, oldest first.
    pub tasks: Vec<TaskEnd>,
    /// The compaction records by turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compactions: Vec<(TurnId, Compaction)>,
}

/// A task of a session, open or ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct TaskEnd {
    pub task: TaskBundle,
    /// The head of the session when the task was started.
    pub base_turn: Option<TurnId>,
    /// `None` if the task is open.
    pub ended_at: Option<Timestamp>,
    /// The commit that the task was sealed into.
    pub commit: Option<CommitId>,
}

impl TaskEnd {
    #[allow(missing_docs, reason = "the name is self-explanatory")]
    pub fn of(task: &Task) -> Self {
        Self {
            task: TaskBundle::of(task),
            base_turn: task.base_turn,
            ended_at: task.ended_at,
            commit: task.commit,
        }
    }
}

impl SessionBundle {
    /// Creates the manifest from the rows of a session.
    pub fn of(session: &Session, tasks: &[Task], compactions: Vec<(TurnId, Compaction)>) -> Self {
        Self {
            session: session.id,
            label: session.label.clone(),
            title: session.title.clone(),
            project: session.project.clone(),
            working_dir: session.working_dir.clone(),
            persona: session.persona.clone(),
            provider_id: session.provider_id.clone(),
            model: session.model.clone(),
            options: session.options.clone(),
            track_tasks: session.track_tasks,
            head: session.head,
            turn_count: session.turn_count,
            created_at: session.created_at,
            tasks: tasks.iter().map(TaskEnd::of).collect(),
            compactions,
        }
    }

    /// The session to create if the store does not have it. Its turns are added afterwards.
    pub fn new_session(
        &self,
        id: SessionId,
        label: String,
        working_dir: Option<String>,
    ) -> session::New {
        let idle =
            session::New::idle(id, label, self.project.clone(), Origin::Import, self.created_at);
        session::New {
            title: self.title.clone(),
            working_dir,
            persona: self.persona.clone(),
            provider_id: self.provider_id.clone(),
            model: self.model.clone(),
            track_tasks: Some(self.track_tasks),
            ..idle
        }
    }

    /// Labels for the imported session in order of preference. The alternatives depend only on the
    /// bundle, so a second import finds the session of the first one.
    pub fn labels(&self) -> [String; 3] {
        let of_id = || ObjectId::of(&[self.session.to_string().as_bytes()]);
        alternative_labels(&self.label, self.head.map_or_else(of_id, |head| head.0))
    }
}

/// A label, and two that are used if it is taken. They depend only on the label and the name.
pub fn alternative_labels(label: &str, name: ObjectId) -> [String; 3] {
    let name = name.to_string();
    let short: String = label.chars().take(session::LABEL_MAX_CHARS - 17).collect();
    [label.to_owned(), format!("{short}~{}", &name[..8]), format!("{short}~{}", &name[..16])]
}

/// A verified task of a session bundle.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskImport {
    /// The entry of the manifest.
    pub end: TaskEnd,
    /// The steps of the task.
    pub import: Import,
    /// The commit of the task, if the bundle contains it.
    pub commit: Option<CommitRecord>,
}

/// A verified session bundle.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionImport {
    /// The manifest of the bundle.
    pub bundle: SessionBundle,
    /// The turns, oldest first: an unbroken chain to the head.
    pub turns: Vec<Record>,
    /// The tasks, oldest first.
    pub tasks: Vec<TaskImport>,
    /// Blobs that are referenced and not in the bundle. The importing store must have them.
    pub missing: Vec<BlobId>,
    /// Turns before the base of a part that its compactions refer to. Empty for a whole session.
    pub earlier: Vec<TurnId>,
}

/// Verifies that the objects of a bundle match its manifest.
///
/// # Errors
/// If a turn or step is missing or out of order, a body does not belong to its turn, or a commit
/// does not belong to its task.
pub fn session_import(
    bundle: SessionBundle,
    objects: &[Object],
) -> Result<SessionImport, BadBundle> {
    import_after(bundle, None, 0, objects)
}

/// As [`session_import`], for the turns after `base`.
pub(super) fn import_after(
    bundle: SessionBundle,
    base: Option<TurnId>,
    base_turns: u64,
    objects: &[Object],
) -> Result<SessionImport, BadBundle> {
    let (turns, earlier) = turns(&bundle, base, base_turns, objects)?;
    let mut steps: HashMap<TaskId, Vec<Object>> = HashMap::new();
    for object in objects.iter().filter(|object| object.kind == Kind::Step) {
        steps.entry(decoded::<Step>(object)?.task).or_default().push(object.clone());
    }
    let mut commits = HashMap::new();
    for object in objects.iter().filter(|object| object.kind == Kind::Commit) {
        let id = CommitId(object.id());
        commits.insert(
            id,
            CommitRecord { id, commit: decoded::<Commit>(object)?, object: object.clone() },
        );
    }
    let one =
        |end: &TaskEnd| task(end, &steps.remove(&end.task.task).unwrap_or_default(), &commits);
    let tasks: Vec<TaskImport> = bundle.tasks.iter().map(one).collect::<Result<_, _>>()?;
    let included: BTreeSet<BlobId> = objects
        .iter()
        .filter(|object| object.kind == Kind::Blob)
        .map(|blob| BlobId(blob.id()))
        .collect();
    let in_turns = turns.iter().flat_map(|turn| turn.blobs.iter().copied());
    let in_steps =
        tasks.iter().flat_map(|task| task.import.steps.iter().flat_map(|step| step.step.blobs()));
    let missing: BTreeSet<BlobId> =
        in_turns.chain(in_steps).filter(|blob| !included.contains(blob)).collect();
    Ok(SessionImport { bundle, turns, tasks, missing: missing.into_iter().collect(), earlier })
}

fn decoded<T: serde::de::DeserializeOwned>(object: &Object) -> Result<T, BadBundle> {
    object.decode().map_err(|fault| BadBundle::BadObject { id: object.id(), fault })
}

/// The turns in order. Bodies may be missing, because they were purged in the exporting store.
fn turns(
    bundle: &SessionBundle,
    base: Option<TurnId>,
    base_turns: u64,
    objects: &[Object],
) -> Result<(Vec<Record>, Vec<TurnId>), BadBundle> {
    let bodies: HashMap<ObjectId, &Object> =
        objects.iter().filter(|o| o.kind == Kind::TurnBody).map(|body| (body.id(), body)).collect();
    let mut turns: Vec<Record> = Vec::new();
    for object in objects.iter().filter(|object| object.kind == Kind::Turn) {
        let header: Header = decoded(object)?;
        if header.parent != turns.last().map(|turn| turn.id).or(base) {
            return Err(damaged("the turns are not one chain"));
        }
        let messages =
            bodies.get(&header.body).map(|body| turn::messages(&header, body)).transpose();
        let messages = messages.map_err(|fault| BadBundle::BadObject { id: header.body, fault })?;
        turns.push(Record {
            id: TurnId(object.id()),
            object: object.clone(),
            body: header.body,
            blobs: turn::blobs(&messages.unwrap_or_default()),
            spawned: Vec::new(),
            compaction: None,
        });
    }
    if turns.last().map(|turn| turn.id).or(base) != bundle.head
        || Some(bundle.turn_count) != base_turns.checked_add(turns.len() as u64)
    {
        return Err(damaged("the turns do not end at the head"));
    }
    let places: HashMap<TurnId, usize> =
        turns.iter().enumerate().map(|(at, turn)| (turn.id, at)).collect();
    let mut earlier = Vec::new();
    for (turn, compaction) in &bundle.compactions {
        // A compaction may only summarise and keep turns before it.
        let at = places
            .get(turn)
            .copied()
            .ok_or_else(|| damaged("a compaction belongs to none of the turns"))?;
        for other in [compaction.summarized_through, compaction.first_kept].into_iter().flatten() {
            match places.get(&other) {
                Some(place) if *place < at => {}
                None if base.is_some() => earlier.push(other),
                _ => return Err(damaged("a compaction refers to turns that are not before it")),
            }
        }
        turns[at].compaction = Some(Box::new(compaction.clone()));
    }
    Ok((turns, earlier))
}

fn task(
    end: &TaskEnd,
    steps: &[Object],
    commits: &HashMap<CommitId, CommitRecord>,
) -> Result<TaskImport, BadBundle> {
    let import = task_import(end.task.clone(), steps)?;
    if import.steps.is_empty() {
        return Err(BadBundle::MissingStep(end.task.staging_head));
    }
    let commit = end.commit.and_then(|id| commits.get(&id)).cloned();
    let fits = |record: &CommitRecord| {
        record.commit.task == end.task.task && record.commit.steps.last == end.task.staging_head
    };
    if commit.as_ref().is_some_and(|record| !fits(record))
        || (end.commit.is_some() && end.ended_at.is_none())
    {
        return Err(damaged("a commit does not belong to its task"));
    }
    let end = TaskEnd { task: import.bundle.clone(), ..end.clone() };
    Ok(TaskImport { end, import, commit })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::id::{MessageId, NodeId};
    use crate::message::{Message, Part, Role};
    use crate::object::Named;
    use crate::turn::{About, Ready};
    use ulid::Ulid;

    fn user_message(n: u128, part: Part) -> Message {
        Message {
            id: MessageId(Ulid(n)),
            role: Role::User,
            source: None,
            content: vec![part],
            created_at: Timestamp(1),
        }
    }

    /// A bundle of three turns. The last one refers to a blob.
    pub(crate) fn sample() -> (SessionBundle, Vec<Object>) {
        let image_blob = Object::blob(vec![7; 5000]);
        let image = Part::Image {
            media_type: "image/png".into(),
            blob: BlobId(image_blob.id()),
            bytes: Some(5000),
        };
        let parts = [Part::Text { text: "one".into() }, Part::Text { text: "two".into() }, image];
        let (mut objects, mut head) = (Vec::new(), None);
        for (n, part) in parts.into_iter().enumerate() {
            let (ready, body) =
                Ready::new(About::at(Timestamp(n as i64)), vec![user_message(n as u128, part)]);
            let record = ready.with_parent(head);
            head = Some(record.id);
            objects.extend([record.object, Named::into_object(body)]);
        }
        objects.push(image_blob);
        let session = session::New::idle(
            SessionId(Ulid(9)),
            "main".into(),
            "demo".into(),
            Origin::Cli,
            Timestamp(1),
        )
        .session();
        let session = Session { head, turn_count: 3, owner: Some(NodeId(Ulid(1))), ..session };
        (SessionBundle::of(&session, &[], Vec::new()), objects)
    }

    #[test]
    fn turns_must_form_one_chain_to_the_head() {
        let (bundle, objects) = sample();
        let import = session_import(bundle.clone(), &objects).expect("valid");
        assert_eq!(
            (import.turns.len(), import.turns.last().map(|turn| turn.id), import.missing.len()),
            (3, bundle.head, 0)
        );
        assert_eq!(import.turns[2].blobs.len(), 1);
        let without = |n: usize| {
            objects
                .iter()
                .enumerate()
                .filter(|(at, _)| *at != n)
                .map(|(_, object)| object.clone())
                .collect::<Vec<_>>()
        };
        for header in [0, 2, 4] {
            assert!(
                session_import(bundle.clone(), &without(header)).is_err(),
                "turn {header} is missing"
            );
        }
        assert_eq!(
            session_import(bundle.clone(), &without(6)).map(|import| import.missing.len()),
            Ok(1),
            "a blob may be in the importing store"
        );
        assert_eq!(
            session_import(bundle.clone(), &without(1)).map(|import| import.turns.len()),
            Ok(3),
            "a purged body"
        );
        let mut swapped = objects.clone();
        swapped.swap(0, 2);
        assert!(session_import(bundle.clone(), &swapped).is_err());
        for wrong in [
            SessionBundle { head: None, ..bundle.clone() },
            SessionBundle { turn_count: 2, ..bundle.clone() },
        ] {
            assert!(session_import(wrong, &objects).is_err(), "the manifest does not match");
        }
        assert!(
            session_import(SessionBundle { head: None, turn_count: 0, ..bundle }, &[]).is_ok(),
            "an empty session"
        );
    }

    #[test]
    fn alternative_labels_are_stable_and_valid() {
        let (bundle, _) = sample();
        assert_eq!(bundle.labels(), bundle.labels());
        let long =
            SessionBundle { label: "ü".repeat(session::LABEL_MAX_CHARS), head: None, ..bundle };
        for label in long.labels() {
            assert!(session::is_valid_label(&label), "{label}");
        }
    }

    #[test]
    fn compactions_are_imported_and_refer_only_to_earlier_turns() {
        let (bundle, objects) = sample();
        let turns = session_import(bundle.clone(), &objects).expect("valid").turns;
        let compaction = |kept: TurnId| Compaction {
            summary: "so far".to_owned(),
            summarized_through: None,
            first_kept: Some(kept),
            turns_summarized: 1,
            kind: crate::compaction::Type::Summary,
            model: None,
            provider: None,
            tokens_before: 10,
            tokens_after: 5,
            summary_tokens: 2,
            summarization_input_tokens: None,
            summarization_output_tokens: None,
            duration_ms: 1,
            trigger: crate::compaction::Trigger::Manual,
            metadata: crate::compaction::Metadata::default(),
        };
        let with = |turn: TurnId, kept: TurnId| {
            let bundle =
                SessionBundle { compactions: vec![(turn, compaction(kept))], ..bundle.clone() };
            session_import(bundle, &objects)
        };
        let import = with(turns[2].id, turns[1].id).expect("valid");
        assert_eq!(import.turns[2].compaction.as_deref(), Some(&compaction(turns[1].id)));
        assert!(with(turns[1].id, turns[1].id).is_err(), "refers to itself");
        assert!(with(turns[0].id, turns[2].id).is_err(), "refers to a later turn");
        assert!(
            with(TurnId(ObjectId::from_bytes([9; 32])), turns[0].id).is_err(),
            "belongs to no turn"
        );
    }
}
