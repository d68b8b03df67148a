//! The ordered rules that turn a message into a verdict: the state first, then explicit markers, then meaning.
//!
//! `Abandon` and `Confirmation` come only from [`whole_meaning`], which has accounted for every word.

use crate::task::StateName;

use super::lexicon::{Mark, hit};
use super::sentences::{ACCOUNTED, Does, any, sentences};
use super::topic::{explicit_topic, now_topic};
use super::words::{Gap, Word, Words};
use super::{Intent, Situation, Verdict, typos};

/// Applies the rules in order.
pub(super) fn judge(text: &str, situation: &Situation<'_>) -> Verdict {
    let mut words = Words::of(text);
    if words.list.is_empty() {
        return verdict(Intent::Unclear, "the message says nothing");
    }
    typos::mend(&mut words, situation.task);
    match situation.state {
        Some(StateName::AwaitingUser) => while_awaiting(&words, situation),
        Some(
            state @ (StateName::Running | StateName::Interrupted | StateName::PendingComplete),
        ) => while_open(&words, state, situation),
        None | Some(StateName::Complete | StateName::Aborted) => without_task(&words),
    }
}

fn verdict(intent: Intent, reason: &'static str) -> Verdict {
    Verdict { intent, reason }
}

/// The task waits for an answer, so nearly anything is one.
fn while_awaiting(words: &Words, situation: &Situation<'_>) -> Verdict {
    let offered = offered_by(words, situation.question);
    if let Some(whole) = whole_meaning(words) {
        if whole.is_only(Mark::HESITATE.or(Mark::FILLER)) && whole.says(Mark::HESITATE) {
            return verdict(Intent::Unclear, "it hesitates and does not answer");
        }
        if whole.contradicts() {
            return verdict(Intent::Unclear, "it says yes and no");
        }
        if whole.abandons() && !offered && !whole.agrees {
            return verdict(Intent::Abandon, "it gives the task up and says nothing else");
        }
        return verdict(Intent::Response, "the task was waiting for an answer");
    }
    if explicit_topic(words) && !offered {
        return verdict(Intent::NewTask, "it names a new subject");
    }
    let answers_first = answers(&words.list);
    let only_asks =
        sentences(&words.list).into_iter().all(|does| matches!(does, Does::Asks | Does::Nothing));
    if only_asks && !answers_first {
        return verdict(Intent::Clarification, "it asks back and answers nothing");
    }
    verdict(Intent::Response, "the task was waiting for an answer")
}

/// There is a task, and it waits for nobody, or for approval.
fn while_open(words: &Words, state: StateName, situation: &Situation<'_>) -> Verdict {
    if let Some(verdict) = whole_meaning(words).and_then(|whole| of_whole(&whole, state)) {
        return verdict;
    }
    if explicit_topic(words) {
        return verdict(Intent::NewTask, "it names a new subject");
    }
    if asks(words) {
        return verdict(Intent::Clarification, "it asks and changes nothing");
    }
    if now_topic(words, situation.task) {
        return verdict(Intent::NewTask, "it asks for something new now");
    }
    if any(&words.list, Mark::TIE) {
        return verdict(Intent::Modification, "it adds to the current task or changes it");
    }
    verdict(Intent::Modification, "nothing says otherwise, so it is about the current task")
}

/// Markers are all that an open task was told.
fn of_whole(whole: &Whole, state: StateName) -> Option<Verdict> {
    let pending = state == StateName::PendingComplete;
    if whole.is_only(Mark::FILLER.or(Mark::GREET).or(Mark::HESITATE).or(Mark::DOUBT)) && !whole.asks
    {
        return Some(verdict(Intent::Unclear, "it says nothing that can be acted on"));
    }
    if whole.contradicts() {
        return Some(verdict(Intent::Unclear, "it says two opposite things"));
    }
    if whole.asks || whole.negated {
        return None;
    }
    if whole.says(Mark::DOUBT) {
        return Some(verdict(Intent::Unclear, "it is not sure itself"));
    }
    if whole.abandons()
        || (whole.says(Mark::ABANDON_WEAK) && !pending && !whole.says(Mark::APPROVE))
    {
        return Some(verdict(Intent::Abandon, "it gives the task up and says nothing else"));
    }
    if whole.says(Mark::CONTINUE) {
        return Some(verdict(Intent::Modification, "it asks to go on"));
    }
    if whole.says(Mark::NO) && !whole.says(Mark::APPROVE) {
        return Some(verdict(Intent::Modification, "it does not accept what was done"));
    }
    if whole.says(Mark::EXCUSE.or(Mark::ABANDON_WEAK)) {
        return None;
    }
    Some(of_approval(whole, state))
}

fn of_approval(whole: &Whole, state: StateName) -> Verdict {
    if whole.says(Mark::HESITATE) {
        return verdict(Intent::Unclear, "it hesitates to approve");
    }
    if state == StateName::PendingComplete
        && !whole.says(Mark::YES.or(Mark::APPROVE).or(Mark::THANKS))
    {
        return verdict(Intent::Unclear, "it takes note and does not approve");
    }
    // An interrupted task is most often asked about going on, and a bare yes to that must not be lost.
    if state == StateName::Interrupted && !whole.says(Mark::APPROVE.or(Mark::THANKS)) {
        return verdict(Intent::Modification, "it agrees to go on");
    }
    verdict(Intent::Confirmation, "it approves and asks for nothing else")
}

/// There is no task, so a request starts one.
fn without_task(words: &Words) -> Verdict {
    if let Some(whole) = whole_meaning(words).filter(|whole| !whole.asks) {
        if whole.contradicts() || whole.negated {
            return verdict(Intent::Unclear, "it says two opposite things");
        }
        if whole.abandons() || whole.says(Mark::ABANDON_WEAK) {
            return verdict(Intent::Abandon, "it gives up and says nothing else");
        }
        let approval = Mark::YES.or(Mark::APPROVE).or(Mark::THANKS).or(Mark::ACKNOWLEDGE);
        if whole.is_only(approval.or(Mark::FILLER).or(Mark::GREET)) && whole.says(approval) {
            return verdict(Intent::Confirmation, "it approves and asks for nothing else");
        }
        return verdict(Intent::Unclear, "there is no task that it could be about");
    }
    if !explicit_topic(words) && asks(words) {
        return verdict(Intent::Clarification, "it asks and changes nothing");
    }
    verdict(Intent::NewTask, "it asks for work, and there is no task")
}

/// Whether a message asks without asking for work. A question opens or closes it; a request anywhere outweighs it.
fn asks(words: &Words) -> bool {
    let said: Vec<Does> =
        sentences(&words.list).into_iter().filter(|does| *does != Does::Nothing).collect();
    let is_question = |does: Option<&Does>| matches!(does, Some(Does::Asks | Does::AsksPerhaps));
    !said.contains(&Does::Requests) && (is_question(said.first()) || is_question(said.last()))
}

/// Whether it begins with a yes or a no that answers, and not with an "ok" that only introduces.
fn answers(list: &[Word]) -> bool {
    hit(list, 0, Mark::YES.or(Mark::NO)).is_some() && hit(list, 0, Mark::OPENER).is_none()
}

/// Whether the question offered what the message says: to "shall I cancel it?", "cancel it" is an answer.
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

/// A message that is nothing but markers.
struct Whole {
    marks: Mark,
    /// It ends with a question mark.
    asks: bool,
    /// A "no" stands directly before another marker or behind it: "no cancelar" is no cancelling.
    negated: bool,
    /// It begins with a yes that answers.
    agrees: bool,
}

impl Whole {
    fn says(&self, mark: Mark) -> bool {
        self.marks.meets(mark)
    }

    fn is_only(&self, mark: Mark) -> bool {
        mark.covers(self.marks)
    }

    fn abandons(&self) -> bool {
        self.says(Mark::ABANDON) && !self.negated && !self.asks
    }

    /// "Yes no", or praise together with a stop.
    fn contradicts(&self) -> bool {
        let yes_no = self.is_only(Mark::YES.or(Mark::NO).or(Mark::FILLER).or(Mark::HESITATE))
            && self.says(Mark::YES)
            && self.says(Mark::NO);
        let praised_stop = self.says(Mark::ABANDON) && self.says(Mark::APPROVE.or(Mark::CONTINUE));
        yes_no || praised_stop
    }
}

/// What a message says, if markers account for every word of it.
fn whole_meaning(words: &Words) -> Option<Whole> {
    if words.cut {
        return None;
    }
    let list = &words.list;
    let agrees = answers(list) && hit(list, 0, Mark::YES).is_some();
    let mut whole =
        Whole { marks: Mark::NOTHING, asks: words.ends_asking(), negated: false, agrees };
    let mut at = 0;
    while at < list.len() {
        let found = hit(list, at, ACCOUNTED)?;
        at += found.len;
        let joined = at < list.len() && list[at - 1].gap == Gap::None;
        let next_no = hit(list, at, ACCOUNTED).is_some_and(|next| next.marks.meets(Mark::NO));
        let denies = found.marks.meets(Mark::NO) && !next_no;
        whole.negated |= denies && (joined || whole.says(Mark::APPROVE.or(Mark::ABANDON)));
        whole.marks = whole.marks.or(found.marks.only(ACCOUNTED));
    }
    Some(whole)
}
