//! The ordered classification rules: the state of the task first, then explicit markers, then
//! sentences.
//!
//! `Abandon` and `Confirmation` result only from [`markers_only`], which requires a marker for
//! every word.

use crate::task::StateName;

use super::lexicon::{Mark, hit};
use super::sentences::{NEUTRAL, SentenceKind, any, sentences};
use super::topic::{explicit_topic, now_about_task, now_topic};
use super::words::{Gap, Word, Words};
use super::{ClassifierInput, Intent, typos};

/// The result of the rules.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ruling {
    pub(super) intent: Intent,
    pub(super) reason: &'static str,
    /// The rule has no known exception. If not, the linear model decides, and the result of the
    /// rules is one of its features.
    pub(super) certain: bool,
}

/// Applies the rules in order.
pub(super) fn apply(text: &str, situation: &ClassifierInput<'_>) -> Ruling {
    let mut words = Words::of(text);
    if words.list.is_empty() {
        return classified(Intent::Unclear, "the message has no words");
    }
    typos::correct(&mut words, situation.task);
    let ruling = by_state(&words, situation);
    // Only both ends of a very long text are read, which is too little for the model.
    let end = text.trim_end();
    let trails_off = end.ends_with("...") || end.ends_with('…');
    Ruling { certain: words.truncated || (ruling.certain && !trails_off), ..ruling }
}

fn by_state(words: &Words, situation: &ClassifierInput<'_>) -> Ruling {
    match situation.state {
        Some(StateName::AwaitingUser) => while_awaiting(words, situation),
        Some(
            state @ (StateName::Running | StateName::Interrupted | StateName::PendingComplete),
        ) => while_open(words, state, situation),
        None | Some(StateName::Complete | StateName::Aborted) => without_task(words),
    }
}

fn classified(intent: Intent, reason: &'static str) -> Ruling {
    Ruling { intent, reason, certain: true }
}

fn likely(intent: Intent, reason: &'static str) -> Ruling {
    Ruling { intent, reason, certain: false }
}

/// The task waits for an answer, so nearly every message is one.
fn while_awaiting(words: &Words, situation: &ClassifierInput<'_>) -> Ruling {
    let offered = offered_by(words, situation.question);
    if let Some(markers) = markers_only(words) {
        if markers.is_only(Mark::HESITATE.or(Mark::FILLER)) && markers.has(Mark::HESITATE) {
            return classified(Intent::Unclear, "the message hesitates and does not answer");
        }
        if markers.contradicts() {
            return classified(Intent::Unclear, "the message contains both yes and no");
        }
        if markers.abandons() && !offered && !markers.agrees {
            return classified(
                Intent::Abandon,
                "the message abandons the task and contains nothing else",
            );
        }
        let answers = markers.has(Mark::YES.or(Mark::NO).or(Mark::APPROVE));
        let reason = "the task was waiting for an answer";
        return Ruling { intent: Intent::Response, reason, certain: answers || offered };
    }
    let repeats = words.list.windows(2).any(|pair| pair[0].text == pair[1].text);
    if offered && !repeats && !words.ends_asking() {
        return classified(Intent::Response, "the question offered these words");
    }
    if explicit_topic(words) {
        return classified(Intent::NewTask, "the message names a new subject");
    }
    let answers_first = answers(&words.list);
    let only_asks = sentences(&words.list)
        .into_iter()
        .all(|does| matches!(does, SentenceKind::Asks | SentenceKind::Nothing));
    if only_asks && !answers_first {
        return likely(Intent::Clarification, "the message asks a question and does not answer");
    }
    likely(Intent::Response, "the task was waiting for an answer")
}

/// The task is open and does not wait for an answer.
fn while_open(words: &Words, state: StateName, situation: &ClassifierInput<'_>) -> Ruling {
    if let Some(result) = markers_only(words).and_then(|markers| for_markers(&markers, state)) {
        return result;
    }
    if explicit_topic(words) {
        return classified(Intent::NewTask, "the message names a new subject");
    }
    if asks(words) {
        return likely(Intent::Clarification, "the message asks a question and changes nothing");
    }
    if now_topic(words, situation.task) {
        return classified(Intent::NewTask, "the message requests something new now");
    }
    if now_about_task(words, situation.task) {
        return classified(Intent::Modification, "the message requests something about the task");
    }
    if any(&words.list, Mark::TIE) {
        return likely(Intent::Modification, "the message extends or changes the current task");
    }
    likely(Intent::Modification, "no other rule matches, so the message is about the current task")
}

/// The message to an open task consists only of markers.
fn for_markers(markers: &Markers, state: StateName) -> Option<Ruling> {
    let pending = state == StateName::PendingComplete;
    if markers.is_only(Mark::FILLER.or(Mark::GREET).or(Mark::HESITATE).or(Mark::DOUBT))
        && !markers.asks
    {
        return Some(likely(Intent::Unclear, "the message contains nothing to act on"));
    }
    if markers.contradicts() {
        return Some(classified(Intent::Unclear, "the message contradicts itself"));
    }
    if markers.asks || markers.negated {
        return None;
    }
    if markers.has(Mark::DOUBT) {
        return Some(classified(Intent::Unclear, "the message expresses doubt"));
    }
    if markers.abandons()
        || (markers.has(Mark::ABANDON_WEAK) && !pending && !markers.has(Mark::APPROVE))
    {
        return Some(classified(
            Intent::Abandon,
            "the message abandons the task and contains nothing else",
        ));
    }
    if markers.has(Mark::CONTINUE) {
        return Some(classified(Intent::Modification, "the message asks to continue"));
    }
    if markers.has(Mark::NO) && !markers.has(Mark::APPROVE) {
        return Some(likely(Intent::Modification, "the message rejects the result"));
    }
    if markers.has(Mark::EXCUSE.or(Mark::ABANDON_WEAK)) {
        return None;
    }
    Some(for_approval(markers, state))
}

fn for_approval(markers: &Markers, state: StateName) -> Ruling {
    if markers.has(Mark::HESITATE) {
        return likely(Intent::Unclear, "the message hesitates to approve");
    }
    if state == StateName::PendingComplete
        && !markers.has(Mark::YES.or(Mark::APPROVE).or(Mark::THANKS))
    {
        return likely(Intent::Unclear, "the message acknowledges and does not approve");
    }
    // After an interruption ctx usually asks whether to continue. A plain yes answers that
    // question.
    if state == StateName::Interrupted && !markers.has(Mark::APPROVE.or(Mark::THANKS)) {
        return likely(Intent::Modification, "the message agrees to continue");
    }
    let reason = "the message approves and requests nothing else";
    let certain = state == StateName::PendingComplete;
    Ruling { intent: Intent::Confirmation, reason, certain }
}

/// There is no task, so a request starts one.
fn without_task(words: &Words) -> Ruling {
    if let Some(markers) = markers_only(words).filter(|markers| !markers.asks) {
        if markers.contradicts() || markers.negated {
            return classified(Intent::Unclear, "the message contradicts itself");
        }
        if markers.abandons() || markers.has(Mark::ABANDON_WEAK) {
            return classified(
                Intent::Abandon,
                "the message abandons the work and contains nothing else",
            );
        }
        let approval = Mark::YES.or(Mark::APPROVE).or(Mark::THANKS).or(Mark::ACKNOWLEDGE);
        if markers.is_only(approval.or(Mark::FILLER).or(Mark::GREET)) && markers.has(approval) {
            return likely(Intent::Confirmation, "the message approves and requests nothing else");
        }
        return classified(Intent::Unclear, "there is no task that the message could refer to");
    }
    if !explicit_topic(words) && asks(words) {
        return likely(Intent::Clarification, "the message asks a question and changes nothing");
    }
    likely(Intent::NewTask, "the message requests work, and there is no task")
}

/// Whether a message only asks a question: its first or last sentence is one, and no sentence is a
/// request.
fn asks(words: &Words) -> bool {
    let kinds: Vec<SentenceKind> =
        sentences(&words.list).into_iter().filter(|does| *does != SentenceKind::Nothing).collect();
    let is_question = |does: Option<&SentenceKind>| {
        matches!(does, Some(SentenceKind::Asks | SentenceKind::AsksPerhaps))
    };
    !kinds.contains(&SentenceKind::Requests)
        && (is_question(kinds.first()) || is_question(kinds.last()))
}

/// Whether a message starts with yes or no as an answer, and not with an introductory "ok".
fn answers(list: &[Word]) -> bool {
    hit(list, 0, Mark::YES.or(Mark::NO)).is_some() && hit(list, 0, Mark::OPENER).is_none()
}

/// Whether the question offered the words of the message: "cancel it" answers "shall I cancel it?".
fn offered_by(words: &Words, question: Option<&str>) -> bool {
    let Some(question) = question else { return false };
    let asked = Words::of(question);
    let known = |word: &Word| asked.list.iter().any(|other| other.text == word.text);
    words
        .list
        .iter()
        .enumerate()
        .all(|(at, word)| known(word) || hit(&words.list, at, Mark::FILLER).is_some())
}

/// A message that consists only of markers.
struct Markers {
    marks: Mark,
    /// The message ends with a question mark.
    asks: bool,
    /// A "no" is next to another marker and negates it: "no cancelar".
    negated: bool,
    /// The message starts with a yes as an answer.
    agrees: bool,
}

impl Markers {
    fn has(&self, mark: Mark) -> bool {
        self.marks.meets(mark)
    }

    fn is_only(&self, mark: Mark) -> bool {
        mark.covers(self.marks)
    }

    fn abandons(&self) -> bool {
        self.has(Mark::ABANDON) && !self.negated && !self.asks
    }

    /// "Yes no", or approval together with a stop.
    fn contradicts(&self) -> bool {
        let yes_no = self.is_only(Mark::YES.or(Mark::NO).or(Mark::FILLER).or(Mark::HESITATE))
            && self.has(Mark::YES)
            && self.has(Mark::NO);
        let approved_stop = self.has(Mark::ABANDON) && self.has(Mark::APPROVE.or(Mark::CONTINUE));
        yes_no || approved_stop
    }
}

/// The markers of a message. `None` if a word of it is not a marker.
fn markers_only(words: &Words) -> Option<Markers> {
    if words.truncated {
        return None;
    }
    let list = &words.list;
    let agrees = answers(list) && hit(list, 0, Mark::YES).is_some();
    let mut markers =
        Markers { marks: Mark::NOTHING, asks: words.ends_asking(), negated: false, agrees };
    let mut at = 0;
    while at < list.len() {
        let found = hit(list, at, NEUTRAL)?;
        at += found.len;
        let joined = at < list.len() && list[at - 1].gap == Gap::None;
        let next_no = hit(list, at, NEUTRAL).is_some_and(|next| next.marks.meets(Mark::NO));
        let denies = found.marks.meets(Mark::NO) && !next_no;
        markers.negated |= denies && (joined || markers.has(Mark::APPROVE.or(Mark::ABANDON)));
        markers.marks = markers.marks.or(found.marks.only(NEUTRAL));
    }
    Some(markers)
}
