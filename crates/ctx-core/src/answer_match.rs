//! Matches a person's answer to what a session waits for: a suspension, one of its options, or the
//! pending prompt.

use crate::id::SuspensionId;
use crate::prompt::{Choice, Prompt};
use crate::refusal::Refusal;
use crate::suspension::{Answer, Kind, Offer, Suspension};

/// What an answer is delivered to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants are named after what they contain")]
pub enum AnswerTarget {
    Suspension(SuspensionId),
    Prompt(Choice),
}

/// Finds the target of an answer. `suspensions` are the open ones, oldest first.
///
/// A `named` suspension is used as given. Otherwise the answer goes to the oldest suspension that
/// fits it: one that waits for tool results if the answer has tool results, another one if it has a
/// choice. If none fits, it goes to the oldest suspension, whose check then reports what is wrong.
/// Without suspensions, a choice answers the prompt.
///
/// # Errors
/// [`Refusal::BadAnswer`] if the text is not a choice of the prompt; [`Refusal::NoSuspension`] if
/// the session waits for nothing that the answer could be for.
pub fn answer_target(
    suspensions: &[Suspension],
    prompt: Option<&Prompt>,
    named: Option<SuspensionId>,
    answer: &Answer,
) -> Result<AnswerTarget, Refusal> {
    if let Some(id) = named {
        return Ok(AnswerTarget::Suspension(id));
    }
    let has_results = !answer.results.is_empty();
    let fits = |waiting: &&Suspension| (waiting.awaited.kind == Kind::ToolResult) == has_results;
    if let Some(suspension) = suspensions.iter().find(fits).or(suspensions.first()) {
        return Ok(AnswerTarget::Suspension(suspension.id));
    }
    let (Some(prompt), Some(text)) = (prompt, &answer.choice) else {
        return Err(Refusal::NoSuspension);
    };
    let names = prompt.choices().map(Choice::name).join(" and ");
    let not_a_choice =
        || Refusal::BadAnswer { why: format!("`{text}` is not a choice; the choices are {names}") };
    prompt.choice_of(text).map(AnswerTarget::Prompt).ok_or_else(not_a_choice)
}

/// Returns the option with the number that a person typed, counted from 1.
pub fn numbered_option<'a>(options: &'a [Offer], text: &str) -> Option<&'a Offer> {
    let number: usize = text.trim().parse().ok()?;
    options.get(number.checked_sub(1)?)
}

#[cfg(test)]
mod tests {
    use ulid::Ulid;

    use super::*;
    use crate::id::PromptId;
    use crate::prompt::Pending;
    use crate::suspension::{Awaited, CallResult};
    use crate::time::Timestamp;

    fn suspension(id: u128, kind: Kind) -> Suspension {
        let awaited = Awaited {
            kind,
            tool_calls: Vec::new(),
            options: Vec::new(),
            question: None,
            provider_state: None,
        };
        Suspension { id: SuspensionId(Ulid(id)), awaited, created_at: Timestamp(0) }
    }

    fn choice(text: &str) -> Answer {
        Answer { choice: Some(text.to_owned()), ..Answer::default() }
    }

    fn result() -> Answer {
        let result = CallResult {
            tool_call_id: "call".to_owned(),
            content: "done".to_owned(),
            is_error: false,
        };
        Answer { results: vec![result], ..Answer::default() }
    }

    fn prompt() -> Prompt {
        Prompt {
            id: PromptId(Ulid(1)),
            pending: Pending::NewTask { new_task: "other".to_owned() },
            text: String::new(),
            opened_at: Timestamp(0),
        }
    }

    #[test]
    fn an_answer_goes_to_the_oldest_suspension_that_fits_it() {
        let permission = suspension(1, Kind::Permission);
        let question = suspension(2, Kind::Question);
        let tool = suspension(3, Kind::ToolResult);
        let to = |id: u128| Ok(AnswerTarget::Suspension(SuspensionId(Ulid(id))));
        let table: [(&str, Vec<Suspension>, Answer, _); 6] = [
            ("oldest", vec![permission.clone(), question.clone()], choice("yes"), to(1)),
            ("choice", vec![tool.clone(), question], choice("yes"), to(2)),
            ("result", vec![permission.clone(), tool.clone()], result(), to(3)),
            ("result, none fits", vec![permission.clone()], result(), to(1)),
            ("choice, none fits", vec![tool], choice("yes"), to(3)),
            ("nothing waits", Vec::new(), choice("yes"), Err(Refusal::NoSuspension)),
        ];
        for (case, suspensions, answer, expected) in table {
            assert_eq!(answer_target(&suspensions, None, None, &answer), expected, "{case}");
        }
        let named = Some(SuspensionId(Ulid(9)));
        assert_eq!(answer_target(&[permission], None, named, &choice("yes")), to(9), "named");
    }

    #[test]
    fn a_choice_answers_the_prompt_only_if_no_suspension_is_open() {
        let prompt = prompt();
        let target = |suspensions: &[Suspension], answer: &Answer| {
            answer_target(suspensions, Some(&prompt), None, answer)
        };
        assert_eq!(target(&[], &choice("A")), Ok(AnswerTarget::Prompt(Choice::StartFresh)));
        assert_eq!(target(&[], &choice("continue")), Ok(AnswerTarget::Prompt(Choice::Continue)));
        assert_eq!(target(&[], &result()), Err(Refusal::NoSuspension));
        let refused = target(&[], &choice("perhaps"));
        assert!(
            matches!(&refused, Err(Refusal::BadAnswer { why })
                if why == "`perhaps` is not a choice; the choices are start_fresh and continue"),
            "{refused:?}"
        );
        let waiting = suspension(1, Kind::Question);
        let expected = Ok(AnswerTarget::Suspension(waiting.id));
        assert_eq!(target(&[waiting], &choice("A")), expected);
    }

    #[test]
    fn options_are_numbered_from_one() {
        let option = |id: &str| Offer { id: id.to_owned(), label: id.to_owned(), kind: None };
        let options = [option("allow"), option("reject")];
        let table = [
            ("1", Some("allow")),
            (" 2 ", Some("reject")),
            ("0", None),
            ("3", None),
            ("-1", None),
            ("allow", None),
            ("", None),
        ];
        for (text, expected) in table {
            let found = numbered_option(&options, text).map(|offer| offer.id.as_str());
            assert_eq!(found, expected, "{text:?}");
        }
    }
}
