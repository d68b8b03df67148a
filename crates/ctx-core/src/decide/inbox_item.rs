//! Messages that wait can be edited, moved and withdrawn.

use crate::id::MessageId;
use crate::inbox::{Item, ItemState};
use crate::refusal::Refusal;

use super::talk::Talk;
use super::work::text;
use super::{Decided, Event, Moment, SessionView};

fn waiting(talk: &Talk<'_>, id: MessageId) -> Result<Item, Refusal> {
    let item = talk.inbox.iter().find(|item| item.message_id == id).ok_or(Refusal::NoItem)?;
    if item.state == ItemState::Waiting { Ok(item.clone()) } else { Err(Refusal::NotWaiting) }
}

/// Says something else.
///
/// # Errors
/// If it does not wait, or the text is none.
pub fn edit_item(view: &SessionView, id: MessageId, words: &str, moment: &Moment) -> Decided<()> {
    let words = text("message", words)?;
    let mut talk = Talk::new(view, moment);
    let item = waiting(&talk, id)?;
    let intent = item.intent.map(|_| talk.judge(&words));
    talk.put_item(Item { intent, ..item }.saying(words));
    talk.work.event(Event::InboxUpdated { message_id: id });
    Ok(talk.finish(()))
}

/// Goes to another place, from 1; too far is the end.
///
/// # Errors
/// If it does not wait.
pub fn move_item(view: &SessionView, id: MessageId, place: usize, moment: &Moment) -> Decided<()> {
    let mut talk = Talk::new(view, moment);
    let moved = waiting(&talk, id)?;
    let mut order: Vec<Item> =
        talk.waiting().filter(|item| item.message_id != id).cloned().collect();
    let mut positions: Vec<i64> = talk.waiting().map(|item| item.position).collect();
    positions.sort_unstable();
    order.insert(place.saturating_sub(1).min(order.len()), moved);
    for (item, position) in order.into_iter().zip(positions) {
        if item.position != position {
            talk.put_item(Item { position, ..item });
        }
    }
    talk.work.event(Event::InboxUpdated { message_id: id });
    Ok(talk.finish(()))
}

/// Is taken back by who sent it.
///
/// # Errors
/// If it does not wait.
pub fn withdraw_item(view: &SessionView, id: MessageId, moment: &Moment) -> Decided<()> {
    let mut talk = Talk::new(view, moment);
    waiting(&talk, id)?;
    talk.remove_item(id);
    talk.work.event(Event::InboxUpdated { message_id: id });
    Ok(talk.finish(()))
}
