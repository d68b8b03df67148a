//! Texts that are refused everywhere, and the codes of refusals.

use super::model::{CommandResult, Model};
use crate::id::{CommitId, ObjectId, StepId};
use crate::intent::Intent;
use crate::refusal::Refusal;
use crate::task::StateName::{AwaitingUser, Interrupted, PendingComplete, Running};
use crate::task::{InvalidTransition, State, StateName};
use crate::text_limits::{BadText, TASK_TEXT_MAX_BYTES, TEXT_MAX_BYTES};

type Taker = (&'static str, Option<StateName>, fn(&mut Model, &str) -> CommandResult);

const TAKERS: [Taker; 13] = [
    ("start", None, |m, t| m.start(t)),
    ("ask", Some(Running), |m, t| m.ask(t)),
    ("answer", Some(AwaitingUser), |m, t| m.answer(t)),
    ("interrupt", Some(Running), |m, t| m.interrupt(t)),
    ("done", Some(Running), |m, t| m.done(t)),
    ("more", Some(PendingComplete), |m, t| m.more(t)),
    ("seal", Some(Running), |m, t| m.seal(Some(t))),
    ("abort", Some(Running), |m, t| m.abort(Some(t))),
    ("message", Some(Running), |m, t| m.message(t, Intent::Modification)),
    ("set_state awaiting_user", Some(Running), |m, t| {
        m.set_state(&State::AwaitingUser { question: t.into(), asked_at: 0 })
    }),
    ("set_state pending_complete", Some(Running), |m, t| {
        m.set_state(&State::PendingComplete { summary: t.into() })
    }),
    ("set_state interrupted", Some(Running), |m, t| {
        m.set_state(&State::Interrupted { user_message: t.into() })
    }),
    ("set_state aborted", Some(Running), |m, t| m.set_state(&State::Aborted { reason: t.into() })),
];

#[test]
fn an_empty_text_is_refused_everywhere_and_changes_nothing() {
    // Design 10: every text has a named limit, and invalid input changes nothing
    let long = "x".repeat(TEXT_MAX_BYTES + 1);
    let mut wrong = Vec::new();
    for (name, state, give) in TAKERS {
        for bad in ["", " \n\t", "a\0b", &long] {
            let mut model = Model::at(state);
            let before = model.clone();
            let result = give(&mut model, bad);
            if !matches!(result, Err(Refusal::BadText { .. })) || model != before {
                wrong.push(format!("{name} takes {:?}", bad.chars().take(5).collect::<String>()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_text_of_the_maximum_length_is_accepted() {
    for (name, state, give) in TAKERS {
        let max = if name == "start" { TASK_TEXT_MAX_BYTES } else { TEXT_MAX_BYTES };
        give(&mut Model::at(state), &"x".repeat(max)).expect(name);
    }
    let mut model = Model::at(Some(Running));
    model.ask("  two lines?\n  yes\n").expect("running");
    assert_eq!(
        model.last_note(),
        "Question for user:   two lines?\n  yes\n",
        "words are kept to the last space"
    );
}

#[test]
fn collected_interruptions_have_the_limit_of_one_message() {
    // Design 10
    let mut model = Model::at(Some(Interrupted));
    let before = model.clone();
    let result = model.interrupt(&"x".repeat(TEXT_MAX_BYTES - 5));
    assert!(
        matches!(result, Err(Refusal::BadText { why: BadText::TooLong { .. }, .. })),
        "{result:?}"
    );
    assert_eq!(
        model, before,
        "the message can be sent again after the agent has taken the others in"
    );
    model.incorporate().expect("interrupted");
    model.interrupt(&"x".repeat(TEXT_MAX_BYTES - 5)).expect("there is room again");
}

#[test]
fn an_invalid_text_is_refused_before_the_state_is_checked() {
    let result = Model::empty().ask("");
    assert_eq!(result, Err(Refusal::BadText { what: "question", why: BadText::Empty }));
}

#[test]
fn refusals_have_stable_codes_and_name_both_states() {
    // R32; design 11
    let no_way =
        Refusal::from(InvalidTransition { from: Some(Running), to: Some(StateName::Complete) });
    let codes = [
        (Refusal::NoTask, "no_task", "no task is open"),
        (
            Refusal::TaskOpen { description: "Fix it\nnow".into() },
            "task_open",
            "another task is open: Fix it…",
        ),
        (no_way, "invalid_transition", "invalid task transition: running to complete"),
        (Refusal::NoPrompt, "no_prompt", "no prompt is open"),
        (
            Refusal::PromptOpen { text: "A or B?".into() },
            "prompt_open",
            "a prompt must be answered first: A or B?",
        ),
        (
            Refusal::StaleWriter,
            "stale_writer",
            "write rejected: another writer changed the session first",
        ),
        (
            Refusal::BadText { what: "note", why: BadText::Nul },
            "bad_text",
            "invalid note: the text contains a NUL byte",
        ),
        (
            Refusal::TooMany { what: "observations", count: 9, max: 5 },
            "too_many",
            "too many observations: 9, the limit is 5",
        ),
        (
            Refusal::LabelInUse { label: "main".into() },
            "label_in_use",
            "label `main` is already in use: choose another one",
        ),
        (
            Refusal::AlreadyEnded,
            "already_ended",
            "cannot import the task: it has already ended here",
        ),
    ];
    for (refusal, code, text) in codes {
        assert_eq!((refusal.code(), refusal.to_string().as_str()), (code, text));
    }
    let id = ObjectId::of(&[b"x"]);
    assert!(Refusal::AlreadySealed { commit: CommitId(id) }.to_string().contains(&id.to_string()));
    assert!(Refusal::Diverged { head: StepId(id) }.to_string().contains(&id.to_string()));
}
