//! Retry the last message: the head moves before its turn, which stays in the tree.

use crate::id::{MessageId, TurnId};
use crate::inbox::{Item, ItemState, Mode, Overrides};
use crate::intent::Intent;
use crate::message::{Message, Role};
use crate::refusal::Refusal;
use crate::run::TaskEffect;
use crate::session::Status;
use crate::task::{State, StateName};

use super::rewind::must_be_idle;
use super::session_changes::{RunHost, SessionChanges};
use super::update_session::field;
use super::{Change, Decided, Invocation, OpenedRun, SessionView};

/// The messages of a turn that are run again: those that started it, with new ids.
pub fn retry_items(
    messages: Vec<Message>,
    overrides: &Overrides,
    invocation: &Invocation,
) -> Vec<Item> {
    let mut ids = invocation.ids.clone();
    let user_messages = messages.into_iter().take_while(|message| message.role == Role::User);
    let again = |(position, message): (i64, Message)| Item {
        message_id: MessageId(ids.next_id()),
        position,
        mode: Mode::Queue,
        source: message.source.unwrap_or_default(),
        content: message.content,
        intent: None,
        overrides: overrides.clone(),
        state: ItemState::Taken,
        enqueued_at: invocation.now,
    };
    (0..).zip(user_messages).map(again).collect()
}

/// Where the head moves before a message is run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadBefore {
    /// The parent of the turn that is run again.
    pub parent: Option<TurnId>,
    /// Number of turns that the head moves back: that turn, and the notices after it.
    pub turns: u64,
}

/// Opens a run with the messages of the newest turn, under its parent.
///
/// Fails if the session is busy, the head has moved, or there is nothing to run.
pub fn retry(
    view: &SessionView,
    head: TurnId,
    before: HeadBefore,
    items: &[Item],
    run_host: &RunHost,
    invocation: &Invocation,
) -> Decided<Box<OpenedRun>> {
    must_be_idle(view)?;
    if view.session.is_damaged() {
        return Err(Refusal::SessionDamaged);
    }
    if view.session.head != Some(head) {
        return Err(Refusal::StaleWriter);
    }
    if items.is_empty() {
        return Err(Refusal::NothingToRetry);
    }
    for model in items.iter().filter_map(|item| item.overrides.model.as_deref()) {
        field("model", model)?;
    }
    let mut changes = SessionChanges::new(view, invocation);
    if changes.session.status == Status::Error {
        changes.session.status = Status::Active;
    }
    changes.session.head = before.parent;
    changes.session.turn_count = changes.session.turn_count.saturating_sub(before.turns);
    changes.push(Change::MoveHead { turn: before.parent, depth: changes.session.turn_count });
    let tracked = changes.session.track_tasks;
    let state = changes.tasks.task().map(|task| task.state.name());
    let text = items.iter().map(Item::text).collect::<Vec<_>>().join("\n");
    let task_effect = match state {
        Some(_) if !tracked => TaskEffect::Keep,
        None => TaskEffect::Keep,
        // The confirmation failed the first time, or was cut off.
        Some(StateName::PendingComplete)
            if changes.classify_text(&text) == Intent::Confirmation =>
        {
            TaskEffect::Confirm
        }
        Some(StateName::AwaitingUser | StateName::Interrupted | StateName::PendingComplete) => {
            let note = changes.tasks.note("User asked to try again".to_owned());
            changes.tasks.move_to(State::Running, vec![note])?;
            TaskEffect::Infer
        }
        Some(_) => TaskEffect::Infer,
    };
    changes.open_run(items.to_vec(), task_effect, run_host);
    let opened_run = changes.opened_run.take().ok_or(Refusal::NothingToRetry)?;
    Ok(changes.finish(opened_run))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::tests::model::{Model, START};
    use crate::message::{Part, Source};
    use ulid::Ulid;

    fn message(id: u128, role: Role, source: Option<Source>) -> Message {
        let content = vec![Part::Text { text: id.to_string() }];
        Message { id: MessageId(Ulid(id)), role, source, content, created_at: START }
    }

    #[test]
    fn only_the_messages_that_began_the_turn_are_run_again() {
        let turn = vec![
            message(1, Role::User, Some(Source::Timer)),
            message(2, Role::User, None),
            message(3, Role::Assistant, None),
            message(4, Role::User, Some(Source::Human)),
        ];
        let invocation = Model::empty().invocation();
        let items = retry_items(turn, &Overrides::default(), &invocation);
        let again: Vec<_> = items.iter().map(|item| (item.text(), item.source)).collect();
        assert_eq!(again, [("1".into(), Source::Timer), ("2".into(), Source::default())]);
        assert_ne!(items[0].message_id, items[1].message_id);
        assert!(items.iter().all(|item| item.message_id.0 > Ulid(4)), "the ids are new");
    }
}
