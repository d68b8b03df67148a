//! Misspelt markers in short messages: "perfct", "thansk", "yesss".
//!
//! Only a few words are mended, because the marks they carry can end a task: a word that means something of its own
//! (`cancer`, `tanks`, a word of the task) must stay as it is.

use super::lexicon::knows;
use super::words::{Words, is_emoji};

/// Longer messages say what they mean without any one word.
const WORDS_MAX: usize = 4;
/// One wrong letter in a shorter word makes another word too easily.
const LETTERS_MIN: usize = 5;

/// The words that are mended to, folded. All have at least [`LETTERS_MIN`] letters.
const MENDED: &str = "perfect thanks cancel nevermind never looks great excellent awesome amazing approved brilliant \
    fantastic wonderful forget please continue perfekt abbrechen vergiss parfait annule annuler oublie perfecto gracias \
    cancela cancelar olvidalo perfeito obrigado obrigada perfetto grazie annulla bedankt annuleer dziekuje swietnie \
    anuluj отлично спасибо отмена чудово дякую скасуи tesekkurler mukemmel vazgec";

/// Words near a mended one that people mean as they write them.
const REAL: &str = "prefect perfects tanks thank thinks cancer cancels candela newer nevers locks looms loops loots \
    loos greet greats forge forges forged forgot forgets approves pleas pleased pleases continues continued continua \
    annuls annules annulez perfecta cancelas cancelo отмени";

/// Puts the marker in place of a word that is one slip away from it.
pub(super) fn mend(words: &mut Words, task: Option<&str>) {
    for word in &mut words.list {
        if let Some(short) = unstretched(&word.text) {
            word.text = short;
        }
    }
    if words.list.len() > WORDS_MAX {
        return;
    }
    let of_task = Words::of(task.unwrap_or(""));
    for word in &mut words.list {
        let own = knows(&word.text) || REAL.split(' ').any(|real| real == word.text);
        if own || of_task.list.iter().any(|known| known.text == word.text) {
            continue;
        }
        if let Some(meant) = MENDED.split(' ').find(|meant| one_slip(&word.text, meant)) {
            word.text = meant.to_owned();
        }
    }
}

/// "yesss" as "yes" and "coool" as "cool", if that is a marker.
fn unstretched(word: &str) -> Option<String> {
    if knows(word) || word.chars().any(is_emoji) {
        return None;
    }
    [2, 1]
        .into_iter()
        .map(|run_max| squeezed(word, run_max))
        .find(|short| short != word && short.chars().count() > 1 && knows(short))
}

/// Cuts runs of three or more of one letter to `run_max`.
fn squeezed(word: &str, run_max: usize) -> String {
    let chars: Vec<char> = word.chars().collect();
    let runs = chars.chunk_by(|left, right| left == right);
    runs.flat_map(|run| if run.len() > 2 { &run[..run_max] } else { run }).collect()
}

/// Whether one insertion, deletion, substitution or swap of neighbours makes `word` into `meant`. The first letter is
/// nearly never the wrong one, and keeping it keeps most real words apart.
fn one_slip(word: &str, meant: &str) -> bool {
    let word: Vec<char> = word.chars().collect();
    let meant: Vec<char> = meant.chars().collect();
    if word.len() + 1 < LETTERS_MIN
        || word.len().abs_diff(meant.len()) > 1
        || word.first() != meant.first()
    {
        return false;
    }
    let same = word.iter().zip(&meant).take_while(|(left, right)| left == right).count();
    let (left, right) = (&word[same..], &meant[same..]);
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
    use super::{LETTERS_MIN, MENDED, REAL, knows, one_slip};

    #[test]
    fn every_mended_word_is_long_and_a_marker() {
        for word in MENDED.split(' ') {
            assert!(word.chars().count() >= LETTERS_MIN, "{word} is too short");
            assert!(knows(word), "{word} opens no phrase");
        }
    }

    #[test]
    fn no_listed_real_word_is_listed_in_vain() {
        let near = |real: &str| MENDED.split(' ').any(|meant| one_slip(real, meant));
        for real in REAL.split(' ') {
            assert!(near(real), "{real} would not be mended anyway");
        }
    }
}
