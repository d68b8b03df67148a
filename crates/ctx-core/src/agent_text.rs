//! The state of the work, inferred from the final text of an agent that used neither `ask_user` nor
//! `finish_task` (design section 7).
//!
//! The inference is conservative. A question or an offer in the last paragraph waits for the user.
//! A clear statement of completion, without a word about what is missing, is a completion. Anything
//! else leaves the task running.

mod phrases;

use phrases::{CLOSING, COMPLETED, MISSING, OFFER, WROTE};

/// The meaning of a final text for the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conclusion<'a> {
    /// It asks or offers something. The value is the paragraph that does.
    Asks(&'a str),
    /// It states that the work is complete.
    Completed,
    /// It contains neither.
    Open,
}

/// Longest last paragraph that is searched, in bytes. A longer one is searched at its end.
const PARAGRAPH_MAX_BYTES: usize = 4000;

/// Reads the final text of an agent.
pub fn conclusion(text: &str) -> Conclusion<'_> {
    let Some(last) = last_paragraph(text) else { return Conclusion::Open };
    let lines: Vec<String> = sentences(last)
        .into_iter()
        .map(normalized)
        .filter(|sentence| !any(sentence, CLOSING))
        .collect();
    let asks =
        |sentence: &String| sentence.ends_with(['?', '？', '؟', '\u{37e}']) || any(sentence, OFFER);
    if lines.iter().any(asks) {
        return Conclusion::Asks(last);
    }
    let whole: Vec<String> = sentences(tail(text)).into_iter().map(normalized).collect();
    let first = sentences(text).into_iter().next().map(normalized);
    let completed = first.iter().chain(&lines).any(|sentence| states_completion(sentence))
        || (lines.is_empty() && whole.iter().any(|sentence| states_completion(sentence)));
    if completed && !first.iter().chain(&lines).any(|sentence| any(sentence, MISSING)) {
        Conclusion::Completed
    } else {
        Conclusion::Open
    }
}

fn states_completion(sentence: &str) -> bool {
    !sentence.ends_with([':', '?', '？']) && (any(sentence, COMPLETED) || any(sentence, WROTE))
}

/// The last paragraph with text, together with the paragraph before a final list: the list belongs
/// to the question above it. Code blocks are not text.
fn last_paragraph(text: &str) -> Option<&str> {
    let text = text.trim_end();
    let text = text.strip_suffix("```").map_or(text, |before| {
        before.rfind("```").map_or(text, |opening| text[..opening].trim_end())
    });
    let mut start = text.len();
    for (at, _) in text.rmatch_indices("\n\n").chain([(0, "")]) {
        let paragraph = text[at..].trim_start();
        start = text.len() - paragraph.len();
        let first = paragraph.lines().next().unwrap_or_default();
        if !paragraph.is_empty() && !is_list_item(first) {
            break;
        }
    }
    Some(tail(&text[start..])).filter(|paragraph| !paragraph.trim().is_empty())
}

fn is_list_item(line: &str) -> bool {
    let line = line.trim_start();
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    line.starts_with(['-', '*', '•', '|'])
        || (rest.len() < line.len() && rest.starts_with(['.', ')']))
}

fn tail(text: &str) -> &str {
    let mut start = text.len().saturating_sub(PARAGRAPH_MAX_BYTES);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

/// The sentences of a text, each with its final punctuation.
fn sentences(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut start = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, next)| *next);
        let ends = match c {
            '\n' | '。' | '！' | '？' => true,
            '.' | '!' | '?' | '؟' | '…' => {
                next.is_none_or(|next| next.is_whitespace() || "\"')*_`”’»".contains(next))
            }
            _ => false,
        };
        if ends {
            out.push(text[start..at + c.len_utf8()].trim());
            start = at + c.len_utf8();
        }
    }
    out.push(text[start..].trim());
    out.retain(|sentence| sentence.chars().any(char::is_alphanumeric));
    out
}

/// Lower case, one space between words, without marks of emphasis. It starts and ends with a space
/// or a letter, so that whole words can be searched for.
fn normalized(sentence: &str) -> String {
    let plain = sentence.replace(['*', '_', '`', '#', '>', '"', '“', '”'], "").replace('’', "'");
    let words: Vec<&str> = plain.split_whitespace().collect();
    words.join(" ").to_lowercase()
}

/// Whether a sentence contains one of the phrases. A phrase that starts or ends with a letter of an
/// alphabet matches whole words only; `^` at its start means the start of the sentence.
fn any(sentence: &str, phrases: &[&str]) -> bool {
    phrases.iter().any(|phrase| match phrase.strip_prefix('^') {
        Some(phrase) => {
            let sentence = sentence.trim_start_matches(|c: char| !c.is_alphanumeric());
            sentence.starts_with(phrase) && ends_word(sentence, phrase.len(), phrase)
        }
        None => sentence.match_indices(phrase).any(|(at, _)| {
            starts_word(sentence, at, phrase) && ends_word(sentence, at + phrase.len(), phrase)
        }),
    })
}

fn starts_word(sentence: &str, at: usize, phrase: &str) -> bool {
    !phrase.starts_with(is_letter) || !sentence[..at].ends_with(is_letter)
}

fn ends_word(sentence: &str, at: usize, phrase: &str) -> bool {
    !phrase.ends_with(is_letter) || !sentence[at..].starts_with(is_letter)
}

/// A letter of a script that separates words.
fn is_letter(c: char) -> bool {
    c.is_alphabetic()
        && !matches!(c, '\u{3040}'..='\u{30ff}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}')
}

#[cfg(test)]
mod tests;
