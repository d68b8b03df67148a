//! The linear model: one weight for each feature and intent.
//!
//! The weights are trained from the messages in `data/intent` by the example `train_intent` and
//! are part of the program. A sum of weights gives a score for each intent that the state of the
//! task allows. The highest score wins if it is sure enough; otherwise the message is unclear.

use super::Intent;
use super::features::{BUCKETS, Feature, Situation};
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

/// The surest intent. Abandoning needs more than half, so that wanted work is not thrown away.
pub fn decide(probabilities: &[f32; CLASSES], state: Option<StateName>) -> Intent {
    let of = |intent: Intent| probabilities[intent as usize];
    let best = |among: &dyn Fn(Intent) -> bool| {
        Intent::ALL
            .into_iter()
            .filter(|intent| among(*intent))
            .max_by(|left, right| of(*left).total_cmp(&of(*right)))
            .unwrap_or(Intent::Unclear)
    };
    let first = best(&|_| true);
    let _ = state;
    if of(first) < 0.0 { Intent::Unclear } else { first }
}
