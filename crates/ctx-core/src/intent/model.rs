//! The linear model: one weight for each feature and intent.
//!
//! The weights are trained from the messages in `data/intent` by the example `train_intent` and
//! are part of the program. A sum of weights gives a score for each intent that the state of the
//! task allows. The highest score wins if it is sure enough; otherwise the message is unclear.

use super::features::{BUCKETS, Feature, Features, Origin, Situation};
use super::{Intent, Verdict};
use crate::task::StateName;

/// Number of intents.
pub const CLASSES: usize = Intent::ALL.len();

/// Bytes before the weights: the hash of the training data, and a scale for each intent.
const HEADER_BYTES: usize = 32 + 4 * CLASSES;

/// The weights of the model: a row of one weight for each intent, for each bucket of features.
#[derive(Debug, Clone)]
pub struct Weights<'a> {
    hash: &'a [u8],
    scales: [f32; CLASSES],
    rows: &'a [u8],
}

impl<'a> Weights<'a> {
    /// Reads the file that [`Weights::encode`] writes. `None` if its length is wrong.
    pub fn decode(file: &'a [u8]) -> Option<Self> {
        if file.len() != HEADER_BYTES + BUCKETS * CLASSES {
            return None;
        }
        let (hash, rest) = file.split_at(32);
        let (scales, rows) = rest.split_at(4 * CLASSES);
        let mut read = [0.0; CLASSES];
        for (scale, bytes) in read.iter_mut().zip(scales.chunks_exact(4)) {
            *scale = f32::from_le_bytes(bytes.try_into().ok()?);
        }
        Some(Self { hash, scales: read, rows })
    }

    /// Writes weights as a file, each rounded to one byte. `rows` has a row for each bucket.
    pub fn encode(hash: &[u8; 32], rows: &[[f32; CLASSES]]) -> Vec<u8> {
        let mut file = hash.to_vec();
        let mut scales = [0.0_f32; CLASSES];
        for (class, scale) in scales.iter_mut().enumerate() {
            let largest = rows.iter().map(|row| row[class].abs()).fold(0.0, f32::max);
            *scale = largest.max(1e-6) / 127.0;
            file.extend(scale.to_le_bytes());
        }
        for row in rows {
            for (weight, scale) in row.iter().zip(scales) {
                file.push(((weight / scale).round() as i8).cast_unsigned());
            }
        }
        file
    }

    /// The hash of the data that the weights were trained with.
    pub const fn hash(&self) -> &[u8] {
        self.hash
    }

    /// The part of the score of each intent that one feature gives.
    pub(super) fn parts(&self, feature: &Feature) -> [f32; CLASSES] {
        let start = feature.bucket as usize * CLASSES;
        let mut parts = [0.0; CLASSES];
        for (class, part) in parts.iter_mut().enumerate() {
            let weight = f32::from(self.rows[start + class].cast_signed());
            *part = weight * self.scales[class] * feature.value;
        }
        parts
    }

    /// The probability of each intent.
    pub fn probabilities(&self, list: &[Feature], state: Option<StateName>) -> [f32; CLASSES] {
        let mut scores = [0.0; CLASSES];
        for feature in list {
            for (score, part) in scores.iter_mut().zip(self.parts(feature)) {
                *score += part;
            }
        }
        softmax(&scores, state)
    }
}

/// The hash of the training data and the version of the features, which a weights file contains.
/// `files` are the messages and the concepts, in the order of their paths.
#[doc(hidden)]
pub fn data_hash(files: impl Iterator<Item = Vec<u8>>) -> [u8; 32] {
    let mut hash = blake3::Hasher::new();
    hash.update(&super::features::VERSION.to_le_bytes());
    for file in files {
        hash.update(&file);
    }
    *hash.finalize().as_bytes()
}

/// The weights of this program.
const WEIGHTS: &[u8] = include_bytes!("../../data/intent/weights.bin");

/// Classifies a message by the weights of this program.
pub(super) fn classify(found: &Features, state: Option<StateName>) -> Verdict {
    let Some(weights) = Weights::decode(WEIGHTS) else {
        return Verdict { intent: found.rules.intent, reason: found.rules.reason.to_owned() };
    };
    let probabilities = weights.probabilities(&found.list, state);
    let intent = decide(&probabilities, state);
    let reason = reason(&weights, found, intent, &probabilities);
    Verdict { intent, reason }
}

/// Number of phrases that a reason names.
const PHRASES_MAX: usize = 2;

/// The phrases of the message that speak most for an intent and against the other likely one.
fn reason(
    weights: &Weights<'_>,
    found: &Features,
    intent: Intent,
    probabilities: &[f32; CLASSES],
) -> String {
    let other = (0..CLASSES)
        .filter(|class| *class != intent as usize)
        .max_by(|left, right| probabilities[*left].total_cmp(&probabilities[*right]))
        .unwrap_or_default();
    let mut phrases: Vec<((usize, usize), f32)> = Vec::new();
    for feature in &found.list {
        let Origin::Words(start, len) = feature.origin else { continue };
        let parts = weights.parts(feature);
        let margin = parts[intent as usize] - parts[other];
        match phrases.iter_mut().find(|phrase| phrase.0 == (start, len)) {
            Some(phrase) => phrase.1 += margin,
            None => phrases.push(((start, len), margin)),
        }
    }
    phrases.retain(|phrase| phrase.1 > 0.0);
    phrases.sort_by(|left, right| right.1.total_cmp(&left.1));
    let mut chosen: Vec<(usize, usize)> = Vec::new();
    for ((start, len), _) in phrases {
        let overlaps = chosen.iter().any(|(at, length)| start < at + length && *at < start + len);
        if !overlaps && chosen.len() < PHRASES_MAX {
            chosen.push((start, len));
        }
    }
    let percent = (probabilities[intent as usize] * 100.0).round();
    let words = |(start, len): &(usize, usize)| {
        let list = found.words.list.get(*start..start + len).unwrap_or_default();
        let texts: Vec<&str> = list.iter().map(|word| word.text.as_str()).collect();
        format!("`{}`", texts.join(" "))
    };
    match chosen.iter().map(words).collect::<Vec<_>>().join(", ") {
        phrases if phrases.is_empty() => format!("the form of the message ({percent} %)"),
        phrases => format!("the words {phrases} ({percent} %)"),
    }
}

/// The probabilities for scores. An intent that the state does not allow has none.
pub fn softmax(scores: &[f32; CLASSES], state: Option<StateName>) -> [f32; CLASSES] {
    let allowed = allowed(state);
    let mut largest = f32::NEG_INFINITY;
    for class in 0..CLASSES {
        if allowed[class] {
            largest = largest.max(scores[class]);
        }
    }
    let mut result = [0.0; CLASSES];
    let mut sum = 0.0;
    for class in 0..CLASSES {
        if allowed[class] {
            result[class] = (scores[class] - largest).exp();
            sum += result[class];
        }
    }
    result.map(|part| part / sum)
}

/// The intents that are possible in a state, in the order of [`Intent::ALL`].
fn allowed(state: Option<StateName>) -> [bool; CLASSES] {
    let situation = Situation::of(state);
    Intent::ALL.map(|intent| match intent {
        Intent::Response => situation == Situation::Awaiting,
        Intent::Modification => !matches!(situation, Situation::Awaiting | Situation::None),
        Intent::Confirmation => situation != Situation::Awaiting,
        Intent::Abandon | Intent::NewTask | Intent::Clarification | Intent::Unclear => true,
    })
}

/// Least probability with which a message abandons the task. Work that is wanted is worth more than
/// a task that stays open.
const ABANDON_MIN: f32 = 0.7;
/// Least probability with which a message confirms a task that waits for the user.
const CONFIRM_MIN: f32 = 0.3;
/// Below this probability a message is unclear.
const CLEAR_MIN: f32 = 0.1;

/// The most probable intent. An intent that seals the task must be more probable than others; if it
/// is not, the next one is taken.
pub fn decide(probabilities: &[f32; CLASSES], state: Option<StateName>) -> Intent {
    let of = |intent: Intent| probabilities[intent as usize];
    let pending = Situation::of(state) == Situation::Pending;
    let is_sure = |intent: Intent| match intent {
        Intent::Abandon => of(intent) >= ABANDON_MIN,
        Intent::Confirmation if pending => of(intent) >= CONFIRM_MIN,
        _ => of(intent) >= CLEAR_MIN,
    };
    Intent::ALL
        .into_iter()
        .filter(|intent| is_sure(*intent))
        .max_by(|left, right| of(*left).total_cmp(&of(*right)))
        .unwrap_or(Intent::Unclear)
}
