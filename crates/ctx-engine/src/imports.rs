//! Import of sessions of other tools, turn by turn, in bounded memory.
//!
//! The ids of sessions, messages and turns depend only on the source, so importing a source twice
//! stores nothing new, and a source that has grown adds only its newer turns. Every batch is one
//! transaction with whole turns: a crash leaves a session that the next import completes.
//!
//! A source can branch: a turn whose parent is not the newest turn starts a branch. The session
//! follows the newest branch, as its tool does. Each earlier branch becomes a session of its own.

use std::collections::HashSet;

use ctx_core::compaction::Compaction;
use ctx_core::decide::{self, Invocation, Needs, SessionToImport, SessionView};
use ctx_core::id::{SessionId, TurnId, derived_ulid};
use ctx_core::object::Named;
use ctx_core::session;
use ctx_core::turn::{Header, Ready, Record};
use ctx_store::{Target, Write};

use crate::engine::{Engine, Error};
use crate::turns::{Branch, NewTurn};

/// Number of turns of one transaction.
const BATCH_TURNS_MAX: usize = 512;
/// Bytes of turns and blobs after which a transaction is written.
const BATCH_MAX_BYTES: usize = 8 << 20;
/// Number of turns of a tree in which a branch is looked for.
const TREE_MAX: usize = 10_000;
/// Digits of a turn's id in the label of a branch.
const LABEL_DIGITS: usize = 8;

/// Imports sessions of other tools.
#[derive(Clone, Copy)]
pub struct Imports<'a> {
    engine: &'a Engine,
}

impl Engine {
    /// Imports sessions of other tools.
    pub const fn imports(&self) -> Imports<'_> {
        Imports { engine: self }
    }
}

impl<'a> Imports<'a> {
    pub(crate) const fn engine(self) -> &'a Engine {
        self.engine
    }

    /// Starts or continues the import of a session. The session is created with its first batch
    /// of turns.
    ///
    /// Fails if the store fails.
    pub async fn writer(self, new: session::New) -> Result<ImportWriter, Error> {
        let here = find(self.engine, new.id).await?;
        Ok(ImportWriter {
            engine: self.engine.clone(),
            target: ImportTarget { id: new.id, label: new.label.clone(), head: here.flatten() },
            exists: here.is_some(),
            existed: here.is_some(),
            new,
            ids: Vec::new(),
            seen: HashSet::new(),
            tip: None,
            batch: Batch::default(),
            report: ImportReport::default(),
        })
    }
}

/// The head of a session, if the session exists.
pub(crate) async fn find(engine: &Engine, id: SessionId) -> Result<Option<Option<TurnId>>, Error> {
    let view = engine.store().view(&Target::Id(id), Needs::NOTHING).await?;
    Ok(view.map(|view| view.session.head))
}

/// What an import did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImportReport {
    /// Number of turns that were stored.
    pub turns: u64,
    /// Number of turns of the source that were stored before.
    pub known: u64,
    /// Labels of sessions that were created for branches.
    pub branches: Vec<String>,
    /// Whether the session was created.
    pub created: bool,
    /// The label of the session that received the new turns because the session itself was
    /// continued here.
    pub continued_in: Option<String>,
}

/// A turn of a source.
pub struct ImportedTurn {
    /// Number of the parent in the order of [`ImportWriter::push`]; `None` for a root.
    pub parent: Option<usize>,
    /// The turn.
    pub turn: NewTurn,
    /// The summary and the number of summarised turns, if the turn is a compaction of all turns
    /// before it.
    pub compaction: Option<Compaction>,
}

/// Stores the turns of one source.
pub struct ImportWriter {
    engine: Engine,
    new: session::New,
    target: ImportTarget,
    /// Whether the session of `target` exists.
    exists: bool,
    /// Whether the session existed before this import.
    existed: bool,
    /// The turns of the source, by number.
    ids: Vec<TurnId>,
    seen: HashSet<TurnId>,
    /// The newest turn of the branch that is read.
    tip: Option<TurnId>,
    batch: Batch,
    report: ImportReport,
}

/// The session that receives turns.
pub(crate) struct ImportTarget {
    pub(crate) id: SessionId,
    pub(crate) label: String,
    /// Its head in the store.
    pub(crate) head: Option<TurnId>,
}

/// Turns that wait to be stored.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) turns: Vec<Record>,
    pub(crate) objects: Vec<Named>,
    bytes: usize,
}

impl ImportWriter {
    /// The session that the import creates.
    pub const fn session(&self) -> SessionId {
        self.new.id
    }

    /// Adds the next turn of the source and returns its id.
    ///
    /// Fails if the session is busy, or the store fails.
    ///
    /// # Panics
    /// If the parent was not added before.
    pub async fn push(&mut self, imported: ImportedTurn) -> Result<TurnId, Error> {
        let parent = imported.parent.map(|number| self.ids[number]);
        let (record, objects) = encode(imported, parent);
        let id = record.id;
        self.ids.push(id);
        self.seen.insert(id);
        if self.existed && is_stored(&self.engine, id).await? {
            self.flush().await?;
            self.report.known += 1;
            self.tip = Some(id);
            return Ok(id);
        }
        if self.tip != parent {
            self.flush().await?;
        }
        if self.batch.turns.is_empty() {
            self.prepare(parent, &record).await?;
        }
        self.tip = Some(id);
        self.batch.add(record, objects);
        if self.batch.is_full() {
            self.flush().await?;
        }
        Ok(id)
    }

    /// Stores what is left and returns the report.
    ///
    /// Fails if the session is busy, or the store fails.
    pub async fn finish(mut self) -> Result<ImportReport, Error> {
        self.flush().await?;
        Ok(self.report)
    }

    /// Moves to a session whose head is `parent`: turns can only be appended to a head.
    async fn prepare(&mut self, parent: Option<TurnId>, next: &Record) -> Result<(), Error> {
        if !self.exists || self.target.head == parent {
            return Ok(());
        }
        let head = self.target.head;
        if let Some(branch) = branch_at(&self.engine, &self.new, parent).await? {
            self.target = branch;
        } else if head.is_some_and(|head| !self.seen.contains(&head)) {
            // The session was continued here, or its last turn was incomplete when it was read.
            if is_replaced_by(&self.engine, head, next).await? {
                return self.rewind(parent).await;
            }
            let Some(parent) = parent else { return self.start_root(next).await };
            let label = branch_label(&self.new.label, parent);
            self.fork(parent, label.clone()).await?;
            self.report.continued_in = Some(label);
        } else if let Some(head) = head {
            // The source went back to an earlier turn: the newer turns become a session.
            let label = branch_label(&self.new.label, head);
            if self.engine.sessions().get(&label).await.is_err() {
                let branch =
                    Branch { turn: Some(head), label: Some(label.clone()), ..Branch::default() };
                self.engine.sessions().branch(&self.target.id.to_string(), branch).await?;
                self.report.branches.push(label);
            }
            self.rewind(parent).await?;
        }
        Ok(())
    }

    async fn rewind(&mut self, turn: Option<TurnId>) -> Result<(), Error> {
        let expected = self.target.head;
        match turn {
            Some(turn) => {
                self.engine.sessions().rewind(&self.target.id.to_string(), turn).await?;
            }
            None => {
                let rule = move |view: &SessionView, _: &Invocation| {
                    decide::restart_import(view, expected)
                };
                let target = Target::Id(self.target.id);
                self.engine.decide(target, Needs::PINS, Vec::new(), rule).await?;
            }
        }
        self.target.head = turn;
        Ok(())
    }

    async fn fork(&mut self, turn: TurnId, label: String) -> Result<(), Error> {
        let branch = Branch { turn: Some(turn), label: Some(label.clone()), ..Branch::default() };
        let id = self.engine.sessions().branch(&self.new.id.to_string(), branch).await?;
        self.target = ImportTarget { id, label, head: Some(turn) };
        Ok(())
    }

    /// The session was continued here, and its source was started again: a session of its own.
    async fn start_root(&mut self, next: &Record) -> Result<(), Error> {
        let label = branch_label(&self.new.label, next.id);
        let name = [self.new.id.to_string(), next.id.to_string()];
        let id = SessionId(derived_ulid(&[&name[0], &name[1]], self.new.created_at.0));
        let head = find(&self.engine, id).await?;
        self.exists = head.is_some();
        self.target = ImportTarget { id, label: label.clone(), head: head.flatten() };
        self.report.branches.push(label);
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), Error> {
        let batch = std::mem::take(&mut self.batch);
        let Some(last) = batch.turns.last().map(|turn| turn.id) else { return Ok(()) };
        let count = batch.turns.len() as u64;
        let new = session::New {
            id: self.target.id,
            label: self.target.label.clone(),
            ..self.new.clone()
        };
        let import = SessionToImport {
            new,
            options: Default::default(),
            expected: self.target.head,
            turns: batch.turns,
        };
        if self.exists {
            let rule =
                move |view: &SessionView, _: &Invocation| decide::extend_session(view, &import);
            let target = Target::Id(self.target.id);
            self.engine.decide(target, Needs::NOTHING, batch.objects, rule).await?;
        } else {
            let write = Write {
                target: Target::Label(self.target.label.clone()),
                needs: Needs::NOTHING,
                objects: batch.objects,
                now: self.engine.now(),
            };
            let rule = move |found: Option<&SessionView>| decide::import_session(found, &import);
            self.engine.execute(write, rule).await?;
            self.exists = true;
            self.report.created = !self.existed;
        }
        self.target.head = Some(last);
        self.report.turns += count;
        Ok(())
    }
}

impl Batch {
    pub(crate) fn add(&mut self, record: Record, objects: Vec<Named>) {
        self.bytes += record.object.bytes.len();
        self.bytes += objects.iter().map(|object| object.object().bytes.len()).sum::<usize>();
        self.turns.push(record);
        self.objects.extend(objects);
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.turns.len() >= BATCH_TURNS_MAX || self.bytes >= BATCH_MAX_BYTES
    }
}

/// Whether a turn is stored.
pub(crate) async fn is_stored(engine: &Engine, id: TurnId) -> Result<bool, Error> {
    match engine.messages().turn(id).await {
        Ok(_) => Ok(true),
        Err(Error::Store(ctx_store::Error::NotFound { .. })) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether the head of a session is an earlier state of this turn: the source was read while its
/// last turn was written.
pub(crate) async fn is_replaced_by(
    engine: &Engine,
    head: Option<TurnId>,
    next: &Record,
) -> Result<bool, Error> {
    let Some(head) = head else { return Ok(false) };
    let stored = engine.messages().turn(head).await?.header;
    let header: Header = next.object.decode().map_err(|fault| {
        Error::Store(ctx_store::Error::Damaged(format!("turn {}: {fault}", next.id)))
    })?;
    let first = |header: &Header| header.messages.first().map(|head| head.id);
    Ok(stored.parent == header.parent && first(&stored) == first(&header))
}

/// A session of the same source whose head is this turn.
pub(crate) async fn branch_at(
    engine: &Engine,
    new: &session::New,
    turn: Option<TurnId>,
) -> Result<Option<ImportTarget>, Error> {
    let Some(turn) = turn else { return Ok(None) };
    let tree = engine.sessions().tree(&new.id.to_string(), TREE_MAX).await?;
    let heads = tree.into_iter().find(|found| found.id == turn).map(|found| found.heads);
    let own = heads.and_then(|heads| heads.into_iter().find(|label| is_own(new, label)));
    let Some(label) = own else { return Ok(None) };
    let session = engine.sessions().get(&label).await?.session;
    Ok(Some(ImportTarget { id: session.id, label, head: session.head }))
}

/// A session of the same source whose head is an earlier state of the turn `next`, which follows
/// `parent`.
pub(crate) async fn branch_replaced_by(
    engine: &Engine,
    new: &session::New,
    parent: Option<TurnId>,
    next: &Record,
) -> Result<Option<ImportTarget>, Error> {
    let tree = engine.sessions().tree(&new.id.to_string(), TREE_MAX).await?;
    for turn in tree.into_iter().filter(|turn| turn.parent == parent) {
        let own = turn.heads.into_iter().find(|label| is_own(new, label));
        if let Some(label) = own
            && is_replaced_by(engine, Some(turn.id), next).await?
        {
            let id = engine.sessions().get(&label).await?.session.id;
            return Ok(Some(ImportTarget { id, label, head: Some(turn.id) }));
        }
    }
    Ok(None)
}

/// Whether a label is one that the import of a session gives.
fn is_own(new: &session::New, label: &str) -> bool {
    let rest = label.strip_prefix(new.label.as_str());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('~'))
}

pub(crate) fn encode(imported: ImportedTurn, parent: Option<TurnId>) -> (Record, Vec<Named>) {
    let NewTurn { about, messages, blobs: mut objects } = imported.turn;
    let (ready, body) = Ready::new(about, messages);
    objects.push(body);
    let compaction = imported
        .compaction
        .map(|compaction| Box::new(Compaction { summarized_through: parent, ..compaction }));
    (Record { compaction, ..ready.with_parent(parent) }, objects)
}

/// The label of a branch. It depends only on the source.
pub(crate) fn branch_label(label: &str, turn: TurnId) -> String {
    let name = turn.to_string();
    let short: String = label.chars().take(session::LABEL_MAX_CHARS - LABEL_DIGITS - 1).collect();
    format!("{short}~{}", &name[..LABEL_DIGITS])
}
