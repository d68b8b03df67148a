//! Input from outside a task: new sessions, finished turns, bundles.

use ulid::Ulid;

use super::model::{Model, session, wrote};
use crate::bundle::TaskBundle;
use crate::decide::{self, Change, Decided, Event, Import};
use crate::id::{ObjectId, SessionId, TurnId};
use crate::refusal::Refusal;
use crate::session::{LABEL_MAX_CHARS, New, Origin};
use crate::task::StateName::{AwaitingUser, Running};
use crate::turn::{About, Ready};

fn new(label: &str) -> New {
    New::idle(SessionId(Ulid(9)), label.into(), "demo".into(), Origin::Cli, super::model::START)
}

fn turn(n: u8) -> TurnId {
    TurnId(ObjectId::from_bytes([n; 32]))
}

/// The open task as another store would export it.
fn exported(model: &Model) -> Import {
    let task = model.task();
    let steps = model.steps.iter().filter(|record| record.step.task == task.id).cloned().collect();
    Import { bundle: TaskBundle::of(task), steps }
}

/// Reads what the transaction reads for an import, and executes the rule.
fn import(model: &Model, import: &Import) -> Decided<crate::task::Task> {
    let id = import.bundle.task;
    let mut view = model.view.clone();
    let known = view.task.iter().chain(&model.ended).find(|task| task.id == id);
    view.known_task = known.cloned();
    view.has_import_head =
        model.steps.iter().any(|r| r.step.task == id && r.id == import.bundle.staging_head);
    decide::import(&view, import)
}

#[test]
fn a_session_is_created_once() {
    let wanted = new("atlas");
    let decision = decide::create_session(None, &wanted).expect("the label is free");
    assert_eq!(decision.changes, [Change::CreateSession(Box::new(wanted.clone()))]);
    assert_eq!(decision.events, [Event::SessionCreated]);
    let found = Model::empty().view;
    assert_eq!(
        decide::create_session(Some(&found), &wanted),
        Err(Refusal::LabelInUse { label: "atlas".into() })
    );
}

#[test]
fn a_label_is_printable_and_bounded() {
    let longest = "x".repeat(LABEL_MAX_CHARS);
    for good in ["main", "user:ålice/1", "two words", longest.as_str()] {
        assert!(decide::create_session(None, &new(good)).is_ok(), "{good}");
    }
    let too_long = "x".repeat(LABEL_MAX_CHARS + 1);
    for bad in ["", " main", "main ", "a\nb", "a\0b", "\u{7f}", too_long.as_str()] {
        let result = decide::create_session(None, &new(bad));
        assert!(matches!(result, Err(Refusal::BadLabel { .. })), "{bad:?}");
    }
}

#[test]
fn a_turn_is_appended_only_to_the_head_that_its_writer_read() {
    let mut view = Model::empty().view;
    let (ready, _) = Ready::new(About::at(super::model::START), vec![]);
    for head in [None, Some(turn(1))] {
        view.session.head = head;
        let decision =
            decide::append_turn(&view, head, &ready).expect("the head is the expected one");
        let [Change::AppendTurn(record)] = decision.changes.as_slice() else {
            panic!("one turn, not {:?}", decision.changes)
        };
        let header: crate::turn::Header = record.object.decode().expect("a header");
        assert_eq!((header.parent, decision.reply), (head, record.id));
        assert_eq!(decision.events, [Event::TurnCommitted { turn: Some(record.id) }]);
        assert_eq!(decide::append_turn(&view, Some(turn(2)), &ready), Err(Refusal::StaleWriter));
        let mut after = view.clone();
        after.session.head = Some(record.id);
        let again =
            decide::append_turn(&after, head, &ready).expect("a repeated call changes nothing");
        assert_eq!((again.changes.len(), again.events.len(), again.reply), (0, 0, record.id));
    }
}

#[test]
fn a_bundle_opens_its_task_in_an_empty_session() {
    // R115, R116, R117
    let from = Model::at(Some(AwaitingUser));
    let bundle = exported(&from);
    let mut here = Model::empty();
    here.view.session.id = SessionId(Ulid(99));
    let decision = import(&here, &bundle).expect("nothing is open");
    here.apply(decision);
    assert_eq!(here.steps, from.steps);
    assert_eq!(
        (here.task().id, &here.task().state, here.task().head),
        (from.task().id, &from.task().state, from.task().head)
    );
    assert_eq!(
        (here.task().session, here.task().last_activity_at),
        (SessionId(Ulid(99)), from.task().last_activity_at)
    );
    here.answer("Exponential").expect("the work goes on here");
}

#[test]
fn a_bundle_is_refused_while_another_task_is_open() {
    // R35, R116
    let bundle = exported(&Model::at(Some(Running)));
    let mut here = Model::empty();
    here.apply(
        decide::start(
            &here.view,
            "Mine",
            &decide::Invocation { ids: crate::id::IdGenerator::new(Ulid(5)), ..here.invocation() },
        )
        .expect("free"),
    );
    assert_eq!(import(&here, &bundle), Err(Refusal::TaskOpen { description: "Mine".into() }));
}

#[test]
fn a_newer_bundle_extends_the_task_and_an_older_changes_nothing() {
    // R117: there and back again
    let mut from = Model::at(Some(Running));
    let mut here = from.clone();
    let old = exported(&from);
    from.observe(&[wrote("a.rs")]).expect("running");
    from.ask("Which?").expect("running");
    let newer = exported(&from);
    here.apply(import(&here, &newer).expect("it extends what is here"));
    assert_eq!((here.steps.len(), here.task().head), (from.steps.len(), from.task().head));
    assert_eq!(here.task().progress, from.task().progress);
    for known in [&old, &newer] {
        let decision = import(&here, known).expect("known");
        assert_eq!(
            (decision.changes.len(), decision.events.len(), Some(&decision.reply)),
            (0, 0, here.view.task.as_ref())
        );
    }
}

#[test]
fn a_bundle_that_has_diverged_is_refused() {
    // R116
    let from = Model::at(Some(Running));
    let (mut one, mut other) = (from.clone(), from);
    one.observe(&[wrote("a.rs")]).expect("running");
    other.observe(&[wrote("b.rs")]).expect("running");
    assert_eq!(import(&one, &exported(&other)), Err(Refusal::Diverged { head: one.task().head }));
}

#[test]
fn a_bundle_of_a_task_that_has_ended_here_is_refused() {
    // R57, R114, R116: a task is sealed once
    let mut here = Model::at(Some(Running));
    let bundle = exported(&here);
    here.seal(None).expect("open");
    assert_eq!(import(&here, &bundle), Err(Refusal::AlreadySealed { commit: here.commits[0].id }));
    let mut here = Model::at(Some(Running));
    here.settings.on_new_task = decide::OnNewTask::Auto;
    here.message("Now add pooling", crate::intent::Intent::NewTask).expect("replaced");
    assert_eq!(import(&here, &bundle), Err(Refusal::AlreadyEnded));
}

#[test]
fn an_imported_task_starts_at_the_newest_turn_of_its_session() {
    // R12, R117: its commit must not include turns that existed before it
    let bundle = exported(&Model::at(Some(Running)));
    let mut here = Model::empty();
    here.view.session = crate::session::Session { head: Some(turn(4)), turn_count: 4, ..session() };
    here.apply(import(&here, &bundle).expect("nothing is open"));
    assert_eq!(here.task().base_turn, Some(turn(4)));
}

#[test]
fn an_extended_task_keeps_its_first_turn() {
    // R12, R117
    let mut here = Model::empty();
    here.view.session.head = Some(turn(4));
    here.start("Mine").expect("nothing is open");
    let mut there = here.clone();
    there.observe(&[wrote("a.rs")]).expect("running");
    here.view.session.head = Some(turn(6));
    here.apply(import(&here, &exported(&there)).expect("it extends what is here"));
    assert_eq!(here.task().base_turn, Some(turn(4)));
}
