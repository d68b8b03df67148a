//! Deliver the next message of an idle session's inbox (R156–R164).

use std::collections::HashMap;

use crate::id::MessageId;
use crate::inbox::{Item, ItemState, Mode};
use crate::intent::Intent;
use crate::run::TaskEffect;
use crate::time::Timestamp;

use super::delivery::{delivery_block, is_classified, is_kept_elsewhere};
use super::session_changes::{NextStep, RunHost, SessionChanges};
use super::{Decided, Decision, Event, Invocation, OpenedRun, SessionView, Settings};

/// The result of a delivery.
#[derive(Debug, Clone, PartialEq)]
pub enum Delivered {
    /// The inbox is empty, or the session delivers nothing now.
    Nothing,
    /// A run was opened; the caller has to carry it out.
    Run(Box<OpenedRun>),
    /// ctx answered without a run, in a turn of its own. More may be deliverable.
    Notice,
    /// A question with two choices was opened; the messages are held until it is answered.
    Asked,
    /// Messages are being collected; none is delivered before this time.
    NotBefore(Timestamp),
}

/// Delivers the next message, if one can be delivered. `classified` holds the results of a
/// classifier that was asked before the transaction.
///
/// Fails if the message cannot be handled; it stays in the inbox.
pub fn deliver(
    view: &SessionView,
    classified: &HashMap<MessageId, Intent>,
    run_host: &RunHost,
    settings: &Settings,
    invocation: &Invocation,
) -> Decided<Delivered> {
    let mut changes = SessionChanges::new(view, invocation);
    if delivery_block(&changes.session, changes.tasks.prompt()).is_some()
        || is_kept_elsewhere(&changes.session, run_host.node)
    {
        return Ok(Decision::unchanged(Delivered::Nothing));
    }
    let held = changes.items_in(ItemState::Held);
    if !held.is_empty() && changes.session.track_tasks && changes.tasks.task().is_none() {
        // The task was sealed before the user chose, so the message is handled like any other.
        changes.begin(held, run_host, settings)?;
        return Ok(delivered(changes));
    }
    if !held.is_empty() {
        // The choice was made with `stage choose`, which has updated the task.
        let effect = if changes.session.track_tasks { TaskEffect::Infer } else { TaskEffect::Keep };
        changes.apply_step(NextStep::Run(effect), held, run_host);
        return Ok(delivered(changes));
    }
    let mut items = next(&changes);
    if let Some(until) = collect_deadline(&items, settings, changes.now()) {
        return Ok(Decision::unchanged(Delivered::NotBefore(until)));
    }
    if items.is_empty() {
        return Ok(Decision::unchanged(Delivered::Nothing));
    }
    for item in &mut items {
        if let Some(intent) = classified.get(&item.message_id) {
            item.intent = Some(*intent);
            changes.emit(Event::MessageClassified { message_id: item.message_id, intent: *intent });
        } else if item.intent.is_some() || is_classified(&changes.session, item) {
            // The task may have changed since the message was sent or classified.
            let now = changes.classify_text(&item.text());
            if item.intent != Some(now) {
                item.intent = Some(now);
                changes.emit(Event::MessageClassified { message_id: item.message_id, intent: now });
            }
        }
    }
    changes.begin(items, run_host, settings)?;
    Ok(delivered(changes))
}

fn delivered(mut changes: SessionChanges<'_>) -> Decision<Delivered> {
    let reply = match changes.opened_run.take() {
        Some(opened_run) => Delivered::Run(opened_run),
        None if changes.turn.is_some() => Delivered::Notice,
        None => Delivered::Asked,
    };
    changes.finish(reply)
}

/// The next message, or all consecutive messages of mode `collect`.
fn next(changes: &SessionChanges<'_>) -> Vec<Item> {
    let mut waiting = changes.waiting();
    let Some(first) = waiting.next() else { return Vec::new() };
    let mut items = vec![first.clone()];
    if first.mode == Mode::Collect {
        items.extend(waiting.take_while(|item| item.mode == Mode::Collect).cloned());
    }
    items
}

/// Messages of mode `collect` are delivered after a pause (`debounce`) without a further one.
fn collect_deadline(items: &[Item], settings: &Settings, now: Timestamp) -> Option<Timestamp> {
    let last = items.last().filter(|item| item.mode == Mode::Collect)?;
    let until = Timestamp(last.enqueued_at.0.saturating_add_unsigned(settings.inbox.debounce.0));
    (now < until).then_some(until)
}
