//! Correction of misspelt markers in short messages: "perfct", "thansk", "yesss".
//!
//! Only a few words are corrected, because a marker can end a task. A word with a meaning of its
//! own (`cancer`, `tanks`, a word of the task) must not change.

use super::lexicon::starts_phrase;
use super::words::{Words, is_emoji};

/// Longer messages are not corrected: one misspelt word does not decide their intent.
const WORDS_MAX: usize = 4;
/// Shorter words are not corrected: one wrong letter often makes another word.
const LETTERS_MIN: usize = 5;

/// The correct words, folded. All have at least [`LETTERS_MIN`] letters.
const CORRECT_WORDS: &str = "\
    perfect thanks cancel nevermind never looks great excellent awesome amazing approved \
    brilliant fantastic wonderful forget please continue perfekt abbrechen vergiss parfait \
    annule annuler oublie perfecto gracias cancela cancelar olvidalo perfeito obrigado \
    obrigada perfetto grazie annulla bedankt annuleer dziekuje swietnie anuluj отлично спасибо \
    отмена чудово дякую скасуи tesekkurler mukemmel vazgec";

/// Real words that are one edit away from a correct word.
const REAL_WORDS: &str = "\
    prefect perfects tanks thank thinks cancer cancels candela newer nevers locks looms loops \
    loots loos greet greats forge forges forged forgot forgets approves pleas pleased pleases \
    continues continued continua annuls annules annulez perfecta cancelas cancelo отмени";

/// Replaces each word that is one edit away from a marker.
pub(super) fn correct(words: &mut Words, task: Option<&str>) {
    for word in &mut words.list {
        if let Some(short) = without_repeats(&word.text) {
            word.text = short;
        }
    }
    if words.list.len() > WORDS_MAX {
        return;
    }
    let of_task = Words::of(task.unwrap_or(""));
    for word in &mut words.list {
        let own = starts_phrase(&word.text) || REAL_WORDS.split(' ').any(|real| real == word.text);
        if own || of_task.list.iter().any(|known| known.text == word.text) {
            continue;
        }
        if let Some(correct_word) =
            CORRECT_WORDS.split(' ').find(|correct_word| is_one_edit_away(&word.text, correct_word))
        {
            word.text = correct_word.to_owned();
        }
    }
}

/// "yesss" becomes "yes" and "coool" becomes "cool", if the result is a marker.
fn without_repeats(word: &str) -> Option<String> {
    if starts_phrase(word) || word.chars().any(is_emoji) {
        return None;
    }
    [2, 1]
        .into_iter()
        .map(|run_max| shorten_runs(word, run_max))
        .find(|short| short != word && short.chars().count() > 1 && starts_phrase(short))
}

/// Shortens runs of three or more equal letters to `run_max` letters.
fn shorten_runs(word: &str, run_max: usize) -> String {
    let chars: Vec<char> = word.chars().collect();
    let runs = chars.chunk_by(|left, right| left == right);
    runs.flat_map(|run| if run.len() > 2 { &run[..run_max] } else { run }).collect()
}

/// Whether one insertion, deletion, substitution or swap of adjacent letters turns `word` into
/// `correct_word`. The first letter must be equal: it is rarely wrong, and this excludes most real
/// words.
fn is_one_edit_away(word: &str, correct_word: &str) -> bool {
    let word: Vec<char> = word.chars().collect();
    let correct_word: Vec<char> = correct_word.chars().collect();
    if word.len() + 1 < LETTERS_MIN
        || word.len().abs_diff(correct_word.len()) > 1
        || word.first() != correct_word.first()
    {
        return false;
    }
    let same = word.iter().zip(&correct_word).take_while(|(left, right)| left == right).count();
    let (left, right) = (&word[same..], &correct_word[same..]);
    match (left, right) {
        ([], [_]) | ([_], []) => true,
        ([_, left_rest @ ..], [_, right_rest @ ..]) => {
            left_rest == right_rest
                || left_rest == right
                || left == right_rest
                || swapped(left, right)
        }
        _ => false,
    }
}

fn swapped(left: &[char], right: &[char]) -> bool {
    match (left, right) {
        ([a, b, left_rest @ ..], [c, d, right_rest @ ..]) => {
            a == d && b == c && left_rest == right_rest
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{CORRECT_WORDS, LETTERS_MIN, REAL_WORDS, is_one_edit_away, starts_phrase};

    #[test]
    fn every_correct_word_is_long_enough_and_a_marker() {
        for word in CORRECT_WORDS.split(' ') {
            assert!(word.chars().count() >= LETTERS_MIN, "{word} is too short");
            assert!(starts_phrase(word), "{word} opens no phrase");
        }
    }

    #[test]
    fn every_real_word_is_one_edit_away_from_a_correct_word() {
        let near = |real: &str| {
            CORRECT_WORDS.split(' ').any(|correct_word| is_one_edit_away(real, correct_word))
        };
        for real in REAL_WORDS.split(' ') {
            assert!(near(real), "{real} would not be corrected anyway");
        }
    }
}
