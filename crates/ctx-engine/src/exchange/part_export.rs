//! The next part of a session: turns after one that the other store has, then tasks.

use std::collections::BTreeSet;

use ctx_core::bundle::{self, BadBundle, Manifest, SessionBundle, SessionPart, Writer};
use ctx_core::compaction::Compaction;
use ctx_core::decide::Needs;
use ctx_core::exchange::{PART_BYTES, PART_MAX_BYTES, PART_TURNS_MAX, PartRequest, PathQuery};
use ctx_core::id::{BlobId, TaskId, TurnId};
use ctx_core::object::Object;
use ctx_core::refusal::Refusal;
use ctx_core::task::Task;
use ctx_core::turn;
use ctx_store::{Error as StoreError, Target, TurnQuery};

use crate::engine::{Engine, Error};

use super::Exchanges;

/// Number of turns or steps that one query returns.
const PAGE_OBJECTS: usize = 256;

impl Exchanges<'_> {
    /// The next part of a session.
    ///
    /// Fails if the session, a turn or a task is not stored, an object is damaged, or a single turn
    /// or task is larger than a part may be.
    pub async fn export_part(self, request: &PartRequest) -> Result<Vec<u8>, Error> {
        let store = self.engine.store();
        let target = Target::Id(request.session);
        let view = store.view(&target, Needs::NOTHING).await?.ok_or(Refusal::NoSession)?;
        let base_turns = self.depth_on_path(request).await?;
        let mut part = Contents::new(self.engine);
        let (mut head, mut turns) = (request.after, base_turns);
        if let Some(wanted) = request.head {
            let total = self.depth(wanted).await?;
            while turns < total && part.has_room() {
                let last = part.add_turns(wanted, turns + 1, total).await?;
                (head, turns) = (Some(last.0), last.1);
            }
            if turns == total {
                part.add_tasks(request).await?;
            }
        } else {
            part.add_tasks(request).await?;
        }
        let Contents { objects, tasks, compactions, .. } = part;
        let session = SessionBundle {
            head,
            turn_count: turns,
            ..SessionBundle::of(&view.session, &tasks, compactions)
        };
        let (base, origin) = (request.after, view.session.origin);
        let manifest = Manifest::Part(Box::new(SessionPart { session, base, base_turns, origin }));
        let bytes = bundle::write(&manifest, &objects);
        if bytes.len() > PART_MAX_BYTES {
            return Err(BadBundle::TooLarge { bytes: bytes.len(), max: PART_MAX_BYTES }.into());
        }
        Ok(bytes)
    }

    async fn depth(self, turn: TurnId) -> Result<u64, Error> {
        let depth = self.engine.store().turn_depths(vec![turn]).await?.pop().flatten();
        Ok(depth.ok_or_else(|| StoreError::NotFound { what: "turn", name: turn.to_string() })?)
    }

    /// The depth of the turn before the part, which must be an ancestor of the head.
    async fn depth_on_path(self, request: &PartRequest) -> Result<u64, Error> {
        let Some(after) = request.after else { return Ok(0) };
        let depth = self.depth(after).await?;
        let head = request.head.ok_or(Refusal::NotAnAncestor { turn: after })?;
        let query = PathQuery { head, depths: vec![depth] };
        let found = self.engine.store().path_turns(vec![query]).await?;
        match found.into_iter().flatten().next().flatten() {
            Some(turn) if turn == after => Ok(depth),
            _ => Err(Refusal::NotAnAncestor { turn: after }.into()),
        }
    }
}

/// The objects of a part, in the order of a bundle.
struct Contents<'a> {
    engine: &'a Engine,
    objects: Vec<Object>,
    bytes: usize,
    turns: usize,
    blobs: BTreeSet<BlobId>,
    tasks: Vec<Task>,
    compactions: Vec<(TurnId, Compaction)>,
}

impl<'a> Contents<'a> {
    fn new(engine: &'a Engine) -> Self {
        Self {
            engine,
            objects: Vec::new(),
            bytes: 0,
            turns: 0,
            blobs: BTreeSet::new(),
            tasks: Vec::new(),
            compactions: Vec::new(),
        }
    }

    fn has_room(&self) -> bool {
        self.bytes < PART_BYTES && self.turns < PART_TURNS_MAX
    }

    fn add(&mut self, object: Object) {
        self.bytes += Writer::size_of(&object);
        self.objects.push(object);
    }

    async fn add_blobs(&mut self, blobs: Vec<BlobId>) -> Result<(), Error> {
        for blob in blobs {
            if self.blobs.insert(blob) {
                let object = self.engine.needed("blob", blob.0).await?;
                self.add(object);
            }
        }
        Ok(())
    }

    /// Adds turns from a depth on while there is room. Returns the last one and its depth.
    async fn add_turns(
        &mut self,
        head: TurnId,
        depth: u64,
        total: u64,
    ) -> Result<(TurnId, u64), Error> {
        let last = total.min(depth + PAGE_OBJECTS as u64 - 1);
        let query = TurnQuery {
            oldest_first: true,
            max_bytes: PART_BYTES,
            ..TurnQuery::from_depth(head, last, (last + 1 - depth) as usize)
        };
        let mut added = None;
        for (turn, depth) in self.engine.store().turns(query).await?.into_iter().zip(depth..) {
            let header = self.engine.header_of(&turn).await?;
            let blobs = turn::blobs(&turn.messages()?.unwrap_or_default());
            self.add(header);
            self.add_blobs(blobs).await?;
            self.compactions.extend(turn.compaction.map(|compaction| (turn.id, compaction)));
            if let Some(body) = turn.body {
                self.add(body);
            }
            self.turns += 1;
            added = Some((turn.id, depth));
            if !self.has_room() {
                break;
            }
        }
        added.ok_or_else(|| {
            let fault = format!("the ancestor of turn {head} at depth {depth} is missing");
            StoreError::Damaged(fault).into()
        })
    }

    /// Adds the requested tasks while there is room; at least one if the part has nothing else.
    async fn add_tasks(&mut self, request: &PartRequest) -> Result<(), Error> {
        for id in &request.tasks {
            if !self.has_room() {
                break;
            }
            let found = self.engine.store().task(*id).await?;
            let task = found.filter(|task| task.session == request.session);
            let task = task.ok_or_else(|| no_task(*id))?;
            self.add_task(&task).await?;
            self.tasks.push(task);
        }
        Ok(())
    }

    async fn add_task(&mut self, task: &Task) -> Result<(), Error> {
        let mut seq = 0;
        while seq < task.steps {
            // Steps that are written meanwhile come after the exported head.
            let count = PAGE_OBJECTS.min((task.steps - seq) as usize);
            let page = self.engine.store().steps(task.id, seq, count).await?;
            seq = page.last().map(|step| step.seq).ok_or_else(|| {
                StoreError::Damaged(format!("steps of task {} are missing", task.id))
            })?;
            for stored in page {
                self.add(stored.object);
                self.add_blobs(stored.step.blobs()).await?;
            }
        }
        if let Some(commit) = task.commit {
            let object = self.engine.needed("commit", commit.0).await?;
            self.add(object);
        }
        Ok(())
    }
}

fn no_task(id: TaskId) -> Error {
    StoreError::NotFound { what: "task", name: id.to_string() }.into()
}
