//! Sessions that agents start: their depth, and reports to the session that started them.

use std::time::Duration;

use ctx_core::decide::{
    self, Accepted, Invocation, Needs, RunPolicy, SessionView, SubmitTarget, WorkerReport,
};
use ctx_core::id::{MessageId, SessionId, TurnId};
use ctx_core::inbox::{Mode, Overrides};
use ctx_core::message::{Message, Source};
use ctx_core::session::{Activity, Session};
use ctx_core::task::State;
use ctx_core::worker::{DEPTH_MAX, End, ReportContent, WorkerState, last_text, report};
use ctx_store::{SessionQuery, Target};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::context::messages_of;
use crate::engine::{Engine, Error};
use crate::runs::Runs;
use crate::sessions::{Info, Sessions};
use crate::submit::{NewMessage, to_completion};

/// Most workers of a session that one query returns.
const WORKERS_MAX: usize = 200;
/// How long the report to an idle session waits for the reports of its other workers that run.
const COLLECT_PAUSE: Duration = Duration::from_millis(200);
/// How often a tool call that waits for a worker reads its state, besides at its events.
const WAIT_POLL: Duration = Duration::from_millis(500);

impl Sessions<'_> {
    /// The sessions that a session started, those with the newest activity first.
    ///
    /// Fails if the store fails.
    pub async fn workers(self, label: &str) -> Result<Vec<Session>, Error> {
        let query =
            SessionQuery { parent: Some(label.to_owned()), ..SessionQuery::newest(WORKERS_MAX) };
        let page = self.engine.store().sessions(&query).await?;
        Ok(page.sessions.into_iter().map(|view| view.session).collect())
    }
}

impl Runs<'_> {
    /// Whether this process runs a worker of the session, directly or nested, or has to report
    /// about one.
    ///
    /// Fails if the store fails.
    pub async fn has_workers_here(self, label: &str) -> Result<bool, Error> {
        let mut above = vec![label.to_owned()];
        for _ in 0..DEPTH_MAX {
            let mut below = Vec::new();
            for manager in &above {
                for worker in self.engine.sessions().workers(manager).await? {
                    if worker.owner == Some(self.engine.shared().node)
                        || (worker.unreported && self.engine.end_of(worker.id).await?.is_some())
                    {
                        return Ok(true);
                    }
                    below.push(worker.label);
                }
            }
            above = below;
        }
        Ok(false)
    }

    /// Cancels the runs of a session and of all its workers, direct or nested. Nothing is reported.
    ///
    /// Fails if the session does not exist.
    pub async fn cancel_with_workers(self, session: &str) -> Result<Info, Error> {
        let info = self.engine.stop_run(session, decide::cancel).await?;
        let mut above = vec![info.session.label];
        for _ in 0..DEPTH_MAX {
            let mut below = Vec::new();
            for manager in &above {
                for worker in self.engine.sessions().workers(manager).await? {
                    self.engine.stop_waiting(worker.id).await?;
                    if worker.state != Activity::Idle {
                        self.engine.stop_run(&worker.id.to_string(), decide::cancel).await?;
                    }
                    below.push(worker.label);
                }
            }
            above = below;
        }
        self.engine.sessions().get(session).await
    }
}

/// The last run of a worker, which its manager has not received a report about.
pub(crate) struct WorkerEnd {
    pub(crate) session: Session,
    /// The label of the manager.
    pub(crate) manager: String,
    pub(crate) head: TurnId,
    pub(crate) end: End,
    task: Option<String>,
    question: Option<String>,
    asking: Vec<String>,
    messages: Vec<Message>,
}

impl WorkerEnd {
    pub(crate) fn last_words(&self) -> Option<String> {
        last_text(&self.messages)
    }

    fn report(&self) -> WorkerReport {
        let text = report(ReportContent {
            label: &self.session.label,
            end: self.end,
            task: self.task.as_deref(),
            question: self.question.as_deref(),
            asking: &self.asking,
            messages: &self.messages,
        });
        let (worker, label) = (self.session.id, self.session.label.clone());
        WorkerReport { worker, label, head: self.head, end: self.end, text }
    }
}

impl Engine {
    /// The number of managers above a session.
    pub(crate) async fn depth(&self, session: &Session) -> Result<usize, Error> {
        let (mut depth, mut parent) = (0, session.manager().cloned());
        while let Some(above) = parent.filter(|_| depth < DEPTH_MAX) {
            depth += 1;
            let view = self.store().view(&Target::Label(above.session), Needs::NOTHING).await?;
            parent = view.and_then(|view| view.session.manager().cloned());
        }
        Ok(depth)
    }

    /// The end of a worker's last run, if it is to be reported: the worker is idle, and its own
    /// workers have reported to it.
    pub(crate) async fn end_of(&self, worker: SessionId) -> Result<Option<WorkerEnd>, Error> {
        let Some(view) = self.store().view(&Target::Id(worker), Needs::REPORT).await? else {
            return Ok(None);
        };
        let (Some(head), Some(manager)) = (view.session.head, decide::report_due(&view).cloned())
        else {
            return Ok(None);
        };
        let Some(newest) = self.last_exchange(head).await? else { return Ok(None) };
        let sealed = match &view.task {
            Some(_) => None,
            None => self.store().tasks(worker, true, None, 1).await?.pop(),
        };
        let late = sealed.as_ref().and_then(|task| task.ended_at) < Some(newest.header.started_at)
            && sealed.is_some();
        let end = match End::of(newest.header.status, view.task.as_ref()) {
            End::Completed if late => End::NoTask,
            end => end,
        };
        if decide::report_is_held(&view, end) {
            return Ok(None);
        }
        let question = match view.task.as_ref().map(|task| &task.state) {
            Some(State::AwaitingUser { question, .. }) => Some(question.clone()),
            _ => None,
        };
        let asking = view.workers.iter().filter(|worker| worker.is_asking());
        Ok(Some(WorkerEnd {
            manager: manager.session,
            head,
            end,
            task: view.task.or(sealed).map(|task| task.description),
            question,
            asking: asking.map(|worker| worker.label.clone()).collect(),
            messages: messages_of(newest)?,
            session: view.session,
        }))
    }

    /// Reports the end of a worker's last run to its manager. The report is sent once, however
    /// often this is called, and later if it cannot be sent now.
    pub(crate) async fn report(&self, worker: SessionId) -> Result<(), Error> {
        let Some(ended) = self.end_of(worker).await? else { return Ok(()) };
        let manager = Target::Label(ended.manager.clone());
        let Some(view) = self.store().view(&manager, Needs::COLLECT).await? else {
            // The report can never be delivered.
            tracing::info!(%worker, "the manager of a worker does not exist");
            return self.mark_reported(worker, ended.head).await;
        };
        let (id, reports) = (view.session.id, [ended.report()]);
        if view.session.is_worker() || !decide::expects_more_reports(&view, &reports) {
            return self.collect_reports(id).await;
        }
        // Workers that end at about the same time are reported in one message.
        let engine = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(COLLECT_PAUSE).await;
            if let Err(error) = engine.collect_reports(id).await {
                tracing::warn!(session = %id, %error, "reports of workers are sent later");
            }
        });
        Ok(())
    }

    /// Sends all reports of a session's workers that are due as one message, unless they have to
    /// wait.
    pub(crate) async fn collect_reports(&self, manager: SessionId) -> Result<(), Error> {
        let target = Target::Id(manager);
        let needs = Needs { workers: true, ..Needs::NOTHING };
        let Some(view) = self.store().view(&target, needs).await? else { return Ok(()) };
        if view.session.state != Activity::Idle {
            return Ok(());
        }
        let mut reports = Vec::new();
        for worker in view.workers.iter().filter(|worker| worker.unreported) {
            if let Some(ended) = self.end_of(worker.id).await? {
                reports.push(ended.report());
            }
        }
        if reports.is_empty() {
            return Ok(());
        }
        let newest = match view.session.head {
            Some(head) => self.last_exchange(head).await?,
            None => None,
        };
        if newest.is_none() {
            // An agent that ctx does not run started the workers and reads their state itself. A
            // report would start another agent in its session.
            for report in reports {
                self.mark_reported(report.worker, report.head).await?;
            }
            return Ok(());
        }
        let sent = reports.clone();
        let engine = self.clone();
        let collected = to_completion(async move { engine.send_reports(manager, reports).await });
        match collected.await {
            Err(error) if error.refusal().is_some_and(decide::report_is_lost) => {
                tracing::info!(session = %manager, %error, "reports cannot be delivered");
                for report in sent {
                    self.mark_reported(report.worker, report.head).await?;
                }
                Ok(())
            }
            collected => collected,
        }
    }

    async fn send_reports(
        &self,
        manager: SessionId,
        reports: Vec<WorkerReport>,
    ) -> Result<(), Error> {
        self.ensure_lease().await?;
        let (run_host, settings) = (self.shared().run_host(), self.settings().clone());
        let message = MessageId(self.new_id());
        let rule = move |view: &SessionView, invocation: &Invocation| {
            decide::collect_reports(view, &reports, message, &run_host, &settings, invocation)
        };
        let written = self.decide(Target::Id(manager), Needs::COLLECT, Vec::new(), rule).await?;
        let accepted: Option<Accepted> = written.reply;
        if let Some(accepted) = accepted {
            let slot = self.shared().slots.take_always();
            self.hand_over(manager, accepted, Some(slot)).await;
        }
        Ok(())
    }

    async fn mark_reported(&self, worker: SessionId, head: TurnId) -> Result<(), Error> {
        let rule = move |view: &SessionView, invocation: &Invocation| {
            decide::mark_reported(view, Some(head), invocation)
        };
        self.decide(Target::Id(worker), Needs::WORK, Vec::new(), rule).await.map(drop)
    }

    /// Lets a worker no longer wait for its own workers, which are cancelled: its last run is not
    /// reported.
    async fn stop_waiting(&self, worker: SessionId) -> Result<(), Error> {
        let Some(view) = self.store().view(&Target::Id(worker), Needs::REPORT).await? else {
            return Ok(());
        };
        match (decide::report_due(&view), view.session.head) {
            (Some(_), Some(head)) if view.workers.iter().any(WorkerState::is_working) => {
                self.mark_reported(worker, head).await
            }
            _ => Ok(()),
        }
    }

    /// Informs the manager of a worker that was cancelled or deleted before it could report, if the
    /// manager waits for it: a worker that does not learn about the end of its workers would never
    /// finish.
    pub(crate) async fn inform_manager(&self, worker: &Session, what: &str) -> Result<(), Error> {
        let Some(parent) = worker.parent.as_ref().filter(|_| worker.is_worker()) else {
            return Ok(());
        };
        let manager = Target::Label(parent.session.clone());
        let Some(view) = self.store().view(&manager, Needs::WORK).await? else { return Ok(()) };
        if !view.session.is_worker() || view.task.is_none() {
            return Ok(());
        }
        let text = format!("Worker {} {what}. It does not report to you.", worker.label);
        let message = NewMessage {
            source: Source::Agent,
            mode: Some(Mode::Followup),
            overrides: Overrides {
                from_worker: Some(worker.label.clone()),
                ..Overrides::default()
            },
            ..NewMessage::text(text)
        };
        let (to, policy) = (SubmitTarget::Existing, RunPolicy::StartRun);
        match self.submit_to(Target::Id(view.session.id), to, message, None, policy).await {
            Err(error) if error.refusal().is_none() => Err(error),
            _ => Ok(()),
        }
    }

    /// Waits until the end of a worker is to be reported. `None` after the bound, and if the token
    /// is cancelled.
    pub(crate) async fn wait_for_worker(
        &self,
        worker: SessionId,
        bound: Duration,
        stop: &CancellationToken,
    ) -> Result<Option<WorkerEnd>, Error> {
        let until = Instant::now() + bound;
        let mut follow = self.events().follow(&worker.to_string(), None).await?;
        loop {
            if let Some(ended) = self.end_of(worker).await? {
                return Ok(Some(ended));
            }
            let pause = until.min(Instant::now() + WAIT_POLL);
            tokio::select! {
                // A worker that was deleted has no further events.
                followed = follow.next() => if followed?.is_none() { return Ok(None) },
                () = tokio::time::sleep_until(pause) => {}
                () = stop.cancelled() => return Ok(None),
            }
            if Instant::now() >= until {
                return Ok(None);
            }
        }
    }
}
