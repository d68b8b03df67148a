//! A classified message: every intent in every state after every idle time.

use super::model::{Model, TASK, wrote};
use crate::commit::CommitType;
use crate::decide::{Action, OnNewTask};
use crate::intent::Intent::{
    self, Abandon, Clarification, Confirmation, Modification, NewTask, Response, Unclear,
};
use crate::refusal::Refusal;
use crate::stale::Staleness::{self, Fresh, ShouldAsk, ShouldSeal};
use crate::task::InvalidTransition;
use crate::task::StateName::{
    self, Aborted, AwaitingUser, Complete, Interrupted, PendingComplete, Running,
};
use crate::time::Span;

const COLUMNS: [Option<StateName>; 7] = [
    None,
    Some(Running),
    Some(AwaitingUser),
    Some(Interrupted),
    Some(PendingComplete),
    Some(Complete),
    Some(Aborted),
];

/// The action, the state of the open task after it, and the type of the commit that was made.
type Done = (Action, Option<StateName>, Option<&'static str>);
type Cell = Result<Done, StateName>;

/// A text that the rules also classify as the intent, where the task is gone.
const fn text(intent: Intent) -> &'static str {
    match intent {
        Response => "Option B",
        Modification => "Also add logging",
        Confirmation => "Perfect, thanks!",
        Abandon => "Never mind",
        NewTask => "Now add connection pooling",
        Clarification => "What does that mean?",
        Unclear => "hmm",
    }
}

const fn silence(staleness: Staleness) -> Span {
    match staleness {
        Fresh => Span::hours(24),
        ShouldAsk => Span::days(7),
        ShouldSeal => Span(Span::days(7).0 + 1),
    }
}

const fn same(action: Action, state: StateName) -> Cell {
    Ok((action, Some(state), None))
}

/// R80: without a task a request starts one, and other messages change nothing.
const fn without_task(intent: Intent, sealed: Option<&'static str>) -> Cell {
    match intent {
        Response | Modification | NewTask => Ok((Action::Start, Some(Running), sealed)),
        Confirmation | Abandon => Ok((Action::Acknowledge, None, sealed)),
        Clarification => Ok((Action::Answer, None, sealed)),
        Unclear => Ok((Action::Ask, None, sealed)),
    }
}

/// R73-R82: the table for a fresh task. `Err` is a refused transition to that state.
const fn fresh(intent: Intent, state: StateName) -> Cell {
    match (intent, state) {
        (_, Aborted) => without_task(intent, Some("abandoned")),
        (Response, AwaitingUser) => same(Action::Respond, Running),
        (Response | Modification, Running | Interrupted) => same(Action::Modify, Interrupted),
        (Response | Modification, AwaitingUser | PendingComplete) => same(Action::Modify, Running),
        (Response | Modification, Complete) => Err(Running),
        (Confirmation, PendingComplete) => Ok((Action::Complete, None, Some("normal"))),
        (Confirmation, _) => same(Action::Acknowledge, state),
        (Abandon, Complete) => Err(Aborted),
        (Abandon, _) => Ok((Action::Abandon, None, Some("abandoned"))),
        (NewTask, _) => same(Action::Prompt, state),
        (Clarification, _) => same(Action::Answer, state),
        (Unclear, _) => same(Action::Ask, state),
    }
}

const fn expected(intent: Intent, state: Option<StateName>, staleness: Staleness) -> Cell {
    match (state, staleness) {
        (None, _) => without_task(intent, None),
        (Some(Aborted), _) => without_task(intent, Some("abandoned")),
        (Some(state), Fresh) => fresh(intent, state),
        // R90, R91: any message
        (Some(state), ShouldAsk) => same(Action::Prompt, state),
        (Some(_), ShouldSeal) => without_task(intent, Some("stale_auto_compact")),
    }
}

fn found(model: &mut Model, intent: Intent) -> Cell {
    let state = model.state();
    match model.message(text(intent), intent) {
        Ok(reply) => {
            let commit = reply.commit.map(|record| record.commit.commit_type.name());
            Ok((reply.action.expect("a message has an action"), model.state(), commit))
        }
        Err(Refusal::InvalidTransition(InvalidTransition { from, to })) if from == state => {
            Err(to.expect("a state"))
        }
        Err(other) => panic!("no cell expects {other}"),
    }
}

#[test]
fn every_intent_in_every_state_after_every_idle_time() {
    // R64, R65, R73-R82, R88-R91
    let mut wrong = Vec::new();
    let mut cells = 0;
    for intent in Intent::ALL {
        for state in COLUMNS {
            for staleness in [Fresh, ShouldAsk, ShouldSeal] {
                let mut model = Model::at(state);
                model.wait(silence(staleness));
                let (expected, found) =
                    (expected(intent, state, staleness), found(&mut model, intent));
                if expected != found {
                    wrong.push(format!(
                        "{intent:?} in {state:?}, {staleness:?}: {found:?}, wanted {expected:?}"
                    ));
                }
                cells += 1;
            }
        }
    }
    assert_eq!(cells, 147);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn questions_and_approvals_change_nothing() {
    // R77, R81, R82
    for intent in [Confirmation, Clarification, Unclear] {
        for state in [Running, AwaitingUser, Interrupted, PendingComplete] {
            if (intent, state) == (Confirmation, PendingComplete) {
                continue;
            }
            let mut model = Model::at(Some(state));
            let before = model.clone();
            model.message(text(intent), intent).expect("it is heard");
            assert_eq!(
                (&model.view, &model.steps, &model.events),
                (&before.view, &before.steps, &before.events)
            );
        }
    }
}

#[test]
fn an_unclear_message_gets_this_question() {
    // R82
    for state in COLUMNS {
        let reply = Model::at(state).message("hmm", Unclear).expect("it is heard");
        assert_eq!(
            reply.text.as_deref(),
            Some("Are you continuing the current task or starting something new?")
        );
    }
}

#[test]
fn each_message_is_noted_with_the_text_of_its_transition() {
    // R39, R41, R44, R73-R75
    let table = [
        (Response, AwaitingUser, "User response: Do"),
        (Response, Running, "User intervention: Do"),
        (Response, Interrupted, "User intervention: Do"),
        (Response, PendingComplete, "User requested continuation: Do"),
        (Modification, AwaitingUser, "User response: Do"),
        (Modification, Running, "User intervention: Do"),
        (Modification, Interrupted, "User intervention: Do"),
        (Modification, PendingComplete, "User requested continuation: Do"),
    ];
    for (intent, state, noted) in table {
        let mut model = Model::at(Some(state));
        model.message("Do", intent).expect("it is heard");
        assert_eq!(model.last_note(), noted, "{intent:?} in {state}");
    }
}

#[test]
fn changes_during_the_work_are_collected_for_the_agent() {
    // R22, R42, R75; design 11
    let mut model = Model::at(Some(Running));
    model.message("5 times", Modification).expect("heard");
    model.message("and log", Response).expect("heard");
    assert_eq!(model.incorporate().expect("interrupted").text.as_deref(), Some("5 times\nand log"));
}

#[test]
fn a_new_task_replaces_work_with_a_commit_where_the_user_set_auto() {
    // R79, R83, R112
    for state in [Running, AwaitingUser, Interrupted, PendingComplete] {
        let mut model = Model::at(Some(state));
        model.settings.on_new_task = OnNewTask::Auto;
        model.observe(&[wrote("src/http.rs")]).expect("open");
        let reply = model.message("Now add pooling\nwith a limit", NewTask).expect("heard");
        assert_eq!(
            (reply.action, model.commits.len(), model.view.prompt.as_ref()),
            (Some(Action::Start), 1, None)
        );
        let commit = model.commit();
        assert_eq!(
            (commit.message.as_str(), commit.description.as_str()),
            ("Interrupted by new task", TASK)
        );
        assert_eq!(
            commit.commit_type,
            CommitType::InterruptedByNewTask { new_task_summary: "Now add pooling…".into() }
        );
        assert_eq!(model.task().description, "Now add pooling\nwith a limit");
        assert_eq!(model.task().base, model.view.project_head);
    }
}

#[test]
fn a_new_task_replaces_an_empty_one_without_a_commit() {
    // R83: only meaningful work is sealed
    // and a summary of finished work is some.
    for state in [Running, AwaitingUser, Interrupted] {
        let mut model = Model::at(Some(state));
        model.settings.on_new_task = OnNewTask::Auto;
        let reply = model.message("Now add pooling", NewTask).expect("heard");
        assert_eq!(
            (reply.action, model.commits.len(), model.state()),
            (Some(Action::Start), 0, Some(Running))
        );
        let [dropped] = model.ended.as_slice() else {
            panic!("one task ended, not {:?}", model.ended)
        };
        assert_eq!(
            (dropped.state.name(), dropped.commit, dropped.ended_at),
            (Aborted, None, Some(model.now))
        );
    }
}

#[test]
fn a_dropped_task_records_its_last_transition() {
    // R32; `TaskChanges`: every change of a state goes through the table and is recorded
    let mut model = Model::at(Some(Running));
    model.settings.on_new_task = OnNewTask::Auto;
    model.message("Now add pooling", NewTask).expect("heard");
    let dropped = model.ended[0].id;
    let last =
        model.steps.iter().rfind(|record| record.step.task == dropped).expect("its steps stay");
    let moved = crate::step::Entry::Moved { from: Some(Running), to: Aborted };
    assert!(
        last.step.payload.contains(&moved),
        "the step that aborted it holds {:?}",
        last.step.payload
    );
}

#[test]
fn a_dropped_task_emits_an_event() {
    // Design 9: `task.updated` or `task.sealed` is emitted for every change
    let mut model = Model::at(Some(Running));
    model.settings.on_new_task = OnNewTask::Auto;
    let dropped = model.task().id;
    let before = model.events.len();
    model.message("Now add pooling", NewTask).expect("heard");
    let result = model.events[before..].iter().any(|event| match event {
        crate::decide::Event::TaskUpdated { task, state } => {
            (*task, *state) == (dropped, StateName::Aborted)
        }
        _ => false,
    });
    assert!(
        result,
        "nobody who follows the feed learns that the task ended: {:?}",
        &model.events[before..]
    );
}

#[test]
fn a_new_task_intent_is_kept_after_the_old_task_was_sealed() {
    // R61, R80, R91: whether a message is a new task does not depend on the task that was sealed
    let mut model = Model::at(Some(Running));
    model.wait(Span::days(8));
    let reply = model.message("hmm", NewTask).expect("heard");
    assert_eq!((reply.action, model.state()), (Some(Action::Start), Some(Running)));
}

#[test]
fn a_long_first_message_is_described_by_its_first_line_and_noted_in_full() {
    // R80: the whole text is kept
    let long = format!("Port the parser\n{}", "x".repeat(crate::text_limits::TASK_TEXT_MAX_BYTES));
    let mut model = Model::empty();
    model.message(&long, NewTask).expect("heard");
    assert_eq!(model.task().description, "Port the parser…");
    assert_eq!(model.notes(), [long.as_str()]);
    assert!(!model.task().has_meaningful_work(), "what the user said is not the agent's work");
}
