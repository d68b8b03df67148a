//! The kind of each sentence of a message: question, request, statement, or markers only.
//!
//! A request in the form of a question ("can you add it?") is a request. A question that only
//! mentions a change ("why did you use a mutex instead?") is a question.

use super::lexicon::{Mark, hit};
use super::words::{Gap, Word};

/// The kind of a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SentenceKind {
    /// Only markers: a greeting, agreement, thanks, hesitation.
    Nothing,
    /// Asks for information.
    Asks,
    /// Has a question mark and no other feature of a question: "exponential?"
    AsksPerhaps,
    /// Requests work.
    Requests,
    /// Any other sentence.
    Says,
}

/// Markers that do not request anything themselves.
pub(super) const NEUTRAL: Mark = Mark::YES
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

/// The kind of each sentence, in order.
pub(super) fn sentences(words: &[Word]) -> Vec<SentenceKind> {
    words.split_inclusive(|word| word.gap >= Gap::Sentence).map(kind_of).collect()
}

/// Index of the first significant word, after greetings, thanks and approvals.
pub(super) fn lead_index(words: &[Word]) -> usize {
    let mut at = after_marker_clauses(words);
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

/// Index after the leading clauses that consist only of markers. "Now, add it" has none: "now"
/// belongs to the request.
fn after_marker_clauses(words: &[Word]) -> usize {
    let turn = Mark::NOW.or(Mark::NOW_FAR);
    let mut start = 0;
    let mut at = 0;
    while let Some(found) = hit(words, at, NEUTRAL) {
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

fn kind_of(sentence: &[Word]) -> SentenceKind {
    let asking = sentence.last().is_some_and(|word| word.gap == Gap::Question);
    if all_markers(sentence) {
        return if asking { SentenceKind::AsksPerhaps } else { SentenceKind::Nothing };
    }
    let mut at = lead_index(sentence);
    while let Some(join) = hit(sentence, at, Mark::JOIN) {
        at += join.len;
    }
    explicit_form(sentence, at)
        .or_else(|| form_by_question_mark(sentence, at, asking))
        .unwrap_or(SentenceKind::Says)
}

/// Whether all words are markers.
pub(super) fn all_markers(words: &[Word]) -> bool {
    let mut at = 0;
    while let Some(found) = hit(words, at, NEUTRAL) {
        at += found.len;
    }
    at == words.len()
}

/// The kind of a sentence whose form kind_of not depend on a question mark.
fn explicit_form(sentence: &[Word], at: usize) -> Option<SentenceKind> {
    if let Some(polite) = hit(sentence, at, Mark::POLITE) {
        let mut verb = at + polite.len;
        while let Some(run_host) = hit(sentence, verb, Mark::OPENER) {
            verb += run_host.len;
        }
        let explains =
            hit(sentence, verb, Mark::EXPLAIN).is_some() || any(sentence, Mark::EXPLAIN_FAR);
        return Some(if explains { unless_joined(sentence, verb) } else { SentenceKind::Requests });
    }
    if let Some(proposal) = hit(sentence, at, Mark::SUGGEST) {
        return Some(if at + proposal.len == sentence.len() {
            SentenceKind::Asks
        } else {
            SentenceKind::Requests
        });
    }
    if hit(sentence, at, Mark::EXPLAIN).is_some()
        || any(sentence, Mark::EXPLAIN_FAR)
        || asks_status(sentence, at)
    {
        return Some(unless_joined(sentence, at));
    }
    if any(sentence, Mark::POLITE_FAR) {
        return Some(SentenceKind::Requests);
    }
    any(sentence, Mark::ASK_FAR).then(|| unless_joined(sentence, at))
}

/// The kind of a sentence whose form depends on a question mark.
fn form_by_question_mark(sentence: &[Word], at: usize, asking: bool) -> Option<SentenceKind> {
    let opens = |mark| hit(sentence, at, mark).is_some();
    let inverted = hit(sentence, at, Mark::ASK)
        .is_some_and(|ask| hit(sentence, at + ask.len, Mark::ASK_VERB).is_some());
    if opens(Mark::ASK_SURE) || inverted || (asking && opens(Mark::ASK)) {
        return Some(SentenceKind::Asks);
    }
    if opens(Mark::REQUEST) && !(asking && opens(Mark::ASK_VERB)) {
        return Some(SentenceKind::Requests);
    }
    if asking && any(sentence, Mark::POLITE) {
        return Some(SentenceKind::Requests);
    }
    if asking && opens(Mark::ASK_VERB) {
        return Some(SentenceKind::Asks);
    }
    asking.then_some(SentenceKind::AsksPerhaps)
}

/// "Status?" is a question. "Status codes are wrong" is not.
fn asks_status(sentence: &[Word], at: usize) -> bool {
    hit(sentence, at, Mark::STATUS).is_some_and(|found| {
        let rest = &sentence[at + found.len..];
        sentence[at + found.len - 1].gap != Gap::None || all_markers(rest)
    })
}

/// A question, unless a request follows in the same sentence: "show me the code and fix the typo".
fn unless_joined(sentence: &[Word], from: usize) -> SentenceKind {
    let joined = (from + 1..sentence.len()).any(|at| {
        let opens = sentence[at - 1].gap != Gap::None
            || hit(sentence, at - 1, Mark::JOIN).is_some_and(|j| j.len == 1);
        opens && hit(sentence, at, Mark::REQUEST).is_some()
    });
    if joined || any(sentence, Mark::PLACE) { SentenceKind::Requests } else { SentenceKind::Asks }
}

/// Whether a marker occurs at any position.
pub(super) fn any(words: &[Word], mark: Mark) -> bool {
    (0..words.len()).any(|at| hit(words, at, mark).is_some())
}
