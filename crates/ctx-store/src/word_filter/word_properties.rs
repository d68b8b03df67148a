//! Property tests: the tokenizer finds exactly the words that a simple reference implementation
//! finds.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Words of a text, each as written and as hashed. In a script without spaces, each pair of
/// adjacent letters is a word.
fn reference_words(text: &str) -> Vec<(String, String)> {
    let (mut words, mut word, mut before) = (Vec::new(), String::new(), None);
    let end = |words: &mut Vec<_>, word: &mut String| {
        let word = std::mem::take(word);
        if !word.is_empty() {
            let folded = word
                .chars()
                .flat_map(char::to_lowercase)
                .map(|c| if c == 'ς' { 'σ' } else { c })
                .collect();
            words.push((word, folded));
        }
    };
    for c in text.chars() {
        if !is_unspaced_script(c) && c.is_alphanumeric() {
            word.push(c);
        } else {
            end(&mut words, &mut word);
        }
        if let Some(left) = before.filter(|left| is_unspaced_script(*left) && is_unspaced_script(c))
        {
            let pair = String::from_iter([left, c]);
            words.push((pair.clone(), pair));
        }
        before = Some(c);
    }
    end(&mut words, &mut word);
    words
}

fn hashed(words: &[(String, String)]) -> Vec<u32> {
    sorted(words.iter().map(|(_, folded)| hash(folded.as_bytes())).collect())
}

fn sorted(mut hashes: Vec<u32>) -> Vec<u32> {
    hashes.sort_unstable();
    hashes
}

/// Pieces of a generated text: words that fill one, two or many groups of eight letters, characters
/// that end a word or are close to such characters, letters of other alphabets inside words,
/// scripts without spaces, and long runs that shift the following text relative to the blocks.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-zA-Z0-9]{1,9}",
        2 => "[a-zA-Z0-9]{7,17}",
        1 => "[a-zA-Z0-9]{60,70}",
        1 => "[a-z]{120,200}",
        4 => "[ \"\\\\/\n\r\t\u{8}\u{c}\u{1}\u{1f}\u{7f}@\\[`{:_.-]{1,3}",
        1 => " {1,130}",
        1 => "[üßÜéİΣςσЯя²٣ǅ]{1,12}",
        1 => "[日志记录ログไทยខ\u{20000}]{1,5}",
        1 => "[\u{301}\u{a0}—…\u{200b}😀K]{1,2}",
        1 => any::<char>().prop_map(String::from),
    ]
}

fn text() -> impl Strategy<Value = String> {
    vec(piece(), 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 600,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_record_has_exactly_the_words_of_the_reference_implementation(text in text()) {
        let words = reference_words(&text);
        let json = serde_json::to_vec(&text).expect("json");
        let found = sorted(record_hashes(&json));
        prop_assert_eq!(&found, &hashed(&words), "{:?}", words);
        for (word, folded) in &words {
            prop_assert_eq!(query_hashes(word), [hash(folded.as_bytes())], "{} is one word", word);
            prop_assert!(found.binary_search(&query_hashes(word)[0]).is_ok(), "{} is found", word);
        }
    }

    #[test]
    fn a_query_has_the_same_words_without_repeats(text in text()) {
        let mut expected = hashed(&reference_words(&text));
        expected.dedup();
        prop_assert_eq!(query_hashes(&text), expected);
    }

    #[test]
    fn invalid_utf_8_and_truncated_escapes_do_not_panic(
        bytes in vec(any::<u8>(), 0..300),
        end in prop_oneof![Just(""), Just("\\"), Just("\\u"), Just("\\u00")],
    ) {
        record_hashes(&[&bytes, end.as_bytes()].concat());
    }
}

#[test]
fn every_letter_of_a_word_changes_its_hash() {
    for length in 1..=130 {
        let word = "a".repeat(length);
        let mut seen = vec![query_hashes(&word)[0], query_hashes(&format!("{word}a"))[0]];
        for at in 0..length {
            let mut other = word.clone();
            other.replace_range(at..=at, "b");
            seen.push(query_hashes(&other)[0]);
        }
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), count, "words of {length} letters");
    }
}

#[test]
fn the_hash_of_a_word_does_not_depend_on_its_position() {
    for length in [1, 7, 8, 9, 16, 17, 63, 64, 65, 128] {
        let word: String = ('a'..='z').cycle().take(length).collect();
        for before in 0..130 {
            for after in [0, 1, 7, 70] {
                let text =
                    format!("{}{}{}", " ".repeat(before), word.to_uppercase(), " ".repeat(after));
                assert_eq!(
                    record_hashes(text.as_bytes()),
                    query_hashes(&word),
                    "{length} letters between {before} and {after} spaces"
                );
            }
        }
    }
}
