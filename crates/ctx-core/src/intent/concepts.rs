//! Concepts: meanings that phrases of all supported languages share.
//!
//! The lists are data: one file for each language, one line for each concept, phrases separated by
//! commas. A star ends a word whose ending is free: `cancel*`. The linear model sees the concept
//! instead of the phrase, so what it learns from one language and one author holds for others. A
//! concept alone decides nothing, so the lists need not be as strict as the lexicon of the rules.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::words::{Gap, Word, Words};

/// The names of the concepts. The position is the number of a concept.
pub(super) const NAMES: [&str; 45] = [
    "discard",
    "stop",
    "cancel",
    "forget",
    "whole",
    "dead",
    "not_needed",
    "by_others",
    "reconsider",
    "tired",
    "give_up",
    "praise",
    "gratitude",
    "accept",
    "satisfied",
    "defect",
    "excess",
    "negation",
    "addition",
    "change",
    "keep",
    "go_on",
    "but",
    "instead",
    "part",
    "next",
    "park",
    "urgent",
    "work",
    "polite",
    "question",
    "tell",
    "progress",
    "hesitation",
    "choice",
    "pronoun",
    "determiner",
    "possessive",
    "time",
    "forever",
    "sorry",
    "task",
    "undo",
    "start_over",
    "indefinite",
];

/// Concepts that occur in messages of every intent. Their pairs are not features.
const WEAK: [&str; 5] = ["pronoun", "determiner", "possessive", "time", "negation"];

/// The lists, one for each language.
const FILES: [&str; 13] = [
    include_str!("../../data/intent/concepts/en.txt"),
    include_str!("../../data/intent/concepts/de.txt"),
    include_str!("../../data/intent/concepts/nl.txt"),
    include_str!("../../data/intent/concepts/fr.txt"),
    include_str!("../../data/intent/concepts/es.txt"),
    include_str!("../../data/intent/concepts/pt.txt"),
    include_str!("../../data/intent/concepts/it.txt"),
    include_str!("../../data/intent/concepts/ru.txt"),
    include_str!("../../data/intent/concepts/pl.txt"),
    include_str!("../../data/intent/concepts/zh.txt"),
    include_str!("../../data/intent/concepts/ja.txt"),
    include_str!("../../data/intent/concepts/ko.txt"),
    include_str!("../../data/intent/concepts/tr.txt"),
];

/// A set of concepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Concepts(u64);

impl Concepts {
    pub(super) const EMPTY: Concepts = Concepts(0);

    pub(super) const fn or(self, other: Concepts) -> Concepts {
        Concepts(self.0 | other.0)
    }

    pub(super) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) const fn contains(self, concept: u64) -> bool {
        self.0 >> concept & 1 == 1
    }

    pub(super) fn iter(self) -> impl Iterator<Item = u64> {
        (0..u64::from(u64::BITS)).filter(move |concept| self.contains(*concept))
    }

    /// The set without the weak concepts.
    pub(super) fn strong(self) -> Concepts {
        Concepts(self.0 & !*WEAK_SET)
    }
}

/// A phrase of a message with its concepts, or a single word without any.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unit {
    /// Index of the first word.
    pub(super) start: usize,
    /// Number of words.
    pub(super) len: usize,
    pub(super) concepts: Concepts,
}

struct Phrase {
    words: Vec<Pattern>,
    concepts: Concepts,
    languages: u32,
}

struct Pattern {
    text: String,
    /// The ending of the word is free.
    open: bool,
}

impl Pattern {
    fn matches(&self, word: &str) -> bool {
        if self.open { word.starts_with(&self.text) } else { word == self.text }
    }
}

#[derive(Default)]
struct Index {
    /// Phrases by first word, the longest first.
    exact: HashMap<String, Vec<Phrase>>,
    /// Phrases whose first word has a free ending, by the first two letters, the longest first.
    open: HashMap<(char, char), Vec<Phrase>>,
}

static WEAK_SET: LazyLock<u64> = LazyLock::new(|| {
    let weak = |name: &&str| NAMES.iter().position(|other| other == name);
    WEAK.iter().filter_map(weak).fold(0, |set, at| set | 1 << at)
});

static INDEX: LazyLock<Index> = LazyLock::new(build);

/// Divides a message into phrases that have concepts and words that have none. The longest phrase
/// at a position is used.
pub(super) fn units(list: &[Word]) -> Vec<Unit> {
    let languages = languages(list);
    let mut units = Vec::with_capacity(list.len());
    let mut at = 0;
    while at < list.len() {
        let (len, concepts) = longest(list, at, languages).unwrap_or((1, Concepts::EMPTY));
        units.push(Unit { start: at, len, concepts });
        at += len;
    }
    units
}

/// The languages whose lists cover most of the message, as a set.
fn languages(list: &[Word]) -> u32 {
    let mut best = 0;
    let mut set = 0;
    for language in 0..FILES.len() {
        let bit = 1 << language;
        let mut covered = 0;
        let mut at = 0;
        while at < list.len() {
            let len = longest(list, at, bit).map_or(0, |found| found.0);
            covered += len;
            at += len.max(1);
        }
        match covered.cmp(&best) {
            std::cmp::Ordering::Greater => (best, set) = (covered, bit),
            std::cmp::Ordering::Equal => set |= bit,
            std::cmp::Ordering::Less => {}
        }
    }
    set
}

fn longest(list: &[Word], at: usize, languages: u32) -> Option<(usize, Concepts)> {
    let first = &list[at].text;
    let exact = INDEX.exact.get(first.as_str()).map_or(&[][..], Vec::as_slice);
    let open = two_letters(first).and_then(|key| INDEX.open.get(&key));
    let open = open.map_or(&[][..], Vec::as_slice);
    let here = |phrases: &[Phrase]| {
        let mut found: Option<(usize, Concepts)> = None;
        for phrase in phrases {
            if phrase.languages & languages == 0
                || found.is_some_and(|found| found.0 > phrase.words.len())
            {
                continue;
            }
            if is_at(list, at, phrase) {
                let before = found.map_or(Concepts::EMPTY, |found| found.1);
                found = Some((phrase.words.len(), before.or(phrase.concepts)));
            }
        }
        found
    };
    match (here(exact), here(open)) {
        (Some(exact), Some(open)) if open.0 > exact.0 => Some(open),
        (Some(exact), _) => Some(exact),
        (None, open) => open,
    }
}

fn two_letters(word: &str) -> Option<(char, char)> {
    let mut letters = word.chars();
    Some((letters.next()?, letters.next()?))
}

fn is_at(list: &[Word], at: usize, phrase: &Phrase) -> bool {
    let Some(here) = list.get(at..at + phrase.words.len()) else { return false };
    here.iter().zip(&phrase.words).all(|(word, wanted)| wanted.matches(&word.text))
        && here[..here.len() - 1].iter().all(|word| word.gap == Gap::None)
}

fn build() -> Index {
    let mut known: HashMap<String, (Concepts, u32)> = HashMap::new();
    for (language, file) in FILES.into_iter().enumerate() {
        for (concept, phrases) in lines(file) {
            for phrase in phrases.split(',').map(str::trim).filter(|phrase| !phrase.is_empty()) {
                let entry = known.entry(phrase.to_owned()).or_insert((Concepts::EMPTY, 0));
                entry.0 = entry.0.or(Concepts(1 << concept));
                entry.1 |= 1 << language;
            }
        }
    }
    let mut phrases: Vec<Phrase> = known
        .iter()
        .map(|(text, &(concepts, languages))| Phrase { words: patterns(text), concepts, languages })
        .filter(|phrase| !phrase.words.is_empty())
        .collect();
    phrases.sort_by_key(|phrase| std::cmp::Reverse(phrase.words.len()));
    let mut index = Index::default();
    for phrase in phrases {
        let first = &phrase.words[0];
        match two_letters(&first.text) {
            Some(key) if first.open => index.open.entry(key).or_default().push(phrase),
            _ => index.exact.entry(first.text.clone()).or_default().push(phrase),
        }
    }
    index
}

/// The number and the phrases of each concept in a file.
fn lines(file: &str) -> impl Iterator<Item = (usize, &str)> {
    file.lines().filter_map(|line| {
        let (name, phrases) = line.split_once(':')?;
        Some((NAMES.iter().position(|other| *other == name)?, phrases))
    })
}

/// The folded words of a phrase.
fn patterns(phrase: &str) -> Vec<Pattern> {
    phrase
        .split(' ')
        .flat_map(|word| {
            let open = word.ends_with('*');
            let mut list: Vec<Pattern> = Words::of(word)
                .list
                .into_iter()
                .map(|word| Pattern { text: word.text, open: false })
                .collect();
            if let Some(last) = list.last_mut() {
                last.open = open;
            }
            list
        })
        .collect()
}
