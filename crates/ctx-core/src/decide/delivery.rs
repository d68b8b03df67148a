//! Whether a session's inbox can be delivered now. Every caller asks this file: the rules `submit`
//! and `deliver`, the engine that waits for a session to settle, and the surfaces that show whether
//! it is busy. The store's query for sessions without an owner repeats the conditions in SQL, but
//! only to select candidates: `deliver` decides again on each of them.

use crate::compaction;
use crate::id::NodeId;
use crate::inbox::{Item, ItemState};
use crate::intent::ClassifierInput;
use crate::message::Source;
use crate::prompt::Prompt;
use crate::session::{Activity, Delivery, Session, Status};
use crate::task::{State, Task};

use super::SessionView;

/// Why no message of the inbox can be delivered now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryBlock {
    /// A run is open, or the session waits for a tool result, a permission or an answer.
    NotIdle,
    /// The session's delivery policy is `hold` or `refuse`.
    NotOpen,
    /// The session is archived, or its history is damaged.
    NotInUse,
    /// A question with two choices is open; messages wait until it is answered.
    PromptOpen,
}

/// What keeps the inbox from being delivered; none where the next message can be delivered now.
pub fn delivery_block(session: &Session, prompt: Option<&Prompt>) -> Option<DeliveryBlock> {
    if session.state != Activity::Idle {
        Some(DeliveryBlock::NotIdle)
    } else if session.delivery != Delivery::Open {
        Some(DeliveryBlock::NotOpen)
    } else if !matches!(session.status, Status::Active | Status::Suspended) {
        Some(DeliveryBlock::NotInUse)
    } else {
        prompt.map(|_| DeliveryBlock::PromptOpen)
    }
}

/// Whether another process keeps a live agent for an idle session, so that messages are delivered
/// there.
pub(super) fn is_kept_elsewhere(session: &Session, node: NodeId) -> bool {
    session.state == Activity::Idle && session.owner.is_some_and(|owner| owner != node)
}

/// Whether a session runs, or is about to run a message of its inbox.
pub fn is_busy(session: &Session, prompt: Option<&Prompt>, inbox: &[Item]) -> bool {
    let waits = |item: &Item| matches!(item.state, ItemState::Waiting | ItemState::Steering);
    session.state == Activity::Running
        || (delivery_block(session, prompt).is_none() && inbox.iter().any(waits))
}

/// Whether a message is classified: one of a person, in a session that tracks tasks, that is not a
/// command.
pub(super) fn is_classified(session: &Session, item: &Item) -> bool {
    session.track_tasks && item.source == Source::Human && !asks_to_compact(item)
}

/// The message that is delivered next, if it has to be classified first.
pub fn next_to_classify(view: &SessionView) -> Option<&Item> {
    let next = view.inbox.iter().find(|item| item.state == ItemState::Waiting)?;
    (is_classified(&view.session, next) && next.intent.is_none()).then_some(next)
}

/// The part of a task that classifiers depend on.
pub fn classifier_input(task: Option<&Task>) -> ClassifierInput<'_> {
    let question = match task.map(|task| &task.state) {
        Some(State::AwaitingUser { question, .. }) => Some(question.as_str()),
        _ => None,
    };
    ClassifierInput {
        state: task.map(|task| task.state.name()),
        question,
        task: task.map(|task| task.description.as_str()),
    }
}

/// Whether a message asks for a compaction and for nothing else.
pub(super) fn asks_to_compact(item: &Item) -> bool {
    compaction::Command::of(&item.text()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::tests::model::{Model, START, session};
    use crate::id::{MessageId, PromptId};
    use crate::inbox::{Mode, Overrides};
    use crate::intent::Intent;
    use crate::message::Part;
    use crate::prompt::Pending;
    use ulid::Ulid;

    fn item(state: ItemState, source: Source, text: &str) -> Item {
        Item {
            message_id: MessageId(Ulid(1)),
            position: 1,
            mode: Mode::Queue,
            source,
            content: vec![Part::Text { text: text.to_owned() }],
            intent: None,
            overrides: Overrides::default(),
            state,
            enqueued_at: START,
        }
    }

    fn prompt() -> Prompt {
        Prompt {
            id: PromptId(Ulid(1)),
            pending: Pending::Resume,
            text: "Go on?".to_owned(),
            opened_at: START,
        }
    }

    #[test]
    fn only_an_idle_open_session_in_use_without_a_question_delivers() {
        use DeliveryBlock::{NotIdle, NotInUse, NotOpen, PromptOpen};
        let (idle, open, active) = (Activity::Idle, Delivery::Open, Status::Active);
        for (state, delivery, status, asked, expected) in [
            (idle, open, active, false, None),
            (idle, open, Status::Suspended, false, None),
            (Activity::Running, open, active, false, Some(NotIdle)),
            (Activity::Suspended, open, active, false, Some(NotIdle)),
            (idle, Delivery::Hold, active, false, Some(NotOpen)),
            (idle, Delivery::Refuse, active, false, Some(NotOpen)),
            (idle, open, Status::Archived, false, Some(NotInUse)),
            (idle, open, Status::Error, false, Some(NotInUse)),
            (idle, open, active, true, Some(PromptOpen)),
        ] {
            let session = Session { state, delivery, status, ..session() };
            let prompt = asked.then(prompt);
            let found = delivery_block(&session, prompt.as_ref());
            assert_eq!(found, expected, "{state:?} {delivery:?} {status:?} {asked}");
        }
    }

    #[test]
    fn a_session_is_busy_while_it_runs_and_while_it_can_deliver() {
        let waiting = [item(ItemState::Waiting, Source::Human, "x")];
        let held = [item(ItemState::Held, Source::Human, "x")];
        let with = |state, delivery| Session { state, delivery, ..session() };
        for (state, delivery, inbox, expected) in [
            (Activity::Running, Delivery::Open, &[][..], true),
            (Activity::Idle, Delivery::Open, &[][..], false),
            (Activity::Idle, Delivery::Open, &waiting[..], true),
            (Activity::Idle, Delivery::Open, &held[..], false),
            (Activity::Idle, Delivery::Hold, &waiting[..], false),
            (Activity::Suspended, Delivery::Open, &waiting[..], false),
        ] {
            let found = is_busy(&with(state, delivery), None, inbox);
            assert_eq!(found, expected, "{state:?} {delivery:?} {}", inbox.len());
        }
        let idle = with(Activity::Idle, Delivery::Open);
        assert!(!is_busy(&idle, Some(&prompt()), &waiting), "a question holds the inbox");
    }

    #[test]
    fn only_the_next_message_of_a_person_is_classified() {
        for (tracks, source, text, intent, expected) in [
            (true, Source::Human, "also add logging", None, true),
            (true, Source::Human, "also add logging", Some(Intent::Modification), false),
            (true, Source::Timer, "also add logging", None, false),
            (true, Source::Human, "/compact", None, false),
            (false, Source::Human, "also add logging", None, false),
        ] {
            let mut view = Model::empty().view;
            view.session.track_tasks = tracks;
            let next = Item { intent, ..item(ItemState::Waiting, source, text) };
            view.inbox = vec![item(ItemState::Taken, Source::Human, "before"), next];
            assert_eq!(next_to_classify(&view).is_some(), expected, "{tracks} {source:?} {text}");
        }
    }
}
