//! Store the reports of a session's workers as one message of the session (R190).
//!
//! The message and the marks of the workers are written in one transaction, so each end of a worker
//! is reported once. Reports wait while the manager runs, and a manager that is a worker itself
//! receives the results of its workers when the last of them has ended.

use crate::id::{MessageId, SessionId, TurnId};
use crate::inbox::{Mode, Overrides};
use crate::message::{Part, Source};
use crate::session::Activity;
use crate::worker::{End, REPORTS_MAX, WorkerState, join_reports};

use super::session_changes::RunHost;
use super::submit::accept_message;
use super::{
    Accepted, Change, ClassifyMode, Decided, Decision, Invocation, RunPolicy, SessionView,
    Settings, Submit,
};

/// The end of a worker's run, as it is reported.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the other fields are named after what they hold")]
pub struct WorkerReport {
    pub worker: SessionId,
    pub label: String,
    /// The head of the worker that the report is about.
    pub head: TurnId,
    pub end: End,
    pub text: String,
}

/// Whether other workers of the session are at work, so that more reports may follow soon.
pub fn expects_more_reports(view: &SessionView, reports: &[WorkerReport]) -> bool {
    let reported = |worker: &WorkerState| reports.iter().any(|report| report.is_of(worker));
    view.workers.iter().any(|worker| worker.is_working() && !reported(worker))
}

impl WorkerReport {
    /// Whether the report is about the last run of the worker, which has not run since.
    fn is_of(&self, worker: &WorkerState) -> bool {
        worker.id == self.worker && worker.head == Some(self.head)
    }

    /// Whether the worker has ended and its manager has not received this report.
    fn is_due(&self, view: &SessionView) -> bool {
        let due = |worker: &WorkerState| {
            self.is_of(worker) && worker.unreported && worker.state == Activity::Idle
        };
        view.workers.iter().any(due)
    }
}

/// Accepts the reports that are still due as one message. The reply is `None` if there is none, or
/// if they have to wait.
///
/// Fails if the session does not accept a message.
pub fn collect_reports(
    view: &SessionView,
    reports: &[WorkerReport],
    message_id: MessageId,
    run_host: &RunHost,
    settings: &Settings,
    invocation: &Invocation,
) -> Decided<Option<Accepted>> {
    let due: Vec<&WorkerReport> =
        reports.iter().filter(|report| report.is_due(view)).take(REPORTS_MAX).collect();
    let Some(first) = due.first() else { return Ok(Decision::unchanged(None)) };
    let results = view.session.is_worker() && due.iter().all(|report| report.end.is_result());
    if view.session.state != Activity::Idle || (results && expects_more_reports(view, reports)) {
        return Ok(Decision::unchanged(None));
    }
    let texts: Vec<&str> = due.iter().map(|report| report.text.as_str()).collect();
    let submit = Submit {
        message_id,
        content: vec![Part::Text { text: join_reports(&texts) }],
        mode: Some(Mode::Followup),
        source: Source::Agent,
        overrides: Overrides { from_worker: Some(first.label.clone()), ..Overrides::default() },
        classify_mode: ClassifyMode::default(),
        run_policy: RunPolicy::StartRun,
    };
    let mark =
        |report: &&WorkerReport| Change::MarkReported { worker: report.worker, head: report.head };
    let marks = due.iter().map(mark).collect();
    let decision = accept_message(view, marks, &submit, run_host, settings, invocation)?;
    let (batch, accepted) = decision.into_parts();
    Ok(Decision::new(batch, Some(accepted)))
}
