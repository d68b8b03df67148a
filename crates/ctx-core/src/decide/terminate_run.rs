//! End a run from outside, because its process died or does not react. The turn keeps what was
//! stored of it (R238). A run of which nothing is stored is run again, if its provider's requests
//! have no effects.

use crate::draft::Draft;
use crate::id::{NodeId, RunId};
use crate::inbox::ItemState;
use crate::message::Part;
use crate::refusal::Refusal;
use crate::run::{Cancel, Outcome, Run};
use crate::session::{Activity, Session, Status};
use crate::turn;

use super::session_changes::{RunHost, SessionChanges};
use super::{Decided, Decision, Event, Invocation, OpenedRun, ProviderCatalog, SessionView};

/// How often the same messages are run again after crashes. A message that ends the process each
/// time is then left as an interrupted turn.
pub const RECOVERIES_MAX: u64 = 5;

/// Why a run is ended from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TerminationCause {
    /// The process that carried it out has died or was stopped.
    ProcessLost,
    /// It was cancelled and did not end in time.
    Cancelled,
}

/// Whether a session's run belongs to one of these dead processes.
pub fn is_orphaned(session: &Session, dead: &[NodeId]) -> bool {
    session.state == Activity::Running && session.owner.is_some_and(|owner| dead.contains(&owner))
}

/// Whether the messages of a run whose process died are run again: nothing of the answer is
/// stored, the user did not cancel, and the provider's request has no effects of its own.
pub fn runs_again(view: &SessionView, run: &Run, catalog: &ProviderCatalog) -> bool {
    let repeatable =
        catalog.providers.get(&run.provider_id).is_some_and(|capabilities| capabilities.repeatable);
    // What the client brought is not output of the run.
    let taken = view.inbox.iter().rev().find(|item| item.state == ItemState::Taken);
    let given = taken.map_or(0, |item| item.overrides.given.len());
    let draft = Draft::of(view.drafts.iter().skip(given).cloned());
    repeatable
        && run.cancel.is_none()
        && run.recoveries < RECOVERIES_MAX
        && view.session.status != Status::Error
        && draft.messages.iter().all(|message| message.content.is_empty())
}

/// Ends the run of a dead process: its messages are run again in the same transaction, or its turn
/// is closed as interrupted. Returns the new run, which the caller has to carry out.
///
/// Fails if that run has ended already.
pub fn recover_run(
    view: &SessionView,
    run: RunId,
    run_host: &RunHost,
    invocation: &Invocation,
) -> Decided<Option<Box<OpenedRun>>> {
    let mut changes = SessionChanges::new(view, invocation);
    match changes.run.clone().filter(|open| open.id == run) {
        Some(open) if runs_again(view, &open, &run_host.catalog) => {
            changes.run_again(&open, run_host);
            let opened_run = changes.opened_run.take();
            Ok(changes.finish(opened_run))
        }
        _ => {
            let ended = terminate_run(view, run, TerminationCause::ProcessLost, invocation)?;
            Ok(Decision::new(ended.into_parts().0, None))
        }
    }
}

/// Raises the fence, so that later writes of the run fail, and closes the turn.
///
/// Fails if that run has ended already.
pub fn terminate_run(
    view: &SessionView,
    run: RunId,
    cut: TerminationCause,
    invocation: &Invocation,
) -> Decided<()> {
    let mut changes = SessionChanges::new(view, invocation);
    let Some(open) = changes.run.clone().filter(|open| open.id == run) else {
        return Err(Refusal::StaleWriter);
    };
    changes.session.fence += 1;
    let (status, outcome) = match (cut, open.cancel) {
        (_, Some(Cancel::User)) => (turn::Status::Cancelled, Outcome::Cancelled),
        (TerminationCause::Cancelled, None) => (turn::Status::Cancelled, Outcome::Cancelled),
        (_, Some(Cancel::Message)) | (TerminationCause::ProcessLost, None) => {
            (turn::Status::Interrupted, Outcome::Interrupted)
        }
    };
    let notice = (cut == TerminationCause::ProcessLost && open.cancel.is_none()).then(|| {
        Part::Error {
        code: "interrupted".to_owned(),
        message:
            "The process was stopped during this answer. The part that was received is kept. The \
                message is not sent again automatically; use retry to run it again."
                .to_owned(),
        provider_id: Some(open.provider_id.clone()),
    }
    });
    changes.close_turn(status, outcome, notice);
    if cut == TerminationCause::ProcessLost && changes.session.status == Status::Active {
        changes.session.status = Status::Suspended;
    }
    changes.emit(match (cut, outcome) {
        (TerminationCause::ProcessLost, Outcome::Interrupted) => {
            Event::RunFailed { run_id: run, code: "interrupted".to_owned() }
        }
        (_, Outcome::Interrupted) => {
            Event::RunCancelled { run_id: run, reason: Outcome::Interrupted }
        }
        _ => Event::RunCancelled { run_id: run, reason: Outcome::Cancelled },
    });
    Ok(changes.finish(()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::tests::model::{Model, START, session};
    use crate::decide::{ProviderCapabilities, RunPolicy, Submit, SubmitTarget, submit};
    use crate::draft::Entry;
    use crate::id::MessageId;
    use crate::inbox::Overrides;
    use crate::message::{Role, Source};
    use crate::run::{Phase, TaskEffect};
    use crate::turn::Usage;
    use ulid::Ulid;

    fn run_host(repeatable: bool) -> RunHost {
        let capabilities =
            ProviderCapabilities { repeatable, supports_tools: true, ..Default::default() };
        let catalog = ProviderCatalog {
            default: "main".to_owned(),
            providers: ["main", "other"].map(|name| (name.to_owned(), capabilities)).into(),
            personas: Vec::new(),
        };
        RunHost { node: NodeId(Ulid(7)), catalog }
    }

    /// A session whose process died after the message was acknowledged.
    fn accepted() -> (Model, Run) {
        accepted_with(Vec::new())
    }

    fn accepted_with(given: Vec<Entry>) -> (Model, Run) {
        let mut model = Model::empty();
        let wanted = Submit {
            message_id: MessageId(Ulid(70)),
            content: vec![Part::Text { text: "add a test".to_owned() }],
            mode: None,
            source: Source::Human,
            overrides: Overrides {
                provider_id: Some("other".to_owned()),
                model: Some("large".to_owned()),
                given,
                ..Overrides::default()
            },
            classify_mode: Default::default(),
            run_policy: RunPolicy::StartRun,
        };
        model.view.session.track_tasks = true;
        let decision = submit(
            Some(&model.view),
            &SubmitTarget::Existing,
            &wanted,
            &run_host(true),
            &model.settings,
            &model.invocation(),
        );
        model.apply(decision.expect("accepted"));
        let run = model.view.run.clone().expect("a run");
        (model, run)
    }

    fn recovered(model: &mut Model, run: &Run) -> Option<Box<OpenedRun>> {
        let decision = recover_run(&model.view, run.id, &run_host(true), &model.invocation());
        let decision = decision.expect("it ends");
        let reply = decision.reply.clone();
        model.apply(decision);
        reply
    }

    fn message(role: Role) -> Entry {
        Entry::Message { id: MessageId(Ulid(71)), role, source: None, at: START }
    }

    #[test]
    fn only_a_run_without_stored_output_on_a_repeatable_provider_is_run_again() {
        // R238
        let (model, run) = accepted();
        let text = Entry::Text { text: "w".to_owned() };
        let thought = Entry::Thought { text: "hm".to_owned(), raw: None };
        let call = Entry::ToolCall {
            id: "c".to_owned(),
            name: "t".to_owned(),
            params: Default::default(),
        };
        let begun = || message(Role::Assistant);
        let usage = Entry::Usage { usage: Usage::default() };
        let (host, other) = (run_host(true), run_host(false));
        let decide = |run: &Run, drafts: Vec<Entry>, host: &RunHost| {
            let view = SessionView { drafts, ..model.view.clone() };
            runs_again(&view, run, &host.catalog)
        };
        for (what, drafts, expected) in [
            ("nothing", vec![], true),
            ("usage", vec![usage], true),
            ("an empty message", vec![begun()], true),
            ("a word", vec![begun(), text], false),
            ("a thought", vec![begun(), thought], false),
            ("a tool call", vec![begun(), call], false),
        ] {
            assert_eq!(decide(&run, drafts, &host), expected, "{what}");
        }
        assert!(!decide(&run, vec![], &other), "a provider with effects");
        let unknown = Run { provider_id: "gone".to_owned(), ..run.clone() };
        assert!(!decide(&unknown, vec![], &host), "a provider that is not configured here");
        for cancel in [Cancel::User, Cancel::Message] {
            let cancelled = Run { cancel: Some(cancel), ..run.clone() };
            assert!(!decide(&cancelled, vec![], &host), "{cancel:?}");
        }
        for (recoveries, expected) in [(RECOVERIES_MAX - 1, true), (RECOVERIES_MAX, false)] {
            let again = Run { recoveries, ..run.clone() };
            assert_eq!(decide(&again, vec![], &host), expected, "{recoveries}");
        }
        let mut damaged = model.view.clone();
        damaged.session.status = Status::Error;
        assert!(!runs_again(&damaged, &run, &host.catalog), "a damaged session");
    }

    #[test]
    fn the_second_run_has_the_same_messages_and_settings() {
        let (mut model, run) = accepted();
        let opened = recovered(&mut model, &run).expect("a run");
        let expected = Run {
            id: opened.run.id,
            fence: run.fence + 1,
            recoveries: 1,
            started_at: opened.run.started_at,
            ..run.clone()
        };
        assert_eq!(opened.run, expected);
        assert_eq!((run.model.as_deref(), run.task_effect), (Some("large"), TaskEffect::Infer));
        assert_ne!(opened.run.id, run.id);
        assert_eq!(opened.items.len(), 1);
        assert_eq!(opened.items[0].message_id, MessageId(Ulid(70)));
        let session = &model.view.session;
        assert_eq!(
            (session.state, session.status, session.owner, session.fence),
            (Activity::Running, Status::Active, Some(NodeId(Ulid(7))), run.fence + 1)
        );
        assert_eq!(session.turn_count, 0, "no turn was added");
        assert_eq!(model.view.inbox.len(), 1);
        assert_eq!(model.view.inbox[0].state, ItemState::Taken);
        // A second process comes too late.
        let late = recover_run(&model.view, run.id, &run_host(true), &model.invocation());
        assert_eq!(late, Err(Refusal::StaleWriter));
    }

    #[test]
    fn what_the_client_brought_is_no_output_and_is_there_in_the_second_run() {
        let given = vec![message(Role::Tool), Entry::Text { text: "seen".to_owned() }];
        let (mut model, run) = accepted_with(given.clone());
        assert_eq!(model.view.drafts, given);
        let opened = recovered(&mut model, &run).expect("a run");
        assert_eq!((&opened.drafts, &model.view.drafts), (&given, &given));
        let word = Entry::Text { text: "w".to_owned() };
        model.view.drafts.extend([message(Role::Assistant), word]);
        assert_eq!(recovered(&mut model, &opened.run), None, "a word is stored");
    }

    #[test]
    fn a_message_that_ends_the_process_each_time_is_left_as_interrupted() {
        let (mut model, mut run) = accepted();
        for recovery in 1..=RECOVERIES_MAX {
            run = recovered(&mut model, &run).expect("a run").run;
            assert_eq!((run.recoveries, run.phase), (recovery, Phase::Processing));
        }
        assert_eq!(recovered(&mut model, &run), None);
        let session = &model.view.session;
        assert_eq!((session.state, session.status), (Activity::Idle, Status::Suspended));
        assert_eq!((session.turn_count, model.view.inbox.len()), (1, 0));
    }

    #[test]
    fn only_the_running_session_of_a_dead_process_is_orphaned() {
        let (dead, alive) = (NodeId(Ulid(1)), NodeId(Ulid(2)));
        for (state, owner, expected) in [
            (Activity::Running, Some(dead), true),
            (Activity::Running, Some(alive), false),
            (Activity::Running, None, false),
            (Activity::Idle, Some(dead), false),
            (Activity::Suspended, Some(dead), false),
        ] {
            let session = Session { state, owner, ..session() };
            assert_eq!(is_orphaned(&session, &[dead]), expected, "{state:?} {owner:?}");
        }
    }
}
