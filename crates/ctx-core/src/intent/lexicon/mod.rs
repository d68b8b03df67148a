//! The phrases that mark an intent in all supported languages, and the lookup of phrases in a
//! message.
//!
//! Phrases are written in normal spelling. The index folds them in the same way as messages. A
//! phrase may have several marks. A word that is common in one language and a marker in another is
//! not in a list that could end a task.

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

/// The meaning of a phrase. Each meaning is one bit, so that a phrase can have several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark(u64);

impl Mark {
    /// Agreement that may also answer a question: "yes", "ok".
    pub(super) const YES: Mark = Mark(1);
    /// Not knowing or not caring: an answer to a question, otherwise nothing to act on.
    pub(super) const DOUBT: Mark = Mark(1 << 1);
    /// Acknowledgement, which is not approval: "got it".
    pub(super) const ACKNOWLEDGE: Mark = Mark(1 << 36);
    /// Disagreement or rejection: "no".
    pub(super) const NO: Mark = Mark(1 << 2);
    /// Praise or acceptance of the result.
    pub(super) const APPROVE: Mark = Mark(1 << 3);
    #[allow(missing_docs, reason = "the name is self-explanatory")]
    pub(super) const THANKS: Mark = Mark(1 << 4);
    /// Abandons a task: "cancel".
    pub(super) const ABANDON: Mark = Mark(1 << 5);
    /// "Never mind" or "any will do", depending on the question before it.
    pub(super) const ABANDON_WEAK: Mark = Mark(1 << 6);
    /// A reason for abandoning a task. It does not request anything itself.
    pub(super) const EXCUSE: Mark = Mark(1 << 7);
    /// A request to continue the same task: "do that".
    pub(super) const CONTINUE: Mark = Mark(1 << 8);
    /// Thinking aloud, or asking for a moment.
    pub(super) const HESITATE: Mark = Mark(1 << 9);
    /// Words without an intent of their own.
    pub(super) const FILLER: Mark = Mark(1 << 10);
    /// A greeting: "hello".
    pub(super) const GREET: Mark = Mark(1 << 11);
    /// Relates a message to the earlier work: "also", "but", "instead".
    pub(super) const TIE: Mark = Mark(1 << 12);
    /// Names a new subject as a heading: "new task".
    pub(super) const TOPIC: Mark = Mark(1 << 13);
    /// Changes to a new subject within a sentence: "let's move on to".
    pub(super) const MOVE_ON: Mark = Mark(1 << 14);
    /// "Now", directly before a request.
    pub(super) const NOW: Mark = Mark(1 << 15);
    /// "Now" in languages where the verb is last.
    pub(super) const NOW_FAR: Mark = Mark(1 << 16);
    /// A verb that requests work.
    pub(super) const REQUEST: Mark = Mark(1 << 17);
    /// A question word that opens a sentence.
    pub(super) const ASK: Mark = Mark(1 << 18);
    /// Marks a question at any position, with or without a question mark.
    pub(super) const ASK_FAR: Mark = Mark(1 << 19);
    /// Starts a question if there is a question mark: "is", "does".
    pub(super) const ASK_VERB: Mark = Mark(1 << 20);
    /// "Can you": a request in the form of a question.
    pub(super) const POLITE: Mark = Mark(1 << 21);
    /// "Why don't we": a proposal in the form of a question.
    pub(super) const SUGGEST: Mark = Mark(1 << 22);
    /// Requests an explanation, at the start of a sentence.
    pub(super) const EXPLAIN: Mark = Mark(1 << 23);
    /// Requests an explanation, at any position.
    pub(super) const EXPLAIN_FAR: Mark = Mark(1 << 24);
    /// Refers to something that exists already: "it", "that".
    pub(super) const DEICTIC: Mark = Mark(1 << 25);
    /// May connect a request to a question: "and", "then".
    pub(super) const JOIN: Mark = Mark(1 << 26);
    /// Work that accompanies other work: tests, documentation.
    pub(super) const SUPPORT: Mark = Mark(1 << 27);

    /// Asks for the progress, if nothing follows: "status".
    pub(super) const STATUS: Mark = Mark(1 << 28);
    /// May precede the first significant word: "please", "oh".
    pub(super) const OPENER: Mark = Mark(1 << 29);
    /// Starts a question also without a question mark: "why".
    pub(super) const ASK_SURE: Mark = Mark(1 << 30);
    /// A request at any position, also before a question mark.
    pub(super) const POLITE_FAR: Mark = Mark(1 << 31);
    /// A verb that creates something new, unlike "run" or "rename".
    pub(super) const MAKE: Mark = Mark(1 << 32);
    /// A place for documentation: "explain it in the readme" requests work.
    pub(super) const PLACE: Mark = Mark(1 << 33);
    /// The next part of the same work: "the next step".
    pub(super) const STEP: Mark = Mark(1 << 34);
    /// Connects a heading to its request: "new task *is to* …".
    pub(super) const TOPIC_LINK: Mark = Mark(1 << 35);
    /// The empty set of marks.
    pub(super) const NOTHING: Mark = Mark(0);

    /// The union of both sets.
    pub(super) const fn or(self, other: Mark) -> Mark {
        Mark(self.0 | other.0)
    }

    /// The intersection of both sets.
    pub(super) const fn only(self, other: Mark) -> Mark {
        Mark(self.0 & other.0)
    }

    /// Whether the set contains all of `other`.
    pub(super) const fn covers(self, other: Mark) -> bool {
        other.0 & !self.0 == 0
    }

    /// Whether both sets have a common mark.
    pub(super) const fn meets(self, other: Mark) -> bool {
        self.0 & other.0 != 0
    }
}

/// A mark and its phrases, separated by commas.
type List = (Mark, &'static str);

/// A phrase found in a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hit {
    /// Number of words of the phrase.
    pub(super) len: usize,
    /// The marks of the phrase.
    pub(super) marks: Mark,
}

struct Phrase {
    words: Vec<String>,
    marks: Mark,
}

/// Phrases by first word, the longest first. Built once from the lists.
static INDEX: LazyLock<HashMap<String, Vec<Phrase>>> = LazyLock::new(build);

/// The longest phrase at index `at` with one of the marks `wanted`. A phrase does not span a break.
pub(super) fn hit(words: &[Word], at: usize, wanted: Mark) -> Option<Hit> {
    let first = words.get(at)?;
    let phrases = INDEX.get(&first.text).map_or(&[][..], Vec::as_slice);
    let known =
        phrases.iter().find(|phrase| phrase.marks.meets(wanted) && is_at(words, at, phrase));
    match known {
        Some(phrase) => Some(Hit { len: phrase.words.len(), marks: phrase.marks }),
        None if wanted.meets(Mark::FILLER) && is_emoji_word(first) => {
            Some(Hit { len: 1, marks: Mark::FILLER })
        }
        None => None,
    }
}

/// Whether a phrase starts with this word.
pub(super) fn starts_phrase(word: &str) -> bool {
    INDEX.contains_key(word)
}

/// Whether a single word is a marker, and so not the subject of a task.
pub(super) fn is_marker(word: &str) -> bool {
    INDEX.get(word).is_some_and(|phrases| phrases.iter().any(|phrase| phrase.words.len() == 1))
}

fn is_at(words: &[Word], at: usize, phrase: &Phrase) -> bool {
    let end = at + phrase.words.len();
    let Some(here) = words.get(at..end) else { return false };
    here.iter().zip(&phrase.words).all(|(word, wanted)| word.text == *wanted)
        && here[..here.len() - 1].iter().all(|word| word.gap == Gap::None)
}

fn is_emoji_word(word: &Word) -> bool {
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

/// The phrase, and its spelling without umlauts.
fn spellings(phrase: &str) -> Vec<String> {
    let spelt_out = phrase.replace('ä', "ae").replace('ö', "oe").replace('ü', "ue");
    if spelt_out == phrase { vec![spelt_out] } else { vec![phrase.to_owned(), spelt_out] }
}
