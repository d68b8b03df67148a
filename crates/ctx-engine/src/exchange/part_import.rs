//! Import of a part: everything is verified before anything changes, and the turns of a part are
//! stored in one transaction.

use ctx_core::bundle::{BadBundle, SessionImport, SessionPart, part_import};
use ctx_core::decide::{self, Needs};
use ctx_core::exchange::{PART_MAX_BYTES, PathQuery, Placement};
use ctx_core::id::TurnId;
use ctx_core::object::{Kind, Named};
use ctx_core::refusal::Refusal;
use ctx_core::session::{self, Session};
use ctx_store::{Error as StoreError, Target};

use crate::engine::Error;
use crate::session_bundles::Imported;

use super::Exchanges;
use super::peer::PartStored;

/// How often an import is tried again because another process wrote meanwhile.
const TRIES_MAX: usize = 5;

impl Exchanges<'_> {
    /// Stores a part. `keep_dir` maps the working directory to one of this machine, or to none.
    ///
    /// Fails if the part is damaged or incomplete, the session is busy, or it has other turns after
    /// the part's base.
    pub async fn import_part(
        self,
        placement: &Placement,
        bytes: &[u8],
        keep_dir: impl Fn(&str) -> Option<String>,
    ) -> Result<PartStored, Error> {
        if bytes.len() > PART_MAX_BYTES {
            return Err(BadBundle::TooLarge { bytes: bytes.len(), max: PART_MAX_BYTES }.into());
        }
        let (part, mut import, objects) = part_import(bytes)?;
        self.check_references(&part, &import).await?;
        let dir = part.session.working_dir.as_deref().and_then(keep_dir);
        let mut objects: Vec<Named> = objects
            .into_iter()
            .filter(|object| matches!(object.kind, Kind::TurnBody | Kind::Blob))
            .map(Named::from)
            .collect();
        let mut tries = 0;
        let mut imported = loop {
            tries += 1;
            let stored = self.store_turns(placement, &part, &import, dir.clone(), &objects).await;
            match stored {
                Err(error) if tries < TRIES_MAX && is_race(&error) => {}
                stored => break stored?,
            }
        };
        objects.retain(|object| object.object().kind == Kind::Blob);
        let tasks = std::mem::take(&mut import.tasks);
        self.engine.store_tasks(&mut imported, tasks, &objects, decide::import_task).await?;
        let label = self.session(&Target::Id(imported.session)).await?.map(|it| it.label);
        Ok(PartStored {
            session: imported.session,
            label: label.unwrap_or_default(),
            effect: imported.arrival,
            turns: imported.turns,
            tasks: imported.tasks,
            tasks_left: imported.tasks_left,
        })
    }

    /// Checks that the store has everything that the part refers to and does not contain.
    async fn check_references(
        self,
        part: &SessionPart,
        import: &SessionImport,
    ) -> Result<(), Error> {
        if let Some(base) = part.base {
            let depth = self.engine.store().turn_depths(vec![base]).await?.pop().flatten();
            match depth {
                Some(depth) if depth == part.base_turns => {}
                Some(_) => return Err(damaged("the number of turns before the part is wrong")),
                None => return Err(missing("turn", base)),
            }
            let depths = self.engine.store().turn_depths(import.earlier.clone()).await?;
            for (turn, depth) in import.earlier.iter().zip(depths) {
                let depth = depth.ok_or_else(|| missing("turn", *turn))?;
                if !self.is_on_path(base, *turn, depth).await? {
                    return Err(damaged("a compaction refers to turns that are not before it"));
                }
            }
        }
        for blob in &import.missing {
            self.engine.needed("blob", blob.0).await?;
        }
        Ok(())
    }

    async fn is_on_path(self, head: TurnId, turn: TurnId, depth: u64) -> Result<bool, Error> {
        let query = PathQuery { head, depths: vec![depth] };
        let found = self.engine.store().path_turns(vec![query]).await?;
        Ok(found.into_iter().flatten().next().flatten() == Some(turn))
    }

    async fn session(self, target: &Target) -> Result<Option<Session>, Error> {
        Ok(self.engine.store().view(target, Needs::NOTHING).await?.map(|view| view.session))
    }

    async fn store_turns(
        self,
        placement: &Placement,
        part: &SessionPart,
        import: &SessionImport,
        dir: Option<String>,
        objects: &[Named],
    ) -> Result<Imported, Error> {
        if let Some(here) = self.session(&Target::Id(placement.session)).await? {
            let skip = self.known_turns(&here, part, import).await?;
            return self.engine.extend(&here, import, skip, objects).await;
        }
        for label in &placement.labels {
            if self.session(&Target::Label(label.clone())).await?.is_some() {
                continue;
            }
            let new = session::New {
                head: part.base,
                turn_count: part.base_turns,
                origin: part.new_origin(),
                ..part.session.new_session(placement.session, label.clone(), dir)
            };
            return self.engine.make_imported(import, new, objects).await;
        }
        let label = placement.labels.first().cloned().unwrap_or_default();
        Err(Refusal::LabelInUse { label }.into())
    }

    /// Number of turns of the part that the session has. The session must be at the part's base, in
    /// the part, or after it.
    async fn known_turns(
        self,
        here: &Session,
        part: &SessionPart,
        import: &SessionImport,
    ) -> Result<usize, Error> {
        if here.head == part.base {
            return Ok(0);
        }
        if let Some(at) = import.turns.iter().position(|turn| Some(turn.id) == here.head) {
            return Ok(at + 1);
        }
        let (head, count) = (part.session.head, part.session.turn_count);
        let contains_all = match (here.head, head) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(here), Some(head)) => self.is_on_path(here, head, count).await?,
        };
        if contains_all { Ok(import.turns.len()) } else { Err(Refusal::StaleWriter.into()) }
    }
}

fn is_race(error: &Error) -> bool {
    matches!(error.refusal(), Some(Refusal::StaleWriter | Refusal::LabelInUse { .. }))
}

fn damaged(why: &str) -> Error {
    BadBundle::Damaged(why.to_owned()).into()
}

fn missing(what: &'static str, name: impl ToString) -> Error {
    StoreError::NotFound { what, name: name.to_string() }.into()
}
