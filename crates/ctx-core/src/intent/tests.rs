//! Every requirement about intents as tables of messages, and the bounds of the classifier.

use super::Intent::{self, Abandon, Clarification, Confirmation, Modification, NewTask, Response, Unclear};
use super::{Situation, classify, llm_prompt, read_llm_answer};
use crate::task::StateName::{self, Aborted, AwaitingUser, Complete, Interrupted, PendingComplete, Running};

mod english;
mod languages;

type Case = (&'static str, Option<StateName>, Intent);

const RUN: Option<StateName> = Some(Running);
const ASK: Option<StateName> = Some(AwaitingUser);
const END: Option<StateName> = Some(PendingComplete);
const CUT: Option<StateName> = Some(Interrupted);
const OLD: Option<StateName> = Some(Complete);
const OUT: Option<StateName> = Some(Aborted);

fn intent(text: &str, situation: Situation<'_>) -> Intent {
    classify(text, &situation).intent
}

/// Checks a table and names every case that fails, so that one run shows what a change did.
fn check(cases: &[Case]) {
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|&(text, state, wanted)| {
            let verdict = classify(text, &Situation { state, ..Situation::default() });
            (verdict.intent != wanted).then(|| format!("{text:?} in {state:?}: {verdict:?}, wanted {wanted:?}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {} wrong:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn scratch() {
    let _ = (CUT, OLD, OUT, RUN, llm_prompt, read_llm_answer, intent);
}
