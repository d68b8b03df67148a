//! What a session waits for has come: it is consumed, kept in the open turn, and the run goes on, in one decision
//! (R220, R249). Also the answer to a question with two choices.

use crate::draft;
use crate::id::{MessageId, SuspensionId};
use crate::inbox::{Item, ItemState};
use crate::message::{Role, Source};
use crate::prompt::Choice;
use crate::refusal::Refusal;
use crate::session::Status;
use crate::suspension::{Answer, Kind, Suspension};

use super::submit::finish_choice;
use super::talk::{Opener, Talk};
use super::{Change, Decided, Event, Moment, Opened, SessionView, Settings, choose};

/// Answers a suspension.
///
/// # Errors
/// If it is unknown, was answered before, or the answer does not fit.
pub fn resume(
    view: &SessionView,
    id: SuspensionId,
    answer: &Answer,
    opener: &Opener,
    moment: &Moment,
) -> Decided<Option<Opened>> {
    let Some(suspension) = view.suspensions.iter().find(|suspension| suspension.id == id) else {
        return Err(if view.suspension_consumed {
            Refusal::SuspensionConsumed
        } else {
            Refusal::NoSuspension
        });
    };
    if view.session.status == Status::Error {
        return Err(Refusal::SessionBroken);
    }
    suspension.check(answer)?;
    let mut talk = Talk::new(view, moment);
    answer_suspension(&mut talk, suspension, answer.clone(), None, opener);
    let opened = talk.opened.take();
    Ok(talk.finish(opened))
}

/// Keeps the answer in the open turn; the run goes on once nothing else is awaited.
pub(super) fn answer_suspension(
    talk: &mut Talk<'_>,
    suspension: &Suspension,
    answer: Answer,
    said: Option<&Item>,
    opener: &Opener,
) {
    let entries = entries(talk, suspension, &answer, said);
    talk.work.change(Change::ConsumeSuspension { id: suspension.id, answer: Some(answer.clone()) });
    if !entries.is_empty() {
        talk.work.change(Change::AppendDrafts(entries.clone()));
    }
    if let Some(run_id) = talk.view().run.as_ref().map(|run| run.id) {
        for result in &answer.results {
            let (tool_call_id, is_error) = (result.tool_call_id.clone(), result.is_error);
            talk.work.event(Event::ToolCallCompleted { run_id, tool_call_id, is_error });
        }
    }
    if talk.session.status != Status::Error {
        talk.session.status = Status::Active;
    }
    let others = talk.view().suspensions.iter().any(|other| other.id != suspension.id);
    if others {
        talk.work.event(Event::SessionUpdated);
        return;
    }
    let Some(before) = talk.view().run.clone() else { return };
    let drafts = talk.view().drafts.iter().cloned().chain(entries).collect();
    talk.continue_run(&before, drafts, (suspension.clone(), answer), opener);
}

/// The answer as it stands in the turn.
fn entries(
    talk: &mut Talk<'_>,
    suspension: &Suspension,
    answer: &Answer,
    said: Option<&Item>,
) -> Vec<draft::Entry> {
    let at = talk.now();
    if let Some(item) = said {
        let begin = draft::Entry::Message {
            id: item.message_id,
            role: Role::User,
            source: Some(item.source),
            at,
        };
        return vec![begin, draft::Entry::Text { text: item.text() }];
    }
    let mut begin = |role, source| draft::Entry::Message {
        id: MessageId(talk.work.next_id()),
        role,
        source,
        at,
    };
    match suspension.awaited.kind {
        Kind::ToolResult => {
            let results = answer.results.iter().map(|result| draft::Entry::ToolResult {
                id: result.tool_call_id.clone(),
                content: result.content.clone(),
                is_error: result.is_error,
            });
            std::iter::once(begin(Role::Tool, None)).chain(results).collect()
        }
        Kind::Question | Kind::Event => {
            let text = answer.choice.clone().unwrap_or_default();
            vec![begin(Role::User, Some(Source::Human)), draft::Entry::Text { text }]
        }
        // The agent is told by its own protocol; the turn shows what the call became.
        Kind::Permission => Vec::new(),
    }
}

/// Answers the question with two choices; the message that caused it is handled now.
///
/// # Errors
/// If no question is open.
pub fn settle_choice(
    view: &SessionView,
    choice: Choice,
    opener: &Opener,
    settings: &Settings,
    moment: &Moment,
) -> Decided<Option<Opened>> {
    if view.session.status == Status::Error {
        return Err(Refusal::SessionBroken);
    }
    let mut talk = Talk::new(view, moment);
    let held = talk.items_in(ItemState::Held);
    let action = choose::answer(&mut talk.work, choice, settings)?;
    finish_choice(&mut talk, held, action, opener)?;
    let opened = talk.opened.take();
    Ok(talk.finish(opened))
}
