//! What a session waits for has come: it is consumed, kept in the open turn, and the run goes on, in one decision
//! (R220, R249). Also the answer to a question with two choices.

use crate::draft;
use crate::id::{MessageId, SuspensionId};
use crate::inbox::{Item, ItemState};
use crate::message::{Role, Source};
use crate::prompt::{Choice, Prompt};
use crate::refusal::Refusal;
use crate::session::Status;
use crate::suspension::{Answer, Kind, Suspension};

use super::session_changes::{RunHost, SessionChanges};
use super::submit::finish_choice;
use super::{Change, Decided, Event, Invocation, OpenedRun, SessionView, Settings, choose};

/// What an answer without a suspension's id is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants name what is answered")]
pub enum AnswerTarget {
    Suspension(SuspensionId),
    Prompt(Choice),
}

/// Finds what an answer is for: the oldest suspension of the fitting kind, else the oldest one, else the open
/// question with two choices.
///
/// # Errors
/// If nothing is awaited, or the question has no such choice.
pub fn answer_target(
    suspensions: &[Suspension],
    prompt: Option<&Prompt>,
    answer: &Answer,
) -> Result<AnswerTarget, Refusal> {
    let has_results = !answer.results.is_empty();
    let fits = suspensions
        .iter()
        .find(|waiting| (waiting.awaited.kind == Kind::ToolResult) == has_results);
    match (fits.or(suspensions.first()), prompt, &answer.choice) {
        (Some(suspension), _, _) => Ok(AnswerTarget::Suspension(suspension.id)),
        (None, Some(prompt), Some(words)) => {
            prompt.choice_of(words).map(AnswerTarget::Prompt).ok_or_else(|| Refusal::BadAnswer {
                why: format!("`{words}` is not a choice; the choices are continue and start_fresh"),
            })
        }
        _ => Err(Refusal::NoSuspension),
    }
}

/// Answers a suspension.
///
/// # Errors
/// If it is unknown, was answered before, or the answer does not fit.
pub fn resume(
    view: &SessionView,
    id: SuspensionId,
    answer: &Answer,
    run_host: &RunHost,
    invocation: &Invocation,
) -> Decided<Option<OpenedRun>> {
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
    let mut changes = SessionChanges::new(view, invocation);
    answer_suspension(&mut changes, suspension, answer.clone(), None, run_host);
    let opened_run = changes.opened_run.take();
    Ok(changes.finish(opened_run))
}

/// Keeps the answer in the open turn; the run goes on once nothing else is awaited.
pub(super) fn answer_suspension(
    changes: &mut SessionChanges<'_>,
    suspension: &Suspension,
    answer: Answer,
    said: Option<&Item>,
    run_host: &RunHost,
) {
    let entries = entries(changes, suspension, &answer, said);
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
    let others = changes.view().suspensions.iter().any(|other| other.id != suspension.id);
    if others {
        changes.emit(Event::SessionUpdated);
        return;
    }
    let Some(before) = changes.view().run.clone() else { return };
    let drafts = changes.view().drafts.iter().cloned().chain(entries).collect();
    changes.continue_run(&before, drafts, (suspension.clone(), answer), run_host);
}

/// The answer as it stands in the turn.
fn entries(
    changes: &mut SessionChanges<'_>,
    suspension: &Suspension,
    answer: &Answer,
    said: Option<&Item>,
) -> Vec<draft::Entry> {
    let at = changes.now();
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
        // The agent is told by its own protocol; the turn shows what the call became.
        Kind::Permission => Vec::new(),
    }
}

/// Answers the question with two choices; the message that caused it is handled now.
///
/// # Errors
/// If no question is open.
pub fn answer_session_prompt(
    view: &SessionView,
    choice: Choice,
    run_host: &RunHost,
    settings: &Settings,
    invocation: &Invocation,
) -> Decided<Option<OpenedRun>> {
    if view.session.status == Status::Error {
        return Err(Refusal::SessionBroken);
    }
    let mut changes = SessionChanges::new(view, invocation);
    let held = changes.items_in(ItemState::Held);
    let action = choose::answer(&mut changes.tasks, choice, settings)?;
    finish_choice(&mut changes, held, action, run_host)?;
    let opened_run = changes.opened_run.take();
    Ok(changes.finish(opened_run))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::tests::model::START;
    use crate::id::PromptId;
    use crate::prompt::Pending;
    use crate::suspension::{Awaited, CallResult};
    use ulid::Ulid;

    fn suspension(id: u128, kind: Kind) -> Suspension {
        let awaited = Awaited {
            kind,
            tool_calls: Vec::new(),
            options: Vec::new(),
            question: None,
            provider_state: None,
        };
        Suspension { id: SuspensionId(Ulid(id)), awaited, created_at: START }
    }

    #[test]
    fn an_answer_goes_to_the_oldest_suspension_that_it_fits() {
        let (permission, tools) =
            (suspension(1, Kind::Permission), suspension(2, Kind::ToolResult));
        let both = [permission.clone(), tools.clone()];
        let prompt = Prompt {
            id: PromptId(Ulid(9)),
            pending: Pending::Resume,
            text: "Go on?".to_owned(),
            opened_at: START,
        };
        let words = |words: &str| Answer { results: Vec::new(), choice: Some(words.to_owned()) };
        let result =
            CallResult { tool_call_id: "a".to_owned(), content: "4".to_owned(), is_error: false };
        let results = Answer { results: vec![result], choice: None };
        let found = |suspensions: &[Suspension], prompt: Option<&Prompt>, answer: &Answer| {
            answer_target(suspensions, prompt, answer).map_err(|refusal| refusal.code())
        };
        let to = |suspension: &Suspension| Ok(AnswerTarget::Suspension(suspension.id));
        assert_eq!(found(&both, None, &words("allow")), to(&permission));
        assert_eq!(found(&both, None, &results), to(&tools));
        assert_eq!(found(&both[..1], None, &results), to(&permission), "which refuses it");
        assert_eq!(found(&both, Some(&prompt), &words("continue")), to(&permission));
        let chosen = Ok(AnswerTarget::Prompt(Choice::Continue));
        assert_eq!(found(&[], Some(&prompt), &words("continue")), chosen);
        assert_eq!(found(&[], Some(&prompt), &words("maybe")), Err("bad_answer"));
        assert_eq!(found(&[], None, &words("continue")), Err("no_suspension"));
        assert_eq!(found(&[], Some(&prompt), &results), Err("no_suspension"));
    }
}
