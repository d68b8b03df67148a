//! What the target lacks of each session, and where it is stored there.
//!
//! A session is found in the target by its id, else by its label if one history extends the other.
//! Everything else that has the label is another session, and the target gives the new one another
//! label.

use std::collections::{HashMap, HashSet};

use ctx_core::exchange::{
    PartRequest, Placement, QUERY_IDS_MAX, Relation, SessionHead, TaskMark, branch_id,
    branch_placement, new_placement,
};
use ctx_core::id::{SessionId, TaskId, TurnId};
use ctx_core::session::Origin;

use super::peer::{Peer, PeerError};
use super::shared_turns::{Tip, shared, shared_with_any, stored, turn_at, turns_at};

/// How often a branch may itself have diverged.
const BRANCH_DEPTH_MAX: usize = 64;

/// A session of which the target lacks something.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) source: SessionHead,
    pub(super) placement: Placement,
    /// The next part.
    pub(super) request: PartRequest,
    /// Number of turns before the next part.
    pub(super) sent_turns: u64,
    /// The label of the target's session from which the history has diverged.
    pub(super) branch_of: Option<String>,
}

/// The result of planning.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) jobs: Vec<Job>,
    /// Sessions that share their first turn with a job. They are planned again after it, so that
    /// the shared turns are sent once.
    pub(super) deferred: Vec<SessionHead>,
    /// Number of sessions of which the target lacks nothing.
    pub(super) unchanged: usize,
}

/// Where a session belongs in the target.
enum Match<'a> {
    Session(&'a SessionHead),
    None,
}

pub(super) struct Planner<'a> {
    source: &'a dyn Peer,
    target: &'a dyn Peer,
    by_id: HashMap<SessionId, &'a SessionHead>,
    by_label: HashMap<&'a str, &'a SessionHead>,
}

impl<'a> Planner<'a> {
    pub(super) fn new(
        source: &'a dyn Peer,
        target: &'a dyn Peer,
        targets: &'a [SessionHead],
    ) -> Self {
        Self {
            source,
            target,
            by_id: targets.iter().map(|head| (head.session, head)).collect(),
            by_label: targets.iter().map(|head| (head.label.as_str(), head)).collect(),
        }
    }

    /// Plans the transfer of sessions.
    pub(super) async fn plan(&self, sources: Vec<SessionHead>) -> Result<Plan, PeerError> {
        let mut plan = Plan::default();
        let mut jobs = Vec::new();
        let mut new = Vec::new();
        let relations = self.relations(&sources).await?;
        for (source, relation) in sources.into_iter().zip(relations) {
            match (self.find(&source), relation) {
                (Match::Session(found), Relation::Complete) => {
                    jobs.push((self.complete(&source, found), found.tasks == source.tasks));
                }
                (Match::Session(found), Relation::Behind) => {
                    jobs.push((behind(&source, found), false));
                }
                (Match::Session(found), Relation::Diverged) if found.session == source.session => {
                    match self.diverged(&source, found).await? {
                        Some(job) => jobs.push((job, false)),
                        None => plan.unchanged += 1,
                    }
                }
                // An empty session is not worth another label.
                (Match::Session(_), _) if source.is_empty() => plan.unchanged += 1,
                (Match::None, _) if source.is_unused_default() => plan.unchanged += 1,
                _ => new.push(source),
            }
        }
        self.plan_new(new, &mut plan, &mut jobs).await?;
        self.add_tasks(jobs, &mut plan).await?;
        Ok(plan)
    }

    fn find(&self, source: &SessionHead) -> Match<'a> {
        let found = self.by_id.get(&source.session);
        match found.or_else(|| self.by_label.get(source.label.as_str())) {
            Some(found) => Match::Session(found),
            None => Match::None,
        }
    }

    /// The relation of each session to the one that `find` returns. One query of each peer decides
    /// for all sessions whether one history extends the other.
    async fn relations(&self, sources: &[SessionHead]) -> Result<Vec<Relation>, PeerError> {
        let mut relations = vec![Relation::Diverged; sources.len()];
        let (mut in_source, mut in_target) = (Vec::new(), Vec::new());
        for (at, source) in sources.iter().enumerate() {
            let Match::Session(target) = self.find(source) else { continue };
            let same_id = target.session == source.session;
            match (source.head, target.head) {
                (a, b) if a == b && (same_id || a.is_some()) => relations[at] = Relation::Complete,
                // Sessions without turns share nothing but their id.
                (None, _) if same_id => relations[at] = Relation::Complete,
                (Some(_), None) if same_id => relations[at] = Relation::Behind,
                (Some(head), Some(expected)) if source.turns > target.turns => {
                    in_source.push((at, (head, target.turns), expected));
                }
                (Some(expected), Some(head)) if source.turns < target.turns => {
                    in_target.push((at, (head, source.turns), expected));
                }
                _ => {}
            }
        }
        for (peer, places, relation) in [
            (self.source, in_source, Relation::Behind),
            (self.target, in_target, Relation::Complete),
        ] {
            let asked: Vec<(TurnId, u64)> = places.iter().map(|(_, place, _)| *place).collect();
            let found = turns_at(peer, &asked).await?;
            for ((at, _, expected), turn) in places.into_iter().zip(found) {
                if turn == Some(expected) {
                    relations[at] = relation;
                }
            }
        }
        Ok(relations)
    }

    /// The target has every turn; tasks may be missing.
    fn complete(&self, source: &SessionHead, found: &SessionHead) -> Job {
        job(source, extend(found), source.head, source.turns)
    }

    /// The job for a history that diverged from the target's session; `None` if the target has
    /// every turn of it, in this or in another session.
    async fn diverged(
        &self,
        source: &SessionHead,
        found: &SessionHead,
    ) -> Result<Option<Job>, PeerError> {
        let Some(head) = source.head else { return Ok(None) };
        if stored(self.target, &[head]).await?[0] {
            return Ok(None);
        }
        let tip = Tip { head, turns: source.turns };
        let mut session = source.session;
        let mut there = found;
        for _ in 0..BRANCH_DEPTH_MAX {
            let shared = match there.head {
                Some(head) => {
                    let other = Tip { head, turns: there.turns };
                    shared(self.source, self.target, tip, other).await?
                }
                None => 0,
            };
            if Relation::of(tip.turns, there.turns, shared) == Relation::Behind {
                return Ok(Some(Job {
                    branch_of: Some(found.label.clone()),
                    ..behind(source, there)
                }));
            }
            let first = turn_at(self.source, head, shared + 1).await?;
            let placement = branch_placement(session, &source.label, first);
            session = placement.session;
            match self.by_id.get(&session) {
                Some(branch) => there = branch,
                None => {
                    let after = match shared {
                        0 => None,
                        shared => Some(turn_at(self.source, head, shared).await?),
                    };
                    return Ok(Some(Job {
                        branch_of: Some(found.label.clone()),
                        ..job(source, placement, after, shared)
                    }));
                }
            }
        }
        Err(PeerError::protocol("a session has too many branches"))
    }

    /// Plans sessions that the target does not have.
    async fn plan_new(
        &self,
        new: Vec<SessionHead>,
        plan: &mut Plan,
        jobs: &mut Vec<(Job, bool)>,
    ) -> Result<(), PeerError> {
        let heads: Vec<TurnId> = new.iter().filter_map(|source| source.head).collect();
        let firsts: Vec<(TurnId, u64)> = heads.iter().map(|head| (*head, 1)).collect();
        let roots = turns_at(self.source, &firsts).await?;
        let known_heads = stored(self.target, &heads).await?;
        let asked: Vec<TurnId> = roots.iter().flatten().copied().collect();
        let known_roots: HashSet<TurnId> = asked
            .iter()
            .copied()
            .zip(stored(self.target, &asked).await?)
            .filter_map(|(root, known)| known.then_some(root))
            .collect();
        let mut answers = roots.into_iter().zip(known_heads);
        let mut sent_roots = HashSet::new();
        for source in new {
            let placement = new_placement(source.session, &source.label);
            let Some(head) = source.head else {
                jobs.push((job(&source, placement, None, 0), false));
                continue;
            };
            let Some((Some(root), is_known)) = answers.next() else {
                return Err(PeerError::protocol("the first turn of a session is missing"));
            };
            // The branch of another machine that came back to where it was made.
            if is_known && source.origin == Origin::Import {
                plan.unchanged += 1;
            } else if known_roots.contains(&root) {
                let tip = Tip { head, turns: source.turns };
                let shared = shared_with_any(self.source, self.target, tip).await?;
                let after = turn_at(self.source, head, shared.max(1)).await?;
                let branch_of = self.branch_of(&source, head, shared).await?;
                let job = job(&source, placement, Some(after), shared.max(1));
                jobs.push((Job { branch_of, ..job }, false));
            } else if sent_roots.insert(root) {
                jobs.push((job(&source, placement, None, 0), false));
            } else {
                plan.deferred.push(source);
            }
        }
        Ok(())
    }

    /// The label of the target's session that a session of the source is a branch of: another
    /// machine made the branch, and the source only carries it.
    async fn branch_of(
        &self,
        source: &SessionHead,
        head: TurnId,
        shared: u64,
    ) -> Result<Option<String>, PeerError> {
        if shared >= source.turns {
            return Ok(None);
        }
        let first = turn_at(self.source, head, shared + 1).await?;
        let mut sessions = self.by_id.values();
        let found = sessions.find(|found| branch_id(found.session, first) == source.session);
        Ok(found.map(|found| found.label.clone()))
    }

    /// Adds to each job the tasks that the target lacks, and drops jobs without anything to send.
    async fn add_tasks(&self, jobs: Vec<(Job, bool)>, plan: &mut Plan) -> Result<(), PeerError> {
        let sessions: Vec<SessionId> = jobs
            .iter()
            .filter(|(job, same_tasks)| !same_tasks && job.source.tasks.is_some())
            .map(|(job, _)| job.source.session)
            .collect();
        let mut marks: HashMap<SessionId, Vec<TaskMark>> = HashMap::new();
        for some in sessions.chunks(QUERY_IDS_MAX) {
            let found = self.source.tasks(some).await?;
            marks.extend(some.iter().copied().zip(found));
        }
        let ids: Vec<TaskId> = marks.values().flatten().map(|mark| mark.task).collect();
        let mut known: HashMap<TaskId, TaskMark> = HashMap::new();
        for some in ids.chunks(QUERY_IDS_MAX) {
            let found = self.target.task_marks(some).await?;
            known.extend(found.into_iter().flatten().map(|mark| (mark.task, mark)));
        }
        for (mut job, _) in jobs {
            let of_session = marks.remove(&job.source.session).unwrap_or_default();
            let wanted = of_session.iter().filter(|mark| mark.is_wanted(known.get(&mark.task)));
            job.request.tasks = wanted.map(|mark| mark.task).collect();
            let is_new = !self.by_id.contains_key(&job.placement.session);
            if is_new || job.request.head != job.request.after || !job.request.tasks.is_empty() {
                plan.jobs.push(job);
            } else {
                plan.unchanged += 1;
            }
        }
        Ok(())
    }
}

fn behind(source: &SessionHead, found: &SessionHead) -> Job {
    job(source, extend(found), found.head, found.turns)
}

/// The placement in a session that exists.
fn extend(found: &SessionHead) -> Placement {
    Placement { session: found.session, labels: vec![found.label.clone()] }
}

fn job(source: &SessionHead, placement: Placement, after: Option<TurnId>, sent_turns: u64) -> Job {
    let request =
        PartRequest { session: source.session, head: source.head, after, tasks: Vec::new() };
    Job { source: source.clone(), placement, request, sent_turns, branch_of: None }
}
