//! Accept a message of a client that keeps the history itself: the session starts with the turns
//! that the client sent, or the message continues the turn that the client's history ends with.

use crate::draft::Entry;
use crate::id::{MessageId, TurnId};
use crate::inbox::ItemState;
use crate::message::Role;
use crate::refusal::Refusal;
use crate::session::{self, Activity, Session};
use crate::turn::Ready;

use super::change::HistoryKey;
use super::session_changes::RunHost;
use super::submit::accept_message;
use super::{
    Accepted, Change, Decided, Event, Invocation, SessionView, Settings, Submit, create_session,
};

/// The session of a message with a history.
#[derive(Debug, Clone, PartialEq)]
pub enum HistoryTarget {
    /// A session that exists.
    Existing {
        /// If set, the session must be idle and have this head, so that the message follows the
        /// turn that the client's history ends with.
        expected: Option<Option<TurnId>>,
    },
    /// A new session.
    New(Box<session::New>),
    /// A new session that branches off the one that the rule sees, at its head. The rule sees the
    /// origin so that it is not deleted meanwhile.
    Fork(Box<session::New>),
}

/// What is stored with a message.
#[derive(Debug, Clone, PartialEq)]
pub struct SubmittedHistory {
    /// The session.
    pub to: HistoryTarget,
    /// Turns of the client's history that follow the head and are not stored yet.
    pub turns: Vec<Ready>,
    /// The keys by which the history is found again.
    pub keys: Vec<HistoryKey>,
}

/// Accepts a message with its history. If the client brings results of its tools, the reply names
/// the message with them instead.
///
/// Fails if a new session's label is in use, the session has changed since the histories were
/// compared, or the message is refused.
pub fn submit_history(
    view: Option<&SessionView>,
    history: &SubmittedHistory,
    submit: &Submit,
    run_host: &RunHost,
    settings: &Settings,
    invocation: &Invocation,
) -> Decided<Accepted> {
    let (mut view, mut changes, mut events) = match (view, &history.to) {
        (Some(_), HistoryTarget::New(new)) => {
            return Err(Refusal::LabelInUse { label: new.label.clone() });
        }
        (None, HistoryTarget::Existing { .. } | HistoryTarget::Fork(_)) => {
            return Err(Refusal::NoSession);
        }
        (Some(view), HistoryTarget::Existing { expected }) => {
            if expected.is_some_and(|head| !is_idle_at(view, head)) {
                return Err(Refusal::StaleWriter);
            }
            (view.clone(), Vec::new(), Vec::new())
        }
        (None, HistoryTarget::New(new)) | (Some(_), HistoryTarget::Fork(new)) => {
            let made = create_session(None, new)?;
            (SessionView::bare(new.session()), made.changes, made.events)
        }
    };
    add_turns(&mut view.session, &history.turns, &mut changes, &mut events);
    changes.extend(key_changes(&history.keys));
    let mut decision = accept_message(&view, changes, submit, run_host, settings, invocation)?;
    decision.events.splice(0..0, events);
    if let Some(results) = given_results(&submit.overrides.given) {
        decision.reply.message_id = results;
    }
    Ok(decision)
}

/// The message with the results that the client brings, which the run answers.
fn given_results(given: &[Entry]) -> Option<MessageId> {
    given.iter().rev().find_map(|entry| match entry {
        Entry::Message { id, role: Role::Tool, .. } => Some(*id),
        _ => None,
    })
}

/// Creates a session that starts with turns and has no message to answer.
///
/// Fails if the label is in use or invalid.
pub fn create_with_history(
    found: Option<&SessionView>,
    new: &session::New,
    turns: &[Ready],
    keys: &[HistoryKey],
) -> Decided<()> {
    let mut made = create_session(found, new)?;
    add_turns(&mut new.session(), turns, &mut made.changes, &mut made.events);
    made.changes.extend(key_changes(keys));
    Ok(made)
}

/// Adds turns after the head of a session.
fn add_turns(
    session: &mut Session,
    turns: &[Ready],
    changes: &mut Vec<Change>,
    events: &mut Vec<Event>,
) {
    let mut records = Vec::with_capacity(turns.len());
    for turn in turns {
        let record = turn.with_parent(session.head);
        session.head = Some(record.id);
        session.turn_count += 1;
        records.push(record);
    }
    if let Some(last) = records.last() {
        events.push(Event::TurnCommitted { turn: Some(last.id) });
        changes.push(Change::ImportTurns(records));
    }
}

fn key_changes(keys: &[HistoryKey]) -> impl Iterator<Item = Change> {
    keys.iter().cloned().map(Box::new).map(Change::PutHistoryKey)
}

fn is_idle_at(view: &SessionView, head: Option<TurnId>) -> bool {
    let waits = view.inbox.iter().any(|item| item.state != ItemState::Dropped);
    view.session.head == head && view.session.state == Activity::Idle && !waits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::tests::model::{Model, START};
    use crate::decide::{ProviderCatalog, RunPolicy};
    use crate::id::{NodeId, SessionId};
    use crate::inbox::Overrides;
    use crate::message::{Message, Part, Source};
    use crate::session::Origin;
    use crate::turn::About;
    use ulid::Ulid;

    fn ready(n: u128) -> Ready {
        let content = vec![Part::Text { text: n.to_string() }];
        let id = MessageId(Ulid(n));
        let message = Message { id, role: Role::User, source: None, content, created_at: START };
        Ready::new(About::at(START), vec![message]).0
    }

    fn accept(model: &Model, history: &SubmittedHistory, exists: bool) -> Decided<Accepted> {
        let submit = Submit {
            message_id: MessageId(Ulid(70)),
            content: vec![Part::Text { text: "and now?".to_owned() }],
            mode: None,
            source: Source::Human,
            overrides: Overrides::default(),
            classify_mode: Default::default(),
            run_policy: RunPolicy::StartRun,
        };
        let host = RunHost { node: NodeId(Ulid(7)), catalog: ProviderCatalog::default() };
        let view = exists.then_some(&model.view);
        submit_history(view, history, &submit, &host, &model.settings, &model.invocation())
    }

    #[test]
    fn a_new_session_starts_with_the_turns_that_were_sent() {
        let key = HistoryKey {
            scope: "local".to_owned(),
            key: "k".to_owned(),
            message: MessageId(Ulid(70)),
        };
        let new = session::New::idle(
            SessionId(Ulid(5)),
            "five".to_owned(),
            "p".to_owned(),
            Origin::Api,
            START,
        );
        let history = SubmittedHistory {
            to: HistoryTarget::New(Box::new(new)),
            turns: vec![ready(1), ready(2)],
            keys: vec![key.clone()],
        };
        let decision = accept(&Model::empty(), &history, false).expect("accepted");
        let first = ready(1).with_parent(None);
        let second = ready(2).with_parent(Some(first.id));
        assert!(matches!(decision.changes[0], Change::CreateSession(_)));
        assert_eq!(decision.changes[1], Change::ImportTurns(vec![first, second.clone()]));
        assert_eq!(decision.changes[2], Change::PutHistoryKey(Box::new(key)));
        let run = decision.reply.opened_run.expect("a run");
        assert_eq!((run.head, run.session.turn_count), (Some(second.id), 2));
        let taken = accept(&Model::empty(), &history, true);
        assert!(matches!(taken, Err(Refusal::LabelInUse { .. })));
        // A fork needs its origin.
        let HistoryTarget::New(new) = history.to.clone() else { panic!("a new session") };
        let fork = SubmittedHistory { to: HistoryTarget::Fork(new), ..history };
        assert_eq!(accept(&Model::empty(), &fork, false).map(drop), Err(Refusal::NoSession));
        let decision = accept(&Model::empty(), &fork, true).expect("accepted");
        assert!(matches!(decision.changes[0], Change::CreateSession(_)));
    }

    #[test]
    fn a_session_that_changed_meanwhile_is_not_continued() {
        let to = |expected| SubmittedHistory {
            to: HistoryTarget::Existing { expected },
            turns: Vec::new(),
            keys: Vec::new(),
        };
        let mut model = Model::empty();
        let other = ready(1).with_parent(None).id;
        assert!(accept(&model, &to(Some(None)), true).is_ok());
        assert!(accept(&model, &to(None), true).is_ok());
        assert_eq!(
            accept(&model, &to(Some(Some(other))), true).map(drop),
            Err(Refusal::StaleWriter)
        );
        model.view.session.state = Activity::Running;
        assert_eq!(accept(&model, &to(Some(None)), true).map(drop), Err(Refusal::StaleWriter));
        assert_eq!(accept(&model, &to(None), false).map(drop), Err(Refusal::NoSession));
    }
}
