//! Rules about turns of the tree: fork, rewind, pin, back-links of workers, activity.

use ulid::Ulid;

use super::model::{Model, START};
use crate::decide::{self, Change, Event, Fork, TurnPosition, activity};
use crate::id::{ObjectId, SessionId, TurnId};
use crate::message::{Message, Part, Role, ToolStatus};
use crate::pin::Pin;
use crate::refusal::Refusal;
use crate::session::{Activity, Origin};
use crate::stored_content::Content;
use crate::time::Timestamp;
use crate::turn::{About, Ready};

fn turn(n: u8) -> TurnId {
    TurnId(ObjectId::from_bytes([n; 32]))
}

fn position(n: u8, depth: u64, reachable: bool) -> Option<TurnPosition> {
    Some(TurnPosition { turn: turn(n), depth, reachable, pins: Vec::new() })
}

fn fork_at(turn: Option<TurnId>) -> Fork {
    Fork {
        id: SessionId(Ulid(7)),
        label: "branch".to_owned(),
        turn,
        title: None,
        working_dir: None,
    }
}

/// A session with a persona, a provider and three turns.
fn origin() -> Model {
    let mut model = Model::empty();
    let session = &mut model.view.session;
    (session.head, session.turn_count) = (Some(turn(3)), 3);
    session.persona = Some("atlas".to_owned());
    session.provider_id = Some("local".to_owned());
    session.title = Some("Retries".to_owned());
    session.track_tasks = true;
    model
}

#[test]
fn a_fork_shares_turns_and_inherits_settings_and_pins() {
    // R179, R180, R182, R183
    let mut model = origin();
    let invocation = model.invocation();
    let pin = Pin { turn: turn(1), depth: 1, tokens: 40, at: Timestamp(1) };
    model.view.turn = position(2, 2, true);
    model.view.turn.as_mut().expect("a position").pins = vec![pin];
    let decision = decide::fork(&model.view, &fork_at(Some(turn(2))), &invocation).expect("a fork");
    assert_eq!(decision.reply, SessionId(Ulid(7)));
    assert_eq!(decision.events, [Event::SessionCreated]);
    let [Change::CreateSession(new), Change::Pin { turn: pinned, tokens: 40 }] =
        decision.changes.as_slice()
    else {
        panic!("{:?}", decision.changes)
    };
    assert_eq!(*pinned, turn(1));
    assert_eq!((new.head, new.turn_count, new.origin), (Some(turn(2)), 2, Origin::Fork));
    assert_eq!(new.persona.as_deref(), Some("atlas"));
    assert_eq!(new.provider_id.as_deref(), Some("local"));
    assert_eq!(new.title.as_deref(), Some("Retries"));
    assert_eq!(new.track_tasks, Some(true));
}

#[test]
fn a_fork_is_refused_for_a_taken_label_and_for_a_turn_of_another_tree() {
    // R184
    let table = [
        (Some(turn(2)), position(2, 2, false), false),
        (Some(turn(2)), position(3, 3, true), false),
        (Some(turn(2)), None, false),
        (Some(turn(2)), position(2, 2, true), true),
    ];
    for (at, position, label_taken) in table {
        let mut model = origin();
        let invocation = model.invocation();
        (model.view.turn, model.view.label_taken) = (position.clone(), label_taken);
        let refusal = decide::fork(&model.view, &fork_at(at), &invocation).expect_err("a refusal");
        let expected = if label_taken {
            Refusal::LabelInUse { label: "branch".to_owned() }
        } else {
            Refusal::NotAnAncestor { turn: turn(2) }
        };
        assert_eq!(refusal, expected, "{position:?}");
    }
}

#[test]
fn a_session_without_turns_can_be_forked() {
    let model = Model::empty();
    let invocation = model.invocation();
    let decision = decide::fork(&model.view, &fork_at(None), &invocation).expect("a fork");
    let [Change::CreateSession(new)] = decision.changes.as_slice() else {
        panic!("{:?}", decision.changes)
    };
    assert_eq!((new.head, new.turn_count), (None, 0));
}

#[test]
fn a_rewind_moves_the_head_to_ancestors_only() {
    let table = [
        (position(1, 1, true), Activity::Idle, Ok(1)),
        (position(3, 3, true), Activity::Idle, Ok(0)),
        (position(1, 1, false), Activity::Idle, Err(Refusal::NotAnAncestor { turn: turn(1) })),
        (position(1, 1, true), Activity::Running, Err(Refusal::Busy { state: "running" })),
        (position(1, 1, true), Activity::Suspended, Err(Refusal::Busy { state: "suspended" })),
    ];
    for (position, state, expected) in table {
        let mut model = origin();
        let invocation = model.invocation();
        let to = position.as_ref().expect("a position").turn;
        (model.view.turn, model.view.session.state) = (position, state);
        let moves = decide::rewind(&model.view, to, &invocation).map(|decision| {
            let moved = Change::MoveHead { turn: Some(to), depth: 1 };
            decision.changes.iter().filter(|change| **change == moved).count()
        });
        assert_eq!(moves, expected, "{to} while {state:?}");
    }
}

#[test]
fn a_rewind_is_undone_only_along_its_own_branch() {
    let mut model = origin();
    let invocation = model.invocation();
    model.view.turn = position(5, 5, true);
    let decision = decide::undo_rewind(&model.view, turn(5), &invocation).expect("forward");
    let moved = Change::MoveHead { turn: Some(turn(5)), depth: 5 };
    assert!(decision.changes.contains(&moved), "{:?}", decision.changes);
    model.view.turn = position(5, 5, false);
    let refused = decide::undo_rewind(&model.view, turn(5), &invocation);
    assert_eq!(refused.expect_err("another branch"), Refusal::NotAnAncestor { turn: turn(5) });
    model.view.session.state = Activity::Running;
    assert!(decide::undo_rewind(&model.view, turn(5), &invocation).is_err());
}

#[test]
fn a_pin_needs_an_ancestor_of_the_head() {
    let mut model = origin();
    let invocation = model.invocation();
    model.view.turn = position(9, 2, false);
    let refused = decide::pin(&model.view, turn(9), 10, 4000, &invocation);
    assert_eq!(refused.expect_err("another tree"), Refusal::NotAnAncestor { turn: turn(9) });
}

#[test]
fn a_turn_links_the_workers_that_it_started() {
    // R191, R193
    let call = Part::ToolCall {
        id: "call".to_owned(),
        name: "dispatch_to_agent".to_owned(),
        params: serde_json::json!({"task": "look"}),
        status: ToolStatus::Completed,
    };
    let result = Part::ToolResult {
        tool_call_id: "call".to_owned(),
        content: Content::Text(r#"{"label":"worker:01ARZ3NDEKTSV4RRFFQ69G5FAV"}"#.to_owned()),
        is_error: false,
    };
    let message = Message {
        id: crate::id::MessageId(Ulid(5)),
        role: Role::Assistant,
        source: None,
        content: vec![call, result],
        created_at: START,
    };
    let model = Model::empty();
    let (ready, _) = Ready::new(About::at(START), vec![message]);
    let decision = decide::append_turn(&model.view, None, &ready).expect("a turn");
    let added = decision.reply;
    assert!(
        decision.changes.contains(&Change::LinkWorker {
            label: "worker:01ARZ3NDEKTSV4RRFFQ69G5FAV".to_owned(),
            turn: added
        }),
        "{:?}",
        decision.changes
    );
}

#[test]
fn every_change_and_every_event_counts_as_activity() {
    // R108
    assert_eq!(activity(&[], &[], START), None);
    assert_eq!(activity(&[Change::ClearDrafts], &[], START), Some(START));
    assert_eq!(activity(&[], &[Event::SessionUpdated], START), Some(START));
}
