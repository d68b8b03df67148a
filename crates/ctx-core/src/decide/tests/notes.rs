//! The exact text of the notes that each transition records.

use super::model::{Model, TASK, wrote};
use crate::id::NoteId;
use crate::relation::{Label, NodeKind};
use crate::step::{Entry, Kind};
use crate::task::State;
use crate::task::StateName::{
    Aborted, AwaitingUser, Complete, Interrupted, PendingComplete, Running,
};

/// The transitions that the newest step records.
fn moves(model: &Model) -> Vec<(Option<crate::task::StateName>, crate::task::StateName)> {
    let moved = |entry: &Entry| match entry {
        Entry::Moved { from, to } => Some((*from, *to)),
        _ => None,
    };
    model.last_step().payload.iter().filter_map(moved).collect()
}

#[test]
fn a_question_is_noted_before_the_task_waits() {
    // R20, R36, R37, R38: the question, the move and the state are one durable step
    let mut model = Model::at(Some(Running));
    model.observe(&[wrote("src/client.rs")]).expect("running");
    let before = model.task().clone();
    model.ask("Fixed or exponential backoff?").expect("running");
    let step = model.last_step();
    assert_eq!(step.kind, Kind::State);
    assert_eq!(
        step.notes().collect::<Vec<_>>(),
        ["Question for user: Fixed or exponential backoff?"]
    );
    assert_eq!(moves(&model), [(Some(Running), AwaitingUser)]);
    assert_eq!(
        step.state,
        State::AwaitingUser {
            question: "Fixed or exponential backoff?".into(),
            asked_at: model.now.unix_seconds()
        }
    );
    assert_eq!(step.parent, Some(before.head), "the work before the question stays in the chain");
    assert_eq!(model.task().id, before.id);
}

#[test]
fn an_answer_is_noted_and_mentions_the_task() {
    // R24, R39, R40
    let mut model = Model::at(Some(AwaitingUser));
    model.answer("Exponential").expect("the task waits");
    let payload = &model.last_step().payload;
    let [Entry::Note { id, text }, Entry::Relation(edge), Entry::Moved { .. }] = payload.as_slice()
    else {
        panic!("a note, an edge and a move, not {payload:?}")
    };
    assert_eq!(text, "User response: Exponential");
    assert_eq!((edge.from.kind, edge.from.id.parse::<NoteId>()), (NodeKind::Note, Ok(*id)));
    assert_eq!((edge.to.kind, &edge.to.id), (NodeKind::Task, &model.task().id.to_string()));
    assert_eq!(edge.label, Label::Mentions);
    assert_eq!(moves(&model), [(Some(AwaitingUser), Running)]);
}

#[test]
fn an_intervention_is_noted_and_waits_for_the_agent() {
    // R22, R41, R42
    let mut model = Model::at(Some(Running));
    model.interrupt("Make it 5").expect("running");
    assert_eq!(model.last_note(), "User intervention: Make it 5");
    assert_eq!(model.task().state, State::Interrupted { user_message: "Make it 5".into() });
    assert_eq!(moves(&model), [(Some(Running), Interrupted)]);
    let result = model.incorporate().expect("it was interrupted");
    assert_eq!(result.text.as_deref(), Some("Make it 5"));
    assert_eq!((model.state(), moves(&model)), (Some(Running), vec![(Some(Interrupted), Running)]));
}

#[test]
fn an_interrupted_task_collects_messages_until_the_agent_incorporates_them() {
    // R42; design 11: it stays interrupted and collects further messages
    let mut model = Model::at(Some(Running));
    for text in ["Make it 5", "And log each", "Not in tests"] {
        model.interrupt(text).expect("running or interrupted");
    }
    assert_eq!(moves(&model), [], "it did not move again");
    let expected = [
        "User intervention: Make it 5",
        "User intervention: And log each",
        "User intervention: Not in tests",
    ];
    assert_eq!(model.notes(), expected);
    let result = model.incorporate().expect("it was interrupted");
    assert_eq!(result.text.as_deref(), Some("Make it 5\nAnd log each\nNot in tests"));
    model.interrupt("One more").expect("running");
    assert_eq!(
        model.task().state,
        State::Interrupted { user_message: "One more".into() },
        "what was taken in is not said again"
    );
}

#[test]
fn a_request_for_more_is_noted() {
    // R28, R44
    let mut model = Model::at(Some(PendingComplete));
    model.more("also add logging").expect("pending");
    assert_eq!(model.last_note(), "User requested continuation: also add logging");
    assert_eq!(moves(&model), [(Some(PendingComplete), Running)]);
}

#[test]
fn a_confirmation_is_noted_before_the_seal() {
    // R27, R34, R43
    let mut model = Model::at(Some(PendingComplete));
    model.confirm().expect("pending");
    let [.., confirmed, sealed] = model.steps.as_slice() else { panic!("two steps at least") };
    assert_eq!(confirmed.step.notes().collect::<Vec<_>>(), ["User confirmed task complete"]);
    assert_eq!((&confirmed.step.state, confirmed.step.kind), (&State::Complete, Kind::State));
    assert_eq!((sealed.step.kind, &sealed.step.state), (Kind::Compact, &State::Complete));
    assert_eq!(model.commit().steps.last, sealed.id);
    assert_eq!(model.commit().message, "Retries 3 times");
}

#[test]
fn sealing_an_open_task_passes_through_every_state_on_the_way() {
    // R30, R32, R43; design 11
    let ways: [(_, &[_]); 4] = [
        (Running, &[(Some(Running), PendingComplete), (Some(PendingComplete), Complete)]),
        (
            AwaitingUser,
            &[
                (Some(AwaitingUser), Running),
                (Some(Running), PendingComplete),
                (Some(PendingComplete), Complete),
            ],
        ),
        (
            Interrupted,
            &[
                (Some(Interrupted), Running),
                (Some(Running), PendingComplete),
                (Some(PendingComplete), Complete),
            ],
        ),
        (PendingComplete, &[(Some(PendingComplete), Complete)]),
    ];
    for (state, way) in ways {
        let mut model = Model::at(Some(state));
        model.seal(None).expect("it is open");
        assert_eq!(model.last_note(), "User confirmed task complete");
        assert_eq!(model.commit().state, State::Complete);
        assert_eq!(model.steps.pop().expect("the seal").step.kind, Kind::Compact);
        assert_eq!(moves(&model), way, "{state}");
    }
}

#[test]
fn an_abandoned_task_records_the_reason() {
    // R23, R31, R78, R84
    let mut model = Model::at(Some(Running));
    model.observe(&[wrote("half.rs")]).expect("running");
    model.abort(Some("out of budget")).expect("open");
    let commit = model.commit();
    assert_eq!(commit.state, State::Aborted { reason: "out of budget".into() });
    assert_eq!((commit.description.as_str(), commit.steps.count), (TASK, model.steps.len() as u64));
    assert_eq!(commit.files.len(), 1, "partial work is kept");
    model.steps.pop();
    assert_eq!(moves(&model), [(Some(Running), Aborted)]);
}

#[test]
fn set_state_to_interrupted_notes_the_message_too() {
    // R41
    let mut model = Model::at(Some(Running));
    model.set_state(&State::Interrupted { user_message: "Wait".into() }).expect("running");
    assert_eq!(model.last_note(), "User intervention: Wait");
}
