//! Import of several sessions in one transaction: all of them or none (R211).
//!
//! Turns are passed on in bounded batches while the transaction is open. Dropping the import
//! without [`AtomicImport::commit`] rolls everything back.

use ctx_core::decide::{self, Decided, Fork, Needs, SessionToImport, SessionView, TurnNeed};
use ctx_core::id::{SessionId, TurnId, derived_ulid};
use ctx_core::session::{self, Status};
use ctx_core::turn::Record;
use ctx_store::{AtomicWrite, Target, Write, Written};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::engine::{Engine, Error};
use crate::imports::{
    Batch, ImportReport, ImportTarget, ImportedTurn, Imports, branch_at, branch_label,
    branch_replaced_by, encode, find, is_replaced_by, is_stored,
};

/// Batches that may wait for the transaction.
const WAITING_MAX: usize = 4;

/// An import of several sessions whose turns form one line each.
pub struct AtomicImport {
    engine: Engine,
    writes: mpsc::Sender<Option<AtomicWrite>>,
    stored: JoinHandle<Result<Vec<Written<()>>, ctx_store::Error>>,
}

/// A session of an [`AtomicImport`].
pub struct AtomicSession<'a> {
    import: &'a AtomicImport,
    new: session::New,
    status: Status,
    /// The head of the session before the import; the outer `None` if there was no session.
    here: Option<Option<TurnId>>,
    /// The newest turn of the source that was read.
    tip: Option<TurnId>,
    batch: Batch,
    /// The turn before the batch.
    before: Option<TurnId>,
    target: Option<ImportTarget>,
    report: ImportReport,
}

impl Imports<'_> {
    /// Starts an import of several sessions in one transaction. Other writers wait until it ends.
    pub fn atomic(self) -> AtomicImport {
        let (writes, received) = mpsc::channel(WAITING_MAX);
        let engine = self.engine().clone();
        let store = engine.store().clone();
        let stored = tokio::spawn(async move { ctx_store::execute_all(&store, received).await });
        AtomicImport { engine, writes, stored }
    }
}

impl AtomicImport {
    /// Starts the next session. Its status is used only if it does not exist yet.
    ///
    /// Fails if the store fails.
    pub async fn session(
        &self,
        new: session::New,
        status: Status,
    ) -> Result<AtomicSession<'_>, Error> {
        let here = find(&self.engine, new.id).await?;
        Ok(AtomicSession {
            import: self,
            new,
            status,
            here,
            tip: None,
            batch: Batch::default(),
            before: None,
            target: None,
            report: ImportReport::default(),
        })
    }

    /// Commits everything.
    ///
    /// Fails if a session is busy or was changed meanwhile, or the store fails. Nothing is stored
    /// then.
    pub async fn commit(self) -> Result<(), Error> {
        let at = self.engine.now();
        // A failed transaction has closed the channel; its error follows.
        let _ = self.writes.send(None).await;
        for mut written in joined(self.stored).await? {
            self.engine.publish(at, &mut written);
        }
        Ok(())
    }

    /// The error that ended the transaction early.
    ///
    /// Fails always.
    pub async fn failure(self) -> Result<(), Error> {
        drop(self.writes);
        joined(self.stored).await.map(drop)
    }

    async fn send(
        &self,
        target: Target,
        needs: Needs,
        batch: Batch,
        rule: impl Fn(Option<&SessionView>) -> Decided<()> + Send + 'static,
    ) -> Result<(), Error> {
        let write = Write { target, needs, objects: batch.objects, now: self.engine.now() };
        let sent = self.writes.send(Some(AtomicWrite { write, rule: Box::new(rule) })).await;
        sent.map_err(|_| Error::Store(ctx_store::Error::Unavailable(STOPPED.to_owned())))
    }
}

const STOPPED: &str = "the transaction of the import has ended";

async fn joined(
    stored: JoinHandle<Result<Vec<Written<()>>, ctx_store::Error>>,
) -> Result<Vec<Written<()>>, Error> {
    let ended = stored.await;
    let ended = ended.map_err(|error| ctx_store::Error::Internal(error.to_string()));
    Ok(ended.flatten()?)
}

impl AtomicSession<'_> {
    /// Adds the next turn of the source.
    ///
    /// Fails if the store fails, or the transaction has ended.
    pub async fn push(&mut self, imported: ImportedTurn) -> Result<(), Error> {
        let (record, objects) = encode(imported, self.tip);
        let id = record.id;
        let is_new = self.report.turns > 0 || !self.batch.turns.is_empty();
        if self.here.is_some() && !is_new && is_stored(&self.import.engine, id).await? {
            self.report.known += 1;
            self.tip = Some(id);
            return Ok(());
        }
        if self.batch.turns.is_empty() && self.target.is_none() {
            self.choose_target(&record).await?;
        }
        if self.batch.turns.is_empty() {
            self.before = self.tip;
        }
        self.tip = Some(id);
        self.batch.add(record, objects);
        if self.batch.is_full() {
            self.flush().await?;
        }
        Ok(())
    }

    /// Ends the session and returns its report. A session without turns is created too.
    ///
    /// Fails if the store fails, or the transaction has ended.
    pub async fn finish(mut self) -> Result<ImportReport, Error> {
        if self.here.is_none() || !self.batch.turns.is_empty() {
            self.flush().await?;
        }
        Ok(self.report)
    }

    /// The session that receives the new turns, which follow `self.tip`.
    async fn choose_target(&mut self, next: &Record) -> Result<(), Error> {
        let own = |head| ImportTarget { id: self.new.id, label: self.new.label.clone(), head };
        let engine = &self.import.engine;
        let Some(head) = self.here else { return Ok(()) };
        if head == self.tip || is_replaced_by(engine, head, next).await? {
            self.target = Some(own(head));
            return Ok(());
        }
        let branch = match branch_at(engine, &self.new, self.tip).await? {
            Some(branch) => Some(branch),
            None => branch_replaced_by(engine, &self.new, self.tip, next).await?,
        };
        if branch.is_some() {
            self.target = branch;
            return Ok(());
        }
        // The session was continued here: its new turns become a session of their own.
        let name = self.tip.map_or_else(|| next.id.to_string(), |tip| tip.to_string());
        let label = branch_label(&self.new.label, self.tip.unwrap_or(next.id));
        let id = SessionId(derived_ulid(&[&self.new.id.to_string(), &name], self.new.created_at.0));
        let fork =
            Fork { id, label: label.clone(), turn: self.tip, title: None, working_dir: None };
        let needs = Needs {
            turn: self.tip.map(TurnNeed::ForkPoint),
            label: Some(label.clone()),
            ..Needs::PINS
        };
        let invocation = engine.invocation();
        let rule = move |view: Option<&SessionView>| {
            let view = view.ok_or(ctx_core::refusal::Refusal::NoSession)?;
            Ok(decide::Decision::new(decide::fork(view, &fork, &invocation)?.into_parts().0, ()))
        };
        let import = self.import;
        import.send(Target::Id(self.new.id), needs, Batch::default(), rule).await?;
        self.report.continued_in = Some(label.clone());
        self.target = Some(ImportTarget { id, label, head: self.tip });
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), Error> {
        let mut batch = std::mem::take(&mut self.batch);
        let turns = std::mem::take(&mut batch.turns);
        self.report.turns += turns.len() as u64;
        let last = turns.last().map(|turn| turn.id);
        let parent = self.before;
        let (status, import) = (self.status, self.import);
        let Some(target) = &mut self.target else {
            let new = self.new.clone();
            let to = Target::Label(new.label.clone());
            self.target = Some(ImportTarget { id: new.id, label: new.label.clone(), head: last });
            self.report.created = true;
            let session =
                SessionToImport { new, options: Default::default(), expected: None, turns };
            let rule =
                move |view: Option<&SessionView>| decide::import_session_as(view, &session, status);
            return import.send(to, Needs::NOTHING, batch, rule).await;
        };
        let session = SessionToImport {
            new: self.new.clone(),
            options: Default::default(),
            expected: target.head,
            turns,
        };
        let (replaced, to) = (target.head != parent, Target::Id(target.id));
        target.head = last;
        let rule = move |view: Option<&SessionView>| {
            let view = view.ok_or(ctx_core::refusal::Refusal::NoSession)?;
            match replaced {
                true => decide::replace_last_turn(view, &session, parent),
                false => decide::extend_session(view, &session),
            }
        };
        import.send(to, Needs::NOTHING, batch, rule).await
    }
}
