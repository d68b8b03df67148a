//! Tasks across sessions, and the recorder of one session.

use ctx_core::decide::{self, ClosedTask, CommitRecord, Decided, Invocation, Needs, SessionView};
use ctx_core::id::{CommitId, SessionId, TaskId};
use ctx_core::refusal::Refusal;
use ctx_core::session::{Activity, Origin};
use ctx_core::task::Task;
use ctx_core::time::{Span, Timestamp};
use ctx_store::{Due, StoredStep, Target};

use crate::engine::{Engine, Error};
use crate::message_pages::Order;
use crate::recorder::Recorder;

/// Number of tasks that one query of a clean-up returns.
const CLEANUP_PAGE: usize = 100;

/// Number of tasks that are searched for the one that was sealed last.
const REOPEN_MAX: usize = 64;

/// The result of a clean-up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CleanupReport {
    /// Number of tasks that were sealed.
    pub sealed: u32,
    /// Their descriptions.
    pub tasks: Vec<String>,
    /// The sessions whose task could not be sealed, and why.
    pub failed: Vec<(SessionId, String)>,
}

impl CleanupReport {
    fn add(&mut self, sealed: Option<CommitRecord>) {
        if let Some(record) = sealed {
            self.sealed += 1;
            self.tasks.push(record.commit.description);
        }
    }
}

/// Tasks: record work, list tasks, seal those that were left.
///
/// ```
/// # async fn example() -> Result<(), ctx_engine::Error> {
/// # let dir = tempfile::tempdir().expect("a directory");
/// # ctx_engine::Engine::init(dir.path(), "demo")?;
/// # let engine = ctx_engine::Engine::open(dir.path(), ctx_engine::Options::default())?;
/// let mut work = engine.tasks().recorder("main").await?;
/// work.start("Add retry logic").await?;
/// let task = work.task().await?.expect("it is open");
/// assert_eq!(engine.tasks().get(task.id).await?, Some(task));
/// let report = engine.tasks().cleanup_stale(ctx_engine::core::time::Span::days(7)).await?;
/// assert_eq!(report.sealed, 0);
/// # Ok(())
/// # }
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
/// # runtime.expect("a runtime").block_on(example()).expect("it works");
/// ```
#[derive(Clone, Copy)]
pub struct Tasks<'a> {
    pub(crate) engine: &'a Engine,
}

impl Engine {
    /// Tasks: record work, list tasks, seal those that were left.
    pub const fn tasks(&self) -> Tasks<'_> {
        Tasks { engine: self }
    }
}

impl Tasks<'_> {
    /// The recorder of a session, by id or label. A session is created if the label is not in use.
    ///
    /// Fails if the store fails or the label is not valid.
    pub async fn recorder(self, label: &str) -> Result<Recorder, Error> {
        let target = self.engine.target(label).await?;
        if self.engine.store().view(&target, Needs::default()).await?.is_none() {
            match self.engine.sessions().create_idle(label, Origin::Cli).await {
                // Another process created it at the same time.
                Err(error) if matches!(error.refusal(), Some(Refusal::LabelInUse { .. })) => {}
                made => {
                    made?;
                }
            }
        }
        Ok(Recorder::new(self.engine.clone(), target))
    }

    /// A recorder that creates no session: its calls fail if the session does not exist.
    pub fn existing_recorder(self, label: &str) -> Recorder {
        let target = label.parse().map_or_else(|_| Target::Label(label.to_owned()), Target::Id);
        Recorder::new(self.engine.clone(), target)
    }

    /// As [`Tasks::existing_recorder`], for a session that a user names: the beginning of an id is
    /// enough.
    ///
    /// Fails if the name is the beginning of several ids.
    pub async fn find_recorder(self, session: &str) -> Result<Recorder, Error> {
        Ok(Recorder::new(self.engine.clone(), self.engine.target(session).await?))
    }

    /// The steps of a task after a position, oldest first. Positions are counted from 1.
    ///
    /// Fails if the store fails.
    pub async fn steps(
        self,
        task: TaskId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StoredStep>, Error> {
        Ok(self.engine.store().steps(task, after, limit).await?)
    }

    /// The tasks that had activity in a time range, in the order of their start.
    ///
    /// Fails if the store fails.
    pub async fn between(
        self,
        from: Timestamp,
        to: Timestamp,
        limit: usize,
    ) -> Result<Vec<Task>, Error> {
        Ok(self.engine.store().tasks_between(from, to, limit).await?)
    }

    /// Seals every task that was idle for longer than `max_idle`. Call it at the start and from
    /// time to time.
    ///
    /// Fails if the store fails.
    pub async fn cleanup_stale(self, max_idle: Span) -> Result<CleanupReport, Error> {
        let mut report = CleanupReport::default();
        let since = Timestamp(self.engine.now().0.saturating_sub_unsigned(max_idle.0));
        loop {
            let idle = self.engine.store().due(Due::IdleTasks { since }, CLEANUP_PAGE).await?;
            let before = report.sealed;
            for session in &idle {
                let rule = move |view: &SessionView, invocation: &Invocation| {
                    decide::cleanup(view, max_idle, invocation)
                };
                let needs = Needs::SEAL;
                match self.engine.decide(Target::Id(*session), needs, Vec::new(), rule).await {
                    Ok(written) => report.add(written.reply),
                    // A failure must not keep the other tasks from being sealed.
                    Err(error) => report.failed.push((*session, error.to_string())),
                }
            }
            if idle.len() < CLEANUP_PAGE || report.sealed == before {
                return Ok(report);
            }
        }
    }

    /// A task, open or ended.
    ///
    /// Fails if the store fails.
    pub async fn get(self, id: TaskId) -> Result<Option<Task>, Error> {
        Ok(self.engine.store().task(id).await?)
    }

    /// Seals the open task as complete, at once and without a run.
    ///
    /// Fails if no task is open.
    pub async fn confirm(
        self,
        session: &str,
        message: Option<String>,
    ) -> Result<ClosedTask, Error> {
        let rule = move |view: &SessionView, invocation: &Invocation| {
            decide::confirm_task(view, message.as_deref(), invocation)
        };
        self.close_task(session, rule).await
    }

    /// Seals the open task as abandoned, at once. A run that is open is cancelled.
    ///
    /// Fails if no task is open.
    pub async fn abandon(self, session: &str, reason: Option<String>) -> Result<ClosedTask, Error> {
        let rule = move |view: &SessionView, invocation: &Invocation| {
            decide::abandon_task(view, reason.as_deref(), invocation)
        };
        self.close_task(session, rule).await
    }

    async fn close_task(
        self,
        session: &str,
        rule: impl Fn(&SessionView, &Invocation) -> Decided<ClosedTask> + Send + 'static,
    ) -> Result<ClosedTask, Error> {
        let before = self.engine.sessions().get(session).await?.session.state;
        let written = self
            .engine
            .decide(self.engine.target(session).await?, Needs::MESSAGE, Vec::new(), rule)
            .await?;
        let after = self.engine.sessions().get(session).await?.session.state;
        if (before, after) == (Activity::Suspended, Activity::Idle) {
            self.engine.release(written.session);
        }
        // Messages that waited for a prompt about this task can be delivered now, and a run that
        // was cancelled has to end.
        self.engine.shared().recheck(written.session);
        self.engine.wake(written.session);
        Ok(written.reply)
    }

    /// Opens a new task with the description of the last sealed one. Returns the task and the
    /// commit of the sealed one.
    ///
    /// Fails if a task is open, or none was sealed.
    pub async fn reopen(self, session: &str) -> Result<(Task, CommitId), Error> {
        let info = self.engine.sessions().get(session).await?;
        // Tasks that are open or were dropped without a commit are skipped.
        let newest = self.engine.store().tasks(info.session.id, true, None, REOPEN_MAX).await?;
        let sealed = newest.into_iter().find(|task| task.commit.is_some());
        let commit = sealed.as_ref().and_then(|task| task.commit);
        let commit = commit.ok_or(Refusal::NothingToReopen)?;
        let rule = move |view: &SessionView, invocation: &Invocation| {
            decide::reopen(view, sealed.as_ref(), invocation)
        };
        let target = Target::Id(info.session.id);
        let task = self.engine.decide(target, Needs::WORK, Vec::new(), rule).await?.reply;
        Ok((task, commit))
    }

    /// The tasks of a session after the task `after`, in the given order.
    ///
    /// Fails if the session or the task does not exist.
    pub async fn list(
        self,
        session: &str,
        order: Order,
        after: Option<TaskId>,
        limit: usize,
    ) -> Result<Vec<Task>, Error> {
        let id = self.engine.sessions().get(session).await?.session.id;
        let newest_first = order == Order::Desc;
        Ok(self.engine.store().tasks(id, newest_first, after, limit).await?)
    }
}
