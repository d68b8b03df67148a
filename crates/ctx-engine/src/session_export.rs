//! Export of a session to a bundle, page by page: the memory does not depend on the size of the
//! session.
//!
//! The objects are read twice. The first time, every object is checked and the size is computed, so
//! that a session that is damaged or too large gives an error before the first byte.

use std::collections::BTreeSet;

use ctx_core::bundle::{BadBundle, END_LEN, Manifest, SESSION_MAX_BYTES, SessionBundle, Writer};
use ctx_core::compaction::Compaction;
use ctx_core::id::{BlobId, ObjectId, SessionId, TurnId};
use ctx_core::object::{Kind, Object};
use ctx_core::task::Task;
use ctx_core::turn;
use ctx_store::{Error as StoreError, PAGE_MAX, StoredTurn, TurnQuery};

use crate::engine::{Engine, Error};
use crate::session_bundles::Bundles;

/// Number of turns or steps that one query returns.
const PAGE_OBJECTS: usize = 256;
/// Size of a page in bytes after which it gets no further turn or blob.
const PAGE_BYTES: usize = 1 << 20;

impl Bundles<'_> {
    /// Exports a session with all turns, blobs, tasks, steps and commits. The open run and the
    /// inbox are not exported.
    ///
    /// Fails if the session does not exist, an object is damaged, or the bundle would be too large.
    pub async fn export(self, session: &str) -> Result<Export, Error> {
        let session = self.engine.sessions().get(session).await?.session;
        let tasks = self.engine.all_tasks(session.id).await?;
        let pages = |tasks| Pages::new(self.engine, session.head, session.turn_count, tasks);
        let mut first = pages(tasks);
        let mut size = 0;
        while let Some(objects) = first.next().await? {
            size += objects.iter().map(Writer::size_of).sum::<usize>();
            if size > SESSION_MAX_BYTES {
                let (bytes, max) = (size, SESSION_MAX_BYTES);
                return Err(BadBundle::TooLarge { bytes, max }.into());
            }
        }
        let Pages { tasks, compactions, .. } = first;
        let manifest = SessionBundle::of(&session, &tasks, compactions);
        let mut head = Vec::new();
        let writer = Writer::start(&Manifest::Session(Box::new(manifest.clone())), &mut head);
        let bytes = head.len() + size + END_LEN;
        let pages = pages(tasks);
        Ok(Export { manifest, bytes, head, pages, writer: Some(writer) })
    }
}

/// A bundle that is written part by part.
pub struct Export {
    manifest: SessionBundle,
    bytes: usize,
    /// The first lines, until they were returned.
    head: Vec<u8>,
    pages: Pages,
    /// None after the last part.
    writer: Option<Writer>,
}

impl Export {
    /// The manifest of the bundle.
    pub const fn manifest(&self) -> &SessionBundle {
        &self.manifest
    }

    /// Size of the bundle in bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The next bytes of the bundle; none after the last.
    ///
    /// Fails if an object was deleted meanwhile. What was returned is then no valid bundle.
    pub async fn next_part(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let Some(mut writer) = self.writer.take() else { return Ok(None) };
        let mut part = std::mem::take(&mut self.head);
        match self.pages.next().await? {
            Some(objects) => {
                objects.iter().for_each(|object| writer.object(object, &mut part));
                self.writer = Some(writer);
            }
            None => writer.end(&mut part),
        }
        Ok(Some(part))
    }
}

/// The objects of a session in the order of a bundle, in pages of about `PAGE_BYTES`.
struct Pages {
    engine: Engine,
    head: Option<TurnId>,
    turn_count: u64,
    /// Depth of the next turn.
    depth: u64,
    tasks: Vec<Task>,
    /// Index of the next task, and the number of its steps that were returned.
    next_step: (usize, u64),
    /// Blobs that the turns and steps refer to and that were not returned yet.
    blobs: BTreeSet<BlobId>,
    /// The compactions of the turns that were returned.
    compactions: Vec<(TurnId, Compaction)>,
}

impl Pages {
    fn new(engine: &Engine, head: Option<TurnId>, turn_count: u64, tasks: Vec<Task>) -> Self {
        Self {
            engine: engine.clone(),
            head,
            turn_count,
            depth: 1,
            tasks,
            next_step: (0, 0),
            blobs: BTreeSet::new(),
            compactions: Vec::new(),
        }
    }

    /// The next objects; none after the last.
    async fn next(&mut self) -> Result<Option<Vec<Object>>, Error> {
        if let Some(head) = self.head.filter(|_| self.depth <= self.turn_count) {
            return self.turns(head).await.map(Some);
        }
        if self.next_step.0 < self.tasks.len() {
            return self.steps().await.map(Some);
        }
        let (mut objects, mut bytes) = (Vec::new(), 0);
        while bytes < PAGE_BYTES
            && let Some(blob) = self.blobs.pop_first()
        {
            let object = self.engine.needed("blob", blob.0).await?;
            bytes += object.bytes.len();
            objects.push(object);
        }
        Ok((!objects.is_empty()).then_some(objects))
    }

    async fn turns(&mut self, head: TurnId) -> Result<Vec<Object>, Error> {
        let last = self.turn_count.min(self.depth + PAGE_OBJECTS as u64 - 1);
        let query = TurnQuery {
            oldest_first: true,
            max_bytes: PAGE_BYTES,
            ..TurnQuery::from_depth(head, last, (last + 1 - self.depth) as usize)
        };
        let page = self.engine.store().turns(query).await?;
        if page.is_empty() {
            let fault = format!("the ancestor of turn {head} at depth {} is missing", self.depth);
            return Err(StoreError::Damaged(fault).into());
        }
        self.depth += page.len() as u64;
        let mut objects = Vec::with_capacity(2 * page.len());
        for turn in page {
            objects.push(self.engine.header_of(&turn).await?);
            self.blobs.extend(turn::blobs(&turn.messages()?.unwrap_or_default()));
            self.compactions.extend(turn.compaction.map(|compaction| (turn.id, compaction)));
            objects.extend(turn.body);
        }
        Ok(objects)
    }

    /// Steps of the next task, and its commit after the last of them.
    async fn steps(&mut self) -> Result<Vec<Object>, Error> {
        let (at, seq) = self.next_step;
        let task = &self.tasks[at];
        let mut objects = Vec::new();
        // Steps that are written meanwhile come after the exported head.
        let count = PAGE_OBJECTS.min((task.steps - seq) as usize);
        if count > 0 {
            let page = self.engine.store().steps(task.id, seq, count).await?;
            self.next_step.1 = page.last().map(|step| step.seq).ok_or_else(|| {
                StoreError::Damaged(format!("steps of task {} are missing", task.id))
            })?;
            for stored in page {
                self.blobs.extend(stored.step.blobs());
                objects.push(stored.object);
            }
        }
        if self.next_step.1 >= task.steps {
            if let Some(commit) = task.commit {
                objects.push(self.engine.needed("commit", commit.0).await?);
            }
            self.next_step = (at + 1, 0);
        }
        Ok(objects)
    }
}

impl Engine {
    /// The stored bytes of a turn's header.
    pub(crate) async fn header_of(&self, turn: &StoredTurn) -> Result<Object, Error> {
        let encoded = Object::encode(Kind::Turn, &turn.header);
        // A header in an older encoding is exported as it is stored.
        if encoded.id() == turn.id.0 { Ok(encoded) } else { self.needed("turn", turn.id.0).await }
    }

    /// All tasks of a session, oldest first.
    async fn all_tasks(&self, session: SessionId) -> Result<Vec<Task>, Error> {
        let mut tasks: Vec<Task> = Vec::new();
        loop {
            let page = self
                .store()
                .tasks(session, true, tasks.last().map(|task| task.id), PAGE_MAX)
                .await?;
            if page.is_empty() {
                tasks.reverse();
                return Ok(tasks);
            }
            tasks.extend(page);
        }
    }

    pub(crate) async fn needed(&self, what: &'static str, id: ObjectId) -> Result<Object, Error> {
        let found = self.store().object(id).await?;
        Ok(found.ok_or_else(|| StoreError::NotFound { what, name: id.to_string() })?)
    }
}
