//! The next message of an idle session's inbox: taken, judged, run (R156–R164).

use std::collections::HashMap;

use crate::id::MessageId;
use crate::inbox::{Item, ItemState, Mode};
use crate::intent::Intent;
use crate::time::Timestamp;

use super::delivery::{delivery_block, is_classified};
use super::talk::{Opener, Talk, Way};
use super::{Decided, Decision, Event, Moment, Opened, SessionView, Settings};

/// What was delivered from the inbox.
#[derive(Debug, Clone, PartialEq)]
pub enum Delivered {
    /// Nothing: the inbox is empty, or the session takes no messages now.
    Nothing,
    /// A run was opened, and has to be carried out now.
    Run(Box<Opened>),
    /// ctx answered by itself: a turn without a run was added. More may be deliverable.
    Notice,
    /// A question with two choices was opened; the messages are held until it is answered.
    Asked,
    /// Messages are being collected; none is delivered before this time.
    NotBefore(Timestamp),
}

/// Takes what is next, if anything can be. `judged` has what a slow judge said.
///
/// # Errors
/// If the message cannot be handled; it waits on.
pub fn deliver(
    view: &SessionView,
    judged: &HashMap<MessageId, Intent>,
    opener: &Opener,
    settings: &Settings,
    moment: &Moment,
) -> Decided<Delivered> {
    let mut talk = Talk::new(view, moment);
    if delivery_block(&talk.session, talk.work.prompt()).is_some() {
        return Ok(Decision::unchanged(Delivered::Nothing));
    }
    let held = talk.items_in(ItemState::Held);
    if !held.is_empty() && talk.session.track_tasks && talk.work.task().is_none() {
        // Nobody chose: the task was sealed meanwhile, and the message is one like any other.
        talk.begin(held, opener, settings)?;
        return Ok(delivered(talk));
    }
    if !held.is_empty() {
        // The choice was made elsewhere, and the task dealt with there.
        talk.go(Way::Run(talk.session.track_tasks), held, opener);
        return Ok(delivered(talk));
    }
    let mut items = next(&talk);
    if let Some(until) = gathering(&items, settings, talk.now()) {
        return Ok(Decision::unchanged(Delivered::NotBefore(until)));
    }
    if items.is_empty() {
        return Ok(Decision::unchanged(Delivered::Nothing));
    }
    for item in &mut items {
        if let Some(intent) = judged.get(&item.message_id) {
            item.intent = Some(*intent);
            talk.work
                .event(Event::MessageClassified { message_id: item.message_id, intent: *intent });
        } else if item.intent.is_some() || is_classified(&talk.session, item) {
            // The task may have moved since it was sent, or the judge was asked about another that was first then.
            let now = talk.judge(&item.text());
            if item.intent != Some(now) {
                item.intent = Some(now);
                talk.work
                    .event(Event::MessageClassified { message_id: item.message_id, intent: now });
            }
        }
    }
    talk.begin(items, opener, settings)?;
    Ok(delivered(talk))
}

fn delivered(mut talk: Talk<'_>) -> Decision<Delivered> {
    let reply = match talk.opened.take() {
        Some(opened) => Delivered::Run(Box::new(opened)),
        None if talk.turn.is_some() => Delivered::Notice,
        None => Delivered::Asked,
    };
    talk.finish(reply)
}

/// One message, or all consecutive ones that want to be collected.
fn next(talk: &Talk<'_>) -> Vec<Item> {
    let mut waiting = talk.waiting();
    let Some(first) = waiting.next() else { return Vec::new() };
    let mut items = vec![first.clone()];
    if first.mode == Mode::Collect {
        items.extend(waiting.take_while(|item| item.mode == Mode::Collect).cloned());
    }
    items
}

/// Collected messages are waited for a little after the last of them.
fn gathering(items: &[Item], settings: &Settings, now: Timestamp) -> Option<Timestamp> {
    let last = items.last().filter(|item| item.mode == Mode::Collect)?;
    let until = Timestamp(last.enqueued_at.0.saturating_add_unsigned(settings.inbox.debounce.0));
    (now < until).then_some(until)
}
