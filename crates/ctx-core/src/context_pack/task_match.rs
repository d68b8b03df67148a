//! Finds the task that words describe.

use crate::task::Task;

/// A task that may be meant.
#[derive(Debug, Clone, PartialEq)]
pub struct Match {
    /// The task.
    pub task: Task,
    /// The message of its commit.
    pub message: Option<String>,
    /// Whether its notes or messages contain the words.
    pub mentioned: bool,
}

/// How well a task fits: the description is the text; words in the description or the message of
/// the commit; all words somewhere in its record.
type Score = (bool, usize, bool);

/// The tasks that fit the words best, in the order in which they were given. Several tasks fit
/// equally well if their scores are equal. A task that fits no word is not returned.
pub fn best_matches(text: &str, tasks: Vec<Match>) -> Vec<Match> {
    let wanted = words(text);
    let scored: Vec<(Score, Match)> =
        tasks.into_iter().map(|found| (score(text, &wanted, &found), found)).collect();
    let Some(best) = scored.iter().map(|(score, _)| *score).max() else { return Vec::new() };
    if best == Score::default() {
        return Vec::new();
    }
    scored.into_iter().filter(|(score, _)| *score == best).map(|(_, found)| found).collect()
}

fn score(text: &str, wanted: &[String], found: &Match) -> Score {
    let description = found.task.description.trim();
    let mut has = words(description);
    has.extend(found.message.as_deref().map(words).unwrap_or_default());
    (
        description.eq_ignore_ascii_case(text.trim()),
        wanted.iter().filter(|word| has.contains(word)).count(),
        found.mentioned,
    )
}

/// The words of a text in lower case, each once.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    words.sort_unstable();
    words.dedup();
    words
}
