//! Key facts: what every summary contains, independent of the model that writes it.
//!
//! The facts are goals, open questions, decisions and files. Each list has a limit. A later
//! compaction starts with the lists of the previous one.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::commit::FileTouch;
use crate::message::{Message, Part, Role, Source};
use crate::projection::{is_mark, remark};
use crate::task::{State, Task};
use crate::text_limits::one_line;

/// Maximum number of entries of each list. Open questions need no limit: a task has at most one.
const GOALS_MAX: usize = 8;
const DECISIONS_MAX: usize = 16;
const FILES_MAX: usize = 40;
/// Maximum length of an entry in characters.
const LINE_MAX_CHARS: usize = 200;
/// Parameters of tools that contain a file path.
const PATHS: [&str; 6] = ["path", "file_path", "file", "filename", "notebook_path", "target_file"];

/// Facts that are extracted from turns without a model.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct KeyFacts {
    /// Goals of the user, the oldest first.
    pub goals: Vec<String>,
    /// Questions that the user has not answered.
    pub questions: Vec<String>,
    /// Questions of the agent with the answer of the user.
    pub decisions: Vec<String>,
    /// Files that were read or written.
    pub files: Vec<String>,
}

/// Facts about the task that the turns do not contain.
#[derive(Debug, Clone, Copy, Default)]
pub struct Work<'a> {
    /// The open task of the session.
    pub task: Option<&'a Task>,
    /// The files that the task read or wrote.
    pub files: &'a [FileTouch],
}

impl KeyFacts {
    /// Adds the facts of turns, given as their projected messages, oldest first. Earlier open
    /// questions are dropped unless the task still waits for the answer. A request that was not
    /// answered is listed with a remark.
    #[must_use]
    pub fn with(&self, turns: &[&[Message]], work: Work<'_>) -> Self {
        let mut all = Self { questions: Vec::new(), ..self.clone() };
        let messages: Vec<&Message> = turns.iter().flat_map(|turn| turn.iter()).collect();
        if all.goals.is_empty() {
            let first = messages.iter().position(|message| is_human(message));
            let first = first.map(|at| with_remark(&messages[at..], LINE_MAX_CHARS));
            all.goals.extend(first.filter(|goal| !goal.is_empty()));
        }
        if let Some(task) = work.task {
            keep(&mut all.goals, line(&task.description), GOALS_MAX);
            if let State::AwaitingUser { question, .. } = &task.state {
                all.questions.push(line(question));
            }
        }
        for (question, answer) in answered(&messages) {
            keep(&mut all.decisions, line(&format!("{question} — {answer}")), DECISIONS_MAX);
        }
        for path in messages.iter().flat_map(|message| &message.content).filter_map(path) {
            all.touch(&path, false);
        }
        work.files.iter().for_each(|file| all.touch(&file.path, file.written));
        all
    }

    fn touch(&mut self, path: &str, written: bool) {
        let path = line(path);
        let changed = format!("{path} (written)");
        if written {
            self.files.retain(|known| *known != path);
        }
        if !self.files.contains(&changed) {
            keep(&mut self.files, if written { changed } else { path }, FILES_MAX);
        }
    }

    /// The lists as text of at most `tokens_max` tokens. The longest list loses its oldest entries
    /// first, except the first one, which describes how the work started. `count` returns the
    /// tokens of a text.
    pub fn text_within(&self, tokens_max: u64, count: impl Fn(&str) -> u64) -> String {
        let mut kept = self.clone();
        loop {
            let text = kept.text();
            if count(&text) <= tokens_max || !kept.drop_entry() {
                return text;
            }
        }
    }

    /// Removes the least important entry. Returns whether there was one.
    fn drop_entry(&mut self) -> bool {
        let lists = [&mut self.goals, &mut self.questions, &mut self.decisions, &mut self.files];
        // Of lists of one length, the last one is the least important.
        let Some(longest) = lists.into_iter().max_by_key(|list| list.len()) else { return false };
        if longest.is_empty() {
            return false;
        }
        longest.remove(usize::from(longest.len() > 1));
        true
    }

    /// The lists as text. Empty lists are omitted.
    pub fn text(&self) -> String {
        let lists = [
            ("Goals", &self.goals),
            ("Open questions", &self.questions),
            ("Decisions", &self.decisions),
            ("Files touched", &self.files),
        ];
        let lists = lists.iter().filter(|(_, lines)| !lines.is_empty());
        lists
            .map(|(name, lines)| format!("{name}:\n- {}\n", lines.join("\n- ")))
            .collect::<Vec<_>>()
            .join("\n")
    }
}

/// Adds an entry as the newest. A full list loses its second entry: the first one describes how
/// the work started and is always kept.
fn keep(list: &mut Vec<String>, entry: String, max: usize) {
    if entry.is_empty() || list.first() == Some(&entry) {
        return;
    }
    list.retain(|known| *known != entry);
    if list.len() >= max {
        list.remove(1);
    }
    list.push(entry);
}

fn line(text: &str) -> String {
    one_line(text, LINE_MAX_CHARS)
}

fn text_of(message: &Message) -> String {
    message.content.iter().filter_map(Part::searchable_text).collect::<Vec<_>>().join(" ")
}

/// The first message as one line. If the mark after it states that it was not answered, the line
/// states it as well.
fn with_remark(messages: &[&Message], max_chars: usize) -> String {
    let Some((message, rest)) = messages.split_first() else { return String::new() };
    let remark = rest.first().and_then(|next| remark(next)).unwrap_or_default();
    let text = one_line(&text_of(message), max_chars.saturating_sub(remark.len()));
    if text.is_empty() { text } else { text + remark }
}

fn is_human(message: &Message) -> bool {
    message.role == Role::User
        && message.source.is_none_or(|source| source == Source::Human)
        && !is_mark(message)
}

/// Questions at the end of an agent's message, each with the next message of the user.
fn answered(messages: &[&Message]) -> Vec<(String, String)> {
    let mut open_question: Option<String> = None;
    let mut found = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        match message.role {
            Role::Assistant => open_question = question(&text_of(message)),
            Role::User if is_human(message) => {
                let answer = with_remark(&messages[at..], LINE_MAX_CHARS / 2);
                found.extend(
                    open_question
                        .take()
                        .filter(|_| !answer.is_empty())
                        .map(|question| (question, answer)),
                );
            }
            _ => {}
        }
    }
    found
}

fn question(text: &str) -> Option<String> {
    let last = text.trim().lines().next_back()?.trim();
    last.ends_with(['?', '？', '؟']).then(|| one_line(last, LINE_MAX_CHARS / 2))
}

/// The file path in the parameters of a tool call.
fn path(part: &Part) -> Option<String> {
    let Part::ToolCall { params, .. } = part else { return None };
    PATHS
        .iter()
        .find_map(|key| params.get(key))
        .and_then(Value::as_str)
        .map(str::to_owned)
        .filter(|path| !path.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::MessageId;
    use crate::message::ToolStatus;
    use crate::projection::{ImageHandling, PastTurn, project};
    use crate::time::Timestamp;
    use crate::turn::Status;
    use ulid::Ulid;

    fn message(role: Role, content: Vec<Part>) -> Message {
        Message { id: MessageId(Ulid(1)), role, source: None, content, created_at: Timestamp(1) }
    }

    fn text_message(role: Role, text: &str) -> Message {
        message(role, vec![Part::Text { text: text.to_owned() }])
    }

    fn reads(path: &str) -> Message {
        let params = serde_json::json!({"file_path": path});
        let call = Part::ToolCall {
            id: "1".to_owned(),
            name: "read".to_owned(),
            params,
            status: ToolStatus::Completed,
        };
        message(Role::Assistant, vec![call])
    }

    #[test]
    fn goals_decisions_and_files_are_extracted_from_messages() {
        let first = [
            text_message(Role::User, "build a boat"),
            text_message(Role::Assistant, "Gladly.\n\nOf oak or of pine?"),
        ];
        let second = [
            text_message(Role::User, "of oak"),
            reads("plan.txt"),
            text_message(Role::Assistant, "Done."),
        ];
        let files = [FileTouch { path: "boat.rs".to_owned(), written: true, blob: None }];
        let key_facts =
            KeyFacts::default().with(&[&first, &second], Work { task: None, files: &files });
        assert_eq!(key_facts.goals, ["build a boat"]);
        assert_eq!(key_facts.decisions, ["Of oak or of pine? — of oak"]);
        assert_eq!(key_facts.files, ["plan.txt", "boat.rs (written)"]);
        let text = key_facts.text();
        assert!(
            text.contains("Goals:\n- build a boat\n") && !text.contains("Open questions"),
            "{text}"
        );
    }

    #[test]
    fn a_request_that_was_not_answered_is_listed_with_a_remark() {
        let turn = |status, messages| PastTurn { provider_id: None, status, messages };
        let history = [
            turn(Status::Cancelled, vec![text_message(Role::User, "delete everything")]),
            turn(
                Status::Completed,
                vec![text_message(Role::User, "hi"), text_message(Role::Assistant, "Shall I go?")],
            ),
            turn(Status::Failed, vec![text_message(Role::User, &"yes ".repeat(99))]),
        ];
        let seen = project(&history, "", ImageHandling::Describe);
        let facts = KeyFacts::default().with(&[&seen], Work::default());
        assert_eq!(facts.goals, ["delete everything (cancelled before it was answered)"]);
        let decision = &facts.decisions[0];
        assert!(decision.starts_with("Shall I go? — yes yes"), "{decision}");
        assert!(decision.ends_with("(failed before it was answered)"), "{decision}");
    }

    #[test]
    fn later_summaries_keep_the_lists_within_their_limits() {
        // R178
        let mut key_facts = KeyFacts::default()
            .with(&[&[text_message(Role::User, "the first goal")]], Work::default());
        for n in 0..100 {
            let turn = [
                text_message(Role::Assistant, &format!("question {n}?")),
                text_message(Role::User, &format!("answer {n}")),
                reads(&format!("f{n}")),
            ];
            key_facts = key_facts.with(&[&turn], Work::default());
        }
        assert_eq!(key_facts.goals, ["the first goal"]);
        assert_eq!((key_facts.decisions.len(), key_facts.files.len()), (DECISIONS_MAX, FILES_MAX));
        assert_eq!(
            key_facts.decisions.last().map(String::as_str),
            Some("question 99? — answer 99"),
            "the newest are kept"
        );
        assert_eq!(key_facts.decisions[0], "question 0? — answer 0", "and the first one");
    }

    #[test]
    fn the_text_is_within_its_limit_and_keeps_the_first_goal_longest() {
        let entries = |name: &str, count| (0..count).map(|n| format!("{name} {n}")).collect();
        let facts = KeyFacts {
            goals: entries("goal", 3),
            questions: entries("question", 1),
            decisions: entries("decision", 9),
            files: entries("file", 20),
        };
        let bytes = |text: &str| text.len() as u64;
        assert_eq!(facts.text_within(10_000, bytes), facts.text());
        let half = facts.text_within(facts.text().len() as u64 / 2, bytes);
        for kept in ["goal 0", "goal 2", "question 0", "decision 0", "decision 8", "file 19"] {
            assert!(half.contains(&format!("- {kept}\n")), "{kept} in {half}");
        }
        assert!(!half.contains("- file 1\n"), "{half}");
        for max in 0..400 {
            assert!(bytes(&facts.text_within(max, bytes)) <= max, "{max}");
        }
        assert!(facts.text_within(45, bytes).contains("goal 0"));
    }

    #[test]
    fn a_written_file_is_not_listed_again_as_read() {
        let written = [FileTouch { path: "a".to_owned(), written: true, blob: None }];
        let key_facts =
            KeyFacts::default().with(&[&[reads("a")]], Work { task: None, files: &written });
        assert_eq!(key_facts.with(&[&[reads("a")]], Work::default()).files, ["a (written)"]);
    }
}
