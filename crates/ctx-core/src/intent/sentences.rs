//! What each sentence of a message does: asks, asks for work, says something, or says nothing of its own.
//!
//! A request in the form of a question ("can you add it?") is a request, and a question that only mentions a change
//! ("why did you use a mutex instead?") is a question.

use super::lexicon::{Mark, hit};
use super::words::{Gap, Word};

/// What a sentence does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Does {
    /// Greets, agrees, thanks, hesitates: nothing beyond its markers.
    Nothing,
    /// Asks to be told or shown something.
    Asks,
    /// Has a question mark and no other sign of a question: "exponential?"
    AsksPerhaps,
    /// Asks for work.
    Requests,
    /// Anything else.
    Says,
}

/// Marks that can be accounted for without changing what a message asks.
pub(super) const ACCOUNTED: Mark = Mark::YES
    .or(Mark::NO)
    .or(Mark::APPROVE)
    .or(Mark::THANKS)
    .or(Mark::ACKNOWLEDGE)
    .or(Mark::ABANDON)
    .or(Mark::ABANDON_WEAK)
    .or(Mark::EXCUSE)
    .or(Mark::CONTINUE)
    .or(Mark::HESITATE)
    .or(Mark::DOUBT)
    .or(Mark::FILLER)
    .or(Mark::GREET);

/// What each sentence does, in order.
pub(super) fn sentences(words: &[Word]) -> Vec<Does> {
    words.split_inclusive(|word| word.gap >= Gap::Sentence).map(does).collect()
}

/// Where the first word that matters stands, past greetings, thanks and approvals.
pub(super) fn lead(words: &[Word]) -> usize {
    let mut at = past_clauses(words);
    let light = Mark::OPENER
        .or(Mark::YES)
        .or(Mark::THANKS)
        .or(Mark::GREET)
        .or(Mark::HESITATE)
        .or(Mark::DOUBT);
    let turn =
        Mark::NOW.or(Mark::TIE).or(Mark::JOIN).or(Mark::TOPIC).or(Mark::MOVE_ON).or(Mark::THANKS);
    loop {
        let light_hit = hit(words, at, light);
        let praise = || {
            hit(words, at, Mark::APPROVE)
                .filter(|praise| hit(words, at + praise.len, turn).is_some())
        };
        match light_hit.or_else(praise) {
            Some(found) => at += found.len,
            None => return at,
        }
    }
}

/// Past every clause at the start that is wholly accounted for. "Now, add it" begins with what matters.
fn past_clauses(words: &[Word]) -> usize {
    let turn = Mark::NOW.or(Mark::NOW_FAR);
    let mut start = 0;
    let mut at = 0;
    while let Some(found) = hit(words, at, ACCOUNTED) {
        if at == start && hit(words, at, turn).is_some() {
            break;
        }
        at += found.len;
        if words[at - 1].gap != Gap::None {
            start = at;
        }
    }
    start
}

fn does(sentence: &[Word]) -> Does {
    let asking = sentence.last().is_some_and(|word| word.gap == Gap::Question);
    if accounted(sentence) {
        return if asking { Does::AsksPerhaps } else { Does::Nothing };
    }
    let mut at = lead(sentence);
    while let Some(join) = hit(sentence, at, Mark::JOIN) {
        at += join.len;
    }
    told(sentence, at).or_else(|| asked(sentence, at, asking)).unwrap_or(Does::Says)
}

/// Whether markers and filler make up the whole of it.
pub(super) fn accounted(words: &[Word]) -> bool {
    let mut at = 0;
    while let Some(found) = hit(words, at, ACCOUNTED) {
        at += found.len;
    }
    at == words.len()
}

/// Sentences whose form is sure without a question mark.
fn told(sentence: &[Word], at: usize) -> Option<Does> {
    if let Some(polite) = hit(sentence, at, Mark::POLITE) {
        let mut verb = at + polite.len;
        while let Some(run_host) = hit(sentence, verb, Mark::OPENER) {
            verb += run_host.len;
        }
        let explains =
            hit(sentence, verb, Mark::EXPLAIN).is_some() || any(sentence, Mark::EXPLAIN_FAR);
        return Some(if explains { unless_joined(sentence, verb) } else { Does::Requests });
    }
    if let Some(proposal) = hit(sentence, at, Mark::SUGGEST) {
        return Some(if at + proposal.len == sentence.len() { Does::Asks } else { Does::Requests });
    }
    if hit(sentence, at, Mark::EXPLAIN).is_some()
        || any(sentence, Mark::EXPLAIN_FAR)
        || asks_status(sentence, at)
    {
        return Some(unless_joined(sentence, at));
    }
    if any(sentence, Mark::POLITE_FAR) {
        return Some(Does::Requests);
    }
    any(sentence, Mark::ASK_FAR).then(|| unless_joined(sentence, at))
}

/// Sentences whose form a question mark decides.
fn asked(sentence: &[Word], at: usize, asking: bool) -> Option<Does> {
    let opens = |mark| hit(sentence, at, mark).is_some();
    let inverted = hit(sentence, at, Mark::ASK)
        .is_some_and(|ask| hit(sentence, at + ask.len, Mark::ASK_VERB).is_some());
    if opens(Mark::ASK_SURE) || inverted || (asking && opens(Mark::ASK)) {
        return Some(Does::Asks);
    }
    if opens(Mark::REQUEST) && !(asking && opens(Mark::ASK_VERB)) {
        return Some(Does::Requests);
    }
    if asking && any(sentence, Mark::POLITE) {
        return Some(Does::Requests);
    }
    if asking && opens(Mark::ASK_VERB) {
        return Some(Does::Asks);
    }
    asking.then_some(Does::AsksPerhaps)
}

/// "Status?" asks; "status codes are wrong" does not.
fn asks_status(sentence: &[Word], at: usize) -> bool {
    hit(sentence, at, Mark::STATUS).is_some_and(|found| {
        let rest = &sentence[at + found.len..];
        sentence[at + found.len - 1].gap != Gap::None || accounted(rest)
    })
}

/// A question, unless a request is joined to it: "show me the code and fix the typo".
fn unless_joined(sentence: &[Word], from: usize) -> Does {
    let joined = (from + 1..sentence.len()).any(|at| {
        let opens = sentence[at - 1].gap != Gap::None
            || hit(sentence, at - 1, Mark::JOIN).is_some_and(|j| j.len == 1);
        opens && hit(sentence, at, Mark::REQUEST).is_some()
    });
    if joined || any(sentence, Mark::PLACE) { Does::Requests } else { Does::Asks }
}

/// Whether a mark stands anywhere.
pub(super) fn any(words: &[Word], mark: Mark) -> bool {
    (0..words.len()).any(|at| hit(words, at, mark).is_some())
}
