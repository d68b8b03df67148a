//! The phrases that mark an intent, in every language that is understood, and how one is found in a message.
//!
//! A phrase is written here as people write it; the index folds it as it folds messages. A phrase may carry several
//! marks. Where a word is common in one language and a marker in another, the list that could end a task goes
//! without it.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::words::{Gap, Word, Words, is_emoji};

mod asian;
mod english;
mod french_spanish;
mod germanic;
mod more;
mod portuguese_italian;
mod slavic;

/// What a phrase says. Each is one bit, so that a phrase can say several things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark(u64);

impl Mark {
    /// Agreement that may also answer a question: "yes", "ok".
    pub(super) const YES: Mark = Mark(1);
    /// Not knowing or not caring: an answer to a question, and nothing to act on otherwise.
    pub(super) const DOUBT: Mark = Mark(1 << 1);
    /// Has taken note, which is not yet approval: "got it".
    pub(super) const ACKNOWLEDGE: Mark = Mark(1 << 36);
    /// Disagreement.
    pub(super) const NO: Mark = Mark(1 << 2);
    /// Praise or acceptance of what was done.
    pub(super) const APPROVE: Mark = Mark(1 << 3);
    /// Thanks.
    pub(super) const THANKS: Mark = Mark(1 << 4);
    /// Gives a task up.
    pub(super) const ABANDON: Mark = Mark(1 << 5);
    /// "Never mind" or "any will do", by the question before it.
    pub(super) const ABANDON_WEAK: Mark = Mark(1 << 6);
    /// Why something is given up: adds nothing to the giving up.
    pub(super) const EXCUSE: Mark = Mark(1 << 7);
    /// "Go on", "do that": more work, of the same task.
    pub(super) const CONTINUE: Mark = Mark(1 << 8);
    /// Thinking aloud, or asking for a moment.
    pub(super) const HESITATE: Mark = Mark(1 << 9);
    /// Words that carry no intent of their own.
    pub(super) const FILLER: Mark = Mark(1 << 10);
    /// A greeting.
    pub(super) const GREET: Mark = Mark(1 << 11);
    /// "Also", "but", "instead": ties a message to the work before it.
    pub(super) const TIE: Mark = Mark(1 << 12);
    /// Names a new subject as a heading: "new task".
    pub(super) const TOPIC: Mark = Mark(1 << 13);
    /// Moves to a new subject in a sentence: "let's move on to".
    pub(super) const MOVE_ON: Mark = Mark(1 << 14);
    /// "Now", directly before a request.
    pub(super) const NOW: Mark = Mark(1 << 15);
    /// "Now", where the verb comes last.
    pub(super) const NOW_FAR: Mark = Mark(1 << 16);
    /// A verb that asks for work.
    pub(super) const REQUEST: Mark = Mark(1 << 17);
    /// A question word that opens a sentence.
    pub(super) const ASK: Mark = Mark(1 << 18);
    /// Asks wherever it stands, question mark or not.
    pub(super) const ASK_FAR: Mark = Mark(1 << 19);
    /// Opens a question if there is a question mark: "is", "does".
    pub(super) const ASK_VERB: Mark = Mark(1 << 20);
    /// "Can you": a request in the form of a question.
    pub(super) const POLITE: Mark = Mark(1 << 21);
    /// "Why don't we": a proposal in the form of a question.
    pub(super) const SUGGEST: Mark = Mark(1 << 22);
    /// Asks to be told or shown, opening a sentence.
    pub(super) const EXPLAIN: Mark = Mark(1 << 23);
    /// Asks to be told or shown, wherever it stands.
    pub(super) const EXPLAIN_FAR: Mark = Mark(1 << 24);
    /// Points at what is there already: "it", "that".
    pub(super) const DEICTIC: Mark = Mark(1 << 25);
    /// "And", "then": may join a request to a question.
    pub(super) const JOIN: Mark = Mark(1 << 26);
    /// Work that belongs to other work: tests, documentation.
    pub(super) const SUPPORT: Mark = Mark(1 << 27);

    /// Asks how far the work is, if nothing follows it: "status".
    pub(super) const STATUS: Mark = Mark(1 << 28);
    /// May stand before the first word that matters: "please", "oh".
    pub(super) const OPENER: Mark = Mark(1 << 29);
    /// Opens a question even without a question mark: "why".
    pub(super) const ASK_SURE: Mark = Mark(1 << 30);
    /// A request wherever it stands, even before a question mark.
    pub(super) const POLITE_FAR: Mark = Mark(1 << 31);
    /// A verb that brings something new about, unlike "run" or "rename".
    pub(super) const MAKE: Mark = Mark(1 << 32);
    /// Where something is written down: "explain it in the readme" asks for work.
    pub(super) const PLACE: Mark = Mark(1 << 33);
    /// The next part of the same work: "the next step".
    pub(super) const STEP: Mark = Mark(1 << 34);
    /// Leads from a heading to the request under it: "new task *is to* …".
    pub(super) const TOPIC_LINK: Mark = Mark(1 << 35);
    /// No mark.
    pub(super) const NOTHING: Mark = Mark(0);

    /// Both.
    pub(super) const fn or(self, other: Mark) -> Mark {
        Mark(self.0 | other.0)
    }

    /// What both have.
    pub(super) const fn only(self, other: Mark) -> Mark {
        Mark(self.0 & other.0)
    }

    /// Whether it has all of `other`.
    pub(super) const fn covers(self, other: Mark) -> bool {
        other.0 & !self.0 == 0
    }

    /// Whether they share a bit.
    pub(super) const fn meets(self, other: Mark) -> bool {
        self.0 & other.0 != 0
    }
}

/// A mark and its phrases, with commas between them.
type List = (Mark, &'static str);

/// A phrase found in a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hit {
    /// How many words it has.
    pub(super) len: usize,
    /// What it says.
    pub(super) marks: Mark,
}

struct Phrase {
    words: Vec<String>,
    marks: Mark,
}

/// Phrases by first word, the longest first. Built once: it depends on nothing but the lists.
static INDEX: LazyLock<HashMap<String, Vec<Phrase>>> = LazyLock::new(build);

/// The longest phrase at `at` that says one of `wanted`. A phrase does not reach over a break.
pub(super) fn hit(words: &[Word], at: usize, wanted: Mark) -> Option<Hit> {
    let first = words.get(at)?;
    let phrases = INDEX.get(&first.text).map_or(&[][..], Vec::as_slice);
    let known =
        phrases.iter().find(|phrase| phrase.marks.meets(wanted) && stands_at(words, at, phrase));
    match known {
        Some(phrase) => Some(Hit { len: phrase.words.len(), marks: phrase.marks }),
        None if wanted.meets(Mark::FILLER) && is_picture(first) => {
            Some(Hit { len: 1, marks: Mark::FILLER })
        }
        None => None,
    }
}

/// Whether a word opens any phrase.
pub(super) fn knows(word: &str) -> bool {
    INDEX.contains_key(word)
}

/// Whether a word is a marker by itself, and so no subject of a task.
pub(super) fn is_marker(word: &str) -> bool {
    INDEX.get(word).is_some_and(|phrases| phrases.iter().any(|phrase| phrase.words.len() == 1))
}

fn stands_at(words: &[Word], at: usize, phrase: &Phrase) -> bool {
    let end = at + phrase.words.len();
    let Some(here) = words.get(at..end) else { return false };
    here.iter().zip(&phrase.words).all(|(word, wanted)| word.text == *wanted)
        && here[..here.len() - 1].iter().all(|word| word.gap == Gap::None)
}

fn is_picture(word: &Word) -> bool {
    word.text.chars().all(is_emoji)
}

fn build() -> HashMap<String, Vec<Phrase>> {
    let mut marks: HashMap<Vec<String>, Mark> = HashMap::new();
    let files = [
        english::LISTS,
        english::SHAPES,
        germanic::LISTS,
        french_spanish::LISTS,
        portuguese_italian::LISTS,
        slavic::LISTS,
        asian::LISTS,
        asian::KOREAN,
        more::LISTS,
    ];
    for (mark, phrases) in files.into_iter().flatten() {
        for phrase in phrases.split(',').flat_map(spellings) {
            let words: Vec<String> =
                Words::of(&phrase).list.into_iter().map(|word| word.text).collect();
            let known = marks.entry(words).or_insert(*mark);
            *known = known.or(*mark);
        }
    }
    let mut index: HashMap<String, Vec<Phrase>> = HashMap::new();
    for (words, marks) in marks {
        if let Some(first) = words.first().cloned() {
            index.entry(first).or_default().push(Phrase { words, marks });
        }
    }
    for phrases in index.values_mut() {
        phrases.sort_by_key(|phrase| std::cmp::Reverse(phrase.words.len()));
    }
    index
}

/// A phrase as written, and as keyboards without umlauts write it.
fn spellings(phrase: &str) -> Vec<String> {
    let spelt_out = phrase.replace('ä', "ae").replace('ö', "oe").replace('ü', "ue");
    if spelt_out == phrase { vec![spelt_out] } else { vec![phrase.to_owned(), spelt_out] }
}
