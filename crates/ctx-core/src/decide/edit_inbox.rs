//! Edit, reorder and withdraw messages that wait in the inbox.

use crate::id::MessageId;
use crate::inbox::{Item, ItemState};
use crate::refusal::Refusal;

use super::session_changes::SessionChanges;
use super::task_changes::text;
use super::{Decided, Event, Invocation, SessionView};

fn waiting(changes: &SessionChanges<'_>, id: MessageId) -> Result<Item, Refusal> {
    let item =
        changes.inbox.iter().find(|item| item.message_id == id).ok_or(Refusal::NoInboxItem)?;
    if item.state == ItemState::Waiting { Ok(item.clone()) } else { Err(Refusal::NotWaiting) }
}

/// Replaces the text of a waiting message.
///
/// Fails if the message is not waiting, or the text is empty or too long.
pub fn edit_item(
    view: &SessionView,
    id: MessageId,
    new_text: &str,
    invocation: &Invocation,
) -> Decided<()> {
    let new_text = text("message", new_text)?;
    let mut changes = SessionChanges::new(view, invocation);
    let item = waiting(&changes, id)?;
    let intent = item.intent.map(|_| changes.classify_text(&new_text));
    changes.put_item(Item { intent, ..item }.with_text(new_text));
    changes.emit(Event::InboxUpdated { message_id: id });
    Ok(changes.finish(()))
}

/// Moves a waiting message to another place, counted from 1; places after the last mean the end.
///
/// Fails if the message is not waiting.
pub fn move_item(
    view: &SessionView,
    id: MessageId,
    place: usize,
    invocation: &Invocation,
) -> Decided<()> {
    let mut changes = SessionChanges::new(view, invocation);
    let moved = waiting(&changes, id)?;
    let mut order: Vec<Item> =
        changes.waiting().filter(|item| item.message_id != id).cloned().collect();
    let mut positions: Vec<i64> = changes.waiting().map(|item| item.position).collect();
    positions.sort_unstable();
    order.insert(place.saturating_sub(1).min(order.len()), moved);
    for (item, position) in order.into_iter().zip(positions) {
        if item.position != position {
            changes.put_item(Item { position, ..item });
        }
    }
    changes.emit(Event::InboxUpdated { message_id: id });
    Ok(changes.finish(()))
}

/// Removes a waiting message.
///
/// Fails if the message is not waiting.
pub fn withdraw_item(view: &SessionView, id: MessageId, invocation: &Invocation) -> Decided<()> {
    let mut changes = SessionChanges::new(view, invocation);
    waiting(&changes, id)?;
    changes.remove_item(id);
    changes.emit(Event::InboxUpdated { message_id: id });
    Ok(changes.finish(()))
}
