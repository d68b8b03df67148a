//! The words of any text, read one letter after the other: what the fast way must find, no more and no less.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// The words of a text as they stand there, and as they are hashed. Neighbours in a script without spaces are one each.
fn slowly(text: &str) -> Vec<(String, String)> {
    let (mut words, mut word, mut before) = (Vec::new(), String::new(), None);
    let end = |words: &mut Vec<_>, word: &mut String| {
        let word = std::mem::take(word);
        if !word.is_empty() {
            let small = word
                .chars()
                .flat_map(char::to_lowercase)
                .map(|c| if c == 'ς' { 'σ' } else { c })
                .collect();
            words.push((word, small));
        }
    };
    for c in text.chars() {
        if !unspaced(c) && c.is_alphanumeric() {
            word.push(c);
        } else {
            end(&mut words, &mut word);
        }
        if let Some(left) = before.filter(|left| unspaced(*left) && unspaced(c)) {
            let pair = String::from_iter([left, c]);
            words.push((pair.clone(), pair));
        }
        before = Some(c);
    }
    end(&mut words, &mut word);
    words
}

fn hashed(words: &[(String, String)]) -> Vec<u32> {
    sorted(words.iter().map(|(_, small)| hash(small.as_bytes())).collect())
}

fn sorted(mut hashes: Vec<u32>) -> Vec<u32> {
    hashes.sort_unstable();
    hashes
}

/// What a text is made of: words that fill one, two or many groups of eight letters, what ends words and what only looks so,
/// letters of other alphabets inside words, scripts without spaces, and stretches that move all that follows against the blocks.
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
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_record_has_exactly_the_words_that_are_found_slowly(text in text()) {
        let words = slowly(&text);
        let json = serde_json::to_vec(&text).expect("json");
        let found = sorted(hashes(&json));
        prop_assert_eq!(&found, &hashed(&words), "{:?}", words);
        for (word, small) in &words {
            prop_assert_eq!(of_query(word), [hash(small.as_bytes())], "{} is one word", word);
            prop_assert!(found.binary_search(&of_query(word)[0]).is_ok(), "{} is found", word);
        }
    }

    #[test]
    fn a_query_has_the_same_words_each_once(text in text()) {
        let mut expected = hashed(&slowly(&text));
        expected.dedup();
        prop_assert_eq!(of_query(&text), expected);
    }

    #[test]
    fn bytes_that_are_no_text_have_some_words_or_none(bytes in vec(any::<u8>(), 0..300), end in prop_oneof![Just(""), Just("\\"), Just("\\u"), Just("\\u00")]) {
        hashes(&[&bytes, end.as_bytes()].concat());
    }
}

#[test]
fn every_letter_of_a_word_counts_wherever_it_stands() {
    for length in 1..=130 {
        let word = "a".repeat(length);
        let mut seen = vec![of_query(&word)[0], of_query(&format!("{word}a"))[0]];
        for at in 0..length {
            let mut other = word.clone();
            other.replace_range(at..=at, "b");
            seen.push(of_query(&other)[0]);
        }
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), count, "words of {length} letters");
    }
}

#[test]
fn a_word_is_the_same_wherever_it_stands_in_a_block() {
    for length in [1, 7, 8, 9, 16, 17, 63, 64, 65, 128] {
        let word: String = ('a'..='z').cycle().take(length).collect();
        for before in 0..130 {
            for after in [0, 1, 7, 70] {
                let text =
                    format!("{}{}{}", " ".repeat(before), word.to_uppercase(), " ".repeat(after));
                assert_eq!(
                    hashes(text.as_bytes()),
                    of_query(&word),
                    "{length} letters between {before} and {after} spaces"
                );
            }
        }
    }
}
