//! Completions of the editor: slash commands at the beginning, and files after `@`. Pure.

use std::ops::Range;

use super::editor::Editor;
use super::slash_commands::COMMANDS;

/// Candidates that are shown.
const SHOWN_MAX: usize = 6;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Completion {
    /// The text that the chosen candidate replaces.
    pub(super) range: Range<usize>,
    /// Candidates with descriptions; never empty.
    pub(super) candidates: Vec<(String, String)>,
    pub(super) selected: usize,
}

/// What a completion is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    Command,
    File,
}

/// What is being typed at the cursor.
pub(super) fn subject(editor: &Editor) -> Option<Subject> {
    let (range, word) = editor.word();
    match word.chars().next() {
        Some('/') if range.start == 0 && editor.text().len() == range.end => Some(Subject::Command),
        Some('@') => Some(Subject::File),
        _ => None,
    }
}

/// The candidates for what is being typed; none if nothing fits.
pub(super) fn complete(
    editor: &Editor,
    files: &[String],
    agent_commands: &[(String, String)],
) -> Option<Completion> {
    let (range, word) = editor.word();
    let candidates = match subject(editor)? {
        Subject::Command => commands(word, agent_commands),
        Subject::File => {
            let ranked = ranked_files(files, &word[1..]);
            ranked.into_iter().map(|file| (format!("@{file}"), String::new())).collect()
        }
    };
    let is_complete = matches!(candidates.as_slice(), [(only, _)] if only == word);
    (!candidates.is_empty() && !is_complete).then_some(Completion {
        range,
        candidates,
        selected: 0,
    })
}

fn commands(word: &str, agent_commands: &[(String, String)]) -> Vec<(String, String)> {
    let own = COMMANDS.iter().map(|(name, about)| ((*name).to_owned(), (*about).to_owned()));
    let agent =
        agent_commands.iter().filter(|(name, _)| !COMMANDS.iter().any(|(own, _)| own == name));
    own.chain(agent.cloned()).filter(|(name, _)| name.starts_with(word)).collect()
}

/// Files whose path has the letters in this order; a file name that begins with them comes first.
fn ranked_files<'a>(files: &'a [String], letters: &str) -> Vec<&'a String> {
    let letters = letters.to_lowercase();
    let rank = |file: &String| {
        let path = file.to_lowercase();
        let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        if name.starts_with(&letters) || path.starts_with(&letters) {
            Some(0)
        } else if path.contains(&letters) {
            Some(1)
        } else {
            has_in_order(&path, &letters).then_some(2)
        }
    };
    let mut ranked: Vec<(u8, usize, &String)> =
        files.iter().filter_map(|file| rank(file).map(|rank| (rank, file.len(), file))).collect();
    ranked.sort();
    ranked.into_iter().take(SHOWN_MAX).map(|(_, _, file)| file).collect()
}

fn has_in_order(path: &str, letters: &str) -> bool {
    let mut rest = path.chars();
    letters.chars().all(|letter| rest.any(|c| c == letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(text: &str) -> Vec<String> {
        let mut editor = Editor::default();
        editor.insert(text);
        let files = ["src/main.rs", "src/markdown.rs", "README.md", "docs/chat.md"];
        let files: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
        let agent = [("/review".to_owned(), "review a change".to_owned())];
        let found = complete(&editor, &files, &agent);
        found.map_or_else(Vec::new, |found| {
            found.candidates.into_iter().map(|(text, _)| text).collect()
        })
    }

    #[test]
    fn commands_and_files_are_completed() {
        assert_eq!(completed("/re"), ["/rewind", "/retry", "/rename", "/review"]);
        assert_eq!(completed("/review"), Vec::<String>::new(), "it is complete");
        assert_eq!(completed("see @ma"), ["@src/main.rs", "@src/markdown.rs"]);
        assert_eq!(completed("@dcm"), ["@docs/chat.md"], "letters in this order");
        assert_eq!(
            completed("@"),
            ["@README.md", "@src/main.rs", "@docs/chat.md", "@src/markdown.rs"]
        );
        for none in ["a /re", "mail@x", "@zzz", "text", "/re more"] {
            assert_eq!(completed(none), Vec::<String>::new(), "{none}");
        }
    }
}
