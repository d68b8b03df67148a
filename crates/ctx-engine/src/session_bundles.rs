//! Import of sessions from bundles that verify themselves.
//!
//! Importing a bundle twice yields the same session. A label that is in use is not taken over: the
//! import gets a label derived from its own, unless the two histories are equal or one extends the
//! other.

use std::collections::BTreeSet;

use ctx_core::bundle::{
    self, BadBundle, Manifest, SESSION_MAX_BYTES, SessionImport, TaskImport, session_import,
};
use ctx_core::decide::{self, Decided, Needs, SessionToImport, SessionView};
use ctx_core::id::{ObjectId, SessionId};
use ctx_core::object::{Kind, Named};
use ctx_core::refusal::Refusal;
use ctx_core::session::{self, Session};
use ctx_core::task::Task;
use ctx_store::{Error as StoreError, Target};
use serde::{Deserialize, Serialize};

use crate::engine::{Engine, Error};

/// How often an import is tried again because another process wrote meanwhile.
const TRIES_MAX: usize = 5;

/// How a task is stored: [`decide::import_task`] or [`decide::move_task`].
pub(crate) type TaskRule = fn(&SessionView, &TaskImport) -> Decided<Option<Task>>;

/// The effect of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImportEffect {
    /// A new session was created.
    Created,
    /// An existing session was extended by newer turns.
    Extended,
    /// The session contained all turns already.
    Unchanged,
}

/// The result of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct Imported {
    /// The session in this store.
    pub session: SessionId,
    /// The label in the bundle, if the session has another label here.
    pub renamed_from: Option<String>,
    pub arrival: ImportEffect,
    /// Number of turns that were added.
    pub turns: u64,
    /// Number of tasks that were added.
    pub tasks: usize,
    /// Number of tasks that were not added because another task is open here.
    pub tasks_left: usize,
}

/// Bundles: sessions as files that verify themselves, for other machines.
///
/// ```
/// # async fn example() -> Result<(), ctx_engine::Error> {
/// # let dir = tempfile::tempdir().expect("a directory");
/// # ctx_engine::Engine::init(dir.path(), "demo")?;
/// # let engine = ctx_engine::Engine::open(dir.path(), ctx_engine::Options::default())?;
/// use ctx_engine::ImportEffect;
/// use ctx_engine::core::session::Origin;
///
/// engine.sessions().create_idle("notes", Origin::Api).await?;
/// let mut export = engine.bundles().export("notes").await?;
/// let mut bytes = Vec::new();
/// while let Some(part) = export.next_part().await? {
///     bytes.extend(part);
/// }
/// let imported = engine.bundles().import(&bytes, |_| None).await?;
/// assert_eq!(imported.arrival, ImportEffect::Unchanged, "it is here already");
/// # Ok(())
/// # }
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
/// # runtime.expect("a runtime").block_on(example()).expect("it works");
/// ```
#[derive(Clone, Copy)]
pub struct Bundles<'a> {
    pub(crate) engine: &'a Engine,
}

impl Engine {
    /// Bundles: sessions as files that verify themselves, for other machines.
    pub const fn bundles(&self) -> Bundles<'_> {
        Bundles { engine: self }
    }
}

impl Bundles<'_> {
    /// Imports a session. Everything is verified before anything changes. `keep_dir` maps the
    /// working directory to one on this machine, or to none.
    ///
    /// Fails if the bundle is damaged, incomplete or of another kind, or the session would be
    /// extended and is busy.
    pub async fn import(
        self,
        bytes: &[u8],
        keep_dir: impl Fn(&str) -> Option<String>,
    ) -> Result<Imported, Error> {
        self.store(bytes, None, keep_dir, decide::import_task).await
    }

    /// Imports a session that leaves its store for this one. It belongs to the project of this
    /// store, and its commits follow the newest one here.
    ///
    /// Fails as [`Bundles::import`]. What was stored until then is found by the next attempt.
    pub async fn move_here(self, bytes: &[u8]) -> Result<Imported, Error> {
        let project = Some(self.engine.project().to_owned());
        self.store(bytes, project, |dir| Some(dir.to_owned()), decide::move_task).await
    }

    async fn store(
        self,
        bytes: &[u8],
        project: Option<String>,
        keep_dir: impl Fn(&str) -> Option<String>,
        task_rule: TaskRule,
    ) -> Result<Imported, Error> {
        if bytes.len() > SESSION_MAX_BYTES {
            return Err(BadBundle::TooLarge { bytes: bytes.len(), max: SESSION_MAX_BYTES }.into());
        }
        let (manifest, objects) = bundle::read(bytes)?;
        let found = manifest.kind_name();
        let Manifest::Session(manifest) = manifest else {
            return Err(BadBundle::OtherKind { found, wanted: "session" }.into());
        };
        let mut import = session_import(*manifest, &objects)?;
        if let Some(project) = project {
            import.bundle.project = project;
        }
        for blob in &import.missing {
            self.engine.needed("blob", blob.0).await?;
        }
        let dir = import.bundle.working_dir.as_deref().and_then(keep_dir);
        let mut objects: Vec<Named> = objects
            .into_iter()
            .filter(|o| matches!(o.kind, Kind::TurnBody | Kind::Blob))
            .map(Named::from)
            .collect();
        let mut tries = 0;
        let mut imported = loop {
            tries += 1;
            match self.engine.store_session(&import, dir.clone(), &objects).await {
                Err(error)
                    if tries < TRIES_MAX
                        && matches!(
                            error.refusal(),
                            Some(Refusal::StaleWriter | Refusal::LabelInUse { .. })
                        ) => {}
                taken => break taken?,
            }
        };
        objects.retain(|object| object.object().kind == Kind::Blob);
        self.engine.store_tasks(&mut imported, import.tasks, &objects, task_rule).await?;
        Ok(imported)
    }
}

impl Engine {
    /// Stores the tasks of an import, each in one transaction.
    pub(crate) async fn store_tasks(
        &self,
        imported: &mut Imported,
        tasks: Vec<TaskImport>,
        objects: &[Named],
        rule: TaskRule,
    ) -> Result<(), Error> {
        for task in tasks {
            let blobs: BTreeSet<ObjectId> = task
                .import
                .steps
                .iter()
                .flat_map(|step| step.step.blobs())
                .map(|blob| blob.0)
                .collect();
            let needed =
                objects.iter().filter(|blob| blobs.contains(&blob.id())).cloned().collect();
            self.store_task(imported, task, needed, rule).await?;
        }
        Ok(())
    }

    /// Stores the session with all turns, in one transaction.
    async fn store_session(
        &self,
        import: &SessionImport,
        dir: Option<String>,
        objects: &[Named],
    ) -> Result<Imported, Error> {
        let bundle = &import.bundle;
        let by_id = self
            .store()
            .view(&Target::Id(bundle.session), Needs::NOTHING)
            .await?
            .map(|view| view.session);
        let id_is_free = by_id.is_none();
        if let Some(here) = by_id
            && let Some(skip) = self.new_turns(&here, import).await?
        {
            return self.extend(&here, import, skip, objects).await;
        }
        for label in bundle.labels() {
            let Some(view) =
                self.store().view(&Target::Label(label.clone()), Needs::NOTHING).await?
            else {
                let id = if id_is_free { bundle.session } else { SessionId(self.new_id()) };
                let new = bundle.new_session(id, label, dir);
                return self.make_imported(import, new, objects).await;
            };
            if let Some(skip) = self.new_turns(&view.session, import).await? {
                return self.extend(&view.session, import, skip, objects).await;
            }
        }
        Err(Refusal::LabelInUse { label: bundle.label.clone() }.into())
    }

    /// The index from which on the session lacks the import's turns; none where the two have
    /// diverged.
    async fn new_turns(
        &self,
        here: &Session,
        import: &SessionImport,
    ) -> Result<Option<usize>, Error> {
        let (bundle, count) = (&import.bundle, import.turns.len());
        match (here.head, bundle.head) {
            (here, there) if here == there => Ok(Some(count)),
            // A session without turns shares nothing with another session.
            (None, _) | (_, None) => {
                Ok((here.id == bundle.session).then_some(if here.head.is_none() {
                    0
                } else {
                    count
                }))
            }
            (Some(head), Some(there)) => {
                if let Some(at) = import.turns.iter().position(|turn| turn.id == head) {
                    return Ok(Some(at + 1));
                }
                match self.store().common_ancestor(head, there).await {
                    Ok(shared) => Ok((shared == Some(there)).then_some(count)),
                    // The head of the bundle was never in this store.
                    Err(StoreError::NotFound { .. }) => Ok(None),
                    Err(error) => Err(error.into()),
                }
            }
        }
    }

    /// Creates a session with the turns of an import.
    pub(crate) async fn make_imported(
        &self,
        import: &SessionImport,
        new: session::New,
        objects: &[Named],
    ) -> Result<Imported, Error> {
        let bundle = &import.bundle;
        let (id, label) = (new.id, new.label.clone());
        let renamed_from = (label != bundle.label).then(|| bundle.label.clone());
        let adopt = SessionToImport {
            new,
            options: bundle.options.clone(),
            expected: None,
            turns: import.turns.clone(),
        };
        let now = self.now();
        let rule = move |found: Option<&SessionView>| decide::import_session(found, &adopt);
        let write = ctx_store::Write {
            target: Target::Label(label),
            needs: Needs::NOTHING,
            objects: objects.to_vec(),
            now,
        };
        self.execute(write, rule).await?;
        let turns = import.turns.len() as u64;
        Ok(Imported {
            session: id,
            renamed_from,
            arrival: ImportEffect::Created,
            turns,
            tasks: 0,
            tasks_left: 0,
        })
    }

    /// Appends the newer turns to an existing session.
    pub(crate) async fn extend(
        &self,
        here: &Session,
        import: &SessionImport,
        skip: usize,
        objects: &[Named],
    ) -> Result<Imported, Error> {
        let turns = import.turns[skip.min(import.turns.len())..].to_vec();
        let renamed_from = (here.label != import.bundle.label).then(|| import.bundle.label.clone());
        let count = turns.len() as u64;
        let arrival =
            if turns.is_empty() { ImportEffect::Unchanged } else { ImportEffect::Extended };
        if !turns.is_empty() {
            let new = import.bundle.new_session(here.id, here.label.clone(), None);
            let adopt =
                SessionToImport { new, options: here.options.clone(), expected: here.head, turns };
            let rule = move |view: &SessionView, _: &decide::Invocation| {
                decide::extend_session(view, &adopt)
            };
            self.decide(Target::Id(here.id), Needs::NOTHING, objects.to_vec(), rule).await?;
        }
        Ok(Imported {
            session: here.id,
            renamed_from,
            arrival,
            turns: count,
            tasks: 0,
            tasks_left: 0,
        })
    }

    async fn store_task(
        &self,
        imported: &mut Imported,
        task: TaskImport,
        blobs: Vec<Named>,
        rule: TaskRule,
    ) -> Result<(), Error> {
        let id = task.end.task.task;
        let known = self.store().task(id).await?;
        if known.as_ref().is_some_and(|known| {
            known.head == task.end.task.staging_head
                && known.ended_at.is_some() == task.end.ended_at.is_some()
        }) {
            return Ok(());
        }
        let needs = Needs { import: Some((id, task.end.task.staging_head)), ..Needs::WORK };
        let rule = move |view: &SessionView, _: &decide::Invocation| rule(view, &task);
        match self.decide(Target::Id(imported.session), needs, blobs, rule).await?.reply {
            Some(_) => imported.tasks += 1,
            None => imported.tasks_left += 1,
        }
        Ok(())
    }
}
