//! The features of a message: what the linear model sees.
//!
//! The trainer and the classifier use the same function, so a weight always means the same
//! feature. The function is pure and its cost has a limit: of a long text only both ends are read.
//! A change of any feature is a new [`VERSION`], and the weights must be trained again.

use crate::task::StateName;

use super::concepts::{self, Concepts};
use super::rules;
use super::rules::Ruling;
use super::topic::overlap;
use super::words::{Gap, Word, Words, is_emoji, stands_alone};
use super::{ClassifierInput, typos};

/// Version of the features. The weights file names the version it was trained for.
pub const VERSION: u32 = 1;
/// Number of buckets is two to this power.
const BUCKET_BITS: u32 = 17;
/// Number of rows in the weight table. Features are hashed into it.
pub const BUCKETS: usize = 1 << BUCKET_BITS;

/// Words that are read from each end of a message.
const END_WORDS_MAX: usize = 40;
/// Letters of a word that are read for n-grams.
const WORD_LETTERS_MAX: usize = 20;
/// Longest n-gram of letters.
const NGRAM_LETTERS_MAX: usize = 6;

/// The position of a feature in the message, for the reason of a classification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The feature has no readable form.
    Hidden,
    /// Words of the message: the index of the first one and their number.
    Words(usize, usize),
    /// The result of the rules.
    Rules,
}

/// A feature of a message.
#[derive(Debug, Clone, Copy)]
pub struct Feature {
    /// Row of the weight table.
    pub bucket: u32,
    /// Strength of the feature.
    pub value: f32,
    /// Origin in the message.
    pub origin: Origin,
    /// The feature is a text of the message itself. Training leaves out some of these, so that
    /// the weights do not depend on the words of one author.
    pub is_lexical: bool,
}

/// The features of a message, its words and the result of the rules.
#[derive(Debug)]
pub struct Features {
    /// All features.
    pub list: Vec<Feature>,
    /// The words to which [`Origin::Words`] refers.
    pub(super) words: Words,
    /// The result of the rules alone.
    pub(super) rules: Ruling,
}

impl Features {
    /// The intent that a rule without a known exception gives.
    pub fn certain(&self) -> Option<super::Intent> {
        self.rules.certain.then_some(self.rules.intent)
    }
}

/// The situation of a message, as far as features are combined with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Situation {
    None,
    Working,
    Interrupted,
    Awaiting,
    Pending,
}

impl Situation {
    pub(super) const fn of(state: Option<StateName>) -> Self {
        match state {
            None | Some(StateName::Complete | StateName::Aborted) => Self::None,
            Some(StateName::Running) => Self::Working,
            Some(StateName::Interrupted) => Self::Interrupted,
            Some(StateName::AwaitingUser) => Self::Awaiting,
            Some(StateName::PendingComplete) => Self::Pending,
        }
    }

    /// The coarse situation: an interrupted task is a running one.
    const fn coarse(self) -> u64 {
        match self {
            Self::None => 1,
            Self::Working | Self::Interrupted => 2,
            Self::Awaiting => 3,
            Self::Pending => 4,
        }
    }
}

/// Computes the features of a message.
pub fn features(text: &str, input: &ClassifierInput<'_>) -> Features {
    let mut words = Words::of(text);
    let rules = rules::apply(text, input);
    typos::correct(&mut words, input.task);
    shorten(&mut words);
    let situation = Situation::of(input.state);
    let mut builder =
        Builder { list: Vec::with_capacity(512), state: situation.coarse(), is_lexical: false };
    builder.general(text, &words, situation, &rules);
    builder.overlap(&words, input);
    builder.is_lexical = true;
    builder.letters(&words.list);
    builder.words(&words.list);
    builder.is_lexical = false;
    builder.concepts(&words.list);
    Features { list: builder.list, words, rules }
}

/// Removes the middle of a long message.
fn shorten(words: &mut Words) {
    let len = words.list.len();
    if len > 2 * END_WORDS_MAX {
        words.list.drain(END_WORDS_MAX..len - END_WORDS_MAX);
        words.truncated = true;
    }
}

/// The groups of features, so that equal texts of different groups have different hashes.
#[derive(Clone, Copy)]
enum Group {
    Bias = 1,
    Rules,
    Length,
    Punctuation,
    Overlap,
    Letters,
    Word,
    WordPair,
    First,
    Last,
    Concept,
    ConceptPair,
    ConceptOrder,
    ConceptFirst,
    ConceptLast,
    Coverage,
    Shape,
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

const fn step(hash: u64, byte: u64) -> u64 {
    (hash ^ byte).wrapping_mul(FNV_PRIME)
}

fn text_hash(mut hash: u64, text: &str) -> u64 {
    for byte in text.bytes() {
        hash = step(hash, u64::from(byte));
    }
    hash
}

const fn bucket(hash: u64) -> u32 {
    let mixed = (hash ^ (hash >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (64 - BUCKET_BITS)) as u32
}

struct Builder {
    list: Vec<Feature>,
    state: u64,
    is_lexical: bool,
}

impl Builder {
    fn push(&mut self, hash: u64, value: f32, origin: Origin) {
        self.list.push(Feature {
            bucket: bucket(hash),
            value,
            origin,
            is_lexical: self.is_lexical,
        });
    }

    /// Adds a feature alone and combined with the state of the task.
    fn both(&mut self, group: Group, key: u64, value: f32, origin: Origin) {
        let hash = step(step(FNV_OFFSET, group as u64), key);
        self.push(hash, value, origin);
        self.push(step(step(hash, 0xff), self.state), value, origin);
    }

    /// Adds a feature only combined with the state of the task.
    fn here(&mut self, group: Group, key: u64, value: f32) {
        let hash = step(step(FNV_OFFSET, group as u64), key);
        self.push(step(step(hash, 0xff), self.state), value, Origin::Hidden);
    }

    fn general(&mut self, text: &str, words: &Words, situation: Situation, rules: &Ruling) {
        self.here(Group::Bias, 0, 1.0);
        let hash = step(step(FNV_OFFSET, Group::Bias as u64), 1 + situation as u64);
        self.push(hash, 1.0, Origin::Hidden);
        let hash = step(step(FNV_OFFSET, Group::Rules as u64), rules.intent as u64);
        self.push(step(hash, self.state), 0.5, Origin::Rules);
        let reason = text_hash(step(FNV_OFFSET, Group::Rules as u64), rules.reason);
        self.push(step(reason, self.state), 0.5, Origin::Rules);
        let count = words.list.len();
        let length = match count {
            0..=4 => count as u64,
            5..=6 => 5,
            7..=9 => 6,
            10..=14 => 7,
            15..=24 => 8,
            _ => 9,
        };
        self.both(Group::Length, length, 0.5, Origin::Hidden);
        self.punctuation(text, words);
    }

    fn punctuation(&mut self, text: &str, words: &Words) {
        let ends = |gap: Gap| words.list.iter().filter(|word| word.gap == gap).count().min(3);
        let sentences = ends(Gap::Sentence) + ends(Gap::Question);
        let emoji = words.list.iter().any(|word| word.text.chars().all(is_emoji));
        let both_ends = [super::words::head(text), super::words::tail(text)];
        let has = |mark: &[char]| both_ends.iter().any(|end| end.contains(mark));
        let code = has(&['{', '}', '(', ')', '=', '<', '>', '/', '_', '#', '$', '\\', '|']);
        let letters = both_ends.iter().any(|end| end.chars().any(char::is_alphabetic));
        for (at, present) in [
            words.ends_asking(),
            ends(Gap::Question) > 0,
            emoji,
            has(&['!']),
            has(&['…']) || text.contains(".."),
            code,
            !letters,
            has(&[':']),
            words.truncated,
            text.trim_end().ends_with(','),
        ]
        .into_iter()
        .enumerate()
        {
            if present {
                self.both(Group::Punctuation, at as u64, 0.5, Origin::Hidden);
            }
        }
        self.both(Group::Shape, sentences.min(4) as u64, 0.4, Origin::Hidden);
    }

    /// Words in common with the task and with the question.
    fn overlap(&mut self, words: &Words, input: &ClassifierInput<'_>) {
        if let Some(task) = input.task {
            let shared = overlap(&words.list, task).min(2) as u64;
            self.both(Group::Overlap, shared, 0.5, Origin::Hidden);
        }
        if let Some(question) = input.question {
            let shared = overlap(&words.list, question).min(2) as u64;
            self.both(Group::Overlap, 8 + shared, 0.5, Origin::Hidden);
        }
    }

    /// N-grams of letters inside each word. An ideograph is a word of its own and has none.
    fn letters(&mut self, list: &[Word]) {
        let start = self.list.len();
        let base = step(FNV_OFFSET, Group::Letters as u64);
        for (at, word) in list.iter().enumerate() {
            if word.text.chars().next().is_none_or(stands_alone) {
                continue;
            }
            let letters: Vec<char> = std::iter::once('^')
                .chain(word.text.chars().take(WORD_LETTERS_MAX))
                .chain(std::iter::once('$'))
                .collect();
            for from in 0..letters.len() {
                let mut hash = base;
                let end = letters.len().min(from + NGRAM_LETTERS_MAX);
                for (len, &letter) in letters[from..end].iter().enumerate() {
                    hash = step(hash, u64::from(u32::from(letter)));
                    if len >= 2 {
                        self.push(hash, 1.0, Origin::Words(at, 1));
                    }
                }
            }
        }
        self.scale(start, 2.8);
    }

    /// Words and word pairs. Three ideographs are about as much as a pair of words.
    fn words(&mut self, list: &[Word]) {
        let start = self.list.len();
        for at in 0..list.len() {
            let one = text_hash(FNV_OFFSET, &list[at].text);
            self.both(Group::Word, one, 1.0, Origin::Words(at, 1));
            let mut hash = one;
            for len in 2..=3 {
                let Some(next) = list.get(at + len - 1) else { break };
                let is_dense = next.text.chars().next().is_some_and(stands_alone);
                if len == 3 && !is_dense {
                    break;
                }
                let gap = list[at + len - 2].gap as u64;
                hash = text_hash(step(step(hash, 0x20), gap), &next.text);
                self.both(Group::WordPair, hash, 0.8, Origin::Words(at, len));
            }
        }
        self.scale(start, 3.6);
        for (group, end) in [(Group::First, list.first()), (Group::Last, list.last())] {
            if let Some(word) = end {
                let key = text_hash(FNV_OFFSET, &word.text);
                self.both(group, key, 0.3, Origin::Hidden);
            }
        }
    }

    /// The concepts of the message: alone, in pairs, and in the order of clauses.
    fn concepts(&mut self, list: &[Word]) {
        let units = concepts::units(list);
        let known: usize = units.iter().filter(|u| !u.concepts.is_empty()).map(|u| u.len).sum();
        let unknown = list.len() - known.min(list.len());
        let share = if unknown == 0 { 9 } else { (unknown.min(4)) as u64 };
        self.both(Group::Coverage, share, 0.5, Origin::Hidden);
        let mut seen = Concepts::EMPTY;
        for unit in &units {
            for concept in unit.concepts.iter() {
                if !seen.contains(concept) {
                    self.both(Group::Concept, concept, 0.6, Origin::Words(unit.start, unit.len));
                }
            }
            seen = seen.or(unit.concepts);
        }
        self.concept_pairs(list, &units);
        self.concept_order(list, &units);
    }

    /// Neighbouring concepts. Unknown words between them count as one.
    fn concept_pairs(&mut self, list: &[Word], units: &[concepts::Unit]) {
        const START: u64 = 200;
        const END: u64 = 201;
        const UNKNOWN: u64 = 202;
        let start = self.list.len();
        let mut before: Vec<u64> = vec![START];
        let mut from = 0;
        for unit in units {
            let mut here: Vec<u64> = unit.concepts.iter().collect();
            if here.is_empty() {
                here.push(UNKNOWN);
            }
            if before == [UNKNOWN] && here == [UNKNOWN] {
                continue;
            }
            self.pairs(&before, &here, Origin::Words(from, unit.start + unit.len - from));
            let gap = list[unit.start + unit.len - 1].gap;
            from = unit.start;
            if gap == Gap::None {
                before = here;
            } else {
                let mark = vec![210 + gap as u64];
                self.pairs(&here, &mark, Origin::Words(from, unit.len));
                before = mark;
            }
        }
        let origin = Origin::Words(from, list.len() - from);
        self.pairs(&before, &[END], origin);
        let limit = 1.5;
        let norm = self.norm(start);
        if norm > limit {
            self.scale(start, limit);
        }
    }

    fn pairs(&mut self, left: &[u64], right: &[u64], origin: Origin) {
        for &left in left {
            for &right in right {
                self.both(Group::ConceptPair, left * 256 + right, 0.3, origin);
            }
        }
    }

    /// Concepts of the first and last clause, and pairs of concepts in the order of clauses.
    fn concept_order(&mut self, list: &[Word], units: &[concepts::Unit]) {
        let mut clauses: Vec<(Concepts, Origin)> = Vec::new();
        let mut open = true;
        for unit in units {
            let origin = Origin::Words(unit.start, unit.len);
            if open {
                clauses.push((Concepts::EMPTY, origin));
            }
            if let Some(last) = clauses.last_mut() {
                last.0 = last.0.or(unit.concepts);
            }
            open = list[unit.start + unit.len - 1].gap != Gap::None;
        }
        let ends = [(Group::ConceptFirst, clauses.first()), (Group::ConceptLast, clauses.last())];
        for (group, clause) in ends {
            for concept in clause.map_or(Concepts::EMPTY, |clause| clause.0).iter() {
                self.both(group, concept, 0.3, Origin::Hidden);
            }
        }
        let start = self.list.len();
        let whole = clauses.iter().fold(Concepts::EMPTY, |all, clause| all.or(clause.0));
        let all: Vec<u64> = whole.strong().iter().collect();
        for (at, &left) in all.iter().enumerate() {
            for &right in &all[at + 1..] {
                self.both(Group::ConceptOrder, left * 256 + right, 0.3, Origin::Hidden);
            }
        }
        for (at, left) in clauses.iter().enumerate() {
            let later = clauses[at + 1..].iter().fold(Concepts::EMPTY, |all, next| all.or(next.0));
            for left in left.0.strong().iter() {
                for right in later.strong().iter() {
                    let key = 0x1_0000 + left * 256 + right;
                    self.here(Group::ConceptOrder, key, 0.3);
                }
            }
        }
        let limit = 1.2;
        if self.norm(start) > limit {
            self.scale(start, limit);
        }
    }

    fn norm(&self, from: usize) -> f32 {
        self.list[from..].iter().map(|feature| feature.value * feature.value).sum::<f32>().sqrt()
    }

    /// Scales the features since `from` to a length, so that long messages do not weigh more.
    fn scale(&mut self, from: usize, length: f32) {
        let norm = self.norm(from);
        if norm > 0.0 {
            for feature in &mut self.list[from..] {
                feature.value *= length / norm;
            }
        }
    }
}
