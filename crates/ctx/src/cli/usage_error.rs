//! Errors of the command line itself: an unknown verb or option, a missing argument.
//!
//! For an unknown verb the parser proposes verbs that are spelt alike. Hidden verbs are removed
//! from its proposals. A word that names a verb of a group, such as `resume`, gets the whole
//! command.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};
use serde_json::json;

use crate::problem::Exit;

use super::Cli;

/// Words of other programs, and the commands that do the same.
const KNOWN_WORDS: [(&str, &str); 10] = [
    ("list", "session list"),
    ("ls", "session list"),
    ("sessions", "session list"),
    ("resume", "session resume"),
    ("diff", "session diff"),
    ("new", "chat"),
    ("history", "log"),
    ("commit", "stage seal"),
    ("login", "provider list"),
    ("models", "provider list"),
];
/// Commands that a tip names.
const TIPS_MAX: usize = 3;

/// Prints the error, or the help that the user asked for.
pub(super) fn print(mut error: clap::Error, arguments: &[OsString], wants_json: bool) -> ExitCode {
    let is_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    let tip = match error.kind() {
        ErrorKind::InvalidSubcommand => improve_tip(&mut error, arguments),
        _ => None,
    };
    if is_help || !wants_json {
        let _ = error.print();
        return if is_help { ExitCode::SUCCESS } else { ExitCode::from(Exit::WrongUse as u8) };
    }
    let text = error.to_string();
    let lines = text.lines().map(str::trim).take_while(|line| {
        !line.starts_with("Usage:") && !line.starts_with("For more information")
    });
    let is_part = |line: &&str| !line.is_empty() && (tip.is_none() || !line.starts_with("tip:"));
    let message = lines.filter(is_part).collect::<Vec<_>>().join(" ");
    let document = json!({
        "code": "wrong_use",
        "message": message.trim_start_matches("error: "),
        "hint": tip.unwrap_or_else(|| "list the commands with `ctx help`".to_owned()),
    });
    let _ = writeln!(std::io::stderr(), "{document}");
    ExitCode::from(Exit::WrongUse as u8)
}

/// Removes hidden verbs from the tip of the parser, or replaces the tip where the meaning of the
/// word is known. Returns the new tip.
fn improve_tip(error: &mut clap::Error, arguments: &[OsString]) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let (word, root) = (word.clone(), Cli::command());
    let group = group_of(&root, arguments, &word);
    let similar = match error.remove(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(names)) => names,
        Some(ContextValue::String(name)) => vec![name],
        _ => Vec::new(),
    };
    let meant = if group.is_some() { Vec::new() } else { commands_named(&root, &word) };
    if !meant.is_empty() {
        let meant: Vec<String> = meant.iter().map(|name| format!("`ctx {name}`")).collect();
        let tip = format!("use {}", meant.join(" or "));
        let styled = ContextValue::StyledStrs(vec![StyledStr::from(tip.clone())]);
        error.insert(ContextKind::Suggested, styled);
        return Some(tip);
    }
    let parent = group.unwrap_or(&root);
    let is_shown = |name: &String| parent.find_subcommand(name).is_some_and(|it| !it.is_hide_set());
    let shown: Vec<String> = similar.into_iter().filter(is_shown).collect();
    if !shown.is_empty() {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(shown));
    }
    None
}

/// The group of verbs in which the unknown word was given; `None` for `ctx` itself.
fn group_of<'a>(root: &'a Command, arguments: &[OsString], word: &str) -> Option<&'a Command> {
    let mut group = None;
    for argument in arguments.iter().skip(1).take_while(|argument| *argument != word) {
        let parent = group.unwrap_or(root);
        group = parent.find_subcommand(argument).or(group);
    }
    group
}

/// The commands that a word without its group can mean.
fn commands_named(root: &Command, word: &str) -> Vec<String> {
    if let Some((_, command)) = KNOWN_WORDS.iter().find(|(known, _)| *known == word) {
        return vec![(*command).to_owned()];
    }
    let is_shown = |command: &&Command| !command.is_hide_set();
    let has_name = |command: &&Command| {
        command.get_name() == word || command.get_visible_aliases().any(|alias| alias == word)
    };
    let groups = root.get_subcommands().filter(is_shown);
    let found = groups.flat_map(|group| {
        let verbs = group.get_subcommands().filter(is_shown).filter(has_name);
        verbs.map(move |verb| format!("{} {}", group.get_name(), verb.get_name()))
    });
    let found: Vec<String> = found.collect();
    if found.len() > TIPS_MAX { Vec::new() } else { found }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_words_name_commands_that_exist() {
        let root = Cli::command();
        for (word, command) in KNOWN_WORDS {
            assert!(root.find_subcommand(word).is_none(), "{word} is a verb of its own");
            let mut at = &root;
            for part in command.split(' ') {
                at = at.find_subcommand(part).expect("a verb");
                assert!(!at.is_hide_set(), "{command}");
            }
        }
    }

    #[test]
    fn a_verb_without_its_group_is_found() {
        let root = Cli::command();
        assert_eq!(commands_named(&root, "fork"), ["session fork"]);
        assert_eq!(commands_named(&root, "compact"), ["stage seal", "session compact"]);
        assert_eq!(commands_named(&root, "sessions"), ["session list"]);
        assert!(commands_named(&root, "record").is_empty(), "hidden verbs are not named");
        assert!(commands_named(&root, "frobnicate").is_empty());
    }
}
