//! Actions of the agent: one step for consecutive entries of one kind, in order, in any state of
//! the task.

use super::model::{Model, note, wrote};
use crate::decide::OBSERVATIONS_MAX;
use crate::refusal::Refusal;
use crate::relation::{Confidence, Edge, Evidence, Label, Node, NodeKind, Tool};
use crate::step::{Entry, Kind};
use crate::stored_content::Content;
use crate::task::StateName::{self, AwaitingUser, Complete, Running};
use crate::time::Span;

fn read(path: &str) -> Entry {
    Entry::FileRead { path: path.into(), content: Content::Text("old".into()) }
}

fn relation() -> Entry {
    Entry::Relation(Edge {
        from: Node::new(NodeKind::File, "a.rs"),
        to: Node::new(NodeKind::File, "b.rs"),
        label: Label::Imports,
        weight: None,
        evidence: Evidence::from_tool(Tool::Llm, Confidence::Low),
    })
}

#[test]
fn entries_of_one_kind_in_a_row_make_one_step() {
    // R45, R48, R49
    let mut model = Model::at(Some(Running));
    let plan = Entry::Plan { text: "First this".into() };
    let ran =
        Entry::Command { argv: vec!["cargo".into(), "check".into()], exit: Some(0), output: None };
    let entries = [
        read("a.rs"),
        read("b.rs"),
        wrote("a.rs"),
        plan,
        ran,
        note(1, "Hm"),
        relation(),
        read("c.rs"),
    ];
    model.observe(&entries).expect("running");
    let kinds: Vec<(Kind, usize)> =
        model.steps[1..].iter().map(|r| (r.step.kind, r.step.payload.len())).collect();
    let expected = [
        (Kind::FileRead, 2),
        (Kind::FileWrite, 1),
        (Kind::Plan, 1),
        (Kind::CommandRun, 1),
        (Kind::Note, 1),
        (Kind::Relations, 1),
        (Kind::FileRead, 1),
    ];
    assert_eq!(kinds, expected);
    let stored: Vec<&Entry> = model.steps[1..].iter().flat_map(|r| &r.step.payload).collect();
    assert_eq!(stored, entries.iter().collect::<Vec<_>>(), "nothing is lost or reordered");
}

#[test]
fn every_step_carries_the_state_of_the_task() {
    // R37, R38, R48, R49
    for state in [Running, AwaitingUser, StateName::Interrupted, StateName::PendingComplete] {
        let mut model = Model::at(Some(state));
        model.observe(&[wrote("a.rs"), note(1, "n")]).expect("open");
        assert!(
            model.steps[model.steps.len() - 2..]
                .iter()
                .all(|record| record.step.state == model.task().state)
        );
    }
}

#[test]
fn actions_are_counted_as_progress_and_notes_are_not() {
    // R45, R83
    let mut model = Model::at(Some(Running));
    model.ask("Which?").expect("running");
    model.answer("This").expect("it waits");
    model.interrupt("Wait").expect("running");
    assert!(!model.task().has_meaningful_work());
    model.observe(&[wrote("a.rs"), read("b.rs")]).expect("open");
    let progress = &model.task().progress;
    assert_eq!((progress.files_written, progress.files_read, progress.work()), (1, 1, 2));
    assert!(model.task().has_meaningful_work());
}

#[test]
fn an_observation_is_activity() {
    // R108
    let mut model = Model::at(Some(Running));
    model.wait(Span::hours(5)).observe(&[wrote("a.rs")]).expect("open");
    assert_eq!(model.task().last_activity_at, model.now);
}

#[test]
fn an_empty_observation_stores_nothing() {
    // R55
    let mut model = Model::at(Some(Running));
    let before = (model.view.clone(), model.steps.len());
    model.observe(&[]).expect("open");
    assert_eq!((model.view.clone(), model.steps.len()), before);
    assert_eq!(Model::empty().observe(&[]), Err(Refusal::NoTask));
}

#[test]
fn the_number_of_observations_per_flush_is_limited() {
    // Design 10
    let mut model = Model::at(Some(Running));
    let entries = vec![Entry::Plan { text: "p".into() }; OBSERVATIONS_MAX + 1];
    let refused = Refusal::TooMany {
        what: "observations",
        count: OBSERVATIONS_MAX + 1,
        max: OBSERVATIONS_MAX,
    };
    assert_eq!(model.observe(&entries), Err(refused));
    model.observe(&entries[1..]).expect("at the bound");
}

#[test]
fn transitions_and_starts_cannot_be_observed() {
    // R32: only a rule moves a task; an observed transition would bypass the table
    let forged = [
        Entry::Moved { from: Some(Running), to: Complete },
        Entry::Task { description: "Another".into() },
    ];
    for entry in forged {
        let mut model = Model::at(Some(Running));
        let result = model.observe(std::slice::from_ref(&entry));
        assert!(result.is_err(), "{entry:?} was taken as something that the agent did");
    }
}
