//! Limits of pinned turns, and exactly-once reports of workers.

use ulid::Ulid;

use super::model::Model;
use crate::decide::{self, Change, PINS_MAX, TurnPosition};
use crate::id::{ObjectId, TurnId};
use crate::pin::Pin;
use crate::refusal::Refusal;
use crate::session::{Origin, Parent};
use crate::time::Timestamp;

fn turn(n: u8) -> TurnId {
    TurnId(ObjectId::from_bytes([n; 32]))
}

fn pinned(n: u8, tokens: u64) -> Pin {
    Pin { turn: turn(n), depth: u64::from(n), tokens, at: Timestamp(1) }
}

#[test]
fn pinned_turns_have_at_most_a_quarter_of_the_window() {
    let mut model = Model::empty();
    let invocation = model.invocation();
    model.view.pins = vec![pinned(1, 900)];
    let pin = |model: &Model, n: u8, tokens: u64| {
        let mut view = model.view.clone();
        let position = TurnPosition { turn: turn(n), depth: 1, reachable: true, pins: vec![] };
        view.turn = Some(position);
        decide::pin(&view, turn(n), tokens, 4000, &invocation)
    };
    assert_eq!(
        pin(&model, 2, 100).expect("exactly the quarter").changes,
        [Change::Pin { turn: turn(2), tokens: 100 }]
    );
    assert_eq!(
        pin(&model, 2, 101).expect_err("more"),
        Refusal::PinnedTokensExceeded { tokens: 1001, max: 1000 }
    );
    assert!(pin(&model, 1, 5000).expect("it is pinned already").changes.is_empty());
    model.view.pins = (0..PINS_MAX).map(|n| pinned(u8::try_from(n).expect("few"), 0)).collect();
    assert!(matches!(pin(&model, 200, 0), Err(Refusal::TooMany { .. })));
    let gone = decide::unpin(&model.view, turn(3), &invocation).expect("it is pinned");
    assert_eq!(gone.changes, [Change::Unpin(turn(3))]);
    assert_eq!(
        decide::unpin(&model.view, turn(250), &invocation).expect_err("not pinned"),
        Refusal::NotPinned { turn: turn(250) }
    );
}

#[test]
fn a_report_marks_only_the_head_that_it_was_made_for() {
    // R190
    let mut model = Model::empty();
    let invocation = model.invocation();
    model.view.session.origin = Origin::Subagent;
    model.view.session.parent = Some(Parent {
        session: "boss".to_owned(),
        turn: None,
        tool_call: Some(Ulid(1).to_string()),
    });
    (model.view.session.unreported, model.view.session.head) = (true, Some(turn(2)));
    assert!(
        decide::mark_reported(&model.view, Some(turn(1)), &invocation)
            .expect("a view")
            .changes
            .is_empty(),
        "something else has become of it"
    );
    let result = decide::mark_reported(&model.view, Some(turn(2)), &invocation).expect("result");
    assert!(
        matches!(result.changes.as_slice(), [Change::PutSession(session)] if !session.unreported)
    );
    model.view.session.unreported = false;
    assert!(
        decide::mark_reported(&model.view, Some(turn(2)), &invocation)
            .expect("a view")
            .changes
            .is_empty(),
        "once"
    );
}
