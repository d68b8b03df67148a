//! Detection of a new subject that does not belong to the current task.

use super::lexicon::{Hit, Mark, hit, is_marker};
use super::sentences::{all_markers, any, lead_index};
use super::words::{Gap, Word, Words};

/// Number of words after a verb that are searched for its object.
const OBJECT_WORDS_MAX: usize = 4;
/// Shorter words occur in every task and are not compared.
const CONTENT_LETTERS_MIN: usize = 4;
/// Maximum length of an ending that is ignored in comparisons, as in "-ing".
const ENDING_LETTERS_MAX: usize = 3;

/// Whether the message names a new subject: "new task: …", "let's move on to …".
pub(super) fn explicit_topic(words: &Words) -> bool {
    let list = words.list.as_slice();
    opens_topic(&list[lead_index(list)..], Opening::Message)
        || list
            .split_inclusive(|word| word.gap >= Gap::Sentence)
            .skip(1)
            .any(|sentence| opens_topic(&sentence[lead_index(sentence)..], Opening::Sentence))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Opening {
    Message,
    Sentence,
}

fn opens_topic(words: &[Word], opening: Opening) -> bool {
    if let Some(found) = hit(words, 0, Mark::MOVE_ON) {
        return hit(words, found.len, Mark::STEP).is_none();
    }
    hit(words, 0, Mark::TOPIC).is_some_and(|found| is_heading(words, found, opening))
}

/// "New task: …" is a heading. "New task buttons are too small" is not.
fn is_heading(words: &[Word], found: Hit, opening: Opening) -> bool {
    let ends = found.len == words.len() || words[found.len - 1].gap != Gap::None;
    let request = Mark::REQUEST.or(Mark::POLITE).or(Mark::OPENER).or(Mark::TOPIC_LINK);
    ends || (opening == Opening::Message && hit(words, found.len, request).is_some())
}

/// Whether the message requests something now that is not related to the task: "now add pooling".
pub(super) fn now_topic(words: &Words, task: Option<&str>) -> bool {
    let list = &words.list[lead_index(&words.list)..];
    let Some(rest) = requested_now(list) else { return false };
    let object = &rest[..rest.len().min(OBJECT_WORDS_MAX)];
    let tied =
        any(object, Mark::DEICTIC.or(Mark::SUPPORT)) || task.is_some_and(|task| shares(list, task));
    !all_markers(rest) && !tied
}

/// Longest request that is surely about the task if it has a word of the task in it.
const ABOUT_TASK_WORDS_MAX: usize = 12;

/// Whether a short message requests something now that has a word of the task in it.
pub(super) fn now_about_task(words: &Words, task: Option<&str>) -> bool {
    let list = &words.list[lead_index(&words.list)..];
    list.len() <= ABOUT_TASK_WORDS_MAX
        && requested_now(list).is_some()
        && task.is_some_and(|task| shares(list, task))
}

/// The words after "now" and a verb.
fn requested_now(list: &[Word]) -> Option<&[Word]> {
    if let Some(now) = hit(list, 0, Mark::NOW_FAR) {
        return any(list, Mark::MAKE).then_some(&list[now.len..]);
    }
    let mut at = hit(list, 0, Mark::NOW)?.len;
    while let Some(found) = hit(list, at, Mark::OPENER.or(Mark::POLITE)) {
        at += found.len;
    }
    hit(list, at, Mark::MAKE).map(|verb| &list[at + verb.len..])
}

/// Whether a message and a task have a significant word in common.
fn shares(list: &[Word], task: &str) -> bool {
    let task = Words::of(task).list;
    list.iter().any(|word| task.iter().any(|other| same_stem(&word.text, &other.text)))
        || shares_pair(list, &task)
}

/// Whether two words differ only in their ending, like "pools" and "pooling".
fn same_stem(left: &str, right: &str) -> bool {
    if is_marker(left) || is_marker(right) {
        return false;
    }
    let same = left.chars().zip(right.chars()).take_while(|(left, right)| left == right).count();
    let longer = left.chars().count().max(right.chars().count());
    same >= CONTENT_LETTERS_MIN && same + ENDING_LETTERS_MAX >= longer
}

/// Whether both have the same pair of ideographs. A single ideograph is not significant.
fn shares_pair(list: &[Word], task: &[Word]) -> bool {
    let pair = |at: &[Word]| at.iter().all(|word| is_ideograph(&word.text));
    list.windows(2).filter(|here| pair(here)).any(|here| {
        let verb = hit(here, 0, Mark::REQUEST.or(Mark::NOW_FAR)).is_some();
        !verb
            && task
                .windows(2)
                .any(|there| there[0].text == here[0].text && there[1].text == here[1].text)
    })
}

/// Hiragana is excluded: its pairs are grammatical endings that occur in every sentence.
fn is_ideograph(word: &str) -> bool {
    word.chars().all(|char| {
        matches!(char,
            '\u{30a1}'..='\u{30fa}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}')
    })
}

/// Number of significant words of a message that also occur in another text.
pub(super) fn overlap(list: &[Word], other: &str) -> usize {
    let other = Words::of(other).list;
    let shared = |word: &&Word| other.iter().any(|known| same_stem(&word.text, &known.text));
    list.iter().filter(shared).count() + usize::from(shares_pair(list, &other))
}
