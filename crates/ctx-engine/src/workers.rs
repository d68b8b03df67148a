//! Sessions that agents start: their depth, and reports to the session that started them.

use ctx_core::decide::{self, Invocation, Needs, RunPolicy, SessionView, SubmitTarget};
use ctx_core::id::SessionId;
use ctx_core::inbox::Mode;
use ctx_core::message::Source;
use ctx_core::session::{Activity, Session};
use ctx_core::worker::{DEPTH_MAX, End, report};
use ctx_store::{Once, OnceKey, SessionQuery, Target};

use crate::context::messages_of;
use crate::engine::{Engine, Error};
use crate::runs::Runs;
use crate::sessions::{Info, Sessions};
use crate::submit::{NewMessage, remembered};

/// Most workers of a session that one query returns.
const WORKERS_MAX: usize = 200;

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
                let workers = self.engine.sessions().workers(manager).await?;
                let here = |worker: &Session| {
                    worker.owner == Some(self.engine.shared().node)
                        || decide::report_due(worker).is_some()
                };
                if workers.iter().any(here) {
                    return Ok(true);
                }
                below.extend(workers.into_iter().map(|worker| worker.label));
            }
            above = below;
        }
        Ok(false)
    }

    /// Cancels the runs of a session and of all its workers, direct or nested.
    ///
    /// Fails if the session does not exist.
    pub async fn cancel_with_workers(self, session: &str) -> Result<Info, Error> {
        let info = self.engine.runs().cancel(session).await?;
        let mut above = vec![info.session.label];
        for _ in 0..DEPTH_MAX {
            let mut below = Vec::new();
            for manager in &above {
                for worker in self.engine.sessions().workers(manager).await? {
                    if worker.state != Activity::Idle {
                        self.engine.runs().cancel(&worker.id.to_string()).await?;
                    }
                    below.push(worker.label);
                }
            }
            above = below;
        }
        self.engine.sessions().get(session).await
    }
}

impl Engine {
    /// The number of managers above a session.
    pub(crate) async fn depth(&self, session: &Session) -> Result<usize, Error> {
        let (mut depth, mut parent) = (0, session.parent.clone());
        while let Some(above) = parent.filter(|_| depth < DEPTH_MAX) {
            depth += 1;
            let view = self.store().view(&Target::Label(above.session), Needs::NOTHING).await?;
            parent = view.and_then(|view| view.session.parent);
        }
        Ok(depth)
    }

    /// Reports the end of a worker's last run to its manager. The report is sent once, however
    /// often this is called, and later if it cannot be sent now.
    pub(crate) async fn report(&self, worker: SessionId) -> Result<(), Error> {
        let Some(view) = self.store().view(&Target::Id(worker), Needs::WORK).await? else {
            return Ok(());
        };
        let session = view.session;
        let (Some(head), Some(manager)) = (session.head, decide::report_due(&session).cloned())
        else {
            return Ok(());
        };
        let Some(newest) = self.last_exchange(head).await? else { return Ok(()) };
        let status = newest.header.status;
        let description = match &view.task {
            Some(task) => Some(task.description.clone()),
            None => {
                self.store().tasks(worker, true, None, 1).await?.pop().map(|task| task.description)
            }
        };
        let text = report(
            &session,
            End::of(status, view.task.as_ref()),
            description.as_deref(),
            &messages_of(newest)?,
        );
        let key =
            OnceKey { scope: format!("worker {worker}"), key: head.to_string(), request: head.0 };
        let once = Once { key, answer: remembered };
        let message = NewMessage {
            source: Source::Agent,
            mode: Some(Mode::Followup),
            ..NewMessage::text(text)
        };
        match self
            .submit_to(
                Target::Label(manager.session),
                SubmitTarget::Existing,
                message,
                Some(once),
                RunPolicy::StartRun,
            )
            .await
        {
            Ok(_) => {}
            // The report can never be delivered.
            Err(error) if error.refusal().is_some_and(decide::report_is_lost) => {
                tracing::info!(%worker, %error, "the report about a worker cannot be delivered");
            }
            Err(error) => return Err(error),
        }
        let rule = move |view: &SessionView, invocation: &Invocation| {
            decide::mark_reported(view, Some(head), invocation)
        };
        self.decide(Target::Id(worker), Needs::WORK, Vec::new(), rule).await.map(drop)
    }
}
