//! Sends to the target what it lacks of the source's sessions, in batches of parts. The state of a
//! transfer is what the target has stored, so a transfer that was cut off is simply started again.

use ctx_core::bundle::{SessionPart, part_manifest};
use ctx_core::exchange::{BATCH_PARTS_MAX, Placement, SessionHead};
use ctx_core::id::SessionId;

use crate::session_bundles::ImportEffect;

use super::peer::{PartStored, Peer, PeerError};
use super::plan::{Job, Planner};

/// Which sessions a transfer moves.
#[derive(Debug, Clone)]
pub enum Selection {
    /// Every session of the source.
    All,
    /// Sessions by label or id.
    Named(Vec<String>),
}

/// A session of which something was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the other fields are self-explanatory")]
pub struct Moved {
    /// The session in the target.
    pub session: SessionId,
    /// Its label in the target.
    pub label: String,
    /// The session in the source.
    pub source: SessionId,
    /// Its label in the source.
    pub source_label: String,
    pub effect: ImportEffect,
    pub turns: u64,
    pub tasks: usize,
    /// Number of tasks that were not stored because another task is open in the target.
    pub tasks_left: usize,
    /// The label of the target's session from which the history has diverged.
    pub branch_of: Option<String>,
}

/// A session that was left for the next transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "field names are self-explanatory")]
pub struct Skipped {
    pub session: SessionId,
    pub label: String,
    pub reason: PeerError,
}

/// The result of a transfer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the other fields are self-explanatory")]
pub struct TransferReport {
    pub moved: Vec<Moved>,
    pub skipped: Vec<Skipped>,
    /// Number of sessions of which the target lacked nothing.
    pub unchanged: usize,
}

/// Sends the selected sessions of `source` to `target`. `progress` gets the number of finished and
/// of all sessions to send.
///
/// # Errors
/// If a peer fails, answers wrongly, or sends objects that do not match their hashes. Everything
/// that was stored before is complete.
pub async fn transfer(
    source: &dyn Peer,
    target: &dyn Peer,
    selection: &Selection,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<TransferReport, PeerError> {
    let mut report = TransferReport::default();
    let mut pending = selected(source.heads().await?, selection)?;
    while !pending.is_empty() {
        let targets = target.heads().await?;
        let count = pending.len();
        let plan = Planner::new(source, target, &targets).plan(pending).await?;
        if plan.deferred.len() >= count {
            return Err(PeerError::protocol("no session can be sent first"));
        }
        report.unchanged += plan.unchanged;
        send(source, target, plan.jobs, &mut report, progress).await?;
        target.finish().await?;
        pending = plan.deferred;
    }
    Ok(report)
}

fn selected(heads: Vec<SessionHead>, selection: &Selection) -> Result<Vec<SessionHead>, PeerError> {
    let Selection::Named(names) = selection else { return Ok(heads) };
    let mut chosen = Vec::with_capacity(names.len());
    for name in names {
        let is_it = |head: &&SessionHead| {
            head.label == *name || head.session.to_string().eq_ignore_ascii_case(name)
        };
        let found = heads.iter().find(is_it).ok_or_else(|| {
            PeerError::new("no_session", format!("no session `{name}` to exchange"))
                .hint("list the sessions with `ctx session list --all`")
        })?;
        if !chosen.contains(found) {
            chosen.push(found.clone());
        }
    }
    Ok(chosen)
}

/// A job with what was stored of it so far.
struct Running {
    job: Job,
    stored: Option<Moved>,
}

async fn send(
    source: &dyn Peer,
    target: &dyn Peer,
    jobs: Vec<Job>,
    report: &mut TransferReport,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<(), PeerError> {
    let total = jobs.len() as u64;
    let mut queue: std::collections::VecDeque<Running> =
        jobs.into_iter().map(|job| Running { job, stored: None }).collect();
    while !queue.is_empty() {
        progress(total - queue.len() as u64, total);
        let batch: Vec<_> =
            queue.iter().take(BATCH_PARTS_MAX).map(|it| it.job.request.clone()).collect();
        let parts = source.read(&batch).await?;
        if parts.is_empty() || parts.len() > batch.len() {
            return Err(PeerError::protocol("wrong number of parts"));
        }
        let mut placed: Vec<(Placement, Vec<u8>)> = Vec::with_capacity(parts.len());
        let mut manifests = Vec::with_capacity(parts.len());
        for (part, running) in parts.into_iter().zip(&queue) {
            manifests.push(checked_manifest(&part, &running.job)?);
            placed.push((running.job.placement.clone(), part));
        }
        let results = target.write(&placed).await?;
        if results.len() != placed.len() {
            return Err(PeerError::protocol("wrong number of results"));
        }
        let mut unfinished = Vec::new();
        for (manifest, result) in manifests.iter().zip(results) {
            let Some(mut running) = queue.pop_front() else { break };
            match result {
                Ok(stored) => match running.advance(manifest, stored) {
                    Some(moved) => report.moved.push(moved),
                    None => unfinished.push(running),
                },
                Err(reason) if reason.concerns_one_session() => {
                    let SessionHead { session, label, .. } = running.job.source;
                    report.skipped.push(Skipped { session, label, reason: reason.for_session() });
                }
                Err(error) => return Err(in_session(&running.job.source.label, error)),
            }
        }
        unfinished.into_iter().rev().for_each(|running| queue.push_front(running));
    }
    if total > 0 {
        progress(total, total);
    }
    Ok(())
}

fn in_session(label: &str, error: PeerError) -> PeerError {
    let message = format!("failed to exchange session `{label}`: {}", error.message);
    PeerError { message, ..error }
}

/// Decodes the manifest of a part, which must be an answer to the job's request. The target
/// verifies the rest.
fn checked_manifest(part: &[u8], job: &Job) -> Result<SessionPart, PeerError> {
    let manifest = part_manifest(part).map_err(|bad| {
        in_session(&job.source.label, PeerError::new("bundle_damaged", bad.to_string()))
    })?;
    let (session, request) = (&manifest.session, &job.request);
    let wanted = session.session == request.session
        && session.turn_count <= job.source.turns
        && (session.head == request.head || session.turn_count < job.source.turns)
        && manifest.task_ids().all(|task| request.tasks.contains(&task));
    let advances = session.turn_count > job.sent_turns
        || manifest.task_ids().next().is_some()
        || (request.head == request.after && request.tasks.is_empty());
    if wanted && advances {
        Ok(manifest)
    } else {
        Err(in_session(&job.source.label, PeerError::protocol("the part was not asked for")))
    }
}

impl Running {
    /// Notes a stored part. Returns the result if it was the last one.
    fn advance(&mut self, part: &SessionPart, stored: PartStored) -> Option<Moved> {
        let request = &mut self.job.request;
        request.after = part.session.head;
        request.tasks.retain(|task| !part.task_ids().any(|sent| sent == *task));
        self.job.sent_turns = part.session.turn_count;
        self.job.placement.session = stored.session;
        match &mut self.stored {
            Some(moved) => {
                moved.turns += stored.turns;
                moved.tasks += stored.tasks;
                moved.tasks_left += stored.tasks_left;
                if moved.effect == ImportEffect::Unchanged {
                    moved.effect = stored.effect;
                }
            }
            None => {
                self.stored = Some(Moved {
                    session: stored.session,
                    label: stored.label,
                    source: self.job.source.session,
                    source_label: self.job.source.label.clone(),
                    effect: stored.effect,
                    turns: stored.turns,
                    tasks: stored.tasks,
                    tasks_left: stored.tasks_left,
                    branch_of: self.job.branch_of.clone(),
                });
            }
        }
        let is_last = request.after == request.head && request.tasks.is_empty();
        if is_last { self.stored.take() } else { None }
    }
}
