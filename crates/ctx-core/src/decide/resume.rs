//! Resume a suspended session: the answer is stored in the open turn and the run continues, in one
//! decision (R220, R249). Also answers a question with two choices.

use crate::draft;
use crate::id::{MessageId, SuspensionId};
use crate::inbox::{Item, ItemState};
use crate::message::{Role, Source};
use crate::prompt::Choice;
use crate::refusal::Refusal;
use crate::session::Status;
use crate::step::tool_note;
use crate::suspension::{Answer, Kind, Suspension, permission_text};
use crate::text_limits::one_line;

use super::checkpoint::observe_work;
use super::session_changes::{RunHost, SessionChanges};
use super::submit::finish_choice;
use super::{
    Change, Decided, Event, Invocation, OpenedRun, SessionView, Settings, choose, outgoing,
};

/// Longest question and decision in the record of a permission, in characters.
const PERMISSION_MAX_CHARS: usize = 500;
/// Longest name of a client in the record of a permission, in characters.
const CLIENT_MAX_CHARS: usize = 80;

/// Answers a suspension.
///
/// Fails if it is unknown or was answered before, or the answer does not match.
pub fn resume(
    view: &SessionView,
    id: SuspensionId,
    answer: &Answer,
    run_host: &RunHost,
    invocation: &Invocation,
) -> Decided<Option<Box<OpenedRun>>> {
    let Some(suspension) = view.suspensions.iter().find(|suspension| suspension.id == id) else {
        return Err(if view.suspension_consumed {
            Refusal::SuspensionConsumed
        } else {
            Refusal::NoSuspension
        });
    };
    if view.session.status == Status::Error {
        return Err(Refusal::SessionDamaged);
    }
    suspension.check(answer)?;
    let mut changes = SessionChanges::new(view, invocation);
    answer_suspension(&mut changes, suspension, answer.clone(), None, run_host)?;
    let opened_run = changes.opened_run.take();
    Ok(changes.finish(opened_run))
}

/// Stores the answer in the open turn. The run continues once no other suspension is open.
pub(super) fn answer_suspension(
    changes: &mut SessionChanges<'_>,
    suspension: &Suspension,
    answer: Answer,
    item: Option<&Item>,
    run_host: &RunHost,
) -> Result<(), Refusal> {
    let entries = entries(changes, suspension, &answer, item);
    observe_results(changes, suspension, &answer)?;
    changes.push(Change::ConsumeSuspension { id: suspension.id, answer: Some(answer.clone()) });
    if !entries.is_empty() {
        changes.push(Change::AppendDrafts(entries.clone()));
    }
    if let Some(run_id) = changes.view().run.as_ref().map(|run| run.id) {
        for result in &answer.results {
            let (tool_call_id, is_error) = (result.tool_call_id.clone(), result.is_error);
            changes.emit(Event::ToolCallCompleted { run_id, tool_call_id, is_error });
        }
    }
    if changes.session.status != Status::Error {
        changes.session.status = Status::Active;
    }
    let Some(mut before) = changes.view().run.clone() else { return Ok(()) };
    if let Some(item) = item {
        outgoing::add_message(&mut before, item);
    }
    let others = changes.view().suspensions.iter().any(|other| other.id != suspension.id);
    if others {
        if changes.view().run.as_ref() != Some(&before) {
            changes.push(Change::PutRun(Box::new(before)));
        }
        changes.emit(Event::SessionUpdated);
        return Ok(());
    }
    let drafts = changes.view().drafts.iter().cloned().chain(entries).collect();
    changes.continue_run(&before, drafts, (suspension.clone(), answer), run_host);
    Ok(())
}

/// Records the results of the client's tools as work, like those of other tools.
fn observe_results(
    changes: &mut SessionChanges<'_>,
    suspension: &Suspension,
    answer: &Answer,
) -> Result<(), Refusal> {
    let name = |id: &str| {
        let call = suspension.awaited.tool_calls.iter().find(|call| call.id == id);
        call.map_or_else(|| id.to_owned(), |call| call.name.clone())
    };
    let mut notes = Vec::with_capacity(answer.results.len());
    for result in &answer.results {
        let text = tool_note(&name(&result.tool_call_id), &result.content, result.is_error);
        notes.push(changes.tasks.note(text));
    }
    observe_work(changes, &notes)
}

/// The answer as draft entries of the open turn.
fn entries(
    changes: &mut SessionChanges<'_>,
    suspension: &Suspension,
    answer: &Answer,
    item: Option<&Item>,
) -> Vec<draft::Entry> {
    let at = changes.now();
    if let Some(item) = item {
        let begin = draft::Entry::Message {
            id: item.message_id,
            role: Role::User,
            source: Some(item.source),
            at,
        };
        let message = [begin, draft::Entry::Text { text: item.text() }].into_iter();
        return message.chain(permission_record(changes, suspension, answer)).collect();
    }
    let mut begin = |role, source| draft::Entry::Message {
        id: MessageId(changes.tasks.next_id()),
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
        // The agent gets the answer through its own protocol; the transcript shows what was asked
        // and decided.
        Kind::Permission => permission_record(changes, suspension, answer),
    }
}

/// The decision on a permission as a message of the transcript. Empty for other suspensions.
fn permission_record(
    changes: &mut SessionChanges<'_>,
    suspension: &Suspension,
    answer: &Answer,
) -> Vec<draft::Entry> {
    if suspension.awaited.kind != Kind::Permission {
        return Vec::new();
    }
    let asked = suspension.question();
    let choice = answer.choice.as_deref().unwrap_or_default();
    let decision = match suspension.matching_option(choice) {
        Some(offer) => format!("{} ({})", offer.label, offer.id),
        None => choice.to_owned(),
    };
    let by = answer.by.as_deref().unwrap_or("an unknown client");
    let (id, at) = (MessageId(changes.tasks.next_id()), changes.now());
    let text = permission_text(
        &one_line(&asked, PERMISSION_MAX_CHARS),
        &one_line(&decision, PERMISSION_MAX_CHARS),
        &one_line(by, CLIENT_MAX_CHARS),
    );
    vec![
        draft::Entry::Message { id, role: Role::System, source: None, at },
        draft::Entry::Text { text },
    ]
}

/// Answers the question with two choices; the message that caused it is handled now.
///
/// Fails if no question is open.
pub fn answer_session_prompt(
    view: &SessionView,
    choice: Choice,
    run_host: &RunHost,
    settings: &Settings,
    invocation: &Invocation,
) -> Decided<Option<Box<OpenedRun>>> {
    if view.session.status == Status::Error {
        return Err(Refusal::SessionDamaged);
    }
    let mut changes = SessionChanges::new(view, invocation);
    let held = changes.items_in(ItemState::Held);
    let action = choose::answer(&mut changes.tasks, choice, settings)?;
    finish_choice(&mut changes, held, None, action, run_host)?;
    let opened_run = changes.opened_run.take();
    Ok(changes.finish(opened_run))
}
